"""Pi's sessions as traces: the session, its loops, and what was said, called and answered.

A loop begins with a message of the person and ends with an answer that stops, or without an
outcome where the person left its branch for another one: no entry goes on with it then. Pi tells
by its role alone whose a message is, so all that is human is heuristic. Source: spec "Trace
index", 8.2.
"""

from __future__ import annotations

import marshal
import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Amend,
    Item,
    Link,
    LoopEnd,
    LoopModel,
    LoopStart,
    Remembered,
    SessionFact,
    SourceOption,
    TraceReader,
    UsageSample,
    instant_ms,
    rendered,
)
from yarp_pi.records import Entry, Header, Message, header, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Fact, Line

# Of an answer's stop reasons, those that end a loop; `toolUse` does not.
OUTCOMES = {"stop": "completed", "aborted": "interrupted", "error": "failed", "length": "failed"}
# What extensions put into the conversation: role and category.
CUSTOM = {
    "skill-recall": ("runtime.instructions", "skill"),
    "pi-space-memory-recall": ("runtime.context", "memory"),
    "lark-auth-check": ("runtime.notice", None),
    "onboarding": ("runtime.notice", None),
    "todo-context": ("runtime.state", None),
    "subagent-notify": ("subagent.report", None),
    "subagent_control_notice": ("subagent.activity", None),
}
# Messages of other roles: role and category.
ROLES = {
    "system": ("runtime.instructions", None),
    "bashExecution": ("runtime.context", "internal"),
    "branchSummary": ("runtime.compaction_summary", None),
    "compactionSummary": ("runtime.compaction_summary", None),
}
_WITHOUT_IMAGES = ("runtime.instructions", "runtime.compaction_summary")
_UNKNOWN = ("runtime.unknown", None)
_SKILL = re.compile(r"\s*(<skill name=\"[^\"]*\"[^>]*>.*?</skill>)", re.DOTALL)


def reader() -> TraceReader:
    """The declaration."""
    return TraceReader(
        "pi",
        options=[
            SourceOption(
                "sessions", kind="directory", help="Pi's sessions.", default=".pi/agent/sessions"
            )
        ],
        detect=detect,
        project=project,
        version=2,
        shell_tools={"bash": "command"},
    )


def detect(head: object) -> bool:
    """Whether a source that begins with this line is a session of Pi."""
    if type(head) is not dict or type(head.get("id")) is not str:
        return False
    if head.get("type") == "session":
        return type(head.get("cwd")) is str
    return head.get("type") == "message" and type(head.get("message")) is dict


def project(_locator: str, state: bytes | None) -> Projection:
    """A projector for one session."""
    return Projection(state)


class Projection:
    """The projection of one session; all that it remembers is in `_at`."""

    def __init__(self, state: bytes | None) -> None:
        # session, line: the header's. loop: the last one; running: whether it goes on; left:
        # whether that was on another branch. modelled: whether its model is known. effort: as
        # last set. last: the line of the last message that has an id. calls: those that wait
        # for an answer, by id, with the keys of item and loop.
        self._at: dict[str, Any] = {
            "session": None,
            "line": 0,
            "loop": None,
            "running": False,
            "left": False,
            "modelled": False,
            "effort": None,
            "last": 0,
            "calls": {},
        }
        # Of each entry its first line, that of its loop, and whether that ended with it.
        self._entries = Remembered(3)
        if state is not None:
            self._at, entries = marshal.loads(state)  # noqa: S302 - the index's own
            self._entries = Remembered(3, entries)
        self._items = 0
        self._first = 0

    def state(self) -> bytes:
        """What it takes to go on."""
        return marshal.dumps((self._at, self._entries.stored()))

    def feed(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        for line in lines:
            if self._at["session"] is None:
                yield from self._header(line)
                continue
            entry = record(line)
            self._items, self._first = 0, line.number
            if not isinstance(entry, Entry):
                continue
            known = self._entries.get(entry.id or "")
            if known is None:
                yield from self._leave(entry)
            if isinstance(entry, Message):
                yield from self._message(entry, known)
            elif known is None:
                yield from self._entry(entry)
            else:
                yield Amend(f"{known[0]}.0", line=line.number)
            if known is None and entry.id:
                if self._entries.get(entry.id) is None:
                    self._entries[entry.id] = (line.number, 0, False)
                if isinstance(entry, Message):
                    self._at["last"] = line.number

    def _leave(self, entry: Entry) -> Iterator[Fact]:
        """End the loop at hand, as far as one knows, where an entry is on another branch than it.

        That is one which goes on from an entry before the last message, or from none at all.
        """
        at, parent = self._at, entry.parent_id
        if parent is None:
            before = 0 if entry.is_root else None
        else:
            known = self._entries.get(parent)
            before = None if known is None else known[0]
        if at["loop"] is None or before is None or before >= at["last"]:
            return
        if at["running"]:
            yield LoopEnd(at["loop"], entry.line.number)
        at |= {"running": False, "left": True}

    def _header(self, line: Line) -> Iterator[Fact]:
        head = header(line)
        if not isinstance(head, Header) or head.id is None:
            return
        self._at |= {"session": head.id, "line": line.number}
        parent = head.parent_session
        yield SessionFact(
            head.id,
            line.number,
            created_at=instant_ms(head.timestamp),
            working_directory=head.cwd,
            forked_from=None if parent is None else Link(line.number, locator=parent),
        )

    def _entry(self, entry: Entry) -> Iterator[Fact]:
        value = entry.value
        if entry.kind == "session_info" and _text(value, "name"):
            yield SessionFact(self._at["session"], self._at["line"], name=value["name"])
        elif entry.kind == "thinking_level_change":
            self._at["effort"] = _text(value, "thinkingLevel")
        elif entry.kind in ("compaction", "branch_summary"):
            summary = _text(value, "summary")
            yield self._item(entry, "runtime.compaction_summary", summary, {})
        elif entry.kind == "custom_message":
            yield from self._custom(entry, value)

    def _custom(self, entry: Entry, value: dict[str, Any]) -> Iterator[Fact]:
        role, category = CUSTOM.get(_text(value, "customType") or "", _UNKNOWN)
        text, has_images = _content(value.get("content"))
        if not text and not has_images:
            return
        members: dict[str, Any] = {} if role in _WITHOUT_IMAGES else {"has_images": has_images}
        if category is not None:
            members["category"] = category
        yield self._item(entry, role, text, members)

    def _message(self, message: Message, known: tuple[int, ...] | None) -> Iterator[Fact]:
        if known is not None:
            self._first = known[0]
        if known is not None and message.role != "assistant":
            for number in range(2):
                yield Amend(f"{self._first}.{number}", line=message.line.number)
        elif message.role == "user":
            yield from self._user(message)
        elif message.role == "assistant":
            yield from self._assistant(message)
        elif message.role == "toolResult":
            yield from self._result(message)
        elif message.role in ("custom", "hookMessage"):
            yield from self._custom(message, message.message)
        else:
            yield from self._other(message)

    def _other(self, message: Message) -> Iterator[Fact]:
        """What is neither said nor answered: a system prompt, a command of the person's own."""
        role, category = ROLES.get(message.role, _UNKNOWN)
        text, has_images = _words(message.message)
        if not text and not has_images:
            return
        members: dict[str, Any] = {} if role in _WITHOUT_IMAGES else {"has_images": has_images}
        if category is not None:
            members["category"] = category
        yield self._item(message, role, text, members)

    def _user(self, message: Message) -> Iterator[Fact]:
        steers = self._at["running"]
        if not steers:
            yield from self._open(message)
        text, has_images = _content(message.message.get("content"))
        skill = _SKILL.match(text or "")
        if text is not None and skill is not None:
            members = {"category": "skill"}
            yield self._item(message, "runtime.instructions", skill[1], members, heuristic=True)
            text = text[skill.end() :].strip()
        role = "human.steering" if steers else "human.request"
        yield self._item(message, role, text or None, {"has_images": has_images}, heuristic=True)

    def _open(self, message: Message) -> Iterator[Fact]:
        key = f"loop:{message.line.number}"
        self._at |= {"loop": key, "running": True, "left": False, "modelled": False}
        yield LoopStart(key, message.line.number)

    def _assistant(self, message: Message) -> Iterator[Fact]:
        known = self._entries.get(message.id or "")
        # An entry that is written once more belongs where it was, and ends nothing anew.
        ended = known is not None and bool(known[2])
        if known is None or not known[1]:
            if self._at["loop"] is None or self._at["left"]:
                yield from self._open(message)
            elif not self._at["running"]:
                # It was tried again: what looked like the end was none.
                self._at["running"] = True
                yield LoopEnd(self._at["loop"], None)
            known = (message.line.number, int(self._at["loop"].removeprefix("loop:")), 0)
        loop = f"loop:{known[1]}"
        late = loop != self._at["loop"]
        if not late and not self._at["modelled"] and message.model is not None:
            self._at["modelled"] = True
            effort = _text(message.message, "thinkingLevel") or self._at["effort"]
            yield LoopModel(loop, message.model, effort=effort)
        yield from self._usage(message, loop)
        blocks = message.blocks
        for block in blocks:
            if block.kind == "thinking":
                text = _text(block.value, "thinking")
                shown = "full" if text else "unavailable"
                members: dict[str, Any] = {"representation": shown}
                yield self._item(message, "agent.reasoning", text or None, members, loop=loop)
        said = message.text or "\n".join(
            one.text for one in blocks if one.kind == "text" and one.text
        )
        if said:
            ends = message.stop_reason == "stop"
            role = "agent.final_answer" if ends else "agent.commentary"
            yield self._item(message, role, said, {"has_images": False}, loop=loop)
        for block in blocks:
            use = block.use
            if use is not None:
                members = {"tool_name": use.name, "arguments": use.input}
                call = self._item(message, "agent.tool_call", None, members, loop=loop)
                self._at["calls"][use.use_id] = [call.key, loop]
                yield call
        outcome = OUTCOMES.get(message.stop_reason or "")
        if message.id:
            self._entries[message.id] = (*known[:2], ended or outcome is not None)
        if outcome is not None and not late and not ended:
            self._at["running"] = False
            yield LoopEnd(loop, message.line.number, outcome)

    def _usage(self, message: Message, loop: str) -> Iterator[Fact]:
        usage = message.usage
        if not usage:
            return
        read, written = usage.get("cacheRead"), usage.get("cacheWrite")
        yield UsageSample(
            loop,
            message.id or None,
            input=_sum(usage.get("input"), read, written),
            output=usage.get("output"),
            cached=read,
            cache_write=written,
            reasoning=usage.get("reasoning"),
        )

    def _result(self, message: Message) -> Iterator[Fact]:
        result = message.result
        if result is None:
            return
        call, loop = self._at["calls"].pop(result.use_id, (None, self._running()))
        text, _ = _content(result.content)
        details = result.details if type(result.details) is dict else {}
        truncation = details.get("truncation")
        members = {
            "failed": result.is_error,
            "duration_ms": _count(result.duration_ms),
            "runtime_truncated": _flag(truncation, "truncated"),
        }
        yield self._item(message, "tool.output", text, members, loop=loop, call=call)

    def _running(self) -> str | None:
        loop: str | None = self._at["loop"] if self._at["running"] else None
        return loop

    def _item(
        self,
        entry: Entry,
        role: str,
        text: str | None,
        value: dict[str, Any],
        *,
        loop: str | None = None,
        call: str | None = None,
        heuristic: bool = False,
    ) -> Item:
        key = f"{self._first}.{self._items}"
        self._items += 1
        return Item(
            key,
            role,
            entry.line.number,
            loop=loop or self._running(),
            text=text,
            value=value,
            call=call,
            heuristic=heuristic,
        )


def _text(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if type(found) is str else None


def _count(value: object) -> int | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < 2**63 else None


def _flag(value: object, key: str) -> bool | None:
    found = value.get(key) if type(value) is dict else None
    return found if type(found) is bool else None


def _sum(whole: object, *parts: object) -> object:
    """All model input; what is no count stays as it is, so that the core drops the sample."""
    if type(whole) is not int:
        return whole
    return whole + sum(part for part in parts if type(part) is int)


def _content(content: object) -> tuple[str | None, bool]:
    """The text of a message, None without one, and whether it shows images."""
    if type(content) is str:
        return content or None, False
    if type(content) is not list:
        return None, False
    blocks = [block for block in content if type(block) is dict]
    text, _ = rendered([block for block in blocks if block.get("type") == "text"])
    return text or None, any(block.get("type") == "image" for block in blocks)


def _words(message: dict[str, Any]) -> tuple[str | None, bool]:
    """All that a message of another role says, in whichever of its fields."""
    text, has_images = _content(message.get("content"))
    sections = message.get("sections")
    if text is None and type(sections) is dict:
        text = "\n".join(part for part in sections.values() if type(part) is str) or None
    if text is None:
        words = (_text(message, key) for key in ("command", "output", "summary"))
        text = "\n".join(word for word in words if word) or None
    return text, has_images
