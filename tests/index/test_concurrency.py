"""Readers, writers and crashes, with real processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from yarp.errors import DataError, StorageError
from yarp.index.store import Store, open_readonly

SYNC = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("acme_for_child", sys.argv[1])
acme = importlib.util.module_from_spec(spec)
spec.loader.exec_module(acme)
from yarp.index import sync as module
from yarp.index.sync import Options, sync
module._GROUP_BYTES = int(sys.argv[4])
print("ready", flush=True)
sync(sys.argv[2], [sys.argv[3]], {"acme": acme.READER}, Options(rebuild=sys.argv[5] == "yes"))
"""


def child(index, acme, *, group_bytes=1, rebuild=False):
    words = [sys.executable, "-c", SYNC, acme.__file__, index.path, str(index.traces)]
    words += [str(group_bytes), "yes" if rebuild else "no"]
    started = subprocess.Popen(words, stdout=subprocess.PIPE)
    with started.stdout as said:
        assert said.readline() == b"ready\n"
    return started


def many(index, conversation, files=12, loops=6):
    for number in range(files):
        records = [{**conversation[0], "id": f"s{number}"}]
        for loop in range(loops):
            for record in conversation[1:]:
                told = dict(record)
                for name in ("loop", "id", "sample"):
                    if name in told and told["t"] != "model":
                        told[name] = f"{told[name]}-{loop}"
                if "text" in told:
                    told["text"] += f" {number} {loop}"
                records.append(told)
        index.write(f"{number}.jsonl", *records)


def sound(index):
    """What holds in every committed state, cold, half-way or done."""
    connection = open_readonly(index.path)

    def one(sql):
        return connection.execute(sql).fetchone()[0]

    try:
        assert one("PRAGMA integrity_check") == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert one("SELECT count(*) FROM sources") == one("SELECT count(*) FROM sessions")
        assert one("SELECT count(*) FROM items WHERE json_array_length(record_ids) = 0") == 0
        assert one("SELECT count(*) FROM trace_sources WHERE indexed_lines = 0") == 0
        assert (
            one(
                "SELECT count(*) FROM trace_sources AS s WHERE indexed_lines != "
                "(SELECT count(*) FROM records AS r WHERE r.source_id = s.id)"
            )
            == 0
        )
        for table in ("item", "loop", "record", "session", "blob"):
            ids = {"record": "trace_records", "blob": "content_blobs"}
            name = ids.get(table, f"domain_{table}s")
            given = one(f"SELECT coalesce(max(value), 0) FROM counters WHERE name = '{table}'")
            assert one(f"SELECT coalesce(max(id), 0) FROM {name}") <= given
        found = one("SELECT count(*) FROM item_search(trigram_query('needle'))")
        said = one(
            "SELECT count(*) FROM items JOIN blobs ON blob_id = json_extract(semantic, "
            "'$.value.text.blob_id') WHERE instr(text, 'needle') AND json_extract(semantic, "
            "'$.role') IN ('human.request', 'agent.commentary')"
        )
        assert found == said
    finally:
        connection.close()


def kill_and_complete(index, acme, conversation, rounds, seed):
    many(index, conversation)
    whole = index.another(index.traces.parent / "whole")
    for path in index.traces.iterdir():
        (whole.traces / path.name).write_bytes(path.read_bytes())
    whole.sync()
    generator = random.Random(seed)
    began = time.monotonic()
    child(index, acme).wait()
    took_s = time.monotonic() - began
    for round_ in range(rounds):
        rebuild = round_ % 2 == 1
        if not rebuild:
            for path in index.traces.parent.glob("index.sqlite3*"):
                path.unlink()
        victim = child(index, acme, group_bytes=generator.choice([1, 1 << 20]), rebuild=rebuild)
        time.sleep(generator.uniform(0, took_s))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        if os.path.exists(index.path) and os.path.getsize(index.path):
            try:
                sound(index)
            except DataError as error:  # killed before its first transaction
                if "no index yet" not in str(error):
                    raise
        index.sync()
        sound(index)
        names = ("sessions", "loops", "items")
        told, expected = index.dump(), whole.dump()
        assert [len(told[name]) for name in names] == [len(expected[name]) for name in names]
        assert sorted(row["text"] for row in told["blobs"]) == sorted(
            row["text"] for row in expected["blobs"]
        )


def test_a_killed_sync_leaves_an_index_that_the_next_completes(index, acme, conversation):
    kill_and_complete(index, acme, conversation, rounds=4, seed=time.time_ns())


@pytest.mark.slow
def test_a_hundred_killed_syncs_leave_indexes_that_the_next_completes(index, acme, conversation):
    kill_and_complete(index, acme, conversation, rounds=100, seed=1)


def test_a_reader_sees_the_old_or_the_new_state_of_each_source(index, acme, conversation):
    many(index, conversation, files=3, loops=2)
    index.sync()
    count = "SELECT s.native_id, count(i.item_id) AS n FROM sessions AS s JOIN items AS i USING (session_id) GROUP BY 1"
    before = {row["native_id"]: row["n"] for row in index.all(count)}
    many(index, conversation, files=3, loops=30)
    (index.traces / "0.jsonl").write_text(json.dumps({**conversation[0], "id": "s0"}) + "\n")
    running = child(index, acme)
    seen = []
    while running.poll() is None:
        seen.append({row["native_id"]: row["n"] for row in index.all(count)})
    after = {row["native_id"]: row["n"] for row in index.all(count)}
    seen.append(after)
    for state in seen:
        for name in ("s0", "s1", "s2"):
            assert state.get(name) in (before[name], after.get(name))
    assert after["s1"] > before["s1"]
    assert "s0" not in after


def test_a_snapshot_stays_while_a_sync_goes_on(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    connection = open_readonly(index.path)
    connection.execute("BEGIN")
    before = connection.execute("SELECT count(*) FROM items").fetchone()
    index.write("a.jsonl", conversation[0])
    index.sync()
    assert connection.execute("SELECT count(*) FROM items").fetchone() == before
    connection.close()
    assert index.all("SELECT count(*) AS n FROM items") == [{"n": 0}]


def test_one_sync_waits_for_another_and_says_so_if_that_takes_long(index, conversation):
    index.write("a.jsonl", *conversation)
    with Store(index.path), pytest.raises(StorageError, match="another sync is at work"):
        index.sync(busy_ms=50)
    assert index.sync().actions["indexed"] == 1


def test_syncs_at_once_leave_one_of_each(index, acme, conversation):
    many(index, conversation, files=4, loops=1)
    running = [child(index, acme) for _ in range(3)]
    assert [one.wait() for one in running] == [0, 0, 0]
    sound(index)
    assert len(index.all("SELECT * FROM sessions")) == 4


def test_a_database_that_cannot_be_written_is_said(index, conversation, tmp_path):
    index.write("a.jsonl", *conversation)
    os.mkdir(index.path)
    with pytest.raises(StorageError, match="cannot be written"):
        index.sync()
