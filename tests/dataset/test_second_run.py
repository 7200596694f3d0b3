"""A run that finds nothing new is short: what it loads, reads and writes."""

import json
import os
import subprocess
import sys

import pytest
from toy_agent import call, result, session

from yarp.dataset import engine, rowgroups, tables
from yarp.dataset.database import Dataset
from yarp.dataset.reading import same_content
from yarp.dataset.tables import Tables
from yarp.sources.importers import SourceItem

_LOADED = """
import json, os, sys
before = set(sys.modules)
from yarp.dataset.database import Dataset
from yarp.dataset.indexing import Indexing
from yarp.dataset.extract import extract
import toy_agent
with Dataset.write(sys.argv[1]) as dataset, Indexing(dataset) as indexing:
    report = extract(dataset, toy_agent.TOY, "ann", {"sessions": sys.argv[2]}, indexing=indexing)
    print(json.dumps([sorted(set(sys.modules) - before), report.unchanged, report.written.touched]))
"""


def loaded(store):
    """What a run in a process of its own loads, how many items it finds unchanged and touched."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, store.database, str(store.sessions)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True,
        check=True,
    )
    modules, unchanged, touched = json.loads(done.stdout)
    return set(modules), unchanged, touched


def test_what_is_not_needed_is_not_loaded(store):
    for number in range(3):
        path = store.write(f"{number}.jsonl", session(f"s{number}"), call("c"), result("c"))
    store.extract()
    modules, unchanged, _ = loaded(store)
    assert unchanged == 3
    needless = {"duckdb", "pyarrow", "zstandard", "sqlite3", "tempfile", "importlib.metadata"}
    assert not modules & {*needless, "concurrent.futures", "logging"}
    os.utime(path, ns=(5, 5))
    modules, unchanged, touched = loaded(store)
    assert (unchanged, touched) == (2, 1)
    assert not modules & needless
    assert store.extract().unchanged == 3


def test_the_engine_is_that_of_the_package():
    import duckdb

    assert engine.duckdb.connect is duckdb.connect
    assert engine.duckdb.Error is duckdb.Error
    assert engine.duckdb.__version__ == duckdb.__version__


def test_without_the_engine_apart_the_package_is_loaded():
    code = (
        "import duckdb, sys\n"
        "sys.modules['_duckdb'] = None\n"
        "from yarp.dataset import engine\n"
        "assert engine.duckdb is duckdb\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("has_arrow", [False, True])
def test_few_rows_are_written_and_joined_with_or_without_arrow(store, monkeypatch, has_arrow):
    monkeypatch.setattr(tables, "_has_arrow", lambda: has_arrow)
    item = ["key", "root", "a\0b 'c' \U0001f40d", 1, 2**64 - 1, 0, 7, -(2**63), None, b"\0" * 32]
    rows = [
        (*item, "run", "complete"),
        ("other", "root", "", 1, None, None, 0, 5, 0, None, "run", "deferred"),
    ]
    with Dataset.write(store.database) as dataset:
        written = Tables(dataset.connection)
        dataset.rows("INSERT INTO source_roots VALUES ('root', 'ann', 'toy', 'sessions', '/x')")
        for times in range(2):
            with dataset.transaction():
                written.insert("source_items", rows[times : times + 1])
        assert dataset.rows("FROM source_items ORDER BY size_bytes DESC") == rows
        with written.values([("key",), ("none",)], key="VARCHAR") as given:
            asked = f"SELECT g.key, i.status FROM {given} AS g LEFT JOIN source_items AS i "
            found = dataset.rows(f"{asked} ON source_item_key = key ORDER BY ALL")
        assert found == [("key", "complete"), ("none", None)]
        with written.values([], key="VARCHAR") as given:
            assert dataset.rows(f"FROM {given}") == []
        with pytest.raises(engine.duckdb.IntegrityError), dataset.transaction():
            written.insert("source_items", rows[:1])
        with dataset.transaction():
            written.insert("private.checkpoints", [("key", b"mark", b"around")])
        assert dataset.rows("FROM private.checkpoints") == [("key", b"mark", b"around")]


def test_a_file_that_grows_while_it_is_compared_is_not_what_was_imported(store):
    path = store.write("a.jsonl", session("s"), call("c"))
    store.extract()
    ((size, digest),) = store.rows("SELECT size_bytes, prefix_sha256 FROM source_items")
    item = SourceItem("sessions", str(store.sessions), "a.jsonl")
    assert same_content(item, size, digest).size_bytes == size
    store.append("a.jsonl", call("d"))
    assert same_content(item, size, digest) is None
    assert os.path.getsize(path) > size


def test_a_last_line_that_was_completed_within_its_length_is_read(store):
    store.write("a.jsonl", session("s"), tail=json.dumps(call("c")).encode() + b"  ")
    assert store.extract().written.items == 1
    assert store.calls() == []
    store.write("a.jsonl", session("s"), tail=json.dumps(call("c")).encode() + b" \n")
    store.extract()
    assert len(store.calls()) == 1


def test_many_touched_files_keep_what_they_were_and_one_of_them_has_changed(store):
    paths = [store.write(f"{n:02}.jsonl", session(f"s{n}"), call(f"c{n}")) for n in range(40)]
    store.extract()
    before = store.calls()
    for at, path in enumerate(paths):
        os.utime(path, ns=(at, at))
    text = paths[17].read_bytes()
    paths[17].write_bytes(text.replace(b"c17", b"x17"))
    written = store.extract().written
    assert (written.touched, written.items) == (39, 1)
    assert [row[1] for row in store.calls()].count("x17") == 1
    paths[17].write_bytes(text)
    store.extract()
    assert store.calls() == before


def test_a_large_file_is_not_written_for_a_run_that_found_nothing(store, monkeypatch):
    store.write("a.jsonl", session("s"), call("c"), result("c"))
    store.extract()
    monkeypatch.setattr(rowgroups, "MOST_BYTES", 0)
    store.extract()
    before = os.stat(store.database).st_mtime_ns
    log = store.database + ".wal"
    for runs in range(3, 6):
        store.extract()
        assert store.rows("SELECT count(*), min(status) FROM import_runs") == [(runs, "complete")]
    assert os.stat(store.database).st_mtime_ns == before
    assert 0 < os.path.getsize(log) < rowgroups.SHORT_LOG_BYTES
    assert os.stat(log).st_mode & 0o777 == 0o600
    monkeypatch.setattr(rowgroups, "SHORT_LOG_BYTES", os.path.getsize(log))
    store.extract()
    assert not os.path.exists(log)
    assert store.rows("SELECT count(*) FROM import_runs") == [(6,)]
