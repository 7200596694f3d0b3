"""How large the archive is, without a word of what it holds.

Source: seed 001, "Commands and configuration"; spec "Archive", Database.
"""

from __future__ import annotations

import os

import attrs

from yarp import sqlite
from yarp.archive import migrate, upkeep
from yarp.paths import require_private


@attrs.frozen
class Stats:
    """Counts, bytes and times of one archive.

    `logical_payload_bytes` are the distinct payloads uncompressed, `stored_payload_bytes`
    their stored bodies, `database_bytes` the file with its write-ahead log and shared
    memory. The call times are start times in ms since the epoch, None without any call.
    """

    sessions: int
    calls: int
    incomplete_calls: int
    logical_payload_bytes: int
    stored_payload_bytes: int
    database_bytes: int
    oldest_call_ms: int | None
    newest_call_ms: int | None


def stats(path: str) -> Stats:
    """The figures of the archive at `path`, read without changing it.

    Either shape of version 1 will do. Raises ArchiveUnavailable when there is none.
    """
    upkeep.require_archive(path)
    require_private(os.path.dirname(path), directory=True, narrow=False)
    require_private(path, directory=False, narrow=False)
    database_bytes = upkeep.file_bytes(path)
    connection = sqlite.connect(path, readonly=True)
    try:
        migrate.needs_migration(connection)  # either shape has these columns; no archive has none
        connection.execute("BEGIN")
        sessions, calls, _, _ = upkeep.row_counts(connection)
        incomplete, oldest, newest = connection.execute(
            "SELECT count(*) FILTER (WHERE status = 'started'), "
            "min(started_at_ms) FILTER (WHERE typeof(started_at_ms) = 'integer'), "
            "max(started_at_ms) FILTER (WHERE typeof(started_at_ms) = 'integer') FROM tool_calls"
        ).fetchone()
        logical, stored = connection.execute(
            "SELECT coalesce(sum(uncompressed_byte_length), 0), coalesce(sum(length(body)), 0) "
            "FROM payloads"
        ).fetchone()
    except sqlite.Error as error:
        raise sqlite.classify(error, path) from error
    finally:
        connection.close()
    return Stats(sessions, calls, incomplete, logical, stored, database_bytes, oldest, newest)
