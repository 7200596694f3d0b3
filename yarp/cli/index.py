"""`yarp index` and the console script `trace-index`: past sessions as SQL.

Both have the same commands; the script groups them as the original does, and exits with 2 for
words that are off and 1 for all that fails. Each prints one line `{"data": ...}`.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import orjson
import rich_click as click
from click.exceptions import Exit, NoArgsIsHelpError

from yarp.cli import root
from yarp.cli.asked import asset, metadata, query, record
from yarp.cli.indexed import configured, given, keep, places, say
from yarp.cli.text import report, shows
from yarp.cli.whole import Unwritten
from yarp.errors import ConfigError, UsageError, YarpError
from yarp.index import config as configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.index.reader import TraceReader
    from yarp.index.report import Report


_LIMIT = click.IntRange(1, configuration.MOST_LIMIT_BYTES)


def _readers() -> dict[str, TraceReader]:
    from yarp.plugins import Plugins

    plugins = Plugins.load()
    found = plugins.trace_readers()
    report(plugins.problems)
    return found


@click.group()
@places
@click.pass_context
@shows(
    "yarp index config init --discover",
    "yarp index sync",
    "yarp index docs get queries",
    'yarp index query run "SELECT count(*) AS n FROM items"',
)
def command(
    ctx: click.Context, config: str | None, db: str | None, metadata_db: str | None
) -> None:
    """Past sessions of agents as SQL: requests, calls, outputs, answers, with their witnesses."""
    keep(ctx, config, db, metadata_db)


# Syncing


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--rebuild", is_flag=True, help="Read everything anew, and drop unused texts.")
@click.option("--verify", is_flag=True, help="Compare every line that was indexed before.")
@click.option("--max-record-bytes", type=_LIMIT, help="Of a new database's records.")
@click.option("--max-text-bytes", type=_LIMIT, help="Of a new database's texts.")
@click.option("--include-sources", is_flag=True, help="Report every file, not just exceptions.")
@click.option(
    "--progress",
    "shown",
    type=click.Choice(["auto", "human", "ndjson", "off"]),
    default="auto",
    help="Progress on stderr.",
)
@shows("yarp index sync", "yarp index sync ~/old-traces --progress human")
def sync(
    paths: tuple[str, ...],
    rebuild: bool,
    verify: bool,
    max_record_bytes: int | None,
    max_text_bytes: int | None,
    include_sources: bool,
    shown: str,
) -> None:
    """Bring the index in line with the traces below the configured roots, or below PATHS."""
    from yarp.foreign import foreign
    from yarp.index.sync import Options
    from yarp.index.sync import sync as run

    config = configured()
    roots = list(paths) or [root.path for root in config.roots]
    if not roots:
        raise ConfigError(
            "there is nothing to sync: name paths, or run: index config init --discover"
        )
    limits = config.limits
    options = Options(
        rebuild=rebuild,
        verify=verify,
        max_record_bytes=max_record_bytes,
        max_text_bytes=max_text_bytes,
        usual_limits=(limits["max_indexed_record_bytes"], limits["max_published_text_bytes"]),
    )
    readers = _readers()
    with foreign():
        done = run(config.database.value, roots, readers, options, progress=_progress(shown))
    say(done.plain(include_sources=include_sources))
    if done.actions["failed"] or done.problems:
        raise Exit(1)


def _progress(shown: str) -> Callable[[Report], None] | None:
    """What tells how far a sync is, on stderr."""
    human = shown == "human" or (shown == "auto" and sys.stderr.isatty())
    if shown == "off":
        return None
    pause_s = 1.0 if human else 30.0
    due = time.monotonic() + (2.0 if shown == "auto" else 0.0)

    def tell(done: Report) -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + pause_s
        if human:
            sys.stderr.write(
                f"{done.finished}/{done.total} files, {done.processed_bytes >> 20} MiB, "
                f"{done.items} items\n"
            )
        else:
            sys.stderr.write(orjson.dumps(done.progress()).decode() + "\n")
        sys.stderr.flush()

    return tell


@click.command()
@shows("yarp index status")
def status() -> None:
    """Say what the index holds: sources, bytes, roles of items."""
    from yarp.index.status import status as look

    say(look(configured().database.value))


# Schema


@click.group()
@shows("yarp index schema list")
def schema() -> None:
    """List the relations, or describe one."""


@schema.command("list")
@shows("yarp index schema list")
def schema_list() -> None:
    """Print every relation with its columns."""
    from yarp.index.catalog import RELATIONS, plain

    say({"objects": [plain(relation, compact=False) for relation in RELATIONS]})


@schema.command("get")
@click.argument("relation")
@click.option("--compact", is_flag=True, help="Without descriptions.")
@shows("yarp index schema get items --compact")
def schema_get(relation: str, compact: bool) -> None:
    """Print one relation with its columns."""
    from yarp.index.catalog import BY_NAME, plain

    if relation not in BY_NAME:
        raise UsageError(f"there is no relation {relation!r}; there are {', '.join(BY_NAME)}")
    say({"objects": [plain(BY_NAME[relation], compact=compact)]})


# Configuration


@click.group()
@shows("yarp index config show")
def config() -> None:
    """Write, show and check the configuration of the index."""


@config.command("init")
@click.option("--root", "roots", multiple=True, metavar="PATH", help="A place of traces.")
@click.option("--discover", is_flag=True, help="The usual places that are there.")
@shows("yarp index config init --discover", "yarp index config init --root ~/traces")
def config_init(roots: tuple[str, ...], discover: bool) -> None:
    """Write a configuration file; one that is there stays."""
    found = configuration.discover(_readers()) if discover else []
    chosen = [configuration.Root(path) for path in roots] + found
    path = configuration.init(given()["config"], chosen)
    say({"path": path, "roots": [{"path": one.path, "label": one.label} for one in chosen]})


@config.command("show")
@shows("yarp index config show")
def config_show() -> None:
    """Print each value and where it comes from."""
    say(configured().plain())


@config.command("check")
@shows("yarp index config check")
def config_check() -> None:
    """Say what would keep a sync from its work; exits with 1 if anything would."""
    found = configuration.check(configured())
    failed = any(one["severity"] == "error" for one in found)
    say({"valid": not failed, "diagnostics": found})
    if failed:
        raise Exit(1)


# Documentation


@click.group()
@shows("yarp index docs get queries")
def docs() -> None:
    """Read how the index is asked."""


@docs.command("list")
@shows("yarp index docs list")
def docs_list() -> None:
    """Print the topics."""
    from yarp.index.docs import TOPICS

    say({"topics": [{"topic": topic, "title": title} for topic, title in TOPICS.items()]})


@docs.command("get")
@click.argument("topic")
@click.option(
    "--output", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True
)
@shows("yarp index docs get queries")
def docs_get(topic: str, output: str) -> None:
    """Print a topic."""
    from yarp.index.docs import get

    text = get(topic)
    if output == "json":
        say({"topic": topic, "markdown": text})
    else:
        click.echo(text, nl=False)


@docs.command("search")
@click.argument("text")
@shows("yarp index docs search usage")
def docs_search(text: str) -> None:
    """Print the lines of topics that hold all these words."""
    from yarp.index.docs import search

    say({"matches": search(text)})


_OWN = (schema, query, record, asset, config, docs)
for _one in (sync, status, *_OWN, metadata):
    command.add_command(_one)


# The console script


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@places
@click.version_option(package_name="yarp-core", message="trace-index %(version)s")
@click.pass_context
@shows("trace-index index sync", "trace-index schema list", "trace-index docs list")
def script(ctx: click.Context, config: str | None, db: str | None, metadata_db: str | None) -> None:
    """Past sessions of agents as SQL: requests, calls, outputs, answers, with their witnesses."""
    keep(ctx, config, db, metadata_db)


@click.group("index")
def _index() -> None:
    """Bring the index in line with the traces."""


@click.group("session")
def _session() -> None:
    """Keep JSON of your own about sessions."""


_index.add_command(sync)
_index.add_command(status)
_session.add_command(metadata)
for _one in (_index, *_OWN, _session):
    script.add_command(_one)


def _rename(group: click.Command) -> None:
    """Have the examples of a command, and of all below it, say the words of the script."""
    said = group.help or ""
    for ours, theirs in (
        ("yarp index metadata", "trace-index session metadata"),
        ("yarp index sync", "trace-index index sync"),
        ("yarp index status", "trace-index index status"),
        ("yarp index", "trace-index"),
    ):
        said = said.replace(ours, theirs)
    group.help = said
    if isinstance(group, click.Group):
        for one in group.commands.values():
            _rename(one)


def main() -> int:
    """Run `trace-index`."""
    _rename(script)
    return root.written("trace-index", _run, unwritable=1)


def _run() -> int:
    try:
        root.invoke(script, "trace-index", sys.argv[1:])
    except Exit as ended:
        return ended.exit_code
    except NoArgsIsHelpError as bare:
        click.echo(bare.message)
    except click.UsageError as error:
        sys.stderr.write(f"trace-index: {error.format_message()}\n")
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (YarpError, click.ClickException) as error:
        sys.stderr.write(f"trace-index: {error}\n")
        return 1
    except (BrokenPipeError, Unwritten):
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"trace-index: {where}{error.strerror or error}\n")
        return 1
    return 0
