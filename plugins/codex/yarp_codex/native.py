"""A record of a rollout, and what may stand in its fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import instant_ms

if TYPE_CHECKING:
    from yarp.plugin import Line

_TOO_LARGE = 2**53
_TIMED_ID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-")
# What Codex itself writes before an output, a line each, of which a build has some.
_CODE = r"(?:Process exited with code|Exit code:) (-?\d{1,10})"
_ENVELOPE_LINE = re.compile(
    rf"(?:Chunk ID: [0-9a-f]+|Wall time: [0-9.]+ seconds|{_CODE}"
    r"|Process running with session ID \d+|Original token count: \d+|Total output lines: \d+"
    r"|Warning: truncated output \(original token count: \d+\))(?:\n|\Z)"
)
_OLD_ENVELOPE = re.compile(
    r'"metadata": ?\{"exit_code": ?(-?\d{1,10}), ?"duration_seconds": ?[0-9.]+\}\}\s*\Z'
)


class Record:
    """One record of a rollout. `type` is the line's, `kind` the payload's own type, if it has one.

    `payload` is what stands in the line, not a copy.
    """

    __slots__ = ("kind", "line", "payload", "type")

    def __init__(
        self,
        line: Line,
        kind: str | None,
        payload: dict[str, Any],
        type: str,  # noqa: A002
    ) -> None:
        self.line = line
        self.kind = kind
        self.payload = payload
        self.type = type

    @property
    def name(self) -> str:
        """The native name of such a record, such as `response_item/function_call`."""
        return f"{self.type}/{self.kind}" if self.kind else self.type

    @property
    def at_ms(self) -> int | None:
        """When it was written, in Unix milliseconds."""
        return instant_ms(self.line.value.get("timestamp"))

    @property
    def ordinal(self) -> int | None:
        """Its number in the thread, which goes on in a fork; older builds write none."""
        return whole(self.line.value.get("ordinal"))

    @property
    def turn_id(self) -> str | None:
        """The turn that it says it belongs to."""
        return string(self.payload.get("turn_id"))


class Strange(Record):
    """A line of JSON that is no record of a rollout; its payload is empty."""

    __slots__ = ()


def texts(content: object) -> list[str]:
    """The texts among the blocks of a message."""
    if isinstance(content, str):
        return [content] if content else []
    blocks = content if isinstance(content, list) else []
    found = (block.get("text") for block in blocks if isinstance(block, dict))
    return [text for text in found if isinstance(text, str) and text]


def has_images(content: object) -> bool:
    """Whether an image is among the blocks of a message."""
    blocks = content if isinstance(content, list) else []
    kinds = (block.get("type") for block in blocks if isinstance(block, dict))
    return any(isinstance(kind, str) and "image" in kind.lower() for kind in kinds)


def qualified(name: str | None, space: object) -> str | None:
    """A tool's name within its namespace; `mcp__SERVER__TOOL` for one of an MCP server."""
    if name is None or not isinstance(space, str) or space in ("", "functions"):
        return name
    return f"{space.rstrip('_')}__{name}" if space.startswith("mcp__") else f"{space}.{name}"


def envelope_of(text: str) -> str:
    """What Codex itself wrote before an output: none, one or more lines, without `Output:`."""
    end = 0
    while found := _ENVELOPE_LINE.match(text, end):
        end = found.end()
    # A tool's own first line may look like one of these: two of them, or what follows, prove it.
    proven = text.startswith("Output:", end) or "\n" in text[: max(0, end - 1)]
    return text[:end] if proven else ""


def exit_code(text: str) -> int | None:
    """The exit status in what Codex writes before (older builds: after) a command's output."""
    if text.startswith('{"output":'):
        found = _OLD_ENVELOPE.search(text, max(0, len(text) - 120))
        return int(found[1]) if found else None
    codes = {int(code) for code in re.findall(_CODE, envelope_of(text))}
    return codes.pop() if len(codes) == 1 else None


def began_ms(native_id: object) -> int | None:
    """The time that an id of version 7 begins with, in Unix milliseconds; other ids hold none."""
    found = _TIMED_ID.match(native_id) if isinstance(native_id, str) else None
    return int(found[1] + found[2], 16) if found else None


def string(value: object) -> str | None:
    """`value` if it is a string with something in it."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """`value` if it is a whole number, of a size that counts and times have."""
    return value if type(value) is int and abs(value) < _TOO_LARGE else None
