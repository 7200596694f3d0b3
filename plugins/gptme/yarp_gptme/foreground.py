"""Commands in the foreground: the same spool, the persistent shell's frames taken off.

gptme reads its one bash in `ShellSession`; what it reads is spooled there, before it is decoded
or trimmed. The frame's end is a known boundary: bash writes it when the command is over, behind
everything the command wrote. What it left running may write on: once gptme's reader is done, it
is asked who can, and what stands in the pipes by then, which gptme throws away before its next
command, is taken too. A command that is promoted keeps its capture: the job adopts it, nothing
is copied, and the same reader goes on.
"""

from __future__ import annotations

import contextvars
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from yarp.plugin import CaptureState, ProcessState, ReferenceState, YarpError
from yarp_gptme import holders
from yarp_gptme.calls import conversation_id, current
from yarp_gptme.captures import (
    MADE_UP,
    OVER_CAP,
    STDERR,
    STDOUT,
    TIMED_OUT,
    UNKNOWN,
    Capture,
    Policy,
    at_end,
    spool_at,
    waiting_bytes,
)
from yarp_gptme.framing import Frame
from yarp_gptme.patches import Target
from yarp_gptme.say import fault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from yarp.plugin import Receipt
    from yarp_gptme.patches import Patches

ATTRIBUTE = "_yarp_capture"
"""Where a shell session, and a job, carry their capture."""
_BUDGETS = ("PRE_TOKENS", "POST_TOKENS", "STDERR_PRE_TOKENS", "STDERR_POST_TOKENS")
# What gptme makes of less is left alone: its own previews of commits, of lists, of what was asked.
_MOST_CHARACTERS = 16 << 10
_NOTHING = (
    "No output before byte cap\n",
    "No output before timeout\n",
    "No output before interruption\n",
    "No output\n",
)

_SLACK_BYTES = 1 << 20
_TERMINAL = "terminal-of-its-own"
_LATE_BYTES = 4 << 20
"""As much is taken of what comes behind a frame; whoever writes more has not ended."""

_running: contextvars.ContextVar[Shell | None] = contextvars.ContextVar("yarp_shell", default=None)


def running() -> Shell | None:
    """The foreground capture of this context."""
    return _running.get()


class Shell(Capture):
    """The capture of one call of the shell tool, which may be several commands."""

    def __init__(
        self, policy: Policy, conversation: str | None, command: str, session: Any
    ) -> None:
        # gptme ends a command past its own limit; what it has read by then is a chunk more.
        super().__init__(
            policy, conversation, command, session=conversation_id(), slack_bytes=_SLACK_BYTES
        )
        self.session = session
        self.frame: Frame | None = None
        self.adopted = False
        self._fds = (-1, -1)
        self._bounded = True
        self._untold = False
        self._left = False
        self._children = _descendants(session)
        holders.prepare(session)

    def begin(self, frame: Frame, stdout: int, stderr: int) -> None:
        """A command is about to be read from these pipes."""
        self.frame, self._fds = frame, (stdout, stderr)

    def read(self, descriptor: int, data: bytes) -> None:
        """What was read just now."""
        if self.frame is None or descriptor not in self._fds:
            return
        if descriptor == self._fds[STDERR]:
            self.take(STDERR, data)
        elif own := self.frame.feed(data):
            self.take(STDOUT, own)

    def end(self, pipes: Sequence[int]) -> None:
        """The command's reader is done; `pipes`: what it read from, stdout and stderr."""
        if self.frame is None:
            return
        closed = all(map(at_end, pipes))
        if self.frame.ended and not closed:
            # First who is there, then what is there: who is gone by now has written it before.
            self._left = self._others(pipes) or self._left
            self._left = not self._rest(pipes) or self._left
        if rest := self.frame.finish():
            self.take(STDOUT, rest)
        if self.frame.late:
            self.to_files()  # gptme's own words lack it
        self._bounded = self._bounded and (self.frame.ended or closed)
        self.frame = None

    def _others(self, pipes: Sequence[int]) -> bool:
        """Whether the command left somebody who can write on."""
        left = holders.left(self.session, *pipes)
        if left is None:
            return bool(_descendants(self.session) - self._children)
        return left or any(
            not os.access(f"/proc/{pid}/fd", os.R_OK)
            for pid in _descendants(self.session) - self._children
        )

    def _rest(self, pipes: Sequence[int]) -> bool:
        """Take what stands in the pipes; whether that came to an end."""
        room = _LATE_BYTES
        for stream, pipe in enumerate(pipes):
            while size := min(waiting_bytes(pipe), room):
                data = os.read(pipe, size)
                room -= len(data)
                self.read(self._fds[stream], data)
        return room > 0

    def pass_by(self) -> None:
        """A command with a terminal of its own is about to run: what it writes is not seen."""
        self._bounded, self._untold = False, True
        if not any(self.spool.accounting(stream).observed for stream in (STDOUT, STDERR)):
            # Nothing is known of its streams: no counts, not even of zero bytes.
            self.spool = spool_at(
                None,
                session=conversation_id(),
                streams=(),
                without=(CaptureState.UNAVAILABLE, _TERMINAL),
            )

    def conclude(
        self, process: ProcessState | None, code: int | None, reason: str | None
    ) -> Receipt:
        """The call is over: publish what is known."""
        bounded = self._bounded and self.frame is None
        if bounded:
            for stream in range(len(self.spool.streams)):
                self.ended(stream)
        return self.finish(
            process,
            code=code,
            reason=reason,
            unended=_TERMINAL if self._untold else "no-return-mark",
            upstream="descendant-holds-output" if self._left else None,
        )

    def conclude_code(self, code: int | None, *, interrupted: bool = False) -> Receipt:
        """As `conclude`, from gptme's return code, of which some are made up."""
        if interrupted:
            return self.conclude(ProcessState.CANCELLED, None, "interrupted by the user")
        if code == TIMED_OUT:
            return self.conclude(ProcessState.TIMEOUT, None, "gptme's time limit")
        if code == OVER_CAP:
            return self.conclude(ProcessState.CANCELLED, None, "gptme's output limit")
        if code == UNKNOWN:
            return self.conclude(None, None, "gptme does not know how it ended")
        return self.conclude(ProcessState.EXITED, code, None)


def _descendants(session: Any) -> set[int]:
    """The processes below a persistent shell."""
    try:
        from gptme.tools.shell import _descendant_pids

        return set(_descendant_pids(session.process.pid))
    except Exception:  # noqa: BLE001 - another gptme, or no shell: nothing is known of them
        return set()


class Foreground:
    """The wraps of this offer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def start(self, patches: Patches) -> None:
        """Wrap what this offer needs; Mismatch: nothing was wrapped."""
        shell = "gptme.tools.shell"
        session = f"{shell}:ShellSession"
        patches.wrap(
            [
                (Target(f"{shell}:execute_shell_impl", "cmd, logdir, timeout="), self._execute),
                (
                    Target(
                        f"{session}._read_output_unix",
                        "self, command, output, stdout, stderr, return_code, seen_start_marker, "
                        "start_marker_pattern, delimiter_pattern, start_time, timeout, "
                        "max_output_bytes=",
                    ),
                    _read_output,
                ),
                (Target(f"{session}._decode_output", "self, fd, raw"), _decode_output),
                (
                    Target(f"{session}._run_with_tty", "self, command, output=, timeout="),
                    _run_with_tty,
                ),
                (
                    Target(
                        f"{shell}:_format_shell_output",
                        "cmd, stdout, stderr, returncode, interrupted, allowlisted, timed_out=, "
                        "timeout_value=, logdir=, byte_cap_exceeded=, cap_bytes=",
                    ),
                    self._format,
                ),
                (
                    Target(
                        f"{shell}:register_background_job",
                        "command, process, *start_time=, *kill_callback=, *close_callback=, "
                        "*output_callback=",
                    ),
                    _register,
                ),
                (
                    Target(f"{shell}:complete_background_job", "job, stdout, stderr"),
                    _complete,
                ),
            ]
        )

    def _execute(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def execute_shell_impl(
            cmd: str, logdir: Any, timeout: float | None = None
        ) -> Generator[Any, None, None]:
            from gptme.tools.shell import get_shell

            session = get_shell()
            given = inner(cmd, logdir, timeout)
            directory = None if logdir is None else str(logdir)
            try:
                capture = Shell(self._policy, directory, cmd, session)
            except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a command
                fault("an output is not kept", error)
                yield from given
                return
            setattr(session, ATTRIBUTE, capture)
            try:
                while True:
                    token = _running.set(capture)
                    try:
                        message = next(given)
                    except StopIteration:
                        return
                    finally:
                        _running.reset(token)
                    yield message
            finally:
                given.close()
                if not capture.adopted:
                    setattr(session, ATTRIBUTE, None)
                    # Only a call that raised was not concluded where its result was made.
                    if capture.receipt is None:
                        capture.conclude(ProcessState.CANCELLED, None, "the call raised")

        return execute_shell_impl

    def _format(self, inner: Callable[..., str]) -> Callable[..., str]:
        def _format_shell_output(
            cmd: str,
            stdout: str,
            stderr: str,
            returncode: int | None,
            interrupted: bool,
            *rest: Any,
            **named: Any,
        ) -> str:
            capture, call = running(), current()
            if call is not None:
                call.exit_code = None if returncode in MADE_UP else returncode
                call.failed = call.failed or interrupted or returncode in (TIMED_OUT, OVER_CAP)
            if capture is None:
                return inner(cmd, stdout, stderr, returncode, interrupted, *rest, **named)
            receipt = capture.conclude_code(returncode, interrupted=interrupted)
            own, problem = "", None
            try:
                own = inner(cmd, stdout, stderr, returncode, interrupted, *rest, **named)
            except OSError as error:
                # What gptme wanted to save cannot be; what it was and how it ended is true still.
                problem = error
            frame = partial(inner, cmd, "", "", returncode, interrupted, *rest, **named)
            made = _Made(own, problem, (cmd, stdout, stderr, returncode), frame)
            try:
                return self._present(made, capture, call, receipt)
            except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a result
                fault("a result is shown as gptme has it", error)
                return own or frame()

        return _format_shell_output

    def _present(self, made: _Made, capture: Shell, call: Any, receipt: Receipt) -> str:
        """What is shown in the end, and what the archive is to know of it."""
        shown, short = made.own, None
        if self._policy.reduces and call is not None and receipt.process is ProcessState.EXITED:
            short = _shortened(call, *made.of, receipt)
        large = capture.cut and len(made.own) > _MOST_CHARACTERS
        bounded = large and self._policy.bounded and not _has_budgets()
        if made.problem or bounded or short is not None:
            body = capture.spool.preview().body if short is None else short
            frame = made.frame()
            shown = _framed(frame, body) or made.own or frame
        if receipt.reference_state is ReferenceState.LOCAL or _lost(receipt):
            shown = f"{shown.rstrip()}\n\n{capture.lines()}\n"
        if call is not None and made.own and shown != made.own:
            call.shown.append((shown, made.own))
            _keep_whole(call, capture, receipt)
        return shown


class _Made(NamedTuple):
    """What gptme made of a command: its own words, or why there are none, and what it was."""

    own: str
    problem: OSError | None
    of: tuple[str, str, str, int | None]
    frame: Callable[[], str]


def _has_budgets() -> bool:
    """Whether the user has chosen how much gptme shows: a choice that stands."""
    return any(os.environ.get(f"GPTME_SHELL_TRUNC_{name}") for name in _BUDGETS)


def _framed(frame: str, body: str) -> str | None:
    """The words of gptme around a body of ours; None: they are other words than are known."""
    nothing = next((words for words in _NOTHING if words in frame), None)
    if nothing is None:
        return None
    from gptme.util.context import md_codeblock

    block: str = md_codeblock("output", body)
    before, _, after = frame.rpartition(nothing)
    return f"{before}{block}\n\n{after}"


def _shortened(
    call: Any, command: str, stdout: str, stderr: str, code: int | None, receipt: Receipt
) -> str | None:
    """What a rule makes of the output, where the archive is at hand."""
    from yarp_gptme.inside import active

    here = active()
    if here is None or here.recorder is None:
        return None
    gap = "\n" if stdout and stderr and not stdout.endswith("\n") else ""
    complete = receipt.capture is CaptureState.COMPLETE
    return here.recorder.shorten(call, command, stdout + gap + stderr, code, complete=complete)


def _lost(receipt: Receipt) -> bool:
    """Whether something was written that is not all kept, other than by choice."""
    states = (CaptureState.COMPLETE, CaptureState.DISABLED)
    return receipt.capture not in states and any(stream.observed for stream in receipt.streams)


def _keep_whole(call: Any, capture: Shell, receipt: Receipt) -> None:
    """Have the archive keep the one stream whose whole stands in a file."""
    written = [n for n, stream in enumerate(receipt.streams) if stream.observed]
    if receipt.capture is CaptureState.COMPLETE and len(written) == 1:
        call.full_output_path = capture.path(written[0])


def _read_output(inner: Callable[..., Any]) -> Callable[..., Any]:
    def _read_output_unix(
        self: Any,
        command: str,
        output: bool,
        stdout: Any,
        stderr: Any,
        return_code: Any,
        seen_start_marker: bool,
        start_marker_pattern: str,
        delimiter_pattern: str,
        *rest: Any,
        **named: Any,
    ) -> Any:
        read_so_far = (command, output, stdout, stderr, return_code, seen_start_marker)
        given = (*read_so_far, start_marker_pattern, delimiter_pattern)
        capture: Shell | None = getattr(self, ATTRIBUTE, None)
        if capture is None or capture.frame is not None:
            # Of gptme's own, when it sets up a shell anew in the middle of a command.
            setattr(self, ATTRIBUTE, None)
            try:
                return inner(self, *given, *rest, **named)
            finally:
                setattr(self, ATTRIBUTE, capture)
        pipes = [os.dup(self.stdout_fd), os.dup(self.stderr_fd)]
        capture.begin(
            Frame(start_marker_pattern, delimiter_pattern), self.stdout_fd, self.stderr_fd
        )
        try:
            return inner(self, *given, *rest, **named)
        finally:
            try:
                capture.end(pipes)
            except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a command
                capture.broke(error)
            for pipe in pipes:
                os.close(pipe)

    return _read_output_unix


def _decode_output(inner: Callable[..., str]) -> Callable[..., str]:
    def _decode_output(self: Any, fd: int, raw: bytes) -> str:
        capture: Shell | None = getattr(self, ATTRIBUTE, None)
        if capture is not None:
            capture.read(fd, raw)
        return inner(self, fd, raw)

    return _decode_output


def _run_with_tty(inner: Callable[..., Any]) -> Callable[..., Any]:
    def _run_with_tty(
        self: Any, command: str, output: bool = True, timeout: float | None = None
    ) -> Any:
        capture: Shell | None = getattr(self, ATTRIBUTE, None)
        if capture is not None:
            capture.pass_by()
        return inner(self, command, output, timeout)

    return _run_with_tty


def _register(inner: Callable[..., Any]) -> Callable[..., Any]:
    def register_background_job(command: str, process: Any, **named: Any) -> Any:
        job = inner(command, process, **named)
        session = getattr(named.get("output_callback"), "__self__", None)
        capture: Shell | None = getattr(session, ATTRIBUTE, None)
        if capture is not None and capture.receipt is None:
            capture.adopted = True
            with suppress(YarpError):  # it finished at this very moment
                capture.spool.promote(str(job.id))
            setattr(job, ATTRIBUTE, capture)
            capture.launched()
        return job

    return register_background_job


def capture_of(job: Any) -> Capture | None:
    """The capture that a job carries."""
    found: Capture | None = getattr(job, ATTRIBUTE, None)
    return found


def conclude(job: Any) -> Receipt | None:
    """Publish a job's receipt, once its reader is done."""
    capture = capture_of(job)
    if capture is None:
        return None
    if capture.receipt is not None:
        return capture.receipt
    code: int | None = job.process.poll()
    if capture.killed or (capture.killed is False and code is not None and code < 0):
        reason = str(job.kill_reason) if job.kill_reason else "killed by gptme"
        if isinstance(capture, Shell):
            # The code of a promoted command that was killed is one that gptme makes up.
            return capture.conclude(ProcessState.CANCELLED, None, reason)
        return capture.finish(ProcessState.CANCELLED, code=code, reason=reason)
    if isinstance(capture, Shell):
        return capture.conclude_code(code)
    # A reader that was told to stop before the process ended: nobody knows how it ended.
    state = ProcessState.RUNNING if code is None else ProcessState.EXITED
    return capture.finish(state, code=code)


def _complete(inner: Callable[..., None]) -> Callable[..., None]:
    def complete_background_job(job: Any, stdout: str, stderr: str) -> None:
        # Before anybody is told of it, also where jobs of their own are not spooled.
        conclude(job)
        inner(job, stdout, stderr)

    return complete_background_job
