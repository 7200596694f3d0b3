"""go test: a verdict a package, `--- FAIL` a test, and panics that end it all."""

from __future__ import annotations

from yarp.reduce.families.lines import Wake
from yarp.reduce.families.test.report import (
    CAPTURED,
    CAUSE,
    DEPTH,
    FRAME,
    MORE,
    Excerpt,
    Failure,
    Runner,
)
from yarp.reduce.families.test.words import looks_wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_NOISE = Wake(
    b"FAIL", b"--- FAIL", b"panic: ", b"fatal error: ", b"WARNING: DATA RACE", b"ok  \t",
    b"?   \t", b"# ",
    b"testing: ", b"exit status", b"=== RUN", b"=== NAME", b"=== CONT", b"=== PAUSE", b"go: ",
    b"no required",
    b"coverage: ", b"--- SKIP", b"\t", b"Found ",
    inside=(b"--- FAIL: ",),
)  # fmt: skip
_LOGS_KEPT = 64
_SKIPS_TOLD = 5
_TESTS_SEEN = 8_192
_RECALLED_BYTES = 16 * 1024
_FETCHING = (b"go: downloading ", b"go: finding ", b"go: extracting ", b"go: found ", b"go: added ")


class Go(Runner):
    """Reads the output of `go test`, with and without `-v`."""

    noise = _NOISE
    late = Wake(
        b"FAIL\t", b"panic: ", b"fatal error: ", b"WARNING: DATA RACE",
        inside=(b"--- FAIL: ", b"_test.go:"),
    )  # fmt: skip

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self.running: dict[bytes, Excerpt] = {}
        self.current: Excerpt | None = None
        self.good = 0
        self.empty = 0
        self.bad = 0
        self.first_good: list[bytes] = []
        self.skips = 0
        self.skimming = False  # what is read now has been counted
        self.seen: set[bytes] = set()  # tests that began, as far as `-v` tells

    def wake(self) -> Wake | None:
        """All lines of a running test too: they are its log if it fails."""
        return None if self.current is not None else super().wake()

    def skipped(self) -> None:
        """Whatever test was running is running no more."""
        super().skipped()
        self.current = None
        self.skimming = False
        self._close()

    def recall(self, data: bytes, at: int) -> None:
        """The test that a late line logs for, by the last line before it that names one."""
        self.current = None
        if data[at + 1 : at + 64].lstrip(b" ").startswith((b"--- ", b"FAIL", b"panic")):
            return
        start = data.rfind(b"\n=== ", max(0, at - _RECALLED_BYTES), at) + 1
        if start:
            self._switch(data[start : data.find(b"\n", start)])

    def skim(self, window: bytes) -> None:
        """Packages are counted wherever they stand."""
        data = b"\n" + window
        good, empty = data.count(b"\nok  \t"), data.count(b"\n?   \t")
        self.good += good
        self.empty += empty
        self.bad += data.count(b"\nFAIL\t")
        self.skimming = True
        self.report.recognised = self.report.recognised or bool(good or empty)

    def line(self, line: bytes) -> None:
        """Take one line."""
        start = line.lstrip(b" ")
        if start.startswith(b"--- ") and self._is_verdict(start, len(line) - len(start)):
            self._verdict(start)
        elif line.startswith(b"=== "):
            self._switch(line)
        elif (
            line.startswith((b"ok  \t", b"?   \t", b"\t"))
            and not self.open
            and self.current is None
        ):
            self._package(line)
        elif line == b"FAIL" or line.startswith(b"FAIL\t"):
            self._fail(line)
        elif line.startswith((b"panic: ", b"fatal error: ", b"WARNING: DATA RACE")):
            self._trouble(line)
        elif line.startswith(b"# ") and b" " not in line[2:].partition(b" [")[0]:
            self._open(Failure(line, line[2:].partition(b" ")[0], None))
        elif self.open is not None:
            self.open.add(line)
        elif self.current is not None:
            self.current.add(line)
        elif line.strip():
            if line.startswith(b"go: ") and not line.startswith(_FETCHING):
                self.report.note(CAUSE, self.stream, line)
            elif looks_wrong(line):
                self.report.note(CAPTURED, self.stream, line)
            self.plain.add(line)

    def finish(self) -> None:
        """The stream has ended: say how many packages passed."""
        self._close()
        if self.good + self.empty > 1 or (self.bad and self.good + self.empty > 0):
            words = b"ok %d packages" % self.good if self.good != 1 else b"ok 1 package"
            if self.bad:
                words = b"FAIL %d, " % self.bad + words
            if self.empty:
                words += b", %d without test files" % self.empty
            self.report.outcome(self.stream, words)
        if self.good == 1 and not self.bad:
            self.report.outcome(self.stream, self.first_good[0])
        elif self.first_good:
            for line in self.first_good:
                worth = 1 if b"[no tests" in line else MORE if b"coverage:" in line else CAPTURED
                self.report.note(worth, self.stream, line, "ok")

    def _package(self, line: bytes) -> None:
        self._close()
        self.report.recognised = True
        if line.startswith((b"?", b"\t")) or b"[no test files]" in line:
            self.empty += 1
            return
        self.good += 1
        if len(self.first_good) < _LOGS_KEPT:
            self.first_good.append(line)

    def _is_verdict(self, start: bytes, indent: int) -> bool:
        """Whether go says it, not a test: of a subtest where it is indented, of one that ran."""
        name = start.partition(b": ")[2].partition(b" (")[0]
        if indent > 4 * name.count(b"/"):
            return False
        known = self.seen and not self.partial and len(self.seen) < _TESTS_SEEN
        return not known or name in self.seen

    def _verdict(self, start: bytes) -> None:
        name = start.partition(b": ")[2].partition(b" (")[0]
        logs = self.running.pop(name, None)
        if logs is self.current:
            self.current = None
        if start.startswith(b"--- FAIL"):
            failure = Failure(start, name, log_grades, "FAIL")
            for text in logs.text() if logs else ():
                failure.add(text)
            self._open(failure)
        else:
            self._close()
            if start.startswith(b"--- SKIP"):
                self.skips += 1
                if self.skips <= _SKIPS_TOLD:
                    said = [text.strip() for text in (logs.text() if logs else ()) if text.strip()]
                    self.report.note(FRAME, self.stream, b" ".join([start, *said[-1:]]), "SKIP")

    def _switch(self, line: bytes) -> None:
        self._close()
        name = line.partition(b"  ")[2].strip()
        if len(self.seen) < _TESTS_SEEN:
            self.seen.add(name)
        if line.startswith(b"=== PAUSE"):
            self.current = None
            return
        if name not in self.running and len(self.running) >= 4_096:
            del self.running[next(iter(self.running))]
        self.current = self.running.setdefault(name, Excerpt())

    def _fail(self, line: bytes) -> None:
        self._close()
        self.running.clear()
        self.current = None
        self.report.failed = self.report.recognised = True
        if line != b"FAIL":
            self.bad += not self.skimming
            self.report.outcome(self.stream, line)

    def _trouble(self, line: bytes) -> None:
        if self.open is not None and self.open.grade is not panic_grades and not self.open.lines:
            self.open.grade = panic_grades
            self.open.add(line)
        elif self.open is None or self.open.grade is not panic_grades:
            self._open(Failure(line, line.partition(b": ")[0], panic_grades))
        else:
            self.open.add(line)

    def _open(self, failure: Failure) -> None:
        self.report.failure(self.stream, failure)
        self.open = failure

    def _close(self) -> None:
        self.open = None


def log_grades(lines: list[bytes]) -> list[int]:
    """What a test logged: lines with a place first, the last ones of them above all."""
    places = [at for at, line in enumerate(lines) if b"_test.go:" in line or b".go:" in line]
    out = [MORE] * len(lines)
    for at in places:
        out[at] = CAUSE if looks_wrong(lines[at]) or len(places) < 6 else FRAME
    if places:
        # What the last place says may go on over several lines.
        for at in range(places[-1], min(len(lines), places[-1] + 12)):
            out[at] = CAUSE
    return out


def panic_grades(lines: list[bytes]) -> list[int]:
    """The panic, and the frames of one's own code in the first goroutine."""
    out = [DEPTH] * len(lines)
    seen = 0
    for at, line in enumerate(lines):
        if line.lstrip().startswith(
            (b"panic: ", b"fatal error: ", b"WARNING: DATA RACE", b"[signal ")
        ) or line.startswith((b"Read at ", b"Write at ", b"Previous ")):
            out[at] = CAUSE
        elif line.lower().startswith(b"goroutine ") or not line.strip(b"= "):
            out[at] = DEPTH
        elif (
            line[:1] in (b"\t", b" ")
            and b".go:" in line
            and b"/src/" not in line
            and b"_testmain" not in line
        ):
            grade = CAUSE if seen < 3 else MORE
            seen += 1
            out[at] = grade
            if at and not lines[at - 1].startswith((b"\t", b"panic")):
                out[at - 1] = grade
        elif (
            line.strip() and not line.startswith((b"\t", b" ", b"created by ")) and b"(" not in line
        ):
            out[at] = MORE
    return out
