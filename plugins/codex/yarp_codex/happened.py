"""What Codex tells of a call in an event of its own, beside what the model said and was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from yarp_codex.native import Record, qualified, string, texts, whole

if TYPE_CHECKING:
    from yarp.plugin import Line

NESTED_ID = "exec-"
# What an event tells of, by its own name and by the type of its item.
EVENTS = {
    "exec_command_end": "command",
    "patch_apply_end": "patch",
    "mcp_tool_call_end": "mcp",
    "web_search_end": "search",
    "view_image_tool_call": "image",
    "image_generation_end": "drawing",
    "dynamic_tool_call_response": "dynamic",
}
ITEMS = {
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
    def shown_text(self) -> str | None:
        """The text that the tool gave, or those of its blocks."""
        if self.output is not None:
            return self.output
        return "\n".join(texts(self.blocks)) or None

    @property
    def blocks(self) -> list[Any]:
        """The content blocks of an MCP server's or a client's answer."""
        found = self.item.get("content_items")
        if found is None:
            result = self.item.get("result")
            result = result.get("Ok", result) if isinstance(result, dict) else None
            found = result.get("content") if isinstance(result, dict) else None
        return found if isinstance(found, list) else []

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
