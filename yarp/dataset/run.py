"""A run of an import: its row, the roots and items that it meets, and issues outside of items.

Source: seed 003, "Draft DuckDB schema".
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from attrs import define

from yarp.dataset import keys
from yarp.dataset.rows import issue_rows
from yarp.dataset.tables import Tables
from yarp.errors import UsageError
from yarp.sources.beneath import shown
from yarp.sources.facts import Issue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import duckdb

    from yarp.dataset.database import Dataset
    from yarp.dataset.writer import Counts


@define(slots=True)
class Report:
    """What a run did: items found, passed over as unchanged, gone, and what was written.

    `issues`: the rows that it left of what could not be read or must not be guessed.
    """

    agent: str
    run_key: str
    found: int
    unchanged: int
    vanished: int
    written: Counts
    issues: int


@define(slots=True)
class Known:
    """What the dataset knows of an item from its last reading."""

    source_root_key: str
    relative_path: str
    adapter_version: int
    size_bytes: int
    imported_byte_count: int | None
    prefix_sha256: bytes | None
    status: Literal["complete", "deferred", "rejected"]
    fingerprint: bytes | None
    surroundings: bytes | None


class Run:
    """A row of import_runs, and what all runs do: know roots and items, settle, end."""

    def __init__(self, dataset: Dataset, unix_user: str, agent: str) -> None:
        if not unix_user:
            raise UsageError("the Unix user must be named")
        self.dataset = dataset
        self.unix_user = unix_user
        self.agent = agent
        started = time.time_ns() // 1_000_000
        self.key = keys.run(unix_user, agent, started, os.getpid())
        from yarp.dataset.engine import duckdb

        # The same key: the same millisecond, in tests. To look for it takes longer than all else.
        with suppress(duckdb.ConstraintException), dataset.transaction() as connection:
            connection.execute(
                "INSERT INTO import_runs VALUES (?, ?, ?, ?, NULL, 'running')",
                [self.key, unix_user, agent, started],
            )

    def end(self, status: str) -> None:
        """Say how the run ended."""
        with self.dataset.transaction() as connection:
            connection.execute(
                "UPDATE import_runs SET status = ?, finished_at_ms = greatest(started_at_ms, ?)"
                " WHERE run_key = ? AND status = 'running'",
                [status, time.time_ns() // 1_000_000, self.key],
            )

    def end_badly(self) -> None:
        """Say that the run failed, if that can still be said; the next opening says it else."""
        from yarp.dataset.engine import duckdb

        with suppress(duckdb.Error):
            self.end("failed")

    def issue_count(self) -> int:
        """How many rows of issues this run has left."""
        (count,) = self.dataset.row(
            "SELECT count(*) FROM import_issues WHERE run_key = ?", [self.key]
        )
        return int(count)

    def root(self, kind: str, path: str) -> str:
        """The key of a root, which is recorded if it is new."""
        path = shown(path)
        key = keys.source_root(self.unix_user, self.agent, kind, path)
        if not self.dataset.rows("SELECT 1 FROM source_roots WHERE source_root_key = ?", [key]):
            with self.dataset.transaction() as connection:
                connection.execute(
                    "INSERT INTO source_roots VALUES (?, ?, ?, ?, ?)",
                    [key, self.unix_user, self.agent, kind, path],
                )
        return key

    def known(self, root_keys: Iterable[str]) -> dict[str, Known]:
        """What is known of the items below these roots, by item key."""
        found = self.dataset.rows(
            "SELECT source_item_key, source_root_key, relative_path, adapter_version, size_bytes,"
            " imported_byte_count, prefix_sha256, status, fingerprint, surroundings"
            " FROM source_items LEFT JOIN private.checkpoints USING (source_item_key)"
            " WHERE list_contains(?, source_root_key)",
            [list(root_keys)],
        )
        return {row[0]: Known(*row[1:]) for row in found}

    def note(self, issues: Iterable[Issue]) -> None:
        """Record issues that belong to no item, in place of those of earlier runs."""
        rows = issue_rows(issues, self.key, None, (self.unix_user, self.agent))
        before = self.dataset.rows(
            "SELECT issue_key FROM import_issues JOIN import_runs USING (run_key)"
            " WHERE source_item_key IS NULL AND unix_user = ? AND agent = ?",
            [self.unix_user, self.agent],
        )
        if rows or before:
            with self.dataset.transaction() as connection:
                for (key,) in before:
                    connection.execute("DELETE FROM import_issues WHERE issue_key = ?", [key])
                Tables(connection).insert("import_issues", rows)

    def note_vanished(
        self,
        known: Mapping[str, Known],
        here: Collection[str],
        refused: Iterable[tuple[str, str]],
    ) -> int:
        """Say of known items that are not `here` (by key) that they are gone; of others no longer.

        Nothing is said of what lies below `refused` places, by root key and path. An item that
        gave nothing is forgotten. Gives how many are newly gone.
        """
        hidden = {(root, path and f"{path}/") for root, path in refused}
        gone = {
            key
            for key in known.keys() - here
            if hidden.isdisjoint(_above(known[key].source_root_key, known[key].relative_path))
        }
        found = self.dataset.rows(
            "SELECT source_item_key FROM import_issues WHERE code = 'source_vanished'"
        )
        told = {key for (key,) in found}
        new = gone - told
        rejected = {key for key in new if known[key].status == "rejected"}
        nothing = self._gave_nothing(rejected)
        new -= nothing
        back = told.intersection(here)
        if new or back or nothing:
            with self.dataset.transaction() as connection:
                for key in back:
                    connection.execute(
                        "DELETE FROM import_issues WHERE code = 'source_vanished'"
                        " AND source_item_key = ?",
                        [key],
                    )
                # Why it could not be read is of no more interest.
                _delete(connection, ("import_issues",), rejected)
                _delete(connection, ("private.checkpoints", "source_items"), nothing)
                what = Issue("source_vanished", "the source is gone; what was imported stays")
                rows = [
                    row for key in sorted(new) for row in issue_rows([what], self.key, key, (key,))
                ]
                Tables(connection).insert("import_issues", rows)
        return len(new)

    def _gave_nothing(self, item_keys: Collection[str]) -> set[str]:
        """Those of the items to which no row points."""
        if not item_keys:
            return set()
        held = self.dataset.rows(
            "SELECT DISTINCT source_item_key FROM observations"
            " WHERE list_contains(?, source_item_key)",
            [list(item_keys)],
        )
        return {*item_keys} - {key for (key,) in held}


def _delete(
    connection: duckdb.DuckDBPyConnection, tables: Iterable[str], item_keys: Iterable[str]
) -> None:
    for table in tables:
        for key in item_keys:
            connection.execute(f"DELETE FROM {table} WHERE source_item_key = ?", [key])


def _above(root_key: str, path: str) -> Iterator[tuple[str, str]]:
    """Each directory above a place, the root first, with a slash behind its name."""
    yield root_key, ""
    end = path.find("/")
    while end >= 0:
        yield root_key, path[: end + 1]
        end = path.find("/", end + 1)
