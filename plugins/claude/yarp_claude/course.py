"""The course of a transcript: its session, where its loops begin and end, what is told twice.

Source: spec "Trace index", 8.3.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any

from yarp.plugin import Amend, Link, LoopEnd, LoopStart, Remembered, SessionFact, instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugin import Fact
    from yarp_claude.records import Record

# Records that name the session, where they do it, from the least to the strongest: of two of a
# kind the later counts.
NAMES = {
    "summary": "summary",
    "ai-title": "aiTitle",
    "agent-name": "agentName",
    "custom-title": "customTitle",
}
# Summaries of other sessions may stand in a transcript: one names the session that holds the
# message it tells of, which is among the last ones, or comes behind it.
_MOST_LEAVES = 32
_NAME_CHARACTERS = 1000
_RANKS = {kind: rank for rank, kind in enumerate(NAMES, 1)}


class Course:
    """How far a projection is; all that it remembers is in `_at`."""

    def __init__(self, state: bytes | None) -> None:
        # session, line: identity. cwd, began: whether they are known. named: the rank of its name.
        # forked: where its history comes from.
        # loop: the last one. running: whether it goes on; outcome: how it ended. modelled: whether
        # its model is known. asked, answered: whether a person, and the model, said anything in
        # it. turn: the number of its turn. final: key of its last final answer. prompts: the
        # loop of each prompt id. leaves: the last messages' ids. summaries: names that wait for
        # the message whose session they tell of.
        # open: calls without a result. skills: those that load one. tasks, agents: what runs in
        # the background, and the call that started it. opening: digest of a subagent's task.
        self._at: dict[str, Any] = {
            "session": None,
            "line": 0,
            "cwd": False,
            "began": False,
            "named": 0,
            "forked": None,
            "loop": None,
            "running": False,
            "outcome": None,
            "modelled": False,
            "asked": False,
            "answered": False,
            "turn": None,
            "prompts": {},
            "leaves": [],
            "summaries": {},
            "final": None,
            "open": {},
            "skills": [],
            "tasks": {},
            "agents": {},
            "opening": None,
        }
        self._seen = Remembered(1)
        self._responses = Remembered(4)
        if state is not None:
            self._at, seen, responses = marshal.loads(state)  # noqa: S302 - the index's own
            self._seen, self._responses = Remembered(1, seen), Remembered(4, responses)
        self._items = 0

    def state(self) -> bytes:
        """What it takes to go on."""
        return marshal.dumps((self._at, self._seen.stored(), self._responses.stored()))

    def _session(self, found: Record) -> Iterator[Fact]:
        at = self._at
        if at["session"] is not None:
            if not at["cwd"] and found.cwd is not None:
                at["cwd"] = True
                yield SessionFact(at["session"], at["line"], working_directory=found.cwd)
            if not at["began"] and (began := instant_ms(found.timestamp)) is not None:
                at["began"] = True
                yield SessionFact(at["session"], at["line"], created_at=began)
            yield from self._told(found)
            return
        if found.kind == "summary":
            self._keep(found)
        of_agent = found.is_sidechain or found.uuid is None
        native = (found.agent_id if of_agent else None) or found.session_id
        if not native:
            return
        at |= {"session": native, "line": found.line.number, "cwd": found.cwd is not None}
        began = instant_ms(found.timestamp)
        at["began"] = began is not None
        parent = found.session_id if native == found.agent_id else None
        yield SessionFact(
            native,
            found.line.number,
            created_at=began,
            working_directory=found.cwd,
            delegated_from=None if parent is None else Link(found.line.number, native_id=parent),
        )
        yield from self._told(found)

    def _told(self, found: Record) -> Iterator[Fact]:
        """What a record says of the session beside its identity: its name, its origin."""
        at = self._at
        rank = _RANKS.get(found.kind, 0)
        if rank:
            if found.session_id == at["session"] or found.value.get("leafUuid") in at["leaves"]:
                yield from self._name(found.value.get(NAMES[found.kind]), rank)
            elif found.session_id is None:
                self._keep(found)
        if found.uuid is not None:
            at["leaves"].append(found.uuid)
            if len(at["leaves"]) > 2 * _MOST_LEAVES:
                del at["leaves"][:_MOST_LEAVES]
            if found.uuid in at["summaries"]:
                yield from self._name(at["summaries"].pop(found.uuid), _RANKS["summary"])
        # Each copy names where it was made: the last ones come from the parent itself.
        origin = found.origin_session_id
        if origin not in (None, at["forked"], at["session"], found.session_id):
            at["forked"] = origin
            link = Link(found.line.number, native_id=origin)
            yield SessionFact(at["session"], at["line"], forked_from=link)

    def _keep(self, found: Record) -> None:
        """Keep a summary until the message comes that it tells of."""
        leaf, name = found.value.get("leafUuid"), found.value.get(NAMES[found.kind])
        if type(leaf) is str and type(name) is str:
            kept = [*self._at["summaries"].items(), (leaf, name[:_NAME_CHARACTERS])]
            self._at["summaries"] = dict(kept[-_MOST_LEAVES:])

    def _name(self, name: object, rank: int) -> Iterator[Fact]:
        at = self._at
        if rank >= at["named"] and type(name) is str and name.strip():
            at["named"] = rank
            yield SessionFact(at["session"], at["line"], name=name)

    def _again(self, found: Record) -> int | None:
        """The line on which the same message stood before; None if it is new here."""
        if found.uuid is None:
            return None
        held = [
            found.value.get(name)
            for name in ("uuid", "type", "message", "attachment", "subtype", "content")
        ]
        message = repr(held)
        before = self._seen.get(message)
        if before is not None:
            return before[0]
        self._seen[message] = (found.line.number,)
        return None

    def _open(self, found: Record) -> Iterator[Fact]:
        key = f"loop:{found.line.number}"
        self._at |= {"loop": key, "running": True, "outcome": None, "final": None}
        self._at |= {"modelled": False, "asked": False, "answered": False, "turn": None}
        yield LoopStart(key, found.line.number)

    def _enter(self, found: Record) -> Iterator[Fact]:
        """Have a loop run for a record that needs one."""
        if self._at["running"]:
            return
        known = self._at["prompts"].get(found.prompt_id or "")
        if known is None:
            yield from self._open(found)
            if found.prompt_id is not None:
                self._at["prompts"][found.prompt_id] = self._at["loop"]
            return
        self._at |= {"loop": known, "running": True, "outcome": None}
        yield LoopEnd(known, None)

    def _end(self, found: Record, outcome: str | None = None) -> Iterator[Fact]:
        """The last loop has ended; a later ending without an outcome takes none away."""
        at = self._at
        if outcome is None and not at["running"] and at["outcome"] is not None:
            return
        at |= {"running": False, "outcome": outcome}
        yield LoopEnd(at["loop"], found.line.number, outcome)

    def _running(self) -> str | None:
        loop: str | None = self._at["loop"] if self._at["running"] else None
        return loop

    def _revoke(self) -> Iterator[Fact]:
        """The last ending was none: a hook sent the model on."""
        at = self._at
        if at["loop"] is None or at["running"]:
            return
        at |= {"running": True, "outcome": None}
        yield LoopEnd(at["loop"], None)
        if at["final"] is not None:
            yield Amend(at["final"], role="agent.commentary")
            at["final"] = None
