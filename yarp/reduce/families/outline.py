"""Outlines: indented `Name: value` lines, as describe and status commands print them.

What says how a thing is (state, reason, exit code, conditions, events) stays; what says how it
is set up goes first. Lines of a log below the outline are read for trouble.
"""

from yarp.reduce.families.base import Piece
from yarp.reduce.families.lines import split
from yarp.reduce.families.patterns import pattern_of

_KEPT_BYTES = 1 << 20
_LINE_SHOWN = 300
# What a forge says of one pull request takes two lines.
_ITEM = pattern_of(rb"  #[0-9]+ ")
_NUMBER = pattern_of(rb"[0-9a-f]{6,}|[0-9]+")
_WORD = pattern_of(rb"[A-Za-z][\w-]{3,}")
_STATE = pattern_of(
    rb"(?i)^\W*(?:status|state|last state|reason|message|exit ?code|ready|restart count|active"
    rb"|loaded"
    rb"|phase|health|condition|failed|error|warning|result|conclusion|main pid|name|namespace|title"
    rb"|started|finished|revision|last deployed|replicas|url|node|image(?! id)|process"
    rb"|\xe2\x97\x8f.*"
    rb"|triggered ?by|draft|author|checks?|number)\b\s*[:=\t]"
)
_TROUBLE = pattern_of(
    rb"(?i)\b(?:error|errors|fail(?:ed|ure|ing|s)?|fatal|warning|backoff|back-off|crash\w*|oomkilled"
    rb"|denied|refused|timed? ?out|unhealthy|evicted|killed|unable|cannot|not found|exception|panic"
    rb"|unschedulable|insufficient|conflict\w*|fehler\w*|fehlgeschlagen|erreur|\xc3\xa9chec)\b"
    rb"|CrashLoopBackOff|ErrImagePull|ImagePullBackOff|exit(?:ed)?[- ]code[:= ]+[1-9]|status=[1-9]"
    rb"|^\s+\w+\s+False\s*$|\bX\s|\xe2\x9c\x97|\xe2\x9c\x98"
)
_QUIET = pattern_of(rb"(?i)<none>|#failure=|\bnone\b|\bno errors?\b|:\s*(?:0|false|\[\])\s*$")


class Outline:
    """Reads one outline."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._kept = 0
        self._last = b""
        self._more = 0

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        if self._kept < _KEPT_BYTES:
            self._parts.append(block)
            self._kept += len(block)
        else:
            self._last = block[-2048:]
            self._more += block.count(b"\n")

    def pieces(self) -> list[Piece]:
        """The lines worth showing, in their order, each under the headings it stands below."""
        lines = split(b"".join(self._parts))
        pieces: list[Piece] = []
        seen: dict[bytes, int] = {}
        blank = 0
        first = b""  # the first line of an item that goes on in the next one
        for at, line in enumerate(lines):
            text = line.rstrip()
            below = lines[at + 1] if at + 1 < len(lines) else b""
            if not text:
                blank += 1
                continue
            if _ITEM.match(text) and below.startswith(b"  ") and not _ITEM.match(below):
                first = text + b"\n"
                continue
            shape = _NUMBER.sub(b"#", text)
            again = seen.get(shape, 0)
            seen[shape] = again + 1
            worth = self._worth(text, at, len(lines))
            if not text[:1].isspace() and below[:1].isspace():
                worth = min(worth, 2)  # what the lines below are about
            if again >= 3 and not first:
                worth = max(worth, 7)
            if len(text) > _LINE_SHOWN:
                text = text[:_LINE_SHOWN] + b" [...]"
            text, first = first + text, b""
            pieces.append(Piece(text, worth, 0, terms=_terms(text)))
        if pieces:
            pieces[0].worth = 0
            pieces[0].lines += blank
        if self._more:
            pieces += [Piece(line, 5) for line in split(self._last)[-5:]]
        return pieces

    def _worth(self, line: bytes, at: int, size: int) -> int:
        if _TROUBLE.search(line) and not _QUIET.search(line):
            return 1
        depth = len(line) - len(line.lstrip())
        if _STATE.match(line):
            return 2 + (depth > 4) + 2 * (depth > 8)
        if at >= size - 2:
            return 3
        if depth == 0:
            return 4
        return 6 if depth < 4 else 8


def _terms(line: bytes) -> tuple[str, ...]:
    found = _TROUBLE.search(line) or _WORD.search(line)
    return (found[0].decode("utf-8", "replace"),) if found else ()
