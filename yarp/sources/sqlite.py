"""A database that somebody else may be writing, read through a private copy.

Opening a database in WAL mode leaves `-shm` and `-wal` beside it, even read-only, and
`immutable=1` misses what stands in the log. So the database, its log and a rollback journal
are copied into a private directory, it is verified that none of them changed meanwhile, and
the copy is opened. Its names are removed at once, so that it is gone whenever its process is;
what a process leaves that was killed while it copied is removed by the next one. Source: seed
003, "Stable reads" and "Size and privacy controls".
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import time
from urllib.parse import quote

from yarp.sources.beneath import open_file, placed, stat_of
from yarp.sources.facts import Rejected
from yarp.sources.held import held_directory, remove_leftovers
from yarp.sources.importers import BESIDE
from yarp.sources.jsonl import SourceChanged, Stat

_COPY = "copy"
_TRIES = 3
_PAUSE_S = 0.1


class Snapshot:
    """The state of a database at one moment, as `connection`: read-only, in one transaction.

    `root`: the directory below which no link is followed; the file's own unless given.
    `most_bytes`: what the copy may take. Raises OSError when the file cannot be read, or is
    longer than that, and `Rejected` when it kept changing
    (`source_changed_during_read`) or is no database (`malformed_database`).
    """

    def __init__(
        self,
        path: str,
        private_directory: str | None = None,
        *,
        root: str | None = None,
        most_bytes: int | None = None,
    ) -> None:
        parent = private_directory or tempfile.gettempdir()
        remove_leftovers(parent)
        directory, lock = held_directory(parent)
        try:
            target = os.path.join(directory, _COPY)
            self.before = _copy(*placed(path, root), target, most_bytes)
            self.connection = _open(target)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)

    def close(self) -> None:
        """Close the copy, which is no more then; more than once does no harm."""
        self.connection.close()


def _stat_parts(root: str, path: str) -> tuple[Stat | None, ...]:
    """The states of the files that make up the database."""
    return tuple(_stat(root, path + suffix) for suffix in BESIDE)


def _stat(root: str, path: str) -> Stat | None:
    try:
        return Stat.of(stat_of(root, path))
    except FileNotFoundError:
        return None


def _copy(root: str, path: str, target: str, most_bytes: int | None) -> tuple[Stat | None, ...]:
    for remaining in reversed(range(_TRIES)):
        before = _stat_parts(root, path)
        needed = sum(found.size_bytes for found in before if found is not None)
        if most_bytes is not None and needed > most_bytes:
            raise OSError(errno.ENOSPC, "its private copy could cross the size limit", path)
        whole = all(
            _copy_file(root, path + suffix, target + suffix, found.size_bytes)
            for suffix, found in zip(BESIDE, before, strict=True)
            if found is not None
        )
        if before[0] is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if whole and _stat_parts(root, path) == before:
            return before
        for suffix in BESIDE:
            if os.path.exists(target + suffix):
                os.unlink(target + suffix)
        if remaining:
            time.sleep(_PAUSE_S)
    raise SourceChanged


def _copy_file(root: str, path: str, target: str, size_bytes: int) -> bool:
    try:
        source = open_file(root, path)
    except FileNotFoundError:
        return False
    with open(source, "rb", buffering=0) as read:
        out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(out, "wb", buffering=0) as write:
            shutil.copyfileobj(read, write, 1 << 20)
            return write.tell() == size_bytes


def _open(path: str) -> sqlite3.Connection:
    try:
        if os.path.exists(path + "-journal"):
            # What a crashed writer began is undone first: a read-only connection could not.
            with sqlite3.connect(path) as recovering:
                recovering.execute("SELECT name FROM sqlite_master")
            recovering.close()
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            connection.text_factory = _text
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            connection.execute("SELECT name FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        # The second one is raised for what SQLite says of a damaged schema, in its own bytes.
        raise Rejected("malformed_database", "the file is no SQLite database") from None
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
