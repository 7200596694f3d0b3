"""The output of a compound text, cut into what each command printed.

The lines that the text's own `echo`s print are checked against the output; where one is missing,
or a separator stands twice, nothing is shortened: a plan is a belief, the output decides.
"""

from __future__ import annotations

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
        self._parts = [_Part(segment, make) for segment in shape.segments]
        self._at = 0
        self._separators = [_separator(part) for part in shape.segments]
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

    def finish(self, status: Status) -> list[Piece] | None:
        """All pieces in their order; None: the exact bytes."""
        if self._strange or self._at + 1 < len(self._parts) or len(self._stderr) > _WHOLE_BYTES:
            return None
        pieces: list[Piece] = []
        try:
            for part in self._parts:
                pieces += part.finish(status)
        except Declined:
            return None
        if self._stderr:
            pieces.append(Piece(bytes(self._stderr).rstrip(b"\n"), 0, 1))
        for stream, found in enumerate(self._diagnostics):
            pieces += [Piece(line, 1, stream) for line in found]
        return pieces

    def _split(self, block: bytes) -> None:
        start = 0
        for number, separator in enumerate(self._separators):
            if separator is None:
                continue
            count = block.count(b"\n" + separator + b"\n") + block.startswith(separator + b"\n")
            if not count:
                continue
            if count > 1 or number != self._at + 1:
                self._strange = True
                return
            at = _line_at(block, separator + b"\n")
            if at < start:
                self._strange = True
                return
            if at > start:
                self._parts[self._at].feed(0, block[start:at])
            start = at
            self._at = number
        if start < len(block):
            self._parts[self._at].feed(0, block[start:])

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

    def __init__(self, segment: Segment, make: Make) -> None:
        self._segment = segment
        self._families = [] if segment.selection is None else make(segment.selection)
        self._before: list[bytes] = []
        self._pending = bool(segment.before)
        self._head = b""
        self._tail = b""
        self._whole: bytearray | None = bytearray()
        self._lines = 0
        self._fed_stderr = False

    def feed(self, stream: int, block: bytes) -> None:
        if stream:
            self._fed_stderr = True
            self._pass_on(1, block)
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


def _line_at(block: bytes, start: bytes) -> int:
    """Where the first line is that starts so; -1: nowhere."""
    if block.startswith(start):
        return 0
    at = block.find(b"\n" + start)
    return at if at < 0 else at + 1


def _separator(segment: Segment) -> bytes | None:
    """The line that begins a segment."""
    for line in segment.before:
        if len(line.texts) == 1 and len(line.texts[0].strip()) > 2 and not line.optional:
            return line.texts[0]
    return None


def _matches(line: Line, text: bytes) -> bool:
    texts = line.texts
    if len(texts) == 1:
        return text == texts[0]
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
