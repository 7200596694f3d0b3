"""Rollouts as the builds of Codex write them, put together by hand: no real session is in here."""

from __future__ import annotations

import json

T0 = 1_790_000_000_000
THREAD = "01a22a66-0000-7000-8000-000000000001"


def stamp(number):
    return f"2026-09-21T14:13:{number // 1000:02}.{number % 1000:03}Z"


class Rollout:
    """Lines one after the other; `at` is the time of the next one, in milliseconds."""

    def __init__(self, thread=THREAD, *, ordinals=False, **meta):
        self.lines = []
        self.thread = thread
        self.at = 0
        self._ordinals = ordinals
        self.add("session_meta", {
            "id": thread, "timestamp": stamp(0), "cwd": "/srv/demo", "originator": "codex_exec",
            "cli_version": "0.171.0", "source": "exec", "model_provider": "mock", **meta,
        })  # fmt: skip

    def add(self, sort, payload):
        value = {"timestamp": stamp(self.at), "type": sort, "payload": payload}
        if self._ordinals:
            value["ordinal"] = len(self.lines)
        self.lines.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        self.at += 1
        return self

    def item(self, kind, /, **payload):
        return self.add("response_item", {"type": kind, **payload})

    def event(self, kind, /, **payload):
        return self.add("event_msg", {"type": kind, **payload})

    def happened(self, kind, item_id, /, **item):
        return self.event(
            "item_completed", thread_id=self.thread, turn_id="t1",
            item={"type": kind, "id": item_id, **item},
            started_at_ms=T0 + 5, completed_at_ms=T0 + 9,
        )  # fmt: skip

    def turn(self, model="gpt-5.5", cwd="/srv/demo", turn_id="t1"):
        self.event("task_started", turn_id=turn_id)
        return self.add("turn_context", {"turn_id": turn_id, "cwd": cwd, "model": model})

    def call(self, call_id, name="exec_command", arguments='{"cmd":"ls"}', **more):
        return self.item("function_call", name=name, arguments=arguments, call_id=call_id, **more)

    def output(self, call_id, output, kind="function_call_output"):
        return self.item(kind, call_id=call_id, output=output)

    def script(self, call_id, source):
        return self.item("custom_tool_call", call_id=call_id, name="exec", input=source)

    def ran(self, item_id, command, output, code=0):
        return self.happened(
            "CommandExecution", item_id, command=["/bin/bash", "-lc", command],
            cwd="file:///srv/demo%20app", source="unified_exec_startup",
            status="failed" if code else "completed", aggregated_output=output, exit_code=code,
            duration={"secs": 0, "nanos": 7},
        )  # fmt: skip

    def text(self):
        return "".join(line + "\n" for line in self.lines)

    def write(self, sessions, name=None):
        folder = sessions / "2026" / "09" / "21"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name or f"rollout-2026-09-21T14-13-00-{self.thread}.jsonl")
        path.write_text(self.text(), encoding="utf-8")
        return path


def envelope(text, code=0):
    """What the model is given for a command of newer builds."""
    return f"Chunk ID: d85ae0\nWall time: 0.0000 seconds\nProcess exited with code {code}\nOriginal token count: 5\nOutput:\n{text}"
