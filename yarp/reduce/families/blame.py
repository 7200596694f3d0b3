"""git blame: who wrote how much and when, and which lines each commit left behind."""

from yarp.reduce.blocks import boundary
from yarp.reduce.families.base import Piece
from yarp.reduce.families.names import counted
from yarp.reduce.families.patterns import pattern_of

_LINE = pattern_of(
    rb"\^?([0-9a-f]{4,64}) +(?:\S+ +)?\((\S++(?: \S++)*) +([0-9]{4}-[0-9]{2}-[0-9]{2}) [0-9:]+"
    rb" [-+][0-9]{4} +([0-9]+)\) ?(.*)$"
)
_SPANS = 400  # one line each
_TEXT_SHOWN = 60


class _Span:
    """Lines of one commit in a row, with the first that is not blank."""

    __slots__ = ("at", "author", "commit", "date", "first", "last", "text")

    def __init__(self, commit: bytes, author: bytes, date: bytes, first: bytes) -> None:
        self.commit = commit
        self.author = author
        self.date = date
        self.first = self.last = first
        self.text = b""
        self.at = first

    def line(self) -> bytes:
        """What is told: `...` stands for what is left out of the text or of the lines."""
        where, text = self.first, self.text
        cut = len(text) > _TEXT_SHOWN
        if cut:
            text = text[: boundary(text, _TEXT_SHOWN - 3)].rstrip() + b"..."
        if self.first != self.last:
            where += b"-" + self.last
            if text and self.at != self.first:
                text = b"... " + text
            if text and self.at != self.last and not cut:
                text += b" ..."
        return b"%b: %b %b %b: %b" % (where, self.commit, self.author, self.date, text)


class Blame:
    """Reads annotated lines; counts all of them, keeps the first spans."""

    def __init__(self) -> None:
        self._lines = 0
        self._authors: dict[bytes, int] = {}
        self._dates: list[bytes] = []
        self._spans: list[_Span] = []
        self._commits: set[bytes] = set()
        self._others: list[bytes] = []
        self._open: _Span | None = None

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        for line in block.rstrip(b"\n").split(b"\n"):
            found = _LINE.match(line)
            if found is None:
                if len(self._others) < 40:
                    self._others.append(line)
                continue
            commit, author, date, number, text = found.groups()
            self._lines += 1
            if author in self._authors or len(self._authors) < 256:
                self._authors[author] = self._authors.get(author, 0) + 1
            dates = self._dates
            self._dates = [min(dates[0], date), max(dates[1], date)] if dates else [date, date]
            if len(self._commits) < 4096:
                self._commits.add(commit)
            span = self._open
            if span is None or span.commit != commit:
                span = self._open = _Span(commit, author, date, number)
                if len(self._spans) < _SPANS:
                    self._spans.append(span)
            span.last = number
            if not span.text and text.strip():
                span.text, span.at = text.strip(), number

    def pieces(self) -> list[Piece]:
        """The totals, then the spans, the newest worth most."""
        if not self._lines:
            return []
        header = b"%d lines by %b; %d commits, %b to %b" % (
            self._lines,
            counted(self._authors, 6),
            len(self._commits),
            self._dates[0],
            self._dates[1],
        )
        pieces = [Piece(header, 0, 0, 0), *(Piece(line, 1) for line in self._others)]
        newest = sorted({span.date for span in self._spans})[-3:]
        for span in self._spans:
            term = (span.commit.decode("ascii", "replace"),)
            pieces.append(Piece(span.line(), 3 if span.date in newest else 5, 0, 1, term))
        return pieces
