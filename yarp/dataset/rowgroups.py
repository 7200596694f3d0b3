"""Keeps DuckDB from holding too many long texts at a time.

DuckDB reads and writes a column by 2,048 rows of a row group, and has their texts in memory as a
whole: of outputs of a megabyte each, two gigabytes. So where few rows make many bytes, the row
groups of the file are ended early: behind a checkpoint the next rows begin new ones. DuckDB must
not merge them then, so a run that adds little to such a file leaves it in the log: else each would
leave row groups of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define

if TYPE_CHECKING:
    import duckdb

MOST_BYTES = 24 << 20
"""Texts of rows that DuckDB reads together stay about below this, but for one item's."""

GROUP_ROWS = 4096
"""Rows of a group that is full. The last one is written anew at each checkpoint: DuckDB's own
122,880 rows are 300 MB of texts."""

MOST_LEFT_BYTES = 8 << 20
"""A log that is no longer than this may be left to the next run."""

SHORT_LOG_BYTES = 64 << 10
"""One so short is left of any large file: to look whether it has short groups takes longer."""

_VECTOR_ROWS = 2048
_BLOCK_BYTES = 256 << 10
_LARGE = ("tool_calls", "tool_results")
# The rows of each group, with deleted ones, and the blocks of texts that have some of their own.
_GROUPS = """
    SELECT max(start + count), coalesce(sum(len(additional_block_ids)), 0)::BIGINT
    FROM pragma_storage_info('{}') GROUP BY row_group_id ORDER BY row_group_id"""


@define(slots=True)
class Filling:
    """What DuckDB would read together at the end of its tables: so many rows, so many bytes."""

    rows: int = 0
    byte_count: int = 0

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> Filling:
        """That of a database as it lies in its file."""
        rows = size = 0
        for table in _LARGE:
            found = _groups(connection, table)[-1:]
            for count, blocks in found:
                last = count % _VECTOR_ROWS
                rows = max(rows, last)
                size += blocks * _BLOCK_BYTES * last // max(1, count)
        return cls(rows, size)

    def add(self, rows: int, byte_count: int) -> bool:
        """Take so many more; whether they must begin new row groups, which they then fill."""
        ends = self.byte_count > 0 and self.byte_count + byte_count > MOST_BYTES
        if ends:
            self.rows = self.byte_count = 0
        self.rows += rows
        self.byte_count += byte_count
        if self.rows >= _VECTOR_ROWS:
            self.rows, self.byte_count = self.rows % _VECTOR_ROWS, 0
        return ends


def has_short(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether row groups were ended early."""
    return any(
        len(groups) > 1 + sum(rows for rows, _ in groups) // GROUP_ROWS
        for groups in (_groups(connection, table) for table in _LARGE)
    )


def can_end() -> bool:
    """Whether this DuckDB lets rows begin a row group after a checkpoint."""
    from yarp.dataset.engine import duckdb

    return int(duckdb.__version__.partition(".")[0]) >= 2


def keep_short(connection: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB put the rows of short groups together neither in the file nor on their way."""
    from yarp.dataset.engine import duckdb

    connection.execute("SET max_vacuum_tasks = 0")
    # Of chunks of few rows it makes one of 2,048, texts and all, behind each filter and join.
    with suppress(duckdb.CatalogException):  # not all versions know it
        connection.execute("SET debug_enable_caching_operators = false")


def _groups(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[int, int]]:
    return connection.execute(_GROUPS.format(table)).fetchall()
