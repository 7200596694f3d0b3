"""Work on a large stream, done behind its reader by one thread.

Hashing and compressing leave the interpreter free, so that reading, holding and reducing go on
meanwhile. The queue is bounded: a thread that falls behind holds the reader back, and with it
the command. Source: spec "Receipts", Parts (writer, policy `exact`); spec "Speed", Streams.
"""

from __future__ import annotations

import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_BATCH_BYTES = 1 << 20
# The thread needs the interpreter for microseconds, again and again; at the default of 5 ms it
# would wait for it longer than it works.
_SWITCH_SECONDS = 0.0002


class Behind:
    """Calls `work(stream, chunk)` for everything put here, in order, on a thread.

    One batch is worked on while the next one fills. An error of `work` ends the work and comes
    out of the next `put`, or of `finish`, which ends the thread.

    `own`: the process is ours, so that the interpreter may be set to change threads at once.
    """

    __slots__ = ("_batch", "_error", "_free", "_full", "_given", "_size", "_work")

    def __init__(self, work: Callable[[int, bytes], None], *, own: bool = True) -> None:
        self._work = work
        self._batch: list[tuple[int, bytes]] = []
        self._given: list[tuple[int, bytes]] = []
        self._size = 0
        self._error: Exception | None = None
        self._free = _thread.allocate_lock()  # held while a batch is worked on
        self._full = _thread.allocate_lock()  # held while there is none
        self._full.acquire()
        if own:
            sys.setswitchinterval(_SWITCH_SECONDS)
        _thread.start_new_thread(self._run, ())

    def put(self, stream: int, chunk: bytes) -> None:
        """Have a chunk worked on; waits while the thread is a batch behind."""
        self._batch.append((stream, chunk))
        self._size += len(chunk)
        if self._size >= _BATCH_BYTES:
            self._hand_over()

    def finish(self) -> None:
        """Wait until everything is done."""
        self._hand_over()
        self._hand_over()

    def _hand_over(self) -> None:
        self._free.acquire()
        if self._error is not None:
            self._free.release()
            raise self._error
        self._given, self._batch, self._size = self._batch, [], 0
        self._full.release()

    def _run(self) -> None:
        while True:
            self._full.acquire()
            if not self._given:  # `finish` has nothing more
                self._free.release()
                return
            try:
                for stream, chunk in self._given:
                    self._work(stream, chunk)
            except Exception as error:  # noqa: BLE001 - raised where the reader can act on it
                self._error = error
            self._given = []
            self._free.release()
