"""Takes what only steers a terminal out of a text: colours, titles, links, moves.

A secret may be coloured in the middle, by `grep --color` or `git diff`; so this comes before
any redactor. An escape may be cut anywhere by a chunk. Source: seed 004, "Current-state
inventory": "ANSI removal and configured credential redaction precede formatted spills".
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]{0,256}[ -/]{0,16}[@-~]?"  # CSI
    rb"|[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # strings: OSC, DCS, SOS, PM, APC
    rb"|[ -/]{0,4}[0-~]?"  # all others
    rb")"
)
# One to which no later byte can belong.
_WHOLE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*\x07|[ -/]*[0-OQ-WYZ\\`-~])"
)


class Escapes:
    """Removes the terminal's escapes from one stream; `held` may be the beginning of one."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of an escape; 4 KiB and little more at most."""
        return len(self._rest)

    def feed(self, text: bytes) -> bytes:
        """The text without escapes, as far as that can be told."""
        if self._rest:
            text = self._rest + text
            self._rest = b""
        at = text.rfind(b"\x1b")
        if at < 0:
            return text
        last = _ESCAPE.match(text, at)
        if last is not None and last.end() == len(text) and not _WHOLE.fullmatch(text, at):
            self._rest, text = text[at:], text[:at]
        return _ESCAPE.sub(b"", text)

    def finish(self) -> bytes:
        """Nothing: what only began as an escape is none of the text either."""
        self._rest = b""
        return b""
