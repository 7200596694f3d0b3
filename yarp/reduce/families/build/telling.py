"""How a build is told: outcome, errors by file, kinds of warnings, products.

Each file's first error stands whole, with its code frame; the others are told by kind with all
their places, so that names outlive bodies. Counts are of the whole stream or say "at least".
"""

from __future__ import annotations

from collections import Counter

from yarp.reduce.families.base import Piece
from yarp.reduce.families.build.diagnostic import QUOTED, Diagnostic
from yarp.reduce.families.build.words import ERROR, UNSAID, WARNING, looks_wrong
from yarp.reduce.families.names import factor
from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.build.report import Report

_FRAMES = 8
_ROW_BYTES = 200
_ROWS = 4
_BRIEF = 3
_FEW = 5
# A shorter directory is said with each name: a place can be searched for as it stands.
_SHARED = 12
# Kinds of errors that are told once the room for each file's first error is spent.
_STRANGE = 10
# A message that is the first one of this many files is shown whole for the first three.
_SAME = 6
_SHOWN = 3
_LINE_BYTES = 400
# pre-commit's hooks that failed, and those that changed files.
_HOOK_ENDS = (b".Failed", b".Error", b"- files were modified by this hook")
_HOOKS = 100


def pieces(report: Report, budget_bytes: int, *, failed: bool) -> list[Piece]:
    """The report in reading order."""
    kept = report.kept()
    least = b"at least " if report.partial or report.more else b""
    errors = [found for found in kept if found.severity <= (UNSAID if failed else ERROR)]
    warnings = [
        found for found in kept if found.severity in ((WARNING,) if failed else (UNSAID, WARNING))
    ]
    out = _outcomes(report)
    out += _header(report, errors)
    for stream, traceback in report.tracebacks:
        for worth, text in traceback.parts():
            out.append(Piece(text, worth, stream, terms=("Error", "Traceback")))
    out += _errors(errors, budget_bytes * 45 // 100, least)
    out += _listed(report)
    worth = 4 if errors else 1
    if errors:
        out += _kinds(warnings, least)
    for group in _groups(warnings):
        out += _group(group, worth, least, brief=bool(errors))
    out += _products(report)
    told = bool(errors or report.tracebacks)
    out += _notes(report, told=told, failed=failed)
    return out


def _outcomes(report: Report) -> list[Piece]:
    out = []
    many = len(report.outcomes)
    for at, (stream, line) in enumerate(report.outcomes):
        near = at < 4 or many - at <= 8 or (line.endswith(_HOOK_ENDS) and at < _HOOKS)
        text = line[:_LINE_BYTES] if len(line) > _LINE_BYTES else line
        text = _ADVISED.sub(b"", text)
        out.append(Piece(text.rstrip(), 0 if near else 4, stream, terms=_word(line)))
    return out


def _header(report: Report, errors: list[Diagnostic]) -> list[Piece]:
    """The kinds of errors with their counts, where there are too many to see at once."""
    if report.partial or report.more or len(errors) < 6:
        return []
    said = [int(number) for _, line in report.outcomes for number in _SAID.findall(line)]
    if said and len(errors) not in said:
        return []  # the tool counts otherwise, or prints only some
    codes = Counter(found.code for found in errors if found.code)
    files = len({found.path for found in errors if found.path})
    parts = []
    if not said:
        word = b"messages" if any(found.severity == UNSAID for found in errors) else b"errors"
        parts.append(b"%d %b" % (len(errors), word))
        parts[-1] += b" in %d files" % files if files > 1 else b""
    if len(codes) > 1 and sum(codes.values()) == len(errors):
        parts.append(b", ".join(b"%b %d" % item for item in codes.most_common(16)))
        parts[-1] += b", ..." if len(codes) > 16 else b""
    return [Piece(b"(" + b": ".join(parts) + b")", 1, errors[0].stream, 0)] if parts else []


def _kinds(warnings: list[Diagnostic], least: bytes) -> list[Piece]:
    """The names of all kinds of warnings, so that they are not lost behind errors."""
    codes = Counter(found.code for found in warnings if found.code)
    if len(warnings) < 4 or not codes:
        return []
    text = b"(warnings: " + least + b", ".join(b"%b %d" % item for item in codes.most_common(20))
    return [Piece(text + (b", ...)" if len(codes) > 20 else b")"), 1, warnings[0].stream, 0)]


_WARNED = pattern_of(rb"(?i)\bwarn(?:ing)?\b|deprecat")
_ALARM = pattern_of(rb"(?i)error|fail\w*|warn\w*")
_ADVISED = pattern_of(rb"(?<= warnings) \(run `cargo [^)]*\)$")
_SAID = pattern_of(rb"\b(\d{1,9}) (?:previous )?(?:errors?|problems?|issues?)\b")


def _errors(errors: list[Diagnostic], room: int, least: bytes) -> list[Piece]:
    """Each file's first error, then the others by kind."""
    out: list[Piece] = []
    files: set[bytes] = set()
    leads: list[Diagnostic] = []
    rest: list[Diagnostic] = []
    for found in errors:
        (rest if found.path and found.path in files else leads).append(found)
        files.add(found.path)
    crowded = sum(len(found.title) + 1 for found in leads) > room
    frames = strange = 0
    kinds: Counter[tuple[int, bytes]] = Counter()
    messages: set[bytes] = set()
    late: list[Diagnostic] = []
    said = Counter(found.message for found in leads)
    same: dict[bytes, list[Diagnostic]] = {}
    for found in leads:
        group = same.setdefault(found.message, [])
        if said[found.message] >= _SAME and found.path:
            group.append(found)
            if len(group) > _SHOWN:
                continue
        room -= len(found.title) + 1
        kind = found.kind()
        if crowded and room < 0 and found.path and (kinds[kind] or strange >= _STRANGE):
            late.append(found)
            continue
        strange += room < 0
        new = not kinds[kind]
        kinds[kind] += 1
        # Of one kind the first few stand before a kind that comes late.
        worth = 1 if kinds[kind] <= 3 else 2
        title = _cut(found.title)
        title += b"\n  required from " + found.origin if found.origin else b""
        out.append(Piece(title, worth, found.stream, terms=_terms(found)))
        if frames < _FRAMES and found.message not in messages:
            messages.add(found.message)
            body = _frame(found)
            # The very first one is told with its code.
            near = 2 * (not frames)
            frames += bool(body)
            out += [
                Piece(text, grade - near if new else grade + 1, found.stream)
                for grade, text in body
            ]
    for group in same.values():
        if len(group) > _SHOWN:
            label = group[0].code or _cut(group[0].message)[:120]
            more = b", the same in %b%d more files:" % (least, len(group) - _SHOWN)
            out += _files(group[_SHOWN:], label + more)
    if late:
        out += _files(late, b"%b%d more files with errors:" % (least, len(late)))
    for group in _groups(rest):
        out += _group(group, 2, least)
    return out


def _files(found: list[Diagnostic], text: bytes) -> list[Piece]:
    """The places of many files' first errors in few rows."""
    rows = _places([found[0], *found], named=False)
    out = []
    for at in range(0, len(rows), _ROWS):
        text += b"".join(b"\n  " + row for row, _ in rows[at : at + _ROWS])
        count = sum(count for _, count in rows[at : at + _ROWS])
        out.append(Piece(text.strip(b"\n"), 2, found[0].stream, count, _terms(found[0])))
        text = b""
    return out


def _groups(found: list[Diagnostic]) -> list[list[Diagnostic]]:
    """Messages of one kind together, the first ones first."""
    groups: dict[tuple[int, bytes], list[Diagnostic]] = {}
    for one in found:
        groups.setdefault(one.kind(), []).append(one)
    return list(groups.values())


def _group(
    group: list[Diagnostic], worth: int, least: bytes, *, brief: bool = False
) -> list[Piece]:
    """One message as it was printed, and where the same was said again; `brief`: in few rows."""
    first = group[0]
    many = len(group)
    out: list[Piece] = []
    if many < 3:
        for at, one in enumerate(group):
            grade = worth if not at else worth + 1
            out.append(Piece(_cut(one.title), grade, one.stream, terms=_terms(one)))
            if not at and not brief:
                out += [Piece(text, 6, one.stream) for _, text in _frame(one)[:1]]
        return out
    title = _cut(first.title) + b" (and %b%d more)" % (least, many - 1)
    out = [Piece(title, worth, first.stream, terms=_terms(first))]
    if not brief:
        out += [Piece(text, 6, first.stream) for _, text in _frame(first)[:1]]
    rows = _places(group)
    if brief and len(rows) > _BRIEF:
        rows[_BRIEF - 1 :] = [(rows[_BRIEF - 1][0] + b", ...", rows[_BRIEF - 1][1])]
    for at in range(0, len(rows), _ROWS):
        part = rows[at : at + _ROWS]
        text = b"\n".join(b"  " + row for row, _ in part)
        grade = min(worth + (3 if at else 1), 8)
        out.append(Piece(text, grade, first.stream, sum(count for _, count in part), _terms(first)))
    return out


def _places(group: list[Diagnostic], *, named: bool = True) -> list[tuple[bytes, int]]:
    """Rows of `path:place :place, path:place`, with the names that differ between messages."""
    names = _varying([one.message for one in group]) if named else [b""] * len(group)
    same = named and len({one.place for one in group}) == 1 and not any(names)
    if same and len({one.path for one in group}) == 1:
        return []
    shared = _shared([path for path in dict.fromkeys(one.path for one in group) if path])
    row, count = b"also", 0
    row += b" at " + group[0].place if same and group[0].place else b""
    row += b" in " + shared + b":" if shared else b":"
    rows: list[tuple[bytes, int]] = []
    current: bytes | None = None
    for one, name in zip(group[1:], names[1:], strict=True):
        place = (b"" if same else one.mark()) + (b" " + name if name else b"")
        path = one.path[len(shared) :]
        if count and len(row) + len(path) + len(place) > _ROW_BYTES:
            rows.append((row, count))
            row, count, current = b" ", 0, None
        if path != current:
            row += b", " if count else b" "
            row += path
        elif place:
            row += b" "
        row += place
        current = path
        count += 1
    rows.append((row, count))
    return rows if rows[0][0].strip(b" ,") != b"also:" else []


def _varying(messages: list[bytes]) -> list[bytes]:
    """Of each message the quoted name that differs most from one to another; b'' if none does."""
    quoted = [
        [found[0] for found in QUOTED.finditer(message[:_LINE_BYTES]) if not found[0].isdigit()][:4]
        for message in messages
    ]
    best: list[bytes] = [b""] * len(messages)
    most = 1
    for at in range(max(map(len, quoted))):
        column = [
            names[at] if at < len(names) and len(names[at]) <= 60 else b"" for names in quoted
        ]
        if len(set(column)) > most:
            most, best = len(set(column)), column
    return best


def _shared(paths: list[bytes]) -> bytes:
    """The directory that all paths lie in, if saying it once saves anything."""
    if len(paths) < 3:
        return b""
    first, last = min(paths), max(paths)
    size = 0
    while size < min(len(first), len(last)) and first[size] == last[size]:
        size += 1
    directory = first[: first.rfind(b"/", 0, size) + 1]
    return directory if len(directory) > _SHARED else b""


_POINTER = pattern_of(r"[\s|^~│·╵╷╰─┬┴├>:-]*$".encode())
_STACK = pattern_of(rb"\s+at .*(?:node_modules|node:|\.mjs|<anonymous>|java\.base|\(native)")
_EXPLAINS = (b"= note", b"= help", b"help:", b"note:", b"info:", b"hint:", b"i ", b"@ ")


def _frame(found: Diagnostic) -> list[tuple[int, bytes]]:
    """(worth, lines) of what stands below a message: the code and its mark, then explanations."""
    code: list[bytes] = []
    told: list[bytes] = []
    explaining = False
    own = False
    for at, line in enumerate(found.body):
        start = line.strip()
        if not start or start in (b"|", b"...", "│".encode(), b"^"[:0]):
            continue
        explaining = explaining or start.startswith(_EXPLAINS) or b": note: " in line
        if start.startswith(b"at "):
            if own or _STACK.match(line):
                continue
            own = True
            code.append(line)
        elif explaining:
            told.append(line)
        elif len(code) < 4 or (at and _POINTER.fullmatch(line)):
            code.append(line)
        else:
            told.append(line)
    # Of a longer stretch of code only the lines around the mark say something.
    marked = [at for at, line in enumerate(code) if _POINTER.fullmatch(line) and b"^" in line]
    if len(code) > 5 and marked:
        code = code[max(0, marked[0] - 2) : marked[0] + 2]
    out = []
    if code:
        out.append((3, b"\n".join(code[:8])))
    if told:
        out.append((6, b"\n".join(told[:6])))
    return out


def _listed(report: Report) -> list[Piece]:
    out = []
    for kind, names in report.names.items():
        stream = report.name_stream[kind]
        out.append(Piece(b"%b (%d):" % (kind.rstrip(b":"), report.named[kind]), 1, stream, 0))
        for line in factor(names):
            term = (kind.decode("utf-8", "replace"), line.term.decode("utf-8", "replace"))
            worth = 1 if len(names) <= _FEW else 2
            out.append(Piece(b"  " + line.text, worth, stream, line.count, term))
    return out


def _products(report: Report) -> list[Piece]:
    """What was built: the first and the last of a long list."""
    routes: dict[bytes, list[bytes]] = {}
    streams: dict[bytes, int] = {}
    for stream, line in report.products:
        route = _ROUTE.match(line)
        if route is not None:
            routes.setdefault(route[1], []).append(route[2])
            streams[route[1]] = stream
    if sum(map(len, routes.values())) > _FEW:
        report.products = [item for item in report.products if not _ROUTE.match(item[1])]
    else:
        routes = {}
    many = len(report.products)
    return [
        Piece(b"%b (%d): %b" % (mark, len(names), b" ".join(names)), 2, streams[mark], len(names))
        for mark, names in routes.items()
    ] + [
        Piece(line, 3 if at < 3 or many - at <= 3 else 5 if at < 12 else 8, stream)
        for at, (stream, line) in enumerate(report.products)
    ]


def _notes(report: Report, *, told: bool, failed: bool) -> list[Piece]:
    """Lines of no known form; without an error to show, what a failed tool said last matters."""
    out: list[Piece] = []
    # A message's first line may have been read before its place was; what is left of a frame
    # would stand below another message.
    titles = {line for found in report.kept() for line in found.title.split(b"\n")}
    for stream in (0, 1):
        lines = report.plain_lines(stream)
        if told:
            lines = [line for line in lines if line not in titles and not _ROW.match(line)]
        for at, line in enumerate(lines):
            wrong = looks_wrong(line)
            from_end = len(lines) - at
            if told:
                last = 10 if report.tracebacks else 4
                worth = 5 if wrong else 7 if from_end <= last else _NEVER
            elif failed:
                worth = 1 if wrong and at < 12 else 2 if wrong or from_end <= 10 else 6
            else:
                warned = wrong or _WARNED.search(line) is not None
                worth = 3 if warned else 5 if from_end <= 6 else 7 if at < 4 else 8
            if worth != _NEVER:
                out.append(Piece(_cut(line), worth, stream, terms=_word(line)))
    if report.last_noise and not report.partial:
        stream, line = report.last_noise
        if not failed and not report.outcomes:
            out.append(Piece(_cut(line), 3, stream))
        named = Counter({kind: count for kind, count in report.noises.items() if kind})
        other = sum(report.noises.values()) - sum(named.values())
        parts = [b"%b %d" % item for item in named.most_common(6)]
        if other:
            parts.append(b"other %d" % other)
        out.append(Piece(b"(progress lines: " + b", ".join(parts) + b")", 5, stream, 0))
    return out


_NEVER = 10
# A line of a code frame: its number, a bar or the sign of what was added.
_ROW = pattern_of(rb"\s*\d+\s+[|+](?:\s|$)|\s+\|(?:\s|$)")
# A route of a web application, by how it is rendered.
_ROUTE = pattern_of("(?:┌|├|└) (○|●|ƒ|λ|◐) (/\\S*)".encode())


def _cut(text: bytes) -> bytes:
    """A title of bounded length: both ends of a very long one."""
    if len(text) <= _LINE_BYTES * 2:
        return text
    head = text[:_LINE_BYTES].decode("utf-8", "ignore").encode()
    tail = text[-_LINE_BYTES // 2 :].decode("utf-8", "ignore").encode()
    return b"%b [... %d bytes ...] %b" % (head, len(text) - len(head) - len(tail), tail)


def _terms(found: Diagnostic) -> tuple[str, ...]:
    general = found.code.decode("utf-8", "replace") if found.code else ""
    if not general:
        general = "warning" if found.severity >= WARNING else "error"
    path = found.path.rpartition(b"/")[2].decode("utf-8", "replace")
    return tuple(term for term in (general, path) if term)


def _word(line: bytes) -> tuple[str, ...]:
    found = _ALARM.search(line)
    return (found[0].decode("utf-8", "replace"),) if found else ()
