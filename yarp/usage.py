"""What the model read, against what its host would have shown it; from snapshots alone.

Nothing is counted while calls run: the rule is selected again from the input before, a recovery
read is an archived call of a recovery command, tokens are estimated (`yarp.tokens`), and what the
host would have shown is its plugin's declared cut. What is not known stays None and out of every
comparison. Source: spec "Reduction", Where the field stands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from yarp.errors import ArchiveCorrupt, ReferenceUnknown
from yarp.reduce.plan import Plan, plan, plan_argv
from yarp.shell.quoting import is_recovery, quote
from yarp.tokens import Gauge
from yarp.types import Cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yarp.archive.read import CallRow, Reader, Source
    from yarp.cache import Compiled

# A larger input is a file's content rather than a command.
_INPUT_BYTES = 1 << 18
# A larger result is not parsed for its text: its tokens stay unknown.
_RESULT_BYTES = 16 << 20
_REMEMBERED = 4096
_PROGRESS_CALLS = 64
_STREAMS = ("stdout", "stderr")
_REFERENCE = re.compile(r"\byr_[0-9a-f]{32}\b")

Snapshots = dict[tuple[str, str], "Source"]


@attrs.define
class Usage:
    """Calls of one kind; tokens are estimates, None where no call of the kind has any known.

    `exact_tokens`: all that the tools printed. `shown_tokens`: what the model got; the part that
    recovery reads cost it is `recovery_tokens`, of `recovery_calls`. `compared` are the calls of
    which it is known both what the host would have shown (`host_tokens`; nothing for a recovery
    read, which it would not have needed) and what was shown (`compared_tokens`).
    """

    calls: int = 0
    compared: int = 0
    exact_tokens: int | None = None
    host_tokens: int | None = None
    compared_tokens: int | None = None
    shown_tokens: int | None = None
    recovery_calls: int = 0
    recovery_tokens: int = 0

    @property
    def saved_tokens(self) -> int | None:
        """What was spared, recovery reads paid; negative when YARP cost more than it spared."""
        if self.host_tokens is None or self.compared_tokens is None:
            return None
        return self.host_tokens - self.compared_tokens

    @property
    def saved_percent(self) -> float | None:
        """`saved_tokens` of `host_tokens`."""
        saved = self.saved_tokens
        if saved is None or not self.host_tokens:
            return None
        return round(100 * saved / self.host_tokens, 1)

    def add(self, found: Measure) -> None:
        """Count one more call."""
        self.calls += 1
        self.exact_tokens = _sum(self.exact_tokens, found.exact)
        self.shown_tokens = _sum(self.shown_tokens, found.shown)
        if found.recovery:
            self.recovery_calls += 1
            self.recovery_tokens += found.shown or 0
        if found.host is not None and found.shown is not None:
            self.compared += 1
            self.host_tokens = _sum(self.host_tokens, found.host)
            self.compared_tokens = _sum(self.compared_tokens, found.shown)


@attrs.frozen
class Measure:
    """The tokens of one call: all of it, what the host would have shown, what was shown."""

    exact: int | None
    host: int | None
    shown: int | None
    recovery: bool = False


@attrs.frozen
class Report:
    """The groups by their key (None: no rule), the largest first, and all calls together.

    `damaged` calls hold payloads that do not verify; they count as unknown.
    """

    groups: dict[str | None, Usage]
    total: Usage
    damaged: int


def usage(
    reader: Reader,
    compiled: Compiled,
    by: str,
    *,
    since_ms: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Measure every call, or those since a time. Reads the archive alone, in bounded memory.

    `progress` is told now and then how many calls are done.
    """
    counter = _Counter(reader, compiled)
    groups: dict[str | None, Usage] = {}
    total = Usage()
    damaged = 0
    for done, row in enumerate(reader.calls(since_ms=since_ms)):
        if progress is not None and done % _PROGRESS_CALLS == 0:
            progress(done)
        command, planned = _Command(), Plan()
        try:
            snapshots = reader.snapshots(row.call_id)
            command = counter.command(row, snapshots)
            planned = counter.plan(row, command)
            found = counter.measure(row, snapshots, recovery=planned.recovery)
        except ArchiveCorrupt:
            damaged += 1
            found = Measure(None, None, None, planned.recovery)
        key: str | None = row.agent if by == "agent" else row.tool_name
        if by == "rule":
            key = counter.rule(row, command, planned)
        groups.setdefault(key, Usage()).add(found)
        total.add(found)
    largest = sorted(groups.items(), key=lambda one: (-(one[1].exact_tokens or 0), one[0] or "~"))
    return Report(dict(largest), total, damaged)


@attrs.frozen
class _Command:
    """What a shell call was to run: as a text, or as the words of a program; None: unknown."""

    text: str | None = None
    argv: list[str] | None = None


class _Counter:
    """Measures calls; remembers the payloads that it met last, since before is often after."""

    def __init__(self, reader: Reader, compiled: Compiled) -> None:
        self._reader = reader
        self._compiled = compiled
        self._gauged: dict[tuple[object, ...], tuple[int, int | None]] = {}
        self._texts: dict[bytes, int | None] = {}
        self._cuts: dict[str, Cut | None] = {}

    # -- what ran

    def command(self, row: CallRow, snapshots: Snapshots) -> _Command:
        """What a shell call was to run, as the host or the shell gave it."""
        found = snapshots.get(("input", "before"))
        if found is None or found.byte_length > _INPUT_BYTES:
            return _Command()
        value = _parsed(self._reader.payload(found.sha256))
        if not isinstance(value, dict):
            return _Command()
        argv = value.get("argv")
        if row.agent not in self._compiled.hosts and isinstance(argv, list):
            return _Command(argv=[str(word) for word in argv])
        host = self._compiled.hosts.get(row.agent, {})
        # Of an agent whose plugin is gone, the usual key.
        key = host.get("shell_tools", {row.tool_name: "command"}).get(row.tool_name)
        text = None if key is None else value.get(key)
        return _Command(text=text if isinstance(text, str) else None)

    def plan(self, row: CallRow, command: _Command) -> Plan:
        """What the rules of now make of it, where it ran."""
        rules = self._compiled.rules_for(row.working_directory)
        if command.argv:
            text = " ".join(map(quote, command.argv))
            if is_recovery(text):
                return Plan(recovery=True)
            return plan_argv(command.argv, rules)
        return Plan() if command.text is None else plan(command.text, rules)

    def rule(self, row: CallRow, command: _Command, planned: Plan) -> str | None:
        """The rule that the call selects now; of a recovery read, that of the call it reads."""
        if planned.recovery:
            text = command.text or " ".join(command.argv or ())
            reference = _REFERENCE.search(text)
            if reference is None:
                return None
            try:
                row = self._reader.call(reference[0])
                command = self.command(row, self._reader.snapshots(row.call_id))
            except (ReferenceUnknown, ArchiveCorrupt):
                return None
            planned = self.plan(row, command)
        selection = planned.selection
        return None if selection is None else f"{selection.pack}/{selection.rule}"

    # -- what it gave

    def measure(self, row: CallRow, snapshots: Snapshots, *, recovery: bool) -> Measure:
        """The tokens of a call."""
        before = [snapshots[name, "before"] for name in _STREAMS if (name, "before") in snapshots]
        after = [snapshots[name, "after"] for name in _STREAMS if (name, "after") in snapshots]
        result = snapshots.get(("result", "before")), snapshots.get(("result", "after"))
        hostless = row.agent not in self._compiled.hosts
        given = None if result[0] is None or hostless else self._text(result[0])
        got = None if result[1] is None or hostless else self._text(result[1])
        exact = self._exact(before, snapshots, given)
        shortened = [one.sha256 for one in before] != [one.sha256 for one in after]
        changed = None not in result and result[0].sha256 != result[1].sha256  # type: ignore[union-attr]
        if hostless:
            # Nobody else stands between the command and its reader, and nobody would have cut it.
            got = self._gauge(after)[0] if after else None
            return Measure(exact, None, got, recovery=recovery)
        if recovery:
            return Measure(exact, 0, got, recovery=True)
        if shortened and after:
            host = self._gauge(before, self._cut(row.agent))[1]
            return Measure(exact, host, got if got is not None else self._gauge(after)[0])
        cut = self._cut(row.agent)
        whole = snapshots.get(("source_output", "before"), snapshots.get(("result_text", "before")))
        if changed and whole is not None and cut is not None and cut.beyond is not None:
            # What it gives its hooks is more than what it shows.
            return Measure(exact, self._gauge([whole], cut)[1], got)
        return Measure(exact, given if changed else got, got)

    def _exact(self, before: list[Source], snapshots: Snapshots, given: int | None) -> int | None:
        """All that the tool printed, as far as the archive has it."""
        if before:
            return self._gauge(before)[0]
        for name in ("source_output", "result_text"):
            found = snapshots.get((name, "before"))
            if found is not None:
                return self._gauge([found])[0]
        return given

    def _cut(self, agent: str) -> Cut | None:
        if agent not in self._cuts:
            fields = self._compiled.hosts.get(agent, {}).get("cut")
            self._cuts[agent] = None if fields is None else Cut(**fields)
        return self._cuts[agent]

    def _gauge(self, sources: list[Source], cut: Cut | None = None) -> tuple[int, int | None]:
        """The tokens of these sources one after the other, whole and after the cut."""
        key = (cut is None, *(source.sha256 for source in sources))
        if key not in self._gauged:
            gauge = Gauge(cut)
            for source in sources:
                for block in self._blocks(source):
                    gauge.feed(block)
            gauge.finish()
            if len(self._gauged) >= _REMEMBERED:
                self._gauged.clear()
            self._gauged[key] = gauge.whole, gauge.left
        return self._gauged[key]

    def _blocks(self, source: Source) -> Iterable[bytes]:
        if source.byte_length <= _INPUT_BYTES:
            return [self._reader.payload(source.sha256)]
        return self._reader.payload_blocks(source.sha256)

    def _text(self, result: Source) -> int | None:
        """The tokens of the text in a host's result; None for one too large to look into."""
        if result.byte_length > _RESULT_BYTES:
            return None
        if result.sha256 not in self._texts:
            gauge = Gauge()
            data = self._reader.payload(result.sha256)
            text = text_of(_parsed(data))
            gauge.feed(data if text is None else text.encode("utf-8", "replace"))
            gauge.finish()
            if len(self._texts) >= _REMEMBERED:
                self._texts.clear()
            self._texts[result.sha256] = gauge.whole
        return self._texts[result.sha256]


def text_of(value: Any) -> str | None:
    """The text of a result as most hosts shape it; None for any other shape.

    A string; text blocks under `content`; or the strings under `stdout`, `stderr`, `output`,
    `content`, `text`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [
            one["text"]
            for one in value
            if isinstance(one, dict) and isinstance(one.get("text"), str)
        ]
        return "".join(texts) if texts or not value else None
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("content"), list):
        return text_of(value["content"])
    texts = [
        value[name]
        for name in ("stdout", "stderr", "output", "content", "text")
        if isinstance(value.get(name), str)
    ]
    return "".join(texts) if texts else None


def _parsed(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
