"""The course of a transcript: its session, and where its loops begin and end.

Source: spec "Trace index", 8.3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from yarp.plugin import Amend, Link, LoopEnd, LoopStart, SessionFact, instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugin import Fact
    from yarp_claude.records import Record


class Course:
    """How far a projection is; all that it remembers is in `_at`."""

    def __init__(self, state: bytes | None) -> None:
        # session, line: identity. cwd: whether it is known.
        # loop: the last one. running: whether it goes on. modelled: whether its model is known.
        # answered: whether the model has said anything in it. message: the response that was
        # read last. final: key and message of the last final answer. prompts: the loop of each
        # prompt id.
        # open: calls without a result. skills: those that load one. tasks, agents: what runs in
        # the background, and the call that started it. opening: digest of a subagent's task.
        self._at: dict[str, Any] = {
            "session": None,
            "line": 0,
            "cwd": False,
            "loop": None,
            "running": False,
            "modelled": False,
            "answered": False,
            "message": None,
            "prompts": {},
            "final": None,
            "open": {},
            "skills": [],
            "tasks": {},
            "agents": {},
            "opening": None,
        }
        if state is not None:
            self._at = json.loads(state)
        self._items = 0

    def state(self) -> bytes:
        """What it takes to go on."""
        return json.dumps(self._at).encode()

    def _session(self, found: Record) -> Iterator[Fact]:
        at = self._at
        if at["session"] is not None:
            if not at["cwd"] and found.cwd is not None:
                at["cwd"] = True
                yield SessionFact(at["session"], at["line"], working_directory=found.cwd)
            return
        of_agent = found.is_sidechain or found.uuid is None
        native = (found.agent_id if of_agent else None) or found.session_id
        if not native:
            return
        at |= {"session": native, "line": found.line.number, "cwd": found.cwd is not None}
        parent = found.session_id if native == found.agent_id else None
        yield SessionFact(
            native,
            found.line.number,
            created_at=instant_ms(found.timestamp),
            working_directory=found.cwd,
            delegated_from=None if parent is None else Link(found.line.number, native_id=parent),
        )

    def _open(self, found: Record) -> Iterator[Fact]:
        key = f"loop:{found.line.number}"
        self._at |= {"loop": key, "running": True, "modelled": False, "answered": False}
        self._at["final"] = None
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
        self._at |= {"loop": known, "running": True}
        yield LoopEnd(known, None)

    def _running(self) -> str | None:
        loop: str | None = self._at["loop"] if self._at["running"] else None
        return loop

    def _revoke(self) -> Iterator[Fact]:
        """The last ending was none: a hook sent the model on."""
        at = self._at
        if at["loop"] is None or at["running"]:
            return
        at["running"] = True
        yield LoopEnd(at["loop"], None)
        if at["final"] is not None:
            yield Amend(at["final"][0], role="agent.commentary")
            at["final"] = None
