"""Test runners: the outcome whole, every failing test by name, the first cause of each.

The command names the runner, or its output does where the command is a wrapper (`npm test`,
`tox`). Counts are the tool's own; where a run failed and no failure was recognised, the end of
what it said is shown instead of a guess.
"""

from __future__ import annotations

from yarp.reduce.families import base
from yarp.reduce.families.lines import Sieve
from yarp.reduce.families.test.report import CAUSE, MORE, Report, pieces
from yarp.reduce.families.test.words import looks_wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.base import Piece, Status
    from yarp.reduce.families.test.report import Runner

# What only one runner prints; the first of these to stand in the output tells which it is.
_SINGLE, _DOUBLE = b"-" * 70 + b"\n", b"=" * 70 + b"\n"
_RULE = b"\xe2\x8e\xaf"  # vitest's horizontal line
SIGNS = (
    ("pytest", b"= test session starts ="),
    ("pytest", b"= short test summary info ="),
    ("pytest", b"\n=================================== FAILURES"),
    ("pytest", b"\n==================================== ERRORS"),
    ("unittest", b"\n" + _SINGLE + b"Ran "),
    ("unittest", b"\n" + _DOUBLE + b"FAIL: "),
    ("unittest", b"\n" + _DOUBLE + b"ERROR: "),
    ("cargo", b"\ntest result: "),
    ("cargo", b"\nrunning 1 test\n"),
    ("cargo", b" Running unittests "),
    ("cargo", b" Nextest run ID "),
    ("go", b"\n--- FAIL: "),
    ("go", b"\n--- PASS: "),
    ("go", b"\n=== RUN   "),
    ("go", b"\nok  \t"),
    ("go", b"\nFAIL\t"),
    ("go", b"\n?   \t"),
    ("jest", b"\nTest Suites: "),
    ("jest", b"\nTests:       "),
    ("jest", b"\n Test Files  "),
    ("jest", b"\n RUN  v"),
    ("jest", b"\nNo tests found"),
    ("jest", b"\nNo test files found"),
    ("jest", _RULE + b" Failed "),
    ("jest", _RULE + b" Unhandled "),
    ("jest", b" \xe2\x97\x8f Test suite failed to run"),
    ("playwright", b" tests using "),
    ("playwright", b"\nRunning 1 test using "),
)
# What runners print that have no parser of their own: mocha, node's own, TAP, gradle, ctest.
PLAIN_SIGNS = (
    b" passing (", b"\n# tests ", b"\n\xe2\x84\xb9 tests ", b"\nTAP version 1",
    b" tests completed, ", b"\nTest project ",
)  # fmt: skip
_SAMPLE_BYTES = 512 * 1024
_END_BYTES = 4096
# What `timeout` ends with, and above which a shell tells of a signal.
_TIMED_OUT, _SIGNALS = 124, 128
_TRACE = b"Traceback (most recent call last):"


class Family(base.Family):
    """Summarises one run of tests."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self.report = Report()
        self.runner = _named(argv)
        self.lanes = (_Lane(self, 0), _Lane(self, 1))
        self.closed = False

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of one stream."""
        self.lanes[stream].feed(block)

    def close(self) -> None:
        """Read to the end of both streams."""
        for lane in self.lanes if not self.closed else ():
            lane.finish()
        self.closed = True

    def finish(self, status: Status) -> list[Piece] | None:
        """Outcome, failures, notes; None where nothing of a test run was recognised."""
        self.close()
        report = self.report
        failed = status.success is False or report.failed
        if not failed and not report.outcomes:
            return None
        said = bool(report.failures or report.marks) or any(
            worth <= CAUSE for worth, *_ in report.notes
        )
        if failed and not said and not self._excuses():
            return None
        if status.success is False and not report.failed:
            exit_code = b"" if status.exit_code is None else b" %d" % status.exit_code
            report.sentence = b"(exit status%s, but no failing test was recognised)" % exit_code
        elif status.success is False and not report.outcomes and self._sums(status):
            self._unfinished(status)
        budget = self.options.get("success_bytes" if status.success else "failure_bytes", 4096)
        return pieces(report, budget) or None

    def _sums(self, status: Status) -> bool:
        """Whether a run that ended by itself would have printed a sum."""
        code = status.exit_code
        stopped = code is not None and (code == _TIMED_OUT or not 0 <= code <= _SIGNALS)
        return stopped or any(lane.name in ("pytest", "unittest") for lane in self.lanes)

    def _unfinished(self, status: Status) -> None:
        """A run that was stopped: that it was, and where it stood."""
        code = b"" if status.exit_code is None else b"exit status %d; " % status.exit_code
        self.report.sentence = b"(%bthe run printed no summary: it may have been stopped)" % code
        for stream in (0, 1):
            for line in _standing(self.lanes[stream].end):
                self.report.note(1, stream, line)

    def _excuses(self) -> bool:
        """A failure that no parser could name: what was said last and what sounds like trouble."""
        found = False
        for stream in (0, 1):
            text = self.lanes[stream].plain()
            for at, line in enumerate(text):
                late = len(text) - at <= 12
                if late or looks_wrong(line):
                    found = True
                    worth = CAUSE if late and looks_wrong(line) else MORE
                    self.report.note(worth, stream, line)
        return found or bool(self.report.outcomes)


class _Lane:
    """One stream on its way to the parser that fits it."""

    def __init__(self, family: Family, stream: int) -> None:
        self.family = family
        self.stream = stream
        self.runner: Runner | None = None
        self.sieve: Sieve | None = None
        self.sample: list[bytes] = []
        self.sampled = 0
        self.end = b""
        self.name = ""

    def feed(self, block: bytes) -> None:
        """Take whole lines; the first ones wait until they tell which runner it is."""
        self.end = (self.end + block[-_END_BYTES:])[-_END_BYTES:]
        if self.sieve is not None:
            self.sieve.feed(block)
            return
        self.sample.append(block)
        self.sampled += len(block)
        if self.sampled >= _SAMPLE_BYTES:
            self._start()

    def finish(self) -> None:
        """The stream has ended."""
        if self.sieve is None and self.sampled:
            self._start()
        if self.sieve is not None and self.runner is not None:
            self.sieve.finish()
            self.runner.finish()

    def plain(self) -> list[bytes]:
        """Lines that belong to nothing recognised: the first and the last."""
        return [line for line in self.runner.plain.text() if line.strip()] if self.runner else []

    def _start(self) -> None:
        held = b"".join(self.sample)
        # The sample's length may not depend on the blocks it came in.
        name = self.name = self.family.runner or _sniffed(b"\n" + held[:_SAMPLE_BYTES])
        self.runner = _parser(name, self.family.report, self.stream)
        self.sieve = Sieve(self.runner)
        self.sample = []
        self.sieve.feed(held)


def _named(argv: tuple[str, ...]) -> str:
    """The runner that a command names, or nothing."""
    words = [word.rpartition("/")[2] for word in argv[:6] if not word.startswith("-")]
    if words[:1] == ["cargo"] or "nextest" in words:
        return "cargo"
    if words[:2] == ["go", "test"]:
        return "go"
    for word in words:
        if word in ("pytest", "py.test"):
            return "pytest"
        if word in ("unittest", "jest", "vitest", "playwright"):
            return word
    return ""


def _standing(end: bytes) -> list[bytes]:
    """What the last lines of a stream say of where the run stood: an exception's place, or one."""
    lines = [line for line in end.split(b"\n") if line.strip()]
    trace = next((at for at in range(len(lines) - 1, -1, -1) if _TRACE in lines[at]), None)
    if trace is None or lines[-1][:1].isspace():
        return [line for line in lines if not line[:1].isspace()][-1:] or lines[-1:]
    frames = [at for at in range(trace, len(lines)) if lines[at].startswith(b'  File "')]
    before, _, _ = lines[trace].partition(_TRACE)
    return ([lines[trace]] if before.strip() else []) + lines[frames[-1] if frames else -1 :]


def _sniffed(sample: bytes) -> str:
    """The runner whose sign stands first in the output, or nothing."""
    best, first = "", len(sample)
    for name, sign in SIGNS:
        at = sample.find(sign)
        if 0 <= at < first:
            best, first = name, at
    return best


def _parser(name: str, report: Report, stream: int) -> Runner:
    """A runner's parser; only the module that this call needs is imported."""
    if name == "pytest":
        from yarp.reduce.families.test.pytest import Pytest

        return Pytest(report, stream)
    if name == "unittest":
        from yarp.reduce.families.test.unittest import Unittest

        return Unittest(report, stream)
    if name == "cargo":
        from yarp.reduce.families.test.cargo import Cargo

        return Cargo(report, stream)
    if name == "go":
        from yarp.reduce.families.test.go import Go

        return Go(report, stream)
    if name in ("jest", "vitest"):
        from yarp.reduce.families.test.jest import Jest

        return Jest(report, stream)
    if name == "playwright":
        from yarp.reduce.families.test.playwright import Playwright

        return Playwright(report, stream)
    from yarp.reduce.families.test.other import Other

    return Other(report, stream)
