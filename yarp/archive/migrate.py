"""The old shape of version 1, brought up to date in place.

The old shape has no `archive_ref`, no `source_completeness` and no `result_text` subject.
The version stays 1. A private verified backup comes first; then one exclusive transaction
rebuilds the two constrained tables, so a process killed at any point leaves the old archive
or the new one. Source: seed 000, "Migrations".
"""

from __future__ import annotations

import os

from yarp import sqlite
from yarp.archive.shape import require_made
from yarp.errors import ArchiveCorrupt, ArchiveVersionUnsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

BACKUP_SUFFIX = ".pre-indexed-output-v1.backup"

_BUSY_TIMEOUT_MS = 30_000  # another process may be migrating: wait for it, then find it done

_REBUILD = (
    "DROP INDEX IF EXISTS tool_calls_started_at_idx",
    "DROP INDEX IF EXISTS tool_calls_tool_name_idx",
    "DROP INDEX IF EXISTS snapshots_payload_idx",
    "ALTER TABLE tool_calls RENAME TO old_tool_calls",
    "ALTER TABLE snapshots RENAME TO old_snapshots",
)
_CALL_COLUMNS = (
    "id, session_id, source_call_id, tool_name, provider, model, working_directory, "
    "started_at_ms, requires_streams, finished_at_ms, status, is_error, executed"
)
_SNAPSHOT_COLUMNS = "tool_call_id, subject, stage, media_type, captured_at_ms, payload_sha256"
_COPY = (
    # A repeated reference would break its UNIQUE constraint and leave the old archive.
    f"""INSERT INTO tool_calls (archive_ref, {_CALL_COLUMNS})
        SELECT 'yr_' || lower(hex(randomblob(16))), {_CALL_COLUMNS} FROM old_tool_calls""",  # noqa: S608 - own names
    f"""INSERT INTO snapshots ({_SNAPSHOT_COLUMNS})
        SELECT {_SNAPSHOT_COLUMNS} FROM old_snapshots""",  # noqa: S608 - own names
    "DROP TABLE old_snapshots",
    "DROP TABLE old_tool_calls",
)


def needs_migration(connection: Connection) -> bool:
    """Whether the archive has the old shape of version 1.

    Raises ArchiveUnavailable for an empty file, ArchiveVersionUnsupported for another version
    or a database that is no archive, and ArchiveCorrupt for one that holds only a part of the
    new shape.
    """
    require_made(connection, _file_of(connection))
    calls = _columns(connection, "tool_calls")
    snapshots = _columns(connection, "snapshots")
    if "source_call_id" not in calls or "payload_sha256" not in snapshots:
        raise ArchiveVersionUnsupported(f"{_file_of(connection)} is no YARP archive")
    (table,) = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'snapshots'"
    ).fetchone()
    parts = {
        "archive_ref" in calls,
        "source_completeness" in snapshots,
        "'result_text'" in table,
    }
    if len(parts) == 2:
        raise ArchiveCorrupt(
            f"{_file_of(connection)} holds a part of a migration, which YARP never leaves; "
            f"put back a backup, if there is one: {_file_of(connection)}{BACKUP_SUFFIX}"
        )
    return parts == {False}


def migrate(path: str) -> None:
    """Give the archive at `path` its current shape; do nothing when it has it.

    The backup stays at `path` + BACKUP_SUFFIX, mode 0600. Raises ArchiveUnavailable when
    the disk has no room for twice the archive or another process keeps it locked, and
    ArchiveCorrupt when its rows cannot be carried over; the archive is then as it was.
    """
    try:
        connection = sqlite.connect(path, busy_timeout_ms=_BUSY_TIMEOUT_MS)
        try:
            # Dropping a table deletes its rows first, and those would cascade.
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("BEGIN EXCLUSIVE")
            if needs_migration(connection):
                _migrate_locked(connection, path)
            connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed
    except sqlite.Error as error:
        raise sqlite.classify(error, path) from error


def _migrate_locked(connection: Connection, path: str) -> None:
    from yarp.archive import upkeep

    upkeep.require_space(path)
    upkeep.backup(path, path + BACKUP_SUFFIX)
    before = upkeep.row_counts(connection)
    for statement in (*_REBUILD, *_schema_of("tool_calls", "snapshots"), *_COPY):
        connection.execute(statement)
    after = upkeep.row_counts(connection)
    (references,) = connection.execute(
        "SELECT count(DISTINCT archive_ref) FROM tool_calls"
    ).fetchone()
    if (
        before != after
        or references != after[1]
        or connection.execute("PRAGMA foreign_key_check").fetchone()
        or not upkeep.is_sound(connection)
    ):
        raise ArchiveCorrupt(
            f"{path}: its rows could not be carried over, so it was left as it is; "
            "run: yarp archive verify"
        )


def _schema_of(*tables: str) -> list[str]:
    """The seed's statements that make `tables` and their indexes, to the letter."""
    with open(
        os.path.join(os.path.dirname(__file__), "schema", "001_archive.sql"), encoding="utf-8"
    ) as file:
        statements = [statement.strip() for statement in file.read().split(";")]
    return [
        statement
        for statement in statements
        if any(
            statement.startswith(f"CREATE TABLE {table} ") or f" ON {table}(" in statement
            for table in tables
        )
    ]


def _columns(connection: Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _file_of(connection: Connection) -> str:
    path: str = connection.execute("PRAGMA database_list").fetchone()[2]
    return path
