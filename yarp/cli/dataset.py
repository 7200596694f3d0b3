"""`yarp dataset`, which is also the command `toolcall-extractor`: imports and what they gave."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import rich_click as click

from yarp.cli import text
from yarp.errors import FrameError, StorageError, UsageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from yarp.dataset.database import Dataset
    from yarp.dataset.indexing import Indexing
    from yarp.dataset.run import Report
    from yarp.plugins import Plugins
    from yarp.sources.importers import Importer

    Source = tuple[Importer, dict[str, str]]

_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 0.2
_LINE_EVERY_S = 5.0

# Commands that stand in modules of their own, imported when they are run.
_ELSEWHERE = {
    "sql": ("yarp.cli.dataset_queries", "sql"),
    "calls": ("yarp.cli.dataset_queries", "calls"),
    "search": ("yarp.cli.dataset_queries", "search"),
    "export": ("yarp.cli.dataset_queries", "export"),
    "benchmark": ("yarp.cli.dataset_census", "benchmark"),
    "analyze-ceiling": ("yarp.cli.dataset_census", "analyze_ceiling"),
}
# Another name that the seed has for one.
_ALIASES = {"benchmark-yarp": "benchmark"}

# The agent under which YARP's own archive is imported.
OWN = "yarp"

_SOURCES = "AGENT --SOURCE PATH... [AGENT ...]..."

database_option = click.option(
    "--database",
    metavar="FILE",
    help="The dataset; by default ~/.local/share/toolcall-extractor/toolcalls.duckdb.",
)
user_option = click.option(
    "--unix-user",
    required=True,
    metavar="NAME",
    help="Whose calls these are; always said, never guessed.",
)


class _Dataset(click.RichGroup):
    """Its own commands, then those of other modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = _ALIASES.get(cmd_name, cmd_name)
        if cmd_name in _ELSEWHERE:
            module, attribute = _ELSEWHERE[cmd_name]
            found: click.Command = getattr(import_module(module), attribute)
            return found
        return super().get_command(ctx, cmd_name)


class _Sources(click.RichGroup):
    """One command for each importer that a plugin brings, with the options of its roots."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted({OWN, *_plugins(None).importers()})

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's own signature
        cmd_name: str,
    ) -> click.Command | None:
        importer = _importer(cmd_name)
        if importer is None:
            return None
        options: list[click.Parameter] = [
            click.Option(
                [f"--{option.flag}"],
                metavar="DIR" if option.kind == "directory" else "FILE",
                required=option.required,
                help=_said(option.help, option.default),
            )
            for option in importer.options
        ]
        names = {
            str(one.name): option.flag
            for one, option in zip(options, importer.options, strict=True)
        }

        def callback(**values: str | None) -> tuple[Importer, dict[str, str]]:
            return importer, {
                names[name]: path for name, path in values.items() if path is not None
            }

        return click.RichCommand(
            name=cmd_name,
            params=options,
            callback=callback,
            help=f"Read the store of {cmd_name}.",
        )


def _said(help_text: str, default: str | None) -> str:
    sentence = f"{help_text.rstrip('.')}."
    return f"{sentence} Usually ~/{default}." if default else sentence


def _plugins(name: str | None) -> Plugins:
    """The plugin of that name alone, if the compiled cache knows it; else all."""
    from yarp import cache
    from yarp.plugins import Entry, Plugins

    compiled = cache.load()
    if name is not None and name in compiled.plugins:
        entry = Entry(name, compiled.plugins[name], "installed", "")
        return Plugins([entry], compiled.settings)
    plugins = Plugins.load(compiled.settings)
    text.report(plugins.problems)
    return plugins


def _importer(agent: str) -> Importer | None:
    if agent == OWN:
        from yarp.past import importer

        return importer()
    found = _plugins(agent).importers().get(agent)
    return found or _plugins(None).importers().get(agent)


@click.group("dataset", cls=_Dataset)
@text.shows(
    "yarp dataset extract --unix-user ann acme --sessions ~/.acme/sessions",
    "yarp dataset stats",
    "yarp dataset issues",
    "yarp dataset verify",
)
def command() -> None:
    """Import past calls from the stores of agents into one private DuckDB file.

    Sources are read and never changed; nothing leaves this machine. What a tool was given and
    what it printed is kept exactly, so the file may hold secrets: only its owner can read it.
    """


@command.group(cls=_Sources, chain=True, subcommand_metavar=_SOURCES)
@user_option
@database_option
@text.json_option
@text.shows(
    "yarp dataset extract --unix-user ann acme --sessions ~/.acme/sessions",
    "yarp dataset extract --unix-user ann acme --sessions ~/.acme/sessions other --logs ~/logs",
)
def extract(unix_user: str, database: str | None, as_json: bool) -> None:
    """Import the calls of one Unix user, of one agent or of several, one behind the other.

    Run it again to add what is new: unchanged files are passed over. What one source cannot
    give does not keep the next from being read; the exit status is that of the first failure.
    """


@extract.result_callback()
def _extract(sources: list[Source], unix_user: str, database: str | None, as_json: bool) -> None:
    from yarp.dataset import extract as engine
    from yarp.dataset.database import Dataset
    from yarp.dataset.indexing import Indexing

    for importer, roots in sources:
        engine.check_roots(importer, roots)
    runs: list[Report | Failure] = []
    with (
        _told_when_interrupted(),
        Dataset.write(database) as dataset,
        Indexing(dataset) as indexing,
    ):
        progress = Progress()
        for importer, roots in sources:
            try:
                runs.append(engine.extract(dataset, importer, unix_user, roots, progress, indexing))
            except YarpError as error:
                runs.append(Failure(importer.agent, error))
            progress.done()
        _finish(indexing, runs, progress)
    _print_runs(runs, as_json=as_json)


@command.group(cls=_Sources, chain=True, subcommand_metavar=_SOURCES)
@user_option
@text.shows(
    "sudo -u bob yarp dataset stream --unix-user bob acme --sessions /home/bob/.acme/sessions \\",
    "  | yarp dataset ingest --unix-user bob",
)
def stream(unix_user: str) -> None:
    """Write what stores say to standard output, for `ingest` of another user.

    Needs no dataset and leaves none: run it as the user whose stores they are.
    """


@stream.result_callback()
def _stream(sources: list[Source], unix_user: str) -> None:
    from yarp.cli.whole import Whole
    from yarp.dataset import extract as engine
    from yarp.dataset import framing
    from yarp.foreign import foreign

    if sys.stdout.isatty():
        raise UsageError("standard output is a terminal; pipe it into yarp dataset ingest")
    checked = [(importer, engine.check_roots(importer, roots)) for importer, roots in sources]
    sys.stdout.flush()
    # What an importer prints must not get between the frames.
    answer = Whole(os.dup(1), own=True)
    with io.BufferedWriter(answer) as out, foreign():
        for importer, roots in checked:
            framing.stream(importer, unix_user, roots, out.write)


@command.command()
@user_option
@click.option("--agent", metavar="NAME", help="Refuse a stream of any other agent.")
@database_option
@text.json_option
@text.shows("ssh host yarp dataset stream ... | yarp dataset ingest --unix-user bob")
def ingest(unix_user: str, agent: str | None, database: str | None, as_json: bool) -> None:
    """Take a stream from standard input into the dataset, as belonging to one Unix user.

    A source counts once it has come whole; a broken stream loses the open one alone.
    """
    from yarp.dataset import framing
    from yarp.dataset import ingest as engine
    from yarp.dataset.database import Dataset
    from yarp.dataset.indexing import Indexing

    runs: list[Report | Failure] = []
    with (
        _told_when_interrupted(),
        Dataset.write(database) as dataset,
        Indexing(dataset) as indexing,
    ):
        progress = Progress()
        frames = framing.frames(sys.stdin.buffer)
        try:
            runs.extend(
                engine.ingest(
                    dataset, unix_user, frames, agent=agent, progress=progress, indexing=indexing
                )
            )
        except FrameError as error:
            if not runs:
                raise
            runs.append(Failure(None, error))
        progress.done()
        _finish(indexing, runs, progress)
    _print_runs(runs, as_json=as_json)


@contextmanager
def _told_when_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        text.report(["interrupted; what was committed stays, and the next run goes on from there"])
        raise


class Failure:
    """A source whose run came to no end, and why."""

    def __init__(self, agent: str | None, error: YarpError) -> None:
        self.agent = agent
        self.error = error


def _finish(indexing: Indexing, runs: Sequence[Report | Failure], progress: Progress) -> None:
    """Bring the text index up to date with what runs have changed."""
    written = [run.written for run in runs if not isinstance(run, Failure)]
    if any(each.items or each.dropped for each in written):
        try:
            indexing.finish(progress.index)
        except StorageError as error:
            progress.done()
            text.report([f"the text index is not up to date: {error}"])
        progress.done()


def _print_runs(runs: Sequence[Report | Failure], *, as_json: bool) -> None:
    """Say what the runs did; of several, each with its agent. Raises the first failure."""
    failures = [run for run in runs if isinstance(run, Failure)]
    if as_json and (len(runs) > 1 or not failures):
        import attrs

        said = [
            {"agent": run.agent, "error": str(run.error)}
            if isinstance(run, Failure)
            else attrs.asdict(run)
            for run in runs
        ]
        text.print_json(said if len(said) > 1 else said[0])
    if not as_json:
        for run in runs:
            if not isinstance(run, Failure):
                _print_report(run, name=f"{run.agent}: " if len(runs) > 1 else "")
        if any(run.issues for run in runs if not isinstance(run, Failure)):
            click.echo("See: yarp dataset issues")
    for failure in failures[1:]:
        text.report([str(failure.error)])
    if failures:
        raise failures[0].error


def _print_report(report: Report, *, name: str) -> None:
    written, name = report.written, text.printable(name)
    click.echo(
        f"{name}{report.found} source{'' if report.found == 1 else 's'}: "
        f"{written.items} read, {report.unchanged} unchanged, "
        f"{written.touched} touched but equal, {written.rejected} rejected, "
        f"{report.vanished} newly gone"
    )
    dropped = f", {written.dropped} that no source shows any more dropped"
    click.echo(
        f"{name}{written.calls} new calls, {written.results} new results"
        f"{dropped if written.dropped else ''}"
    )


class Progress:
    """Says on stderr how far a run has come, once it takes long enough to wonder."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = self._start + _PROGRESS_AFTER_S
        self._live = sys.stderr.isatty()
        self._shown = False

    def __call__(self, done: int, all_items: int) -> None:
        """Take note that so many of the items are done."""
        of = f" of {all_items}" if all_items else ""
        self._say(f"{done}{of} sources")

    def index(self, byte_count: int) -> None:
        """Take note that the index has so many bytes of texts more."""
        self._say(f"text index: {byte_count // 1_000_000:,} MB")

    def _say(self, what: str) -> None:
        now = time.monotonic()
        every = _PROGRESS_EVERY_S if self._live else _LINE_EVERY_S
        if now - self._last < every:
            return
        self._last = now
        self._shown = True
        said = f"{what}, {now - self._start:.0f} s"
        sys.stderr.write(f"\r\x1b[K{said}" if self._live else f"{said}\n")
        sys.stderr.flush()

    def done(self) -> None:
        """Take away what stands there."""
        if self._shown and self._live:
            sys.stderr.write("\r\x1b[K")


def reading(database: str | None) -> Dataset:
    """The dataset, open to be read."""
    from yarp.dataset.database import Dataset

    return Dataset.read(database)


@command.command()
@database_option
@text.json_option
@text.shows("yarp dataset stats", "yarp dataset stats --json")
def stats(database: str | None, as_json: bool) -> None:
    """Say how much the dataset holds, without a word of it."""
    from yarp.dataset import report

    with reading(database) as dataset:
        found = report.stats(dataset)
    if as_json:
        text.print_json(found)
        return
    columns = ("agent", "unix_user", "sessions", "tool_calls", "tool_results", "errors")
    header = ("AGENT", "USER", "SESSIONS", "CALLS", "RESULTS", "ERRORS")
    rows = [[f"{row[name]}" for name in columns] for row in found["by_agent"]]
    click.echo(text.table(header, rows))
    for name, value in found.items():
        if isinstance(value, int):
            click.echo(f"{name.replace('_', ' ')}: {value:,}")


@command.command()
@database_option
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="At most.")
@text.json_option
@text.shows("yarp dataset issues", "yarp dataset issues --json")
def issues(database: str | None, limit: int, as_json: bool) -> None:
    """List what could not be read or paired: places and counts, no content."""
    from yarp.dataset import report

    with reading(database) as dataset:
        found = report.issues(dataset, limit)
        more = report.issue_count(dataset) - len(found) if len(found) == limit else 0
    if as_json:
        text.print_json({"issues": found, "more": more})
    else:
        for issue in found:
            place = "".join(
                f"{mark}{issue[name]}"
                for name, mark in (("line", ":"), ("sqlite_blob_id", " blob "))
                if issue[name] is not None
            )
            times = f" ({issue['occurrences']} times)" if issue["occurrences"] > 1 else ""
            what = f"{issue['severity']} {issue['code']}{times}: {issue['message']}"
            where = f"{issue['source'] or issue['agent']}{place}"
            click.echo(f"{text.printable(what)}\n  {text.printable(where)}")
        if not found:
            click.echo("no issues")
    if more:
        text.report([f"{more:,} more issues are not listed; see --limit"])


@command.command()
@database_option
@text.json_option
@click.pass_context
@text.shows("yarp dataset verify", "yarp dataset verify --json")
def verify(ctx: click.Context, database: str | None, as_json: bool) -> None:
    """Check schema, relationships, digests, checkpoints, permissions and size.

    Exit status 0: all hold. 65: something does not.
    """
    from yarp.dataset import report

    with reading(database) as dataset:
        found = report.verify(dataset)
    if as_json:
        text.print_json(found)
    else:
        for name, value in found.items():
            shown = text.known(value) if isinstance(value, bool) else value
            click.echo(f"{name.replace('_', ' ')}: {shown}")
    if not found["valid"]:
        ctx.exit(65)


def main() -> int:
    """Run `toolcall-extractor`."""
    from yarp.cli import root

    status = root.run(command, "toolcall-extractor", sys.argv[1:])
    return root.leave(status, sys.argv[1:2])
