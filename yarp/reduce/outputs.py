"""What a text prints, in order, cut into segments that can be told apart.

Two outputs with nothing between them are one segment where one summary is true of both, and two
where the second shows by itself. What does not hold for every output of these tools is not done:
what cannot be told apart stays exact.
"""

from __future__ import annotations

from yarp.reduce.commands import INSTALLS, Filter, Unclear
from yarp.reduce.plan import Line, Segment
from yarp.reduce.rules.match import BUILTIN, Selection

# Their lines stand for themselves: two outputs of one are an output of it, and counts add up.
_LINE_BY_LINE = (("find",), ("rg",), ("grep",), ("egrep",), ("fgrep",), ("git", "grep"))
_DIFF = b"diff --"
_PYTEST = b"=" * 29 + b" test session starts ="
# What never prints such a line itself, and what always begins with it (or prints nothing).
_BEFORE_DIFF = (("git", "status"), ("git", "log"), ("git", "branch"))
_BEFORE_PYTEST = frozenset(("uv", "poetry"))
# Read as what `make check` prints, where nobody tells the tools apart either.
_TOOLS = frozenset(("build", "test"))
_SEVERAL = "several"
_BETWEEN = "&&"
_CUT = "|"
# What is wrong with two tools needs more room than one has; as much as a text is cut to anyway.
_FAILURE_BYTES = 5120
_SPOKEN_BYTES = 1024
# Hooks of git's run anything.
_GIT_BYTES = 2048
_SEGMENTS = 64
# They say what they did in lines that can be told from a build's, wherever these stand.
_SPEAKERS = frozenset((*INSTALLS, "git-pull", "git-push", "git-fetch", "git-merge"))
_GIT_SPEAKERS = frozenset(("commit", "checkout", "switch"))
# Each says what it did in lines of its own; two runs of one are told as one that did both.
_INSTALLERS = frozenset(("apt", "apt-get", "pip", "pip3", "npm", "pnpm", "yarn"))
_QUIET = ("--quiet", "--silent", "--no-header", "--collect-only", "--co")


class Output:
    """What one command prints on standard output; without a selection nobody knows it."""

    __slots__ = ("filter", "first", "known", "recovery", "selection", "shielded")

    def __init__(self, selection: Selection | None, *, recovery: bool = False) -> None:
        self.selection = selection
        self.recovery = recovery
        self.known = True
        # Whether it is the output of the first command of its pipeline.
        self.first = False
        # Whether `set -e` lets its failure pass, because something looks at it.
        self.shielded = False
        self.filter = Filter()

    def narrow(self, added: Filter) -> None:
        """Note that one more filter took lines away."""
        kept = self.filter
        if kept.note and added.note:
            kept.note = b"of a part of the lines:"
            kept.limit = None
        elif added.note:
            self.filter = added


def segments_of(items: list[Output | Line]) -> list[Segment]:
    """The outputs as segments with the lines around them; Unclear: they cannot be told apart."""
    segments: list[Segment] = []
    pending: list[Line] = []
    joined: list[Segment] = []
    for item in items:
        if isinstance(item, Line):
            pending.append(item)
            continue
        if item.recovery:
            raise Unclear
        segment = Segment(item.selection, item.filter.note, item.filter.limit)
        segment.known = item.known
        if segments:
            last = segments[-1]
            at = next((i for i, line in enumerate(pending) if line.separates), None)
            if at is None and pending:
                raise Unclear
            if at is None:
                at = 0
                if both := _united(last, segment):
                    last.selection = both
                    last.note, last.limit = segment.note, segment.limit
                    if last.note:
                        last.note = b"of the last command's output " + last.note.removeprefix(
                            b"of "
                        )
                    last.known = last.known and segment.known
                    joined.append(last)
                    continue
                segment.opening = _opening(last, segment)
                if not segment.opening:
                    raise Unclear
            last.after = pending[:at]
            segment.before = pending[at:]
        else:
            segment.before = pending
        pending = []
        segments.append(segment)
        if len(segments) > _SEGMENTS:
            raise Unclear
    segments[-1].after = pending
    for segment in segments:
        # The status of one command is not that of another one printed earlier.
        for line in segment.after[0 if segment in joined else 1 :]:
            line.status = ""
        for line in segment.before:
            line.status = ""
    return segments


def _united(first: Segment, second: Segment) -> Selection | None:
    """A selection for both outputs as one; None: they are not of one kind."""
    one, other = first.selection, second.selection
    if one is None or other is None or second.opening:
        return None
    if first.note or second.note:
        return _last_lines(first, second)
    if {one.family, other.family} <= _TOOLS:
        return None if _runs(one) or _runs(other) else _several(one, other)
    if one.argv[0] == other.argv[0] in _INSTALLERS and one.family == other.family == "status":
        return other if "install" in other.argv else one
    if _told(one) and _told(other):
        return _spoken(one, other)
    if (one.pack, one.rule) != (other.pack, other.rule):
        return None
    head = next((head for head in _LINE_BY_LINE if one.argv[: len(head)] == head), None)
    if head is None or _options(one) != _options(other):
        return None
    # Where both name files or neither does; the words searched for are not the same.
    kinds = {min(_operands(selection, len(head)), 3) > 2 for selection in (one, other)}
    if len(kinds) > 1 and head != ("find",):
        return None
    places = (".",) * 3 if True in kinds else ()
    argv = (*head, *_options(one), *places)
    return Selection(one.pack, one.rule, one.family, one.options, argv)


def _runs(selection: Selection) -> bool:
    """Whether the user's own program speaks in the output: `cargo run`."""
    return selection.argv[1:2] == ("run",) and selection.argv[0] in (
        "cargo",
        "go",
        "dotnet",
        "swift",
    )


def _last_lines(first: Segment, second: Segment) -> Selection | None:
    """A selection where `tail` took the first lines away from an installer or the last command."""
    one, other = first.selection, second.selection
    if one is None or other is None or not (_told(one) and _told(other)):
        return None
    for segment in (first, second):
        if segment.note and not segment.note.startswith(b"of the last "):
            return None
    if first.note:
        if one.rule not in INSTALLS or other.family not in _TOOLS:
            return None
        one = Selection(one.pack, one.rule, one.family, one.options, (*one.argv, _CUT))
    if second.note and other.family not in _TOOLS:
        return None
    return _united(_whole(first, one), _whole(second, other))


def _whole(segment: Segment, selection: Selection) -> Segment:
    found = Segment(selection, b"", None)
    found.known = segment.known
    return found


def _told(selection: Selection) -> bool:
    """Whether the output can stand among others: a build, tests, an installer, git."""
    if selection.family in _TOOLS:
        return not _runs(selection)
    if selection.pack != BUILTIN:
        return False
    if selection.rule in _SPEAKERS or selection.rule == _SEVERAL:
        return True
    return selection.argv[0] == "git" and selection.argv[1] in _GIT_SPEAKERS


def _spoken(one: Selection, other: Selection) -> Selection | None:
    """Installers and git among builds and tests, these as `make`; `&&` stands between them."""
    both = _several(_modest(one), _modest(other))
    words, more = (both.argv if each.family in _TOOLS else each.argv for each in (one, other))
    if other.argv[0] in _INSTALLERS and other.family == "status" and _builds(words):
        return None  # what a test prints could be taken for what an installer says
    return Selection(BUILTIN, _SEVERAL, _SEVERAL, both.options, (*words, _BETWEEN, *more))


def _modest(selection: Selection) -> Selection:
    """One that needs little room for what went wrong."""
    if selection.family in (*_TOOLS, _SEVERAL):
        return selection
    room = _GIT_BYTES if selection.argv[0] == "git" else _SPOKEN_BYTES
    options = {**selection.options, "failure_bytes": room}
    return Selection(selection.pack, selection.rule, selection.family, options, selection.argv)


def _builds(words: tuple[str, ...]) -> bool:
    """Whether one of the commands is a build or a run of tests."""
    return any(
        word == "make" and words[at - 1 : at] in ((), (_BETWEEN,)) for at, word in enumerate(words)
    )


def _several(one: Selection, other: Selection) -> Selection:
    """Tools one after the other: all their outcomes, then what is wrong, whoever said it."""
    options = dict(one.options)
    for name, value in other.options.items():
        options[name] = max(value, options.get(name, value))
    needed = sum(each.options.get("failure_bytes", _FAILURE_BYTES) for each in (one, other))
    options["failure_bytes"] = min(_FAILURE_BYTES, needed)
    return Selection(BUILTIN, _SEVERAL, "build", options, ("make",))


def _opening(first: Segment, second: Segment) -> bytes:
    """How the first line of the second output begins, and no line of the first; else empty."""
    one, other = first.selection, second.selection
    if (
        one is None
        or other is None
        or (second.note and not second.note.startswith(b"of the first"))
    ):
        return b""
    if other.argv[:2] == ("git", "diff"):
        return _DIFF if one.argv[:2] in _BEFORE_DIFF else b""
    if other.argv[:1] == ("pytest",) and one.argv[0] in _BEFORE_PYTEST:
        quiet = any(
            word.startswith(_QUIET) or (word[:1] == "-" and word[:2] != "--" and "q" in word)
            for word in other.argv[1:]
        )
        return b"" if quiet else _PYTEST
    return b""


def _options(selection: Selection) -> tuple[str, ...]:
    return tuple(word for word in selection.argv[1:] if word[:1] == "-")


def _operands(selection: Selection, head: int) -> int:
    return sum(word[:1] != "-" for word in selection.argv[head:])
