"""`yarp dataset sql|calls|search|export|benchmark|analyze-ceiling` as whole processes."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

SEARCH = ("dataset", "search", "--database")


@pytest.fixture
def path(dataset_of, result, yarp_home):
    return dataset_of(
        {
            "tool": "sh",
            "input": "make\x1b[31m",
            "at": 1_790_000_000_000,
            "results": [result("an error")],
        },
        {"tool": "sh", "input": "ls", "agent": "other", "results": [result("a\nb", is_error=True)]},
    )


@pytest.fixture
def yarp(yarp_home):
    def run(*words, status=0):
        done = subprocess.run(
            [sys.executable, "-m", "yarp", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done

    return run


def test_sql_shows_a_table_and_says_what_was_cut(yarp, path):
    query = "SELECT agent, NULL AS nothing FROM sessions ORDER BY agent"
    shown = yarp("dataset", "sql", "--database", path, query).stdout
    assert shown.split() == ["agent", "nothing", "acme", "NULL", "other", "NULL"]
    done = yarp("dataset", "sql", "--database", path, "--json", "--rows", "1", query)
    assert json.loads(done.stdout)["rows"] == [["acme", None]]
    assert done.stderr == "yarp: more than the bounds allow; cut: rows\n"


def test_sql_refuses_what_is_no_reading(yarp, path):
    done = yarp("dataset", "sql", "--database", path, "DROP TABLE tool_calls", status=64)
    assert done.stderr == "yarp: give one SELECT statement; the dataset is only read here\n"


def test_calls_are_listed_without_what_a_terminal_would_act_on(yarp, path):
    lines = yarp("dataset", "calls", "--database", path).stdout.splitlines()
    assert lines[0].split()[:4] == ["CALL", "TIME", "AGENT", "TOOL"]
    assert lines[1].split()[1:] == [
        *("2026-09-21T14:13:20Z", "acme", "sh", "unknown", "9"),
        *("8", "make\\x1b[31m"),
    ]
    assert lines[2].split()[1:5] == ["-", "other", "sh", "yes"]
    found = json.loads(yarp("dataset", "calls", "--database", path, "--json", "error").stdout)
    assert [call["beginning"] for call in found["calls"]] == ["make\x1b[31m"]
    yarp("dataset", "calls", "--database", path, "--agent", "nobody", status=1)


def grow(path):
    """Make the database one that is large enough for an index; the file has a hole."""
    os.truncate(path, 400 << 20)


@pytest.mark.parametrize("large", [False, True])
def test_search_counts_and_shows_and_leaves_no_index(yarp, path, large):
    if large:
        grow(path)
    done = yarp(*SEARCH, path, "error")
    assert done.stdout.endswith("\n  output_text:1: an error\n1 call\n")
    assert done.stderr == ""
    assert not os.path.exists(path + ".text")
    found = json.loads(yarp(*SEARCH, path, "--json", "-i", "ERR").stdout)
    assert (found["calls"], found["hits"][0]["lines"][0]["text"]) == (1, "an error")
    assert yarp(*SEARCH, path, "nowhere", status=1).stdout == "0 calls\n"
    assert yarp(*SEARCH, path, "", status=64).stderr.startswith("yarp: give a text")


def test_search_works_beside_what_is_no_index_and_verify_tells_of_it(yarp, path):
    grow(path)
    os.mkfifo(path + ".text", 0o600)
    done = yarp(*SEARCH, path, "error")
    assert (done.stdout[-7:], done.stderr) == ("1 call\n", "")
    verified = yarp("dataset", "verify", "--database", path, status=65)
    assert "regular files: no\n" in verified.stdout
    assert "private permissions: yes\n" in verified.stdout


def test_an_export_and_its_census_are_those_of_the_dataset(yarp, path, tmp_path):
    out = str(tmp_path / "calls")
    done = yarp("dataset", "export", "--database", path, out)
    assert done.stderr == f"yarp: 2 rows in {out}\n"
    over_database = json.loads(yarp("dataset", "benchmark", "--database", path).stdout)
    over_files = json.loads(yarp("dataset", "benchmark-yarp", "--parquet", out).stdout)
    for timed in (
        "elapsed_seconds",
        "evaluated_megabytes_per_second",
        "eligible_megabytes_per_second",
    ):
        del over_database[timed], over_files[timed]
    assert over_database == over_files
    assert over_database["evaluated_results"] == 2


def test_the_ceiling_takes_its_assumptions(yarp, path):
    done = yarp(
        *("dataset", "analyze-ceiling", "--database", path, "--summary-character-budget", "704")
    )
    report = json.loads(done.stdout)
    assert report["assumptions"]["summary_character_budget"] == 704
    assert report["scope"] == "stored_shell_result_text"


def test_a_dataset_that_is_not_there_is_told(yarp, tmp_path):
    for words in (("sql", "SELECT 1"), ("calls",), ("search", "x"), ("benchmark",)):
        done = yarp("dataset", *words, "--database", str(tmp_path / "none"), status=65)
        assert "there is no dataset yet" in done.stderr
    assert os.listdir(tmp_path) == [] or os.listdir(tmp_path) == ["home"]


def test_the_reference_names_every_option():
    page = (pathlib.Path(__file__).parents[2] / "docs/reference/dataset-queries.md").read_text()
    for module in ("yarp.cli.dataset_queries", "yarp.cli.dataset_census"):
        for command in vars(importlib.import_module(module)).values():
            for param in getattr(command, "params", []):
                assert any(name in page for name in param.opts if name.startswith("-")) or (
                    param.param_type_name == "argument"
                )


def test_help_leads_with_examples(yarp):
    for name in ("sql", "calls", "search", "export", "benchmark", "analyze-ceiling"):
        assert f"yarp dataset {name}" in yarp("dataset", name, "--help").stdout
        assert name in yarp("dataset", "--help").stdout


def test_an_import_into_a_large_dataset_leaves_a_current_index(yarp, tmp_path):
    store = tmp_path / "projects" / "p"
    store.mkdir(parents=True)
    agent = "claude"
    common = {
        "sessionId": "s1",
        "timestamp": "2026-10-01T08:00:00.000Z",
        "cwd": "/p",
        "version": "2.1.14",
    }
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make needle"}}
    record = {
        **common,
        "type": "assistant",
        "uuid": "u1",
        "message": {"role": "assistant", "content": [use]},
    }
    (store / "s1.jsonl").write_text(json.dumps(record) + "\n")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    path = str(data / "calls.duckdb")
    words = (agent, "--projects", str(tmp_path / "projects"))
    yarp("dataset", "extract", "--unix-user", "ann", "--database", path, *words)
    assert not os.path.exists(path + ".text")
    grow(path)
    (store / "s1.jsonl").write_text(
        json.dumps(record) + "\n" + json.dumps({**record, "uuid": "u2"}) + "\n"
    )
    yarp("dataset", "extract", "--unix-user", "ann", "--database", path, *words)
    before = os.stat(path + ".text").st_mtime_ns
    assert yarp(*SEARCH, path, "needle").stdout.endswith("1 call\n")
    assert os.stat(path + ".text").st_mtime_ns == before
