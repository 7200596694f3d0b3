"""Private directories that are ours for as long as we run; what a killed process leaves is removed.

They hold copies of stores while these are made, and what DuckDB has no memory for. Source: seed
003, "Size and privacy controls".
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress

PREFIX = "yarp-copy-"
"""How the names of directories begin that hold a copy while it is made."""

_OURS = re.compile(r"copy(-wal|-journal|-shm)?|duckdb_temp.*")


def remove_leftovers(parent: str, prefix: str = PREFIX) -> None:
    """Remove the directories below `parent` of copies, or of DuckDB, that no process works with.

    None in which a file is of any other kind.
    """
    with suppress(OSError), os.scandir(parent) as scan:
        for entry in scan:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                _remove_leftover(entry.path)


def _remove_leftover(directory: str) -> None:
    with suppress(OSError):
        lock = _locked(directory)
        try:
            names = (name for _, _, files in os.walk(directory) for name in files)
            if os.fstat(lock).st_uid == os.getuid() and all(map(_OURS.fullmatch, names)):
                remove(directory)
        finally:
            os.close(lock)


def held_directory(parent: str, prefix: str = PREFIX) -> tuple[str, int]:
    """A new directory, which is ours for as long as its lock is held."""
    while True:
        directory = os.path.join(parent, prefix + os.urandom(8).hex())
        # It is there already, or was taken for a leftover in this instant.
        with suppress(FileExistsError, BlockingIOError):
            os.mkdir(directory, 0o700)
            with suppress(FileNotFoundError):
                return directory, _locked(directory)


def _locked(directory: str) -> int:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(directory)
    except OSError:
        os.close(lock)
        raise
    return lock


def remove(directory: str) -> None:
    """Remove a directory and what is in it, as far as that can be."""
    try:
        os.rmdir(directory)
    except OSError:
        import shutil  # most often it is empty

        shutil.rmtree(directory, ignore_errors=True)
