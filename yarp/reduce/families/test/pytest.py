"""pytest: sections ruled off with `=`, blocks with `_`, a last line that says it all.

The FAILURES section and the short summary tell of the same failures; they are told once here.
"""

from __future__ import annotations

from yarp.reduce.families.lines import Wake
from yarp.reduce.families.test.pytest_blocks import grades, is_place
from yarp.reduce.families.test.report import (
    CAPTURED,
    CAUSE,
    FRAME,
    MORE,
    Failure,
    Runner,
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
    inside=(b" FAILED", b" ERROR", b"ed in", b"arnings in", b"rrors in"),
)
_QUIET_SECTIONS = (b"PASSES", b"XFAILURES", b"XPASSES")
_BLOCKS = {b"FAILURES": "FAILED", b"ERRORS": "ERROR"}
_TOLD = (*_BLOCKS, b"short test summary info", b"warnings summary", b"warnings summary (final)")
_LOUD = (b"ERROR: ", b"FAIL ", b"replacing crashed", b"Exit: ")


class Pytest(Runner):
    """Reads pytest's terminal report, also several one after the other."""

    late = Wake(b"===", b"!!!", b"FAILED ", b"ERROR ")

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self._reset()

    def _reset(self) -> None:
        self.section = b""
        self.tentative = b""
        self.all = False
        self.noise = _PROGRESS
        self.blocks: list[Failure] = []
        self.named = 0
        self.counted = 0

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
        outcome = outcome_line(line)
        if outcome and self.section not in _BLOCKS:
            self._outcome(outcome)
            return
        if self.section in _BLOCKS:
            self._block_line(line)
        elif self.section == b"short test summary info":
            self._summary_line(line)
        elif self.section == b"warnings summary":
            self._warning_line(line)
        elif self.section.startswith(b"slowest"):
            self.report.note(MORE, self.stream, line)
        elif b"coverage" in self.section:
            if line.startswith((b"TOTAL", b"FAIL ", b"Required test coverage")):
                self.report.note(1, self.stream, line)
        else:
            self._progress_line(line)

    def finish(self) -> None:
        """The stream has ended."""
        self._close()
        if self.tentative:
            self.report.outcome(self.stream, self.tentative)
        self._settle()

    def _header(self, line: bytes) -> bool:
        title = _ruled(line, b"=")
        if title is None:
            return False
        outcome = outcome_line(line)
        if outcome and self.section not in _BLOCKS:
            self._outcome(outcome)
            return True
        told = title in _TOLD or title.startswith(b"slowest ") or title.endswith(b"coverage")
        if self.section in _BLOCKS:
            # A test of a test runner captures such lines itself; the last of them is the true one.
            if outcome:
                self.tentative = outcome
            if title == b"test session starts" and self.tentative:
                self._outcome(self.tentative)
            elif not told and title not in _QUIET_SECTIONS:
                return False
        elif len(line) < 40 and not told:
            return False
        elif title == b"test session starts":
            self.finish()
        self._close()
        self.section = title
        self.report.recognised = True
        self.report.failed = self.report.failed or title in _BLOCKS
        self.all = told
        self.noise = _PROGRESS if title == b"test session starts" else _SECTION
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
                self.open = Failure(shown, _last_word(title), grades)
                self._keep(self.open)
                return
        if self.open is None:
            # `--tb=line` has no blocks: what stands here is said of no test by name.
            self.open = Failure(self.section, b"", grades)
            self._keep(self.open)
        self.open.add(_captured(line) or line)

    def _keep(self, failure: Failure) -> None:
        self.counted += 1
        if len(self.blocks) < 2_000:
            self.blocks.append(failure)
        else:
            self.report.more += 1

    def _close(self) -> None:
        self.open = None

    def _summary_line(self, line: bytes) -> None:
        kind, _, rest = line.partition(b" ")
        if kind.startswith(b"SUBFAILED"):
            self._part(line)
        elif kind in (b"FAILED", b"ERROR"):
            self.named += 1
            node, message = _node(rest)
            match = self._block_of(kind, node)
            if match is None:
                match = Failure(b"", b"", grades)
                self.blocks.append(match)
            place = b""
            if match.title.startswith(b"ERROR at "):
                place = b" (" + match.title.split(b" of ", 1)[0][6:] + b")"
            match.title = kind + b" " + node + place
            match.name = node
            match.brief = message
        elif kind in (b"SKIPPED", b"XFAIL", b"XPASS"):
            self.report.note(MORE if kind != b"XPASS" else FRAME, self.stream, line, kind.decode())

    def _part(self, line: bytes) -> None:
        """A subtest: `SUBFAILED[name] (n=1) path::test - message`."""
        before = line.rfind(b" ", 0, line.find(b"::"))
        what = line[len(b"SUBFAILED") : before].strip()
        node, message = _node(line[before + 1 :])
        title = b"FAILED " + node.partition(b"::")[2].replace(b"::", b".") + b" " + what
        match = next((block for block in self.blocks if block.title == title), None)
        if match is None:
            match = Failure(b"", b"", grades)
            self.blocks.append(match)
        match.title, match.name, match.brief = b"FAILED " + node + b" " + what, node, message

    def _block_of(self, kind: bytes, node: bytes) -> Failure | None:
        path, _, inner = node.partition(b"::")
        domain = inner.replace(b"::", b".")
        likely = None
        for failure in self.blocks:
            title = failure.title
            if title.startswith(kind + b" ") and (
                title == kind + b" " + domain
                or title == b"ERROR collecting " + node
                or (title.startswith(b"ERROR at ") and title.endswith(b" of " + domain))
            ):
                if any(path in line for line in failure.lines):
                    return failure
                likely = likely or failure
        return likely

    def _warning_line(self, line: bytes) -> None:
        if line.startswith(b"  ") and b"Warning: " in line:
            self.report.note(CAPTURED, self.stream, line.strip(), "Warning")

    def _progress_line(self, line: bytes) -> None:
        if self.open is not None:
            self.open.add(line)
            return
        words = line.split(b"[", 1)[0].rstrip()
        if words.endswith((b" FAILED", b" ERROR")) and b"::" in line:
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
            self.report.note(1, self.stream, line)
        elif line.startswith(b"ImportError while loading conftest"):
            self.open = Failure(line, b"ImportError", grades)
            self._keep(self.open)
        elif line.strip() and not _quiet(line):
            self.plain.add(line)

    def _seen(self, words: list[bytes]) -> None:
        self.report.failed = self.report.recognised = True
        self.report.mark(self.stream, b" ".join(words), words[1])

    def _internal(self, line: bytes) -> None:
        self.report.failed = True
        if self.open is None or self.open.title != b"INTERNALERROR":
            self.open = Failure(b"INTERNALERROR", b"INTERNALERROR", traceback_grades)
            self._keep(self.open)
        self.open.add(line[len(b"INTERNALERROR>") :].removeprefix(b" "))

    def _settle(self) -> None:
        """One session has been read: its failures go to the report."""
        anonymous = [block for block in self.blocks if block.title in _BLOCKS]
        for block in self.blocks:
            if block.title not in _BLOCKS:
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


def _last_word(title: bytes) -> bytes:
    for mark in (b" of ", b"collecting "):
        if mark in title:
            return title.rpartition(mark)[2]
    return title


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


def _quiet(line: bytes) -> bool:
    """Lines of the session's head and of its progress."""
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
    body = line.split(b"[", 1)[0].rstrip()
    return body.endswith((b" PASSED", b" SKIPPED", b" XFAIL", b" XPASS")) or not body.rpartition(
        b" "
    )[2].strip(b".FEsxXR")
