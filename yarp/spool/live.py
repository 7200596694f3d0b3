"""Captures as others see them: running, finished, or left behind; and reads of their streams.

Readers see committed bytes alone. A cursor counts bytes of one stream for one consumer, and
moves for nobody else; what replaces the file under it makes it invalid, and is never mixed in.
What a killed owner left is reported as partial and never becomes complete. Source: seed 004,
"Live reads and immutable completion".
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from yarp import canonical
from yarp.errors import DataError, StorageError
from yarp.spool import names, private, quota, receipt
from yarp.spool.receipt import (
    CaptureState,
    ProcessState,
    Receipt,
    ReferenceState,
    StreamReceipt,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.spool.declared import SpoolLocation

_RECEIPT_BYTES = 64 << 10
READ_BYTES = 64 << 10
"""What one read gives at most, unless it says otherwise."""


class CursorInvalid(DataError):
    """The file under a cursor is not the one that it began with; begin anew."""


@contextmanager
def _opened(location: SpoolLocation) -> Iterator[int]:
    directory = private.open_directory(
        location.directory, below=location.conversation, create=False
    )
    try:
        yield directory
    finally:
        os.close(directory)


def captures(location: SpoolLocation) -> list[Receipt]:
    """The receipts of all captures in a conversation, oldest first.

    One of a running capture is pending; one that its owner left behind is partial, with reason
    `interrupted`. A receipt that cannot be read is left out: `find` says why.
    """
    found = []
    with _opened(location) as directory:
        ids = set()
        for name in os.listdir(directory):
            capture_id = name.split(".")[0]
            if name in (names.record(capture_id), names.receipt(capture_id)):
                ids.add(capture_id)
        for capture_id in ids:
            try:
                found.append(_find(directory, location, names.require_id(capture_id)))
            except (DataError, StorageError):
                continue
    return sorted(found, key=lambda one: (one.created_at_ms or 0, one.capture_id))


def find(location: SpoolLocation, capture_id: str) -> Receipt:
    """The receipt of one capture, whatever its state. DataError: there is none, or it is broken."""
    names.require_id(capture_id)
    with _opened(location) as directory:
        return _find(directory, location, capture_id)


def _find(directory: int, location: SpoolLocation, capture_id: str) -> Receipt:
    published = _published(directory, capture_id)
    if published is not None:
        return published
    try:
        data = private.read_file(directory, names.record(capture_id), _RECEIPT_BYTES)
    except DataError:
        published = _published(directory, capture_id)  # it finished in between
        if published is not None:
            return published
        raise DataError(f"{location.directory} holds no capture {capture_id}") from None
    running = quota.is_running(directory, capture_id)
    # It may have finished since, and a finished one holds no lock either.
    return _published(directory, capture_id) or _unfinished(
        directory, location, capture_id, data, running=running
    )


def _published(directory: int, capture_id: str) -> Receipt | None:
    name = names.receipt(capture_id)
    try:
        data = private.read_file(directory, name, _RECEIPT_BYTES)
    except DataError:
        return None
    # Where files can have but one name, it is there, and empty, for a moment.
    return receipt.decode(data, name) if data else None


def _unfinished(
    directory: int, location: SpoolLocation, capture_id: str, data: bytes, *, running: bool
) -> Receipt:
    """What can be said of a capture without a receipt: what its files show, and no more."""
    name = names.record(capture_id)
    try:
        record: Any = canonical.parse(data.decode())
        said = receipt.of_record(record)
        streams = [names.require_stream(stream) for stream in record["streams"]]
    except receipt.MALFORMED as error:
        raise DataError(f"{name} is no record of this version") from error
    kept = []
    base = location.conversation or location.directory
    for stream in streams:
        live_name = names.live(capture_id, stream)
        try:
            file = private.open_file(directory, live_name)
        except DataError:
            kept.append(StreamReceipt(stream))
            continue
        size = os.fstat(file).st_size
        os.close(file)
        reference = os.path.relpath(os.path.join(location.directory, live_name), base)
        kept.append(
            StreamReceipt(
                stream, committed=size, retained_start=0, retained_end=size, reference=reference
            )
        )
    return Receipt(
        **{**said, "capture_id": capture_id},
        process=ProcessState.RUNNING if running else None,
        capture=CaptureState.PENDING if running else CaptureState.PARTIAL,
        capture_reason=None if running else "interrupted",
        streams=tuple(kept),
        reference_state=ReferenceState.LOCAL,
    )


class Cursor:
    """Where one consumer stands in one stream; `offset` is of the representation.

    It reads a live stream and goes on in the finished one. Give `generation` with an offset that
    was kept: it says which file it belongs to.
    """

    def __init__(
        self,
        location: SpoolLocation,
        capture_id: str,
        stream: str,
        *,
        offset: int = 0,
        generation: str | None = None,
    ) -> None:
        if offset < 0:
            raise DataError("an offset is never negative")
        self._location = location
        self._capture_id = names.require_id(capture_id)
        self._stream = names.require_stream(stream)
        self.offset = offset
        self.generation = generation

    def read(self, byte_length: int = READ_BYTES) -> bytes:
        """The next bytes, as many as are committed and asked for; the cursor moves behind them.

        They end between characters where the stream is text, but for a last character that is
        broken off for good. Raises CursorInvalid, and DataError for a capture that is not there.
        """
        with _opened(self._location) as directory:
            file = _stream_file(directory, self._capture_id, self._stream)
            try:
                found = os.fstat(file)
                generation = f"{found.st_dev:x}-{found.st_ino:x}"
                if self.generation not in (None, generation) or found.st_size < self.offset:
                    raise CursorInvalid(
                        f"the file of {self._capture_id}.{self._stream} was replaced; begin anew"
                    )
                self.generation = generation
                data = os.pread(file, byte_length, self.offset)
            except OSError as error:
                raise StorageError(
                    f"{self._capture_id}.{self._stream} cannot be read: {error.strerror}"
                ) from error
            finally:
                os.close(file)
        data = aligned(data)
        self.offset += len(data)
        return data

    def text(self, byte_length: int = READ_BYTES) -> str:
        """The next bytes as text."""
        return self.read(byte_length).decode(errors="replace")


def _stream_file(directory: int, capture_id: str, stream: str) -> int:
    for name in (
        names.final(capture_id, stream),
        names.live(capture_id, stream),
        names.final(capture_id, stream),  # it finished in between
    ):
        try:
            return private.open_file(directory, name)
        except DataError:
            continue
    raise DataError(f"there is no stream {stream} of capture {capture_id}")


def aligned(data: bytes) -> bytes:
    """The bytes without the beginning of a character at their end, if there is more before it."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needs > back else data
    return data


def claim(location: SpoolLocation, capture_id: str) -> bool:
    """Whether the one automatic completion of a capture is the caller's to tell; True once, ever.

    Reads have no part in it, and one that still runs has no completion. Raises StorageError when
    the marker cannot be stored.
    """
    name = names.delivered(names.require_id(capture_id))
    with _opened(location) as directory:
        if _find(directory, location, capture_id).capture is CaptureState.PENDING:
            return False
        try:
            file = os.open(
                name,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=directory,
            )
        except FileExistsError:
            return False
        except OSError as error:
            raise StorageError(f"{name} cannot be created: {error.strerror}") from error
        os.close(file)
        return True
