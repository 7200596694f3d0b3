"""What Codex's own transcript says of a call that its hooks do not: read, never written.

A transcript is JSON lines, appended to; `turn_context` opens each turn. The few facts are found
from its end by searching bytes: that costs a call no parser, and a line of another shape is a
fact that is not known.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# The kind of a record stands at its beginning.
HEAD_BYTES = 256
NESTED_ID = "exec-"
_BLOCK_BYTES = 256 << 10
# How far back is looked for a call's turn.
_CALL_BYTES = 32 << 20
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
    opens = f'"type":"turn_context","payload":{{"turn_id":"{turn_id}"'.encode("utf-8", "replace")
    named = f'"call_id":"{call_id}"'.encode("utf-8", "replace")
    nested = call_id.startswith(NESTED_ID)
    ended: set[bytes] = set()
    for line in from_the_end(path, _CALL_BYTES):
        head = line[:HEAD_BYTES]
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
    line = _last_line(
        path, b'"type":"item_completed"', f'"id":"{call_id}"'.encode("utf-8", "replace")
    )
    if line is None:
        return None
    # Inside the output, the quotes are escaped.
    _, _, rest = line.rpartition(b'"exit_code":')
    digits = rest[: rest.find(b",")] if b"," in rest else b""
    sign = digits[:1] == b"-"
    return int(digits) if digits[sign:].isdigit() else None


def _last_line(path: str, *marks: bytes) -> bytes | None:
    """The last line that holds all of `marks`."""
    for line in from_the_end(path, _CALL_BYTES):
        if all(mark in line for mark in marks):
            return line
    return None


def from_the_end(path: str, most_bytes: int) -> Iterator[bytes]:
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
