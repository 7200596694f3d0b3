"""Commits items: their rows and their checkpoints together, several small items at a time.

An item is all or nothing. Source: seed 003, "Stable reads"; spec "Speed", Dataset.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from attrs import define

from yarp.dataset.beside import Beside
from yarp.dataset.group import Group
from yarp.dataset.outcome import Outcome, unusable
from yarp.dataset.rows import ImporterFault
from yarp.dataset.settle import settle
from yarp.dataset.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from yarp.dataset.database import Dataset
    from yarp.dataset.indexing import Indexing

GROUP_BYTES = 16 << 20
"""Items are committed together until their texts make so many bytes."""

_LARGE_BYTES = 24 << 20  # beside a group of one item, or nearly, nothing else should be in memory

_ROW_BYTES = 512  # of an observation with its keys, about


@define(slots=True)
class Counts:
    """What a run has written: items by what became of them, and rows that are new.

    Copies that came together are not counted; `dropped` are rows that no source holds any more.
    """

    items: int = 0
    touched: int = 0
    rejected: int = 0
    calls: int = 0
    results: int = 0
    observations: int = 0
    dropped: int = 0


class Writer:
    """Gathers outcomes and commits them in groups, on behalf of one run.

    A group is committed while the next one is gathered: until `flush` or `close` the dataset's
    connection is the writer's.
    """

    def __init__(self, dataset: Dataset, run_key: str, indexing: Indexing | None = None) -> None:
        self.counts = Counts()
        self._indexing = indexing
        self._beside = Beside()
        self._dataset = dataset
        self._run_key = run_key
        self._tables = Tables(dataset.connection)
        self._group: list[Outcome] = []
        self._bytes = 0
        self._rows = 0
        (self._empty,) = dataset.row("SELECT count(*) = 0 FROM sessions")

    def add(self, outcome: Outcome) -> None:
        """Take an outcome; a full group is committed. Raises what the one before came to."""
        self._group.append(outcome)
        if outcome.rows is not None:
            self._bytes += outcome.rows.byte_count
            self._rows += outcome.rows.row_count
        # Where it is listed, too, there is half as much of each.
        halved = self._indexing is not None and self._indexing.has_begun
        if self._bytes + _ROW_BYTES * self._rows > GROUP_BYTES >> halved:
            self._start()

    def flush(self) -> None:
        """Commit what was gathered. Raises `SizeLimitReached`."""
        self._start()
        self._beside.wait()

    def close(self) -> None:
        """Wait for what is being committed; what was gathered since is given up."""
        self._beside.close()

    def _start(self) -> None:
        group, byte_count, row_count = self._group, self._bytes, self._rows
        self._group, self._bytes, self._rows = [], 0, 0
        if group:
            self._beside.start(partial(self._write, group, byte_count, row_count))
        if byte_count > _LARGE_BYTES:
            self._beside.wait()

    def _write(self, group: list[Outcome], byte_count: int, row_count: int) -> None:
        rows = _most_rows(group)
        if rows:
            self._dataset.divide(byte_count, rows)
        self._dataset.require_room(byte_count, row_count + 2 * len(group))
        self._commit(group)

    def settle(self, later: Collection[str] = ()) -> None:
        """Commit what was gathered and bring everything to the end of a run.

        `later`: items that still must be read again, by whichever run comes upon them next.
        """
        self.flush()
        calls, results, dropped = settle(self._dataset, self._run_key, later)
        self.counts.calls -= calls
        self.counts.results -= results
        self.counts.dropped += dropped

    def _commit(self, group: list[Outcome]) -> None:
        """Commit a group; of one that cannot be stored, each item on its own."""
        try:
            with self._dataset.transaction():
                written = Group(self._tables, self._dataset, self._run_key, group)
                written.write(look_up=not self._empty)
        except Exception as error:
            if not _is_unfit(error):
                raise
            if len(group) > 1:
                for outcome in group:
                    self._commit([outcome])
                return
            if group[0].rows is None:
                raise
            self._commit([unusable(group[0])])
            return
        self._empty = False
        self._count(group, written)
        if self._indexing is not None:
            self._indexing.take(written.new_calls, written.new_results)

    def _count(self, group: list[Outcome], written: Group) -> None:
        counts = self.counts
        for outcome in group:
            if outcome.status == "rejected":
                counts.rejected += 1
            elif outcome.rows is None:
                counts.touched += 1
            else:
                counts.items += 1
        counts.calls += written.calls
        counts.results += written.results
        counts.observations += written.observations
        counts.dropped += written.dropped


def _is_unfit(error: Exception) -> bool:
    """Whether it says that a row cannot be stored."""
    from yarp.dataset.engine import duckdb

    kinds = [duckdb.IntegrityError, duckdb.DataError, ImporterFault]
    arrow = sys.modules.get("pyarrow")  # else it was not asked
    if arrow is not None:
        kinds.append(arrow.ArrowException)
    return isinstance(error, (*kinds, OverflowError, TypeError, ValueError))


def _most_rows(group: list[Outcome]) -> int:
    read = [outcome.rows for outcome in group if outcome.rows is not None]
    return max(sum(len(rows.calls) for rows in read), sum(len(rows.results) for rows in read))
