"""One SQL query over the dataset: read-only, and bounded in rows, cells, output, memory and time.

The engine itself refuses everything else: the file is open read-only, external access is off, and
the configuration is locked; only a statement that selects is handed to it. A query that takes too
long is interrupted. Source: spec Dataset, "Beyond".
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs
import duckdb

from yarp.errors import DataError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SELECTS = ("SELECT", "EXPLAIN")
_FETCHED_ROWS = 64
_ABOUT_THE_TEXT = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.PermissionException,
)


@attrs.frozen
class Bounds:
    """What a query may cost and show at most."""

    rows: int = 1000
    cell_characters: int = 2000
    output_bytes: int = 1 << 20
    seconds: float = 30.0
    memory_mib: int = 512
    threads: int = 2


@attrs.frozen
class Answer:
    """The columns and rows of a query, and which bounds cut it: `rows`, `cells`, `output`."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: tuple[str, ...]


def query(database: str, text: str, bounds: Bounds | None = None) -> Answer:
    """What one SELECT (or EXPLAIN) says.

    Cells that are no number, truth value or NULL come as text. Raises UsageError for a statement
    that is none or is refused, DataError for one that fails or passes a bound of time or memory.
    """
    bounds = bounds or Bounds()
    connection = _connect(database, bounds)
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        connection.interrupt()

    timer = threading.Timer(bounds.seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        return _ask(connection, text, bounds)
    except duckdb.InterruptException as error:
        if not stopped.is_set():
            raise
        raise DataError(
            f"the query was stopped after {bounds.seconds:g} s; narrow it, or give --seconds"
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"the query needs more than {bounds.memory_mib} MiB of memory; narrow it"
        ) from error
    except _ABOUT_THE_TEXT as error:
        raise UsageError(_sentence(error)) from error
    except duckdb.Error as error:
        if "read-only mode" in str(error):
            raise UsageError("the dataset is only read here") from error
        # What it says may quote a value.
        raise DataError(
            f"the query failed on a value ({type(error).__name__}); try TRY_CAST, or a condition"
        ) from error
    finally:
        timer.cancel()
        timer.join()
        connection.close()


def _connect(database: str, bounds: Bounds) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(
            database,
            read_only=True,
            config={
                "threads": bounds.threads,
                "memory_limit": f"{bounds.memory_mib}MiB",
                "max_temp_directory_size": "0B",
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "lock_configuration": "true",
            },
        )
    except duckdb.Error as error:
        raise StorageError(f"{database}: {_sentence(error)}") from error


def _ask(connection: duckdb.DuckDBPyConnection, text: str, bounds: Bounds) -> Answer:
    statements = connection.extract_statements(text)
    if len(statements) != 1 or statements[0].type.name not in _SELECTS:
        raise UsageError("give one SELECT statement; the dataset is only read here")
    result = connection.execute(statements[0])
    columns = tuple(column[0] for column in result.description or ())
    rows: list[tuple[Any, ...]] = []
    cut: dict[str, None] = {}
    size = 0
    for row in _fetched(result):
        if len(rows) == bounds.rows:
            cut["rows"] = None
            break
        cells = tuple(_cell(value, bounds.cell_characters, cut) for value in row)
        size += sum(len(cell.encode()) if isinstance(cell, str) else 8 for cell in cells)
        if size > bounds.output_bytes:
            cut["output"] = None
            break
        rows.append(cells)
    return Answer(columns, rows, tuple(cut))


def _fetched(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(_FETCHED_ROWS):
        yield from rows


def _cell(value: Any, characters: int, cut: dict[str, None]) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    if len(text) > characters:
        cut["cells"] = None
        text = text[:characters] + "…"
    return text


def _sentence(error: duckdb.Error) -> str:
    """The first line of what the engine says: what follows it quotes the query."""
    return str(error).split("\n", 1)[0]
