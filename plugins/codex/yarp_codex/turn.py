"""The calls of a turn as the transcript tells them, for those that no hook ends: never written.

It is read from the end to where the turn begins, when the turn is over.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

from yarp_codex.transcript import HEAD_BYTES, NESTED_ID, from_the_end

# How far back is looked for the calls of a turn.
_TURN_BYTES = 256 << 20


class Told:
    """A call as the transcript tells it.

    `input` and `output` are what the model asked for and was given; `output` None: nothing yet.
    `item` is what Codex says happened: its status and exit status. `settled`: the model has
    gone on since the output, which is then no notice of an interruption; without an item,
    nothing happened.
    """

    __slots__ = ("call_id", "input", "item", "name", "output", "settled")

    def __init__(self, call_id: str, name: str, given: object) -> None:
        self.call_id = call_id
        self.name = name
        self.input = given
        self.output: object = None
        self.item: dict[str, Any] | None = None
        self.settled = False


_OUTPUTS = {"function_call_output", "custom_tool_call_output"}
# Scripts of code mode; the calls inside them are calls of their own.
_SCRIPTS = {"exec", "wait"}
# What comes from the model itself.
_SAID = {"function_call", "custom_tool_call", "message", "reasoning"}
_TELLING = tuple(
    f'"type":"{kind}"'.encode() for kind in ("turn_context", "item_completed", *_OUTPUTS, *_SAID)
)
_NESTED = {"CommandExecution": "Bash", "McpToolCall": None, "FileChange": "apply_patch"}


def calls_of(path: str, turn_id: str | None) -> list[Told]:
    """The calls of the turn of that id, in order; of the last one if it is None."""
    calls: dict[str, Told] = {}
    for payload in reversed(_payloads(path, turn_id)):
        kind = payload.get("type")
        if kind in _SAID and payload.get("role", "assistant") == "assistant":
            for told in calls.values():
                told.settled = told.settled or told.output is not None
        if kind in ("function_call", "custom_tool_call"):
            call = _call(payload)
            if call is not None and call.name not in _SCRIPTS:
                calls[call.call_id] = call
        elif kind in _OUTPUTS:
            if payload.get("call_id") in calls:
                calls[payload["call_id"]].output = payload.get("output")
        elif kind == "item_completed" and isinstance(payload.get("item"), dict):
            _happened(calls, payload["item"])
    return list(calls.values())


def _payloads(path: str, turn_id: str | None) -> list[dict[str, Any]]:
    """What the records of one turn hold that may tell of a call, the last one first."""
    found: list[dict[str, Any]] = []
    behind: list[dict[str, Any]] = []  # what stands behind the record that is looked for
    for line in from_the_end(path, _TURN_BYTES):
        if not any(mark in line for mark in _TELLING):
            continue
        try:
            record = json.loads(line)
            payload = record["payload"]
        except (ValueError, TypeError, KeyError):
            continue
        if not isinstance(payload, dict):
            continue
        if record.get("type") != "turn_context":
            behind.append(payload)
            continue
        turn_id = turn_id or payload.get("turn_id")
        if payload.get("turn_id") != turn_id:
            break
        # A compaction opens the turn once more: there may be another one before.
        found += behind
        behind = []
    return found


def _call(payload: dict[str, Any]) -> Told | None:
    call_id, name = payload.get("call_id"), payload.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    space = payload.get("namespace")
    if isinstance(space, str) and space.startswith("mcp__"):
        name = f"{space}__{name}"
    given: object = payload.get("input")
    if given is None:
        given = payload.get("arguments")
        try:
            given = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            given = {"arguments": given}
    if name == "apply_patch" and isinstance(given, str):
        given = {"command": given}
    if name in ("exec_command", "shell_command") and isinstance(given, dict):
        name = "Bash"
        if "cmd" in given:
            given = {"command": given["cmd"]}
    return Told(call_id, name, given)


def _happened(calls: dict[str, Told], item: dict[str, Any]) -> None:
    """Note what became of a call; one inside a script is a call that only this tells of."""
    call_id, kind = item.get("id"), item.get("type")
    if not isinstance(call_id, str):
        return
    if call_id not in calls:
        if kind not in _NESTED or not call_id.startswith(NESTED_ID):
            return
        name = _NESTED[kind] or f"mcp__{item.get('server')}__{item.get('tool')}"
        given: object = item.get("arguments")
        if kind == "CommandExecution":
            words = item.get("command")
            given = {"command": words[-1] if isinstance(words, list) and words else ""}
        elif kind == "FileChange":
            given = {"changes": item.get("changes")}
        told = calls[call_id] = Told(call_id, name, given)
        told.output = item.get("aggregated_output") if kind != "McpToolCall" else item.get("result")
    calls[call_id].item = item


def last_call_ms(home: str) -> int | None:
    """When a tool was last called, in Unix milliseconds, by the newest transcript below `home`."""
    folder = os.path.join(home, "sessions")
    try:
        for _ in ("year", "month", "day"):
            folder = os.path.join(folder, max(os.listdir(folder)))
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        newest = max(paths, key=os.path.getmtime)
    except (OSError, ValueError):
        return None
    for line in from_the_end(newest, _TURN_BYTES):
        head = line[:HEAD_BYTES]
        nested = b'"type":"item_completed"' in head and b'"id":"exec-' in line
        if nested or b'"type":"function_call"' in head:
            return _time_ms(line)
    return None


def _time_ms(line: bytes) -> int | None:
    try:
        text = json.loads(line)["timestamp"]
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, TypeError, KeyError):
        return None
