"""The files of one running capture: made private at its start, grown, published at its end."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from yarp import canonical
from yarp.errors import StorageError
from yarp.spool import names, private
from yarp.spool.behind import Behind
from yarp.spool.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yarp.spool.declared import SpoolLocation

_ROOM_BYTES = 8 << 10
# From here on a thread takes the digests: it has as much to do as the one that writes.
_LARGE_BYTES = 4 << 20
_WRITE_BACK_BYTES = 32 << 20
_CONTINUES = 0b1000_0000  # the two high bits of every byte of a character but its first


class Refused(Exception):
    """No more may be kept; the argument is the reason."""


class Files:
    """Where a capture is stored. Everything here may block for as long as the disk likes.

    `committed[n]` bytes of stream n can be read by everybody who may.
    """

    def __init__(
        self,
        location: SpoolLocation,
        capture_id: str,
        streams: Sequence[str],
        *,
        text: bool,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        """Make the files; StorageError, with nothing left behind, when they cannot be."""
        self.capture_id = capture_id
        self._streams = tuple(streams)
        self._text = text
        self._write = write
        self._open: list[int] = []
        self.committed = [0 for _ in streams]
        self.line_ends = [0 for _ in streams]
        self._last = [b"" for _ in streams]
        self._on_its_way = [0 for _ in streams]
        self._behind: Behind | None = None
        self._hashes = [hashlib.sha256() for _ in streams]
        self._directory = private.open_directory(location.directory, below=location.conversation)
        base = location.conversation or location.directory
        self._prefix = os.path.relpath(location.directory, base)
        made = []
        try:
            for name in (
                names.lock(capture_id),
                names.room(capture_id),
                *(names.live(capture_id, stream) for stream in streams),
            ):
                self._open.append(private.create(self._directory, name))
                made.append(name)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._open[0], fcntl.LOCK_EX)
            private.write_all(self._open[1], bytes(_ROOM_BYTES))
        except (StorageError, OSError) as error:
            for name in made:
                private.remove(self._directory, name)
            self.close()
            if isinstance(error, OSError):
                raise StorageError(f"a spool cannot be created: {error.strerror}") from error
            raise
        self._quota = Quota(
            self._directory,
            capture_id,
            self._open[0],
            job_bytes=location.job_bytes,
            conversation_bytes=location.conversation_bytes,
        )

    def describe(self, record: dict[str, Any]) -> None:
        """Say whose output this is, in the place of what was said before; StorageError."""
        name, temporary = names.record(self.capture_id), names.record_to_come(self.capture_id)
        file = private.create(self._directory, temporary)
        try:
            try:
                private.write_all(file, canonical.encode(record) + b"\n")
            finally:
                os.close(file)
            os.rename(temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError as error:
            private.remove(self._directory, temporary)
            raise StorageError(f"{name} cannot be written: {error.strerror}") from error

    def append(self, stream: int, data: bytes) -> None:
        """Keep the next bytes of a stream.

        Raises Refused when not all of them may be kept, OSError when they cannot be written; what
        was kept of them counts as committed.
        """
        allowed = self._quota.allow(sum(self.committed) + len(data)) - sum(self.committed)
        kept = data
        if allowed < len(data):
            if self._text:
                while allowed > 0 and data[allowed] & 0b1100_0000 == _CONTINUES:
                    allowed -= 1
            kept = data[: max(0, allowed)]
        at = 0
        file = self._open[2 + stream]
        try:
            while at < len(kept):
                written = self._write(file, kept[at:] if at else kept)
                if not written:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                at += written
        finally:
            done = kept if at == len(kept) else kept[:at]
            self.committed[stream] += at
            self._digest(stream, done)
            if self._text and done:
                self.line_ends[stream] += done.count(b"\n")
                self._last[stream] = done[-1:]
        self._write_back(stream)
        if len(kept) < len(data):
            raise Refused(self._quota.reason)

    def _write_back(self, stream: int) -> None:
        """Have a large stream on its way to the disk, so that the last sync is a short one."""
        start, end = self._on_its_way[stream], self.committed[stream]
        if end - start >= _WRITE_BACK_BYTES and hasattr(os, "posix_fadvise"):
            # Linux begins to write what it is told it need not keep, and waits for nothing.
            with suppress(OSError):
                advice = os.POSIX_FADV_DONTNEED
                os.posix_fadvise(self._open[2 + stream], start, end - start, advice)
            self._on_its_way[stream] = end

    def _digest(self, stream: int, data: bytes) -> None:
        if self._behind is not None:
            self._behind.put(stream, data)
            return
        self._hashes[stream].update(data)
        if sum(self.committed) >= _LARGE_BYTES:
            update = [each.update for each in self._hashes]
            self._behind = Behind(lambda stream, data: update[stream](data), own=False)

    def _finish_digests(self) -> None:
        if self._behind is not None:
            self._behind.finish()
            self._behind = None

    def line_count(self, stream: int) -> int | None:
        """The lines of what is kept of a text; one without an end counts too."""
        if not self._text:
            return None
        return self.line_ends[stream] + (self._last[stream] not in (b"", b"\n"))

    def sha256(self, stream: int) -> str:
        """The digest of what is kept, in hexadecimal digits."""
        return str(self._hashes[stream].hexdigest())

    def reference(self, stream: int, *, final: bool) -> str:
        """Where a stream is kept, relative to the conversation."""
        name = (names.final if final else names.live)(self.capture_id, self._streams[stream])
        return os.path.normpath(os.path.join(self._prefix, name))

    def settle(self) -> None:
        """Have the streams on the disk, under their last names; OSError when they cannot be."""
        for stream, name in enumerate(self._streams):
            file = self._open[2 + stream]
            if os.fstat(file).st_size != self.committed[stream]:
                raise OSError(errno.EIO, "somebody else changed a spool file")
            os.fsync(file)
            private.also_call(
                self._directory,
                names.live(self.capture_id, name),
                names.final(self.capture_id, name),
            )
        self._finish_digests()

    def unsettle(self) -> None:
        """Take the last names back: without a receipt they would promise too much."""
        for name in self._streams:
            private.remove(self._directory, names.final(self.capture_id, name))

    def publish(self, receipt: bytes) -> None:
        """Publish the receipt, at once, and clear away what served the running capture."""
        room = self._open[1]
        os.lseek(room, 0, os.SEEK_SET)
        private.write_all(room, receipt)
        os.ftruncate(room, len(receipt))
        os.fsync(room)
        private.rename(self._directory, names.room(self.capture_id), names.receipt(self.capture_id))
        private.sync(self._directory)
        for stream in self._streams:
            private.remove(self._directory, names.live(self.capture_id, stream))
        private.remove(self._directory, names.record(self.capture_id))
        private.remove(self._directory, names.lock(self.capture_id))

    def abandon(self) -> None:
        """Let go of everything, and have nothing of it there: nobody was told of it."""
        names_of_it = (names.lock, names.room, names.record, names.record_to_come)
        for name in names_of_it:
            private.remove(self._directory, name(self.capture_id))
        for stream in self._streams:
            private.remove(self._directory, names.live(self.capture_id, stream))
        self.close()

    def close(self) -> None:
        """Let go of everything; what is not published by now is a leftover."""
        self._finish_digests()
        for file in (*self._open, self._directory):
            with suppress(OSError):
                os.close(file)
        self._open = []
