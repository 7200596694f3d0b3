"""The DuckDB file of a text index: opened to be read, or to be written and made if need be.

It is only opened where it is ours: a link in its place is followed neither to read nor to write.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from yarp.dataset.ownfiles import LOGS, index_is_ours, index_of
from yarp.errors import StorageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_VERSION = 2
_MEMORY = "48MB"
_READING_MEMORY = "256MB"
_MOST_TEMPORARY_BYTES = 512 << 20
# Rows of a last group are written once more with each checkpoint; those of 60 MB of texts make it.
_CHECKPOINT = "32MB"

SCHEMA = f"""
CREATE TABLE info (
    version INTEGER NOT NULL,
    stamp VARCHAR NOT NULL,
    texts UINTEGER NOT NULL,
    text_bytes UBIGINT NOT NULL
);
INSERT INTO info VALUES ({_VERSION}, '', 0, 0);
CREATE TABLE texts (
    text UINTEGER NOT NULL,
    identity BLOB NOT NULL,
    call_key VARCHAR NOT NULL,
    always BOOLEAN NOT NULL
);
CREATE TABLE words (word VARCHAR NOT NULL, texts UINTEGER[] NOT NULL);
"""


def to_read(database: str) -> DuckDBPyConnection | None:
    """The index of a database if it can be read now and is one of this version, else None."""
    import duckdb

    with suppress(duckdb.Error):  # damaged, or locked by whoever writes it
        return _open(database, None, 0)
    return None


def to_write(database: str, temporary: str, room: int) -> DuckDBPyConnection:
    """The same, made if there is none that can be used.

    `temporary`: a directory for so many bytes that do not fit into memory. Raises StorageError
    where something else is in its place, and DuckDB's error where another process has it open.
    """
    import duckdb

    if not index_is_ours(database):
        place = index_of(database)
        raise StorageError(f"{place} cannot be written: it is no regular file of this user")
    connection, most = None, min(room, _MOST_TEMPORARY_BYTES)
    try:
        connection = _open(database, temporary, most)
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            raise
    except duckdb.Error:
        pass
    if connection is None:
        # Of another version, or damaged: it holds nothing that the dataset does not.
        forget(database)
        connection = _connect(index_of(database), temporary, most)
        connection.execute(SCHEMA)
    connection.execute(f"SET checkpoint_threshold = '{_CHECKPOINT}'")
    return connection


def forget(database: str) -> None:
    """Remove the text index of a database, if it is there and ours."""
    if not index_is_ours(database):
        return
    index = index_of(database)
    for leftover in (index, *(index + log for log in LOGS)):
        with suppress(OSError):
            os.unlink(leftover)


def _open(database: str, temporary: str | None, room: int) -> DuckDBPyConnection | None:
    import duckdb

    index = index_of(database)
    if not os.path.lexists(index) or not index_is_ours(database):
        return None
    connection = _connect(index, temporary, room)
    with suppress(duckdb.Error):
        if connection.execute("SELECT version FROM info").fetchall() == [(_VERSION,)]:
            return connection
    connection.close()
    return None


def _connect(path: str, temporary: str | None, room: int) -> DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(
        path,
        read_only=temporary is None,
        config={
            "threads": 2,
            "memory_limit": _READING_MEMORY if temporary is None else _MEMORY,
            "temp_directory": temporary or "",
            "max_temp_directory_size": f"{room if temporary else 0}B",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET enable_external_access = false")  # not before a directory is set
    return connection
