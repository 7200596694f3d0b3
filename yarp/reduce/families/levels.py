"""What a line of a log says of itself: its level, or words of trouble.

Both stand in few places of few lines: `Hints` looks for what they need in many lines at once, so
that most lines are passed over without a pattern.
"""

from __future__ import annotations

from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

FATAL, ERROR, WARNING, ROUTINE, FRAME = range(5)
_LEVELS = {
    ERROR: (b"error", b"err", b"severe", b"failed"),
    FATAL: (b"fatal", b"critical", b"crit", b"alert", b"emerg", b"emergency", b"panic"),
    WARNING: (b"warn", b"warning"),
    ROUTINE: (b"info", b"notice", b"debug", b"trace", b"verbose", b"information"),
}
RANKS = {word: rank for rank, words in _LEVELS.items() for word in words}
# The longer word first where one is the beginning of another.
_WORDS = b"|".join([word for _, word in sorted((-len(word), word) for word in RANKS)])
# A level is the first of these four in a line.
_CAPITALS = pattern_of(rb"[A-Z][A-Z]{2,}(?![A-Za-z_-])")
_BESIDE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-")
_KEYED = pattern_of(
    rb"(?i)\b(?:level|lvl|severity|loglevel)[\"']?\s*[=:]\s*[\"']?(" + _WORDS + rb")\b"
)
_KEYS = (b"level", b"lvl", b"severity")
_BRACKETED = pattern_of(rb"[\[<(](?i:(" + _WORDS + rb"))[\])>]")
_KLOG = pattern_of(rb"(?:\S+\s+\|\s+)?([EWIF])[0-9]{4} [0-9:.]+ +[0-9]+ ")
_KLOG_LEVELS = {b"E": b"error", b"W": b"warning", b"I": b"info", b"F": b"fatal"}
# Words of trouble where no level is given; they also find trouble among lines too many to count.
TROUBLE = (
    rb"\b(?:errors?|fatal|fail(?:ed|ure|ures|s)?|exception|traceback|panic|denied|refused|killed"
    rb"|oom|abort(?:ed)?|corrupt(?:ed)?|segfault|segmentation|unreachable|cannot|unable|crash(?:ed)?"
    rb"|timed ?out|timeout|fehler|fehlgeschlagen|erreur|\xc3\xa9chec|fallo|erro|errore)\b"
    rb"|[A-Za-z](?:Error|Exception)\b"
    rb"|\xe9\x94\x99\xe8\xaf\xaf|\xe5\xa4\xb1\xe8\xb4\xa5|\xe5\xa4\xb1\xe6\x95\x97"
    rb"|\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc|\xec\x98\xa4\xeb\xa5\x98|\xec\x8b\xa4\xed\x8c\xa8"
    rb"|\xd0\xbe\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba|\xd0\x9e\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba"
)
_ERROR = pattern_of(rb"(?i)" + TROUBLE)
# What `_ERROR` finds in ASCII has one of these in lower case: most lines have none.
_STEMS = (
    *(b"err", b"fatal", b"fail", b"exception", b"traceback", b"panic", b"denied", b"refused"),
    *(b"killed", b"oom", b"abort", b"corrupt", b"segfault", b"segmentation", b"unreachable"),
    *(b"cannot", b"unable", b"crash", b"timed", b"timeout", b"fehl", b"fallo"),
)
NO_ERROR = pattern_of(rb"(?i)\b(?:0|no|without) (?:errors?|fail(?:ed|ures?))|\berrors?[=:] ?0\b")
WARN = pattern_of(
    rb"(?i)\b(?:warn(?:ing)?s?|deprecat\w*|avertissement|warnung|advertencia)\b"
    rb"|\xe8\xad\xa6\xe5\x91\x8a|\xe8\xad\xa6\xe5\x91\x8a|\xea\xb2\xbd\xea\xb3\xa0"
)


class Hints:
    """What stands in some of the lines that it was shown, and so what to look for in each."""

    __slots__ = ("keyed", "stems")

    def __init__(self, lines: list[bytes]) -> None:
        self.stems: list[bytes] = []
        self.keyed = False
        self.add(lines)

    def add(self, lines: list[bytes]) -> None:
        """Look at more lines."""
        text = b"\n".join(lines).lower()
        self.stems += [stem for stem in _STEMS if stem not in self.stems and stem in text]
        self.keyed = self.keyed or any(map(text.__contains__, _KEYS))


def level_of(line: bytes, hints: Hints) -> tuple[int, int, bytes] | None:
    """Where a line first says its level, from and to, and the level; None if it says none."""
    best = _capitals(line)
    if best is None or _opens(line, best[0]):
        best = _earlier(best, _BRACKETED.search(line))
    if hints.keyed:
        best = _earlier(best, _KEYED.search(line))
    if (best is None or best[0]) and (line[:1] in b"EWIF" or b"|" in line):
        klog = _KLOG.match(line)
        if klog:
            return *klog.span(), _KLOG_LEVELS[klog[1]]
    return best


def _capitals(line: bytes) -> tuple[int, int, bytes] | None:
    found = _CAPITALS.search(line)
    while found:
        start, end = found.span()
        level = found[0].lower()
        if level in RANKS and not (start and line[start - 1] in _BESIDE):
            return start, end, level
        found = _CAPITALS.search(line, end)
    return None


def _opens(line: bytes, end: int) -> bool:
    """Whether a bracket stands before `end`."""
    return line.find(b"[", 0, end) >= 0 or line.find(b"<", 0, end) >= 0 or b"(" in line[:end]


def _earlier(
    best: tuple[int, int, bytes] | None, found: re.Match[bytes] | None
) -> tuple[int, int, bytes] | None:
    if found is None or (best is not None and best[0] < found.start()):
        return best
    return *found.span(), found[1].lower()


def error_in(line: bytes, hints: Hints) -> re.Match[bytes] | None:
    """The first word of trouble in a line."""
    if line.isascii() and not (hints.stems and any(map(line.lower().__contains__, hints.stems))):
        return None
    return _ERROR.search(line)
