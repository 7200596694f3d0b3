"""What a reader sees at once of a large output: its head and a larger tail, within bounds.

The status and what is wrong with the capture stand outside the clipped body. Source: seed 004,
"Representation, identity and inline receipt".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from yarp.spool.receipt import PreviewFact, PreviewState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CHARACTER_BYTES = 4  # of UTF-8, at most


@attrs.frozen
class Budget:
    """How much a preview may show.

    `stdout` and `stderr` in characters, `combined_bytes` of UTF-8 for both with all that stands
    between them. A quarter goes to the head.
    """

    stdout: int = 8000
    stderr: int = 2000
    combined_bytes: int = 16 << 10

    def characters(self, stream: int) -> int:
        """What the stream of that number may show; further ones as the first."""
        return self.stderr if stream == 1 else self.stdout


class Ends:
    """The first and the last bytes of a stream's representation, in bounded memory."""

    def __init__(self, characters: int) -> None:
        self._room = characters * _CHARACTER_BYTES
        self._head = b""
        self._tail = bytearray()
        self.byte_length = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the representation."""
        self.byte_length += len(data)
        if len(self._head) < self._room:
            taken = data[: self._room - len(self._head)]
            self._head += taken
            data = data[len(taken) :]
        if len(data) >= self._room:
            self._tail = bytearray(data[-self._room :])
        elif data:
            self._tail += data
            if len(self._tail) > 2 * self._room:
                del self._tail[: -self._room]

    def parts(self) -> tuple[bytes, int, bytes]:
        """The head, the number of bytes between, and the tail."""
        tail = bytes(self._tail[-self._room :])
        return self._head, self.byte_length - len(self._head) - len(tail), tail


@attrs.frozen
class Preview:
    """`status` and `notes` first, then `body`, of which `fact` tells the state and the size."""

    status: str
    notes: tuple[str, ...]
    body: str
    fact: PreviewFact

    @property
    def text(self) -> str:
        """All of it."""
        lines = [line for line in (self.status, *self.notes) if line]
        return "\n".join([*lines, self.body] if self.body else lines)


def make(
    streams: Sequence[tuple[str, Ends]],
    *,
    status: str,
    notes: Iterable[str] = (),
    failed: bool = False,
    budget: Budget | None = None,
) -> Preview:
    """The preview of the named streams; when the process failed, stderr stands first."""
    budget = budget or Budget()
    order = sorted(range(len(streams)), key=lambda n: (not (failed and n == 1), n))
    shown = [n for n in order if streams[n][1].byte_length]
    left = budget.combined_bytes
    complete = True
    blocks = []
    for n in shown:
        name, ends = streams[n]
        title = "" if len(shown) == 1 and n == 0 else f"[{name}]\n"
        left -= len(title) + 1
        text, whole = _clip(ends, budget.characters(n), left)
        complete = complete and whole
        if not text and not whole:
            left += len(title) + 1
            continue  # there is no room even to say what is left out
        left -= len(text.encode())
        blocks.append(title + text)
    body = "\n".join(block.rstrip("\n") for block in blocks)
    state = PreviewState.COMPLETE if complete else PreviewState.HEAD_TAIL
    return Preview(status, tuple(notes), body, PreviewFact(state, len(body.encode())))


def _clip(ends: Ends, characters: int, byte_length: int) -> tuple[str, bool]:
    """What fits of a stream, and whether that is all of it."""
    head, between, tail = ends.parts()
    if not between:
        text = safe(head + tail)
        if len(text) <= characters and len(text.encode()) <= byte_length:
            return text, True
        head = tail = head + tail
    marker = f"\n[… {ends.byte_length} bytes in all, the middle is left out …]\n"
    byte_length -= len(marker.encode())
    if byte_length < 0:
        return "", False
    first = _within(safe(head), characters // 4, byte_length // 4, end=False)
    byte_length -= len(first.encode())
    last = _within(safe(tail), characters - len(first), byte_length, end=True)
    return first + marker + last, False


def _within(text: str, characters: int, byte_length: int, *, end: bool) -> str:
    """The beginning, or the end, of a text, of so many characters and bytes at most."""
    if characters <= 0 or byte_length <= 0:
        return ""
    data = (text[-characters:] if end else text[:characters]).encode()
    data = data[-byte_length:] if end else data[:byte_length]
    return data.decode(errors="ignore")


def safe(data: bytes) -> str:
    """Bytes as text that a terminal shows without obeying it."""
    return data.decode(errors="replace").translate(_SHOWN)


# Control characters, and those that change the direction of what stands around them.
_SHOWN = {
    number: f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
    for number in (
        *(number for number in range(0x20) if chr(number) not in "\n\t"),
        *range(0x7F, 0xA0),
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
    )
}
