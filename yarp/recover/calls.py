"""Calls as a list to choose from: what ran, when, how it ended, how much it printed."""

from __future__ import annotations

import time

from yarp.errors import ArchiveCorrupt, UsageError
from yarp.recover.select import is_tombstone
from yarp.shell.quoting import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from yarp.recover.select import Payloads, Source

    class Call(Protocol):
        """What the archive says of one call."""

        call_id: int
        archive_ref: str
        agent: str
        source_session_id: str
        tool_name: str
        working_directory: str | None
        started_at_ms: int
        finished_at_ms: int | None
        status: str
        is_error: bool | None

    class Snapshots(Payloads, Protocol):
        """What the archive's reader offers here."""

        def snapshot(self, call_id: int, subject: str, stage: str) -> Source | None:
            """One snapshot of a call, or None."""


# A larger input is a file's content rather than a command.
_INPUT_BYTES = 1 << 18
_COMMAND_CHARACTERS = 200
_STREAMS = ("stdout", "stderr")
_COMMANDS = ("command", "cmd", "argv", "script")
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def safe(text: str) -> str:
    r"""`text` with what a terminal would obey as `\xNN` or `\u{N}`."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else f"\\x{ord(c):02x}" if c < "\x80" else f"\\u{{{ord(c):x}}}"
        for c in text
    )


def moment(at_ms: int) -> str:
    """A time as RFC 3339 in UTC, whole seconds."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms // 1000))
    except (ValueError, OverflowError, OSError):
        return f"{at_ms}ms"


def state(call: Call) -> str:
    """`started` for a call that never finished, else `ok` or `failed`."""
    if call.status != "finished":
        return "started"
    return "failed" if call.is_error else "ok"


def since(text: str, option: str = "--since") -> int:
    """Milliseconds since 1970 of `2026-01-31`, `2026-01-31T12:00:00Z`, or of `2h` ago (s m h d w).

    Raises UsageError for anything else.
    """
    number, unit = text[:-1], _UNITS_MS.get(text[-1:])
    if unit and number.isascii() and number.isdigit() and len(number) < 9:
        return int(time.time() * 1000) - int(number) * unit
    day, _, clock = text.partition("T")
    shape = "".join("0" if c in "0123456789" else c for c in text)
    if shape in {"0000-00-00", "0000-00-00T00:00:00Z"}:
        year, month, date = (int(part) for part in day.split("-"))
        hour, minute, second = (int(part) for part in clock[:8].split(":")) if clock else (0, 0, 0)
        days = _days(year, month, date)
        if days is not None and hour < 24 and minute < 60 and second < 60:
            return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000
    raise UsageError(
        f"{option} {safe(text)} is no time; "
        "write 2026-01-31, 2026-01-31T12:00:00Z or 2h (s m h d w)"
    )


def _days(year: int, month: int, day: int) -> int | None:
    """Days from 1970-01-01, or None when there is no such day."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400 - 719_162
    return days + sum(lengths[: month - 1]) + day - 1


def command(snapshots: Snapshots, call: Call) -> str | None:
    """The first line of what was called, at most 200 characters; None when it is not known.

    A list of words is quoted as a shell takes it. Raises ArchiveCorrupt for damaged bytes.
    """
    return _line(_input(snapshots, call))


def _input(snapshots: Snapshots, call: Call) -> str | None:
    found = snapshots.snapshot(call.call_id, "input", "before")
    if found is None or found.byte_length > _INPUT_BYTES:
        return None
    return snapshots.payload(found.sha256).decode("utf-8", "replace")


def _is_redacted(given: str | None) -> bool:
    """Whether an input is what `yarp archive redact` puts in its place."""
    return given is not None and is_tombstone(given.encode("utf-8", "replace"))


def _line(given: str | None) -> str | None:
    if given is None or _is_redacted(given):
        return None
    import json

    try:
        value: Any = json.loads(given)
    except ValueError:
        value = given
    if isinstance(value, dict):
        named = next((value[name] for name in _COMMANDS if value.get(name)), None)
        value = named if isinstance(named, str | list) else value.get("yarpRawJson", given)
    if isinstance(value, list):
        value = " ".join(quote(str(word)) for word in value)
    line = str(value).strip().partition("\n")[0]
    return line[:_COMMAND_CHARACTERS]


def sizes(snapshots: Snapshots, call: Call) -> tuple[int | None, int | None]:
    """Bytes before and after YARP: of the streams, else of the result; None when unknown."""
    for subjects in (("stdout", "stderr"), ("result",)):
        before, after = (
            [
                found.byte_length
                for subject in subjects
                if (found := snapshots.snapshot(call.call_id, subject, stage)) is not None
            ]
            for stage in ("before", "after")
        )
        if subjects == ("result",) and call.agent == "yarp":
            break  # the receipt of a run that had the terminal: nothing of what it printed
        if before or after:
            return sum(before) if before else None, sum(after) if after else None
    return None, None


def receipt(snapshots: Snapshots, call: Call) -> dict[str, object]:
    """What is known of how a call's process ended, and how much of its output was captured.

    The status and the signal are those of a `yarp run` without a host; None is unknown. Raises
    ArchiveCorrupt for damaged bytes.
    """
    ended: dict[str, Any] = {}
    found = snapshots.snapshot(call.call_id, "result", "before")
    if found is not None and call.agent == "yarp" and found.byte_length <= _INPUT_BYTES:
        import json

        value = json.loads(snapshots.payload(found.sha256))
        ended = value if isinstance(value, dict) else {}
    said: dict[str, Any] = ended.get("receipt") or {}
    state, reason = said.get("capture"), said.get("captureReason")
    if state is None:
        streams = [snapshots.snapshot(call.call_id, name, "before") for name in _STREAMS]
        known = [stream.completeness for stream in streams if stream is not None]
        if known:
            state = "complete" if set(known) == {"complete"} else "partial"
    return {
        "exitStatus": ended.get("exitCode"),
        "signal": said.get("signal"),
        "capture": state,
        "captureReason": reason,
    }


def facts(snapshots: Snapshots, call: Call) -> dict[str, object]:
    """One call as `yarp calls --json` gives it."""
    before, after = sizes(snapshots, call)
    given, damaged = None, False
    ended: dict[str, object] = dict.fromkeys(("exitStatus", "signal", "capture", "captureReason"))
    try:
        given = _input(snapshots, call)
        if not _is_redacted(given):
            ended = receipt(snapshots, call)
    except ArchiveCorrupt:
        damaged = True
    redacted = _is_redacted(given)
    finished = call.finished_at_ms
    return {
        "ref": call.archive_ref,
        "time": moment(call.started_at_ms),
        "startedAtMs": call.started_at_ms,
        "finishedAtMs": finished,
        "durationMs": None if finished is None else max(0, finished - call.started_at_ms),
        "agent": call.agent,
        "session": call.source_session_id,
        "tool": call.tool_name,
        "workingDirectory": call.working_directory,
        "command": _line(given),
        "bytesBefore": None if redacted else before,
        "bytesAfter": None if redacted else after,
        "state": state(call),
        **ended,
        "redacted": redacted,
        "damaged": damaged,
    }


def row(found: dict[str, Any]) -> str:
    """One call as `yarp calls` prints it; `-` where something is not known."""
    before, after, text = found["bytesBefore"], found["bytesAfter"], found["command"]
    text = "redacted" if found["redacted"] else text
    size = f"{'-' if before is None else before}>{'-' if after is None else after}"
    words = (found["ref"], found["time"], found["agent"], found["tool"], found["state"], size)
    return "  ".join((*(safe(word) for word in words), "-" if text is None else safe(text)))
