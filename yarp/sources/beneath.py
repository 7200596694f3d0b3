r"""Places below a root: opened and looked at without following a link, and shown as text.

The root is whatever its path leads to. Below it each directory is opened in the one above, so
that none can be swapped for a link between finding a file and reading it. Source: seed 003,
"Stable reads".
"""

from __future__ import annotations

import errno
import os
import re
import stat

_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC
# Where the system knows it: passing through a directory takes no right to list it.
_PASSING = _DIRECTORY | getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIKE_AN_ESCAPE = re.compile(r"\\x[0-9a-f]{2}")


class Escapes(OSError):
    """A path leads through a link below its root, or out of it."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "a link stands in its path; it is not followed", path)


def placed(path: str, root: str | None = None) -> tuple[str, str]:
    """A directory, and where the file at `path` lies below it.

    It is `root`, or the file's own where there is none or `root` is the file itself. Raises
    `Escapes` for a path that does not lie there.
    """
    if root is None or path == root:
        above, name = os.path.split(path)
        return above or os.curdir, name
    start = os.path.join(root, "")
    if not path.startswith(start):
        raise Escapes(path)
    return root, path[len(start) :]


def open_file(root: str, path: str) -> int:
    """A descriptor of the regular file at `path` below `root`, to read.

    Raises `Escapes`, and OSError for what is no regular file that can be read.
    """
    above, name = os.path.split(path)
    directory = open_directory(root, above)
    try:
        fd = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Escapes(path) from None
        raise
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def stat_of(root: str, path: str) -> os.stat_result:
    """What stands at `path` below `root`, a link as such. Raises `Escapes` and OSError."""
    above, name = os.path.split(path)
    directory = open_directory(root, above)
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(directory)


def open_directory(root: str, path: str = "", *, to_list: bool = False) -> int:
    """A descriptor of the directory at `path` below `root`; `to_list`: for `os.scandir` too.

    Raises `Escapes`, and OSError for what is no directory that can be entered.
    """
    names = path.split(os.sep) if path else []
    last = _DIRECTORY | os.O_RDONLY if to_list else _PASSING
    fd = os.open(root, _PASSING if names else last)
    for number, name in enumerate(names, 1):
        try:
            if name == os.pardir:
                raise Escapes(path)
            flags = last if number == len(names) else _PASSING
            inner = os.open(name or os.curdir, flags | os.O_NOFOLLOW, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, fd):
                raise Escapes(path) from None
            raise
        finally:
            os.close(fd)
        fd = inner
    return fd


def _is_link(name: str, directory: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def shown(path: str) -> str:
    r"""A path as the dataset keeps it: itself, or bytes that are no UTF-8 as escapes (`\xff`).

    No two paths look the same: where there are escapes, or what reads like one, each backslash
    of the path itself is written twice.
    """
    data = os.fsencode(path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\") if _LIKE_AN_ESCAPE.search(text) else text
