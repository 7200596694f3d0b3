"""The requests in a web server's log: how often each status, and the first that went wrong."""

from __future__ import annotations

from collections import Counter

from yarp.reduce.families.patterns import pattern_of

# `"GET / HTTP/1.1" 200 `, as web servers write a request.
_REQUEST = pattern_of(rb'HTTP/[\d.]+" ([1-5]\d\d)\b')
_KEPT = 3


class Served:
    """Counts the statuses of one log."""

    def __init__(self) -> None:
        self.statuses: Counter[bytes] = Counter()
        # (number of the line, line): the first ones of each status that speaks of an error.
        self.refused: list[tuple[int, bytes]] = []

    def feed(self, block: bytes, lines: int) -> None:
        """Take whole lines, of which `lines` stood before."""
        for status, count in Counter(_REQUEST.findall(block)).items():
            room = _KEPT - self.statuses[status]
            self.statuses[status] += count
            if status[:1] in b"45" and room > 0:
                self._keep(block, lines, status, room)

    def _keep(self, block: bytes, lines: int, status: bytes, room: int) -> None:
        mark = b'" ' + status + b" "
        at = block.find(mark)
        while at >= 0 and room:
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            line = block[start:end]
            if _REQUEST.search(line):
                self.refused.append((lines + block.count(b"\n", 0, start), line))
                room -= 1
            at = block.find(mark, end)

    def summary(self) -> bytes:
        """`status 200 130, 404 3`."""
        counts = sorted(self.statuses.items())[:20]
        return b"status " + b", ".join(b"%b %d" % item for item in counts)


def served(block: bytes) -> Served | None:
    """What counts a log that begins like this; None for another kind of log."""
    return Served() if _REQUEST.search(block, 0, 4096) else None
