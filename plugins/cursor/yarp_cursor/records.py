"""The records of Cursor's stores as typed values: metadata, messages, lines of transcripts.

A `store.db` has blobs, named by their SHA-256, and one row of metadata. A message is a blob of
JSON, in the shapes of `CoreMessage`; anything else that is JSON is a file that the agent read. A
shape is taken as a whole or not at all. Source: seed 003, "Cursor"; spec "Dataset", Formats.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

# The folder that transcripts lie in.
TRANSCRIPTS = "agent-transcripts"
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
    """A tool call in a transcript: no id, no result, no time. `given`: its input, None without."""

    __slots__ = ("given", "index", "line", "tool_name")

    def __init__(self, line: Line, index: int, tool_name: str, given: object) -> None:
        self.line = line
        self.index = index
        self.tool_name = tool_name
        self.given = given

    @property
    def arguments(self) -> object:
        """An object, or a string that need not be JSON."""
        return {} if self.given is None else self.given


class Message:
    """What a transcript has of one message: texts and calls as they stood in it.

    `blocks` of other kinds are left out, but for `has_images`.
    """

    __slots__ = ("blocks", "has_images", "line", "role")

    def __init__(self, line: Line, role: str, content: list[Any]) -> None:
        self.line = line
        self.role = role
        self.blocks: list[str | Use] = []
        self.has_images = False
        for index, value in enumerate(content):
            kind = value.get("type") if isinstance(value, dict) else None
            if kind == "text" and (text := string(value.get("text"))) is not None:
                self.blocks.append(text)
            elif kind == "tool_use" and (name := string(value.get("name"))) is not None:
                self.blocks.append(Use(line, index, name, value.get("input")))
            elif kind == "image":
                self.has_images = True

    @property
    def text(self) -> str:
        """All that it says."""
        return "\n".join(block for block in self.blocks if isinstance(block, str))


class Ended:
    """The end of a turn: `status` is success, aborted or error, and `error` what went wrong."""

    __slots__ = ("error", "line", "status")

    def __init__(self, line: Line, status: str | None, error: str | None) -> None:
        self.line = line
        self.status = status
        self.error = error


class Failed:
    """An error of the model's provider, on a line of its own."""

    __slots__ = ("error", "line")

    def __init__(self, line: Line, error: str | None) -> None:
        self.line = line
        self.error = error


def entry(line: Line) -> Message | Ended | Failed | None:
    """What a line of a transcript is; None for what is not known."""
    value = line.value
    if not isinstance(value, dict):
        return None
    content = spoken(value)
    if content is not None:
        return Message(line, value["role"], content)
    error = string(value.get("error"))
    if value.get("type") == "turn_ended":
        return Ended(line, string(value.get("status")), error)
    return Failed(line, error) if value.get("type") == "error" else None


def spoken(value: object) -> list[Any] | None:
    """The blocks of a transcript's message, None for any other JSON."""
    message = value.get("message") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(message, dict):
        return None
    content = message.get("content")
    if value.get("role") not in ("user", "assistant"):
        return None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else None


def uses(lines: Iterable[Line]) -> Iterator[Use]:
    """The tool calls of a transcript, in order."""
    for line in lines:
        found = entry(line)
        if isinstance(found, Message) and found.role == "assistant":
            yield from (block for block in found.blocks if isinstance(block, Use))


class Placed:
    """Whose transcript a file is; `parent`: of a subagent, who started it."""

    __slots__ = ("parent", "session")

    def __init__(self, session: str, parent: str | None = None) -> None:
        self.session = session
        self.parent = parent


def placed(path: str) -> Placed | None:
    """Whose transcript the file at this path is; None where that is no place of a transcript.

    Its content names nobody. The places are `ID/ID.jsonl`, `PARENT/subagents/ID.jsonl`, and below
    `agent-transcripts` in older builds `ID.jsonl` and `ID/transcript.jsonl`.
    """
    above, name = os.path.split(path.removesuffix(".zst"))
    above, folder = os.path.split(above)
    parent = os.path.basename(above)
    name, suffix = os.path.splitext(name)
    if suffix != ".jsonl" or not folder:
        return None
    if folder == "subagents":
        return Placed(name, parent) if parent else None
    if folder in (name, TRANSCRIPTS):
        return Placed(name)
    return Placed(folder) if (parent, name) == (TRANSCRIPTS, "transcript") else None


def directory(given: object) -> str | None:
    """Where a call runs, if its input says so."""
    found = given.get("working_directory") if isinstance(given, dict) else None
    return found if isinstance(found, str) and os.path.isabs(found) else None


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
