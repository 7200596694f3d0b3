"""Which bytes of a command text are whose: what the model will read, and which rule knows it.

A plan changes nothing of the text and runs nothing: the command always runs as written. What a
pipe, a redirect or `$( )` consumes is never in what the model reads, so it is never shortened.
A text of plain words or of quoted ones is planned here; the grammar is loaded for any other
one, and only if a program that some rule knows stands in it. Source: spec Reduction, Shell text.
"""

from __future__ import annotations

from yarp.reduce.families.base import Status
from yarp.reduce.rules.match import launched, select
from yarp.shell.quoting import RECOVERY, is_recovery, split
from yarp.shell.words import is_plain_start, simple_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.rules.match import Compiled, Selection

SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ksh", "ash"))
_PREFIXES = frozenset(("command", "exec", "builtin"))
_MAX_CHARACTERS = 256 * 1024
_SEPARATORS = dict.fromkeys(map(ord, " \t\r\n|&;<>()$`{}\"'=/\\!"), " ")


class Line:
    """A line that an `echo` of the text prints: `texts` with something unknown between them.

    `status`: the expansion of an exit status that is the unknown thing, while it is the status
    of the output before; else empty. `optional`: it is printed only if that command succeeded,
    or failed. `starts`: the characters one of which it begins with; empty: any.
    """

    __slots__ = ("optional", "starts", "status", "texts")

    def __init__(
        self, texts: tuple[bytes, ...], *, status: str, optional: bool, starts: bytes = b""
    ) -> None:
        self.texts = texts
        self.starts = starts
        self.status = status
        self.optional = optional

    @property
    def separates(self) -> bool:
        """Whether two outputs can be told apart by it."""
        return len(self.texts) == 1 and len(self.texts[0].strip()) > 2 and not self.optional


class Segment:
    """A stretch of standard output that one command prints, and the lines around it.

    `selection` None: no rule knows it, it is shown whole. `known`: the exit status of the text
    tells whether this command succeeded. `note` says which part of its output this is, where
    a filter took some away; `limit` is the number of lines that the filter lets through.
    `opening`: how its first line begins, where no line stands between it and the segment before.
    """

    __slots__ = ("after", "before", "known", "limit", "note", "opening", "selection")

    def __init__(self, selection: Selection | None, note: bytes, limit: int | None) -> None:
        self.selection = selection
        self.note = note
        self.limit = limit
        self.known = True
        self.opening = b""
        self.before: list[Line] = []
        self.after: list[Line] = []


class Shape:
    """How the output of a compound text is put together.

    `diagnostics`: how lines begin that the shell or a helping command prints about itself.
    `whole_stderr`: several commands print on standard error, so it is shown whole or nothing is
    shortened. `merged`: both streams arrive as one.
    """

    __slots__ = ("diagnostics", "merged", "segments", "whole_stderr")

    def __init__(
        self, segments: list[Segment], diagnostics: tuple[bytes, ...], *, whole_stderr: bool
    ) -> None:
        self.segments = segments
        self.diagnostics = diagnostics
        self.whole_stderr = whole_stderr
        self.merged = False


class Plan:
    """What is known of a command text.

    `selection`: the rule for what the model reads; None: it stays exact. `shape`: how that
    output is put together; None: all of it is the one command's. `confidence` of the exit
    status: `complete`, `final` (it is a later command's) or `conditional` (`||`, `!`).
    `recovery`: the output is an answer of YARP's own. `state`: the words of the text that
    change, or rely on, what a shell keeps between its commands.
    """

    __slots__ = ("confidence", "recovery", "selection", "shape", "state")

    def __init__(
        self,
        selection: Selection | None = None,
        shape: Shape | None = None,
        *,
        confidence: str = "complete",
        recovery: bool = False,
        state: tuple[str, ...] = (),
    ) -> None:
        self.selection = selection
        self.shape = shape
        self.confidence = confidence
        self.recovery = recovery
        self.state = state

    def status(self, exit_code: int | None, *, success: bool | None = None) -> Status:
        """How the command of the selection ended, as far as the text's exit status tells.

        `success` is what the caller knows without a code.
        """
        if self.confidence != "complete":
            return Status(None, None)
        return Status(exit_code, success)


def plan(text: str, rules: Compiled) -> Plan:
    """The plan for a command text as the shell gets it. Never raises for what a text says."""
    argv = plain_argv(text)
    if argv is not None:
        if is_recovery(text):
            return Plan(recovery=True)
        selection = select(argv, rules)
        if selection is not None:
            return Plan(selection)
        if (
            argv[0] not in _PREFIXES
            and launched(argv, rules)[0] not in SHELLS
            and "-exec" not in argv
        ):
            return Plan()
    if not _worth_reading(text, rules):
        return Plan()
    from yarp.reduce.compound import read

    return read(text, rules)


def plan_argv(argv: list[str], rules: Compiled) -> Plan:
    """The plan for a command that is started without a shell."""
    selection = select(argv, rules)
    if selection is not None or launched(argv, rules)[0] not in SHELLS:
        return Plan(selection)
    from yarp.shell.quoting import quote

    return plan(" ".join(map(quote, argv)), rules)


def plain_argv(text: str) -> list[str] | None:
    """The words of one simple command that expands nothing; None for any other text."""
    argv = simple_argv(text)
    if argv is None and len(text) <= _MAX_CHARACTERS:
        argv = split(text.strip(" \t\n"))
        if argv is not None and not is_plain_start(argv):
            argv = None
    return argv


def words_of(text: str) -> list[str]:
    """The words of a text, wherever they stand in it: every program that it names is one."""
    return text.translate(_SEPARATORS).split()


def _worth_reading(text: str, rules: Compiled) -> bool:
    """Whether a program stands in the text whose output can be shortened, or is an answer."""
    if len(text) > _MAX_CHARACTERS:
        return False
    programs, versioned = rules["programs"], rules["versioned"]
    words = words_of(text)
    for word in words:
        name = word
        if name not in programs and name[-1:].isdigit():
            stem = name.rstrip("0123456789.")
            name = stem if stem in versioned else name
        entry = programs.get(name)
        if entry is not None and entry["rules"]:
            return True
    return "yarp" in words and any(word in RECOVERY for word in words)
