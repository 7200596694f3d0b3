"""What the reduction does to one result, added to a tally.

Everything is counted as the model would read it: characters are Unicode scalars, bytes are
UTF-8, and the marker of a summary, with a reference of full length, is part of its size.
Source: rust-YARP's census; seed 003, "Implementation status".
"""

from __future__ import annotations

from bisect import bisect_right
from operator import add as plus
from typing import TYPE_CHECKING

import attrs
import orjson

from yarp.census.classes import CANDIDATE, UNCLEAR, Kind, kind_of
from yarp.census.syntax import Syntax, read
from yarp.census.tally import Tally
from yarp.payload import utf8
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import Plan, plan
from yarp.shell.quoting import quote
from yarp.shorten import reduction_of

if TYPE_CHECKING:
    from typing import Any

    from yarp.cache import Compiled
    from yarp.reduce.engine import Status

REFERENCE = "yr_" + "0" * 32
"""Counted in every summary's marker, as a real one would be."""
DIAGNOSTIC_TERMS = ("error", "exception", "fail", "panic", "warning")
"""Words that a summary should not lose all mention of; looked for in any case."""

# Tools that run a shell command, as stores call them, whatever hosts declare.
_SHELL_TOOLS = frozenset(("bash", "exec_command", "run_terminal_cmd"))
_COMMAND_KEYS = ("command", "cmd")
_LONG_LINE_CHARACTERS = 16 << 10
_OVERSIZED_LINE_CHARACTERS = 1 << 20
_BAND_ENDS = (1000, 10_000, 100_000)
_BANDS = ("000000-000999", "001000-009999", "010000-099999", "100000+")
_CUT_NOTICES = ("truncated", "Full output saved to", "[Showing lines", "characters omitted")
_TRANSPORT = ("Exit code ", "Process exited with code", "Command exited with code", "Chunk ID: ")
_NOTICE_CHARACTERS = 500
_REMEMBERED = 4096
_NONE = "none"


@attrs.define
class Row:
    """A result with what is known of its call."""

    agent: str
    tool_name: str
    input_format: str
    input_text: str
    is_error: bool | None
    output_text: str
    output_json: str | None


@attrs.frozen
class Ceiling:
    """When the ceiling report counts characters as removable: what a summary would be allowed."""

    summary_characters: int = 1024
    minimum_removed_characters: int = 256
    minimum_savings_basis_points: int = 1500

    def removable(self, characters: int) -> int:
        """How many characters of an unchanged result a summary could remove at most."""
        removed = characters - self.summary_characters
        if removed < self.minimum_removed_characters:
            return 0
        share = removed * 10_000 // characters
        return removed if share >= self.minimum_savings_basis_points else 0


@attrs.frozen(eq=False)
class _Told:
    """All that is ever told of a command text: one and the same for many of them."""

    outcome: str
    kind: str
    family: str
    suggested: str
    labels: tuple[str, ...]
    source: str
    rule: str | None
    reducer: str


@attrs.frozen(eq=False)
class _Known:
    """What a command text says, whatever it printed."""

    planned: Plan | None
    told: _Told


if TYPE_CHECKING:
    # Characters, bytes, lines.
    _Size = tuple[int, int, int]
    # Agent, tool, properties, command, status.
    _Described = tuple[str, str, tuple[str, ...], _Told | None, bool | None]
    # The same with the size band, and whether the result was changed.
    _Labels = tuple[str, str, tuple[str, ...], _Told | None, bool | None, str, bool]


class Measure:
    """Measures results one by one, in one process."""

    def __init__(self, compiled: Compiled, ceiling: Ceiling | None = None) -> None:
        # Of another machine's calls no project's rules are known here.
        self._rules = compiled.rules_in(None)
        self._compiled = compiled
        self._ceiling = ceiling or Ceiling()
        self._shell_keys: dict[tuple[str, str], str | None] = {}
        self._known: dict[str, _Known] = {}
        self._tolds: dict[tuple[Any, ...], _Told] = {}
        self._alike: dict[_Labels, tuple[int, ...]] = {}
        self._tally = Tally()

    @property
    def tally(self) -> Tally:
        """All that was counted so far."""
        for labels, numbers in self._alike.items():
            self._add(labels, numbers)
        self._alike.clear()
        return self._tally

    def taken(self) -> Tally:
        """What was counted since this was asked for; what command texts say stays known."""
        counted, self._tally = self.tally, Tally()
        return counted

    def take(self, row: Row) -> None:
        """Count one result."""
        text = row.output_text
        before = _size(text)
        after = None
        key = self._shell_key(row)
        success = succeeded(row) if key is not None else None
        known = None
        if key is not None:
            known = self._of(command(row, key))
            if known.planned is not None and known.planned.selection is not None:
                status = known.planned.status(None, success=success)
                shown = self._reduced(known.planned, utf8(text), status)
                if shown is not None:
                    after = _size(shown)
                    self._check(text, shown)
        told = None if known is None else known.told
        self._count((row.agent, row.tool_name, properties(text), told, success), before, after)

    # -- what ran

    def _shell_key(self, row: Row) -> str | None:
        """The key of the input that holds the command text; '' for any; None: no shell tool."""
        tool = row.agent, row.tool_name
        try:
            return self._shell_keys[tool]
        except KeyError:
            declared = self._compiled.hosts.get(row.agent, {}).get("shell_tools", {})
            name = row.tool_name.lower()
            key = "" if name in _SHELL_TOOLS or "shell" in name else None
            if row.tool_name in declared:
                key = str(declared[row.tool_name])
            self._shell_keys[tool] = key
            return key

    def _of(self, text: str | None) -> _Known:
        key = text or ""
        known = self._known.get(key)
        if known is None:
            # First what stands in it: a plan reads the same tree, and then trees inside of it.
            syntax = None if text is None else read(text)
            planned = None if text is None else plan(text, self._rules)
            kind = kind_of(text, planned, syntax, self._rules)
            known = _Known(planned, self._told_of(planned, kind, syntax))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    def _told_of(self, planned: Plan | None, kind: Kind, syntax: Syntax | None) -> _Told:
        selection = None if planned is None else planned.selection
        values = (
            *(kind.outcome, kind.name, kind.family, kind.reducer),
            (_NONE,) if syntax is None else syntax.labels,
            _NONE if syntax is None else syntax.source,
            None if selection is None else f"{selection.pack}/{selection.rule}",
            "" if selection is None else selection.family,
        )
        return self._tolds.setdefault(values, _Told(*values))

    # -- what it would become

    def _reduced(self, planned: Plan, data: bytes, status: Status) -> str | None:
        reduction = reduction_of(planned, self._compiled)
        if reduction is None:
            return None
        reduction.feed(0, data)
        recovery = Recovery(REFERENCE, "complete", ("result_text", "result_text"))
        summary = reduction.finish(status, recovery)
        if summary.fault is not None:
            self._tally.add("fault", "reducer")
        return summary.stdout.decode() if summary.changed else None

    def _check(self, text: str, shown: str) -> None:
        if REFERENCE not in shown:
            self._tally.add("missing_recovery_marker", "summary")
        after = shown.lower()
        missing = [term for term in DIAGNOSTIC_TERMS if term not in after]
        before = text.lower() if missing else ""
        lost = [term for term in missing if term in before]
        for term in lost:
            self._tally.add("diagnostic_veto", term)
        if lost:
            self._tally.add("diagnostic_veto_result", "any")

    # -- counting

    def _count(self, described: _Described, before: _Size, after: _Size | None) -> None:
        """Add it to the results that are alike in all that is told of them."""
        characters, byte_count, lines = before
        band = _BANDS[bisect_right(_BAND_ENDS, characters)]
        labels = (*described, band, after is not None)
        left = before if after is None else after
        pairs = (characters, left[0], byte_count, left[1], lines, left[2])
        numbers = (1, int(after is not None), *pairs, self._ceiling.removable(characters))
        found = self._alike.get(labels)
        self._alike[labels] = numbers if found is None else tuple(map(plus, found, numbers))

    def _add(self, labels: _Labels, counted: tuple[int, ...]) -> None:
        add = self._tally.add
        agent, tool_name, peculiar, told, success, band, changed = labels
        numbers, removable = counted[:-1], counted[-1]
        add("total", "evaluated", numbers)
        add("agent", agent, numbers)
        add("tool", tool_name, numbers)
        add("size_band", band, numbers)
        for label in peculiar:
            add("result_property", label, numbers)
        if told is not None:
            self._count_shell(told, numbers, success)
            if not changed:
                self._count_unchanged(told, (numbers[0], numbers[2], removable))

    def _count_shell(self, told: _Told, numbers: tuple[int, ...], success: bool | None) -> None:
        add = self._tally.add
        status = "unknown" if success is None else "success" if success else "failure"
        add("total", "shell", numbers)
        add("outcome", told.outcome, numbers)
        add("status", status, numbers)
        add("shell_syntax_source", told.source, numbers)
        for label in told.labels:
            add("shell_syntax", label, numbers)
            add("shell_syntax_status", f"{label}/{status}", numbers)
        if told.rule is not None:
            add("total", "eligible", numbers)
            add("eligible_status", status, numbers)
            add("rule", told.rule, numbers)
            add("reducer", told.reducer, numbers)

    def _count_unchanged(self, told: _Told, numbers: tuple[int, ...]) -> None:
        add = self._tally.add
        add("unchanged", "all", numbers)
        add("unchanged_class", told.kind, numbers)
        add("family", f"{told.kind}\t{told.family}\t{told.suggested}", numbers)
        for label in told.labels:
            add("unchanged_syntax", label, numbers)
        if told.kind == CANDIDATE:
            add("scenario", "candidates", numbers)
        if told.kind in (CANDIDATE, UNCLEAR):
            add("scenario", "candidates_and_unclear", numbers)
        add("scenario", "all_unchanged", numbers)


def command(row: Row, key: str) -> str | None:
    """The command text of a shell call; the words of a program as the text that starts it."""
    if row.input_format == "text":
        return row.input_text
    try:
        value = orjson.loads(row.input_text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return value if isinstance(value, str) else None
    for name in (key, *_COMMAND_KEYS):
        found = value.get(name)
        if isinstance(found, str):
            return found
        if isinstance(found, list) and found and all(isinstance(word, str) for word in found):
            return " ".join(map(quote, found))
    return None


def succeeded(row: Row) -> bool | None:
    """Whether the call succeeded, as its structured result or its source says; None: unknown."""
    if row.output_json is not None:
        try:
            value = orjson.loads(row.output_json)
        except orjson.JSONDecodeError:
            value = None
        said = value if isinstance(value, dict) else {}
        inner = said.get("details")
        for place in (said, inner if isinstance(inner, dict) else {}):
            for name in ("exit_code", "exitCode"):
                if isinstance(place.get(name), int) and not isinstance(place[name], bool):
                    return bool(place[name] == 0)
        if said.get("status") == "failed":
            return False
    return None if row.is_error is None else not row.is_error


def properties(text: str) -> tuple[str, ...]:
    """What is peculiar about a result's text."""
    found = []
    if not text.isascii():
        found.append("non_ascii")
    if len(text) >= _LONG_LINE_CHARACTERS and _has_line(text, _LONG_LINE_CHARACTERS):
        if _has_line(text, _OVERSIZED_LINE_CHARACTERS):
            found.append("oversized_line_1m")
        found.append("long_line_16k")
    ends = text[:_NOTICE_CHARACTERS] + "\0" + text[-_NOTICE_CHARACTERS:]
    if any(map(ends.__contains__, _CUT_NOTICES)):
        found.append("host_truncated")
    if any(map(ends.__contains__, _TRANSPORT)):
        found.append("transport_outcome")
    return tuple(found)


def _has_line(text: str, characters: int) -> bool:
    """Whether a line has so many characters at least."""
    start, end = 0, len(text)
    while end - start >= characters:
        # From the right: the short lines on the way are never looked at.
        newline = text.rfind("\n", start, start + characters)
        if newline < 0:
            return True
        start = newline + 1
    return False


def _size(text: str) -> _Size:
    """Characters, bytes and lines."""
    byte_count = len(text) if text.isascii() else len(utf8(text))
    lines = text.count("\n") + (not text.endswith("\n")) if text else 0
    return len(text), byte_count, lines
