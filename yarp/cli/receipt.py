"""`yarp receipt`: what was captured of a command's output, and how completely.

Engines are imported inside the commands, so that each pays for itself alone. Content is printed
only where an option asks for it, and never more than a bound.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from yarp.cli import text
from yarp.cli.receipt_text import Printer, cells, row_of, show
from yarp.errors import DataError, ReferenceUnknown, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.spool.receipt import Receipt
    from yarp.spool.shelf import Capture

_SHOWN = 20
_TAIL_BYTES = 4096
_POLL_SECONDS = 0.1
_CALL = "yr_"

_in = click.option(
    "--in",
    "directories",
    multiple=True,
    metavar="DIRECTORY",
    help="A conversation's directory, or one above several; repeat for more.",
)
_stream = click.option("--stream", metavar="NAME", help="Only this one, such as stdout.")
_raw = click.option("--raw", is_flag=True, help="Binary bytes as they are, not escaped.")


@click.group("receipt")
@text.shows(
    "yarp receipt list",
    "yarp receipt show 3f9c21ab",
    "yarp receipt show 3f9c21ab --stream stderr --bytes 0:4096",
    "yarp receipt tail 3f9c21ab --follow",
    "yarp receipt verify ~/conversation",
)
def command() -> None:
    """Read what was captured of commands: how they ended, what is kept, what was lost."""


@command.command("list")
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    default=_SHOWN,
    show_default=True,
    help="The newest ones.",
)
@text.json_option
@text.shows(
    "yarp receipt list", "yarp receipt list ~/conversation --limit 100", "yarp receipt list --json"
)
def list_command(directories: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List captures, the newest first: below the directories, or all that YARP knows of.

    Without a directory these are the conversations of hosts that spool, and the runs in the
    archive. Nothing of what was printed is shown.
    """
    found = [*_spooled(_roots(directories))]
    if not directories:
        found += _archived(limit + 1)
    found.sort(key=lambda row: row["created_at_ms"] or 0, reverse=True)
    more = len(found) > limit
    if as_json:
        text.print_json({"receipts": found[:limit], "more": more})
        return
    if not found:
        click.echo("no captures")
        return
    header = ("CAPTURE", "STARTED", "PROCESS", "KEPT", "BYTES", "COMMAND")
    click.echo(text.table(header, map(cells, found[:limit])))
    if more:
        text.report(["there are older ones; see: yarp receipt list --limit N"])


@command.command("show")
@click.argument("capture", metavar="CAPTURE")
@_in
@_stream
@click.option("--bytes", "span", metavar="A:B", help="Print these bytes of --stream, from 0.")
@_raw
@text.json_option
@text.shows(
    "yarp receipt show 3f9c21ab",
    "yarp receipt show yr_0123456789abcdef0123456789abcdef",
    "yarp receipt show 3f9c21ab --stream stdout --bytes 0:4096",
)
def show_command(
    capture: str,
    directories: tuple[str, ...],
    stream: str | None,
    span: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print a receipt; with --stream and --bytes, that part of what is kept.

    CAPTURE is an id or the beginning of one, the path of a file of a capture, or a reference of
    the archive. A part of a text begins and ends between characters.
    """
    if (stream is None) is not (span is None):
        raise UsageError("--stream and --bytes go together: --stream stdout --bytes 0:4096")
    if capture.startswith(_CALL):
        if stream is not None:
            raise UsageError(
                f"the archive has it; run: yarp read {capture} {stream} --bytes {span}"
            )
        show(_call(capture), None, None, as_json=as_json)
        return
    from yarp.spool import shelf

    found = shelf.find(capture, _roots(directories))
    if stream is None or span is None:
        standing = shelf.standing(found)
        show(standing.receipt, found, standing, as_json=as_json)
    else:
        _show_part(found, stream, span, raw=raw, as_json=as_json)


@command.command("verify")
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@text.json_option
@text.shows("yarp receipt verify", "yarp receipt verify ~/conversation --json")
def verify_command(directories: tuple[str, ...], as_json: bool) -> None:
    """Check modes, digests and counts of captures, without printing anything of them.

    What an owner that died left behind is counted and is no problem. Problems end with status
    65. For the runs in the archive: yarp archive verify.
    """
    import attrs

    from yarp.recover.calls import safe
    from yarp.spool.verify import verify

    reports = [verify(root) for root in _roots(directories)]
    counts = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("published", "partial", "running", "left")
    }
    problems = [problem for report in reports for problem in report.problems]
    if as_json:
        rows = [attrs.asdict(problem) for problem in problems]
        text.print_json({"ok": not problems, **counts, "problems": rows})
    else:
        for name, count in counts.items():
            click.echo(f"{name}: {count}")
        text.report(safe(f"{problem.path}: {problem.what}") for problem in problems)
        count = len(problems)
        click.echo(f"captures: {count} problem{'s'[: count != 1]}" if count else "captures: ok")
    if problems:
        raise Exit(DataError.exit_code)


@command.command("tail")
@click.argument("capture", metavar="CAPTURE")
@_in
@_stream
@click.option("--follow", "-f", is_flag=True, help="Go on until the capture is over.")
@click.option("--consumer", metavar="NAME", help="Go on where this one stopped, and keep where.")
@click.option(
    "--bytes",
    "byte_length",
    type=click.IntRange(min=4),
    default=_TAIL_BYTES,
    show_default=True,
    help="The last bytes of each stream; with --consumer, at most that many.",
)
@_raw
@text.json_option
@text.shows(
    "yarp receipt tail 3f9c21ab",
    "yarp receipt tail 3f9c21ab --follow --stream stdout",
    "yarp receipt tail 3f9c21ab --consumer me",
)
def tail_command(
    capture: str,
    directories: tuple[str, ...],
    stream: str | None,
    follow: bool,
    consumer: str | None,
    byte_length: int,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the end of what is kept, also while the command runs.

    Every consumer has a cursor of its own: reading moves no other's, and takes no notice of
    completion away. With --json, one object a line.
    """
    from yarp.spool import shelf
    from yarp.spool.follow import Follower, load_cursor, save_cursor

    if capture.startswith(_CALL):
        raise UsageError(
            f"the archive has it; run: yarp read {capture} {stream or 'stdout'} --tail 40"
        )
    if byte_length > _cap():
        raise UsageError(f"--bytes is at most {_cap()}, as output.recovery_cap_bytes says")
    found = shelf.find(capture, _roots(directories))
    if stream is not None and stream not in found.streams:
        raise ReferenceUnknown(f"nothing is kept of {stream} of {found.capture_id}")
    follower = Follower(
        found,
        found.streams if stream is None else [stream],
        None if consumer is None else load_cursor(found, consumer),
    )
    if consumer is None:
        follower.skip_to_tail(byte_length)
    printer = Printer(headed=stream is None, raw=raw, as_json=as_json)
    while True:
        parts = follower.poll(byte_length * (len(follower.streams) if consumer is None else 1))
        standing = follower.standing
        assert standing is not None  # noqa: S101 - poll has set it
        for part in parts:
            printer.write(part, is_text=standing.receipt.representation != "binary")
            follower.passed(part)
        sys.stdout.flush()
        if consumer is not None and parts:
            save_cursor(follower, consumer)
        if not follow or (standing.state != "running" and not parts):
            break
        if not parts:
            time.sleep(_POLL_SECONDS)
    printer.end(standing)


@command.command("export")
@click.argument("directory")
@click.argument("target")
@click.option("--only", multiple=True, metavar="CAPTURE", help="Only this capture; repeatable.")
@click.option(
    "--without",
    multiple=True,
    metavar="CAPTURE[:STREAM]",
    help="Leave out what was printed; the receipt says that it is unavailable. Repeatable.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    metavar="N",
    help="How much may be copied; 128 MiB if not said.",
)
@click.option("--child", is_flag=True, help="Without command labels and the session's id.")
@click.option("--no-files", is_flag=True, help="Receipts alone: their files need a transfer.")
@text.json_option
@text.shows(
    "yarp receipt export ~/conversation ~/copy",
    "yarp receipt export ~/conversation ~/copy --without 3f9c21ab:stderr",
    "yarp receipt export ~/conversation ~/child --only 3f9c21ab --child",
)
def export_command(
    directory: str,
    target: str,
    only: tuple[str, ...],
    without: tuple[str, ...],
    max_bytes: int | None,
    child: bool,
    no_files: bool,
    as_json: bool,
) -> None:
    """Copy a conversation's receipts and what they name into the new directory TARGET.

    References lead to the copies; what may not go along, is missing or damaged is marked
    unavailable. A running capture stays.
    """
    import attrs

    from yarp.spool import shelf
    from yarp.spool.export import MAX_BYTES, export

    wanted = {shelf.find(word, [directory]).capture_id for word in only}
    denied = set()
    for word in without:
        capture_id, _, stream = word.partition(":")
        named = shelf.find(capture_id, [directory])
        if stream and stream not in named.streams:
            raise ReferenceUnknown(f"--without {word!a}: there is no such stream")
        denied |= {(named.capture_id, name) for name in ([stream] if stream else named.streams)}
    exported = export(
        (one for one in shelf.captures(directory) if not wanted or one.capture_id in wanted),
        target,
        permitted=lambda capture_id, stream: (capture_id, stream) not in denied,
        max_bytes=MAX_BYTES if max_bytes is None else max_bytes,
        for_child=child,
        with_files=not no_files,
    )
    if as_json:
        text.print_json(
            {
                "target": os.path.abspath(target),
                "receipts": [receipt.plain() for receipt in exported.receipts],
                "byte_length": exported.byte_length,
                "left": [attrs.asdict(left) for left in exported.left],
            }
        )
        return
    from yarp.recover.calls import safe

    click.echo(f"receipts: {len(exported.receipts)}")
    click.echo(f"bytes: {exported.byte_length}")
    for left in exported.left:
        what = left.capture_id if left.stream is None else f"{left.capture_id} {left.stream}"
        text.report([safe(f"{what} did not go along: {left.reason}")])


# Where captures are


def _roots(directories: tuple[str, ...]) -> list[str]:
    """The directories that were named, else those of the hosts that spool."""
    if directories:
        return [*directories]
    from yarp.foreign import sentence
    from yarp.plugins import Plugins

    loaded = Plugins.load()
    roots = []
    problems = []
    for host in loaded.hosts().values():
        if host.spools is None:
            continue
        try:
            roots += [root for root in host.spools() if os.path.isdir(root)]
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises
            problems.append(f"host {host.name}: its spools are not known: {sentence(error)}")
    text.report([*loaded.problems, *problems])
    return [*dict.fromkeys(roots)]


def _spooled(roots: list[str]) -> Iterator[dict[str, Any]]:
    from yarp.spool import shelf

    for root in roots:
        for capture in shelf.captures(root):
            try:
                standing = shelf.standing(capture)
            except (DataError, StorageError) as error:
                text.report([str(error)])
                continue
            yield row_of(standing.receipt, capture, standing)


def _archived(limit: int) -> list[dict[str, Any]]:
    """The runs in the archive; none where there is no archive."""
    from yarp import paths, runs
    from yarp.archive.read import Reader
    from yarp.config import load_config

    path = paths.archive_file(load_config().settings().archive_path)
    if not os.path.lexists(path):
        return []
    reader = Reader.open(path)
    try:
        damaged: list[str] = []
        found = runs.receipts(reader, limit=limit, damaged=damaged)
        rows = [row_of(receipt, None, None) for receipt in found]
        text.report(f"{each} holds damaged payloads; run: yarp archive verify" for each in damaged)
        return rows
    finally:
        reader.close()


def _call(reference: str) -> Receipt:
    from yarp import paths, runs
    from yarp.archive.read import Reader
    from yarp.config import load_config

    reader = Reader.open(paths.archive_file(load_config().settings().archive_path))
    try:
        receipt = runs.receipt(reader, reader.call(reference))
    finally:
        reader.close()
    if receipt is None:
        raise ReferenceUnknown(f"{reference} did not run below yarp run; it has no receipt")
    return receipt


# A part of what is kept


def _show_part(capture: Capture, stream: str, span: str, *, raw: bool, as_json: bool) -> None:
    from yarp.spool import shelf
    from yarp.spool.follow import Part, read_range

    start, end = _span(span)
    standing = shelf.standing(capture)
    shelf.require_here(standing.receipt)
    kept = [one.name for one in standing.receipt.streams if one.reference is not None]
    with capture.opened() as directory:
        file = shelf.open_stream(directory, capture, stream) if stream in kept else None
        if file is None:
            raise ReferenceUnknown(f"nothing is kept of {stream} of {capture.capture_id}")
        try:
            size = os.fstat(file).st_size
            end = size if end is None else end
            if start > size or end > size:
                raise ReferenceUnknown(f"bytes {span} are not there; {stream} has {size} bytes")
            if end - start > _cap():
                raise DataError(
                    f"these are {end - start} bytes, more than the {_cap()} that one answer may "
                    f"give; read fewer, such as --bytes {start}:{start + _cap()}"
                )
            is_text = standing.receipt.representation != "binary"
            part = Part(stream, *read_range(file, start, end, text=is_text))
        finally:
            os.close(file)
    Printer(headed=False, raw=raw, as_json=as_json).write(part, is_text=is_text)


def _span(given: str) -> tuple[int, int | None]:
    first, colon, last = given.partition(":")
    digits = (first + last).isascii() and (first + (last or "0")).isdecimal() and bool(first)
    if not colon or not digits:
        raise UsageError(f"--bytes {given!a}: write it as 0:4096, or 4096: to the end")
    start, end = int(first), int(last) if last else None
    if end is not None and end < start:
        raise UsageError(f"--bytes {given!a}: the second number is not below the first")
    return start, end


def _cap() -> int:
    from yarp.config import load_config

    return load_config().settings().recovery_cap_bytes
