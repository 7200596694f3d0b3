"""Package managers of JavaScript and Rust: what a tree holds, what is old, what was installed.

Names with their versions are what such an output is read for: those at the top of a tree or in
the list of what changed are said in few lines, what stands deeper is counted.
"""

from __future__ import annotations

from yarp.reduce.families.base import Piece
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.status import Lines

_NAMES_KEPT = 2_000
_LINE_BYTES = 160
_BRANCH = pattern_of("(?P<in>(?:│| )*)(?:├|└)─(?:─|┬) (?P<name>.*)$".encode())
_BRANCH_SHORT = pattern_of("(?:├|└)─ (\\S+)$".encode())
_TROUBLE = pattern_of(
    rb"UNMET (?!OPTIONAL)| (?:invalid|extraneous)(?:$|:)|missing: |ELSPROBLEMS"
    rb"|^(?:npm (?:error|ERR!|warn|WARN)|error)\b"
)
_VERSION = pattern_of(rb" v(?=\d)")
_SPACES = pattern_of(rb"\s{2,}")
_CHANGED = pattern_of(rb"([+-]) (\S+ \S+)(?: .*)?$")


class Tree(Lines):
    """`npm ls` and `cargo tree`: each root with its own dependencies, the deeper ones counted."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._roots: list[tuple[bytes, list[bytes]]] = []
        self._deeper = 0
        self._direct = 0

    def line(self, stream: int, line: bytes) -> None:
        """Take one line: a root, a branch, or what the tool says besides."""
        branch = _BRANCH.match(line)
        if _TROUBLE.search(line):
            super().line(stream, line)
        elif branch is None:
            if stream == 0 and not line.startswith((b" ", b"[")) and len(self._roots) < _NAMES_KEPT:
                self._roots.append((line.rstrip(), []))
            else:
                super().line(stream, line)
        elif branch["in"] or not self._roots:
            self._deeper += 1
        else:
            self._direct += 1
            names = self._roots[-1][1]
            if len(names) < _NAMES_KEPT:
                name = branch["name"].rstrip()
                names.append(_VERSION.sub(b"@", name.partition(b" (")[0]))

    def skim(self, stream: int, window: bytes) -> None:
        """Count the rest of a very long tree."""
        self._deeper += window.count("\n│".encode()) + window.count(b"\n ")
        super().skim(stream, window)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """Troubles, then roots with what they depend on themselves."""
        said = super().pieces(failed=failed) or []
        out = said
        least = b"at least " * self._partial
        for root, names in self._roots:
            text = b"%b: %b%d direct" % (root, least, len(names)) if names else root
            out.append(Piece(text, 2, 0, 1))
            for text, count in _filled(names):
                out.append(Piece(b"  " + text, 3, 0, count, (names[0].decode("utf-8", "replace"),)))
        if self._deeper:
            out.append(Piece(b"(and %b%d deeper lines)" % (least, self._deeper), 1, 0, 0))
        return out


class Outdated(Lines):
    """`npm outdated`: each package with its version now and the latest one."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._columns: list[bytes] = []
        self._rows: list[bytes] = []
        self._count = 0

    def line(self, stream: int, line: bytes) -> None:
        """Take one row."""
        cells = _SPACES.split(line.strip())
        if not self._columns and cells[:1] == [b"Package"] and b"Latest" in cells:
            self._columns = cells
        elif self._columns and stream == 0 and (cells := line.split()) and len(cells) >= 4:
            self._count += 1
            if len(self._rows) < _NAMES_KEPT:
                name, now, wanted, latest = cells[:4]
                within = b" (wanted %b)" % wanted if wanted not in (now, latest) else b""
                self._rows.append(b"%b %b -> %b%b" % (name, now, latest, within))
        else:
            super().line(stream, line)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """The count, then every package."""
        out = super().pieces(failed=failed) or []
        if self._rows:
            least = b"at least " * self._partial
            text = b"%b%d packages are outdated:" % (least, self._count)
            out.append(Piece(text, 0, 0, 1))
            terms = ("MISSING", "node_modules")
            out += [Piece(text, 1, 0, count, terms) for text, count in _filled(self._rows, b", ")]
        return out


class Audit(Lines):
    """`npm audit`: each package with its severity and what is wrong, then the totals."""

    outcome = pattern_of(rb"^(?:\d+ |found \d+ )?.*vulnerabilit\w+(?: \(|$)|^npm (?:error|ERR!)")
    _told = pattern_of(rb" - https?://\S+$|^(?:No fix|fix) available")
    _package = pattern_of(rb"\S+ {2}\S")
    _severity = pattern_of(rb"Severity: (\w+)$")

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._found: list[list[bytes]] = []
        self._name = b""
        self._inside = False
        self._below = 0

    def line(self, stream: int, line: bytes) -> None:
        """Take one line: a package, its severity, advisories; who depends on it is counted."""
        severity = self._severity.match(line)
        if severity is not None:
            self._inside = True
            if len(self._found) < _NAMES_KEPT:
                self._found.append([b"%b (%b)" % (self._name, severity[1])])
        elif self._inside and line.startswith((b" ", b"Depends on ", b"node_modules/")):
            self._below += 1
        elif self._told.search(line) and self._inside:
            self._found[-1].append(line.rstrip())
        elif self._package.match(line):
            self._name, self._inside = b" ".join(line.split()), False
        else:
            self._inside = False
            super().line(stream, line)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """Every package in a line of its own, before what npm says of all of them."""
        said = super().pieces(failed=failed) or []
        out = [
            Piece(b": ".join([found[0], b"; ".join(found[1:])]), 2, 0, len(found), ("Severity",))
            for found in self._found
        ]
        if self._below:
            least = b"at least " * self._partial
            out.append(
                Piece(b"(and %b%d lines of what depends on these)" % (least, self._below), 5, 0, 0)
            )
        return out + said


class Pnpm(Lines):
    """pnpm and yarn: what was added and removed by name, warnings, the last progress."""

    noise = pattern_of(
        rb"Progress: |[+-]+$|(?:dev|optional|peer)?[dD]ependencies:$|\[[1-5]/[1-5]\] "
        rb"|\xe2\x9e\xa4 YN0000|\.\.\./.* (?:postinstall|install|prepare)\$? |info |Resolution step"
    )
    outcome = pattern_of(
        rb"^(?:Packages: |Done in|Already up to date|Lockfile is up|success |error )"
        rb"|ERR_PNPM|^\s*WARN"
    )

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._changed: dict[bytes, list[bytes]] = {}
        self._deeper = 0
        self._direct = False

    def line(self, stream: int, line: bytes) -> None:
        """Take one line; `+ name 1.2.3 (2.0.0 is available)` is a package."""
        found = _CHANGED.match(line)
        branch = _BRANCH_SHORT.match(line)
        if line.startswith(b"info "):
            self._direct = line.startswith(b"info Direct dep")
        if branch is not None and not self._direct:
            self._deeper += 1
            return
        if branch is not None:
            self._changed.setdefault(b"+", []).append(branch[1])
            return
        if found is None:
            super().line(stream, line)
            return
        names = self._changed.setdefault(found[1], [])
        if len(names) < _NAMES_KEPT:
            names.append(found[2])

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """What is said, then the packages by name."""
        out = super().pieces(failed=failed) or []
        for sign, names in self._changed.items():
            for at, (text, count) in enumerate(_filled(names, b", ")):
                start = sign + b" " if not at else b"  "
                out.append(Piece(start + text, 2, 0, count, (sign.decode() + " ",)))
        if self._deeper:
            least = b"at least " * self._partial
            text = b"(and %b%d packages in all)" % (least, self._deeper)
            out.append(Piece(text, 4, 0, self._deeper))
        return out


def _filled(names: list[bytes], between: bytes = b" ") -> list[tuple[bytes, int]]:
    """Names in lines of bounded length, with how many stand in each."""
    lines: list[tuple[bytes, int]] = []
    row: list[bytes] = []
    size = 0
    for name in names:
        if row and size + len(name) > _LINE_BYTES:
            lines.append((between.join(row), len(row)))
            row, size = [], 0
        row.append(name)
        size += len(name) + len(between)
    if row:
        lines.append((between.join(row), len(row)))
    return lines


def reader(argv: tuple[str, ...]) -> type[Lines]:
    """Who reads what this command of a package manager prints."""
    if "outdated" in argv[1:2]:
        return Outdated
    if "audit" in argv[1:2]:
        return Audit
    if argv[0] in ("pnpm", "yarn"):
        return Pnpm
    return Tree if argv[1:2] and argv[1] in ("ls", "list", "la", "ll", "tree") else Lines
