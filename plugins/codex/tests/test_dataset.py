"""Rollouts in the dataset: what is counted once, whatever came first."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
from yarp.dataset.report import issues, verify
from yarp.plugin import Importer
from yarp_codex.store import ADAPTER_VERSION, OPTIONS, discover, read


def _module(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"yarp_codex_dataset_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


made = _module("rollout")
Rollout, envelope = made.Rollout, made.envelope
CODEX = Importer(
    "codex", adapter_version=ADAPTER_VERSION, options=OPTIONS, discover=discover, read=read
)


class Store:
    """A sessions folder and the dataset of it."""

    def __init__(self, path):
        self.sessions = path / "sessions"
        self.sessions.mkdir(parents=True)
        (path / "data").mkdir(mode=0o700)
        self.database = str(path / "data" / "toolcalls.duckdb")

    def take(self):
        with Dataset.write(self.database) as dataset:
            return extract(dataset, CODEX, "ada", {"sessions": str(self.sessions)})

    def rows(self, statement):
        with Dataset.read(self.database) as dataset:
            return dataset.rows(statement)

    def verify(self):
        with Dataset.read(self.database) as dataset:
            return verify(dataset)

    def issues(self):
        with Dataset.read(self.database) as dataset:
            return [one["code"] for one in issues(dataset)]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def family():
    """A thread and a fork that copied it, and a fork of that one."""
    parent = Rollout("parent").turn().call("call_1").ran("call_1", "ls", "a\n")
    parent.output("call_1", envelope("a\n")).call("call_2").output("call_2", "x")
    rollouts = [parent]
    for name in ("fork", "second"):
        before = rollouts[-1]
        copy = Rollout(name, forked_from_id=before.thread, timestamp=made.stamp(500))
        copy.at = 600
        for line in before.lines:
            value = json.loads(line)
            copy.add(value["type"], value["payload"])
        copy.call(f"call_{name}").output(f"call_{name}", name)
        rollouts.append(copy)
    return rollouts


def contents(store):
    calls = "SELECT native_session_id, native_call_id, called_at_ms FROM tool_calls JOIN sessions USING (session_key) ORDER BY ALL"
    seen = "SELECT native_call_id, record_kind, line_number, relative_path FROM observations LEFT JOIN tool_results USING (result_key) JOIN tool_calls ON tool_calls.call_key = coalesce(observations.call_key, tool_results.call_key) JOIN source_items USING (source_item_key) ORDER BY ALL"
    return [store.rows(statement) for statement in (calls, seen)]


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)])
def test_copied_calls_are_the_originals_whatever_is_imported_first(store, tmp_path, order):
    whole = Store(tmp_path / "whole")
    for number, rollout in enumerate(family()):
        rollout.write(whole.sessions, f"rollout-{number}.jsonl")
    whole.take()
    rollouts = family()
    for number in order:
        rollouts[number].write(store.sessions, f"rollout-{number}.jsonl")
        store.take()
    assert [row[:2] for row in contents(store)[0]] == [
        ("fork", "call_fork"),
        ("parent", "call_1"),
        ("parent", "call_2"),
        ("second", "call_second"),
    ]
    assert contents(store) == contents(whole)
    told = store.verify()
    assert told["valid"]
    assert (told["calls_with_conflicting_results"], told["calls_without_results"]) == (0, 0)
    assert store.issues() == []
    assert len(store.rows("SELECT * FROM observations")) == 5 + 7 + 9


def test_a_copy_that_leaves_out_what_happened_is_no_other_result(store):
    """Helpers get the history of their parent without the events in it."""
    parent = Rollout("parent").call("call_1").ran("call_1", "ls", "a\n").output("call_1", "a\n")
    parent.call("call_2").output("call_2", "x")
    child = Rollout("child", forked_from_id="parent", timestamp=made.stamp(500))
    for line in parent.lines:
        value = json.loads(line)
        if value["type"] != "event_msg":
            child.add(value["type"], value["payload"])
    copied = child.write(store.sessions, "rollout-child.jsonl")
    store.take()
    assert store.rows("SELECT output_json FROM tool_results") == [(None,), (None,)]
    path = parent.write(store.sessions, "rollout-parent.jsonl")

    def holds(results, structures):
        assert store.rows("SELECT count(*), count(output_json) FROM tool_results") == [
            (results, structures)
        ]
        told = store.verify()
        assert told["valid"]
        assert told["calls_with_conflicting_results"] == 0

    store.take()
    holds(2, 1)
    # What happened to the second one is told later.
    path.write_text(parent.ran("call_2", "ls", "x").text())
    store.take()
    holds(2, 2)
    # The copy is read once more, then both are read anew.
    copied.write_text(child.call("call_9").output("call_9", "y").text())
    store.take()
    holds(3, 2)
    for rollout in (path, copied):
        os.utime(rollout, ns=(1, 1))
    store.take()
    holds(3, 2)
    assert store.rows("SELECT count(*) FROM observations") == [(4 + 2 + 4 + 2,)]


def test_an_output_that_comes_later_resolves_its_call(store):
    rollout = Rollout().call("call_1")
    path = rollout.write(store.sessions)
    store.take()
    assert store.issues() == ["call_without_result"]
    rollout.output("call_1", "x")
    path.write_text(rollout.text())
    store.take()
    assert store.issues() == []
    assert store.rows("SELECT output_text FROM tool_results") == [("x",)]


def test_what_happened_later_enriches_the_result_that_was_there(store):
    """The old row goes: a result is what all records of its call say together."""
    rollout = Rollout().call("call_1").output("call_1", "a\n")
    path = rollout.write(store.sessions)
    store.take()
    assert store.rows("SELECT output_json, is_error FROM tool_results") == [(None, None)]
    rollout.ran("call_1", "ls", "a\n", 2)
    path.write_text(rollout.text())
    store.take()
    ((structure, is_error),) = store.rows("SELECT output_json, is_error FROM tool_results")
    assert json.loads(structure)["exit_code"] == 2
    assert is_error is True
    assert store.verify()["valid"]


def test_an_output_behind_a_damaged_record_is_set_apart(store):
    rollout = Rollout().call("call_1").output("call_1", "x")
    rollout.lines[1] = rollout.lines[1][:30]
    rollout.write(store.sessions)
    store.take()
    assert store.issues() == ["malformed_jsonl", "result_without_call"]
    assert store.verify()["orphan_results"] == 0


def test_a_rollout_that_codex_compresses_stays_the_same_calls(store):
    import zstandard

    path = Rollout().call("call_1").output("call_1", "x").write(store.sessions)
    store.take()
    Path(f"{path}.zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    os.unlink(path)
    store.take()
    assert store.rows("SELECT count(*) FROM tool_calls") == [(1,)]
    assert store.rows("SELECT count(*) FROM tool_results") == [(1,)]
    assert store.issues() == ["source_vanished"]
    assert store.verify()["valid"]
