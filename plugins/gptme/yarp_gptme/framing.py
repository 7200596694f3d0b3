"""What a command wrote, out of what its persistent shell's pipe carries.

gptme has one bash for a conversation and frames each command: a line with a mark of its own
comes first, and `ReturnCode:N PWDHEX:… MARK` comes last, right behind the output. What is left
over from earlier commands stands before the frame and is nobody's. What stands behind it comes
from what the command left running: it goes with the command's own, behind it.
"""

from __future__ import annotations

import re

_WORD = b"ReturnCode:"
# The path in it is written in hexadecimal; a path takes 4096 bytes at most.
_MOST_BYTES = 16 << 10


class Frame:
    """One command's frame; `ended` once its last line was seen, `late` if bytes came behind it."""

    def __init__(self, start_mark: str, end_mark: str) -> None:
        self._start = start_mark.encode()
        self._end = re.compile(
            rb"ReturnCode:-?\d* PWDHEX:[0-9a-f]* " + re.escape(end_mark.encode())
        )
        self._held = b""
        self._started = False
        self._line_end_due = False
        self.ended = self.late = False

    def feed(self, chunk: bytes) -> bytes:
        """The command's own bytes that can be told by now, whatever the chunks."""
        if self.ended:
            return self._behind_end(chunk)
        data = self._held + chunk
        if not self._started:
            data = self._behind_start(data)
            if not self._started:
                self._held = data
                return b""
        found = self._end.search(data)
        if found is not None:
            self.ended, self._held = True, b""
            self._line_end_due = True
            return data[: found.start()] + self._behind_end(data[found.end() :])
        keep = _undecided(data)
        self._held = data[keep:]
        return data[:keep]

    def _behind_end(self, data: bytes) -> bytes:
        """What stands behind the frame's last line."""
        if self._line_end_due and data:
            self._line_end_due = False
            data = data.removeprefix(b"\n")
        self.late = self.late or bool(data)
        return data

    def finish(self) -> bytes:
        """What is left when no more comes: only began like a frame's end."""
        held, self._held = (self._held if self._started else b""), b""
        return b"" if self.ended else held

    def _behind_start(self, data: bytes) -> bytes:
        """What stands behind the line of the start mark; before it came, its possible beginning."""
        at = data.find(self._start)
        if at < 0:
            return data[-len(self._start) :]
        line_end = data.find(b"\n", at)
        if line_end < 0:
            return data[at:]
        self._started = True
        return data[line_end + 1 :]


def _undecided(data: bytes) -> int:
    """From where the last, unfinished line may turn out to be the frame's end."""
    line = data.rfind(b"\n") + 1
    at = data.rfind(_WORD, line)
    if at >= 0 and len(data) - at <= _MOST_BYTES:
        return at
    for size in range(min(len(_WORD) - 1, len(data) - line), 0, -1):
        if data.endswith(_WORD[:size]):
            return len(data) - size
    return len(data)
