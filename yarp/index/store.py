"""The index's database: opening it, its ids and texts, its deferred indexes.

One process at a time writes, under a lock beside the file; readers see committed states only.
The file is 0600, in WAL mode, and of one storage format: another one is refused untouched.
Source: spec "Trace index", 4, 5, 7 and 9.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Self

from yarp import paths, sqlite
from yarp.errors import DataError, StorageError, UsageError, YarpError
from yarp.index.catalog import RELATIONS
from yarp.index.search import register, searchable
from yarp.index.spent import Spent
from yarp.index.text import bounded, estimated_tokens, scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

STORAGE_FORMAT = 1
_APPLICATION_ID = 0x59545249  # "YTRI"
_PAGE_BYTES = 16_384
_CACHE_KIB = 8_192
_BUSY_MS = 30_000
_MOST_CACHED_BLOBS = 500_000
_MOST_WAITING_BYTES = 8 << 20

SQL = sqlite3.Connection


def _script(name: str) -> str:
    return files("yarp.index").joinpath("schema", name).read_text("utf-8")


_ANEW = "move it away and sync anew, since the traces have all that it had"


def failure(error: sqlite3.Error, path: str) -> YarpError:
    """What an SQLite error means for the index at `path`, and what to do."""
    found = sqlite.code(error)
    if found in (sqlite.CORRUPT, sqlite.NOTADB):
        return DataError(f"{path}: is no sound SQLite database ({error}); {_ANEW}")
    if found in (sqlite.BUSY, sqlite.LOCKED):
        return StorageError(f"{path}: another process kept it locked; try again")
    if found == sqlite.FULL:
        return StorageError(f"{path}: no space left on its disk; free some and sync again")
    return StorageError(f"{path}: {error}")


def open_readonly(path: str) -> SQL:
    """The index at `path`, read-only; StorageError or DataError says why it cannot be."""
    if not os.path.exists(path):
        raise DataError(f"{path}: there is no index yet; run: index sync")
    try:
        connection: SQL = sqlite.connect(path, readonly=True, busy_timeout_ms=_BUSY_MS)
    except YarpError as error:
        if os.path.exists(f"{path}-wal") and not os.path.exists(f"{path}-shm"):
            raise StorageError(
                f"{path}-wal has changes that a read-only open cannot read: let somebody who "
                "may write there open the index once"
            ) from None
        if isinstance(error.__cause__, sqlite3.Error):
            raise failure(error.__cause__, path) from error
        raise
    try:
        _check_format(connection, path)
        _check_relations(connection, path)
    except BaseException:
        connection.close()
        raise
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    register(connection)
    return connection


def _is_blank(connection: SQL) -> bool:
    """Whether a database is new, or a crash left it before its first transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return bool(version == 0) and not connection.execute("SELECT 1 FROM sqlite_master").fetchall()


def _check_format(connection: SQL, path: str) -> None:
    try:
        if _is_blank(connection):
            raise DataError(f"{path}: there is no index yet; run: index sync")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error as error:
        raise failure(error, path) from error
    if application != _APPLICATION_ID:
        raise DataError(f"{path}: is the database of another program; name another place (--db)")
    if found != STORAGE_FORMAT:
        raise DataError(
            f"{path}: has storage format {found}, and this version reads {STORAGE_FORMAT}; "
            f"{_ANEW} (metadata of sessions are in a file of their own)"
        )


def _check_relations(connection: SQL, path: str) -> None:
    """Each public relation is what it should be, has its columns in order, and can be read."""
    views = dict(connection.execute("SELECT name, type FROM sqlite_master"))
    for relation in RELATIONS:
        if relation.name == "session_metadata":  # a temporary view, see metadata.py
            continue
        kind = "table" if relation.name == "item_search" else "view"
        if views.get(relation.name) != kind:
            raise DataError(f"{path}: relation {relation.name} is no {kind}; {_ANEW}")
        try:
            cursor = connection.execute(f"SELECT * FROM {relation.name} LIMIT 0")  # noqa: S608 - a name of the catalogue
        except sqlite3.Error as error:
            raise DataError(
                f"{path}: relation {relation.name} cannot be read ({error}); {_ANEW}"
            ) from error
        if [column[0] for column in cursor.description] != [one.name for one in relation.columns]:
            raise DataError(
                f"{path}: relation {relation.name} has other columns than it should; {_ANEW}"
            )


class Store:
    """The index, open for the one process that syncs it.

    Raises StorageError when another sync keeps it for longer than 30 s.
    """

    def __init__(self, path: str, *, busy_ms: int = _BUSY_MS) -> None:
        self.path = path
        self.written = Spent()
        """How long was written since it was opened, by what."""
        paths.make_private_dir(os.path.dirname(path))
        self._lock = _lock(f"{path}.lock", busy_ms)
        try:
            self._open(busy_ms)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, busy_ms: int) -> None:
        path = self.path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageError(f"{path}: cannot be written ({error.strerror})") from error
        self.sql: SQL = sqlite3.connect(path, timeout=busy_ms / 1000, isolation_level=None)
        try:
            if _is_blank(self.sql):
                self._create()
            _check_format(self.sql, path)
            _check_relations(self.sql, path)
            self.sql.execute("PRAGMA synchronous = NORMAL")
            self.sql.execute("PRAGMA foreign_keys = ON")
            self.sql.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self.empty = self._value("SELECT count(*) FROM trace_sources") == 0
            """Whether it had no source when it was opened."""
            if not self.empty:
                self.build_indexes()
            self._ids: dict[str, int] = dict(self.sql.execute("SELECT name, value FROM counters"))
        except sqlite3.Error as error:
            self.sql.close()
            raise failure(error, path) from error
        except BaseException:
            self.sql.close()
            raise
        self._blobs: dict[bytes, int] = {}
        self._knows_all_blobs = self.empty
        self._new_blobs: list[tuple[int, bytes, str, int, int]] = []
        self._new_bytes = 0
        self._uncommitted: list[bytes] = []
        self.max_text_bytes = 65_536

    def _create(self) -> None:
        self.sql.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        self.sql.execute("PRAGMA journal_mode = WAL")
        self.sql.executescript(
            "BEGIN IMMEDIATE;"
            + _script("001_private.sql")
            + _script("002_public.sql")
            + _script("003_indexes.sql")
            + f"PRAGMA application_id = {_APPLICATION_ID};"
            + f"PRAGMA user_version = {STORAGE_FORMAT};"
            + "COMMIT;"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and let the next sync in."""
        self.sql.close()
        os.close(self._lock)

    def _value(self, sql: str) -> Any:
        return self.sql.execute(sql).fetchone()[0]

    # Ids

    def new_id(self, kind: str) -> int:
        """An id that nothing of this kind ever had."""
        found = self._ids[kind] = self._ids.get(kind, 0) + 1
        return found

    def session_id(self, runtime: str, native_id: str) -> int | None:
        """The id of a session, if it is there."""
        row = self.sql.execute(
            "SELECT id FROM domain_sessions WHERE runtime = ? AND native_id = ?",
            (runtime, native_id),
        ).fetchone()
        return None if row is None else int(row[0])

    # Transactions

    def begin(self) -> None:
        """Begin a transaction."""
        self.sql.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Publish all since `begin`."""
        self.flush_blobs()
        self.sql.executemany("REPLACE INTO counters VALUES (?, ?)", self._ids.items())
        self.sql.execute("COMMIT")
        self._uncommitted.clear()

    def savepoint(self) -> None:
        """A point to come back to, for one source of a transaction."""
        self.flush_blobs()
        self.sql.execute("SAVEPOINT source")
        self._uncommitted.clear()

    def release(self) -> None:
        """Keep what came since `savepoint`."""
        self.sql.execute("RELEASE source")

    def roll_back(self) -> None:
        """Undo all since `savepoint`."""
        for digest in self._uncommitted:
            self._blobs.pop(digest, None)
        self._uncommitted.clear()
        self._new_blobs.clear()
        self._new_bytes = 0
        if self.sql.in_transaction:
            self.sql.execute("ROLLBACK TO source")
            self.sql.execute("RELEASE source")

    # Policy

    def policy(
        self, asked: tuple[int | None, int | None], usual: tuple[int | None, int | None]
    ) -> tuple[int, int]:
        """The bounds of this database, of records and texts: those of its first sync, for good.

        `usual` are those of a new one, as far as none are `asked` for. UsageError when others
        are asked for than a database that holds something has.
        """
        row = self.sql.execute(
            "SELECT max_indexed_record_bytes, max_published_text_bytes FROM indexing_policy"
        ).fetchone()
        if row is None or self.empty:
            row = (asked[0] or usual[0] or 16_777_216, asked[1] or usual[1] or 65_536)
            self.sql.execute("REPLACE INTO indexing_policy VALUES (1, ?, ?)", row)
        elif (asked[0] or row[0], asked[1] or row[1]) != row:
            raise UsageError(
                f"{self.path}: was built for records of {row[0]} and texts of {row[1]} bytes, "
                "which no sync changes; use another database for other limits"
            )
        self.max_text_bytes = row[1]
        return row[0], row[1]

    # Texts

    def blob(self, text: str) -> tuple[int, str]:
        """The id of the blob that holds `text`, and the part of it that is published."""
        text = scalar(text)
        published, size, data = bounded(text, self.max_text_bytes)
        digest = hashlib.sha256(data).digest()
        found = self._blobs.get(digest)
        if found is None and not self._knows_all_blobs:
            row = self.sql.execute(
                "SELECT id FROM content_blobs WHERE hash = ?", (digest,)
            ).fetchone()
            if row is not None:
                found = self._blobs[digest] = row[0]
        if found is None:
            if len(self._blobs) >= _MOST_CACHED_BLOBS:
                self.flush_blobs()
                self._blobs.clear()
                self._knows_all_blobs = False
            found = self._blobs[digest] = self.new_id("blob")
            self._uncommitted.append(digest)
            self._new_blobs.append((found, digest, published, size, estimated_tokens(text, size)))
            self._new_bytes += len(published)
            if self._new_bytes > _MOST_WAITING_BYTES:
                self.flush_blobs()
        return found, published

    def flush_blobs(self) -> None:
        """Write the texts that are new."""
        if self._new_blobs:
            with self.written.on("other"):
                self.sql.executemany(
                    "INSERT INTO content_blobs VALUES (?, ?, ?, ?, ?)", self._new_blobs
                )
            self._new_blobs.clear()
            self._new_bytes = 0

    def published(self, blob_id: int) -> str:
        """The text of a blob that was written."""
        found: str = self.sql.execute(
            "SELECT text FROM content_blobs WHERE id = ?", (blob_id,)
        ).fetchone()[0]
        return found

    # The search index, which keeps no copy of a text: what goes in must be said to get it out.

    def add_to_search(self, rows: Iterable[tuple[int, str]]) -> None:
        """Have items found by their texts."""
        with self.written.on("item_search"):
            self.sql.executemany(
                "INSERT INTO item_search (rowid, text) VALUES (?, ?)",
                [(item_id, searchable(text)) for item_id, text in rows],
            )

    def drop_from_search(self, rows: Iterable[tuple[int, int]]) -> None:
        """Have items found no more, each by the blob whose text it was found by."""
        with self.written.on("item_search"):
            self.sql.executemany(
                "INSERT INTO item_search (item_search, rowid, text) VALUES ('delete', ?, ?)",
                [(item_id, searchable(self.published(blob_id))) for item_id, blob_id in rows],
            )

    # Query indexes

    def drop_indexes(self) -> None:
        """Do without the indexes of queries for the time of a first sync."""
        for name in self._query_indexes():
            self.sql.execute(f"DROP INDEX {name}")

    def build_indexes(self) -> None:
        """Make the indexes that are missing, as a crash of a first sync leaves them."""
        script = _script("003_indexes.sql")
        if len(self._query_indexes()) < script.count("CREATE INDEX"):
            self.sql.executescript(f"BEGIN IMMEDIATE; {script} COMMIT;")

    def _query_indexes(self) -> list[str]:
        names = self.sql.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
        return [name for (name,) in names if name.startswith("query_")]

    def collect_orphans(self) -> int:
        """Remove the texts that no item refers to; how many they were."""
        removed = self.sql.execute(
            "DELETE FROM content_blobs WHERE id NOT IN ("
            "SELECT coalesce(json_extract(semantic, '$.value.text.blob_id'),"
            " json_extract(semantic, '$.value.summary.blob_id'), 0) FROM domain_items)"
        ).rowcount
        self._blobs.clear()
        self._knows_all_blobs = False
        return removed


def _lock(path: str, busy_ms: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + busy_ms / 1000
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(fd)
                raise StorageError(f"{path}: another sync is at work; wait for it") from None
            time.sleep(0.02)
        else:
            return fd
