"""`yarp rewrite` and `yarp plan`: what YARP would do with a command text, without running it."""

from __future__ import annotations

import json
import sys

import rich_click as click
from click.exceptions import Exit

from yarp.cli import text
from yarp.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from yarp.cache import Compiled

_NOT_WRAPPED = 3
_IDS = ("agent", "account", "session", "call")


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for name in reversed(_IDS):
        function = click.option(
            f"--archive-{name}",
            name,
            metavar="ID",
            help=f"The {name} of a host's call; all four or none.",
        )(function)
    shell = click.option(
        "--shell-program", metavar="PATH", help="The shell for the text; a host's own is known."
    )
    return shell(click.argument("command")(function))


class _Decision:
    """What happens to a text: `wrapped` is the text to run instead, or None."""

    def __init__(self, command: str, shell: str | None, ids: dict[str, str | None]) -> None:
        from yarp import cache
        from yarp.reduce.plan import plan

        self.compiled = cache.load()
        self.command = command
        self.recovery = False
        self.wrapped: str | None = None
        given = [value for value in ids.values() if value]
        if len(given) not in (0, len(_IDS)):
            raise UsageError("a host's call needs all four --archive-* values")
        if given and shell is not None:
            raise UsageError(
                "--shell-program goes without --archive-*: a host's own shell is known"
            )
        if given:
            self._as_host(self.compiled, *given)
            return
        from yarp.capture import rewrite

        planned = plan(command, self.compiled.rules)
        self.recovery = planned.recovery
        self.wrapped = rewrite(
            command, planned, self.compiled.settings, _program(), shell, call=None
        )

    def _as_host(
        self, compiled: Compiled, agent: str, account: str, session: str, call: str
    ) -> None:
        from yarp.archive.write import SessionKey
        from yarp.capture import Capture

        tools = compiled.host(agent)["shell_tools"]
        if not tools:
            return
        tool, key = next(iter(tools.items()))
        found = Capture(compiled, _program()).plan(
            SessionKey(agent, account, session), call, tool, {key: self.command}, None
        )
        self.recovery = found.recovery
        if found.input is not None:
            self.wrapped = str(found.input[key])


@click.command()
@_options
@text.shows("yarp rewrite 'cd web && npm test 2>&1 | tail -50'")
def rewrite(command: str, shell_program: str | None, **ids: str | None) -> None:
    """Print the text that runs COMMAND below `yarp run`, without a newline at its end.

    Prints nothing and ends with 3 when COMMAND is to be run as it is.
    """
    decision = _Decision(command, shell_program, ids)
    if decision.wrapped is None:
        raise Exit(_NOT_WRAPPED)
    sys.stdout.buffer.write(decision.wrapped.encode("utf-8", "surrogateescape"))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One line of JSON, for programs.")
@_options
@text.shows("yarp plan 'pytest 2>&1 | tail -50; echo $?'", "yarp plan --json 'git status'")
def plan(command: str, shell_program: str | None, *, as_json: bool, **ids: str | None) -> None:
    """Say what YARP would do with COMMAND, and whose its output is. Runs nothing."""
    decision = _Decision(command, shell_program, ids)
    if as_json:
        execution: dict[str, str] = {"kind": "original"}
        if decision.wrapped is not None:
            execution = {"kind": "rewrite", "command": decision.wrapped}
        result = {"kind": "recovery" if decision.recovery else "ordinary"}
        click.echo(json.dumps({"version": 1, "execution": execution, "result": result}))
        return
    click.echo(f"execution: {'original' if decision.wrapped is None else 'rewrite'}")
    for line in _described(decision.compiled.rules, command):
        click.echo(line)


def _described(rules: dict[str, Any], command: str) -> list[str]:
    from yarp.reduce.plan import plan as planned

    found = planned(command, rules)
    if found.recovery:
        return ["output:    an answer of YARP's own, shown whole"]
    if found.selection is None:
        return ["output:    exact"]
    told = {
        "complete": "its own",
        "final": "that of a later command",
        "conditional": "changed by || or !",
    }
    lines = []
    if found.shape is None:
        lines.append(f"output:    {found.selection.pack}/{found.selection.rule}")
    else:
        for segment in found.shape.segments:
            rule = segment.selection
            name = "exact" if rule is None else f"{rule.pack}/{rule.rule}"
            note = f", {segment.note.decode().rstrip(':')}" if segment.note else ""
            lines.append(f"output:    {name}{note}")
    lines.append(f"status:    {told[found.confidence]}")
    if found.state:
        lines.append(f"state:     {' '.join(found.state)}")
    return lines


def _program() -> tuple[str, ...]:
    from yarp import paths

    return paths.program(sys.argv[0])
