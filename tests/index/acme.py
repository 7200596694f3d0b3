"""A runtime of the tests' own: one JSON object a line, its `t` says what it is.

A plugin as anybody could write one: `plugin_site` installs this file for children, and the
fixture `acme` loads it for the test itself.
"""

from __future__ import annotations

import json

from yarp.plugin import (
    Amend,
    Drop,
    Injected,
    Item,
    Link,
    LoopEnd,
    LoopModel,
    LoopStart,
    SessionFact,
    SourceOption,
    TraceReader,
    UsageSample,
    classify_injected,
    hookimpl,
)

INJECTED = (Injected("tag", "rules", "runtime.instructions", "project"),)


class Projector:
    def __init__(self, state):
        self.loop, self.heard = json.loads(state) if state else [None, False]

    def state(self):
        return json.dumps([self.loop, self.heard]).encode()

    def feed(self, lines):
        for line in lines:
            if isinstance(line.value, dict):
                yield from self.record(line.number, line.value)

    def record(self, n, v):
        t, key = v.get("t"), v.get("key") or f"{n}.0"
        text, loop, images = v.get("text"), self.loop, {"has_images": bool(v.get("images"))}
        if t == "session":
            parents = {
                name: Link(n, **v[name]) if name in v else None
                for name in ("forked_from", "delegated_from")
            }
            yield SessionFact(
                v["id"],
                n,
                created_at=v.get("at"),
                name=v.get("name"),
                working_directory=v.get("cwd"),
                **parents,
            )
        elif t == "begin":
            self.loop, self.heard = v["loop"], False
            yield LoopStart(self.loop, n, native_id=v.get("native"))
        elif t == "end":
            yield LoopEnd(v.get("loop", loop), None if v.get("revoked") else n, v.get("outcome"))
        elif t == "model":
            yield LoopModel(
                loop, v.get("id"), effort=v.get("effort"), context_window=v.get("window")
            )
        elif t == "usage":
            told = {k: v.get(k) for k in ("input", "output", "cached", "cache_write", "reasoning")}
            yield UsageSample(
                v.get("loop", loop),
                v.get("sample"),
                rank=v.get("rank", 0),
                first=v.get("first", False),
                **told,
            )
        elif t == "human":
            injected = classify_injected(text or "", INJECTED)
            if injected is not None:
                category = {"category": injected.category}
                yield Item(key, injected.role, n, text=text, value=category, heuristic=True)
                return
            role = "human.steering" if self.heard else "human.request"
            self.heard = True
            yield Item(key, role, n, loop=loop, text=text, value=images)
        elif t == "call":
            told = {"tool_name": v.get("tool"), "arguments": v.get("args")}
            yield Item(f"call:{v['id']}", "agent.tool_call", n, loop=loop, value=told)
        elif t == "output":
            told = {k: v[k] for k in ("exit_code", "failed", "duration_ms") if k in v}
            yield Item(
                f"out:{v['id']}",
                "tool.output",
                n,
                loop=loop,
                text=text,
                value=told,
                call=f"call:{v['id']}",
            )
        elif t == "item":
            yield Item(
                key,
                v["role"],
                n,
                loop=None if v.get("outside") else loop,
                text=text,
                value=v.get("value"),
                session=v.get("session"),
                heuristic=v.get("heuristic", False),
                witnesses=v.get("witnesses", ()),
                unless_known=v.get("unless_known", False),
            )
        elif t == "amend":
            names = ("role", "text", "value", "loop", "call", "session", "heuristic")
            yield Amend(
                v["key"],
                line=n,
                primary=v.get("primary", False),
                **{k: v[k] for k in names if k in v},
            )
        elif t == "drop":
            yield Drop(v["key"], loop=v.get("loop", False))
        elif t == "crash":
            raise RuntimeError("hunter2")


READER = TraceReader(
    "acme",
    options=[SourceOption("sessions", kind="directory", help="-", default=".acme/sessions")],
    detect=lambda head: isinstance(head, dict) and head.get("t") in ("session", "note"),
    project=lambda locator, state: Projector(state),
    occurred_at=lambda v: v.get("at") if isinstance(v, dict) else None,
    shell_tools={"sh": "command"},
    other_shells={"ps": "command"},
    injected=INJECTED,
)  # fmt: skip


@hookimpl
def yarp_trace_readers():
    return [READER]
