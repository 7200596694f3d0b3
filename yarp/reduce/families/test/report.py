"""What any test runner reports and how it is told: outcome, failures with their causes, notes.

Parsers fill a `Report`; `pieces` decides what each line is worth. Every failing test's name comes
before any detail, and each failure's first cause before the depth of another's.
"""

from __future__ import annotations

from yarp.reduce.families.base import Piece
from yarp.reduce.families.lines import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.reduce.families.lines import Wake

FAILURES_KEPT = 1_000
BLOCK_HEAD_BYTES = 6 * 1024
BLOCK_TAIL_BYTES = 2 * 1024
NOTES_KEPT = 60
# A cause is this long at most before the other failures have theirs.
CAUSE_BYTES = 640
LEAST_CAUSE_BYTES = 240
TITLE_BYTES = 400
_LEAST_BRIEF_BYTES = 40

# What a line of a failure is, as parsers grade it; also its worth. Of DEPTH (frames of libraries,
# rules, blank lines) nothing is ever shown: the way back leads to it. What failures are compared
# by is all but SOURCE (the test's own code and arguments) and RULE (decoration, times).
CAUSE, FRAME, MORE, CAPTURED, CONTEXT, SOURCE, DEPTH, RULE = 2, 3, 4, 5, 6, 7, 9, 10
# The engine's note in a line that it cut: what is missing there is not known here.
_CUT = b"-byte line ...] "


class Excerpt:
    """The first and the last lines of something long, in bounded memory."""

    __slots__ = ("_size", "_tail_size", "lines", "lost", "tail")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.lost = 0  # a hash of all lines that were let go of
        self._size = 0
        self.tail: list[bytes] = []
        self._tail_size = 0

    def add(self, line: bytes) -> None:
        """Keep a line, and let go of one in the middle."""
        if self._size < BLOCK_HEAD_BYTES:
            self.lines.append(line)
            self._size += len(line) + 1
            return
        self.tail.append(line)
        self._tail_size += len(line) + 1
        while self._tail_size > BLOCK_TAIL_BYTES and len(self.tail) > 1:
            line = self.tail.pop(0)
            self._tail_size -= len(line) + 1
            self.lost = hash((self.lost, line))

    def text(self) -> list[bytes]:
        """The lines kept."""
        return self.lines + self.tail


class Failure(Excerpt):
    """One failing test, suite or target: its title as printed, and the lines said about it.

    `brief` is the tool's own one-line cause, used where the lines themselves find no room;
    `word` is what a search for all failures of the run would look for, `label` what another
    failure calls this one; `loose` says that a test may have printed it.
    """

    __slots__ = ("brief", "grade", "label", "loose", "name", "title", "word")

    def __init__(
        self,
        title: bytes,
        name: bytes,
        grade: Callable[[list[bytes]], list[int]] | None = None,
        word: str = "",
    ) -> None:
        super().__init__()
        self.title = title
        self.name = name
        self.grade = grade
        self.word = word
        self.brief = b""
        self.label = b""
        self.loose = False


class Report:
    """What was read of a run; lists are bounded, `more` counts what they could not hold."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, bytes]] = []
        self.failures: list[tuple[int, Failure]] = []
        self.notes: list[tuple[int, int, bytes, str]] = []
        self.marks: list[tuple[int, Failure]] = []
        self.more = 0
        self.unmarked = 0
        self.sentence = b""
        self.failed = False  # the tool itself says that something went wrong
        self.recognised = False

    def outcome(self, stream: int, line: bytes) -> None:
        """Keep an outcome line of the tool; past a bound the first ones and the last stay."""
        self.recognised = True
        if len(self.outcomes) >= 2 * NOTES_KEPT:
            self.outcomes[-1] = (stream, line)
        else:
            self.outcomes.append((stream, line))

    def failure(self, stream: int, failure: Failure) -> None:
        """Keep a failure, or count it."""
        self.failed = self.recognised = True
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append((stream, failure))
        else:
            self.more += 1

    def mark(self, stream: int, title: bytes, name: bytes) -> None:
        """Keep a name from the progress; told only when no failure has more to say."""
        if len(self.marks) < FAILURES_KEPT:
            self.marks.append((stream, Failure(title, name)))
        else:
            self.unmarked += 1

    def note(self, worth: int, stream: int, line: bytes, term: str = "") -> None:
        """Keep a line that is neither outcome nor failure."""
        if len(self.notes) < 4 * NOTES_KEPT:
            self.notes.append((worth, stream, line, term))


class Runner(Parser):
    """A parser that fills a report; `plain` holds lines that it has no other place for.

    While no failure is open, only the lines that `noise` asks for matter.
    """

    noise: Wake

    def __init__(self, report: Report, stream: int) -> None:
        self.report = report
        self.stream = stream
        self.plain = Excerpt()
        self.open: Failure | None = None
        self.partial = False

    def wake(self) -> Wake | None:
        """All lines of an open failure, else what ends the noise."""
        return None if self.open is not None else self.noise

    def below(self) -> bool:
        """See `Parser`: while there is room for another failure."""
        return self.open is not None and not self.report.more

    def skipped(self) -> None:
        """Whatever block was open is open no more, and what was counted is not all."""
        self.open = None
        self.partial = True

    def finish(self) -> None:
        """The stream has ended."""
        self.open = None


def pieces(report: Report, budget_bytes: int) -> list[Piece]:
    """The report in reading order: outcome, failures, notes."""
    out = [Piece(line, 0, stream) for stream, line in _unique(report.outcomes)]
    if report.sentence:
        out.insert(0, Piece(report.sentence, 0, lines=0))
    spent = sum(len(piece.text) + 1 for piece in out)
    out += _failures(report, max(0, budget_bytes - 200 - spent))
    failures = report.failures or report.marks
    more = report.more if report.failures else report.unmarked
    if more:
        words = [failure.word or _first_word(failure) for _, failure in failures]
        often = (max(set(words), key=words.count),) if words else ()
        text = b"(%d more failures were seen)" % more
        out.append(Piece(text, 1, lines=0, terms=often))
    seen: set[bytes] = set()
    for worth, stream, line, term in report.notes:
        if line not in seen:
            seen.add(line)
            out.append(Piece(line, worth, stream, terms=(term,) if term else ()))
    return out


def _unique(outcomes: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return list(dict.fromkeys(outcomes))


def _failures(report: Report, budget_bytes: int) -> list[Piece]:
    """Titles first, then a cause for as many as the budget holds, then depth."""
    failures = report.failures or report.marks
    # Each failure's cause has a fair share before another's may be long.
    share = budget_bytes * 6 // 10 // max(1, len(failures))
    cause_bytes = max(LEAST_CAUSE_BYTES, min(CAUSE_BYTES, share))
    title_bytes = max(LEAST_CAUSE_BYTES // 2, min(TITLE_BYTES, share))
    if sum(min(len(failure.title), TITLE_BYTES) for _, failure in failures) * 5 < budget_bytes * 3:
        title_bytes = TITLE_BYTES  # all names fit as they are
    # The very first one is told with its place, however many there are.
    rooms = [max(cause_bytes, min(CAUSE_BYTES, budget_bytes // 4))]
    rooms += [cause_bytes] * len(failures)
    told = [
        _Told(stream, failure, room, title_bytes)
        for (stream, failure), room in zip(failures, rooms, strict=False)
    ]
    groups: dict[tuple[object, ...], list[_Told]] = {}
    for one in told:
        if one.whole:
            group = groups.setdefault(one.whole, [])
            one.again = any(one.title == other.title for other in group[:4])
            if not one.again:
                group.append(one)
    # A compiler says the same of the library and of its tests: once is enough.
    told = [one for one in told if not one.again]
    labels: dict[bytes, int] = {}
    for one in told:
        labels[one.label] = labels.get(one.label, 0) + 1
    names = sum(len(one.title) + 1 for one in told)
    # What is said after a name may never cost another name.
    spare = (budget_bytes - names) // max(1, len(told))
    crowded = names > budget_bytes - CAUSE_BYTES
    # Too many to name: one of each cause, some names, and the marker's search for the others.
    name_budget = budget_bytes * 45 // 100 if crowded else names
    cause_budget = budget_bytes - name_budget
    out: list[Piece] = []
    before: _Told | None = None  # the failure that was told last, if it had something to say
    for one in told:
        group = groups.get(one.whole, [one])
        first = group[0] is one
        least = CAUSE
        note = b""
        if not first:
            label = group[0].label
            if labels[label] > 1:
                label = group[0].failure.title.partition(b" ")[2]
            note = b" (same error as " + label + b")"
            if before is not None and before.whole == one.whole and len(note) > max(spare, 40):
                note = b" (same error)"
            if len(note) > spare and not crowded:
                cause_budget -= len(note)
        elif crowded and len(group) > 2:
            note = b" (and %d more with the same error)" % (len(group) - 1)
        elif one.failure.brief and (not one.cause or cause_budget < one.cause_bytes):
            note = b" - " + one.failure.brief
            if len(note) > max(spare, 0):
                note = _clipped(note, spare) if spare >= _LEAST_BRIEF_BYTES else b""
            least = CAPTURED if one.cause else CAUSE
        one.title += note
        worth = 1
        if crowded:
            name_budget -= len(one.title) + 1
            worth = 4 if name_budget < 0 or not first else 1
            name_budget += 0 if worth == 1 else len(one.title) + 1
        out.append(Piece(one.title, worth, one.stream, terms=one.terms))
        if first:
            if worth == 1:
                cause_budget -= one.cause_bytes
            out += one.details(least if worth == 1 else 8)
        before = one if one.whole else None
    return out


def _first_word(failure: Failure) -> str:
    return failure.title.split(b" ", 1)[0].decode("utf-8", "replace")


def _clipped(text: bytes, size: int) -> bytes:
    return text[: size - 3].decode("utf-8", "ignore").encode() + b"..."


def short(name: bytes) -> bytes:
    """A test's name without its file: `test_x[a::b]` of `tests/test_a.py::test_x[a::b]`."""
    head, bracket, parameter = name.partition(b"[")
    return head.rpartition(b"::")[2] + bracket + parameter


class _Told:
    """A failure on its way to pieces: its title, its graded lines, its cause."""

    __slots__ = (
        "again",
        "cause",
        "cause_bytes",
        "failure",
        "graded",
        "label",
        "stream",
        "terms",
        "title",
        "whole",
    )

    def __init__(self, stream: int, failure: Failure, cause_bytes: int, title_bytes: int) -> None:
        self.stream = stream
        self.failure = failure
        self.title = cut(failure.title, title_bytes)
        self.label = cut(failure.label or short(failure.name), title_bytes)
        self.again = False
        grades, lines = _grades(failure)
        self.whole = _whole(failure, grades, lines)
        self.graded = _graded(grades, lines, cause_bytes)
        self.cause = tuple(line for worth, line in self.graded if worth == CAUSE)
        self.cause_bytes = sum(len(line) + 1 for line in self.cause)
        name = failure.name.decode("utf-8", "replace")
        word = failure.word or _first_word(failure)
        self.terms = tuple(term for term in (word, name) if term)

    def details(self, least: int) -> list[Piece]:
        """Neighbouring lines of one worth become one piece, so that they stay or go together."""
        out: list[Piece] = []
        held: list[bytes] = []
        current = -1
        for worth, line in [*self.graded, (-2, b"")]:
            # Depth is taken in parts: as much of it as fits.
            if worth != current or sum(map(len, held)) > 300:
                if held:
                    text = b"\n".join(held)
                    out.append(Piece(text, max(least, current), self.stream, terms=self.terms))
                held, current = [], worth
            held.append(line)
        return out


def _grades(failure: Failure) -> tuple[list[int], list[bytes]]:
    lines = failure.text()
    return failure.grade(lines) if failure.grade else [CAUSE] * len(lines), lines


def _whole(failure: Failure, grades: list[int], lines: list[bytes]) -> tuple[object, ...]:
    """All that was said of a failure, to compare it by; empty where a part of it is unknown."""
    said = [
        line
        for grade, line in zip(grades, lines, strict=True)
        if grade not in (SOURCE, RULE) and line.strip()
    ]
    if not said or any(_CUT in line for line in said):
        return ()
    return (failure.lost, *said)


def _graded(grades: list[int], lines: list[bytes], cause_bytes: int) -> list[tuple[int, bytes]]:
    """The failure's lines with their worth; what is too long for a cause is worth less."""
    # The exception has its room before what leads to it.
    first = sum(
        min(len(line), TITLE_BYTES) + 1
        for worth, line in zip(grades, lines, strict=True)
        if worth == CAUSE and line.strip()
    )
    rooms = {CAUSE: cause_bytes, FRAME: cause_bytes - first}
    out = []
    for worth, line in zip(grades, lines, strict=True):
        if worth >= DEPTH or not line.strip():
            continue
        if worth in (CAUSE, FRAME):
            kept = cut(line, TITLE_BYTES) if len(line) > TITLE_BYTES else line
            rooms[worth] -= len(kept) + 1
            out.append((worth if rooms[worth] >= 0 else MORE, kept))
        else:
            out.append((worth, line))
    return out


def cut(line: bytes, size: int) -> bytes:
    """The line's beginning and end around a note of what is missing, on character boundaries."""
    if len(line) <= size:
        return line
    keep = max(0, size - 24)
    head = line[: keep * 2 // 3].decode("utf-8", "ignore").encode()
    tail = line[len(line) - keep // 3 :]
    while tail and tail[0] & 0xC0 == 0x80:
        tail = tail[1:]
    return b"%s[... %d bytes ...]%s" % (head, len(line) - len(head) - len(tail), tail)
