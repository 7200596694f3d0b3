"""Search one source in bounded memory, and show what was found within the ceilings.

A source is scanned once, in blocks of whole lines; of its selected lines only the places of the
first few are kept. Their text and context are read again when they are shown, so the largest
source costs a few megabytes. Source: reference 2.6; spec "Archive", search.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.recover.pattern import Matcher
    from yarp.recover.select import Text

MAX_LINE_BYTES = 1 << 20
# Small enough to stay in the processor's cache and in memory the process already has.
_BLOCK_BYTES = 1 << 18
_OVERLAP_BYTES = 1 << 16
_SHOWN_BYTES = 4096


class Line:
    """Where one line is: its number from 1, its bytes without the newline, and its first match.

    `hit` is an offset into the normalised line; for a line over MAX_LINE_BYTES into the source.
    """

    __slots__ = ("end", "hit", "number", "start")

    def __init__(self, number: int, start: int, end: int, hit: int = 0) -> None:
        self.number = number
        self.start = start
        self.end = end
        self.hit = hit

    @property
    def is_long(self) -> bool:
        """Whether it is longer than what is held in memory."""
        return self.end - self.start > MAX_LINE_BYTES


class Found:
    """What a scan found: the count of selected lines, the first of them, or that it is binary."""

    __slots__ = ("binary", "lines", "long_lines", "matches")

    def __init__(self) -> None:
        self.matches = 0
        self.lines: list[Line] = []
        self.binary = False
        self.long_lines: list[Line] = []


def scan(
    text: Text, matcher: Matcher, keep: int, *, invert: bool = False, as_text: bool = False
) -> Found:
    """Find the lines of `text` that `matcher` selects, or with `invert` all others.

    The first `keep` of them are kept. A source with a NUL byte is binary: it is reported, not
    searched, unless `as_text`. A line over MAX_LINE_BYTES is searched in overlapping pieces.
    """
    found = Found()
    number = 1
    for offset, block, end in _blocks(text):
        if block is None:
            line = Line(number, offset, end)
            line.hit = _in_long_line(text, line, matcher, as_text=as_text)
            if line.hit == _BINARY:
                return _binary()
            found.long_lines.append(line)
            del found.long_lines[keep:]
            if (line.hit >= 0) != invert:
                found.matches += 1
                if len(found.lines) < keep:
                    found.lines.append(line)
            number += 1
            continue
        if not as_text and b"\0" in block:
            return _binary()
        plain = matcher.normalise(block)
        if len(found.lines) < keep:
            lines = matcher.lines(plain)
            lines = _others(plain, lines) if invert else lines
            _collect(found, keep, lines, number, offset, block)
        else:
            selected = matcher.count(plain)
            found.matches += plain.count(b"\n") + 1 - selected if invert else selected
        number += block.count(b"\n")
    return found


_BINARY = -2


def _binary() -> Found:
    found = Found()
    found.binary = True
    return found


def _blocks(text: Text) -> Iterator[tuple[int, bytes | None, int]]:
    """Offset, whole lines and end of each block; None for the lines where one line is too long."""
    offset = 0
    size = _BLOCK_BYTES
    while offset < text.length:
        block = text.read(offset, offset + size)
        end = offset + len(block)
        cut = len(block) if end == text.length else block.rfind(b"\n") + 1
        if cut == 0 and size <= MAX_LINE_BYTES:
            size = MAX_LINE_BYTES + 1
            continue
        if len(block) > MAX_LINE_BYTES and (cut == 0 or b"\n" not in block):
            newline = text.newline_from(end)
            end = text.length if newline < 0 else newline
            yield offset, None, end
            offset = end + 1
        else:
            yield offset, block[:cut], offset + cut
            offset += cut
        size = _BLOCK_BYTES


def _in_long_line(text: Text, line: Line, matcher: Matcher, *, as_text: bool) -> int:
    """The offset near which the line matches first; -1 when it does not."""
    start = line.start
    while True:
        end = min(start + MAX_LINE_BYTES, line.end)
        piece = text.read(start, end)
        if not as_text and b"\0" in piece:
            return _BINARY
        plain = matcher.normalise(piece)
        hit = matcher.within(plain, opens=start == line.start, closes=end == line.end)
        if hit >= 0:
            return start + min(hit, len(piece))
        if end == line.end:
            return -1
        start = end - _OVERLAP_BYTES


def _others(
    block: bytes, lines: Iterator[tuple[int, int, int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """The lines of `block` that are not among `lines`."""
    number = at = 0
    for skipped, start, stop, _ in lines:
        while number < skipped:
            end = block.index(b"\n", at, start)
            yield number, at, end, at
            number += 1
            at = end + 1
        number, at = skipped + 1, stop + 1
    while at <= len(block):
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        yield number, at, end, at
        number += 1
        at = end + 1


def _collect(
    found: Found,
    keep: int,
    lines: Iterator[tuple[int, int, int, int]],
    first: int,
    offset: int,
    block: bytes,
) -> None:
    at = passed = 0
    for number, start, _stop, hit in lines:
        found.matches += 1
        if len(found.lines) >= keep:
            continue
        # The normalised block has the same lines at other places.
        while passed < number:
            at = block.index(b"\n", at) + 1
            passed += 1
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        found.lines.append(Line(first + number, offset + at, offset + end, hit - start))


class Source:
    """One searched source, whose lines can be shown and walked."""

    __slots__ = ("_known", "_matcher", "_shown", "complete", "found", "name", "text")

    def __init__(
        self, name: str, complete: str, text: Text, found: Found, matcher: Matcher
    ) -> None:
        self.name = name
        self.complete = complete
        self.text = text
        self.found = found
        self._matcher = matcher
        self._known = {line.number: line for line in found.lines}
        self._shown: dict[tuple[int, bool], bytes] = {}

    def neighbour(self, line: Line, step: int) -> Line | None:
        """The line before (-1) or after (1) `line`, or None at the source's ends."""
        number = line.number + step
        known = self._known.get(number)
        if known is not None:
            return known
        if step < 0:
            if line.start == 0:
                return None
            end = line.start - 1
            found = Line(number, self.text.newline_before(end) + 1, end)
        else:
            start = line.end + 1
            if start >= self.text.length:
                return None
            newline = self.text.newline_from(start)
            found = Line(number, start, self.text.length if newline < 0 else newline)
        self._known[number] = found
        return found

    def shown(self, line: Line, limit: int, *, selected: bool) -> bytes:
        """The normalised line in about `limit` bytes; a selected one around its match."""
        key = (line.number, selected)
        if key not in self._shown:
            self._shown[key] = self._display(line, limit, line.hit if selected else 0)
        return self._shown[key]

    def _display(self, line: Line, limit: int, hit: int) -> bytes:
        if not line.is_long:
            # A carriage return is part of the ending only where a newline follows.
            end = min(line.end + 1, self.text.length)
            return cut(self._matcher.normalise(self.text.read(line.start, end)), limit, hit)
        start = max(line.start, hit - limit // 4)
        end = min(line.end, start + limit)
        plain = cut(self._matcher.normalise(self.text.read(start, end)), limit, 0)
        head = b"..." if start > line.start else b""
        tail = b"..." if end < line.end and not plain.endswith(b"...") else b""
        return head + plain + tail

    def groups(self, showing: int, before: int, after: int) -> list[list[Line]]:
        """The first `showing` selected lines with their context; groups that touch are one."""
        groups: list[list[Line]] = []
        for selected in self.found.lines[:showing]:
            last = groups[-1][-1].number if groups else 0
            lead: list[Line] = []
            line: Line | None = selected
            while line is not None and len(lead) <= before and line.number > last:
                lead.append(line)
                line = self.neighbour(line, -1)
            lead.reverse()
            # The context after an earlier one may have reached this line already.
            if groups and (not lead or lead[0].number == last + 1):
                groups[-1].extend(lead)
            else:
                groups.append(lead)
            line = groups[-1][-1]
            while line is not None and line.number < selected.number + after:
                line = self.neighbour(line, 1)
                if line is not None:
                    groups[-1].append(line)
        return groups


def cut(plain: bytes, limit: int, hit: int) -> bytes:
    """At most `limit` bytes of a normalised line, whole characters, `...` where it is cut.

    What is kept is the beginning when the match at `hit` lies there, else what is around it.
    """
    if len(plain) <= limit:
        return plain
    start = 0 if hit < limit * 3 // 4 else min(hit - limit // 4, len(plain) - limit)
    end = start + limit
    while plain[start] & 0xC0 == 0x80:
        start += 1
    while end < len(plain) and plain[end] & 0xC0 == 0x80:
        end -= 1
    head = b"..." if start else b""
    return head + plain[start:end] + (b"..." if end < len(plain) else b"")


class Shape:
    """How much is shown: context and number of lines of each source."""

    __slots__ = ("contexts", "showing")

    def __init__(self, contexts: list[tuple[int, int]], showing: list[int]) -> None:
        self.contexts = contexts
        self.showing = showing


class Answer:
    """One answer about one call, made to fit its ceilings.

    As asked, else with less context, else with fewer lines. Without context the lines' numbers
    say where they are: there are no separators then, and one range serves a source.
    """

    __slots__ = ("_cap_bytes", "_cap_lines", "_max_results", "_notes", "_ref", "_sources")

    def __init__(
        self,
        ref: str,
        sources: list[Source],
        notes: list[bytes],
        *,
        max_results: int,
        cap_bytes: int,
        cap_lines: int,
    ) -> None:
        self._ref = ref.encode()
        self._sources = sources
        self._notes = notes
        self._max_results = max_results
        self._cap_bytes = cap_bytes
        self._cap_lines = cap_lines

    def fitted(self, before: int, after: int) -> bytes | None:
        """The answer with up to that context; None when not even its shortest form fits."""
        contexts = [(before, after)] * len(self._sources)
        asked = Shape(contexts, [len(source.found.lines) for source in self._sources])
        answer = self._render(asked)
        if answer is not None:
            return answer
        shapes = list(_smaller(asked))
        low, high = 0, len(shapes)
        while low < high:
            middle = (low + high) // 2
            smaller = self._render(shapes[middle])
            if smaller is None:
                low = middle + 1
            else:
                answer, high = smaller, middle
        return answer or self._least()

    def _least(self) -> bytes | None:
        matches = sum(source.found.matches for source in self._sources)
        source = next(source for source in self._sources if source.found.lines)
        name, number = source.name.encode(), source.found.lines[0].number
        answer = (
            b"[yarp search: ref=%b; matches=%d; showing=0; omitted=%d; first=%b:%d; "
            b"read=yarp read %b %b %d:%d]\n"
            % (self._ref, matches, matches, name, number, self._ref, name, number, number)
        )
        return answer if len(answer) <= self._cap_bytes else None

    def _render(self, shape: Shape) -> bytes | None:
        room = self._cap_bytes
        lines: list[bytes] = []
        for line in self._lines(shape):
            room -= len(line) + 1
            if room < 0 or len(lines) == self._cap_lines:
                return None
            lines.append(line)
        return b"\n".join(lines) + b"\n"

    def _lines(self, shape: Shape) -> Iterator[bytes]:
        limit = min(_SHOWN_BYTES, max(64, self._cap_bytes // 2))
        yield b"[yarp search: ref=%b]" % self._ref
        ways: list[bytes] = []
        for place, source in enumerate(self._sources):
            before, after = shape.contexts[place]
            showing = shape.showing[place]
            name = source.name.encode()
            # Without context the numbers say where the lines are.
            compact = not (before or after)
            if ways and showing and not compact:
                yield b"--"
            yield (
                b"[source=%b complete=%b matches=%d showing=%d before=%d after=%d max_results=%d]"
                % (
                    name,
                    source.complete.encode(),
                    source.found.matches,
                    showing,
                    before,
                    after,
                    self._max_results,
                )
            )
            selected = {line.number for line in source.found.lines[:showing]}
            groups = source.groups(showing, before, after)
            for group in groups:
                if group is not groups[0] and not compact:
                    yield b"--"
                for line in group:
                    here = line.number in selected
                    shown = source.shown(line, limit, selected=here)
                    mark = b":" if here else b"-"
                    yield b"%b%b%d%b%b" % (name, mark, line.number, mark, shown)
            if compact and groups:
                groups = [[line for group in groups for line in group]]
            ways += [self._way(source, group, selected) for group in groups]
        omitted = sum(source.found.matches for source in self._sources) - sum(shape.showing)
        if omitted:
            yield b"[yarp search: %d selected line(s) omitted]" % omitted
        yield from self._notes
        yield from ways

    def _way(self, source: Source, group: list[Line], selected: set[int]) -> bytes:
        """The command that reads the lines of a group exactly, or as many as one read gives."""
        command = b"Read exact context: yarp read %b %b " % (self._ref, source.name.encode())
        first, last = group[0], group[-1]
        if not self._readable(first, last):
            first = last = next(line for line in group if line.number in selected)
            for line in group:
                if line.number > first.number and self._readable(first, line):
                    last = line
        if self._readable(first, last):
            return command + b"%d:%d" % (first.number, last.number)
        hit = first.hit if first.is_long else min(first.start + first.hit, first.end)
        start = max(first.start, hit - self._cap_bytes // 4)
        return command + b"--bytes %d:%d" % (start, min(first.end, start + self._cap_bytes))

    def _readable(self, first: Line, last: Line) -> bool:
        return (
            last.end + 1 - first.start <= self._cap_bytes
            and last.number - first.number < self._cap_lines
        )


def _smaller(shape: Shape) -> Iterator[Shape]:
    """Ever smaller shapes: the largest context first, then the last lines go."""
    contexts = list(shape.contexts)
    while any(before or after for before, after in contexts):
        place = max(range(len(contexts)), key=lambda place: sum(contexts[place]))
        before, after = contexts[place]
        contexts[place] = (before, after - 1) if after >= before else (before - 1, after)
        yield Shape(list(contexts), shape.showing)
    showing = list(shape.showing)
    while any(showing):
        showing[showing.index(max(showing))] -= 1
        yield Shape(contexts, list(showing))
