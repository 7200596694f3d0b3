"""Which bytes of a call are recovered, and reading them in bounded memory.

`yarp.archive.read` offers the sources of a call in the recovery order of seed 000 (Payload
encoding); here one is chosen by name and opened. A small one is held in memory, a large one
lies in an unlinked private file; both are verified before the first byte is given out.
"""

from __future__ import annotations

import os

from yarp.errors import ReferenceUnknown, StorageError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Source(Protocol):
        """One recoverable stream or text of a call."""

        name: str
        completeness: str
        byte_length: int
        sha256: bytes

    class Payloads(Protocol):
        """What the archive's reader offers here."""

        def payload(self, sha256: bytes) -> bytes:
            """Verified bytes."""

        def payload_file(self, sha256: bytes, directory: str) -> int:
            """A descriptor of the verified bytes in an unlinked private file."""


MEMORY_BYTES = 4 << 20
_STEP_BYTES = 1 << 16

# The one member of what `yarp archive redact` leaves in place of a payload.
_TOMBSTONE = b'{"yarpRedacted":{'
_TOMBSTONE_BYTES = 256

COMPLETE = {"complete": "true", "incomplete": "false", "unknown": "unknown"}


def pick(sources: Sequence[Source], name: str | None) -> Source:
    """The source called `name`, or the only one. Raises ReferenceUnknown or UsageError."""
    names = ", ".join(source.name for source in sources)
    if name is None:
        if len(sources) == 1:
            return sources[0]
        raise UsageError(f"this call has the sources {names}; name one of them after the reference")
    for source in sources:
        if source.name == name:
            return source
    raise ReferenceUnknown(f"this call has no source {name}; it has: {names}")


class Text:
    """The bytes of one source, read by offset; in memory (`data`) or in a private `file`."""

    __slots__ = ("data", "file", "length")

    def __init__(self, length: int, data: bytes | None = None, file: int = -1) -> None:
        self.length = length
        self.data = data
        self.file = file

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, or to the source's end when that comes first."""
        if self.data is not None:
            return self.data[start:end]
        end = min(end, self.length)
        parts = []
        while start < end:
            try:
                part = os.pread(self.file, end - start, start)
            except OSError as error:
                raise StorageError(f"a spill file cannot be read: {error.strerror}") from error
            if not part:
                raise StorageError("a spill file ended early; check the disk it lies on")
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def newline_from(self, start: int) -> int:
        """Where the first newline at or after `start` is; -1 when there is none."""
        if self.data is not None:
            return self.data.find(b"\n", start)
        step = _STEP_BYTES
        while start < self.length:
            block = self.read(start, start + step)
            at = block.find(b"\n")
            if at >= 0:
                return start + at
            start += len(block)
            step = 1 << 20
        return -1

    def newline_before(self, end: int) -> int:
        """Where the last newline before `end` is; -1 when there is none."""
        if self.data is not None:
            return self.data.rfind(b"\n", 0, end)
        step = _STEP_BYTES
        while end > 0:
            start = max(0, end - step)
            at = self.read(start, end).rfind(b"\n")
            if at >= 0:
                return start + at
            end = start
            step = 1 << 20
        return -1

    def close(self) -> None:
        """Give a file back."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def is_tombstone(data: bytes) -> bool:
    """Whether `data` is what `yarp archive redact` leaves in place of a payload."""
    return len(data) <= _TOMBSTONE_BYTES and data.startswith(_TOMBSTONE)


def is_redacted(text: Text) -> bool:
    """Whether a tombstone stands where the source's bytes were."""
    return text.length <= _TOMBSTONE_BYTES and is_tombstone(text.read(0, text.length))


def open_text(payloads: Payloads, source: Source, directory: str) -> Text:
    """The verified bytes of `source`.

    A large one goes to an unlinked file in `directory` (the archive's own), or in TMPDIR when
    that one takes no file. Raises ArchiveCorrupt when the bytes are not what was stored.
    """
    if source.byte_length <= MEMORY_BYTES:
        return Text(source.byte_length, payloads.payload(source.sha256))
    try:
        file = payloads.payload_file(source.sha256, directory)
    except StorageError:
        elsewhere = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the file is unlinked at once
        if elsewhere == directory:
            raise
        file = payloads.payload_file(source.sha256, elsewhere)
    return Text(source.byte_length, None, file)
