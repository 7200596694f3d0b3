"""Test runners behind a wrapper or among builds: which stretch of a stream is whose.

The test family reads a stream that shows a runner's sign. Where a second runner's sign stands
behind the last line of the first one's run, a second family reads from there; what stands within
a run may be printed by a test, and stays with it.
"""

from __future__ import annotations

from yarp.reduce.families.base import Status
from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.base import Piece
    from yarp.reduce.families.test import Family as Tested

_SAMPLE_BYTES = 512 * 1024
_RUNS = 16
# The line that a wrapper puts before what it starts: npm and its like, yarn.
_HEADER = pattern_of(rb"(?m)^(?:> \S+@\S+ \S.*\n> |\$ \S)")
# How the lines begin that a run's first one may be.
_BEGINS = (
    b"= test session starts =", b"\nrunning 1 test\n", b" Running unittests ", b" Nextest run ID ",
    b"\n=== RUN   ", b"\n RUN  v", b" tests using ", b"\nRunning 1 test using ", b"\nTAP version 1",
)  # fmt: skip
# The last lines of a run, by runner; what no parser of its own reads is "other".
_LAST = {
    "pytest": rb"=*(?: ?\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected"
    rb"|warnings?),?| ?no tests ran)+ in [\d.]+s.*$|!+ .* !+$",
    "unittest": rb"(?:OK|FAILED)(?: \(.*\))?$",
    "cargo": rb"(?:test result: .*|error: (?:test failed|\d+ target).*)$",
    "go": rb"(?:FAIL|PASS|ok  \t.*|FAIL\t.*)$",
    "jest": rb"(?:Ran all test suites.*|Time: +.*| +Duration .*)$",
    "playwright": rb"  \d+ (?:passed|flaky|skipped|failed)\b.*$",
    "other": rb"(?:# |\xe2\x84\xb9 )duration_ms .*$|  \d+ (?:passing|failing)\b.*$"
    rb"|BUILD (?:FAILED|SUCCESSFUL) in .*|Total Test time .*|Errors while running CTest",
}
_ENDS = {name: pattern_of(rb"(?m)^(?:" + body + rb")") for name, body in _LAST.items()}
LAST = b"|".join(_LAST.values())
"""How the last line of any run looks, from its first byte on."""


class Runs:
    """What test runners say: families of their own read the streams that show one."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        self._argv = argv
        self._options = options
        # The beginning of a stream, until it tells; None once the stream is passed on or let go.
        self._held: list[list[bytes] | None] = [[], []]
        self._sizes = [0, 0]
        self._known = [False, False]
        self._families: list[Tested] = []
        # Who reads the stream where it goes on.
        self._last = [0, 0]

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of one stream."""
        held = self._held[stream]
        if held is None:
            if self._known[stream]:
                self._family(self._last[stream]).feed(stream, block)
            return
        held.append(block)
        self._sizes[stream] += len(block)
        if self._sizes[stream] >= _SAMPLE_BYTES:
            self._judge(stream, b"".join(held))

    def close(self, *, plain: bool) -> None:
        """The streams have ended; `plain`: read what an unknown runner says as well."""
        short = {at: b"".join(held) for at, held in enumerate(self._held) if held is not None}
        for stream, data in short.items():
            self._judge(stream, data)
        if plain and not any(self._known):
            for stream, data in short.items():
                if data:
                    self._family(0).feed(stream, data)
        for family in self._families:
            family.close()

    def pieces(self, status: Status, budget: int) -> list[Piece] | None:
        """The tests' pieces, None if there were none."""
        if len(self._families) > 1:
            # It is the status of one of them, nobody knows which.
            status = Status(None)
        failed = sum(family.report.failed for family in self._families)
        out: list[Piece] = []
        for family in self._families:
            share = budget // max(1, failed)
            family.options.update(success_bytes=share, failure_bytes=share)
            told = family.finish(status)
            if told and (family.report.outcomes or family.report.failures):
                out += told
        return out or None

    def lines(self) -> set[bytes]:
        """What was read of failing tests."""
        failures = [failure for family in self._families for _, failure in family.report.failures]
        found = {failure.name for failure in failures}
        for failure in failures:
            found.update(line.strip() for line in failure.text())
            found.add(failure.title.strip())
        return found

    def _judge(self, stream: int, data: bytes) -> None:
        self._held[stream] = None
        sample = data[:_SAMPLE_BYTES]
        cuts = _cuts(sample)
        self._known[stream] = cuts is not None
        if cuts is None:
            return
        ends = [*cuts, len(data)]
        start = 0
        for at, end in enumerate(ends):
            self._family(at).feed(stream, data[start:end])
            start = end
        self._last[stream] = len(cuts)

    def _family(self, at: int) -> Tested:
        from yarp.reduce.families.test import Family as Tested

        while len(self._families) <= at:
            self._families.append(Tested(self._argv, dict(self._options)))
        return self._families[at]


def _cuts(sample: bytes) -> list[int] | None:
    """Where another runner's run begins, at the start of a line; None: there is no runner."""
    import re

    from yarp.reduce.families.test import PLAIN_SIGNS, SIGNS

    names = {sign: name for name, sign in SIGNS} | dict.fromkeys(PLAIN_SIGNS, "other")
    pattern = re.compile(b"|".join(re.escape(sign) for sign in names))
    data = b"\n" + sample
    current = ""
    start = 0
    cuts: list[int] = []
    for found in pattern.finditer(data):
        name = names[found[0]]
        if not current:
            current = name
        if name == current or len(cuts) == _RUNS:
            continue
        line = data.rfind(b"\n", 0, found.start() + 1) + 1
        ended = [end.end() for end in _ENDS[current].finditer(data, start, line)]
        if not ended:
            continue
        cut = ended[-1] + 1
        headers = [header.start() for header in _HEADER.finditer(data, cut, line)]
        if headers:
            cut = headers[0]
        elif found[0] in _BEGINS:
            cut = line
        cuts.append(cut - 1)
        current, start = name, cut
    return cuts if current else None
