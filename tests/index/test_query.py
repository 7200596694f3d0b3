from __future__ import annotations

import re
import sqlite3

import orjson
import pytest

from yarp.errors import DataError, UsageError, YarpError
from yarp.index.examples import EXAMPLES
from yarp.index.query import Bounds, Overrun, run


@pytest.fixture
def ask(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()

    def ask(sql, **bounds):
        answer = run(index.path, sql, Bounds(**bounds))
        return {**answer, "rows": orjson.loads(orjson.dumps(answer["rows"]))}

    return ask


def run_rows(path, sql):
    return orjson.loads(orjson.dumps(run(path, sql)["rows"]))


def test_an_answer_is_objects_by_column(ask):
    answer = ask("SELECT native_id, name FROM sessions")
    assert answer == {
        "complete": True,
        "returned": 1,
        "cells_truncated": 0,
        "columns": ["native_id", "name"],
        "rows": [{"native_id": "s1", "name": "A session"}],
    }


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM domain_items",
        "UPDATE trace_sources SET path = 'x'",
        "INSERT INTO counters VALUES ('x', 1)",
        "REPLACE INTO counters VALUES ('x', 1)",
        "DROP VIEW items",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE VIRTUAL TABLE temp.x USING fts5(y)",
        "ALTER TABLE counters ADD COLUMN z",
        "ATTACH 'other.sqlite3' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "PRAGMA user_version",
        "PRAGMA user_version = 7",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA data_version",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_table_info('items')",
        "SELECT * FROM pragma_query_only",
        "VACUUM",
        "VACUUM INTO 'copy.sqlite3'",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT x",
        "EXPLAIN DELETE FROM counters",
        "WITH x AS (SELECT 1) DELETE FROM counters",
        "INSERT INTO item_search(item_search) VALUES('optimize')",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('x', 'y')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT hex(fts3_tokenizer('simple', x'00'))",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM counters",
        "SELECT count(*) FROM dbstat",
        "",
        "-- nothing",
        "SELEKT 1",
        "SELECT 1 AS a, 2 AS a",
        "SELECT missing FROM items",
        "SELECT trigram_query('ab')",
        "SELECT trigram_query(7)",
        "SELECT rowid FROM item_search('ab\"')",
        f"SELECT {','.join(f'{n} AS c{n}' for n in range(10_000))}",
        "SELECT '" + "x" * (1 << 20) + "'",
        "SELECT zeroblob(900000000)",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT 1 WHERE " + " OR ".join(["1"] * 5000),
        "SELECT 'a\0b'",
        "SELECT '\ud800'",
    ],
)
def test_what_is_no_bounded_reading_is_refused_and_changes_nothing(ask, index, sql, tmp_path):
    before = index.dump()
    files = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(YarpError):
        ask(sql, timeout_s=20)
    assert index.dump() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM counters", "only read, by one SELECT"),
        ("ATTACH 'x' AS y", "only read, by one SELECT"),
        ("PRAGMA user_version", "only read, by one SELECT"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("", "no statement"),
        ("SELECT 1 AS a, 2 AS a", "two columns are called 'a'"),
        ("SELECT 1\\nFROM x", "--stdin or --file"),
        ("SELECT trigram_query('ab')", "at least 3 characters"),
        ("SELECT trigram_query(12345)", "a text in quotes"),
    ],
)
def test_a_refusal_says_what_to_do(ask, sql, said):
    with pytest.raises(UsageError, match=said):
        ask(sql)


def test_a_long_query_is_stopped_and_told_how_to_be_short(ask):
    forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(Overrun, match="longer than 1 s; narrow it"):
        ask(forever, timeout_s=1)


def test_rows_are_counted_and_more_are_said(ask):
    answer = ask("SELECT item_id FROM items ORDER BY 1", limit=2)
    assert (answer["complete"], answer["incomplete_reason"]) == (False, "row_limit")
    assert answer["returned"] == 2
    count = ask("SELECT count(*) AS n FROM items")["rows"][0]["n"]
    assert ask("SELECT item_id FROM items", limit=count)["complete"] is True


def test_a_row_over_the_budget_is_not_given(ask):
    answer = ask("SELECT printf('%.*c', 900, 'x') AS a FROM items", max_output_bytes=2000)
    assert (answer["complete"], answer["incomplete_reason"]) == (False, "output_budget")
    assert answer["returned"] == 2
    answer = ask("SELECT printf('%.*c', 3000, 'x') AS a", max_output_bytes=2000)
    assert (answer["returned"], answer["complete"]) == (0, False)


def test_a_cut_cell_is_counted_and_falls_between_code_points(ask):
    answer = ask("SELECT 'ab' || char(8364) AS a, x'00112233' AS b, 9e999 AS c", max_cell_bytes=4)
    assert answer["rows"] == [
        {"a": "ab", "b": {"encoding": "hex", "byte_length": 4, "value": "0011"}, "c": "inf"}
    ]
    assert (answer["cells_truncated"], answer["complete"]) == (2, True)


def test_the_names_of_columns_count_too(ask):
    wide = ", ".join(f"1 AS {'n' * 100}{number}" for number in range(20))
    with pytest.raises(UsageError, match="names of its 20 columns alone have more than 2000 bytes"):
        ask(f"SELECT {wide}", max_output_bytes=2000)
    assert len(ask(f"SELECT {wide}", max_output_bytes=6000)["rows"]) == 1


def test_a_row_of_exactly_the_budget_is_given(ask):
    sql = "SELECT printf('%.*c', 990, char(8364)) AS a, 'b' AS b"
    size = len(orjson.dumps(ask(sql)["rows"][0])) + len('["a","b"]') + 1
    assert ask(sql, max_output_bytes=size)["complete"] is True
    assert ask(sql, max_output_bytes=size - 1)["returned"] == 0


@pytest.mark.parametrize("size", range(1, 14))
def test_a_long_text_is_cut_as_a_short_one(ask, size):
    for value in ("char(97, 233, 8364, 128512, 98)", "CAST(x'61ff80e282' AS TEXT)"):
        (row,) = ask(f"SELECT {value} AS a", max_cell_bytes=1000)["rows"]
        expected = row["a"].encode()[:size].decode("utf-8", "ignore")
        (cut,) = ask(f"SELECT {value} || printf('%.*c', 70, 'x') AS a", max_cell_bytes=size)["rows"]
        assert cut["a"] == (row["a"] + "x" * 70).encode()[:size].decode("utf-8", "ignore")
        assert cut["a"].startswith(expected)


def test_many_short_steps_do_not_outlast_the_time(ask, monkeypatch):
    times = iter([0.0, *[0.1] * 3, *[9.0] * 99])
    monkeypatch.setattr("yarp.index.query.time.monotonic", lambda: next(times))
    with pytest.raises(Overrun):
        ask("SELECT item_id FROM items", timeout_s=5)


def test_a_value_of_megabytes_is_cut(ask):
    sql = "SELECT group_concat(a.semantic || b.semantic) AS a FROM items a, items b, items c"
    answer = ask(sql, max_cell_bytes=10)
    assert (len(answer["rows"][0]["a"]), answer["cells_truncated"]) == (10, 1)


def test_text_that_is_no_utf8_is_shown_all_the_same(ask):
    assert ask("SELECT CAST(x'61ff' AS TEXT) AS a")["rows"] == [{"a": "a\ufffd"}]


@pytest.mark.parametrize(
    "bounds",
    [
        {"limit": 0},
        {"limit": 10001},
        {"max_cell_bytes": 0},
        {"timeout_s": 301},
        {"max_output_bytes": 1000},
    ],
)
def test_bounds_have_bounds(ask, bounds):
    with pytest.raises(UsageError, match="takes"):
        ask("SELECT 1", **bounds)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_documented_query_runs(ask, example):
    answer = ask(example.sql)
    assert answer["complete"]
    if example.name not in ("outputs", "interruptions", "metadata", "search"):
        assert answer["returned"] > 0


def test_what_has_no_time_stands_among_the_latest(index, conversation):
    """A runtime that tells no time would never be seen beside one that does."""
    timed = [{"t": "session", "id": "timed"}, {"t": "begin", "loop": "l"}]
    untimed = [{"t": "session", "id": "untimed"}]
    for n in range(30):
        timed.append({"t": "begin", "loop": f"l{n}", "at": 1000 + n})
        timed.append({"t": "human", "text": f"timed {n}", "at": 1000 + n})
        timed.append({"t": "end", "outcome": "failed", "at": 1000 + n})
        untimed.append({"t": "begin", "loop": f"l{n}"})
        untimed.append({"t": "human", "text": f"untimed {n}"})
        untimed.append({"t": "end", "outcome": "failed"})
    index.write("b.jsonl", *timed)
    index.write("a.jsonl", *untimed)
    index.sync()
    for name in ("requests", "interruptions"):
        sql = next(one.sql for one in EXAMPLES if one.name == name)
        shown = [row["request"] for row in run_rows(index.path, sql)]
        latest = range(29, 19, -1)
        assert shown == [f"{kind} {n}" for n in latest for kind in ("timed", "untimed")]


def test_the_session_that_is_shown_is_the_one_indexed_last(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    index.write(
        "b.jsonl",
        {"t": "session", "id": "s2"},
        {"t": "begin", "loop": "l"},
        {"t": "human", "text": "no time"},
    )
    index.sync()
    sql = next(one.sql for one in EXAMPLES if one.name == "session")
    assert [row["said"] for row in run_rows(index.path, sql)] == ["no time"]


def test_a_text_of_the_size_that_is_published_comes_with_the_bounds_that_the_hint_names(index):
    index.write(
        "a.jsonl",
        {"t": "session", "id": "s1"},
        {"t": "begin", "loop": "l"},
        {"t": "human", "text": "x" * 65_536},
    )
    index.sync()
    sql = "SELECT text FROM blobs WHERE length(text) = 65536"
    answer = run(index.path, sql)
    assert (answer["incomplete_reason"], answer["returned"]) == ("output_budget", 0)
    cell, output = (int(n) for n in re.findall(r"--max-\w+-bytes (\d+)", answer["hint"]))
    assert run(index.path, sql, Bounds(max_cell_bytes=cell))["returned"] == 1
    answer = run(index.path, sql, Bounds(max_output_bytes=output))
    assert (answer["complete"], answer["cells_truncated"]) == (True, 0)


def test_without_an_index_it_is_said_how_to_make_one(tmp_path):
    with pytest.raises(DataError, match="run: index sync"):
        run(str(tmp_path / "none.sqlite3"), "SELECT 1")


def test_an_open_reader_is_not_disturbed_by_a_query(ask, index):
    connection = sqlite3.connect(index.path)
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM items").fetchone()
    assert ask("SELECT 1 AS one")["returned"] == 1
    connection.close()
