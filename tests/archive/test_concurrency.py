"""Many writers at once, and writers that are killed: nothing lost, nothing doubled."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from yarp import payload, sqlite
from yarp.archive.read import Reader
from yarp.archive.steps import SteppedArchive

WRITER = """
import sys
from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams

path, name, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
session = SessionKey("acme", "bob", "shared" if int(name) % 2 else "own-" + name)
shared = (payload.of(b"the same output\\n" * 100), payload.TEXT)
nothing = (payload.of(b""), payload.TEXT)
print("ready", flush=True)
sys.stdin.readline()
archive = SteppedArchive.open(path, narrow=False)
for number in range(calls):
    call = name + "-" + str(number)
    given = payload.of_json({"command": call})
    facts = CallFacts(call, "sh", started_at_ms=number, requires_streams=True)
    reference = archive.begin_call(session, facts, given, given, number)
    assert archive.begin_call(session, facts, given, given, number) == reference
    own = (payload.of((call + " prints this\\n").encode() * 60), payload.TEXT)
    archive.record_streams(session, call, Streams(own, shared, nothing, nothing), number)
    result = payload.of_json({"output": call})
    archive.result_before(session, call, result, None, payload.TEXT, number)
    archive.stage_result(session, call, result, False, number)
    archive.update_final_result(session, call, payload.of_json({"final": call}), False, number)
    print(reference, flush=True)
archive.close()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "private" / "tool-calls.sqlite3")


def start(path, name, calls):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, path, str(name), str(calls)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    return child


def check_sound(path):
    connection = sqlite.connect(path, readonly=True)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    orphans = (
        "SELECT count(*) FROM payloads WHERE sha256 NOT IN (SELECT payload_sha256 FROM snapshots)"
    )
    assert connection.execute(orphans).fetchone() == (0,)
    for compression, length, sha256, body in connection.execute(
        "SELECT compression, uncompressed_byte_length, sha256, body FROM payloads"
    ):
        payload.decode(compression, length, sha256, body)
    connection.close()


def write_together(path, writers, calls):
    children = [start(path, name, calls) for name in range(writers)]
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    references = []
    for child in children:
        out, errors = child.communicate()
        assert (errors, child.returncode) == ("", 0)
        references += out.split()
    check_sound(path)
    reader = Reader.open(path)
    rows = list(reader.calls())
    reader.close()
    assert sorted(row.archive_ref for row in rows) == sorted(references)
    assert len(set(references)) == writers * calls
    assert sorted(row.source_call_id for row in rows) == sorted(
        f"{name}-{number}" for name in range(writers) for number in range(calls)
    )
    assert all(row.status == "finished" and row.executed and not row.is_error for row in rows)
    connection = sqlite.connect(path, readonly=True)
    (snapshots,) = connection.execute("SELECT count(*) FROM snapshots").fetchone()
    (sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    connection.close()
    assert snapshots == writers * calls * 8
    assert sessions == (writers + 1) // 2 + (writers > 1)


def test_a_few_writers_at_once_lose_and_double_nothing(path):
    write_together(path, 8, 6)


@pytest.mark.slow
def test_eight_writers_of_250_calls_lose_and_double_nothing(path):
    write_together(path, 8, 250)


def kill_writers(path, rounds, seed):
    rng = random.Random(seed)
    for number in range(rounds):
        child = start(path, number, 100_000)
        child.stdin.write("\n")
        child.stdin.flush()
        time.sleep(rng.uniform(0, 0.06))
        child.send_signal(signal.SIGKILL)
        acknowledged = child.communicate()[0].split()
        if not os.path.exists(path) or not os.path.getsize(path):
            assert not acknowledged
            continue
        SteppedArchive.open(path, narrow=False).close()
        check_sound(path)
        reader = Reader.open(path)
        for reference in acknowledged:
            assert reader.call(reference).status == "finished"
        for row in reader.calls():
            held = [
                reader.snapshot(row.call_id, subject, stage) is not None
                for subject, stage in (
                    ("input", "before"),
                    ("input", "after"),
                    ("result", "before"),
                    ("result", "after"),
                    ("stdout", "before"),
                    ("stderr", "after"),
                )
            ]
            assert held[:2] == [True, True]
            assert row.status == "started" or all(held)
        reader.close()


def test_a_killed_writer_leaves_a_sound_archive_and_its_call_started(path):
    kill_writers(path, 8, 1)


@pytest.mark.slow
def test_200_killed_writers_leave_a_sound_archive_each(path):
    kill_writers(path, 200, 2)


def test_a_lock_is_waited_for(path):
    SteppedArchive.open(path, narrow=False).close()
    child = start(path, 0, 1)
    connection = sqlite.connect(path)
    connection.execute("BEGIN IMMEDIATE")
    child.stdin.write("\n")
    child.stdin.flush()
    time.sleep(0.3)
    assert child.poll() is None
    connection.execute("COMMIT")
    assert child.communicate()[1] == ""
    assert child.returncode == 0
    connection.close()
