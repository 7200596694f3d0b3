"""What lies below a root that the user named, and nothing that lies elsewhere.

Regular files alone, in the order of their paths. Links are not followed: one whose target
lies below the same root is found at its own place, and any other is an issue. Source: seed
003, "Stable reads".
"""

from __future__ import annotations

import enum
import errno
import os
from typing import TYPE_CHECKING

from yarp.sources.beneath import Escapes, open_directory, open_file, placed
from yarp.sources.facts import Issue, Rejected
from yarp.sources.importers import SourceItem
from yarp.sources.jsonl import SourceChanged, Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def items_below(
    root: str,
    *,
    kind: str,
    suffixes: tuple[str, ...],
    database: bool = False,
    accept: Callable[[str], bool] | None = None,
    passes_over: Callable[[str], bool] | None = None,
) -> Iterator[SourceItem]:
    """An item for each regular file below `root` whose name ends with one of `suffixes`.

    `accept(relative_path)` may leave files out, `passes_over(relative_path)` directories and
    links, so that nothing is said of what is in them or where they lead. An item that is
    `refused` for each directory that cannot be read (`unreadable`) and for each link,
    directories' or of such a name, that leads out of the root (`path_escape`).
    """
    for path, issue in _walk(root, suffixes, passes_over):
        if issue is not None:
            yield SourceItem(kind, root, path, refused=issue)
        elif accept is None or accept(path):
            yield SourceItem(kind, root, path, database=database)


def files_below(
    root: str,
    suffixes: tuple[str, ...],
    passes_over: Callable[[str], bool] | None = None,
    unreadable: Callable[[str, str], None] | None = None,
) -> Iterator[str | Issue]:
    """As `items_below`: relative paths, and the issue of each that is refused.

    `unreadable` is told which directory cannot be read and why, since an issue names none.
    """
    for path, issue in _walk(root, suffixes, passes_over, unreadable):
        yield path if issue is None else issue


class _Kind(enum.Enum):
    LINK = enum.auto()
    DIRECTORY = enum.auto()
    FILE = enum.auto()
    OTHER = enum.auto()


def _walk(
    root: str,
    suffixes: tuple[str, ...],
    passes_over: Callable[[str], bool] | None,
    unreadable: Callable[[str, str], None] | None = None,
) -> Iterator[tuple[str, Issue | None]]:
    real = os.path.realpath(root)
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            entries = _entries(root, below)
        except Escapes:
            yield below, Issue("path_escape", "a link came in the place of a directory")
            continue
        except OSError as error:
            if error.errno != errno.ENOENT or not below:
                if unreadable is not None:
                    unreadable(below, error.strerror or str(error))
                what = f"a directory cannot be read: {error.strerror}"
                yield below, Issue("unreadable", what, "error")
            continue
        files = []
        for name, kind in entries:
            path = os.path.join(below, name)
            if passes_over is not None and kind is not _Kind.FILE and passes_over(path):
                continue
            if kind is _Kind.LINK:
                if _leads_out(os.path.join(root, path), real, suffixes):
                    what = "a link leads out of the root; it is not followed"
                    yield path, Issue("path_escape", what)
            elif kind is _Kind.DIRECTORY:
                pending.append(path)
            elif kind is _Kind.FILE and name.endswith(suffixes):
                files.append(path)
        for path in reversed(files):
            yield path, None


def _entries(root: str, below: str) -> list[tuple[str, _Kind]]:
    """Names and kinds of what a directory holds, from the last name to the first."""
    directory = open_directory(root, below, to_list=True)
    try:
        with os.scandir(directory) as scan:
            found = [(entry.name, _kind(entry)) for entry in scan]
    finally:
        os.close(directory)
    return sorted(found, key=lambda one: one[0], reverse=True)


def _kind(entry: os.DirEntry[str]) -> _Kind:
    if entry.is_file(follow_symlinks=False):
        return _Kind.FILE
    if entry.is_dir(follow_symlinks=False):
        return _Kind.DIRECTORY
    return _Kind.LINK if entry.is_symlink() else _Kind.OTHER


def _leads_out(path: str, root: str, suffixes: tuple[str, ...]) -> bool:
    target = os.path.realpath(path)
    if target == root or target.startswith(os.path.join(root, "")):
        return False
    return path.endswith(suffixes) or os.path.isdir(target)


def read_whole(root: str, path: str, most_bytes: int) -> bytes | None:
    """See `SourceItem.read_beside`."""
    real = os.path.realpath(root)
    try:
        target = os.path.realpath(os.path.join(real, path))
    except ValueError:  # what a record names may hold what no path can
        return None
    if not target.startswith(os.path.join(real, "")):
        return None
    try:
        fd = open_file(*placed(target, real))
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if found.st_size > most_bytes:
            raise Rejected("companion_too_large", f"a named file is longer than {most_bytes} bytes")
        pieces = []
        left = found.st_size
        while left:
            piece = os.read(fd, left)
            if not piece:
                raise SourceChanged
            pieces.append(piece)
            left -= len(piece)
        if Stat.of(os.fstat(fd)) != Stat.of(found):
            raise SourceChanged
    finally:
        os.close(fd)
    return b"".join(pieces)
