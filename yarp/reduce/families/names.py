"""Saying many names in few words without losing the odd one out.

Names that differ only in numbers become one line with ranges, the others are listed by
directory; what looks like nothing else in the list is told apart, so that it is kept longest.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_BYTES = 240
# Fewer than this many members are clearer as they are.
_RANGE_MEMBERS = 3
_LISTED = 8
# Identifiers made by machines, then plain numbers.
_NUMBER = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    rb"|(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![0-9A-Za-z])|[0-9]+"
)
_CLASSES = (
    (re.compile(rb"[a-z\x80-\xff]+"), b"a"),
    (re.compile(rb"[A-Z]+"), b"A"),
    (re.compile(rb"[0-9]+"), b"0"),
)


class Line:
    """One line for `count` names; `odd` when they look like few others of the list."""

    __slots__ = ("count", "odd", "term", "text")

    def __init__(self, text: bytes, count: int, odd: bool, term: bytes) -> None:
        self.text = text
        self.count = count
        self.odd = odd
        self.term = term


def factor(paths: list[bytes]) -> list[Line]:
    """Lines that say all `paths`, the odd ones first, then ranges, then the rest by directory."""
    groups: dict[tuple[bytes, ...], list[bytes]] = {}
    for path in paths:
        groups.setdefault(tuple(_NUMBER.split(path)), []).append(path)
    ranges: list[Line] = []
    classes = _Classes(groups.values())
    odd: dict[bytes, list[bytes]] = {}
    rest: dict[bytes, list[bytes]] = {}
    for shape, members in groups.items():
        if len(members) >= _RANGE_MEMBERS:
            line = Line(_ranges(shape, members), len(members), False, shape[0])
            ranges.append(line)
            continue
        for path in members:
            start = path.rfind(b"/", 0, len(path) - 1) + 1
            places = odd if classes.odd(path[start:]) else rest
            places.setdefault(path[:start], []).append(path[start:])
    return [
        *(line for place, names in odd.items() for line in _listed(place, names, odd=True)),
        *ranges,
        *(line for place, names in rest.items() for line in _listed(place, names, odd=False)),
    ]


def extension(name: bytes) -> bytes:
    """The extension with its dot, b'' for none."""
    stem, dot, last = name.rpartition(b"/")[2].rpartition(b".")
    return dot + last if stem and dot and last and len(last) <= 8 else b""


def counted(counts: dict[bytes, int], most: int) -> bytes:
    """`b'.ts 12, .js 3, 4 more'`: the largest counts, and how many other kinds there are."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    parts = [b"%b %d" % (name or b"without extension", count) for name, count in ordered[:most]]
    if len(ordered) > most:
        parts.append(b"%d more" % (len(ordered) - most))
    return b", ".join(parts)


class _Classes:
    """How common the look of a name is: its runs of small letters, capitals and digits."""

    def __init__(self, groups: Iterable[list[bytes]]) -> None:
        self._counts: dict[bytes, int] = {}
        self._total = 0
        for members in groups:
            look = self._look(members[0].rpartition(b"/")[2])
            self._counts[look] = self._counts.get(look, 0) + len(members)
            self._total += len(members)

    def odd(self, name: bytes) -> bool:
        return self._total >= 12 and self._counts.get(self._look(name), 0) * 25 <= self._total

    @staticmethod
    def _look(name: bytes) -> bytes:
        for pattern, letter in _CLASSES:
            name = pattern.sub(letter, name)
        return name


def _listed(directory: bytes, names: list[bytes], *, odd: bool) -> list[Line]:
    if len(names) == 1:
        return [Line(directory + names[0], 1, odd, names[0])]
    lines: list[Line] = []
    start = directory + b": " if directory else b""
    row: list[bytes] = []
    size = 0
    for name in names:
        word = b"'" + name + b"'" if b" " in name else name
        if row and size + len(word) > _LINE_BYTES:
            lines.append(Line(start + b" ".join(row), len(row), odd, directory or row[0]))
            row, size = [], 0
        row.append(word)
        size += len(word) + 1
    lines.append(Line(start + b" ".join(row), len(row), odd, directory or row[0]))
    return lines


def _ranges(shape: tuple[bytes, ...], members: list[bytes]) -> bytes:
    """One line for paths of one shape: `pkg{1..25}/file{1..6}.ts (150)`."""
    columns = list(zip(*(_NUMBER.findall(path) for path in members), strict=True))
    slots: list[bytes] = []
    whole = 1
    for at, column in enumerate(columns):
        values = sorted(set(column), key=_numeric)
        if len(values) == 1:
            slots.append(values[0])
            continue
        if column in columns[:at]:
            slots.append(b"{same}")
            continue
        span = len(values)
        if not all(value.isdigit() for value in values):
            slots.append(b"*")
        elif _span(values) != span and span <= _LISTED:
            slots.append(b"{" + b",".join(values) + b"}")
        else:
            slots.append(b"{" + values[0] + b".." + values[-1] + b"}")
            span = max(span, _span(values))
        whole *= span
    text = b"".join(part + slot for part, slot in zip(shape, [*slots, b""], strict=True))
    if whole == len(members):
        return b"%b (%d)" % (text, len(members))
    if len(members) < whole <= 10 * len(members):
        return b"%b (%d of %d)" % (text, len(members), whole)
    return b"%b (%d, not all)" % (text, len(members))


def _numeric(value: bytes) -> tuple[int, bytes]:
    """Orders digits by value without making numbers of them."""
    digits = value.lstrip(b"0")
    return len(digits), digits


def _span(values: list[bytes]) -> int:
    """How many numbers lie from first to last; of very long ones nobody lists a range."""
    return int(values[-1]) - int(values[0]) + 1 if len(values[-1]) < 20 else 1 << 62
