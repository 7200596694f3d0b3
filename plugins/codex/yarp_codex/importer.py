"""Codex rollouts as calls, results and where each stood, for the dataset.

Results are put together when a file is read to its end, since Codex writes what the model was
given and what happened in either order. Until then the lines are held, and beyond a bound just
their places. Source: seed 003, "Codex"; spec "Dataset", Formats.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    Call,
    Issue,
    Observation,
    Rejected,
    Result,
    Session,
    SourceItem,
    parse_json,
)
from yarp_codex import records
from yarp_codex.happened import Happened
from yarp_codex.merge import merged
from yarp_codex.native import Record, Strange, began_ms, string, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yarp.plugin import Line, SourceFact

# Lines of results are held up to this size a file; those beyond are read a second time.
HELD_BYTES = 8 << 20
BY_ORDER = " (in a script, by order)"
_RUNNING = re.compile(r"Script running with cell ID (\S+)")

Said = records.Output | Happened | records.Call
Place = tuple[int, int, int]
"""Number, offset and length of a line."""


def facts(item: SourceItem) -> Iterator[SourceFact]:
    """The calls of one rollout, their results, and each record that says so."""
    yield from _Rollout(item).facts()


class _Rollout:
    """One rollout as it is read: what holds at this place, and what is to be put together."""

    def __init__(self, item: SourceItem) -> None:
        self._item = item
        self._listed: dict[str, Any] = item.context or {}
        self._thread = ""
        # The thread whose history is copied here; its own where nothing is, as far as that shows.
        self._origin = ""
        self._own_from: int | None = None
        # The thread that this one works for.
        self._worker: str | None = None
        self._provider: str | None = None
        self._model: str | None = None
        self._directory: str | None = None
        self._calls: dict[str, Call] = {}
        self._given: dict[str, str] = {}
        self._said: dict[str, list[Line | Place]] = {}
        self._held_bytes = 0
        self._scripts = _Scripts()
        # Of a call that no record was met of: the script, model and directory when it was told of.
        self._heard: dict[str, tuple[str | None, str | None, str | None]] = {}
        # Calls without an id, by what they were given.
        self._unnamed: Counter[str] = Counter()

    def facts(self) -> Iterator[SourceFact]:
        for record in records.read(self._item.lines()):
            if self._origin != self._thread and self._is_own(record):
                self._origin = self._thread
            if not self._thread:
                yield self._begin(record)
            elif isinstance(record, records.Call):
                yield from self._call(record)
            elif isinstance(record, records.Output):
                self._scripts.answered(record)
                yield from self._answer(record, record.call_id)
            elif isinstance(record, Happened):
                if record.call_id not in self._calls:
                    holds = (self._scripts.running, self._model, self._directory)
                    self._heard.setdefault(str(record.call_id), holds)
                yield from self._answer(record, record.call_id)
            elif isinstance(record, records.Turn):
                self._model = record.model or self._model
                self._directory = record.working_directory or self._directory
            elif isinstance(record, records.Meta):
                if record.thread_id and record.thread_id != self._thread:
                    self._origin = record.thread_id
            elif record.type == "response_item" and _looks_like_a_call(record.kind):
                yield Issue.at(record.line, "unknown_call_record", "a call of an unknown kind")
            elif isinstance(record, Strange):
                yield Issue.at(record.line, "unknown_record", "JSON that is no rollout record")
        for call_id, said in self._together():
            yield from self._results(call_id, said)

    def _begin(self, record: Record) -> Session:
        if not isinstance(record, records.Meta) or record.thread_id is None:
            raise Rejected("unsupported_codex_source", "the first record is no session_meta")
        if record.line.number != 1 and record.thread_id not in self._item.relative_path:
            # The file's own first line is damaged, and this may be that of the thread it copied.
            raise Rejected("unsupported_codex_source", "the first line says not whose this is")
        self._thread = self._origin = record.thread_id
        self._worker = record.parent_thread_id
        self._own_from = record.own_history_from
        listed = self._listed if self._listed.get("id") == self._thread else {}
        self._provider = record.provider or string(listed.get("model_provider"))
        self._directory = record.working_directory or string(listed.get("cwd"))
        self._model = string(listed.get("model"))
        started = record.started_at_ms or whole(listed.get("created_at_ms"))
        seconds = whole(listed.get("created_at"))
        if started is None and seconds is not None:
            started = seconds * 1000
        return Session(self._thread, started_at_ms=started)

    def _is_own(self, record: Record) -> bool:
        """Whether the copied history ends before this record: a turn that began in this thread."""
        if self._own_from is not None and (record.ordinal or 0) >= self._own_from:
            return True
        if not isinstance(record, records.Turn) and record.kind != "task_started":
            return False
        began, since = began_ms(record.turn_id), began_ms(self._thread)
        return began is not None and since is not None and began >= since

    def _call(self, record: records.Call) -> Iterator[SourceFact]:
        name, call_id = record.tool_name, record.call_id
        if name is None or (record.kind in records.NAMED_CALLS and call_id is None):
            yield Issue.at(record.line, "unknown_call_record", "a call without a name or an id")
            return
        given, form = _input(record)
        whole = given if isinstance(given, str) else json.dumps(given, sort_keys=True)
        identity, copied = self._identity(record, call_id, name, whole)
        known = None if call_id is None else self._calls.get(call_id)
        if known is None:
            known = Call(
                identity,
                session=self._thread,
                tool_name=name,
                input=given,
                input_format=form,
                native_call_id=call_id,
                native_worker_id=self._worker,
                called_at_ms=record.at_ms,
                provider=self._provider,
                model=self._model,
                working_directory=_directory(given, form, self._directory),
                copy_of=copied,
            )
            yield known
            if call_id is not None:
                self._calls[call_id] = known
                self._given[call_id] = whole
        elif (known.tool_name, self._given[str(call_id)]) != (name, whole):
            yield Issue.at(record.line, "call_id_reused", "another call had this id already")
        yield Observation.at(
            record.line,
            known,
            native_record_kind=record.name,
            sequence_number=record.ordinal,
        )
        if record.is_script and call_id is not None:
            self._scripts.started(call_id)
        elif name == "wait" and call_id is not None:
            self._scripts.waits(call_id, given)
        if record.holds_result:
            yield from self._answer(record, call_id)

    def _identity(
        self, record: records.Call, call_id: str | None, name: str, whole: str
    ) -> tuple[tuple[str | int, ...], tuple[str | int, ...]]:
        """What names a call, and what it shares with its copies in forks of its thread.

        A fork of an older build repeats its parent's records, ids and all, with new times.
        """
        if call_id is not None:
            return (self._thread, call_id), (self._origin, call_id, name, whole)
        # No id: its place names it, and how often the same was called before.
        self._unnamed[whole] += 1
        place = (self._thread, "offset", record.line.offset)
        return place, (self._origin, "unnamed", name, whole, self._unnamed[whole])

    def _answer(self, record: Said, call_id: str | None) -> Iterator[Issue]:
        if call_id is None:
            yield Issue.at(record.line, "result_without_call", "a result that names no call")
            return
        line = record.line
        held: Line | Place = line
        self._held_bytes += len(line.data)
        if self._held_bytes > HELD_BYTES:
            held = (line.number, line.offset, len(line.data))
        self._said.setdefault(call_id, []).append(held)

    def _together(self) -> Iterator[tuple[str, list[Said]]]:
        """The records that tell of each call's result, call by call."""
        again: Iterable[tuple[str, list[Line]]]
        if self._item.compressed and self._held_bytes > HELD_BYTES:
            again = _second_reading(self._item, self._said)
        else:
            again = ((call_id, self._lines(self._said.pop(call_id))) for call_id in [*self._said])
        for call_id, lines in again:
            yield call_id, list(records.read(lines))  # type: ignore[arg-type]

    def _lines(self, held: list[Line | Place]) -> list[Line]:
        return [self._item.line_again(*one) if isinstance(one, tuple) else one for one in held]

    def _results(self, call_id: str, said: list[Said]) -> Iterator[SourceFact]:
        call = self._calls.get(call_id)
        if call is None and all(isinstance(record, Happened) for record in said):
            first: Happened = said[0]  # type: ignore[assignment]  # mypy does not see the line above
            if first.by_user:
                return
            call = self._recovered(call_id, first)
            if call is None:
                what = "a search of which no call record has the id; not joined by a guess"
                yield Issue.at(first.line, "result_without_call", what)
                return
            yield call
            for record in said:
                yield self._observe(call, record)
        name = call.tool_name if call else None
        for answer in merged(said, name, _readable(call)):
            result = Result(
                call.identity if call else (self._thread, call_id),
                output_text=answer.text,
                output_json=answer.fields,
                is_error=answer.is_error,
                returned_at_ms=answer.returned_at_ms,
            )
            yield result
            for record in answer.said_by:
                yield self._observe(result, record)

    def _observe(self, target: Call | Result, record: Said) -> Observation:
        told = isinstance(record, Happened)
        nested = isinstance(record, Happened) and record.is_nested
        return Observation.at(
            record.line,
            target,
            native_record_kind=record.name + BY_ORDER if nested else record.name,
            record_kind="projection" if told else "canonical",
            sequence_number=record.ordinal,
            native_branch_id=self._heard[str(record.call_id)][0] if nested else None,
        )

    def _recovered(self, call_id: str, told: Happened) -> Call | None:
        """The call that has no record of its own, as what became of it tells."""
        name = told.tool_name
        if name is None or (told.sort == "search" and self._unnamed):
            return None
        _, model, directory = self._heard[call_id]
        return Call(
            (self._thread, call_id),
            session=self._thread,
            tool_name=name,
            input=told.given,
            native_call_id=call_id,
            native_worker_id=self._worker,
            called_at_ms=told.started_at_ms,
            provider=self._provider,
            model=model,
            working_directory=told.working_directory or directory,
            copy_of=(self._origin, call_id, name, ""),
        )


class _Scripts:
    """Which scripts of code mode run, as far as the order of records tells."""

    def __init__(self) -> None:
        self._running: dict[str, str | None] = {}
        self._waits: dict[str, str] = {}

    @property
    def running(self) -> str | None:
        """The call of the only script that runs; None if there are several, or none."""
        return next(iter(self._running)) if len(self._running) == 1 else None

    def started(self, call_id: str) -> None:
        self._running[call_id] = None

    def waits(self, call_id: str, given: object) -> None:
        """A call of `wait`: what it gets tells of a script that was started before."""
        arguments = _parsed(given) if isinstance(given, str) else given
        cell = arguments.get("cell_id") if isinstance(arguments, dict) else None
        for script, known in self._running.items():
            if known is not None and known == cell:
                self._waits[call_id] = script

    def answered(self, record: records.Output) -> None:
        script = self._waits.pop(str(record.call_id), str(record.call_id))
        if script in self._running:
            cell = _RUNNING.match(record.first_text)
            if cell:
                self._running[script] = cell[1]
            else:
                del self._running[script]


def _second_reading(
    item: SourceItem, said: dict[str, list[Line | Place]]
) -> Iterator[tuple[str, list[Line]]]:
    """The lines of each call once more, of a file that can be read from its beginning only."""
    wanted = {
        one[0] if isinstance(one, tuple) else one.number: call_id
        for call_id, held in said.items()
        for one in held
    }
    left = {call_id: len(held) for call_id, held in said.items()}
    said.clear()
    twin = SourceItem(item.kind, item.root, item.relative_path)
    found: dict[str, list[Line]] = {}
    try:
        for line in twin.lines():
            call_id = wanted.get(line.number)
            if call_id is None:
                continue
            found.setdefault(call_id, []).append(line)
            left[call_id] -= 1
            if not left[call_id]:
                yield call_id, found.pop(call_id)
    finally:
        twin.close()


def _input(record: records.Call) -> tuple[Any, Any]:
    if record.text is not None:
        return record.text, "text"
    given = record.arguments
    if isinstance(given, str):
        return given, "json_or_text"
    return given, "json"


def _readable(call: Call | None) -> Any:
    """A call's input as JSON, if it is some."""
    if call is None or call.input_format == "text":
        return None
    if call.input_format == "json":
        return call.input
    return _parsed(call.input)


def _directory(given: Any, form: str, directory: str | None) -> str | None:
    """Where the call says it works, else where its turn does."""
    if form == "json_or_text":
        given = _parsed(given) if '"workdir"' in given else None
    if isinstance(given, dict):
        own = given.get("workdir") or given.get("working_directory")
        if isinstance(own, str) and own:
            return os.path.join(directory, own) if directory else own
    return directory


def _parsed(text: str) -> Any:
    try:
        return parse_json(text.encode())[0]
    except ValueError:
        return None


def _looks_like_a_call(kind: str | None) -> bool:
    return kind is not None and kind.endswith(("_call", "_call_output"))
