"""Background jobs: spooled from the first read, named at launch, finished with one receipt.

gptme reads a job's pipes in a thread of its own and keeps the last 1 Mi characters. Its reader
hands each chunk to `BackgroundJob._append_output`, as bytes and before anything is given up;
the spool gets it there. No second reader is made, and no snapshot beside the spool.
"""

from __future__ import annotations

import contextvars
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from yarp.plugin import CaptureState
from yarp_gptme.captures import STDERR, STDOUT, Capture, Policy, at_end
from yarp_gptme.foreground import ATTRIBUTE, capture_of, conclude
from yarp_gptme.patches import Target
from yarp_gptme.say import fault
from yarp_gptme.shells import Shell

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from yarp_gptme.patches import Patches

_JOBS = "gptme.tools.shell_background"
_SHELL = "gptme.tools.shell"
_FORMAT = "job, stdout, stderr"
_NEW_CHARACTERS = 8000
_PROMOTED_S = 2.0

_incremental: contextvars.ContextVar[bool] = contextvars.ContextVar("yarp_new_only", default=False)


class Background:
    """The wraps of this offer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def start(self, patches: Patches) -> None:
        """Wrap what this offer needs; Mismatch: nothing was wrapped."""
        job = f"{_JOBS}:BackgroundJob"
        patches.wrap(
            [
                (Target(f"{job}.start_reader", "self"), self._start_reader),
                (
                    Target(f"{job}._append_output", "self, fd, stdout_fd, data, *final="),
                    _append_output,
                ),
                (Target(f"{job}.kill", "self"), _kill),
                (Target(f"{_JOBS}:_notify_completion", "job"), _notify_completion),
                (
                    Target(f"{_JOBS}:_write_job_log", "job, stdout, stderr, *final"),
                    _write_job_log,
                ),
                (Target(f"{_JOBS}:_completion_message", "job"), _completion_message),
                (
                    Target(f"{_JOBS}:execute_output_command", "job_id_str"),
                    _execute_output_command,
                ),
                (Target(f"{_JOBS}:format_job_output", _FORMAT), _format_job_output),
                (Target(f"{_SHELL}:format_job_output", _FORMAT), _format_job_output),
                (Target(f"{_SHELL}:control_commands_help", "job_id"), _control_commands_help),
                (Target(f"{_JOBS}:control_commands_help", "job_id"), _control_commands_help),
                # Job control by a command of its own: gptme binds this one by name.
                (
                    Target(f"{_SHELL}:execute_output_command", "job_id_str"),
                    _execute_output_command,
                ),
            ]
        )

    def _start_reader(self, inner: Callable[..., None]) -> Callable[..., None]:
        def start_reader(self_: Any) -> None:
            directory = None if self_.log_dir is None else str(self_.log_dir)
            try:
                capture = Capture(
                    self._policy,
                    directory,
                    self_.command,
                    session=self_.conversation_id,
                    job_id=str(self_.id),
                )
                setattr(self_, ATTRIBUTE, capture)
                capture.launched()
            except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a job
                fault("an output is not kept", error)
            inner(self_)

        return start_reader


def _append_output(inner: Callable[..., None]) -> Callable[..., None]:
    def _append_output(
        self: Any, fd: int, stdout_fd: int, data: bytes, *, final: bool = False
    ) -> None:
        capture = capture_of(self)
        if capture is not None:
            stream = STDOUT if fd == stdout_fd else STDERR
            if data:
                capture.take(stream, data)
            # gptme flushes its decoder at a pipe's end, and when it gives up waiting for it.
            if final and at_end(fd):
                capture.ended(stream)
        inner(self, fd, stdout_fd, data, final=final)

    return _append_output


def _kill(inner: Callable[..., None]) -> Callable[..., None]:
    def kill(self: Any) -> None:
        capture = capture_of(self)
        if capture is not None and capture.receipt is None:
            capture.killed = capture.killed or self.process.poll() is None
        inner(self)
        # A promoted command's worker publishes when it is over, unless gptme ends first.
        if isinstance(capture, Shell) and not capture.done.wait(_PROMOTED_S):
            conclude(self)

    return kill


def _notify_completion(inner: Callable[..., None]) -> Callable[..., None]:
    def _notify_completion(job: Any) -> None:
        conclude(job)
        inner(job)

    return _notify_completion


def _write_job_log(inner: Callable[..., Any]) -> Callable[..., Any]:
    def _write_job_log(job: Any, stdout: str, stderr: str, *, final: bool) -> Path | None:
        capture = capture_of(job)
        if capture is not None and capture.spool.capture is CaptureState.DISABLED:
            return None
        if capture is None or not capture.has_files():
            found: Path | None = inner(job, stdout, stderr, final=final)
            return found
        from pathlib import Path

        # The spool has it, and more of it: no second copy.
        path = capture.path(STDOUT)
        return None if path is None else Path(path)

    return _write_job_log


def _format_job_output(inner: Callable[..., str]) -> Callable[..., str]:
    def format_job_output(job: Any, stdout: str, stderr: str) -> str:
        capture = capture_of(job)
        if capture is None or not capture.has_files():
            shown = inner(job, stdout, stderr)
            # One that is not kept says so, where there is something that was not kept.
            lost = capture is not None and capture.receipt is not None and bool(shown)
            return f"{shown}\n\n{capture.lines()}" if lost and capture is not None else shown
        from gptme.util.context import md_codeblock

        if _incremental.get():
            parts = [
                md_codeblock(name, _tail(text))
                for name, text in (("stdout", stdout), ("stderr", stderr))
                if text
            ]
        else:
            body = capture.spool.preview().body
            parts = [md_codeblock("output", body)] if body else []
        return "\n\n".join([*parts, capture.lines()])

    return format_job_output


def _tail(text: str) -> str:
    if len(text) <= _NEW_CHARACTERS:
        return text
    return f"(the last {_NEW_CHARACTERS} of {len(text)} new characters)\n{text[-_NEW_CHARACTERS:]}"


def _execute_output_command(inner: Callable[..., Any]) -> Callable[..., Any]:
    def execute_output_command(job_id_str: str) -> Generator[Any, None, None]:
        given = inner(job_id_str)
        try:
            while True:
                token = _incremental.set("--new" in job_id_str.split())
                try:
                    message = next(given)
                except StopIteration:
                    return
                finally:
                    _incremental.reset(token)
                yield message
        finally:
            given.close()

    return execute_output_command


def _completion_message(inner: Callable[..., Any]) -> Callable[..., Any]:
    def _completion_message(job: Any) -> Any:
        message = inner(job)
        capture = capture_of(job)
        if capture is not None and capture.receipt is not None:
            with suppress(Exception):  # a mark that cannot be made changes nothing for the model
                capture.spool.claim()
        return message

    return _completion_message


def _control_commands_help(inner: Callable[[int], str]) -> Callable[[int], str]:
    def control_commands_help(job_id: int) -> str:
        text = inner(job_id)
        from gptme.tools.shell_background import get_background_job

        capture = capture_of(get_background_job(job_id))
        return text if capture is None else f"{text}\n\n{capture.lines()}"

    return control_commands_help
