"""The streaming reduction of one call's output: blocks in, one summary out.

The engine owns everything that is the same for all tools: cutting the streams into blocks of
whole lines, taking colour and progress away, budgets, the marker, the savings gate. What the
lines mean is a family's business. Source: spec Reduction; seed 000, Write lifecycle.
"""

import sys
from itertools import accumulate

from yarp.reduce import marker
from yarp.reduce.blocks import UNREAD, Stream, both_ends, boundary, returns_of
from yarp.reduce.families.base import Family, Piece, Series, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.terms import common_terms, found_by
from yarp.reduce.way import Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from yarp.reduce.plan import Shape
    from yarp.reduce.rules.match import Selection
    from yarp.settings import Settings

    FamilyMaker = Callable[[tuple[str, ...], dict[str, int]], Family]
    Candidates = Callable[[Selection], Sequence[tuple[str, FamilyMaker]]]

__all__ = ["Recovery", "Reduction", "Status", "Summary"]

_LINE_BYTES = 2048
# A piece that must stay is cut rather than dropped when this much room is left.
_PIECE_ROOM = 160
_KEEP_WORTH = 3
# Room for "(+N more)" behind the names of one place.
_MORE_BYTES = 15
# Room for "... N commits ..." before one of a series.
_GAP_BYTES = 26
# What is worth this little may fill half of the budget, not the rest: it costs tokens as well.
_FILLER = 6
_MODULES = {"list": "listing", "json": "json_"}
# Control characters that a terminal would act on; tabs and newlines stay.
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n") + b"\x7f"


class Summary:
    """The outcome: when `changed` is False the exact bytes are to be shown, for `reason`.

    `fault` is the sentence that names the reducer which raised, for stderr; else None.
    """

    __slots__ = ("changed", "fault", "reason", "stderr", "stdout")

    def __init__(
        self, changed: bool, stdout: bytes, stderr: bytes, reason: str, fault: str | None = None
    ) -> None:
        self.changed = changed
        self.stdout = stdout
        self.stderr = stderr
        self.reason = reason
        self.fault = fault


class Reduction:
    """Reduces one call's two streams by the selected rule, in memory bounded by the policy.

    `candidates` gives the reducers that serve a selection, each with what it is called. They are
    asked before the rule's own family, in order; the first that does not decline wins, and one
    that raises leaves the output exact when its turn comes. `shape` says how the output of a
    compound text is put together; None: all of it is the one command's. Nothing is loaded for an
    output that fits its budget.
    """

    def __init__(
        self,
        selection: "Selection",
        settings: "Settings",
        candidates: "Candidates | None" = None,
        shape: "Shape | None" = None,
    ) -> None:
        options = {
            "success_bytes": settings.success_bytes,
            "failure_bytes": settings.failure_bytes,
            "minimum_savings_bytes": settings.minimum_savings_bytes,
            "minimum_savings_percent": settings.minimum_savings_percent,
            "max_line_bytes": _LINE_BYTES,
        }
        options.update(selection.options)
        self._options = options
        self._selection = selection
        self._enabled = settings.pruning_enabled
        self._candidates = candidates
        self._shape = shape
        self._families: list[Family] | None = None
        self._reason = "declined"
        # Nothing will be shortened: what comes need neither be fed nor held.
        self.hopeless = False
        self._way = Way(settings)
        line_bytes = options["max_line_bytes"]
        self._streams = Stream(line_bytes, self._returns(0)), Stream(line_bytes, self._returns(1))

    def feed(self, stream: int, chunk: bytes | memoryview) -> None:
        """Take the next bytes of a stream (0 stdout, 1 stderr), cut anywhere."""
        if not self._enabled or self.hopeless:
            return
        self._way.feed(stream, chunk)
        for block in self._streams[stream].feed(chunk):
            self._pass_on(stream, block)

    def finish(self, status: Status, recovery: Recovery) -> Summary:
        """The summary for how the command ended. Never raises for what a program printed."""
        if not self._enabled:
            return _exact("off")
        options = self._options
        budget = options["success_bytes" if status.success else "failure_bytes"]
        total = self._streams[0].total + self._streams[1].total
        if total <= budget:
            return _exact("within the budget")
        for number, stream in enumerate(self._streams):
            for block in [] if self.hopeless else stream.end():
                self._pass_on(number, block)
        try:
            for family in self._families or ():
                pieces = family.finish(status)
                if pieces and not self.hopeless:
                    return self._show(pieces, budget, total, recovery)
        except _Faulty as found:
            return Summary(False, b"", b"", str(found), str(found))
        except Exception as error:  # noqa: BLE001 - a fault of ours costs a summary, never a call
            fault = f"the summary raised {type(error).__name__}; the output is shown as it is"
            return Summary(False, b"", b"", fault, fault)
        return _exact(self._reason)

    def _returns(self, stream: int) -> int:
        """What a carriage return is, if it is the same in all parts of a stream."""
        shape = self._shape
        if shape is None:
            return returns_of(self._selection, stream)
        ways = {
            returns_of(segment.selection, stream, merged=shape.merged)
            for segment in shape.segments
            if segment.selection is not None
        }
        return ways.pop() if len(ways) == 1 else UNREAD

    def _pass_on(self, stream: int, block: bytes) -> None:
        self._way.binary = self._way.binary or b"\0" in block
        families = self._families
        if families is None:
            families = self._families = self._load()
        for family in families:
            family.feed(stream, block)
        self.hopeless = all(family.hopeless for family in families)

    def _load(self) -> list[Family]:
        if self._shape is None:
            return self._families_of(self._selection)
        from yarp.reduce.parts import Parts

        shape = self._shape
        return [_Guarded("the reducer of parts", lambda: Parts(shape, self._families_of))]

    def _families_of(self, selection: "Selection") -> list[Family]:
        name = selection.family
        module = "yarp.reduce.families." + _MODULES.get(name, name)
        makers = [] if self._candidates is None else list(self._candidates(selection))
        try:
            __import__(module)
            makers.append((f"the family {name}", sys.modules[module].Family))
        except ImportError:
            self._reason = f"no family {name}"
        argv, options = selection.argv, self._options
        return [
            _Guarded(who, lambda make=make: make(argv, dict(options)))  # type: ignore[misc]
            for who, make in makers
        ]

    def _show(self, pieces: list[Piece], budget: int, total: int, recovery: Recovery) -> Summary:
        # All at once: of most outputs nothing has to be cleaned or quoted.
        whole = b"\n".join([piece.text for piece in pieces])
        if marker.quoted(clean(whole)) != whole:
            for piece in pieces:
                piece.text = marker.quoted(clean(piece.text))
        layout = _Layout(pieces, self._streams, recovery, self._way)
        # The marker's length depends on what is dropped: try a generous guess, then the truth.
        best = layout.fill(budget, layout.reserve())
        if best is None:
            return _exact("the budget is too small")
        again = layout.fill(budget, len(best.marker) + 1)
        if again is not None and again.size >= best.size:
            best = again
        saved = total - best.size
        if saved < self._options["minimum_savings_bytes"] or (
            saved * 100 < total * self._options["minimum_savings_percent"]
        ):
            return _exact("no saving")
        return Summary(True, best.texts[0], best.texts[1], "")


class _Faulty(Exception):
    """The sentence that names a reducer which raised."""


class _Guarded(Family):
    """A family whose exceptions, wherever they come, are one `_Faulty` when its turn comes.

    A faulty reducer costs a summary, never a call.
    """

    def __init__(self, who: str, make: "Callable[[], Family]") -> None:
        self._who = who
        self._fault: _Faulty | None = None
        self._family: Family | None = None
        self._family = self._call(make)

    def feed(self, stream: int, block: bytes) -> None:
        if not self.hopeless:
            self._call(self._feed, stream, block)

    def _feed(self, stream: int, block: bytes) -> None:
        if self._family is not None:
            self._family.feed(stream, block)
            self.hopeless = self._family.hopeless

    def finish(self, status: Status) -> list[Piece] | None:
        pieces: list[Piece] | None = None
        if self._fault is None and self._family is not None:
            pieces = self._call(self._family.finish, status)
        if self._fault is not None:
            raise self._fault
        return pieces

    def _call(self, function: "Callable[..., Any]", *arguments: object) -> "Any":
        """What `function` gives; None after an exception. What it prints is no output."""
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises is its own
            self._note(error)
            return None
        finally:
            sys.stdout = stdout

    def _note(self, error: BaseException) -> None:
        self.hopeless = True
        if isinstance(error, _Faulty):
            self._fault = error
        else:
            what = f"{self._who} raised {type(error).__name__}; the output is shown as it is"
            self._fault = _Faulty(what)


class _Shown:
    """One way to fill the budget."""

    __slots__ = ("marker", "size", "texts")

    def __init__(self, texts: tuple[bytes, bytes], marker_text: bytes) -> None:
        self.texts = texts
        self.marker = marker_text
        self.size = len(texts[0]) + len(texts[1])


class _Layout:
    """Chooses the pieces that fit and writes the one marker for those that do not."""

    __slots__ = (
        "_chosen",
        "_least",
        "_order",
        "_pieces",
        "_recovery",
        "_shown",
        "_sizes",
        "_streams",
        "_way",
    )

    def __init__(
        self,
        pieces: list[Piece],
        streams: tuple[Stream, Stream],
        recovery: Recovery,
        way: Way,
    ) -> None:
        self._pieces = pieces
        self._streams = streams
        self._recovery = recovery
        self._way = way
        worths = [piece.worth for piece in pieces]
        self._order = sorted(range(len(pieces)), key=worths.__getitem__)
        self._sizes = [len(piece.text) for piece in pieces]
        # For each place in the order the least size from there on: below it nothing fits.
        backwards = [self._sizes[at] for at in reversed(self._order)]
        self._least = [*accumulate(backwards, min)][::-1]
        # What was kept and dropped the last time, and what became of it.
        self._chosen: tuple[dict[int, tuple[bytes, int]], list[Piece]] | None = None
        self._shown: _Shown | None = None

    def reserve(self) -> int:
        """Bytes that the marker can need at most."""
        recovery = self._recovery
        way = f"read: yarp read {recovery.archive_ref} {max(recovery.source_names, key=len)}"
        longest = marker.omitted("1000000000000 lines", recovery, [0, 1], way)
        return len(longest) + (128 if recovery.archive_ref is not None else 1)

    def fill(self, budget: int, reserve: int) -> _Shown | None:
        """The summary with `reserve` bytes kept for the marker; None if it exceeds the budget."""
        room = budget - reserve
        kept: dict[int, tuple[bytes, int]] = {}
        dropped: list[Piece] = []
        told: set[tuple[Series, int]] = set()
        places: set[bytes | Series] = set()
        pieces, sizes = self._pieces, self._sizes
        for at, index in enumerate(self._order):
            if room < _PIECE_ROOM:
                if room <= self._least[at]:
                    dropped += [pieces[index] for index in self._order[at:]]
                    break
                if 0 < room <= sizes[index]:
                    dropped.append(pieces[index])
                    continue
            piece = pieces[index]
            text, lines = piece.text, piece.lines
            if not text and piece.holds:
                continue
            if piece.worth >= _FILLER and kept and 2 * (room - sizes[index]) < budget:
                if 0 < 2 * room < budget:
                    # What follows is worth no more, and nothing of it has room.
                    rest = [pieces[index] for index in self._order[at:]]
                    dropped += [piece for piece in rest if piece.text or not piece.holds]
                    break
                dropped.append(piece)
                continue
            # Once for each place: how many are missing is said behind the last of its names.
            place = _only(piece) if piece.holds else None
            gap = 0 if place is None or place in places else _MORE_BYTES
            if isinstance(place, Series) and gap:
                gap += len(place.unit) + _MORE_BYTES
            if piece.nth is not None:
                series, number = piece.nth
                gap += _GAP_BYTES if number and (series, number - 1) not in told else 0
            if sizes[index] + gap >= room:
                dropped.append(piece)
                # Something is always shown, were it a part of one line; names are counted whole.
                if room < _PIECE_ROOM or ((piece.worth > _KEEP_WORTH or piece.holds) and kept):
                    continue
                text = shortened(text, room - 1 - gap)
                lines = max(0, lines - (piece.text.count(b"\n") - text.count(b"\n") + 1))
            kept[index] = (text, lines)
            room -= len(text) + 1 + gap
            if place is not None:
                places.add(place)
            if piece.nth is not None:
                told.add(piece.nth)
        if self._chosen == (kept, dropped):
            return self._shown
        self._chosen = dict(kept), dropped
        self._say_more(kept)
        if told:
            self._say_gaps(kept)
        texts: tuple[list[bytes], list[bytes]] = ([], [])
        shown = [0, 0]
        for index in sorted(kept):
            stream = self._pieces[index].stream
            text, lines = kept[index]
            texts[stream].append(text)
            shown[stream] += lines
        joined = [b"".join(text + b"\n" for text in side) for side in texts]
        note = self._marker(joined, shown, dropped)
        lost = [self._streams[i].total - len(joined[i]) for i in (0, 1)]
        at = int(lost[1] > lost[0])
        joined[at] += note + b"\n"
        result = _Shown((joined[0], joined[1]), note)
        self._shown = result if result.size <= budget else None
        return self._shown

    def _say_more(self, kept: dict[int, tuple[bytes, int]]) -> None:
        """Where only a part of a place's names is shown, say so behind the last of them."""
        missing: dict[bytes | Series, int] = {}
        for index, piece in enumerate(self._pieces):
            if piece.holds and index not in kept:
                for held, count in piece.holds.items():
                    missing[held] = missing.get(held, 0) + count
        for index in sorted(kept, reverse=True) if missing else ():
            place = _only(self._pieces[index])
            count = missing.pop(place, 0) if place is not None else 0
            if count:
                text, lines = kept[index]
                if isinstance(place, Series):
                    unit = place.unit + (b"" if count == 1 else b"s")
                    kept[index] = (b"%b\n... and %d more %b" % (text, count, unit), lines)
                else:
                    kept[index] = (text + b" (+%d more)" % count, lines)

    def _say_gaps(self, kept: dict[int, tuple[bytes, int]]) -> None:
        """Before one of a series say how many are left out since the one above it."""
        following: dict[Series, int] = {}
        for index in sorted(kept):
            nth = self._pieces[index].nth
            if nth is None:
                continue
            series, number = nth
            count = number - following.get(series, 0)
            if count > 0:
                text, lines = kept[index]
                unit = series.unit + (b"" if count == 1 else b"s")
                kept[index] = (b"... %d %b ...\n%b" % (count, unit, text), lines)
            following[series] = number + 1

    def _marker(self, joined: list[bytes], shown: list[int], dropped: list[Piece]) -> bytes:
        streams = self._streams
        missing = [max(0, streams[i].lines - shown[i]) for i in (0, 1)]
        count = sum(missing)
        cut = [i for i in (0, 1) if missing[i]]
        amount = f"{count} line{'s' if count != 1 else ''}"
        if not count:
            missing = [max(0, streams[i].total - len(joined[i])) for i in (0, 1)]
            cut = [i for i in (0, 1) if missing[i]]
            amount = f"{sum(missing)} bytes"
        cut = cut or [0]
        if len(cut) == 2 and missing[1] > missing[0]:
            cut.reverse()
        way = ""
        if self._recovery.archive_ref is not None:
            terms = common_terms(dropped)
            found = terms
            if not terms:
                # What a sentence of ours stands for is missing too.
                terms = common_terms([piece for piece in self._pieces if not piece.lines])

            def results() -> int:
                return found_by(found, self._pieces) if found else count

            summary = b"".join(joined)
            way = self._way.command(self._recovery, streams, cut[0], terms, results, summary)
        return marker.omitted(amount, self._recovery, cut, way)


def _only(piece: Piece) -> bytes | Series | None:
    """The one place of which a piece tells names."""
    places: list[bytes | Series] = list(piece.holds)
    return places[0] if len(places) == 1 else None


def clean(text: bytes) -> bytes:
    """The text as valid UTF-8 without control characters; a byte that is none becomes U+FFFD."""
    text = text.translate(None, _CONTROL)
    if not text.isascii():
        text = text.decode("utf-8", "replace").encode()
    return text


def shortened(text: bytes, room: int) -> bytes:
    """Several lines within `room` bytes: the first and last that fit; one line: both its ends."""
    if len(text) <= room:
        return text
    lines = text.split(b"\n")
    note = b"[... %d lines ...]"
    left = room - len(note) - 10
    first, last = 0, len(lines)
    while first < last:
        # The start of a block says what it is about: it gets two lines for each one at the end.
        at_start = first <= 2 * (len(lines) - last)
        line = lines[first] if at_start else lines[last - 1]
        if len(line) + 1 > left:
            break
        left -= len(line) + 1
        if at_start:
            first += 1
        else:
            last -= 1
    if first:
        return b"\n".join([*lines[:first], note % (last - first), *lines[last:]])
    if len(lines) == 1:
        return both_ends(text, text, _said_length(text) or len(text), room)
    line = lines[0]
    head = room * 2 // 3
    note = b" [... %d more bytes and lines ...]" % (len(text) - head)
    return line[: boundary(line, max(0, min(head, room - len(note))))] + note


def _said_length(line: bytes) -> int:
    """The length that an already shortened line speaks of, else 0."""
    start = line.find(b" [... ") + 6
    end = line.find(b"-byte line ...] ", start)
    number = line[start:end] if 6 <= start < end else b""
    return int(number) if number.isdigit() and len(number) < 20 else 0


def _exact(reason: str) -> Summary:
    return Summary(False, b"", b"", reason)
