"""Lists of packages and tables of coverage: each row in few words, what stands apart first."""

from __future__ import annotations

from collections import Counter

from yarp.reduce.families.base import Piece
from yarp.reduce.families.names import counted
from yarp.reduce.families.patterns import pattern_of

_DPKG = pattern_of(rb"([a-z][a-zA-Z]{1,2})\s+(\S+)\s+(\S+)\s+\S+\s")
_APT = pattern_of(rb"([^\s/]+)/\S+ (\S+) \S+(?: \[([^\]]*)\])?$")
_FROZEN = pattern_of(rb"([\w.-]+)(?:==| @ )(\S+)$")
_COLUMNS = pattern_of(rb"([\w.\[\]-]+) +(\S+)(?: +(\S.*))?$")
_RULE = pattern_of(rb"-{3,}(?: +-{3,})*$")
_DRAWN = (b"Desired=", b"| Status=", b"|/ Err?=", b"||/ Name", b"+++-")
_PACKAGES_KEPT = 20_000
_SPACES = pattern_of(rb" {2,}")
_ROW_BYTES = 160
_LINE_SHOWN = 120


class Packages:
    """Reads what `pip list`, `pip freeze`, `dpkg -l` and `apt list` print."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._packages: list[tuple[bytes, bytes]] = []  # name and version, what is odd about it
        self._states: Counter[bytes] = Counter()
        self._count = self._other = 0
        self._head: list[bytes] = []
        self._unknown = False

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        for line in block.split(b"\n"):
            if line.strip():
                self._line(line.rstrip())

    def _line(self, line: bytes) -> None:
        note = b""
        if self._program in ("dpkg", "dpkg-query"):
            if line.startswith(_DRAWN):
                self._other += 1
                return
            found = _DPKG.match(line)
            if found is not None:
                self._states[found[1]] += 1
                name, version = found[2], found[3]
                note = b"" if found[1] == b"ii" else found[1]
                version = b"" if version == b"<none>" else version
        elif self._program == "apt":
            found = _APT.match(line)
            if found is not None:
                name, version = found[1], found[2]
                said = found[3] or b""
                note = said.partition(b",")[2] if b"upgradable" in said else b""
                self._states[b"upgradable" if note else b"other"] += 1
            elif not self._count:
                self._head.append(line)  # `Listing...`, in any language
                return
        else:
            if _RULE.match(line):
                self._other += 1
                return
            frozen = _FROZEN.match(line)
            found = frozen or _COLUMNS.match(line)
            if found is not None:
                name, version = found[1], found[2]
                note = b"" if frozen else found[3] or b""
                if not self._count and not self._head and not version[:1].isdigit():
                    self._head.append(line)
                    return
        if found is None:
            self._unknown = True
            return
        self._count += 1
        if len(self._packages) < _PACKAGES_KEPT:
            self._packages.append(((name + b" " + version).strip(), note.strip()))

    def pieces(self) -> list[Piece]:
        """How many, those that stand apart, then all by name; nothing where a line is another."""
        if self._unknown or not self._count:
            return []
        text = b"%d packages" % self._count
        if len(self._states) > 1:
            text += b": " + counted(self._states, 6)
        out = [Piece(text, 0, lines=self._other + len(self._head))]
        odd = [(name, note) for name, note in self._packages if note]
        if len(odd) * 2 > len(self._packages):
            self._packages = [
                (b" ".join((name, note)).strip(), b"") for name, note in self._packages
            ]
            odd = []
        groups = [(4, [name for name, note in self._packages if not (odd and note)])]
        for note in dict.fromkeys(note for _, note in odd):
            names = [name for name, other in odd if other == note]
            if len(names) == 1:
                name = names[0]
                out.append(Piece(name + b" (" + note + b")", 3, terms=(_word(name),)))
            else:
                # What dpkg only knows by name is not there.
                group = [note + b": " + names[0], *names[1:]]
                groups.insert(0 if note != b"un" else 1, (3 if note != b"un" else 6, group))
        for worth, names in groups:
            row: list[bytes] = []
            size = 0
            for name in [*names, b""]:
                if row and (size + len(name) > _ROW_BYTES or not name):
                    # Rows are told in their order as far as there is room.
                    term = (_word(row[0]),)
                    out.append(Piece(b", ".join(row), worth, 0, len(row), term))
                    row, size = [], 0
                row.append(name)
                size += len(name) + 2
        return out


class Coverage:
    """Reads `coverage report`: the sum, then the files of which least is covered."""

    def __init__(self) -> None:
        self._head: list[bytes] = []
        self._rows: list[tuple[int, bytes]] = []
        self._foot: list[bytes] = []
        self._full = self._drawn = 0

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        for line in block.split(b"\n"):
            text = line.rstrip()
            found = _COVERED.match(text)
            if _RULE.match(text) or not text:
                self._drawn += bool(text)
            elif found is None or found["name"] == b"TOTAL":
                (self._foot if self._rows else self._head).append(text)
                del self._foot[40:], self._head[40:]
            else:
                share = int(found["share"])
                self._full += share == 100
                if len(self._rows) < _PACKAGES_KEPT:
                    self._rows.append((share, text))

    def pieces(self) -> list[Piece]:
        """The pieces; nothing where no file was reported."""
        if not self._rows:
            return []
        below = sum(share < 50 for share, _ in self._rows)
        text = b"%d files: %d at 100%%, %d below 50%%" % (len(self._rows), self._full, below)
        if not self._full:
            # Those may be left out of the report.
            text = b"%d files listed, %d below 50%%" % (len(self._rows), below)
        out = [Piece(line, 0 if at < 2 else 4) for at, line in enumerate(self._head)]
        out.insert(0, Piece(text, 0, lines=self._drawn))
        for rank, (_, row) in enumerate(sorted(self._rows, key=lambda item: item[0])):
            text = _SPACES.sub(b"  ", row)
            if len(text) > _LINE_SHOWN:
                text = text[:_LINE_SHOWN].rpartition(b",")[0] + b", ..."
            out.append(Piece(text, 3 if rank < 8 else 5, terms=(_word(row),)))
        return out + [Piece(line, 0) for line in self._foot]


_COVERED = pattern_of(rb"(?P<name>\S+)(?: +\d+)+ +(?P<share>\d{1,3})(?:\.\d+)?%(?: |$)")


def _word(row: bytes) -> str:
    return row.partition(b" ")[0].decode("utf-8", "replace")
