r"""What a search looks for: RE2 expressions over normalised lines, in linear time.

A line is normalised before it is matched or shown: its ending and its terminal sequences are
gone, and what a terminal would obey or could not decode stands as `\xNN` or `\u{N}` (a tab
stays). So text always matches as it is displayed, and no line of one block runs into the next.
Source: reference 2.6; spec "Archive", search.
"""

from __future__ import annotations

import sys

from yarp.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_PATTERNS = 8
MAX_PATTERN_BYTES = 1024
# Larger programs make RE2's automaton fall back to a slow simulation.
_MAX_PROGRAM = 20_000
_MEMORY_BYTES = 16 << 20

# One finished terminal sequence; what is unfinished at the line's end stays visible.
_TERMINAL = b"|".join(
    (
        rb"\x1b\[[0-?]*[ -/]*[@-~]",  # control sequences: colour, cursor
        rb"\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)",  # strings: titles, links
        rb"\x1b[ -/]+[0-~]",  # character sets
        rb"\x1b[0-OQ-WYZ\\`-~]",
    )
)
# All of these are shown in their escaped form; newline and tab are text.
_CONTROLS = bytes(byte for byte in (*range(32), 127) if byte not in b"\n\t")
_NOT_CONTROLS = bytes(byte for byte in range(256) if byte not in _CONTROLS)
_HIGH_CONTROL = rb"\xc2[\x80-\x9f]"


def engine() -> Any:
    """RE2's extension module, alone when nothing has loaded its package: half the start-up."""
    name = "re2._re2"
    module = sys.modules.get(name)
    if module is None and "re2" not in sys.modules:
        from yarp.payload import load_alone

        try:
            module = load_alone("re2", name)
        except (ImportError, AttributeError):
            module = None
    if module is None:
        import re2

        module = re2._re2  # noqa: SLF001 - the package has no public name for it
    return module


def _compiled(pattern: bytes, *, fold: bool = False, latin: bool = False) -> Any:
    re2 = engine().RE2
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True
    options.max_mem = _MEMORY_BYTES
    options.case_sensitive = not fold
    if latin:
        options.encoding = re2.Options.Encoding.LATIN1
    return re2(pattern, options)


class Matcher:
    """The patterns of one search, compiled; a line is selected when any of them matches.

    Raises UsageError, which says what to do, for patterns RE2 does not take.
    """

    __slots__ = ("_anchor", "_by_line", "_expression", "_high", "_terminal")

    def __init__(
        self,
        patterns: list[bytes],
        *,
        fixed: bool = False,
        ignore_case: bool = False,
        words: bool = False,
    ) -> None:
        if not 0 < len(patterns) <= MAX_PATTERNS:
            raise UsageError(f"{len(patterns)} patterns; give 1 to {MAX_PATTERNS} of them")
        parts = []
        for pattern in patterns:
            if not 0 < len(pattern) <= MAX_PATTERN_BYTES or b"\n" in pattern:
                raise UsageError(
                    f"a pattern must have 1 to {MAX_PATTERN_BYTES} bytes and no line break; "
                    "give several with -e"
                )
            part = engine().RE2.QuoteMeta(pattern) if fixed else pattern
            # Each alone: "a)(b" must not become right by what is put around it.
            self._checked(part, fold=ignore_case)
            if b"\\Q" in part and _compiled(part + b"\\E").ok():
                part += b"\\E"  # an open quotation would swallow what is put behind it
            parts.append(b"\\b(?:" + part + b")\\b" if words else b"(?:" + part + b")")
        joined = b"|".join(parts)
        self._by_line = not fixed and any(_is_about_text(pattern) for pattern in patterns)
        joined = joined if self._by_line else b"(?m)" + joined
        self._expression = self._checked(joined, fold=ignore_case)
        self._anchor = engine().RE2.Anchor.UNANCHORED
        self._terminal: Any = None
        self._high: Any = None

    def _checked(self, pattern: bytes, *, fold: bool) -> Any:
        expression = _compiled(pattern, fold=fold)
        if not expression.ok():
            reason = expression.error()
            reason = reason if isinstance(reason, str) else bytes(reason).decode(errors="replace")
            raise UsageError(
                f"the pattern is refused ({reason}); patterns are RE2 expressions without "
                "look-around and back-references: change it, or use -F for plain text"
            )
        if expression.ProgramSize() > _MAX_PROGRAM:
            raise UsageError(
                "the pattern is refused (too large once compiled); "
                "use smaller repetition counts or fewer patterns"
            )
        return expression

    def normalise(self, block: bytes) -> bytes:
        """The lines of `block` as they are matched and shown, without the last one's ending."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        if block.endswith(b"\n"):
            block = block[:-1]
        if b"\x1b" in block:
            block = self._without_terminal_sequences(block)
        if len(block.translate(None, _CONTROLS)) != len(block):
            for byte in set(block.translate(None, _NOT_CONTROLS)):
                block = block.replace(bytes((byte,)), b"\\x%02x" % byte)
        if not block.isascii():
            block = self._decoded(block)
        return block

    def _without_terminal_sequences(self, block: bytes) -> bytes:
        if self._terminal is None:
            self._terminal = _compiled(_TERMINAL, latin=True)
        parts = []
        at, end = 0, len(block)
        match = self._terminal.Match
        while True:
            first, last = match(self._anchor, block, at, end)[0]
            if first < 0:
                break
            parts.append(block[at:first])
            at = last
        parts.append(block[at:])
        return b"".join(parts)

    def _decoded(self, block: bytes) -> bytes:
        try:
            block.decode()
        except UnicodeDecodeError:
            block = block.decode("utf-8", "backslashreplace").encode()
        if b"\xc2" not in block:
            return block
        if self._high is None:
            self._high = _compiled(_HIGH_CONTROL, latin=True)
        if self._high.Match(self._anchor, block, 0, len(block))[0][0] >= 0:
            for byte in range(0x80, 0xA0):
                block = block.replace(b"\xc2" + bytes((byte,)), b"\\u{%x}" % byte)
        return block

    def lines(self, block: bytes) -> Iterator[tuple[int, int, int, int]]:
        """The selected lines of a normalised block.

        Each as the number of lines before it, where it starts and ends, and where it matches.
        """
        return self._each_line(block) if self._by_line else self._whole_block(block)

    def count(self, block: bytes) -> int:
        """How many lines of a normalised block are selected."""
        if self._by_line:
            return sum(1 for _ in self._each_line(block))
        match, anchor, find = self._expression.Match, self._anchor, block.find
        selected, at, end = 0, 0, len(block)
        while at <= end:
            hit, last = match(anchor, block, at, end)[0]
            if hit < 0:
                break
            selected += 1
            at = find(b"\n", last) + 1
            if not at:
                break
        return selected

    def _whole_block(self, block: bytes) -> Iterator[tuple[int, int, int, int]]:
        match, anchor = self._expression.Match, self._anchor
        number, at, end = 0, 0, len(block)
        while at <= end:
            hit, last = match(anchor, block, at, end)[0]
            if hit < 0:
                return
            start = max(at, block.rfind(b"\n", at, hit) + 1)
            stop = block.find(b"\n", last)
            stop = end if stop < 0 else stop
            number += block.count(b"\n", at, start)
            yield number, start, stop, hit
            number += 1
            at = stop + 1

    def _each_line(self, block: bytes) -> Iterator[tuple[int, int, int, int]]:
        match, anchor = self._expression.Match, self._anchor
        start = 0
        for number, line in enumerate(block.split(b"\n")):
            hit = match(anchor, line, 0, len(line))[0][0]
            if hit >= 0:
                yield number, start, start + len(line), start + hit
            start += len(line) + 1

    def within(self, piece: bytes, *, opens: bool, closes: bool) -> int:
        """Where a piece of one line matches, or -1.

        `opens` and `closes` say whether it begins and ends the line: elsewhere its first and
        last byte are only what anchors and word boundaries see.
        """
        start, end = (0 if opens else 1), len(piece) - (0 if closes else 1)
        found: int = self._expression.Match(self._anchor, piece, start, end)[0][0]
        return found


def _is_about_text(pattern: bytes) -> bool:
    """Whether a pattern may speak of the text's ends where a line's are meant.

    Too wide is only slow: such a pattern is matched line by line.
    """
    if any(mark in pattern for mark in (b"\\A", b"\\z", b"\\C")):
        return True
    at = pattern.find(b"(?")
    while at >= 0:
        flags = pattern[at + 2 :].partition(b")")[0].partition(b":")[0]
        if b"m" in flags and not flags.startswith((b"P<", b"<")):
            return True
        at = pattern.find(b"(?", at + 2)
    return False
