"""Saying many names in few words without losing the odd one out.

Names that differ only in numbers become one line with ranges, the others are listed by
directory; what looks like nothing else in the list is told apart, so that it is kept longest.
"""

from collections import Counter, defaultdict

from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_LINE_BYTES = 240
# Fewer than this many members are clearer as they are.
_RANGE_MEMBERS = 3
_LISTED = 8
_DIGITS = pattern_of(rb"[0-9]+")
# Identifiers made by machines are one number each.
_MACHINE = (
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    rb"|(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![0-9A-Za-z])"
)
_NUMBERS = pattern_of(_MACHINE + rb"|[0-9]+")
_SIXTEEN = bytes.maketrans(b"123456789abcdef", b"0" * 15)
_HEXADECIMAL = b"0" * 8
_RUN = pattern_of(rb"00+")
_TEN = bytes.maketrans(b"123456789", b"0" * 9)
_KINDS = bytes.maketrans(
    bytes(range(0x80, 0x100)) + b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"a" * 154 + b"A" * 26,
)


class Line:
    """One line for `count` names; `odd` when they look like few others of the list.

    `holds` is how many of them lie in which directory.
    """

    __slots__ = ("count", "holds", "odd", "term", "text")

    def __init__(self, text: bytes, odd: bool, term: bytes, holds: dict[bytes, int]) -> None:
        self.term = term
        self.text = text
        self.count = sum(holds.values())
        self.odd = odd
        self.holds = holds


def factor(paths: list[bytes]) -> list[Line]:
    """Lines that say all `paths`, the odd ones first, then ranges, then the rest by directory."""
    if not paths:
        return []
    # All at once: a call for each path costs more than the work.
    text = b"\n".join(paths)
    if _HEXADECIMAL in text.translate(_SIXTEEN):
        numbers = _NUMBERS
        text = numbers.sub(b"0", text)
    else:
        numbers = _DIGITS
        text = _RUN.sub(b"0", text.translate(_TEN))
    shapes = text.split(b"\n")
    counts = Counter(shapes)
    kinds = list(counts)
    leaves = [shape[shape.rfind(b"/", 0, -1) + 1 :] for shape in kinds]
    looks = _looks(leaves)
    common: dict[bytes, int] = {}
    for look, count in zip(looks, counts.values(), strict=True):
        common[look] = common.get(look, 0) + count
    few = max(1, len(paths) // 25) if len(paths) >= 12 else 0
    # A name that stands in many directories is none that looks like no other.
    tails: dict[bytes, int] = {}
    for leaf, count in zip(leaves, counts.values(), strict=True):
        tails[leaf] = tails.get(leaf, 0) + count
    rare = {
        shape
        for shape, look, leaf in zip(kinds, looks, leaves, strict=True)
        if common[look] <= few and tails[leaf] < _RANGE_MEMBERS
    }
    groups: dict[bytes, list[bytes]] = {
        shape: [] for shape, count in counts.items() if count >= _RANGE_MEMBERS
    }
    odd: dict[bytes, list[bytes]] = defaultdict(list)
    rest: dict[bytes, list[bytes]] = defaultdict(list)
    for path, shape in zip(paths, shapes, strict=True):
        if shape in groups:
            groups[shape].append(path)
            continue
        start = path.rfind(b"/", 0, -1) + 1
        (odd if shape in rare else rest)[path[:start]].append(path[start:])
    ranges: list[Line] = []
    said: dict[tuple[bytes, ...], tuple[bytes, int]] = {}
    for shape, members in groups.items():
        holds: dict[bytes, int] = {}
        for path in members:
            place = path[: path.rfind(b"/", 0, -1) + 1]
            holds[place] = holds.get(place, 0) + 1
        line = _ranges(shape, members, numbers, said)
        ranges.append(Line(line, False, shape.partition(b"0")[0], holds))
    return [
        *(line for place, names in odd.items() for line in _listed(place, names, odd=True)),
        *ranges,
        *(line for place, names in rest.items() for line in _listed(place, names, odd=False)),
    ]


def _looks(names: list[bytes]) -> list[bytes]:
    """What each name looks like: runs of small letters, of capitals, of digits."""
    text = b"\n".join(names)
    text = text.translate(_KINDS)
    # Each run as one letter: in steps of the whole text, where a pattern takes one for each run.
    for twice in (b"aa", b"AA"):
        while twice in text:
            text = text.replace(twice * 2, twice[:1]).replace(twice, twice[:1])
    return text.split(b"\n")


def extension(name: bytes) -> bytes:
    """The extension with its dot, b'' for none; a name that starts with its only dot has none."""
    stem, dot, last = name.rpartition(b".")
    plain = stem and not stem.endswith(b"/") and b"/" not in last
    return dot + last if plain and last and len(last) <= 8 else b""


def extensions(paths: list[bytes]) -> Counter[bytes]:
    """How many of the paths have which extension."""
    # Few endings, many paths: what follows the last dot is looked at once for each kind.
    counts: Counter[bytes] = Counter()
    for ending, count in Counter([path[path.rfind(b".") - 1 :] for path in paths]).items():
        counts[extension(ending)] += count
    return counts


def counted(counts: dict[bytes, int], most: int) -> bytes:
    """`b'.ts 12, .js 3, 4 more'`: the largest counts, and how many other kinds there are."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    parts = [b"%b %d" % (name or b"without extension", count) for name, count in ordered[:most]]
    if len(ordered) > most:
        parts.append(b"%d more" % (len(ordered) - most))
    return b", ".join(parts)


def _listed(directory: bytes, names: list[bytes], *, odd: bool) -> list[Line]:
    if len(names) == 1:
        return [Line(directory + names[0], odd, names[0], {directory: 1})]
    start = directory + b": " if directory else b""
    text = b" ".join(names)
    if text.count(b" ") > len(names) - 1:
        names = [b"'" + name + b"'" if b" " in name else name for name in names]
        text = b" ".join(names)
    if len(text) <= _LINE_BYTES:
        return [Line(start + text, odd, directory or names[0], {directory: len(names)})]
    lines: list[Line] = []
    first = size = 0
    for at, name in enumerate(names):
        if size and size + len(name) > _LINE_BYTES:
            row = names[first:at]
            lines.append(
                Line(start + b" ".join(row), odd, directory or row[0], {directory: len(row)})
            )
            first, size = at, 0
        size += len(name) + 1
    row = names[first:]
    lines.append(Line(start + b" ".join(row), odd, directory or row[0], {directory: len(row)}))
    return lines


def _ranges(
    shape: bytes,
    members: list[bytes],
    numbers: "re.Pattern[bytes]",
    said: dict[tuple[bytes, ...], tuple[bytes, int]],
) -> bytes:
    """One line for paths of one shape: `pkg{1..25}/file{1..6}.ts (150)`; `said` remembers."""
    found = numbers.findall(b"\n".join(members))
    width = len(found) // len(members)
    columns = [tuple(found[at::width]) for at in range(width)]
    slots: list[bytes] = []
    whole = 1
    for at, column in enumerate(columns):
        # The same numbers stand in many shapes.
        known = said.get(column)
        if known is None:
            known = said[column] = _slot(column)
        slot, span = known
        if span > 1 and column in columns[:at]:
            slots.append(b"{same}")
            continue
        slots.append(slot)
        whole *= span
    text = b"".join(
        part + slot for part, slot in zip(shape.split(b"0"), [*slots, b""], strict=True)
    )
    if b"*" in slots:
        return b"%b (%d, like %b)" % (text, len(members), members[0])
    if whole == len(members):
        return b"%b (%d)" % (text, len(members))
    if len(members) < whole <= 10 * len(members):
        return b"%b (%d of %d)" % (text, len(members), whole)
    return b"%b (%d, not all)" % (text, len(members))


def _slot(column: tuple[bytes, ...]) -> tuple[bytes, int]:
    """What stands for the numbers of one place, and how many different ones that says."""
    values = _ordered(set(column))
    span = len(values)
    if span == 1:
        return values[0], 1
    if not b"".join(values).isdigit():
        return b"*", span
    if _span(values) != span and span <= _LISTED:
        return b"{" + b",".join(values) + b"}", span
    return b"{" + values[0] + b".." + values[-1] + b"}", max(span, _span(values))


def _ordered(values: set[bytes]) -> list[bytes]:
    """Digits by value, without making numbers of them."""
    ordered = sorted(values)
    sizes = set(map(len, ordered))
    if len(sizes) > 1:
        from operator import methodcaller

        ordered.sort(key=methodcaller("rjust", max(sizes), b"0"))
    return ordered


def _span(values: list[bytes]) -> int:
    """How many numbers lie from first to last; of very long ones nobody lists a range."""
    return int(values[-1]) - int(values[0]) + 1 if len(values[-1]) < 20 else 1 << 62
