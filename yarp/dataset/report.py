"""Counts, issues and checks of a dataset; never a word of what a tool was given or printed.

Source: seed 003, "Command line"; reference 9.5.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any

import orjson

from yarp.dataset.database import MOST_BYTES, VERSION, schema_text, told
from yarp.dataset.keys import result as result_key
from yarp.dataset.ownfiles import is_regular, own_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.dataset.database import Dataset

MOST_ISSUES = 1000
_HOLDS = ("schema_intact", "private_permissions", "regular_files", "under_size_limit")
_ROWS_AT_ONCE = 256


def stats(dataset: Dataset) -> dict[str, Any]:
    """How much there is, in rows, characters and bytes; by agent and Unix user too."""
    totals = """
        count(*) AS tool_calls, coalesce(sum(length(input_text)), 0) AS input_characters
        FROM tool_calls JOIN sessions USING (session_key)"""
    # One without a call belongs to whom it was read from.
    outputs = """
        count(*) AS tool_results, count(*) FILTER (is_error) AS errors,
        coalesce(sum(length(output_text)), 0) AS output_characters,
        coalesce(sum(length(output_json)), 0) AS structured_characters
        FROM (
            SELECT r.is_error, r.output_text, r.output_json, s.agent, s.unix_user
            FROM tool_results AS r JOIN tool_calls USING (call_key)
            JOIN sessions AS s USING (session_key)
            UNION ALL
            SELECT any_value(r.is_error), any_value(r.output_text), any_value(r.output_json),
                min(root.agent), min(root.unix_user)
            FROM tool_results AS r ANTI JOIN tool_calls USING (call_key)
            JOIN observations AS o ON o.result_key = r.result_key
            JOIN source_items USING (source_item_key)
            JOIN source_roots AS root USING (source_root_key) GROUP BY r.result_key)"""
    calls, inputs = dataset.row(f"SELECT {totals}")
    results, errors, rendered, structured = dataset.row(f"SELECT {outputs}")
    by: dict[tuple[str, str], dict[str, Any]] = {}
    counted = "SELECT agent, unix_user, count(*) FROM sessions GROUP BY ALL ORDER BY ALL"
    for agent, user, sessions in dataset.rows(counted):
        by[agent, user] = _nothing(agent, user) | {"sessions": sessions}
    for agent, user, *values in dataset.rows(f"SELECT agent, unix_user, {totals} GROUP BY ALL"):
        by[agent, user].update(zip(("tool_calls", "input_characters"), values, strict=True))
    names = ("tool_results", "errors", "output_characters", "structured_characters")
    for agent, user, *values in dataset.rows(f"SELECT agent, unix_user, {outputs} GROUP BY ALL"):
        row = by.setdefault((agent, user), _nothing(agent, user))
        row.update(zip(names, values, strict=True))
    return {
        "sessions": dataset.row("SELECT count(*) FROM sessions")[0],
        "tool_calls": calls,
        "tool_results": results,
        "observations": dataset.row("SELECT count(*) FROM observations")[0],
        "errors": errors,
        "input_characters": inputs,
        "output_characters": rendered,
        "structured_characters": structured,
        "source_items": dataset.row("SELECT count(*) FROM source_items")[0],
        "source_bytes": dataset.row("SELECT coalesce(sum(size_bytes), 0) FROM source_items")[0],
        "issues": dataset.row("SELECT count(*) FROM import_issues")[0],
        "database_bytes": sum(os.lstat(path).st_size for path in own_files(dataset.path)),
        "by_agent": list(by.values()),
    }


def _nothing(agent: str, unix_user: str) -> dict[str, Any]:
    return {
        "agent": agent, "unix_user": unix_user, "sessions": 0,
        "tool_calls": 0, "tool_results": 0, "errors": 0,
        "input_characters": 0, "output_characters": 0, "structured_characters": 0,
    }  # fmt: skip


_COLUMNS = (
    "agent",
    "unix_user",
    "source",
    "severity",
    "code",
    "line",
    "byte_offset",
    "sqlite_blob_id",
    "message",
    "occurrences",
)
# An item without a relative path is its root, which is a file.
_PLACE = "{root}.root_path || CASE i.relative_path WHEN '' THEN '' ELSE '/' || i.relative_path END"
_ISSUES = """
    SELECT u.agent, u.unix_user, {place}, e.severity, e.code,
      e.line_number, e.byte_offset, e.sqlite_blob_id, e.message, e.occurrence_count
    FROM import_issues AS e JOIN import_runs AS u USING (run_key)
    LEFT JOIN source_items AS i ON i.source_item_key = e.source_item_key
    LEFT JOIN source_roots AS o USING (source_root_key)
    ORDER BY ALL""".format(place=_PLACE.format(root="o"))
# What is not a row of its own, since the next import may bring the other half.
_HALVES = """
    SELECT r.agent, r.unix_user, {place}, 'warning', '{code}',
      min(o.line_number), min(o.byte_offset), min(o.sqlite_blob_id), '{message}',
      count(DISTINCT t.{key})
    FROM {table} AS t {without}
    JOIN observations AS o ON o.{key} = t.{key}
    JOIN source_items AS i USING (source_item_key) JOIN source_roots AS r USING (source_root_key)
    GROUP BY ALL ORDER BY ALL"""
_WITHOUT_RESULT = _HALVES.format(
    place=_PLACE.format(root="r"),
    code="call_without_result",
    message="calls without a result",
    key="call_key",
    table="tool_calls",
    without="ANTI JOIN tool_results AS x ON x.call_key = t.call_key",
)
_WITHOUT_CALL = _HALVES.format(
    place=_PLACE.format(root="r"),
    code="result_without_call",
    message="results without a call",
    key="result_key",
    table="tool_results",
    without="ANTI JOIN tool_calls AS x ON x.call_key = t.call_key",
)
_LISTED = (_ISSUES, _WITHOUT_CALL, _WITHOUT_RESULT)


def issues(dataset: Dataset, most: int = MOST_ISSUES) -> list[dict[str, Any]]:
    """The issues of the imports, and what has no other half yet, with their places."""
    found: list[dict[str, Any]] = []
    for statement in _LISTED:
        rows = dataset.rows(f"{statement} LIMIT {most - len(found)}")
        found += [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    return found


def issue_count(dataset: Dataset) -> int:
    """How many there are of what `issues` lists."""
    counts = [dataset.row(f"SELECT count(*) FROM ({each})")[0] for each in _LISTED]
    return sum(counts)


def verify(dataset: Dataset) -> dict[str, Any]:
    """Check schema, relationships, digests, checkpoints, permissions and size.

    `valid` says whether all hold. Calls without results, conflicts and issues are counted, and
    are no faults.
    """
    one = dataset.row
    found = {
        "schema_version": one("SELECT max(version) FROM schema_info")[0],
        "schema_intact": schema(dataset) == expected_schema(),
        "orphan_calls": one(
            "SELECT count(*) FROM tool_calls ANTI JOIN sessions USING (session_key)"
        )[0],
        "orphan_results": one(
            "SELECT count(*) FROM tool_results ANTI JOIN tool_calls USING (call_key)"
        )[0],
        "orphan_observations": one("""
            SELECT count(*) FROM observations AS o
            LEFT JOIN tool_calls AS c ON c.call_key = o.call_key
            LEFT JOIN tool_results AS r ON r.result_key = o.result_key
            LEFT JOIN source_items AS i ON i.source_item_key = o.source_item_key
            WHERE i.source_item_key IS NULL
              OR (o.call_key IS NOT NULL AND c.call_key IS NULL)
              OR (o.result_key IS NOT NULL AND r.result_key IS NULL)""")[0],
        "unobserved_rows": one("""
            SELECT (SELECT count(*) FROM tool_calls ANTI JOIN observations USING (call_key))
              + (SELECT count(*) FROM tool_results ANTI JOIN observations USING (result_key))""")[
            0
        ],
        "bad_checkpoints": one("""
            SELECT count(*) FROM source_items AS i
            LEFT JOIN import_runs AS u ON u.run_key = i.last_run_key
            WHERE u.run_key IS NULL OR imported_byte_count > size_bytes
              OR (imported_byte_count IS NULL) <> (prefix_sha256 IS NULL)""")[0],
        "damaged_inputs": one("""
            SELECT count(*) FROM tool_calls
            WHERE sha256(input_text) <> lower(hex(input_sha256))""")[0],
        "damaged_results": sum(1 for _ in _damaged_results(dataset)),
        "calls_without_results": one(
            "SELECT count(*) FROM tool_calls ANTI JOIN tool_results USING (call_key)"
        )[0],
        "calls_with_conflicting_results": one(
            "SELECT count(DISTINCT call_key) FROM tool_call_conflicts"
        )[0],
        "unsettled": one("SELECT unsettled FROM private.state")[0],
        "issues": one("SELECT count(*) FROM import_issues")[0],
        "private_permissions": _private(dataset),
        "regular_files": all(map(is_regular, own_files(dataset.path))),
        "under_size_limit": dataset.used_bytes() < MOST_BYTES,
    }
    zeros = [name for name in found if name.startswith(("orphan", "unobserved", "bad", "damaged"))]
    found["valid"] = (
        found["schema_version"] == VERSION
        and not any(found[name] for name in zeros)
        and all(found[name] for name in _HOLDS)
    )
    return found


def schema(dataset: Dataset) -> list[tuple[Any, ...]]:
    """What the catalogue says of tables, columns, constraints, indexes and views."""
    return dataset.rows("""
        SELECT 'column', schema_name, table_name, column_name,
          data_type || CASE WHEN is_nullable THEN '' ELSE ' not null' END
        FROM duckdb_columns() WHERE NOT internal AND schema_name <> 'temp'
        UNION ALL
        SELECT 'constraint', schema_name, table_name, constraint_type, constraint_text
        FROM duckdb_constraints()
        UNION ALL
        SELECT 'index', schema_name, table_name, index_name, sql FROM duckdb_indexes()
        UNION ALL
        SELECT 'view', schema_name, view_name, '', sql FROM duckdb_views() WHERE NOT internal
        ORDER BY ALL""")


def expected_schema() -> list[tuple[Any, ...]]:
    """What `schema` gives for a new dataset."""
    from yarp.dataset.database import SCHEMA_FILES, Dataset
    from yarp.dataset.engine import duckdb

    with duckdb.connect(":memory:") as connection:
        for name in SCHEMA_FILES:
            connection.execute(schema_text(name))
        return schema(Dataset("", connection, None))


def _damaged_results(dataset: Dataset) -> Iterator[str]:
    with told(dataset.path):
        found = dataset.connection.execute(
            "SELECT result_key, call_key, is_error, output_json, output_text, result_sha256"
            " FROM tool_results"
        )
        while rows := found.fetchmany(_ROWS_AT_ONCE):
            for key, call_key, is_error, structure, text, sha256 in rows:
                said = orjson.dumps({"is_error": is_error, "json": structure, "text": text})
                if hashlib.sha256(said).digest() != sha256 or result_key(call_key, sha256) != key:
                    yield key


def _private(dataset: Dataset) -> bool:
    # A link has no mode of its own.
    places = [dataset.directory, *filter(is_regular, own_files(dataset.path))]
    return not any(stat.S_IMODE(os.lstat(place).st_mode) & 0o077 for place in places)
