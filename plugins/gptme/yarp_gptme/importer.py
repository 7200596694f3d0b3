"""gptme's conversations into the dataset: calls, results, and where each stands.

A call is identified by the time and the text of its message and its place in it: not by the
conversation, since a fork copies messages as they are. In tool format a result names its call. In
markdown format it names nothing, and belongs by order to a call of the message before it, which
the observation says; where that leaves a doubt there is an issue and no result. Source: reference
"Codex CLI and gptme", Store; spec "Dataset of past tool calls".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Call,
    Importer,
    Issue,
    Observation,
    Rejected,
    Result,
    Session,
    SourceOption,
    instant_ms,
    items_below,
    json_sha256,
)
from yarp_gptme.records import Message, Unknown, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from yarp.plugin import SourceFact, SourceItem

CONVERSATION = "conversation.jsonl"
_BY_ORDER = "system by order"


def importer() -> Importer:
    """The declaration."""
    return Importer(
        "gptme",
        adapter_version=1,
        options=[
            SourceOption(
                "logs",
                kind="directory",
                help="gptme's conversations.",
                default=".local/share/gptme/logs",
            )
        ],
        discover=discover,
        read=facts,
    )


def discover(roots: Mapping[str, str]) -> Iterator[SourceItem | Issue]:
    """Every conversation below the root, with its branches."""
    yield from items_below(
        roots["logs"],
        kind="logs",
        suffixes=(".jsonl",),
        accept=_is_conversation,
        passes_over=_is_elsewhere,
    )


def _is_elsewhere(relative_path: str) -> bool:
    # A conversation links to the folder that it works in, and keeps what its tools wrote.
    *above, name = relative_path.split("/")
    return len(above) < 2 and name in ("workspace", "tool-outputs")


def _is_conversation(relative_path: str) -> bool:
    parts = relative_path.split("/")
    return parts[-1] == CONVERSATION or (len(parts) == 3 and parts[1] == "branches")


def facts(item: SourceItem) -> Iterator[SourceFact]:
    """What one conversation says."""
    yield from _Conversation(item).facts()


class _Conversation:
    """The reading of one file: the calls so far, and those that wait for results."""

    def __init__(self, item: SourceItem) -> None:
        # Or the root itself is a conversation.
        self._session = item.shown_path.split("/")[0]
        if self._session == CONVERSATION:
            self._session = os.path.basename(item.shown_root)
        self._found = list(read(item.lines()))
        messages = [one for one in self._found if isinstance(one, Message)]
        if self._found and not messages:
            raise Rejected("unsupported_gptme_source", "no line is a message of gptme")
        self._started = messages[0].timestamp if messages else None
        # Only in tool format do results name calls.
        self._is_tool_format = any(one.call_id is not None for one in messages)
        self._tells_executed = any(one.executed is not None for one in messages)
        self._calls: dict[str, list[Call]] = {}
        self._answered: set[tuple[Any, ...]] = set()
        self._waiting: list[Call] = []
        self._results: list[Message] = []

    def facts(self) -> Iterator[SourceFact]:
        if not self._found:
            return
        yield Session(self._session, instant_ms(self._started))
        for message in self._found:
            if isinstance(message, Unknown):
                yield Issue.at(message.line, "unsupported_record", message.reason)
            elif message.role == "assistant":
                yield from self._settle()
                yield from self._assistant(message)
            elif message.role == "user":
                yield from self._settle()
            elif message.call_id is not None:
                yield from self._answer(message, message.call_id)
            elif self._waiting and not message.is_hidden and not message.is_late:
                self._results.append(message)
        yield from self._settle()

    def _assistant(self, message: Message) -> Iterator[SourceFact]:
        uses = message.uses() if self._is_tool_format else []
        blocks = message.blocks()
        executed = message.executed or frozenset()
        seen = {use.name for use in uses} | {block.name for block in blocks or ()}
        if self._tells_executed and executed - seen:
            what = "the text does not say beyond doubt what gptme executed"
            yield Issue.at(message.line, "ambiguous_call", what)
            blocks = []
        elif blocks is None:
            if not self._tells_executed:
                what = "fences that leave in doubt which block ends where"
                yield Issue.at(message.line, "ambiguous_call", what)
            blocks = []
        index = 0
        for block in blocks:
            # Older conversations tell of none what was executed.
            if self._tells_executed and block.name not in executed:
                continue
            value: Any = {"args": block.words, "content": block.text} if block.words else block.text
            call = self._call(message, index, block.name, value, None)
            if isinstance(value, str):
                call.input_format = "text"
            self._waiting.append(call)
            yield from (call, self._seen(message, call, "assistant/markdown", index))
            index += 1
        for use in uses:
            call = self._call(message, index, use.name, use.arguments, use.use_id)
            call.input_format = "json_or_text"
            self._calls.setdefault(use.use_id, []).append(call)
            yield from (call, self._seen(message, call, "assistant/tool", index))
            index += 1

    def _call(
        self, message: Message, index: int, name: str, value: Any, use_id: str | None
    ) -> Call:
        provider, model = message.provider_and_model
        return Call(
            (message.timestamp or "", json_sha256(message.content), index, use_id or ""),
            self._session,
            name,
            value,
            native_call_id=use_id,
            called_at_ms=instant_ms(message.timestamp),
            provider=provider,
            model=model,
        )

    def _answer(self, message: Message, use_id: str) -> Iterator[SourceFact]:
        calls = self._calls.get(use_id, [])
        left = [call for call in calls if call.identity not in self._answered]
        if len(left) == 1:
            identity = left[0].identity
            self._answered.add(identity)
        else:
            identity = (use_id, message.timestamp or "", json_sha256(message.content))
            if len(left) > 1:
                what = "several calls have the id that the result names"
                yield Issue.at(message.line, "ambiguous_call_id", what)
        yield from self._result(message, identity, "system")

    def _settle(self) -> Iterator[SourceFact]:
        """Give the results since the last message with blocks to its calls, by their order."""
        calls, results = self._waiting, self._results
        self._waiting, self._results = [], []
        if results and len(calls) != len(results):
            what = f"{len(results)} results for {len(calls)} calls: which is whose is in doubt"
            yield Issue.at(results[0].line, "ambiguous_result", what)
            return
        for call, message in zip(calls, results, strict=False):
            yield from self._result(message, call.identity, _BY_ORDER)

    def _result(
        self, message: Message, identity: tuple[Any, ...], kind: str
    ) -> Iterator[SourceFact]:
        result = Result(
            identity,
            output_text=message.content,
            # gptme keeps no verdict: only its own words for a failure are certain.
            is_error=True if message.failed else None,
            returned_at_ms=instant_ms(message.timestamp),
        )
        yield from (result, self._seen(message, result, kind, None))

    def _seen(
        self, message: Message, target: Call | Result, kind: str, index: int | None
    ) -> Observation:
        return Observation.at(
            message.line,
            target,
            native_record_kind=kind,
            content_index=index,
            sequence_number=message.line.number,
        )
