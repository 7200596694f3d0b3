"""What lies below a root that the user named, and nothing that lies elsewhere.

Regular files alone, in the order of their paths. Links are not followed: one whose target
lies below the same root is found at its own place, and any other is an issue. Source: seed
003, "Stable reads".
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

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
) -> Iterator[SourceItem | Issue]:
    """An item for each regular file below `root` whose name ends with one of `suffixes`.

    `accept(relative_path)` may leave files out, `passes_over(relative_path)` directories and
    links, so that nothing is said of what is in them or where they lead. An `Issue` for each
    directory that cannot be read (`unreadable`) and for each link, directories' or of such a
    name, that leads out of the root (`path_escape`).
    """
    for found in files_below(root, suffixes, passes_over):
        if isinstance(found, Issue):
            yield found
        elif accept is None or accept(found):
            yield SourceItem(kind, root, found, database=database)


def files_below(
    root: str,
    suffixes: tuple[str, ...],
    passes_over: Callable[[str], bool] | None = None,
    unreadable: Callable[[str, str], None] | None = None,
) -> Iterator[str | Issue]:
    """As `items_below`, with relative paths.

    `unreadable` is told which directory cannot be read and why, since an issue names none.
    """
    real = os.path.realpath(root)
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            with os.scandir(os.path.join(root, below) if below else root) as scan:
                entries = sorted(scan, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            if error.errno != errno.ENOENT or not below:
                if unreadable is not None:
                    unreadable(below, error.strerror or str(error))
                yield Issue("unreadable", f"a directory cannot be read: {error.strerror}", "error")
            continue
        files = []
        for entry in entries:
            path = os.path.join(below, entry.name)
            is_file = entry.is_file(follow_symlinks=False)
            if passes_over is not None and not is_file and passes_over(path):
                continue
            if entry.is_symlink():
                if _escapes(entry.path, real, suffixes):
                    yield Issue("path_escape", "a link leads out of the root; it is not followed")
            elif entry.is_dir(follow_symlinks=False):
                pending.append(path)
            elif entry.name.endswith(suffixes) and is_file:
                files.append(path)
        yield from reversed(files)


def _escapes(path: str, root: str, suffixes: tuple[str, ...]) -> bool:
    target = os.path.realpath(path)
    if target == root or target.startswith(os.path.join(root, "")):
        return False
    return path.endswith(suffixes) or os.path.isdir(target)


def read_whole(root: str, path: str, most_bytes: int) -> bytes | None:
    """See `SourceItem.read_beside`."""
    real = os.path.realpath(root)
    target = os.path.realpath(os.path.join(real, path))
    if not target.startswith(os.path.join(real, "")):
        return None
    try:
        fd = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
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
