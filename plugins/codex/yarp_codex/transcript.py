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

# The kind of a record stands at its beginning.
_HEAD_BYTES = 256
_NESTED_ID = "exec-"
_BLOCK_BYTES = 256 << 10
# How far back is looked for a call's turn, and for the calls of a turn that ends.
_CALL_BYTES = 32 << 20
_TURN_BYTES = 256 << 20
_WRITABLE = b'{"path":{"type":"path","path":"'
_ACCESS = b'"},"access":"write"}'


class Before:
    """What the transcript tells of a call that is about to run.

    `writable`: the directories that it may write to; None: any at all; what cannot be told counts
    as none of them. `arguments`: what the model asked for, where it says more than the text.
    `scripts`: the sources of what runs now in code mode.
    """

    __slots__ = ("arguments", "scripts", "writable")

    def __init__(self) -> None:
        self.writable: tuple[str, ...] | None = ()
        self.arguments: dict[str, Any] = {}
        self.scripts: list[str] = []


def before(path: str, turn_id: str, call_id: str) -> Before:
    """What stands in the transcript of this turn and of this call."""
    found = Before()
    opens = f'"type":"turn_context","payload":{{"turn_id":"{turn_id}"'.encode()
    named = f'"call_id":"{call_id}"'.encode()
    nested = call_id.startswith(_NESTED_ID)
    ended: set[bytes] = set()
    for line in _from_the_end(path, _CALL_BYTES):
        head = line[:_HEAD_BYTES]
        if opens in head:
            found.writable = _writable(line)
            break
        if nested and b'"type":"custom_tool_call' in head:
            call = line.partition(b'"call_id":"')[2].partition(b'"')[0]
            if b'_output"' in head:
                # One that only waits for its end goes on.
                if b"cell ID" not in line:
                    ended.add(call)
            elif call not in ended:
                found.scripts.append(str(_payload(line).get("input")))
        elif b'"type":"function_call"' in head and named in line and _says_more(line):
            found.arguments = _arguments(_payload(line))
    return found


def _writable(line: bytes) -> tuple[str, ...] | None:
    """The directories that a `turn_context` lets commands write to; None: any at all."""
    if b'"sandbox_policy":{"type":"danger-full-access"}' in line:
        return None
    found = []
    for part in line.split(_WRITABLE)[1:]:
        directory, access, _ = part.partition(_ACCESS)
        # One without quotes and escapes is the path itself.
        if access and not {b'"', b"\\"} & {bytes([one]) for one in directory}:
            found.append(os.fsdecode(directory))
    return tuple(dict.fromkeys(found))


def _says_more(line: bytes) -> bool:
    return b'\\"workdir\\"' in line or b'\\"shell\\"' in line


def _payload(line: bytes) -> dict[str, Any]:
    import json

    try:
        payload = json.loads(line)["payload"]
    except (ValueError, TypeError, KeyError):
        return {}
    return payload if isinstance(payload, dict) else {}


def _arguments(payload: dict[str, Any]) -> dict[str, Any]:
    import json

    try:
        found = json.loads(payload["arguments"])
    except (ValueError, TypeError, KeyError):
        return {}
    return found if isinstance(found, dict) else {}


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
    for line in _from_the_end(path, _CALL_BYTES):
        if all(mark in line for mark in marks):
            return line
    return None


def _from_the_end(path: str, most_bytes: int) -> Iterator[bytes]:
    """The whole lines of a file, the last one first, within its last bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        place = size = os.fstat(descriptor).st_size
        held = list[bytes]()  # the pieces of a line whose beginning is still to come
        while place > 0 and size - place < most_bytes:
            length = min(_BLOCK_BYTES, place)
            place -= length
            head, *lines = os.pread(descriptor, length, place).split(b"\n")
            if lines:
                lines[-1] += b"".join(reversed(held))
                if size - place == length:
                    lines.pop()  # what follows the last line end is still being written
                yield from reversed(lines)
                held = []
            held.append(head)
        if place == 0 and held:
            line = b"".join(reversed(held))
            if size != len(line):
                yield line
    except OSError:
        return
    finally:
        os.close(descriptor)


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


def turn(path: str, turn_id: str | None) -> list[Told]:
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
    import json

    found: list[dict[str, Any]] = []
    behind: list[dict[str, Any]] = []  # what stands behind the record that is looked for
    for line in _from_the_end(path, _TURN_BYTES):
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


def _happened(calls: dict[str, Told], item: dict[str, Any]) -> None:
    """Note what became of a call; one inside a script is a call that only this tells of."""
    call_id, kind = item.get("id"), item.get("type")
    if not isinstance(call_id, str):
        return
    if call_id not in calls:
        if kind not in _NESTED or not call_id.startswith(_NESTED_ID):
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
