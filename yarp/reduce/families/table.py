"""Tables: the header as printed, how many rows, unusual states first, the other rows by name.

Reads columns that are aligned below a header (kubectl, docker, helm, gcloud, ps, df), split by
`|` (psql, sqlite3, `aws --output table`) or by tabs (gh). A column is known by its heading and
position; where that is not certain the row is kept as it stands. A table beyond 1 MiB is counted
by shape, like a log. Text in outline form (`kubectl describe`) has its own reader.
"""

from collections import Counter

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece, Status
from yarp.reduce.families.blame import Blame
from yarp.reduce.families.listing import Complaints
from yarp.reduce.families.log import Log
from yarp.reduce.families.names import Line, counted, factor
from yarp.reduce.families.outline import Outline
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.sizes import Sizes, amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.inventory import Coverage, Packages

    _Cells = list[list[bytes]]

_KEPT_BYTES = 1 << 20
_STATES = 8
_ROW_SHOWN = 200
_WHOLE = 10
_SHARED = 3
_ODD = 40
_CELLS = pattern_of(rb"\s{2,}|\t")
_WIDE = pattern_of(rb"\s{2,}")
_TITLE = pattern_of(rb"\S+")
_TITLES = pattern_of(rb"\S+(?: \S+)*")
_WORD = pattern_of(rb"[A-Za-z]{2}")
_LONG_WORD = pattern_of(rb"[A-Za-z]{3}")
_KERNEL = pattern_of(rb"[/:\]]")
_BAD = pattern_of(
    rb"(?i)^(?:error\b.*|err\w*pull|\w*backoff\w*|crash\w*|failed.*|failing|failure|fail|evicted"
    rb"|\w*killed|pending.*|terminating|unknown|not-?ready.*|\w*schedulingdisabled|not-found|down"
    rb"|exited \((?!0\)).*|.*\(unhealthy\)|unhealthy|restarting.*|dead|init:(?!.*completed).*"
    rb"|unreachable"
    rb"|degraded|cancelled|canceled|timed_out|startup_failure|action_required|lost|warning|stopped"
    rb"|terminated|suspended|deleting|pending-\w+|uninstalling|paused|invalid.*|removing|expired"
    rb"|inactive|rollback\w*|\w+_failed|zombie|<defunct>)$"
)
_CALM = pattern_of(
    rb"(?i)^(?:running|ready|active|completed?|succeeded|success|ok|bound|up\b.*|exited \(0\).*"
    rb"|deployed|healthy|available|true|false|normal|loaded|enabled|pass|open|merged|latest|yes)$"
)
# Columns that hold text of any kind: no word in them is a state.
_TEXT = pattern_of(
    rb"(?i)^(?:name|names|command|cmd|args|message|title|description|image|repository|tag|path|node"
    rb"|mounted on|filesystem|labels|selector|ports?|pid|user|id|container id|image id|tty|device"
    rb"|url|branch|event|type|.*\bip)$"
)
_STATED = pattern_of(
    rb"(?i)^$|stat|phase|health|ready|condition|^sub$|^active$|^load$|conclusion|type|reason|result"
)
_LOAD = pattern_of(rb"%?CPU\b|%?MEM(?:ORY)?\b")
# A file descriptor of its own, open for reading, writing or both.
_HELD = pattern_of(rb"\d+[rwu]")
_DONE = pattern_of(rb"(?i)^(?:completed?|succeeded|exited \(0\).*)$")
_LEGEND = pattern_of(rb"(?:LOAD|ACTIVE|SUB|JOB)\s+= |To show all installed unit files")
_BULLET = pattern_of(rb"^(?:[*x]|[\xc2-\xef][\x80-\xbf]+) (?=\S)| +")
_SINCE = pattern_of(
    rb"(?:\b[0-9]+|\bAbout an?|\bLess than a) (?:second|minute|hour|day|week|month|year)s?(?: ago)?"
)
_PARTS = pattern_of(rb"^([0-9]+)/([0-9]+)$")
_SHARE = pattern_of(rb"^([0-9]{1,3})(?:\.[0-9]+)?%$")
_RULE = pattern_of(
    rb"^[-+|=\s\xe2\x94\x80\xe2\x94\xbc\xe2\x94\xbf\xe2\x95\x90]+$|^(?:\xe2[\x94\x95][\x80-\xbf])+$"
)
_BARS = (b"|", b"\xe2\x94\x82", b"\xe2\x95\x91")
_ROWS = pattern_of(rb"^\([0-9]+ rows?\)$|^[0-9]+ rows? in set|^Time: |units? listed|^Total:? ")
_TAG = pattern_of(rb"[A-Z]{2,}(?: [A-Z]+){0,3}(?: [0-9]+){0,2}$")
_HEADING = pattern_of(rb"^[A-Z][A-Z0-9 %()/_.:#-]*(?:\([a-z]+\))?$")
_BY_SPACE = frozenset(("ps", "df", "lsof", "free", "top", "systemctl"))
_PACKAGES = frozenset(("coverage", "dpkg", "apt", "pip", "uv"))
_LISTS = frozenset(("list", "freeze"))
_OUTLINES = frozenset(("describe", "status", "view", "show", "info", "inspect"))


class Family(base.Family):
    """Summarises tables and outlines."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self._outline: Blame | Outline | Sizes | Coverage | Packages | None = None
        if argv[0] in ("du", "wc"):
            self._outline = Sizes()
        elif argv[:2] == ("git", "blame"):
            self._outline = Blame()
        elif argv[0] in _PACKAGES and (argv[0] not in ("pip", "uv") or _LISTS & set(argv[1:3])):
            from yarp.reduce.families import inventory

            coverage = argv[0] == "coverage"
            self._outline = inventory.Coverage() if coverage else inventory.Packages(argv[0])
        elif _OUTLINES & set(argv[1:3]):
            self._outline = Outline()
        self._blocks: list[bytes] = []
        self._kept = 0
        self._lines = 0
        self._crowd: Log | None = None
        self._complaints = Complaints()

    def feed(self, stream: int, block: bytes) -> None:
        """See `base.Family`."""
        if stream:
            self._complaints.feed(block)
            return
        self._lines += block.count(b"\n")
        if self._outline is not None:
            self._outline.feed(block)
            return
        if self._crowd is None and self._kept + len(block) > _KEPT_BYTES:
            self._crowd = Log()
            for early in self._blocks:
                self._crowd.feed(early)
            self._blocks = self._blocks[:1] or [block[:4096]]
        if self._crowd is not None:
            self._crowd.feed(block)
        else:
            self._blocks.append(block)
            self._kept += len(block)

    def finish(self, status: Status) -> list[Piece] | None:
        """See `base.Family`."""
        del status  # rows are what they are, and complaints are always kept
        pieces: list[Piece] | None
        if self._outline is not None:
            pieces = self._outline.pieces() if self._lines else []
            if self._lines and not pieces:
                return None
        elif self._crowd is not None:
            pieces = self._crowd.pieces(0, always=True)
            header = self._blocks[0].partition(b"\n")[0]
            if pieces and header:
                pieces.insert(1, Piece(header, 0))
        else:
            pieces = self._tables(b"".join(self._blocks))
        return (pieces or []) + self._complaints.pieces()

    def _tables(self, text: bytes) -> list[Piece]:
        lines = text.split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        pieces: list[Piece] = []
        start = 0
        blank = 0
        for at in [at for at, line in enumerate(lines) if not line.strip()] + [len(lines)]:
            part = lines[start:at]
            if part:
                first = not pieces
                if self.argv[0] == "psql" and all(_TAG.match(line) for line in part):
                    pieces += _tags(part)
                elif first or _headed(part):
                    pieces += _Table(part, self.argv[0]).pieces()
                else:
                    said = [line for line in part if not _LEGEND.match(line)]
                    pieces += [Piece(line, 1 if _ROWS.search(line) else 5) for line in said]
            blank += at < len(lines)
            start = at + 1
        if pieces:
            pieces[0].lines += blank
        return pieces


def _tags(lines: list[bytes]) -> list[Piece]:
    """What psql says of commands that give no rows: each different line once, with its number."""
    counts = Counter(lines)
    if len(lines) == 1:
        return [Piece(lines[0], 1)]
    names: Counter[bytes] = Counter()
    for line, count in counts.items():
        names[line.rstrip(b"0123456789 ")] += count
    out = [Piece(b"%d commands: %b" % (len(lines), counted(names, 8)), 0, lines=0)]
    for line, count in counts.items():
        text = line if count == 1 else b"%b (%d times)" % (line, count)
        out.append(Piece(text, 4, 0, count, _terms([line])))
    return out


def _headed(lines: list[bytes]) -> bool:
    return len(lines) > 1 and all(_HEADING.match(word) for word in _CELLS.split(lines[0].strip()))


class _Table:
    """One table: header lines, rows, footer lines."""

    def __init__(self, lines: list[bytes], program: str) -> None:
        self._program = program
        self._head: list[bytes] = []
        self._foot: list[bytes] = []
        self._columns: list[tuple[bytes, int]] = []
        self._spans: list[tuple[int | None, int | None]] = []
        # Lines that draw: they are not shown and say nothing.
        self._drawn = 0
        while lines and _ROWS.search(lines[-1]):
            self._foot.insert(0, lines.pop())
        body = [line for line in lines if not _RULE.match(line)]
        self._drawn = len(lines) - len(body)
        self._by = b"\t" if body and body[0].count(b"\t") >= 2 else b""
        for bar in _BARS:
            if sum(bar in line for line in body) * 2 > len(body):
                self._by = bar
        drawn = bool(self._drawn) and (self._by in _BARS or bool(_RULE.match(lines[1])))
        if drawn and self._by:
            widths = [len(self._split(line)) for line in body]
            usual = max(widths, key=widths.count, default=0)
            titles = next((at for at, width in enumerate(widths) if width >= usual), 0)
            self._head, body = body[:titles], body[titles:]  # titles above the columns
        # Without a drawn line below it, or words in capitals, the first row is one like others.
        if body and (drawn or (self._by not in _BARS and _capitals(body[0], program))):
            self._columns = self._named(body[0])
            starts: list[int | None] = [at for _, at in self._columns]
            self._spans = list(zip(starts, [*starts[1:], None], strict=True))
            self._head.append(body.pop(0))
        self._rows = body
        self._done: set[int] = set()

    def _named(self, header: bytes) -> list[tuple[bytes, int]]:
        if self._by:
            return [(cell, 0) for cell in self._split(header)]
        titles = _TITLE if self._program in _BY_SPACE else _TITLES
        return [(found[0], found.start()) for found in titles.finditer(header)]

    def _split(self, row: bytes) -> list[bytes]:
        if self._by:
            inner = row.strip()
            if self._by != b"\t":
                while inner.startswith(self._by):
                    inner = inner.removeprefix(self._by).removesuffix(self._by)
            return [cell.strip() for cell in inner.split(self._by)]
        if self._program == "systemctl":
            row = _BULLET.sub(b"", row, count=1)
        if self._program in _BY_SPACE or not self._columns:
            return row.split(None, max(0, len(self._columns) - 1)) if self._columns else row.split()
        spans = self._spans
        if row.isascii():
            placed = True
            for _, at in self._columns:
                # A cell that runs into the next column: positions say nothing about this row.
                placed = placed and (not at or len(row[at - 1 : at + 1].strip()) < 2)
            if placed:
                return [row[start:end].strip() for start, end in spans]
            return [cell for cell in _WIDE.split(row.strip()) if cell]
        # Columns are aligned by characters.
        text = row.decode("utf-8", "replace")
        if any(at and len(text[at - 1 : at + 1].strip()) > 1 for _, at in self._columns):
            return [cell for cell in _WIDE.split(row.strip()) if cell]
        return [text[start:end].strip().encode() for start, end in spans]

    def pieces(self) -> list[Piece]:
        """The table in pieces."""
        rows = self._rows
        if len(rows) < _WHOLE:
            shown = [Piece(_row(row), 2 if at < 6 else 4) for at, row in enumerate(rows)]
            return [*self._header(b""), *shown, *self._footer()]
        cells = [self._split(row) for row in rows]
        width = Counter(map(len, cells)).most_common(1)[0][0]
        names = [name for name, _ in self._columns] or [b""] * width
        worths = [9] * len(rows)
        notes = []
        # Of what has ended well nobody expects that all of it is ready.
        ended = {cell for cell in set().union(*cells) if _DONE.match(cell)}
        if ended:
            self._done = {at for at, row in enumerate(cells) if not ended.isdisjoint(row)}
        for at in range(min(width, len(names))):
            column = [row[at] if len(row) > at else b"" for row in cells]
            note = self._column(names[at], column, worths)
            if note:
                notes.append(note)
        if b"TYPE" in names:
            # An event that the cluster itself calls normal is no trouble.
            at = names.index(b"TYPE")
            for row, found in enumerate(cells):
                worths[row] = 9 if found[at : at + 1] == [b"Normal"] else worths[row]
        pieces = self._header(b"; ".join(notes))
        if self._program == "lsof" and names[-1:] == [b"NAME"]:
            # What is open, not what is mapped or lived in.
            held = Counter(row[-1] for row in cells if len(row) > 4 and _HELD.match(row[3]))
            text = b"open: " + b", ".join(
                b"%b %d" % item if item[1] > 1 else item[0] for item in held.most_common(12)
            )
            if held:
                pieces.append(Piece(text, 2, 0, 0))
        odd = sorted((worth, at) for at, worth in enumerate(worths) if worth < 9)[:_ODD]
        chosen = {at for _, at in odd}
        for worth, at in odd:
            pieces.append(Piece(_row(rows[at]), worth, 0, 1, _terms(cells[at])))
        rest = [at for at in range(len(rows)) if at not in chosen]
        # Where the others are told by kind, the first two say what a row is like.
        like = rest[: 2 * (self._program in _BY_SPACE)]
        pieces += [Piece(_row(rows[at]), 4, 0, 1, _terms(cells[at])) for at in like]
        pieces += self._named_rows(names, rest[len(like) :], cells)
        return pieces + self._footer()

    def _header(self, note: bytes) -> list[Piece]:
        pieces = [Piece(b"\n".join(self._head), 0, 0, len(self._head) + self._drawn)]
        if not self._head:
            pieces = []
        count = b"%d row%b" % (len(self._rows), b"" if len(self._rows) == 1 else b"s")
        if len(self._rows) >= _WHOLE:
            pieces.insert(0, Piece(count + (b": " + note if note else b""), 0, 0, 0))
        return pieces

    def _footer(self) -> list[Piece]:
        return [Piece(line, 0) for line in self._foot]

    def _column(self, name: bytes, column: list[bytes], worths: list[int]) -> bytes:
        """What a column says of all rows; marks rows that stand apart in it."""
        size = len(column)
        known = name.upper()
        # Most cells say what others do: each different one is looked at once.
        counts = Counter(column)
        alarms = {cell: worth for cell in counts if (worth := _alarm(known, cell)) < 9}
        for at, cell in enumerate(column) if alarms else ():
            if cell in alarms and not (at in self._done and _PARTS.match(cell)):
                worths[at] = min(worths[at], alarms[cell])
        if _LOAD.match(known) or (known == b"C" and self._program == "ps"):
            # The busiest are what such a table is asked for.
            loads = sorted((amount(cell), at) for at, cell in enumerate(column))
            for load, at in loads[-2:]:
                if load > 0:
                    worths[at] = min(worths[at], 3)
        if self._program == "ps" and known in (b"COMMAND", b"CMD"):
            for at, cell in enumerate(column):
                if cell.endswith(b"<defunct>"):
                    worths[at] = min(worths[at], 2)
        if _TEXT.match(name) and known != b"TYPE":
            return b""
        since = {cell: _SINCE.sub(b"...", cell) for cell in counts}
        values: Counter[bytes] = Counter()
        for cell, count in counts.items():
            values[since[cell]] += count
        blank = values.pop(b"", 0)
        if 0 < size - blank <= size // 20:
            # A column that few rows have anything in.
            for at, cell in enumerate(column):
                if cell:
                    worths[at] = min(worths[at], 3)
        told = 1 < len(values) <= min(_STATES, size // 2) or (
            len(values) == 1 and _CALM.match(next(iter(values)))
        )
        words = told and all(_WORD.search(value) for value in values)
        few = max(1, size // 20) if words and len(values) > 1 else -1
        stated = len(values) <= max(_STATES, size // 3) and _STATED.search(name)
        marked: dict[bytes, int] = {}
        for cell in counts:
            if stated and len(cell) <= 60 and _BAD.match(cell):
                marked[cell] = 1
            elif values[since[cell]] <= few:
                marked[cell] = 3
        for at, cell in enumerate(column) if marked else ():
            if cell in marked:
                worths[at] = min(worths[at], marked[cell])
        if not words or not values:
            return b""
        return (name + b" " if name else b"") + counted(values, _STATES)

    def _named_rows(self, names: list[bytes], rest: list[int], cells: "_Cells") -> list[Piece]:
        """The rows at these places by what they are called, or as they are."""
        upper = [name.upper() for name in names]
        wanted: tuple[bytes, ...] = (b"NAME", b"NAMES", b"COMMAND", b"CMD", b"UNIT", b"FILESYSTEM")
        processes = self._program in ("ps", "lsof")
        wanted = (b"COMMAND", b"CMD") if processes else wanted
        at = next((upper.index(name) for name in wanted if name in upper), -1)
        called = [cells[row][at] for row in rest if len(cells[row]) > at >= 0]
        if processes:
            words = [_program(cell) for cell in called]
            text = b"%d others: %b" % (len(words), counted(Counter(words), 20))
            rows = [Piece(_row(self._rows[row]), 6) for row in rest]
            return [Piece(text, 4, 0, 0), *rows] if words else []
        if len(set(called)) < len(rest):
            return [Piece(_row(self._rows[row]), 5, 0, 1, _terms(cells[row])) for row in rest]
        return [
            Piece(line.text, 4 if line.odd else 5, 0, 0, (line.term.decode("utf-8", "replace"),))
            for line in _shared(called)
        ]


def _alarm(title: bytes, cell: bytes) -> int:
    """How much a cell asks to be seen by its numbers alone; 9: not at all."""
    parts = _PARTS.match(cell)
    if parts and title in (b"READY", b"") and parts[1] != parts[2]:
        return 2
    share = _SHARE.match(cell)
    if share and int(share[1]) >= 90:
        return 1 if int(share[1]) >= 100 else 2
    return 2 if title == b"RESTARTS" and cell[:1] not in (b"0", b"") else 9


def _shared(names: list[bytes]) -> list[Line]:
    """Names with what many of them begin with said once: `api-5d8f-{mm4vq,x7k2p} (2)`."""
    groups: dict[bytes, list[bytes]] = {}
    for name in names:
        groups.setdefault(name[: name.rfind(b"-") + 1], []).append(name)
    lines: list[Line] = []
    rest: list[bytes] = []
    for start, members in groups.items():
        ends = [name[len(start) :] for name in members]
        if not start or len(members) < _SHARED or all(end.isdigit() for end in ends):
            rest += members
            continue
        text = b"%b{%b} (%d)" % (start, b",".join(ends), len(members))
        lines.append(Line(text, False, start, {start: len(members)}))
    return lines + factor(rest)


def _capitals(line: bytes, program: str) -> bool:
    if program in ("df", "free", "lsof", "ps"):
        return True
    words = _CELLS.split(line.strip())
    return len(words) > 1 and all(_HEADING.match(word) for word in words)


def _program(command: bytes) -> bytes:
    """A command's program, without its directory; what the kernel runs by what it is for."""
    if command.startswith(b"["):
        return b"[%b]" % _KERNEL.split(command[1:])[0]
    return command.split(b" ", 1)[0].rpartition(b"/")[2]


def _row(row: bytes) -> bytes:
    row = row.rstrip()
    return row if len(row) <= _ROW_SHOWN else row[:_ROW_SHOWN] + b" [...]"


def _terms(cells: list[bytes]) -> tuple[str, ...]:
    word = next((cell for cell in cells if _LONG_WORD.search(cell)), b"")
    return (word.decode("utf-8", "replace"),) if word else ()
