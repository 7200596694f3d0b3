"""An estimate of tokens, and what a host's own cut leaves of a text.

The estimate is `ascii4_unicode1_v1`: a quarter of the ASCII characters, rounded up, and one for
each other character. Source: spec "Trace index", Text bounds; spec "Reduction", Where the field
stands.
"""

from __future__ import annotations

import codecs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.types import Cut

ESTIMATE = "ascii4_unicode1_v1"

# The most bytes of UTF-8 that one unit of a cut can stand for; a token is seldom longer.
_UNIT_BYTES = {"bytes": 1, "characters": 4, "tokens": 16}


def estimate(text: str) -> int:
    """The tokens of a text: ceil(ASCII characters / 4) + the others."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain


class Gauge:
    """Estimates a text that is fed in bytes, whole and as a cut leaves it, in bounded memory.

    After `finish`, `whole` are the tokens of all of it, `left` those of what the cut leaves;
    None without a cut. Bytes that are no UTF-8 count as the characters they are shown as.
    """

    __slots__ = (
        "_bytes",
        "_cut",
        "_decoder",
        "_head",
        "_lines",
        "_plain",
        "_room",
        "_tail",
        "_total",
        "left",
        "whole",
    )

    def __init__(self, cut: Cut | None = None) -> None:
        self._cut = cut
        self._room = 0 if cut is None else cut.limit * _UNIT_BYTES[cut.unit]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = bytearray()
        self._tail = bytearray()
        self._plain = self._total = self._lines = self._bytes = 0
        self.whole = 0
        self.left: int | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._count(self._decoder.decode(data))
        if self._cut is None:
            return
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        if len(self._head) < self._room:
            self._head += data[: self._room - len(self._head)]
        self._tail += data[-self._room :]
        if len(self._tail) > 2 * self._room:
            del self._tail[: -self._room]

    def finish(self) -> None:
        """No more comes."""
        self._count(self._decoder.decode(b"", final=True))
        self.whole = (self._plain + 3) // 4 + self._total - self._plain
        if self._cut is not None:
            self.left = min(self.whole, self._after(self._cut))

    def _count(self, text: str) -> None:
        self._total += len(text)
        self._plain += len(text) if text.isascii() else len(text.encode("ascii", "ignore"))

    def _after(self, cut: Cut) -> int:
        if cut.unit == "tokens" and cut.lines is None:
            return cut.limit
        size = {"bytes": self._bytes, "characters": self._total, "tokens": self.whole}[cut.unit]
        if cut.beyond is not None and size <= cut.beyond:
            return self.whole
        if size <= cut.limit:
            text = self._head.decode("utf-8", "replace")
        else:
            most = cut.limit if cut.keeps != "ends" else cut.limit // 2
            head = _part(bytes(self._head), cut.unit, most, last=False)
            tail = _part(bytes(self._tail[-self._room :]), cut.unit, most, last=True)
            text = {"head": head, "tail": tail, "ends": head + tail}[cut.keeps]
        if cut.lines is not None and self._lines > cut.lines:
            lines = text.splitlines(keepends=True)
            first = {"head": cut.lines, "tail": 0, "ends": cut.lines // 2}[cut.keeps]
            last = min(cut.lines - first, max(0, len(lines) - first))
            text = "".join(lines[:first] + lines[len(lines) - last :])
        return min(estimate(text), cut.limit) if cut.unit == "tokens" else estimate(text)


def _part(data: bytes, unit: str, limit: int, *, last: bool) -> str:
    if unit == "bytes":
        return (data[-limit:] if last else data[:limit]).decode("utf-8", "ignore")
    text = data.decode("utf-8", "replace")
    if unit == "characters":
        return text[-limit:] if last else text[:limit]
    return text
