"""jest and vitest: a file, a bullet or `FAIL` a failure, a table of totals."""

from __future__ import annotations

from yarp.reduce.families.lines import Wake
from yarp.reduce.families.test.report import (
    CAPTURED,
    CAUSE,
    CONTEXT,
    DEPTH,
    FRAME,
    MORE,
    Failure,
    Runner,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_BULLET = "  ● ".encode()
_RULE = "⎯⎯".encode()
_CROSSES = tuple(mark.encode() for mark in ("✕ ", "\u00d7 ", "✗ "))
_TICKS = tuple(mark.encode() for mark in ("✓ ", "√ ", "○ ", "✎ ", "↓ ", "□ "))
_ARROW = "\u276f ".encode()
_TOTALS = (b"Test Suites:", b"Tests:", b"Snapshots:", b"Time:")
_TABLE = (b"Test Files  ", b"Tests  ", b"Errors  ", b"Type Errors  ", b"Snapshots  ", b"Duration  ")
_SENTENCES = (
    b"No tests found", b"No test files found", b"No test suite found", b"Error: No test",
    b"Jest: ", b"Test run was interrupted",
    b"Force exiting Jest", b"Jest did not exit", b"A worker process has failed to exit",
    b"npm ERR!", b"npm error",
    b"Error: ", b"Validation Error", b"failed to load config", b"Startup Error", b"Unhandled",
    b"Vitest caught",
    b"Run with `--passWithNoTests`",
)  # fmt: skip
_CONSOLE = tuple(
    b"  console." + word for word in (b"log", b"warn", b"error", b"info", b"debug", b"trace")
)
_POINTER = "\u203a".encode()
_NOISE = Wake(
    _BULLET, b"FAIL ", b" FAIL ", b"PASS ", _RULE, b"Snapshot Summary", *_TOTALS,
    b" Test Files  ", b"      Tests  ", b"     Errors  ", b"Type Errors  ", b"   Duration  ",
    b"  Snapshots  ",
    b" " + _POINTER, b"  console.", b"stdout | ", b"stderr | ",
    *_SENTENCES,
    inside=(*_CROSSES,),
)  # fmt: skip


class Jest(Runner):
    """Reads jest's and vitest's default and verbose reporters, on either stream."""

    noise = _NOISE
    late = Wake(_BULLET, b"FAIL ", b" FAIL ", b"Tests:", b"      Tests  ")

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self.file = b""
        self.failing = False
        self.told: set[bytes] = set()
        self.snapshots = False
        self.printed = self.indented = False

    def skipped(self) -> None:
        """Whatever block was open is open no more."""
        super().skipped()
        self.printed = False
        self._close()

    def line(self, line: bytes) -> None:
        """Take one line."""
        start = line.strip()
        if self.printed:
            # What a test printed: jest indents it and says where, vitest ends it with a blank line.
            self.printed = line.startswith(b"    ") or not start if self.indented else bool(start)
            if self.printed or not start:
                return
        self.indented = line.startswith(_CONSOLE)
        self.printed = self.indented or line.startswith((b"stdout | ", b"stderr | "))
        if self.printed:
            return
        if line.startswith(_BULLET):
            self._bullet(line[len(_BULLET) :])
        elif line.startswith((b"FAIL ", b"PASS ")):
            self._close()
            self.failing = line.startswith(b"FAIL ")
            self.file = line[5:].split(b" (")[0].strip()
            if self.failing:
                self.report.failed = self.report.recognised = True
        elif line.startswith(b" FAIL "):
            self._vitest(line)
        elif _is_total(line, start):
            self._total(line)
        elif _RULE in line[:12]:
            self._rule(start)
        elif line.startswith(b"Snapshot Summary"):
            self._close()
            self.snapshots = True
        elif self.snapshots and start.startswith(_POINTER):
            self.report.note(FRAME, self.stream, line, "snapshot")
        elif self.open is not None:
            self.open.add(line)
        elif start.startswith(_CROSSES):
            name = start.partition(b" ")[2]
            self.report.mark(self.stream, b"FAIL " + name, name)
        elif line.startswith(_SENTENCES):
            self.report.recognised = True
            self.report.note(1, self.stream, line)
        elif start and not start.startswith(_TICKS):
            self.plain.add(line)

    def wake(self) -> Wake | None:
        """All lines of what a test printed too: they are passed over here."""
        return None if self.printed else super().wake()

    def finish(self) -> None:
        """The stream has ended."""
        self._close()

    def _bullet(self, title: bytes) -> None:
        self._close()
        if title in (b"Console", b"Console\r") or title.startswith(b"Deprecation Warning"):
            return
        key = self.file + b"\0" + title
        if key in self.told:
            # The summary of all failing tests says it all again: read on, keep nothing.
            return
        if len(self.told) < 4_000:
            self.told.add(key)
        shown = b"FAIL " + self.file + b": " + title if self.file else b"FAIL " + title
        self._open(Failure(shown, title, grades, _BULLET.decode().strip()))

    def _vitest(self, line: bytes) -> None:
        title = line.strip().partition(b" ")[2].strip()
        self._close()
        if title not in self.told:
            self.told.add(title)
            self._open(Failure(b"FAIL " + title, title.rpartition(b" > ")[2], grades))

    def _rule(self, start: bytes) -> None:
        self._close()
        title = start.strip("⎯".encode()).strip()
        if title.startswith(b"Unhandled"):
            failure = Failure(title, b"Unhandled", grades)
            self._open(failure)

    def _total(self, line: bytes) -> None:
        self._close()
        self.snapshots = False
        if b" failed" in line or line.strip().startswith(b"Errors"):
            self.report.failed = True
        start = line.strip()
        if start.startswith(b"Snapshots:") and b" 0 total" in line:
            return
        self.report.outcome(self.stream, line.strip() if start.startswith(_TABLE) else line)

    def _open(self, failure: Failure) -> None:
        self.report.failure(self.stream, failure)
        self.open = failure

    def _close(self) -> None:
        self.open = None


_FOREIGN = (b"node_modules", b"node:internal", b"(<anonymous>)", b"../node_modules")


def grades(lines: list[bytes]) -> list[int]:
    """The message, what differs, the marked line of the frame and the first own place."""
    out = [CONTEXT] * len(lines)
    message = True
    said = 0
    placed = False
    # jest explains itself at length before the details of a file that it cannot read.
    details = next((at for at, line in enumerate(lines) if line.strip() == b"Details:"), 0)
    for at, line in enumerate(lines):
        start = line.strip()
        frame = _frame(start)
        if at == details:
            said, message = 0, True
        if start.startswith((b"at ", _ARROW)):
            message = False
            own = not any(word in line for word in _FOREIGN)
            out[at] = CAUSE if own and not placed else DEPTH
            placed = placed or own
        elif start.startswith(b"> ") and frame:
            message = False
            out[at] = CAUSE
        elif frame:
            message = False
            out[at] = CAPTURED
            if start.startswith(b"|") and start.strip(b"| ^") == b"":
                out[at] = DEPTH
                # vitest marks the line above the caret, jest with `>`.
                if at and _frame(lines[at - 1].strip()) and out[at - 1] == CAPTURED:
                    out[at - 1] = CAUSE
        elif (
            start.startswith((b"- ", b"+ ", b"Expected", b"Received", b"Snapshot:", b"Difference:"))
            and not placed
        ):
            out[at] = FRAME if start in (b"- Expected", b"+ Received") else CAUSE
        elif message and start:
            said += 1
            out[at] = (
                CAUSE if said <= (4 if at >= details else 1) else MORE if at >= details else DEPTH
            )
        elif start and out[at - 1] in (CAUSE, FRAME):
            out[at] = MORE
    return out


def _is_total(line: bytes, start: bytes) -> bool:
    """Whether the line is one of the closing table of jest or of vitest."""
    return (start.startswith(_TOTALS) and not line.startswith(b"  ")) or (
        start.startswith(_TABLE) and not line.startswith(b"        ")
    )


def _frame(start: bytes) -> bool:
    """Whether the line is one of a code frame: `  > 12 | code`, `12| code`, `   | ^`."""
    number, bar, _ = start.lstrip(b"> ").partition(b"|")
    return bool(bar) and not number.strip(b" 0123456789")
