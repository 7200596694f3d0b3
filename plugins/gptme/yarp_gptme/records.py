r"""What the lines of a gptme conversation say: one message a line, and the calls in its text.

A conversation is `logs/NAME/conversation.jsonl`. Calls stand in the text of the assistant's
messages: in tool format as `@shell(call_1): {"command": "ls"}`, in markdown format as fenced
blocks whose first word is a tool. A message is a view of its line's value: nothing is copied, and
an attribute is None where the line does not have it or has something else there. Both the
importer and the trace reader stand on this; it knows neither. Shapes: reference "Codex CLI and
gptme", Store.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

ROLES = ("system", "user", "assistant")
# The first words of fenced blocks that gptme executes, and the tool of each.
TOOLS = {
    word: word
    for word in (
        *("append", "browser", "chats", "choice", "clarify", "complete", "computer", "elicit"),
        *("form", "gh", "hashline_edit", "ipython", "mcp", "memory", "morph", "patch"),
        *("patch_many", "progress", "rag", "read", "request_tool_change", "restart", "save"),
        *("screenshot", "shell", "subagent", "tmux", "todo", "vent", "vision", "watch"),
    )
} | {"py": "ipython"}
# Blocks of these end at the first bare fence: what is in them has none of its own.
_PLAIN = frozenset({"", "shell", "ipython", "py", "tmux", "gh"})
_TOOL_FORM = re.compile(r"^@([^\r\n]+?)\(([\w\-:.]+)\):\s*(?=\{)", re.MULTILINE)
_OPENING = re.compile(r"^(`{3,})([^\s`]+)", re.MULTILINE)
_FENCE = re.compile(r"(`{3,})(.*)")
# What gptme says by itself when a job in the background ends, whatever was called before.
_LATE = ("Background shell job #",)
_FAILED = ("Error during execution: ", "Tool '")
# How gptme says that it gives the turn back to the person before an answer, and what became of it.
_STOPS = {"Interrupted by user": "interrupted", "Execution declined by user": "interrupted"}
# What the tool `complete` gives back, by which the agent says that it is done.
_COMPLETE = "Task complete. Autonomous session finished."
_NO_ANSWER = "LLM request failed:"
# How an answer ends that was cut off.
_CUT_OFF = ("... ^C Interrupted", " [INTERRUPTED]")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
_COUNTS = frozenset(
    {"input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"}
    | {"reasoning_tokens"}
)


def read(lines: Iterable[Line]) -> Iterator[Message | Unknown]:
    """The message of each line, in their order."""
    for line in lines:
        value = line.value
        if type(value) is not dict:
            yield Unknown(line, "the line is no object")
        elif value.get("role") not in ROLES:
            yield Unknown(line, "a message of a role that is not known")
        elif type(value.get("content")) is not str:
            yield Unknown(line, "a message whose content is no text")
        else:
            yield Message(line, value, value["role"], value["content"])


@attrs.define
class Unknown:
    """A line that is not understood; `reason` says how, never what it holds."""

    line: Line
    reason: str


@attrs.define
class Message:
    """One message: where it lies, its value, who said it, and what."""

    line: Line
    value: dict[str, Any]
    role: str
    content: str

    @property
    def timestamp(self) -> str | None:
        """When it was made, as ISO 8601 without an offset: of the clock where gptme ran."""
        return _text(self.value, "timestamp")

    @property
    def call_id(self) -> str | None:
        """The call that a result of tool format answers."""
        return _text(self.value, "call_id")

    @property
    def is_hidden(self) -> bool:
        """Whether gptme put it there for the model alone, or for the screen: it answers no call."""
        return self.value.get("hide") is True or self.value.get("ui_only") is True

    @property
    def is_late(self) -> bool:
        """Whether it tells of a job in the background that ended: it answers no call."""
        return self.call_id is None and self.content.startswith(_LATE)

    @property
    def failed(self) -> bool:
        """Whether gptme itself says that the tool could not do it; else nothing is said."""
        return self.content.startswith(_FAILED[0]) or (
            self.content.startswith(_FAILED[1]) and self.call_id is not None
        )

    @property
    def stops(self) -> bool:
        """Whether gptme gives the turn back to the person here, before an answer."""
        if self.role != "system" or self.call_id is not None:
            return False
        return self.outcome is not None or self.metadata.get("max_steps_stop") is True

    @property
    def completes(self) -> bool:
        """Whether the agent has said by the tool `complete` that it is done."""
        return self.role == "system" and self.content == _COMPLETE

    @property
    def outcome(self) -> str | None:
        """What became of the turn that is given back, or of an answer; None: nothing is said."""
        if self.role == "assistant":
            return "interrupted" if self.content.endswith(_CUT_OFF) else None
        if self.content.startswith(_NO_ANSWER):
            return "failed"
        return _STOPS.get(self.content)

    @property
    def has_images(self) -> bool:
        """Whether images are attached, by the names of the files."""
        files = self.value.get("files")
        return type(files) is list and any(
            type(one) is str and one.lower().endswith(_IMAGES) for one in files
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """Model, usage and timings."""
        found = self.value.get("metadata")
        return found if type(found) is dict else {}

    @property
    def model(self) -> str | None:
        """Provider and model, with a slash between."""
        return _text(self.metadata, "model")

    @property
    def provider_and_model(self) -> tuple[str | None, str | None]:
        """Its two parts; a model of a provider of providers has slashes of its own."""
        provider, slash, model = (self.model or "").partition("/")
        return (provider or None, model or None) if slash else (None, self.model or None)

    @property
    def effort(self) -> str | None:
        """How much the model was asked to reason."""
        return _text(self.metadata, "reasoning_effort")

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens of the response; older builds have them among the other metadata."""
        found = self.metadata.get("usage", self.metadata)
        if type(found) is not dict:
            return {}
        return {name: count for name, count in found.items() if name in _COUNTS}

    @property
    def executed(self) -> frozenset[str] | None:
        """The tools that gptme executed for this message; None where it does not say."""
        timings = self.metadata.get("timings")
        found = timings.get("tool_ms_by_name") if type(timings) is dict else None
        return frozenset(found) if type(found) is dict else None

    def uses(self) -> list[Use]:
        """The calls in tool format, in order. One whose object does not end is none."""
        found = []
        fenced = _fenced(self.content)
        place = 0
        while match := _TOOL_FORM.search(self.content, place):
            inside = next((end for start, end in fenced if start <= match.start() < end), None)
            if inside is not None:
                place = max(inside, match.end())
                continue
            end = _object_end(self.content, match.end())
            if end is None:
                break
            text = self.content[match.end() : end]
            found.append(Use(match[2], match[1], text, match.start()))
            place = end
        return found

    def blocks(self) -> list[Block] | None:
        """The fenced blocks whose first word is a tool, in order.

        None where there may be some, and fences do not say beyond doubt which ends where.
        """
        found = _blocks(self.content)
        if found is None and not any(one[2] in TOOLS for one in _OPENING.finditer(self.content)):
            return []
        return found


@attrs.define
class Use:
    """A call in tool format: its id, the tool, the object as the model wrote it, and its place."""

    use_id: str
    name: str
    arguments: str
    start: int


@attrs.define
class Block:
    """A call in markdown format: the tool, the words behind its name, the text inside, its place.

    `start` is the number of the line that opens it, from 0.
    """

    name: str
    words: str
    text: str
    start: int


def _text(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if type(found) is str else None


def _object_end(text: str, start: int) -> int | None:
    """The place behind the JSON object that begins at `start`."""
    depth, in_string, place = 0, False, start
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == '"':
            in_string = not in_string
        elif not in_string and char == "{":
            depth += 1
        elif not in_string and char == "}":
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    return None


def _fenced(text: str) -> list[tuple[int, int]]:
    """Where fenced blocks begin and end; what looks like a call there is an example."""
    found, start, fence, place = [], None, "", 0
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line)
        if match is not None and start is None:
            start, fence = place, match[1]
        elif match is not None and match[1] == fence and not match[2].strip():
            found.append((start or 0, place + len(line)))
            start = None
        place += len(line)
    return found


def _blocks(text: str) -> list[Block] | None:
    found: list[Block] = []
    lines = text.replace("\r\n", "\n").split("\n")
    place = 0
    while place < len(lines):
        opening = _FENCE.match(lines[place])
        place += 1
        if opening is None:
            continue
        word, _, words = opening[2].strip().partition(" ")
        end = _block_end(lines, place, opening[1], word)
        if end is None:
            return None
        if word in TOOLS:
            inside = "\n".join(lines[place:end])
            found.append(Block(TOOLS[word], words.strip(), inside, place - 1))
        place = end + 1
    return found


def _block_end(lines: list[str], start: int, fence: str, word: str) -> int | None:
    """The line that closes the block; None where there is none, or more than one could."""
    depth = 1
    for place in range(start, len(lines)):
        match = _FENCE.match(lines[place])
        if match is None or len(match[1]) < len(fence):
            continue
        if match[2].strip():
            if word not in _PLAIN:
                depth += 1
            continue
        if match[1] != fence:
            continue
        depth -= 1
        if depth == 0:
            # With text right behind it, it could as well open a block inside this one.
            follows = lines[place + 1].strip() if place + 1 < len(lines) else ""
            is_clear = word in _PLAIN or not follows or follows.startswith("```")
            return place if is_clear else None
    return None
