"""What changed and where things stand: git status, branch and log; lines of any other program.

Whatever these programs say in another language is kept: lines are known by their form where
one exists, and a line that is not known to be noise stays.
"""

from __future__ import annotations

from collections import Counter

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece, Series, Status
from yarp.reduce.families.lines import Windows, automaton
from yarp.reduce.families.names import counted, factor
from yarp.reduce.families.patterns import pattern_of

_KEPT = 300
# Bytes of names that are kept; beyond that they are counted.
_NAME_BYTES = 1 << 20
_KINDS = 64
# Every line of this much at a stream's start and end is read; between them, only trouble.
_READ_BYTES = 512 * 1024
_LAST_BYTES = 16 * 1024
_TROUBLES_READ = 2_000

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any


class Family(base.Family):
    """Picks the reader that the command asks for."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self._reader = reader_of(argv)(argv)

    def feed(self, stream: int, block: bytes) -> None:
        """See `base.Family`."""
        self._reader.feed(stream, block)

    def finish(self, status: Status) -> list[Piece] | None:
        """See `base.Family`."""
        return self._reader.pieces(failed=not status.success)


class _Kept:
    """Lines of one stream in order, few of each shape: names, paths and numbers make no shape."""

    __slots__ = ("_last", "_shapes", "_times", "lines", "more")

    def __init__(self) -> None:
        # What was kept: (line, shape). What was only counted: shape -> how many more.
        self.lines: list[tuple[bytes, bytes]] = []
        self.more: dict[bytes, int] = {}
        self._last: list[tuple[bytes, bytes]] = []
        self._shapes: dict[bytes, int] = {}
        self._times: dict[bytes, int] = {}

    def add(self, line: bytes, most: int) -> None:
        if line in self._times:
            self._times[line] += 1
            return
        shape = _VARYING.sub(b"#", line)
        seen = self._shapes.get(shape, 0)
        if seen < most and len(self.lines) < _KEPT:
            self._shapes[shape] = seen + 1
            self._times[line] = 1
            self.lines.append((line, shape))
        elif seen:
            self.more[shape] = self.more.get(shape, 0) + 1
        else:
            self._last.append((line, b""))
            if len(self._last) > _KEPT:
                del self._last[: _KEPT // 2]

    def all(self) -> list[tuple[bytes, int, int]]:
        """Every kept line, how often it was said, and how many more like it came after it."""
        lines = self.lines + self._last
        last = {shape: at for at, (_, shape) in enumerate(lines)}
        return [
            (line, self._times.get(line, 1), self.more.get(shape, 0) if last[shape] == at else 0)
            for at, (line, shape) in enumerate(lines)
        ]


# Anchored at the start of a word: a long word without a slash is looked at once.
_WORD = pattern_of(rb"[\w.-]{3,}")
_BRACKET = pattern_of(rb"\[[^\[\]]*+\]")
_COMMITS = pattern_of(rb"\n(?=commit )")
_VARYING = pattern_of(rb"'[^']*'|\"[^\"]*\"|(?<!\S)[^\s/@]*+[/@]\S*+|\d+")


class Reader:
    """Reads the lines of both streams; `pieces` says what they mean."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.argv = argv

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of a stream."""
        for line in block.split(b"\n"):
            if line.strip():
                self.line(stream, line)

    def line(self, stream: int, line: bytes) -> None:
        """Take one line that is not blank."""
        raise NotImplementedError

    def skipped(self) -> None:
        """Lines were left out: what was counted is not all."""

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """The pieces in display order; None declines."""
        raise NotImplementedError


_ERROR = pattern_of(
    rb"(?i)\b(?:\w*error|fatal|failed|failure|\w*exception|traceback|denied|conflict\w*|critical"
    rb"|aborted|fehler|erreur)\b|^npm ERR!|^E: "
    rb"|\xe9\x94\x99\xe8\xaf\xaf|\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc"
)
_WARNING = pattern_of(rb"(?i)\b(?:warn(?:ing)?|deprecat\w*|vulnerabilit\w+|notice|hint)\b")


class Lines(Reader):
    """Any lines: noise counted by kind, repeats folded, errors first in worth, order kept."""

    noise: re.Pattern[bytes] | None = None
    outcome: re.Pattern[bytes] | None = None
    # Lines that a subclass counts wherever they stand; they are no trouble.
    counted: tuple[bytes, ...] = ()

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._streams = (_Kept(), _Kept())
        self._windows = (
            Windows(lambda window: self._window(0, window)),
            Windows(lambda window: self._window(1, window)),
        )
        self._read = [0, 0]
        self._partial = False
        self._trouble: Any = None
        self._troubles = 0

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of a stream."""
        self._windows[stream].feed(block)

    def _window(self, stream: int, window: bytes) -> None:
        if self._read[stream] < _READ_BYTES:
            self._read[stream] += len(window)
            super().feed(stream, window)
        else:
            self._partial = True
            self.skim(stream, window)

    def skim(self, stream: int, window: bytes) -> None:
        """Take lines of which only trouble and outcomes matter any more."""
        pattern = self._trouble
        if pattern is None:
            pattern = self._trouble = _search(
                [each.pattern for each in (_ERROR, self.outcome) if each is not None]
            )
        end = -1
        while self._troubles < _TROUBLES_READ:
            found = pattern.search(window, end + 1)
            if not found:
                return
            self._troubles += 1
            start = window.rfind(b"\n", 0, found.start()) + 1
            end = window.find(b"\n", found.start())
            end = len(window) if end < 0 else end
            line = window[start:end]
            if line.strip() and not line.startswith(self.counted):
                self.line(stream, line)

    def skipped(self) -> None:
        """Lines were left out: counts say "at least"."""
        self._partial = True

    def _rest(self, stream: int) -> None:
        rest = self._windows[stream].rest()
        last = 0
        if self._read[stream] >= _READ_BYTES:
            last = rest.rfind(b"\n", 0, max(0, len(rest) - _LAST_BYTES)) + 1
        if last:
            self._window(stream, rest[:last])
        super().feed(stream, rest[last:])

    def line(self, stream: int, line: bytes) -> None:
        """Take one line that is not blank."""
        if self.noise is not None and self.noise.match(line) and not _ERROR.search(line):
            return
        most = 20 if _ERROR.search(line) else 3
        self._streams[stream].add(line.rstrip(), most)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """The lines kept, in order, what is wrong worth most."""
        pieces: list[Piece] = []
        for stream, kept in enumerate(self._streams):
            self._rest(stream)
            lines = kept.all()
            for at, (line, times, more) in enumerate(lines):
                least = b"at least " * self._partial
                text = b"%b (%b%d times)" % (line, least, times) if times > 1 else line
                text = b"%b (and %b%d more like this)" % (text, least, more) if more else text
                worth = self._worth(line, len(lines) - at, failed)
                pieces.append(Piece(text, worth, stream, times + more, _terms(line)))
        return pieces

    def _worth(self, line: bytes, from_end: int, failed: bool) -> int:
        if self.outcome is not None and self.outcome.search(line):
            return 0
        if _ERROR.search(line):
            return 1
        if from_end == 1:
            return 1 if self.outcome is None else 3
        if _WARNING.search(line):
            return 2
        return 4 if failed else 5


def _search(patterns: list[bytes]) -> Any:
    """One search for any of these in whole windows, linear whatever stands there."""
    return automaton(b"(?m)" + b"|".join(b"(?:%b)" % each for each in patterns))


def _terms(text: bytes) -> tuple[str, ...]:
    """The word that says why a line matters, else its first word."""
    found = _ERROR.search(text) or _WARNING.search(text) or _WORD.search(text)
    return (found[0].decode("utf-8", "replace"),) if found else ()


_FEW, _SOME = 8, 32
_SHORT = pattern_of(rb"(?!  )[ MTADRCU?!]{2} \S")

# Changes of one kind that follow each other: `\tmodified:   path`, `\tpath`, ` M path`.
_CHANGES = pattern_of(
    rb"(?:(\t[^:\n]++: ++)\S[^\n]*+\n(?:\1\S[^\n]*+\n)*+"
    rb"|\t[^:\s][^:\n]*+\n(?:\t[^:\s][^:\n]*+\n)*+"
    rb"|((?!  )[ MTADRCU?!]{2} )\S[^\n]*+\n(?:\2\S[^\n]*+\n)*+)"
)


class _GitStatus(Reader):
    """git status, long or short: state lines whole, changed files by section and kind."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._said: list[tuple[int, bytes]] = []
        # (section, kind) -> paths, in the order of appearance.
        self._changes: dict[tuple[bytes, bytes], list[bytes]] = {}
        self._counts: dict[tuple[bytes, bytes], int] = {}
        self._section = b""
        self._last = (b"", b"")  # the key of the last change
        self._hints = 0
        # How many lines were said before the first change: the others are git's last words.
        self._before = 1 << 30
        self._room = _NAME_BYTES

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines; once no more names are kept, those of one kind are counted as one."""
        if stream or self._room > 0:
            super().feed(stream, block)
            return
        at = 0
        while at < len(block):
            stop = block.find(b"\n", at)
            end = len(block) if stop < 0 else stop + 1
            line = block[at:end].removesuffix(b"\n")
            if line.strip():
                self.line(0, line)
            run = _CHANGES.match(block, at)
            if run is not None:
                end = run.end()
                self._counts[self._last] += block.count(b"\n", at, end) - 1
            at = end

    def line(self, stream: int, line: bytes) -> None:
        if stream == 0 and line[:1] == b"\t":
            kind, colon, path = line[1:].partition(b":")
            if colon and path[:1] == b" " and path.strip():
                self._change((self._section, kind), path.strip())
            else:
                self._change((self._section, b""), line[1:])
        elif stream == 0 and _SHORT.match(line):
            self._change((b"", line[:2]), line[3:])
        elif stream == 0 and line.startswith(b"  ("):
            self._hints += 1
        elif stream == 0 and line.endswith(b":"):
            self._section = line
        elif len(self._said) < _KEPT:
            self._said.append((stream, line))

    def _change(self, key: tuple[bytes, bytes], path: bytes) -> None:
        self._before = min(self._before, len(self._said))
        paths = self._changes.get(key)
        if paths is None:
            if len(self._changes) >= _KINDS:
                key = (b"", b"other")
            paths = self._changes.setdefault(key, [])
        self._last = key
        self._counts[key] = self._counts.get(key, 0) + 1
        self._room -= len(path)
        if self._room > 0:
            paths.append(path)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        del failed
        pieces = [Piece(line, 0, stream) for stream, line in self._said]
        at = min(self._before, len(pieces))
        added: list[Piece] = []
        section = None
        for key, paths in self._changes.items():
            if key[0] != section and key[0]:
                section = key[0]
                total = sum(count for other, count in self._counts.items() if other[0] == section)
                added.append(Piece(b"%b (%d)" % (section, total), 0, 0, 1))
            start = b"  " if key[0] else b""
            follow = start + b"    "
            if key[1]:
                start += b"%b (%d): " % (key[1], self._counts[key])
            # Few names are told before many.
            worth = 2 if self._counts[key] <= _FEW else 3 if self._counts[key] <= _SOME else 5
            if b"U" in key[1] or b"both" in key[1]:
                worth = min(worth, 3)
            for line in factor(paths):
                term = (line.term.decode("utf-8", "replace"),)
                text = start + line.text
                added.append(Piece(text, min(worth, 3) if line.odd else worth, 0, line.count, term))
                start = follow if key[1] else start
        pieces[at:at] = added
        if pieces:
            pieces[0].lines += self._hints
        return pieces


class _GitBranch(Reader):
    """git branch: the current one whole, those gone or out of step, the rest factored."""

    _LINE = pattern_of(rb"([*+ ]) (\(.*?\)|\S+)(?:\s+([0-9a-f]{7,40}))?(.*)$")

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._names: list[bytes] = []
        self._room = _NAME_BYTES
        self._kept: list[Piece] = []
        self._count = 0
        self._other: list[Piece] = []

    def line(self, stream: int, line: bytes) -> None:
        match = self._LINE.match(line) if stream == 0 else None
        if match is None:
            if len(self._other) < _KEPT:
                self._other.append(Piece(line, 0, stream))
            return
        self._count += 1
        bracket = _BRACKET.search(match[4])
        if match[1] != b" ":
            self._kept.append(Piece(line, 0))
        elif bracket and b": " in bracket[0] and len(self._kept) < _KEPT:
            text = b"  " + match[2] + b" " + bracket[0]
            term = (match[2].decode("utf-8", "replace"),)
            self._kept.append(Piece(text, 3, 0, 1, term))
        elif self._room > 0:
            self._room -= len(match[2])
            self._names.append(match[2])

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        del failed
        remote = sum(name.startswith(b"remotes/") for name in self._names)
        text = b"%d branches" % self._count
        if remote:
            text += b" (%d remote)" % remote
        pieces = [Piece(text, 0, 0, 0), *self._kept]
        for line in factor(self._names):
            term = (line.term.decode("utf-8", "replace"),)
            pieces.append(Piece(b"  " + line.text, 2 if line.odd else 5, 0, line.count, term))
        return pieces + self._other


# Subjects that say the history turned.
_NOTABLE = pattern_of(
    rb"(?i) revert\b|\bCVE-|\bbreaking\b|\w!: |\bsecurity\b|\bhotfix\b| release\b"
)
_AUTHOR = pattern_of(rb"\nAuthor: ++([^\n<]*[^\n< ])")
_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


class _GitLog(Reader):
    """git log: hash, date and subject of the newest commits, the oldest, how many, by whom."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._rest = b""
        self._commits: list[tuple[bytes, int]] = []
        self._last: tuple[bytes, int] | None = None
        self._count = 0
        self._authors: dict[bytes, int] = {}
        self._complaints: list[Piece] = []
        self._final = b""
        self._oneline = "--oneline" in argv

    def feed(self, stream: int, block: bytes) -> None:
        if stream:
            for line in block.split(b"\n"):
                if line.strip() and len(self._complaints) < _KEPT:
                    self._complaints.append(Piece(line, 0, 1))
            return
        if self._oneline:
            self._feed_lines(block)
            return
        text = self._rest + block
        cut = text.rfind(b"\ncommit ") + 1
        self._rest = text[cut:][: 1 << 16]
        if cut:
            self._take(text[:cut])

    def _feed_lines(self, block: bytes) -> None:
        lines = block.rstrip(b"\n").split(b"\n")
        self._count += len(lines)
        self._commits += [(line, 1) for line in lines[: _KEPT - len(self._commits)]]
        self._last = (lines[-1], 1)

    def _take(self, text: bytes) -> None:
        """Read whole commits; beyond the first ones they are counted, but for the last."""
        if not text.startswith(b"commit "):
            said, newline, text = text.partition(b"\ncommit ")
            text = b"commit " + text if newline else b""
            if said.strip() and len(self._complaints) < _KEPT:
                self._complaints.append(Piece(said.strip(), 0))
        if not text:
            return
        self._count += text.count(b"\ncommit ") + 1
        for author, count in Counter(_AUTHOR.findall(text)).items():
            if author in self._authors or len(self._authors) < 256:
                self._authors[author] = self._authors.get(author, 0) + count
        room = _KEPT - len(self._commits)
        for commit in _COMMITS.split(text, maxsplit=room)[:room] if room else ():
            self._commits.append((one_line(commit), commit.rstrip(b"\n").count(b"\n") + 2))
        self._final = text[text.rfind(b"\ncommit ") + 1 :]

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        del failed
        if not self._oneline:
            self._take(self._rest)
            if self._count > len(self._commits):
                lines = self._final.rstrip(b"\n").count(b"\n") + 1
                self._last = (one_line(self._final), lines)
        if not self._count:
            return None
        header = b"%d commits" % self._count
        self._authors.pop(b"", None)
        if self._authors:
            header += b" by " + counted(self._authors, 4)
        pieces = [Piece(header, 0, 0, 0)]
        series = Series(b"commit")
        for at, (text, lines) in enumerate(self._commits):
            worth = 1 if not at else 3 if _NOTABLE.search(text) else 4 if at < 10 else 5
            pieces.append(Piece(text, worth, 0, lines))
            pieces[-1].nth = series, at
        if self._count > len(self._commits) and self._last is not None:
            pieces.append(Piece(self._last[0], 2, 0, self._last[1]))
            pieces[-1].nth = series, self._count - 1
        elif len(pieces) > 2:
            pieces[-1].worth = 2
        return pieces + self._complaints


def one_line(commit: bytes) -> bytes:
    """`1a2b3c4 2026-01-31 subject (refs)` of a commit as git prints it."""
    head, _, body = commit.partition(b"\n\n")
    digest, _, refs = head.partition(b"\n")[0][7:].partition(b" ")
    date = head.partition(b"\nDate:")[2].partition(b"\n")[0].split()
    when = b" ".join(date[:1])
    if len(date) >= 5 and date[1] in _MONTHS:
        when = b"%b-%02d-%b" % (date[4], _MONTHS.index(date[1]) + 1, date[2].zfill(2))
    subject = body.lstrip(b"\n").partition(b"\n")[0].strip()
    return b" ".join(part for part in (digest[:10], when, subject, refs) if part)


def reader_of(argv: tuple[str, ...]) -> type[Reader]:
    """Who reads what a command prints."""
    reader = _history(argv) or _READERS.get(" ".join(argv[:2]))
    if reader is None and argv[0] in ("pip", "npm"):
        from yarp.reduce.families.installs import installer

        reader = installer(argv)
    if reader is None:
        from yarp.reduce.families import steps

        reader = steps.reader_of(argv)
    return reader


def _history(argv: tuple[str, ...]) -> type[Reader] | None:
    """Who reads commits drawn as a graph, or files with what changed in them."""
    if argv[0] != "git" or not {"log", "show", "diff"} & set(argv[1:2]):
        return None
    from yarp.reduce.families.changes import Changes, Graph, asked

    return Graph if "--graph" in argv else Changes if asked(argv) else None


_READERS: dict[str, type[Reader]] = {
    "git status": _GitStatus,
    "git branch": _GitBranch,
    "git log": _GitLog,
}
