"""Private directories and files, made so that nobody can slip a link or a name under them.

Every step goes through a descriptor of the directory before it, and follows no link. What is made
is made private whatever the umask; what exists is never chmod-ed and never overwritten. Source:
seed 004, "Namespace, permissions and access".
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from yarp.errors import DataError, StorageError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def open_directory(path: str, *, below: str | None = None, create: bool = True) -> int:
    """A descriptor of the directory `path`; what is missing is made with mode 0700.

    `below` is an existing directory at or above `path`, taken as it is; no part of the path under
    it may be a link. None: no part at all may. Raises StorageError for links, for what is no
    directory, and for a directory in which others could rename files; DataError where `path`
    is not below `below`, or is missing and `create` is False.
    """
    anchor, parts = _split(path, below)
    try:
        directory = os.open(anchor, _DIRECTORY)
    except OSError as error:
        raise StorageError(f"{anchor} cannot be opened: {error.strerror}") from error
    at = anchor
    for part in parts:
        at = os.path.join(at, part)
        try:
            below_it = _enter(directory, part, at, create=create)
        finally:
            os.close(directory)
        directory = below_it
    try:
        _require_ours(directory, path)
    except BaseException:
        os.close(directory)
        raise
    return directory


def _split(path: str, below: str | None) -> tuple[str, list[str]]:
    if not os.path.isabs(path) or "\0" in path:
        raise DataError("a spool directory must be an absolute path")
    anchor = "/" if below is None else below
    parts = [part for part in path.split("/") if part not in ("", ".")]
    above = [part for part in anchor.split("/") if part not in ("", ".")]
    if ".." in parts or ".." in above or parts[: len(above)] != above:
        raise DataError(f"{path} does not lie below {anchor}")
    return anchor, parts[len(above) :]


def _enter(directory: int, name: str, path: str, *, create: bool) -> int:
    """A descriptor of the directory `name` in `directory`, made when it is missing."""
    while True:
        try:
            return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        except FileNotFoundError:
            if not create:
                raise DataError(f"{path} does not exist") from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise StorageError(
                    f"{path} is a link or no directory; spools follow no links"
                ) from None
            raise StorageError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            os.mkdir(name, 0o700, dir_fd=directory)
        except FileExistsError:
            continue  # another process was faster
        except OSError as error:
            raise StorageError(f"{path} cannot be created: {error.strerror}") from error
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
            _narrow(directory, name, path)


def _narrow(directory: int, name: str, path: str) -> None:
    """Give a directory that was just made here the owner's bits that a umask took."""
    try:
        if os.chmod in os.supports_follow_symlinks:
            os.chmod(name, 0o700, dir_fd=directory, follow_symlinks=False)
            return
        opened = os.open(
            name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
        try:
            if os.fstat(opened).st_uid == os.geteuid():
                os.chmod(f"/proc/self/fd/{opened}", 0o700)
        finally:
            os.close(opened)
    except OSError as error:
        raise StorageError(f"{path} cannot be made private: {error.strerror}") from error


def _require_ours(directory: int, path: str) -> None:
    found = os.fstat(directory)
    if found.st_uid not in (os.geteuid(), 0):
        raise StorageError(f"{path} belongs to another user")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise StorageError(f"others can write to {path}; run: chmod go-w '{path}'")


def create(directory: int, name: str) -> int:
    """A descriptor to write the new file `name`, mode 0600; StorageError when it exists."""
    try:
        file = os.open(name, os.O_RDWR | _NEW, 0o600, dir_fd=directory)
    except OSError as error:
        raise StorageError(f"{name} cannot be created: {error.strerror}") from error
    with suppress(OSError):  # a file system without modes
        if os.fstat(file).st_mode & 0o777 != 0o600:
            os.fchmod(file, 0o600)
    return file


def open_file(directory: int, name: str) -> int:
    """A descriptor to read the regular file `name`; DataError: there is none."""
    try:
        file = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory
        )
    except FileNotFoundError:
        raise DataError(f"{name} does not exist") from None
    except OSError as error:
        raise StorageError(f"{name} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise StorageError(f"{name} is no regular file")
    return file


def read_file(directory: int, name: str, limit: int) -> bytes:
    """The bytes of a small file; DataError: it is missing, or longer than `limit`."""
    file = open_file(directory, name)
    try:
        data = b""
        while len(data) <= limit and (part := os.read(file, limit + 1 - len(data))):
            data += part
    except OSError as error:
        raise StorageError(f"{name} cannot be read: {error.strerror}") from error
    finally:
        os.close(file)
    if len(data) > limit:
        raise DataError(f"{name} is longer than {limit} bytes")
    return data


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all of `data`; OSError when it cannot be."""
    view = memoryview(data)
    while view:
        written = os.write(file, view)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view = view[written:]


def publish(directory: int, name: str, data: bytes) -> None:
    """Have the new file `name` with just these bytes, at once and on the disk, or not at all.

    Raises StorageError, with nothing left behind, when it cannot be written or `name` exists.
    """
    temporary = f".{os.urandom(16).hex()}.new"
    file = create(directory, temporary)
    try:
        try:
            write_all(file, data)
            # Before the name appears: a crash may keep the new name and lose the bytes.
            os.fsync(file)
        finally:
            os.close(file)
        rename(directory, temporary, name)
        sync(directory)
    except OSError as error:
        raise StorageError(f"{name} cannot be written: {error.strerror}") from error
    finally:
        remove(directory, temporary)


def also_call(directory: int, old: str, new: str) -> None:
    """Give a file of ours a second name, which must be free; OSError when it is not.

    Where a file can have but one name, it is the new one.
    """
    try:
        os.link(old, new, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Take the name first, then put the file over what is our own.
        os.close(os.open(new, os.O_WRONLY | _NEW, 0o600, dir_fd=directory))
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)


def rename(directory: int, old: str, new: str) -> None:
    """Give a file of ours another name, which must be free; OSError when it is not."""
    also_call(directory, old, new)
    remove(directory, old)


def remove(directory: int, name: str) -> None:
    """Remove a file of ours, if it is there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)


def sync(directory: int) -> None:
    """Have the names in a directory on the disk, where the system can."""
    with suppress(OSError):
        os.fsync(directory)
