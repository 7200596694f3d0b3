"""The records of a Codex rollout as typed views: what each line is, and nothing of what it means.

A rollout is JSON lines, one file a thread: `{"timestamp", "type", "payload"}`, in newer builds
with an `ordinal`. A view names what a record of its kind tells and copies nothing; what a field
does not hold is None. `response_item` records are what the model said and was given, and
`event_msg` records what happened, often the same once more.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from yarp.plugin import instant_ms
from yarp_codex.happened import EVENTS, ITEMS, Happened
from yarp_codex.native import Record, Strange, has_images, qualified, string, texts, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line

ROOT = "/root"
_BESIDE = "internal_chat_message_metadata_passthrough"
NAMED_CALLS = frozenset({"function_call", "custom_tool_call"})
_ACTION_CALLS = frozenset({"web_search_call", "local_shell_call"})
_CALLS = NAMED_CALLS | _ACTION_CALLS | {"tool_search_call", "image_generation_call"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})


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
        base = self.payload.get("history_base")
        told = base.get("thread_id") if isinstance(base, dict) else None
        return string(self.payload.get("forked_from_id")) or string(told)

    @property
    def is_subagent(self) -> bool:
        """Whether another thread started this one as its helper."""
        return self.payload.get("thread_source") == "subagent" or "subagent" in self._source

    @property
    def parent_thread_id(self) -> str | None:
        """The thread that started this one as its helper."""
        told = self._spawned.get("parent_thread_id")
        return string(self.payload.get("parent_thread_id")) or string(told)

    @property
    def agent_path(self) -> str | None:
        """How messages between agents name the one of this thread; older builds do not say."""
        found = string(self.payload.get("agent_path")) or string(self._spawned.get("agent_path"))
        return found or (None if self.is_subagent else ROOT)

    @property
    def nickname(self) -> str | None:
        """Of a helper, the name that Codex gave it."""
        return string(self.payload.get("agent_nickname"))

    @property
    def root_thread_id(self) -> str | None:
        """The thread that all helpers come from."""
        return string(self.payload.get("session_id"))

    @property
    def own_history_from(self) -> int | None:
        """The ordinal of a subagent's first record that is not its parent's history."""
        return whole(self.payload.get("subagent_history_start_ordinal"))

    @property
    def _source(self) -> dict[str, Any]:
        """`source` as an object; for most threads it is just a word."""
        found = self.payload.get("source")
        return found if isinstance(found, dict) else {}

    @property
    def _spawned(self) -> dict[str, Any]:
        """Of a helper, what is told of its start."""
        found = self._source.get("subagent")
        found = found.get("thread_spawn") if isinstance(found, dict) else None
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
        """What the tool was given: a string of JSON (not always valid), or JSON itself.

        An empty object where the record says nothing of it.
        """
        if self.kind in _ACTION_CALLS:
            return self.payload.get("action", {})
        if self.kind == "image_generation_call":
            return {"revised_prompt": self.payload.get("revised_prompt")}
        if self.kind == "custom_tool_call":
            return self.payload.get("input", {})
        return self.payload.get("arguments", {})

    @property
    def text(self) -> str | None:
        """The text that a custom tool was given, such as a patch or a script."""
        found = self.payload.get("input") if self.kind == "custom_tool_call" else None
        return found if isinstance(found, str) else None

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


class Message(Record):
    """A message as the model was given it, or gave it."""

    __slots__ = ()

    @property
    def role(self) -> str | None:
        """Whose it is for the model: user, assistant, developer or system."""
        return string(self.payload.get("role"))

    @property
    def texts(self) -> list[str]:
        """The texts that it is made of."""
        return texts(self.payload.get("content"))

    @property
    def kinds(self) -> list[str | None]:
        """For each of the texts, what Codex says it is; only newer builds do."""
        content, told = self.payload.get("content"), self.payload.get(_BESIDE)
        kinds = told.get("content_item_kinds") if isinstance(told, dict) else None
        if not isinstance(content, list) or not isinstance(kinds, list):
            return [None] * len(self.texts)
        pairs = zip_longest(content, kinds[: len(content)])
        return [string(kind) for block, kind in pairs if texts([block])]

    @property
    def has_images(self) -> bool:
        """Whether it shows images."""
        return has_images(self.payload.get("content"))

    @property
    def phase(self) -> str | None:
        """Of an answer, where in the turn it stands; most builds do not say."""
        return string(self.payload.get("phase"))


class Shown(Record):
    """A message as the user wrote it, or was shown it."""

    __slots__ = ("item",)

    def __init__(
        self, line: Line, kind: str, payload: dict[str, Any], item: dict[str, Any]
    ) -> None:
        super().__init__(line, kind, payload, "event_msg")
        self.item = item

    @property
    def by_user(self) -> bool:
        """Whether the user wrote it."""
        return self.item.get("type") in ("user_message", "UserMessage")

    @property
    def text(self) -> str:
        """Its text."""
        found = self.item.get("message")
        return found if isinstance(found, str) else "\n".join(texts(self.item.get("content")))

    @property
    def has_images(self) -> bool:
        """Whether it shows images."""
        named = any(self.item.get(name) for name in ("images", "local_images"))
        return named or has_images(self.item.get("content"))

    @property
    def phase(self) -> str | None:
        """As of `Message`."""
        return string(self.item.get("phase"))


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
            if kind == "message":
                yield Message(line, kind, payload, sort)
                continue
        elif sort == "event_msg":
            if kind == "item_completed":
                item = payload.get("item")
                if type(item) is not dict or type(told := item.get("type")) is not str:
                    pass
                elif told in ITEMS:
                    yield Happened(line, kind, payload, item, ITEMS[told])
                    continue
                elif told in ("UserMessage", "AgentMessage"):
                    yield Shown(line, kind, payload, item)
                    continue
            elif kind in EVENTS:
                yield Happened(line, kind, payload, payload, EVENTS[kind])
                continue
            elif kind in ("user_message", "agent_message"):
                yield Shown(line, kind, payload, payload)
                continue
        elif sort == "session_meta":
            yield Meta(line, None, payload, sort)
            continue
        elif sort == "turn_context":
            yield Turn(line, None, payload, sort)
            continue
        yield Record(line, kind, payload, sort)
