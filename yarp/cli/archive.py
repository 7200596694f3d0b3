"""`yarp archive`: look after the one database of tool calls.

Engines are imported inside the commands, so that each pays for itself alone.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from yarp import paths
from yarp.cli import text
from yarp.errors import DataError, StorageError, UsageError
from yarp.spool.stream import write_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.archive.restore import Stream


_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 0.2
_PROGRESS_MIN_BYTES = 1 << 20
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|\+00:00)", re.ASCII
)


@click.group("archive")
@text.shows(
    "yarp archive stats",
    "yarp archive verify",
    "yarp archive prune --before 2026-01-01T00:00:00Z --dry-run",
    "yarp archive redact yr_0123456789abcdef0123456789abcdef",
)
def command() -> None:
    """Look after the archive: one SQLite database with every tool call."""


@command.command("stats")
@text.json_option
@text.shows(
    "yarp archive stats",
    "yarp archive stats --json",
)
def stats_command(as_json: bool) -> None:
    """Print counts, bytes and times; nothing of what the archive holds."""
    import attrs

    from yarp.archive.stats import stats

    _print(attrs.asdict(stats(_archive()[0])), as_json=as_json)


@command.command("verify")
@text.json_option
@text.shows(
    "yarp archive verify",
    "yarp archive verify --json",
)
def verify_command(as_json: bool) -> None:
    """Check every value, every snapshot and the bytes of every payload.

    Problems are printed one a line on standard error, without content, and end with status
    65. Incomplete calls, of interrupted processes, are counted and are no problem.
    """
    from yarp.archive.verify import verify

    report = verify(_archive()[0], _progress("verified"))
    if as_json:
        _print(
            {
                "ok": not report.problems,
                "incomplete_calls": report.incomplete_calls,
                "problems": list(report.problems),
            },
            as_json=True,
        )
    else:
        if report.incomplete_calls is not None:
            click.echo(f"incomplete_calls: {report.incomplete_calls}")
        for problem in report.problems:
            click.echo(f"yarp: archive verification failed: {problem}", err=True)
        if report.damaged:
            _note(
                "what is damaged stays so: move the file away with its -wal and -shm, and the next "
                "call makes a new archive; sqlite3 OLD .recover gets back what can be read"
            )
        count = len(report.problems)
        click.echo(f"archive: {count} problem{'s'[: count != 1]}" if count else "archive: ok")
    if report.problems:
        raise Exit(DataError.exit_code)


@command.command("prune")
@click.option(
    "--before", metavar="TIMESTAMP", help="Finish times before this go; RFC 3339, in UTC."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    metavar="N",
    help="The oldest calls go until the database file fits into N bytes.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@text.json_option
@text.shows(
    "yarp archive prune --before 2026-01-01T00:00:00Z",
    "yarp archive prune --max-bytes 2000000000 --dry-run",
)
def prune_command(before: str | None, max_bytes: int | None, dry_run: bool, as_json: bool) -> None:
    """Delete the oldest finished calls, and give their space back.

    With both bounds both hold afterwards. Incomplete calls are never deleted.
    """
    import attrs

    from yarp.archive.prune import prune

    path, narrow = _archive()
    pruned = prune(
        path,
        before_ms=None if before is None else _milliseconds(before),
        max_bytes=max_bytes,
        dry_run=dry_run,
        narrow=narrow,
    )
    values = attrs.asdict(pruned)
    values.pop("dry_run")
    values = {f"pruned_{name}": values.pop(name) for name in ("calls", "sessions", "payloads")} | (
        values
    )
    if dry_run:
        values = {"dry_run": True, **values}
    _print(values, as_json=as_json)
    if dry_run:
        exact = "" if max_bytes is None else "; the figures are estimates"
        _note(f"dry run: nothing was changed{exact}")
        if pruned.rebuilt:
            _note("this file cannot shrink yet; prune would write it anew once")
    elif max_bytes is not None and os.stat(path).st_size > max_bytes:
        _note(f"the archive is still larger than that: {_why_so_large(path)}")


def _why_so_large(path: str) -> str:
    from yarp.archive.stats import stats

    left = stats(path)
    if not left.calls:
        return "it is empty, and an empty one has this size"
    if left.calls == left.incomplete_calls:
        return "what is left are incomplete calls, which are never deleted"
    return "another process reads it now; run this again when that has ended"


@command.command("redact")
@click.argument("archive_ref", metavar="REF")
@text.json_option
@text.shows(
    "yarp archive redact yr_0123456789abcdef0123456789abcdef",
)
def redact_command(archive_ref: str, as_json: bool) -> None:
    """Destroy the content of one call; the call itself, with times and digests, stays.

    The whole database is written anew, so that no copy of the bytes is left in it.
    """
    import attrs

    from yarp.archive.redact import redact

    path, narrow = _archive()
    redacted = redact(path, archive_ref, time.time_ns() // 1_000_000, narrow=narrow)
    values = attrs.asdict(redacted)
    values["shared_with"] = list(redacted.shared_with)
    if as_json:
        _print(values, as_json=True)
        return
    click.echo(f"redacted: {redacted.archive_ref}")
    click.echo(f"snapshots: {redacted.snapshots}")
    click.echo(f"deleted_payloads: {redacted.deleted_payloads}")
    for reference in redacted.shared_with:
        _note(f"{reference} holds some of the same bytes; redact it too")
    if redacted.incomplete:
        _note("this call has not finished; what is captured later is not redacted")
    if redacted.backup is not None:
        _note(f"a migration's backup still holds the call: {redacted.backup}")


@command.command("restore")
@click.option("--archive-agent", required=True, metavar="A", help="The host's name.")
@click.option("--archive-account", required=True, metavar="B", help="The local account.")
@click.option("--archive-session", required=True, metavar="C", help="The host's session id.")
@click.option("--archive-call", required=True, metavar="D", help="The host's call id.")
@text.shows(
    "yarp archive restore --archive-agent acme --archive-account ann \\\\",
    "  --archive-session 7f3 --archive-call 12",
)
def restore_command(
    archive_agent: str, archive_account: str, archive_session: str, archive_call: str
) -> None:
    """Write the exact streams of a wrapped call to standard output and standard error.

    Both streams are verified before the first byte is written. For hosts; to look into a
    call, use yarp read.
    """
    from yarp.archive.restore import restore

    stdout, stderr = restore(
        _archive()[0],
        agent=archive_agent,
        account=archive_account,
        source_session_id=archive_session,
        source_call_id=archive_call,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    _write(stdout, 1)
    _write(stderr, 2)


@command.command("ingest", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@text.shows("yarp archive ingest < frames")
def ingest_command(words: tuple[str, ...]) -> None:
    """Take framed requests of a host on standard input, until its end.

    Started by a host for one session; the frames are described in the reference.
    """
    from yarp.ingest import server

    raise Exit(server.main(["yarp", "archive", "ingest", *words]))


def _archive() -> tuple[str, bool]:
    """The archive's path, and whether it is the known default one."""
    from yarp.config import load_config

    path = paths.archive_file(load_config().settings().archive_path)
    return path, path == os.path.join(paths.data_dir(), os.path.basename(path))


def _milliseconds(timestamp: str) -> int:
    """Milliseconds since the epoch of an RFC 3339 time whose offset is zero.

    A part of a millisecond counts as a whole one: `finish < bound` then says the same.
    """
    from datetime import UTC, datetime

    match = _TIMESTAMP.fullmatch(timestamp)
    if match is not None:
        day, clock, fraction = match.groups()
        try:
            whole = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC)
        except ValueError:
            pass
        else:
            digits = (fraction or "").ljust(3, "0")
            part = int(digits[:3]) + bool(digits[3:].strip("0"))
            return int(whole.timestamp()) * 1000 + part
    raise UsageError(
        f"--before {timestamp!a} is no RFC 3339 time in UTC; write it like 2026-01-31T00:00:00Z"
    )


def _print(values: dict[str, object], *, as_json: bool) -> None:
    """`key: value` lines, leaving out what is unknown, or one JSON object with null there."""
    if as_json:
        click.echo(json.dumps(values, indent=2, ensure_ascii=False))
        return
    for name, value in values.items():
        if value is not None:
            click.echo(f"{name}: {str(value).lower() if isinstance(value, bool) else value}")


def _note(text: str) -> None:
    click.echo(f"yarp: {text}", err=True)


def _progress(verb: str) -> Callable[[int, int], None] | None:
    """A callback that keeps one line on a terminal up to date once the work takes long."""
    if not sys.stderr.isatty():
        return None
    shown = started = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if done >= total:
            if shown != started:
                sys.stderr.write("\r\x1b[K")
        elif now - started >= _PROGRESS_AFTER_S and now - shown >= _PROGRESS_EVERY_S:
            shown = now
            mega = _PROGRESS_MIN_BYTES
            sys.stderr.write(f"\ryarp: {verb} {done // mega} of {total // mega} MiB\x1b[K")
            sys.stderr.flush()

    return show


def _write(stream: Stream, descriptor: int) -> None:
    try:
        for block in stream.blocks():
            write_all(descriptor, block)
    except BrokenPipeError:
        raise  # the reader went away: nothing of ours failed
    except OSError as error:
        raise StorageError(f"the streams cannot be written: {error.strerror}") from error
    finally:
        stream.close()
