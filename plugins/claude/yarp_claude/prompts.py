"""Who wrote the messages of the user's side, and in which loop: a person, a program, Claude Code.

Source: spec "Trace index", 8.3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from yarp.plugin import Item, classify_injected
from yarp_claude.course import Course
from yarp_claude.injected import CONTINUED, INJECTED, INTERRUPTED, STOP_HOOK, notified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugin import Fact
    from yarp_claude.records import Message, Record

HUMAN_SOURCES = frozenset({"typed", "queued", "suggestion_accepted"})


class Prompts(Course):
    """What a projection says of messages with words or images, and of news in them."""

    def _prompt(self, message: Message, text: str | None, *, has_images: bool) -> Iterator[Fact]:
        """A message with words or images, whoever wrote it."""
        words = text or ""
        members: dict[str, Any] = {"has_images": has_images}
        # A person may type, or paste, whatever Claude Code writes.
        typed = message.origin_kind == "human" or message.prompt_source in HUMAN_SOURCES
        if message.is_meta:
            yield from self._meta(message, words, has_images=has_images)
        elif message.is_compact_summary or (words.startswith(CONTINUED) and not typed):
            by_words = not message.is_compact_summary
            role = "runtime.compaction_summary"
            yield self._item(message, role, text, {}, heuristic=by_words)
        elif words.lstrip().startswith("<task-notification>") and not typed:
            yield from self._enter(message)
            yield from self._notification(message, words)
        elif message.is_sidechain:
            yield from self._task(message, text, members)
        elif message.origin_kind is not None:
            yield from self._by(message, text, members, human=message.origin_kind == "human")
        elif typed:
            yield from self._by(message, text, members, human=True)
        elif message.prompt_source == "system":
            yield from self._by(message, text, members, human=False)
        elif message.prompt_source == "sdk":
            yield from self._by(message, text, members, human=True, heuristic=True)
        elif words.startswith(INTERRUPTED):
            value = {"has_images": False}
            yield self._item(message, "runtime.notice", text, value, heuristic=True)
        else:
            yield from self._unmarked(message, text, members)

    def _meta(self, message: Message, text: str, *, has_images: bool) -> Iterator[Fact]:
        if text.startswith(STOP_HOOK):
            yield from self._revoke()
        if message.source_tool_use_id in self._at["skills"]:
            yield self._item(message, "runtime.instructions", text, {"category": "skill"})
        elif has_images:
            members = {"category": "file", "has_images": True}
            yield self._item(message, "runtime.context", text or None, members)
        else:
            yield self._item(message, "runtime.notice", text, {"has_images": False})

    def _task(self, message: Message, text: str | None, members: dict[str, Any]) -> Iterator[Fact]:
        digest = hashlib.sha256((text or "").encode()).hexdigest()
        if not self._at["answered"] and digest == self._at["opening"]:
            return
        if self._at["opening"] is None:
            self._at["opening"] = digest
        yield from self._begin(message)
        yield self._item(message, "agent.delegation", text, members)

    def _begin(self, message: Message) -> Iterator[Fact]:
        if not self._at["running"]:
            yield from self._open(message)
        self._at["asked"] = True
        if message.turn_index is not None:
            self._at["turn"] = message.turn_index
        if message.prompt_id is not None:
            self._at["prompts"][message.prompt_id] = self._at["loop"]

    def _by(
        self,
        message: Message,
        text: str | None,
        members: dict[str, Any],
        *,
        human: bool,
        heuristic: bool = False,
    ) -> Iterator[Fact]:
        if not human:
            yield from self._enter(message)
            yield self._item(message, "runtime.notice", text, members, heuristic=heuristic)
            return
        at, submission, turn = self._at, message.prompt_id, message.turn_index
        known = None if submission is None else at["prompts"].get(submission)
        if at["running"] and None not in (turn, at["turn"]) and turn != at["turn"]:
            yield from self._end(message)
        if at["running"] and known not in (None, at["loop"]):
            # It says which submission it is more of.
            role = "human.steering"
            yield self._item(message, role, text, members, known, heuristic=heuristic)
            return
        # More of the same submission, until the model has said something.
        another = submission is not None and known != at["loop"]
        steers = at["running"] and (at["answered"] or (at["asked"] and another))
        role = "human.steering" if steers else "human.request"
        yield from self._begin(message)
        yield self._item(message, role, text, members, heuristic=heuristic)

    def _unmarked(
        self, message: Message, text: str | None, members: dict[str, Any]
    ) -> Iterator[Fact]:
        found = classify_injected(text or "", INJECTED)
        if found is None:
            yield from self._by(message, text, members, human=True, heuristic=True)
            return
        if found.marker == "bash-input":
            yield from self._enter(message)
        value: dict[str, Any] = {} if found.role == "runtime.instructions" else dict(members)
        if found.category is not None:
            value["category"] = found.category
        yield self._item(message, found.role, text, value, heuristic=True)

    def _notification(self, found: Record, text: str) -> Iterator[Fact]:
        """News of something in the background: the result of a call, a report, or a notice."""
        at, told = self._at, notified(text)
        if told.task in at["agents"]:
            members = {"has_images": False}
            yield self._item(found, "subagent.report", text, members, session=told.task)
            return
        key = at["tasks"].get(told.task or "")
        if key is None and told.use_id in at["open"]:
            key = call_key(told.use_id or "")
        if (
            key is None
            and told.use_id is not None
            and call_key(told.use_id) in at["tasks"].values()
        ):
            key = call_key(told.use_id)
        if key is None:
            yield self._item(found, "runtime.notice", text, {"has_images": False})
        else:
            yield self._item(found, "tool.output", text, {"failed": told.failed}, call=key)

    def _item(
        self,
        found: Record,
        role: str,
        text: str | None,
        value: dict[str, Any],
        loop: str | None = None,
        *,
        key: str | None = None,
        call: str | None = None,
        session: str | None = None,
        heuristic: bool = False,
    ) -> Item:
        own = key or f"{found.line.number}.{self._items}"
        self._items += 1
        return Item(
            own,
            role,
            found.line.number,
            loop=loop or self._running(),
            text=text or None,
            value=value,
            call=call,
            session=session,
            heuristic=heuristic,
        )


def call_key(use_id: str) -> str:
    """The key of the item that a call is."""
    return f"call:{use_id}"


def text_in(value: dict[str, Any], key: str) -> str | None:
    """The text under a key; None where there is none."""
    found = value.get(key)
    return found if type(found) is str else None
