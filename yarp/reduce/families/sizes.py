"""Sizes of files, as du and wc print them: the sums and the largest, then every name."""

from yarp.reduce.families.base import Piece
from yarp.reduce.families.names import factor
from yarp.reduce.families.patterns import pattern_of

_KEPT = 20_000
_LARGEST = 8
_LONG = 8
_LINE = pattern_of(rb"\s*((?:[0-9.,]+[KMGTPEBi]*\s+){1,5}?)(\S.*)$")
_UNITS = {b"K": 1, b"M": 2, b"G": 3, b"T": 4, b"P": 5, b"E": 6}


class Sizes:
    """Reads `number path` lines."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, bytes, bytes]] = []
        self._count = 0
        self._others: list[bytes] = []
        self._last = b""

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        lines = block.rstrip(b"\n").split(b"\n")
        self._count += len(lines)
        self._last = lines[-1]
        for line in lines[: _KEPT - len(self._rows)]:
            found = _LINE.match(line)
            if found:
                sizes = found[1].split()
                self._rows.append((amount(sizes[-1]), sizes[-1], found[2]))
            elif line.strip() and len(self._others) < 40:
                self._others.append(line)

    def pieces(self) -> list[Piece]:
        """The sums, the largest, the names."""
        rows = self._rows
        names = [name for _, _, name in rows if name != b"total"]
        header = b"%d lines" % self._count
        if self._count > len(rows) + len(self._others):
            header += b", the first %d of them below" % len(rows)
        common = _directory(names)
        if len(common) > _LONG:
            header += b"; paths below " + common
            rows = self._rows = [
                (amount, size, name.removeprefix(common)) for amount, size, name in rows
            ]
            names = [name for _, _, name in rows]
        folders = {name[: name.rfind(b"/")] for name in names if b"/" in name}
        leaves = [row for row in rows if row[2] not in folders and row[2] != b"total"]
        sums = [row for row in rows if row[2] in folders]
        pieces = [Piece(header, 0, 0, 0)]
        pieces += [Piece(line, 2) for line in self._others]
        if leaves and len(leaves) > 3:
            largest = sorted(leaves, key=lambda row: -row[0])[:_LARGEST]
            text = b", ".join(b"%b %b" % (name, size) for _, size, name in largest)
            pieces.append(Piece(b"largest: " + text, 1, 0, 0))
        if sums and len(sums) > 1:
            largest = sorted(sums, key=lambda row: -row[0])[:_LARGEST]
            text = b", ".join(b"%b %b" % (name, size) for _, size, name in largest)
            pieces.append(Piece(b"directories: " + text, 2, 0, 0))
        for line in factor([name for _, _, name in leaves]):
            term = (line.term.decode("utf-8", "replace"),)
            pieces.append(Piece(line.text, 4 if line.odd else 5, 0, line.count, term))
        if self._last:
            pieces.append(Piece(self._last, 0))
        return pieces


def _directory(names: list[bytes]) -> bytes:
    """The directory that all names lie in, with a slash at its end; b'' for none."""
    if not names:
        return b""
    first, last = min(names), max(names)
    size = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[: first.rfind(b"/", 0, size) + 1]


def amount(size: bytes) -> float:
    """A size as printed in one number that compares: `1.2G`, `480Mi`, `35m`, `2,5K`; 0 for none."""
    number = size.rstrip(b"KMGTPEBim%").replace(b",", b".")
    unit = size[len(number) :][:1]
    try:
        return float(number) * float(1024 ** _UNITS.get(unit, 0))
    except ValueError:
        return 0.0
