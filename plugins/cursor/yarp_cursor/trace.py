"""Cursor's transcripts as traces: the session, its loops, and what was said and called.

A transcript names no session, model, tokens or result; whose it is, its place says. A loop begins
with a message of the person, and in a subagent's transcript of its caller. It ends with
`turn_ended`, or an error of the provider; where a transcript has neither, as older builds write
them, with the next request behind an answer. Source: spec "Trace index"; reference "Cursor", 2.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Amend,
    Item,
    Link,
    LoopEnd,
    LoopStart,
    SessionFact,
    SourceOption,
    TraceReader,
)
from yarp_cursor.injected import INJECTED, occurred_at, parts
from yarp_cursor.records import Ended, Failed, Use, directory, entry, placed, spoken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Fact, Line
    from yarp_cursor.injected import Part
    from yarp_cursor.records import Message

OUTCOMES = {"success": "completed", "aborted": "interrupted", "error": "failed"}
DELEGATIONS = frozenset({"Task", "Subagent"})
# What stands in a text for reasoning that is not shown.
REDACTED = "[REDACTED]"
# What first lines of other agents have.
_FOREIGN = frozenset({"type", "sessionId", "content"})


def reader() -> TraceReader:
    """The declaration."""
    return TraceReader(
        "cursor",
        options=[
            SourceOption(
                "projects",
                kind="directory",
                help="Cursor's transcripts.",
                default=".cursor/projects",
            )
        ],
        detect=detect,
        project=project,
        occurred_at=occurred_at,
        # The second name is that of builds until January 2026.
        shell_tools={"Shell": "command", "run_terminal_cmd": "command"},
        injected=INJECTED,
        identity=identity,
    )


def detect(head: object) -> bool:
    """Whether a source that begins with this line is a transcript of Cursor."""
    return type(head) is dict and not _FOREIGN & head.keys() and spoken(head) is not None


def identity(locator: str) -> str | None:
    """Whose transcript a file at this path is."""
    found = placed(locator)
    return None if found is None else found.session


def project(locator: str, state: bytes | None) -> Projection:
    """A projector for one transcript; one that lies in no place of a transcript's says nothing."""
    return Projection(locator, state)


class Projection:
    """The projection of one transcript; all that it remembers is in `_at`."""

    def __init__(self, locator: str, state: bytes | None) -> None:
        found = placed(locator)
        # session, parent: whose transcript it is. told: the line that tells so. loop: the last
        # one; running: whether it goes on; broken: whether an error alone ended it. answer: the
        # key of a text of the agent's that nothing has followed yet. tells: whether turns are
        # seen to end.
        self._at: dict[str, Any] = {
            "session": None if found is None else found.session,
            "parent": None if found is None else found.parent,
            "told": None,
            "loop": None,
            "running": False,
            "broken": False,
            "answer": None,
            "tells": False,
        }
        if state is not None:
            self._at = json.loads(state)
        self._items = 0

    def state(self) -> bytes:
        """What it takes to go on."""
        return json.dumps(self._at).encode()

    def feed(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        if self._at["session"] is None:
            return
        for line in lines:
            found = entry(line)
            if found is None:
                continue
            self._items = 0
            if self._at["told"] is None:
                self._at["told"] = line.number
                yield self._session()
            if isinstance(found, Ended):
                yield from self._ended(found)
            elif isinstance(found, Failed):
                yield from self._failed(found)
            elif found.role == "assistant":
                yield from self._assistant(found)
            else:
                yield from self._user(found)

    def _session(self, created_at: int | None = None) -> SessionFact:
        at, parent = self._at, self._at["parent"]
        return SessionFact(
            at["session"],
            at["told"],
            created_at=created_at,
            delegated_from=None if parent is None else Link(at["told"], native_id=parent),
        )

    # Whoever asked

    def _user(self, message: Message) -> Iterator[Fact]:
        found = parts(message.text)
        asks = message.has_images or any(part.injected is None for part in found)
        steers = self._at["running"] and (self._at["tells"] or self._at["answer"] is None)
        if asks and not steers:
            yield from self._begin(message)
        for part in found:
            if part.injected is not None:
                yield self._injected(message, part)
        if asks:
            words = next((part.text for part in found if part.injected is None), None)
            role = "human.steering" if steers else "human.request"
            if self._at["parent"] is not None:
                role = "agent.delegation"
            members = {"has_images": message.has_images}
            yield self._item(message.line, role, words, members, heuristic=True)

    def _begin(self, message: Message) -> Iterator[Fact]:
        """A loop begins; behind an answer, the one before is over."""
        at, line = self._at, message.line.number
        if at["running"]:
            yield LoopEnd(at["loop"], line)
        sent_at = occurred_at(message.line.value)
        if at["loop"] is None and sent_at is not None:
            yield self._session(created_at=sent_at)
        at |= {"loop": f"loop:{line}", "running": True, "broken": False, "answer": None}
        yield LoopStart(at["loop"], line)

    def _injected(self, message: Message, part: Part) -> Item:
        assert part.injected is not None  # noqa: S101 - asked by who calls
        role, category = part.injected.role, part.injected.category
        members: dict[str, Any] = {} if role == "runtime.instructions" else {"has_images": False}
        if category is not None:
            members["category"] = category
        return self._item(message.line, role, part.text, members, heuristic=True)

    # What the agent said and did

    def _assistant(self, message: Message) -> Iterator[Fact]:
        at = self._at
        if not message.blocks:
            return
        if at["broken"]:
            # It was tried again: what looked like the end was none.
            at |= {"running": True, "broken": False}
            yield LoopEnd(at["loop"], None)
        elif not at["running"]:
            yield from self._begin(message)
        for block in message.blocks:
            if isinstance(block, Use):
                yield from self._no_answer()
                yield self._call(block)
            else:
                yield from self._said(message, block)

    def _no_answer(self) -> Iterator[Fact]:
        """The last text was not the end."""
        at = self._at
        if at["answer"] is not None and not at["tells"]:
            yield Amend(at["answer"], role="agent.commentary", heuristic=False)
        at["answer"] = None

    def _said(self, message: Message, text: str) -> Iterator[Fact]:
        """A text is commentary until a turn is seen to end with it, where that can be seen."""
        said = text.rstrip()
        if said.endswith(REDACTED):
            text = said.removesuffix(REDACTED).rstrip()
            shown = {"representation": "unavailable"}
            yield self._item(message.line, "agent.reasoning", None, shown, heuristic=True)
        if text:
            yield from self._no_answer()
            tells = self._at["tells"]
            role = "agent.commentary" if tells else "agent.final_answer"
            members = {"has_images": False}
            item = self._item(message.line, role, text, members, heuristic=not tells)
            self._at["answer"] = item.key
            yield item

    def _call(self, use: Use) -> Item:
        given = use.given
        if use.tool_name in DELEGATIONS:
            prompt = given.get("prompt") if isinstance(given, dict) else None
            text = prompt if isinstance(prompt, str) else None
            return self._item(use.line, "agent.delegation", text, {"has_images": False})
        members = {
            "tool_name": use.tool_name,
            "arguments": given,
            "working_directory": directory(given),
        }
        return self._item(use.line, "agent.tool_call", None, members)

    # How it ended

    def _ended(self, ended: Ended) -> Iterator[Fact]:
        at, line = self._at, ended.line.number
        outcome = OUTCOMES.get(ended.status or "")
        if ended.error is not None:
            yield self._notice(ended.line, ended.error)
        if at["running"] or at["broken"]:
            if outcome == "completed" and at["answer"] is not None:
                role = "agent.final_answer"
                yield Amend(at["answer"], role=role, line=line, heuristic=False)
                at["answer"] = None
            yield from self._no_answer()
            yield LoopEnd(at["loop"], line, outcome)
        at |= {"running": False, "broken": False, "tells": True}

    def _failed(self, failed: Failed) -> Iterator[Fact]:
        at = self._at
        if failed.error is not None:
            yield self._notice(failed.line, failed.error)
        if at["running"]:
            yield from self._no_answer()
            at |= {"running": False, "broken": True}
            yield LoopEnd(at["loop"], failed.line.number, "failed")

    def _notice(self, line: Line, text: str) -> Item:
        return self._item(line, "runtime.notice", text, {"has_images": False})

    def _item(
        self,
        line: Line,
        role: str,
        text: str | None,
        value: dict[str, Any],
        *,
        heuristic: bool = False,
    ) -> Item:
        key = f"{line.number}.{self._items}"
        self._items += 1
        at = self._at
        loop = at["loop"] if at["running"] or at["broken"] else None
        return Item(
            key, role, line.number, loop=loop, text=text or None, value=value, heuristic=heuristic
        )
