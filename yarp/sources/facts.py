"""What an importer says of a source: sessions, calls, results, where each stood, and issues.

An importer yields these from `Importer.read`, in any order; the core makes keys, rows and
digests of them. Every column of the dataset that an agent's store can fill has its field
here; what a store does not say is None, never 0 or "". Times are Unix milliseconds.

A call is named by its `identity`: the parts that follow "call", Unix user and agent in its
key. Strings, integers and bytes are allowed as parts. Within one user and agent, facts with
one identity are one call, wherever they were read:

    session = Session("3f2c…", started_at_ms=1790000000000)
    call = Call(("3f2c…", "toolu_01"), session="3f2c…", tool_name="Bash",
                input={"command": "ls"}, native_call_id="toolu_01")
    yield from (session, call, Observation.at(line, call, native_record_kind="tool_use"))
    result = Result(call.identity, output_text="README.md", is_error=False)
    yield from (result, Observation.at(other, result, native_record_kind="tool_result"))

Source: seed 003, "Draft DuckDB schema" and "Identity and pairing".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from attrs import define, evolve, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarp.sources.jsonl import Line

Part = str | int | bytes
"""A part of an identity; its kind counts: 1 and "1" differ."""

InputFormat = Literal["json", "text", "json_or_text"]
RecordKind = Literal["canonical", "projection", "validation"]


SINGLE_ISSUES = 20
"""So many issues of one code and item are told each by itself."""


class SourceFact:
    """Base of all that an importer yields."""

    __slots__ = ()


@define(slots=True)
class Session(SourceFact):
    """A session of the agent.

    Said by several items, the earliest `started_at_ms` counts. `started_at_ms` also decides
    which session owns a call that forks have copied (`Call.copy_of`).
    """

    native_id: str
    started_at_ms: int | None = None


@define(slots=True)
class Call(SourceFact):
    """A tool call.

    `session` is the native id of its session; the `Session` itself is yielded too.
    `input` is, by `input_format`: "json" a parsed JSON value, kept as canonical JSON; "text"
    a str, kept exactly; "json_or_text" a str that the agent wrote as JSON, kept as canonical
    JSON if it parses and exactly otherwise.
    `copy_of`: what all copies of this call share, in whatever session they lie, or None. At
    the end of the run the calls of one group become one: that of the session that started
    first (then the lower session id), and the observations of the copies point to it. Include
    nothing that a fork rewrites.
    """

    identity: tuple[Part, ...]
    session: str
    tool_name: str
    input: Any = field(repr=False)
    input_format: InputFormat = "json"
    native_call_id: str | None = None
    native_worker_id: str | None = None
    called_at_ms: int | None = None
    provider: str | None = None
    model: str | None = None
    working_directory: str | None = None
    copy_of: tuple[Part, ...] | None = None


@define(slots=True)
class Result(SourceFact):
    """A result of the call with the identity `call`.

    `output_text`: what was rendered for the model, exactly. `output_json`: a parsed JSON value
    of allowlisted structured output; whoever yields it takes out what `output_text` has
    already. One of the two is there. Equal results of one call (text, structure, error) are
    one row with several observations, the earliest `returned_at_ms` counting; unequal ones
    are kept apart.
    A result whose call no item has stays, visibly unmatched: give it the identity that its
    call would have. `copy_of` as in `Call`, for a result whose call lies in another session.
    """

    call: tuple[Part, ...]
    output_text: str | None = field(default=None, repr=False)
    output_json: Any = field(default=None, repr=False)
    is_error: bool | None = None
    returned_at_ms: int | None = None
    copy_of: tuple[Part, ...] | None = None


@define(slots=True)
class Observation(SourceFact):
    """Where a call or a result stood in the source: one for each record that says it.

    `target` is the very object that is yielded too. A place is a line (`line_number` from 1,
    `byte_offset` of its first byte) or a row (`sqlite_rowid`, `sqlite_blob_id`), and
    `content_index` the position within the record. Two observations of one item that differ
    neither in place, `content_index` nor target are one.
    `record_sha256`: the digest of the raw record; instead of it `record` may hold its bytes,
    which are hashed, and not kept.
    `is_current`: whether the record belongs to the state that the agent would resume; None
    where the source does not say.
    """

    target: Call | Result
    native_record_kind: str
    record_kind: RecordKind = "canonical"
    line_number: int | None = None
    byte_offset: int | None = None
    content_index: int | None = None
    sequence_number: int | None = None
    native_branch_id: str | None = None
    is_current: bool | None = None
    sqlite_rowid: int | None = None
    sqlite_blob_id: str | None = None
    record_sha256: bytes | None = None
    record: bytes | None = field(default=None, repr=False)

    @classmethod
    def at(
        cls,
        line: Line,
        target: Call | Result,
        *,
        native_record_kind: str,
        record_kind: RecordKind = "canonical",
        content_index: int | None = None,
        sequence_number: int | None = None,
        native_branch_id: str | None = None,
        is_current: bool | None = None,
    ) -> Observation:
        """The observation of `target` in a line; its digest is worked out once a line."""
        return cls(
            target,
            native_record_kind,
            record_kind,
            line.number,
            line.offset,
            content_index,
            sequence_number,
            native_branch_id,
            is_current,
            record_sha256=line.sha256,
        )


@define(slots=True)
class Issue(SourceFact):
    """Something that could not be read, or that must not be guessed.

    `code` is a short name in snake_case; `message` says what kind of thing it is in at most
    512 bytes and never quotes what stands there. Of one item, the first `SINGLE_ISSUES` of a
    code are rows of their own and the rest is counted in one more (`occurrence_count`).
    """

    code: str
    message: str
    severity: Literal["warning", "error"] = "warning"
    line_number: int | None = None
    byte_offset: int | None = None
    sqlite_blob_id: str | None = None
    record_sha256: bytes | None = None
    occurrence_count: int = 1

    @classmethod
    def at(cls, line: Line, code: str, message: str) -> Issue:
        """A warning about a line."""
        return cls(
            code,
            message,
            line_number=line.number,
            byte_offset=line.offset,
            record_sha256=line.sha256,
        )


@define(slots=True)
class Kept(SourceFact):
    """The record at this place is the one that the last reading saw: what it said then holds.

    Only for a place of `SourceItem.places` whose digest is still the same, and only where the
    call there stands at no other place of the item. Its session is yielded all the same.
    """

    sqlite_blob_id: str


class Issues(list[Issue]):
    """The issues of one item: of each code the first few, and one that counts all others."""

    def __init__(self, issues: Iterable[Issue] = ()) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._rests: dict[str, Issue] = {}
        for issue in issues:
            self.add(issue)

    def add(self, issue: Issue) -> None:
        """Take one more."""
        if not self.add_equal(issue.code, issue.occurrence_count):
            self._counts[issue.code] = number = self._counts.get(issue.code, 0) + 1
            if number > SINGLE_ISSUES:
                # A copy: what an importer yields is its own.
                issue = self._rests[issue.code] = evolve(issue)
            self.append(issue)

    def add_equal(self, code: str, count: int = 1) -> bool:
        """Count one more of a code of which there are so many that no other is told by itself."""
        rest = self._rests.get(code)
        if rest is None:
            return False
        rest.occurrence_count += count
        return True


class Rejected(Exception):
    """Raised by an importer: this item cannot be read, for the reason that `issue` gives.

    Nothing of the item enters the dataset, what it had is left as it is, and the run goes on
    with the next item. Source: seed 003, "Source rules".
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(code, message)
