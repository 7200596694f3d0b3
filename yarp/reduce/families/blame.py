"""git blame: who wrote how much and when, and which lines each commit left behind."""

from yarp.reduce.families.base import Piece
from yarp.reduce.families.names import counted
from yarp.reduce.families.patterns import pattern_of

_LINE = pattern_of(
    rb"\^?([0-9a-f]{4,64}) +(?:\S+ +)?\((\S++(?: \S++)*) +([0-9]{4}-[0-9]{2}-[0-9]{2}) [0-9:]+"
    rb" [-+][0-9]{4} +([0-9]+)\) ?(.*)$"
)
_SPANS = 400
_TEXT_SHOWN = 60


class Blame:
    """Reads annotated lines; counts all of them, keeps the first spans."""

    def __init__(self) -> None:
        self._lines = 0
        self._authors: dict[bytes, int] = {}
        self._dates: list[bytes] = []
        # (commit, author, date, first line, last line, text of the first)
        self._spans: list[list[bytes]] = []
        self._commits: set[bytes] = set()
        self._others: list[bytes] = []

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
            if self._spans and self._spans[-1][0] == commit:
                self._spans[-1][4] = number
            elif len(self._spans) < _SPANS:
                self._spans.append([commit, author, date, number, number, text])

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
        newest = sorted({span[2] for span in self._spans})[-3:]
        for commit, author, date, first, last, text in self._spans:
            where = first if first == last else first + b"-" + last
            said = text.strip()[:_TEXT_SHOWN]
            line = b"%b: %b %b %b: %b" % (where, commit, author, date, said)
            term = (commit.decode("ascii", "replace"),)
            pieces.append(Piece(line, 3 if date in newest else 5, 0, 1, term))
        return pieces
