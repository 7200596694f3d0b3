"""What the reduction does to one result, added to a tally.

Everything is counted as the model would read it: characters are Unicode scalars, bytes are
UTF-8, and the marker of a summary, with a reference of full length, is part of its size.
Source: rust-YARP's census; seed 003, "Implementation status".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import orjson

from yarp.census import syntax
from yarp.census.classes import CANDIDATE, UNCLEAR, Kind, kind_of
from yarp.census.tally import Tally
from yarp.payload import utf8
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import Plan, plan
from yarp.shell.quoting import quote
from yarp.shorten import reduction_of

if TYPE_CHECKING:
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
_SIZE_BANDS = ((1000, "000000-000999"), (10_000, "001000-009999"), (100_000, "010000-099999"))
_LARGEST_BAND = "100000+"
_CUT_NOTICES = ("truncated", "Full output saved to", "[Showing lines", "characters omitted")
_TRANSPORT = ("Exit code ", "Process exited with code", "Command exited with code", "Chunk ID: ")
_NOTICE_CHARACTERS = 500
_REMEMBERED = 4096


@attrs.frozen
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


@attrs.frozen
class _Known:
    """What a command text says, whatever it printed."""

    planned: Plan | None
    kind: Kind
    labels: tuple[str, ...]


class Measure:
    """Measures results one by one, in one process."""

    def __init__(self, compiled: Compiled, ceiling: Ceiling | None = None) -> None:
        # Of another machine's calls no project's rules are known here.
        self._rules = compiled.rules_in(None)
        self._compiled = compiled
        self._ceiling = ceiling or Ceiling()
        self._known: dict[str, _Known] = {}
        self.tally = Tally()

    def take(self, row: Row) -> None:
        """Count one result."""
        text = row.output_text
        data = utf8(text)
        before = (len(text), len(data), _lines(text))
        after, changed = before, False
        key = self._shell_key(row)
        success = succeeded(row) if key is not None else None
        known = None
        if key is not None:
            known = self._of(command(row, key))
            if known.planned is not None and known.planned.selection is not None:
                status = known.planned.status(None, success=success)
                shown = self._reduced(known.planned, data, status)
                if shown is not None:
                    after, changed = (len(shown), len(utf8(shown)), _lines(shown)), True
                    self._check(text, shown)
        numbers = _numbers(before, after, changed)
        self._count(row, numbers)
        if known is not None:
            self._count_shell(known, numbers, success)
            if not changed:
                self._count_unchanged(known, before[0])

    # -- what ran

    def _shell_key(self, row: Row) -> str | None:
        """The key of the input that holds the command text; '' for any; None: no shell tool."""
        declared = self._compiled.hosts.get(row.agent, {}).get("shell_tools", {})
        if row.tool_name in declared:
            return str(declared[row.tool_name])
        name = row.tool_name.lower()
        return "" if name in _SHELL_TOOLS or "shell" in name else None

    def _of(self, text: str | None) -> _Known:
        key = text or ""
        known = self._known.get(key)
        if known is None:
            planned = None if text is None else plan(text, self._rules)
            labels = ("none",) if text is None else tuple(syntax.labels(text))
            known = _Known(planned, kind_of(text, planned, self._rules), labels)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    # -- what it would become

    def _reduced(self, planned: Plan, data: bytes, status: Status) -> str | None:
        reduction = reduction_of(planned, self._compiled)
        if reduction is None:
            return None
        reduction.feed(0, data)
        recovery = Recovery(REFERENCE, "complete", ("result_text", "result_text"))
        summary = reduction.finish(status, recovery)
        if summary.fault is not None:
            self.tally.add("fault", "reducer")
        return summary.stdout.decode() if summary.changed else None

    def _check(self, text: str, shown: str) -> None:
        if REFERENCE not in shown:
            self.tally.add("missing_recovery_marker", "summary")
        before, after = text.lower(), shown.lower()
        lost = [term for term in DIAGNOSTIC_TERMS if term in before and term not in after]
        for term in lost:
            self.tally.add("diagnostic_veto", term)
        if lost:
            self.tally.add("diagnostic_veto_result", "any")

    # -- counting

    def _count(self, row: Row, numbers: tuple[int, ...]) -> None:
        add = self.tally.add
        add("total", "evaluated", numbers)
        add("agent", row.agent, numbers)
        add("tool", row.tool_name, numbers)
        characters = numbers[2]
        band = next((name for end, name in _SIZE_BANDS if characters < end), _LARGEST_BAND)
        add("size_band", band, numbers)
        for label in properties(row.output_text):
            add("result_property", label, numbers)

    def _count_shell(self, known: _Known, numbers: tuple[int, ...], success: bool | None) -> None:
        add = self.tally.add
        status = "unknown" if success is None else "success" if success else "failure"
        add("total", "shell", numbers)
        add("outcome", known.kind.outcome, numbers)
        add("status", status, numbers)
        for label in known.labels:
            add("shell_syntax", label, numbers)
            add("shell_syntax_status", f"{label}/{status}", numbers)
        selection = None if known.planned is None else known.planned.selection
        if selection is not None:
            add("total", "eligible", numbers)
            add("eligible_status", status, numbers)
            add("rule", f"{selection.pack}/{selection.rule}", numbers)
            add("reducer", selection.family, numbers)

    def _count_unchanged(self, known: _Known, characters: int) -> None:
        add, kind = self.tally.add, known.kind
        removable = self._ceiling.removable(characters)
        numbers = (1, characters, removable)
        add("unchanged", "all", numbers)
        add("unchanged_class", kind.name, numbers)
        add("family", f"{kind.name}\t{kind.family}\t{kind.reducer}", numbers)
        for label in known.labels:
            add("unchanged_syntax", label, numbers)
        if kind.name == CANDIDATE:
            add("scenario", "candidates", numbers)
        if kind.name in (CANDIDATE, UNCLEAR):
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


def properties(text: str) -> list[str]:
    """What is peculiar about a result's text."""
    found = []
    if not text.isascii():
        found.append("non_ascii")
    if len(text) >= _LONG_LINE_CHARACTERS:
        longest = max(map(len, text.split("\n")))
        if longest >= _OVERSIZED_LINE_CHARACTERS:
            found.append("oversized_line_1m")
        if longest >= _LONG_LINE_CHARACTERS:
            found.append("long_line_16k")
    head, tail = text[:_NOTICE_CHARACTERS], text[-_NOTICE_CHARACTERS:]
    if any(notice in head or notice in tail for notice in _CUT_NOTICES):
        found.append("host_truncated")
    if any(notice in head or notice in tail for notice in _TRANSPORT):
        found.append("transport_outcome")
    return found


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _numbers(
    before: tuple[int, int, int], after: tuple[int, int, int], changed: bool
) -> tuple[int, ...]:
    pairs = [number for pair in zip(before, after, strict=True) for number in pair]
    return (1, int(changed), *pairs)
