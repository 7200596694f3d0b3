"""Compilers, linters, type checkers, formatters, bundlers, build tools: what is wrong and where.

Most of a build's output says that work goes on. One search over a window finds the lines that
may matter, the rest is left out; messages are known by their form in any language. Behind a
wrapper (`make`, `npm run`, `tox`) tests may speak as well: the test family reads along there.
"""

from __future__ import annotations

from yarp.reduce.families import base
from yarp.reduce.families.build.reader import Reader
from yarp.reduce.families.build.report import Report
from yarp.reduce.families.build.runs import Runs
from yarp.reduce.families.build.telling import pieces
from yarp.reduce.families.build.words import LATE, WAKE
from yarp.reduce.families.lines import LINES_TAKEN, Windows, automaton, split
from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from yarp.reduce.families.base import Piece, Status

_SMALL_BYTES = 64 * 1024
_LAST_BYTES = 8 * 1024
# Of a budget that builds and tests share: what each build line is worth at most that has a claim,
# and the least that tests have.
_NEEDED = 2
_TESTS_PERCENT = 60
# What is beyond it stands behind these.
_OVER = 4
_WRAPPERS = frozenset({
    "make", "gmake", "just", "task", "npm", "pnpm", "yarn", "bun", "tox", "nox", "gradle",
    "gradlew",
    "mvn", "mvnw", "dotnet", "bazel", "bazelisk", "pre-commit", "ninja", "cmake", "swift", "poetry",
    "hatch", "ctest", "gh", "test", "build", "check", "lint", "typecheck",
})  # fmt: skip


# What ant puts before each line of a task.
_TASK = pattern_of(rb"(?m)^ {1,12}\[[\w.-]+\] ")


# What gh puts before each line of a workflow's log: the job, the step, the time.
_STEP = pattern_of(rb"(?m)^[^\t\n]*\t[^\t\n]*\t(?:\xef\xbb\xbf)?\d{4}-\d\d-\d\dT[\d:.]+Z ?")
_STEP_FAILED = pattern_of(rb"(?m)^([^\t\n]+)\t([^\t\n]*)\t\S+Z ##\[error\]")
_STEPS_KEPT = 100
_PLAIN_WORTH = 5


class Family(base.Family):
    """Summarises one build."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self.report = Report()
        self.steps: dict[bytes, None] = {}
        self.lanes = (_Lane(Reader(self.report, 0)), _Lane(Reader(self.report, 1)))
        self.tests = Runs(argv, options) if argv[0].rpartition("/")[2] in _WRAPPERS else None

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of one stream."""
        if self.argv[0] == "ant":
            block = _TASK.sub(b"", block)
        elif self.argv[0] == "gh":
            for found in _STEP_FAILED.finditer(block):
                if len(self.steps) < _STEPS_KEPT:
                    self.steps[b"%b / %b" % found.groups()] = None
            block = _STEP.sub(b"", block)
        self.lanes[stream].feed(block)
        if self.tests is not None:
            self.tests.feed(stream, block)

    def finish(self, status: Status) -> list[Piece] | None:
        """Outcome, errors, warnings, products; None where nothing of a build was recognised."""
        for lane in self.lanes:
            lane.finish()
        report = self.report
        if self.steps:
            # Who shows the log of a run that failed has not failed.
            status = base.Status(1)
        failed = not status.success
        if not self._own_words(failed=failed):
            return None
        told = report.wrong()
        which = "failure_bytes" if failed and not self.steps else "success_bytes"
        budget = self.options.get(which, 4096)
        if self.tests is not None:
            self.tests.close(plain=not told)
            # What a test's traceback says of places is no other tool's message.
            report.leave_out(self.tests.lines())
        out = pieces(report, budget, failed=failed)
        # Both have their share: what one does not need is the other's.
        needed = _needed(out) if report.wrong() else 0
        share = max(budget * _TESTS_PERCENT // 100, budget - needed)
        tested = self.tests.pieces(status, share) if self.tests is not None else None
        known = told or report.outcomes or report.diagnostics or report.names or report.noises
        if not known and not tested and not (failed and report.troubled()):
            return None
        if tested:
            out = _merged(tested, out, share)
        if self.steps:
            least = b"at least " * (len(self.steps) == _STEPS_KEPT)
            many = len(self.steps)
            text = b"steps that failed (%b%d): %b" % (least, many, b"; ".join(self.steps))
            out.insert(0, base.Piece(text, 0, 0, 0, ("##[error]",)))
        return out or None

    def _own_words(self, *, failed: bool) -> bool:
        """Whether what was read is a tool's: a program's own answer is not ours to shorten."""
        report = self.report
        if self.argv[0].startswith("python"):
            return failed and bool(report.tracebacks)
        if self.argv[:2] == ("cargo", "run"):
            return failed and any(b"could not compile" in line for _, line in report.outcomes)
        return True


def _needed(pieces: list[Piece]) -> int:
    """Bytes of the pieces that have a claim."""
    return sum(len(piece.text) + 1 for piece in pieces if piece.worth <= _NEEDED)


def _merged(tested: list[Piece], built: list[Piece], share: int) -> list[Piece]:
    """The tests' pieces, and of the build's those that say something else.

    Every failing test's name stands before the build's first errors, and these before more of
    the tests than their `share`.
    """
    said = b"\n".join(piece.text for piece in tested)
    for piece in sorted(tested, key=lambda piece: piece.worth):
        share -= len(piece.text) + 1
        if share < 0 and _NEEDED <= piece.worth < _OVER:
            piece.worth = _OVER
    out = list(tested)
    for piece in built:
        # Lines of no known form are the runner's: it has read them.
        if piece.worth < _PLAIN_WORTH and piece.text.strip(b"= \n") not in said:
            piece.worth = min(9, piece.worth + (1 if piece.worth <= _NEEDED else 2))
            out.append(piece)
    return out


class _Lane:
    """One stream on its way to the reader: every line of a short one, the wanted ones of a long."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.windows = Windows(self._window)
        self._taken = 0
        self._pattern: re.Pattern[bytes] | None = None
        self._read = False
        self._late = False

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        self.windows.feed(block)

    def finish(self) -> None:
        """The stream has ended: its end is read whole."""
        rest = self.windows.rest()
        last = 0
        if self._read or len(rest) >= _SMALL_BYTES:
            last = max(0, rest.rfind(b"\n", 0, max(0, len(rest) - _LAST_BYTES)) + 1)
            self._window(rest[:last])
        for line in split(rest[last:]):
            self.reader.line(line)
        self.reader.finish()

    def _window(self, window: bytes) -> None:
        self._read = True
        if self._taken >= LINES_TAKEN:
            self.reader.skipped()
            if self._taken >= 2 * LINES_TAKEN:
                return
            if not self._late:
                self._late, self._pattern = True, automaton(LATE)
        if self._pattern is None:
            self._pattern = automaton(WAKE)
        self.reader.report.partial = True
        self._taken += 1
        reader, search = self.reader, self._pattern.search
        position, end = 0, len(window)
        before = -1
        while position < end:
            if not reader.busy():
                found = search(window, position)
                if found is None:
                    return
                start = window.rfind(b"\n", position, found.start() + 1) + 1 or position
                if start > position and start != before:
                    # The line above may be the message's context: a file, a title.
                    above = window.rfind(b"\n", position, start - 1) + 1 or position
                    reader.line(window[above : start - 1])
                position = start
            stop = window.find(b"\n", position)
            stop = end if stop < 0 else stop
            reader.line(window[position:stop])
            # Long lines cost more: they use up the share sooner.
            self._taken += 1 + (stop - position) // 256
            position = before = stop + 1
