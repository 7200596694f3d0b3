"""The plan of a text with operators, redirects, expansions or a shell inside.

Follows each command's standard output and error to where they end. Whatever cannot be followed
leaves the output exact. Source: spec Reduction, Shell text.
"""

from __future__ import annotations

from yarp.reduce.commands import (
    FILTERS,
    FIRST_STATUS,
    STATUS,
    Filter,
    Unclear,
    argument,
    filtered,
    lines,
    silent,
)
from yarp.reduce.plan import SHELLS, Line, Plan, Segment, Shape
from yarp.reduce.rules.match import Selection, launched, select
from yarp.shell.parse import parse
from yarp.shell.quoting import RECOVERY
from yarp.shell.syntax import Command, Group, Opaque, Pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.rules.match import Compiled
    from yarp.shell.syntax import Chain, Part, Redirect, Word

_MAX_SHELLS = 3  # bash -c 'bash -c "..."'
_OUT, _ERR, _PIPE, _GONE = "out", "err", "pipe", "gone"
_STANDARD = {
    "/dev/stdout": 1, "/dev/fd/1": 1, "/proc/self/fd/1": 1,
    "/dev/stderr": 2, "/dev/fd/2": 2, "/proc/self/fd/2": 2,
}  # fmt: skip
# Their output is read by what stands behind them, and their errors are none.
_FEEDERS = frozenset(("yes", "echo", "printf", "true", ":"))
_SHELL_SAYS = (b"bash: ", b"/bin/bash: ", b"sh: ", b"/bin/sh: ")
_FAILING = frozenset(("exit", "return", "false"))
_STATE = frozenset(
    (
        *("cd", "pushd", "popd", "dirs", "export", "declare", "typeset", "readonly", "local"),
        *("source", ".", "alias", "unalias", "set", "unset", "shopt", "setopt", "unsetopt"),
        *("umask", "ulimit", "trap", "exec", "eval", "exit", "logout", "return", "hash", "enable"),
        *("fg", "bg", "jobs", "wait", "disown", "read", "mapfile", "readarray", "getopts", "let"),
        *("deactivate", "conda", "nvm", "history", "bind", "complete", "builtin", "autoload"),
    )
)
# What every process has; all other variables may be the shell's own.
_EXPORTED = frozenset(
    ("$HOME", "${HOME}", "$PWD", "${PWD}", "$USER", "${USER}", "$PATH", "${PATH}")
)

Sinks = dict[int, str]


class _Output:
    """What one command prints on standard output; without a selection nobody knows it."""

    __slots__ = ("filter", "first", "known", "recovery", "selection")

    def __init__(self, selection: Selection | None, *, recovery: bool = False) -> None:
        self.selection = selection
        self.recovery = recovery
        self.known = True
        # Whether it is the output of the first command of its pipeline.
        self.first = False
        self.filter = Filter()


def read(text: str, rules: Compiled) -> Plan:
    """The plan for any text; an exact one for what is not understood."""
    chains = parse(text)
    if chains is None:
        return Plan(state=("?",))
    state = tuple(dict.fromkeys(_state(chains)))
    reader = _Reader(rules)
    try:
        reader.chains(chains, {1: _OUT, 2: _ERR})
        return reader.plan(state)
    except Unclear:
        return Plan(state=state)


class _Reader:
    """Walks through a text and notes what is printed, in order."""

    def __init__(self, rules: Compiled) -> None:
        self._rules = rules
        self._items: list[_Output | Line] = []
        self._diagnostics: dict[bytes, None] = {}
        self._whole_stderr = False
        self._conditional = False
        self._pipefail = False
        self._errexit = False
        # What now expands to the exit status of the last output.
        self._told: frozenset[str] = frozenset()
        self._shells = 0

    def plan(self, state: tuple[str, ...]) -> Plan:
        """What the items make together."""
        outputs = [item for item in self._items if isinstance(item, _Output)]
        recovery = bool(outputs) and all(output.recovery for output in outputs)
        if recovery or not any(output.selection for output in outputs):
            return Plan(recovery=recovery, state=state)
        segments = self._segments()
        selections = [one.selection for one in segments if one.selection is not None]
        first = selections[0]
        options: dict[str, int] = {}
        for selection in selections:
            for name, value in selection.options.items():
                options[name] = max(value, options.get(name, value))
        together = Selection(first.pack, first.rule, first.family, options, first.argv)
        shape: Shape | None = None
        if len(segments) > 1 or self._whole_stderr or self._diagnostics or not _plain(segments[0]):
            shape = Shape(segments, tuple(self._diagnostics), whole_stderr=self._whole_stderr)
        complete = all(output.known for output in outputs)
        confidence = "conditional" if self._conditional else "final"
        return Plan(together, shape, confidence="complete" if complete else confidence, state=state)

    def _segments(self) -> list[Segment]:
        segments: list[Segment] = []
        pending: list[Line] = []
        for item in self._items:
            if isinstance(item, Line):
                pending.append(item)
                continue
            if item.recovery:
                raise Unclear
            segment = Segment(item.selection, item.filter.note, item.filter.limit)
            segment.known = item.known
            if segments:
                at = next((i for i, line in enumerate(pending) if line.separates), None)
                if at is None:
                    raise Unclear
                segments[-1].after = pending[:at]
                segment.before = pending[at:]
            else:
                segment.before = pending
            pending = []
            segments.append(segment)
        segments[-1].after = pending
        for segment in segments:
            # The status of one command is not that of another one printed earlier.
            for line in segment.after[1:]:
                line.status = ""
            for line in segment.before:
                line.status = ""
        if len(segments) > 1:
            self._whole_stderr = True
        return segments

    # -- how commands follow one another --------------------------------------------------------

    def chains(self, chains: list[Chain], sinks: Sinks) -> None:
        """Read a script whose output goes to `sinks`."""
        for chain in chains:
            if chain.background:
                raise Unclear
            before = self._outputs()
            if not self._errexit:
                self._forget(before)
            for pipeline in chain.pipelines:
                self._pipeline(pipeline, sinks, self._outputs()[len(before) :])

    def _outputs(self) -> list[_Output]:
        return [item for item in self._items if isinstance(item, _Output)]

    def _forget(self, outputs: list[_Output]) -> None:
        for output in outputs:
            output.known = False

    def _pipeline(self, pipeline: Pipeline, sinks: Sinks, earlier: list[_Output]) -> None:
        stages = pipeline.stages
        if pipeline.join == "||" and not _gives_up(stages):
            if earlier:
                self._conditional = True
            self._forget(earlier)
        optional = bool(pipeline.join) or self._errexit
        options = self._pipefail, self._errexit
        told = self._told
        at = len(self._items)
        if len(stages) == 1:
            self._part(stages[0], sinks, optional=optional)
        else:
            self._piped(pipeline, sinks)
        new = [item for item in self._items[at:] if isinstance(item, _Output)]
        if pipeline.negated:
            self._conditional = bool(new) or self._conditional
            self._forget(new)
        elif len(stages) > 1 and not self._pipefail:
            self._forget(new)
        if pipeline.join == "||" and (self._pipefail, self._errexit) != options:
            self._pipefail = self._errexit = False  # nobody knows
        if not new:
            for item in self._items[at:]:
                if isinstance(item, Line) and item.status not in told:
                    item.status = ""
        self._told = frozenset()
        if len(new) == 1:
            known = STATUS if new[0].known else frozenset[str]()
            self._told = known | FIRST_STATUS if new[0].first else known

    def _piped(self, pipeline: Pipeline, sinks: Sinks) -> None:
        """Find the stage whose output comes out at the end, filtered or not."""
        stages = pipeline.stages
        last = len(stages) - 1
        where: list[Sinks] = []
        for index, stage in enumerate(stages):
            self._expanded(stage, sinks)
            here = {**sinks, 1: _PIPE} if index < last else sinks
            here = _redirected(here, stage.redirects)
            if pipeline.both[index]:
                here[2] = here[1]
            where.append(here)
        if where[last][1] not in (_OUT, _PIPE):
            # Nothing but errors is read of it.
            for stage, here in zip(stages, where, strict=True):
                self._consumed(stage, here)
            return
        filters: list[tuple[str, list[str]]] = []
        at = last
        while at:
            stage = stages[at]
            if not isinstance(stage, Command):
                raise Unclear
            name, argv, _ = self._words(stage)
            words = [word for word in argv if word is not None]
            if name is None or name not in FILTERS or len(words) < len(argv):
                break
            filters.insert(0, (name, words))
            self._diagnostics[name.encode() + b": "] = None
            at -= 1
        for stage, here in zip(stages[:at], where[:at], strict=True):
            self._feeds(stage, here)
        produced = len(self._items)
        if where[at][1] not in (_PIPE, _OUT):
            raise Unclear
        self._part(stages[at], {**where[at], 1: _OUT}, optional=False, redirected=True)
        new = self._items[produced:]
        if len(new) != 1 or not isinstance(new[0], _Output):
            raise Unclear
        output = new[0]
        output.first = at == 0 and isinstance(stages[0], Command)
        for name, words in filters:
            if output.selection is not None:
                _narrow(output, filtered(name, words, output.selection))
            elif output.recovery and name in ("sed", "tee"):
                raise Unclear
        if at and output.selection is not None and output.selection.family == "search":
            # It searched what was piped in: its lines name no files.
            raise Unclear

    def _feeds(self, stage: Part, sinks: Sinks) -> None:
        if isinstance(stage, Command):
            name, _, _ = self._words(stage)
            if name in _FEEDERS or (name is not None and sinks[2] == _GONE):
                return
        raise Unclear

    def _consumed(self, stage: Part, sinks: Sinks) -> None:
        """A stage whose standard output nobody sees."""
        if not isinstance(stage, Command):
            raise Unclear
        self._command(stage, {**sinks, 1: _GONE}, optional=True)

    # -- one command ----------------------------------------------------------------------------

    def _part(self, part: Part, sinks: Sinks, *, optional: bool, redirected: bool = False) -> None:
        if not redirected:
            self._expanded(part, sinks)
            sinks = _redirected(sinks, part.redirects)
        if isinstance(part, Opaque):
            raise Unclear
        if isinstance(part, Group):
            self._inside(part.body, sinks, apart=part.subshell)
        else:
            self._command(part, sinks, optional=optional)

    def _expanded(self, part: Part, sinks: Sinks) -> None:
        """A `$( )` runs before the redirects of its command: its errors are not in them."""
        if not isinstance(part, Command) or not part.starts_others or sinks[2] == _GONE:
            return
        if sinks[2] != _ERR:
            raise Unclear
        self._whole_stderr = True

    def _inside(self, body: list[Chain], sinks: Sinks, *, apart: bool) -> None:
        kept = self._pipefail, self._errexit
        self._told = frozenset()
        self.chains(body, sinks)
        if apart:
            self._pipefail, self._errexit = kept

    def _words(self, command: Command) -> tuple[str | None, list[str | None], list[Word]]:
        """The program, what a rule sees of its words, and the words; prefixes taken away."""
        words = command.words
        while words and words[0].literal in ("command", "builtin", "exec", "time", "\\"):
            if words[0].literal == "time":
                self._diagnostics.update(dict.fromkeys((b"real\t", b"user\t", b"sys\t")))
            words = words[1:]
            if words and (words[0].literal or "-")[:1] == "-":
                if words[0].literal != "-p":
                    raise Unclear
                words = words[1:]
        argv = [argument(word) for word in words]
        return (words[0].literal if words else None), argv, words

    def _command(self, command: Command, sinks: Sinks, *, optional: bool) -> None:
        out, err = sinks[1], sinks[2]
        name, argv, words = self._words(command)
        if not command.words:
            return
        if name is None:
            self._unknown(out, err)
            return
        if silent(name, argv):
            self._set(argv)
            self._diagnostics[name.encode() + b": "] = None
            self._diagnostics.update(dict.fromkeys(_SHELL_SAYS))
            return
        if name == "alias":
            raise Unclear
        printed = lines(name, words, optional=optional)
        if printed is not None:
            self._print(printed, out)
            return
        known = [word for word in argv if word is not None]
        if len(known) == len(argv) and self._typed(known, sinks):
            return
        if name in FILTERS and out == _GONE:
            self._diagnostics[name.encode() + b": "] = None
        else:
            self._unknown(out, err)

    def _print(self, printed: list[Line], out: str) -> None:
        if out == _OUT:
            self._items += printed
        elif out == _ERR:
            for line in printed:
                if not line.texts[0]:
                    raise Unclear
                self._diagnostics[line.texts[0]] = None
        elif out != _GONE:
            raise Unclear

    def _typed(self, argv: list[str], sinks: Sinks) -> bool:
        """Note the output of a command that something is known of; False for any other one."""
        out, err = sinks[1], sinks[2]
        program, command = launched(argv, self._rules)
        if program in SHELLS:
            text = _script(command)
            if text is None or self._shells == _MAX_SHELLS:
                return False
            chains = parse(text)
            if chains is None:
                return False
            self._shells += 1
            kept = self._pipefail, self._errexit
            self._pipefail = self._errexit = False
            self._inside(chains, sinks, apart=False)
            self._pipefail, self._errexit = kept
            self._shells -= 1
            return True
        if program == "yarp" and out == _OUT and command[1:2] and command[1] in RECOVERY:
            self._items.append(_Output(None, recovery=True))
            return True
        selection = select(argv, self._rules)
        if out != _OUT:
            if selection is None or selection.family != "build" or err == _GONE:
                return False
        elif selection is None:
            return False
        self._items.append(_Output(selection))
        return True

    def _unknown(self, out: str, err: str) -> None:
        if _OUT in (out, err):
            self._items.append(_Output(None))
        elif _PIPE in (out, err):
            raise Unclear
        elif _ERR in (out, err):
            self._whole_stderr = True

    def _set(self, argv: list[str | None]) -> None:
        if argv[0] != "set":
            return
        for at, word in enumerate(argv[1:], 1):
            if word is None:
                raise Unclear
            on = word[:1] == "-"
            if word == "pipefail" and (argv[at - 1] or "").endswith("o"):
                self._pipefail = (argv[at - 1] or "")[:1] == "-"
            elif word == "errexit" or (word[:1] in "-+" and "e" in word):
                self._errexit = on or word == "errexit"


def _narrow(output: _Output, added: Filter) -> None:
    kept = output.filter
    if kept.note and added.note:
        kept.note = b"of a part of the lines:"
        kept.limit = None
    elif added.note:
        output.filter = added


def _gives_up(stages: list[Part]) -> bool:
    """`|| exit 1`: the status stays that of a failure."""
    stage = stages[0]
    if len(stages) > 1 or not isinstance(stage, Command) or not stage.words:
        return False
    words = [word.literal for word in stage.words]
    return words[0] in _FAILING and words[1:] != ["0"] and None not in words[1:]


def _plain(segment: Segment) -> bool:
    return not (segment.before or segment.after or segment.note)


def _script(command: list[str]) -> str | None:
    """The text that a shell is given with `-c`; None where it reads anything else."""
    for at, word in enumerate(command[1:], 1):
        if word in ("--login", "--norc", "--noprofile", "--posix"):
            continue
        if word[:1] != "-" or word[:2] == "--" or set(word[1:]) - set("celu"):
            return None
        if "c" in word:
            alone = not set(word) & set("eu") and len(command) == at + 2
            return command[at + 1] if alone else None
    return None


def _redirected(sinks: Sinks, redirects: list[Redirect]) -> Sinks:
    """Where the streams go after the redirects, in their order."""
    sinks = dict(sinks)
    for redirect in redirects:
        operator = redirect.operator
        target = redirect.target.literal
        if operator in ("<", "<<", "<<-", "<<<", "<&", "<&-"):
            continue
        if operator == "<>":
            raise Unclear
        if operator in (">&", ">&-") and (target is None or target.isdecimal() or target == "-"):
            if target is None and redirect.target.parts:
                raise Unclear
            source = _GONE if target in (None, "-") else sinks.get(int(target))
            if source is None:
                raise Unclear
            sinks[1 if redirect.fd is None else redirect.fd] = source
            continue
        copied = _STANDARD.get(target or "")
        device = (target or "").startswith("/dev/") and target != "/dev/null"
        if device and copied is None:
            raise Unclear
        went = _GONE if copied is None else sinks[copied]
        if operator in ("&>", "&>>") or (operator == ">&" and redirect.fd is None):
            sinks[1] = sinks[2] = went
        elif operator in (">", ">>", ">|"):
            sinks[1 if redirect.fd is None else redirect.fd] = went
        else:
            raise Unclear
    return sinks


def _state(chains: list[Chain]) -> list[str]:
    """What the text changes or uses of the shell that runs it."""
    found: list[str] = []
    for chain in chains:
        if chain.background:
            found.append("&")
        for pipeline in chain.pipelines:
            for part in pipeline.stages:
                if isinstance(part, Opaque):
                    found.append(part.kind)
                elif isinstance(part, Group):
                    if not part.subshell:
                        found += _state(part.body)
                else:
                    found += _state_of(part)
    return found


def _state_of(command: Command) -> list[str]:
    found = [] if command.words else [text.partition("=")[0] for text in command.assigns]
    for word in command.words:
        found += [
            text
            for kind, text in word.parts
            if kind in ("value", "words") and text[:1] == "$" and text not in _EXPORTED
        ]
    name = next((w.literal for w in command.words if w.literal not in ("command", "time")), None)
    if name in _STATE:
        found.append(name or "")
    return found
