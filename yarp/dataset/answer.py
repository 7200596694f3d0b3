"""The process that answers one query of the dataset: `query` starts it, and the kernel bounds it.

It reads a JSON object from standard input (the database, the text, the bounds) and writes lines:
the columns, a row each, and what was cut; or an error. Its memory is limited before the query
runs, and an alarm that nothing handles ends it when it does not stop in time. The engine itself
refuses all but reading: the file is open read-only, external access is off and the configuration
is locked, and only a statement that selects is handed to it. Source: spec Dataset, "Beyond".
"""

from __future__ import annotations

import json
import math
import resource
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from yarp.dataset.database import NEEDS, reading_memory, require_version, told
from yarp.errors import DataError, StorageError, UsageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import duckdb

MORE_MEMORY_BYTES = 256 << 20
"""Above what DuckDB may fill: for what it does not count, and for the rows in our own hands."""

_LATE_SECONDS = 1.0
_SELECTS = ("SELECT", "EXPLAIN")
_FETCHED_ROWS = 64
# What DuckDB raises of a block that it cannot read; the first has no name of its own.
_DAMAGE = ("Error", "FatalException", "IOException", "SerializationException")
_ABOUT_THE_TEXT = ("ParserException", "BinderException", "CatalogException", "PermissionException")


def main() -> int:
    """Answer what standard input asks."""
    asked = json.loads(sys.stdin.buffer.read())
    out = sys.stdout

    def tell(said: object) -> None:
        out.write(f"{json.dumps(said)}\n")

    try:
        for said in _answer(asked):
            tell(said)
    except YarpError as error:
        tell({"error": type(error).__name__, "message": str(error)})
    except MemoryError:
        tell({"error": "DataError", "message": "the query needs more memory; narrow it"})
    return 0


def _answer(asked: dict[str, Any]) -> Iterator[object]:
    try:
        from yarp.dataset.engine import duckdb
    except ImportError:
        raise StorageError(NEEDS) from None
    seconds = asked["seconds"]
    connection, memory_mib = _connect(asked["database"], asked["memory_mib"], asked["threads"])
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        connection.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    late = DataError(f"the query was stopped after {seconds:g} s; narrow it, or give --seconds")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, seconds + _LATE_SECONDS)
    _limit_memory((memory_mib << 20) + MORE_MEMORY_BYTES)
    try:
        yield from _rows(connection, asked)
    except duckdb.InterruptException:
        if stopped.is_set():
            raise late from None
        raise
    except MemoryError:
        raise _too_large(memory_mib) from None
    except duckdb.Error as error:
        raise _failure(error, asked["database"], memory_mib) from None


def _too_large(memory_mib: int) -> DataError:
    return DataError(f"the query needs more than {memory_mib} MiB of memory; narrow it")


def _failure(error: duckdb.Error, database: str, memory_mib: int) -> YarpError:
    """What to say of an error of the engine, whose own words may quote a value."""
    kind = type(error).__name__
    if kind == "OutOfMemoryException" or "bad_alloc" in str(error):
        return _too_large(memory_mib)
    if kind in _ABOUT_THE_TEXT:
        # The first line: what follows it quotes the query.
        return UsageError(str(error).split("\n", 1)[0])
    if "read-only mode" in str(error):
        return UsageError("the dataset is only read here")
    if kind in _DAMAGE:
        return DataError(f"{database} is damaged; see: yarp dataset verify")
    return DataError(f"the query failed on a value ({kind}); try TRY_CAST, or a condition")


def _connect(
    database: str, memory_mib: int | None, threads: int
) -> tuple[duckdb.DuckDBPyConnection, int]:
    """A connection that can only read, and how many MiB it may fill."""
    from yarp.dataset.engine import duckdb

    with told(database):
        connection = duckdb.connect(
            database,
            read_only=True,
            config={
                "threads": threads,
                "max_temp_directory_size": "0B",
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        require_version(connection, database)
        mib = memory_mib or reading_memory(connection, database) >> 20
        connection.execute(f"SET memory_limit = '{mib}MiB'")
        connection.execute("SET lock_configuration = true")
    return connection, mib


def _limit_memory(more: int) -> None:
    """Let this process take `more` bytes beyond what it has, and leave no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Where the kernel says nothing of it, DuckDB's own bound has to do.
    with suppress(OSError, ValueError):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        most = pages * resource.getpagesize() + more
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _rows(connection: duckdb.DuckDBPyConnection, asked: dict[str, Any]) -> Iterator[object]:
    """The columns, the rows, and what was cut of them."""
    statements = connection.extract_statements(asked["text"])
    if len(statements) != 1 or statements[0].type.name not in _SELECTS:
        raise UsageError("give one SELECT statement; the dataset is only read here")
    result = connection.execute(statements[0])
    yield {"columns": [column[0] for column in result.description or ()]}
    cut: dict[str, None] = {}
    size = 0
    for count, row in enumerate(_fetched(result)):
        if count == asked["rows"]:
            cut["rows"] = None
            break
        cells = [_cell(value, asked["cell_characters"], cut) for value in row]
        size += sum(len(cell.encode()) if isinstance(cell, str) else 8 for cell in cells)
        if size > asked["output_bytes"]:
            cut["output"] = None
            break
        yield cells
    yield {"cut": list(cut)}


def _fetched(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(_FETCHED_ROWS):
        yield from rows


def _cell(value: Any, characters: int, cut: dict[str, None]) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    if len(text) > characters:
        cut["cells"] = None
        text = text[:characters] + "…"
    return text


if __name__ == "__main__":
    sys.exit(main())
