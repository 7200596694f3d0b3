"""The public relations: one table of names, types, nullability and meaning.

`schema get`, the reference and the checks at every open come from it. The views themselves
stand in `schema/002_public.sql`. Source: seed 002, "Relations"; spec "Trace index", 2 and 3.
"""

from __future__ import annotations

import attrs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@attrs.frozen
class Column:
    """A column: its SQLite type (JSON is TEXT), whether it may be NULL, and what it says."""

    name: str
    data_type: str
    nullable: bool
    description: str


@attrs.frozen
class Relation:
    """A relation that queries read."""

    name: str
    description: str
    columns: tuple[Column, ...]


def _required(name: str, data_type: str, description: str) -> Column:
    return Column(name, data_type, False, description)


def _optional(name: str, data_type: str, description: str) -> Column:
    return Column(name, data_type, True, description)


_SESSION_LINK = "{session_id, record_id}"

RELATIONS = (
    Relation(
        "sources",
        "Physical trace files that the index publishes.",
        (
            _required("source_id", "INTEGER", "Opaque id of the source in this index."),
            _required("locator", "TEXT", "Canonical absolute path of the file."),
            _required("runtime", "TEXT", "The runtime that defines the source's structure."),
        ),
    ),
    Relation(
        "records",
        "Complete lines of sources. Their bytes stay in the source: record inspect reads them.",
        (
            _required("record_id", "INTEGER", "Opaque id of the record in this index."),
            _required("source_id", "INTEGER", "The source that holds it."),
            _required("source_position", "INTEGER", "Zero-based line of the source."),
            _required(
                "content_range",
                "TEXT",
                "JSON {start, end}: half-open byte range in the source, without the newline.",
            ),
            _required("fingerprint", "TEXT", "SHA-256 of those bytes in hexadecimal."),
            _optional("occurred_at", "INTEGER", "Unix milliseconds that the record itself states."),
        ),
    ),
    Relation(
        "sessions",
        "Logical agent contexts that a runtime maintains.",
        (
            _required("session_id", "INTEGER", "Opaque id of the session in this index."),
            _required("runtime", "TEXT", "The runtime that maintains the session."),
            _required("native_id", "TEXT", "The id that the runtime gave it; the one to report."),
            _required("identity_record_id", "INTEGER", "The record that establishes native_id."),
            _optional("created_at", "INTEGER", "Unix milliseconds of its beginning."),
            _optional("name", "TEXT", "The name that the runtime or its user gave it."),
            _optional("working_directory", "TEXT", "Where it began to work."),
            _required("source_ids", "TEXT", "JSON array of the sources that support it."),
            _optional(
                "forked_from",
                "TEXT",
                f"JSON {_SESSION_LINK}: the session whose history it began with, and the witness.",
            ),
            _optional(
                "delegated_from",
                "TEXT",
                f"JSON {_SESSION_LINK}: the session that started it, and the witness.",
            ),
        ),
    ),
    Relation(
        "loops",
        "Outer execution lifecycles within sessions: request, work, answer.",
        (
            _required("loop_id", "INTEGER", "Opaque id of the loop in this index."),
            _required("session_id", "INTEGER", "The session that it belongs to."),
            _required("session_position", "INTEGER", "Zero-based order within the session."),
            _optional("native_id", "TEXT", "The id that the runtime gave it."),
            _required("start_record_id", "INTEGER", "The record with which it began."),
            _optional(
                "end",
                "TEXT",
                "JSON {record_id, outcome?}; outcome is completed, interrupted or failed. NULL: "
                "no end was observed; without outcome: the runtime stated no result.",
            ),
            _optional(
                "model",
                "TEXT",
                "JSON {id, effort?, context_window?}, in the runtime's words.",
            ),
            _optional(
                "usage",
                "TEXT",
                "JSON {input, cached?, cache_write?, output, reasoning?}: tokens of its model "
                "calls. cached and cache_write are parts of input, reasoning is a part of output. "
                "NULL is unknown, not zero.",
            ),
        ),
    ),
    Relation(
        "items",
        "Individually queryable facts of agent programs; start here.",
        (
            _required("item_id", "INTEGER", "Opaque id of the item in this index."),
            _required("session_id", "INTEGER", "The session that it belongs to."),
            _optional("loop_id", "INTEGER", "The loop that it belongs to, if that is known."),
            _optional("loop_position", "INTEGER", "Zero-based order within the loop."),
            _optional("occurred_at", "INTEGER", "Unix milliseconds that its witness states."),
            _required("record_ids", "TEXT", "JSON array of its witnesses; never empty."),
            _required(
                "semantic",
                "TEXT",
                "JSON {role, value, evidence_strength}: role selects the shape of value; "
                "evidence_strength is structural or heuristic.",
            ),
        ),
    ),
    Relation(
        "blobs",
        "Bounded texts that items refer to by blob_id; no facts of their own.",
        (
            _required("blob_id", "INTEGER", "Opaque id of the text in this index."),
            _required(
                "text",
                "TEXT",
                "The text, or a prefix of it: complete when its UTF-8 bytes, "
                "length(CAST(text AS BLOB)), equal full_bytes.",
            ),
            _required("full_bytes", "INTEGER", "UTF-8 bytes of the complete text."),
            _required(
                "estimated_tokens",
                "INTEGER",
                "Tokens of the complete text by ascii4_unicode1_v1: a quarter of the ASCII "
                "characters, rounded up, and one for each other.",
            ),
        ),
    ),
    Relation(
        "item_search",
        "Trigram candidates among the texts of requests, steering, commentary, final answers and "
        "delegations; rowid is the item_id. Check candidates against blobs.text.",
        (
            _optional(
                "text",
                "TEXT",
                "What to MATCH with trigram_query(literal); selecting it gives NULL.",
            ),
        ),
    ),
    Relation(
        "session_metadata",
        "JSON that callers keep about sessions, in a database of its own.",
        (
            _required("runtime", "TEXT", "The runtime of the session."),
            _required("native_id", "TEXT", "The id that the runtime gave it."),
            _optional("session_id", "INTEGER", "The session, if it is in this index."),
            _required("metadata", "TEXT", "The caller's JSON, whole and uninterpreted."),
            _required("version", "INTEGER", "Raised by each change; for compare-and-set."),
            _required("updated_at", "INTEGER", "Unix milliseconds of the last change."),
        ),
    ),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}


@attrs.frozen
class Role:
    """A semantic role: the members of its value in order, and what it means.

    `members` maps a name to its type; one that ends in `?` is left out when unknown. `text` is
    the member that holds the BlobRef. `session` is the member that names another session.
    """

    name: str
    members: dict[str, str]
    description: str
    searched: bool = False
    needs_loop: bool = False
    text: str = "text"
    session: str | None = None
    required: frozenset[str] = attrs.field(init=False)

    @required.default
    def _required(self) -> frozenset[str]:
        return frozenset(name for name, kind in self.members.items() if not kind.endswith("?"))


_TEXT = {"text": "BlobRef?"}
_MESSAGE = {**_TEXT, "has_images": "boolean"}
_CALL = {"tool_name": "string?", "arguments": "json?", "working_directory": "string?"}

INSTRUCTIONS = (
    *("project", "user", "skill", "permission", "collaboration", "plugin"),
    "tool_catalog",
)
CONTEXTS = ("environment", "memory", "file", "session_reference", "internal")

ROLES = (
    Role(
        "human.request",
        _MESSAGE,
        "What a person asked; it opens a loop.",
        searched=True,
        needs_loop=True,
    ),
    Role(
        "human.steering",
        _MESSAGE,
        "What a person said while the loop ran.",
        searched=True,
        needs_loop=True,
    ),
    Role(
        "agent.commentary",
        _MESSAGE,
        "What the agent said on the way.",
        searched=True,
        needs_loop=True,
    ),
    Role(
        "agent.final_answer",
        _MESSAGE,
        "What the agent said at the end; right or wrong.",
        searched=True,
        needs_loop=True,
    ),
    Role(
        "agent.reasoning",
        {"representation": "full|summary|unavailable", **_TEXT},
        "Reasoning, as far as the runtime shows it; no text where it is unavailable.",
    ),
    Role("agent.tool_call", _CALL, "A call of a tool."),
    Role(
        "agent.tool_call.shell",
        {**_CALL, "shell_fragments": "ShellFragment[]"},
        "A call of a shell tool, with its command parsed.",
    ),
    Role(
        "agent.delegation",
        {**_MESSAGE, "child_session_id": "integer?"},
        "Work handed to another agent.",
        searched=True,
        session="child_session_id",
    ),
    Role(
        "tool.output",
        {
            "call_item_id": "integer?",
            **_TEXT,
            "exit_code": "integer?",
            "failed": "boolean?",
            "duration_ms": "integer?",
            "runtime_truncated": "boolean?",
            "runtime_output_tokens": "integer?",
        },
        "What a tool gave back.",
    ),
    Role(
        "subagent.activity",
        {**_MESSAGE, "subagent_session_id": "integer?"},
        "What another agent did or was told on the way.",
        session="subagent_session_id",
    ),
    Role(
        "subagent.report",
        {**_MESSAGE, "source_session_id": "integer?"},
        "What another agent reported at its end.",
        session="source_session_id",
    ),
    Role(
        "runtime.instructions",
        {**_TEXT, "category": "|".join(INSTRUCTIONS) + "?"},
        "Instructions that the runtime put before the agent.",
    ),
    Role(
        "runtime.context",
        {**_TEXT, "category": "|".join(CONTEXTS) + "?", "has_images": "boolean"},
        "Context that the runtime put before the agent.",
    ),
    Role("runtime.state", _MESSAGE, "State that the runtime told."),
    Role("runtime.notice", _MESSAGE, "A notice of the runtime."),
    Role("runtime.unknown", _MESSAGE, "A meaningful text that has no role."),
    Role(
        "runtime.compaction_summary",
        {"summary": "BlobRef?"},
        "What the runtime put in place of earlier history.",
        text="summary",
    ),
)
ROLE_BY_NAME = {role.name: role for role in ROLES}


def plain(relation: Relation, *, compact: bool) -> dict[str, Any]:
    """The relation as `schema get` prints it; `compact` without descriptions."""
    columns = [
        {"name": one.name, "data_type": one.data_type, "nullable": one.nullable}
        | ({} if compact else {"description": one.description})
        for one in relation.columns
    ]
    said = {} if compact else {"description": relation.description}
    return {"name": relation.name, **said, "columns": columns}
