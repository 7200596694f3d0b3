"""`yarp index` and `trace-index` as processes, with a plugin as anybody could write one."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from yarp.index.catalog import ROLES
from yarp.testing.plugin import PluginSite

ACME = pathlib.Path(__file__).parents[1] / "index" / "acme.py"
VARIABLES = ("TRACE_INDEX_CONFIG", "TRACE_INDEX_DB", "TRACE_INDEX_METADATA_DB")
SCRIPT = "import sys; from yarp.cli.index import main; sys.exit(main())"


def furnish(home):
    """A home with a trace in Acme's usual place."""
    traces = home / ".acme" / "sessions"
    traces.mkdir(parents=True)
    (traces / "a.jsonl").write_text(ACME.with_name("conversation.jsonl").read_text())
    return home


@pytest.fixture
def home(plugin_site, yarp_home, monkeypatch):
    """A home of this test's own, not configured yet."""
    plugin_site.install("acme", ACME.read_text())
    monkeypatch.setenv("YARP_PLUGINS", "acme")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return furnish(yarp_home)


@pytest.fixture(scope="module")
def synced(tmp_path_factory):
    """A home for all tests that leave things as they were, configured and synced."""
    home = furnish(tmp_path_factory.mktemp("home"))
    site = PluginSite(tmp_path_factory.mktemp("site"))
    site.install("acme", ACME.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("PYTHONPATH", str(site.path))
        patch.setenv("YARP_PLUGINS", "acme")
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", *VARIABLES):
            patch.delenv(name, raising=False)
        trace_index("config", "init", "--discover")
        trace_index("index", "sync")
        yield home


def trace_index(*words, status=0, stdin=""):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=False,
        input=stdin,
        timeout=60,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    if status and words[:2] not in (("index", "sync"), ("config", "check")):
        assert done.stdout == ""
        return done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)["data"]


def test_from_nothing_to_an_answer(home):
    told = trace_index("config", "init", "--discover")
    assert told["roots"] == [{"path": str(home / ".acme" / "sessions"), "label": "acme"}]
    assert trace_index("config", "check") == {"valid": True, "diagnostics": []}
    told = trace_index("index", "sync")
    assert (told["adapters"], told["indexed_files"]) == (["acme"], 1)
    assert told["source_results"] == []
    told = trace_index("index", "status")
    assert (told["sources"], told["incomplete_sources"]) == (1, 0)
    roles = {one["semantic_role"]: one["items"] for one in told["observed_roles"]}
    assert roles["human.request"] == 1
    told = trace_index("query", "run", "SELECT native_id FROM sessions")
    assert told["rows"] == [{"native_id": "s1"}]
    assert trace_index("index", "sync", "--include-sources")["source_results"][0]["action"] == (
        "unchanged"
    )


def test_yarp_has_the_same_commands(synced):
    words = [sys.executable, "-m", "yarp", "index", "query", "run", "SELECT 1 AS one"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["data"]["rows"] == [{"one": 1}]
    words[4:] = ["query", "run", "DELETE FROM items"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("yarp: ")
    for topics in (["docs", "get", "nope"], ["schema", "get", "nope"]):
        words[4:] = topics
        assert subprocess.run(words, capture_output=True, check=False).returncode == 64


def test_the_schema_is_told_without_an_index(home):
    names = [one["name"] for one in trace_index("schema", "list")["objects"]]
    assert names == [
        *("sources", "records", "sessions", "loops", "items", "blobs", "item_search"),
        "session_metadata",
    ]
    (told,) = trace_index("schema", "get", "blobs", "--compact")["objects"]
    assert told["columns"][0] == {"name": "blob_id", "data_type": "INTEGER", "nullable": False}
    assert "there is no relation" in trace_index("schema", "get", "domain_items", status=1)


def test_words_that_are_off_end_with_two_and_say_nothing_on_stdout(synced):
    for words in (
        ("query", "run"),
        ("query", "run", "SELECT 1", "--limit", "0"),
        ("record", "verify", "x"),
        ("session", "metadata", "set", "acme", "s1", "--json", "1"),
    ):
        assert trace_index(*words, status=2).startswith("trace-index: ")


def test_what_fails_ends_with_one_and_says_why_on_stderr(synced):
    for words in (
        ("query", "run", "DELETE FROM items"),
        ("query", "run", "--file", "none.sql"),
        ("record", "inspect", "999"),
        ("docs", "get", "novel"),
        ("config", "init", "--root", "x"),
        ("session", "metadata", "get", "acme", "s1"),
        ("--db", "none.sqlite3", "query", "run", "SELECT 1"),
        ("--config", "none.toml", "index", "status"),
    ):
        assert trace_index(*words, status=1).startswith("trace-index: ")


def test_nothing_to_sync_is_an_error_that_says_what_to_do(home):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "index", "sync"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "config init --discover" in done.stderr


def test_a_sync_with_a_failed_source_reports_and_ends_with_one(synced):
    path = synced / ".acme" / "sessions" / "b.jsonl"
    path.write_text('{"t": "session", "id": "b"}\n{"t": "crash"}\n')
    told = trace_index("index", "sync", status=1)
    assert told["failed_files"] == 1
    assert told["source_results"][0]["error"] == "its reader raised RuntimeError"
    path.unlink()
    assert trace_index("index", "sync", str(synced / "nowhere"), status=1)["problems"]


def test_sql_comes_from_a_file_or_from_standard_input(synced, tmp_path):
    (tmp_path / "q.sql").write_text("SELECT 'é'\n AS a")
    assert trace_index("query", "run", "--file", str(tmp_path / "q.sql"))["rows"] == [{"a": "é"}]
    assert trace_index("query", "run", "--stdin", stdin="SELECT 2 AS b")["rows"] == [{"b": 2}]
    (tmp_path / "q.sql").write_bytes(b"\xff")
    assert "not UTF-8" in trace_index("query", "run", "--file", str(tmp_path / "q.sql"), status=1)
    hint = trace_index("query", "run", "SELECT 1,\\n", status=1)
    assert "--stdin or --file" in hint


def test_records_and_assets_are_got_back(synced, tmp_path):
    path = synced / ".acme" / "sessions" / "c.jsonl"
    image = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(bytes(99)).decode(),
    }
    path.write_text('{"t": "session", "id": "c"}\n' + json.dumps({"t": "note", "i": image}) + "\n")
    trace_index("index", "sync")
    rows = trace_index("query", "run", "SELECT max(record_id) AS id FROM records")["rows"]
    record_id = str(rows[0]["id"])
    assert trace_index("record", "verify", record_id)["status"] == "verified"
    told = trace_index("record", "inspect", record_id)
    reference = told["representation"]["i"]["data"]["$trace_ref"]["reference"]
    trace_index("asset", "extract", reference, "--output", str(tmp_path / "i.png"))
    assert (tmp_path / "i.png").read_bytes() == bytes(99)
    trace_index("record", "export", record_id, "--output", str(tmp_path / "line"))
    assert json.loads((tmp_path / "line").read_text())["i"] == image
    path.unlink()
    assert trace_index("record", "verify", record_id)["status"] == "source_missing"


def test_metadata_are_kept_and_changed_by_version(synced, tmp_path):
    session = ("session", "metadata")
    value = ("acme", "s1", "--json", '{"n": 1}')
    assert trace_index(*session, "set", *value, "--if-absent")["version"] == 1
    assert "it has version 1" in trace_index(*session, "set", *value, "--if-absent", status=1)
    told = trace_index(*session, "set", "acme", "s1", "--stdin", "--if-version", "1", stdin="[2]")
    assert told["version"] == 2
    assert trace_index(*session, "get", "acme", "s1")["metadata"] == [2]
    rows = trace_index("query", "run", "SELECT session_id, metadata FROM session_metadata")["rows"]
    assert rows == [{"session_id": 1, "metadata": "[2]"}]
    trace_index(*session, "backup", str(tmp_path / "copy.sqlite3"))
    assert trace_index(*session, "delete", "acme", "s1", "--if-version", "2")["version"] == 3
    assert trace_index(*session, "list")["entries"] == []


@pytest.mark.parametrize(
    "value",
    [
        "1234567890123456789012345678901234567890",
        "[18446744073709551616]",
        '"\\ud800"',
        "1e999",
        "-0.0",
        "9" * 5000,
        '{"b": 1.10,\n "a": [ ]}',
    ],
)
def test_metadata_come_back_to_the_letter_on_one_line(home, value):
    words = ("session", "metadata")
    trace_index(*words, "set", "acme", "s1", "--json", value, "--if-absent")
    for asked in (("get", "acme", "s1"), ("list",)):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *words, *asked],
            capture_output=True,
            text=True,
            check=True,
        )
        assert f'"metadata":{value.replace(chr(10), " ")},"version":1' in done.stdout
        assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("name", [b"bad\xff.jsonl", b"d\xff/a.jsonl"])
def test_a_path_that_is_not_utf_8_fails_alone_and_the_report_says_so(home, name):
    traces = home / ".acme" / "sessions"
    bad = os.path.join(os.fsencode(traces), name)
    os.makedirs(os.path.dirname(bad), exist_ok=True)
    shutil.copyfile(traces / "a.jsonl", bad)
    database = os.fsencode(home) + b"/y\xff.sqlite3"
    words = [sys.executable, "-c", SCRIPT, "--db", database, "index", "sync", os.fsencode(traces)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["data"]
    assert (done.returncode, told["indexed_files"], told["failed_files"]) == (1, 1, 1)
    assert "not UTF-8" in told["source_results"][0]["error"]
    for asked in (
        ["config", "show"],
        ["query", "run", "SELECT 1"],
        ["session", "metadata", "list"],
    ):
        subprocess.run([*words[:5], *asked], capture_output=True, check=True)


def test_documentation_needs_no_configuration(home):
    home.joinpath("config", "yarp").mkdir(parents=True)
    home.joinpath("config", "yarp", "trace-index.toml").write_text("broken")
    assert {"topic": "queries", "title": "Example queries"} in trace_index("docs", "list")["topics"]
    assert trace_index("docs", "get", "usage", "--output", "json")["markdown"].startswith("## ")
    assert trace_index("docs", "search", "trigram_query")["matches"]
    assert "schema_version" not in json.dumps(trace_index("schema", "list"))


def test_progress_goes_to_stderr_for_programs(synced):
    words = [sys.executable, "-c", SCRIPT, "index", "sync", "--rebuild", "--progress", "ndjson"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (first, *_) = [json.loads(line) for line in done.stderr.splitlines()]
    assert first["type"] == "progress"
    assert {"completed_files", "total_files", "records", "items"} <= set(first)
    words[-1] = "off"
    assert subprocess.run(words, capture_output=True, check=True).stderr == b""


def test_what_a_reader_prints_is_no_part_of_the_answer(home, plugin_site, monkeypatch):
    loud = ACME.read_text().replace('"acme"', '"loud"').replace(
        "    def record(self, n, v):\n", "    def record(self, n, v):\n        print('loud')\n"
    )  # fmt: skip
    plugin_site.install("loud", loud)
    monkeypatch.setenv("YARP_PLUGINS", "loud")
    assert trace_index("index", "sync", str(home / ".acme"))["indexed_files"] == 1


def test_each_script_shows_examples_in_its_own_words():
    for words, said in (
        (["session", "metadata", "--help"], "trace-index session metadata list"),
        (["index", "sync", "--help"], "trace-index index sync"),
        (["query", "--help"], "trace-index query run"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True
        )
        assert said in done.stdout
        assert "yarp index" not in done.stdout


@pytest.mark.slow
def test_a_step_that_nothing_can_stop_ends_with_the_process(synced):
    sql = "SELECT instr(zeroblob(9000000), zeroblob(4500000) || x'01')"
    said = trace_index("query", "run", sql, "--timeout-seconds", "1", status=1)
    assert said.startswith("trace-index: the query took longer than 1 s")


@pytest.mark.slow
def test_a_row_of_gigabytes_fails_and_not_the_machine(synced):
    columns = ", ".join(f"zeroblob(15000000) AS c{n}" for n in range(1500))
    said = trace_index("query", "run", f"SELECT {columns}", status=1)
    assert "too large" in said


def test_the_help_of_a_query_names_every_role():
    words = [sys.executable, "-c", SCRIPT, "query", "run", "--help"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert all(role.name in said for role in ROLES)
