"""`yarp index` and the console script `trace-index`: past sessions as SQL.

Both have the same commands; the script groups them as the original does, and exits with 2 for
words that are off and 1 for all that fails. Each prints one line `{"data": ...}`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import orjson
import rich_click as click
from click import get_current_context
from click.exceptions import Exit, NoArgsIsHelpError

from yarp.cli.text import report, shows
from yarp.errors import ConfigError, UsageError, YarpError
from yarp.index import config as configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.index.reader import TraceReader
    from yarp.index.report import Report

_MOST_MEMORY_BYTES = 2 << 30


def say(data: Any) -> None:
    """Print an answer for programs, which is what all answers of the index are."""
    click.echo(orjson.dumps({"data": data}))


def _given() -> dict[str, str | None]:
    found: dict[str, str | None] = get_current_context().meta["yarp.index"]
    return found


def _configured() -> configuration.Config:
    return configuration.load(**_given())


def _readers() -> dict[str, TraceReader]:
    from yarp.plugins import Plugins

    plugins = Plugins.load()
    found = plugins.trace_readers()
    report(plugins.problems)
    return found


def _places(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options before every command."""
    for flag, words in (
        ("--metadata-db", "Database of session metadata."),
        ("--db", "Database of the index."),
        ("--config", "Configuration file."),
    ):
        function = click.option(flag, metavar="PATH", help=words)(function)
    return function


def _keep(ctx: click.Context, config: str | None, db: str | None, metadata_db: str | None) -> None:
    ctx.meta["yarp.index"] = {
        "config": config,
        "database": db,
        "metadata_database": metadata_db,
    }


@click.group()
@_places
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
    _keep(ctx, config, db, metadata_db)


# Syncing


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--rebuild", is_flag=True, help="Read everything anew, and drop unused texts.")
@click.option("--verify", is_flag=True, help="Compare every line that was indexed before.")
@click.option("--max-record-bytes", type=click.IntRange(1), help="Of a new database's records.")
@click.option("--max-text-bytes", type=click.IntRange(1), help="Of a new database's texts.")
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
    from yarp.index.sync import Options
    from yarp.index.sync import sync as run
    from yarp.plugins import foreign

    config = _configured()
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

    say(look(_configured().database.value))


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


# Queries


@click.group()
@shows('yarp index query run "SELECT 1 AS one"')
def query() -> None:
    """Ask the index."""


@query.command("run")
@click.argument("sql", required=False)
@click.option("--file", "path", metavar="PATH", help="Read the SQL from a file.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the SQL from standard input.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True)
@click.option(
    "--max-cell-bytes", type=click.IntRange(1, 1 << 20), default=65_536, show_default=True
)
@click.option(
    "--max-output-bytes", type=click.IntRange(1 << 10, 16 << 20), default=65_536, show_default=True
)
@click.option("--timeout-seconds", type=click.IntRange(1, 300), default=30, show_default=True)
@shows(
    'yarp index query run "SELECT runtime, count(*) AS n FROM sessions GROUP BY runtime"',
    "yarp index query run --file question.sql --limit 50",
)
def query_run(
    sql: str | None,
    path: str | None,
    from_stdin: bool,
    limit: int,
    max_cell_bytes: int,
    max_output_bytes: int,
    timeout_seconds: int,
) -> None:
    """Run one read-only SQL statement and print its bounded answer."""
    from yarp.index.query import MOST_SQL_BYTES, Bounds, run

    text = _one_text("SQL", sql, path, from_stdin, MOST_SQL_BYTES)
    config = _configured()
    _confine_memory()
    bounds = Bounds(limit, max_cell_bytes, max_output_bytes, timeout_seconds)
    say(
        run(
            config.database.value,
            text,
            bounds,
            metadata_database=config.metadata_database.value,
            on_stuck=_stuck,
        )
    )


def _confine_memory() -> None:
    """A row may have thousands of columns of megabytes: such a query fails, not the machine."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > _MOST_MEMORY_BYTES:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, hard))


def _stuck(error: YarpError) -> None:
    report([str(error)])
    sys.stderr.flush()
    os._exit(1)


def _one_text(
    what: str, given: str | None, path: str | None, from_stdin: bool, most_bytes: int
) -> str:
    """The text that is given in exactly one of three ways."""
    if (given is not None) + (path is not None) + from_stdin != 1:
        raise click.UsageError(f"give the {what} itself, or --file, or --stdin")
    if given is not None:
        return given
    try:
        if path is not None:
            with open(path, "rb") as file:
                data = file.read(most_bytes + 1)
        else:
            data = sys.stdin.buffer.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise UsageError(f"the {what} has more than {most_bytes} bytes")
        return data.decode()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise UsageError(f"the {what} is not UTF-8") from None


# Records


@click.group()
@shows("yarp index record inspect 17")
def record() -> None:
    """Look at the lines of traces behind the index."""


def _sized(flag: str, default: int, words: str) -> Callable[..., Any]:
    return click.option(
        flag, type=click.IntRange(1), default=default, show_default=True, help=words
    )


@record.command("inspect")
@click.argument("record_id", type=int)
@_sized("--max-record-bytes", 16 << 20, "Read no longer record.")
@_sized("--max-value-bytes", 16 << 10, "Put longer texts aside.")
@_sized("--max-output-bytes", 64 << 10, "Of what is shown of it.")
@shows("yarp index record inspect 17")
def record_inspect(
    record_id: int, max_record_bytes: int, max_value_bytes: int, max_output_bytes: int
) -> None:
    """Show the JSON of a record, with large values put aside."""
    from yarp.index import records

    say(
        records.inspect(
            _configured().database.value,
            record_id,
            max_record_bytes=max_record_bytes,
            max_value_bytes=max_value_bytes,
            max_output_bytes=max_output_bytes,
        )
    )


@record.command("verify")
@click.argument("record_id", type=int)
@shows("yarp index record verify 17")
def record_verify(record_id: int) -> None:
    """Say whether a record's bytes are where and as they were indexed."""
    from yarp.index import records

    say(records.verify(_configured().database.value, record_id))


_output = click.option("--output", required=True, metavar="PATH", help="The file to write.")
_force = click.option("--force", is_flag=True, help="Replace a file that is there.")


@record.command("export")
@click.argument("record_id", type=int)
@_output
@_sized("--max-bytes", 16 << 20, "Write no longer record.")
@_force
@shows("yarp index record export 17 --output line.json")
def record_export(record_id: int, output: str, max_bytes: int, force: bool) -> None:
    """Write the bytes of a record to a file."""
    from yarp.index import records

    database = _configured().database.value
    say(records.export(database, record_id, output, max_bytes=max_bytes, force=force))


@click.group()
@shows("yarp index asset extract 17#/message/content/1/source/data --output picture.png")
def asset() -> None:
    """Get images and other data out of records."""


@asset.command("extract")
@click.argument("reference")
@_output
@_sized("--max-record-bytes", 16 << 20, "Read no longer record.")
@_sized("--max-bytes", 32 << 20, "Write no longer asset.")
@_force
@shows("yarp index asset extract 17#/message/content/1/source/data --output picture.png")
def asset_extract(
    reference: str, output: str, max_record_bytes: int, max_bytes: int, force: bool
) -> None:
    """Write the asset that REFERENCE of `record inspect` names to a file."""
    from yarp.index import records

    say(
        records.extract(
            _configured().database.value,
            reference,
            output,
            max_record_bytes=max_record_bytes,
            max_bytes=max_bytes,
            force=force,
        )
    )


# Session metadata


@click.group()
@shows("yarp index metadata list")
def metadata() -> None:
    """Keep JSON of your own about sessions."""


@metadata.command("get")
@click.argument("runtime")
@click.argument("native_id")
@shows("yarp index metadata get acme 0199-a3f2")
def metadata_get(runtime: str, native_id: str) -> None:
    """Print what is kept about a session, and its version."""
    from yarp.index.metadata import Metadata

    with Metadata(_configured().metadata_database.value) as kept:
        say(kept.get(runtime, native_id))


@metadata.command("list")
@click.option("--runtime", help="Of this runtime alone.")
@shows("yarp index metadata list")
def metadata_list(runtime: str | None) -> None:
    """Print what is kept about all sessions."""
    from yarp.index.metadata import Metadata

    with Metadata(_configured().metadata_database.value) as kept:
        say({"entries": kept.entries(runtime)})


@metadata.command("set")
@click.argument("runtime")
@click.argument("native_id")
@click.option("--json", "given", metavar="JSON", help="The value.")
@click.option("--file", "path", metavar="PATH", help="Read the value from a file.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the value from standard input.")
@click.option("--if-absent", is_flag=True, help="Only if nothing is kept yet.")
@click.option("--if-version", type=click.IntRange(1), help="Only if it has this version.")
@shows("yarp index metadata set acme 0199-a3f2 --json '{\"done\": true}' --if-absent")
def metadata_set(
    runtime: str,
    native_id: str,
    given: str | None,
    path: str | None,
    from_stdin: bool,
    if_absent: bool,
    if_version: int | None,
) -> None:
    """Replace what is kept about a session, if it is still what you read."""
    from yarp.index.metadata import MOST_BYTES, Metadata

    if if_absent is (if_version is not None):
        raise click.UsageError("give --if-absent or --if-version")
    text = _one_text("JSON", given, path, from_stdin, MOST_BYTES)
    with Metadata(_configured().metadata_database.value, create=True) as kept:
        say(kept.set(runtime, native_id, text, version=if_version))


@metadata.command("delete")
@click.argument("runtime")
@click.argument("native_id")
@click.option("--if-version", type=click.IntRange(1), required=True, help="Only this version.")
@shows("yarp index metadata delete acme 0199-a3f2 --if-version 3")
def metadata_delete(runtime: str, native_id: str, if_version: int) -> None:
    """Remove what is kept about a session, if it is still what you read."""
    from yarp.index.metadata import Metadata

    path = _configured().metadata_database.value
    with Metadata(path, create=os.path.exists(path)) as kept:
        kept.get(runtime, native_id)
        say(kept.set(runtime, native_id, None, version=if_version))


@metadata.command("backup")
@click.argument("target")
@shows("yarp index metadata backup metadata-2026.sqlite3")
def metadata_backup(target: str) -> None:
    """Copy the database of metadata, as it stands, to a new file."""
    from yarp.index.metadata import Metadata

    with Metadata(_configured().metadata_database.value) as kept:
        say({"output": target, "byte_length": kept.back_up(target)})


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
    path = configuration.init(_given()["config"], chosen)
    say({"path": path, "roots": [{"path": one.path, "label": one.label} for one in chosen]})


@config.command("show")
@shows("yarp index config show")
def config_show() -> None:
    """Print each value and where it comes from."""
    say(_configured().plain())


@config.command("check")
@shows("yarp index config check")
def config_check() -> None:
    """Say what would keep a sync from its work; exits with 1 if anything would."""
    found = configuration.check(_configured())
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
@_places
@click.version_option(package_name="yarp-core", message="trace-index %(version)s")
@click.pass_context
@shows("trace-index index sync", "trace-index schema list", "trace-index docs list")
def script(ctx: click.Context, config: str | None, db: str | None, metadata_db: str | None) -> None:
    """Past sessions of agents as SQL: requests, calls, outputs, answers, with their witnesses."""
    _keep(ctx, config, db, metadata_db)


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


def main() -> int:
    """Run `trace-index`."""
    try:
        with script.make_context("trace-index", sys.argv[1:]) as ctx:
            script.invoke(ctx)
        sys.stdout.flush()
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
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        sys.stderr.write(f"trace-index: {error.filename or ''} {error.strerror or error}\n")
        return 1
    return 0
