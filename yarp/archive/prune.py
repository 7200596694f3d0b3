"""Deletes the oldest finished calls and gives their space back to the file system.

Incomplete calls always stay, and so does every file beside the archive. Deletion goes in
short transactions, so that writers of live calls come in between; an interruption leaves a
valid archive from which less was deleted. Source: seed 000, "Retention"; spec "Archive".
"""

from __future__ import annotations

import contextlib
import os
import time
from array import array

import attrs

from yarp import sqlite
from yarp.archive import migrate, upkeep
from yarp.archive.write import Archive
from yarp.errors import ArchiveCorrupt, StorageError, UsageError

_BATCH_S = 0.05  # how long a writer of a live call may have to wait for one batch
_BATCH_ROWS = 64

_ORPHAN = "NOT EXISTS (SELECT 1 FROM snapshots WHERE snapshots.payload_sha256 = payloads.sha256)"
_EMPTY = "NOT EXISTS (SELECT 1 FROM tool_calls WHERE tool_calls.session_id = sessions.id)"

_RANKED = """
WITH ranked AS MATERIALIZED (
  SELECT id, session_id, row_number() OVER (ORDER BY finished_at_ms, id) AS rank,
         finished_at_ms < :before_ms AS due
  FROM tool_calls WHERE status = 'finished'
), last AS (
  SELECT payload_sha256 AS sha256, max(coalesce(rank, 9223372036854775807)) AS rank
  FROM snapshots LEFT JOIN ranked ON ranked.id = tool_call_id GROUP BY 1
), freed AS (
  SELECT rank, count(*) AS payloads, sum(length(body)) AS bytes
  FROM last JOIN payloads USING (sha256) GROUP BY rank
)
"""


@attrs.frozen
class Pruned:
    """What was deleted, or with `dry_run` what would be.

    The bytes are those of the database with its write-ahead log; after a dry run with a
    size bound they and the counts are estimates. `rebuilt` says that the file did not
    shrink by itself before and was written anew.
    """

    dry_run: bool
    calls: int
    sessions: int
    payloads: int
    database_bytes_before: int
    database_bytes_after: int
    rebuilt: bool


def prune(
    path: str,
    *,
    before_ms: int | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
    narrow: bool = False,
) -> Pruned:
    """Delete finished calls, oldest first, until every bound that is given holds.

    `before_ms` bounds the finish time (exclusive, ms since the epoch), `max_bytes` the
    database file. Payloads that no call references and sessions without calls go too.
    `narrow` is as in `Archive.open`. Raises UsageError without any bound.
    """
    if before_ms is None and max_bytes is None:
        raise UsageError("prune needs a bound: --before TIMESTAMP or --max-bytes N")
    upkeep.require_archive(path)
    try:
        if dry_run:
            return _plan(path, before_ms, max_bytes)
        return _prune(path, before_ms, max_bytes, narrow=narrow)
    except sqlite.Error as error:
        raise sqlite.classify(error, path) from error


def _prune(path: str, before_ms: int | None, max_bytes: int | None, *, narrow: bool) -> Pruned:
    bytes_before = upkeep.file_bytes(path)
    Archive.open(path, narrow=narrow).close()  # checks its modes and version, and migrates it
    connection = sqlite.connect(path, busy_timeout_ms=upkeep.BUSY_TIMEOUT_MS)
    calls = sessions = payloads = 0
    rebuilt = False
    try:
        # Zeros only where a page is written anyway: all else goes back to the file system.
        connection.execute("PRAGMA secure_delete = FAST").fetchone()
        while True:
            deleted_calls, deleted_payloads = _delete_calls(connection, path, before_ms, max_bytes)
            calls += deleted_calls
            payloads += deleted_payloads + _delete_orphans(connection, path)
            with sqlite.transaction(connection, path):
                sessions += connection.execute(f"DELETE FROM sessions WHERE {_EMPTY}").rowcount  # noqa: S608 - own text
            if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
                _rebuild(connection, path)
                rebuilt = True
            upkeep.give_back_pages(connection)
            upkeep.checkpoint(connection)
            # A rebuilt file can come out a page or two over the bound.
            if (
                max_bytes is None
                or not deleted_calls
                or _page_bytes(connection, "count") <= max_bytes
            ):
                break
    finally:
        connection.close()
    return Pruned(
        dry_run=False,
        calls=calls,
        sessions=sessions,
        payloads=payloads,
        database_bytes_before=bytes_before,
        database_bytes_after=upkeep.file_bytes(path),
        rebuilt=rebuilt,
    )


def _delete_calls(
    connection: sqlite.Connection, path: str, before_ms: int | None, max_bytes: int | None
) -> tuple[int, int]:
    """Delete calls in age order until both bounds hold; how many calls and payloads went."""
    due = array("q")  # a million calls in 8 MB
    younger = array("q")
    for call_id, is_due in connection.execute(
        "SELECT id, finished_at_ms < ? FROM tool_calls WHERE status = 'finished' "
        "ORDER BY finished_at_ms, id",
        (before_ms,),
    ):
        if not isinstance(call_id, int):  # a damaged index can say anything
            raise ArchiveCorrupt(f"{path}: SQLite finds it damaged; run: yarp archive verify")
        (due if is_due else younger).append(call_id)
    # Bounds hold in age order, so those due by time come first.
    waiting = due if max_bytes is None else due + younger
    at = payloads = 0
    most = _BATCH_ROWS
    exhausted = False
    while not exhausted:
        until = time.monotonic() + _BATCH_S
        batch = freed = 0
        try:
            with sqlite.transaction(connection, path):
                while batch < most and time.monotonic() < until:
                    exhausted = at + batch == len(waiting) or (
                        at + batch >= len(due)
                        and max_bytes is not None
                        and _page_bytes(connection, "used") <= max_bytes
                    )
                    if exhausted:
                        break
                    freed += _delete_call(connection, waiting[at + batch])
                    batch += 1
        except StorageError:
            # Deleting takes room too, in the log; a nearly full disk is when it is needed most.
            if most == 1 or not upkeep.checkpoint(connection):
                raise
            most //= 2
            exhausted = False
            continue
        at += batch
        payloads += freed
        upkeep.let_writers_in()
    return at, payloads


def _delete_call(connection: sqlite.Connection, call_id: int) -> int:
    """Delete a call with the payloads that only it references, and count those."""
    digests = connection.execute(
        "SELECT DISTINCT payload_sha256 FROM snapshots WHERE tool_call_id = ?", (call_id,)
    ).fetchall()
    connection.execute("DELETE FROM tool_calls WHERE id = ?", (call_id,))
    # With the call, not at the end: the size bound needs the freed pages now.
    return sum(
        connection.execute(f"DELETE FROM payloads WHERE sha256 = ? AND {_ORPHAN}", digest).rowcount  # noqa: S608 - own text
        for digest in digests
    )


def _delete_orphans(connection: sqlite.Connection, path: str) -> int:
    """Delete the payloads that nothing references, whoever left them, and count them."""
    last = deleted = 0
    while True:
        with sqlite.transaction(connection, path):
            rows = connection.execute(
                f"SELECT rowid FROM payloads WHERE rowid > ? AND {_ORPHAN} "  # noqa: S608 - own text
                "ORDER BY rowid LIMIT ?",
                (last, _BATCH_ROWS),
            ).fetchall()
            connection.executemany("DELETE FROM payloads WHERE rowid = ?", rows)
        if not rows:
            return deleted
        deleted += len(rows)
        (last,) = rows[-1]
        upkeep.let_writers_in()


def _page_bytes(connection: sqlite.Connection, which: str) -> int:
    """Bytes of the file's pages: all (`count`), or those in use (`used`)."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if which == "used":
        pages -= connection.execute("PRAGMA freelist_count").fetchone()[0]
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * size)


def _rebuild(connection: sqlite.Connection, path: str) -> None:
    """Write a file anew that cannot give pages back, after a private verified backup.

    The backup is deleted when the new file is sound: it holds what was just pruned.
    """
    saved = f"{path}.pre-vacuum.backup"
    upkeep.require_space(path)
    with sqlite.transaction(connection, path):
        upkeep.backup(path, saved)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    upkeep.vacuum(connection, path)
    if not upkeep.is_sound(connection):
        raise ArchiveCorrupt(f"{path} is damaged after VACUUM; its copy before that: {saved}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(saved)


def _plan(path: str, before_ms: int | None, max_bytes: int | None) -> Pruned:
    bytes_before = upkeep.file_bytes(path)
    connection = sqlite.connect(path, readonly=True)
    try:
        migrate.needs_migration(connection)  # either shape will do; no archive will not
        connection.execute("BEGIN")
        bounds = {"before_ms": before_ms}
        count, used = _page_bytes(connection, "count"), _page_bytes(connection, "used")
        (all_calls,) = connection.execute("SELECT count(*) FROM tool_calls").fetchone()
        (stored,) = connection.execute(
            "SELECT coalesce(sum(length(body)), 0) FROM payloads"
        ).fetchone()
        payloads, orphan_bytes = connection.execute(
            f"SELECT count(*), coalesce(sum(length(body)), 0) FROM payloads WHERE {_ORPHAN}"  # noqa: S608 - own text
        ).fetchone()
        (trees,) = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE rootpage > 0"
        ).fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        # An empty archive: a page for each tree, the schema and the map of pages. What else
        # is no payload is shared out evenly, so that all calls together are the whole file.
        empty = (trees + 2) * page_size
        overhead = max(0, used - stored - empty) / max(1, all_calls)
        left = float(used - orphan_bytes)
        calls = 0
        for is_due, freed_payloads, freed_bytes in connection.execute(
            f"""{_RANKED} SELECT due, coalesce(payloads, 0), coalesce(bytes, 0)
                FROM ranked LEFT JOIN freed USING (rank) ORDER BY rank""",  # noqa: S608 - own text
            bounds,
        ):
            if not is_due and (max_bytes is None or left <= max_bytes):
                break
            calls += 1
            payloads += freed_payloads
            left -= freed_bytes + overhead
        (sessions,) = connection.execute(
            f"""{_RANKED} SELECT count(*) FROM sessions WHERE NOT EXISTS (
                SELECT 1 FROM tool_calls LEFT JOIN ranked USING (id)
                WHERE tool_calls.session_id = sessions.id
                AND (rank IS NULL OR rank > :calls))""",  # noqa: S608 - own text
            {**bounds, "calls": calls},
        ).fetchone()
        rebuilt = connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 0
    finally:
        connection.close()
    after = min(count, max(empty, round(left)))
    return Pruned(
        dry_run=True,
        calls=calls,
        sessions=sessions,
        payloads=payloads,
        database_bytes_before=bytes_before,
        database_bytes_after=after,
        rebuilt=rebuilt,
    )
