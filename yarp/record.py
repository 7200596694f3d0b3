"""The call of a `yarp run` in the archive: begun here, or by a host.

Source: seed 000, Records and Write lifecycle; spec "Archive", `yarp run`; spec "Receipts".
"""

from __future__ import annotations

import os
import time

from yarp import canonical, paths, payload
from yarp.archive.write import Archive, CallFacts, SessionKey, Streams
from yarp.errors import ReferenceUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.argv import RunOptions
    from yarp.cache import Compiled
    from yarp.payload import Payload
    from yarp.reduce.engine import Summary

NAMES = ("stdout", "stderr")


class Receipt:
    """What was captured of a run; a count that is unknown is None. Source: spec "Receipts".

    `ended[n]`: stream n is kept to its end.
    """

    __slots__ = ("capture", "ended", "observed", "reason", "shortened", "shown", "signal", "status")

    def __init__(self, status: int, signal: int | None, capture: str, reason: str | None) -> None:
        self.status = status
        self.signal = signal
        self.capture = capture
        self.reason = reason
        self.ended = [True, True]
        self.shortened = False
        unknown = capture == "disabled"
        self.observed: list[int | None] = [None, None] if unknown else [0, 0]
        self.shown: list[int | None] = [None, None] if unknown else [0, 0]

    def result(self) -> dict[str, object]:
        """The call's result, as JSON."""
        streams = {
            name: {
                "observed": self.observed[n],
                "accepted": self.observed[n],
                "shown": self.shown[n],
            }
            for n, name in enumerate(NAMES)
        }
        receipt = {
            "process": "exited",
            "signal": self.signal,
            "capture": self.capture,
            "captureReason": self.reason,
            "representation": "binary",
            "shortened": self.shortened,
            "streams": streams,
        }
        return {"exitCode": self.status, "receipt": receipt}


class Record:
    """The call in the archive: begun here before the command starts, or by a host.

    Making one commits the begin, where there is no host to have done it.
    """

    __slots__ = (
        "_archive",
        "_call_id",
        "_compiled",
        "_facts",
        "_hosted",
        "_input",
        "_path",
        "_reference",
        "_result",
        "_session",
    )

    def __init__(self, compiled: Compiled, options: RunOptions, *, requires_streams: bool) -> None:
        self._compiled = compiled
        self._path = paths.archive_file(compiled.settings.archive_path)
        self._hosted = options.host is not None
        self._archive: Archive | None = None
        self._reference: str | None = None
        self._result: tuple[dict[str, object], int, int] | None = None
        if options.host is not None:
            agent, account, source_session_id, self._call_id = options.host
            self._session = SessionKey(agent, account, source_session_id)
            return
        self._session = SessionKey("yarp", paths.account(), _session_id())
        self._call_id = os.urandom(16).hex()
        self._input: dict[str, object] = (
            {"argv": options.argv} if options.text is None else {"command": options.text}
        )
        now = _now_ms()
        self._facts = CallFacts(
            self._call_id,
            "run",
            working_directory=_directory(),
            started_at_ms=now,
            requires_streams=requires_streams,
        )
        body = _json_payload(self._input)
        self._reference = self._open().begin_call(self._session, self._facts, body, body, now)

    @property
    def directory(self) -> str:
        """Where spools are made."""
        return os.path.dirname(self._path)

    def reference(self) -> str:
        """The call's archive reference."""
        if self._reference is None:
            from yarp.archive.read import Reader

            reader = Reader.open(self._path)
            key = self._session
            row = reader.find(key.agent, key.account, key.source_session_id, self._call_id)
            reader.close()
            if row is None:
                raise ReferenceUnknown(f"call {self._call_id} is not in the archive")
            self._reference = row.archive_ref
        return self._reference

    def words(self) -> list[str]:
        """The archive and the call, as `yarp.rescue` takes them."""
        key = self._session
        return [self._path, key.agent, key.account, key.source_session_id, self._call_id]

    def finish(self, receipt: Receipt, streams: Streams | None) -> None:
        """Commit what there is to commit, in one transaction."""
        now = _now_ms()
        if self._hosted:
            if streams is not None:
                archive = self._open()
                archive.record_streams(self._session, self._call_id, streams, now)
                archive.leave()
            return
        result = receipt.result()
        body = payload.of_json(result)
        is_error = receipt.status != 0
        self._open().finish_run(self._session, self._call_id, streams, body, body, is_error, now)
        self._result = result, receipt.status, now

    def tell_started(self) -> list[str]:
        """Tell plugins of the begin that was committed here; what went wrong in them."""
        if self._hosted or not self._compiled.callbacks.get("yarp_call_started"):
            return []
        from yarp import plugins
        from yarp.types import CallStarted

        return plugins.for_call(self._compiled, "yarp_call_started").call_started(
            CallStarted(
                self._session.source_session_id,
                self._call_id,
                self._facts.tool_name,
                self._input,
                agent=self._session.agent,
                account=self._session.account,
                working_directory=self._facts.working_directory,
                started_at_ms=self._facts.started_at_ms,
                archive_ref=self._reference,
            )
        )

    def tell_finished(self) -> list[str]:
        """Tell plugins of the finish that was committed here; what went wrong in them."""
        if self._result is None or not self._compiled.callbacks.get("yarp_call_finished"):
            return []
        from yarp import plugins
        from yarp.types import CallEnded

        result, status, now = self._result
        return plugins.for_call(self._compiled, "yarp_call_finished").call_finished(
            CallEnded(
                self._session.source_session_id,
                self._call_id,
                result,
                status != 0,
                agent=self._session.agent,
                account=self._session.account,
                exit_code=status,
                executed=True,
                finished_at_ms=now,
                archive_ref=self._reference,
            )
        )

    def _open(self) -> Archive:
        if self._archive is None:
            narrow = os.path.dirname(self._path) == paths.data_dir()
            self._archive = Archive.open(self._path, narrow=narrow)
        return self._archive


def streams_of(
    before: list[tuple[Payload, str]], summary: Summary | None, ended: list[bool]
) -> Streams:
    """The four stream snapshots: what came, whether to its end, and what is shown of it."""
    after = before
    if summary is not None:
        after = [(payload.of(text), payload.TEXT) for text in (summary.stdout, summary.stderr)]
    return Streams(before[0], after[0], before[1], after[1], ended=(ended[0], ended[1]))


def _json_payload(value: object) -> Payload:
    """The payload of an input; words that are no Unicode are kept as the text of their JSON."""
    try:
        return payload.of_json(value)
    except canonical.NotCanonical:
        import json

        return payload.of(canonical.encode_text(json.dumps(value)))


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # somebody removed it
        return None


def _session_id() -> str:
    """A session for each terminal, else for each parent process, told apart by its start."""
    name, leader = "process", os.getppid()
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor):
            name, leader = os.ttyname(descriptor), os.getsid(0)
            break
    try:
        with open(f"/proc/{leader}/stat", "rb") as file:
            started = file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        started = "unknown"
    return f"{name}:{leader}:{started}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
