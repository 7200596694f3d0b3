r"""Every complete line of a source as a record, whatever it holds.

Importers pass over a line that is no JSON; the index keeps it, since a record is a place in a
file before it is anything else. Only `\n` ends a line, and a last one without it waits. A line
over the policy's bound is hashed on its way and never held. Source: spec "Trace index", 1 and 9.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Self

import orjson

from yarp.errors import DataError
from yarp.sources.beneath import open_file, placed
from yarp.sources.jsonl import Line
from yarp.sources.values import may_be_rounded, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 1 << 20
TAIL_BYTES = 64 << 10
_BOM = b"\xef\xbb\xbf"


class Frame:
    """One record: where it is, the digest of its bytes, and the line if it holds JSON."""

    __slots__ = ("error", "length", "line", "offset", "seq", "sha256", "status")

    def __init__(
        self,
        seq: int,
        offset: int,
        length: int,
        sha256: bytes,
        *,
        line: Line | None = None,
        status: str = "ok",
        error: str | None = None,
    ) -> None:
        self.seq = seq
        self.offset = offset
        self.length = length
        self.sha256 = sha256
        self.line = line
        self.status = status
        self.error = error


class TraceFile:
    """A trace file, plain or compressed (`.zst`), open for one reading of what it holds now.

    Offsets are those of its content. The path is canonical: a link in it, wherever, came since
    and is not followed. Raises OSError when there is no regular file that can be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.compressed = path.endswith(".zst")
        self._fd = open_file(*placed(path, os.sep))
        self.stat = os.fstat(self._fd)
        self.end = 0
        """Where the last complete line that was read ends, its newline included."""
        self.tail = False
        """Whether bytes of an incomplete line follow it."""
        self.compared_bytes = 0
        """How many bytes were read to see whether they are as they were."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def pread(self, length: int, offset: int) -> bytes:
        """That many bytes of a plain file from `offset` on, fewer at its end."""
        pieces = []
        while length:
            chunk = os.pread(self._fd, length, offset)
            if not chunk:
                break
            pieces.append(chunk)
            length -= len(chunk)
            offset += len(chunk)
        return b"".join(pieces)

    def content(self, offset: int, length: int) -> Iterator[bytes]:
        """That many bytes of the content from `offset` on, in blocks; fewer at its end."""
        for chunk in self._content(offset):
            yield chunk[:length]
            length -= len(chunk)
            if length <= 0:
                break

    def tail_hash(self, end: int) -> bytes:
        """The digest of the last 64 KiB before `end`; of nothing for a compressed file."""
        start = max(0, end - TAIL_BYTES)
        data = b"" if self.compressed else self.pread(end - start, start)
        self.compared_bytes += len(data)
        return hashlib.sha256(data).digest()

    def changed(self) -> bool:
        """Whether what was read may be no state that the file had; an append is no change."""
        after = os.fstat(self._fd)
        if after.st_size == self.stat.st_size:
            return after.st_mtime_ns != self.stat.st_mtime_ns
        return after.st_size < self.stat.st_size or self.compressed

    def frames(
        self, most_bytes: int, *, start: int = 0, seq: int = 0, parse: bool = True
    ) -> Iterator[Frame]:
        """The complete lines from `start` on, of which the first is number `seq`.

        A line of more than `most_bytes` is oversized. Without `parse` none is looked into.
        """
        self.end = offset = start
        pieces: list[bytes] = []
        held = 0
        digest = None  # of an oversized line, once its bytes are no longer held
        for chunk in self._content(start):
            at = 0
            if pieces or digest is not None:
                newline = chunk.find(b"\n")
                part = chunk if newline < 0 else chunk[:newline]
                held += len(part)
                if digest is None:
                    pieces.append(part)
                    if held > most_bytes:
                        digest = hashlib.sha256(b"".join(pieces))
                        pieces = []
                else:
                    digest.update(part)
                if newline < 0:
                    continue
                if digest is not None:
                    yield Frame(seq, offset, held, digest.digest(), status="oversized")
                else:
                    yield _frame(seq, offset, b"".join(pieces), most_bytes, parse=parse)
                seq += 1
                offset += held + 1
                self.end = offset
                pieces, held, digest, at = [], 0, None, newline + 1
            lines = chunk[at:].split(b"\n") if at else chunk.split(b"\n")
            rest = lines.pop()
            for data in lines:
                yield _frame(seq, offset, data, most_bytes, parse=parse)
                seq += 1
                offset += len(data) + 1
                self.end = offset
            if rest:
                pieces, held = [rest], len(rest)
        self.tail = held > 0

    def _content(self, start: int) -> Iterator[bytes]:
        """Blocks of the content from `start` up to the size that the file had when opened."""
        if not self.compressed:
            left = self.stat.st_size - start
            while left > 0:
                chunk = os.pread(self._fd, min(BLOCK_BYTES, left), start)
                if not chunk:
                    raise DataError(f"{self.path}: became shorter while it was read; sync again")
                start += len(chunk)
                left -= len(chunk)
                yield chunk
            return
        import zstandard

        with open(os.dup(self._fd), "rb") as file:
            file.seek(0)
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            try:
                while chunk := reader.read(BLOCK_BYTES):
                    if start < len(chunk):
                        yield chunk[start:] if start else chunk
                    start = max(0, start - len(chunk))
            except zstandard.ZstdError:
                raise DataError(f"{self.path}: is not what zstd writes") from None


def _frame(seq: int, offset: int, data: bytes, most_bytes: int, *, parse: bool) -> Frame:
    sha256 = hashlib.sha256(data).digest()
    size = len(data)
    if size > most_bytes:
        return Frame(seq, offset, size, sha256, status="oversized")
    if not parse:
        return Frame(seq, offset, size, sha256)
    try:
        value = orjson.loads(data)
        if may_be_rounded(value, data):
            value = parse_json(data, beyond=True)[0]
    except ValueError:
        try:
            value = parse_json(data.removeprefix(_BOM) if seq == 0 else data, beyond=True)[0]
        except ValueError as error:
            said = str(error) if data.strip() else "empty"
            return Frame(seq, offset, size, sha256, status="malformed", error=said)
    return Frame(seq, offset, size, sha256, line=Line(seq + 1, offset, data, value))
