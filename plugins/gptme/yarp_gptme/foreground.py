"""Commands in the foreground: the same spool, the persistent shell's frames taken off.

gptme reads its one bash in `ShellSession`; what it reads is spooled there, before it is decoded
or trimmed. A command that is promoted keeps its capture: the job adopts it, nothing is copied, and
the same reader goes on.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from yarp.plugin import ProcessState, YarpError
from yarp_gptme.calls import current
from yarp_gptme.captures import (
    MADE_UP,
    OVER_CAP,
    TIMED_OUT,
    Capture,
    Policy,
)
from yarp_gptme.framing import Frame
from yarp_gptme.patches import Target
from yarp_gptme.present import Made, present
from yarp_gptme.say import fault
from yarp_gptme.shells import Shell, ending_of, running, running_here

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from yarp.plugin import Receipt
    from yarp_gptme.patches import Patches

ATTRIBUTE = "_yarp_capture"
"""Where a shell session, and a job, carry their capture."""


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
                    token = running_here.set(capture)
                    try:
                        message = next(given)
                    except StopIteration:
                        return
                    finally:
                        running_here.reset(token)
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
            ending = ending_of(returncode, interrupted=interrupted)
            own, problem = "", None
            try:
                own = inner(cmd, stdout, stderr, returncode, interrupted, *rest, **named)
            except OSError as error:
                # What gptme wanted to save cannot be; what it was and how it ended is true still.
                problem = error
            frame = inner(cmd, "", "", returncode, interrupted, *rest, **named)
            made = Made(own, problem, (cmd, stdout, stderr, returncode), frame)
            try:
                return present(self._policy, made, capture, call, ending)
            except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a result
                fault("a result is shown as gptme has it", error)
                return own or frame
            finally:
                if capture.receipt is None:
                    capture.conclude(*ending)

        return _format_shell_output


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
        return capture.conclude(*ending_of(code))
    # A reader that was told to stop before the process ended: nobody knows how it ended.
    state = ProcessState.RUNNING if code is None else ProcessState.EXITED
    return capture.finish(state, code=code)


def _complete(inner: Callable[..., None]) -> Callable[..., None]:
    def complete_background_job(job: Any, stdout: str, stderr: str) -> None:
        # Before anybody is told of it, also where jobs of their own are not spooled.
        conclude(job)
        inner(job, stdout, stderr)

    return complete_background_job
