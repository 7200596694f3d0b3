"""A child of ours whose output goes into a spool: read by the one reader there is of a pipe.

For a process that is there for this child: it takes the signals that are meant for it, as `Child`
does. A host that reads its children itself pushes into a `Spool` instead. Source: spec
"Receipts", Parts (Spool).
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from yarp.spool.receipt import ProcessState
from yarp.spool.stream import Child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarp.spool.receipt import Receipt
    from yarp.spool.spool import Spool

GRACE_SECONDS = 2.0
"""How long a child that was told to end has for it."""


class Running:
    """A started command; NotStarted when it cannot be started."""

    def __init__(self, spool: Spool, argv: Sequence[str]) -> None:
        self._spool = spool
        self._child = Child(argv, piped=True)
        self._lock = threading.Lock()
        self._gone = False
        self._ended_by: tuple[ProcessState, str | None] | None = None
        self._killing: threading.Timer | None = None

    def cancel(self, reason: str | None = None) -> None:
        """End the child; its receipt says that it was cancelled, and why."""
        self._end(ProcessState.CANCELLED, reason)

    def wait(self, timeout_seconds: float | None = None) -> Receipt:
        """Read the child to its end and give the receipt; once only.

        After `timeout_seconds` it is ended, and the receipt says so.
        """
        timer = None
        if timeout_seconds is not None:
            reason = f"after {timeout_seconds:g} s"
            timer = threading.Timer(timeout_seconds, self._end, (ProcessState.TIMEOUT, reason))
            timer.daemon = True
            timer.start()
        ending = self._child.read(self._spool.take)
        for stream, ended in enumerate(ending.ended):
            if ended:
                self._spool.ended(stream)
        status = self._child.wait()
        with self._lock:
            self._gone = True
            state, reason_given = self._ended_by or (ProcessState.EXITED, None)
        for each in (timer, self._killing):
            if each is not None:
                each.cancel()
        self._child.dismiss()
        killed = self._child.signal
        return self._spool.finish(
            state,
            exit_code=status if killed is None else None,
            signal=killed,
            process_reason=reason_given,
        )

    def _end(self, state: ProcessState, reason: str | None) -> None:
        with self._lock:
            if self._gone or self._ended_by is not None:
                return
            self._ended_by = state, reason
            self._kill(signal.SIGTERM)
            self._killing = threading.Timer(GRACE_SECONDS, self._kill_now)
            self._killing.daemon = True
            self._killing.start()

    def _kill_now(self) -> None:
        with self._lock:
            if not self._gone:
                self._kill(signal.SIGKILL)

    def _kill(self, number: signal.Signals) -> None:
        """Send a signal to the child's group; the caller has made sure that it is not reaped."""
        with suppress(OSError):
            if os.getpgid(self._child.pid) == self._child.pid:
                os.killpg(self._child.pid, number)
            else:
                os.kill(self._child.pid, number)
