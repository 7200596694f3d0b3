"""How families read a stream: windows cut by the stream alone, and lines by what a parser wants.

A parser says in `wake` which lines matter in its present state, so the rest is skipped by one
search instead of a loop; where windows begin depends on the bytes alone, so any chunking gives
the same answer. Once a parser has had its share, only the end of the stream is read: outcomes
stand there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

WINDOW_BYTES = 256 * 1024
LINES_TAKEN = 20_000
# Then only what names failures is looked for, with some lines below each.
LATE_TAKEN = 100_000
LATE_BELOW = 40
# Every line of a stream's end is looked at, whatever the parser waits for.
LAST_BYTES = 4 * 1024


class Wake:
    """The lines that end a stretch of noise: by how they start, or by what they hold."""

    __slots__ = ("_pattern", "inside", "starts")

    def __init__(self, *starts: bytes, inside: tuple[bytes, ...] = ()) -> None:
        self.starts = starts
        self.inside = inside
        self._pattern: re.Pattern[bytes] | None = None

    def stands(self, data: bytes, start: int, stop: int) -> bool:
        """Whether the line from `start` up to its newline at `stop` is one of them."""
        if data.startswith(self.starts, start):
            return True
        return any(data.find(needle, start, stop + 1) >= 0 for needle in self.inside)

    def search(self, data: bytes, position: int) -> int:
        """Where the first one from `position` on is found, or -1: its newline, or what it holds."""
        if self._pattern is None:
            starts = [b"\n" + start for start in self.starts]
            self._pattern = automaton(b"|".join(map(_quoted, [*starts, *self.inside])))
        found = self._pattern.search(data, position)
        return found.start() if found else -1


class Parser:
    """Takes the lines of one stream.

    `late` are the lines still wanted of what follows when the parser has had its share.
    """

    late: Wake | None = None

    def wake(self) -> Wake | None:
        """The lines that matter in the present state; None where every line does."""
        return None

    def line(self, line: bytes) -> None:
        """Take one line without its newline; it may also be one that `wake` does not ask for."""
        raise NotImplementedError

    def lines(self, data: bytes) -> None:
        """Take each of these whole lines."""
        for line in split(data):
            self.line(line)

    def below(self) -> bool:
        """Whether the next lines belong to what a late line has begun."""
        return False

    def recall(self, data: bytes, at: int) -> None:
        """Take from the lines before `at` what the late line there is about."""

    def skim(self, window: bytes) -> None:
        """Count what can be counted in a window of which only late lines are read."""

    def skipped(self) -> None:
        """Lines are about to be left out: whatever was open is open no more, counts are partial."""


class Windows:
    """Cuts blocks again, at the last newline in every `size` bytes, whatever the blocks were.

    `rest` holds back at least one window, so that the end of a stream is never in the middle.
    """

    __slots__ = ("_held", "_parts", "size", "take")

    def __init__(self, take: Callable[[bytes], None], size: int = WINDOW_BYTES) -> None:
        self.take = take
        self.size = size
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, block: bytes) -> None:
        """Take a block of whole lines."""
        self._parts.append(block)
        self._held += len(block)
        if self._held < 2 * self.size:
            return
        data = b"".join(self._parts)
        start = 0
        while len(data) - start >= 2 * self.size:
            cut = data.rfind(b"\n", start, start + self.size) + 1
            if not cut:
                cut = data.find(b"\n", start + self.size) + 1
                if not cut:
                    break
            self.take(data[start:cut])
            start = cut
        self._parts = [data[start:]]
        self._held = len(data) - start

    def rest(self) -> bytes:
        """What no window has taken yet: the end of the stream."""
        return b"".join(self._parts)


class Sieve:
    """Gives a parser the lines of one stream that it asks for.

    `lost` is True when windows in the middle went unread because the parser had its share.
    """

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.windows = Windows(self._window)
        self.lost = False
        self._taken = self._late = 0

    def feed(self, block: bytes) -> None:
        """Take a block of whole lines."""
        self.windows.feed(block)

    def finish(self) -> None:
        """Read the end of the stream."""
        if self.lost:
            self.parser.skipped()
        rest = self.windows.rest()
        if not self._taken and len(rest) < WINDOW_BYTES // 4:
            # Small: compiling a pattern costs more than looking at each line.
            self.parser.lines(rest)
            return
        last = max(0, rest.rfind(b"\n", 0, max(0, len(rest) - LAST_BYTES)) + 1)
        for line in wanted(rest[:last], self.parser):
            self.parser.line(line)
        for line in split(rest[last:]):
            self.parser.line(line)

    def _window(self, window: bytes) -> None:
        parser = self.parser
        if self._taken < LINES_TAKEN:
            self._taken += 1
            for line in wanted(window, parser):
                parser.line(line)
                self._taken += 1
            return
        self.lost = True
        parser.skipped()
        parser.skim(window)
        if parser.late is not None and self._late < LATE_TAKEN:
            for line in _late(window, parser, parser.late):
                parser.line(line)
                self._late += 1


def split(data: bytes) -> list[bytes]:
    """The lines of whole-line data, without their newlines."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def wanted(window: bytes, parser: Parser) -> Iterator[bytes]:
    """The window's lines that the parser's present `wake` asks for."""
    data = b"\n" + window
    position = 0  # always at the newline before a line
    end = len(data) - 1 if data.endswith(b"\n") else len(data)
    ahead: dict[Wake, int] = {}
    while position < end:
        wake = parser.wake()
        if wake is not None:
            position = _next(wake, data, position, end, ahead)
            if position >= end:
                return
        stop = data.find(b"\n", position + 1)
        if stop < 0:
            stop = len(data)
        yield data[position + 1 : stop]
        position = stop


def _late(window: bytes, parser: Parser, late: Wake) -> Iterator[bytes]:
    """The window's late lines, and some below each of them."""
    data = b"\n" + window
    position = below = 0
    end = len(data) - 1 if data.endswith(b"\n") else len(data)
    ahead: dict[Wake, int] = {}
    while position < end:
        if not (below and parser.below()):
            position = _next(late, data, position, end, ahead)
            if position >= end:
                return
            parser.recall(data, position)
            below = LATE_BELOW
        below -= 1
        stop = data.find(b"\n", position + 1)
        if stop < 0:
            stop = len(data)
        yield data[position + 1 : stop]
        position = stop


def _next(wake: Wake, data: bytes, position: int, end: int, ahead: dict[Wake, int]) -> int:
    """The newline before the next line that wakes, from `position` on; `end` when there is none."""
    # What was found ahead is not searched again before it is reached.
    at = ahead.get(wake, -1)
    if at < position:
        # Where every line wakes, looking at each costs less than searching.
        stop = data.find(b"\n", position + 1)
        if wake.stands(data, position + 1, end if stop < 0 else stop):
            return position
        at = wake.search(data, position)
        ahead[wake] = at = end if at < 0 else at
    return at if at >= end else max(position, data.rfind(b"\n", position, at + 1))


def automaton(pattern: bytes) -> re.Pattern[bytes]:
    """A pattern that costs the same whatever it is searched in, and takes bytes as they are."""
    import re2

    options = re2.Options()
    # In UTF-8 mode a line with one invalid byte would never match.
    options.encoding = re2.Options.Encoding.LATIN1
    compiled: re.Pattern[bytes] = re2.compile(pattern, options)
    return compiled


def _quoted(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)
