"""cargo test and nextest: one report a target, compiler messages before them."""

from __future__ import annotations

from yarp.reduce.families.lines import Wake, split
from yarp.reduce.families.test.report import (
    CAPTURED,
    CAUSE,
    DEPTH,
    FRAME,
    MORE,
    Failure,
    Runner,
)
from yarp.reduce.families.test.words import looks_wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_NOISE = Wake(
    b"test result: ", b"---- ", b"error", b"warning", b"failures:", b"running ", b"  stderr ",
    b"  stdout ",
    b"     Summary", b"        FAIL", b"     TIMEOUT", b"     SIGNAL", b"thread '",
    b"     ABORT", b"  TRY ", b"     Running ",
    inside=(b" ... FAILED", b" --- FAILED", b"panicked at "),
)  # fmt: skip
# Once tests run, nothing is compiled any more: what sounds like a compiler is a test's log.
_OWN = (
    b"error: test failed", b"error: doctest failed", b"error: could not compile", b"error: target",
)  # fmt: skip
_RUNNING = Wake(
    *(start for start in _NOISE.starts if start not in (b"error", b"warning")), *_OWN,
    inside=_NOISE.inside,
)  # fmt: skip
_ERRORS_KEPT = 300
_NEXTEST = (b"FAIL", b"TIMEOUT", b"SIGABRT", b"SIGSEGV", b"ABORT", b"TRY")


class Cargo(Runner):
    """Reads the standard output of test targets, and cargo's own words on standard error."""

    noise = _NOISE
    late = Wake(
        b"test result: ", b"---- ", b"failures:", b"thread '", b"        FAIL", b"     Summary",
        b"     TIMEOUT", b"     SIGNAL", b"     ABORT",
        *_OWN,
        inside=(b" ... FAILED", b" --- FAILED"),
    )  # fmt: skip

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self.listing = False
        self.before: Failure | None = None
        self.told: set[bytes] = set()
        self.marked: list[bytes] = []
        self.totals = [0, 0, 0, 0]
        self.good: list[bytes] = []
        self.bad = 0
        self.errors = 0
        self.nextest = False

    def skipped(self) -> None:
        """Whatever block was open is open no more."""
        super().skipped()
        self._close()

    def line(self, line: bytes) -> None:
        """Take one line."""
        if self.open is None and _passed(line):
            self.listing = False  # most lines are of this kind
        elif self.nextest and line.startswith((b"test result: ", b"failures:", b"    ")):
            # nextest runs each test in a process of its own, which reports like a target.
            if line.strip().startswith(_NEXTEST) and b" [" in line:
                self._nextest(line)
            elif line.lstrip().startswith((b"PASS [", b"SLOW [", b"Starting ", b"Cancel")):
                self._close()
            elif line.lstrip().startswith(b"Summary ["):
                self._summary(line)
            elif self.open is not None and not line.startswith((b"test result", b"failures:")):
                self.open.add(line)
        elif b" Nextest run ID " in line:
            self.nextest = True
        elif line.startswith(b"test result: ") and not self._printed():
            self._close()
            self._result(line)
        elif line.startswith(b"---- ") and line.endswith(b" ----"):
            name = line[5:-5].rpartition(b" ")[0]
            self._open(Failure(b"FAILED " + name, name, panic_grades))
            self.told.add(name)
        elif line == b"failures:":
            self.before, self.open = self.open or self.before, None
            self.listing = True
        elif self.listing and line.startswith(b"    "):
            if self.marked and line.strip() not in self.marked:
                # No test of this run: the list is a part of what the last test printed.
                before = self.before
                self._close()
                self.open = before
            else:
                self._name(line.strip())
        elif self._is_message(line):
            self._message(line)
        elif self.open is not None and self._belongs(line):
            self.open.add(line)
        elif line.endswith((b" ... FAILED", b" --- FAILED")):
            name = (
                line.removeprefix(b"test ")
                .removesuffix(b"FAILED")[:-5]
                .partition(b" - should panic")[0]
            )
            if len(self.marked) < 1_000:
                self.marked.append(name)
        elif line.strip().startswith(_NEXTEST) and b" [" in line:
            self._nextest(line)
        elif line.lstrip().startswith(b"Summary ["):
            self._summary(line)
        elif line.startswith(b"thread '"):
            self._open(Failure(b"", b"panicked", panic_grades))
            if self.open:
                self.open.title = line.partition(b" panicked at ")[0] + b" panicked"
                self.open.add(line)
        elif line.startswith((b"running ", b"     Running ")):
            self.noise = _RUNNING
        elif line.strip() and not _quiet(line):
            self.plain.add(line)
        self.listing = self.listing and (not line or line.startswith((b" ", b"failures:")))

    def lines(self, data: bytes) -> None:
        """See `Parser`; of tests that went well nothing is taken."""
        plain = b" Nextest run ID " not in data
        for line in split(data):
            outcome = line.rpartition(b" ... ")[2]
            if (
                outcome == b"ok"
                and plain
                and self.open is None
                and line[:5] == b"test "
                and line[5:13] != b"result: "
            ):
                self.listing = False
            else:
                self.line(line)

    def finish(self) -> None:
        """The stream has ended: fold the targets that passed, name what no block told of."""
        self._close()
        if len(self.good) == 1:
            self.report.outcome(self.stream, self.good[0])
        elif self.good:
            passed, failed, ignored, filtered = self.totals
            self.report.outcome(
                self.stream,
                b"test result: ok. %d passed; %d failed; %d ignored; %d filtered out"
                b" (%s%d targets together)"
                % (passed, failed, ignored, filtered, b"first " * self.partial, len(self.good)),
            )
        for name in self.marked:
            if name not in self.told:
                self.told.add(name)
                self.report.failure(self.stream, Failure(b"FAILED " + name, name))

    def _printed(self) -> bool:
        """Whether a test's output is still open: the list of names closes it before a result."""
        return self.open is not None and self.open.title.startswith(b"FAILED ")

    def _result(self, line: bytes) -> None:
        if not line.startswith(b"test result: ok"):
            self.bad += 1
            self.report.failed = True
            self.report.outcome(self.stream, line)
            return
        self.report.recognised = True
        self.good.append(line if not self.good else b"")
        for part in line.removeprefix(b"test result: ok. ").split(b"; "):
            count, _, word = part.partition(b" ")
            if count.isdigit() and word in _COUNTED:
                self.totals[_COUNTED.index(word)] += int(count)

    def _summary(self, line: bytes) -> None:
        self._close()
        self.report.outcome(self.stream, line.strip())
        self.report.failed = self.report.failed or b" failed" in line

    def _open(self, failure: Failure) -> None:
        self.report.failure(self.stream, failure)
        self.open = failure

    def _close(self) -> None:
        self.open = self.before = None
        self.listing = False

    def _name(self, name: bytes) -> None:
        if name not in self.told and len(self.told) < 2_000:
            self.told.add(name)
            self.report.failure(self.stream, Failure(b"FAILED " + name, name))

    def _is_message(self, line: bytes) -> bool:
        """Whether the compiler or cargo says it, not a test."""
        if self.noise is _RUNNING:
            return line.startswith(_OWN)
        return line.startswith((b"error", b"warning")) and line[5:8].lstrip(b"ing")[:1] in (
            b":",
            b"[",
        )

    def _message(self, line: bytes) -> None:
        """A compiler message with its frame, or cargo's own sentence."""
        self._close()
        if line.startswith(b"error"):
            self.report.failed = self.report.recognised = True
            if line.startswith(_OWN):
                self.report.note(1, self.stream, line, "error")
            elif self.errors >= _ERRORS_KEPT:
                self.report.more += 1
            else:
                self.errors += 1
                self._open(Failure(line, b"error", frame_grades))
        elif b"generated" in line and b"warning" in line[8:]:
            self.report.note(FRAME, self.stream, line, "warning")
        elif not line.startswith(b"warning: build failed"):
            self.report.note(MORE, self.stream, line, "warning")

    def _belongs(self, line: bytes) -> bool:
        """Whether a line continues the open block; a compiler message ends with a blank line."""
        if self.open is not None and self.open.grade is frame_grades:
            if line[:1] in (b" ", b"") and line.strip() and not _quiet(line):
                return True
            if line[:1].isdigit() or line.startswith((b"...", b"help: ", b"note: ")):
                return True
            self._close()
            return False
        if _quiet(line) and line.startswith(b" "):
            self._close()
            return False
        return True

    def _nextest(self, line: bytes) -> None:
        self._close()
        name = line.partition(b"] ")[2].strip()
        name = name.partition(b") ")[2].strip() or name
        if name and name not in self.told:
            self.told.add(name)
            self._open(Failure(line.strip(), name.rpartition(b" ")[2], panic_grades))


_COUNTED = (b"passed", b"failed", b"ignored", b"filtered out")


def _passed(line: bytes) -> bool:
    """Whether a line says nothing but that a test went well."""
    return (
        line.endswith(b" ... ok")
        and line.startswith(b"test ")
        and not line.startswith(b"test result: ")
        and b" Nextest run ID " not in line
    )


def _quiet(line: bytes) -> bool:
    """Progress of the build and of the run."""
    if line.startswith(b"test ") and b" ... " in line:
        return True
    word = line.strip().partition(b" ")[0]
    return word in _PROGRESS or (word == b"running" and b" test" in line)


_PROGRESS = (
    b"Compiling", b"Checking", b"Finished", b"Running", b"Doc-tests", b"Downloading",
    b"Downloaded", b"Updating",
    b"Blocking", b"Fresh", b"Locking", b"Adding", b"PASS", b"Starting", b"Nextest",
)  # fmt: skip


def _is_place(line: bytes) -> bool:
    """Whether the compiler says there where it stopped."""
    return line.lstrip(b" ").startswith(b"--> ")


def panic_grades(lines: list[bytes]) -> list[int]:
    """The panic with its message first, own frames of the backtrace later, the rest last."""
    out = [CAPTURED] * len(lines)
    mode = b""
    for at, line in enumerate(lines):
        if line.startswith(b"thread '") and b"panicked at " in line:
            mode = b"panic"
            out[at] = CAUSE
        elif line == b"stack backtrace:":
            mode = b"trace"
            out[at] = DEPTH
        elif line.startswith(b"note: ") and b"backtrace" in line:
            mode = b""
            out[at] = DEPTH
        elif mode == b"panic":
            out[at] = CAUSE if line.strip() else DEPTH
            if not line.strip():
                mode = b""
        elif mode == b"trace":
            out[at] = DEPTH
            if line.lstrip().startswith(b"at ./") and b"{{closure}}" not in lines[at - 1]:
                out[at] = out[at - 1] = CAPTURED
        elif (
            line.startswith((b"test ", b"running ", b"  stdout ", b"  stderr "))
            or b"\xe2\x94\x80 STD" in line
        ):
            out[at] = DEPTH
        elif line.startswith((b"Error: ", b"note: test did not panic")):
            out[at] = CAUSE
        elif line.startswith(b"error") and lines[at + 1 : at + 2] and _is_place(lines[at + 1]):
            out[at] = out[at + 1] = CAUSE  # a documentation test that did not compile
        elif looks_wrong(line):
            out[at] = MORE
    if CAUSE not in out:
        out = [CAUSE if grade == MORE else grade for grade in out]
    if CAUSE not in out:
        out = [CAUSE] * len(out)
    return out


def frame_grades(lines: list[bytes]) -> list[int]:
    """A compiler's message: place and frame belong to it, notes and help may go."""
    out = []
    grade = CAUSE
    for line in lines:
        if line.lstrip().startswith((b"= note", b"= help", b"help:", b"note:")):
            grade = MORE
        out.append(CAPTURED if line.strip() == b"|" else grade)
    return out
