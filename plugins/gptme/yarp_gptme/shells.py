"""The capture of a call of gptme's shell tool, which is spooled inside its persistent bash.

The end of the frame around a command is a known boundary: bash writes it when the command is
over, behind everything the command wrote. What it left running may write on: once gptme's reader
is done, it is asked who can, and what stands in the pipes by then, which gptme throws away
before its next command, is taken too.
"""

from __future__ import annotations

import contextvars
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from yarp.plugin import CaptureState, ProcessState
from yarp_gptme import holders, place
from yarp_gptme.calls import conversation_id
from yarp_gptme.captures import (
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from yarp.plugin import Receipt
    from yarp_gptme.framing import Frame

_SLACK_BYTES = 1 << 20
_TERMINAL = "terminal-of-its-own"
_LATE_BYTES = 4 << 20
"""As much is taken of what comes behind a frame; whoever writes more has not ended."""

running_here: contextvars.ContextVar[Shell | None] = contextvars.ContextVar(
    "yarp_shell", default=None
)


def running() -> Shell | None:
    """The foreground capture of this context."""
    return running_here.get()


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
        self.late = False
        self._promises: list[_Promise] = []
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
        self.late = self.late or self.frame.late  # gptme's own words lack it
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

    @property
    def heard(self) -> bool:
        """Whether all that the command wrote was seen, to its end."""
        return self._bounded and self.frame is None and not self._left

    def promise(self, stream: int, otherwise: Callable[[], Path]) -> str | None:
        """Where the whole of a stream will stand when the call is over; None: nowhere.

        gptme wants a path for its words, and the receipt states what those show: so the path
        comes first. `otherwise` gives another one, should the stream not come to be whole.
        """
        if self.receipt is not None:
            return self.whole(stream)
        spool = self.spool
        if self.conversation is None or spool.capture is not CaptureState.PENDING:
            return None
        if stream >= len(spool.streams) or not spool.accounting(stream).observed:
            return None
        self.to_files()
        path = place.file_of(self.conversation, spool.identity.capture_id, spool.streams[stream])
        self._promises.append(_Promise(stream, path, otherwise))
        return path

    def redeemed(self, own: str, *, shown: bool) -> str:
        """Have a true path in each place of gptme's words; what nobody is shown needs no file."""
        for stream, path, otherwise in self._promises:
            if self.whole(stream) is None:
                own = own.replace(path, str(self._instead(otherwise, shown=shown)))
        return own

    def _instead(self, otherwise: Callable[[], Path], *, shown: bool) -> Path:
        why = f"not whole: {self.receipt and self.receipt.capture_reason}"
        if shown:
            try:
                return otherwise()
            except OSError as error:
                why = str(error)
        return place.nowhere(self.conversation or "", why)

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


class _Promise(NamedTuple):
    """A path that was named before anything stood there."""

    stream: int
    path: str
    otherwise: Callable[[], Path]


class Ending(NamedTuple):
    """How a command ended: its state, its code (below 0, a signal's), and why."""

    process: ProcessState | None
    code: int | None
    reason: str | None


def ending_of(code: int | None, *, interrupted: bool = False) -> Ending:
    """From gptme's return code, of which some are made up."""
    if interrupted:
        return Ending(ProcessState.CANCELLED, None, "interrupted by the user")
    if code == TIMED_OUT:
        return Ending(ProcessState.TIMEOUT, None, "gptme's time limit")
    if code == OVER_CAP:
        return Ending(ProcessState.CANCELLED, None, "gptme's output limit")
    if code == UNKNOWN:
        return Ending(None, None, "gptme does not know how it ended")
    return Ending(ProcessState.EXITED, code, None)


def _descendants(session: Any) -> set[int]:
    """The processes below a persistent shell."""
    try:
        from gptme.tools.shell import _descendant_pids

        return set(_descendant_pids(session.process.pid))
    except Exception:  # noqa: BLE001 - another gptme, or no shell: nothing is known of them
        return set()
