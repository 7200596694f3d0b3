"""Claude Code's transcripts as traces: the session, its loops, and what was said and called.

A loop begins with a prompt while none runs, and ends with an answer whose `stop_reason` says so;
Claude Code never states an outcome, but for an interruption. Forks rewrite `promptId` to one for
all that they copy and for their own first prompt, so that a person's prompt behind an end begins a
loop whatever its id; where newer builds number the turns, one of another turn does too, and ends
the loop that ran. Source: spec "Trace index", 8.3 and 8.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Amend,
    LoopModel,
    SourceOption,
    TraceReader,
    UsageSample,
)
from yarp_claude.injected import (
    INJECTED,
    INTERRUPTED,
    INTERRUPTIONS,
    attached,
    count,
    words_of,
)
from yarp_claude.prompts import Prompts, call_key, text_in
from yarp_claude.records import Attachment, Message, Other, System, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Fact, Line
    from yarp_claude.records import Block, Record

DELEGATIONS = frozenset({"Agent", "Task"})
ENDS = frozenset({"end_turn", "stop_sequence"})
# First records that name no session, and what each has to have: the session comes later.
OPENERS = {
    "started": "agentId",
    "result": "agentId",
    "file-history-snapshot": "messageId",
    "summary": "leafUuid",
}
SYNTHETIC = "<synthetic>"


def reader() -> TraceReader:
    """The declaration."""
    return TraceReader(
        "claude",
        options=[
            SourceOption(
                "projects",
                kind="directory",
                help="Claude Code's transcripts.",
                default=".claude/projects",
            )
        ],
        detect=detect,
        project=project,
        version=2,
        shell_tools={"Bash": "command"},
        other_shells={"PowerShell": "command"},
        injected=INJECTED,
    )


def detect(head: object) -> bool:
    """Whether a source that begins with this line is a transcript of Claude Code."""
    if type(head) is not dict:
        return False
    if type(head.get("sessionId")) is str:
        return True
    kind = head.get("type")
    named = OPENERS.get(kind) if type(kind) is str else None
    return named is not None and type(head.get(named)) is str


def project(_locator: str, state: bytes | None) -> Projection:
    """A projector for one transcript."""
    return Projection(state)


class Response:
    """A response of the model: its loop, the key of its final answer, and whether it ended."""

    __slots__ = ("ended", "final", "loop")

    def __init__(self, loop: str, final: str | None, *, ended: bool) -> None:
        self.loop = loop
        self.final = final
        self.ended = ended

    def numbers(self) -> tuple[int, int, int, int]:
        """It as numbers, to be remembered."""
        line, number = (self.final or "0.0").split(".")
        return int(self.loop.removeprefix("loop:")), int(line), int(number), self.ended


class Projection(Prompts):
    """The projection of one transcript."""

    _response: Response

    def feed(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        for line in lines:
            self._items = 0
            found = record(line)
            yield from self._session(found)
            if self._at["session"] is None:
                continue
            before = self._again(found)
            if before is not None:
                yield from self._copied(found, before)
            elif isinstance(found, Message):
                if found.kind == "assistant":
                    yield from self._assistant(found)
                else:
                    yield from self._user(found)
            elif isinstance(found, Attachment):
                yield from self._attachment(found)
            elif isinstance(found, System):
                yield from self._system(found)
            elif isinstance(found, Other) and found.kind in ("started", "result"):
                yield from self._enter(found)

    def _copied(self, found: Record, before: int) -> Iterator[Fact]:
        """History that was written once more: a further witness, and nothing else."""
        blocks = found.blocks if isinstance(found, Message) else []
        keys = [call_key(block.use.use_id) for block in blocks if block.use is not None]
        keys += [f"{before}.{number}" for number in range(len(blocks) + 2)]
        for key in keys:
            yield Amend(key, line=found.line.number)

    # What the model said

    def _meet(self, message: Message) -> Iterator[Fact]:
        """Have the response of a record known: its loop, its final answer, whether it ended.

        All records of a response belong to the loop of the first, however late they come; a new
        one behind an end opens a loop, unless Claude Code made it up.
        """
        at, named = self._at, message.message_id
        known = None if named is None else self._responses.get(named)
        if known is not None:
            loop, line, number, ended = known
            final = f"{line}.{number}" if line else None
            self._response = Response(f"loop:{loop}", final, ended=bool(ended))
            return
        if at["loop"] is None or not (at["running"] or message.model == SYNTHETIC):
            yield from self._open(message)
        self._response = Response(at["loop"], None, ended=False)

    def _assistant(self, message: Message) -> Iterator[Fact]:
        at = self._at
        yield from self._meet(message)
        response = self._response
        loop = response.loop
        late = loop != at["loop"]
        if not late:
            at["answered"] = True
        if message.model not in (None, SYNTHETIC):
            if not late and not at["modelled"]:
                at["modelled"] = True
                yield LoopModel(loop, message.model, effort=text_in(message.value, "effort"))
            yield from self._usage(message, loop)
        blocks = message.blocks
        said = [block for block in blocks if block.kind == "text" and block.text]
        if message.text:
            yield from self._said(message, message.text, final=message.stop_reason == "end_turn")
        for block in blocks:
            if block.kind in ("thinking", "redacted_thinking"):
                text = text_in(block.value, "thinking") or None
                shown = "full" if text else "unavailable"
                yield self._item(message, "agent.reasoning", text, {"representation": shown}, loop)
            elif block.kind == "text" and block.text:
                final = message.stop_reason == "end_turn" and block is said[-1]
                yield from self._said(message, block.text, final=final)
            elif block.use is not None:
                yield from self._call(message, block, loop)
            elif block.is_result:
                yield from self._result(message, block, loop)
        if message.stop_reason in ENDS:
            # Behind a hook that sent the model on, an ending of before is none again.
            if not late and not (response.ended and at["running"]):
                yield from self._end(message)
            response.ended = True
        if message.message_id is not None:
            self._responses[message.message_id] = response.numbers()

    def _said(self, message: Message, text: str, *, final: bool) -> Iterator[Fact]:
        at, role = self._at, "agent.commentary"
        response = self._response
        if message.is_api_error:
            role = "runtime.notice"
        elif final:
            role = "agent.final_answer"
            if response.final is not None:
                yield Amend(response.final, role="agent.commentary")
        item = self._item(message, role, text, {"has_images": False}, response.loop)
        if role == "agent.final_answer":
            response.final = item.key
            if response.loop == at["loop"]:
                at["final"] = item.key
        yield item

    def _usage(self, message: Message, loop: str) -> Iterator[Fact]:
        usage = message.usage
        if not usage:
            return
        read = usage.get("cache_read_input_tokens")
        written = usage.get("cache_creation_input_tokens")
        details = usage.get("output_tokens_details")
        whole = usage.get("input_tokens")
        if type(whole) is int:
            whole += sum(part for part in (read, written) if type(part) is int)
        yield UsageSample(
            loop,
            message.message_id,
            input=whole,
            output=usage.get("output_tokens"),
            cached=read,
            cache_write=written,
            reasoning=details.get("thinking_tokens") if type(details) is dict else None,
        )

    def _call(self, message: Message, block: Block, loop: str) -> Iterator[Fact]:
        use = block.use
        assert use is not None  # noqa: S101 - asked by who calls
        key = call_key(use.use_id)
        self._at["open"][use.use_id] = loop
        if use.name == "Skill":
            self._at["skills"].append(use.use_id)
        if use.name in DELEGATIONS:
            prompt = text_in(use.input, "prompt") if type(use.input) is dict else None
            members: dict[str, Any] = {"has_images": False}
            yield self._item(message, "agent.delegation", prompt or None, members, loop, key=key)
        else:
            members = {"tool_name": use.name, "arguments": use.input}
            yield self._item(message, "agent.tool_call", None, members, loop, key=key)

    # What came back

    def _result(
        self, message: Message, block: Block, loop: str | None, *, late: bool = False
    ) -> Iterator[Fact]:
        """An answer to a call; one that comes `late`, in another loop, belongs to the call's."""
        result = block.result
        if result is None:
            return
        at, key = self._at, call_key(result.use_id)
        called = at["open"].pop(result.use_id, None)
        if late:
            loop = called or at["prompts"].get(message.prompt_id or "") or loop
        details: dict[str, Any] = message.details if type(message.details) is dict else {}
        agent, task = text_in(details, "agentId"), text_in(details, "backgroundTaskId")
        if agent is not None:
            at["agents"][agent] = key
            yield Amend(key, session=agent)
        if task is not None:
            at["tasks"][task] = key
        text = words_of(result.content)[0]
        code = details.get("code")
        said = block.value.get("is_error")
        duration = count(details.get("totalDurationMs"))
        truncated = details.get("truncated")
        members = {
            "failed": code >= 400 if type(code) is int else said if type(said) is bool else None,
            "duration_ms": count(details.get("durationMs")) if duration is None else duration,
            "runtime_output_tokens": count(details.get("totalTokens")),
            "runtime_truncated": truncated if type(truncated) is bool else None,
        }
        yield self._item(message, "tool.output", text, members, loop, call=key)

    def _user(self, message: Message) -> Iterator[Fact]:
        results = [block for block in message.blocks if block.is_result]
        ran = self._at["running"]
        if results:
            yield from self._enter(message)
        for block in results:
            yield from self._result(message, block, self._at["loop"], late=ran)
        text, has_images = words_of(message.message["content"])
        broken_off = message.interrupted_message_id is not None or (
            # While a tool runs, Claude Code names no message; nobody's own words have no source.
            text in INTERRUPTIONS and message.prompt_source is None and message.origin_kind is None
        )
        known = self._responses.get(message.interrupted_message_id or "")
        if broken_off and (
            self._at["running"] or (known is not None and f"loop:{known[0]}" == self._at["loop"])
        ):
            yield from self._interrupted(message, text, has_images=has_images)
        elif text is not None or has_images:
            yield from self._prompt(message, text, has_images=has_images)

    def _interrupted(
        self, message: Message, text: str | None, *, has_images: bool
    ) -> Iterator[Fact]:
        loop = self._at["loop"]
        noted = text is not None and text.startswith(INTERRUPTED)
        if noted:
            by_words = message.interrupted_message_id is None
            value = {"has_images": False}
            yield self._item(message, "runtime.notice", text, value, loop, heuristic=by_words)
        yield from self._end(message, "interrupted")
        if not noted and (text is not None or has_images):
            yield from self._prompt(message, text, has_images=has_images)

    # What Claude Code added

    def _attachment(self, found: Attachment) -> Iterator[Fact]:
        value, kind = found.attachment, found.attachment_kind
        if kind == "queued_command":
            yield from self._queued(found, value)
            return
        if kind == "goal_status" and value.get("met") is False:
            yield from self._revoke()
        role, category, text, has_images = attached(kind or "", value)
        if text is None and not has_images:
            return
        members: dict[str, Any] = (
            {} if role == "runtime.instructions" else {"has_images": has_images}
        )
        if category is not None:
            members["category"] = category
        yield self._item(found, role, text, members)

    def _queued(self, found: Attachment, value: dict[str, Any]) -> Iterator[Fact]:
        text, has_images = words_of(value.get("prompt"))
        if text is None and not has_images:
            return
        origin = value.get("origin")
        kind = text_in(origin, "kind") if type(origin) is dict else None
        if (text or "").lstrip().startswith("<task-notification>") and kind != "human":
            yield from self._enter(found)
            yield from self._notification(found, text or "")
            return
        members: dict[str, Any] = {"has_images": has_images}
        if kind == "human" or (kind is None and value.get("commandMode", "prompt") == "prompt"):
            steers = self._at["running"] and self._at["answered"]
            if not self._at["running"]:
                yield from self._open(found)
            role = "human.steering" if steers else "human.request"
            yield self._item(found, role, text, members, heuristic=kind is None)
            return
        yield from self._enter(found)
        yield self._item(found, "runtime.context", text, members | {"category": "internal"})

    def _system(self, found: System) -> Iterator[Fact]:
        if found.subtype == "turn_duration":
            if self._at["loop"] is not None:
                yield from self._end(found)
            return
        text, has_images = words_of(found.value.get("content"))
        if text is not None:
            yield self._item(found, "runtime.notice", text, {"has_images": has_images})
