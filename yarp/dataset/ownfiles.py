"""The files that belong to a dataset: its own, its log and lock, and those of its text index.

They are private, and regular ones: what else lies in their places is somebody else's.
"""

from __future__ import annotations

import os
import stat

from yarp.errors import PermissionsTooOpen

LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
"""What DuckDB puts beside a file."""


def index_of(database: str) -> str:
    """Where the text index of a database lies."""
    return database + ".text"


def own_files(database: str) -> list[str]:
    """The files of the dataset at this path that are there.

    None of another name, which may be somebody else's, however it begins. Not the temporary ones:
    they are gone when they are looked at, and their directory is private.
    """
    index = index_of(database)
    places = [each + suffix for each in (database, index) for suffix in ("", ".lock", *LOGS)]
    return [*filter(os.path.lexists, places)]


def narrow_own_files(database: str) -> None:
    """Make files private that others can reach. Raises `PermissionsTooOpen`."""
    for each in own_files(database):
        found = os.lstat(each)
        if not found.st_mode & 0o077 or stat.S_ISLNK(found.st_mode):
            continue
        if found.st_uid != os.getuid():
            raise PermissionsTooOpen(f"{each} belongs to another user, and others can reach it")
        os.chmod(each, 0o600)


def is_regular(path: str) -> bool:
    """Whether this is a file, and no link to one."""
    return stat.S_ISREG(os.lstat(path).st_mode)


def index_is_ours(database: str) -> bool:
    """Whether the text index may be opened: nothing in its places, or regular files of ours.

    Ours are those of this user, and of the one whose directory it is.
    """
    index = index_of(database)
    owners = (os.geteuid(), os.stat(os.path.dirname(database)).st_uid)
    there = [place for place in (index, *(index + log for log in LOGS)) if os.path.lexists(place)]
    return all(is_regular(each) and os.lstat(each).st_uid in owners for each in there)
