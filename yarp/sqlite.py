"""SQLite connections with the settings of seed 000, and its errors in YARP's words.

Source: seed 000, SQLite settings; spec "Archive", Database; reference 2.1.
"""

from __future__ import annotations

import os
import sys
import time

from yarp.errors import (
    ArchiveCorrupt,
    ArchiveUnavailable,
    ArchiveVersionUnsupported,
    DataError,
    StorageError,
    YarpError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection, DatabaseError, Error, IntegrityError, OperationalError
    from sqlite3 import connect as _connect
    from types import ModuleType


def _load_driver() -> ModuleType:
    """`_sqlite3` without `functools`, of which it takes `lru_cache` for its statement cache.

    `functools` and what that imports would add a fifth to a bare interpreter's start. So the
    driver meets a stand-in with the same C cache, gone again before anyone else looks.
    """
    try:
        if "functools" in sys.modules:
            return __import__("_sqlite3")
        wrapper = __import__("_functools")._lru_cache_wrapper  # noqa: SLF001 - what functools calls
        stand_in = type(sys)("functools")
        stand_in.__dict__["lru_cache"] = lambda size: lambda call: wrapper(call, size, False, tuple)
        sys.modules["functools"] = stand_in
        try:
            return __import__("_sqlite3")
        finally:
            del sys.modules["functools"]
    except (ImportError, AttributeError):  # another Python: the public module, at its price
        return __import__("sqlite3")


if not TYPE_CHECKING:
    _driver = _load_driver()
    Connection = _driver.Connection
    DatabaseError = _driver.DatabaseError
    # In a damaged schema SQLite's own words may be no text, and the driver fails on those.
    Error = (_driver.Error, UnicodeDecodeError)
    IntegrityError = _driver.IntegrityError
    OperationalError = _driver.OperationalError
    _connect = _driver.connect

__all__ = [
    "Connection",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "OperationalError",
    "classify",
    "code",
    "connect",
    "shorten_log",
    "transaction",
]

# Result codes of SQLite's C interface; they never change.
ERROR, BUSY, LOCKED, READONLY, IOERR, CORRUPT = 1, 5, 6, 8, 10, 11
FULL, CANTOPEN, TOOBIG, CONSTRAINT, NOTADB = 13, 14, 18, 19, 26
PERM, NOMEM, AUTH, PROTOCOL = 3, 7, 23, 15

# A writer that leaves by os._exit never checkpoints at close; a short WAL keeps every open fast.
WAL_PAGES = 256
# What a message about a damaged file ends in, unless verify itself found it.
LOOK_CLOSER = "; run: yarp archive verify"
_PAGE_BYTES = 4096
# Of a new archive: twice SQLite's default, with which a large stream costs a fifth less to store.
PAGE_BYTES = 8192
_SWITCH_TIMEOUT_MS = 25
_SWITCH_PAUSE_S = 0.010
_MAX_STORED_BYTES = 1_000_000_000


def connect(
    path: str,
    *,
    readonly: bool = False,
    busy_timeout_ms: int = 5000,
    inspect: Callable[[Connection], object] | None = None,
) -> Connection:
    """A connection in autocommit mode, so that every transaction is an explicit one.

    A writing connection has the settings of seed 000; a new file gets auto_vacuum before its
    first page, else it would stay 0 for ever. A read-only one changes nothing and works with
    or without a WAL beside the file. `inspect` looks at the database before any setting can
    change it, and raises to refuse it. Raises the YarpError of `classify`.
    """
    connection = None
    try:
        if readonly:
            connection = _connect_readonly(path, busy_timeout_ms)
        else:
            connection = _connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None)
        if inspect is not None:
            inspect(connection)
        if not readonly:
            _prepare_writer(connection, path, busy_timeout_ms)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, Error):
            raise classify(error, path) from error
        raise
    return connection


def code(error: Exception) -> int:
    """The primary result code of an SQLite error; 0 when it has none."""
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    return 0 if extended is None else extended & 0xFF


def classify(error: Exception, path: str) -> YarpError:
    """The YARP error for an SQLite error: what happened to `path`, and what to do."""
    found = code(error)
    # In a damaged file SQLite may quote anything.
    words = "".join(letter if letter.isprintable() else " " for letter in str(error))
    if isinstance(error, UnicodeDecodeError):  # its message quotes the database
        return ArchiveCorrupt(f"{path}: SQLite finds it damaged{LOOK_CLOSER}")
    if found == FULL:
        return StorageError(f"{path}: no space left on its disk; free some and try again")
    if found == TOOBIG or (found == 0 and "too big" in str(error)):
        return StorageError(
            f"{path}: a payload's stored body is over SQLite's limit of {_MAX_STORED_BYTES} bytes"
        )
    if found in (BUSY, LOCKED, PROTOCOL):
        return ArchiveUnavailable(
            f"{path}: another process kept it locked; try again when it has finished"
        )
    if found == 0 and "decode" in str(error):  # the driver's own words, which quote the value
        return ArchiveCorrupt(f"{path}: holds a value of another type than it should")
    if found in (READONLY, CANTOPEN, PERM, AUTH):
        return ArchiveUnavailable(
            f"{path}: cannot be opened for this ({words}); "
            "check that its directory exists and is writable"
        )
    if found == NOTADB:
        return ArchiveVersionUnsupported(
            f"{path}: is no SQLite database; move it away or set archive.path"
        )
    if found == CORRUPT:
        return ArchiveCorrupt(f"{path}: SQLite finds it damaged ({words}){LOOK_CLOSER}")
    if found == CONSTRAINT:
        return DataError(f"{path}: refused by a constraint ({words})")
    if found in (IOERR, NOMEM):
        return StorageError(f"{path}: {words}; check its disk and the space left there")
    return ArchiveUnavailable(f"{path}: {words}")


def shorten_log(connection: Connection, path: str) -> None:
    """Empty the write-ahead log when it is long and nobody needs it; for who leaves unclosed.

    Only a connection that stays can take note of what was checkpointed. Processes that come,
    commit once and go would make the log longer for ever, and copy all of it each time.
    """
    try:
        if os.stat(f"{path}-wal").st_size > WAL_PAGES * _PAGE_BYTES:
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except (OSError, Error):
        return  # all is committed; the next one tries again


class transaction:  # noqa: N801 - reads as a statement: `with transaction(connection, path):`
    """BEGIN IMMEDIATE, then COMMIT, or ROLLBACK on any exception.

    Source: seed 000, SQLite settings: BUSY is retried within the busy timeout, nothing else is.
    """

    __slots__ = ("_begin", "_connection", "_path")

    def __init__(self, connection: Connection, path: str, kind: str = "IMMEDIATE") -> None:
        self._connection = connection
        self._path = path
        self._begin = f"BEGIN {kind}"

    def __enter__(self) -> Connection:
        try:
            self._connection.execute(self._begin)
        except Error as error:
            raise classify(error, self._path) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._connection.execute("COMMIT")
            except Error as failure:
                self._roll_back()
                raise classify(failure, self._path) from failure
            return
        self._roll_back()
        if isinstance(error, Error):
            raise classify(error, self._path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            raise DataError(
                f"{self._path}: cannot hold a name that is no Unicode text, or so large a number"
            ) from error

    def _roll_back(self) -> None:
        # A full disk or an I/O error may have rolled back by itself.
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except Error:  # what came before says more; the next open recovers
                self._connection.close()


def _prepare_writer(connection: Connection, path: str, busy_timeout_ms: int) -> None:
    execute = connection.execute
    if execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        # Switching does not wait: it needs the file to itself, and two processes that open a
        # new file at once would otherwise see each other's lock as an error.
        execute(f"PRAGMA page_size = {PAGE_BYTES}")
        execute("PRAGMA auto_vacuum = INCREMENTAL")
        _switch_to_wal(connection, path, busy_timeout_ms)
    execute("PRAGMA synchronous = FULL")
    execute("PRAGMA foreign_keys = ON")
    execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")


def _switch_to_wal(connection: Connection, path: str, busy_timeout_ms: int) -> None:
    deadline = time.monotonic() + busy_timeout_ms / 1000
    connection.execute(f"PRAGMA busy_timeout = {_SWITCH_TIMEOUT_MS}")
    while True:
        try:
            found = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except OperationalError as error:
            if code(error) not in (BUSY, LOCKED) or time.monotonic() >= deadline:
                raise
        time.sleep(_SWITCH_PAUSE_S)
    if found != "wal":
        raise ArchiveUnavailable(f"{path}: its file system cannot hold SQLite's write-ahead log")
    connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")


def _connect_readonly(path: str, busy_timeout_ms: int) -> Connection:
    try:
        return _open_uri(path, "mode=ro", busy_timeout_ms)
    except OperationalError as error:
        # Where SQLite cannot create the shared memory of a WAL database (no permission, a full
        # disk), and the WAL holds nothing, nobody writes: the file alone is the whole database.
        if code(error) not in (CANTOPEN, READONLY, IOERR) or _holds_bytes(path + "-wal"):
            raise
        return _open_uri(path, "mode=ro&immutable=1", busy_timeout_ms)


def _holds_bytes(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


def _open_uri(path: str, mode: str, busy_timeout_ms: int) -> Connection:
    for mark in "%?#":
        path = path.replace(mark, f"%{ord(mark):02x}")
    connection = _connect(
        f"file://{os.path.abspath(path)}?{mode}",
        timeout=busy_timeout_ms / 1000,
        isolation_level=None,
        uri=True,
    )
    try:
        # SQLite opens its files with the first statement; what fails must fail here.
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
