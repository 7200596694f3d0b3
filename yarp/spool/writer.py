"""One thread that stores what one reader gives it, with a bounded queue between them.

The reader of a pipe never stands still for a disk that does not answer: under `lossy` a full queue
ends the storing, and the reader goes on. Only for one that stores, slower than the process
prints, it is held back a little, for a bounded time in all. Under `exact` it waits, and with it
the child. Source: seed 004, "Capture before eviction"; spec "Receipts", Parts (writer).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE_BYTES = 16 << 20
# Small chunks are joined up to here: a program may print its bytes one by one.
_JOIN_BYTES = 256 << 10
# A storage that has stored nothing for so long is not waited for at all.
_STALLED_SECONDS = 0.25
# How long a reader is held back for one that has, in the whole life of a capture.
BACKPRESSURE_SECONDS = 5.0


class Writer:
    """Calls `store(stream, data)` for everything put here, in order, on a thread of its own.

    It returns False when nothing more can be stored; then, and when the queue overflowed,
    nothing more is taken. What `store` raises counts as False: it is to tell its own errors.
    """

    def __init__(
        self, store: Callable[[int, bytes], bool], *, queue_bytes: int, exact: bool
    ) -> None:
        self._store = store
        self._limit = queue_bytes
        self._exact = exact
        self._queue: deque[tuple[int, bytes]] = deque()
        self._size = 0  # of what is queued or being stored
        self._open = True
        self._last: Callable[[], None] | None = None
        self.overflowed = False
        """Whether it takes nothing more because the storage was too slow."""
        self._busy_since = 0.0
        self._backpressure = BACKPRESSURE_SECONDS
        self._given_up = self._committing = False
        self._changed = threading.Condition(threading.Lock())
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, stream: int, data: bytes) -> bool:
        """Have `data` stored; False: it is not, and neither will be anything after it."""
        with self._changed:
            while self._open and self._size and self._size + len(data) > self._limit:
                if self._exact:
                    self._changed.wait()
                elif not self._waits_a_little():
                    self.overflowed = True
                    self._open = False
            if not self._open:
                return False
            if not self._size:
                self._busy_since = time.monotonic()
            self._queue.append((stream, data))
            self._size += len(data)
            if self._thread is None:
                self._start()
            self._changed.notify_all()
            return True

    def _waits_a_little(self) -> bool:
        """Wait for a storage that is at work; False: it is not, or was waited for long enough."""
        now = time.monotonic()
        if self._backpressure <= 0 or now - self._busy_since > _STALLED_SECONDS:
            return False
        self._changed.wait(_STALLED_SECONDS)
        self._backpressure -= time.monotonic() - now
        return True

    def close(self, last: Callable[[], None], timeout_seconds: float) -> bool:
        """Store what is queued, then have `last` called on the thread; once only.

        False: the storage did not answer in time. `last` is called when it does, to let go of
        it; nobody waits any more, and `commits` says so.
        """
        with self._changed:
            self._open = False
            self._last = last
            if self._thread is None:
                self._start()
            self._changed.notify_all()
        if self._done.wait(timeout_seconds):
            return True
        with self._changed:
            if not self._committing:
                self._given_up = True
                self._queue.clear()
                self._size = 0
                self._changed.notify_all()
        return self._done.wait(timeout_seconds if self._committing else 0)

    @property
    def given_up(self) -> bool:
        """Whether nobody waits for this storage any more."""
        return self._given_up

    def commits(self) -> bool:
        """Whether somebody still waits for what `last` does; if so, they wait on for its end."""
        with self._changed:
            self._committing = not self._given_up
            return self._committing

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="yarp spool", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and self._last is None and not self._given_up:
                    self._changed.wait()
                if not self._queue:
                    break
                stream, data = self._next()
            try:
                stored = self._store(stream, data)
            except Exception:  # noqa: BLE001 - a reader waits for this thread
                stored = False
            with self._changed:
                self._size -= len(data)
                self._busy_since = time.monotonic()
                if not stored or self._given_up:
                    self._open = False
                    self._queue.clear()
                    self._size = 0
                self._changed.notify_all()
        try:
            if self._last is not None:
                self._last()
        finally:
            self._done.set()

    def _next(self) -> tuple[int, bytes]:
        """The next data of one stream, as much as is at hand, within reason."""
        stream, data = self._queue.popleft()
        size = len(data)
        parts = [data]
        while self._queue and self._queue[0][0] == stream and size < _JOIN_BYTES:
            parts.append(self._queue.popleft()[1])
            size += len(parts[-1])
        return stream, data if len(parts) == 1 else b"".join(parts)
