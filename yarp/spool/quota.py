"""How many bytes a job and its conversation may keep, shared by all processes, in no database.

Who wants to store reserves first. A reservation is the size of the capture's lock file; it counts
while its owner lives, and the files themselves count always. So whoever reserves works out the
rest anew from the directory, and what a killed owner had reserved is free again. Source: seed
004, "Capture before eviction".
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from yarp.errors import YarpError
from yarp.spool import names, private

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP_BYTES = 1 << 20


class Quota:
    """The allowance of one capture; `lock` is its lock file, and `directory` where it lies."""

    def __init__(
        self,
        directory: int,
        capture_id: str,
        lock: int,
        *,
        job_bytes: int,
        conversation_bytes: int,
    ) -> None:
        self._directory = directory
        self._capture_id = capture_id
        self._lock = lock
        self._job_bytes = job_bytes
        self._conversation_bytes = conversation_bytes
        self.reserved = 0
        self.reason: str | None = None

    def allow(self, total: int) -> int:
        """How much of `total` retained bytes the capture may have; `reason` says what is less.

        Raises OSError when the directory cannot be read or written.
        """
        if total <= self.reserved:
            return total
        wanted = min(max(total, self.reserved + _STEP_BYTES), self._job_bytes)
        with _alone(self._directory):
            free = self._conversation_bytes - taken(self._directory, self._capture_id)
            self.reserved = max(self.reserved, min(wanted, free))
            os.ftruncate(self._lock, self.reserved)
        if total > self.reserved:
            self.reason = "job-quota" if self.reserved == self._job_bytes else "conversation-quota"
        return min(total, self.reserved)


def taken(directory: int, but: str | None = None) -> int:
    """The bytes that captures in a directory have or have reserved, those of `but` aside."""
    kept: dict[str, dict[int, int]] = {}
    reserved: dict[str, int] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            capture_id = names.stream_file(entry.name)
            locked = entry.name.removesuffix(".lock")
            with suppress(FileNotFoundError):  # its owner has just finished
                if capture_id is not None:
                    found = entry.stat(follow_symlinks=False)
                    # While it is published a file has two names.
                    kept.setdefault(capture_id, {})[found.st_ino] = found.st_size
                elif locked != entry.name:
                    reserved[locked] = entry.stat(follow_symlinks=False).st_size
    total = 0
    for capture_id in {*kept, *reserved} - {but}:
        used = sum(kept.get(capture_id, {}).values())
        held = reserved.get(capture_id, 0)
        if held > used and is_running(directory, capture_id):
            used = held
        total += used
    return total


def is_running(directory: int, capture_id: str) -> bool:
    """Whether the owner of a capture still holds its lock; the system lets go for a killed one."""
    try:
        lock = private.open_file(directory, names.lock(capture_id))
    except YarpError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def _alone(directory: int) -> Iterator[None]:
    """Nobody else reserves meanwhile, where the file system knows locks."""
    # A descriptor of its own: a lock belongs to the opening, which captures of a process share.
    own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        with suppress(OSError):
            fcntl.flock(own, fcntl.LOCK_EX)
        yield
    finally:
        os.close(own)
