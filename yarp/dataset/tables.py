"""Rows in and out of DuckDB, mostly as Arrow tables, whose types are those of the catalogue."""

from __future__ import annotations

import sys
from array import array
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import duckdb
    import pyarrow as pa

    Row = tuple[Any, ...]

_LONG_CHARACTERS = 1000
# For so few it pays not to load Arrow, and all of DuckDB's package with it.
_FEW_VALUES = 1 << 14


def arrow_type(duckdb_type: str) -> pa.DataType:
    """The Arrow type that holds a column of this DuckDB type."""
    import pyarrow as pa

    types = {
        "VARCHAR": pa.large_string(),
        "BLOB": pa.large_binary(),
        "BOOLEAN": pa.bool_(),
        "BIGINT": pa.int64(),
        "INTEGER": pa.int32(),
        "UBIGINT": pa.uint64(),
        "UINTEGER": pa.uint32(),
        "UTINYINT": pa.uint8(),
    }
    return types[duckdb_type]


def _array(values: Sequence[Any], kind: pa.DataType, pool: pa.MemoryPool) -> pa.Array:
    import pyarrow as pa

    if not pa.types.is_large_string(kind) or not any(_is_long(each) for each in values):
        return pa.array(values, kind, memory_pool=pool)
    # A buffer that grows with each long text is copied again and again.
    data = [b"" if each is None else each.encode() for each in values]
    ends = array("q", accumulate(map(len, data), initial=0))
    missing = values.count(None)
    there = None
    if missing:
        there = pa.array([each is not None for each in values], pa.bool_()).buffers()[1]
    texts = pa.py_buffer(b"".join(data))
    return pa.LargeStringArray.from_buffers(len(data), pa.py_buffer(ends), texts, there, missing)


def _is_long(text: str | None) -> bool:
    return text is not None and len(text) > _LONG_CHARACTERS


class Tables:
    """Inserts rows, and gives statements a table of values to join with."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._columns: dict[str, list[tuple[str, str]]] = {}

    def _columns_of(self, table: str) -> list[tuple[str, str]]:
        found = self._columns.get(table)
        if found is None:
            asked = f"SELECT name, type FROM pragma_table_info('{table}') ORDER BY cid"
            found = self._columns[table] = self._connection.execute(asked).fetchall()
        return found

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert whole rows."""
        if rows:
            with self._registered(rows, self._columns_of(table)) as name:
                self._connection.execute(f"INSERT INTO {table} SELECT * FROM {name}")

    @contextmanager
    def values(self, rows: Iterable[Row], **columns: str) -> Iterator[str]:
        """The name of a table of these values, in these columns with their DuckDB types."""
        with self._registered(list(rows), list(columns.items())) as name:
            yield name

    @contextmanager
    def _registered(self, rows: Sequence[Row], columns: list[tuple[str, str]]) -> Iterator[str]:
        turned = list(zip(*rows, strict=True)) or [()] * len(columns)
        if len(rows) * len(columns) <= _FEW_VALUES and not _has_arrow():
            with self._listed(turned, columns) as name:
                yield name
            return
        import duckdb
        import pyarrow as pa

        pool = pa.system_memory_pool()  # the others keep what was given back
        table = pa.table(
            {
                name: _array(values, arrow_type(kind), pool)
                for (name, kind), values in zip(columns, turned, strict=True)
            }
        )
        self._connection.register("given", table)
        try:
            yield "given"
        finally:
            with suppress(duckdb.Error):  # the transaction failed; the next table takes the name
                self._connection.unregister("given")

    @contextmanager
    def _listed(
        self, turned: Sequence[Sequence[Any]], columns: list[tuple[str, str]]
    ) -> Iterator[str]:
        from yarp.dataset.engine import duckdb

        lists = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, kind in columns)
        self._connection.execute(f"CREATE TEMP TABLE given AS SELECT {lists}", [*map(list, turned)])
        try:
            yield "given"
        finally:
            with suppress(duckdb.Error):  # the transaction failed, and it is gone
                self._connection.execute("DROP TABLE given")


def _has_arrow() -> bool:
    return "pyarrow" in sys.modules
