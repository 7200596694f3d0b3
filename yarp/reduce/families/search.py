"""Searches: every file by name with its count, then matching lines; totals of the whole stream.

Reads what rg and grep print: `path:12:text`, `path:text`, `path-12-text` for context, rg's
headings, and bare lines where one file was searched. A file's name never goes before a body.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece
from yarp.reduce.families.lines import Windows, split
from yarp.reduce.families.matches import ERRORS, Shape, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.base import Status

FILES_KEPT = 4_096
LINES_PER_FILE = 40
LINES_KEPT = 4_000
# So many changes from file to file are followed; beyond them matches are only counted.
SWITCHES = 20_000
NOTES_KEPT = 40
NAMES_A_LINE = 8
_LINES_ABOVE = 8


class _File:
    """What was found in one file: how many matching lines, and the first of them."""

    __slots__ = ("count", "lines", "name")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.count = 0
        self.lines: list[tuple[bool, bytes]] = []


class Family(base.Family):
    """Summarises one search."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self.shape = Shape(argv)
        self.files: dict[bytes, _File] = {}
        # Of a search whose lines are all alike: how many each file has, and the lines, split.
        self.counts: Counter[bytes] = Counter()
        self.parts: list[list[bytes]] = []
        self.errors: dict[bytes, None] = {}
        self.errors_seen = 0
        self.binary: list[bytes] = []
        self.rest: list[bytes] = []
        self.pending: list[bytes] = []
        self.heading: _File | None = None
        self.matches = 0
        self.uncertain = False
        self.kept = 0
        self.switches = 0
        self.lanes = (Windows(self._read), Windows(self._complain))

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of one stream."""
        self.lanes[stream].feed(block)

    def finish(self, status: Status) -> list[Piece] | None:
        """Errors, totals, files with counts and lines; None where the form is unknown."""
        self._read(self.lanes[0].rest())
        self._complain(self.lanes[1].rest())
        if self.shape.unknown or not (self.matches or self.errors or self.binary):
            return None
        pieces = self._error_pieces()
        if self.matches or self.binary:
            good = status.exit_code == 0 or status.success
            budget = (
                self.options.get("success_bytes", 1024)
                if good
                else self.options.get("failure_bytes", 4096)
            )
            pieces += self._found(
                budget - 200 - sum(len(piece.text) for piece in pieces if not piece.worth)
            )
        return pieces

    # Reading.

    def _read(self, window: bytes) -> None:
        if not window:
            return
        shape = self.shape
        if shape.marked:
            # ag writes `path:12-text` for the lines around a match.
            import re

            window = re.sub(rb"(?m)^([^:\n]+):([0-9]+)-", rb"\1-\2-", window)
        if not shape.learnt:
            shape.learn(split(window))
        if shape.unknown:
            self.hopeless = True
            return
        if shape.headed:
            self._headed(window)
        elif not shape.named:
            self._bare(window)
        elif self.switches < SWITCHES:
            self._named(window)
        else:
            # A line of context can look like a match.
            self.uncertain |= shape.asked_context
            self.matches += shape.count_named(window)

    def _named(self, window: bytes) -> None:
        """Lines `path:text`: those of a file stand together, so its name is compared, not split."""
        if not self.shape.one_by_one(window):
            self._runs(window)
            return
        lines = split(window)
        if not self.files and self.shape.numbered:
            # Some hosts put lines of their own before an output.
            above = lines[:_LINES_ABOVE]
            start = next((at for at, line in enumerate(above) if self.shape.name(line)), 0)
            self._lines(lines[:start])
            lines = lines[start:]
            if not self.files and self._alike(lines):
                return
        self._lines(lines)

    def _alike(self, lines: list[bytes]) -> bool:
        """Take the whole of a search whose lines are all `path:12:text`; False where one is not."""
        if self.shape.asked_context or len(lines) > LINES_KEPT:
            return False
        parts = [line.split(b":", 2) for line in lines]
        if min(map(len, parts)) < 3:
            return False
        names, numbers, _ = zip(*parts, strict=True)
        if not (all(names) and all(numbers) and b"".join(numbers).isdigit()):
            return False
        counts = Counter(names)
        if len(counts) > FILES_KEPT:
            return False
        # Else a line could be one of context.
        if any(line.startswith(names[0] + b"-") for line in self.pending):
            return False
        if b"-" in b"".join(counts) and any(
            b"-" in name and name.startswith(last + b"-") for last, name in pairwise(names)
        ):
            return False
        self.counts, self.parts = counts, parts
        self.matches += len(lines)
        return True

    def _lines(self, lines: list[bytes]) -> None:
        """Named lines, one by one."""
        name_of, files = self.shape.name, self.files
        usual = self.shape.numbered and not self.shape.asked_context
        name = b""
        colons = 0  # in the name
        file: _File | None = None
        count = 0
        for line in lines:
            head, colon, text = line.partition(b":")
            if head != name or not colon or not name:
                if colons and line.startswith(name + b":"):
                    text = line[len(name) + 1 :]
                elif name and (colons or b"-" in head) and self._around(file, line, name + b"-"):
                    continue
                else:
                    self.switches += 1
                    number, mark, _ = text.partition(b":")
                    if usual and mark and number.isdigit():
                        found = head
                    else:
                        found = name_of(line)
                        text = line[len(found) + 1 :]
                    if not found:
                        self._loose(line)
                        continue
                    name = found
                    colons = name.count(b":") if name is not head else 0
                    file = files.get(name) or self._file(name)
                    if self.pending:
                        self._take_pending(file, name + b"-")
            count += 1
            if file is not None:
                file.count += 1
                if len(file.lines) < LINES_PER_FILE and self.kept < LINES_KEPT:
                    self.kept += 1
                    file.lines.append((True, text))
        self.matches += count

    def _runs(self, window: bytes) -> None:
        """Named lines, those of a file at once."""
        shape = self.shape
        matching = context = b"\n"
        file: _File | None = None
        at, size = 0, len(window)
        while at < size:
            stop = window.find(b"\n", at)
            stop = size if stop < 0 else stop
            if not window.startswith(matching, at):
                line = window[at:stop]
                if self._around(file, line, context):
                    at = stop + 1
                    continue
                self.switches += 1
                name = shape.name(line)
                if not name:
                    self._loose(line)
                    at = stop + 1
                    continue
                file = self.files.get(name) or self._file(name)
                matching, context = name + b":", name + b"-"
                if self.pending:
                    self._take_pending(file, context)
            end = shape.run_end(window, at, stop, len(matching) - 1)
            self._count(file, window.count(b"\n", at, end) + (end > size))
            if file is not None and len(file.lines) < LINES_PER_FILE and self.kept < LINES_KEPT:
                missing = LINES_PER_FILE - len(file.lines)
                for line in window[at : end - 1].split(b"\n", missing)[:missing]:
                    self._keep(file, line[len(matching) :], match=True)
            at = end

    def _around(self, file: _File | None, line: bytes, context: bytes) -> bool:
        """Take a line of context of the file, which begins so; False if it is none."""
        text = line[len(context) :]
        if not line.startswith(context) or not self.shape.is_context(text):
            return False
        if file is not None and len(file.lines) < LINES_PER_FILE:
            self._keep(file, text, match=False)
        return True

    def _take_pending(self, file: _File | None, context: bytes) -> None:
        """Lines that stood before the first match of the file, and may be its context."""
        if file is not None:
            for before in self.pending:
                if before.startswith(context):
                    self._keep(file, before[len(context) :], match=False)
        self.pending.clear()

    def _headed(self, window: bytes) -> None:
        """Headings of rg: a path, then `12:text` or `12-text`, then an empty line."""
        if self.switches >= SWITCHES:
            self.matches += self.shape.count_numbered(b"\n" + window)
            return
        parts = window.split(b"\n\n")
        for at, part in enumerate(parts):
            if at:
                self.heading = None
            body = b"\n" + part.rstrip(b"\n")
            if self.heading is None and len(body) > 1:
                name, newline, rest = body[1:].partition(b"\n")
                self.heading = self._file(name) or _File(name)
                body = newline + rest
            if self.heading is None:
                continue
            self._count(self.heading, self.shape.count_numbered(body))
            self._first(self.heading, body)
        if window.endswith(b"\n\n"):
            self.heading = None

    def _bare(self, window: bytes) -> None:
        """One file, whose name is not printed."""
        file = self._file(b"") or _File(b"")
        body = b"\n" + window.removesuffix(b"\n")
        for mark in (b"\nBinary file ", b"\ngrep: "):
            if mark in body:
                for line in body.split(b"\n"):
                    if line.startswith(mark[1:]):
                        self._loose(line)
        if self.shape.numbered:
            found = self.shape.count_numbered(body)
        else:
            found = body.count(b"\n") - (body + b"\n").count(b"\n--\n")
            found -= body.count(b"\nBinary file ") + body.count(b"\ngrep: ")
        self._count(file, found)
        self._first(file, body)

    def _first(self, file: _File, body: bytes) -> None:
        """Keep the first lines of a body whose lines begin after a newline."""
        missing = LINES_PER_FILE - len(file.lines)
        if missing <= 0 or self.kept >= LINES_KEPT:
            return
        for line in body.split(b"\n", missing + 1)[1 : missing + 1]:
            if line and line != b"--" and not line.startswith((b"Binary file ", b"grep: ")):
                match = not (self.shape.numbered or self.shape.headed) or number_of(line)[1] == b":"
                self._keep(file, line, match=match)

    def _count(self, file: _File | None, found: int) -> None:
        self.matches += found
        if file is not None:
            file.count += found

    def _file(self, name: bytes) -> _File | None:
        file = self.files.get(name)
        if file is None:
            if len(self.files) >= FILES_KEPT:
                self.switches = SWITCHES
                return None
            file = self.files[name] = _File(name)
        return file

    def _keep(self, file: _File, text: bytes, *, match: bool) -> None:
        if self.kept < LINES_KEPT:
            self.kept += 1
            file.lines.append((match, text))

    def _loose(self, line: bytes) -> None:
        """A line of no known file: a separator, context before a match, a note, a complaint."""
        if line.startswith(b"Binary file ") or b": binary file matches" in line:
            if len(self.binary) < NOTES_KEPT:
                self.binary.append(line)
        elif line.startswith(ERRORS):
            self._complain(line)
        elif self.shape.numbered and number_of(line)[1] == b":":
            # The last run of `xargs grep -n` had one file, which it does not name.
            file = self._file(b"")
            self._count(file, 1)
            if file is not None and len(file.lines) < LINES_PER_FILE:
                self._keep(file, line, match=True)
        elif line and line != b"--":
            if len(self.pending) < NOTES_KEPT:
                self.pending.append(line)
            if len(self.rest) < NOTES_KEPT:
                self.rest.append(line)

    def _complain(self, window: bytes) -> None:
        for line in split(window):
            if line.strip():
                self.errors_seen += 1
                if len(self.errors) < NOTES_KEPT:
                    self.errors[line] = None

    # Telling.

    def _error_pieces(self) -> list[Piece]:
        out = []
        for at, line in enumerate(self.errors):
            word = line.split(b":", 1)[0].decode("utf-8", "replace")
            out.append(Piece(line, 0 if at < 3 else 2 if at < 10 else 6, 1, terms=(word,)))
        if self.errors_seen > len(self.errors):
            out.append(Piece(b"(%d lines on standard error)" % self.errors_seen, 1, 1, lines=0))
        return out

    def _found(self, budget_bytes: int) -> list[Piece]:
        counts = self.counts or {
            file.name: file.count for file in self.files.values() if file.count
        }
        total = b"%d match%s" % (self.matches, b"" if self.matches == 1 else b"es")
        if self.uncertain:
            total = b"about " + total
        if self.switches >= SWITCHES:
            total += b" in at least %d files" % len(counts)
        elif b"" not in self.files:
            total += b" in %d file%s" % (len(counts), b"" if len(counts) == 1 else b"s")
        pieces = [Piece(total, 0, lines=0)] if self.matches else []
        pieces += [Piece(line, 1, terms=("inary file",)) for line in self.binary]
        left = budget_bytes - sum(len(piece.text) + 1 for piece in pieces)
        if sum(map(len, counts)) + 7 * len(counts) > left:
            pieces += self._folded(counts)
        else:
            for path, number, text in self.parts:
                file = self._file(path)
                if file is not None and len(file.lines) < LINES_PER_FILE:
                    file.lines.append((True, number + b":" + text))
            for name in counts:
                pieces += self._one(self.files[name], counts[name])
        if not (self.files or self.counts):
            pieces += [Piece(line, 5) for line in self.rest]
        return pieces

    def _one(self, file: _File, count: int) -> list[Piece]:
        """A file's name with its count, then its lines; a first line before another's second."""
        out = []
        # One word finds all matches, if the pattern is one.
        term = self.shape.terms
        if file.name:
            term += (file.name.decode("utf-8", "replace"),)
        indent = b""
        if file.name:
            indent = b" "
            out.append(Piece(file.name + b" (%d)" % count, 1, lines=0, terms=term))
        matched = 0
        for match, text in file.lines:
            matched += match
            worth = min(8, 2 + matched.bit_length()) if match else 9
            out.append(Piece(indent + self.shape.around(text), worth, lines=1, terms=term))
        return out

    def _folded(self, counts: dict[bytes, int]) -> list[Piece]:
        """Too many names for a line each: the names of a directory share lines."""
        folders: dict[bytes, list[tuple[bytes, bytes, int]]] = {}
        for path, count in counts.items():
            folder, _, name = path.rpartition(b"/")
            if folder in folders:
                folders[folder].append((name, path, count))
            else:
                folders[folder] = [(name, path, count)]
        sums = [sum([count for _, _, count in inside]) for inside in folders.values()]
        out = []
        # Where most was found is what one looks at next.
        usual = sorted(sums)[len(sums) // 2]
        for (folder, members), total in zip(folders.items(), sums, strict=True):
            term = (*self.shape.terms, (folder + b"/").decode("utf-8", "replace"))
            worth = 2 if total >= usual else 3
            if len(members) == 1:
                text = b"%s (%d)" % (members[0][1], total)
                out.append(Piece(text, worth, 0, 0, term))
                continue
            head = b"%s/ (%d in %d files):" % (folder or b".", total, len(members))
            out.append(Piece(head, 1, 0, 0, term))
            inside = [b"%s %d" % (name, count) for name, _, count in members]
            for at in range(0, len(inside), NAMES_A_LINE):
                names = b" " + b", ".join(inside[at : at + NAMES_A_LINE])
                out.append(Piece(names, worth, lines=0, terms=term))
        return out
