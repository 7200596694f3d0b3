"""Keyed rows of what an importer says of one item.

Rows are tuples in the order of the table's columns. What the keys stand for: `yarp.dataset.keys`.
Source: seed 003, "Draft DuckDB schema" and "Identity and pairing".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
from attrs import define

from yarp import canonical
from yarp.dataset import keys
from yarp.sources.facts import (
    SINGLE_ISSUES,
    Call,
    Issue,
    Issues,
    Kept,
    Observation,
    Result,
    Session,
)
from yarp.sources.values import json_text, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from yarp.sources.facts import Part, SourceFact

_WEIGHTS = {"canonical": 0, "projection": 1, "validation": 2}
_FORMATS = ("json", "text", "json_or_text")


class ImporterFault(Exception):
    """An importer said something that the dataset cannot hold; the message says what kind."""


@define(slots=True)
class Link:
    """That an item holds a call under `own_key`; see `private.call_links`."""

    own_key: str
    group_key: bytes | None
    session_key: str | None
    weight: int = 2


@define(slots=True)
class CallRow:
    """A row of tool_calls, and what decides between two rows with one key."""

    row: tuple[Any, ...]
    link: Link


class ItemRows:
    """The rows of one item, collected with `add`, complete after `finish`.

    `byte_count`: of the texts, roughly what the rows take. `sessions` by key: (row). The
    issues are those of the importer alone; `issue_rows` makes rows of them. `kept`: places of
    `places` whose rows stay as they are.
    """

    def __init__(
        self, unix_user: str, agent: str, source_item_key: str, places: Container[str] = ()
    ) -> None:
        self.unix_user = unix_user
        self.agent = agent
        self.source_item_key = source_item_key
        self._keys_of_calls = keys.Family("call", unix_user, agent)
        self._keys_of_copies = keys.Family("copies", unix_user, agent)
        self._keys_of_observations = keys.Family("observation", source_item_key)
        self.sessions: dict[str, tuple[Any, ...]] = {}
        self.calls: dict[str, CallRow] = {}
        self.results: dict[str, tuple[Any, ...]] = {}
        self.observations: dict[str, tuple[Any, ...]] = {}
        self.links: dict[tuple[str, bytes | None], Link] = {}
        self.suspects: list[tuple[Any, ...]] = []
        self.issues = Issues()
        self.kept: set[str] = set()
        self._places = places
        self.byte_count = 0
        self._session_keys: dict[str, str] = {}
        self._call_keys: dict[tuple[Part, ...], str] = {}
        self._targets: dict[int, tuple[Call | Result, str]] = {}
        self._observed: set[str] = set()
        self._result_places: list[tuple[str, int | None, int | None, bytes]] = []
        self._result_calls: dict[str, str] = {}
        # Whether the target at hand held a lone surrogate, and those that did, until they are seen.
        self._replaced = False
        self._odd: set[str] = set()

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return (
            len(self.sessions) + len(self.calls) + len(self.results)
            + len(self.observations) + len(self.links) + len(self.issues)
        )  # fmt: skip

    def add(self, fact: SourceFact) -> None:
        """Take one fact. Raises `ImporterFault`."""
        kind = type(fact)
        if kind is Observation:
            self._observe(fact)  # type: ignore[arg-type]
        elif kind is Call or kind is Result:
            self._target(fact)  # type: ignore[arg-type]
        elif kind is Session:
            self._session(fact)  # type: ignore[arg-type]
        elif kind is Kept:
            self._keep(fact.sqlite_blob_id)  # type: ignore[attr-defined]
        elif kind is Issue:
            require_issue(fact)  # type: ignore[arg-type]
            self.issues.add(fact)  # type: ignore[arg-type]
        else:
            raise ImporterFault(f"a {kind.__name__} is no fact")

    def finish(self, malformed: Iterable[int] = ()) -> None:
        """Check that the rows belong together; `malformed`: the numbers of lines that are no JSON.

        Raises `ImporterFault`.
        """
        for call_key in self.calls:
            if call_key not in self._observed:
                raise ImporterFault("a call has no observation")
        for result_key in self.results:
            if result_key not in self._observed:
                raise ImporterFault("a result has no observation")
        for call in self.calls.values():
            if call.link.session_key not in self.sessions:
                raise ImporterFault("a call's session is missing")
        behind = {number + 1 for number in malformed}
        for result_key, *place in self._result_places if behind else ():
            call_key = self._result_calls[result_key]
            if place[0] in behind and call_key not in self.calls:
                self.suspects.append((self.source_item_key, result_key, call_key, *place))
        self._targets.clear()

    def _keep(self, place: str) -> None:
        if place not in self._places:
            raise ImporterFault("a place is kept that was not offered")
        self.kept.add(place)

    def _session(self, session: Session) -> None:
        key = self._session_key(session.native_id)
        known = self.sessions.get(key)
        started = session.started_at_ms
        if known is not None and known[4] is not None:
            started = known[4] if started is None else min(started, known[4])
        self.sessions[key] = (key, self.unix_user, self.agent, session.native_id, started)

    def _session_key(self, native_id: str) -> str:
        key = self._session_keys.get(native_id)
        if key is None:
            key = self._session_keys[native_id] = keys.session(
                self.unix_user, self.agent, native_id
            )
        return key

    def _call_key(self, identity: tuple[Part, ...]) -> str:
        key = self._call_keys.get(identity)
        if key is None:
            key = self._call_keys[identity] = self._keys_of_calls.key(*identity)
        return key

    def _target(self, target: Call | Result) -> str:
        known = self._targets.get(id(target))
        if known is not None:
            return known[1]
        self._replaced = False
        key = self._call(target) if type(target) is Call else self._result(target)  # type: ignore[arg-type]
        if self._replaced:
            self._odd.add(key)
        # The object is kept: its id must not serve another one.
        self._targets[id(target)] = (target, key)
        return key

    def _link(self, own_key: str, copy_of: tuple[Part, ...] | None, session: str | None) -> Link:
        group = None
        if copy_of is not None:
            group = self._keys_of_copies.digest(*copy_of)
        link = self.links.get((own_key, group))
        if link is None:
            link = self.links[own_key, group] = Link(own_key, group, session)
        return link

    def _call(self, call: Call) -> str:
        key = self._call_key(call.identity)
        session_key = self._session_key(call.session)
        link = self._link(key, call.copy_of, session_key)
        if key in self.calls:
            return key  # the first that an item says counts
        link.session_key = session_key
        form, text = self._input(call)
        data = text.encode()
        self.byte_count += len(data)
        row = (
            key,
            session_key,
            call.native_call_id,
            call.native_worker_id,
            call.called_at_ms,
            call.provider,
            call.model,
            call.working_directory,
            call.tool_name,
            form,
            text,
            hashlib.sha256(data).digest(),
        )
        self.calls[key] = CallRow(row, link)
        return key

    def _input(self, call: Call) -> tuple[str, str]:
        form = call.input_format
        if form == "json":
            return "json", self._json(call.input)
        if form not in _FORMATS or not isinstance(call.input, str):
            raise ImporterFault("an input does not have the form that it is said to have")
        text = self._text(call.input)
        if form == "json_or_text":
            try:
                return "json", canonical.encode_text(text).decode()
            except (ValueError, RecursionError):
                pass
        return "text", text

    def _json(self, value: Any) -> str:
        """RFC 8785, or `{"yarpRawJson": text}` for what that cannot hold unchanged."""
        try:
            return canonical.encode(value).decode()
        except canonical.NotCanonical:
            value, replaced = without_surrogates(value)
        if replaced:
            self._surrogate()
        try:
            return canonical.encode(value).decode()
        except canonical.NotCanonical:
            pass
        try:
            text = json_text(value)
        except (TypeError, ValueError, RecursionError):
            raise ImporterFault("a value is no JSON") from None
        return canonical.encode({"yarpRawJson": text}).decode()

    def _text(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            self._surrogate()
            text, _ = without_surrogates(text)
        return text

    def _surrogate(self) -> None:
        self._replaced = True

    def _result(self, result: Result) -> str:
        call_key = self._call_key(result.call)
        if result.copy_of is not None:
            self._link(call_key, result.copy_of, None)
        text, structure = result.output_text, None
        if text is not None:
            text = self._text(text)
        if result.output_json is not None:
            structure = self._json(result.output_json)
        if text is None and structure is None:
            raise ImporterFault("a result has neither text nor structure")
        said = orjson.dumps({"is_error": result.is_error, "json": structure, "text": text})
        self.byte_count += len(said)
        sha256 = hashlib.sha256(said).digest()
        key = keys.result(call_key, sha256)
        returned = result.returned_at_ms
        known = self.results.get(key)
        if known is not None and known[2] is not None:
            returned = known[2] if returned is None else min(returned, known[2])
        self.results[key] = (key, call_key, returned, result.is_error, text, structure, sha256)
        self._result_calls[key] = call_key
        return key

    def _observe(self, seen: Observation) -> None:
        target = self._target(seen.target)
        sha256 = seen.record_sha256
        if sha256 is None:
            if seen.record is None:
                raise ImporterFault("an observation has no digest of its record")
            seen.record_sha256 = sha256 = hashlib.sha256(seen.record).digest()
        place: Part | None = seen.byte_offset
        if place is None:
            place = seen.sqlite_blob_id if seen.sqlite_blob_id is not None else seen.sqlite_rowid
        key = self._keys_of_observations.key(place, seen.content_index, target)
        call_key = result_key = None
        if type(seen.target) is Call:
            call_key = target
            self.calls[target].link.weight = min(
                self.calls[target].link.weight, _WEIGHTS.get(seen.record_kind, 2)
            )
        else:
            result_key = target
            self._result_places.append((target, seen.line_number, seen.byte_offset, sha256))
        self._observed.add(target)
        if target in self._odd:
            self._odd.remove(target)
            self.issues.add(
                Issue(
                    "lone_surrogate",
                    "a lone surrogate has become U+FFFD",
                    line_number=seen.line_number,
                    byte_offset=seen.byte_offset,
                    sqlite_blob_id=seen.sqlite_blob_id,
                    record_sha256=sha256,
                )
            )
        self.observations[key] = (
            key,
            self.source_item_key,
            call_key,
            result_key,
            seen.record_kind,
            seen.native_record_kind,
            seen.sequence_number,
            seen.native_branch_id,
            seen.is_current,
            seen.line_number,
            seen.byte_offset,
            seen.sqlite_rowid,
            seen.sqlite_blob_id,
            seen.content_index,
            sha256,
        )


def require_issue(issue: Issue) -> None:
    """Make sure that a row can hold an issue. Raises `ImporterFault`."""
    count = issue.occurrence_count
    numbers = (issue.line_number, issue.byte_offset, count)
    fits = (
        _encodes(issue.code)
        and _encodes(issue.message)
        and count not in (None, 0)
        and issue.severity in ("warning", "error")
        and all(each is None or (type(each) is int and 0 <= each < 1 << 63) for each in numbers)
        and (issue.sqlite_blob_id is None or _encodes(issue.sqlite_blob_id))
        and (issue.record_sha256 is None or is_digest(issue.record_sha256))
    )
    if not fits:
        raise ImporterFault("an issue is not what it should be")


def _encodes(text: object) -> bool:
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:
        return False


def is_digest(value: object) -> bool:
    """Whether it is a SHA-256."""
    return type(value) is bytes and len(value) == hashlib.sha256().digest_size


def issue_rows(
    issues: Iterable[Issue], run_key: str, source_item_key: str | None, whose: tuple[str, ...]
) -> list[tuple[Any, ...]]:
    """Rows of import_issues; `whose` are the parts that tell these issues from another place's.

    The first `SINGLE_ISSUES` of a code stand alone; the rest of a code is counted in one row,
    which stands at the place of the first of them and gives the message of none.
    """
    rows: dict[str, list[Any]] = {}
    rests: list[list[Any]] = []
    counts: dict[str, int] = {}
    for issue in issues:
        counts[issue.code] = number = counts.get(issue.code, 0) + 1
        single = number <= SINGLE_ISSUES
        place = (issue.byte_offset, issue.sqlite_blob_id, issue.record_sha256) if single else ()
        key = keys.key(issue.code, *whose, "one" if single else "rest", *place)
        if key in rows:
            rows[key][-1] += issue.occurrence_count
            continue
        rows[key] = [
            key,
            run_key,
            source_item_key,
            issue.severity,
            issue.code,
            issue.line_number,
            issue.byte_offset,
            issue.sqlite_blob_id,
            issue.record_sha256,
            issue.message.encode()[:512].decode("utf-8", "ignore"),
            issue.occurrence_count,
        ]
        rests += [] if single else [rows[key]]
    for row in rests:
        if row[-1] > 1:
            row[-2] = f"more of this code, beyond the first {SINGLE_ISSUES}"
    return [tuple(row) for row in rows.values()]
