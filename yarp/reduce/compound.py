"""The plan of a text with operators, redirects, expansions or a shell inside.

Follows each command's standard output and error to where they end. Whatever cannot be followed
leaves the output exact. Source: spec Reduction, Shell text.
"""

from __future__ import annotations

from yarp.reduce.commands import (
    COUNT,
    FILTERS,
    FIRST_STATUS,
    ONE_LINE_OR_NONE,
    STATUS,
    Unclear,
    argument,
    complaints,
    counts,
    executed,
    filtered,
    handed_on,
    lines,
    silent,
)
from yarp.reduce.outputs import Output, segments_of
from yarp.reduce.plan import SHELLS, Line, Plan, Segment, Shape
from yarp.reduce.rules.match import Selection, launched, select
from yarp.reduce.sinks import ERR, GONE, OUT, PIPE, redirected
from yarp.shell.parse import parse
from yarp.shell.quoting import RECOVERY
from yarp.shell.state import kept_state
from yarp.shell.syntax import Command, Group, Opaque, Pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.rules.match import Compiled
    from yarp.reduce.sinks import Sinks
    from yarp.shell.syntax import Chain, Part, Word

_MAX_SHELLS = 3  # bash -c 'bash -c "..."'
# Their output is read by what stands behind them, and their errors are none.
_FEEDERS = frozenset(("yes", "echo", "printf", "true", ":"))
_SHELL_SAYS = (b"bash: ", b"/bin/bash: ", b"sh: ", b"/bin/sh: ")


def read(text: str, rules: Compiled) -> Plan:
    """The plan for any text; an exact one for what is not understood."""
    chains = parse(text)
    if chains is None:
        return Plan(state=("?",))
    state = kept_state(chains)
    reader = _Reader(rules)
    try:
        reader.chains(chains, {1: OUT, 2: ERR})
        return reader.plan(state)
    except Unclear:
        return Plan(state=state)


class _Reader:
    """Walks through a text and notes what is printed, in order."""

    def __init__(self, rules: Compiled) -> None:
        self._rules = rules
        self._items: list[Output | Line] = []
        self._diagnostics: dict[bytes, None] = {}
        self._whole_stderr = False
        self._conditional = False
        self._pipefail = False
        self._errexit = False
        # Whether what is being read may not run, and whether what follows runs only after it.
        self._optional = False
        self._relied = False
        # Whether something looks at how it ends: then `set -e` does not end the shell.
        self._looked_at = False
        self._pushed = False
        # What now expands to the exit status of the last output.
        self._told: frozenset[str] = frozenset()
        self._shells = 0

    def plan(self, state: tuple[str, ...]) -> Plan:
        """What the items make together."""
        outputs = [item for item in self._items if isinstance(item, Output)]
        recovery = bool(outputs) and all(output.recovery for output in outputs)
        if recovery or not any(output.selection for output in outputs):
            return Plan(recovery=recovery, state=state)
        segments = segments_of(self._items)
        if len(segments) > 1:
            self._whole_stderr = True
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

    # -- how commands follow one another --------------------------------------------------------

    def chains(self, chains: list[Chain], sinks: Sinks) -> None:
        """Read a script whose output goes to `sinks`."""
        outside = self._looked_at
        for chain in chains:
            if chain.background:
                raise Unclear
            before = self._outputs()
            self._forget([one for one in before if one.shielded or not self._errexit])
            joins = [pipeline.join for pipeline in chain.pipelines[1:]]
            for pipeline, follows in zip(chain.pipelines, [*joins, ""], strict=True):
                self._looked_at = outside or bool(follows) or pipeline.negated
                self._relied = follows == "&&" or (self._errexit and not self._looked_at)
                earlier = self._outputs()
                self._pipeline(pipeline, sinks, earlier[len(before) :])
                self._looked_at = outside or bool(follows) or pipeline.negated
                for one in self._outputs()[len(earlier) :]:
                    one.shielded = one.shielded or self._looked_at
        self._looked_at = outside

    def _outputs(self) -> list[Output]:
        return [item for item in self._items if isinstance(item, Output)]

    def _forget(self, outputs: list[Output]) -> None:
        for output in outputs:
            output.known = False

    def _pipeline(self, pipeline: Pipeline, sinks: Sinks, earlier: list[Output]) -> None:
        stages = pipeline.stages
        if pipeline.join == "||" and not _gives_up(stages):
            if earlier:
                self._conditional = True
            self._forget(earlier)
        optional = bool(pipeline.join) or self._errexit or self._optional
        options = self._pipefail, self._errexit
        told = self._told
        at = len(self._items)
        if len(stages) == 1:
            self._part(stages[0], sinks, optional=optional)
        else:
            self._piped(pipeline, sinks, optional=optional)
        new = [item for item in self._items[at:] if isinstance(item, Output)]
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

    def _piped(self, pipeline: Pipeline, sinks: Sinks, *, optional: bool) -> None:
        """Find the stage whose output comes out at the end, filtered or not."""
        stages = pipeline.stages
        last = len(stages) - 1
        where: list[Sinks] = []
        for index, stage in enumerate(stages):
            self._expanded(stage, sinks)
            here = {**sinks, 1: PIPE} if index < last else sinks
            here = redirected(here, stage.redirects)
            if pipeline.both[index]:
                here[2] = here[1]
            where.append(here)
        if where[last][1] not in (OUT, PIPE):
            # Nothing but errors is read of it.
            for stage, here in zip(stages, where, strict=True):
                self._consumed(stage, here)
            return
        if self._counted(stages, where, optional=optional):
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
        produced = len(self._items)
        if where[at][1] not in (PIPE, OUT):
            raise Unclear
        handed = self._handed(stages[at]) if at else None
        if handed is not None:
            for stage, here in zip(stages[:at], where[:at], strict=True):
                self._complains(stage, here)
            self._diagnostics[b"xargs: "] = None
            if not self._typed(handed, {**where[at], 1: OUT}, optional=False):
                raise Unclear
        else:
            for stage, here in zip(stages[:at], where[:at], strict=True):
                self._feeds(stage, here)
            self._part(stages[at], {**where[at], 1: OUT}, optional=False, followed=True)
        new = self._items[produced:]
        if len(new) != 1 or not isinstance(new[0], Output):
            raise Unclear
        output = new[0]
        output.first = at == 0 and isinstance(stages[0], Command)
        for name, words in filters:
            if output.selection is not None:
                output.narrow(filtered(name, words, output.selection))
            elif output.recovery and name in ("sed", "tee"):
                raise Unclear
        searched = output.selection is not None and output.selection.family == "search"
        if at and handed is None and searched:
            # It searched what was piped in: its lines name no files.
            raise Unclear

    def _counted(self, stages: list[Part], where: list[Sinks], *, optional: bool) -> bool:
        """Whether the pipeline ends in `wc -l`, which prints one line for all that it reads."""
        last = stages[-1]
        if not isinstance(last, Command) or not counts(self._words(last)[1]):
            return False
        if where[-1][1] != OUT:
            raise Unclear
        before = len(self._items)
        for stage, here in zip(stages[:-1], where[:-1], strict=True):
            self._consumed(stage, here)
        if len(self._items) > before:
            raise Unclear
        self._items.append(Line((b"", b""), status="", optional=optional, starts=COUNT))
        return True

    def _handed(self, stage: Part) -> list[str] | None:
        """The search that `xargs` starts with the names it reads."""
        if not isinstance(stage, Command):
            return None
        words = self._words(stage)[1]
        known = [word for word in words if word is not None]
        return handed_on(known) if len(known) == len(words) else None

    def _complains(self, stage: Part, sinks: Sinks) -> None:
        """A stage before `xargs`: nothing of it is seen but complaints, known by their start."""
        found = complaints(self._words(stage)[1]) if isinstance(stage, Command) else ()
        if sinks[2] != GONE:
            if not found or sinks[2] != ERR:
                raise Unclear
            self._diagnostics.update(dict.fromkeys(found))

    def _feeds(self, stage: Part, sinks: Sinks) -> None:
        if isinstance(stage, Command):
            name, _, _ = self._words(stage)
            if name in _FEEDERS or (name is not None and sinks[2] == GONE):
                return
        raise Unclear

    def _consumed(self, stage: Part, sinks: Sinks) -> None:
        """A stage whose standard output nobody sees."""
        if not isinstance(stage, Command):
            raise Unclear
        out = GONE if sinks[1] == PIPE else sinks[1]
        self._command(stage, {**sinks, 1: out}, optional=True)

    # -- one command ----------------------------------------------------------------------------

    def _part(self, part: Part, sinks: Sinks, *, optional: bool, followed: bool = False) -> None:
        if not followed:
            self._expanded(part, sinks)
            sinks = redirected(sinks, part.redirects)
        if isinstance(part, Opaque):
            raise Unclear
        if isinstance(part, Group):
            self._inside(part.body, sinks, apart=part.subshell, optional=optional)
        else:
            self._command(part, sinks, optional=optional)

    def _expanded(self, part: Part, sinks: Sinks) -> None:
        """A `$( )` runs before the redirects of its command: its errors are not in them."""
        if not isinstance(part, Command) or not part.starts_others or sinks[2] == GONE:
            return
        if sinks[2] != ERR:
            raise Unclear
        self._whole_stderr = True

    def _inside(self, body: list[Chain], sinks: Sinks, *, apart: bool, optional: bool) -> None:
        kept = self._pipefail, self._errexit
        self._told = frozenset()
        outside, self._optional = self._optional, optional
        self.chains(body, sinks)
        self._optional = outside
        if apart:
            self._pipefail, self._errexit = kept

    def _words(self, command: Command) -> tuple[str | None, list[str | None], list[Word]]:
        """The program, what a rule sees of its words, and the words; prefixes taken away."""
        words = command.words
        while words and words[0].literal in ("command", "builtin", "exec", "time", "\\"):
            if len(words) == 3 and words[0].literal == "command" and words[1].literal == "-v":
                break
            if words[0].literal == "time":
                self._diagnostics.update(dict.fromkeys((b"real\t", b"user\t", b"sys\t")))
            words = words[1:]
            if words and (words[0].literal or "-")[:1] == "-":
                if words[0].literal != "-p":
                    raise Unclear
                words = words[1:]
        if command.words and not words:
            raise Unclear  # `exec > log` is about all that follows
        argv = [argument(word) for word in words]
        name = words[0].literal if words else None
        if name is None and argv and argv[0] and argv[0][:1] in "~/":
            # A program below the home directory.
            name = None if {*argv[0]} & {*"*?[{"} else argv[0]
        return name, argv, words

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
        relied = self._relied or out == GONE or (name == "popd" and self._pushed)
        if name in ONE_LINE_OR_NONE:
            self._pushed = self._pushed or (name == "pushd" and relied)
            self._diagnostics.update(dict.fromkeys((name.encode() + b": ", *_SHELL_SAYS)))
        printed = lines(name, words, optional=optional, relied=relied)
        if printed is not None:
            self._print(printed, out)
            return
        known = [word for word in argv if word is not None]
        if len(known) == len(argv) and self._typed(known, sinks, optional=optional):
            return
        if name in FILTERS and out == GONE:
            self._diagnostics[name.encode() + b": "] = None
        else:
            self._unknown(out, err)

    def _print(self, printed: list[Line], out: str) -> None:
        if out == OUT:
            self._items += printed
        elif out == ERR:
            for line in printed:
                if not line.texts[0]:
                    raise Unclear
                self._diagnostics[line.texts[0]] = None
        elif out != GONE:
            raise Unclear

    def _typed(self, argv: list[str], sinks: Sinks, *, optional: bool) -> bool:
        """Note the output of a command that something is known of; False for any other one."""
        out, err = sinks[1], sinks[2]
        program, command = launched(argv, self._rules)
        if program in SHELLS:
            return self._shell(command, sinks, optional=optional)
        if program == "find" and (inner := executed(command)) is not None:
            before = self._outputs()
            if not self._typed(inner, sinks, optional=optional):
                return False
            self._diagnostics[b"find: "] = None
            # The status is that of `find`.
            self._forget(self._outputs()[len(before) :])
            return True
        if program == "yarp" and out == OUT and command[1:2] and command[1] in RECOVERY:
            self._items.append(Output(None, recovery=True))
            return True
        selection = select(argv, self._rules)
        if out != OUT:
            if selection is None or selection.family != "build" or err == GONE:
                return False
        elif selection is None:
            return False
        self._items.append(Output(selection))
        return True

    def _shell(self, command: list[str], sinks: Sinks, *, optional: bool) -> bool:
        """Read the text that a shell is given; False where it is none or cannot be read."""
        text, options = _script(command)
        chains = None if text is None or self._shells == _MAX_SHELLS else parse(text)
        if chains is None:
            return False
        self._shells += 1
        kept = self._pipefail, self._errexit, self._looked_at, self._pushed
        self._pipefail, self._errexit = "pipefail" in options, "e" in options
        self._looked_at = self._pushed = False
        self._inside(chains, sinks, apart=False, optional=optional)
        self._pipefail, self._errexit, self._looked_at, self._pushed = kept
        self._shells -= 1
        return True

    def _unknown(self, out: str, err: str) -> None:
        if OUT in (out, err):
            self._items.append(Output(None))
        elif PIPE in (out, err):
            raise Unclear
        elif ERR in (out, err):
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


def _gives_up(stages: list[Part], *, first: bool = True) -> bool:
    """`|| exit 1`: the status stays that of a failure. `first`: it is the next thing that runs."""
    stage = stages[0]
    if len(stages) > 1 or stage.redirects:
        return False
    if isinstance(stage, Group):
        last = stage.body[-1] if stage.body else None
        if last is None or last.background or len(last.pipelines) > 1 or last.pipelines[0].negated:
            return False
        return _gives_up(last.pipelines[0].stages, first=first and len(stage.body) == 1)
    if not isinstance(stage, Command) or not stage.words:
        return False
    if stage.words[0].literal == "false":
        return True
    if stage.words[0].literal not in ("exit", "return"):
        return False
    after = stage.words[1:]
    if not after or (len(after) == 1 and after[0].parts[0][1] == "$?" and len(after[0].parts) == 1):
        return first
    number = after[0].literal or ""
    return len(after) == 1 and number.isdecimal() and int(number) % 256 != 0


def _plain(segment: Segment) -> bool:
    return not (segment.before or segment.after or segment.note)


def _script(command: list[str]) -> tuple[str | None, set[str]]:
    """The text that a shell is given with `-c`, None where it reads anything else; its options."""
    options: set[str] = set()
    given = False
    words = iter(command[1:])
    for word in words:
        if word in ("--login", "--norc", "--noprofile", "--posix"):
            continue
        if word[:1] != "-" or word == "--":
            text = next(words, None) if word == "--" else word
            # More words are `$0`, `$1` and so on of the text.
            return (text if given and next(words, None) is None else None), options
        if not set(word[1:]) <= set("celuo"):
            return None, options
        given = given or "c" in word
        options.update(word[1:])
        if "o" in word:
            options.add(next(words, ""))
    return None, options
