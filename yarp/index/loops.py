"""The loops of one source: their ends, models and usage, and the order of what is in them.

Source: seed 002, "Loop model and usage"; spec "Trace index", 7 and 8.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from yarp.errors import DataError

if TYPE_CHECKING:
    from yarp.index.facts import LoopEnd, LoopModel, LoopStart, UsageSample
    from yarp.index.store import Store
    from yarp.index.witness import Witnesses

_COUNTS = ("input", "cached", "cache_write", "output", "reasoning")
_COLUMNS = (
    *("native_id", "start_seq", "start_record_id", "end_record_id", "outcome"),
    *("model_id", "effort", "context_window"),
)


class _Loop:
    """A loop as its row has it, and the position that its next item gets."""

    __slots__ = (*_COLUMNS, "changed", "id", "key", "next_position", "stored")

    id: int
    key: str
    native_id: str | None
    start_seq: int
    start_record_id: int
    end_record_id: int | None
    outcome: str | None
    model_id: str | None
    effort: str | None
    context_window: int | None
    next_position: int
    changed: bool
    stored: bool


class Loops:
    """Takes what is said of loops; `session` must be known by then."""

    def __init__(
        self, store: Store, source_id: int, witnesses: Witnesses, *, appends: bool
    ) -> None:
        self._sql = store.sql
        self._store = store
        self._source = source_id
        self._witnesses = witnesses
        self._appends = appends
        self.session: int | None = None
        self._loops: dict[str, _Loop] = {}
        self._ids: dict[str, int] = {}
        self._samples: dict[str, list[Any]] = {}
        self._nameless: list[list[Any]] = []
        self._credited: set[str] = set()
        self._disturbed: set[int] = set()
        self._moved = False
        self._begun: set[str] = set()

    @property
    def said(self) -> int:
        """How many loops were begun, without those dropped."""
        return len(self._begun)

    def clear(self) -> None:
        """Take out all loops, to be said anew under the same keys."""
        source = (self._source,)
        self._ids = dict(
            self._sql.execute("SELECT key, id FROM domain_loops WHERE source_id = ?", source)
        )
        self._sql.execute("DELETE FROM domain_loops WHERE source_id = ?", source)
        self._moved = True

    def _loop(self, key: str) -> _Loop | None:
        loop = self._loops.get(key)
        if loop is None and self._appends:
            row = self._sql.execute(
                f"SELECT id, {', '.join(_COLUMNS)} FROM domain_loops "  # noqa: S608 - names of ours
                "WHERE source_id = ? AND key = ?",
                (self._source, key),
            ).fetchone()
            if row is not None:
                loop = self._loops[key] = _Loop()
                loop.id, loop.key, loop.stored, loop.changed = row[0], key, True, False
                for name, value in zip(_COLUMNS, row[1:], strict=True):
                    setattr(loop, name, value)
                (loop.next_position,) = self._sql.execute(
                    "SELECT coalesce(max(loop_position), -1) + 1 FROM domain_items "
                    "WHERE loop_id = ?",
                    (loop.id,),
                ).fetchone()
        return loop

    def start(self, fact: LoopStart) -> None:
        """A loop begins."""
        loop = self._loop(fact.key)
        if loop is not None:
            if loop.native_id is None and fact.native_id is not None:
                loop.native_id, loop.changed = fact.native_id, True
            return
        loop = self._loops[fact.key] = _Loop()
        for name in _COLUMNS:
            setattr(loop, name, None)
        loop.id = self._ids.pop(fact.key, 0) or self._store.new_id("loop")
        loop.key = fact.key
        loop.native_id = fact.native_id
        loop.start_seq = fact.line - 1
        loop.start_record_id = self._witnesses.id(fact.line)
        loop.next_position, loop.stored, loop.changed = 0, False, True
        self._credited.add(fact.key)
        self._moved = True
        self._begun.add(fact.key)

    def ended(self, fact: LoopEnd) -> None:
        """A loop's end was observed, or is revoked."""
        loop = self._loop(fact.key)
        if loop is not None:
            loop.end_record_id = None if fact.line is None else self._witnesses.id(fact.line)
            loop.outcome = None if fact.line is None else fact.outcome
            loop.changed = True

    def model(self, fact: LoopModel) -> None:
        """The model of a loop."""
        loop = self._loop(fact.key)
        if loop is not None:
            loop.model_id = fact.id or loop.model_id
            loop.effort = fact.effort or loop.effort
            loop.context_window = fact.context_window or loop.context_window
            loop.changed = True

    def id(self, key: str) -> int | None:
        """The id of the loop of that key, if it was begun."""
        loop = self._loop(key)
        return None if loop is None else loop.id

    def place(self, key: str) -> tuple[int, int]:
        """The id of the loop, and the position of the next item in it."""
        loop = self._loop(key)
        if loop is None:
            raise DataError("an item names a loop that was not begun")
        loop.next_position += 1
        return loop.id, loop.next_position - 1

    def disturb(self, *loop_ids: int | None) -> None:
        """Items left these loops, or came into them at another place than the end."""
        self._disturbed.update(one for one in loop_ids if one is not None)

    def drop(self, key: str) -> None:
        """A loop turned out not to be; DataError if an item is still in it."""
        loop = self._loop(key)
        if loop is None:
            return
        del self._loops[key]
        self._begun.discard(key)
        self._ids[key] = loop.id
        self._disturbed.discard(loop.id)
        if loop.stored:
            (held,) = self._sql.execute(
                "SELECT count(*) FROM domain_items WHERE source_id = ? AND loop_id = ?",
                (self._source, loop.id),
            ).fetchone()
            if held:
                raise DataError("a loop is dropped that items belong to")
            self._sql.execute("DELETE FROM domain_loops WHERE id = ?", (loop.id,))
        self._moved = True

    def usage(self, fact: UsageSample) -> None:
        """A model response's tokens; what is no sample is passed over."""
        counts = [_count(getattr(fact, name)) for name in _COUNTS]
        whole_in, cached, cache_write, whole_out, reasoning = counts
        if whole_in is None or whole_out is None:
            return
        if cached is not None and cached > whole_in:
            counts[1] = None
        if cache_write is not None and cache_write > whole_in:
            counts[2] = None
        if reasoning is not None and reasoning > whole_out:
            counts[4] = None
        known = None if fact.sample is None else self._sample(fact.sample)
        if known is not None:
            if not fact.first:
                known[4:] = [fact.rank, *counts]
                self._credited.add(known[3])
            return
        row = [self._store.new_id("sample"), self._source, fact.sample, fact.loop, fact.rank]
        row += counts
        if fact.sample is None:
            self._nameless.append(row)
        else:
            self._samples[fact.sample] = row
        self._credited.add(fact.loop)

    def _sample(self, sample: str) -> list[Any] | None:
        row = self._samples.get(sample)
        if row is None and self._appends:
            found = self._sql.execute(
                "SELECT id, source_id, sample, loop_key, rank, input, cached, cache_write, output,"
                " reasoning FROM usage_samples WHERE source_id = ? AND sample = ?",
                (self._source, sample),
            ).fetchone()
            if found is not None:
                row = self._samples[sample] = list(found)
        return row

    def flush(self) -> None:
        """Write the loops that are new or changed, so that items can refer to them."""
        changed = [loop for loop in self._loops.values() if loop.changed]
        with self._store.written.on("loops"):
            self._write(changed)

    def _write(self, changed: list[_Loop]) -> None:
        self._sql.executemany(
            f"INSERT INTO domain_loops (id, session_id, source_id, key, session_position,"  # noqa: S608 - names of ours
            f" {', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, 0{', ?' * len(_COLUMNS)})",
            [
                (loop.id, self.session, self._source, loop.key, *_values(loop))
                for loop in changed
                if not loop.stored
            ],
        )
        self._sql.executemany(
            f"UPDATE domain_loops SET {', '.join(f'{name} = ?' for name in _COLUMNS)} "  # noqa: S608 - names of ours
            "WHERE id = ?",
            [(*_values(loop), loop.id) for loop in changed if loop.stored],
        )
        for loop in changed:
            loop.stored, loop.changed = True, False

    def finish(self) -> None:
        """Write what is left, sum the usage, and number loops and items anew where needed."""
        self.flush()
        with self._store.written.on("loops"):
            self._sum()
            self._number()

    def _number(self) -> None:
        for loop_id in self._disturbed:
            rows = self._sql.execute(
                "SELECT id, loop_position FROM domain_items WHERE source_id = ? AND loop_id = ? "
                "ORDER BY first_seq, id",
                (self._source, loop_id),
            ).fetchall()
            self._sql.executemany(
                "UPDATE domain_items SET loop_position = ? WHERE id = ?",
                [(at, item_id) for at, (item_id, was) in enumerate(rows) if at != was],
            )
        if self._moved:
            number_loops(self._store, self.session)

    def _sum(self) -> None:
        self._sql.executemany(
            "REPLACE INTO usage_samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [*self._samples.values(), *self._nameless],
        )
        for key in self._credited:
            rows = self._sql.execute(
                "SELECT rank, input, cached, cache_write, output, reasoning FROM usage_samples "
                "WHERE source_id = ? AND loop_key = ?",
                (self._source, key),
            ).fetchall()
            self._sql.execute(
                "UPDATE domain_loops SET usage = ? WHERE source_id = ? AND key = ?",
                (total(rows), self._source, key),
            )


def total(rows: list[tuple[Any, ...]]) -> str | None:
    """The usage of a loop from its samples (rank, then the counts); None if there are none.

    A part that one sample does not tell is unknown for the whole.
    """
    if not rows:
        return None
    highest = max(row[0] for row in rows)
    columns = list(zip(*(row[1:] for row in rows if row[0] == highest), strict=True))
    told = {
        name: sum(column)
        for name, column in zip(_COUNTS, columns, strict=True)
        if None not in column
    }
    return orjson.dumps(told).decode()


def number_loops(store: Store, session: int | None) -> None:
    """Number a session's loops by the times of their starts.

    Within a source its order holds: a loop without a time, or with one that lies before, takes
    the last one known.
    """
    rows = store.sql.execute(
        "SELECT loop.id, loop.source_id, loop.session_position, "
        "coalesce(start.occurred_at, supported.created_at) "
        "FROM session_sources AS supported "
        "JOIN domain_loops AS loop ON loop.source_id = supported.source_id "
        "LEFT JOIN trace_records AS start ON start.id = loop.start_record_id "
        "WHERE supported.session_id = ? ORDER BY loop.source_id, loop.start_seq, loop.id",
        (session,),
    ).fetchall()
    last: dict[int, float] = {}
    placed = []
    for at, (loop_id, source, position, time) in enumerate(rows):
        known = last.get(source, float("-inf"))
        last[source] = known = known if time is None else max(known, time)
        placed.append((float("inf") if known == float("-inf") else known, at, loop_id, position))
    store.sql.executemany(
        "UPDATE domain_loops SET session_position = ? WHERE id = ?",
        [
            (position, loop_id)
            for position, (_, _, loop_id, was) in enumerate(sorted(placed))
            if position != was
        ],
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def _values(loop: _Loop) -> tuple[Any, ...]:
    return tuple(getattr(loop, name) for name in _COLUMNS)
