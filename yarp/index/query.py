"""One bounded, read-only SQL statement over the index.

The engine itself refuses what is no reading: the file is open read-only, `query_only` is on,
and an authorizer lets nothing but SELECT, columns, functions and recursion through. Rows,
cells, bytes and time are bounded, and an answer that is not whole says so. Source: spec "Trace
index", 10 (Query plane).
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any

import orjson
from attrs import frozen

from yarp import sqlite
from yarp.errors import DataError, StorageError, UsageError, YarpError
from yarp.index import metadata
from yarp.index.store import failure, open_readonly

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SQL_BYTES = 1 << 20
_MOST_VALUE_BYTES = 16 << 20
_PROGRESS_STEPS = 10_000
_READING = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
)
# Those of SQLite that read files, load code or show addresses, wherever they are compiled in.
_REFUSED_FUNCTIONS = frozenset(
    (
        *("load_extension", "readfile", "writefile", "edit", "fsdir", "lsmode", "zipfile"),
        *("fts3_tokenizer", "sqlite_dbpage", "sqlar_uncompress"),
    )
)

_NO_ROOM = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_GETTEMPPATH)
_NOT_OF_THE_SQL = (
    *(sqlite.BUSY, sqlite.LOCKED, sqlite.IOERR, sqlite.CANTOPEN, sqlite.PROTOCOL),
    *(sqlite.CORRUPT, sqlite.NOTADB),
)


@frozen
class Bounds:
    """How much of an answer is given; each must lie in its range of `RANGES`."""

    limit: int = 1_000
    max_cell_bytes: int = 65_536
    max_output_bytes: int = 65_536
    timeout_s: int = 30


RANGES = {
    "limit": (1, 10_000),
    "max_cell_bytes": (1, 1 << 20),
    "max_output_bytes": (1 << 10, 16 << 20),
    "timeout_s": (1, 300),
}


class Overrun(YarpError):
    """The query took longer than it may."""

    exit_code = 1


def run(
    database: str,
    sql: str,
    bounds: Bounds | None = None,
    *,
    metadata_database: str | None = None,
    on_stuck: Callable[[YarpError], None] | None = None,
) -> dict[str, Any]:
    """The answer of one statement, as `query run` prints it.

    `on_stuck` is called from another thread when a single step of SQLite's outlasts the
    deadline by half a second, which nothing but the end of the process can stop. Raises
    UsageError for SQL that cannot be run, Overrun for what takes too long.
    """
    bounds = bounds or Bounds()
    for name, (low, high) in RANGES.items():
        if not low <= getattr(bounds, name) <= high:
            raise UsageError(f"{name} takes {low} to {high}")
    try:
        if len(sql.encode()) > MOST_SQL_BYTES or "\0" in sql:
            raise UsageError("the SQL is longer than 1 MiB, or holds a NUL")
    except UnicodeEncodeError:
        raise UsageError("the SQL is not UTF-8") from None
    connection = open_readonly(database)
    watch = None
    try:
        unread = metadata.attach(connection, metadata_database)
        _confine(connection)
        late = Overrun(
            f"the query took longer than {bounds.timeout_s} s; narrow it by role, session or "
            "time, or count before you list"
        )
        deadline = time.monotonic() + bounds.timeout_s

        def ended() -> bool:
            return time.monotonic() > deadline

        connection.set_progress_handler(ended, _PROGRESS_STEPS)
        if on_stuck is not None:
            watch = threading.Timer(bounds.timeout_s + 0.5, on_stuck, (late,))
            watch.daemon = True
            watch.start()
        try:
            answer = _answer(connection, sql, bounds, ended)
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            if ended():
                raise late from error
            if unread is not None and "session_metadata" in str(error):
                raise unread from error
            raise _refusal(error, sql, database) from error
        if answer is None:
            raise late
        return answer
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()


def _confine(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
    # These declare their columns when first used, which the authorizer takes for a CREATE TABLE.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MOST_SQL_BYTES)
    selected = False

    def authorize(action: int, one: str | None, two: str | None, *_: str | None) -> int:
        nonlocal selected
        if action == sqlite3.SQLITE_SELECT:
            selected = True
        allowed = action in _READING
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = (two or "").lower() not in _REFUSED_FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            # The search index asks for it while the statement runs.
            allowed = selected and one == "data_version" and two is None
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def _answer(
    connection: sqlite3.Connection, sql: str, bounds: Bounds, ended: Callable[[], bool]
) -> dict[str, Any] | None:
    """The bounded answer; None when time ended meanwhile, though no step of it took long."""
    texts = connection.text_factory = _Heads(bounds.max_cell_bytes)
    texts.left = bounds.max_output_bytes
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise UsageError("there is no statement in the SQL; give one SELECT")
    columns = [column[0] for column in cursor.description]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise UsageError(f"two columns are called {twice!r}; give them names with AS")
    rows: list[Any] = []
    truncated = 0
    left = bounds.max_output_bytes - len(orjson.dumps(columns))
    if left < 0:
        raise UsageError(
            f"the names of its {len(columns)} columns alone have more than "
            f"{bounds.max_output_bytes} bytes; select fewer, or give them shorter ones with AS"
        )
    reason = hint = None
    texts.left = left
    for row in cursor:
        if ended():
            return None
        if len(rows) == bounds.limit:
            reason = "row_limit"
            hint = "raise --limit, or narrow the query; ORDER BY decides which rows come first"
            break
        told = {}
        for name, value in zip(columns, row, strict=True):
            told[name], cut = _cell(value, bounds.max_cell_bytes)
            truncated += cut
        encoded = orjson.dumps(told)
        left -= len(encoded) + 1
        if left < 0:
            reason = "output_budget"
            hint = (
                "select fewer or shorter columns, raise --max-output-bytes, or lower "
                "--max-cell-bytes"
            )
            if not rows:
                hint = _wider(bounds, len(columns))
            break
        rows.append(orjson.Fragment(encoded))
        texts.left = left
    incomplete = {} if reason is None else {"incomplete_reason": reason, "hint": hint}
    return {
        "complete": reason is None,
        **incomplete,
        "returned": len(rows),
        "cells_truncated": truncated,
        "columns": columns,
        "rows": rows,
    }


def _wider(bounds: Bounds, columns: int) -> str:
    """What lets one row of so many columns in."""
    # JSON makes up to 6 bytes of one, so this is a beginning that fits most texts.
    cell_bytes = max(1, min(bounds.max_cell_bytes, bounds.max_output_bytes // columns) // 2)
    most = RANGES["max_output_bytes"][1]
    larger = "" if bounds.max_output_bytes == most else f", or --max-output-bytes {most}"
    return (
        f"the first row alone has more than {bounds.max_output_bytes} bytes: give "
        f"--max-cell-bytes {cell_bytes}{larger}, or select fewer columns"
    )


class _Cut(str):
    """The beginning of a longer text."""

    __slots__ = ()


class _Heads:
    """Makes the texts of a row, and never holds more of them than can be told.

    A row whose texts have more bytes than are `left` is not told; so from there on they are
    empty.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.left = 0

    def __call__(self, data: bytes) -> str:
        if self.left < 0:
            return _Cut()
        if len(data) <= self._most_bytes:
            self.left -= len(data)
            return data.decode("utf-8", "replace")
        self.left -= self._most_bytes
        decoder = getincrementaldecoder("utf-8")("replace")
        return _Cut(decoder.decode(data[: self._most_bytes]))


def _cell(value: Any, most_bytes: int) -> tuple[Any, bool]:
    """A value as JSON, and whether it had to be cut."""
    if isinstance(value, str):
        cut = isinstance(value, _Cut)
        if len(value) * 4 <= most_bytes:
            return value, cut
        data = value.encode("utf-8", "replace")
        if len(data) <= most_bytes:
            return value, cut
        return data[:most_bytes].decode("utf-8", "ignore"), True
    if isinstance(value, bytes):
        shown = value[: max(1, most_bytes // 2)]
        told = {"encoding": "hex", "byte_length": len(value), "value": shown.hex()}
        return told, len(shown) < len(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value), False
    return value, False


def _refusal(error: Exception, sql: str, database: str) -> YarpError:
    said = str(error)
    extended = getattr(error, "sqlite_errorcode", 0) or 0
    found = extended & 0xFF
    hint = ""
    if "\\n" in sql:
        hint = r"; the SQL holds a literal \n: give several lines by --stdin or --file"
    if isinstance(error, MemoryError) or found in (sqlite.NOMEM, sqlite.TOOBIG):
        said = said or "out of memory"
        return DataError(f"the query needs too large a value, row or list ({said}); ask for less")
    if found == sqlite.FULL or extended in _NO_ROOM:
        return StorageError(
            f"the query found no room for what it sorts or sets aside ({said}); sort less, or "
            "free space where temporary files are"
        )
    if found == sqlite.AUTH or "prohibited" in said or "not authorized" in said:
        return UsageError(f"the index is only read, by one SELECT ({said})")
    if "one statement" in said:
        return UsageError("there is more than one statement; give one SELECT")
    if "user-defined function" in said:
        return UsageError(
            "trigram_query takes a text in quotes, of at least 3 characters; narrow by role, "
            "session or time instead, and use instr(blobs.text, ...)"
        )
    if isinstance(error, sqlite3.Error) and (
        found in _NOT_OF_THE_SQL
        or not isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError)
    ):
        return failure(error, database)
    return UsageError(f"the SQL cannot be run: {said}{hint}")
