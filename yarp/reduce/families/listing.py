"""Lists of files: how many of what and where, then the names, the odd ones first.

Knows what `ls` (long, recursive), `find`, `fd` and `tree` print; of any other program each line
is a name. A list beyond 1 MiB is counted by shape instead of being kept.
"""

from collections import Counter

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece, Status
from yarp.reduce.families.names import counted, extension, extensions, factor
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.traits import Traits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_KEPT_BYTES = 1 << 20
_SHAPES = 4096
_SHOWN = 200
_SPREAD = 16
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_ZEROS = pattern_of(rb"0+")
_NUMBER = pattern_of(rb"\d+")
_LONG = pattern_of(
    rb"^(?:\s*\d+\s+){0,2}(?P<mode>[-bcdlpsDC][-rwxsStTlL]{9})[.+@]?\s+\d+\s+"
    rb"(?P<owner>\S+\s+(?:\S+\s+)?)(?P<size>\d[\d.,]*[KMGTPE]?|\d+,\s*\d+)\s+"
    rb"(?P<time>\d{4}-\d\d-\d\d(?:[ T][\d:.]+(?: [+-]\d{4})?)?|\S+\s+\d{1,2}\s+(?:\d\d:\d\d|\d{4})"
    rb"|\d{1,2}\.?\s+\S+\s+(?:\d\d:\d\d|\d{4})|\d\S+\s+(?:\d\d:\d\d|\d{4})) (?P<name>.+)$"
)
# Such a line is one of a long list, whatever its language writes for a date.
_MODES = pattern_of(rb"^(?:\s*\d+\s+){0,2}[-bcdlpsDC](?:[-r][-w][-xsStTlL]){3}[.+@]?\s+\d+\s")
_BRANCH = pattern_of(r"^((?:[│|][ \xa0]{3}| {4})*)(?:[├└]── |\|-- |`-- )(?:\[[^\]]*\]  )?(.*)$")
# What tools make and fetch: named last, since people rarely look for it.
_MADE = pattern_of(
    rb"(?:^|/)(?:\.git|\.hg|\.svn|node_modules|__pycache__|\.venv|venv|site-packages|\.tox"
    rb"|\.mypy_cache|\.ruff_cache|\.pytest_cache|target/debug|target/release|\.next|\.cache)/"
)
# `total 12`, in any language.
_TOTAL = pattern_of(rb"^\S+ \d[\d.,]*[KMGTPE]?$")
_TREE_TOTAL = pattern_of(rb"^\d+ director(?:y|ies)(?:, \d+ files?)?(?:\b.*)?$")


class Family(base.Family):
    """Names, counted and factored."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self._program = argv[0]
        self._blocks: list[bytes] = []
        self._kept = 0
        self._crowd: _Crowd | None = None
        self._complaints = Complaints()

    def feed(self, stream: int, block: bytes) -> None:
        """See `base.Family`."""
        if stream:
            self._complaints.feed(block)
        elif self._crowd is not None:
            self._crowd.feed(block)
        else:
            self._blocks.append(block)
            self._kept += len(block)
            if self._kept > _KEPT_BYTES:
                self._crowd = _Crowd(self._program)
                for early in self._blocks:
                    self._crowd.feed(early)
                self._blocks.clear()

    def finish(self, status: Status) -> list[Piece] | None:
        """See `base.Family`."""
        del status  # complaints are kept whatever the exit status says
        complaints = self._complaints.pieces()
        if self._crowd is not None:
            return self._crowd.pieces() + complaints
        lines = b"".join(self._blocks).split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        read = {"ls": _Ls, "tree": _Tree, "find": _Paths, "fd": _Paths, "fdfind": _Paths}
        listing = read.get(self._program, _Names)(lines)
        if listing.unread:
            return None
        return listing.pieces() + complaints


class Complaints:
    """What a program said on stderr: the first lines of each kind, and how many more there are."""

    def __init__(self) -> None:
        # kind -> the first different lines, how often each was said; kind -> how many others.
        self._kinds: dict[bytes, dict[bytes, int]] = {}
        self._more: dict[bytes, int] = {}

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        for line in block.split(b"\n"):
            if not line.strip():
                continue
            kind = _NUMBER.sub(b"#", line.rpartition(b": ")[2])
            if kind not in self._kinds and len(self._kinds) >= 64:
                kind = b"other messages"
            kept = self._kinds.setdefault(kind, {})
            if line in kept or len(kept) < 3:
                kept[line] = kept.get(line, 0) + 1
            else:
                self._more[kind] = self._more.get(kind, 0) + 1

    def pieces(self) -> list[Piece]:
        """Pieces on stderr: the first of each kind must stay."""
        pieces = []
        for kind, kept in self._kinds.items():
            term = (max(kind.split(b"#"), key=len).strip().decode("utf-8", "replace"),)
            for at, (line, times) in enumerate(kept.items()):
                text = b"%b (%d times)" % (line, times) if times > 1 else line
                pieces.append(Piece(text, 1 if at else 0, 1, times, term))
            more = self._more.get(kind, 0)
            if more:
                pieces.append(Piece(b"(%d more: %b)" % (more, kind), 0, 1, 0, term))
        return pieces


class _Names:
    """Names as they were printed, and what is known of them."""

    def __init__(self, lines: list[bytes]) -> None:
        # Lines that say nothing the summary does not: blank, `.`, `..`, headings, sums.
        self.silent = 0
        self.slashes = False
        self.paths: list[bytes] = []
        self.directories: set[bytes] = set()
        self.sizes: list[tuple[int, bytes]] = []
        self.said: list[bytes] = []
        self.traits = Traits()
        # Whether a line was met that is no name: then nothing can be counted.
        self.unread = False
        self.read(lines)

    def read(self, lines: list[bytes]) -> None:
        for line in lines:
            if line.strip():
                self.paths.append(line)
            else:
                self.silent += 1

    def entry(self, match: "re.Match[bytes]", directory: bytes = b"") -> bytes:
        """The path of a line of a long list; what else it says is noted."""
        mode, size, path = match["mode"], match["size"], match["name"]
        target = b""
        if mode.startswith(b"l"):
            path, _, target = path.partition(b" -> ")
        path = directory + path
        if mode[:1] not in (b"d", b"l") and size.isdigit():
            self.sizes.append((int(size), path))
        self.traits.add(mode, match["owner"], match["time"], path, target)
        return path

    def pieces(self) -> list[Piece]:
        paths = self.paths
        bare = paths
        self.slashes = b"/\n" in b"\n".join([*paths, b""])
        if self.slashes:
            bare = [path.rstrip(b"/") for path in paths]
        folders = self.directories or {path.rpartition(b"/")[0] for path in bare} - {b""}
        # A directory whose contents are listed needs no mention of its own.
        leaves = [path for path, name in zip(paths, bare, strict=True) if name not in folders]
        homes = [path[: path.rfind(b"/", 0, -1) + 1] for path in leaves]
        places = Counter(homes)
        silent = self.silent + len(paths) - len(leaves)
        pieces: list[Piece] = []
        if leaves:
            header = self._header(leaves, 0 if self.said else len(places))
            pieces.append(Piece(header, 0, 0, silent))
        pieces += [Piece(line, 0) for line in self.said]
        if len(self.sizes) > 8 and max(self.sizes)[0]:
            largest = sorted(self.sizes, reverse=True)[:5]
            top = b", ".join(b"%b %d" % (name, size) for size, name in largest)
            pieces.append(Piece(b"largest (bytes): " + top, 5, 0, 0))
        pieces += self.traits.pieces()
        spread = _spread(places)
        if spread:
            pieces.append(Piece(b"by directory: " + spread, 2, 0, 0))
        made = {place for place in places if _MADE.search(place)}
        # What lies at the top is what a list is read for first.
        depths = {place: place.count(b"/") for place in places if place not in made}
        level = min(depths.values(), default=0)
        highest = {place for place, depth in depths.items() if depth == level}
        if sum(places[place] for place in highest) * 4 > sum(places[place] for place in depths):
            highest = set()
        shallow: list[bytes] = []
        deep, rest = leaves, shallow
        if made or highest:
            placed = list(zip(leaves, homes, strict=True))
            shallow = [path for path, home in placed if home in highest]
            rest = [path for path, home in placed if home in made]
            deep = [path for path, home in placed if home not in highest and home not in made]
        for some, worths in ((shallow, (2, 2, 2)), (deep, (3, 4, 5)), (rest, (6, 7, 8))):
            for line in factor(some):
                worth = worths[0] if line.odd else worths[1] if b"{" in line.text else worths[2]
                piece = Piece(line.text, worth, 0, line.count)
                piece.holds = line.holds
                pieces.append(piece)
        if pieces and pieces[-1].worth == 5 and pieces[-1].holds:
            # The last name says that the list was seen to its end.
            pieces[-1].worth = 4
        return pieces

    def _header(self, leaves: list[bytes], places: int) -> bytes:
        files = leaves
        if self.slashes:
            files = [path for path in leaves if not path.endswith(b"/")]
        folders = len(leaves) - len(files)
        return b"%d name%b%b%b: %b" % (
            len(leaves),
            b"s" if len(leaves) > 1 else b"",
            b" in %d directories" % places if places > 1 else b"",
            b", %d directories" % folders if folders else b"",
            counted(extensions(files), 8),
        )


class _Paths(_Names):
    """One path a line; `find -ls` and `fd -l` put what `ls -l` does before it."""

    def read(self, lines: list[bytes]) -> None:
        if not (lines and _LONG.match(lines[0])):
            self.paths = [line for line in lines if line not in (b".", b"..", b"")]
            self.silent = len(lines) - len(self.paths)
            return
        for line in lines:
            match = _LONG.match(line)
            self.unread = self.unread or (not match and _MODES.match(line) is not None)
            self.paths.append(self.entry(match) if match else line)


class _Ls(_Names):
    """`ls`, with its headings when recursive and its columns when long."""

    def read(self, lines: list[bytes]) -> None:
        directory = b""
        blank = [at for at, line in enumerate(lines) if not line]
        start = 0
        for end in [*blank, len(lines)]:
            names = lines[start:end]
            start = end + 1
            if names and names[0].endswith(b":") and not _LONG.match(names[0]):
                place = names.pop(0)[:-1].rstrip(b"/")
                directory = place + b"/"
                self.directories.add(place)
            if names and _TOTAL.match(names[0]):
                second = names[1] if len(names) > 1 else b""
                if names[0].startswith(b"total ") or _LONG.match(second):
                    del names[0]
            if names and (_MODES.match(names[0]) or _MODES.match(names[-1])):
                for line in names:
                    self._entry(directory, line)
            else:
                self.paths += [directory + name for name in names if name not in (b".", b"..")]
        self.silent = len(lines) - len(self.paths)

    def _entry(self, directory: bytes, line: bytes) -> None:
        match = _LONG.match(line)
        self.unread = self.unread or (not match and _MODES.match(line) is not None)
        name = match["name"] if match else line
        if name in (b".", b".."):
            return
        path = self.entry(match, directory) if match else directory + name
        if match and match["mode"].startswith(b"d"):
            path += b"" if self.directories else b"/"
        self.paths.append(path)


class _Tree(_Names):
    """`tree`: the drawing read back into paths, its own totals kept as they are."""

    def read(self, lines: list[bytes]) -> None:
        trail: list[bytes] = []
        root = b""
        for line in lines:
            match = _BRANCH.match(line.decode("utf-8", "surrogateescape"))
            if match is None:
                if _TREE_TOTAL.match(line):
                    self.said.append(line)
                else:
                    root = line if line and line != b"." else root
                    self.silent += 1
                continue
            depth = len(match[1]) // 4
            trail[depth:] = [match[2].encode("utf-8", "surrogateescape").rstrip(b"/")]
            self.paths.append(b"/".join([root.rstrip(b"/"), *trail] if root else trail))


class _Crowd:
    """A list too long to keep: names counted by what they look like, numbers taken out."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._counts: dict[bytes, int] = {}
        self._examples: dict[bytes, bytes] = {}
        self._others = 0
        self._total = 0

    def feed(self, block: bytes) -> None:
        block = block.rstrip(b"\n")
        kinds = block.translate(_DIGITS).split(b"\n")
        self._total += len(kinds)
        # Numbers aside, few lines differ: only those are looked into.
        of_kind = Counter(kinds)
        name = self._name_in(kinds[0])
        counts: dict[bytes, int] = of_kind
        if name is not None:
            counts = {}
            for kind, count in of_kind.items():
                shape = name(kind)
                counts[shape] = counts.get(shape, 0) + count
        examples: dict[bytes, bytes] | None = None
        for shape, count in counts.items():
            if shape in self._counts:
                self._counts[shape] += count
            elif len(self._counts) < _SHAPES:
                if examples is None:
                    examples = _last_of_each(kinds, block.split(b"\n"), name)
                self._counts[shape] = count
                self._examples[shape] = examples[shape]
            else:
                self._others += count

    def _name_in(self, first: bytes) -> "Callable[[bytes], bytes] | None":
        """What takes the name out of a line; None where a line is a name."""
        if self._program == "ls" or _LONG.match(first):
            return _long_name
        return _branch_name if self._program == "tree" else None

    def pieces(self) -> list[Piece]:
        kinds: Counter[bytes] = Counter()
        groups: dict[bytes, list[bytes]] = {}
        for shape, count in self._counts.items():
            kinds[extension(shape)] += count
            groups.setdefault(_ZEROS.sub(b"#", shape), []).append(shape)
        pieces = [Piece(b"%d lines: %b" % (self._total, counted(kinds, 8)), 0, 0, 0)]
        sums = {
            name: sum(self._counts[shape] for shape in shapes) for name, shapes in groups.items()
        }
        rare = [name for name, count in sums.items() if count <= 2][:_SHOWN]
        common = sorted((name for name in sums if sums[name] > 2), key=lambda name: -sums[name])
        for name in rare:
            for shape in groups[name]:
                example = self._examples[shape]
                term = (example.rpartition(b"/")[2].decode("utf-8", "replace"),)
                pieces.append(Piece(example, 2, 0, self._counts[shape], term))
        for name in common[:_SHOWN]:
            example = self._examples[groups[name][0]]
            text = example if b"#" not in name else name + b" e.g. " + example
            term = (example.rpartition(b"/")[2].decode("utf-8", "replace"),)
            pieces.append(Piece(b"%b (%d)" % (text, sums[name]), 4, 0, sums[name], term))
        if self._others:
            pieces.append(Piece(b"(%d lines of other shapes)" % self._others, 1, 0, 0))
        return pieces


def _spread(places: Counter[bytes]) -> bytes:
    """How many names lie in each first directory below what all have in common; b'' for one."""
    parts = [(place.split(b"/")[:-1], count) for place, count in places.items()]
    deepest = min((len(part) for part, _ in parts), default=0)
    common = 0
    while common < deepest and len({part[common] for part, _ in parts}) == 1:
        common += 1
    counts: Counter[bytes] = Counter()
    for depth in (1, 2):
        deeper: Counter[bytes] = Counter()
        for part, count in parts:
            deeper[b"/".join(part[: common + depth]) + b"/"] += count
        if depth == 1 or len(deeper) <= _SPREAD:
            counts = deeper
        if len(counts) > _SPREAD // 4:
            break
    if len(counts) < 2 or len(counts) * 2 > counts.total():
        return b""
    # Directories that differ only in a number are one kind.
    kinds: Counter[bytes] = Counter()
    members: Counter[bytes] = Counter()
    names: dict[bytes, bytes] = {}
    for name, count in counts.items():
        kind = _NUMBER.sub(b"#", name)
        kinds[kind] += count
        members[kind] += 1
        names[kind] = name
    named = {
        kind + b" (%d directories)" % members[kind] if members[kind] > 1 else names[kind]: count
        for kind, count in kinds.items()
    }
    return counted(named, _SPREAD) if len(named) > 1 else b""


def _long_name(line: bytes) -> bytes:
    match = _LONG.match(line)
    return match["name"] if match else line


def _branch_name(line: bytes) -> bytes:
    return line.rpartition(b"\x80 ")[2]


def _last_of_each(
    kinds: list[bytes], lines: list[bytes], name: "Callable[[bytes], bytes] | None"
) -> dict[bytes, bytes]:
    """The last name of each shape."""
    if name is None:
        return dict(zip(kinds, lines, strict=True))
    places = dict(zip(kinds, range(len(kinds)), strict=True))
    last: dict[bytes, int] = {}
    for kind, at in places.items():
        shape = name(kind)
        last[shape] = max(at, last.get(shape, 0))
    return {shape: name(lines[at]) for shape, at in last.items()}
