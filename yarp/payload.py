"""Payloads: exact bytes with their digest, stored as they are or as Zstandard.

Small ones live in memory. A stream that grows large is hashed, checked for UTF-8 and compressed
as it arrives, into an unlinked private file, so that memory stays bounded whatever its size.
Source: seed 000, Payload encoding; spec "Archive", Payloads.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from _codecs import utf_8_decode

from yarp import canonical
from yarp.errors import ArchiveCorrupt, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"

# Below this, loading and framing zstd costs more than it saves (spec "Archive", Payloads).
COMPRESS_FROM_BYTES = 512
ZSTD_LEVEL = 3
# A stream stays in memory up to here; a call's six payloads then need a few MiB at most.
_MEMORY_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20
_COPY_BYTES = 1 << 18


class Payload:
    """Immutable bytes, ready to be stored.

    `sha256` and `byte_length` describe the uncompressed bytes. The stored body is in `body`, or,
    for large ones, in `file`: the descriptor of an unlinked private file of `stored_length` bytes.
    """

    __slots__ = ("body", "byte_length", "compression", "file", "sha256", "stored_length")

    def __init__(
        self,
        sha256: bytes,
        compression: str,
        byte_length: int,
        stored_length: int,
        body: bytes | None,
        file: int | None = None,
    ) -> None:
        self.sha256 = sha256
        self.compression = compression
        self.byte_length = byte_length
        self.stored_length = stored_length
        self.body = body
        self.file = file

    def close(self) -> None:
        """Give the spill file back; a payload in memory has none."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def of(data: bytes) -> Payload:
    """The payload of bytes that are in memory."""
    body, compression = data, "none"
    if len(data) >= COMPRESS_FROM_BYTES:
        compressed = _new_compressor().compress(data)
        if _worthwhile(len(compressed), len(data)):
            body, compression = compressed, "zstd"
    return Payload(canonical.sha256(data), compression, len(data), len(body), body)


def of_json(value: object) -> Payload:
    """The payload of a JSON value in its canonical bytes."""
    return of(canonical.encode(value))


def decode(compression: str, byte_length: int, sha256: bytes, body: bytes) -> bytes:
    """The uncompressed bytes of a stored body; ArchiveCorrupt when they are not what was stored."""
    data = body
    if compression == "zstd":
        module = zstd()
        try:
            # A frame names its own size, and zstd would allocate all of a damaged one.
            if module.frame_content_size(body) not in (-1, byte_length):
                raise ArchiveCorrupt(f"payload {sha256.hex()} is of another length")
            data = module.ZstdDecompressor().decompress(body, max_output_size=byte_length)
        except module.ZstdError as error:
            raise ArchiveCorrupt(f"payload {sha256.hex()} does not decompress: {error}") from None
    check(sha256, byte_length, canonical.sha256(data), len(data))
    return data


def check(sha256: bytes, byte_length: int, found_sha256: bytes, found_length: int) -> None:
    """Raise ArchiveCorrupt unless a decoded payload is what was stored."""
    if found_length != byte_length:
        raise ArchiveCorrupt(
            f"payload {sha256.hex()} has {found_length} bytes instead of {byte_length}"
        )
    if found_sha256 != sha256:
        raise ArchiveCorrupt(f"payload {sha256.hex()} hashes to {found_sha256.hex()}")


def private_file(directory: str) -> int:
    """The descriptor of a new unlinked file of mode 0600 in `directory`."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        # Without a name at any moment, a killed writer leaves nothing behind.
        return os.open(directory, flags | os.O_TMPFILE, 0o600)
    except (AttributeError, OSError):  # another system, or a file system that cannot
        pass
    path = os.path.join(directory, f".spill-{os.getpid()}-{os.urandom(8).hex()}")
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    except OSError as error:
        raise StorageError(f"{directory}: no spill file: {error.strerror}") from error
    return file


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all of `data` to a spill file; StorageError when the disk will not take it."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(file, view) :]
    except OSError as error:
        raise StorageError(f"a spill file cannot be written: {error.strerror}") from error


def zstd() -> Any:
    """The zstandard module, or its C part alone when nothing has loaded the package yet.

    The package's own start costs as much again as a bare interpreter, its C part a tenth.
    """
    package = sys.modules.get("zstandard")
    if package is not None:
        return package
    name = "zstandard.backend_c"
    module = sys.modules.get(name)
    if module is None:
        try:
            module = load_alone("zstandard", name)
        except (ImportError, AttributeError):
            import zstandard

            return zstandard
    return module


def load_alone(package: str, name: str) -> Any:
    """The extension module `name` of `package` without running the package's own start.

    Raises ImportError or AttributeError where this Python or the package is built otherwise.
    """
    from importlib._bootstrap import module_from_spec
    from importlib.machinery import PathFinder

    parent = PathFinder.find_spec(package)
    if parent is None:
        raise ImportError(package)
    spec = PathFinder.find_spec(name, parent.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def _new_compressor() -> Any:
    return zstd().ZstdCompressor(level=ZSTD_LEVEL)


def utf8(text: str) -> bytes:
    """A host's text as UTF-8; lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _worthwhile(compressed_length: int, byte_length: int) -> bool:
    return compressed_length * 100 <= byte_length * 95


class PayloadWriter:
    """Makes a payload of a stream in bounded memory, whatever its size.

    Spill files are made in `directory` (the archive's own) and unlinked at once. After `finish`,
    `is_text` says whether the whole stream was valid UTF-8. A failing disk raises StorageError
    from `write` or `finish`.
    """

    __slots__ = ("_blocks", "_directory", "_pending", "_spill", "is_text")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._blocks: list[bytes] = []
        self._pending = 0
        self._spill: _Spill | None = None
        self.is_text = True

    @property
    def media_type(self) -> str:
        """The media type of a finished stream."""
        return TEXT if self.is_text else BINARY

    def write(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes of the stream; they are copied when not `bytes`."""
        self._blocks.append(bytes(chunk))
        self._pending += len(chunk)
        if self._pending >= _BLOCK_BYTES:
            if self._spill is None:
                self._spill = _Spill(self._directory)
            self._spill.feed(self._take())

    def in_memory(self) -> bytes | None:
        """All that was written, while it is still in memory."""
        return None if self._spill is not None else b"".join(self._blocks)

    def finish(self) -> Payload:
        """The payload of all that was written."""
        data = self._take()
        if self._spill is not None:
            self._spill.feed(data)
            payload, self.is_text = self._spill.finish()
            return payload
        self.is_text = _is_utf8(data)
        return of(data)

    def abandon(self) -> None:
        """Drop the stream and its spill file."""
        self._take()
        if self._spill is not None:
            self._spill.abandon()
            self._spill = None

    def _take(self) -> bytes:
        data = self._blocks[0] if len(self._blocks) == 1 else b"".join(self._blocks)
        self._blocks = []
        self._pending = 0
        return data


def _is_utf8(data: bytes) -> bool:
    try:
        utf_8_decode(data, "strict", True)
    except UnicodeDecodeError:
        return False
    return True


def of_file(
    path: str, directory: str, feed: Callable[[bytes], None] | None = None
) -> tuple[Payload, str]:
    """The bytes of a regular file and their media type, in bounded memory.

    `feed` gets each piece as it is read. Links are not followed. Raises StorageError for what is
    no such file, cannot be read, or changes size meanwhile.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is no path"
        raise StorageError(f"the host's full output cannot be read: {reason}") from error
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise StorageError("the host's full output is not a regular file")
        writer = PayloadWriter(directory)
        try:
            while chunk := os.read(descriptor, _BLOCK_BYTES):
                writer.write(chunk)
                if feed is not None:
                    feed(chunk)
            whole = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        if not before.st_size == os.fstat(descriptor).st_size == whole.byte_length:
            whole.close()
            raise StorageError("the host's full output changed while it was read")
    finally:
        os.close(descriptor)
    return whole, writer.media_type


class _Spill:
    """A large stream: hashed, checked and compressed into a file.

    One that begins with what does not shrink is likely to be stored as it is: its bytes go to the
    file, and of its compressed form only the length is kept.
    """

    __slots__ = (
        "_byte_length",
        "_compressed_length",
        "_compressor",
        "_directory",
        "_file",
        "_hash",
        "_raw",
        "_rest",
        "_text",
    )

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file = private_file(directory)
        self._hash = canonical.new_sha256(large=True)
        self._compressor = _new_compressor().compressobj()
        self._byte_length = self._compressed_length = 0
        self._raw = False
        self._rest = b""  # the beginning of a code point whose end is in the next block
        self._text = True

    def feed(self, block: bytes) -> None:
        if not self._byte_length:
            self._raw = not _worthwhile(len(_new_compressor().compress(block)), len(block))
        self._byte_length += len(block)
        self._hash.update(block)
        if self._text:
            self._check_text(block, final=False)
        compressed = self._compressor.compress(block)
        self._compressed_length += len(compressed)
        write_all(self._file, block if self._raw else compressed)

    def finish(self) -> tuple[Payload, bool]:
        if self._text:
            self._check_text(b"", final=True)
        compressed = self._compressor.flush()
        self._compressed_length += len(compressed)
        if not self._raw:
            write_all(self._file, compressed)
        compression = "none"
        if _worthwhile(self._compressed_length, self._byte_length):
            compression = "zstd"
        if self._raw == (compression == "zstd"):
            self._rewrite()
        stored_length = os.lseek(self._file, 0, os.SEEK_END)
        payload = Payload(
            self._hash.digest(), compression, self._byte_length, stored_length, None, self._file
        )
        return payload, self._text

    def abandon(self) -> None:
        os.close(self._file)

    def _check_text(self, block: bytes, *, final: bool) -> None:
        data = self._rest + block if self._rest else block
        try:
            used = utf_8_decode(data, "strict", final)[1]
        except UnicodeDecodeError:
            self._text = False
        else:
            self._rest = data[used:]

    def _rewrite(self) -> None:
        """Bring the file into its other form: the stream went on unlike it began."""
        file = private_file(self._directory)
        try:
            os.lseek(self._file, 0, os.SEEK_SET)
            source = io.FileIO(self._file, closefd=False)
            if self._raw:
                compressor = _new_compressor().compressobj()
                while block := source.read(_BLOCK_BYTES):
                    write_all(file, compressor.compress(block))
                write_all(file, compressor.flush())
            else:
                for block in blocks("zstd", source, self._hash.digest()):
                    write_all(file, block)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file = file


def blocks(compression: str, source: Any, sha256: bytes) -> Iterator[bytes]:
    """The uncompressed blocks of a stored body, each of bounded size; not yet verified.

    `source.read(size)` gives the body. A few bytes of zstd can stand for gigabytes, so it is
    the output that is bounded. Raises ArchiveCorrupt for what does not decompress.
    """
    if compression == "none":
        while block := source.read(_COPY_BYTES):
            yield block
        return
    module = zstd()
    try:
        yield from module.ZstdDecompressor().read_to_iter(
            source, read_size=_COPY_BYTES, write_size=_COPY_BYTES
        )
    except module.ZstdError as error:
        raise ArchiveCorrupt(f"payload {sha256.hex()} does not decompress: {error}") from None
