"""The parts of a dataset that a census reads on their own: slices of a database, Parquet files.

A shard is a small value that any process that reaches the file can read; what it holds is read
where it is counted. All shards of a source together hold each result that has a text once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from yarp.census.measure import Row
from yarp.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.dataset.database import Dataset

COLUMNS = (
    "agent",
    "tool_name",
    "input_format",
    "input_text",
    "is_error",
    "output_text",
    "output_json",
)
_SHARD_BYTES = 8 << 20
# Each one looks through the keys of all calls.
_SHARDS = 512
_FETCHED_ROWS = 256


class Opened:
    """The datasets that a process has open, until it closes them: opening costs as much as 2 MB."""

    def __init__(self) -> None:
        self._datasets: dict[str, Dataset] = {}
        self._rows: dict[str, int] = {}

    def dataset(self, path: str) -> Dataset:
        """The dataset at a path, opened when it is asked for the first time."""
        from yarp.dataset.database import Dataset

        dataset = self._datasets.get(path)
        if dataset is None:
            dataset = self._datasets[path] = Dataset.read(path)
        return dataset

    def row_numbers(self, path: str) -> int:
        """How many numbers the results of the dataset at a path have, or had: some are free."""
        rows = self._rows.get(path)
        if rows is None:
            (rows,) = self.dataset(path).row("SELECT coalesce(max(rowid) + 1, 0) FROM tool_results")
            self._rows[path] = rows
        return rows

    def close(self) -> None:
        """Let all of them go."""
        self._rows.clear()
        while self._datasets:
            self._datasets.popitem()[1].close()


@attrs.frozen
class Slice:
    """The results of a DuckDB dataset whose row numbers lie in these parts of all `parts`."""

    database: str
    first: int
    end: int
    parts: int

    def rows(self, opened: Opened) -> Iterator[Row]:
        """The results with their calls."""
        import duckdb

        try:
            yield from self._rows(opened.dataset(self.database), opened.row_numbers(self.database))
        except duckdb.Error as error:
            raise DataError(f"{self.database} cannot be read: {type(error).__name__}") from error

    def _rows(self, dataset: Dataset, rows: int) -> Iterator[Row]:
        reading = dataset.connection.execute(
            "SELECT s.agent, c.tool_name, c.input_format, c.input_text, r.is_error, "
            "r.output_text, r.output_json FROM tool_results AS r JOIN tool_calls AS c "
            "USING (call_key) JOIN sessions AS s USING (session_key) "
            "WHERE r.rowid >= ? AND r.rowid < ? AND r.output_text IS NOT NULL",
            [rows * self.first // self.parts, rows * self.end // self.parts],
        )
        while fetched := reading.fetchmany(_FETCHED_ROWS):
            for row in fetched:
                yield Row(*row)


@attrs.frozen
class Group:
    """One row group of a Parquet file as `yarp dataset export` writes it."""

    file: str
    number: int

    def rows(self, _opened: Opened) -> Iterator[Row]:
        """The results with their calls."""
        import pyarrow as pa
        from pyarrow import parquet

        # Damage may show as bytes that are no text; their error would hold them.
        damaged = DataError(f"{self.file} is damaged: its row group {self.number} cannot be read")
        try:
            with parquet.ParquetFile(self.file) as file:
                table = file.read_row_group(self.number, columns=list(COLUMNS))
        except (OSError, ValueError, pa.ArrowException):
            raise damaged from None
        for batch in table.to_batches(_FETCHED_ROWS):
            try:
                columns = [batch.column(name).to_pylist() for name in COLUMNS]
            except ValueError:
                raise damaged from None
            for values in zip(*columns, strict=True):
                row = Row(*values)
                if row.output_text is not None:
                    yield row


Shard = Slice | Group


def shards(source: str) -> list[Shard]:
    """The shards of a database, a Parquet file, or a directory of Parquet files."""
    if os.path.isdir(source):
        files = sorted(
            os.path.join(directory, name)
            for directory, _, names in os.walk(source)
            for name in names
            if name.endswith(".parquet")
        )
        if not files:
            raise DataError(f"{source} holds no Parquet files")
        return [group for file in files for group in _groups(file)]
    if not os.path.exists(source):
        raise DataError(f"{source}: there is no such dataset; make one with: yarp dataset extract")
    with open(source, "rb") as file:
        start = file.read(4)
    return list(_groups(source)) if start == b"PAR1" else list(_slices(source))


def _groups(file: str) -> Iterator[Shard]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as opened:
            names, groups = set(opened.schema_arrow.names), opened.num_row_groups
    except (OSError, ValueError, pa.ArrowException):
        raise DataError(f"{file} is damaged, or no Parquet file") from None
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DataError(f"{file} has no column {missing[0]}; see: yarp dataset export")
    for number in range(groups):
        yield Group(file, number)


def _slices(database: str) -> Iterator[Shard]:
    with suppress(ImportError):  # whoever opens it says what is missing
        import duckdb  # noqa: F401 - once for all processes that are copies of this one
    # By the file alone: whoever counts a slice knows where its rows begin.
    count = min(max(1, os.path.getsize(database) // _SHARD_BYTES), _SHARDS)
    first, parts = 0, 4 * count
    while first < parts:
        # Small ones at the end, so that all processes end at the same time.
        left = parts - first
        end = first + (4 if left > 16 else 2 if left > 6 else 1)
        yield Slice(database, first, end, parts)
        first = end
