"""One task at a time in a thread of its own, beside what its caller goes on to do.

DuckDB and Arrow leave the interpreter to others while they work.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

# Back from DuckDB, a task waits at most so long for the interpreter. With Python's own 5 ms an
# import of 200 MB waits 0.4 s longer for its commits.
_SWITCH_S = 0.0002


class Beside:
    """Runs tasks one behind the other; what one raises, the next call raises."""

    def __init__(self) -> None:
        # The same thread for all: what one has freed is not there for the next one's memory.
        self._thread: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._switch_s = 0.0

    def start(self, task: Callable[[], None]) -> None:
        """Run a task once the one before has ended. Raises what that one raised."""
        self.wait()
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor  # most runs find nothing new

            self._thread = ThreadPoolExecutor(1)
            self._switch_s = sys.getswitchinterval()
            sys.setswitchinterval(min(self._switch_s, _SWITCH_S))
        self._running = self._thread.submit(task)

    def wait(self) -> None:
        """Wait for the task that is running. Raises what it raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Wait, whatever the task comes to, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
            if self._switch_s > _SWITCH_S:  # else another one's doing, which ends that
                sys.setswitchinterval(self._switch_s)
