"""`yarp index query|record|asset|metadata`: what is asked of the index, and noted beside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import orjson
import rich_click as click

from yarp.cli.indexed import configured, program, say
from yarp.cli.text import shows
from yarp.errors import UsageError
from yarp.index.catalog import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from yarp.errors import YarpError

    _Function = TypeVar("_Function", bound=Callable[..., Any])


# Queries


@click.group()
@shows('yarp index query run "SELECT 1 AS one"')
def query() -> None:
    """Ask the index."""


def _names_roles(function: _Function) -> _Function:
    """A decorator that puts the roles into a command's help, since most questions begin there."""
    roles = "\n".join(f"  {role.name}" for role in ROLES)
    function.__doc__ = f"{function.__doc__}\n\n\b\nRoles of items:\n{roles}"
    return function


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
@_names_roles
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
    from yarp.index.confined import confined
    from yarp.index.query import MOST_SQL_BYTES, Bounds, run

    text = _one_text("SQL", sql, path, from_stdin, MOST_SQL_BYTES)
    config = configured()
    bounds = Bounds(limit, max_cell_bytes, max_output_bytes, timeout_seconds)
    with confined():
        answer = run(
            config.database.value,
            text,
            bounds,
            metadata_database=config.metadata_database.value,
            on_stuck=_stuck(program()),
        )
    say(answer)


def _stuck(name: str) -> Callable[[YarpError], None]:
    def end(error: YarpError) -> None:
        sys.stderr.write(f"{name}: {error}\n")
        sys.stderr.flush()
        os._exit(1)

    return end


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
@click.argument("record_id", type=click.IntRange(0, 2**63 - 1))
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
            configured().database.value,
            record_id,
            max_record_bytes=max_record_bytes,
            max_value_bytes=max_value_bytes,
            max_output_bytes=max_output_bytes,
        )
    )


@record.command("verify")
@click.argument("record_id", type=click.IntRange(0, 2**63 - 1))
@shows("yarp index record verify 17")
def record_verify(record_id: int) -> None:
    """Say whether a record's bytes are where and as they were indexed."""
    from yarp.index import records

    say(records.verify(configured().database.value, record_id))


_output = click.option("--output", required=True, metavar="PATH", help="The file to write.")
_force = click.option("--force", is_flag=True, help="Replace a file that is there.")


@record.command("export")
@click.argument("record_id", type=click.IntRange(0, 2**63 - 1))
@_output
@_sized("--max-bytes", 16 << 20, "Write no longer record.")
@_force
@shows("yarp index record export 17 --output line.json")
def record_export(record_id: int, output: str, max_bytes: int, force: bool) -> None:
    """Write the bytes of a record to a file."""
    from yarp.index import records

    database = configured().database.value
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
            configured().database.value,
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


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with its JSON to the letter, on one line: there line breaks are blanks."""
    text = entry["metadata"].replace("\r", " ").replace("\n", " ")
    return entry | {"metadata": orjson.Fragment(text)}


@metadata.command("get")
@click.argument("runtime")
@click.argument("native_id")
@shows("yarp index metadata get acme 0199-a3f2")
def metadata_get(runtime: str, native_id: str) -> None:
    """Print what is kept about a session, and its version."""
    from yarp.index.metadata import Metadata

    with Metadata(configured().metadata_database.value) as kept:
        say(_shown(kept.get(runtime, native_id)))


@metadata.command("list")
@click.option("--runtime", help="Of this runtime alone.")
@shows("yarp index metadata list")
def metadata_list(runtime: str | None) -> None:
    """Print what is kept about all sessions."""
    from yarp.index.metadata import Metadata

    with Metadata(configured().metadata_database.value) as kept:
        say({"entries": [_shown(entry) for entry in kept.entries(runtime)]})


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
    with Metadata(configured().metadata_database.value, create=True) as kept:
        say(kept.set(runtime, native_id, text, version=if_version))


@metadata.command("delete")
@click.argument("runtime")
@click.argument("native_id")
@click.option("--if-version", type=click.IntRange(1), required=True, help="Only this version.")
@shows("yarp index metadata delete acme 0199-a3f2 --if-version 3")
def metadata_delete(runtime: str, native_id: str, if_version: int) -> None:
    """Remove what is kept about a session, if it is still what you read."""
    from yarp.index.metadata import Metadata

    path = configured().metadata_database.value
    with Metadata(path, create=os.path.exists(path)) as kept:
        kept.get(runtime, native_id)
        say(kept.set(runtime, native_id, None, version=if_version))


@metadata.command("backup")
@click.argument("target")
@shows("yarp index metadata backup metadata-2026.sqlite3")
def metadata_backup(target: str) -> None:
    """Copy the database of metadata, as it stands, to a new file."""
    from yarp.index.metadata import Metadata

    with Metadata(configured().metadata_database.value) as kept:
        say({"output": target, "byte_length": kept.back_up(target)})
