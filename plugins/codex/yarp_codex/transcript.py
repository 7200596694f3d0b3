"""What Codex's own transcript says about a turn that its hooks do not: read, never written.

A transcript is JSON lines, appended to; `turn_context` opens each turn. Before and after a
call, the few facts are found from the end by searching bytes: that costs a call no parser, and
a line of another shape is a fact that is not known. At the end of a turn its lines are parsed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_BLOCK_BYTES = 256 << 10
_MOST_BYTES = 32 << 20
_WRITABLE = b'{"path":{"type":"path","path":"'
_ACCESS = b'"},"access":"write"}'


def writable(path: str, turn_id: str) -> tuple[str, ...] | None:
    """The directories that commands of this turn may write to; None: any at all.

    What cannot be told counts as none of them.
    """
    mark = f'"type":"turn_context","payload":{{"turn_id":"{turn_id}"'.encode()
    line = _last_line(path, mark)
    if line is None:
        return ()
    if b'"sandbox_policy":{"type":"danger-full-access"}' in line:
        return None
    found = []
    for part in line.split(_WRITABLE)[1:]:
        directory, access, _ = part.partition(_ACCESS)
        # One without quotes and escapes is the path itself.
        if access and not {b'"', b"\\"} & {bytes([one]) for one in directory}:
            found.append(os.fsdecode(directory))
    return tuple(dict.fromkeys(found))


def exit_code(path: str, call_id: str) -> int | None:
    """The exit status of a command that has just ended; None: it is not told."""
    line = _last_line(path, b'"type":"item_completed"', f'"id":"{call_id}"'.encode())
    if line is None:
        return None
    # Inside the output, the quotes are escaped.
    _, _, rest = line.rpartition(b'"exit_code":')
    digits = rest[: rest.find(b",")] if b"," in rest else b""
    sign = digits[:1] == b"-"
    return int(digits) if digits[sign:].isdigit() else None


def _last_line(path: str, *marks: bytes) -> bytes | None:
    """The last line that holds all of `marks`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        place = size = os.fstat(descriptor).st_size
        tail = b""
        while place > 0 and size - place < _MOST_BYTES:
            block = min(_BLOCK_BYTES, place)
            place -= block
            tail = os.pread(descriptor, block, place) + tail
            head = 0 if place == 0 else tail.find(b"\n") + 1
            if head == 0 and place:
                continue  # still within one line
            found = tail.rfind(marks[0], head)
            while found >= 0:
                begin = tail.rfind(b"\n", 0, found) + 1
                end = tail.find(b"\n", found)
                # One that is still being written is none yet.
                if end >= 0 and all(mark in tail[begin:end] for mark in marks):
                    return tail[begin:end]
                found = tail.rfind(marks[0], head, begin)
            tail = tail[:head]
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


class Told:
    """A call as the transcript tells it.

    `input` and `output` are what the model asked for and was given; `output` None: nothing yet.
    `item` is what Codex says happened: its status and exit status; None: nothing did.
    """

    __slots__ = ("call_id", "input", "item", "name", "output")

    def __init__(self, call_id: str, name: str, given: object) -> None:
        self.call_id = call_id
        self.name = name
        self.input = given
        self.output: object = None
        self.item: dict[str, Any] | None = None


_OUTPUTS = {"function_call_output", "custom_tool_call_output"}
# Scripts of code mode; the calls inside them are calls of their own.
_SCRIPTS = {"exec", "wait"}
_NESTED = {"CommandExecution": "Bash", "McpToolCall": None, "FileChange": "apply_patch"}


def turn(path: str, turn_id: str | None) -> list[Told]:
    """The calls of the turn of that id, in order; of the last one if it is None."""
    import json

    calls: dict[str, Told] = {}
    for line in _lines(path):
        try:
            record = json.loads(line)
            payload = record["payload"]
            kind = payload.get("type")
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if record.get("type") == "turn_context":
            if turn_id is None or payload.get("turn_id") == turn_id:
                calls.clear()
        elif kind in ("function_call", "custom_tool_call"):
            told = _call(payload)
            if told is not None and told.name not in _SCRIPTS:
                calls[told.call_id] = told
        elif kind in _OUTPUTS:
            if payload.get("call_id") in calls:
                calls[payload["call_id"]].output = payload.get("output")
        elif kind == "item_completed" and isinstance(payload.get("item"), dict):
            _happened(calls, payload["item"], payload.get("turn_id"), turn_id)
    return list(calls.values())


def _call(payload: dict[str, Any]) -> Told | None:
    import json

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


def _happened(
    calls: dict[str, Told], item: dict[str, Any], of_turn: object, turn_id: str | None
) -> None:
    """Note what became of a call; one inside a script is a call that only this tells of."""
    call_id, kind = item.get("id"), item.get("type")
    if not isinstance(call_id, str) or (turn_id is not None and of_turn != turn_id):
        return
    if call_id not in calls:
        if kind not in _NESTED or not call_id.startswith("exec-"):
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


def _lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
    except (OSError, ValueError):
        return
