"""How `yarp receipt` prints: rows for programs, tables and lines for readers, kept parts."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

import rich_click as click

from yarp.cli import text

if TYPE_CHECKING:
    from yarp.spool.follow import Part
    from yarp.spool.receipt import Receipt
    from yarp.spool.shelf import Capture, Standing

_SHORT_ID = 12


def row_of(receipt: Receipt, capture: Capture | None, standing: Standing | None) -> dict[str, Any]:
    """A receipt for programs: as it was published, with how it stands and where it lies."""
    files = {}
    if capture is not None and standing is not None and receipt.reference_state == "local":
        live = "" if standing.state == "published" else ".live"
        files = {
            stream.name: capture.path(stream.name + live)
            for stream in receipt.streams
            if stream.reference is not None
        }
    return {
        "state": "archived" if standing is None else str(standing.state),
        "directory": None if capture is None else capture.directory,
        "files": files,
        **receipt.plain(),
    }


def _process(row: dict[str, Any]) -> str:
    if row["process"] is None:
        return "unknown"
    said = str(row["process"])
    if row["signal"] is not None:
        return f"{said}, signal {row['signal']}"
    return said if row["exit_code"] is None else f"{said} {row['exit_code']}"


def _kept(row: dict[str, Any]) -> str:
    said = str(row["capture"])
    return f"{said}: {row['capture_reason']}" if row["capture_reason"] else said


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table of captures."""
    from yarp.recover.calls import moment, safe

    capture_id = row["capture_id"]
    counts = [stream["committed"] for stream in row["streams"]]
    known = [count for count in counts if count is not None]
    return (
        capture_id if row["state"] == "archived" else capture_id[:_SHORT_ID],
        "-" if row["created_at_ms"] is None else moment(row["created_at_ms"]),
        _process(row),
        safe(_kept(row)),
        f"{sum(known):,}" if known else "-",
        "-" if row["command_label"] is None else safe(row["command_label"])[:60],
    )


def show(
    receipt: Receipt, capture: Capture | None, standing: Standing | None, *, as_json: bool
) -> None:
    """Print a receipt, in lines or as JSON."""
    row = row_of(receipt, capture, standing)
    if as_json:
        text.print_json(row)
        return
    from yarp.recover.calls import moment, safe

    preview = row["preview"]
    lines = {
        "capture": f"{row['capture_id']} ({row['state']})",
        "command": row["command_label"],
        "call": row["source_call_id"],
        "job": row["job_id"],
        "process": _process(row) + (f": {row['process_reason']}" if row["process_reason"] else ""),
        "kept": f"{_kept(row)}, as {row['representation']}",
        "shown": preview and f"{preview['state']}, {preview['byte_length']:,} bytes",
        "started": row["created_at_ms"] and moment(row["created_at_ms"]),
        "finished": row["finished_at_ms"] and moment(row["finished_at_ms"]),
        "files": str(row["reference_state"]),
    }
    for name, value in lines.items():
        if value is not None:
            click.echo(f"{name + ':':10}{safe(str(value))}")
    for stream in row["streams"]:
        counts = [
            f"{name} {'unknown' if stream[name] is None else format(stream[name], ',')}"
            for name in ("observed", "accepted", "pending", "discarded", "committed")
        ]
        click.echo(f"{safe(stream['name']) + ':':10}{', '.join(counts)}")
        path = row["files"].get(stream["name"])
        if path is None and standing is None and stream["reference"] is not None:
            path = f"yarp read {row['capture_id']} {stream['name']}"
        if path is not None:
            click.echo(f"{'':10}{safe(path)}")


class Printer:
    """Puts parts on standard output: exact text, escaped binary bytes, or a JSON object a line."""

    def __init__(self, *, headed: bool, raw: bool, as_json: bool) -> None:
        self._headed = headed
        self._raw = raw
        self._as_json = as_json
        self._stream: str | None = None
        self._line_open = False

    def write(self, part: Part, *, is_text: bool) -> None:
        """Print a part."""
        if self._as_json:
            said: dict[str, Any] = {"stream": part.stream, "start": part.start, "end": part.end}
            if is_text:
                said["text"] = part.data.decode("utf-8", "replace")
            else:
                said["base64"] = base64.b64encode(part.data).decode()
            self._line(said)
            return
        if self._headed and part.stream != self._stream:
            before = "\n" if self._line_open else ""
            sys.stdout.write(f"{before}==> {part.stream} <==\n")
        self._stream = part.stream
        data = part.data
        from yarp.spool.preview import safe

        if not self._raw and (not is_text or sys.stdout.isatty()):
            data = safe(data).encode()
        self._line_open = data[-1:] not in {b"", b"\n"}
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def end(self, standing: Standing) -> None:
        """Say how it stands: after a tail, what was printed is all there is, or it is not."""
        receipt = standing.receipt
        if self._as_json:
            names = ("process", "exit_code", "signal", "capture", "capture_reason")
            self._line(
                {"state": str(standing.state)} | {name: getattr(receipt, name) for name in names}
            )
            return
        row = row_of(receipt, None, standing)
        from yarp.recover.calls import safe

        said = f"{standing.state}; process {_process(row)}; capture {_kept(row)}"
        text.report([safe(said)])

    def _line(self, value: dict[str, Any]) -> None:
        click.echo(text.json_text(value, indent=None))
