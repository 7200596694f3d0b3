from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from toy_agent import TOY, Store, call, result, session

from yarp.dataset import report, writer
from yarp.dataset.database import Dataset, SizeLimitReached
from yarp.errors import StorageError
from yarp.sources.importers import Importer
from yarp.testing.files import small_disk

CHILD = """
import os, pathlib, sys, threading, time
sys.path.insert(0, sys.argv[1])
import toy_agent
from yarp.dataset import report, writer
writer.GROUP_BYTES = 3000
store = toy_agent.Store.__new__(toy_agent.Store)
store.path = pathlib.Path(sys.argv[2])
store.sessions = store.path / "sessions"
store.database = str(store.path / "data" / "toolcalls.duckdb")
import duckdb, pyarrow
print("ready", flush=True)
store.extract()
print("done", flush=True)
"""


def fill(store):
    for number in range(60):
        name = f"s{number:02}"
        records = [session(name, 100 - number)]
        for each in range(number % 7):
            records += [
                call(f"c{each}", copy=[f"u{number // 3}", each]),
                result(f"c{each}", "o" * 50 * each),
            ]
        if number % 5 == 0:
            records += [b"{", result("lost")]
        store.write(f"{name}.jsonl", *records)


def undisturbed(new_store):
    store = new_store()
    fill(store)
    store.extract()
    return store


ITEM = "JOIN source_items USING (source_item_key) ORDER BY ALL"
SHAPE = {
    "roots": "SELECT * EXCLUDE (source_root_key, root_path) FROM source_roots",
    "items": "SELECT * EXCLUDE (source_item_key, source_root_key, inode, snapshot_mtime_ns,"
    " last_run_key) FROM source_items ORDER BY relative_path",
    "sessions": "FROM sessions ORDER BY ALL",
    "calls": "FROM tool_calls ORDER BY ALL",
    "results": "FROM tool_results ORDER BY ALL",
    "observations": "SELECT relative_path, o.* EXCLUDE (observation_key, source_item_key)"
    f" FROM observations AS o {ITEM}",
    "issues": "SELECT relative_path, e.* EXCLUDE (issue_key, run_key, source_item_key)"
    f" FROM import_issues AS e {ITEM}",
    "links": "SELECT relative_path, l.* EXCLUDE (source_item_key)"
    f" FROM private.call_links AS l {ITEM}",
    "state": "FROM private.state",
}


def shape(store):
    """All rows, with the places of this store taken out."""
    with Dataset.read(store.database) as dataset:
        return {name: dataset.rows(statement) for name, statement in SHAPE.items()}


def killed_runs(new_store, tmp_path, count, seed):
    whole = shape(undisturbed(new_store))
    moments = random.Random(seed)
    midway = 0
    for _ in range(count):
        store = new_store()
        fill(store)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, os.path.dirname(__file__), str(store.path)],
            stdout=subprocess.PIPE,
        )
        assert child.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0, 0.45))
        child.send_signal(signal.SIGKILL)
        midway += child.communicate()[0] == b"" and os.path.exists(store.database)
        store.extract()
        assert shape(store) == whole
    return midway


def test_after_a_kill_the_next_run_ends_as_an_undisturbed_one(new_store, tmp_path):
    killed_runs(new_store, tmp_path, 2, seed=3)


@pytest.mark.slow
def test_after_a_kill_at_any_of_100_moments_the_next_run_ends_as_an_undisturbed_one(
    new_store, tmp_path
):
    assert killed_runs(new_store, tmp_path, 100, seed=7) >= 30


def test_a_run_that_stops_between_groups_is_settled_by_the_next(new_store, monkeypatch):
    whole = shape(undisturbed(new_store))
    store = new_store()
    fill(store)
    monkeypatch.setattr(writer, "GROUP_BYTES", 3000)

    def read(item):
        if item.relative_path == "s40.jsonl":
            raise KeyboardInterrupt
        return TOY.read(item)

    stopped = Importer(
        "toy", adapter_version=1, options=TOY.options, discover=TOY.discover, read=read
    )
    with pytest.raises(KeyboardInterrupt):
        store.extract(stopped)
    assert store.rows("SELECT status FROM import_runs") == [("failed",)]
    assert store.rows("FROM private.state") == [(True,)]
    assert store.calls()
    assert store.extract().unchanged > 20
    assert shape(store) == whole


def test_the_size_stop_refuses_the_batch_and_deletes_nothing(store):
    store.write("a.jsonl", session("s"), call("c"), result("c", "x" * 1000))
    store.extract()
    before = store.everything()
    store.write("b.jsonl", session("t"), call("d"), result("d", "y" * 3_000_000))
    with pytest.raises(SizeLimitReached, match="could cross"):
        store.extract(most_bytes=8 << 20)
    assert store.everything() == before
    store.extract()
    assert len(store.calls()) == 2


def test_a_run_that_ended_without_saying_so_is_marked_as_failed(store):
    store.write("a.jsonl", session("s"))
    store.extract()
    with Dataset.write(store.database) as dataset:
        dataset.rows("INSERT INTO import_runs VALUES ('r', 'ann', 'toy', 1, NULL, 'running')")
    store.extract()
    assert store.rows("SELECT status FROM import_runs WHERE run_key = 'r'") == [("failed",)]
    assert isinstance(store, Store)


@pytest.fixture
def disk(tmp_path):
    """A file system of 24 MiB."""
    with small_disk(tmp_path / "disk", 24) as point:
        yield point


def test_a_full_disk_stops_the_run_and_the_next_one_goes_on(new_store, disk):
    store = new_store()
    store.database = str(disk / "data" / "toolcalls.duckdb")
    store.write("a.jsonl", session("s"), call("first"))
    store.extract()
    for number in range(4):
        noise = os.urandom(500_000).hex()
        store.write(f"b{number}.jsonl", session(f"s{number}"), call("c"), result("c", noise))
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096) == 4096:
            pass
    with pytest.raises(StorageError, match="what was committed stays"):
        store.extract()
    ballast.unlink()
    store.extract()
    assert len(store.calls()) == 5
    with Dataset.read(store.database) as dataset:
        assert report.verify(dataset)["valid"] is True
