"""What was read of a build: outcomes, messages, names, products, the rest; all of it bounded."""

from __future__ import annotations

from collections import Counter

from yarp.reduce.families.build.words import ERROR, UNSAID, looks_wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.build.diagnostic import Diagnostic
    from yarp.reduce.families.build.traceback import Traceback

_KEPT = 3_000
_LATE = 100
_OUTCOMES = 60
_NAMES = 5_000
_PLAIN = 60


class Report:
    """The evidence, bounded; what does not fit is counted."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, bytes]] = []
        self.diagnostics: list[Diagnostic] = []
        self.counts: Counter[int] = Counter()
        self.more = 0
        self.late: list[Diagnostic] = []
        self.tracebacks: list[tuple[int, Traceback]] = []
        self.names: dict[bytes, list[bytes]] = {}
        self.named: Counter[bytes] = Counter()
        self.name_stream: dict[bytes, int] = {}
        self.products: list[tuple[int, bytes]] = []
        self.produced = 0
        self.noises: Counter[bytes] = Counter()
        self.last_noise: tuple[int, bytes] | None = None
        self.partial = False
        self._seen: set[tuple[bytes, ...]] = set()
        self._plain: tuple[list[bytes], list[bytes]] = ([], [])
        self._last: tuple[list[bytes], list[bytes]] = ([], [])
        self._wrong = 0

    def outcome(self, stream: int, line: bytes) -> None:
        """Keep a line that says how it ended: the first ones and the last ones."""
        if (stream, line) in self.outcomes[-8:]:
            return
        if len(self.outcomes) >= _OUTCOMES:
            del self.outcomes[_OUTCOMES // 2]
        self.outcomes.append((stream, line))

    def diagnostic(self, stream: int, found: Diagnostic) -> None:
        """Keep a message once, or count it."""
        key = found.key()
        if key in self._seen:
            return
        if len(self._seen) < 4 * _KEPT:
            self._seen.add(key)
        self.counts[found.severity] += 1
        found.stream = stream
        if len(self.diagnostics) < _KEPT:
            self.diagnostics.append(found)
        else:
            self.more += 1
            self.late.append(found)
            if len(self.late) > 2 * _LATE:
                del self.late[:_LATE]

    def kept(self) -> list[Diagnostic]:
        """The messages that were kept: the first ones and the last."""
        return self.diagnostics + self.late[-_LATE:]

    def wrong(self) -> int:
        """How many messages and tracebacks say that something failed."""
        return self.counts[ERROR] + self.counts[UNSAID] + len(self.tracebacks)

    def leave_out(self, lines: set[bytes]) -> None:
        """Let go of the messages that are one of these lines, ruled or not."""
        if not lines:
            return
        for kept in (self.diagnostics, self.late):
            kept[:] = [one for one in kept if one.title.strip(b"_- ") not in lines]
        self.counts = Counter(one.severity for one in self.kept())

    def traceback(self, stream: int, found: Traceback) -> None:
        """Keep a traceback: the first ones and the last."""
        if len(self.tracebacks) >= 8:
            self.tracebacks.pop()
        self.tracebacks.append((stream, found))

    def listed(self, stream: int, kind: bytes, name: bytes) -> None:
        """Keep a name that the tool lists without more words."""
        self.named[kind] += 1
        names = self.names.setdefault(kind, [])
        self.name_stream[kind] = stream
        if len(names) < _NAMES:
            names.append(name)

    def product(self, stream: int, line: bytes) -> None:
        """Keep a line that says what was built."""
        self.produced += 1
        if len(self.products) < 400:
            self.products.append((stream, line))

    def noise(self, stream: int, kind: bytes, line: bytes) -> None:
        """Count a line that says that work goes on."""
        self.noises[kind] += 1
        self.last_noise = (stream, line)

    def plain(self, stream: int, line: bytes) -> None:
        """Keep a line of no known form: first ones, those that sound like trouble, last ones."""
        first = self._plain[stream]
        if len(first) < _PLAIN or (looks_wrong(line) and self._wrong < _PLAIN):
            self._wrong += len(first) >= _PLAIN
            first.append(line)
            return
        last = self._last[stream]
        last.append(line)
        if len(last) > 2 * _PLAIN:
            del last[:_PLAIN]

    def troubled(self) -> bool:
        """Whether a line of no known form sounds like trouble."""
        return any(looks_wrong(line) for stream in (0, 1) for line in self.plain_lines(stream))

    def plain_lines(self, stream: int) -> list[bytes]:
        """The lines of no known form that were kept, in order."""
        return self._plain[stream] + self._last[stream]
