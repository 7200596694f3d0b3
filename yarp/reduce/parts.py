"""The output of a compound text, cut into what each command printed.

The lines that the text's own `echo`s print are checked against the output; where one is missing,
or a separator stands twice, nothing is shortened: a plan is a belief, the output decides.
"""

from __future__ import annotations

from yarp.reduce.blocks import OVERWRITES, TEXT, read_returns, returns_of
from yarp.reduce.families.base import Family, Piece, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.reduce.plan import Line, Segment, Shape
    from yarp.reduce.rules.match import Selection

    Make = Callable[[Selection], list[Family]]

# A part or a stream that no rule knows is shown whole up to here.
_WHOLE_BYTES = 400
_DIAGNOSTICS = 8


class Declined(Exception):
    """The output is not what the plan says."""


class Parts(Family):
    """Joins the families of a shape's segments into one."""

    def __init__(self, shape: Shape, make: Make) -> None:
        self._shape = shape
        self._parts = [_Part(segment, make, shape.merged) for segment in shape.segments]
        # Lines that must come in this order and nowhere else, and the segment that each begins.
        self._wanted = _separators(shape.segments)
        self._known = sorted({line for line, _ in self._wanted})
        self._at = 0
        self._openings = [segment.opening for segment in shape.segments]
        self._diagnostics: tuple[list[bytes], list[bytes]] = ([], [])
        self._stderr = bytearray()
        self._strange = shape.merged and (shape.whole_stderr or len(shape.segments) > 1)

    def feed(self, stream: int, block: bytes) -> None:
        """Give a block to the segment that it belongs to."""
        if self._strange:
            return
        if stream or self._shape.merged:
            block = self._without_diagnostics(stream, block)
        if stream:
            if not self._shape.whole_stderr:
                self._parts[-1].feed(1, block)
            elif len(self._stderr) <= _WHOLE_BYTES:
                self._stderr += block
            return
        if len(self._parts) > 1:
            self._split(block)
        elif block:
            self._parts[0].feed(0, block)
        self.hopeless = self._strange or any(part.hopeless() for part in self._parts)

    def finish(self, status: Status) -> list[Piece] | None:
        """All pieces in their order; None: the exact bytes."""
        split = len(self._parts) == 1 or not (self._wanted or any(self._openings))
        if self._strange or not split or len(self._stderr) > _WHOLE_BYTES:
            return None
        pieces: list[Piece] = []
        try:
            for part in self._parts:
                pieces += part.finish(status)
        except Declined:
            return None
        if self._stderr:
            said = read_returns(bytes(self._stderr), OVERWRITES)
            pieces.append(Piece(said.rstrip(b"\n"), 0, 1))
        for stream, found in enumerate(self._diagnostics):
            pieces += [Piece(line, 1, stream) for line in found]
        return pieces

    def _split(self, block: bytes) -> None:
        """Give each segment its lines."""
        start = at = 0
        while True:
            found = [
                (where, line)
                for line in self._known
                if (where := _line_at(block, line + b"\n", at)) >= 0
            ]
            if not found:
                break
            where, line = min(found)
            if not self._wanted or self._wanted[0][0] != line:
                self._strange = True
                return
            _, segment = self._wanted.pop(0)
            if segment is not None:
                if where > start:
                    self._give(block[start:where])
                self._at = segment
                start = where
            at = where + len(line) + 1
        if start < len(block):
            self._give(block[start:])

    def _give(self, block: bytes) -> None:
        """Give lines to the current segment, up to where the next one opens."""
        while self._at + 1 < len(self._parts) and (opening := self._openings[self._at + 1]):
            found = _line_at(block, opening)
            if found < 0:
                break
            if found:
                self._parts[self._at].feed(0, block[:found])
            self._at += 1
            self._openings[self._at] = b""
            block = block[found:]
        self._parts[self._at].feed(0, block)

    def _without_diagnostics(self, stream: int, block: bytes) -> bytes:
        for start in self._shape.diagnostics:
            while (at := _line_at(block, start)) >= 0:
                end = block.find(b"\n", at) + 1 or len(block)
                found = self._diagnostics[stream]
                if len(found) == _DIAGNOSTICS:
                    self._strange = True
                    return b""
                found.append(block[at:end].rstrip(b"\n"))
                block = block[:at] + block[end:]
        return block


class _Part:
    """One segment: the lines before, a command's output, the lines after."""

    def __init__(self, segment: Segment, make: Make, merged: bool) -> None:
        self._segment = segment
        selection = segment.selection
        self._families = [] if selection is None else make(selection)
        self._returns = (TEXT, TEXT)
        if selection is not None:
            self._returns = returns_of(selection, 0, merged=merged), returns_of(selection, 1)
        self._before: list[bytes] = []
        self._pending = bool(segment.before)
        self._head = b""
        self._tail = b""
        self._whole: bytearray | None = bytearray()
        self._lines = 0
        self._fed_stderr = False

    def hopeless(self) -> bool:
        """Whether nothing but declining is left."""
        return self._whole is None and all(family.hopeless for family in self._families)

    def feed(self, stream: int, block: bytes) -> None:
        if stream:
            self._fed_stderr = True
            self._pass_on(1, read_returns(block, self._returns[1]))
            return
        if self._pending:
            self._head += block
            if self._head.count(b"\n") < len(self._segment.before):
                return
            block = self._start()
        if block:
            self._hold_back(block)

    def finish(self, status: Status) -> list[Piece]:
        """The segment's pieces; Declined when it cannot be shortened truly."""
        segment = self._segment
        if self._pending:
            self._tail = self._start()
        lines = self._tail.split(b"\n")
        unended = lines.pop()
        if unended:
            lines.append(unended)
        after: list[bytes] = []
        told: int | None = None
        for line in reversed(segment.after):
            found = lines and _matches(line, lines[-1])
            if found:
                text = lines.pop()
                after.insert(0, text)
                if line.status:
                    told = _number(line, text)
            elif not line.optional:
                raise Declined
        rest = b"".join(line + b"\n" for line in lines)
        if rest:
            self._give(rest)
        pieces = [Piece(line, 0) for line in self._before]
        pieces += self._body(status if told is None else Status(told))
        return pieces + [Piece(line, 0) for line in after]

    def _body(self, status: Status) -> list[Piece]:
        segment = self._segment
        whole = self._whole
        if whole is not None and not self._fed_stderr:
            return [Piece(bytes(whole).rstrip(b"\n"), 0)] if whole else []
        if not segment.known and status.exit_code is None:
            status = Status(None, None)
        for family in self._families:
            pieces = family.finish(status)
            if pieces:
                cut = segment.note and (segment.limit is None or self._lines >= segment.limit)
                return [Piece(segment.note, 0, lines=0), *pieces] if cut else pieces
        raise Declined

    def _start(self) -> bytes:
        """Take the lines before; what is left of the beginning."""
        rest, self._head = self._head, b""
        self._pending = False
        for line in self._segment.before:
            text, newline, after = rest.partition(b"\n")
            if (text or newline) and _matches(line, text):
                self._before.append(text)
                rest = after
            elif not line.optional:
                raise Declined
        return rest

    def _hold_back(self, block: bytes) -> None:
        """Keep the last lines for those after, and give the rest to the family."""
        wanted = len(self._segment.after)
        if not wanted:
            self._give(block)
            return
        at = len(block)
        for _ in range(wanted + 1):
            at = block.rfind(b"\n", 0, at)
            if at < 0:
                self._tail += block
                return
        if self._tail:
            self._give(self._tail)
        self._give(block[: at + 1])
        self._tail = block[at + 1 :]

    def _give(self, block: bytes) -> None:
        self._lines += block.count(b"\n") + (not block.endswith(b"\n"))
        block = read_returns(block, self._returns[0])
        if self._whole is not None:
            self._whole += block
            if len(self._whole) > _WHOLE_BYTES:
                self._whole = None
        self._pass_on(0, block)

    def _pass_on(self, stream: int, block: bytes) -> None:
        if not block:
            return
        if not self._families:
            if self._whole is None:
                raise Declined
            return
        for family in self._families:
            family.feed(stream, block)


def _line_at(block: bytes, start: bytes, at: int = 0) -> int:
    """Where the first line is, from the line that begins `at`, that starts so; -1: nowhere."""
    if block.startswith(start, at):
        return at
    found = block.find(b"\n" + start, at)
    return found if found < 0 else found + 1


def _separators(segments: list[Segment]) -> list[tuple[bytes, int | None]]:
    """The lines that tell segments apart, with the segment where one begins it."""
    found: list[tuple[bytes, int | None]] = []
    for number, segment in enumerate(segments):
        begins: int | None = number or None
        for line in segment.before:
            if line.separates:
                found.append((line.texts[0], begins))
                begins = None
        found += [(line.texts[0], None) for line in segment.after if line.separates]
    return found


def _matches(line: Line, text: bytes) -> bool:
    texts = line.texts
    if len(texts) == 1:
        return text == texts[0]
    if line.starts and (not text or text[0] not in line.starts):
        return False
    if line.status:
        return _number(line, text) is not None
    if not (text.startswith(texts[0]) and text.endswith(texts[-1])):
        return False
    at = len(texts[0])
    for part in texts[1:-1]:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return at <= len(text) - len(texts[-1])


def _number(line: Line, text: bytes) -> int | None:
    start, end = line.texts
    digits = text[len(start) : len(text) - len(end)]
    if text == start + digits + end and digits.isdigit() and len(digits) <= 3:
        return int(digits)
    return None
