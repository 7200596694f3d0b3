r"""Lines of a JSON-lines file that somebody else may be writing, read stably.

A line ends at the byte `\n` and nowhere else. Only lines that were complete when the reading
began are read; a last line without its newline waits, even if it parses. A line that is no
JSON is an issue and is not handed on; nothing is repaired. Source: seed 003, "Stable reads".
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, Self

import orjson
from attrs import frozen

from yarp.sources.beneath import open_file, placed
from yarp.sources.facts import Issue, Issues, Rejected
from yarp.sources.values import has_long_number, may_be_rounded, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 256 << 20
"""A longer line is an issue: it would have to be held in memory as a whole."""

MOST_EXPANSION = 256
"""A compressed file that holds more than so many times its size, and 64 MiB, is rejected."""

_EXPANDED_BYTES = 64 << 20
# A kilobyte of zstd can hold 33 MB.
_COMPRESSED_BYTES = 1 << 10
_BOM = b"\xef\xbb\xbf"


class Line:
    """One complete line.

    `number` counts from 1, `offset` is that of its first byte in the file (for a compressed
    file, in its content), `data` its bytes without the newline, `value` the parsed JSON: numbers
    are exact whatever their size (see `values.Beyond`), and a lone surrogate has become U+FFFD.
    """

    __slots__ = ("_sha256", "data", "number", "offset", "value")

    def __init__(self, number: int, offset: int, data: bytes, value: Any) -> None:
        self.number = number
        self.offset = offset
        self.data = data
        self.value = value
        self._sha256: bytes | None = None

    @property
    def sha256(self) -> bytes:
        """The digest of `data`, worked out when first asked for."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self.data).digest()
        return self._sha256

    def __repr__(self) -> str:
        return f"Line(number={self.number}, offset={self.offset})"


@frozen
class Stat:
    """What tells one state of a file from another, without reading it."""

    device_id: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stat:
        """The part of `found` that counts."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class SourceChanged(Rejected):
    """The file was truncated, replaced or edited while it was read; an append is no change."""

    def __init__(self) -> None:
        super().__init__(
            "source_changed_during_read", "the source changed while it was read; read it again"
        )


class JsonlFile:
    """A JSON-lines file, plain or compressed with zstd (`.zst`), opened for one reading.

        with JsonlFile(path) as file:
            for line in file.lines(): ...
            file.verify()

    `issues` and `malformed` grow while lines are read. `malformed`: the numbers of lines that are
    no JSON; of several on end, the last one's.
    Raises OSError when the path is no regular file that can be read. No link is followed: in the
    place of the file, or of a directory below `root`.
    """

    def __init__(self, path: str, root: str | None = None) -> None:
        self.path = path
        self.issues = Issues()
        self.malformed: set[int] = set()
        self.compressed = path.endswith(".zst")
        self._fd = open_file(*placed(path, root))
        self.before = Stat.of(os.fstat(self._fd))
        self.complete_byte_count = 0
        """How many bytes of the file the complete lines read so far make."""
        self._digest = hashlib.sha256()
        self.marks: dict[int, bytes] = {}
        """For each length asked for with `mark`: the digest of that many first bytes."""
        self._wanted: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; more than once does no harm."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def prefix_sha256(self) -> bytes:
        """The digest of the first `complete_byte_count` bytes."""
        return self._digest.digest()

    @property
    def waits(self) -> bool:
        """Whether bytes of an incomplete last line were left for the next reading."""
        return self.complete_byte_count < self.before.size_bytes

    def mark(self, byte_count: int) -> None:
        """Ask, before reading, for the digest of the first `byte_count` bytes."""
        self._wanted = sorted({*self._wanted, byte_count})

    def lines(self) -> Iterator[Line]:
        """The complete lines that parse, in order. May be asked for once."""
        number = offset = 0
        for block in self._blocks():
            if block.startswith(b"\n") and not block.strip(b"\n"):
                number += len(block)
                offset += len(block)
                continue
            records = block.split(b"\n")
            records.pop()  # what follows the last newline: nothing
            for data in records:
                number += 1
                if not data:
                    offset += 1
                    continue
                try:
                    value = orjson.loads(data)
                    if may_be_rounded(value, data):
                        value, _ = parse_json(data, beyond=True)
                except ValueError:
                    value = self._odd(number, offset, data)
                if value is not _NOTHING:
                    yield Line(number, offset, data, value)
                offset += len(data) + 1

    def line_at(self, offset: int, number: int, length: int) -> Line:
        """Read once more the line that began at `offset` and had `length` bytes.

        Not for a compressed file, whose content has no places of its own (ValueError).
        """
        if self.compressed:
            raise ValueError("a compressed file is read from its beginning only")
        data = _pread(self._fd, length, offset)
        try:
            value = parse_json(data.removeprefix(_BOM) if offset == 0 else data, beyond=True)[0]
        except ValueError:
            raise SourceChanged from None
        return Line(number, offset, data, value)

    def verify(self) -> None:
        """Make sure that what was read is a state the file had. Raises SourceChanged.

        The file may have grown meanwhile: then its first bytes are read once more.
        """
        if self._grown() and (
            self.compressed or self.digest_of(self.complete_byte_count) != self.prefix_sha256
        ):
            raise SourceChanged

    def _grown(self) -> bool:
        """Whether the file has grown since it was opened. Raises SourceChanged for all else."""
        after = Stat.of(os.fstat(self._fd))
        try:
            named = os.lstat(self.path)
        except OSError:
            raise SourceChanged from None
        before = self.before
        if (named.st_dev, named.st_ino) != (before.device_id, before.inode):
            raise SourceChanged
        if after.size_bytes < before.size_bytes:
            raise SourceChanged
        if after.size_bytes == before.size_bytes and after.mtime_ns != before.mtime_ns:
            raise SourceChanged
        return after.size_bytes > before.size_bytes

    def require_unchanged(self) -> None:
        """Raises SourceChanged when the file is no longer as it was when it was opened."""
        if self._grown():
            raise SourceChanged

    def digest_of(self, byte_count: int) -> bytes:
        """The digest of the first `byte_count` bytes, read for this."""
        digest, place = hashlib.sha256(), 0
        while place < byte_count:
            chunk = os.pread(self._fd, min(BLOCK_BYTES, byte_count - place), place)
            if not chunk:
                raise SourceChanged
            digest.update(chunk)
            place += len(chunk)
        return digest.digest()

    def _blocks(self) -> Iterator[bytes]:
        """Bytes that end with a newline, in order: all complete lines, each block some of them."""
        pieces: list[bytes] = []
        held = 0
        for chunk in self._content() if self.compressed else self._raw():
            end = chunk.rfind(b"\n") + 1
            if not end:
                pieces.append(chunk)
                held += len(chunk)
                if held > LONGEST_LINE_BYTES:
                    raise Rejected("line_too_long", "a line is longer than 256 MiB")
                continue
            block = b"".join([*pieces, chunk[:end]]) if pieces else chunk[:end]
            pieces = [chunk[end:]] if end < len(chunk) else []
            held = len(chunk) - end
            if not self.compressed:
                self._complete(block)
            yield block
        if self.compressed:
            self.complete_byte_count = self.before.size_bytes

    def _complete(self, block: bytes) -> None:
        start = self.complete_byte_count
        self.complete_byte_count = end = start + len(block)
        view = memoryview(block)
        while self._wanted and self._wanted[0] <= end:
            place = self._wanted.pop(0)
            self._digest.update(view[: place - start])
            self.marks[place] = self._digest.digest()
            view, start = view[place - start :], place
        self._digest.update(view)

    def _raw(self) -> Iterator[bytes]:
        left = self.before.size_bytes
        while left:
            chunk = os.read(self._fd, min(BLOCK_BYTES, left))
            if not chunk:
                raise SourceChanged
            left -= len(chunk)
            yield chunk

    def _content(self) -> Iterator[bytes]:
        """What a compressed file holds; the digest is that of its own bytes."""
        import zstandard

        decompressor = zstandard.ZstdDecompressor()
        frame = decompressor.decompressobj()
        left = _EXPANDED_BYTES + MOST_EXPANSION * self.before.size_bytes
        try:
            for chunk in self._raw():
                self._digest.update(chunk)
                for start in range(0, len(chunk), _COMPRESSED_BYTES):
                    piece = chunk[start : start + _COMPRESSED_BYTES]
                    while piece:
                        if frame.eof:
                            frame = decompressor.decompressobj()
                        content = frame.decompress(piece)
                        left -= len(content)
                        if left < 0:
                            raise Rejected("expands_too_much", "the file expands too much")
                        for place in range(0, len(content), BLOCK_BYTES):
                            yield content[place : place + BLOCK_BYTES]
                        piece = frame.unused_data if frame.eof else b""
        except zstandard.ZstdError:
            raise Rejected("malformed_zstd", "the file is not what zstd writes") from None
        if not frame.eof:
            raise Rejected("malformed_zstd", "the compressed file ends too early")

    def _odd(self, number: int, offset: int, data: bytes) -> Any:
        """The value of a line that the fast parser refuses, or `_NOTHING` with an issue."""
        if not data.strip(b" \t\r"):
            return _NOTHING
        text = data.removeprefix(_BOM) if number == 1 else data
        hopeless = number > 1 and b"\\u" not in data and not has_long_number(data)
        if hopeless and self.issues.add_equal("malformed_jsonl"):
            self._malformed(number)
            return _NOTHING
        try:
            value, replaced = parse_json(text, beyond=True)
        except ValueError as error:
            self._malformed(number)
            self._report("malformed_jsonl", f"not a JSON record: {error}", number, offset, data)
            return _NOTHING
        if replaced:
            what = "a lone surrogate has become U+FFFD"
            self._report("lone_surrogate", what, number, offset, data)
        return value

    def _malformed(self, number: int) -> None:
        self.malformed.discard(number - 1)
        self.malformed.add(number)

    def _report(self, code: str, message: str, number: int, offset: int, data: bytes) -> None:
        if self.issues.add_equal(code):
            return
        digest = hashlib.sha256(data).digest()
        self.issues.add(
            Issue(code, message, line_number=number, byte_offset=offset, record_sha256=digest)
        )


class _Nothing:
    pass


_NOTHING = _Nothing()


def _pread(fd: int, length: int, offset: int) -> bytes:
    pieces = []
    while length:
        chunk = os.pread(fd, length, offset)
        if not chunk:
            raise SourceChanged
        pieces.append(chunk)
        length -= len(chunk)
        offset += len(chunk)
    return b"".join(pieces)
