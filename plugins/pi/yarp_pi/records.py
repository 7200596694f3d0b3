"""What the lines of Pi's sessions say: the header, then one entry a line, read when asked for.

A session is one file. Its first line is the header; the entries behind it form a tree by `id` and
`parentId`. Version 1 had neither: its entries follow one another, and a line's place is all that
tells one from another. An entry is a view of its line's value: nothing is copied, and an attribute
is None where the line does not have it or has something else there. Both the importer and the
trace reader stand on this; it knows neither. Shapes: reference "Pi and Claude Code", Store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

VERSIONS = (1, 2, 3)
# Entries beside the messages. One that is not here and brings a `message` is `Unknown`: it may
# hold calls in a way that nobody has seen yet.
SILENT = frozenset(
    {
        "branch_summary",
        "compaction",
        "context_edit",
        "custom",
        "custom_message",
        "label",
        "model_change",
        "session_info",
        "thinking_level_change",
        "usage",
    }
)
# What a message may be; `hookMessage` is what version 2 called `custom`.
ROLES = frozenset(
    {
        "assistant",
        "bashExecution",
        "branchSummary",
        "compactionSummary",
        "custom",
        "hookMessage",
        "system",
        "toolResult",
        "user",
    }
)


def read(lines: Iterable[Line]) -> Iterator[Record]:
    """The header and the entries, in their order.

    A `Header` comes first, or an `Unknown` that says why there is none; nothing follows that one,
    since entries mean what their version says.
    """
    found = iter(lines)
    for line in found:
        head = header(line)
        yield head
        if type(head) is not Header:
            return
        for entry in found:
            yield record(entry)


def header(line: Line) -> Header | Unknown:
    """The header that a session's first line is."""
    value = line.value
    if type(value) is not dict or value.get("type") != "session":
        return Unknown(line, {}, "", "the first line is no session header")
    version = value.get("version", 1)
    if type(version) is not int or version not in VERSIONS:
        return Unknown(line, value, "session", "a version of the session that is not known")
    if not _text(value, "id"):
        return Unknown(line, value, "session", "the session has no id")
    return Header(line, value, "session", version)


def record(line: Line) -> Record:
    """The entry that one line behind the header holds."""
    value = line.value
    if type(value) is not dict:
        return Unknown(line, {}, "", "the line is no object")
    kind = value.get("type")
    if type(kind) is not str:
        return Unknown(line, value, "", "the entry has no type")
    if kind == "message":
        message = value.get("message")
        if type(message) is not dict or _text(message, "role") not in ROLES:
            return Unknown(line, value, kind, "a message of a role that is not known")
        return Message(line, value, kind, message["role"])
    if kind == "session" or (kind not in SILENT and type(value.get("message")) is dict):
        return Unknown(line, value, kind, "an entry of a type that is not known")
    return Entry(line, value, kind)


@attrs.define
class Record:
    """One line: where it lies, its value, and its `type`."""

    line: Line
    value: dict[str, Any]
    kind: str

    @property
    def id(self) -> str | None:
        """The entry's own id, which a fork keeps; of the header, the session's."""
        return _text(self.value, "id")

    @property
    def timestamp(self) -> str | None:
        """When it was written, as ISO 8601."""
        return _text(self.value, "timestamp")


@attrs.define
class Unknown(Record):
    """A line that is not understood; `reason` says how, never what it holds."""

    reason: str


@attrs.define
class Header(Record):
    """The first line: the session, and the version of what follows."""

    version: int

    @property
    def cwd(self) -> str | None:
        """The working directory of the session."""
        return _text(self.value, "cwd")

    @property
    def parent_session(self) -> str | None:
        """The file that the session was forked or cloned from."""
        return _text(self.value, "parentSession") or _text(self.value, "branchedFrom")


@attrs.define
class Entry(Record):
    """One entry behind the header."""

    @property
    def parent_id(self) -> str | None:
        """The entry before it in its branch; None at a root, and always in version 1."""
        return _text(self.value, "parentId")

    @property
    def is_root(self) -> bool:
        """Whether it says that no entry is before it; version 1 does not say."""
        return self.id is not None and self.value.get("parentId", "") is None


@attrs.define
class Message(Entry):
    """What was said, called or answered."""

    role: str

    @property
    def message(self) -> dict[str, Any]:
        """What was said, called or answered."""
        found: dict[str, Any] = self.value["message"]
        return found

    @property
    def provider(self) -> str | None:
        """The provider of the model that answered."""
        return _text(self.message, "provider")

    @property
    def model(self) -> str | None:
        """The model that answered."""
        return _text(self.message, "model")

    @property
    def stop_reason(self) -> str | None:
        """Why the answer ended."""
        return _text(self.message, "stopReason")

    @property
    def usage(self) -> dict[str, Any]:
        """The token counts of the answer."""
        return _object(self.message, "usage")

    @property
    def has_known_content(self) -> bool:
        """Whether the content is a text, blocks, or not there at all."""
        return _is_content(self.message.get("content", ""))

    @property
    def text(self) -> str | None:
        """The content where it is text alone."""
        return _text(self.message, "content")

    @property
    def blocks(self) -> list[Block]:
        """The content blocks; none where the content is text alone."""
        content = self.message.get("content")
        if type(content) is not list:
            return []
        return [
            Block(index, value["type"] if type(value.get("type")) is str else "", value)
            for index, value in enumerate(content)
            if type(value) is dict
        ]

    @property
    def result(self) -> Result | None:
        """The answer to a call; None where the message is none, or in another shape."""
        message = self.message
        use_id, is_error = message.get("toolCallId"), message.get("isError")
        if self.role != "toolResult" or type(use_id) is not str or not use_id:
            return None
        if is_error is not None and type(is_error) is not bool:
            return None
        if not self.has_known_content:
            return None
        return Result(use_id, message.get("content", ""), is_error, message)


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
        value = self.value
        use_id, name = value.get("id"), value.get("name")
        if self.kind != "toolCall" or type(use_id) is not str or type(name) is not str:
            return None
        # What the model wrote was no JSON: then `argumentsError` says so.
        return Use(use_id, name, value.get("arguments", {})) if use_id and name else None


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
    is_error: bool | None
    message: dict[str, Any]

    @property
    def details(self) -> Any:
        """What the tool says beside the content; the model does not get it."""
        return self.message.get("details")

    @property
    def nested_calls(self) -> Any:
        """The calls that a script made inside this one: their inputs, not what they gave."""
        return self.message.get("nestedCalls")

    @property
    def duration_ms(self) -> Any:
        """How long the tool ran; not there when it did not."""
        return self.message.get("durationMs")


def _text(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if type(found) is str else None


def _object(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if type(found) is dict else {}


def _is_content(content: object) -> bool:
    if type(content) is list:
        return all(type(block) is dict for block in content)
    return type(content) is str
