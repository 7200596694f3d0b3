"""Writers of small and large payloads killed at random moments, judged by `verify` itself."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from yarp.archive.verify import verify

WRITER = """
import os, sys
from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams

path, name = sys.argv[1:]
session = SessionKey("acme", "ann", name)
archive = SteppedArchive.open(path, narrow=False)

def stream(size):
    writer = payload.PayloadWriter(os.path.dirname(path))
    for _ in range(0, size, 65536):
        writer.write(os.urandom(min(size, 65536)))
    kept = writer.finish()
    return kept, writer.media_type

for number in range(10**6):
    call = f"{name}-{number}"
    given = payload.of_json({"command": call})
    facts = CallFacts(call, "sh", started_at_ms=number, requires_streams=True)
    archive.begin_call(session, facts, given, given, number)
    out, err, short = stream(3 << 20 if number % 3 == 0 else 900), stream(0), stream(300)
    archive.record_streams(session, call, Streams(out, short, err, err), number)
    result = payload.of_json({"output": call})
    archive.result_before(session, call, result, *stream(700), number)
    archive.result_text(session, call, payload.of(b"text " * 300), "unknown", number)
    archive.stage_result(session, call, result, False, number)
    print(call, flush=True)
    archive.update_final_result(session, call, payload.of_json({"final": call}), False, number)
"""

FINISHED_WITHOUT_RESULT = """
SELECT count(*) FROM tool_calls WHERE status = 'finished' AND (
  SELECT count(*) FROM snapshots WHERE tool_call_id = tool_calls.id
  AND subject IN ('input', 'result', 'stdout', 'stderr')
) < 8
"""


def kill_writers(store, rounds, seed):
    moment = random.Random(seed)
    writers = 2
    for number in range(1, rounds + 1):
        children = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, store.path, f"{number}.{writer}"],
                stdout=subprocess.PIPE,
            )
            for writer in range(writers)
        ]
        children[0].stdout.readline()  # both are at work by then, or as good as
        time.sleep(moment.uniform(0, 0.15))
        for child in children:
            child.send_signal(signal.SIGKILL)
        for child in children:
            child.communicate()
        report = verify(store.path)
        assert report.problems == ()
        assert report.incomplete_calls <= number * writers
        assert store.sql("PRAGMA integrity_check") == [("ok",)]
        assert store.sql(FINISHED_WITHOUT_RESULT) == [(0,)]
        assert not [name for name in os.listdir(store.directory) if "spill" in name]


def test_killed_writers_leave_incomplete_calls_and_nothing_worse(store):
    kill_writers(store, 8, seed=3)


@pytest.mark.slow
def test_writers_killed_two_hundred_times_leave_nothing_worse(store):
    kill_writers(store, 100, seed=4)
