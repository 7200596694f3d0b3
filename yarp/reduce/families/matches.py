"""How rg, grep and their like print matches: told by the arguments, else by the first lines."""

from __future__ import annotations

from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

LINE_BYTES = 240
# Lines of one form that follow each other are found as one.
_FILE_RUN = pattern_of(rb"([^:\n]++):[^\n]*+\n(?:\1:[^\n]*+\n)*+")
_NAMED_RUN = pattern_of(rb"\n[^:\n]++:[0-9]++:[^\n]*+(?:\n[^:\n]++:[0-9]++:[^\n]*+)*+")
_NUMBERED_RUN = pattern_of(rb"\n[0-9]++:[^\n]*+(?:\n[0-9]++:[^\n]*+)*+")
# Between lines of context: no `-12-` before the colon.
_MATCH = pattern_of(rb"\n(?:[^:\n-]++|-(?![0-9]+-))++:[0-9]++:")
# Below this, compiling a pattern costs more than looking at each line.
_SMALL_BYTES = 64 * 1024
ERRORS = (
    b"rg: ",
    b"grep: ",
    b"egrep: ",
    b"fgrep: ",
    b"git grep: ",
    b"ugrep: ",
    b"fatal: ",
    b"error: ",
)
_NOTES = (b"Binary ", *ERRORS)
_NOTES_BEGIN = frozenset(note[0] for note in _NOTES)
_DIGITS = frozenset(b"0123456789")


class Shape:
    """How this command prints a match: told by its arguments, else by the first lines."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.learnt = False
        self.unknown = False
        self.headed = False
        self.named = True
        self.numbered = False
        program = argv[0].rpartition("/")[2] if argv else ""
        words = argv[2:] if program == "git" else argv[1:]
        flags = [word for word in words if word.startswith("-") and word != "-"]
        short = "".join(word[1:] for word in flags if not word.startswith("--"))
        operands = [word for word in words if not word.startswith("-")]
        recursive = program not in ("grep", "egrep", "fgrep") or any(
            char in short for char in "rRH"
        )
        recursive = recursive or any(
            word.startswith(("--recursive", "--dereference", "--with-f", "--include"))
            for word in flags
        )
        self.alone = (
            (not recursive and len(operands) <= 2)
            or ("h" in short and program != "rg")
            or ("I" in short and program == "rg")
            or any(word.startswith("--no-filename") for word in flags)
        )
        # Surely many files: then a path stands before the first colon, whatever it looks like.
        many = len(operands) <= 1 if program == "rg" else recursive and program != "git"
        self.surely_named = many and not self.alone
        self.asked_context = any(char in short for char in "ABC") or any(
            "context" in word for word in flags
        )
        self.marked = program in ("ag", "ack") and self.asked_context
        self.asked_number = self.marked or "n" in short or "--line-number" in flags
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
        first = lines[:400]
        sample = [
            line
            for line in first
            if line and line != b"--" and not (line[0] in _NOTES_BEGIN and line.startswith(_NOTES))
        ]
        if not sample:
            return
        headings = 1 + first.count(b"")
        starting = sum(bool(number_of(line)[0]) for line in sample if line[0] in _DIGITS)
        begin = next(line for line in first if line != b"--")
        if not number_of(begin)[0] and (
            self.asked_heading or (starting and starting + headings + 1 >= len(sample))
        ):
            self.headed = starting > 0
            self.unknown = not self.headed
            return
        if self.alone or starting * 10 > len(sample) * 9:
            self.named, self.numbered = False, starting * 10 > len(sample) * 8
            self.unknown = self.asked_context and not self.numbered
            return
        if self.asked_number:
            enough = len(sample) * (1 if self.asked_context else 7)
            likely = 0
            for line in sample:
                if _path_of(line):
                    likely += 10
                    if likely > enough:
                        self.numbered = True
                        break
        if not self.numbered:
            self.named = self.surely_named or _look_named(sample)
            # Without numbers nothing tells a match from the lines around it.
            self.unknown = self.asked_context

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
        return _count(_NUMBERED_RUN, body)

    def count_named(self, window: bytes) -> int:
        """How many lines are matches, where nothing but their number is wanted any more."""
        if not (self.numbered or self.asked_context):
            return window.count(b"\n") + (not window.endswith(b"\n"))
        if self.asked_context:
            return len(_MATCH.findall(b"\n" + window))
        return _count(_NAMED_RUN, b"\n" + window)

    def one_by_one(self, window: bytes) -> bool:
        """Whether the matches of a window are better looked at line by line."""
        return self.asked_context or len(window) < _SMALL_BYTES

    def run_end(self, window: bytes, at: int, stop: int, name_bytes: int) -> int:
        """The end of the matches of one file: the first begins `at` with its name, ends at `stop`.

        Of the next ones all that surely are matches too; the rest may be asked for again.
        """
        found = _FILE_RUN.match(window, at)
        return found.end() if found and len(found[1]) == name_bytes else stop + 1

    def is_context(self, rest: bytes) -> bool:
        """Whether what follows `path-` is a line of context."""
        return number_of(rest)[1] == b"-" if self.numbered else self.asked_context

    def around(self, text: bytes) -> bytes:
        """A matching line, cut around what was searched for when it is long."""
        if len(text) <= LINE_BYTES:
            return text
        number = text[: text.find(b":") + 1] if number_of(text)[1] == b":" else b""
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


def _count(runs: re.Pattern[bytes], body: bytes) -> int:
    """How many lines the runs have; each line begins with its newline."""
    return sum(body.count(b"\n", *found.span()) for found in runs.finditer(body))


def number_of(line: bytes) -> tuple[bytes, bytes]:
    """The line number that a line begins with and the mark after it, or two empties."""
    digits = 0
    while digits < 10 and line[digits : digits + 1].isdigit():
        digits += 1
    mark = line[digits : digits + 1]
    return (line[:digits], mark) if digits and mark in (b":", b"-") else (b"", b"")


def _path_of(line: bytes) -> bytes:
    """The path before `:12:`, or nothing."""
    path, _, rest = line.partition(b":")
    number, colon, _ = rest.partition(b":")
    if not colon:
        return b""
    if number.isdigit():
        return path  # nearly always
    at = len(path)
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
