"""The files of a capture behind the one thread that touches them.

Source: seed 004, "Capture before eviction" and "Live reads and immutable completion".
"""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, Any

from yarp.errors import YarpError
from yarp.spool.files import Refused
from yarp.spool.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.spool.files import Files
    from yarp.spool.receipt import Receipt

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Store:
    """Keeps what is put here; the first fault ends that, and is told to `stopped`.

    `make` makes the files, `describe` says whose they are, `committed(stream, total)` is told
    what can be read, `stopped(reason, problem)` what went wrong. They are called on the thread.
    """

    def __init__(
        self,
        make: Callable[[], Files],
        describe: Callable[[], dict[str, Any]],
        committed: Callable[[int, int], object],
        stopped: Callable[[str, str | None], object],
        *,
        queue_bytes: int,
        exact: bool,
    ) -> None:
        self._make = make
        self._describe = describe
        self._committed = committed
        self._stopped = stopped
        self._writer = Writer(self._append, queue_bytes=queue_bytes, exact=exact)
        self._stale = False
        self._fresh = threading.Event()
        self.files: Files | None = None
        """The files, once there are some."""

    def open(self) -> Files:
        """Make the files at once, on the caller's thread. Raises YarpError."""
        files = self._make()
        try:
            files.describe(self._describe())
        except BaseException:
            files.abandon()
            raise
        self.files = files
        return files

    def put(self, stream: int, data: bytes) -> bool:
        """Have data kept, and the files made when they are not there yet; False: it is not."""
        taken = self._writer.put(stream, data)
        if self._writer.overflowed:
            self._stopped("saturated", None)
        return taken

    def describe_anew(self, timeout_seconds: float) -> None:
        """Have the files made, and said anew whose they are; waits for it, within bounds."""
        self._fresh.clear()
        self._stale = True
        if self.put(0, b""):
            self._fresh.wait(timeout_seconds)

    def close(self, receipt: Callable[[Files], Receipt], timeout_seconds: float) -> Receipt | None:
        """Publish the receipt of what is kept; None when that is not possible, or not in time."""
        published: list[Receipt] = []
        if not self._writer.close(lambda: self._publish(receipt, published), timeout_seconds):
            self._stopped("storage-stalled", "a spool's storage does not answer")
            return None
        return published[0] if published else None

    def _append(self, stream: int, data: bytes) -> bool:
        try:
            files = self.files or self.open()
            if self._stale:
                self._stale = False
                files.describe(self._describe())
                self._fresh.set()
            try:
                files.append(stream, data)
            finally:
                self._committed(stream, files.committed[stream])
        except Refused as refused:
            self._stopped(str(refused), None)
        except (OSError, YarpError) as error:
            self._stopped(*_reason(error, "a spool cannot be written"))
        else:
            return True
        self._fresh.set()
        return False

    def _publish(self, receipt: Callable[[Files], Receipt], published: list[Receipt]) -> None:
        files = self.files
        if files is None:
            return
        if self._writer.given_up:
            files.close()
            return
        try:
            files.settle()
            made = receipt(files)
            if self._writer.commits():
                files.publish(made.encode())
                published.append(made)
            else:
                files.unsettle()
        except Exception as error:  # noqa: BLE001 - whoever finishes waits for this thread
            files.unsettle()
            self._stopped("receipt-unpublished", _reason(error, "a receipt is not published")[1])
        finally:
            files.close()


def _reason(error: Exception, what: str) -> tuple[str, str]:
    if isinstance(error, OSError):
        reason = "storage-full" if error.errno in _FULL else "storage"
        return reason, f"{what}: {error.strerror}"
    if isinstance(error, YarpError):
        return "storage", str(error)
    return "storage", f"{what}: {type(error).__name__}"
