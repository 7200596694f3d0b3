"""Whatever becomes of originals and their copies, rows are those of the sources as last read."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest
from toy_agent import call, result, session

from yarp.dataset import report, settle
from yarp.dataset.database import Dataset

COMPARED = (
    "source_items", "tool_calls", "tool_results", "observations",
    "private.call_links", "private.suspects", "private.state",
)  # fmt: skip

KILLED = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
import toy_agent
from yarp.dataset import settle
settle.to_read_again = lambda dataset: os.kill(os.getpid(), 9)
store = toy_agent.Store.__new__(toy_agent.Store)
store.path = pathlib.Path(sys.argv[2])
store.sessions = store.path / "sessions"
store.database = str(store.path / "data" / "toolcalls.duckdb")
store.extract()
"""


def files():
    """An original that tells more than its two forks; they have its records and some of theirs."""
    found = {}
    for name, start, own in (("o", 10, 3), ("f", 20, 4), ("g", 30, 0)):
        records = [session(name, start)]
        for number in range(6):
            copy = {"copy": ["u", number], "at": 50 + number}
            more = {"json": {"n": number}} if name == "o" else {}
            records += [call(f"c{number}", **copy), result(f"c{number}", **copy, **more)]
        for number in range(own):
            records += [call(f"{name}{number}"), result(f"{name}{number}")]
        found[name] = records
    return found


def put(store, name, count):
    store.write(f"{name}.jsonl", *files()[name][:count])


def kill(store):
    words = [sys.executable, "-c", KILLED, os.path.dirname(__file__), str(store.path)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL


def require_as_fresh(store):
    with Dataset.read(store.database) as dataset:
        found = report.verify(dataset)
    assert found["valid"], found
    assert not found["unsettled"]
    rows = store.everything()
    kept = store.database
    store.database = str(store.path / "fresh" / "toolcalls.duckdb")
    store.extract()
    fresh = store.everything()
    shutil.rmtree(store.path / "fresh")
    store.database = kept
    for table in COMPARED:
        assert rows[table] == fresh[table], table


@pytest.mark.parametrize(("one", "other"), [("o", "f"), ("f", "o"), ("g", "f")])
def test_a_kill_before_a_run_is_settled_leaves_no_call_that_nobody_shows(store, one, other):
    whole = len(files()[one])
    put(store, one, whole - 2)
    put(store, other, 99)
    store.extract()
    put(store, one, whole)
    put(store, other, 2)
    kill(store)
    put(store, one, 2)
    store.extract()
    require_as_fresh(store)


def meanwhile(monkeypatch, act):
    """Let `act` happen between the first and the second reading of a run."""
    real = settle.to_read_again

    def first(dataset):
        monkeypatch.setattr(settle, "to_read_again", real)
        act()
        return real(dataset)

    monkeypatch.setattr(settle, "to_read_again", first)


@pytest.mark.parametrize(("one", "other"), [("o", "f"), ("f", "o"), ("g", "f")])
def test_a_source_cut_between_its_readings_leaves_no_call_that_nobody_shows(
    store, monkeypatch, one, other
):
    whole = len(files()[one])
    put(store, one, whole - 2)
    put(store, other, 99)
    store.extract()
    put(store, one, whole)
    put(store, other, 2)
    meanwhile(monkeypatch, lambda: put(store, one, 2))
    store.extract()
    store.extract()
    require_as_fresh(store)


def test_a_copy_s_result_is_its_own_again_when_the_original_s_is_gone(store):
    put(store, "o", 99)
    put(store, "f", 99)
    store.extract()
    assert store.rows("SELECT count(output_json) FROM tool_results") == [(6,)]
    put(store, "o", 12)  # the call stays, what became of it does not
    os.utime(store.sessions / "f.jsonl", (1, 1))
    store.extract()
    assert store.rows("SELECT count(output_json) FROM tool_results") == [(5,)]
    require_as_fresh(store)


def test_rows_that_nobody_shows_are_dropped_by_the_next_run_with_something_new(store):
    put(store, "o", 5)
    store.extract()
    with Dataset.write(store.database) as dataset:
        dataset.rows("""
            INSERT INTO tool_calls SELECT * REPLACE ('stray' AS call_key) FROM tool_calls LIMIT 1""")
        dataset.rows("""
            INSERT INTO tool_results SELECT * REPLACE ('stray' AS result_key, 'stray' AS call_key)
            FROM tool_results LIMIT 1""")
    put(store, "o", 7)
    counts = store.extract().written
    assert (counts.calls, counts.results, counts.dropped) == (1, 1, 2)
    require_as_fresh(store)


def changes(store, monkeypatch, seed, rounds):
    chance = random.Random(seed)
    whole = {name: len(files()[name]) for name in ("f", chance.choice("og"))}

    def change():
        for name, count in whole.items():
            put(store, name, chance.choice([count, count - 2, 12, 2]))

    def stop():
        raise KeyboardInterrupt

    for _ in range(rounds):
        change()
        what = chance.randrange(4)
        if what == 0:
            store.extract()
        elif what == 1:
            meanwhile(monkeypatch, change)
            store.extract()
        else:
            meanwhile(monkeypatch, stop)
            with contextlib.suppress(KeyboardInterrupt):
                store.extract()
        monkeypatch.undo()
    for name in whole:
        if not (store.sessions / f"{name}.jsonl").exists():
            put(store, name, 1)
    store.extract()
    require_as_fresh(store)


@pytest.mark.parametrize("seed", range(2))
def test_any_changes_and_stops_end_as_a_fresh_import(store, monkeypatch, seed):
    changes(store, monkeypatch, seed, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 100))
def test_any_changes_and_stops_end_as_a_fresh_import_many(store, monkeypatch, seed):
    changes(store, monkeypatch, seed, 6)
