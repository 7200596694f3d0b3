"""The records of a Codex rollout as typed views: what each line is, and nothing of what it means.

A rollout is JSON lines, one file a thread: `{"timestamp", "type", "payload"}`, in newer builds
with an `ordinal`. A view names what a record of its kind tells and copies nothing; what a field
does not hold is None. `response_item` records are what the model said and was given, and
`event_msg` records what happened, often the same once more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from yarp.plugin import instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

NESTED_ID = "exec-"
# What Codex itself writes before an output: how the command ended, if it has ended.
_ENVELOPE = re.compile(
    r"(?:Chunk ID: [0-9a-f]+\n)?(?:Wall time: [0-9.]+ seconds\nProcess exited with code (-?\d+)\n"
    r"|Exit code: (-?\d+)\nWall time: )"
)
_OLD_ENVELOPE = re.compile(r'"metadata":\{"exit_code":(-?\d+),"duration_seconds":[0-9.]+\}\}\Z')


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


class Meta(Record):
    """`session_meta`: the first one says whose file this is, later ones are copied history."""

    __slots__ = ()

    @property
    def thread_id(self) -> str | None:
        """The thread that this record was first written for."""
        return string(self.payload.get("id"))

    @property
    def started_at_ms(self) -> int | None:
        """When the thread began; the record itself may be a later copy."""
        return instant_ms(self.payload.get("timestamp")) or self.at_ms

    @property
    def working_directory(self) -> str | None:
        """Where the thread began to work."""
        return string(self.payload.get("cwd"))

    @property
    def provider(self) -> str | None:
        """Who serves the model."""
        return string(self.payload.get("model_provider"))

    @property
    def forked_from(self) -> str | None:
        """The thread that this one is a fork of, if it is one."""
        return string(self.payload.get("forked_from_id"))

    @property
    def refers(self) -> bool:
        """Whether the history before it stays in the parent's file instead of being copied."""
        return isinstance(self.payload.get("history_base"), dict)

    @property
    def is_subagent(self) -> bool:
        """Whether another thread started this one as its helper."""
        return self.payload.get("thread_source") == "subagent" or "subagent" in self._source

    @property
    def parent_thread_id(self) -> str | None:
        """The thread that started this one as its helper."""
        spawned = self._source.get("subagent")
        spawned = spawned.get("thread_spawn") if isinstance(spawned, dict) else None
        told = spawned.get("parent_thread_id") if isinstance(spawned, dict) else None
        return string(self.payload.get("parent_thread_id")) or string(told)

    @property
    def own_history_from(self) -> int | None:
        """The ordinal of a subagent's first record that is not its parent's history."""
        return whole(self.payload.get("subagent_history_start_ordinal"))

    @property
    def _source(self) -> dict[str, Any]:
        """`source` as an object; for most threads it is just a word."""
        found = self.payload.get("source")
        return found if isinstance(found, dict) else {}


class Turn(Record):
    """`turn_context`: with what the turn runs from here on."""

    __slots__ = ()

    @property
    def model(self) -> str | None:
        """The model's name."""
        return string(self.payload.get("model"))

    @property
    def effort(self) -> str | None:
        """How much the model is asked to reason."""
        return string(self.payload.get("effort"))

    @property
    def working_directory(self) -> str | None:
        """Where commands run that do not say where."""
        return string(self.payload.get("cwd"))


class Call(Record):
    """A tool call as the model made it."""

    __slots__ = ()

    @property
    def call_id(self) -> str | None:
        """What its output names; a web search has none in most builds."""
        return string(self.payload.get("call_id")) or string(self.payload.get("id"))

    @property
    def tool_name(self) -> str | None:
        """The tool; one of an MCP server as `mcp__SERVER__TOOL`, however the record has it."""
        if self.kind in NAMED_CALLS:
            return qualified(string(self.payload.get("name")), self.payload.get("namespace"))
        return (self.kind or "").removesuffix("_call")

    @property
    def arguments(self) -> object:
        """What the tool was given: a string of JSON (not always valid), or JSON itself."""
        if self.kind in _ACTION_CALLS:
            return self.payload.get("action")
        if self.kind == "image_generation_call":
            return {"revised_prompt": self.payload.get("revised_prompt")}
        return self.payload.get("arguments")

    @property
    def text(self) -> str | None:
        """The text that a custom tool was given, such as a patch or a script."""
        return string(self.payload.get("input")) if self.kind == "custom_tool_call" else None

    @property
    def holds_result(self) -> bool:
        """Whether the record tells the result too."""
        return self.kind == "image_generation_call" and bool(self.payload.get("result"))

    @property
    def is_script(self) -> bool:
        """Whether it is a script of code mode, which has calls of its own inside."""
        return self.kind == "custom_tool_call" and self.payload.get("name") == "exec"


class Output(Record):
    """What the model was given for a call."""

    __slots__ = ()

    @property
    def call_id(self) -> str | None:
        """The call that it answers."""
        return string(self.payload.get("call_id"))

    @property
    def output(self) -> object:
        """A string, or a list of `input_text` and other blocks; a tool search has none."""
        return self.payload.get("output")

    @property
    def first_text(self) -> str:
        """The text that the output begins with."""
        found = self.output
        if isinstance(found, list) and found and isinstance(found[0], dict):
            found = found[0].get("text")
        return found if isinstance(found, str) else ""


class Happened(Record):
    """What Codex says became of a call, in an event of its own beside the model's records.

    `item` is the item of `item_completed`, or the payload itself of an older `..._end` event.
    `sort` is what it tells of, in one word for both. The item of a call inside a script of code
    mode has an id of its own, and nothing in the rollout names the script.
    """

    __slots__ = ("item", "sort")

    def __init__(
        self, line: Line, kind: str, payload: dict[str, Any], item: dict[str, Any], sort: str
    ) -> None:
        super().__init__(line, kind, payload, "event_msg")
        self.item = item
        self.sort = sort

    @property
    def name(self) -> str:
        """`event_msg/exec_command_end`, or `event_msg/item_completed/CommandExecution`."""
        return super().name if self.item is self.payload else f"{super().name}/{self.item['type']}"

    @property
    def call_id(self) -> str | None:
        """The call that it tells of."""
        return string(self.item.get("id" if self.item is not self.payload else "call_id"))

    @property
    def is_nested(self) -> bool:
        """Whether it is a call inside a script of code mode."""
        return (self.call_id or "").startswith(NESTED_ID)

    @property
    def by_user(self) -> bool:
        """Whether the user ran this command, and no model called for it."""
        return self.item.get("source") in ("user_shell", "userShell")

    @property
    def tool_name(self) -> str | None:
        """The tool that was called, as a record of the call itself would name it."""
        item = self.item
        if self.sort == "mcp":
            server, tool = (string(self._invocation.get(name)) for name in ("server", "tool"))
            return f"mcp__{server}__{tool}" if server and tool else None
        if self.sort in ("dynamic", "agents"):
            return qualified(string(item.get("tool")), item.get("namespace"))
        return _TOOLS.get(self.sort)

    @property
    def given(self) -> Any:
        """What the tool was given, by the record's own names; a command's words as `argv`.

        Of a command that a shell was started for, `cmd` is its text.
        """
        item = self.item
        if self.sort == "command":
            words = item.get("command")
            made: dict[str, Any] = {"argv": words}
            if isinstance(words, list) and len(words) == 3 and words[1] in ("-c", "-lc"):
                made["cmd"] = words[2]
            return made
        if self.sort == "mcp":
            return self._invocation.get("arguments") or {}
        if self.sort == "dynamic":
            return item.get("arguments") or {}
        return {name: item[name] for name in _GIVEN[self.sort] if item.get(name) is not None}

    @property
    def working_directory(self) -> str | None:
        """Where the command ran."""
        found = string(self.item.get("cwd"))
        if found and found.startswith("file://"):
            return unquote(found.removeprefix("file://"))
        return found

    @property
    def output(self) -> str | None:
        """The text that the tool gave."""
        for field in ("aggregated_output", "stdout", "output"):
            found = self.item.get(field)
            if isinstance(found, str) and found:
                return found
        return "" if self.sort in ("command", "patch") else None

    @property
    def exit_code(self) -> int | None:
        """A command's exit status."""
        return whole(self.item.get("exit_code"))

    @property
    def _invocation(self) -> dict[str, Any]:
        """What says which tool of an MCP server was called, and with what."""
        found = self.item.get("invocation")
        return found if isinstance(found, dict) else self.item

    @property
    def failed(self) -> bool | None:
        """Whether the tool failed, as far as this says so."""
        item = self.item
        if isinstance(item.get("success"), bool):
            return not item["success"]
        if item.get("status") in ("failed", "error", "cancelled", "declined"):
            return True
        code = self.exit_code
        if code is not None:
            return code != 0
        result = item.get("result")
        if isinstance(result, dict):
            if "Err" in result:
                return True
            result = result["Ok"] if isinstance(result.get("Ok"), dict) else result
            if isinstance(result.get("isError"), bool):
                return bool(result["isError"])
        return False if item.get("status") == "completed" else None

    @property
    def started_at_ms(self) -> int | None:
        """When the tool began; only newer builds say so."""
        return whole(self.payload.get("started_at_ms"))

    @property
    def ended_at_ms(self) -> int | None:
        """When the tool had ended."""
        ended = whole(self.payload.get("completed_at_ms"))
        return self.at_ms if ended is None else ended


NAMED_CALLS = frozenset({"function_call", "custom_tool_call"})
_ACTION_CALLS = frozenset({"web_search_call", "local_shell_call"})
_CALLS = NAMED_CALLS | _ACTION_CALLS | {"tool_search_call", "image_generation_call"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
# What an event tells of, by its own name and by the type of its item.
_EVENTS = {
    "exec_command_end": "command",
    "patch_apply_end": "patch",
    "mcp_tool_call_end": "mcp",
    "web_search_end": "search",
    "view_image_tool_call": "image",
    "image_generation_end": "drawing",
    "dynamic_tool_call_response": "dynamic",
}
_ITEMS = {
    "CommandExecution": "command",
    "FileChange": "patch",
    "McpToolCall": "mcp",
    "WebSearch": "search",
    "ImageView": "image",
    "ImageGeneration": "drawing",
    "DynamicToolCall": "dynamic",
    "CollabAgentToolCall": "agents",
}
_TOOLS = {
    "command": "exec_command",
    "patch": "apply_patch",
    "search": "web_search",
    "image": "view_image",
    "drawing": "image_generation",
}
_GIVEN = {
    "patch": ("changes",),
    "search": ("query", "action"),
    "image": ("path",),
    "drawing": ("revised_prompt",),
    "agents": ("prompt", "model", "reasoning_effort", "receiver_thread_ids"),
}


def read(lines: Iterable[Line]) -> Iterator[Record]:
    """The records of these lines, one each, in order."""
    for line in lines:
        value = line.value
        payload = value.get("payload") if type(value) is dict else None
        if type(payload) is not dict or type(value.get("type")) is not str:
            yield Strange(line, None, {}, "")
            continue
        sort = value["type"]
        kind = payload.get("type")
        if type(kind) is not str:
            kind = None
        if sort == "response_item":
            if kind in _CALLS:
                yield Call(line, kind, payload, sort)
                continue
            if kind in _OUTPUTS:
                yield Output(line, kind, payload, sort)
                continue
        elif sort == "event_msg":
            if kind == "item_completed":
                item = payload.get("item")
                if type(item) is dict and type(item.get("type")) is str and item["type"] in _ITEMS:
                    yield Happened(line, kind, payload, item, _ITEMS[item["type"]])
                    continue
            elif kind in _EVENTS:
                yield Happened(line, kind, payload, payload, _EVENTS[kind])
                continue
        elif sort == "session_meta":
            yield Meta(line, None, payload, sort)
            continue
        elif sort == "turn_context":
            yield Turn(line, None, payload, sort)
            continue
        yield Record(line, kind, payload, sort)


def qualified(name: str | None, space: object) -> str | None:
    """A tool's name within its namespace; `mcp__SERVER__TOOL` for one of an MCP server."""
    if name is None or not isinstance(space, str) or space in ("", "functions"):
        return name
    return f"{space.rstrip('_')}__{name}" if space.startswith("mcp__") else f"{space}.{name}"


def exit_code(text: str) -> int | None:
    """The exit status in what Codex writes before (older builds: after) a command's output."""
    found = _ENVELOPE.match(text)
    if found is None and text.startswith('{"output":'):
        found = _OLD_ENVELOPE.search(text, max(0, len(text) - 120))
        return int(found[1]) if found else None
    return int(found[1] or found[2]) if found else None


def string(value: object) -> str | None:
    """`value` if it is a string with something in it."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """`value` if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
