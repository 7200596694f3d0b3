"""The items of one source: what waits to be written, and what later lines change of it.

Rows wait a while, since most corrections follow soon, and are looked up by their keys after
that. Source: spec "Trace index", 3 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from yarp.errors import DataError
from yarp.index.catalog import ROLE_BY_NAME
from yarp.index.semantic import arguments, encode, shell_fragment
from yarp.sources.values import parse_json

if TYPE_CHECKING:
    from yarp.index.facts import Amend, Item
    from yarp.index.loops import Loops
    from yarp.index.reader import TraceReader
    from yarp.index.store import Store
    from yarp.index.witness import Witnesses

_MOST_WAITING = 2_000
_BESIDE = ("item_records", "item_calls", "item_session_links")


class _Row:
    """An item that waits to be written; `stored` when the table has it already.

    `searched` is the blob by which the search index finds it, `found_by` the text that comes
    with a new one.
    """

    __slots__ = (
        "call",
        "first_seq",
        "found_by",
        "heuristic",
        "id",
        "key",
        "loop",
        "occurred_at",
        "position",
        "role",
        "searched",
        "session",
        "stored",
        "value",
        "witnesses",
    )

    id: int
    key: str
    role: str
    value: dict[str, Any]
    heuristic: bool
    loop: int | None
    position: int | None
    first_seq: int
    occurred_at: int | None
    witnesses: list[int]
    stored: bool
    searched: int | None
    found_by: str | None
    call: str | None
    session: str | None


class Items:
    """Takes what is said of items; `session` must be known by then."""

    def __init__(
        self,
        store: Store,
        source_id: int,
        reader: TraceReader,
        witnesses: Witnesses,
        loops: Loops,
        *,
        appends: bool,
    ) -> None:
        self._store = store
        self._sql = store.sql
        self._source = source_id
        self._reader = reader
        self._witnesses = witnesses
        self._loops = loops
        self._appends = appends
        self.session: int | None = None
        self._rows: dict[str, _Row] = {}
        self._written: dict[str, int] = {}
        self._ids: dict[str, int] = {}

    @property
    def said(self) -> int:
        """How many items were said or changed, each counted once, without those dropped."""
        return len(self._written.keys() | self._rows.keys())

    def clear(self) -> None:
        """Take out all items, to be said anew under the same keys."""
        sql, source = self._sql.execute, (self._source,)
        self._ids = dict(sql("SELECT key, id FROM domain_items WHERE source_id = ?", source))
        searched = [
            (item_id, blob_id)
            for item_id, semantic in sql(
                "SELECT id, semantic FROM domain_items WHERE source_id = ?", source
            ).fetchall()
            if (blob_id := _searched(orjson.loads(semantic))) is not None
        ]
        self._store.drop_from_search(searched)
        for table in _BESIDE:
            sql(
                f"DELETE FROM {table} WHERE item_id IN "  # noqa: S608 - names of ours
                "(SELECT id FROM domain_items WHERE source_id = ?)",
                source,
            )
        sql("DELETE FROM domain_items WHERE source_id = ?", source)

    def take(self, fact: Item) -> None:
        """An item is said, for the first time or anew."""
        row = self._row(fact.key)
        if row is not None and fact.unless_known:
            return
        shape = ROLE_BY_NAME.get(fact.role)
        if shape is None:
            raise DataError(f"there is no role {fact.role!r}")
        if row is None:
            row = _Row()
            row.id = self._ids.pop(fact.key, 0) or self._store.new_id("item")
            row.key = fact.key
            row.first_seq = fact.line - 1
            row.witnesses = []
            row.stored = False
            row.searched = None
            row.loop = row.position = row.occurred_at = None
            self._rows[fact.key] = row
        self._forget_references(row)
        row.role = fact.role
        row.heuristic = fact.heuristic
        row.value = dict(fact.value or ())
        row.call = fact.call
        row.session = fact.session
        row.found_by = None
        if "has_images" in shape.members:
            row.value.setdefault("has_images", False)
        if fact.text is not None:
            self._set_text(row, fact.text)
        if fact.role == "agent.tool_call":
            self._set_arguments(row)
        if row.loop is None and fact.loop is not None:
            row.loop, row.position = self._loops.place(fact.loop)
        lines = (fact.line, *fact.witnesses)
        for line in lines:
            self._witness(row, line)
        if fact.occurred_at is not None:
            row.occurred_at = fact.occurred_at
        elif row.occurred_at is None:
            times = (self._witnesses.time(line) for line in lines)
            row.occurred_at = next((one for one in times if one is not None), None)
        if len(self._rows) > _MOST_WAITING:
            self.flush()

    def _witness(self, row: _Row, line: int) -> None:
        record_id = self._witnesses.id(line)
        if record_id not in row.witnesses:
            row.witnesses.append(record_id)

    def _set_text(self, row: _Row, text: str) -> None:
        blob_id, row.found_by = self._store.blob(text)
        row.value[ROLE_BY_NAME[row.role].text] = {"blob_id": blob_id}

    def _set_arguments(self, row: _Row) -> None:
        """Publish a call's arguments; one of a shell gets its command parsed."""
        given = row.value.get("arguments")
        if given is None:
            return
        limit = self._store.max_text_bytes
        row.value["arguments"], whole = arguments(given, limit)
        tool = row.value.get("tool_name")
        for tools, parse in ((self._reader.shell_tools, True), (self._reader.other_shells, False)):
            if isinstance(tool, str) and tool in tools and isinstance(whole, dict):
                fragment = shell_fragment(whole.get(tools[tool]), limit, parse=parse)
                if fragment is not None:
                    row.role = "agent.tool_call.shell"
                    row.value["shell_fragments"] = [fragment]

    def amend(self, fact: Amend) -> None:
        """What a later line says of an item."""
        row = self._row(fact.key)
        if row is None:
            return
        if fact.role is not None and fact.role != row.role:
            self._recast(row, fact.role)
        if fact.heuristic is not None:
            row.heuristic = fact.heuristic
        if fact.value:
            row.value.update(fact.value)
            if "arguments" in fact.value:
                row.role = "agent.tool_call" if row.role == "agent.tool_call.shell" else row.role
                row.value.pop("shell_fragments", None)
                self._set_arguments(row)
        if fact.text is not None:
            self._set_text(row, fact.text)
        if fact.call is not None:
            row.call = fact.call
        if fact.session is not None:
            row.session = fact.session
        if fact.line is not None:
            self._witness(row, fact.line)
            time = self._witnesses.time(fact.line)
            if time is not None and (fact.primary or row.occurred_at is None):
                row.occurred_at = time
        if fact.loop is not None and self._loops.id(fact.loop) != row.loop:
            before = row.loop
            row.loop, row.position = self._loops.place(fact.loop)
            self._loops.disturb(before, row.loop)

    def _forget_references(self, row: _Row) -> None:
        """What an item was said to refer to as another one waits for nothing any more."""
        if row.stored:
            for table in ("item_calls", "item_session_links"):
                self._sql.execute(f"DELETE FROM {table} WHERE item_id = ?", (row.id,))  # noqa: S608 - names of ours

    def _recast(self, row: _Row, role: str) -> None:
        """Give an item another role, with what of its value that one has."""
        shape = ROLE_BY_NAME.get(role)
        if shape is None:
            raise DataError(f"there is no role {role!r}")
        text = row.value.pop(ROLE_BY_NAME[row.role].text, None)
        row.value = {name: one for name, one in row.value.items() if name in shape.members}
        if text is not None and shape.text in shape.members:
            row.value[shape.text] = text
        if "has_images" in shape.members:
            row.value.setdefault("has_images", False)
        row.role = role
        self._forget_references(row)

    def drop(self, key: str) -> None:
        """An item turned out not to be."""
        row = self._row(key)
        if row is None:
            return
        del self._rows[key]
        self._written.pop(key, None)
        self._loops.disturb(row.loop)
        if not row.stored:
            return
        sql = self._sql.execute
        if row.searched is not None:
            self._store.drop_from_search([(row.id, row.searched)])
        for table in _BESIDE:
            sql(f"DELETE FROM {table} WHERE item_id = ?", (row.id,))  # noqa: S608 - names of ours
        sql("DELETE FROM domain_items WHERE id = ?", (row.id,))
        sql(
            "UPDATE domain_items SET semantic = json_remove(semantic, '$.value.call_item_id') "
            "WHERE source_id = ? AND json_extract(semantic, '$.value.call_item_id') = ?",
            (self._source, row.id),
        )

    def _row(self, key: str) -> _Row | None:
        """The item of that key, waiting or fetched from its table."""
        row = self._rows.get(key)
        if row is None and (self._appends or key in self._written):
            found = self._sql.execute(
                "SELECT id, loop_id, loop_position, first_seq, occurred_at, semantic "
                "FROM domain_items WHERE source_id = ? AND key = ?",
                (self._source, key),
            ).fetchone()
            if found is not None:
                row = _Row()
                row.key = key
                row.id, row.loop, row.position, row.first_seq, row.occurred_at, said = found
                semantic = parse_json(said.encode())[0]  # integers stay exact
                row.role, row.value = semantic["role"], semantic["value"]
                row.heuristic = semantic["evidence_strength"] == "heuristic"
                row.searched = _searched(semantic)
                row.witnesses = []
                row.stored = True
                row.found_by = row.call = row.session = None
                self._rows[key] = row
        return row

    def flush(self) -> None:
        """Write the items that wait."""
        if self._rows:
            with self._store.written.on("items"):
                self._write(list(self._rows.values()))

    def _write(self, rows: list[_Row]) -> None:
        new, changed, lost, found, waiting = [], [], [], [], []
        for row in rows:
            if row.call is not None and "call_item_id" in ROLE_BY_NAME[row.role].members:
                row.value["call_item_id"] = called = self._item_id(row.call)
                if called is None:
                    waiting.append((row.id, self._source, row.call))
            if row.session is not None:
                self._link(row)
            semantic = encode(
                row.role, row.value, heuristic=row.heuristic, in_loop=row.loop is not None
            )
            place = (row.loop, row.position, row.occurred_at, semantic)
            if row.stored:
                changed.append((*place, row.id))
            else:
                new.append((row.id, self.session, self._source, row.key, row.first_seq, *place))
            shape = ROLE_BY_NAME[row.role]
            blob = row.value.get(shape.text) if shape.searched else None
            searched = None if blob is None else blob["blob_id"]
            if searched != row.searched:
                if row.searched is not None:
                    lost.append((row.id, row.searched))
                if searched is not None:
                    found.append((row.id, row.found_by, searched))
        self._written.update((row.key, row.id) for row in rows)
        self._rows.clear()
        store, many = self._store, self._sql.executemany
        store.flush_blobs()
        self._loops.flush()
        self._witnesses.flush()
        many("INSERT INTO domain_items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", new)
        many(
            "UPDATE domain_items SET loop_id = ?, loop_position = ?, occurred_at = ?, "
            "semantic = ? WHERE id = ?",
            changed,
        )
        many(
            "INSERT OR IGNORE INTO item_records VALUES (?, ?)",
            [(row.id, record_id) for row in rows for record_id in row.witnesses],
        )
        store.drop_from_search(lost)
        store.add_to_search(
            (item_id, store.published(blob_id) if text is None else text)
            for item_id, text, blob_id in found
        )
        many("REPLACE INTO item_calls VALUES (?, ?, ?)", waiting)
        many(
            "REPLACE INTO item_session_links VALUES (?, ?, ?, ?)",
            [
                (row.id, self._reader.runtime, row.session, ROLE_BY_NAME[row.role].session)
                for row in rows
                if row.session is not None and ROLE_BY_NAME[row.role].session is not None
            ],
        )

    def _item_id(self, key: str) -> int | None:
        """The id of the item of that key, if it was said."""
        row = self._rows.get(key)
        if row is not None:
            return row.id
        if self._appends and key not in self._written:
            found = self._sql.execute(
                "SELECT id FROM domain_items WHERE source_id = ? AND key = ?", (self._source, key)
            ).fetchone()
            return None if found is None else int(found[0])
        return self._written.get(key)

    def _link(self, row: _Row) -> None:
        """Name the session that an item links to, if it is there; else it will be, once it is."""
        member = ROLE_BY_NAME[row.role].session
        if member is not None:
            row.value[member] = self._store.session_id(self._reader.runtime, row.session or "")

    def resolve_calls(self) -> None:
        """Have outputs name the calls that came after them."""
        self._sql.execute(
            "UPDATE domain_items"
            " SET semantic = json_set(domain_items.semantic, '$.value.call_item_id', caller.id)"
            " FROM item_calls AS waiting JOIN domain_items AS caller"
            " ON caller.source_id = waiting.source_id AND caller.key = waiting.call_key"
            " WHERE waiting.source_id = ? AND domain_items.id = waiting.item_id",
            (self._source,),
        )
        self._sql.execute(
            "DELETE FROM item_calls WHERE source_id = ? AND call_key IN"
            " (SELECT key FROM domain_items WHERE source_id = ?)",
            (self._source, self._source),
        )


def _searched(semantic: dict[str, Any]) -> int | None:
    """The blob by which the search index finds an item."""
    shape = ROLE_BY_NAME[semantic["role"]]
    blob = semantic["value"].get(shape.text) if shape.searched else None
    return None if blob is None else blob["blob_id"]
