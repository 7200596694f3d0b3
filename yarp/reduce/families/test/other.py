"""Runners without a parser of their own: TAP, node's runner, mocha and whatever comes.

Reads by the words that runners use: lines that say how it ended, lines that say what failed, and
what stands below those.
"""

from __future__ import annotations

from yarp.reduce.families.lines import Wake
from yarp.reduce.families.test.report import CAPTURED, CAUSE, DEPTH, MORE, RULE, Failure, Runner
from yarp.reduce.families.test.words import looks_wrong, traceback_grades

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.test.report import Report

_CROSSES = tuple(mark.encode() for mark in ("✖ ", "✗ ", "✘ ", "✕ ", "\u00d7 "))
# A suite or a test that is told after one that failed.
_GOES_ON = tuple(mark.encode() for mark in ("\u25b6 ", "✔ ", "✓ ", "√ ", "\ufe63 "))
_INFO = "\u2139 ".encode()
_COUNTS = (b"tests ", b"suites ", b"pass ", b"fail ", b"cancelled ", b"skipped ", b"todo ")
_ENDINGS = (
    b"Failed!", b"Passed!", b"Test Run ", b"Total tests:", b"Tests run:", b"Tests: ",
    b"FAILURES!", b"OK (", b"Results:", b"Test summary:",
    b"Result: ", b"Total Tests:", b"test result:", b"Files=", b"ok | ", b"FAILED | ",
    b"Executed ", b"BUILD ", b"PASSED", b"FAILED",
)  # fmt: skip
_BAD = (
    b"not ok ",
    b"FAIL",
    b"FAILED",
    b"ERROR",
    b"Error:",
    b"error:",
    b"Failures:",
    b"--- FAIL",
    b"Failed ",
    b"(fail) ",
    b"[FAIL]",
    b"***Failed",
)
_NOISE = Wake(
    *_BAD, *_CROSSES, *_ENDINGS, b"# ", _INFO, b"  ", b"Traceback", b"Bail out!", b"panic",
    b"fatal",
    inside=(b"not ok ", b" passing", b" failing", b" passed", b" failed", b" examples, "),
)  # fmt: skip
_WEAK = (b"FAIL", b"ERROR ", b"ERROR:", b"Error: ", b"Error [", b"error: ", b"Failed ", b"Error\t")
_WORDS = (
    b"passed",
    b"failed",
    b"failures",
    b"failure",
    b"passing",
    b"failing",
    b"pending",
    b"pass",
    b"fail",
    b"errors",
    b"skipped",
)


_BY_TESTS = b"failureType: 'subtestsFailed'"


class Other(Runner):
    """Reads what no other parser recognises."""

    noise = _NOISE
    late = Wake(b"not ok ", *_CROSSES)

    def __init__(self, report: Report, stream: int) -> None:
        super().__init__(report, stream)
        self.indent = 0
        self.told: set[bytes] = set()
        self.blanks = 0
        self.closing = False

    def line(self, line: bytes) -> None:
        """Take one line."""
        start = line.lstrip()
        indent = len(line) - len(start)
        if _ending(line, start):
            self.open = None
            self.closing = True
            self.report.outcome(self.stream, line)
            self.report.failed = self.report.failed or _nonzero_failures(start)
            return
        if line.startswith(b"# ") and not line.startswith(b"# Subtest"):
            # What a file printed; the failure that it leads to comes below.
            if looks_wrong(line) and not line.startswith(b"#     at "):
                self.report.note(CAUSE, self.stream, line)
            return
        title = _title(start)
        inside = self.open is not None and indent > self.indent
        if not title and not inside and start.startswith(_WEAK):
            title = start
        if start.startswith((b"Failures:", b"There was ", b"There were ")):
            self.closing = True
        numbered = bool(title) and start[:1].isdigit()
        if numbered and not self.closing:
            # Numbered in the tree of tests, as mocha does; the list with the causes comes below.
            self.report.failed = True
            self.report.mark(self.stream, start, title)
        elif numbered or (title and not (inside and indent > self.indent + 3)):
            self._begin(start, title, indent)
        elif start.startswith((b"# Subtest", b"1..")):
            self.open = None
        elif start.startswith(_GOES_ON):
            self.open = None  # the next test or suite
        elif self.open is not None:
            self.blanks = 0 if start else self.blanks + 1
            if self.blanks > 3 or (
                start and indent < self.indent and not line.startswith((b"+", b"-"))
            ):
                self.open = None
                self.plain.add(line)
            elif start.startswith(_BY_TESTS):
                # Its tests have been told.
                self.report.failures = [
                    item for item in self.report.failures if item[1] is not self.open
                ]
                # What else is said of it goes with it.
                self.open = Failure(b"", b"")
            else:
                self.open.add(line)
        elif start and not start.startswith(
            (b"ok ", b"\xe2\x9c\x94", b"\xe2\x9c\x93", b"# Subtest: ok")
        ):
            self.plain.add(line)

    def _begin(self, start: bytes, title: bytes, indent: int) -> None:
        self.open = None
        self.blanks = 0
        self.indent = indent
        name = title.split(b" (")[0].rstrip(b":")
        if name == b"failing tests":
            return
        if name in self.told and not start[:1].isdigit():
            # Said twice: once where it happened, once in the list at the end, with more.
            for stream, failure in self.report.failures:
                if failure.name == name and stream == self.stream:
                    if not failure.lines:
                        self.open = failure
                    break
            return
        if len(self.told) < 2_000:
            self.told.add(name)
        word = "not ok" if start.startswith(b"not ok") else ""
        self.open = Failure(start.rstrip(), name, grades, word)
        self.report.failure(self.stream, self.open)


def _ending(line: bytes, start: bytes) -> bool:
    """Whether a line is one of the closing counts."""
    for mark in (b"# ", _INFO):
        if line.startswith(mark):
            word, _, count = line[len(mark) :].partition(b" ")
            return word + b" " in _COUNTS and count.strip().isdigit()
    if len(line) > 300:
        return False
    if line.startswith(_ENDINGS):
        return (
            any(char in b"0123456789" for char in line)
            or line.strip().isupper()
            or line.startswith((b"Passed!", b"Failed!"))
        )
    count, _, rest = start.partition(b" ")
    word = rest.partition(b" ")[0].rstrip(b",;.")
    return count.isdigit() and (
        word in _WORDS
        or (word in (b"examples", b"example", b"tests", b"test", b"specs") and b", " in rest)
    )


def _nonzero_failures(text: bytes) -> bool:
    words = text.replace(b",", b" ").replace(b":", b" ").replace(b";", b" ").split()
    for at in range(1, len(words)):
        before, word = words[at - 1], words[at]
        for count, noun in ((before, word), (word, before)):
            if (
                noun.lower() in (b"fail", b"failed", b"failing", b"failures", b"failure", b"errors")
                and count.isdigit()
                and int(count)
            ):
                return True
    return text.startswith((b"FAILED", b"Failed!", b"FAILURES!"))


def _title(start: bytes) -> bytes:
    """What failed, when the line says so: TAP's, a cross, a numbered failure of mocha."""
    if start.startswith(b"not ok "):
        return start.partition(b" - ")[2] or start[7:]
    if start.startswith(_CROSSES):
        return start.partition(b" ")[2]
    number, paren, rest = start.partition(b") ")
    if paren and number.isdigit() and len(number) < 5:
        return rest
    if start.startswith((b"(fail) ", b"--- FAIL: ", b"[FAIL] ")):
        return start.partition(b" ")[2]
    return b""


def grades(lines: list[bytes]) -> list[int]:
    """What went wrong and where; stacks of the runner's own code last."""
    if any(line.startswith(b"Traceback") for line in lines):
        return traceback_grades(lines)
    out = [MORE] * len(lines)
    said = 0
    placed = False
    for at, line in enumerate(lines):
        start = line.strip()
        if (
            start.startswith(b"at ")
            or b"(node:" in start
            or b"(file://" in start
            or b"node:internal" in start
        ):
            own = b"node:" not in line and b"node_modules" not in line
            out[at] = CAUSE if own and not placed else DEPTH
            placed = placed or own
        elif start.startswith(
            (
                b"duration_ms",
                b"type: ",
                b"---",
                b"...",
                b"code: ",
                b"name: ",
                b"stack:",
                b"failureType",
            )
        ):
            out[at] = RULE
        elif looks_wrong(line) or start.startswith(
            (b"+", b"-", b"expected", b"actual", b"location:", b"error:")
        ):
            said += 1
            out[at] = CAUSE if said <= 12 else CAPTURED
        elif said and out[at - 1] == CAUSE and said < 8 and start:
            said += 1
            out[at] = CAUSE
    return out if CAUSE in out else [CAUSE if at < 6 else CAPTURED for at in range(len(lines))]
