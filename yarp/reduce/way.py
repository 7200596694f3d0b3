"""What a marker may promise: a search whose lines were left out, or the first lines that were.

A way back that shows what is known already costs a call and says nothing. So the words are tried
on the text before they are named, and where they find nothing new the lines are named instead.
"""

from __future__ import annotations

# The text that is kept to try words on; beyond it words are taken as they come.
HELD_BYTES = 1 << 20
# A range for one look; a model that wants more asks for more.
READ_BYTES = 16 * 1024
# What an answer of `yarp search` adds to a line, and what stands around its lines.
_LINE_EXTRA = 20
_FRAME_BYTES = 2048
_PREFIX_BYTES = 48
_CUT = b"-byte line ...] "


class Held:
    """The clean text of a call's streams, as long as it is short enough."""

    __slots__ = ("blocks", "size")

    def __init__(self) -> None:
        self.blocks: tuple[list[bytes], list[bytes]] = ([], [])
        self.size = 0

    def add(self, stream: int, block: bytes) -> None:
        """Take whole lines of a stream."""
        self.size += len(block)
        if self.size <= HELD_BYTES:
            self.blocks[stream].append(block)
        else:
            self.blocks[0].clear()
            self.blocks[1].clear()

    def text(self, stream: int) -> bytes | None:
        """All of a stream; None where it was too much."""
        return b"".join(self.blocks[stream]) if self.size <= HELD_BYTES else None


def words(text: tuple[bytes, bytes], terms: list[str], summary: bytes, room: int) -> int:
    """How many lines of a source a search for `terms` selects at most.

    0 when the search is of no use: nothing of what it shows within `room` bytes was left out.
    """
    most = 0
    fresh = False
    room -= _FRAME_BYTES
    for data in text:
        found = _selected(data, [term.strip().encode() for term in terms])
        most = max(most, len(found) + data.count(_CUT))
        for start, end in found:
            room -= min(end - start, 4096) + _LINE_EXTRA
            if room < 0:
                break
            fresh = fresh or not told(data[start:end], summary)
    return most if fresh else 0


def stretch(
    data: bytes, byte_length: int, summary: bytes, most_bytes: int, most_lines: int
) -> tuple[int, int] | None:
    """The lines from the first that was left out on, as many as one read gives; None for none."""
    number = start = 0
    size = len(data)
    first = 0
    # The exact bytes hold more than the clean ones: colour, progress, the middle of long lines.
    room = most_bytes * max(1, size) // max(1, size, byte_length)
    while start < size:
        end = data.find(b"\n", start)
        end = size if end < 0 else end
        number += 1
        if not first and not told(data[start:end], summary):
            first = number
        if first:
            room -= end + 1 - start
            if number > first and (room < 0 or number - first >= most_lines):
                return first, number - 1
        start = end + 1
    return (first, number) if first else None


def told(line: bytes, summary: bytes) -> bool:
    """Whether the summary shows the line: itself, without its file's name or mark, or its name."""
    core = line.strip()
    if not core or core[:_PREFIX_BYTES] in summary:
        return True
    _, colon, rest = core.partition(b":")
    if colon and rest.strip() and rest.strip()[:_PREFIX_BYTES] in summary:
        return True
    mark, space, item = core.partition(b" ")
    if space and len(mark) < 3 and b" " not in item and item in summary:
        return True
    name = core.rpartition(b"/")[2]
    return bool(name) and b" " not in name and name in summary


def _selected(data: bytes, terms: list[bytes]) -> list[tuple[int, int]]:
    """Start and end of each line with one of the terms, in order."""
    found: dict[int, int] = {}
    for term in terms:
        at = data.find(term) if term else -1
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            found[start] = end
            at = data.find(term, end)
    return sorted(found.items())
