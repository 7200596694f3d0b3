"""`yarp calls` and `yarp grep`: which call to recover from, across the whole archive."""

from __future__ import annotations

import os

from yarp.cli.recover import (
    PATTERN_SWITCHES,
    PATTERN_VALUES,
    call_of,
    complain,
    fit,
    matcher_of,
    open_archive,
)
from yarp.cli.words import Options
from yarp.errors import ArchiveCorrupt
from yarp.recover.calls import command, facts, moment, row, safe, since
from yarp.recover.select import is_redacted, open_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from yarp.archive.read import CallRow, Reader
    from yarp.recover.pattern import Matcher
    from yarp.settings import Settings

_CALLS = 20
_RESULTS = 3
_SOURCES = ("stdout", "stderr", "result_text", "source_output")

GREP_HELP = """\
yarp grep 'panicked at'                 in every archived call, the newest first
yarp grep -i timeout --tool bash --since 2h
yarp grep -F 'a[0]' --failed -m 5

Searches the exact output of all calls; `yarp search REF` shows more of one.

  -e -F -i -w -a        as in yarp search
  -m, --max-results N   lines shown of each call (default 3)
  -c, --count           count, show no lines
  --agent A --session S --tool T --failed                 only such calls
  --since TIME --until TIME|REF                           begun then; before that call
  --source NAME         in that source only (stdout, stderr, result_text, source_output)
      --limit N         look at the newest N of them only

TIME is 2026-01-31, 2026-01-31T12:00:00Z, or 30m, 2h, 7d ago.
Exit codes: 0 found, 1 nothing found, 64 usage, 65 bad data, 74 I/O.
"""

CALLS_HELP = """\
yarp calls                              the newest 20 calls
yarp calls --failed --since 2h          what failed in the last two hours
yarp calls --tool bash -n 50 --json
yarp calls --until yr_REF               the 20 before that call

Columns: reference, time (UTC), agent, tool, state (ok, failed, started), bytes
before>after, first line of the command. `-` is unknown.

  --agent A --session S --tool T --failed                 only such calls
  --since TIME --until TIME|REF                           begun then; before that call
  -n, --limit N         how many (default 20)
  --json                as a JSON array, with exit status, signal, duration, capture

TIME is 2026-01-31, 2026-01-31T12:00:00Z, or 30m, 2h, 7d ago.
Exit codes: 0, 1 no such call, 64 usage, 65 bad data, 74 I/O.
"""

_FILTER_VALUES = {
    "--agent": "agent",
    "--session": "session",
    "--tool": "tool",
    "--since": "since",
    "--until": "until",
    "--limit": "limit",
}
_GREP_VALUES = {**PATTERN_VALUES, **_FILTER_VALUES, "--source": "source"}
_GREP_SWITCHES = {**PATTERN_SWITCHES, "--failed": "failed"}
_CALLS_VALUES = {**_FILTER_VALUES, "-n": "limit"}
_CALLS_SWITCHES = {"--failed": "failed", "--json": "json"}


def _filters(options: Options) -> dict[str, Any]:
    at, until = options.value("since"), options.value("until")
    by_call = until is None or until.startswith("yr_")
    return {
        "agent": options.value("agent"),
        "session": options.value("session"),
        "tool": options.value("tool"),
        "since_ms": None if at is None else since(at),
        "until_ms": None if by_call or until is None else since(until, "--until"),
        "before": until if by_call else None,
        "failed": "failed" in options.switches,
    }


def _found(reader: Reader, filters: dict[str, Any], limit: int | None) -> Iterator[CallRow]:
    before = filters["before"]
    return reader.calls(
        **{**filters, "before": None if before is None else call_of(reader, before)}, limit=limit
    )


def calls(words: list[str], settings: Settings) -> tuple[bytes, int]:
    """The answer of `yarp calls` and its exit status."""
    options = Options("calls", words, _CALLS_VALUES, _CALLS_SWITCHES)
    if options.positional:
        raise options.wrong(f"unexpected word {options.positional[0]}")
    most = max(1, settings.recovery_cap_lines - 2)
    limit = options.number("limit", 1, most) or min(_CALLS, most)
    filters = _filters(options)
    reader = open_archive(settings)
    as_json = "json" in options.switches
    if as_json:
        import json
    lines: list[str] = []
    damage = _Damage()
    room = settings.recovery_cap_bytes - 192  # for the brackets, or the line about the rest
    more = False
    last = ""
    for call in _found(reader, filters, limit + 1):
        found = facts(reader, call)
        line = json.dumps(found) if as_json else row(found)
        room -= len(line.encode("utf-8", "replace")) + 2
        if room < 0 or len(lines) == limit:
            more = True
            break
        lines.append(line)
        last = call.archive_ref
        if found["damaged"]:
            damage.calls[call.archive_ref] = None
    damage.complain("whose command cannot be shown", settings)
    note = f"[yarp calls: {len(lines)} shown, there are older ones; the next: --until {last}]"
    if as_json:
        if more:
            complain(note, settings.recovery_cap_bytes)
        return ("[" + ",\n".join(lines) + "]\n").encode("utf-8", "replace"), damage.status(
            bool(lines)
        )
    if not lines:
        return b"No calls\n", 1
    lines += [note] if more and len(lines) < settings.recovery_cap_lines else []
    return "".join(line + "\n" for line in lines).encode("utf-8", "replace"), damage.status(True)


class _Damage:
    """The calls in which damaged bytes were met: they must not hide what the others hold."""

    def __init__(self) -> None:
        self.calls: dict[str, None] = {}

    def complain(self, what: str, settings: Settings) -> None:
        """Say which calls it were, if there were any."""
        if self.calls:
            first, *rest = self.calls
            more = f" and {len(rest)} more" if rest else ""
            complain(
                f"damaged bytes in {first}{more}, {what}; see: yarp archive verify",
                settings.recovery_cap_bytes,
            )

    def status(self, found: bool) -> int:
        """The exit status: 65 where bytes are damaged, else that of a search."""
        return ArchiveCorrupt.exit_code if self.calls else 0 if found else 1


def grep(words: list[str], settings: Settings) -> tuple[bytes, int]:
    """The answer of `yarp grep` and its exit status."""
    options = Options("grep", words, _GREP_VALUES, _GREP_SWITCHES)
    patterns = options.values.get("regexp", [])
    if len(options.positional) != (0 if patterns else 1):
        raise options.wrong("give one pattern")
    results = options.number("results", 1, settings.recovery_cap_lines) or _RESULTS
    counting = "count" in options.switches
    as_text = "text" in options.switches
    only = options.value("source")
    if only not in (None, *_SOURCES):
        raise options.wrong(f"--source takes one of {', '.join(_SOURCES)}")
    limit = options.number("limit", 1, 10**15 - 1)
    filters = _filters(options)
    matcher = matcher_of(options, patterns or options.positional)
    reader = open_archive(settings)
    room = settings.recovery_cap_bytes - 256  # for the line about the rest
    lines: list[bytes] = []
    looked = hits = 0
    empty: set[bytes] = set()  # the same output again need not be searched again
    full = False
    last = ""
    damage = _Damage()
    for call in _found(reader, filters, limit):
        looked += 1
        here = _in_call(
            reader,
            call,
            matcher,
            0 if counting else results,
            empty,
            settings,
            damage,
            only,
            as_text=as_text,
        )
        if not here:
            last = call.archive_ref
            continue
        hits += 1
        size = sum(len(line) + 1 for line in here)
        if size > room or len(lines) + len(here) > settings.recovery_cap_lines - 1:
            full = True
            break
        room -= size
        lines += here
        last = call.archive_ref
    damage.complain("of which not all was searched", settings)
    if not hits:
        unsearched = len(damage.calls)
        looked -= unsearched
        rest = f", {unsearched} more could not be searched" if unsearched else ""
        return f"No matches in {looked} calls{rest}\n".encode(), damage.status(False)
    rest = "the ceiling is reached, there may be more"
    rest += f": --until {last}" if last else "; narrow the pattern, or -m 1"
    note = f"[yarp grep: {looked} calls searched; {rest if full else f'{hits} of them match'}]"
    return fit([*lines, note.encode()], settings), damage.status(True)


def _in_call(
    reader: Reader,
    call: CallRow,
    matcher: Matcher,
    keep: int,
    empty: set[bytes],
    settings: Settings,
    damage: _Damage,
    only: str | None,
    *,
    as_text: bool,
) -> list[bytes]:
    from yarp.recover import search as engine

    lines: list[bytes] = []
    total = 0
    limit = min(512, max(64, settings.recovery_cap_bytes // 8))
    for source in reader.sources(call):
        if source.sha256 in empty or only not in (None, source.name):
            continue
        try:
            text = open_text(reader, source, os.path.dirname(reader.path))
        except ArchiveCorrupt:
            damage.calls[call.archive_ref] = None
            continue
        if is_redacted(text):
            continue
        found = engine.scan(text, matcher, keep, as_text=as_text)
        total += found.matches
        if not found.matches:
            empty.add(source.sha256)
        shown = engine.Source(source.name, "", text, found, matcher)
        lines += [
            b"%b:%d:%b"
            % (source.name.encode(), line.number, shown.shown(line, limit, selected=True))
            for line in found.lines
        ]
        text.close()
    if not total:
        return []
    try:
        ran = command(reader, call)
    except ArchiveCorrupt:
        damage.calls[call.archive_ref] = None
        ran = None
    title = "  ".join(
        safe(word)
        for word in (
            call.archive_ref,
            moment(call.started_at_ms),
            call.agent,
            call.tool_name,
            f"matches={total}",
            (ran or "-")[:100],
        )
    )
    return [title.encode("utf-8", "replace"), *lines]
