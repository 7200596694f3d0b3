"""`yarp dataset benchmark` and `analyze-ceiling`: the census, and what could still be saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from yarp.cli import text
from yarp.cli.dataset_queries import database_option
from yarp.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.census.count import Counted
    from yarp.census.measure import Ceiling

_OPTIONS = (
    click.option(
        "--address",
        default="auto",
        show_default=True,
        help="Of --engine ray: the cluster's address.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["processes", "ray"]),
        default="processes",
        show_default=True,
        help="ray: an existing Ray cluster that reaches the files; needs the extra ray.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(1, 1024),
        help="As many as there are processors, unless told.",
    ),
    click.option(
        "--parquet",
        metavar="PATH",
        help="Instead of the database: a Parquet file, or a directory of them, as export writes.",
    ),
    database_option,
    click.option("--json", is_flag=True, expose_value=False, help="As always: the answer is JSON."),
)


def _counting(function: Callable[..., None]) -> Callable[..., None]:
    for option in _OPTIONS:
        function = option(function)
    return function


@click.command("benchmark")
@_counting
@text.shows(
    "yarp dataset benchmark",
    "yarp dataset benchmark --parquet ./calls --processes 8",
    "yarp dataset benchmark --parquet /shared/calls --engine ray",
)
def benchmark(
    database: str | None, parquet: str | None, processes: int | None, engine: str, address: str
) -> None:
    """Say what YARP's rules would do to every stored result, as one JSON object of counts.

    Every result with a text goes through the same rules and reducers as a live call. Nothing of
    any content is printed: labels are names of agents, tools, rules and reducers.
    """
    from yarp.census import report
    from yarp.census.measure import Ceiling

    counted = _counted(database, parquet, processes, engine, address, Ceiling())
    text.print_json(report.census(counted))


@click.command("analyze-ceiling")
@_counting
@click.option(
    "--summary-character-budget",
    "summary_characters",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="What a summary would be allowed.",
)
@click.option(
    "--minimum-removed-characters", type=click.IntRange(0), default=256, show_default=True
)
@click.option(
    "--minimum-savings-basis-points",
    type=click.IntRange(0, 10_000),
    default=1500,
    show_default=True,
)
@text.shows("yarp dataset analyze-ceiling", "yarp dataset analyze-ceiling --parquet ./calls")
def analyze_ceiling(
    database: str | None,
    parquet: str | None,
    processes: int | None,
    engine: str,
    address: str,
    summary_characters: int,
    minimum_removed_characters: int,
    minimum_savings_basis_points: int,
) -> None:
    """Say what summaries could remove of the shell results that stay as they are, by family.

    An upper bound: an unchanged result counts as removable down to the budget. Nothing of any
    content is printed: families are named by rules, syntax, and programs that YARP knows.
    """
    from yarp.census import report
    from yarp.census.measure import Ceiling

    used = Ceiling(summary_characters, minimum_removed_characters, minimum_savings_basis_points)
    counted = _counted(database, parquet, processes, engine, address, used)
    text.print_json(report.ceiling(counted, used))


def _counted(
    database: str | None,
    parquet: str | None,
    processes: int | None,
    engine: str,
    address: str,
    used: Ceiling,
) -> Counted:
    from yarp import cache
    from yarp.census.count import count
    from yarp.census.executors import Processes, Ray
    from yarp.dataset.database import Dataset
    from yarp.errors import UsageError

    if parquet is not None and database is not None:
        raise UsageError("give --database or --parquet, not both")
    source = parquet
    if source is None:
        with Dataset.read(database) as dataset:
            source = dataset.path
    executor = Ray(address) if engine == "ray" else Processes(processes)
    with Progress() as progress:
        return count(
            source,
            cache.load(),
            executor,
            used,
            lambda done, of: progress.say(f"{done} of {of} parts counted"),
        )
