"""The transaction of a group of items: their rows, in line with what the items say now.

New rows are inserted, and those that an item alone held and holds no more are dropped.
Source: seed 003, "Stable reads".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yarp.dataset import doubt
from yarp.dataset.places import read_anew, unlink
from yarp.dataset.rows import issue_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from yarp.dataset.database import Dataset
    from yarp.dataset.outcome import Outcome
    from yarp.dataset.rows import CallRow
    from yarp.dataset.tables import Row, Tables

# Results are inserted so many bytes of texts at a time.
_PORTION_BYTES = 16 << 20


class Group:
    """What one transaction writes, and counts of it.

    `new_calls`, `new_results`: rows that no table had before.
    """

    def __init__(
        self, tables: Tables, dataset: Dataset, run_key: str, group: Sequence[Outcome]
    ) -> None:
        self._tables = tables
        self._dataset = dataset
        self._connection = dataset.connection
        self._execute = dataset.connection.execute
        self._run_key = run_key
        self._group = group
        self._read = [outcome for outcome in group if outcome.rows is not None]
        self.calls = self.results = self.observations = self.dropped = 0
        self.new_calls: list[Row] = []
        self.new_results: list[Row] = []

    def write(self, *, look_up: bool) -> None:
        """Write everything; `look_up`: the tables hold rows that these may meet."""
        self._items()
        self._issues()
        if not self._read:
            return
        self._sessions(look_up=look_up)
        again = {each.source_item_key: each.rows.kept for each in self._read if each.known}  # type: ignore[union-attr]
        stale, lost = self._observations(again)
        owned = self._calls(look_up=look_up)
        self._results(look_up=look_up)
        self._links(again, owned)
        if stale:
            self._drop_unseen(stale)
            doubt.put_copies(self._connection, self._tables, lost)
        self._execute("UPDATE private.state SET unsettled = true WHERE NOT unsettled")

    def _items(self) -> None:
        rows = []
        for each in self._group:
            stat = each.stat
            rows.append(
                (
                    each.source_item_key,
                    each.source_root_key,
                    each.relative_path,
                    each.adapter_version,
                    stat and stat.device_id,
                    stat and stat.inode,
                    stat.size_bytes if stat else 0,
                    stat.mtime_ns if stat else 0,
                    each.imported_byte_count,
                    each.prefix_sha256,
                    self._run_key,
                    each.status,
                )
            )
        known = {each.source_item_key for each in self._group if each.known}
        self._tables.insert("source_items", [row for row in rows if row[0] not in known])
        moved = [row for row in rows if row[0] in known]
        if moved:
            with self._tables.values(moved, **_ITEM_COLUMNS) as given:
                # A rejected item keeps the state that its rows stand for.
                keeps = "g.status = 'rejected' AND i.imported_byte_count IS NOT NULL"
                state = ", ".join(
                    f"{name} = CASE WHEN {keeps} THEN i.{name} ELSE g.{name} END"
                    for name in _STATE_COLUMNS
                )
                self._execute(f"""
                    UPDATE source_items AS i SET {state}, adapter_version = g.adapter_version,
                      last_run_key = g.last_run_key, status = g.status
                    FROM {given} AS g WHERE i.source_item_key = g.source_item_key""")
        touched = [
            each.source_item_key
            for each in self._group
            if each.rows is None and each.status != "rejected"
        ]
        doubted = doubt.among(self._connection, self._tables, touched)
        marks = [
            (each.source_item_key, each.fingerprint, each.surroundings)
            for each in self._group
            if each.fingerprint is not None and each.source_item_key not in doubted
        ]
        self._delete("private.checkpoints", "source_item_key", known)
        self._tables.insert("private.checkpoints", marks)

    def _issues(self) -> None:
        anew = [each.source_item_key for each in self._read if each.known]
        self._delete("import_issues", "source_item_key", anew)
        rows: list[Row] = []
        for each in self._group:
            key = each.source_item_key
            issues = [*each.issues, *(each.rows.issues if each.rows is not None else ())]
            rows += issue_rows(issues, self._run_key, key, (key,))
        self._delete("import_issues", "issue_key", [row[0] for row in rows])
        self._tables.insert("import_issues", rows)

    def _sessions(self, *, look_up: bool) -> None:
        sessions: dict[str, Row] = {}
        for each in self._read:
            for key, row in each.rows.sessions.items():  # type: ignore[union-attr]
                known = sessions.get(key)
                if known is None or known[4] is None or (row[4] is not None and row[4] < known[4]):
                    sessions[key] = row
        new = list(sessions.values())
        if look_up:
            new = self._unknown("sessions", ("session_key", "started_at_ms"), sessions, 4)
        self._tables.insert("sessions", new)

    def _observations(self, again: Mapping[str, Collection[str]]) -> tuple[list[Row], list[Row]]:
        """Write the observations; gives those that were rewritten or lost, and those lost alone.

        `again`: the items that were there before, each with the places that it keeps. Each
        observation points to the item's own call or result, also where it had moved to the call
        that it is a copy of: that one may be gone. `settle` moves it there again.
        """
        new: list[Row] = []
        said: set[str] = set()
        moved = 0
        known: dict[str, Row] = {}
        whole = [(key,) for key, places in again.items() if not places]
        if whole:
            with self._tables.values(whole, key="VARCHAR") as given:
                found = self._execute(
                    "SELECT o.* FROM observations AS o"
                    f" JOIN {given} AS g ON g.key = o.source_item_key"
                ).fetchall()
            known = {row[0]: row for row in found}
        for key, places in again.items():
            if places:
                found = read_anew(self._dataset, self._tables, key, places)
                known.update((row[0], row) for row in found)
        kept = set()
        for each in self._read:
            said.update(each.rows.observations)  # type: ignore[union-attr]
            for key, row in each.rows.observations.items():  # type: ignore[union-attr]
                before = known.get(key)
                if before is not None and before[2:] == row[2:]:
                    kept.add(key)
                    continue
                new.append(row)
                moved += before is not None and before[4:] == row[4:]
        stale = [row for key, row in known.items() if key not in kept]
        self._delete("observations", "observation_key", [row[0] for row in stale])
        self._tables.insert("observations", new)
        self.observations = len(new) - moved
        return stale, [row for key, row in known.items() if key not in said]

    def _calls(self, *, look_up: bool) -> set[tuple[str, str]]:
        """Write the calls; each as (item, own key) that tool_calls now takes from this group."""
        best: dict[str, tuple[tuple[Any, ...], CallRow, Outcome]] = {}
        for each in self._read:
            assert each.rows is not None  # noqa: S101 - for the type checker
            for key, call in each.rows.calls.items():
                rank = _rank(call, each)
                if key not in best or rank < best[key][0] or key in each.claims:
                    best[key] = (rank, call, each)
        present = self._present_calls(best) if look_up else {}
        owned, new, replaced = set(), [], []
        for key, (rank, call, each) in best.items():
            before = present.get(key)
            if before is not None:
                row, owner, owner_rank = before
                same = owner is None or owner == each.source_item_key or key in each.claims
                if not same and rank >= owner_rank:
                    continue
                if row == call.row:
                    owned.add((each.source_item_key, key))
                    continue
                replaced.append(key)
            owned.add((each.source_item_key, key))
            new.append(call.row)
        self._delete("tool_calls", "call_key", replaced)
        self._tables.insert("tool_calls", new)
        self.calls = len(new) - len(replaced)
        again = set(replaced)
        self.new_calls = [row for row in new if row[0] not in again]
        return owned

    def _present_calls(self, calls: Collection[str]) -> dict[str, tuple[Row, str | None, Row]]:
        """Of these calls, the stored row, the item that it was taken from, and that one's rank."""
        with self._tables.values([(key,) for key in calls], key="VARCHAR") as given:
            # The keys alone first: to read whole rows for all takes ten times as long.
            present = self._execute(
                f"SELECT key FROM {given} SEMI JOIN tool_calls ON call_key = key"
            ).fetchall()
        if not present:
            return {}
        with self._tables.values(present, key="VARCHAR") as given:
            found = self._execute(f"""
                SELECT c.*, l.source_item_key, s.started_at_ms IS NULL, s.started_at_ms,
                  s.native_session_id, l.weight, i.relative_path, l.source_item_key
                FROM tool_calls AS c JOIN {given} AS g ON g.key = c.call_key
                LEFT JOIN private.call_links AS l ON l.own_key = c.call_key AND l.owns
                LEFT JOIN sessions AS s ON s.session_key = l.session_key
                LEFT JOIN source_items AS i ON i.source_item_key = l.source_item_key""").fetchall()
        return {row[0]: (row[:12], row[12], (row[13], row[14] or 0, *row[15:])) for row in found}

    def _results(self, *, look_up: bool) -> None:
        results: dict[str, Row] = {}
        for each in self._read:
            for key, row in each.rows.results.items():  # type: ignore[union-attr]
                known = results.get(key)
                if known is None or known[2] is None or (row[2] is not None and row[2] < known[2]):
                    results[key] = row
        new = list(results.values())
        if look_up:
            new = self._unknown("tool_results", ("result_key", "returned_at_ms"), results, 2)
        for some in _portions(new):
            self._tables.insert("tool_results", some)
        self.results = len(new)
        self.new_results = new

    def _links(self, again: Mapping[str, Collection[str]], owned: set[tuple[str, str]]) -> None:
        whole = [key for key, places in again.items() if not places]
        self._delete("private.call_links", "source_item_key", whole)
        for key, places in again.items():
            if places:
                unlink(self._dataset, self._tables, key, places)
        self._delete("private.suspects", "source_item_key", again)
        lost = {key for _, key in owned}
        if lost:
            with self._tables.values([(key,) for key in lost], key="VARCHAR") as given:
                self._execute(
                    f"UPDATE private.call_links SET owns = false FROM {given} AS g"
                    " WHERE own_key = g.key AND owns"
                )
        links: list[Row] = []
        suspects: list[Row] = []
        for each in self._read:
            assert each.rows is not None  # noqa: S101 - for the type checker
            item = each.source_item_key
            links += [
                (
                    item,
                    link.own_key,
                    link.group_key,
                    link.session_key,
                    link.weight,
                    (item, link.own_key) in owned,
                )
                for link in each.rows.links.values()
            ]
            suspects += each.rows.suspects
        self._tables.insert("private.call_links", links)
        self._tables.insert("private.suspects", suspects)

    def _drop_unseen(self, stale: list[Row]) -> None:
        """Drop calls and results that only these observations had shown."""
        for table, column, place in (
            ("tool_calls", "call_key", 2),
            ("tool_results", "result_key", 3),
        ):
            shown = {(row[place],) for row in stale if row[place] is not None}
            if not shown:
                continue
            with self._tables.values(shown, key="VARCHAR") as given:
                gone = self._execute(
                    f"SELECT key FROM {given} ANTI JOIN observations ON {column} = key"
                ).fetchall()
            self._delete(table, column, [key for (key,) in gone])
            self.dropped += len(gone)

    def _unknown(
        self, table: str, columns: tuple[str, str], rows: dict[str, Row], place: int
    ) -> list[Row]:
        """The rows that the table does not have; of one that it has, the earlier time counts.

        `columns`: the key and the time; `place`: that of the time in a row.
        """
        key, time = columns
        with self._tables.values([(each,) for each in rows], key="VARCHAR") as given:
            found = dict(
                self._execute(
                    f"SELECT {key}, {time} FROM {table} SEMI JOIN {given} ON key = {key}"
                ).fetchall()
            )
        earlier = [
            (each, rows[each][place])
            for each, known in found.items()
            if rows[each][place] is not None and (known is None or rows[each][place] < known)
        ]
        if earlier:
            with self._tables.values(earlier, key="VARCHAR", time="BIGINT") as given:
                self._execute(
                    f"UPDATE {table} SET {time} = g.time FROM {given} AS g WHERE {key} = g.key"
                )
        return [row for each, row in rows.items() if each not in found]

    def _delete(self, table: str, column: str, given: Collection[str]) -> None:
        if given:
            with self._tables.values([(key,) for key in given], key="VARCHAR") as name:
                self._execute(f"DELETE FROM {table} WHERE {column} IN (SELECT key FROM {name})")


_ITEM_COLUMNS = {
    "source_item_key": "VARCHAR",
    "source_root_key": "VARCHAR",
    "relative_path": "VARCHAR",
    "adapter_version": "INTEGER",
    "device_id": "UBIGINT",
    "inode": "UBIGINT",
    "size_bytes": "UBIGINT",
    "snapshot_mtime_ns": "BIGINT",
    "imported_byte_count": "UBIGINT",
    "prefix_sha256": "BLOB",
    "last_run_key": "VARCHAR",
    "status": "VARCHAR",
}
_STATE_COLUMNS = (
    "device_id",
    "inode",
    "size_bytes",
    "snapshot_mtime_ns",
    "imported_byte_count",
    "prefix_sha256",
)


def _portions(results: list[Row]) -> Iterator[list[Row]]:
    """The rows in lists whose texts are not all on their way into the table at a time."""
    portion: list[Row] = []
    size = 0
    for row in results:
        portion.append(row)
        size += len(row[4] or "") + len(row[5] or "")
        if size > _PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _rank(call: CallRow, outcome: Outcome) -> tuple[Any, ...]:
    """Orders the places that say one call: the lowest is whose row counts."""
    assert outcome.rows is not None  # noqa: S101 - for the type checker
    _, _, _, native, started = outcome.rows.sessions[call.link.session_key or ""]
    return (
        started is None,
        started or 0,
        native,
        call.link.weight,
        outcome.relative_path,
        outcome.source_item_key,
    )
