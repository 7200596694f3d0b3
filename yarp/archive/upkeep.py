"""What the maintaining commands share: private backups, room on the disk, giving pages back.

Nothing here runs inside a tool call, except the backup before a migration.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING

from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Upkeep is patient: live calls go first, and nothing waits for it.
BUSY_TIMEOUT_MS = 60_000

_TABLES = ("sessions", "tool_calls", "payloads", "snapshots")
_PAGES_A_STEP = 1000  # 4 MB: a writer waits for one step, never for the whole
_PAUSE_S = 0.02


def file_bytes(path: str) -> int:
    """Bytes of the database at `path` with its write-ahead log and shared memory."""
    total = 0
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            total += os.stat(path + suffix).st_size
    return total


def require_archive(path: str) -> None:
    """Raise ArchiveUnavailable when there is no archive: maintaining one never makes one.

    An empty file is none.
    """
    try:
        there = os.lstat(path).st_size > 0
    except FileNotFoundError:
        there = False
    if not there:
        raise ArchiveUnavailable(f"{path}: there is no archive yet")


def require_space(path: str) -> None:
    """Raise ArchiveUnavailable unless the archive could be written twice more beside itself."""
    needed = 2 * file_bytes(path)
    found = os.statvfs(os.path.dirname(path) or ".")
    free = found.f_bavail * found.f_frsize
    if free < needed:
        raise ArchiveUnavailable(
            f"{path}: {needed} free bytes are needed beside it and {free} are there; make room"
        )


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether SQLite finds the whole database intact."""
    rows: list[tuple[str]] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    return rows == [("ok",)]


def row_counts(connection: sqlite3.Connection) -> tuple[int, ...]:
    """How many rows each of the four tables holds."""
    return tuple(
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - own names
        for table in _TABLES
    )


def backup(path: str, target: str) -> None:
    """Copy the archive at `path` to the private file `target`, verified and on the disk.

    The caller holds the archive's write lock, so the copy misses nothing and no other
    process makes one at the same time. A `target` left by an interrupted attempt is
    replaced. Raises ArchiveCorrupt when the archive itself is damaged, StorageError when the
    disk fails.
    """
    partial = f"{target}.partial"
    try:
        _remove(partial, partial + "-journal")
        # Created before SQLite sees it: SQLite would take its mode from the umask.
        created = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.fchmod(created, 0o600)
        os.close(created)
        try:
            with _opened(path, "ro") as source, _opened(partial, "rw") as copy:
                source.backup(copy)
                # The copied header says WAL; a backup is one file that needs no other.
                copy.execute("PRAGMA journal_mode = DELETE").fetchone()
                _require_equal(source, copy, path)
            _sync(partial)
            os.rename(partial, target)
        except BaseException:
            _remove(partial, partial + "-journal")
            raise
        _sync(os.path.dirname(target) or ".")
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}") from error


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the database and cut it to nothing.

    False when another process's read keeps it open; nothing is lost then, only not shrunk.
    """
    before = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    # A waiting checkpoint keeps writers out, so it waits less than they do.
    connection.execute("PRAGMA busy_timeout = 1000")
    try:
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError:
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {before}")
    return not busy


def give_back_pages(connection: sqlite3.Connection) -> None:
    """Return the free pages of an archive with incremental auto_vacuum to the file system."""
    step = _PAGES_A_STEP
    while free := connection.execute("PRAGMA freelist_count").fetchone()[0]:
        try:
            # executescript steps to the end; execute would free one page and hold a lock.
            connection.executescript(f"PRAGMA incremental_vacuum({step})")
        except sqlite3.OperationalError:
            # Moving pages takes room in the log first: less of it at a time.
            if step == 1 or not checkpoint(connection):
                raise
            step = max(1, step // 4)
            continue
        if connection.execute("PRAGMA freelist_count").fetchone()[0] >= free:
            return
        let_writers_in()


def let_writers_in() -> None:
    """Leave the write lock alone for a moment: waiting writers look for it now and then."""
    time.sleep(_PAUSE_S)


def vacuum(connection: sqlite3.Connection, path: str) -> None:
    """Write the whole database anew, keeping SQLite's temporary copy in its own directory."""
    require_space(path)
    before = os.environ.get("SQLITE_TMPDIR")
    # The copy holds every payload: it must not go to a directory that others can list.
    os.environ["SQLITE_TMPDIR"] = os.path.dirname(path) or "."
    try:
        connection.execute("VACUUM")
    finally:
        if before is None:
            del os.environ["SQLITE_TMPDIR"]
        else:
            os.environ["SQLITE_TMPDIR"] = before


def _require_equal(source: sqlite3.Connection, copy: sqlite3.Connection, path: str) -> None:
    if not is_sound(copy) or row_counts(copy) != row_counts(source):
        raise ArchiveCorrupt(
            f"{path}: its backup does not verify, so nothing was changed; run: yarp archive verify"
        )


@contextlib.contextmanager
def _opened(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    from urllib.parse import quote

    connection = sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
