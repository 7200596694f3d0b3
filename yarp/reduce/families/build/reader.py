"""Reads one stream of a build line by line: messages with what stands below them, the rest by kind.

Whether a line belongs to the message above is told by its form (indented, a code frame, an
arrow), so no tool's name is needed; a line of no known form is kept as plain text.
"""

from __future__ import annotations

from yarp.reduce.families.build.diagnostic import (
    ALONE,
    ARROW,
    BELOW,
    Diagnostic,
    parse,
    row,
    titled,
)
from yarp.reduce.families.build.traceback import Traceback
from yarp.reduce.families.build.words import (
    ADVICE,
    ERROR,
    LISTED,
    NOISE,
    NOTE,
    OUTCOME,
    PRODUCED,
    UNSAID,
    WARNING,
    looks_wrong,
)
from yarp.reduce.families.lines import Parser
from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.build.report import Report

_FRAME = pattern_of(
    rb"\s+\S|\d+ *(?:\||\xe2\x94\x82|[-+] )|\d+ +\S|[|^~>]|note: |help: |Call Stack |\.\.\."
    rb"|candidates are:"
)
_IN_FUNCTION = pattern_of(
    rb"(?:\S*\bld(?:\.\w+)?(?: |\xc2\xa0)?: )?\S+\.(?:o|a|so)(?: |\xc2\xa0)?: .*:$"
)
_CONTEXT = pattern_of(
    rb"In file included from |                 from |\S+\.\w+: .{2,60}:$|\S+\.\w+: At top level:"
    rb"|\S+: In (?:instantiation|substitution) of .*:$|required from |# [\w./\[\]-]+$"
)
_TITLE_ABOVE = pattern_of(
    rb"(?:[A-Z]{1,6}\d{2,5}|invalid-syntax)(?: \[\*\])? \S|\S+: File would be "
)
_HEADER = pattern_of(rb"(?!\s)[^\s:]+\.\w{1,10}$")
# A message whose text stands on the following lines, up to a blank one.
_TEXT_BELOW = (b"ERROR in ", b"WARNING in ", b"error during build:", b"[!] ", b"* What went wrong:",
    b"Module not found", b"Failed to compile", b"FAILED: ")  # fmt: skip
_WHERE = pattern_of(rb"(?:\./\S+ )?\d+:\d+(?:-(?:\d+:)?\d+)?$")
_LOADER = pattern_of(
    rb"\[tsl\] (?P<word>ERROR|WARNING) in (?P<where>(?P<path>\S+)\((?P<place>\d+,\d+)\))$"
)
_CODED = pattern_of(rb"\s*(?P<code>TS\d+): ")
_OPEN_LINES = 60
_UNSORTED = b" Imports are incorrectly sorted and/or formatted."
_CODE_AT_END = pattern_of(rb"(?:^|  )\[([a-z][a-z-]+)\]$")
_WRAPPED_LINES = 3
_RULE_BELOW = pattern_of(rb"\((report[A-Z]\w+)\)$")


class Reader(Parser):
    """Fills a report from one stream."""

    def __init__(self, report: Report, stream: int) -> None:
        self.report = report
        self.stream = stream
        self.open: Diagnostic | None = None
        self.traceback: Traceback | None = None
        self._text = False  # what follows belongs to the open message until a blank line
        self._taken = 0
        self._header = b""
        self._function = b""
        self._origin = b""
        self._before = b""
        self._below = b""

    def busy(self) -> bool:
        """Whether the next line is wanted whatever it holds."""
        return self.open is not None or self.traceback is not None or bool(self._header)

    def skipped(self) -> None:
        """Lines are left out: nothing is open any more, and counts are no longer whole."""
        self._close()
        self.report.partial = True

    def finish(self) -> None:
        """The stream has ended."""
        self._close()

    def line(self, line: bytes) -> None:
        """Take one line."""
        if self.traceback is not None:
            if self.traceback.add(line):
                return
            self._close()
        if line.startswith(b"Traceback (most recent call last)"):
            self._close()
            self.traceback = Traceback()
            return
        if not line.strip():
            self._text = False
            self._before = b""
            if self.open is not None and not self.open.body:
                self._taken += 1
            return
        self._read(line.rstrip())
        self._before = line.rstrip()

    def _read(self, line: bytes) -> None:
        report = self.report
        if line.endswith(_UNSORTED):
            self._close()
            name = line.removesuffix(_UNSORTED).removeprefix(b"ERROR: ")
            report.listed(self.stream, _UNSORTED.strip(), name)
        elif self._wrapped(line):
            return
        elif OUTCOME.match(line):
            self._close()
            report.outcome(self.stream, line)
        elif ADVICE.match(line):
            self._close()
            report.noise(self.stream, b"", line)
        elif self._text and self.open is not None and not line.startswith(b"    at "):
            self._add_text(line)
        elif self._placed(line) or self._row(line) or self._begins(line):
            return
        elif self.open is not None and self._belongs(line):
            self._add(self.open, line)
        elif (listed := LISTED.match(line)) is not None:
            self._close()
            kind = next(kind for kind in listed.groups() if kind)
            report.listed(self.stream, kind, listed[listed.re.groups])
        elif (noise := NOISE.match(line)) is not None:
            self._close()
            report.noise(self.stream, noise[1] or b"", line)
        elif _IN_FUNCTION.match(line):
            self._close()
            self._function = line
        elif _CONTEXT.match(line):
            self._close()
        elif _HEADER.match(line):
            self._close()
            self._header = line
        elif PRODUCED.match(line):
            self._close()
            report.product(self.stream, line)
        else:
            self._close()
            if not _TITLE_ABOVE.match(line):
                report.plain(self.stream, line)

    def _wrapped(self, line: bytes) -> bool:
        """Take the end of a message that mypy broke over lines, its code at the very end."""
        opened = self.open
        if opened is None or opened.code or not self._unfinished(opened) or line[:1].isspace():
            return False
        code = _CODE_AT_END.search(line)
        if code is None:
            return False
        opened.title = b" ".join([opened.title, *opened.body, line])
        opened.message = b" ".join([opened.message, *opened.body, line[: code.start()]])
        opened.body.clear()
        opened.code = code[1]
        return True

    def _unfinished(self, opened: Diagnostic) -> bool:
        """Whether all that stands below the message may be its own text, broken over lines."""
        return (
            opened.place.isdigit()
            and len(opened.body) < _WRAPPED_LINES
            and not any(line[:1].isspace() for line in opened.body)
            and self._before == (opened.body[-1] if opened.body else opened.title)
        )

    def _add(self, opened: Diagnostic, line: bytes) -> None:
        """Take a line below the message; the first one says it where the title did not."""
        if opened.message:
            opened.add(line)
            return
        opened.message = line.strip()
        opened.title += b"\n" + line
        if opened.message.startswith((b"! ", "\u26a0".encode())):
            opened.severity = WARNING
        elif opened.message.startswith((b"i ", "\u2139".encode())):
            opened.severity = NOTE

    def _begins(self, line: bytes) -> bool:
        """Open the message that the line begins."""
        found = parse(line)
        if found is None and line.startswith(_TEXT_BELOW):
            found = Diagnostic(line, ERROR, line)
        alone = ALONE.match(line) if found is None else None
        if alone is not None:
            found = Diagnostic(line, ERROR, b"")
            found.at(alone["path"], alone["place"])
        if found is None:
            return False
        if found.message == b"required from here":
            self._origin = found.title.partition(b": ")[0]
        elif found.severity != NOTE:
            found.origin = self._origin if found.foreign() else b""
            self._origin = b""
        opened = self.open
        if opened is not None and not found.path and not opened.message:
            self._add(opened, line)
            return True
        # A note explains the message above it.
        if found.severity == NOTE and opened is not None:
            opened.add(line)
            return True
        self._close()
        if self._function:
            if found.path:
                found.title = self._function + b"\n" + found.title
            self._function = b""
        self._open(found)
        self._text = alone is not None or line.startswith(_TEXT_BELOW)
        return True

    def _placed(self, line: bytes) -> bool:
        """Take the place of the message above from an arrow or from a line of its own."""
        arrow = ARROW.match(line) or BELOW.match(line)
        if arrow is None:
            return False
        if self.open is None or (self.open.path and self._before):
            if self.open is not None or not self._before:
                return False
            if not (_TITLE_ABOVE.match(self._before) or looks_wrong(self._before)):
                return False
            self._open(titled(self._before))
        opened = self.open
        if opened is None or opened.path:
            return False
        opened.at(arrow["path"], arrow["place"])
        opened.title += b"\n" + line.replace(b"\xe2\x95\xad\xe2\x94\x80[", b"--> ").rstrip(b"]:")
        return True

    def _row(self, line: bytes) -> bool:
        """Take a row below the line that names its file."""
        header = self._header
        found = row(line, header)
        if found is None:
            if header and not line[:1].isspace():
                self._header = b""
            return False
        self._close()
        self._header = header
        self.report.diagnostic(self.stream, found)
        return True

    def _add_text(self, line: bytes) -> None:
        opened = self.open
        if opened is None:
            return
        if not opened.message and opened.title.startswith((b"ERROR in ", b"WARNING in ")):
            if _WHERE.match(line):
                return
            loader = _LOADER.match(line)
            if loader is not None:
                # The loader says it again, with the place.
                opened.at(loader["path"], loader["place"].replace(b",", b":"))
                opened.title = b"%b in %b" % (loader["word"], loader["where"])
                return
            coded = _CODED.match(line)
            if coded is not None:
                opened.code = coded["code"]
        if not opened.message or opened.title.startswith((b"error during", b"* What", b"FAILED: ")):
            if opened.message and opened.title.count(b"\n"):
                opened.add(line)
                return
            opened.message = line if not opened.title.startswith(b"FAILED: ") else opened.message
            if opened.title.startswith(b"FAILED: "):
                self._text = False
                return
            opened.title += b"\n" + line
        else:
            opened.add(line)

    def _belongs(self, line: bytes) -> bool:
        opened = self.open
        if opened is None or self._taken >= _OPEN_LINES:
            return False
        self._taken += 1
        if not line.strip(b"-"):
            return True
        if NOISE.match(line) and not line.startswith((b"    ", b"[")):
            return False
        if line.startswith((b"[ERROR]  ", b"[error] ")):
            return True
        # Of a place without a column the code follows as it stands in the file.
        plain = opened.place.isdigit() or opened.severity == UNSAID
        bare = plain and not opened.body and self._before == opened.title
        bare = bare or (b": error: " in opened.title and self._unfinished(opened))
        bare = bare and not _CONTEXT.match(line)
        return bare or _FRAME.match(line) is not None or opened.title.startswith(b"Diff in ")

    def _open(self, found: Diagnostic) -> None:
        self._header = b""
        self.open = found
        self._text = False
        self._taken = 0

    def _close(self) -> None:
        if self.open is not None:
            rule = _RULE_BELOW.search(self.open.body[-1]) if self.open.body else None
            if rule is not None and not self.open.code:
                self.open.code = rule[1]  # pyright explains first
            self.report.diagnostic(self.stream, self.open)
            self.open = None
        if self.traceback is not None:
            self.report.traceback(self.stream, self.traceback)
            self.traceback = None
        self._text = False
        self._header = b""
