"""`yarp dataset sql|calls|search|export`: reading the dataset."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING

import rich_click as click

from yarp.cli import text
from yarp.cli.progress import Progress
from yarp.errors import NothingFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from yarp.dataset.filters import Filters
    from yarp.dataset.search import Hit

database_option = click.option(
    "--database", metavar="FILE", help="The dataset; by default the one that extract makes."
)
_FILTERS = (
    click.option("--failed", is_flag=True, help="Only calls with a result that is an error."),
    click.option("--since", metavar="TIME", help="2026-01-31, 2026-01-31T12:00:00Z, 30m, 2h, 7d."),
    click.option("--tool", metavar="NAME", help="Only calls of this tool."),
    click.option("--session", metavar="ID", help="Only of this session: the agent's id, or a key."),
    click.option("--agent", metavar="NAME", help="Only calls of this agent."),
)
_NAME_CHARACTERS = 40
_KEY_CHARACTERS = 12
_BEGINNING_CHARACTERS = 60


def _filtered(function: Callable[..., None]) -> Callable[..., None]:
    for option in _FILTERS:
        function = option(function)
    return function


def _filters(
    agent: str | None, session: str | None, tool: str | None, since: str | None, failed: bool
) -> Filters:
    from yarp.dataset.filters import Filters
    from yarp.recover.calls import since as moment

    since_ms = None if since is None else moment(since)
    return Filters(agent=agent, session=session, tool=tool, since_ms=since_ms, failed=failed)


@click.command("sql")
@click.argument("query")
@database_option
@click.option("--rows", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@click.option(
    "--cell",
    "cell_characters",
    type=click.IntRange(1, 10_000_000),
    default=2000,
    show_default=True,
    help="Characters of one value.",
)
@click.option(
    "--bytes",
    "output_bytes",
    type=click.IntRange(1, 1 << 26),
    default=1 << 20,
    show_default=True,
    help="Bytes of the whole answer.",
)
@click.option("--seconds", type=click.FloatRange(0.01, 86_400), default=30.0, show_default=True)
@text.json_option
@text.shows(
    "yarp dataset sql 'SELECT agent, count(*) FROM sessions GROUP BY agent'",
    "yarp dataset sql --json 'SELECT * FROM tool_call_conflicts' | jq .rows",
)
def sql(
    query: str,
    database: str | None,
    rows: int,
    cell_characters: int,
    output_bytes: int,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """Ask the dataset one SELECT.

    The file is only read: writing, ATTACH, COPY and every function that reads a file are refused
    by the engine. What passes a bound is cut, and said to be, on stderr; a query that takes
    longer than --seconds is stopped.
    """
    from yarp.dataset import query as queries

    bounds = queries.Bounds(
        rows=rows, cell_characters=cell_characters, output_bytes=output_bytes, seconds=seconds
    )
    answer = queries.query(database, query, bounds)
    if as_json:
        text.print_json({"columns": answer.columns, "rows": answer.rows, "cut": answer.cut})
    else:
        shown = [tuple(_cell(value) for value in row) for row in answer.rows]
        click.echo(text.table(answer.columns, shown))
    if answer.cut:
        text.report([f"more than the bounds allow; cut: {', '.join(answer.cut)}"])


@click.command("calls")
@click.argument("holding", required=False, metavar="[TEXT]")
@database_option
@_filtered
@click.option("--limit", "-n", type=click.IntRange(1, 100_000), default=50, show_default=True)
@text.json_option
@text.shows(
    "yarp dataset calls --failed --since 7d",
    "yarp dataset calls --agent NAME --tool Bash 'cargo test'",
)
def calls(
    holding: str | None, database: str | None, limit: int, *, as_json: bool, **chosen: Any
) -> None:
    """List the newest calls, those that hold TEXT in what went in or came out if it is given."""
    import attrs

    from yarp.dataset import calls as listing
    from yarp.dataset.database import Dataset

    filters = _filters(**chosen)
    with Dataset.read(database) as dataset:
        found = listing.calls(dataset, filters, text=holding, limit=limit)
    if as_json:
        text.print_json({"calls": [attrs.asdict(call) for call in found]})
    else:
        header = ("CALL", "TIME", "AGENT", "TOOL", "ERROR", "IN", "OUT", "INPUT")
        rows = [
            (
                call.call_key[:_KEY_CHARACTERS],
                _time(call.called_at_ms),
                call.agent,
                call.tool_name[:_NAME_CHARACTERS],
                "no result" if not call.results else text.known(call.is_error),
                f"{call.input_characters:,}",
                f"{call.output_characters:,}",
                call.beginning[:_BEGINNING_CHARACTERS],
            )
            for call in found
        ]
        click.echo(text.table(header, [tuple(map(_cell, row)) for row in rows]))
    if not found:
        raise NothingFound("no call passes these filters")


@click.command("search")
@click.argument("needle", metavar="TEXT")
@database_option
@_filtered
@click.option("--ignore-case", "-i", is_flag=True, help="Upper and lower case alike.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(0, 10_000),
    default=20,
    show_default=True,
    help="Calls to show; all are counted.",
)
@click.option(
    "--lines",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="Lines of each call.",
)
@text.json_option
@text.shows(
    "yarp dataset search 'connection refused'",
    "yarp dataset search -i timeout --tool Bash --since 30d --json",
)
def search(
    needle: str,
    database: str | None,
    ignore_case: bool,
    limit: int,
    lines: int,
    *,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Find a text, as it is, in the inputs and results of all calls.

    The count is of all calls that hold it, and exact; the newest ones are shown with their lines.
    Beside a large dataset imports keep a text index, which narrows what has to be read; where it
    is missing or not current every text is.
    """
    import attrs

    from yarp.dataset import indexing
    from yarp.dataset.database import Dataset
    from yarp.dataset.search import search as find
    from yarp.errors import UsageError

    if not needle:
        raise UsageError("give a text to look for; an empty one stands everywhere")
    filters = _filters(**chosen)
    with Dataset.read(database) as dataset:
        index = indexing.current(dataset)
        try:
            found = find(
                dataset,
                needle,
                index,
                filters=filters,
                ignore_case=ignore_case,
                limit=limit,
                lines=lines,
            )
        finally:
            if index is not None:
                index.close()
    if as_json:
        text.print_json({"calls": found.calls, "hits": [attrs.asdict(hit) for hit in found.hits]})
    else:
        for hit in found.hits:
            _show(hit)
        shown = "" if len(found.hits) == found.calls else f", the newest {len(found.hits)} shown"
        click.echo(f"{found.calls:,} call{'' if found.calls == 1 else 's'}{shown}")
    if not found.calls:
        raise NothingFound("no call holds this text")


def _show(hit: Hit) -> None:
    where = f"{hit.agent} {hit.tool_name} {_time(hit.called_at_ms)} {hit.native_session_id}"
    click.echo(_cell(f"{hit.call_key[:_KEY_CHARACTERS]} {where}"))
    for line in hit.lines:
        click.echo(f"  {line.field}:{line.number}: {_cell(line.text)}")


@click.command("export")
@click.argument("directory", type=click.Path(file_okay=True))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "jsonl", "atif"]),
    default="parquet",
    show_default=True,
)
@database_option
@_filtered
@text.shows(
    "yarp dataset export --format parquet ./calls",
    "yarp dataset export --format atif --agent NAME --since 7d ./trajectories",
)
def export(directory: str, kind: str, database: str | None, **chosen: Any) -> None:
    """Write the calls into a new private DIRECTORY.

    parquet: a row for each call and distinct result, in files by agent and month
    (agent=A/month=2026-01/part-0000.parquet). jsonl: calls.jsonl, a call a line with its results.
    atif: an ATIF 1.7 trajectory for each session (AGENT/SESSION_KEY.json).
    """
    from yarp.dataset.database import Dataset
    from yarp.dataset.export import export as write

    filters = _filters(**chosen)
    with Dataset.read(database) as dataset, Progress() as progress:
        done = write(
            dataset,
            directory,
            kind,
            filters,
            lambda rows: progress.say(f"{rows:,} rows"),
        )
    sys.stderr.write(f"yarp: {done:,} rows in {directory}\n")


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    try:
        moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cell(value: object) -> str:
    """A value on one line, and nothing in it that a terminal would act on."""
    return "NULL" if value is None else text.printable(str(value))
