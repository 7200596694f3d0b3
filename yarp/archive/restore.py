"""The exact streams of one wrapped call, verified before the first byte is given.

A host puts them back when its shortened result cannot be finished. Source: seed 000,
"Failure behavior"; reference 1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from yarp.archive.read import Reader
from yarp.errors import ReferenceUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.archive.read import CallRow

_COPY_BYTES = 1 << 20
# Up to here no spill file: the disk may be full, which is why something is restored at all.
_MEMORY_BYTES = 64 << 20


class Stream:
    """Verified bytes of one stream, in memory or in an unlinked file."""

    def __init__(self, data: bytes | int) -> None:
        self._data = data

    def blocks(self) -> Iterator[bytes]:
        """The bytes from the beginning, in blocks of bounded size."""
        if isinstance(self._data, bytes):
            yield self._data
            return
        os.lseek(self._data, 0, os.SEEK_SET)
        while block := os.read(self._data, _COPY_BYTES):
            yield block

    def close(self) -> None:
        """Give the spill file back, if there is one."""
        if isinstance(self._data, int):
            os.close(self._data)
            self._data = b""


def restore(
    path: str, *, agent: str, account: str, source_session_id: str, source_call_id: str
) -> tuple[Stream, Stream]:
    """Standard output and standard error of a call as its child wrote them.

    Both are verified when this returns. Raises ReferenceUnknown when there is no such call or
    it has no streams, ArchiveCorrupt when either is damaged.
    """
    reader = Reader.open(path)
    try:
        row = reader.find(agent, account, source_session_id, source_call_id)
        if row is None:
            raise ReferenceUnknown(
                f"no call {source_call_id} in session {source_session_id} of {agent}"
            )
        stdout = _stream(reader, row, "stdout")
        try:
            return stdout, _stream(reader, row, "stderr")
        except BaseException:
            stdout.close()
            raise
    finally:
        reader.close()


def _stream(reader: Reader, row: CallRow, subject: str) -> Stream:
    source = reader.snapshot(row.call_id, subject, "before")
    if source is None:
        raise ReferenceUnknown(f"{row.archive_ref} has no exact {subject} to restore")
    if source.byte_length <= _MEMORY_BYTES:
        return Stream(reader.payload(source.sha256))
    return Stream(reader.payload_file(source.sha256, os.path.dirname(reader.path)))
