"""Searches: every file by name with its count, then matching lines; totals of the whole stream.

Reads what rg and grep print: `path:12:text`, `path:text`, `path-12-text` for context, rg's
headings, and bare lines where one file was searched. A file's name never goes before a body.
"""

from __future__ import annotations

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece
from yarp.reduce.families.lines import Windows, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.base import Status

FILES_KEPT = 4_096
LINES_PER_FILE = 40
LINES_KEPT = 4_000
# So many changes from file to file are followed; beyond them matches are only counted.
SWITCHES = 20_000
LINE_BYTES = 240
NOTES_KEPT = 40
NAMES_A_LINE = 8
_ERRORS = (
    b"rg: ",
    b"grep: ",
    b"egrep: ",
    b"fgrep: ",
    b"git grep: ",
    b"ugrep: ",
    b"fatal: ",
    b"error: ",
)
_NONE = b"\0"


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
        self.shape = _Shape(argv)
        self.files: dict[bytes, _File] = {}
        self.errors: dict[bytes, None] = {}
        self.errors_seen = 0
        self.binary: list[bytes] = []
        self.rest: list[bytes] = []
        self.pending: list[bytes] = []
        self.heading: _File | None = None
        self.matches = 0
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
        if not shape.learnt:
            shape.learn(split(window))
        if shape.unknown:
            return
        if shape.headed:
            self._headed(window)
        elif not shape.named:
            self._bare(window)
        elif self.switches < SWITCHES:
            self._named(split(window))
        else:
            self.matches += shape.count_named(window)

    def _named(self, lines: list[bytes]) -> None:
        """Lines `path:text`: those of a file stand together, so its name is compared, not split."""
        shape = self.shape
        matching = context = _NONE
        file: _File | None = None
        found = 0
        for line in lines:
            if line.startswith(matching):
                found += 1
                if file is not None and len(file.lines) < LINES_PER_FILE:
                    self._keep(file, line[len(matching) :], match=True)
                continue
            if line.startswith(context) and shape.is_context(line[len(context) :]):
                if file is not None and len(file.lines) < LINES_PER_FILE:
                    self._keep(file, line[len(context) :], match=False)
                continue
            self._count(file, found)
            found = 0
            self.switches += 1
            name = shape.name(line)
            if not name:
                self._loose(line)
                continue
            file = self._file(name)
            matching, context = name + b":", name + b"-"
            if file is not None and self.pending:
                for before in self.pending:
                    if before.startswith(context):
                        self._keep(file, before[len(context) :], match=False)
            self.pending.clear()
            found = 1
            if file is not None and len(file.lines) < LINES_PER_FILE:
                self._keep(file, line[len(matching) :], match=True)
        self._count(file, found)

    def _headed(self, window: bytes) -> None:
        """Headings of rg: a path, then `12:text` or `12-text`, then an empty line."""
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
        if missing <= 0:
            return
        for line in body.split(b"\n", missing + 1)[1 : missing + 1]:
            if line and line != b"--" and not line.startswith((b"Binary file ", b"grep: ")):
                match = not (self.shape.numbered or self.shape.headed) or _number(line)[1] == b":"
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
        elif line.startswith(_ERRORS):
            self._complain(line)
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
        files = [file for file in self.files.values() if file.count]
        total = b"%d match%s" % (self.matches, b"" if self.matches == 1 else b"es")
        if self.switches >= SWITCHES:
            total += b" in at least %d files" % len(files)
        elif b"" not in self.files:
            total += b" in %d file%s" % (len(files), b"" if len(files) == 1 else b"s")
        pieces = [Piece(total, 0, lines=0)] if self.matches else []
        pieces += [Piece(line, 1, terms=("inary file",)) for line in self.binary]
        left = budget_bytes - sum(len(piece.text) + 1 for piece in pieces)
        if sum(len(file.name) + 7 for file in files) > left:
            pieces += self._folded(files)
        else:
            for file in files:
                pieces += self._one(file)
        if not self.files:
            pieces += [Piece(line, 5) for line in self.rest]
        return pieces

    def _one(self, file: _File) -> list[Piece]:
        """A file's name with its count, then its lines; a first line before another's second."""
        out = []
        term = (file.name.decode("utf-8", "replace"),) if file.name else self.shape.terms
        indent = b""
        if file.name:
            indent = b" "
            out.append(Piece(file.name + b" (%d)" % file.count, 1, lines=0, terms=term))
        matched = 0
        for match, text in file.lines:
            matched += match
            worth = min(8, 2 + matched.bit_length()) if match else 9
            out.append(Piece(indent + self.shape.around(text), worth, lines=1, terms=term))
        return out

    def _folded(self, files: list[_File]) -> list[Piece]:
        """Too many names for a line each: the names of a directory share lines."""
        folders: dict[bytes, list[_File]] = {}
        for file in files:
            folders.setdefault(file.name.rpartition(b"/")[0], []).append(file)
        out = []
        for folder, inside in folders.items():
            term = ((folder + b"/").decode("utf-8", "replace"),) if folder else self.shape.terms
            total = sum(file.count for file in inside)
            head = (
                b"%s/ (%d in %d files):" % (folder or b".", total, len(inside))
                if len(inside) > 1
                else b""
            )
            if head:
                out.append(Piece(head, 1, lines=0, terms=term))
            for at in range(0, len(inside), NAMES_A_LINE):
                part = inside[at : at + NAMES_A_LINE]
                if head:
                    names = b" " + b", ".join(
                        b"%s %d" % (file.name.rpartition(b"/")[2], file.count) for file in part
                    )
                else:
                    names = b"%s (%d)" % (part[0].name, part[0].count)
                out.append(Piece(names, 2, lines=0, terms=term))
        return out


class _Shape:
    """How this command prints a match: told by its arguments, else by the first lines."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.learnt = False
        self.unknown = False
        self.headed = False
        self.named = True
        self.numbered = False
        program = argv[0].rpartition("/")[2] if argv else ""
        flags = [word for word in argv[1:] if word.startswith("-") and word != "-"]
        short = "".join(word[1:] for word in flags if not word.startswith("--"))
        operands = [word for word in argv[1:] if not word.startswith("-")]
        recursive = program != "grep" or any(char in short for char in "rRH")
        recursive = recursive or any(
            word.startswith(("--recursive", "--dereference", "--with-f", "--include"))
            for word in flags
        )
        self.alone = (
            (not recursive and len(operands) <= 2)
            or ("h" in short and program == "grep")
            or any(word.startswith("--no-filename") for word in flags)
        )
        self.asked_context = any(char in short for char in "ABC") or any(
            "context" in word for word in flags
        )
        self.asked_heading = any(word in ("--heading", "-p", "--pretty") for word in flags)
        plain = [
            word
            for word in operands
            if len(word) > 1 and not any(char in "\\[](){}*+?|^$." for char in word)
        ]
        self.literals = [word.encode() for word in plain[:3]]
        self.terms = tuple(plain[:1])

    def learn(self, lines: list[bytes]) -> None:
        """Decide from the first lines of the stream."""
        self.learnt = True
        sample = [
            line
            for line in lines[:400]
            if line and line != b"--" and not line.startswith((b"Binary ", *_ERRORS))
        ]
        if not sample:
            return
        first = [line for line in lines[:400] if line != b"--"]
        starting = sum(bool(_number(line)[0]) for line in sample)
        headings = 1 + first.count(b"")
        if not _number(first[0])[0] and (
            self.asked_heading or (starting and starting + headings + 1 >= len(sample))
        ):
            self.headed = starting > 0
            self.unknown = not self.headed
            return
        if self.alone or starting * 10 > len(sample) * 9:
            self.named, self.numbered = False, starting * 10 > len(sample) * 8
            return
        self.numbered = sum(bool(_path_of(line)) for line in sample) * 10 > len(sample) * (
            1 if self.asked_context else 7
        )
        if not self.numbered:
            self.named = _look_named(sample)
            # A search of many files whose lines cannot be told apart: say nothing of files.
            self.unknown = not self.named and self.asked_context

    def name(self, line: bytes) -> bytes:
        """The path of a matching line, or nothing."""
        if not self.numbered:
            name, colon, _ = line.partition(b":")
            return name if colon and name.strip() else b""
        name = _path_of(line)
        if name and self.asked_context and _dashed(name):
            return b""
        return name

    def count_numbered(self, body: bytes) -> int:
        """How many lines after a newline begin with `12:`."""
        import re

        return len(re.findall(rb"\n[0-9]+:", body))

    def count_named(self, window: bytes) -> int:
        """How many lines are matches, where nothing but their number is wanted any more."""
        if not (self.numbered or self.asked_context):
            return window.count(b"\n") + (not window.endswith(b"\n"))
        import re

        return len(re.findall(rb"\n[^:\n]+:[0-9]+:", b"\n" + window))

    def is_context(self, rest: bytes) -> bool:
        """Whether what follows `path-` is a line of context."""
        return _number(rest)[1] == b"-" if self.numbered else self.asked_context

    def around(self, text: bytes) -> bytes:
        """A matching line, cut around what was searched for when it is long."""
        if len(text) <= LINE_BYTES:
            return text
        number = text[: text.find(b":") + 1] if _number(text)[1] == b":" else b""
        lower = text.lower()
        at = next(
            (found for word in self.literals if (found := lower.find(word.lower())) >= 0),
            len(number),
        )
        start = max(len(number), at - LINE_BYTES // 3)
        while start < at and text[start] & 0xC0 == 0x80:
            start += 1
        body = text[start : start + LINE_BYTES - len(number)].decode("utf-8", "ignore").encode()
        before = b"[...]" if start > len(number) else b""
        return b"%s%s%s[... line of %d bytes]" % (number, before, body, len(text))


def _number(line: bytes) -> tuple[bytes, bytes]:
    """The line number that a line begins with and the mark after it, or two empties."""
    digits = 0
    while digits < 10 and line[digits : digits + 1].isdigit():
        digits += 1
    mark = line[digits : digits + 1]
    return (line[:digits], mark) if digits and mark in (b":", b"-") else (b"", b"")


def _path_of(line: bytes) -> bytes:
    """The path before `:12:`, or nothing."""
    at = line.find(b":")
    while at > 0:
        end = line.find(b":", at + 1)
        if end < 0:
            return b""
        if line[at + 1 : end].isdigit():
            return line[:at]
        at = end
    return b""


def _dashed(name: bytes) -> bool:
    """Whether it is the path of a line of context with its number and text, not a path alone."""
    parts = name.split(b"-")
    for at in range(1, len(parts) - 1):
        if parts[at].isdigit():
            path, text = b"-".join(parts[:at]), b"-".join(parts[at + 1 :])
            if b"." in path.rpartition(b"/")[2] or any(space in text for space in b" \t"):
                return True
    return False


def _look_named(sample: list[bytes]) -> bool:
    """Whether most lines begin with something like a path and a colon."""
    likely = 0
    for line in sample:
        name, colon, _ = line.partition(b":")
        likely += bool(colon) and (b"/" in name or b"." in name) and b" " not in name.strip()
    return likely * 10 > len(sample) * 8
