"""pytest: sections ruled off with `=`, blocks with `_`, a last line that says it all.

The FAILURES section and the short summary tell of the same failures; they are told once here.
A test may print all of this itself (a run within the run): where that cannot be ruled out, what
was read waits until the run has ended, and the last summary and the last outcome are the run's.
"""

from __future__ import annotations

from yarp.reduce.families.lines import Wake, split
from yarp.reduce.families.test.pytest_blocks import grades, is_place
from yarp.reduce.families.test.report import (
    CAPTURED,
    CAUSE,
    FRAME,
    MORE,
    Failure,
    Runner,
    short,
)
from yarp.reduce.families.test.words import traceback_grades

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_SECTION = Wake(
    b"=", b"!!", b"INTERNALERROR>", b"ERROR: ", b"FAIL ", b"[gw", b"replacing crashed",
    b"ImportError while", b"pytest: error: ",
)  # fmt: skip
_PROGRESS = Wake(
    *_SECTION.starts,
    inside=(b" FAILED", b" ERROR", b"ed in", b"arnings in", b"rrors in", b"session starts"),
)
_QUIET_SECTIONS = (b"PASSES", b"XFAILURES", b"XPASSES")
_BLOCKS = {b"FAILURES": "FAILED", b"ERRORS": "ERROR"}
_TOLD = (*_BLOCKS, b"short test summary info", b"warnings summary", b"warnings summary (final)")
_SUMMARY = b"short test summary info"
_START = b"test session starts"
_ENDED = b"ended"
_SUMMARY_LINES = 3_000
_LOUD_KEPT = 20
_ALIKE = 50
_LOUD = (b"ERROR: ", b"FAIL ", b"replacing crashed", b"Exit: ")
_NO_CONFTEST = b"ImportError while loading conftest"
# Lines that mean something else, whatever they end with.
_ODD = (*_LOUD, _NO_CONFTEST, b"INTERNALERROR>", b"=", b"!", b"[gw")
_ODD_BEGIN = frozenset(start[0] for start in _ODD)
_STARTS = b"= test session starts ="
_MISUSED = b"pytest: error: "
_WELL = (b" PASSED", b" SKIPPED", b" XFAIL", b" XPASS")


class Pytest(Runner):
    """Reads pytest's terminal report, also several one after the other."""

    late = Wake(
        b"===", b"!!!", b"FAILED ", b"ERROR ", b"SUBFAILED", b"____", b"INTERNALERROR>",
        inside=(b" FAILED", b" ERROR ", b": KeyboardInterrupt"),
    )  # fmt: skip

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self._reset()

    def _reset(self) -> None:
        self.section = b""
        self.tentative = b""
        self.all = False
        self.noise = _PROGRESS
        self.blocks: list[Failure] = []
        self.index: dict[bytes, list[Failure]] = {}  # by title, those not yet named
        self.summary: list[bytes] = []
        self.closing = self.closed = False  # this line, the line before was an outcome
        self.width = 0
        self.headed = False  # the run began with a header, so its outcome is ruled too
        self.depth = 0  # runs that began and did not end
        self.doubt = False  # what a test printed stands here
        self.loud = 0
        self.beyond = 0  # failures of a summary that has no room for them
        self.back = b""  # the section that goes on when a run within it has ended

    def skipped(self) -> None:
        """Lines are left out; what is read of a block after that belongs to no test by name."""
        super().skipped()
        if self.section in _BLOCKS:
            self.open = Failure(b"", b"")

    def wake(self) -> Wake | None:
        """What the section asks for; all lines of sections that are told."""
        return None if self.open is not None or self.all else self.noise

    def line(self, line: bytes) -> None:
        """Take one line, in the section it stands in."""
        self.closed, self.closing = self.closing, False
        if line.endswith(b"%]") and self._counts() and _passed(line):
            return  # most lines are of this kind
        first = line[:1]
        if first == b"=" and self._header(line):
            return
        if first == b"!" and line.endswith(b"!"):
            self._close()
            self.report.failed = self.report.recognised = True
            self.report.outcome(self.stream, line.strip(b"! "))
            return
        if line.startswith(b"INTERNALERROR>"):
            self._internal(line)
            return
        if line.endswith(b": KeyboardInterrupt"):
            self.report.note(1, self.stream, line)  # where it stood
            return
        if b"= test session starts =" in line:
            # What a test prints first stands behind its file's name, what it logs behind a level.
            self.depth += 1
            self.doubt = True
        if not self.headed and self._ended(line):
            return
        if self.back and self.section != self.back and self._goes_on(line):
            self.section, self.all = self.back, self.back in _BLOCKS
            self.summary.clear()
            self.beyond = 0
            self.tentative = b""
        if self.section in _BLOCKS:
            self._block_line(line)
        elif self.section in _QUIET_SECTIONS:
            return
        elif self.section == _SUMMARY:
            if len(self.summary) < _SUMMARY_LINES:
                self.summary.append(line)
            else:
                self.beyond += line.startswith((b"FAILED ", b"ERROR ", b"SUBFAILED"))
        elif self.section == _ENDED:
            if not self.headed and _is_progress(line):
                self._outcome(self.tentative)
        elif self.section == b"warnings summary":
            self._warning_line(line)
        elif self.section.startswith(b"slowest"):
            self.report.note(MORE, self.stream, line)
        elif b"coverage" in self.section:
            if line.startswith((b"TOTAL", b"FAIL ", b"Required test coverage")):
                self.report.note(1, self.stream, line)
        else:
            self._progress_line(line)

    def lines(self, data: bytes) -> None:
        """See `Parser`; of tests that went well nothing is taken."""
        # The header of the run, if it is still to come, and no word of another one.
        plain = data.count(_STARTS) <= (not self.headed) and _MISUSED not in data
        shares: set[bytes] = set()  # ` 12%]`
        counting = self._counts()
        for line in split(data):
            if counting and plain and line:
                _, passed, share = line.rpartition(b" PASSED [")
                if passed and line[0] not in _ODD_BEGIN:
                    if share not in shares and _is_share(share):
                        shares.add(share)
                    if share in shares:
                        self.closed, self.closing = self.closing, False
                        continue
            self.line(line)
            counting = self._counts()

    def _counts(self) -> bool:
        """Whether what stands here is the progress of a run, a line for each test."""
        return self.headed and self.section == _START and self.open is None and not self.back

    def finish(self) -> None:
        """The stream has ended."""
        self._close()
        if self.tentative:
            self._outcome(self.tentative)
        else:
            self._settle()

    def _header(self, line: bytes) -> bool:
        """A ruled line: a section or an outcome, of this run or of one that a test printed."""
        title = _ruled(line, b"=")
        if title is None:
            return False
        if self._ended(line):
            return True
        told = title in _TOLD or title.startswith(b"slowest ") or title.endswith(b"coverage")
        if title == _START:
            if not self._starts(len(line)):
                return False
        elif self.section in _BLOCKS:
            if not told and title not in _QUIET_SECTIONS:
                return False
        elif len(line) < 40 and not told:
            return False
        if title in _BLOCKS and self.back and not self._opens(title):
            return False
        self._close()
        self.section = title
        self.report.recognised = True
        self.report.failed = self.report.failed or title in _BLOCKS
        self.all = told
        self.noise = _PROGRESS if title == _START else _SECTION
        if title in _BLOCKS or title in _QUIET_SECTIONS:
            self.back = title
            self.doubt = self.doubt or title in _QUIET_SECTIONS
        if title == _SUMMARY:
            # The last of them is the run's own, and its outcome comes after it.
            self.summary.clear()
            self.beyond = 0
            self.tentative = b""
        return True

    def _starts(self, width: int) -> bool:
        """A run begins: another one, unless this one is still under way."""
        if self.depth:
            self.depth += 1
            self.doubt = True
            return False
        if self.section == self.back and self.doubt and not self.closed:
            self.depth = 1
            return False
        self.finish()
        self.headed = True
        self.width = width
        self.depth = 1
        return True

    def _opens(self, title: bytes) -> bool:
        """Whether failures begin here, not in what a test printed: each section comes once."""
        if self.back == b"ERRORS" and title == b"FAILURES":
            return True
        if self.section == _ENDED and not self.headed:
            self._outcome(self.tentative)
            return True
        return False

    def _goes_on(self, line: bytes) -> bool:
        """Whether a line shows that the section before still goes on."""
        title = _ruled(line, b"_")
        if title and title.startswith(b"coverage: "):
            return False
        return bool(self.doubt and (title or _captured(line)))

    def _ended(self, line: bytes) -> bool:
        """Take an outcome line; where a test may have printed it, the last one counts."""
        text = outcome_line(line)
        if not text or len(line) < self.width - 4:
            return False
        self.depth = max(0, self.depth - 1)
        if self.depth or self.doubt or self.section in _BLOCKS:
            self.tentative = text
            self.closing = True
            if not self.depth and self.section not in _BLOCKS:
                self.section = _ENDED
                self.all = True
            return self.section not in _BLOCKS
        self._outcome(text)
        return True

    def _outcome(self, text: bytes) -> None:
        self._close()
        self.report.outcome(self.stream, text)
        if b" failed" in text or b" error" in text:
            self.report.failed = True
        self._settle()

    def _block_line(self, line: bytes) -> None:
        if line[:1] == b"_" and line[-1:] == b"_":
            title = _ruled(line, b"_")
            if title:
                self._close()
                kind = _BLOCKS[self.section]
                shown = title if title.startswith(b"ERROR ") else kind.encode() + b" " + title
                # Where no summary names it, headings are what a search finds.
                self.open = Failure(shown, _last_word(title), grades, "___")
                self.open.loose = self.doubt
                self._keep(self.open)
                return
        if self.open is None:
            # `--tb=line` has no blocks: what stands here is said of no test by name.
            self.open = Failure(self.section, b"", grades)
            self._keep(self.open)
        captured = _captured(line)
        self.doubt = self.doubt or bool(captured)
        self.open.add(captured or line)

    def _keep(self, failure: Failure) -> None:
        if len(self.blocks) < 2_000:
            self.blocks.append(failure)
        else:
            self.report.more += 1

    def _close(self) -> None:
        self.open = None

    def _summary_line(self, line: bytes) -> bool:
        """Name the block that a line of the summary is about; False if there is none."""
        kind, _, rest = line.partition(b" ")
        if kind.startswith(b"SUBFAILED"):
            return self._part(line)
        if kind in (b"FAILED", b"ERROR"):
            node, message = _node(rest)
            match = self._block_of(kind, node)
            found = match is not None
            if match is None:
                match = Failure(b"", b"", grades)
                self.blocks.append(match)
            place = b""
            if match.title.startswith(b"ERROR at "):
                place = b" (" + match.title.split(b" of ", 1)[0][6:] + b")"
            match.title = kind + b" " + node + place
            match.name = node
            match.brief = message
            match.word = kind.decode()
            match.loose = False
            return found
        if kind in (b"SKIPPED", b"XFAIL", b"XPASS"):
            self.report.note(MORE if kind != b"XPASS" else FRAME, self.stream, line, kind.decode())
        return True

    def _part(self, line: bytes) -> bool:
        """A subtest: `SUBFAILED[name] (n=1) path::test - message`."""
        before = line.rfind(b" ", 0, line.find(b"::"))
        what = line[len(b"SUBFAILED") : before].strip()
        node, message = _node(line[before + 1 :])
        title = b"FAILED " + _domain(node) + b" " + what
        alike = self.index.get(title)
        match = alike.pop(0) if alike else None
        found = match is not None
        if match is None:
            match = Failure(b"", b"", grades)
            self.blocks.append(match)
        match.title, match.name, match.brief = b"FAILED " + node + b" " + what, node, message
        match.label = short(node) + b" " + what
        match.word = "SUBFAILED"
        match.loose = False
        return found

    def _block_of(self, kind: bytes, node: bytes) -> Failure | None:
        """The block of a test, of several with its name the one that mentions its file."""
        path = node.partition(b"::")[0]
        domain = _domain(node)
        titles = (kind + b" " + domain, b"ERROR collecting " + node, b"ERROR of " + domain)
        for title in titles[: 3 if kind == b"ERROR" else 1]:
            alike = self.index.get(title, [])
            for at, failure in enumerate(alike[:_ALIKE]):
                if any(path in line for line in failure.lines):
                    return alike.pop(at)
            if alike:
                return alike.pop(0)
        return None

    def _indexed(self) -> dict[bytes, list[Failure]]:
        """The blocks by title; what a test's setup and teardown raised by the test."""
        index: dict[bytes, list[Failure]] = {}
        for failure in self.blocks:
            title = failure.title.replace(b"[doctest] ", b"", 1)
            at, of, domain = title.partition(b" of ")
            if of and at.startswith(b"ERROR at "):
                title = b"ERROR of " + domain
            index.setdefault(title, []).append(failure)
        return index

    def _warning_line(self, line: bytes) -> None:
        if line.startswith(b"  ") and b"Warning: " in line:
            self.report.note(CAPTURED, self.stream, line.strip(), "Warning")

    def _progress_line(self, line: bytes) -> None:
        if self.open is not None:
            self.open.add(line)
            return
        words = _without_progress(line)
        if words.endswith((b" FAILED", b" ERROR")) and b"::" in words:
            self._seen(words.rsplit(b" ", 1)[::-1])
        elif line.startswith(b"[gw"):
            rest = line.partition(b"] ")[2]
            rest = rest.partition(b"] ")[2] or rest
            kind, _, node = rest.partition(b" ")
            if kind in (b"FAILED", b"ERROR"):
                self._seen([kind, node.strip()])
            elif b"node down" in line:
                self.report.note(1, self.stream, line)
        elif line.startswith(_LOUD) or b"pytest: error: " in line:
            # Pytest says so once; a program's log may begin like it on every line.
            self.loud += 1
            if self.loud <= _LOUD_KEPT:
                self.report.note(1 if self.loud <= 2 else MORE, self.stream, line)
        elif line.startswith(_NO_CONFTEST):
            self.open = Failure(line, b"ImportError", grades)
            self._keep(self.open)
        elif line.strip() and not _quiet(line, words):
            self.plain.add(line)

    def _seen(self, words: list[bytes]) -> None:
        self.report.failed = self.report.recognised = True
        self.report.mark(self.stream, b" ".join(words), words[1])

    def _fold(self, printed: list[Failure]) -> None:
        """Give blocks that a test printed to the block that they stand in."""
        kept: list[Failure] = []
        aside = {id(block) for block in printed}
        for block in self.blocks:
            if id(block) not in aside:
                kept.append(block)
            if id(block) not in aside or not kept:
                continue
            kept[-1].add(b"___ " + block.name + b" ___")
            for line in block.text():
                kept[-1].add(line)
        self.blocks = kept

    def _internal(self, line: bytes) -> None:
        self.report.failed = True
        if self.open is None or self.open.title != b"INTERNALERROR":
            self.open = Failure(b"INTERNALERROR", b"INTERNALERROR", traceback_grades)
            self._keep(self.open)
        self.open.add(line[len(b"INTERNALERROR>") :].removeprefix(b" "))

    def _settle(self) -> None:
        """One session has been read: its failures go to the report."""
        self.index = self._indexed()
        self.report.more += self.beyond
        known = [self._summary_line(line) for line in self.summary]
        named = any(line.startswith((b"FAILED ", b"ERROR ", b"SUBFAILED")) for line in self.summary)
        if named and all(known):
            # Each failure of the run has its block: another one was printed by a test.
            self._fold([block for block in self.blocks if block.loose])
        anonymous = [block for block in self.blocks if block.title in _BLOCKS]
        for block in self.blocks:
            if block.title not in _BLOCKS:
                _quote(block)
                self.report.failure(self.stream, block)
        for block in anonymous:
            block.title = b""
            for line in block.text():
                if line.strip():
                    self.report.note(CAUSE if is_place(line) else MORE, self.stream, line)
        if self.blocks:
            self.report.failed = True
        self._reset()


def _ruled(line: bytes, rule: bytes) -> bytes | None:
    """The title of a line `=== title ===`, else None."""
    inner = line.strip(rule)
    if len(inner) > 2 and inner[:1] == b" " and inner[-1:] == b" " and line.endswith(rule):
        title = inner.strip()
        return title if title.strip(b"_ ") else None
    return None


def _captured(line: bytes) -> bytes:
    """The title of captured output without its rules, else nothing."""
    title = _ruled(line, b"-")
    return b"-- " + title if title and title.startswith(b"Captured ") else b""


def _quote(block: Failure) -> None:
    """Set off what a test printed where it looks like a report of ours."""
    captured = False
    for lines in (block.lines, block.tail):
        for at, line in enumerate(lines):
            captured = captured or line.startswith(b"-- Captured ")
            if captured and (
                line.startswith((b"FAILED ", b"ERROR ", b"=", b"_")) or outcome_line(line)
            ):
                lines[at] = b"| " + line


def _last_word(title: bytes) -> bytes:
    for mark in (b" of ", b"collecting "):
        if mark in title:
            return title.rpartition(mark)[2]
    return title


def _domain(node: bytes) -> bytes:
    """How a block is headed: names joined by dots; a parameter stays as it is."""
    names, bracket, parameter = node.partition(b"::")[2].partition(b"[")
    return names.replace(b"::", b".") + bracket + parameter


def _node(rest: bytes) -> tuple[bytes, bytes]:
    """Node id and message of a summary line; a parameter may hold ` - ` itself."""
    start = rest.find(b"[")
    dash = rest.find(b" - ")
    if 0 <= start < dash:
        end = rest.find(b"] - ", start)
        if end >= 0:
            return rest[: end + 1], rest[end + 4 :]
        return rest, b""
    if dash >= 0:
        return rest[:dash], rest[dash + 3 :]
    return rest, b""


def outcome_line(line: bytes) -> bytes:
    """The words of a closing line (`3 failed, 2 passed in 0.10s`), or nothing."""
    if b" in " not in line or len(line) > 400:
        return b""
    text = line.strip(b"= ")
    head, _, tail = text.rpartition(b" in ")
    number = tail.split(b" ", 1)[0].removesuffix(b"s")
    if not number.replace(b".", b"", 1).isdigit() or not tail.rstrip(b")").endswith(
        (b"s", b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9")
    ):
        return b""
    if head.startswith((b"no tests ran", b"no tests collected")):
        return text
    for part in head.split(b", "):
        count, _, word = part.partition(b" ")
        if not count.isdigit() or not word.replace(b" ", b"").isalpha():
            return b""
    if not any(word in head for word in _COUNTED):
        return b""
    return text


_COUNTED = (
    b"passed",
    b"failed",
    b"error",
    b"skipped",
    b"deselected",
    b"xfailed",
    b"xpassed",
    b"warning",
    b"rerun",
)


def _is_progress(line: bytes) -> bool:
    """Whether the line is one of a run's dots."""
    body = line.partition(b" ")[0]
    return bool(body) and not body.strip(b".FEsxX")


def _without_progress(line: bytes) -> bytes:
    """A line of the progress without its `[ 12%]` or `[ 3/32]`; a test's name may hold brackets."""
    line = line.rstrip()
    head, bracket, progress = line.rpartition(b" [")
    if bracket and not progress.rstrip(b"]").strip(b" %/0123456789"):
        return head.rstrip()
    return line


def _passed(line: bytes) -> bool:
    """Whether a line of the progress says nothing but that a test went well."""
    return (
        _without_progress(line).endswith(_WELL)
        and not line.startswith(_ODD)
        and _STARTS not in line
        and _MISUSED not in line
    )


def _is_share(text: bytes) -> bool:
    """Whether it is how much of the run is done, as it stands behind a bracket: ` 12%]`."""
    return len(text) == 5 and text.endswith(b"%]") and not text[:3].strip(b" 0123456789")


def _quiet(line: bytes, body: bytes) -> bool:
    """Lines of the session's head and of its progress; `body` is the line without that."""
    if line.startswith(
        (
            b"platform ",
            b"rootdir: ",
            b"configfile: ",
            b"plugins: ",
            b"cachedir: ",
            b"collecting ",
            b"collected ",
            b"created: ",
            b"scheduling tests",
            b"testpaths: ",
            b"asyncio: ",
            b"gw",
        )
    ):
        return True
    return body.endswith(_WELL) or not body.rpartition(b" ")[2].strip(b".FEsxXR")
