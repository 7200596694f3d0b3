"""Exact ranges of a source: lines, bytes, head and tail, never more than the ceilings.

Lines count from 1 and both ends belong to the range; bytes count from 0 and the second number
does not. What is read is exact: no ending is added, nothing is escaped. Source: reference 2.7.
"""

from __future__ import annotations

from yarp.errors import DataError, ReferenceUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.recover.select import Text

_BLOCK_BYTES = 1 << 20


def lines(text: Text, first: int, last: int | None, cap_bytes: int, cap_lines: int) -> bytes:
    """Lines `first` to `last` (None: the source's last one).

    Raises ReferenceUnknown when they are not there, DataError when they are too many.
    """
    if last is None:
        last = total_lines(text)
        if first > last:
            raise ReferenceUnknown(f"line {first} is not there; the source has {last} lines")
    if last - first >= cap_lines:
        raise DataError(
            f"{last - first + 1} lines are more than the {cap_lines} that one read may give; "
            f"read them in parts, such as {first}:{first + cap_lines - 1}"
        )
    start, skipped = _line_start(text, 0, first - 1)
    end, seen = _line_start(text, start, last - first + 1)
    total = skipped + seen + _unended(text)
    if total < last:
        # Either step stopped at the end of the source, so the total is known.
        raise ReferenceUnknown(f"lines {first}:{last} are not there; the source has {total} lines")
    return _within(text, start, end, cap_bytes)


def byte_range(text: Text, start: int, end: int | None, cap_bytes: int, cap_lines: int) -> bytes:
    """The bytes from `start` up to `end` (None: the source's end). Errors as `lines`."""
    if end is None and start < text.length:
        end = text.length
    if end is None or end > text.length:
        raise ReferenceUnknown(
            f"bytes {start}:{'' if end is None else end} are not there; "
            f"the source has {text.length} bytes"
        )
    found = _within(text, start, end, cap_bytes)
    count = count_lines(found)
    if count > cap_lines:
        raise DataError(
            f"these bytes hold {count} lines, more than the {cap_lines} that one read may give; "
            "read fewer"
        )
    return found


def head(text: Text, count: int, cap_bytes: int) -> bytes:
    """The first `count` lines, or all when there are fewer."""
    end, _ = _line_start(text, 0, count)
    return _within(text, 0, end, cap_bytes)


def tail(text: Text, count: int, cap_bytes: int) -> bytes:
    """The last `count` lines, or all when there are fewer."""
    start = text.length
    if count and start and text.read(start - 1, start) == b"\n":
        start -= 1
    for _ in range(count):
        start = text.newline_before(start)
        if start < 0:
            break
    return _within(text, start + 1 if count else start, text.length, cap_bytes)


def total_lines(text: Text) -> int:
    """How many lines the source has; a last one without an ending counts."""
    _, seen = _line_start(text, 0, -1)
    return seen + _unended(text)


def _unended(text: Text) -> bool:
    """Whether the source has a last line without an ending."""
    return text.length > 0 and text.read(text.length - 1, text.length) != b"\n"


def count_lines(data: bytes) -> int:
    """How many lines `data` touches."""
    return data.count(b"\n") + (data[-1:] not in {b"", b"\n"})


def _within(text: Text, start: int, end: int, cap_bytes: int) -> bytes:
    if end - start > cap_bytes:
        raise DataError(
            f"these are {end - start} bytes, more than the {cap_bytes} that one read may give; "
            f"read fewer, or: --bytes {start}:{start + cap_bytes}"
        )
    return text.read(start, end)


def _line_start(text: Text, offset: int, count: int) -> tuple[int, int]:
    """Where the line `count` lines after the one at `offset` starts, and how many endings passed.

    Stops at the end of the source; a negative `count` goes there.
    """
    seen = 0
    while offset < text.length and seen != count:
        block = text.read(offset, offset + _BLOCK_BYTES)
        here = block.count(b"\n")
        if count < 0 or seen + here < count:
            seen += here
            offset += len(block)
            continue
        at = -1
        for _ in range(count - seen):
            at = block.index(b"\n", at + 1)
        return offset + at + 1, count
    return offset, seen
