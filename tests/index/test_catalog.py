"""The public contract: relations, columns, types and JSON shapes, read back from real rows."""

from __future__ import annotations

import json
import pathlib
import re
import sqlite3
from contextlib import closing

import orjson
import pytest

from yarp.errors import DataError
from yarp.index import docs
from yarp.index.catalog import BY_NAME, RELATIONS, ROLE_BY_NAME, ROLES
from yarp.index.examples import EXAMPLES
from yarp.index.query import run
from yarp.index.semantic import encode

ROOT = pathlib.Path(__file__).parents[2]
# Seed 002, "Relations"; spec "Trace index", 2. `!` is not null.
CONTRACT = {
    "sources": "source_id INTEGER!, locator TEXT!, runtime TEXT!",
    "records": "record_id INTEGER!, source_id INTEGER!, source_position INTEGER!, "
    "content_range TEXT!, fingerprint TEXT!, occurred_at INTEGER",
    "sessions": "session_id INTEGER!, runtime TEXT!, native_id TEXT!, "
    "identity_record_id INTEGER!, created_at INTEGER, name TEXT, working_directory TEXT, "
    "source_ids TEXT!, forked_from TEXT, delegated_from TEXT",
    "loops": "loop_id INTEGER!, session_id INTEGER!, session_position INTEGER!, native_id TEXT, "
    "start_record_id INTEGER!, end TEXT, model TEXT, usage TEXT",
    "items": "item_id INTEGER!, session_id INTEGER!, loop_id INTEGER, loop_position INTEGER, "
    "occurred_at INTEGER, record_ids TEXT!, semantic TEXT!",
    "blobs": "blob_id INTEGER!, text TEXT!, full_bytes INTEGER!, estimated_tokens INTEGER!",
    "item_search": "text TEXT",
    "session_metadata": "runtime TEXT!, native_id TEXT!, session_id INTEGER, metadata TEXT!, "
    "version INTEGER!, updated_at INTEGER!",
}
SESSION_LINK = {"session_id": int, "record_id": int}
# Of each JSON column its members; `?` marks what may be absent.
SHAPES = {
    ("records", "content_range"): {"start": int, "end": int},
    ("sessions", "source_ids"): [int],
    ("sessions", "forked_from"): SESSION_LINK,
    ("sessions", "delegated_from"): SESSION_LINK,
    ("loops", "end"): {"record_id": int, "outcome?": str},
    ("loops", "model"): {"id": str, "effort?": str, "context_window?": int},
    ("loops", "usage"): {
        "input": int, "cached?": int, "cache_write?": int, "output": int, "reasoning?": int,
    },
    ("items", "record_ids"): [int],
    ("items", "semantic"): {"role": str, "value": dict, "evidence_strength": str},
}  # fmt: skip


def fits(value, shape):
    if isinstance(shape, list):
        return isinstance(value, list) and value != [] and all(type(x) is shape[0] for x in value)
    if shape is dict:
        return isinstance(value, dict)
    required = {name for name in shape if not name.endswith("?")}
    known = {name.removesuffix("?"): kind for name, kind in shape.items()}
    return required <= set(value) <= set(known) and all(
        isinstance(one, known[name]) for name, one in value.items()
    )


def test_the_relations_are_those_of_the_seed():
    told = {
        relation.name: ", ".join(
            f"{one.name} {one.data_type}{'' if one.nullable else '!'}" for one in relation.columns
        )
        for relation in RELATIONS
    }
    assert told == CONTRACT


@pytest.fixture
def full(index, conversation):
    """An index in which each column and each member that there can be has a value somewhere."""
    index.write("a.jsonl", *conversation)
    index.write(
        "b.jsonl",
        {"t": "session", "id": "s2", "delegated_from": {"native_id": "s1"}},
        {"t": "begin", "loop": "x"},
        {"t": "human", "text": "y"},
        {"t": "end"},
        {"t": "usage", "input": 1, "output": 1, "cached": 1, "cache_write": 0, "reasoning": 0},
        {"t": "begin", "loop": "open"},
        {"t": "model", "id": "m"},
    )
    index.write("c.jsonl", {"t": "session", "id": "s3", "forked_from": {"native_id": "s1"}})
    index.sync()
    return index


def test_names_types_nullability_and_json_shapes_are_those_of_real_rows(full):
    for relation in RELATIONS:
        if relation.name in ("item_search", "session_metadata"):
            continue
        rows = full.all(f"SELECT * FROM {relation.name}")
        assert rows, relation.name
        assert list(rows[0]) == [one.name for one in relation.columns]
        for column in relation.columns:
            values = [row[column.name] for row in rows]
            kind = {"INTEGER": int, "TEXT": str}[column.data_type]
            assert all(type(one) is kind for one in values if one is not None), column
            assert any(one is not None for one in values), column
            assert column.nullable or None not in values, column
            shape = SHAPES.get((relation.name, column.name))
            if shape is not None:
                for one in values:
                    assert one is None or fits(orjson.loads(one), shape), (column, one)


def test_an_optional_member_is_left_out_and_never_null(full):
    for relation, column in SHAPES:
        for row in full.all(f"SELECT {column} AS it FROM {relation} WHERE {column} IS NOT NULL"):
            assert "null" not in row["it"], row
    ends = [row["end"] for row in full.all("SELECT end FROM loops ORDER BY 1")]
    assert ends[0] is None
    assert sorted("outcome" in orjson.loads(one) for one in ends[1:]) == [False, True]


def test_values_have_the_members_of_their_role(full):
    for row in full.all("SELECT semantic FROM items"):
        semantic = orjson.loads(row["semantic"])
        role = ROLE_BY_NAME[semantic["role"]]
        assert role.required <= set(semantic["value"]) <= set(role.members)
        assert semantic["evidence_strength"] in ("structural", "heuristic")


def test_the_search_index_gives_no_text_back(full):
    assert full.all("SELECT text FROM item_search(trigram_query('needle'))") == [{"text": None}]
    assert full.all("SELECT rowid FROM item_search WHERE item_search MATCH trigram_query('NEEDLE')")


@pytest.mark.parametrize("relation", sorted(BY_NAME))
def test_each_relation_is_read_whole_by_a_query(full, relation):
    answer = run(full.path, f"SELECT * FROM {relation}")
    assert answer["columns"] == [one.name for one in BY_NAME[relation].columns]


COLUMNS = "id AS source_id, path AS locator, runtime"
REORDERED = "runtime, path AS locator, id AS source_id"
DISTURBED = {
    "other columns": ("DROP VIEW sources; CREATE VIEW sources AS SELECT 1 AS one", "other columns"),
    "another order": (
        f"DROP VIEW sources; CREATE VIEW sources AS SELECT {REORDERED} FROM trace_sources",
        "other columns",
    ),
    "one more": (
        f"DROP VIEW sources; CREATE VIEW sources AS SELECT {COLUMNS}, 1 AS x FROM trace_sources",
        "other columns",
    ),
    "a table in its place": (
        f"DROP VIEW sources; CREATE TABLE sources AS SELECT {COLUMNS} FROM trace_sources",
        "is no view",
    ),
    "nothing in its place": ("DROP VIEW sources", "is no view"),
    "a view over nothing": (
        "DROP VIEW sources; CREATE VIEW sources AS SELECT 1 AS source_id FROM nowhere",
        "cannot be read",
    ),
    "a view of what is searched": (
        "DROP TABLE item_search; CREATE VIEW item_search AS SELECT NULL AS text",
        "is no table",
    ),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
def test_every_open_compares_kind_columns_and_their_order(index, conversation, disturbed):
    script, said = DISTURBED[disturbed]
    index.write("a.jsonl", *conversation)
    index.sync()
    with closing(sqlite3.connect(index.path)) as connection:
        connection.executescript(script)
    with pytest.raises(DataError, match=said):
        index.all("SELECT 1")
    with pytest.raises(DataError, match=said):
        index.sync()


@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_every_role_takes_its_own_members_and_no_others(role):
    shape = ROLE_BY_NAME[role]
    samples = {
        "BlobRef": {"blob_id": 1}, "boolean": False, "integer": 1, "string": "x", "json": [1],
        "ShellFragment[]": [{}],
    }  # fmt: skip
    value = {
        name: samples.get(kind.removesuffix("?"), kind.removesuffix("?").split("|")[0])
        for name, kind in shape.members.items()
    }
    assert json.loads(encode(role, value, heuristic=True)) == {
        "role": role,
        "value": value,
        "evidence_strength": "heuristic",
    }
    for name in shape.members:
        for wrong in ({}, 1.5, ["x"], "no such thing" if name != "tool_name" else 7):
            if name in ("arguments", "shell_fragments"):
                continue
            if shape.members[name].startswith("string") and isinstance(wrong, str):
                continue
            with pytest.raises(DataError):
                encode(role, {**value, name: wrong}, heuristic=False)
    for name in shape.required:
        with pytest.raises(DataError, match=f"{name} is missing"):
            encode(role, {**value, name: None}, heuristic=False)
    with pytest.raises(DataError, match="no member"):
        encode(role, {**value, "novel": 1}, heuristic=False)
    if shape.needs_loop:
        with pytest.raises(DataError, match="belongs to a loop"):
            encode(role, value, heuristic=False, in_loop=False)


def test_the_reference_is_made_of_the_topics():
    page = (ROOT / "docs" / "reference" / "trace-index.md").read_text()
    assert page == docs.page(), "write docs.page() to docs/reference/trace-index.md"


def test_the_documentation_names_every_role_and_finds_words():
    for role in ROLES:
        assert f"`{role.name}`" in docs.get("semantics")
    assert {one["topic"] for one in docs.search("trigram_query")} >= {"search", "queries"}
    assert docs.search("") == []


def test_the_how_to_shows_statements_that_there_are():
    page = (ROOT / "docs" / "how-to" / "ask-past-sessions.md").read_text()
    names = {one.name for one in EXAMPLES}
    rows = [line.split("|")[3] for line in page.splitlines() if line.startswith("| a")]
    shown = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert shown
    assert shown <= names
    (statement,) = re.findall(r"--stdin <<'END'\n(.*?)\nEND\n", page, re.DOTALL)
    assert statement == next(one.sql for one in EXAMPLES if one.name == "requests")


# Seed 002, "Semantic SQL encoding": a fragment is nested in an item, and its parts in it.
FRAGMENT = {"text": dict, "completeness": str, "statements": list}
TEXT = {"value": str, "full_bytes": int, "estimated_tokens": int}
STATEMENT = {
    "range": dict, "parent_position?": int, "connector?": str, "pipeline?": dict,
    "invocations": list, "redirects": list,
}  # fmt: skip
RANGE = {"start": int, "end": int}
REDIRECT = {"source_fd?": str, "operator": str, "target": str, "range": dict}
COMMAND = "if true; then a 2>&1 | b && c > out; fi; cat <<'EOF'\nx\nEOF\n"


def told(shape):
    """The members of a role with values of their types, but for what refers to something."""
    samples = {"boolean": True, "integer": 7, "json": {"a": [1]}, "string": "x"}
    return {
        name: samples.get(kind.removesuffix("?"), kind.removesuffix("?").split("|")[0])
        for name, kind in shape.members.items()
        if not kind.startswith(("BlobRef", "Shell")) and not name.endswith("_id")
    }


def members(kind, value):
    """Whether a member of an item is what the catalogue says."""
    kind = kind.removesuffix("?")
    if kind == "BlobRef":
        return fits(value, {"blob_id": int})
    if kind == "ShellFragment[]":
        return value != [] and all(fits(one, FRAGMENT) for one in value)
    plain = {"boolean": bool, "integer": int, "string": str}.get(kind)
    if plain is not None:
        return type(value) is plain
    return kind == "json" or value in kind.split("|")


def test_items_of_every_role_and_member_have_the_shapes_of_the_seed(index):
    records = [{"t": "session", "id": "s"}, {"t": "begin", "loop": "l"}]
    records += [
        {"t": "call", "id": "c", "tool": "sh", "args": {"command": COMMAND}},
        {"t": "output", "id": "c", "text": "x"},
    ]
    for role in ROLES:
        if role.name == "agent.tool_call.shell":
            continue
        item = {"t": "item", "role": role.name, "value": told(role)}
        links = {"session": "s"} if role.session else {}
        if role.text in role.members:
            links["text"] = f"a text of {role.name}"
        records.append(item | links)
    index.write("a.jsonl", *records)
    assert index.sync().actions["indexed"] == 1
    seen = {}
    for row in index.all("SELECT semantic FROM items"):
        semantic = orjson.loads(row["semantic"])
        role = ROLE_BY_NAME[semantic["role"]]
        for name, value in semantic["value"].items():
            assert members(role.members[name], value), (role.name, name, value)
            seen.setdefault(role.name, set()).add(name)
    # The tests' own runtime tells of no folder of a call.
    missing = {role.name: set(role.members) - seen.get(role.name, set()) for role in ROLES}
    assert {name for names in missing.values() for name in names} <= {"working_directory"}
    (fragment,) = next(
        value["shell_fragments"] for _, role, _, value in index.items() if role.endswith("shell")
    )
    assert fits(fragment["text"], TEXT)
    found = set()
    for statement in fragment["statements"]:
        assert fits(statement, STATEMENT)
        assert fits(statement["range"], RANGE)
        found |= set(statement)
        if "pipeline" in statement:
            assert fits(statement["pipeline"], {"id": int, "position": int})
        for one in statement["invocations"]:
            assert fits(one, {"program": str, "argv": list})
            assert all(type(word) is str for word in one["argv"])
        for one in statement["redirects"]:
            assert fits(one, REDIRECT)
            assert fits(one["range"], RANGE)
    assert found == {name.removesuffix("?") for name in STATEMENT}
    assert any("source_fd" in one for each in fragment["statements"] for one in each["redirects"])
