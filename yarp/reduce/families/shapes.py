"""Lines by what they look like: how often each kind occurs, with the first and last of it.

Two lines are of one shape when they differ in digits only (in letters a to f too, once nearly
every line carries an identifier of its own). Taking characters out of a whole block costs a
fraction of looking at each line, which is what most of a log is worth.
"""

from __future__ import annotations

from collections import Counter

from yarp.reduce.families.lines import split
from yarp.reduce.families.patterns import pattern_of

# Shapes told apart; lines of any further shape are only looked at for words of trouble.
SHAPES_KEPT = 4096
# In a flood of ever new shapes one block in so many is counted, to see whether it has ended.
_LOOK_AGAIN = 16
_DIGITS = b"0123456789"
_HEXADECIMAL = b"0123456789abcdefABCDEF-"
_FEW = 16
# The first character is taken before anything is said of it: so most are passed over at once.
_VARYING = pattern_of(
    rb"[0-9A-FJMNOSa-f](?:"
    rb"(?=[0-9a-fA-F]{5})(?:"
    rb"[0-9a-fA-F]{7}(?<=[0-9a-fA-F]{8})(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    rb"|(?<![0-9A-Za-z].)(?<=[0-9a-f])(?:(?<=[0-9])|(?=[a-f]*[0-9]))[0-9a-f]{5,}(?![0-9A-Za-z]))"
    rb"|(?<=[0-9])(?:(?<=0)x(?<![0-9A-Za-z]0x)[0-9a-fA-F]+|[0-9]*(?:[.,:/][0-9]+)*)"
    rb"|(?<=[ADFJMNOS])(?:(?<=J)(?:an|u[nl])|(?<=F)eb|(?<=M)a[ry]|(?<=A)(?:pr|ug)|(?<=S)ep"
    rb"|(?<=O)ct|(?<=N)ov|(?<=D)ec) +[0-9]+)"
)
# Anchored where a word starts: a long word without a slash or a number is looked at once.
_VALUES = pattern_of(
    rb"'[^']*'|\"[^\"]*\"|(?<![A-Za-z_.-])(?:(?<=[=:])[^\s,;=:]+|(?<!\S)[^\s/@\\]*+[/@\\]\S*+"
    rb"|[A-Za-z_.-]*+#[A-Za-z_.#-]*+)"
)


class Shape:
    """One kind of line: its first and last occurrence (a line, its number from 0), how many."""

    __slots__ = ("at", "count", "first", "key", "last", "last_at", "ranked")

    def __init__(self, key: bytes, first: bytes, at: int) -> None:
        self.key = key
        self.first = self.last = first
        self.at = self.last_at = at
        self.count = 0
        # What the user of shapes made of the first line.
        self.ranked: object = None


class Shapes:
    """Counts the lines of one stream by shape; `fresh` and `strangers` are for subclasses."""

    def __init__(self) -> None:
        self.known: dict[bytes, Shape] = {}
        self.lines = 0
        # Lines of shapes beyond those kept.
        self.others = 0
        # Blocks left until one is counted again; 0 where every one is.
        self._flooded = 0
        self.partial = False
        self._out = _DIGITS

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        if self._flooded > 1:
            self._flooded -= 1
            self.flood(block)
            count = block.count(b"\n")
            self.others += count
            self.lines += count
            return
        self._flooded = 0
        keys = split(block.translate(None, self._out))
        counts = Counter(keys)
        unknown = [key for key in counts if key not in self.known]
        if len(unknown) > max(_FEW, len(keys) // 4) and self._out is _DIGITS:
            shorter = split(block.translate(None, _HEXADECIMAL))
            if len(set(shorter)) * 4 <= len(unknown):
                self._out = _HEXADECIMAL
                self._merge(lambda shape: shape.key.translate(None, _HEXADECIMAL))
                keys, counts = shorter, Counter(shorter)
                unknown = [key for key in counts if key not in self.known]
        lines: list[bytes] | None = None
        room = SHAPES_KEPT - len(self.known)
        if unknown:
            lines = split(block)
            self._meet(keys, lines, unknown[:room])
            if len(unknown) > room:
                out = set(unknown[room:])
                strange = [at for at, key in enumerate(keys) if key in out]
                self.others += len(strange)
                self.strangers(lines, strange)
                if len(strange) * 2 > len(keys):
                    self._flooded = _LOOK_AGAIN
                    self.partial = True
        watched = []
        for key, count in counts.items():
            shape = self.known.get(key)
            if shape is not None:
                shape.count += count
                if count > 1 or shape.count > 1:
                    watched.append(shape)
        watched = [shape for shape in watched if self.watches(shape)]
        if watched:
            lines = lines or split(block)
            last = dict(zip(keys, range(len(keys)), strict=True))
            for shape in watched:
                at = last[shape.key]
                shape.last, shape.last_at = lines[at], self.lines + at
        self.lines += len(keys)

    def _meet(self, keys: list[bytes], lines: list[bytes], unknown: list[bytes]) -> None:
        first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        met = []
        for key in unknown:
            at = first[key]
            shape = self.known[key] = Shape(key, lines[at], self.lines + at)
            met.append((at, shape))
        self.fresh(lines, met)

    def _merge(self, key_of: _KeyOf) -> None:
        merged: dict[bytes, Shape] = {}
        for shape in self.known.values():
            key = key_of(shape)
            other = merged.get(key)
            if other is None:
                merged[key] = shape
                shape.key = key
                continue
            other.count += shape.count
            if shape.last_at > other.last_at:
                other.last, other.last_at = shape.last, shape.last_at
        self.known = merged

    def watches(self, shape: Shape) -> bool:
        """Whether the last line of this shape is wanted too."""
        del shape
        return False

    def fresh(self, lines: list[bytes], met: list[tuple[int, Shape]]) -> None:
        """Shapes met for the first time, with the place of their first line in `lines`."""

    def strangers(self, lines: list[bytes], places: list[int]) -> None:
        """Lines at these places whose shapes are beyond those kept."""

    def flood(self, block: bytes) -> None:
        """Lines in a flood of ever new shapes, which nobody counts one by one."""

    def settled(self) -> list[Shape]:
        """All shapes by first line, those merged that differ in numbers or identifiers only.

        The key of each is its masked first line.
        """
        self._merge(lambda shape: masked(shape.first))
        return sorted(self.known.values(), key=lambda shape: shape.at)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    _KeyOf = Callable[[Shape], bytes]


def masked(line: bytes) -> bytes:
    """The line with `#` for each number, identifier and date."""
    return _VARYING.sub(b"#", line)


def vague(masked_line: bytes) -> bytes:
    """A masked line with values, quoted texts and paths taken out as well."""
    return _VALUES.sub(b"*", masked_line)
