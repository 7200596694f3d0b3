"""What the lines of Claude Code's transcripts say: one record a line, read when it is asked for.

A transcript is `projects/SLUG/SESSION.jsonl`, or `SESSION/subagents/agent-ID.jsonl` beside it. A
record is a view of its line's value: nothing is copied, and an attribute is None where the line
does not have it or has something else there. Both the importer and the trace reader stand on
this; it knows neither. Shapes: reference "Pi and Claude Code", Store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

# Types of records that hold no message of the conversation. One that is not here and brings a
# `message` is `Unknown`: it may hold calls in a way that nobody has seen yet.
SILENT = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attribution-snapshot",
        "content-replacement",
        "cost-state",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "last-prompt",
        "mode",
        "observer-ref",
        "permission-mode",
        "pr-link",
        "queue-operation",
        "result",
        "started",
        "summary",
        "tag",
        "task-summary",
        "tools-used",
        "worktree-state",
    }
)
_MOST_TURNS = 2**53
USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def read(lines: Iterable[Line]) -> Iterator[Record]:
    """The record of each line, in their order."""
    for line in lines:
        yield record(line)


def record(line: Line) -> Record:
    """The record that one line holds."""
    value = line.value
    if type(value) is not dict:
        return Unknown(line, {}, "", "the line is no object")
    kind = value.get("type")
    if type(kind) is not str:
        return Unknown(line, value, "", "the record has no type")
    if kind in ("user", "assistant"):
        if not _is_message(value.get("message")):
            return Unknown(line, value, kind, "the message has another shape")
        return Message(line, value, kind)
    if kind == "progress":
        return Progress(line, value, kind)
    if kind == "attachment":
        return Attachment(line, value, kind)
    if kind == "system":
        return System(line, value, kind)
    if kind not in SILENT and _is_message(value.get("message")):
        return Unknown(line, value, kind, "a message in a record of an unknown type")
    return Other(line, value, kind)


@attrs.define
class Record:
    """One line: where it lies, its value, and its `type`."""

    line: Line
    value: dict[str, Any]
    kind: str

    @property
    def uuid(self) -> str | None:
        """The record's own id; a fork keeps it."""
        return _text(self.value, "uuid")

    @property
    def parent_uuid(self) -> str | None:
        """The record before it in its branch; None at a root."""
        return _text(self.value, "parentUuid")

    @property
    def session_id(self) -> str | None:
        """The session that the record lies in; of a subagent, the one that started it."""
        return _text(self.value, "sessionId")

    @property
    def request_session_id(self) -> str | None:
        """The session that the record was made in, where a fork's copy says so."""
        return _text(self.value, "requestSessionId")

    @property
    def origin_session_id(self) -> str | None:
        """The session that a fork's copy of a record comes from, where it says so."""
        return _text(_object(self.value, "forkedFrom"), "sessionId") or self.request_session_id

    @property
    def agent_id(self) -> str | None:
        """The subagent, inside one."""
        return _text(self.value, "agentId")

    @property
    def is_sidechain(self) -> bool:
        """Whether it belongs to a subagent's own conversation."""
        return self.value.get("isSidechain") is True

    @property
    def timestamp(self) -> str | None:
        """When it was written, as ISO 8601."""
        return _text(self.value, "timestamp")

    @property
    def cwd(self) -> str | None:
        """The working directory at the time."""
        return _text(self.value, "cwd")

    @property
    def version(self) -> str | None:
        """The Claude Code that wrote it."""
        return _text(self.value, "version")

    @property
    def is_meta(self) -> bool:
        """Whether Claude Code itself put it there, not for the person's eyes."""
        return self.value.get("isMeta") is True

    @property
    def prompt_id(self) -> str | None:
        """The submission that led to it."""
        return _text(self.value, "promptId")

    @property
    def is_of_claude_code(self) -> bool:
        """Whether the record shows whose file this is."""
        return self.session_id is not None or self.kind in SILENT


@attrs.define
class Unknown(Record):
    """A line that is not understood; `reason` says how, never what it holds."""

    reason: str


@attrs.define
class Other(Record):
    """A record beside the conversation: titles, queues, requests, states."""


@attrs.define
class System(Record):
    """Something that Claude Code noted: an ended turn, a local command, a compaction."""

    @property
    def subtype(self) -> str | None:
        """What kind of note it is."""
        return _text(self.value, "subtype")


@attrs.define
class Attachment(Record):
    """What Claude Code put beside a prompt."""

    @property
    def attachment(self) -> dict[str, Any]:
        """What was attached."""
        return _object(self.value, "attachment")

    @property
    def attachment_kind(self) -> str | None:
        """The `type` of what was attached."""
        return _text(self.attachment, "type")


@attrs.define
class Message(Record):
    """What the user's side or the model said; each record of the model holds one block or more."""

    @property
    def message(self) -> dict[str, Any]:
        """The API's message."""
        found: dict[str, Any] = self.value["message"]
        return found

    @property
    def message_id(self) -> str | None:
        """The response's id, which all records of one response share."""
        return _text(self.message, "id")

    @property
    def model(self) -> str | None:
        """The model that answered."""
        return _text(self.message, "model")

    @property
    def stop_reason(self) -> str | None:
        """Why the response ended, as far as this record knows."""
        return _text(self.message, "stop_reason")

    @property
    def usage(self) -> dict[str, Any]:
        """Token counts of the response so far, repeated on each of its records."""
        return _object(self.message, "usage")

    @property
    def text(self) -> str | None:
        """The message where it is text alone."""
        return _text(self.message, "content")

    @property
    def blocks(self) -> list[Block]:
        """The content blocks; none where the message is text alone."""
        content = self.message["content"]
        if type(content) is str:
            return []
        return [
            Block(index, value["type"] if type(value.get("type")) is str else "", value)
            for index, value in enumerate(content)
        ]

    @property
    def details(self) -> Any:
        """`toolUseResult`: what the tool itself returned. An object, a text, a list or None."""
        return self.value.get("toolUseResult")

    @property
    def answers_uuid(self) -> str | None:
        """The record of the call that this result answers."""
        return _text(self.value, "sourceToolAssistantUUID")

    @property
    def source_tool_use_id(self) -> str | None:
        """The call that made Claude Code write this message."""
        return _text(self.value, "sourceToolUseID")

    @property
    def prompt_source(self) -> str | None:
        """How the prompt came in: typed, suggested, by a program, by Claude Code itself."""
        return _text(self.value, "promptSource")

    @property
    def turn_index(self) -> int | None:
        """Which turn of the session the prompt began or joined; only newer builds say so."""
        found = _object(self.value, "turnPosition").get("turnIndex")
        return found if type(found) is int and 0 < found < _MOST_TURNS else None

    @property
    def origin_kind(self) -> str | None:
        """Who wrote the prompt, where that is said."""
        return _text(_object(self.value, "origin"), "kind")

    @property
    def interrupted_message_id(self) -> str | None:
        """The response that the person broke off."""
        return _text(self.value, "interruptedMessageId")

    @property
    def is_compact_summary(self) -> bool:
        """Whether it is the summary that a compaction left."""
        return self.value.get("isCompactSummary") is True

    @property
    def is_api_error(self) -> bool:
        """Whether it tells of a failed request instead of an answer."""
        return self.value.get("isApiErrorMessage") is True


@attrs.define
class Progress(Record):
    """News of a running tool; that of a subagent carries a copy of the subagent's message."""

    @property
    def copy(self) -> Message | None:
        """The copied message, with what its own record left to the one around it."""
        data = _object(self.value, "data")
        inner = _object(data, "message")
        kind = inner.get("type")
        if kind not in ("user", "assistant") or not _is_message(inner.get("message")):
            return None
        around: dict[str, Any] = {key: self.value.get(key) for key in ("sessionId", "cwd")}
        around["agentId"] = data.get("agentId")
        return Message(self.line, around | inner, kind)


@attrs.define
class Block:
    """One block of a message: its place, its `type` ("" where it has none) and its value."""

    index: int
    kind: str
    value: dict[str, Any]

    @property
    def text(self) -> str | None:
        """The words of a block of text."""
        return _text(self.value, "text")

    @property
    def use(self) -> Use | None:
        """The call that the block makes; None where it makes none, or in another shape."""
        if self.kind not in USES:
            return None
        value = self.value
        use_id, name = value.get("id"), value.get("name")
        if type(use_id) is not str or type(name) is not str or "input" not in value:
            return None
        return Use(use_id, name, value["input"]) if use_id and name else None

    @property
    def is_result(self) -> bool:
        """Whether the block is of a kind that answers calls."""
        return self.kind == "tool_result" or self.kind.endswith("_tool_result")

    @property
    def result(self) -> Result | None:
        """The answer to a call; None where the block is none, or in another shape."""
        if not self.is_result:
            return None
        value = self.value
        use_id, content = value.get("tool_use_id"), value.get("content", "")
        is_error = value.get("is_error")
        if type(use_id) is not str or not use_id:
            return None
        if self.kind == "tool_result" and not _is_content(content):
            return None
        if is_error is not None and type(is_error) is not bool:
            return None
        # Anthropic's API: an answer without the field is no error.
        return Result(use_id, content, is_error is True)


@attrs.define
class Use:
    """A call: the id that its answer names, the tool, the input as parsed."""

    use_id: str
    name: str
    input: Any


@attrs.define
class Result:
    """An answer: the call's id, the content as the model got it (text or blocks), the verdict."""

    use_id: str
    content: Any
    is_error: bool


def _text(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if type(found) is str else None


def _object(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if type(found) is dict else {}


def _is_message(value: object) -> bool:
    return type(value) is dict and _is_content(value.get("content"))


def _is_content(content: object) -> bool:
    if type(content) is list:
        return all(type(block) is dict for block in content)
    return type(content) is str
