"""Playwright's list, line and dot reporters: numbered failures, then totals with their tests."""

from __future__ import annotations

from yarp.reduce.families.lines import Wake
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.test.jest import grades
from yarp.reduce.families.test.report import Failure, Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_TOTALS = (
    b"passed", b"failed", b"flaky", b"skipped", b"did not run", b"interrupted", b"fatal",
    b"timed out",
)  # fmt: skip
_NOISE = Wake(
    b"  1", b"  2", b"  3", b"  4", b"  5", b"  6", b"  7", b"  8", b"  9", b"Error: ", b"Running ",
    b"Timed out waiting",
)  # fmt: skip
_TITLE = pattern_of(rb"  \d+\) (?P<title>\S.*?)(?: \xe2\x94\x80+)?$")
_PASSED = pattern_of("  (?:✓|ok|-|·)\\s".encode())


class Playwright(Runner):
    """Reads a run of Playwright's tests."""

    noise = _NOISE
    late = Wake(b"  1", b"  2", b"  3", b"  4", b"  5", b"  6", b"  7", b"  8", b"  9")

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self.retried = False
        self.told: set[bytes] = set()

    def line(self, line: bytes) -> None:
        """Take one line."""
        found = _TITLE.match(line)
        if found is not None:
            title = found["title"].rstrip("─ ".encode())
            self.open = None
            self.retried = False
            if title not in self.told:
                self.told.add(title)
                name = title.rpartition("\u203a".encode())[2].strip()
                self.open = Failure(b"FAIL " + title, name, grades, "\u203a")
                self.report.failure(self.stream, self.open)
        elif _total(line):
            self.open = None
            self.report.failed = self.report.failed or b" failed" in line
            self.report.outcome(self.stream, line.strip())
        elif self.open is not None:
            # Each retry says it all again.
            self.retried = self.retried or line.startswith(b"    Retry #")
            if not self.retried:
                self.open.add(line)
        elif line.startswith((b"Error: ", b"Timed out waiting")):
            self.report.recognised = True
            self.report.failed = self.report.failed or line.startswith(b"Error: ")
            self.report.note(1, self.stream, line, "Error")
        elif line.strip() and not _PASSED.match(line):
            self.plain.add(line)


def _total(line: bytes) -> bool:
    """Whether the line is `  2 failed` or `  60 passed (2.4s)`."""
    count, _, word = line.strip().partition(b" ")
    return line.startswith(b"  ") and count.isdigit() and word.startswith(_TOTALS)
