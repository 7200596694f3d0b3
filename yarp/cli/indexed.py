"""What the commands of the index share: their options, their configuration, their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click
from click import get_current_context

from yarp.index import config as configuration
from yarp.index.text import json_bytes

if TYPE_CHECKING:
    from collections.abc import Callable


def say(data: Any) -> None:
    """Print an answer for programs, which is what all answers of the index are."""
    click.echo(json_bytes({"data": data}))


def program() -> str:
    """The name by which the command was called: `yarp` or `trace-index`."""
    return get_current_context().find_root().info_name or "yarp"


def given() -> dict[str, str | None]:
    """The options before the command, by name; None where one is not given."""
    found: dict[str, str | None] = get_current_context().meta["yarp.index"]
    return found


def configured() -> configuration.Config:
    """The configuration that these options lead to."""
    return configuration.load(**given())


def places(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options before every command."""
    for flag, words in (
        ("--metadata-db", "Database of session metadata."),
        ("--db", "Database of the index."),
        ("--config", "Configuration file."),
    ):
        function = click.option(flag, metavar="PATH", help=words)(function)
    return function


def keep(ctx: click.Context, config: str | None, db: str | None, metadata_db: str | None) -> None:
    """Keep the options of `places` for the command that follows."""
    ctx.meta["yarp.index"] = {
        "config": config,
        "database": db,
        "metadata_database": metadata_db,
    }
