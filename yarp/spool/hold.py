"""What a command printed, kept exactly until it is known what to show of it.

Both streams in one spool, in the order in which their bytes arrived: shown again, output and
errors stand as the command mixed them. The file can be shared with a process that outlives this
one: everything is in it then as soon as it is kept. Source: spec "Archive", `yarp run`.
"""

from __future__ import annotations

import os

from yarp.errors import StorageError
from yarp.payload import private_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Small output stays in memory; more goes to an unlinked private file.
_MEMORY_BYTES = 1 << 20
# What an object costs in memory besides its bytes: a program may print them one by one.
_OBJECT_BYTES = 100
# The file's first byte is its state, for who shares it.
WHOLE, _COMING, _GIVEN_UP = range(3)
_STATE_BYTES = 1
_HEADER_BYTES = 5
_READ_BYTES = 1 << 18


class Hold:
    """Chunks of both streams, in memory or in a file in `directory`."""

    __slots__ = ("_chunks", "_directory", "_file", "_file_bytes", "_memory", "_shared")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._chunks: list[tuple[int, bytes]] = []
        self._memory = 0
        self._file = -1
        self._file_bytes = _STATE_BYTES  # up to the end of the last whole chunk
        self._shared = False

    def keep(self, stream: int, chunk: bytes) -> None:
        """Keep the next chunk of stream 0 or 1, of any size.

        Raises StorageError when it cannot be kept; all chunks before it still are.
        """
        if self._file < 0 and self._memory + len(chunk) <= _MEMORY_BYTES:
            self._memory += len(chunk) + _OBJECT_BYTES
            self._chunks.append((stream, chunk))
            return
        self._empty_memory()
        self._write(stream, chunk)
        self.settled()

    def share(self) -> int:
        """Have all that is kept in the file, now and from now on; the file's descriptor.

        Raises StorageError when it cannot be written.
        """
        self._empty_memory()
        if not self._shared:
            self._shared = True
            self.settled()
        return self._file

    def coming(self) -> None:
        """Tell who shares the file that a chunk is about to be taken from its source."""
        self._mark(_COMING)

    def settled(self) -> None:
        """Tell them that none was, or that it is kept."""
        self._mark(WHOLE)

    def give_up(self) -> None:
        """Tell them that there is nothing for them here any more."""
        self._mark(_GIVEN_UP)
        self._shared = False

    def show(self, show: Callable[[int, bytes], object]) -> None:
        """Give every chunk, in order of arrival, to `show(stream, bytes)`; it may come in parts."""
        if self._file >= 0 and not read(self._file, self._file_bytes, show):
            raise StorageError("a spool file is shorter than what was written to it")
        for stream, chunk in self._chunks:
            show(stream, chunk)

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._shared = False
        self._chunks = []

    def _mark(self, state: int) -> None:
        if not self._shared:
            return
        try:
            os.pwrite(self._file, bytes((state,)), 0)
        except OSError:
            return  # the next chunk will not fit either, and that is said

    def _empty_memory(self) -> None:
        if self._file < 0:
            self._file = private_file(self._directory)
        written = 0
        try:
            for earlier in self._chunks:
                self._write(*earlier)
                written += 1
        finally:
            del self._chunks[:written]

    def _write(self, stream: int, chunk: bytes) -> None:
        header = bytes((stream,)) + len(chunk).to_bytes(_HEADER_BYTES - 1, "big")
        try:
            at = self._file_bytes + os.pwritev(self._file, (header, chunk), self._file_bytes)
            end = self._file_bytes + _HEADER_BYTES + len(chunk)
            while at < end:
                rest = memoryview(header + chunk)[at - self._file_bytes :]
                at += os.pwrite(self._file, rest, at)
        except OSError as error:
            raise StorageError(f"a spool file cannot be written: {error.strerror}") from error
        self._file_bytes = end


def state(file: int) -> int | None:
    """Whether a shared file is `WHOLE`, or may lack a chunk; None when it was given up."""
    found = os.pread(file, _STATE_BYTES, 0)
    return None if found in (b"", bytes((_GIVEN_UP,))) else found[0]


def read(file: int, end: int, show: Callable[[int, bytes], object]) -> bool:
    """Give what is in a file up to `end` to `show(stream, bytes)`; False: it ends in a chunk."""
    at = _STATE_BYTES
    while at < end:
        header = os.pread(file, _HEADER_BYTES, at)
        if len(header) < _HEADER_BYTES:
            return False
        at += _HEADER_BYTES
        last = at + int.from_bytes(header[1:], "big")
        while at < last:
            part = os.pread(file, min(last - at, _READ_BYTES), at)
            if not part:
                return False
            show(header[0], part)
            at += len(part)
    return True
