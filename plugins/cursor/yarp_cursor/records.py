"""The records of Cursor's stores as typed values: metadata, messages, lines of transcripts.

A `store.db` has blobs, named by their SHA-256, and one row of metadata. A message is a blob of
JSON, in the shapes of `CoreMessage`; anything else that is JSON is a file that the agent read. A
shape is taken as a whole or not at all. Source: seed 003, "Cursor"; spec "Dataset", Formats.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

_TOO_LARGE = 2**53
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_WANTED = frozenset({"agentId", "latestRootBlobId", "createdAt", "mode", "subagentInfo"})
_WANTED_OF_SUBAGENT = frozenset({"parentAgentId", "rootParentAgentId", "toolCallId", "typeName"})
_ROLES = frozenset({"system", "user", "assistant", "tool"})
_BLOCK_OF_ROLE = {"assistant": "tool-call", "tool": "tool-result"}


class Meta:
    """What a store says of its conversation: the few fields that are wanted, and no others."""

    __slots__ = ("agent_id", "created_at_ms", "mode", "parent_agent_id", "root_id", "tool_call_id")

    def __init__(self, fields: dict[str, Any], subagent: dict[str, Any]) -> None:
        self.agent_id = string(fields.get("agentId"))
        root = fields.get("latestRootBlobId")
        self.root_id: str | None = root.lower() if isinstance(root, str) else None
        self.created_at_ms = milliseconds(fields.get("createdAt"))
        self.mode = string(fields.get("mode"))
        self.parent_agent_id = string(subagent.get("parentAgentId"))
        self.tool_call_id = string(subagent.get("toolCallId"))


def meta(value: str | bytes) -> Meta:
    """The metadata of a store: the hexadecimal text of JSON, or JSON. Raises ValueError.

    What is not wanted, such as the key that blobs may be encrypted with, is passed over and
    never becomes a value.
    """
    data = value.encode() if isinstance(value, str) else value
    if not data.lstrip().startswith(b"{"):
        data = bytes.fromhex(data.decode("ascii"))
    fields = members(data, _WANTED)
    subagent = fields.pop("subagentInfo", b"null")
    inner = members(subagent, _WANTED_OF_SUBAGENT) if subagent.startswith(b"{") else {}
    return Meta(
        {name: json.loads(raw) for name, raw in fields.items()},
        {name: json.loads(raw) for name, raw in inner.items()},
    )


def members(data: bytes, wanted: frozenset[str]) -> dict[str, bytes]:
    """The JSON of the wanted members of a JSON object. Raises ValueError if it is none."""
    found: dict[str, bytes] = {}
    name: str | None = None
    depth = begin = 0
    awaits = "name"
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"{[":
            depth += 1
        if depth == 1:
            if awaits == "name" and first == ord('"'):
                name = json.loads(token[0])
                awaits = "colon"
            elif awaits == "colon" and first == ord(":"):
                begin = token.end()
                awaits = "value"
            elif awaits == "value" and first in b",}":
                if name in wanted:
                    found[str(name)] = data[begin : token.start()].strip()
                awaits = "name"
        if first in b"}]":
            depth -= 1
            if depth == 0 and not data[token.end() :].strip() and awaits == "name":
                return found
        if depth < 1:
            break
    raise ValueError("not a JSON object")


class Block:
    """A tool call or a result within a message. `index`: its place among the message's blocks."""

    __slots__ = ("index", "message", "value")

    def __init__(self, index: int, message: dict[str, Any], value: dict[str, Any]) -> None:
        self.index = index
        self.message = message
        self.value = value

    @property
    def call_id(self) -> str:
        """The call's id as it stands; it may hold a newline."""
        found: str = self.value["toolCallId"]
        return found


class CallBlock(Block):
    """A tool call as the model made it."""

    __slots__ = ()

    @property
    def tool_name(self) -> str:
        """The tool; one of an MCP server as `SERVER-TOOL`."""
        found: str = self.value["toolName"]
        return found

    @property
    def arguments(self) -> object:
        """An object, or a string that need not be JSON."""
        found = self.value.get("args")
        return {} if found is None else found


class ResultBlock(Block):
    """What the model was given for a call, and what Cursor keeps of it beside that."""

    __slots__ = ()

    @property
    def result(self) -> object:
        """Mostly a string."""
        return self.value.get("result")

    @property
    def content(self) -> list[Any]:
        """The blocks that some tools answer with, such as images."""
        found = self.value.get("experimental_content")
        return found if isinstance(found, list) else []

    @property
    def high_level(self) -> dict[str, Any]:
        """`highLevelToolCallResult`: what happened, by the tool's own names."""
        options = self.message.get("providerOptions")
        cursor = options.get("cursor") if isinstance(options, dict) else None
        found = cursor.get("highLevelToolCallResult") if isinstance(cursor, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def is_error(self) -> bool | None:
        """What Cursor says; older builds do not, and an exit status other than 0 is none."""
        found = self.high_level.get("isError")
        output = self.high_level.get("output")
        if not isinstance(found, bool) and isinstance(output, dict):
            found = output.get("isError")
        return found if isinstance(found, bool) else None


class Odd(Exception):
    """A message of a shape that is not known; `tools` if it looks like one with a tool call."""

    def __init__(self, *, tools: bool) -> None:
        super().__init__("a message of a shape that is not known")
        self.tools = tools


def blocks(message: object) -> list[CallBlock | ResultBlock]:
    """The tool calls and results of a message. Raises Odd for what is no message of a known shape.

    Calls are an assistant's, results a tool's; both have an id.
    """
    role = string(message.get("role")) if isinstance(message, dict) else None
    if not isinstance(message, dict) or role not in _ROLES:
        raise Odd(tools=False)
    content = message.get("content")
    if "tool_calls" in message:
        raise Odd(tools=True)
    if isinstance(content, str):
        return []
    if not isinstance(content, list) or not all(map(_is_block, content)):
        raise Odd(tools=False)
    found: list[CallBlock | ResultBlock] = []
    for index, value in enumerate(content):
        if value["type"] not in ("tool-call", "tool-result"):
            continue
        if value["type"] != _BLOCK_OF_ROLE.get(role) or string(value.get("toolCallId")) is None:
            raise Odd(tools=True)
        if role == "assistant":
            if not is_call(value):
                raise Odd(tools=True)
            found.append(CallBlock(index, message, value))
        else:
            if "result" not in value and "experimental_content" not in value:
                raise Odd(tools=True)
            found.append(ResultBlock(index, message, value))
    return found


def is_call(value: object) -> bool:
    """Whether this is a `tool-call` block as a whole."""
    return (
        isinstance(value, dict)
        and value.get("type") == "tool-call"
        and string(value.get("toolCallId")) is not None
        and string(value.get("toolName")) is not None
        and isinstance(value.get("args", {}), dict | list | str)
    )


class Use:
    """A tool call in a transcript: no id, no result, no time."""

    __slots__ = ("arguments", "index", "line", "tool_name")

    def __init__(self, line: Line, index: int, tool_name: str, arguments: object) -> None:
        self.line = line
        self.index = index
        self.tool_name = tool_name
        self.arguments = arguments


def uses(lines: Iterable[Line]) -> Iterator[Use]:
    """The tool calls of a transcript, in order."""
    for line in lines:
        value = line.value
        message = value.get("message") if isinstance(value, dict) else None
        if not isinstance(message, dict) or value.get("role") != "assistant":
            continue
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            if isinstance(block, dict) and block.get("type") == "tool_use":
                name = string(block.get("name"))
                if name is not None:
                    yield Use(line, index, name, block.get("input", {}))


def string(value: object) -> str | None:
    """`value` if it is a string with something in it."""
    return value if isinstance(value, str) and value else None


def milliseconds(value: object) -> int | None:
    """A time in Unix milliseconds; some builds write it as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    return value if type(value) is int and 0 < value < _TOO_LARGE else None


def _is_block(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)
