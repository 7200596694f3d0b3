"""What an archive file is: private, of a version, of a shape; and how an empty one is made.

Source: seed 000, Database, Migrations and Filesystem permissions; reference 2.1.
"""

from __future__ import annotations

import os

from yarp import sqlite
from yarp.errors import ArchiveUnavailable, ArchiveVersionUnsupported
from yarp.paths import make_private_dir, require_private

SCHEMA_VERSION = 1
_SCHEMA_FILE = os.path.join(os.path.dirname(__file__), "schema", "001_archive.sql")


def make_private(path: str, *, narrow: bool) -> None:
    """Make the archive's directory and file, empty and private, or see that they are private.

    Source: seed 000, Filesystem permissions.
    """
    directory = os.path.dirname(path)
    make_private_dir(directory)
    require_private(directory, directory=True, narrow=narrow)
    try:
        # The mode must be right before SQLite writes a byte; -wal and -shm inherit it.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        require_private(path, directory=False, narrow=narrow)
    except OSError as error:
        raise ArchiveUnavailable(f"{path} cannot be created: {error.strerror}") from error
    else:
        # Nobody has this file open yet; later, closing it would drop SQLite's own locks.
        os.fchmod(file, 0o600)
        os.close(file)


class Shape:
    """What an archive is found to be before anything in it changes."""

    __slots__ = ("is_old", "path", "version")

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = 0
        self.is_old = False

    def inspect(self, connection: sqlite.Connection) -> None:
        """Look; ArchiveVersionUnsupported for what this YARP must not touch."""
        # One snapshot: another process may be making the archive between two looks.
        connection.execute("BEGIN")
        self.version = connection.execute("PRAGMA user_version").fetchone()[0]
        if self.version == 0:
            _require_empty(connection, self.path)
        else:
            require_version(self.version, self.path)
            self.is_old = not has_present_shape(connection, self.path)
        connection.execute("COMMIT")


def require_made(connection: sqlite.Connection, path: str) -> None:
    """Raise unless an archive was made at `path`, of a version that this YARP reads.

    An empty file is what a writer begins with; it holds no archive yet (ArchiveUnavailable), and
    the next writer makes one in it. Anything else is as `require_version` says.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0 and not _has_tables(connection):
        raise ArchiveUnavailable(f"{path}: there is no archive yet; nothing was captured")
    require_version(version, path)


def require_version(version: int, path: str) -> None:
    """Raise ArchiveVersionUnsupported unless this YARP reads archives of `version`."""
    if version > SCHEMA_VERSION:
        raise ArchiveVersionUnsupported(
            f"{path}: schema version {version} is newer than this YARP's {SCHEMA_VERSION}; "
            "update YARP"
        )
    if version != SCHEMA_VERSION:
        raise _foreign(path)


def has_present_shape(connection: sqlite.Connection, path: str) -> bool:
    """Whether a version 1 archive has its references and completeness, or is of the old shape.

    Raises ArchiveVersionUnsupported when it is neither.
    """
    try:
        connection.execute(
            "SELECT archive_ref, source_completeness FROM tool_calls, snapshots LIMIT 0"
        )
    except sqlite.OperationalError as error:
        if sqlite.code(error) != sqlite.ERROR:  # any but "no such table" or "no such column"
            raise
    else:
        return True
    columns = {
        f"{table}.{row[1]}"
        for table in ("tool_calls", "snapshots")
        for row in connection.execute(f"PRAGMA table_info({table})")
    }
    if not columns >= {"tool_calls.source_call_id", "snapshots.payload_sha256"}:
        raise _foreign(path)
    return False


def _foreign(path: str) -> ArchiveVersionUnsupported:
    return ArchiveVersionUnsupported(
        f"{path}: is another program's database; move it away or set archive.path"
    )


def _require_empty(connection: sqlite.Connection, path: str) -> None:
    if _has_tables(connection):
        raise _foreign(path)


def _has_tables(connection: sqlite.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def create(connection: sqlite.Connection, path: str) -> None:
    """Make the tables of an empty archive, unless another process just did."""
    with sqlite.transaction(connection, path, "EXCLUSIVE"):
        # Another process may have won between the look and the lock.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != 0:
            require_version(version, path)
            return
        _require_empty(connection, path)
        # A plain open beside this module: importlib.resources would cost a first call 50 ms.
        with open(_SCHEMA_FILE, encoding="utf-8") as file:
            for statement in file.read().split(";"):
                connection.execute(statement)
