"""The command `yarp` but for its hot commands: names to modules, errors to exit statuses.

A module of commands is imported only for the command that needs it; help shows what stands
here. What YARP raises on purpose becomes one `yarp: ...` line and the error's exit status.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit, NoArgsIsHelpError

from yarp import __version__
from yarp.cli import text
from yarp.cli.whole import Unwritten, whole_streams
from yarp.errors import ConfigError, StorageError, UsageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.plugins import Plugins

# Each command with its module, the name it has there, and its line in the help.
_COMMANDS = {
    "run": ("yarp.runner", None, "Run a command; show it short, keep it whole."),
    "search": ("yarp.cli.recover", None, "Find lines in what a call printed."),
    "read": ("yarp.cli.recover", None, "Read a range of what a call printed, exactly."),
    "grep": ("yarp.cli.recover", None, "Find lines across calls."),
    "calls": ("yarp.cli.recover", None, "List recent calls."),
    "plan": ("yarp.cli.plan", "plan", "Say what would be done with a command text."),
    "rewrite": ("yarp.cli.plan", "rewrite", "Print the text that runs a command below yarp run."),
    "reduce": ("yarp.cli.reduce", None, "Shorten what another program ran; a filter."),
    "archive": ("yarp.cli.archive", "command", "Verify, measure, prune and feed the archive."),
    "receipt": (
        "yarp.cli.receipt",
        "command",
        "What was captured of a command, and what was lost.",
    ),
    "rules": ("yarp.cli.rules", "command", "List, explain, test and write rules."),
    "dataset": ("yarp.cli.dataset", "command", "Import past calls of agents; query them."),
    "stats": ("yarp.cli.stats", "command", "Tokens shown, against what the host would have shown."),
    "index": ("yarp.cli.index", "command", "Past sessions of agents as SQL."),
    "config": ("yarp.cli.config", "command", "Read and edit the configuration."),
    "hook": ("yarp.hook", None, "Serve one event of an agent; what its hooks call."),
    "plugins": ("yarp.cli.plugins", "plugins", "List the plugins, or start a new one."),
    "hooks": ("yarp.cli.plugins", "hooks", "List the hooks and who implements them."),
    "hosts": ("yarp.cli.hosts", "hosts", "List the agents whose calls can be captured."),
    "install": ("yarp.cli.hosts", "install", "Hook YARP into an agent."),
    "doctor": ("yarp.cli.doctor", "doctor", "Find what keeps calls from being captured."),
    "uninstall": ("yarp.cli.hosts", "uninstall", "Take YARP out of an agent."),
}

# Commands of the dataset that leave nothing to be done when they have answered; not those that
# work in other processes.
_DONE = ("extract", "ingest", "stats", "issues", "calls", "search", "sql")

_HELP = """Keeps every tool call exactly, shows it short, and leads back to the bytes.

Examples:

\b
  yarp run -- pytest -q            run the tests; the failures, not the noise
  yarp search REF 'FAILED|Error'   find lines in what a call printed
  yarp read REF 120:180            read those lines, exactly as they were
  yarp calls --failed              the latest calls that failed
  yarp install HOST --dry-run      what hooking into an agent would change
  yarp archive verify              prove that nothing was lost
"""


class Root(click.RichGroup):
    """Lists commands without importing them; imports one to run it.

    What plugins add is asked for where it matters: in the help, and for an unknown name. A
    command of the core cannot be replaced, since its name is looked up first.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of their use, then those of plugins."""
        own = [*_COMMANDS]
        return own + sorted(set(super().list_commands(ctx)) - set(own))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command to show in the help: only its name and its line are real."""
        if cmd_name in _COMMANDS:
            return click.RichCommand(name=cmd_name, short_help=_COMMANDS[cmd_name][2])
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help, with the commands that plugins add."""
        self._add_plugin_commands()
        super().format_help(ctx, formatter)  # type: ignore[arg-type]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run, imported now."""
        name = args[0]
        if name in _COMMANDS:
            module, attribute, _ = _COMMANDS[name]
            if attribute is None:
                # Reached the slow way, such as `yarp -- run`.
                ctx.exit(import_module(module).main(["yarp", *args]))
            command: click.Command = getattr(import_module(module), attribute)
            return name, command, args[1:]
        if not name.startswith("-"):
            self._add_plugin_commands()
        found = super().get_command(ctx, name)
        if found is None:
            import difflib  # slow to load, and needed here alone

            near = difflib.get_close_matches(name, self.list_commands(ctx), 1)
            hint = f"did you mean {near[0]}?" if near else "see: yarp --help"
            raise click.UsageError(f"there is no command {name!r}; {hint}")
        return name, found, args[1:]

    def _add_plugin_commands(self) -> None:
        plugins = _plugins()
        problems = plugins.commands(self)
        text.report(plugins.problems + problems)


def _plugins() -> Plugins:
    from yarp.plugins import Plugins
    from yarp.settings import Settings

    try:
        return Plugins.load()
    except ConfigError as error:
        # A broken configuration must not take away the help that tells how to mend it.
        text.report([str(error)])
        return Plugins.load(Settings())


@click.command(
    cls=Root,
    help=_HELP,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "rich_help_config": {"text_paragraph_linebreaks": "\n\n"},
    },
    invoke_without_command=True,
)
@click.version_option(__version__, message="yarp %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:  # noqa: D103 - its help stands in _HELP
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: list[str]) -> int:
    """Run the command line `argv` (program name first) and return its exit status."""
    status = run(root, "yarp", argv[1:])
    return leave(status, argv[2:3]) if argv is sys.argv and argv[1:2] == ["dataset"] else status


def leave(status: int, words: list[str]) -> int:
    """End the process of a command of the dataset, if all that it did is done; else its status.

    To close the interpreter takes a tenth of an import that finds nothing new.
    """
    if not words or words[0] not in _DONE:
        return status
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(status)


def run(command: click.Command, name: str, words: list[str]) -> int:
    """Run a command that users know by `name` and return its exit status."""
    return written(name, lambda: _run(command, name, words))


def written(name: str, work: Callable[[], int], unwritable: int = StorageError.exit_code) -> int:
    """The exit status of `work`, or what became of the answer that it wrote."""
    with whole_streams():
        return _written(name, work, unwritable)


def _written(name: str, work: Callable[[], int], unwritable: int) -> int:
    try:
        status = work()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away, as `head` does
        status = 141
    except KeyboardInterrupt:
        status = 130
    except OSError as error:
        text.report([f"standard output cannot be written: {error.strerror}"], name)
        status = unwritable
    else:
        return status
    # Nothing more can be said on this descriptor, and Python would try.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def invoke(command: click.Command, name: str, words: list[str]) -> None:
    """Run a command, and raise what it raises.

    Of an interrupt that is KeyboardInterrupt, also where a library made an error of its own of
    it, as DuckDB does.
    """
    came = False

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        with command.make_context(name, words) as ctx:
            command.invoke(ctx)
    except Exception:
        if came:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _run(command: click.Command, name: str, words: list[str]) -> int:
    try:
        invoke(command, name, words)
    except Exit as ended:
        return ended.exit_code
    except NoArgsIsHelpError as bare:
        click.echo(bare.message)
        return 0
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else name
        message = error.format_message()
        hint = "" if "; " in message else f" See: {where} --help"
        text.report([message + hint], name)
        return UsageError.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        text.report([error.format_message()], name)
        return YarpError.exit_code
    except YarpError as error:
        text.report([str(error)], name)
        return error.exit_code
    except (BrokenPipeError, Unwritten):
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        text.report([f"{where}{error.strerror or error}"], name)
        return StorageError.exit_code
    except Exception as error:  # noqa: BLE001 - a fault of ours: its trace is what a report needs
        traceback.print_exc()
        text.report([f"this is a fault of YARP ({type(error).__name__}); please report it"], name)
        return YarpError.exit_code
    return 0
