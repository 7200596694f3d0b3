from __future__ import annotations

import os
import pathlib
import re
import stat
import subprocess
import sys

import duckdb
import pytest
from toy_agent import call, result, session

from yarp.dataset import report
from yarp.dataset.database import Dataset, DatasetUnknown, default_path, schema_text, told
from yarp.errors import DataError, PermissionsTooOpen, StorageError, YarpError

SEED_TABLES = [
    "import_issues", "import_runs", "observations", "schema_info", "sessions",
    "source_items", "source_roots", "tool_calls", "tool_results",
]  # fmt: skip


@pytest.fixture
def made(store):
    store.write("a.jsonl", session("s"), call("c"), result("c", "secret-output"))
    store.extract()
    return store


def modes(directory):
    return {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in pathlib.Path(directory).rglob("*")
    }


def test_the_catalogue_is_the_published_schema(made):
    """The DDL of seed 003 stands beside this file as the seed has it, apart from our own."""
    seed = pathlib.Path(__file__).with_name("seed_schema.sql").read_text()
    with duckdb.connect(":memory:") as plain:
        plain.execute(seed)
        expected = report.schema(Dataset("", plain, None))
    assert {row[2] for row in expected} == set(SEED_TABLES)
    with Dataset.read(made.database) as dataset:
        public = [row for row in report.schema(dataset) if row[1] == "main"]
    views = {"tool_call_conflicts", "tool_calls_flat"}
    indexes = [row for row in public if row[0] == "index"]
    assert {row[2] for row in indexes} <= set(SEED_TABLES)
    assert {row[2] for row in public} - set(SEED_TABLES) == views
    assert {row[2] for row in public if row[0] == "view"} == views
    tables = [row for row in public if row[0] != "index" and row[2] not in views]
    assert tables == expected
    order = "SELECT table_name, column_index, column_name, column_default FROM duckdb_columns()"
    order += " WHERE schema_name = 'main' AND NOT internal AND table_name IN ? ORDER BY ALL"
    with duckdb.connect(":memory:") as plain:
        plain.execute(seed)
        columns = plain.execute(order, [SEED_TABLES]).fetchall()
    assert made.rows(order, SEED_TABLES) == columns


def test_the_data_directory_and_its_files_are_private_whatever_the_umask(made):
    directory = os.path.dirname(made.database)
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert set(modes(directory).values()) == {0o600}
    assert not [name for name in modes(directory) if name.endswith((".wal", ".tmp"))]


def test_broader_modes_of_its_own_files_are_narrowed(made):
    os.chmod(made.database, 0o644)
    with Dataset.read(made.database) as dataset:
        assert report.verify(dataset)["private_permissions"] is False
    made.extract()
    assert set(modes(os.path.dirname(made.database)).values()) == {0o600}


OTHERS = (
    "notes.txt",
    "DATABASE.bak",
    "DATABASE2",
    "DATABASE.tmp.txt",
    "DATABASE.tmp-mine/x",
    "DATABASE.d/x",
    "copy-x/y",
)


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_others_beside_it_are_left_alone(made, name):
    database = pathlib.Path(made.database)
    other = database.parent / name.replace("DATABASE", database.name)
    other.parent.mkdir(exist_ok=True)
    other.write_text("mine")
    other.chmod(0o644)
    made.extract()
    assert stat.S_IMODE(other.stat().st_mode) == 0o644
    with Dataset.read(made.database) as dataset:
        assert report.verify(dataset)["private_permissions"] is True


def test_a_link_in_the_place_of_what_spills_is_not_followed(made, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch(mode=0o644)
    os.symlink(tmp_path / "mine", made.database + ".tmp")
    Dataset.write(made.database).close()
    assert stat.S_IMODE(os.stat(tmp_path / "mine" / "notes.txt").st_mode) == 0o644


@pytest.mark.parametrize("suffix", [".wal", ".lock", ".text", ".text.wal"])
def test_all_that_it_and_its_index_leave_is_narrowed(made, suffix):
    own = pathlib.Path(made.database + suffix)
    own.parent.mkdir(exist_ok=True)
    own.touch()
    own.chmod(0o644)
    with Dataset.read(made.database) as dataset:
        assert report.verify(dataset)["private_permissions"] is False
    Dataset.write(made.database).close()
    assert not own.exists() or stat.S_IMODE(own.stat().st_mode) == 0o600


def test_a_directory_that_others_can_reach_is_refused_unless_it_is_the_default(store, monkeypatch):
    os.makedirs(os.path.dirname(store.database), mode=0o755)
    with pytest.raises(PermissionsTooOpen, match="chmod 700"):
        Dataset.write(store.database)
    monkeypatch.setenv("XDG_DATA_HOME", str(store.path))
    directory = os.path.dirname(default_path())
    os.makedirs(directory, mode=0o755)
    Dataset.write().close()
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700


def test_the_default_place_is_the_seed_s(monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_path() == "/home/ann/.local/share/toolcall-extractor/toolcalls.duckdb"


def test_only_one_process_writes_and_readers_are_told(made):
    with Dataset.write(made.database):
        with pytest.raises(StorageError, match="another process"):
            Dataset.write(made.database)
        code = "import sys; from yarp.dataset.database import Dataset; Dataset.read(sys.argv[1])"
        found = subprocess.run(
            [sys.executable, "-c", code, made.database], capture_output=True, text=True, check=False
        )
        assert "is in use by another process" in found.stderr
    with Dataset.read(made.database), Dataset.read(made.database):
        pass


def test_a_dataset_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(DatasetUnknown, match="yarp dataset extract"):
        Dataset.read(str(tmp_path / "none.duckdb"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_file_that_is_no_dataset_is_refused(tmp_path, content):
    path = tmp_path / "data" / "x.duckdb"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    if content:
        for opened in (Dataset.read, Dataset.write):
            with pytest.raises(DataError, match="is damaged, or no dataset"):
                opened(str(path))
        assert path.read_bytes() == content
    else:
        Dataset.write(str(path)).close()


@pytest.mark.parametrize("left", [100, 9000, 12300, 30_000])
def test_a_file_that_was_cut_is_damaged(made, left):
    os.truncate(made.database, left)
    with pytest.raises(DataError, match="is damaged"), Dataset.read(made.database) as dataset:
        report.verify(dataset)


def test_verify_says_that_a_damaged_file_is_damaged(store):
    text = "".join(f"{number * 7919 % 99_991:x}" for number in range(99_991))
    store.write("a.jsonl", session("s"), call("a"), result("a", text))
    store.extract()
    with open(store.database, "r+b") as file:
        place = file.read().find(text[1000:1040].encode())
        assert place > 0
        file.seek(place)
        file.write(bytes(40))
    with Dataset.read(store.database) as dataset, pytest.raises(DataError, match="is damaged"):
        report.verify(dataset)


def test_a_dataset_behind_a_link_has_one_lock(made, tmp_path):
    link = tmp_path / "link.duckdb"
    link.symlink_to(made.database)
    for opened in (Dataset.read, Dataset.write):
        with opened(str(link)) as dataset:
            assert dataset.path == made.database
    with Dataset.write(made.database), pytest.raises(StorageError, match="being written"):
        Dataset.write(str(link))
    assert [*tmp_path.glob("link*")] == [link]


def test_another_schema_version_is_refused(made):
    with Dataset.write(made.database) as dataset:
        dataset.rows("UPDATE schema_info SET version = 2")
    for opened in (Dataset.write, Dataset.read):
        with pytest.raises(DataError, match="its schema has version 2"):
            opened(made.database)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY tool_calls TO '/tmp/leak.csv'",
        "ATTACH '/tmp/leak.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM 'https://example.invalid/x.csv'",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
    ],
)
def test_nothing_outside_can_be_reached(made, statement):
    with Dataset.read(made.database) as dataset, pytest.raises((DataError, StorageError)):
        dataset.rows(statement)


def test_verify_says_that_all_is_well(made):
    with Dataset.read(made.database) as dataset:
        found = report.verify(dataset)
    assert found["valid"] is True
    assert found["schema_version"] == 1


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE tool_calls SET input_text = '{}'", "damaged_inputs"),
        ("UPDATE tool_results SET output_text = 'other'", "damaged_results"),
        ("DELETE FROM tool_calls", "orphan_results"),
        ("DELETE FROM tool_results", "orphan_observations"),
        ("DELETE FROM observations", "unobserved_rows"),
        ("UPDATE source_items SET prefix_sha256 = NULL", "bad_checkpoints"),
        ("DELETE FROM import_runs", "bad_checkpoints"),
        ("CREATE TABLE more (a INTEGER)", "schema_intact"),
        ("DROP VIEW tool_calls_flat", "schema_intact"),
    ],
)
def test_verify_sees_each_fault(made, statement, name):
    with Dataset.write(made.database) as dataset:
        dataset.rows(statement)
    with Dataset.read(made.database) as dataset:
        found = report.verify(dataset)
    assert found["valid"] is False
    assert found[name] in (False, 1, 2)


def test_what_has_no_other_half_is_an_issue_with_its_place(store):
    store.write("a.jsonl", session("s"), call("c"), call("d"), result("x", "secret-output"))
    store.extract()
    with Dataset.read(store.database) as dataset:
        found = report.issues(dataset)
        assert report.issues(dataset, 1) == found[:1]
        assert report.issue_count(dataset) == len(found)
        verified = report.verify(dataset)
    assert [(row["code"], row["line"], row["occurrences"]) for row in found] == [
        ("result_without_call", 4, 1),
        ("call_without_result", 2, 2),
    ]
    assert found[0]["source"] == str(store.sessions / "a.jsonl")
    assert (verified["orphan_results"], verified["calls_without_results"], verified["valid"]) == (
        1,
        2,
        False,
    )


def test_issues_beyond_the_first_ones_of_a_code_share_a_message_of_none(store):
    issue = {"type": "issue", "code": "odd"}
    store.write("a.jsonl", session("s"), *[issue] * 23)
    store.write("b.jsonl", session("t"), *[issue] * 21)
    store.extract()
    found = store.rows("SELECT message, sum(occurrence_count) FROM import_issues GROUP BY 1")
    assert sorted(found) == [
        ("as the record says", 41),
        ("more of this code, beyond the first 20", 3),
    ]


def test_stats_count_a_result_without_a_call_where_it_was_read(store):
    store.write("a.jsonl", session("s"), call("c"), result("c"), result("gone", "four"))
    store.extract()
    with Dataset.read(store.database) as dataset:
        found = report.stats(dataset)
    (row,) = found["by_agent"]
    assert (row["tool_calls"], row["tool_results"], found["tool_results"]) == (1, 2, 2)
    assert row["output_characters"] == found["output_characters"]


def test_stats_counts_by_agent_and_user(made):
    made.write(
        "b.jsonl", session("t"), call("d", input="é"), result("d", "ab", json={"k": 1}, error=True)
    )
    made.extract(user="bob")
    with Dataset.read(made.database) as dataset:
        found = report.stats(dataset)
    assert (found["sessions"], found["tool_calls"], found["tool_results"], found["errors"]) == (
        3,
        3,
        3,
        1,
    )
    assert [row["tool_calls"] for row in found["by_agent"]] == [1, 2]
    assert found["by_agent"][1]["structured_characters"] == 7
    assert found["database_bytes"] > 0


def test_a_reader_sees_what_a_killed_writer_committed(store):
    code = """
import os, sys
from yarp.dataset.database import Dataset
dataset = Dataset.write(sys.argv[1])
with dataset.transaction() as connection:
    connection.execute("INSERT INTO sessions VALUES ('k', 'ann', 'toy', 's', 1)")
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code, store.database], check=False)
    assert os.path.exists(store.database + ".wal")
    assert store.rows("SELECT native_session_id FROM sessions") == [("s",)]


def test_the_seed_s_tables_are_named_in_the_order_of_the_seed():
    found = re.findall(r"CREATE TABLE (\w+)", schema_text("001_dataset.sql"))
    assert sorted(found) == SEED_TABLES


def test_a_writer_removes_what_a_killed_import_had_copied(tmp_path):
    directory = tmp_path / "private"
    path = str(directory / "toolcalls.duckdb")
    Dataset.write(path).close()
    (directory / "yarp-copy-abc").mkdir()
    (directory / "yarp-copy-abc" / "copy").write_bytes(b"a store, as far as it came")
    Dataset.read(path).close()
    assert (directory / "yarp-copy-abc").exists()
    Dataset.write(path).close()
    assert not (directory / "yarp-copy-abc").exists()


def test_a_dataset_that_is_closed_or_refused_leaves_the_umask_as_it_was(store, tmp_path):
    before = os.umask(0o027)
    try:
        with Dataset.write(store.database):
            assert os.umask(0o077) == 0o077
        assert os.umask(0o027) == 0o027
        open_to_all = tmp_path / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o755)
        with pytest.raises(YarpError):
            Dataset.write(str(open_to_all / "x.duckdb"))
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_shell_of_python_sees_no_progress_of_the_engine(store):
    store.write("a.jsonl", session("s"), call("c"), result("c"))
    store.extract()
    code = (
        "import sys\n"
        "from yarp.dataset import textindex\n"
        "from yarp.dataset.database import Dataset\n"
        "asked = 'SELECT current_setting(\\'enable_progress_bar\\')'\n"
        "with Dataset.read(sys.argv[1]) as dataset:\n"
        "    textindex.update(dataset)\n"
        "    index = textindex.Growing.open(dataset)\n"
        "    print(dataset.row(asked), index.connection.execute(asked).fetchall())\n"
    )
    command = [sys.executable, "-c", code, store.database]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "(False,) [(False,)]\n"


def test_an_interrupt_within_the_engine_is_one():
    with pytest.raises(KeyboardInterrupt), told("x"):
        raise RuntimeError("Query interrupted")  # as DuckDB says it, between two of its tasks
    with pytest.raises(RuntimeError), told("x"):
        raise RuntimeError("anything else")
