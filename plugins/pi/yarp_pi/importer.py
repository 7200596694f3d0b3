"""Pi's sessions into the dataset: calls, results, and where each stands.

A call is identified by its entry's id and time, its place there, its tool-call id and its input:
not by the session, since a fork or a clone copies entries as they are. Version 1 has no entry
ids; there the session and the line's place stand in, and the observation says so. A result belongs
to the nearest entry above it in its branch that made a call of its id: Pi reuses ids. Source: seed
003, Adapter work; spec "Dataset of past tool calls".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarp.plugin import (
    Call,
    Issue,
    Observation,
    Rejected,
    Result,
    Session,
    instant_ms,
    json_sha256,
    rendered,
    without_copies,
)
from yarp_pi.records import Entry, Header, Message, Unknown, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugin import SourceFact, SourceItem
    from yarp_pi import records

# Of an entry: its id, or in version 1 the place of its line.
EntryId = str | int


def facts(item: SourceItem) -> Iterator[SourceFact]:
    """What one session says."""
    found = read(item.lines())
    header = next(found, None)
    if header is None:
        return
    if not isinstance(header, Header):
        reason = header.reason if isinstance(header, Unknown) else "no header"
        raise Rejected("unsupported_pi_source", reason)
    yield from _Session(header).facts(found)


class _Session:
    """The reading of one file: its tree so far, and the calls in it."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._id = header.id or ""
        self._above: dict[EntryId, EntryId | None] = {}
        self._calls: dict[str, list[tuple[EntryId, Call]]] = {}
        self._answered: set[tuple[str | int | bytes, ...]] = set()
        self._last: EntryId | None = None

    def facts(self, found: Iterator[records.Record]) -> Iterator[SourceFact]:
        yield Session(self._id, instant_ms(self._header.timestamp))
        for record in found:
            nameless = self._header.version > 1 and not record.id
            if isinstance(record, Unknown):
                yield Issue.at(record.line, "unsupported_record", record.reason)
            elif nameless and isinstance(record, Message):
                yield Issue.at(record.line, "unsupported_record", "the entry has no id")
            entry = self._place(record)
            if nameless or not isinstance(record, Message):
                continue
            if record.role == "assistant":
                if not record.has_known_content:
                    what = "a message whose content has another shape"
                    yield Issue.at(record.line, "unsupported_record", what)
                for block in record.blocks:
                    if block.kind == "toolCall":
                        yield from self._call(record, entry, block)
            elif record.role == "toolResult":
                yield from self._result(record, entry)

    def _place(self, record: records.Record) -> EntryId:
        """Put an entry into the tree; Pi itself reads version 1 as one entry behind the other."""
        entry: EntryId = record.line.offset
        above: EntryId | None = self._last
        if self._header.version > 1 and record.id is not None:
            entry = record.id
            above = record.parent_id if isinstance(record, Entry) else self._last
        self._above[entry] = above
        self._last = entry
        return entry

    def _call(self, record: Message, entry: EntryId, block: records.Block) -> Iterator[SourceFact]:
        use = block.use
        if use is None:
            yield Issue.at(record.line, "unsupported_record", "a call of another shape")
            return
        place: tuple[str | int, ...]
        place = (self._id, entry) if isinstance(entry, int) else (entry, record.timestamp or "")
        call = Call(
            (use.use_id, *place, block.index, json_sha256(use.input)),
            self._id,
            use.name,
            use.input,
            native_call_id=use.use_id,
            called_at_ms=instant_ms(record.timestamp),
            provider=record.provider,
            model=record.model,
            working_directory=self._header.cwd,
        )
        self._calls.setdefault(use.use_id, []).append((entry, call))
        yield call
        yield self._seen(record, entry, call, "assistant/toolCall", block.index)

    def _result(self, record: Message, entry: EntryId) -> Iterator[SourceFact]:
        found = record.result
        if found is None:
            yield Issue.at(record.line, "unsupported_record", "a result of another shape")
            return
        identity: tuple[str | int | bytes, ...]
        call = self._pair(entry, found.use_id)
        if call is not None:
            identity = call.identity
            self._answered.add(identity)
        else:
            # No call has this one: the result stays, and no two of them meet.
            identity = (found.use_id, self._id, entry, record.timestamp or "")
            if found.use_id in self._calls:
                what = "no call above the result has its id, and none elsewhere is surely its own"
                yield Issue.at(record.line, "ambiguous_call_id", what)
        text, others = rendered(found.content)
        beside = {
            "content": others,
            "details": without_copies(found.details, text or ""),
            "nestedCalls": found.nested_calls,
            "durationMs": found.duration_ms,
        }
        kept = {key: value for key, value in beside.items() if value is not None}
        result = Result(
            identity,
            output_text=text if text is not None or kept else "",
            output_json=kept or None,
            is_error=found.is_error,
            # When it was written, as of the call: the message's own time can lie before that.
            returned_at_ms=instant_ms(record.timestamp),
        )
        yield result
        yield self._seen(record, entry, result, "toolResult", None)

    def _pair(self, entry: EntryId, use_id: str) -> Call | None:
        """The call above a result in its branch; with the branch torn, the only one left over."""
        calls = self._calls.get(use_id, [])
        above = self._above[entry]
        passed = {entry}
        while calls and above is not None:
            found = [call for place, call in calls if place == above]
            if found:
                return found[0] if len(found) == 1 else None
            if above not in self._above or above in passed:
                left = [call for _, call in calls if call.identity not in self._answered]
                return left[0] if len(left) == 1 else None
            passed.add(above)
            above = self._above[above]
        return None

    def _seen(
        self, record: Message, entry: EntryId, target: Call | Result, kind: str, index: int | None
    ) -> Observation:
        placed = isinstance(entry, int)
        return Observation.at(
            record.line,
            target,
            native_record_kind=f"{kind} identified by byte offset" if placed else kind,
            content_index=index,
            sequence_number=record.line.number,
            native_branch_id=None if placed else f"{record.parent_id or '-'}/{entry}",
        )
