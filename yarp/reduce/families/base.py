"""What a family of tools' summaries is made of: status in, pieces out.

A family reads the whole of a call's output block by block in bounded memory and answers with
pieces in display order. The engine picks among them by worth, so a family never counts bytes.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Status:
    """How the command ended; `success` is None when nobody knows, which is treated as a failure."""

    __slots__ = ("exit_code", "success")

    def __init__(self, exit_code: int | None, success: bool | None = None) -> None:
        self.exit_code = exit_code
        self.success = (
            (exit_code == 0 if exit_code is not None else None) if success is None else success
        )


class Series:
    """What is told one by one, in order: commits, entries. `unit` names one of them."""

    __slots__ = ("unit",)

    def __init__(self, unit: bytes) -> None:
        self.unit = unit


class Piece:
    """Some lines of the summary that are kept or dropped together.

    `text` has no newline at its end. `worth` runs from 0 (must stay) to 9 (first to go); a piece
    of worth 0 to 3 that does not fit is cut at line boundaries before it is dropped, and pieces of
    worth 6 to 9 fill half of the budget at most. `lines` is
    the number of source lines that it stands for: 0 for a sentence of ours, more than it shows
    for a line that says the same in fewer. `terms` are plain words (no pattern) that find the
    piece's evidence in the source, the most general one first: a word shared by many pieces
    lets one search find them all. A kept sentence of ours (`lines` 0) with terms says that they
    find what it stands for. `holds` is how many names of which place it tells: where others of
    the place are dropped, the engine says how many; of a series it says so in a line of its own.
    A piece without text is never shown: what it holds is always left out. `nth` is which one of
    a series it tells, from 0: before it the engine says how many are left out.
    """

    __slots__ = ("holds", "lines", "nth", "stream", "terms", "text", "worth")

    def __init__(
        self,
        text: bytes,
        worth: int,
        stream: int = 0,
        lines: int | None = None,
        terms: tuple[str, ...] = (),
    ) -> None:
        self.text = text
        self.worth = worth
        self.stream = stream
        self.lines = text.count(b"\n") + 1 if lines is None else lines
        self.terms = terms
        self.holds: dict[bytes, int] | dict[Series, int] = {}
        self.nth: tuple[Series, int] | None = None


class LatePiece(Piece):
    """A piece whose terms are looked for when they are asked for: those of most never are."""

    __slots__ = ("_find", "_found")

    def __init__(
        self,
        text: bytes,
        worth: int,
        stream: int,
        lines: int | None,
        find: "Callable[[], tuple[str, ...]]",
    ) -> None:
        self._find = find
        super().__init__(text, worth, stream, lines)
        self._found: tuple[str, ...] | None = None

    @property
    def terms(self) -> tuple[str, ...]:
        """Plain words that find the piece's evidence."""
        if self._found is None:
            self._found = self._find()
        return self._found

    @terms.setter
    def terms(self, terms: tuple[str, ...]) -> None:
        self._found = terms


class Family:
    """Summarises one call's output; each family module has a subclass named `Family`.

    Memory must stay bounded whatever is fed: keep counts and the first and last of a kind.
    An exception makes the engine emit the exact bytes. One that sets `hopeless` will decline
    whatever follows: it is fed no more, and the exact bytes need not wait for the end.
    """

    hopeless = False

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        self.argv = argv
        self.options = options

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of a stream (0 stdout, 1 stderr).

        A block ends with a newline but for the last of its stream, and never splits a line.
        ANSI sequences and carriage returns at line ends are gone, over-long lines are shortened.
        Of a tool that prints progress only what was not overwritten is left of a line; elsewhere
        a carriage return inside a line is `^M`, in a diff one at its end too. How the
        two streams' blocks interleave means nothing.
        """
        raise NotImplementedError

    def finish(self, status: Status) -> list[Piece] | None:
        """The pieces in display order; None declines, and the exact bytes are shown."""
        raise NotImplementedError
