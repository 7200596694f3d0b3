"""gptme's conversations as traces: the session, its loops, and what was said, called and answered.

gptme writes no ids of its own: a conversation is the folder that it lies in. A loop begins with a
message of the person and ends with an answer that calls nothing, with the tool `complete`, or
where gptme gives the turn back. What it tells by a role or by order alone is heuristic. Source:
spec "Trace index"; reference "Codex CLI and gptme", Store.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Amend,
    Item,
    LoopEnd,
    LoopModel,
    LoopStart,
    SessionFact,
    SourceOption,
    TraceReader,
    UsageSample,
    instant_ms,
)
from yarp_gptme.records import ROLES, Message, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Fact, Line

CONVERSATION = "conversation.jsonl"
# How gptme's own words in the person's name begin.
_OWN_WORDS = "<system>"


def reader() -> TraceReader:
    """The declaration."""
    return TraceReader(
        "gptme",
        options=[
            SourceOption(
                "logs",
                kind="directory",
                help="gptme's conversations.",
                default=".local/share/gptme/logs",
            )
        ],
        detect=detect,
        project=project,
        shell_tools={"shell": "command"},
    )


def detect(head: object) -> bool:
    """Whether a source that begins with this line is a conversation of gptme."""
    if type(head) is not dict or {"type", "sessionId", "id"} & head.keys():
        return False
    role, said, at = head.get("role"), head.get("content"), head.get("timestamp")
    return type(role) is str and role in ROLES and type(said) is str and type(at) is str


def project(locator: str, state: bytes | None) -> Projection:
    """A projector for one conversation; a branch, which copies one, gives no session."""
    return Projection(locator, state)


class Projection:
    """The projection of one conversation; all that it remembers is in `_at`."""

    def __init__(self, locator: str, state: bytes | None) -> None:
        folder, name = os.path.split(locator)
        self._name = os.path.basename(folder) if name == CONVERSATION else None
        # started: whether the session is told. loop: the last one; running: whether it goes on;
        # modelled: whether its model is known. final: the key of its last final answer.
        # tells: whether gptme has noted anywhere what it executed. open: the keys of calls that
        # wait, by id; None where several have it. waiting, results: the keys of the last message's
        # calls without one, and of what followed.
        self._at: dict[str, Any] = {
            "started": False,
            "loop": None,
            "running": False,
            "modelled": False,
            "final": None,
            "tells": False,
            "open": {},
            "waiting": [],
            "results": [],
        }
        if state is not None:
            self._at = json.loads(state)
        self._items = 0

    def state(self) -> bytes:
        """What it takes to go on."""
        return json.dumps(self._at).encode()

    def feed(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        if self._name is None and not self._at["started"]:
            return
        for message in read(lines):
            if not isinstance(message, Message):
                continue
            self._items = 0
            if self._name is not None and not self._at["started"]:
                self._at["started"] = True
                began = instant_ms(message.timestamp)
                yield SessionFact(self._name, message.line.number, created_at=began)
            if message.role == "assistant":
                yield from self._assistant(message)
            elif message.role == "user":
                yield from self._user(message)
            else:
                yield from self._system(message)

    def _open(self, message: Message) -> Iterator[Fact]:
        key = f"loop:{message.line.number}"
        self._at |= {"loop": key, "running": True, "modelled": False, "final": None}
        yield LoopStart(key, message.line.number)

    def _go_on(self) -> Iterator[Fact]:
        """The last answer was not the end."""
        at = self._at
        if at["loop"] is None or at["running"]:
            return
        at["running"] = True
        yield LoopEnd(at["loop"], None)
        if at["final"] is not None:
            yield Amend(at["final"], role="agent.commentary")
            at["final"] = None

    def _user(self, message: Message) -> Iterator[Fact]:
        members = {"has_images": message.has_images}
        yield from self._settle()
        if message.content.startswith(_OWN_WORDS):
            yield from self._go_on()
            yield self._item(message, "runtime.notice", message.content, members, heuristic=True)
            return
        steers = self._at["running"]
        if not steers:
            yield from self._open(message)
        role = "human.steering" if steers else "human.request"
        yield self._item(message, role, message.content, members, heuristic=True)

    def _assistant(self, message: Message) -> Iterator[Fact]:
        at = self._at
        yield from self._settle()
        if at["loop"] is None:
            yield from self._open(message)
        yield from self._go_on()
        loop = at["loop"]
        if message.executed is not None:
            at["tells"] = True
        if not at["modelled"] and message.model is not None:
            at["modelled"] = True
            yield LoopModel(loop, message.model, effort=message.effort)
        yield from self._usage(message, loop)
        uses = message.uses()
        executed = message.executed or frozenset()
        blocks = [
            block for block in message.blocks() or () if not at["tells"] or block.name in executed
        ]
        said = _before(message.content, uses, blocks)
        calls = bool(uses or blocks or executed)
        if said:
            goes_on = calls or message.outcome is not None
            role = "agent.commentary" if goes_on else "agent.final_answer"
            item = self._item(message, role, said, {"has_images": False}, heuristic=True)
            at["final"] = None if goes_on else item.key
            yield item
        for block in blocks:
            told: Any = {"args": block.words, "content": block.text}
            arguments = {"command": block.text} if block.name == "shell" else told
            item = self._call(message, block.name, arguments)
            at["waiting"].append(item.key)
            yield item
        for use in uses:
            item = self._call(message, use.name, use.arguments)
            at["open"][use.use_id] = None if use.use_id in at["open"] else item.key
            yield item
        if not calls:
            yield from self._end(message, message.outcome)

    def _call(self, message: Message, name: str, arguments: Any) -> Item:
        members = {"tool_name": name, "arguments": arguments}
        return self._item(message, "agent.tool_call", None, members)

    def _end(self, message: Message, outcome: str | None) -> Iterator[Fact]:
        yield from self._settle()
        self._at["running"] = False
        yield LoopEnd(self._at["loop"], message.line.number, outcome)

    def _usage(self, message: Message, loop: str) -> Iterator[Fact]:
        usage = message.usage
        if not usage:
            return
        whole = usage.get("input_tokens")
        read, written = usage.get("cache_read_tokens"), usage.get("cache_creation_tokens")
        if type(whole) is int:
            # gptme takes out of it what caches gave and got.
            whole += sum(part for part in (read, written) if type(part) is int)
        # One message is one response; it has no id of its own but its place.
        yield UsageSample(
            loop,
            f"{message.line.number}",
            input=whole,
            output=usage.get("output_tokens"),
            cached=read,
            cache_write=written,
            reasoning=usage.get("reasoning_tokens"),
        )

    def _settle(self) -> Iterator[Fact]:
        """Have results name their calls by order, if there are as many as calls."""
        at = self._at
        if len(at["waiting"]) == len(at["results"]):
            for call, result in zip(at["waiting"], at["results"], strict=True):
                yield Amend(result, call=call)
        at |= {"waiting": [], "results": []}

    def _system(self, message: Message) -> Iterator[Fact]:
        at, text = self._at, message.content
        if message.stops:
            yield self._item(message, "runtime.notice", text, {"has_images": False}, heuristic=True)
            if at["running"]:
                yield from self._end(message, message.outcome)
        elif message.call_id is not None:
            call = at["open"].pop(message.call_id, None)
            yield self._output(message, call, heuristic=False)
            yield from self._completed(message)
        elif message.is_hidden or message.is_late or not at["waiting"]:
            # What stands before the person has spoken tells the model who it is.
            first = at["loop"] is None
            role = "runtime.instructions" if first else "runtime.notice"
            members = {} if first else {"has_images": message.has_images}
            if text:
                yield self._item(message, role, text, members, heuristic=True)
        else:
            item = self._output(message, None, heuristic=True)
            at["results"].append(item.key)
            yield item
            yield from self._completed(message)

    def _completed(self, message: Message) -> Iterator[Fact]:
        if message.completes and self._at["running"]:
            yield from self._end(message, "completed")

    def _output(self, message: Message, call: str | None, *, heuristic: bool) -> Item:
        members = {"failed": True if message.failed else None}
        return self._item(
            message, "tool.output", message.content, members, call=call, heuristic=heuristic
        )

    def _item(
        self,
        message: Message,
        role: str,
        text: str | None,
        value: dict[str, Any],
        *,
        call: str | None = None,
        heuristic: bool = False,
    ) -> Item:
        key = f"{message.line.number}.{self._items}"
        self._items += 1
        loop = self._at["loop"] if self._at["running"] else None
        return Item(
            key,
            role,
            message.line.number,
            loop=loop,
            text=text or None,
            value=value,
            call=call,
            heuristic=heuristic,
        )


def _before(text: str, uses: list[Any], blocks: list[Any]) -> str:
    """What was said before the first call; all of it where nothing is called."""
    if uses:
        text = text[: uses[0].start]
    if blocks:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(lines[: blocks[0].start])
    return text.strip()
