# ruff: noqa: RUF001 - the marks that tools print
"""One message of a compiler or linter, and how its first line is read whatever the tool.

Few forms cover most tools: `path:line:col: severity: message [code]`, `path(line,col): ...`,
`severity[code]: message` with the place in an arrow below, and rows below a line with the path.
"""

from __future__ import annotations

from yarp.reduce.families.build.words import ERROR, NOTE, SEVERITIES, UNSAID, WARNING
from yarp.reduce.families.patterns import pattern_of

_BODY_LINES = 24
_BODY_BYTES = 2048
# So much of a message says what kind it is.
_SHAPE_BYTES = 300


class Diagnostic:
    """A message with its place; `title` is as printed, `body` what stood below it, bounded."""

    __slots__ = (
        "_size", "body", "code", "message", "notes", "origin", "path", "place", "severity",
        "stream", "title",
    )  # fmt: skip

    def __init__(self, title: bytes, severity: int, message: bytes, code: bytes = b"") -> None:
        self.title = title
        self.severity = severity
        self.message = message
        self.code = code
        self.path = b""
        self.place = b""
        self.body: list[bytes] = []
        self.notes = 0
        self.stream = 0
        # Where one's own code asked for what is wrong in a library's header.
        self.origin = b""
        self._size = 0

    def add(self, line: bytes) -> None:
        """Take a line that stands below; past a bound it is only counted."""
        self._size += len(line) + 1
        if not self.origin and b": note: in instantiation of " in line and self.foreign():
            where = line.partition(b": note: ")[0]
            self.origin = where if not _FOREIGN.match(where) else b""
        if len(self.body) < _BODY_LINES and self._size < _BODY_BYTES:
            self.body.append(line)
        else:
            self.notes += 1

    def at(self, path: bytes, place: bytes) -> None:
        """Say where it is, for tools that print the place below the message."""
        self.path, self.place = path, place

    def foreign(self) -> bool:
        """Whether the place is in a header of the system."""
        return _FOREIGN.match(self.path) is not None

    def mark(self) -> bytes:
        """The place as it follows the path: `:3:7`, or `(3,7)` where the tool writes so."""
        if self.path + b"(" in self.title:
            return b"(" + self.place.replace(b":", b",") + b")"
        return b":" + self.place if self.place else b""

    def key(self) -> tuple[bytes, ...]:
        """What makes it the same message as another."""
        return (self.path, self.place, self.code, self.message)

    def kind(self) -> tuple[int, bytes]:
        """What makes it the same kind of message: the code, else the words that are no names."""
        return (self.severity, self.code or QUOTED.sub(b"'", self.message[:_SHAPE_BYTES]))


QUOTED = pattern_of(
    "'[^'\n]*'|\"[^\"\n]*\"|`[^`'\n]*[`']|‘[^’\n]*’|“[^”\n]*”|«[^»\n]*»|»[^«\n]*«|„[^“\n]*“".encode()
    + rb"|\d+"
)

_FOREIGN = pattern_of(rb"/(?:usr|opt|Library|Applications)/|.*/include/c\+\+/")
_PLACE = pattern_of(
    rb"\s{0,8}(?:\[(?:ERROR|WARNING|WARN|error|warn)\]\s+|vet: |ERROR: |WARNING: |[ew]: (?:file://)?"
    rb"|\S*\bld(?:\.\w+)?(?: |\xc2\xa0)?: )?"
    rb"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:()\[\]'\"`|<>][^\s:()|'\"`]*\.\w{1,10}"
    rb"|(?:[^\s:()|'\"`]*/)?(?:Makefile|Dockerfile|BUILD|WORKSPACE|GNUmakefile)|<\w+>)"
    rb"(?::(?P<l1>\d+)(?:[:.](?P<c1>\d+))?(?:-\d+)?(?=:\D| - )"
    rb"|:? ?\((?P<l2>\d+)(?:[,:] ?(?P<c2>\d+))?(?:,\d+,\d+|-\d+)?\)(?=: ?)"
    rb"|:\[(?P<l3>\d+),(?P<c3>\d+)\](?= )|:\((?P<l4>\.[^)]*)\)(?=(?: |\xc2\xa0)?:)"
    rb"|: (?P<l5>\.[\w.+]+)(?=:))"
    rb"(?:(?: |\xc2\xa0)?:\s*| - | )(?P<rest>\S.*)$"
)
_SEVERITY = pattern_of(
    rb"(?P<word>[a-zA-Z\x80-\xff][^:0-9\[\]()'\"`]{0,40}?)"
    rb"(?: (?P<code>[A-Z]{1,6}\d+)|\[(?P<bracket>[\w:-]+)\])?\s?(?::|\xef\xbc\x9a)\s*(?P<rest>.*)$"
)
_LEADING_CODE = pattern_of(
    rb"(?:\[\*\] )?(?P<code>[A-Z]{1,6}\d{2,5}|invalid-syntax)\b:? (?P<rest>.+)$"
)
_COP = pattern_of(
    rb"(?P<letter>[CWREF]): (?:\[Correct\w+\] )?(?P<code>[A-Z]\w+(?:/\w+)+): (?P<rest>.+)$"
)
_TRAILING_CODE = pattern_of(
    rb"\s(?:\[(?P<a>-W[^\]\s]*|[\w./:-]+)\]|\((?P<b>[\w@./:-]*[a-z]\w*)\))$"
)
_PROJECT = pattern_of(rb" \[[^\]\s]*proj(?:::[^\]]*)?\]$")
_HEAD = pattern_of(
    rb"(?:[\w.+/\\-]+: )?(?P<word>fatal error|internal compiler error|error|warning|fatal|Error"
    rb"|ERROR|WARNING|FATAL|Fehler|Erreur|erreur|\[ERROR\]|\[error\]|\[WARNING\]|\[!\])"
    rb"(?: (?P<code>[A-Z]{1,6}\d+)|\[(?P<bracket>[\w:-]+)\])?(?::|(?<=\])) (?P<rest>\S.*)$"
)
_RAISED = pattern_of(
    rb"(?:Uncaught |Unhandled |Caused by: |Exception in thread \"[^\"]*\" |\[!\] )?"
    rb"(?P<code>[\w.$]*(?:Error|Exception))(?: \[\w+\])?: (?P<rest>.+)$"
)
_MARKED = pattern_of(
    " {0,2}(?:✘|✖|×|▲|⚠|X) (?:\\[(?P<word>ERROR|WARNING)\\] )?"
    "(?:(?P<code>[\\w-]+\\([\\w/-]+\\)): )?(?P<rest>\\S.*)$".encode()
)
_DASHED = pattern_of(rb"(?P<word>WARNING|ERROR|CRITICAL) +-  ?(?P<rest>\S.*)$")
_IN = pattern_of(rb"(?P<word>ERROR|WARNING) in (?P<path>\S+)(?: (?P<place>\d+:\d+)(?:-\S+)?)?$")
_CMAKE = pattern_of(
    rb"CMake (?P<word>(?:Deprecation |Dev )?(?:Error|Warning))(?: \(dev\))?"
    rb"(?: at (?P<path>[^:]+):(?P<line>\d+))?"
)
_BIOME = pattern_of(
    rb"(?P<path>[^\s:]+)(?::(?P<place>\d+:\d+))? (?P<code>\S+)(?: +FIXABLE)? +\xe2\x94\x81"
)
_DIFF = pattern_of(rb"Diff in (?P<path>.+?):(?P<line>\d+):$")
ROW = pattern_of(
    r"\s+(?P<place>\d+:\d+)\s+(?P<word>error|warning|Error|Warning|✖|⚠|×):?\s+"
    r"(?P<rest>\S.*)$".encode()
)
ARROW = pattern_of(
    rb"\s*(?:-->|\xe2\x95\xad\xe2\x94\x80\[|,-\[) ?(?P<path>[^\s:\]]+):(?P<place>\d+(?::\d+)?)"
    rb"\]?:?$"
)
BELOW = pattern_of(rb"\s+(?P<path>[^\s:]+):(?P<place>\d+:\d+):$")
ALONE = pattern_of(rb"(?P<path>\.{0,2}/[^\s:]+\.\w+):(?P<place>\d+:\d+)$")


def parse(line: bytes) -> Diagnostic | None:
    """The message that this line begins, or None."""
    found = _PLACE.match(line)
    if found is not None:
        group = found.group
        number = group("l1") or group("l2") or group("l3") or group("l4") or group("l5")
        column = group("c1") or group("c2") or group("c3")
        diagnostic = _said(line, group("rest"))
        diagnostic.at(group("path"), number + b":" + column if column else number)
        if group("l4") or group("l5"):
            diagnostic.severity = min(diagnostic.severity, ERROR)
        if line.startswith((b"[WARN", b"w: ", b"WARNING")):
            diagnostic.severity = WARNING
        elif diagnostic.severity == UNSAID and line.startswith((b"[ERR", b"e: ", b"ERR")):
            diagnostic.severity = ERROR
        return diagnostic
    found = _HEAD.match(line)
    if found is not None:
        word = found["word"].strip(b"[]").lower()
        severity = SEVERITIES.get(word, ERROR)
        code = found["code"] or found["bracket"] or b""
        return Diagnostic(line, severity, found["rest"], code)
    return _special(line)


def row(line: bytes, path: bytes) -> Diagnostic | None:
    """A row below the line that names its file, as eslint prints them."""
    found = ROW.match(line)
    if found is None:
        return None
    severity = WARNING if found["word"].lower().startswith((b"warn", b"\xe2\x9a\xa0")) else ERROR
    # The rule stands in a column of its own.
    message, _, code = found["rest"].rstrip().rpartition(b"  ")
    if not message or b" " in code:
        message, code = found["rest"], b""
    message = message.rstrip()
    text = b" ".join(part for part in (found["word"], message, code) if part)
    title = b"%b:%b %b" % (path, found["place"], text) if path else b" ".join(line.split())
    diagnostic = Diagnostic(title, severity, message, code)
    diagnostic.at(path, found["place"])
    return diagnostic


def titled(line: bytes) -> Diagnostic:
    """A message whose place follows below, of a tool that names no severity."""
    return _said(line, line)


def _special(line: bytes) -> Diagnostic | None:
    """Forms that one tool alone uses."""
    found = _DASHED.match(line)
    if found is not None:
        # The names that a message is about make no other kind of it.
        warns = found["word"] == b"WARNING"
        return Diagnostic(line, WARNING if warns else ERROR, found["rest"])
    for pattern in (_IN, _CMAKE, _DIFF):
        found = pattern.match(line)
        if found is None:
            continue
        warns = pattern is not _DIFF and b"arning" in found["word"].lower()
        message = b"Diff" if pattern is _DIFF else b""
        diagnostic = Diagnostic(line, WARNING if warns else ERROR, message, message)
        place = found["place"] if pattern is _IN else found["line"]
        diagnostic.at(found["path"] or b"", place or b"")
        return diagnostic
    found = _RAISED.match(line)
    if found is not None:
        return Diagnostic(line, ERROR, found["rest"], found["code"])
    found = _BIOME.match(line)
    if found is not None:
        title = line[: line.index(b"\xe2\x94\x81")].rstrip()
        diagnostic = Diagnostic(title, ERROR, b"", found["code"])
        diagnostic.at(found["path"], found["place"] or b"")
        return diagnostic
    found = _MARKED.match(line)
    if found is not None:
        warns = found["word"] == b"WARNING" or "▲".encode() in line[:6] or "⚠".encode() in line[:6]
        code = (found["code"] or b"").partition(b"(")[2].rstrip(b")")
        return Diagnostic(line.strip(), WARNING if warns else ERROR, found["rest"], code)
    return None


def _said(line: bytes, rest: bytes) -> Diagnostic:
    """Severity, code and message of what stands behind a place."""
    severity, code = UNSAID, b""
    found = _SEVERITY.match(rest)
    if found is not None:
        said = SEVERITIES.get(found["word"].strip().lower().replace(b"\xc2\xa0", b""))
        if said is None:
            said = SEVERITIES.get(found["word"].decode("utf-8", "replace").strip().lower().encode())
        if said is not None:
            severity, rest = said, found["rest"]
            code = found["code"] or found["bracket"] or b""
    if severity == UNSAID and rest.startswith((b"required ", b"recursively ", b"In ", b"in ")):
        severity = NOTE
    cop = _COP.match(rest) if severity == UNSAID else None
    if cop is not None:
        severity = ERROR if cop["letter"] in b"EF" else WARNING
        code, rest = cop["code"], cop["rest"]
    rest = _PROJECT.sub(b"", rest)
    leading = _LEADING_CODE.match(rest) if not code else None
    if leading is not None:
        code, rest = leading["code"], leading["rest"]
        if severity == UNSAID and len(code) == 5 and code[:1] in b"CRWI":
            severity = WARNING  # pylint's letters; other tools' codes have three digits
    trailing = _TRAILING_CODE.search(rest)
    if trailing is not None:
        code = code or trailing["a"] or trailing["b"]
        if severity == UNSAID and code.startswith(b"-W"):
            severity = ERROR if code.startswith(b"-Werror") else WARNING
    return Diagnostic(line.strip(), severity, rest, code)
