"""A stream on its way into blocks of whole, clean lines, whatever its chunks and lines are like."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.rules.match import Selection

_BLOCK_BYTES = 1 << 20
# What a carriage return is. After OVERWRITES the line begins anew, as on a terminal. TEXT: part of
# the line, to be seen in it as `^M`, dropped at its ends. EXACT_TEXT: at its end it is seen as
# well, unless all lines have one. UNREAD: it stays until it is known whose line it is in.
OVERWRITES, TEXT, EXACT_TEXT, UNREAD = range(4)
# Whose output has progress in it, if the rule does not say: one bit for each stream.
_PROGRESS = {"build": 3, "status": 3, "test": 3}
RETURN = b"^M"


class Stream:
    """One stream on its way into blocks of whole, clean lines.

    Blocks are filled to a fixed size before they are cut, so that how the bytes arrived cannot
    show in the summary. `returns` says what a carriage return is.
    """

    __slots__ = (
        "_buffer",
        "_head",
        "_line_bytes",
        "_long",
        "_tail",
        "newlines",
        "returns",
        "total",
        "unended",
    )

    def __init__(self, line_bytes: int, returns: int = OVERWRITES) -> None:
        self._line_bytes = line_bytes
        self.returns = returns
        self._buffer = bytearray()
        # A line that outgrew a block: its first bytes, its last ones, its length so far.
        self._head = b""
        self._tail = b""
        self._long = 0
        self.total = 0
        self.newlines = 0
        self.unended = False

    @property
    def lines(self) -> int:
        """Lines so far, a last one without a newline included."""
        return self.newlines + self.unended

    def feed(self, chunk: bytes | memoryview) -> list[bytes]:
        """The blocks that these bytes complete."""
        self.total += len(chunk)
        buffer = self._buffer
        if len(buffer) + len(chunk) < _BLOCK_BYTES:
            buffer += chunk
            return []
        blocks: list[bytes] = []
        view = memoryview(chunk)
        while view:
            taken = _BLOCK_BYTES - len(buffer)
            buffer += view[:taken]
            view = view[taken:]
            if len(buffer) == _BLOCK_BYTES:
                self._cut(blocks)
        return blocks

    def end(self) -> list[bytes]:
        """The last blocks."""
        blocks: list[bytes] = []
        buffer = self._buffer
        if b"\n" in buffer:
            self._cut(blocks)
        self.unended = bool(buffer) or self._long > 0
        if self._long:
            self._grow(buffer)
            blocks.append(self._ended())
        elif buffer:
            blocks.append(self._clean(bytes(buffer).rstrip(b"\r")))
        buffer.clear()
        return blocks

    def _cut(self, blocks: list[bytes]) -> None:
        buffer = self._buffer
        end = buffer.rfind(b"\n") + 1
        if not end:
            if self.returns == OVERWRITES and not self._long and self._overwritten():
                return
            self._grow(buffer)
            buffer.clear()
            return
        start = 0
        if self._long:
            start = buffer.find(b"\n") + 1
            self._grow(buffer[: start - 1])
            blocks.append(self._ended() + b"\n")
            self.newlines += 1
        if start < end:
            block = bytes(memoryview(buffer)[start:end])
            self.newlines += block.count(b"\n")
            blocks.append(self._clean(block))
        del buffer[:end]

    def _overwritten(self) -> bool:
        """Drop the states of a progress line that later ones overwrote; True if that made room."""
        buffer = self._buffer
        last = buffer.rfind(b"\r", 0, len(buffer.rstrip(b"\r")))
        if last < 0:
            return False
        del buffer[: last + 1]
        return True

    def _grow(self, part: bytes | bytearray) -> None:
        if not self._long:
            self._head = bytes(part[: self._line_bytes])
        self._long += len(part)
        self._tail = (self._tail + part)[-self._line_bytes :]

    def _ended(self) -> bytes:
        # Nothing of it was overwritten, or it is not known.
        seen = {OVERWRITES: b"", UNREAD: b"\r"}.get(self.returns, RETURN)
        head, tail = (
            _plain(end).strip(b"\r").replace(b"\r", seen) for end in (self._head, self._tail)
        )
        line = both_ends(head, tail, self._long, self._line_bytes)
        self._head = self._tail = b""
        self._long = 0
        return line

    def _clean(self, block: bytes) -> bytes:
        return shorter_lines(read_returns(_plain(block), self.returns), self._line_bytes)


def returns_of(selection: "Selection", stream: int, *, merged: bool = False) -> int:
    """What a carriage return is in a stream of a rule's tool; `merged`: both are this one."""
    bits = selection.options.get("progress")
    if bits is None:
        bits = _PROGRESS.get(selection.family, 0)
    if bits & (3 if merged else 1 << stream):
        return OVERWRITES
    return EXACT_TEXT if selection.family == "diff" and not stream else TEXT


def read_returns(block: bytes, returns: int) -> bytes:
    """The block of whole lines with its carriage returns as they are meant."""
    if b"\r" not in block or returns == UNREAD:
        return block
    all_lines = block.count(b"\r") >= block.count(b"\n")
    if (all_lines or returns != EXACT_TEXT) and _all_beside(block):
        return block.translate(None, b"\r")
    if returns == OVERWRITES:
        return _last_states(block)
    block = _single(block)
    if returns == TEXT or block.count(b"\r\n") == block.count(b"\n"):
        block = block.replace(b"\r\n", b"\n").replace(b"\n\r", b"\n").removeprefix(b"\r")
    return block.replace(b"\r", RETURN)


def _all_beside(block: bytes) -> bool:
    """Whether all carriage returns stand on one side of newlines: then none is inside a line."""
    first = block.find(b"\r")
    if block[max(0, first - 1) : first] in (b"", b"\n"):
        beside = block.count(b"\n\r") + block.startswith(b"\r")
    else:
        beside = block.count(b"\r\n")
    return block.count(b"\r") == beside


def _single(block: bytes) -> bytes:
    """The block with each run of carriage returns as one."""
    while b"\r\r" in block:
        block = block.replace(b"\r\r", b"\r")
    return block


def both_ends(head: bytes, tail: bytes, byte_length: int, room: int) -> bytes:
    """A line too long to show: the start of `head`, the length, the end of `tail`, in `room`."""
    note = b" [... %d-byte line ...] " % byte_length
    half = max(0, (room - len(note)) // 2)
    start = len(tail) - half
    return (
        head[: boundary(head, half)]
        + note
        + tail[boundary(tail, start + 3 if half > 3 else start) :]
    )


def boundary(text: bytes, at: int) -> int:
    """The nearest place at or before `at` that does not split a code point."""
    at = min(max(at, 0), len(text))
    for back in range(4):
        if at - back <= 0 or at - back == len(text) or text[at - back] & 0xC0 != 0x80:
            return max(0, at - back)
    return at


def _plain(block: bytes) -> bytes:
    """The block without ANSI control sequences."""
    if b"\x1b" not in block:
        return block
    import re

    return re.sub(
        rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]?|\][^\x07\x1b\n]*+(?:\x07|\x1b\\)?"
        rb"|[PX^_][^\x1b\n]*+(?:\x1b\\)?|[ -/]*+[0-~]?)",
        b"",
        block,
    )


def _last_states(block: bytes) -> bytes:
    """The block's lines as a terminal shows them at last: what a carriage return overwrote goes."""
    block = _single(block).replace(b"\r\n", b"\n")
    # One step for each line or for each carriage return, whichever are fewer.
    if block.count(b"\n") < block.count(b"\r"):
        return b"\n".join([line.rpartition(b"\r")[2] for line in block.split(b"\n")])
    *parts, last = block.split(b"\r")
    return b"".join([part[: part.rfind(b"\n") + 1] for part in parts]) + last


def shorter_lines(block: bytes, line_bytes: int) -> bytes:
    """The block with every line over `line_bytes` cut to both its ends."""
    if len(block) <= line_bytes:
        return block
    parts: list[bytes] = []
    done = start = 0
    size = len(block)
    # One search from the right for each `line_bytes` of ordinary lines.
    while size - start > line_bytes:
        newline = block.rfind(b"\n", start, start + line_bytes + 1)
        if newline >= 0:
            start = newline + 1
            continue
        end = block.find(b"\n", start + line_bytes)
        end = size if end < 0 else end
        line = block[start:end]
        parts += (block[done:start], both_ends(line, line, len(line), line_bytes))
        done = start = end
    parts.append(block[done:])
    return b"".join(parts) if len(parts) > 1 else block
