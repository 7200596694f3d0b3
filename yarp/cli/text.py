"""How the command line shows tables, JSON and problems."""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

# Controls, marks of direction and what has no width: a program reads their escapes as well.
_INVISIBLE = re.compile(r"[\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

json_option = click.option("--json", "as_json", is_flag=True, help="As one JSON object.")


def shows(*examples: str) -> Callable[[_Function], _Function]:
    """A decorator that puts examples into a command's help, before its options."""

    def add(function: _Function) -> _Function:
        shown = "\n".join(f"  {example}" for example in examples)
        said = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = f"{said}\n\n\b\nExamples:\n{shown}"
        return function

    return add


def printable(said: str, keep: str = "") -> str:
    """`said` with an escape for each character that a terminal would obey or not show.

    Line ends are among them, unless they are in `keep`. JSON has the text itself.
    """
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in said)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows below their header, in columns as wide as they need; each cell on one line."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_json(value: object) -> None:
    """Print `value` for programs."""
    click.echo(json_text(value))


def json_text(value: object, *, indent: int | None = 2) -> str:
    """`value` as JSON; in ASCII where it holds what is no Unicode, such as bytes of a path.

    What a terminal would obey, or would show as nothing or elsewhere, is escaped: the value is
    the same.
    """
    shown = json.dumps(value, indent=indent, ensure_ascii=False)
    shown = _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)
    try:
        shown.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return shown


def report(problems: Iterable[str], name: str = "yarp") -> None:
    """Say each problem on stderr, as one line of the command `name`; names in it as printable."""
    for problem in problems:
        said = printable(problem, keep="\n")
        sys.stderr.write(f"{name}: {said}\n")


def known(value: bool | str | None) -> str:
    """`value` in words; what is unknown is said to be."""
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else "yes" if value else "no"
