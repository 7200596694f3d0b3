"""How the command line shows tables, JSON and problems."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows below their header, in columns as wide as they need."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_json(value: object) -> None:
    """Print `value` for programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def report(problems: Iterable[str]) -> None:
    """Say each problem on stderr, as one line."""
    for problem in problems:
        sys.stderr.write(f"yarp: {problem}\n")


def known(value: bool | str | None) -> str:
    """`value` in words; what is unknown is said to be."""
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else "yes" if value else "no"
