"""What a command printed, kept exactly until it is known what to show of it.

Both streams in one spool, in the order in which their bytes arrived: shown again, output and
errors stand as the command mixed them. Source: spec "Archive", `yarp run`.
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
_HEADER_BYTES = 5
_READ_BYTES = 1 << 18


class Hold:
    """Chunks of both streams, in memory or in a file in `directory`."""

    __slots__ = ("_chunks", "_directory", "_file", "_file_bytes", "_memory")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._chunks: list[tuple[int, bytes]] = []
        self._memory = 0
        self._file = -1
        self._file_bytes = 0  # up to the end of the last whole chunk

    def keep(self, stream: int, chunk: bytes) -> None:
        """Keep the next chunk of stream 0 or 1, of any size.

        Raises StorageError when it cannot be kept; all chunks before it still are.
        """
        if self._file < 0 and self._memory + len(chunk) <= _MEMORY_BYTES:
            self._memory += len(chunk) + _OBJECT_BYTES
            self._chunks.append((stream, chunk))
            return
        if self._file < 0:
            self._file = private_file(self._directory)
        written = 0
        try:
            for earlier in self._chunks:
                self._write(*earlier)
                written += 1
        finally:
            del self._chunks[:written]
        self._write(stream, chunk)

    def show(self, show: Callable[[int, bytes], object]) -> None:
        """Give every chunk, in order of arrival, to `show(stream, bytes)`; it may come in parts."""
        at = 0
        while at < self._file_bytes:
            header = os.pread(self._file, _HEADER_BYTES, at)
            at += _HEADER_BYTES
            end = at + int.from_bytes(header[1:], "big")
            while at < end:
                part = os.pread(self._file, min(end - at, _READ_BYTES), at)
                if not part:
                    raise StorageError("a spool file is shorter than what was written to it")
                show(header[0], part)
                at += len(part)
        for stream, chunk in self._chunks:
            show(stream, chunk)

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._chunks = []

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
