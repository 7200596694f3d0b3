"""Who said what in a rollout, and in which loop.

What a person wrote stands twice in a rollout: in what the model was given, where it cannot be told
from what Codex puts there itself, and in an event that proves it. So a message to the model is
what Codex put there until such an event comes. Source: spec "Trace index", 8.1.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from yarp.plugin import Amend, Item, LoopEnd, LoopStart, classify_injected
from yarp_codex.injected import INJECTED
from yarp_codex.native import Record, string, texts
from yarp_codex.records import Message, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugin import Fact

# Messages that wait for their second witness; and how much of each is kept to know it again.
MOST_WAITING = 16
_KEPT_CHARACTERS = 600
_LEAST_CONTAINED = 8


class Conversation:
    """What is remembered of a rollout, in `_at`, and what it says of its messages."""

    def __init__(self, state: bytes | None) -> None:
        # thread: the session's. guardian: whether Codex itself asks in it. helps: whether
        # another agent does. own_from: the ordinal
        # of its first own record. copied: whether what comes may be its parent's history.
        # loop: the last one, with turn: its id; ended, asked, spoken, settled: whether it has
        # ended, a person asked in it, the agent spoke, and the agent spoke last.
        # waiting: messages without their second witness. unphased: the last answer that may be
        # the final one. calls: those without an output, with name, loop, and what is told.
        self._at: dict[str, Any] = {
            "thread": None,
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
        text = "\n".join(record.texts)
        if record.role == "assistant":
            if text:
                yield from self.agent(record)
        elif record.role == "user":
            yield from self._user_input(record, text)
        elif record.role in ("developer", "system"):
            for index, part in enumerate(record.texts):
                role, category, _ = self._injected(part, "runtime.instructions", "project")
                yield self._put(record, index, role, category, part, has_images=False)

    def _user_input(self, record: Message, text: str) -> Iterator[Fact]:
        """What the model got as the user's: a person's words if an event says so, else ours."""
        known = self._known("shown", text)
        if known is not None:
            yield Amend(known["key"], line=record.line.number, primary=True)
            return
        if not text and not record.has_images:
            return
        found = [self._injected(part, "runtime.unknown", None) for part in record.texts]
        if len(found) > 1 and all(marked for *_, marked in found):
            for index, (part, (role, category, _)) in enumerate(
                zip(record.texts, found, strict=True)
            ):
                yield self._put(record, index, role, category, part, has_images=False)
            return
        role, category, _ = self._injected(text, "runtime.unknown", None)
        if role == "runtime.unknown" and self._at["guardian"]:
            role, category = "runtime.context", "internal"
        yield self._put(record, 0, role, category, text, has_images=record.has_images)
        self._wait(f"{record.line.number}.0", "model", text, record.line.number)

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
        value = {"has_images": record.has_images}
        if known is not None:
            yield Amend(
                known["key"], line=line, role=role, value=value, loop=at["loop"], heuristic=False
            )
            return
        yield Item(f"{line}.0", role, line, loop=at["loop"], text=text or None, value=value)
        self._wait(f"{line}.0", "shown", text, line)

    def agent(self, record: Message | Shown) -> Iterator[Fact]:
        """A message of the agent's, given or shown."""
        text = "\n".join(record.texts) if isinstance(record, Message) else record.text
        line, at = record.line.number, self._at
        if not text:
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
            text=text,
            value={"has_images": False},
            heuristic=role is None,
        )
        self._wait(key, "agent" if given else "agent shown", text, line)

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
        role = "subagent.activity"
        if author and recipient and recipient.startswith(author.rstrip("/") + "/"):
            role = "agent.delegation"
        elif text.startswith("Message Type: FINAL_ANSWER"):
            role = "subagent.report"
        by_words = role == "subagent.report"
        yield self.item(record, role, text, {"has_images": False}, heuristic=by_words)

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
        self,
        record: Message,
        index: int,
        role: str,
        category: str | None,
        text: str,
        *,
        has_images: bool,
    ) -> Item:
        """A text that Codex put before the model."""
        value: dict[str, Any] = {}
        if role in ("runtime.instructions", "runtime.context"):
            value["category"] = category
        if role != "runtime.instructions":
            value["has_images"] = has_images
        line, loop = record.line.number, None if self._at["ended"] else self.running()
        return Item(
            f"{line}.{index}",
            role,
            line,
            loop=loop,
            text=text or None,
            value=value,
            heuristic=True,
        )

    def _injected(self, text: str, role: str, category: str | None) -> tuple[str, str | None, bool]:
        """Role and category of a text, and whether a marker says so."""
        found = classify_injected(text, INJECTED)
        if found is None or (found.role == "runtime.unknown" and role != found.role):
            return role, category, False
        return found.role, found.category, True

    def _wait(self, key: str, side: str, text: str, line: int) -> None:
        """Keep what is needed to know this message again when its other witness comes."""
        kept = {"key": key, "side": side, "line": line, "digest": digest(text)}
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


def _holds(kept: str | None, text: str) -> bool:
    """Whether one of two texts holds the other one, which must say something."""
    if kept is None or min(len(kept.encode()), len(text.encode())) < _LEAST_CONTAINED:
        return False
    return kept in text or text in kept


def digest(text: str) -> str:
    """What a text is known again by."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:32]
