"""The way back that a marker names: a command of which is known that it prints what was left out.

A way back that shows what is known already costs a call and says nothing. So words are tried on
the text before they are named; where they find nothing new, the first lines that were left out
are named instead. Source: spec Reduction, "What every summary must keep".
"""

from __future__ import annotations

from yarp.reduce import marker
from yarp.reduce.blocks import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yarp.reduce.marker import Recovery
    from yarp.settings import Settings

# The start of each stream that is kept to try a way on; beyond it words are taken as they come.
HELD_BYTES = 1 << 18
# A range for one look; a model that wants more asks for more.
READ_BYTES = 16 * 1024
# So many different lines are looked at for the first one that was left out.
_LOOKED = 4096
# `yarp search` shows this many results of a source unless told otherwise.
_DEFAULT_RESULTS = 20
# What an answer of `yarp search` adds to a line, and what stands around its lines.
_LINE_EXTRA = 20
_FRAME_BYTES = 2048
_SHOWN_BYTES = 4096
_PREFIX_BYTES = 120


class Way:
    """What is held of a call's two streams, and the commands that were found on it."""

    __slots__ = ("_cap_bytes", "_cap_lines", "_proven", "_raw", "_texts", "_words", "binary")

    def __init__(self, settings: Settings) -> None:
        self._cap_bytes = settings.recovery_cap_bytes
        self._cap_lines = settings.recovery_cap_lines
        self._raw = (bytearray(), bytearray())
        self._texts: list[_Text] = []
        # The last way, what it was found for, and the line that it leads to.
        self._proven: tuple[tuple[list[str], int], bytes, str] | None = None
        # The last terms, and the words of them that may find something.
        self._words: tuple[list[str], list[str]] = ([], [])
        # Whether a NUL was seen: then recovery calls a source binary.
        self.binary = False

    def feed(self, stream: int, chunk: bytes | memoryview) -> None:
        """Take the next exact bytes of a stream."""
        raw = self._raw[stream]
        if len(raw) < HELD_BYTES:
            raw += chunk[: HELD_BYTES - len(raw)]

    def command(
        self,
        recovery: Recovery,
        streams: tuple[Stream, Stream],
        at: int,
        terms: list[str],
        results: Callable[[], int],
        summary: bytes,
    ) -> str:
        """`search: yarp search ...` or `read: yarp read ...`, which leads to what was left out.

        `at` is the stream that most is missing from, `terms` are words that may find it in about
        `results` lines of a source, and `summary` is what is shown.
        """
        asked = (terms, at)
        if self._proven is not None:
            before, witness, command = self._proven
            if before == asked and not told(witness, summary):
                return command
        if not self._texts:
            self._texts = [
                _Text(raw, stream, self._cap_lines)
                for raw, stream in zip(self._raw, streams, strict=True)
            ]
            self.binary = self.binary or any(b"\0" in raw for raw in self._raw)
        if self._words[0] != terms:
            words = [word for word in marker.usable(terms) if self._may_find(word)]
            self._words = terms, words
        words = self._words[1]
        witness, command = self._search(recovery, words, results, summary)
        if not command:
            witness, command = self._read(recovery, streams[at], at, summary)
        self._proven = (asked, witness, command)
        return command

    def _may_find(self, word: str) -> bool:
        data = word.encode()
        return any(not text.whole or text.hits(data) for text in self._texts)

    def _search(
        self, recovery: Recovery, words: list[str], results: Callable[[], int], summary: bytes
    ) -> tuple[bytes, str]:
        """A line that was left out and the search that shows it; ('', '') where it shows none."""
        if not words:
            return b"", ""
        most = 0
        witness = b""
        room = self._cap_bytes - _FRAME_BYTES
        whole = True
        sought = [word.encode() for word in words]
        for text in self._texts:
            whole = whole and text.whole
            most = max(most, text.count_with(sought))
            for line in () if witness else text.lines_with(sought):
                room -= min(len(line), _SHOWN_BYTES) + _LINE_EXTRA
                if room < 0:
                    break
                if not told(line, summary):
                    witness = line
                    break
        if not witness and (whole or room < 0):
            return b"", ""
        if not whole:
            most = min(max(most, results()), self._cap_lines)
        many = f" -m{most} -C0" if most > _DEFAULT_RESULTS else ""
        as_text = " -a" if self.binary else ""
        pattern = marker.pattern(words)
        ref = recovery.archive_ref
        return witness, f"search: yarp search {ref} {pattern}{many}{as_text}"

    def _read(
        self, recovery: Recovery, stream: Stream, at: int, summary: bytes
    ) -> tuple[bytes, str]:
        """The first line that was left out, and the command that reads from it on."""
        read = f"read: yarp read {recovery.archive_ref} {recovery.source_names[at]}"
        room = min(READ_BYTES, self._cap_bytes)
        text = self._texts[at]
        exact = text.exact
        if not exact:
            return b"", f"{read} --bytes 0:{min(stream.total, room)}"
        lines = exact if len(text.clean) == text.length else text.clean.split(b"\n")
        first = _first_untold(lines, summary)
        if first is None and not text.whole:
            # What is held is all shown; of what follows only the average length is known.
            count = max(1, min(200, room * stream.lines // stream.total // 2))
            last = min(len(exact) + count, stream.lines)
            return b"", f"{read} {min(len(exact) + 1, last)}:{last}"
        first = first or 0
        last = first
        for line in exact[first : first + self._cap_lines]:
            room -= len(line) + 1
            if room < 0:
                break
            last += 1
        witness = lines[first] if first < len(lines) else b""
        if last > first:
            return witness, f"{read} {first + 1}:{last}"
        start = sum(map(len, exact[:first])) + first
        size = min(len(exact[first]), READ_BYTES, self._cap_bytes)
        return witness, f"{read} --bytes {start}:{start + size}"


class _Text:
    """The held start of a stream: its clean text with long lines whole, and its exact lines.

    Of the lines with a word the first `most` are looked at.
    """

    __slots__ = ("_counted", "_exact", "_hits", "_most", "_raw", "clean", "length", "whole")

    def __init__(self, raw: bytearray, source: Stream, most: int) -> None:
        self._most = most
        self._hits: dict[bytes, int] = {}
        # The words that were last counted, and how many lines have one.
        self._counted: tuple[list[bytes], int] = ([], 0)
        self._exact: list[bytes] = []
        self.whole = len(raw) == source.total
        self._raw = bytes(raw if self.whole else raw[: raw.rfind(b"\n") + 1])
        self.length = len(self._raw)
        self.clean = self._raw
        if b"\x1b" in self._raw or b"\r" in self._raw:
            stream = Stream(HELD_BYTES, source.returns)
            self.clean = b"".join(stream.feed(self._raw) + stream.end())

    @property
    def exact(self) -> list[bytes]:
        """The exact lines without their endings."""
        if not self._exact and self._raw:
            self._exact = self._raw.split(b"\n")
            if not self._exact[-1]:
                self._exact.pop()
        return self._exact

    def hits(self, word: bytes) -> int:
        """How often the word stands in it."""
        found = self._hits.get(word)
        if found is None:
            found = self._hits[word] = self.clean.count(word)
        return found

    def count_with(self, words: list[bytes]) -> int:
        """How many lines have one of the words; of few, how many at most."""
        if self._counted[0] != words:
            self._counted = words, self._count(words)
        return self._counted[1]

    def _count(self, words: list[bytes]) -> int:
        hits = sum(map(self.hits, words))
        if hits <= _DEFAULT_RESULTS:
            return hits
        text = self.clean
        first, *others = words
        for word in others:
            if self.hits(word):
                text = text.replace(word, first)
        between = text.split(first)[1:-1]
        return min(1 + sum([b"\n" in part for part in between]), self._most)

    def lines_with(self, words: list[bytes]) -> Iterator[bytes]:
        """The lines with one of the words, in order."""
        text = self.clean
        ahead = {word: text.find(word) for word in words if self.hits(word)}
        for _ in range(self._most):
            place = min(ahead.values(), default=-1)
            if place < 0:
                return
            end = text.find(b"\n", place)
            end = len(text) if end < 0 else end
            yield text[text.rfind(b"\n", 0, place) + 1 : end]
            for word in [word for word, at in ahead.items() if at < end]:
                ahead[word] = text.find(word, end)
                if ahead[word] < 0:
                    del ahead[word]


def told(line: bytes, summary: bytes) -> bool:
    """Whether the summary shows the line: itself, without its file's name or mark, or its name."""
    if line in summary:
        return True
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


def _first_untold(lines: list[bytes], summary: bytes) -> int | None:
    """The place of the first line that the summary does not show; None: it shows all it looks at.

    Lines that stand there again and again are looked at once.
    """
    known: set[bytes] = set()
    for at, line in enumerate(lines):
        if line in known:
            continue
        if not told(line, summary):
            return at
        known.add(line)
        if len(known) > _LOOKED:
            break
    return None
