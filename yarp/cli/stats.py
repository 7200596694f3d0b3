"""`yarp stats`: what YARP spared the model, recovery reads paid, without a word of any content."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import rich_click as click

from yarp.cli import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.usage import Usage

_COLUMNS = ("EXACT", "HOST", "SHOWN", "RECOVERY", "SAVED", "%")
_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 0.2


@click.command("stats")
@click.option(
    "--by",
    type=click.Choice(["agent", "tool", "rule"]),
    default="agent",
    show_default=True,
    help="What to add up; a recovery read counts for the rule of the call that it reads.",
)
@click.option("--since", metavar="TIME", help="2026-01-31, 2026-01-31T12:00:00Z, or 30m, 2h, 7d.")
@text.json_option
@text.shows("yarp stats", "yarp stats --by rule --since 7d", "yarp stats --by tool --json")
def command(by: str, since: str | None, as_json: bool) -> None:
    """Say how many tokens the model read, and how many its host would have shown it.

    Tokens are estimates. EXACT is all that the tools printed; HOST what the host's own cut would
    have left of it; SHOWN what the model got, RECOVERY the part of it that it asked for again;
    SAVED is HOST less SHOWN. HOST and SAVED are over the COMPARED calls alone, those of which both
    are known: a host that declares no cut, or no host at all, leaves them unknown (`-`).
    """
    from yarp import cache, paths
    from yarp.archive.read import Reader
    from yarp.recover.calls import since as moment
    from yarp.tokens import ESTIMATE
    from yarp.usage import usage

    since_ms = None if since is None else moment(since)
    compiled = cache.load()
    reader = Reader.open(paths.archive_file(compiled.settings.archive_path))
    try:
        report = usage(reader, compiled, by, since_ms=since_ms, progress=_progress())
    finally:
        reader.close()
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
    if as_json:
        text.print_json(
            {
                "estimate": ESTIMATE,
                "by": by,
                "since_ms": since_ms,
                "groups": [{by: key, **_values(group)} for key, group in report.groups.items()],
                "total": _values(report.total),
                "damaged_calls": report.damaged,
            }
        )
    else:
        header = (by.upper(), "CALLS", "COMPARED", *_COLUMNS)
        rows = [_row(key or "-", group) for key, group in report.groups.items()]
        rows.append(_row("total", report.total))
        click.echo(text.table(header, rows))
    if report.damaged:
        calls = "1 call holds" if report.damaged == 1 else f"{report.damaged} calls hold"
        text.report([f"{calls} damaged payloads; run: yarp archive verify"])


def _values(group: Usage) -> dict[str, object]:
    return {
        "calls": group.calls,
        "exact_tokens": group.exact_tokens,
        "shown_tokens": group.shown_tokens,
        "recovery_calls": group.recovery_calls,
        "recovery_tokens": group.recovery_tokens,
        "compared": {
            "calls": group.compared,
            "host_tokens": group.host_tokens,
            "shown_tokens": group.compared_tokens,
            "saved_tokens": group.saved_tokens,
            "saved_percent": group.saved_percent,
        },
    }


def _row(name: str, group: Usage) -> tuple[str, ...]:
    percent = group.saved_percent
    recovery = f"{group.recovery_tokens:,} in {group.recovery_calls}"
    return (
        name if name.isprintable() else ascii(name),
        f"{group.calls:,}",
        f"{group.compared:,}",
        *(_number(n) for n in (group.exact_tokens, group.host_tokens, group.shown_tokens)),
        recovery if group.recovery_calls else "0",
        _number(group.saved_tokens),
        "-" if percent is None else f"{percent:.1f}",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _progress() -> Callable[[int], None] | None:
    """A callback that keeps one line on a terminal up to date once the work takes long."""
    if not sys.stderr.isatty():
        return None
    shown = started = time.monotonic()

    def show(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - started >= _PROGRESS_AFTER_S and now - shown >= _PROGRESS_EVERY_S:
            shown = now
            sys.stderr.write(f"\ryarp: {done:,} calls\x1b[K")
            sys.stderr.flush()

    return show
