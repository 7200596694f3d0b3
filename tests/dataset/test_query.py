"""One SELECT: everything else is refused, and every answer is bounded."""

import os
import pathlib

import pytest

from yarp.dataset.database import Dataset
from yarp.dataset.query import Bounds, query
from yarp.errors import DataError, UsageError, YarpError


@pytest.fixture
def path(dataset_of, result):
    return dataset_of(
        *[
            {"tool": "sh", "input": f"command {n}", "results": [result("planted " * 50)]}
            for n in range(5)
        ]
    )


def test_a_select_gives_columns_and_rows(path):
    answer = query(path, "SELECT tool_name, count(*) AS n FROM tool_calls GROUP BY 1")
    assert (answer.columns, answer.rows, answer.cut) == (("tool_name", "n"), [("sh", 5)], ())
    assert query(path, "FROM tool_calls_flat LIMIT 0").rows == []
    assert query(path, "EXPLAIN SELECT 1").rows


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM tool_calls",
        "INSERT INTO schema_info VALUES (2)",
        "UPDATE tool_calls SET tool_name = 'x'",
        "DROP TABLE tool_calls",
        "CREATE TEMP TABLE x AS SELECT 1",
        "ATTACH '{there}' AS other",
        "COPY tool_calls TO '{new}'",
        "COPY tool_calls FROM '{there}'",
        "EXPORT DATABASE '{new}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "BEGIN",
        "CHECKPOINT",
        "SELECT 1; SELECT 2",
        "",
        "SELECT",
        "SELECT no_such_column FROM tool_calls",
        "SELECT * FROM no_such_table",
        "WITH gone AS (DELETE FROM tool_calls RETURNING *) SELECT * FROM gone",
        "SELECT * FROM read_csv('{there}')",
        "SELECT * FROM read_text('{there}')",
        "SELECT * FROM read_blob('{there}')",
        "SELECT * FROM read_parquet('{there}')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '{there}'",
        "SELECT * FROM parquet_metadata('{there}')",
        "EXPLAIN ANALYZE COPY tool_calls TO '{new}'",
        "SELECT getenv('HOME')",
    ],
)
def test_what_is_no_reading_of_the_dataset_is_refused(path, tmp_path, text):
    there, new = tmp_path / "there.csv", tmp_path / "new"
    there.write_text("secret\n1\n")
    before = pathlib.Path(path).read_bytes()
    with pytest.raises(UsageError) as caught:
        query(path, text.format(there=there, new=new))
    assert "planted" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert pathlib.Path(path).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["data", "there.csv"]


def test_rows_cells_and_output_are_bounded_and_it_is_said(path):
    text = "SELECT output_text FROM tool_results"
    answer = query(path, text, Bounds(rows=3))
    assert (len(answer.rows), answer.cut) == (3, ("rows",))
    answer = query(path, text, Bounds(cell_characters=7))
    assert (answer.rows[0], answer.cut) == (("planted…",), ("cells",))
    answer = query(path, text, Bounds(output_bytes=900))
    assert (len(answer.rows), answer.cut) == (2, ("output",))
    assert query(path, text, Bounds(rows=5, cell_characters=400, output_bytes=2000)).cut == ()


def test_a_query_that_takes_too_long_is_stopped(path):
    with pytest.raises(DataError, match=r"stopped after 0\.2 s"):
        query(path, "SELECT count(*) FROM range(1000000000) a, range(1000)", Bounds(seconds=0.2))


def test_a_query_that_hears_of_no_interruption_is_ended_soon_after(path):
    text = "SELECT length(regexp_replace(repeat('ab', 20000000), '(.)(.)', '\\2\\1', 'g'))"
    with pytest.raises(DataError, match="did not stop in time"):
        query(path, text, Bounds(seconds=0.5))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT list(a.range) FROM range(20000000) a",
        "SELECT length(repeat('a', 1000000000))",
        "SELECT md5(repeat('a', 100000000) || range) FROM range(640)",
        "SELECT repeat('a', 2000000) FROM range(640)",
        "SELECT list_sort(range(100000000))",
        "SELECT string_agg(repeat('a', 1000000), '') FROM range(1000)",
        "SELECT count(*) FROM (SELECT DISTINCT repeat('a', 1000) || range FROM range(1000000))",
    ],
)
def test_memory_is_bounded_for_lists_texts_and_whatever_fills_one_vector(path, text):
    with pytest.raises(DataError, match="16 MiB of memory"):
        query(path, text, Bounds(memory_mib=16))


def test_a_process_that_ends_without_an_answer_is_said_to_have(path, monkeypatch):
    monkeypatch.setattr("yarp.cache.interpreter", lambda: ["false"])
    with pytest.raises(DataError, match="for want of memory"):
        query(path, "SELECT 1")


def test_a_dataset_that_is_not_there_or_is_damaged_is_told(path, tmp_path):
    with pytest.raises(DataError, match="there is no dataset yet"):
        query(str(tmp_path / "none.duckdb"), "SELECT 1")
    damaged = tmp_path / "damaged.duckdb"
    damaged.write_bytes(b"no database" * 1000)
    with pytest.raises(YarpError, match=r"damaged\.duckdb"):
        query(str(damaged), "SELECT 1")


def test_a_damaged_block_is_no_fault_of_the_query(dataset_of, result):
    text = "".join(f"{number * 7919 % 99_991:x}" for number in range(99_991))
    path = dataset_of({"tool": "sh", "input": "x", "results": [result(text)]})
    with open(path, "r+b") as file:
        file.seek(file.read().find(text[1000:1040].encode()))
        file.write(bytes(40))
    with pytest.raises(DataError, match="is damaged"):
        query(path, "SELECT max(output_text) FROM tool_results")


def test_another_schema_version_is_refused(path):
    with Dataset.write(path) as dataset:
        dataset.rows("UPDATE schema_info SET version = 2")
    with pytest.raises(DataError, match="its schema has version 2"):
        query(path, "SELECT 1")


def test_values_of_any_type_can_be_shown(path):
    text = "SELECT 'ab'::BLOB, [1, 2], {'a': 1}, DATE '2026-01-31', 1::HUGEINT, NULL, 1.5, true"
    row = query(path, text).rows[0]
    assert row == ("6162", "[1, 2]", "{'a': 1}", "2026-01-31", 1, None, row[6], True)


def test_a_number_that_json_does_not_have_comes_as_text(path):
    answer = query(path, "SELECT 'nan'::DOUBLE, '-inf'::DOUBLE, 1e400, [1e400, 'nan'::FLOAT]")
    assert answer.rows == [("nan", "-inf", "inf", "[inf, nan]")]


def test_an_error_quotes_no_value(path):
    with pytest.raises(DataError) as caught:
        query(path, "SELECT output_text::INTEGER FROM tool_results")
    assert "planted" not in str(caught.value)
