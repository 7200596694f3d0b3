"""Python's unittest: blocks between rules of `=` and `-`, then `Ran N tests` and OK or FAILED."""

from __future__ import annotations

from yarp.reduce.families.lines import Wake
from yarp.reduce.families.test.report import Failure, Runner
from yarp.reduce.families.test.words import traceback_grades

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_KINDS = (b"FAIL: ", b"ERROR: ", b"UNEXPECTED SUCCESS: ")
_DOUBLE = b"=" * 70
_SINGLE = b"-" * 70
_NOISE = Wake(
    _DOUBLE, _SINGLE, b"Ran ", b"OK", b"FAILED", b"NO TESTS RAN", b"Traceback",
    inside=(b" ... FAIL\n", b" ... ERROR\n"),
)  # fmt: skip


class Unittest(Runner):
    """Reads the report that unittest writes to standard error."""

    noise = _NOISE
    late = Wake(_DOUBLE, b"Ran ", b"OK", b"FAILED", inside=(b" ... FAIL\n", b" ... ERROR\n"))

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self.ruled = False
        self.ran = False
        self.buffered = False  # what tests printed stands in their blocks
        self.outcome: list[bytes] = []

    def wake(self) -> Wake | None:
        """The line below a rule too, whatever it is."""
        return None if self.ruled else super().wake()

    def below(self) -> bool:
        """See `Parser`."""
        return self.ruled or super().below()

    def skipped(self) -> None:
        """Whatever block was open is open no more."""
        super().skipped()
        self._close()

    def line(self, line: bytes) -> None:
        """Take one line."""
        ruled, self.ruled = self.ruled, line == _DOUBLE
        if self.ruled:
            self._close()
        elif ruled and line.startswith(_KINDS):
            name, _, rest = line.partition(b": ")[2].partition(b" ")
            self.open = Failure(line, name, traceback_grades)
            # Of subtests, what tells one from another stands after the name of the class.
            self.open.label = (name + b" " + rest.partition(b")")[2].strip()).strip()
            self.report.failure(self.stream, self.open)
        elif line.startswith(b"Ran ") and b" test" in line and b" in " in line:
            self._close()
            if not self.buffered:
                self._settle()
            # Where tests may have printed such lines, the last ones are the run's.
            self.outcome = [line]
            self.ran = True
        elif self.ran and line.startswith((b"OK", b"FAILED", b"NO TESTS RAN")):
            self.outcome.append(line)
            self.ran = False
        elif self.open is not None:
            self.buffered = self.buffered or line in (b"Stdout:", b"Stderr:")
            if line != _SINGLE:
                self.open.add(line)
        elif line.endswith((b" ... FAIL", b" ... ERROR")):
            self.report.failed = True
            self.report.mark(self.stream, line, line.partition(b" ")[0])
        elif line.strip(b".sEFxu-") and not line.endswith((b" ... ok", b" ... expected failure")):
            self.plain.add(line)

    def finish(self) -> None:
        """The stream has ended."""
        self._close()
        self._settle()

    def _settle(self) -> None:
        for line in self.outcome:
            self.report.outcome(self.stream, line)
            self.report.failed = self.report.failed or line.startswith((b"FAILED", b"NO TESTS"))
        self.outcome = []

    def _close(self) -> None:
        self.open = None
