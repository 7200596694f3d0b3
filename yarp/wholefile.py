"""Text files of others, read whole and replaced whole: a link stays a link, a mode a mode."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from yarp.errors import DataError, StorageError


def read(path: str) -> str | None:
    """The text of a file; None: there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise StorageError(f"{path} is {kind}; move it away")
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        where = f"{path}: byte {error.start} is not UTF-8"
        raise DataError(f"{where}; nothing was changed") from error


def replace(path: str, data: bytes, mode: int | None) -> None:
    """Put `data` at `path` by a rename; `mode` None: the one it has, or the usual one."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.new")
    try:
        found = os.stat(path) if os.path.exists(path) else None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, mode or 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if found is not None and mode is None:
                    with suppress(PermissionError):  # another's file, which becomes ours
                        os.fchown(file.fileno(), found.st_uid, found.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def require_writable(path: str) -> None:
    """StorageError where `path`, or what it links to, could not be replaced."""
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    if not os.path.isdir(directory):
        raise StorageError(f"{directory} is not a directory; move it away")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StorageError(f"{path} cannot be written: {directory} is not writable")
    # The mode counts for the superuser too: somebody meant it.
    if os.path.exists(target) and (
        not os.stat(target).st_mode & 0o222 or not os.access(target, os.W_OK)
    ):
        raise StorageError(f"{path} is read-only; make it writable first")
