"""Speaks to one `yarp archive ingest` child: frames out, one JSON line an answer back.

One request is on its way at a time. A child that ends, or gives no answer in time, is started
again once and gets the very same frame; what it answered is never sent again. The protocol is
in YARP's `docs/reference/ingest.md`.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import threading
import time
from typing import Any

PROTOCOL = 1
_SCHEMA_VERSION = 1
_MAX_FRAME_BYTES = 256 << 20
_MAX_ANSWER_BYTES = 64 << 20
_READ_BYTES = 1 << 16
_STDERR_TAIL = 1 << 12
_PIPE_BYTES = 1 << 15
# As long a writer is waited for that was waited for in vain before, until it answers again.
_IMPATIENT_S = 3.0
# Exit statuses for which the archive is to blame, not the installation.
_ARCHIVE_STATUSES = (65, 70, 74)


class Refused(Exception):
    """The writer answered, and said no."""


class Failed(Exception):
    """No answer could be had, after one restart."""


class Off(Exception):
    """YARP cannot work here at all: it cannot be started, or speaks another protocol."""


class Client:
    """One child for a whole gptme process; a frame names its session."""

    def __init__(self, program: list[str]) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._last_id = 0
        self._off: Off | None = None
        self._silent = False
        self._hello: dict[str, Any] = {}

    def hello(self, session: dict[str, Any], *, patience_s: float = 30.0) -> dict[str, Any]:
        """What the running YARP is configured to do. Raises Off or Failed."""
        if not self._hello:
            self._hello = self.request("hello", session, {}, patience_s=patience_s)
        return self._hello

    def request(
        self,
        operation: str,
        session: dict[str, Any],
        fields: dict[str, Any],
        *,
        patience_s: float = 30.0,
    ) -> dict[str, Any]:
        """The answer to one operation. Raises Refused, Failed or Off."""
        with self._lock:
            if self._off is not None:
                raise self._off
            self._last_id += 1
            request_id = self._last_id
            frame = _frame(operation, request_id, session, fields)
            if self._silent:
                patience_s = min(patience_s, _IMPATIENT_S)
            until = time.monotonic() + patience_s
            reasons: list[str] = []
            while len(reasons) < 2:
                try:
                    answer = self._exchange(operation, request_id, session, frame, until)
                except Off as off:
                    self._off = off
                    self._stop()
                    raise
                except (OSError, _Broken) as error:
                    self._stop()
                    reasons.append(str(error))
                    continue
                self._silent = False
                if answer.get("ok") is True:
                    return answer
                raise Refused(str(answer.get("error")))
            # A short patience that was not enough says nothing of a longer one.
            in_vain = time.monotonic() >= until and patience_s > _IMPATIENT_S
            self._silent = self._silent or in_vain
            raise Failed(f"the archive's writer failed after a restart: {'; '.join(reasons)}")

    def close(self) -> None:
        """Let the child finish what it has, and end it."""
        with self._lock:
            if self._child is not None:
                self._child.close()
                self._child = None
            self._off = self._off or Off("the session is closed")

    def _exchange(
        self, operation: str, request_id: int, session: dict[str, Any], frame: bytes, until: float
    ) -> dict[str, Any]:
        if self._child is None:
            self._child = _Child(self._program)
            if operation != "hello":
                # A restarted child is judged like the first one.
                self._last_id += 1
                hello = _frame("hello", self._last_id, session, {})
                _judge(self._child.exchange(self._last_id, hello, until))
        answer = self._child.exchange(request_id, frame, until)
        if operation == "hello":
            _judge(answer)
        return answer

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class _Broken(Exception):
    """The child ended, was too slow, or answered something else."""


def _judge(hello: dict[str, Any]) -> None:
    if hello.get("ok") is not True:
        raise Off(str(hello.get("error")))
    if hello.get("protocol") != PROTOCOL:
        raise Off(
            f"yarp-gptme speaks protocol {PROTOCOL}, the program {hello.get('protocol')}; "
            "bring them together with: yarp install gptme"
        )


def _frame(
    operation: str, request_id: int, session: dict[str, Any], fields: dict[str, Any]
) -> bytes:
    request = {
        "operation": operation,
        "requestId": request_id,
        "schemaVersion": _SCHEMA_VERSION,
        "session": session,
        **fields,
    }
    # ASCII: a lone surrogate stays an escape, and the bytes are always valid UTF-8.
    body = json.dumps(request, separators=(",", ":"), default=repr).encode("ascii")
    if len(body) > _MAX_FRAME_BYTES:
        raise Refused(f"{operation} takes {len(body)} bytes, more than a frame holds")
    return len(body).to_bytes(8, "big") + body


class _Child:
    def __init__(self, program: list[str]) -> None:
        try:
            # The root directory always exists; a session of its own keeps the terminal's
            # interrupt, which ends a command of gptme's, away from the archive.
            self._process = subprocess.Popen(
                [*program, "archive", "ingest"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise Off(f"{program[0]} cannot be started: {error.strerror}") from error
        self._rest = b""
        self._answered = False
        self._said = bytearray()
        threading.Thread(target=self._listen, daemon=True, name="yarp-ingest-stderr").start()

    def exchange(self, request_id: int, frame: bytes, until: float) -> dict[str, Any]:
        # A frame that a pipe does not hold must not keep the answer's deadline from counting.
        sender = threading.Thread(target=self._send, args=(frame,), daemon=True)
        if len(frame) > _PIPE_BYTES:
            sender.start()
        else:
            self._send(frame)
        while True:
            line = self._line(until)
            try:
                answer = json.loads(line)
            except ValueError:
                answer = None
            if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
                raise _Broken("it answered with something else than an acknowledgement")
            if answer.get("requestId") == request_id:
                if sender.ident is not None:
                    sender.join()
                self._answered = True
                return answer

    def _send(self, frame: bytes) -> None:
        stdin = self._process.stdin
        view = memoryview(frame)
        # Its end tells more than a broken pipe.
        with contextlib.suppress(OSError, ValueError):
            while stdin is not None and view:
                view = view[stdin.write(view) :]

    def _listen(self) -> None:
        stderr = self._process.stderr
        with contextlib.suppress(OSError, ValueError):
            while stderr is not None and (chunk := stderr.read(_READ_BYTES)):
                self._said = (self._said + chunk)[-_STDERR_TAIL:]

    def _line(self, until: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - it was asked for
        poller = select.poll()
        poller.register(stdout, select.POLLIN)
        parts = [self._rest]
        size = len(self._rest)
        while b"\n" not in parts[-1]:
            left = until - time.monotonic()
            if left <= 0 or not poller.poll(left * 1000):
                raise _Broken("no answer in time")
            chunk = stdout.read(_READ_BYTES)
            if not chunk:
                raise self._ended()
            size += len(chunk)
            if size > _MAX_ANSWER_BYTES:
                raise _Broken("its answer is too long")
            parts.append(chunk)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _ended(self) -> Exception:
        """Why it ended. One that never answered and blames no file of ours cannot work here."""
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            status = -9
        last = bytes(self._said).decode(errors="replace").strip().splitlines()[-1:]
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        reason = f"it {how} ({last[0][:500]})" if last else f"it {how}"
        if self._answered or status < 0 or status in _ARCHIVE_STATUSES:
            return _Broken(reason)
        return Off(f"yarp: {reason}")

    def close(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self.kill()
        self._release()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._release()

    def _release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
