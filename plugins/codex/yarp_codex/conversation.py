"""Who said what in a rollout, and in which loop.

What a person wrote stands twice in a rollout: in what the model was given, where it cannot be told
from what Codex puts there itself, and in an event that proves it. So a message to the model is
what Codex put there until such an event comes. Source: spec "Trace index", 8.1.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from attrs import frozen

from yarp.plugin import Amend, Item, LoopEnd, LoopStart, classify_injected
from yarp_codex.injected import INJECTED, of_kind
from yarp_codex.native import Record, has_images, string, texts
from yarp_codex.records import Message, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugin import Fact

# Messages between agents whose threads are not known yet.
MOST_UNLINKED = 64
# Messages that wait for their second witness; and how much of each is kept to know it again.
MOST_WAITING = 16
_KEPT_CHARACTERS = 600
_LEAST_CONTAINED = 8
_IMAGE_TAG = re.compile(r"\s*<(?:image\b[^<>]*|/image)>\s*")
_NOTIFICATION = re.compile(
    r"\s*<subagent_notification>\s*(\{.*\})\s*(?:</subagent_notification>\s*)?\Z", re.DOTALL
)


class Conversation:
    """What is remembered of a rollout, in `_at`, and what it says of its messages."""

    def __init__(self, state: bytes | None) -> None:
        # thread, line: the session's. guardian: whether Codex itself asks in it. helps: whether
        # another agent does. own_from: the ordinal
        # of its first own record. copied: whether what comes may be its parent's history.
        # loop: the last one, with turn: its id; ended, asked, spoken, settled: whether it has
        # ended, a person asked in it, the agent spoke, and the agent spoke last.
        # waiting: messages without their second witness. unphased: the last answer that may be
        # the final one. calls: those without an output, with name, loop, and what is told.
        # path: that of this thread's agent. agents: the threads of agents, by their paths.
        # unlinked: messages between agents, with the path whose thread they shall link to.
        self._at: dict[str, Any] = {
            "thread": None,
            "line": 0,
            "guardian": False,
            "helps": False,
            "own_from": None,
            "copied": False,
            "loop": None,
            "turn": None,
            "ended": True,
            "asked": False,
            "spoken": False,
            "settled": False,
            "waiting": [],
            "unphased": None,
            "calls": {},
            "path": None,
            "agents": {},
            "unlinked": [],
        }
        if state is not None:
            self._at = json.loads(state)

    def state(self) -> bytes:
        """What it takes to go on."""
        return json.dumps(self._at).encode()

    def begin(self, line: int, turn_id: str | None) -> Iterator[Fact]:
        """A new loop begins at this line; the one before it is over by now."""
        yield from self.settle()
        if self._at["loop"] is not None and not self._at["ended"]:
            yield LoopEnd(self._at["loop"], line)
        key = f"turn:{turn_id}" if turn_id else f"loop:{line}"
        self._at |= {"loop": key, "turn": turn_id, "ended": False, "asked": False}
        self._at |= {"spoken": False, "settled": False}
        yield LoopStart(key, line, native_id=turn_id)

    def join(self, line: int, turn_id: str | None) -> Iterator[Fact]:
        """The loop of this turn: the one at hand if it may be that, else a new one."""
        at = self._at
        if at["loop"] is None or at["ended"]:
            if turn_id is None or turn_id != at["turn"]:
                yield from self.begin(line, turn_id)
        elif turn_id is not None and at["turn"] is None and not at["spoken"]:
            # A person's message came before the turn that it began.
            at["turn"] = turn_id
            yield LoopStart(at["loop"], line, native_id=turn_id)
        elif turn_id is not None and turn_id != at["turn"]:
            yield from self.begin(line, turn_id)

    def settle(self) -> Iterator[Fact]:
        """What was said last before a loop was left is its answer, if nothing says otherwise."""
        if self._at["unphased"] is not None and self._at["settled"]:
            yield Amend(self._at["unphased"][0], role="agent.final_answer", heuristic=True)
        self._at["unphased"] = None
        self._at["waiting"] = [one for one in self._at["waiting"] if one["side"] == "model"]

    def message(self, record: Message) -> Iterator[Fact]:
        """A message to the model, or of it."""
        text = "\n".join(_without_tags(record))
        if record.role == "assistant":
            yield from self.agent(record)
        elif record.role == "user":
            yield from self._user_input(record, text)
        elif record.role in ("developer", "system"):
            parts = zip(record.texts, record.kinds, strict=True)
            for index, (part, kind) in enumerate(parts):
                found = _placed(part, kind, ("runtime.instructions", "project"))
                yield self._put(record, index, found, part, has_images=record.has_images)
            if record.has_images and not record.texts:
                found = Placed("runtime.context", None, marked=False)
                yield self._put(record, 0, found, "", has_images=True)

    def _user_input(self, record: Message, text: str) -> Iterator[Fact]:
        """What the model got as the user's: a person's words if an event says so, else ours."""
        known = self._known("shown", text)
        if known is not None:
            seen = {"has_images": True} if record.has_images else None
            yield Amend(known["key"], line=record.line.number, primary=True, value=seen)
            return
        if not text and not record.has_images:
            return
        parts = list(zip(record.texts, record.kinds, strict=True))
        found = [_placed(part, kind, ("runtime.unknown", None)) for part, kind in parts]
        if len(found) > 1 and not record.has_images and all(one.marked for one in found):
            for index, ((part, _), one) in enumerate(zip(parts, found, strict=True)):
                yield self._put(record, index, one, part)
            return
        # Images alone are what the table has for the tags around them.
        words = "runtime.unknown" if text else "runtime.context"
        whole = _placed(text, record.kinds[0] if len(parts) == 1 else None, (words, None))
        if whole.role == "runtime.unknown" and self._at["guardian"]:
            whole = Placed("runtime.context", "internal", marked=False)
        yield self._put(record, 0, whole, text, has_images=record.has_images)
        self._wait(f"{record.line.number}.0", "model", text, record)

    def person(self, record: Shown) -> Iterator[Fact]:
        """A message that a person wrote, or in a helper's thread its parent."""
        text, line = record.text, record.line.number
        known = self._known("model", text)
        begins = known["line"] if known else line
        at = self._at
        if at["loop"] is None or at["ended"] or (at["turn"] is None and at["settled"]):
            yield from self.begin(begins, None)
        role = "human.request"
        if at["helps"]:
            role = "agent.delegation"
        elif at["asked"] or at["spoken"]:
            role = "human.steering"
        at |= {"asked": True, "settled": False}
        value = {"has_images": record.has_images or bool(known and known["images"])}
        if known is not None:
            yield Amend(
                known["key"], line=line, role=role, value=value, loop=at["loop"], heuristic=False
            )
            return
        yield Item(f"{line}.0", role, line, loop=at["loop"], text=text or None, value=value)
        self._wait(f"{line}.0", "shown", text, record)

    def agent(self, record: Message | Shown) -> Iterator[Fact]:
        """A message of the agent's, given or shown."""
        text = "\n".join(record.texts) if isinstance(record, Message) else record.text
        line, at = record.line.number, self._at
        if not text and not record.has_images:
            return
        given = isinstance(record, Message)
        role = {None: None, "final_answer": "agent.final_answer"}.get(
            record.phase, "agent.commentary"
        )
        known = self._known("agent shown" if given else "agent", text, whole=True)
        if known is not None:
            yield Amend(
                known["key"],
                line=line,
                primary=given,
                role=role,
                value={"has_images": True} if record.has_images else None,
                heuristic=None if role is None else False,
            )
            if role is not None and at["unphased"] and at["unphased"][0] == known["key"]:
                at["unphased"] = None
            return
        if at["loop"] is None:
            yield from self.begin(line, None)
        key = f"{line}.0"
        at |= {"spoken": True, "settled": True}
        at["unphased"] = [key, digest(text)] if role is None else None
        yield Item(
            key,
            role or "agent.commentary",
            line,
            loop=at["loop"],
            text=text or None,
            value={"has_images": record.has_images},
            heuristic=role is None,
        )
        self._wait(key, "agent" if given else "agent shown", text, record)

    def reasoning(self, record: Record) -> Iterator[Fact]:
        """What is shown of the model's reasoning."""
        text = "\n".join(texts(record.payload.get("summary"))) or None
        shown = "summary" if text else "unavailable"
        yield self.item(record, "agent.reasoning", text, {"representation": shown})

    def between_agents(self, record: Record) -> Iterator[Fact]:
        """A message of one agent to another."""
        payload = record.payload
        text = "\n".join(texts(payload.get("content"))) or string(payload.get("message"))
        author, recipient = string(payload.get("author")), string(payload.get("recipient"))
        if text is None:
            return
        role, other = "subagent.activity", author if author != self._at["path"] else recipient
        if author and recipient and recipient.startswith(author.rstrip("/") + "/"):
            role, other = "agent.delegation", recipient
        elif text.startswith("Message Type: FINAL_ANSWER"):
            role, other = "subagent.report", author
        by_words = role == "subagent.report"
        value = {"has_images": has_images(payload.get("content"))}
        item = self.item(record, role, text, value, heuristic=by_words)
        yield self._linked(item, other)

    def learn(self, path: str | None, thread: str | None) -> Iterator[Fact]:
        """The thread of the agent with that path; what was said to or by it links to it."""
        at = self._at
        if path is None or thread is None or at["agents"].get(path) == thread:
            return
        at["agents"][path] = thread
        for other, key in at["unlinked"]:
            if other == path:
                yield Amend(key, session=thread)
        at["unlinked"] = [one for one in at["unlinked"] if one[0] != path]

    def _linked(self, item: Item, other: str | None) -> Item:
        """The item with its link to the agent of that path: now, or when its thread is known."""
        if other is not None and other != self._at["path"]:
            # Older builds name an agent by its thread's id.
            item.session = self._at["agents"].get(other, None if "/" in other else other)
            if item.session is None:
                self._at["unlinked"] = [*self._at["unlinked"], [other, item.key]][-MOST_UNLINKED:]
        return item

    def compaction(self, record: Record) -> Iterator[Fact]:
        """What was put in place of the history before it."""
        text = string(record.payload.get("summary")) or string(record.payload.get("message"))
        if text is not None:
            yield self.item(record, "runtime.compaction_summary", text, {})

    def running(self) -> str | None:
        """The key of the last loop."""
        loop: str | None = self._at["loop"]
        return loop

    def item(
        self,
        record: Record,
        role: str,
        text: str | None,
        value: dict[str, Any],
        *,
        key: str | None = None,
        session: str | None = None,
        heuristic: bool = False,
    ) -> Item:
        """An item of this record, in the loop at hand."""
        line = record.line.number
        return Item(
            key or f"{line}.0",
            role,
            line,
            loop=self.running(),
            text=text,
            value=value,
            session=session,
            heuristic=heuristic,
        )

    def _put(
        self, record: Message, index: int, found: Placed, text: str, *, has_images: bool = False
    ) -> Item:
        """A text that Codex put before the model."""
        value: dict[str, Any] = {}
        if found.role in ("runtime.instructions", "runtime.context"):
            value["category"] = found.category
        if found.role != "runtime.instructions":
            value["has_images"] = has_images
        line, loop = record.line.number, None if self._at["ended"] else self.running()
        item = Item(
            f"{line}.{index}",
            found.role,
            line,
            loop=loop,
            text=text or None,
            value=value,
            heuristic=not found.structural,
        )
        return self._linked(item, _notifier(text)) if found.role == "subagent.report" else item

    def _wait(self, key: str, side: str, text: str, record: Message | Shown) -> None:
        """Keep what is needed to know this message again when its other witness comes."""
        kept = {"key": key, "side": side, "line": record.line.number, "digest": digest(text)}
        kept["images"] = record.has_images
        kept["text"] = text.strip() if len(text) <= _KEPT_CHARACTERS else None
        self._at["waiting"] = [*self._at["waiting"], kept][-MOST_WAITING:]

    def _known(self, side: str, text: str, *, whole: bool = False) -> dict[str, Any] | None:
        """The latest waiting message of that side with this text, or that holds it."""
        same, bare = digest(text), text.strip()
        for kept in reversed(self._at["waiting"]):
            if kept["side"] != side:
                continue
            if kept["digest"] == same or (not whole and _holds(kept["text"], bare)):
                self._at["waiting"].remove(kept)
                found: dict[str, Any] = kept
                return found
        return None


@frozen
class Placed:
    """What a text is that Codex put before the model.

    `marked`: whether its words or its kind say so; `structural`: whether its kind does.
    """

    role: str
    category: str | None
    marked: bool
    structural: bool = False


def _placed(text: str, kind: str | None, otherwise: tuple[str, str | None]) -> Placed:
    """What a text is by its kind, else by its words, else `otherwise`."""
    told = of_kind(kind)
    if told is not None:
        return Placed(*told, marked=True, structural=True)
    found = classify_injected(text, INJECTED)
    if found is None or (found.role == "runtime.unknown" and otherwise[0] != found.role):
        return Placed(*otherwise, marked=False)
    return Placed(found.role, found.category, marked=True)


def _without_tags(record: Message) -> list[str]:
    """The texts of a message, without the tags that Codex puts around its images."""
    return [text for text in record.texts if not (record.has_images and _IMAGE_TAG.fullmatch(text))]


def _notifier(text: str) -> str | None:
    """The agent that a `<subagent_notification>` names: by its path, or by its thread's id."""
    found = _NOTIFICATION.match(text)
    try:
        told = json.loads(found[1]) if found else None
    except (ValueError, RecursionError):
        return None
    names = ("agent_path", "agent_id")
    named = [string(told.get(name)) for name in names] if isinstance(told, dict) else []
    return next((name for name in named if name), None)


def _holds(kept: str | None, text: str) -> bool:
    """Whether one of two texts holds the other one, which must say something."""
    if kept is None or min(len(kept.encode()), len(text.encode())) < _LEAST_CONTAINED:
        return False
    return kept in text or text in kept


def digest(text: str) -> str:
    """What a text is known again by."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:32]
