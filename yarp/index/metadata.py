"""What callers keep about sessions: JSON of their own, in a database of its own.

It is no derivative of any trace, so it survives the index and every rebuild. A change names
the version that it replaces, so that no update is lost; a deleted value leaves its version
behind, so that none comes twice. Source: seed 002, "Caller-owned Session metadata"; spec
"Trace index", 11.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from yarp import paths
from yarp.errors import DataError, ReferenceUnknown, StorageError, UsageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 1 << 20
FORMAT = 1
_APPLICATION_ID = 0x5954524D  # "YTRM"
_BUSY_MS = 30_000

_TABLE = """
CREATE TABLE entries (
    runtime TEXT NOT NULL,
    native_id TEXT NOT NULL,
    metadata TEXT,
    version INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (runtime, native_id)
) WITHOUT ROWID
"""
_VIEW = """
CREATE TEMP VIEW session_metadata AS
SELECT kept.runtime, kept.native_id, session.id AS session_id, kept.metadata, kept.version,
    kept.updated_at
FROM {source} AS kept
LEFT JOIN main.domain_sessions AS session
    ON session.runtime = kept.runtime AND session.native_id = kept.native_id
WHERE kept.metadata IS NOT NULL
"""
_NOTHING = (
    "(SELECT NULL AS runtime, NULL AS native_id, NULL AS metadata, NULL AS version, "
    "NULL AS updated_at WHERE 0)"
)


class Conflict(DataError):
    """The value is another than the change was made for."""

    exit_code = 1


def beside(index: str) -> str:
    """Where the metadata of an index are kept unless it is said otherwise."""
    return f"{os.path.splitext(index)[0]}-metadata.sqlite3"


def attach(connection: sqlite3.Connection, path: str | None) -> YarpError | None:
    """Let `session_metadata` be asked for; it is empty while there is no file.

    What keeps it from being read is given back, and then there is no such relation: all that
    is asked of the traces themselves does without.
    """
    source = _NOTHING
    if path is not None and os.path.exists(path):
        try:
            connection.execute(
                "ATTACH DATABASE ? AS kept_metadata", (f"file:{quote(os.fsencode(path))}?mode=ro",)
            )
            _check(connection, path, "kept_metadata")
        except sqlite3.Error as error:
            return StorageError(f"{path}: the metadata of sessions cannot be read ({error})")
        except DataError as error:
            return error
        source = "kept_metadata.entries"
    connection.execute(_VIEW.format(source=source))
    return None


def _check(connection: sqlite3.Connection, path: str, schema: str) -> None:
    (found,) = connection.execute(f"PRAGMA {schema}.user_version").fetchone()
    (application,) = connection.execute(f"PRAGMA {schema}.application_id").fetchone()
    if (found, application) != (FORMAT, _APPLICATION_ID):
        raise DataError(f"{path}: is no database of session metadata of format {FORMAT}")


class Metadata:
    """The database of session metadata, to read or to change it.

    It is created by the first change. Raises StorageError and DataError as the index does.
    """

    def __init__(self, path: str, *, create: bool = False) -> None:
        self.path = path
        self._sql: sqlite3.Connection | None = None
        if not create and not os.path.exists(path):
            return
        try:
            if create:
                paths.make_private_dir(os.path.dirname(path))
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._sql = sqlite3.connect(
                f"file:{quote(os.fsencode(path))}?mode={'rw' if create else 'ro'}",
                uri=True,
                timeout=_BUSY_MS / 1000,
                isolation_level=None,
            )
            if create:
                self._prepare()
            _check(self._sql, path, "main")
        except OSError as error:
            raise StorageError(f"{path}: cannot be written ({error.strerror})") from error
        except sqlite3.Error as error:
            self.close()
            raise StorageError(f"{path}: the metadata of sessions: {error}") from error
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        assert self._sql is not None  # noqa: S101 - just opened
        sql = self._sql.execute
        if sql("PRAGMA user_version").fetchone()[0] == 0:
            # Two first changes may meet here: the second finds the table.
            _switch_to_wal(self._sql)
            sql("BEGIN IMMEDIATE")
            if sql("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                sql(_TABLE)
                sql(f"PRAGMA application_id = {_APPLICATION_ID}")
                sql(f"PRAGMA user_version = {FORMAT}")
            sql("COMMIT")
        sql("PRAGMA synchronous = FULL")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        if self._sql is not None:
            self._sql.close()
            self._sql = None

    def get(self, runtime: str, native_id: str) -> dict[str, Any]:
        """The entry of a session, its JSON as it was given. ReferenceUnknown if there is none."""
        _check_name(runtime, native_id)
        for entry in self._select("AND runtime = ? AND native_id = ?", (runtime, native_id)):
            return entry
        raise ReferenceUnknown(f"no metadata are kept for {runtime} session {native_id}")

    def entries(self, runtime: str | None = None) -> list[dict[str, Any]]:
        """All entries, or those of a runtime, in the order of their names."""
        if runtime is None:
            return self._select("", ())
        return self._select("AND runtime = ?", (runtime,))

    def _select(self, where: str, values: Sequence[object]) -> list[dict[str, Any]]:
        if self._sql is None:
            return []
        try:
            rows = self._sql.execute(
                "SELECT runtime, native_id, metadata, version, updated_at FROM entries "  # noqa: S608 - parts of ours
                f"WHERE metadata IS NOT NULL {where} ORDER BY runtime, native_id",
                values,
            ).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: the metadata of sessions: {error}") from error
        names = ("runtime", "native_id", "metadata", "version", "updated_at")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def set(
        self, runtime: str, native_id: str, text: str | None, *, version: int | None
    ) -> dict[str, Any]:
        """Replace the value whose version is `version` (None: there is none) by this JSON.

        `text` None deletes it. Raises Conflict, which names the version that is there.
        """
        _check_name(runtime, native_id)
        if text is not None:
            check_json(text)
        elif version is None:
            raise UsageError("what is deleted has a version")
        assert self._sql is not None  # noqa: S101 - opened to create
        sql = self._sql.execute
        try:
            sql("BEGIN IMMEDIATE")
            try:
                entry = self._replace(runtime, native_id, text, version)
                sql("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    sql("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: the metadata of sessions: {error}") from error
        return entry

    def _replace(
        self, runtime: str, native_id: str, text: str | None, version: int | None
    ) -> dict[str, Any]:
        assert self._sql is not None  # noqa: S101 - as above
        row = self._sql.execute(
            "SELECT metadata IS NOT NULL, version FROM entries WHERE runtime = ? AND native_id = ?",
            (runtime, native_id),
        ).fetchone()
        there = row[1] if row is not None and row[0] else None
        if there != version:
            found = "there is none" if there is None else f"it has version {there}"
            wanted = "no value" if version is None else f"version {version}"
            raise Conflict(
                f"metadata of {runtime} session {native_id}: {found}, and {wanted} was "
                "expected; read it and decide anew"
            )
        entry = {
            "runtime": runtime,
            "native_id": native_id,
            "version": (row[1] if row is not None else 0) + 1,
            "updated_at": time.time_ns() // 1_000_000,
        }
        self._sql.execute(
            "REPLACE INTO entries (runtime, native_id, version, updated_at, metadata) "
            "VALUES (?, ?, ?, ?, ?)",
            (*entry.values(), text),
        )
        return entry

    def back_up(self, target: str) -> int:
        """Copy the database as it stands to a new file; its size in bytes."""
        if self._sql is None:
            raise ReferenceUnknown(f"{self.path}: there are no metadata yet")
        if target == "-":
            raise UsageError("a file is written, not standard output; one of that name is ./-")
        try:
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageError(f"{target}: cannot be created ({error.strerror})") from error
        copy = sqlite3.connect(target)
        try:
            self._sql.backup(copy)
        finally:
            copy.close()
        return os.stat(target).st_size


def _check_name(runtime: str, native_id: str) -> None:
    if not runtime or not native_id:
        raise UsageError("a session is named by its runtime and its native id")
    try:
        (runtime + native_id).encode()
    except UnicodeEncodeError:
        raise UsageError("the name of the session is no Unicode text") from None


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError:  # switching does not wait for others by itself
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def check_json(text: str) -> None:
    """UsageError unless this is one JSON value of at most 1 MiB, in I-JSON's narrower sense."""
    try:
        if len(text.encode()) > MOST_BYTES:
            raise UsageError(f"the metadata are longer than {MOST_BYTES} bytes")
    except UnicodeEncodeError:
        raise UsageError("the metadata are no Unicode text") from None
    try:
        # Numbers are the caller's, whatever their size.
        json.loads(
            text,
            parse_constant=_refuse,
            parse_float=str,
            parse_int=str,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise UsageError("the metadata are nested too deeply") from None
    except ValueError as error:
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise UsageError(f"the metadata are no JSON: {what}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found
