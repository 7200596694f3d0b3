"""Logs and other regular text: trouble in order of time, what is rare, what the rest looks like.

Lines are counted by shape over the whole stream. Shown are the span of time, totals by level,
each kind of error and warning with its stack trace, lines that look like no other (the needle),
and one line for each kind of routine. Text that has no regularity is declined, source code
whatever it looks like.
"""

from yarp.reduce.blocks import shorter_lines
from yarp.reduce.families import base
from yarp.reduce.families.base import LatePiece, Piece, Status
from yarp.reduce.families.levels import (
    ERROR,
    FATAL,
    FRAME,
    NO_ERROR,
    RANKS,
    ROUTINE,
    TROUBLE,
    WARN,
    WARNING,
    Hints,
    error_in,
    level_of,
)
from yarp.reduce.families.lines import automaton
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.served import Served, served
from yarp.reduce.families.shapes import Shape, Shapes, vague

_TIME = pattern_of(
    rb"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
    rb"|[A-Z][a-z]{2} +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
    rb"|[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2}"
    rb"|\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b"
)
_FRAME = pattern_of(
    rb"\s+(?:at |File \"|from |in |\.\.\. [0-9]|[\^~]+\s*$|#[0-9]+ |[0-9]+: )"
    rb"|\s+\S.*:[0-9]+(?:\)| \+0x)"
)
# What compose puts before each line of a service.
_SERVICE = pattern_of(rb"^[\w.-]+ +\| ")
# What continues a stack trace; the last three end their own paragraph.
_GOES_ON = pattern_of(
    rb"\s+\S|Caused by: |\.\.\. [0-9]+ more|During handling of|The above exception"
    rb"|goroutine [0-9]+ |(?=.*\)$)[\w./*()]+\(|created by |Traceback \("
)
JSON_START = pattern_of(
    rb"\s*(?:\{\s*[\"}]|\[\s*(?:[\[{\"\]]|(?:-?[0-9.]+|true|false|null)\s*[,\]]))"
)
_WORD = pattern_of(rb"[A-Za-z]{4,}")
_TRACE_LINES = 200
_TRACE_SHOWN = 10
_STRANGE_KEPT = 64
_LAST_BYTES = 4096
# Kinds of error that are looked at for the summary: the first and the last.
_KINDS = (60, 20)
_LINE_SHOWN = 400
_LINE_KEPT = 2048
# A small file that is no log was asked for as it is.
_EXACT_BYTES = 4096
# Of a kind with this many lines at most, a text's kind counts as rare.
_RARE = 2
# Files of code: exact up to the global cap, since a reader of code wants code.
_ENDINGS = (
    "ada adb ads asm awk bash bat bzl c cc cfg cjs clj cljs cmake cmd coffee conf cpp cr cs css cu"
    " cxx d dart diff dockerfile el elm env erl ex exs f90 fish fs fsx gd go gradle graphql groovy"
    " h hcl hh hpp hrl hs htm html hxx ini ipynb java jl js json5 jsx kt kts less lisp lock lua m"
    " make mak markdown md mdx mjs ml mli mm nim nix nu org pas patch php pl plist pm properties"
    " proto ps1 py pyi pyx r rb rkt rs rst sass scala scm scss sh sol sql sv svelte svg swift tcl"
    " tex tf tfvars toml ts tsx v vala vb vhd vhdl vim vue wat xml xsl yaml yml zig zsh"
)
CODE = frozenset(_ENDINGS.split())
_NAMES = (
    "makefile gnumakefile dockerfile containerfile vagrantfile rakefile gemfile jenkinsfile"
    " procfile justfile cmakelists.txt requirements.txt license copying readme changelog"
)
_CODE_NAMES = frozenset(_NAMES.split())
_FILE_PROGRAMS = frozenset(("cat", "head", "tail", "less", "more", "zcat", "sort", "uniq"))


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    _Scanner = Any
_SCANNER: "_Scanner | None" = None


class Family(base.Family):
    """Summarises logs and regular text."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        files = argv[0] in _FILE_PROGRAMS
        self._files = files
        self._exact = files and any(code(word) for word in argv[1:])
        # Programs that print logs print nothing else; of a file only its name says so.
        self._log = not files or any(_named_log(word) for word in argv[1:])
        self._streams = (Log(), Log())
        self._json: base.Family | None = None
        self._bytes = 0

    def feed(self, stream: int, block: bytes) -> None:
        """See `base.Family`."""
        if self._files and not stream and not self._streams[0].lines and JSON_START.match(block):
            from yarp.reduce.families.json_ import Family as Json

            self._json = self._json or Json(self.argv, self.options)
        if self._json is not None:
            self._json.feed(stream, block)
            return
        self._bytes += len(block)
        if self._files and b"\0" in block:
            self._exact = True  # no text
        self.hopeless = self._exact
        if not self._exact:
            self._streams[stream].feed(block)

    def finish(self, status: Status) -> list[Piece] | None:
        """See `base.Family`."""
        if self._json is not None:
            return self._json.finish(status)
        if self._exact or (not self._log and self._bytes < _EXACT_BYTES):
            return None
        pieces: list[Piece] = []
        for number, log in enumerate(self._streams):
            if log.lines:
                said = log.pieces(number, always=self._log)
                if said is None:
                    return None
                pieces += said
        return pieces


class _Kind:
    """What one shape's first line is: how bad, at which level, with which trace below it."""

    __slots__ = ("head", "head_at", "inside", "level", "level_end", "level_start", "rank", "trace")

    def __init__(self, line: bytes, hints: Hints) -> None:
        self.level = b""
        # Where the line says its level; -1: nowhere.
        self.level_start = self.level_end = -1
        # The line above a trace of which this line is the message.
        self.head = b""
        self.head_at = -1
        self.trace: list[bytes] = []
        # Part of a trace that another shape's line heads.
        self.inside = False
        found = level_of(line, hints)
        if found is not None:
            self.level_start, self.level_end, self.level = found
            self.rank = RANKS[self.level]
        elif _FRAME.match(line):
            self.rank = FRAME
        elif error_in(line, hints) and not NO_ERROR.search(line):
            self.rank = ERROR
        else:
            self.rank = WARNING if WARN.search(line) else ROUTINE


class Log(Shapes):
    """The lines of one stream."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[int, _Kind] = {}
        self._open: _Kind | None = None
        self._strange: list[tuple[int, bytes]] = []
        self._strange_last: list[tuple[int, bytes]] = []
        self._first: list[bytes] = []
        self._served: Served | None = None
        self._last = b""
        self._hints = Hints([])

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        # A family that reads long lines still keeps no long ones.
        block = shorter_lines(block, _LINE_KEPT)
        if not self._first:
            self._first = block[:4096].split(b"\n")[:20]
            self._served = served(block)
        if self._served is not None:
            self._served.feed(block, self.lines)
        if self._open is not None:
            kind, self._open = self._open, None
            start = block[: _TRACE_LINES * 100]
            self._follow(kind, start.split(b"\n"), 0)
        self._last = block[-4096:]
        super().feed(block)

    def watches(self, shape: Shape) -> bool:
        """See `Shapes`: of troubles the last one is said too."""
        kind = shape.ranked
        return isinstance(kind, _Kind) and kind.rank <= WARNING

    def fresh(self, lines: list[bytes], met: list[tuple[int, Shape]]) -> None:
        """See `Shapes`: ranks each kind of line by its first, and takes the trace below it."""
        taken = -1
        self._hints.add([shape.first for _, shape in met])
        for at, shape in sorted(met, key=lambda item: item[0]):
            kind = _Kind(shape.first, self._hints)
            shape.ranked = kind
            before = lines[at - 1] if at else b""
            if at <= taken or (before[:1].isspace() and _FRAME.match(before) and _indented(shape)):
                kind.inside = True
            elif kind.rank <= ERROR:
                taken = self._follow(kind, lines, at + 1) - 1
                if before[:1].isspace() and not _indented(shape):
                    back = _head(lines, at)
                    if back >= 0:
                        kind.head, kind.head_at = lines[back], self.lines + back

    def _follow(self, kind: _Kind, lines: list[bytes], start: int) -> int:
        """Take the trace that continues at `start`; the place after it."""
        at = start
        python = bool(kind.trace) and kind.trace[0].startswith(b"Traceback (")
        python = python or (0 < start <= len(lines) and b"Traceback (" in lines[start - 1])
        size = len(lines)
        while at < size and len(kind.trace) < _TRACE_LINES:
            line = lines[at]
            if _GOES_ON.match(_SERVICE.sub(b"", line, count=1)):
                python = python or line.startswith(b"Traceback (")
            elif python and line.strip():
                # The exception itself ends a Python trace, unless another one follows.
                kind.trace.append(line)
                python = False
                at += 1
                continue
            elif line.strip() or not (at + 1 < size and _GOES_ON.match(lines[at + 1])):
                return at
            kind.trace.append(line)
            at += 1
        if at >= size and len(kind.trace) < _TRACE_LINES:
            self._open = kind
        return at

    def strangers(self, lines: list[bytes], places: list[int]) -> None:
        """See `Shapes`: keeps those that speak of trouble."""
        self._seek(b"\n".join([lines[at] for at in places]), None)

    def flood(self, block: bytes) -> None:
        """See `Shapes`: keeps the first and the last lines that speak of trouble."""
        self._seek(block, self.lines)

    def _seek(self, text: bytes, first: int | None) -> None:
        """Take lines of trouble; `first` is the number of the text's first line, if it has all."""

        def number(begin: int) -> int:
            return self.lines if first is None else first + text.count(b"\n", 0, begin)

        start = 0
        if len(self._strange) < _STRANGE_KEPT:
            for begin, line in _troubled(text, 0):
                self._strange.append((number(begin), line))
                start = begin + len(line)
                if len(self._strange) == _STRANGE_KEPT:
                    break
            else:
                return
        # Of the others only the last are shown.
        start = max(start, text.rfind(b"\n", 0, max(0, len(text) - _LAST_BYTES)) + 1)
        last = [*_troubled(text, start)][-8:]
        numbered = [(number(begin), line) for begin, line in last]
        self._strange_last = (self._strange_last + numbered)[-8:]

    def pieces(self, stream: int, *, always: bool) -> list[Piece] | None:
        """What to say of this stream; None for a text without regularity."""
        shapes = self.settled()
        if not always and len(shapes) + self.others > max(self.lines // 4, 8):
            return None
        if self.lines <= 4 and not always:
            return None
        if self.lines <= 4:
            lines = b"\n".join(shape.first for shape in shapes)
            return [Piece(lines, 0, stream, self.lines)]
        kinds: list[tuple[Shape, _Kind]] = [
            (shape, shape.ranked) for shape in shapes if isinstance(shape.ranked, _Kind)
        ]
        said: list[tuple[int, Piece]] = []
        self._troubles(kinds, stream, said)
        self._routine(kinds, stream, said)
        for at, line in self._strange + self._strange_last:
            said.append((at, _piece(line, 2, stream, b"", Hints([line]))))
        first = {piece.text for _, piece in said}
        for at, line in self._served.refused if self._served is not None else ():
            worth = 2 if b'" 5' in line else 3
            if line not in first:
                said.append((at, Piece(line, worth, stream)))
        said.sort(key=lambda item: item[0])
        pieces = [Piece(self._header(kinds), 0, stream, 0), *(piece for _, piece in said)]
        last = self._last.rstrip(b"\n").rpartition(b"\n")[2]
        if not any(at == self.lines - 1 for at, _ in said):
            pieces.append(Piece(b"last: " + last, 2, stream, 1))
        return pieces

    def _header(self, kinds: list[tuple[Shape, _Kind]]) -> bytes:
        text = b"%d lines" % self.lines
        first = next((found[0] for line in self._first if (found := _TIME.search(line))), b"")
        tail = self._last.rstrip(b"\n").split(b"\n")[-20:]
        last = next((found[0] for line in reversed(tail) if (found := _TIME.search(line))), b"")
        if first and last:
            text += b", " + first + b" to " + last
        if self._served is not None:
            text += b"; " + self._served.summary()
        levels: dict[bytes, int] = {}
        for shape, kind in kinds:
            if kind.level:
                levels[kind.level] = levels.get(kind.level, 0) + shape.count
        if levels:
            order = sorted(levels, key=lambda level: (RANKS[level], -levels[level]))
            text += b": " + b", ".join(b"%b %d" % (name, levels[name]) for name in order)
            if self.others:
                text += b" and %d lines of too many kinds to count" % self.others
        return text

    def _troubles(
        self, kinds: list[tuple[Shape, _Kind]], stream: int, said: list[tuple[int, Piece]]
    ) -> None:
        bad = [item for item in kinds if item[1].rank <= ERROR and not item[1].inside]
        if len(bad) > sum(_KINDS):
            said.append((bad[_KINDS[0]][0].at, _more(bad[_KINDS[0] : -_KINDS[1]], stream)))
            bad = bad[: _KINDS[0]] + bad[-_KINDS[1] :]
        heads = {kind.head_at for _, kind in bad}
        ends = {id(shape) for shape, _ in (*bad[:4], *bad[-2:])}
        for shape, kind in bad:
            worth = 1 if id(shape) in ends or kind.rank == FATAL else 2
            piece = self._told(shape, kind, worth, stream)
            if kind.head:
                piece.text = kind.head + b"\n    [...]\n" + piece.text
                piece.lines = 2
            elif shape.count == 2:
                piece.text = shape.first
                if shape.last_at not in heads:
                    hints = Hints([shape.last])
                    last = _piece(shape.last, worth + 1, stream, kind.level, hints)
                    said.append((shape.last_at, last))
            said.append((shape.at, piece))
            if kind.trace:
                said.append((shape.at, Piece(_shown_trace(kind.trace), worth, stream)))
        warnings = [item for item in kinds if item[1].rank == WARNING and not item[1].inside]
        for shape, kind in warnings:
            worth = 3 if shape.count <= _RARE else 4
            said.append((shape.at, self._told(shape, kind, worth, stream)))

    def _routine(
        self, kinds: list[tuple[Shape, _Kind]], stream: int, said: list[tuple[int, Piece]]
    ) -> None:
        of_routine = [item for item in kinds if item[1].rank == ROUTINE and not item[1].inside]
        routine = [shape for shape, _ in of_routine]
        rare = [shape for shape in routine if shape.count <= _RARE and shape.first.strip()]
        kind_of = {shape.key: vague(shape.key) for shape in routine}
        alike: dict[bytes, int] = {}
        for shape in rare:
            key = kind_of[shape.key]
            alike[key] = alike.get(key, 0) + 1
        odd = [shape for shape in rare if alike[kind_of[shape.key]] <= _RARE]
        chosen = {id(shape) for shape in odd}
        worth = 2 if len(odd) <= 12 else 5
        shown: dict[bytes, int] = {}
        # What most of the log is says more than the other kinds of routine.
        most = max((shape.count for shape in routine), default=0)
        for shape, kind in of_routine:
            if not shape.first.strip():
                continue
            key = kind_of[shape.key]
            shown[key] = shown.get(key, 0) + 1
            if id(shape) in chosen:
                said.append((shape.at, self._told(shape, kind, worth, stream)))
            elif shown[key] <= 2:
                grade = 5 if shape.count == most else 6
                said.append((shape.at, self._told(shape, kind, grade, stream)))

    def _told(self, shape: Shape, kind: _Kind, worth: int, stream: int) -> Piece:
        """A kind's first line with how many are like it; trouble is found by its level."""
        line = _counted(shape, partial=self.partial)
        level = kind.level if kind.rank <= WARNING else b""
        # What is said behind the line moves nothing in it.
        if 0 <= kind.level_end < len(shape.first.rstrip()) <= _LINE_SHOWN:
            span = kind.level_start, kind.level_end
            return _termed(line, worth, stream, level, span, self._hints)
        return _piece(line, worth, stream, level, self._hints)


def _more(kinds: list[tuple[Shape, _Kind]], stream: int) -> Piece:
    lines = sum(shape.count for shape, _ in kinds)
    text = b"(%d lines of %d further kinds of error)" % (lines, len(kinds))
    return Piece(text, 2, stream, 0)


def _scanner() -> "_Scanner":
    """What finds trouble in a whole block: RE2, which hostile text does not slow down."""
    global _SCANNER  # noqa: PLW0603 - compiled once a process, only where it is needed
    if _SCANNER is None:
        _SCANNER = automaton(b"(?i)" + TROUBLE)
    return _SCANNER


def _troubled(text: bytes, start: int) -> "Iterator[tuple[int, bytes]]":
    """Lines from `start` on that speak of trouble, with where they begin."""
    done = start
    for found in _scanner().finditer(text, start):
        if found.start() < done:
            continue
        begin = text.rfind(b"\n", 0, found.start()) + 1
        end = text.find(b"\n", found.end())
        done = len(text) if end < 0 else end
        line = text[begin:done]
        if not NO_ERROR.search(line):
            yield begin, line


def _indented(shape: Shape) -> bool:
    return shape.first[:1].isspace()


def _head(lines: list[bytes], at: int) -> int:
    """Where the line above the trace is that the line at this place ends; -1 if out of sight."""
    for back in range(at - 1, max(-1, at - _TRACE_LINES), -1):
        line = lines[back]
        if not line[:1].isspace() and not line.startswith(b"Traceback ("):
            return back
    return -1


def code(word: str) -> bool:
    """Whether a file's name says that it holds code, markup or settings."""
    name = word.rpartition("/")[2].lower()
    _, dot, ending = name.rpartition(".")
    return (bool(dot) and ending in CODE) or name in _CODE_NAMES


def _named_log(word: str) -> bool:
    name = word.rpartition("/")[2].lower()
    parts = name.split(".")
    return "log" in parts[-3:] or "/log/" in word or "/logs/" in word or parts[0] == "syslog"


def _counted(shape: Shape, *, partial: bool) -> bytes:
    line = shape.first.rstrip()
    if len(line) > _LINE_SHOWN:
        line = line[: _LINE_SHOWN * 2 // 3] + b" [...] " + line[-_LINE_SHOWN // 3 :]
    if shape.count < 2:
        return line
    least = b"at least " if partial else b""
    text = b"%b (and %b%d more like this" % (line, least, shape.count - 1)
    found = _TIME.search(shape.last) if shape.last_at > shape.at else None
    return text + (b", last %b)" % found[0][-8:] if found else b")")


def _piece(line: bytes, worth: int, stream: int, level: bytes, hints: Hints) -> Piece:
    found = level_of(line, hints)
    return _termed(line, worth, stream, level, found[:2] if found else (-1, 0), hints)


def _termed(
    line: bytes, worth: int, stream: int, level: bytes, span: tuple[int, int], hints: Hints
) -> Piece:
    """A line with a word that finds it; `span` is where it says its level, (-1, 0): nowhere."""
    return LatePiece(line, worth, stream, 1, lambda: _term(line, level, span, hints))


def _term(line: bytes, level: bytes, span: tuple[int, int], hints: Hints) -> tuple[str, ...]:
    start, end = span
    if level and start >= 0:
        import re

        found = re.search(rb"(?i)" + level, line[start:end])
    else:
        found = error_in(line, hints) or _WORD.search(line, end) or _WORD.search(line)
    return (found[0].decode("utf-8", "replace").strip(),) if found else ()


def _shown_trace(trace: list[bytes]) -> bytes:
    """The trace in short: its messages, and the frames next to where it went wrong."""
    lines = [line for line in trace if line.strip(b" ^~")]
    python = any(b'File "' in line for line in lines)
    kept: set[int] = set()
    if len(lines) <= _TRACE_SHOWN and not python:
        kept.update(range(len(lines)))
    for at, line in enumerate(lines):
        if python and not line[:1].isspace():
            # What a Python trace ends with stands below the frame that raised it.
            kept.update(range(max(0, at - 2), at + 1))
        elif not python and (at < 3 or not line[:1].isspace()):
            kept.update((at, min(at + 1, len(lines) - 1)))
    shown: list[bytes] = []
    gap = 0
    for at, line in enumerate(lines):
        if at in kept and not (python and line.startswith(b"Traceback (")):
            if gap:
                shown.append(b"    [... %d frames ...]" % max(1, gap // (2 if python else 1)))
            shown.append(line)
            gap = 0
        else:
            gap += line[:1].isspace()
    return b"\n".join(shown)
