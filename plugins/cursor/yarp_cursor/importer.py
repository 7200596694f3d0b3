"""Cursor's chats and ACP sessions as calls, results and where each stands, for the dataset.

Calls come from the messages in a store alone. The root of the conversation says which of them are
current, and their order; its turns tell the same calls once more, with times; a transcript tells
them without ids, and is held against the store's. Neither makes calls of its own. Source: seed
003, "Cursor"; spec "Dataset", Formats.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Call,
    Issue,
    Observation,
    Rejected,
    Result,
    Session,
    SourceItem,
    SourceOption,
    items_below,
    parse_json,
)
from yarp_cursor import graph, records
from yarp_cursor.records import CallBlock, ResultBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from yarp.plugin import SourceFact

ADAPTER_VERSION = 1
OPTIONS = (
    SourceOption(
        "chats",
        kind="directory",
        help="Chats of Cursor's command line.",
        default=".cursor/chats",
        required=False,
    ),
    SourceOption(
        "acp-sessions",
        kind="directory",
        help="Sessions that editors started by the Agent Client Protocol.",
        default=".cursor/acp-sessions",
        required=False,
    ),
    SourceOption(
        "projects",
        kind="directory",
        help="Transcripts, which confirm the order of a chat's calls.",
        default=".cursor/projects",
        required=False,
    ),
)
STORES = ("chats", "acp-sessions")
TRANSCRIPTS = "projects"
# What SQLite raises for a damaged file; the second one, for what it says of a damaged schema.
DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)
# A sequence number is the message's position times this, plus that of the block in it.
BLOCKS_OF_A_MESSAGE = 1000
_MARKS = (b'"tool-call"', b'"tool-result"', b'"tool_calls"')
_TEXTS = frozenset({"stdout", "stderr", "interleavedOutput", "output", "content", "text"})


def discover(roots: Mapping[str, str]) -> Iterator[SourceItem]:
    """The stores below the roots, and each transcript with the store that it belongs to."""
    stores: dict[str, SourceItem] = {}
    for flag in STORES:
        if flag in roots:
            kind = flag.replace("-", "_")
            for item in items_below(roots[flag], kind=kind, suffixes=("store.db",), database=True):
                if item.refused is None:
                    if os.path.basename(item.path) != "store.db":
                        continue
                    stores.setdefault(os.path.basename(os.path.dirname(item.path)), item)
                yield item
    if TRANSCRIPTS not in roots:
        return
    suffixes = (".jsonl", ".txt")
    for item in items_below(roots[TRANSCRIPTS], kind=TRANSCRIPTS, suffixes=suffixes):
        if item.refused is None and records.TRANSCRIPTS in item.relative_path.split(os.sep):
            placed = records.placed(item.path)
            store = None if placed is None else stores.get(placed.session)
            if item.path.endswith(".txt"):
                what = "a transcript in the older form of text"
                item.refused = Issue("cursor_text_transcript", what)
            elif store is None:
                what = "a transcript of no store here"
                item.refused = Issue("cursor_transcript_without_store", what)
            else:
                item.context = [store.kind, store.root, store.relative_path]
                item.companions = (store.path, store.path + "-wal")
        elif item.refused is None:
            continue
        yield item


def read(item: SourceItem) -> Iterator[SourceFact]:
    """The calls of one store with their results, or those that a transcript confirms."""
    try:
        yield from _validated(item) if item.kind == TRANSCRIPTS else _Store(item).facts()
    except DAMAGED:
        raise Rejected("malformed_database", "the database is damaged") from None


class _Store:
    """One store as it is read."""

    def __init__(self, item: SourceItem) -> None:
        self._connection = item.sqlite()
        self._marks: tuple[bytes, ...] = _MARKS
        self._meta = _meta_of(self._connection)
        self._session = str(self._meta.agent_id)
        self._graph: graph.Graph | None = None
        self._calls: dict[str, Call] = {}
        self._current: set[str] = set()

    def facts(self) -> Iterator[SourceFact]:
        yield Session(self._session, started_at_ms=self._meta.created_at_ms)
        yield from self._root()
        yield from self._messages()
        yield from self._beside()

    def calls_in_order(self) -> list[Call]:
        """The calls that the root reaches, as it orders them; all, in row order, without a root."""
        places: dict[str, int] = {}
        self._marks = _MARKS[:1]  # results, which are large, do not matter here
        for fact in self.facts():
            if not isinstance(fact, Observation) or fact.record_kind != "canonical":
                continue
            if isinstance(fact.target, Call) and (self._graph is None or fact.is_current):
                call_id = str(fact.target.native_call_id)
                place = len(places) if self._graph is None else fact.sequence_number or 0
                places[call_id] = min(place, places.get(call_id, place))
        return [self._calls[call_id] for call_id in sorted(places, key=places.__getitem__)]

    def _root(self) -> Iterator[Issue]:
        root_id = self._meta.root_id
        data = self._blob(root_id) if root_id else None
        if data is None:
            what = "no root says which messages are current"
            yield Issue("cursor_missing_root", what, sqlite_blob_id=root_id or None)
            return
        try:
            self._graph = graph.decode(data, self._blob)
        except ValueError:
            raise Rejected("unsupported_cursor_source", "the root is not valid protobuf") from None
        if self._graph.gaps:
            what = "blobs that the root names are not there, or cannot be read"
            yield Issue("cursor_incomplete_root", what, sqlite_blob_id=root_id)

    def _blob(self, blob_id: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE id = ?", (blob_id,)).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def _messages(self) -> Iterator[SourceFact]:
        """What the messages say, in the order of rows; the current record of a call counts."""
        order = self._graph.order if self._graph else {}
        files = self._graph.files if self._graph else set()
        missing = len(order)
        rows = self._connection.execute("SELECT rowid, id, data FROM blobs ORDER BY rowid")
        for rowid, blob_id, content in rows:
            position = order.get(blob_id)
            missing -= position is not None
            data = content.encode() if isinstance(content, str) else content
            if position is None and blob_id in files:
                continue  # what the agent read may look like a message
            if isinstance(data, bytes) and data.startswith(b"{"):
                if any(mark in data for mark in self._marks):
                    yield from self._message(rowid, blob_id, data, position)
            elif position is not None:
                what = "a message that is no JSON: encrypted, or of a kind that is not known"
                yield Issue("cursor_unknown_message", what, sqlite_blob_id=blob_id)
        if missing:
            what = "messages that the root names are not there"
            yield Issue("cursor_incomplete_root", what, sqlite_blob_id=self._meta.root_id)
        yield from self._calls.values()

    def _message(
        self, rowid: int, blob_id: str, data: bytes, position: int | None
    ) -> Iterator[SourceFact]:
        digest = hashlib.sha256(data).digest()
        try:
            value, replaced = parse_json(data, beyond=True)
            found = records.blocks(value)
        except (ValueError, records.Odd) as odd:
            if position is not None or getattr(odd, "tools", False):
                what = "a message with tools, of a shape that is not known"
                yield _about(blob_id, digest, "cursor_unknown_message", what)
            return
        if found and replaced:
            what = "a lone surrogate has become U+FFFD"
            yield _about(blob_id, digest, "lone_surrogate", what)
        if found and digest.hex() != blob_id:
            what = "a blob whose content has another digest than its name"
            yield _about(blob_id, digest, "cursor_blob_mismatch", what)
        for block in found:
            target: Call | Result
            if isinstance(block, CallBlock):
                target = self._call(block, current=position is not None)
                said = (block.tool_name, block.arguments)
                if position is not None and (target.tool_name, target.input) != said:
                    what = "another call of this conversation has the id too"
                    yield _about(blob_id, digest, "call_id_reused", what)
            else:
                target = self._result(block, current=position is not None)
                yield target
            number = min(block.index, BLOCKS_OF_A_MESSAGE - 1)
            yield Observation(
                target,
                f"{block.message['role']}/{block.value['type']}",
                sqlite_rowid=rowid,
                sqlite_blob_id=blob_id,
                content_index=block.index,
                sequence_number=None
                if position is None
                else position * BLOCKS_OF_A_MESSAGE + number,
                is_current=self._is_current(position),
                record_sha256=digest,
            )

    def _is_current(self, position: int | None) -> bool | None:
        if position is not None:
            return True
        return False if self._graph and self._graph.whole else None

    def _call(self, block: CallBlock, *, current: bool) -> Call:
        """The call of this block: as the first current record has it, else as the first one."""
        call_id, given = block.call_id, block.arguments
        form: Any = "json_or_text" if isinstance(given, str) else "json"
        known = self._calls.get(call_id)
        if known is None:
            known = self._calls[call_id] = self._new_call(call_id, block.tool_name, given, form)
        elif current and call_id not in self._current:
            known.tool_name, known.input, known.input_format = block.tool_name, given, form
            known.working_directory = self._directory(given)
        if current:
            self._current.add(call_id)
        return known

    def _new_call(self, call_id: str, tool_name: str, given: object, form: Any) -> Call:
        step = self._graph.calls.get(call_id) if self._graph else None
        return Call(
            (self._session, call_id),
            session=self._session,
            tool_name=tool_name,
            input=given,
            input_format=form,
            native_call_id=call_id,
            native_worker_id=self._meta.parent_agent_id,
            called_at_ms=step.started_at_ms if step else None,
            working_directory=self._directory(given),
        )

    def _directory(self, given: object) -> str | None:
        own = records.directory(given)
        return own or (self._graph.directory if self._graph else None)

    def _result(self, block: ResultBlock, *, current: bool) -> Result:
        text = block.result if isinstance(block.result, str) else None
        step = self._graph.calls.get(block.call_id) if self._graph and current else None
        structure = _structure(block, text or "")
        return Result(
            (self._session, block.call_id),
            output_text="" if text is None and not structure else text,
            output_json=structure or None,
            is_error=block.is_error,
            returned_at_ms=step.ended_at_ms if step else None,
        )

    def _beside(self) -> Iterator[SourceFact]:
        """What the root itself tells of calls: the turns' second copy, and what waits to run."""
        if self._graph is None:
            return
        for call_id, step in self._graph.calls.items():
            call = self._calls.get(call_id)
            row = self._connection.execute(
                "SELECT rowid, data FROM blobs WHERE id = ?", (step.blob_id,)
            ).fetchone()
            digest = hashlib.sha256(row[1]).digest()
            if call is None:
                what = "a turn tells of a call that no message has"
                yield _about(step.blob_id, digest, "projection_without_call", what)
                continue
            yield Observation(
                call,
                "agent.v1.ToolCall",
                record_kind="projection",
                sqlite_rowid=row[0],
                sqlite_blob_id=step.blob_id,
                is_current=True,
                record_sha256=digest,
            )
        for index, raw in enumerate(self._graph.pending):
            yield from self._waits(index, raw)

    def _waits(self, index: int, raw: bytes) -> Iterator[SourceFact]:
        try:
            value = parse_json(raw, beyond=True)[0]
        except ValueError:
            value = None
        if not records.is_call(value):
            what = "a call that waits to be run has an unknown shape"
            yield Issue("cursor_unknown_message", what, sqlite_blob_id=self._meta.root_id)
            return
        call = self._calls.get(value["toolCallId"])
        if call is None:
            call = self._call(CallBlock(0, {}, value), current=True)
            yield call
        yield Observation(
            call,
            "pending_tool_calls",
            record_kind="projection",
            sqlite_blob_id=self._meta.root_id,
            content_index=index,
            is_current=True,
            record=raw,
        )


def _meta_of(connection: sqlite3.Connection) -> records.Meta:
    found = None
    tables = {
        name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        for name in ("blobs", "meta")
    }
    if {"id", "data"} <= tables["blobs"] and {"key", "value"} <= tables["meta"]:
        found = _wanted_meta(connection)
    if found is None or found.agent_id is None:
        raise Rejected("unsupported_cursor_source", "not a store of a known kind")
    return found


def _wanted_meta(connection: sqlite3.Connection) -> records.Meta | None:
    """The metadata without what is not wanted, of which nothing is left when this returns."""
    row = connection.execute("SELECT value FROM meta WHERE key = '0'").fetchone()
    try:
        return records.meta(row[0]) if row and isinstance(row[0], str | bytes) else None
    except ValueError:
        return None


def _structure(block: ResultBlock, text: str) -> dict[str, Any]:
    """What a result tells beside its text, without the text, and without what a subagent said."""
    found: dict[str, Any] = {}
    if block.result is not None and not isinstance(block.result, str):
        found["result"] = block.result
    high_level = block.high_level
    for name in ("output", "rawErrorMessages"):
        if high_level.get(name) not in (None, "", [], {}):
            found[name] = high_level[name]
    content = _without_copies(block.content, text)
    if content:
        found["content"] = content
    output = _without_copies(found.get("output"), text)
    if "output" in found:
        if isinstance(output, dict):
            output.pop("isError", None)
        found["output"] = output
        if output == []:
            del found["output"]
    return found


def _without_copies(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_copies(inner, text)
            for name, inner in value.items()
            # The whole run of a subagent, with its prose; its calls are in its own store.
            if name != "conversationSteps"
            and not (name in _TEXTS and isinstance(inner, str) and inner in text)
        }
    if isinstance(value, list):
        return [
            _without_copies(inner, text)
            for inner in value
            if not (
                isinstance(inner, dict)
                and inner.get("type") == "text"
                and isinstance(inner.get("text"), str)
                and inner["text"] in text
            )
        ]
    return value


def _validated(item: SourceItem) -> Iterator[SourceFact]:
    """The calls of a store, if this transcript has the very same ones in the same order."""
    kind, root, relative_path = item.context
    store = SourceItem(kind, root, relative_path, database=True)
    store.private_directory = item.private_directory
    store.most_copy_bytes = item.most_copy_bytes
    try:
        calls = _Store(store).calls_in_order()
    except (Rejected, OSError, *DAMAGED):
        return  # which is an issue of the store's own
    finally:
        store.close()
    confirmed = []
    for number, use in enumerate(records.uses(item.lines())):
        if number < len(calls):
            if not _same(calls[number], use):
                what = "a call of the transcript is another one than the store's"
                yield Issue.at(use.line, "cursor_transcript_mismatch", what)
                return
            confirmed.append((calls[number], use))
        elif number == len(calls):
            what = "the transcript has more calls than the store"
            yield Issue.at(use.line, "cursor_transcript_count_mismatch", what)
            return
    if len(confirmed) < len(calls):
        what = "the transcript has fewer calls than the store"
        yield Issue("cursor_transcript_count_mismatch", what)
        return
    if calls:
        yield Session(calls[0].session)
    for number, (call, use) in enumerate(confirmed):
        yield call
        yield Observation.at(
            use.line,
            call,
            native_record_kind="tool_use",
            record_kind="validation",
            content_index=use.index,
            sequence_number=number,
        )


def _same(call: Call, use: records.Use) -> bool:
    return (call.tool_name, _plain(call.input)) == (use.tool_name, _plain(use.arguments))


def _plain(given: object) -> object:
    """Arguments as JSON, where a string is some."""
    try:
        return parse_json(given.encode())[0] if isinstance(given, str) else given
    except ValueError:
        return given


def _about(blob_id: str, digest: bytes, code: str, what: str) -> Issue:
    return Issue(code, what, sqlite_blob_id=blob_id, record_sha256=digest)
