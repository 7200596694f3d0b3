"""Codex rollouts as traces: the session, its turns, and what was said, called and answered.

A call inside a script of code mode has just the event that tells of its end: that makes both items.
Source: spec "Trace index", 8.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Amend,
    Item,
    Link,
    LoopEnd,
    LoopModel,
    SessionFact,
    SourceOption,
    TraceReader,
    UsageSample,
    parse_json,
)
from yarp_codex import records
from yarp_codex.conversation import Conversation, digest
from yarp_codex.happened import Happened
from yarp_codex.injected import INJECTED
from yarp_codex.native import Record, began_ms, has_images, string, whole
from yarp_codex.outputs import happened_facts, output_facts, text_of
from yarp_codex.records import ROOT, Call, Message, Meta, Output, Shown, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Fact, Line

LINES = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "world_state", "compacted"}
)
SHELLS = {
    "exec_command": "cmd",
    "shell_command": "command",
    "shell": "command",
    "container.exec": "command",
}


def reader() -> TraceReader:
    """The declaration."""
    return TraceReader(
        "codex",
        options=[
            SourceOption(
                "sessions",
                kind="directory",
                help="Rollouts of Codex's threads",
                default=".codex/sessions",
            ),
            SourceOption(
                "archived-sessions",
                kind="directory",
                help="Rollouts of threads that were archived",
                default=".codex/archived_sessions",
                required=False,
            ),
        ],
        detect=detect,
        project=project,
        version=2,
        shell_tools={**SHELLS, "local_shell": "command"},
        injected=INJECTED,
    )


def detect(head: object) -> bool:
    """Whether a source that begins with this line is a rollout of Codex."""
    if type(head) is not dict or type(head.get("payload")) is not dict:
        return False
    return type(head.get("type")) is str and head["type"] in LINES


def project(_locator: str, state: bytes | None) -> Projection:
    """A projector for one rollout."""
    return Projection(state)


class Projection(Conversation):
    """The projection of one rollout."""

    def feed(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        for record in records.read(lines):
            if isinstance(record, Meta):
                yield from self._meta(record)
            elif self._at["thread"] is not None and self._is_own(record):
                yield from self._record(record)

    def _record(self, record: Record) -> Iterator[Fact]:
        if isinstance(record, Turn):
            yield from self._turn(record)
        elif isinstance(record, Call):
            yield from self._call(record)
        elif isinstance(record, Output):
            yield from self._output(record)
        elif isinstance(record, Happened):
            yield from self._happened(record)
        elif isinstance(record, Message):
            yield from self.message(record)
        elif isinstance(record, Shown):
            yield from self.person(record) if record.by_user else self.agent(record)
        elif record.type == "event_msg":
            yield from self._event(record)
        elif record.type == "response_item" and record.kind == "reasoning":
            yield from self.reasoning(record)
        elif record.kind == "agent_message" or record.type == "inter_agent_communication":
            yield from self.between_agents(record)
        elif record.type == "token_usage_record":
            yield from self._usage_of_turn(record)
        elif record.type == "compacted":
            yield from self.compaction(record)

    # The session

    def _meta(self, record: Meta) -> Iterator[Fact]:
        thread, line = record.thread_id, record.line.number
        if thread is None:
            return
        if self._at["thread"] is not None:
            if thread != self._at["thread"]:
                self._at["copied"] = self._at["loop"] is None
                members = {"category": "session_reference", "has_images": False}
                yield Item(f"{line}.0", "runtime.context", line, text=thread, value=members)
            return
        self._at |= {
            "thread": thread,
            "line": line,
            "guardian": "guardian" in json.dumps(record.payload.get("source")),
            "helps": record.is_subagent,
            "own_from": record.own_history_from if record.is_subagent else None,
        }
        parent = record.parent_thread_id or string(record.payload.get("parent_session_id"))
        forked = record.forked_from
        yield SessionFact(
            thread,
            line,
            created_at=record.started_at_ms,
            name=record.nickname,
            working_directory=record.working_directory,
            forked_from=None if forked is None else Link(line, native_id=forked),
            delegated_from=Link(line, native_id=parent) if record.is_subagent and parent else None,
        )
        path = record.agent_path
        self._at["path"] = path
        yield from self.learn(path, thread)
        if path is not None and record.is_subagent:
            yield from self.learn(ROOT, record.root_thread_id)
            yield from self.learn(path.rpartition("/")[0] or None, parent)

    def _is_own(self, record: Record) -> bool:
        """Whether a record is no copy of the parent's history, as far as that can be told.

        Older forks repeat their parent's records with new times; but a turn's id holds the time
        when it began, and so does the thread's.
        """
        if self._at["own_from"] is not None:
            place = record.ordinal
            place = record.line.number - 1 if place is None else place
            if place < self._at["own_from"]:
                return False
        if self._at["copied"]:
            begins = isinstance(record, Turn) or record.kind == "task_started"
            began, since = began_ms(record.turn_id), began_ms(self._at["thread"])
            if not begins or (began is not None and since is not None and began < since):
                return False
            self._at["copied"] = False
        return True

    # Turns

    def _turn(self, record: Turn) -> Iterator[Fact]:
        yield from self.join(record.line.number, record.turn_id)
        if record.model is not None:
            window = whole(record.payload.get("model_context_window"))
            effort = record.effort
            yield LoopModel(self._at["loop"], record.model, effort=effort, context_window=window)

    def _event(self, record: Record) -> Iterator[Fact]:
        line, payload, kind = record.line.number, record.payload, record.kind
        if kind == "task_started":
            at = self._at
            if at["loop"] is not None and at["ended"] and record.turn_id == at["turn"]:
                at["turn"] = None
            yield from self.join(line, record.turn_id)
            window = whole(payload.get("model_context_window"))
            if window is not None:
                yield LoopModel(self._at["loop"], context_window=window)
        elif kind in ("task_complete", "turn_aborted"):
            yield from self._end(record, line)
        elif kind == "token_count":
            yield from self._usage(payload)
        elif kind == "error" and string(payload.get("message")):
            yield self.item(record, "runtime.notice", payload["message"], {"has_images": False})
        elif kind == "sub_agent_activity":
            yield from self._activity(record, payload, string(payload.get("event_id")))
        elif kind == "item_completed":
            item = payload.get("item")
            if isinstance(item, dict) and item.get("type") == "SubAgentActivity":
                yield from self._activity(record, item, string(item.get("id")))
        elif kind == "collab_agent_spawn_end":
            child, call_id = string(payload.get("new_thread_id")), string(payload.get("call_id"))
            if child is not None and call_id is not None:
                yield Amend(f"call:{call_id}", line=line, session=child)
        elif kind == "thread_name_updated":
            name = string(payload.get("thread_name"))
            if name is not None and payload.get("thread_id") in (None, self._at["thread"]):
                yield SessionFact(self._at["thread"], self._at["line"], name=name)
        elif kind == "context_compacted":
            yield from self.compaction(record)

    def _activity(
        self, record: Record, told: dict[str, Any], call_id: str | None
    ) -> Iterator[Fact]:
        agent, kind = string(told.get("agent_thread_id")), string(told.get("kind"))
        yield from self.learn(string(told.get("agent_path")), agent)
        if kind is not None:
            members = {"has_images": False}
            yield self.item(record, "subagent.activity", kind, members, session=agent)
        if agent is not None and call_id is not None:
            yield Amend(f"call:{call_id}", session=agent)

    def _end(self, record: Record, line: int) -> Iterator[Fact]:
        loop = self._at["loop"]
        if record.turn_id is not None and record.turn_id != self._at["turn"]:
            loop = f"turn:{record.turn_id}" if self._at["turn"] else loop
        if loop is None:
            return
        outcome = "completed"
        if record.kind == "turn_aborted":
            outcome = "failed" if record.payload.get("reason") == "error" else "interrupted"
        if loop == self._at["loop"]:
            self._at["ended"] = True
            last = string(record.payload.get("last_agent_message"))
            unphased = self._at["unphased"]
            if unphased is not None and last is not None and unphased[1] == digest(last):
                yield Amend(unphased[0], role="agent.final_answer", heuristic=False)
                self._at["unphased"] = None
        yield LoopEnd(loop, line, outcome)

    def _usage_of_turn(self, record: Record) -> Iterator[Fact]:
        told = record.payload.get("turn_token_usage")
        if record.turn_id is not None and isinstance(told, dict):
            same = record.turn_id == self._at["turn"]
            loop = self._at["loop"] if same else f"turn:{record.turn_id}"
            yield _sample(loop, f"turn:{record.turn_id}", told, rank=1)

    def _usage(self, payload: dict[str, Any]) -> Iterator[Fact]:
        info, loop = payload.get("info"), self._at["loop"]
        if not isinstance(info, dict) or loop is None:
            return
        window = whole(info.get("model_context_window"))
        if window is not None:
            yield LoopModel(loop, context_window=window)
        last, total = info.get("last_token_usage"), info.get("total_token_usage")
        if isinstance(last, dict):
            names = ("input_tokens", "cached_input_tokens", "output_tokens", "total_tokens")
            counts = [total.get(name) for name in names] if isinstance(total, dict) else []
            complete = bool(counts) and all(type(count) is int for count in counts)
            seen = f"total:{':'.join(map(str, counts))}" if complete else None
            yield _sample(loop, seen, last, first=True)

    # What was called

    def _call(self, record: Call) -> Iterator[Fact]:
        name, call_id, line = record.tool_name, record.call_id, record.line.number
        if name is None:
            return
        key = f"call:{call_id}" if call_id else f"{line}.0"
        given = record.arguments if record.text is None else record.text
        self._at["settled"] = False
        if name.rpartition(".")[2] == "spawn_agent":
            text = given if isinstance(given, str) else json.dumps(given)
            members: dict[str, Any] = {"has_images": _shows_images(given)}
            yield self.item(record, "agent.delegation", text, members, key=key)
        else:
            members = {
                "tool_name": name,
                "arguments": given,
                "working_directory": _workdir(given),
            }
            yield self.item(record, "agent.tool_call", None, members, key=key)
        if call_id and record.kind not in ("web_search_call", "image_generation_call"):
            self._at["calls"][call_id] = [name, self._at["loop"], None]

    def _output(self, record: Output) -> Iterator[Fact]:
        call_id, line = record.call_id, record.line.number
        name, loop, told = None, self.running(), None
        if call_id in self._at["calls"]:
            name, loop, told = self._at["calls"].pop(call_id)
        key = f"output:{call_id}" if call_id else f"{line}.0"
        text = text_of(record)
        said = output_facts(record, name) | {
            member: value for member, value in (told or {}).items() if value is not None
        }
        yield Item(
            key,
            "tool.output",
            line,
            loop=loop,
            text=text,
            value=said,
            call=f"call:{call_id}" if call_id else None,
        )
        if told is not None:
            yield Amend(key, line=line, primary=True)
        if call_id and name is not None and name.rpartition(".")[2] == "spawn_agent":
            told = _given(text)
            agent = string(told.get("agent_id")) if isinstance(told, dict) else None
            if agent is not None:
                yield Amend(f"call:{call_id}", session=agent)

    def _happened(self, record: Happened) -> Iterator[Fact]:
        call_id, line, name = record.call_id, record.line.number, record.tool_name
        if call_id is None or name is None or record.by_user:
            return
        key, said = f"output:{call_id}", happened_facts(record)
        waits = self._at["calls"].get(call_id)
        if waits is not None:
            waits[2] = said
        loop = waits[1] if waits else self.running()
        if record.sort == "agents":
            yield from self._spawned(record, call_id, name)
        yield Item(
            f"call:{call_id}",
            "agent.tool_call",
            line,
            loop=loop,
            value={
                "tool_name": name,
                "arguments": record.given,
                "working_directory": record.working_directory,
            },
            occurred_at=record.started_at_ms,
            unless_known=True,
        )
        yield Item(
            key,
            "tool.output",
            line,
            loop=loop,
            text=record.shown_text,
            value=said,
            call=f"call:{call_id}",
            unless_known=True,
        )
        yield Amend(
            key,
            line=line,
            value={member: value for member, value in said.items() if value is not None},
        )

    def _spawned(self, record: Happened, call_id: str, name: str) -> Iterator[Fact]:
        children = record.item.get("receiver_thread_ids")
        if name.rpartition(".")[2] == "spawn_agent" and isinstance(children, list):
            found = [child for child in children if string(child)]
            if len(found) == 1:
                yield Amend(f"call:{call_id}", line=record.line.number, session=found[0])


def _sample(loop: str, sample: str | None, told: dict[str, Any], **how: Any) -> UsageSample:
    return UsageSample(
        loop,
        sample,
        input=told.get("input_tokens"),
        output=told.get("output_tokens"),
        cached=told.get("cached_input_tokens"),
        cache_write=told.get("cache_write_input_tokens"),
        reasoning=told.get("reasoning_output_tokens"),
        **how,
    )


def _given(text: object) -> object:
    """What a call was given, parsed where it is a text that holds JSON."""
    if not isinstance(text, str):
        return text
    try:
        return parse_json(text.encode("utf-8", "replace"), beyond=True)[0]
    except ValueError:
        return None


def _workdir(given: object) -> str | None:
    if isinstance(given, str) and '"workdir"' in given:
        given = _given(given)
    if isinstance(given, dict):
        return string(given.get("workdir")) or string(given.get("working_directory"))
    return None


def _shows_images(given: object) -> bool:
    """Whether images are among what a new agent is given."""
    given = _given(given)
    return isinstance(given, dict) and has_images(given.get("items"))
