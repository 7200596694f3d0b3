"""Claude Code's transcripts into the dataset: calls, results, and where each stands.

A call is identified by the session it was made in and its tool-use id. A fork copies records with
their `uuid` and rewrites `sessionId`: a copy that says where it was made (`requestSessionId`) is
counted there; all others meet at the end of the run, by `uuid`. Source: seed 003, Adapter work;
spec "Dataset of past tool calls".
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Call,
    Issue,
    Observation,
    Rejected,
    Result,
    Session,
    instant_ms,
    rendered,
    without_copies,
)
from yarp_claude.records import Message, Progress, Unknown, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import SourceFact, SourceItem
    from yarp_claude import records

LARGEST_OUTPUT_BYTES = 64 << 20
_SAVED = re.compile(r"<persisted-output>\n[^\n]*Full output saved to: ([^\n]+)\n")


def facts(item: SourceItem) -> Iterator[SourceFact]:
    """What one transcript says."""
    yield from _Transcript(item).facts()


class _Transcript:
    """The reading of one file: which calls it has made, and which sessions it knows."""

    def __init__(self, item: SourceItem) -> None:
        self._item = item
        self._calls: dict[str, list[tuple[Call, str | None, str | None]]] = {}
        self._answered: set[str] = set()
        self._copies: list[tuple[Message, records.Block, records.Result]] = []
        self._started: dict[str, str | None] = {}

    def facts(self) -> Iterator[SourceFact]:
        read_any = known = False
        for record in read(self._item.lines()):
            read_any = True
            known = known or record.is_of_claude_code
            if isinstance(record, Message):
                yield from self._message(record, "canonical")
            elif isinstance(record, Progress):
                copy = record.copy
                if copy is not None:
                    yield from self._message(copy, "projection")
            elif isinstance(record, Unknown):
                yield Issue.at(record.line, "unsupported_record", record.reason)
            self._meet(record)
        if read_any and not known:
            raise Rejected("unsupported_claude_source", "no line is a record of Claude Code")
        for message, block, result in self._copies:
            if result.use_id not in self._answered and not self._has_own_file(message):
                yield from self._result(message, block, result, "projection")
        for session_id, started in self._started.items():
            yield Session(session_id, instant_ms(started))

    def _meet(self, record: records.Record) -> None:
        session_id, timestamp = record.session_id, record.timestamp
        if session_id is None:
            return
        known = self._started.setdefault(session_id, None)
        # All are written alike, in UTC: they sort like the times.
        if timestamp is None or (known is not None and timestamp >= known):
            return
        if instant_ms(timestamp) is not None:
            self._started[session_id] = timestamp

    def _message(self, record: Message, kind: Any) -> Iterator[SourceFact]:
        blocks = record.blocks
        answers = sum(block.is_result for block in blocks)
        if answers > 1 and record.details is not None:
            what = "details of one result in a record of several"
            yield Issue.at(record.line, "ambiguous_details", what)
        for block in blocks:
            use = block.use
            if use is not None:
                yield from self._call(record, block, use, kind)
            elif block.is_result:
                result = block.result
                if result is None:
                    yield Issue.at(record.line, "unsupported_record", "a result of another shape")
                elif kind == "canonical":
                    yield from self._result(record, block, result, kind)
                else:
                    self._copies.append((record, block, result))
            elif block.kind.endswith("tool_use"):
                yield Issue.at(record.line, "unsupported_record", "a call of another shape")

    def _call(
        self, record: Message, block: records.Block, use: records.Use, kind: Any
    ) -> Iterator[SourceFact]:
        session = record.request_session_id or record.session_id
        if session is None:
            yield Issue.at(record.line, "unsupported_record", "a call in no session")
            return
        self._started.setdefault(session, None)
        if session != record.session_id:
            # A copy that says so itself: what it tells, the original tells better.
            kind = "projection"
        uuid = record.uuid
        call = Call(
            (session, use.use_id),
            session,
            use.name,
            use.input,
            native_call_id=use.use_id,
            native_worker_id=record.agent_id,
            called_at_ms=instant_ms(record.timestamp),
            model=record.model,
            working_directory=record.cwd,
            copy_of=None if uuid is None else (uuid, use.use_id),
        )
        self._calls.setdefault(use.use_id, []).append((call, uuid, record.session_id))
        yield call
        yield _seen(record, block, call, kind)

    def _result(
        self, record: Message, block: records.Block, found: records.Result, kind: Any
    ) -> Iterator[SourceFact]:
        identity, copy_of, said = self._pair(record, found.use_id)
        if said is not None:
            yield said
        if identity is None:
            yield Issue.at(record.line, "unsupported_record", "a result in no session")
            return
        self._answered.add(found.use_id)
        text, others = _content(found.content)
        beside: dict[str, Any] = {} if others is None else {"content": others}
        if text is not None:
            saved = _saved(record, text)
            if saved is not None:
                whole = self._whole(record, saved, identity)
                if isinstance(whole, Issue):
                    yield whole
                else:
                    beside["rendered"], text = text, whole
        details = record.details if kind == "canonical" else None
        if details is not None and sum(one.is_result for one in record.blocks) == 1:
            kept = _details(details, text or "", others or ())
            if kept is not None:
                beside["toolUseResult"] = kept
        if text is None and not beside:
            text = ""
        result = Result(
            identity,
            output_text=text,
            output_json=beside or None,
            is_error=found.is_error,
            returned_at_ms=instant_ms(record.timestamp),
            copy_of=copy_of,
        )
        yield result
        yield _seen(record, block, result, kind)

    def _pair(
        self, record: Message, use_id: str
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, Issue | None]:
        """The identity of the call that a result answers, its group of copies, and a doubt."""
        session, asked_by = record.session_id, record.answers_uuid or record.parent_uuid
        found = self._calls.get(use_id, ())
        calls = {call.identity: call for call, _, _ in found}
        if len(calls) > 1:
            calls = {
                call.identity: call for call, uuid, _ in found if uuid == asked_by is not None
            } or {call.identity: call for call, _, own in found if own == session}
        if len(calls) == 1:
            (call,) = calls.values()
            return call.identity, call.copy_of, None  # type: ignore[return-value]
        doubt = None
        if calls:
            what = "several calls have the id that the result names"
            doubt = Issue.at(record.line, "ambiguous_call_id", what)
        if session is None:
            return None, None, doubt
        # The call lies in another file, or nowhere.
        return (session, use_id), None if asked_by is None else (asked_by, use_id), doubt

    def _whole(self, record: Message, path: str, call: tuple[str, ...]) -> str | Issue:
        """The output that Claude Code put into a file of its own, if it may be read."""
        project = self._item.relative_path.split("/")[0]
        parts = path.split("/")[-4:]
        sessions = {record.session_id, call[0]}
        if _details_name(record, path):
            # Claude Code's own word; a fork's copy names the session that it was copied from.
            sessions.add(parts[1] if len(parts) == 4 else None)
        inside = len(parts) == 4 and parts[0] == project and parts[2] == "tool-results"
        if not inside or parts[1] not in sessions or not {"", ".", ".."}.isdisjoint(parts):
            return _unread(record, "it lies outside of the session's tool-results")
        try:
            data = self._item.read_beside("/".join(parts), most_bytes=LARGEST_OUTPUT_BYTES)
        except Rejected as error:
            if error.issue.code != "companion_too_large":
                raise
            return _unread(record, "it is longer than 64 MiB")
        if data is None:
            return _unread(record, "it is not there any more")
        try:
            return data.decode()
        except UnicodeDecodeError:
            return _unread(record, "it is no UTF-8 text")

    def _has_own_file(self, record: Message) -> bool:
        """Whether the subagent whose message this copies has a transcript of its own."""
        if record.agent_id is None or record.session_id is None:
            return False
        project = self._item.relative_path.split("/")[0]
        name = f"agent-{record.agent_id}.jsonl"
        place = os.path.join(self._item.root, project, record.session_id, "subagents", name)
        return os.path.isfile(place)


def _seen(record: Message, block: records.Block, target: Call | Result, kind: Any) -> Observation:
    inside = "progress/" if record.line.value.get("type") == "progress" else ""
    return Observation.at(
        record.line,
        target,
        native_record_kind=f"{inside}{record.kind}/{block.kind}",
        record_kind=kind,
        content_index=block.index,
        sequence_number=record.line.number,
        native_branch_id=f"{record.parent_uuid or '-'}/{record.uuid or '-'}",
    )


def _content(content: object) -> tuple[str | None, list[Any] | None]:
    if isinstance(content, str | list):
        return rendered(content)
    # A search's error is an object.
    return None, [content]


def _saved(record: Message, text: str) -> str | None:
    """The file that the result names as its whole output."""
    if not text.startswith("<persisted-output>\n"):
        return None
    named = _SAVED.match(text)
    details = record.details
    path = details.get("persistedOutputPath") if isinstance(details, dict) else None
    if isinstance(path, str):
        return path
    return named[1] if named else None


def _details_name(record: Message, path: str) -> bool:
    """Whether the structured result names the file, not only words that a tool could print."""
    details = record.details
    return isinstance(details, dict) and details.get("persistedOutputPath") == path


def _unread(record: Message, why: str) -> Issue:
    return Issue.at(record.line, "persisted_output_unread", f"only its preview is kept: {why}")


def _details(details: Any, text: str, others: Iterable[Any]) -> Any:
    """`toolUseResult` without what text and content blocks say already."""
    if isinstance(details, str) and details.removeprefix("Error: ") == text:
        return None
    images = [
        source["data"]
        for block in others
        if isinstance(block, dict)
        and isinstance(source := block.get("source"), dict)
        and isinstance(source.get("data"), str)
    ]
    return without_copies(details, text, *images)
