"""Operations in any order, with any facts: refused whole or done whole, never half a call."""

import random

import pytest

from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.errors import DataError

SESSION = SessionKey("acme", "bob", "s-1")
STREAMS = {(subject, stage) for subject in ("stdout", "stderr") for stage in ("before", "after")}


@pytest.fixture
def archive(tmp_path):
    archive = SteppedArchive.open(str(tmp_path / "private" / "tool-calls.sqlite3"), narrow=False)
    archive._connection.execute("PRAGMA synchronous = OFF")  # thousands of commits, none to survive
    yield archive
    archive.close()


def contents(archive):
    return [
        archive._connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
        for table in ("sessions", "tool_calls", "snapshots", "payloads")
    ]


def some(rng):
    return payload.of(b'{"text":"%d"}' % rng.randrange(3))


def operation(archive, rng):
    call = f"c-{rng.randrange(3)}"
    flag = rng.random() < 0.7
    at = rng.randrange(2)
    pairs = [(some(rng), payload.TEXT) for _ in range(4)]
    streams = Streams(*pairs) if flag else Streams(*([(payload.of(b""), payload.TEXT)] * 4))
    facts = CallFacts(call, "sh", started_at_ms=rng.randrange(2), requires_streams=call == "c-0")
    return rng.choice(
        (
            lambda: archive.begin_call(SESSION, facts, payload.of(b"1"), some(rng), at),
            lambda: archive.record_streams(SESSION, call, streams, at),
            lambda: archive.result_before(
                SESSION, call, some(rng), some(rng) if flag else None, payload.TEXT, at
            ),
            lambda: archive.result_text(
                SESSION, call, some(rng), rng.choice(("complete", "unknown")), at
            ),
            lambda: archive.stage_result(SESSION, call, some(rng), flag, at),
            lambda: archive.update_final_result(SESSION, call, some(rng), flag, at),
            lambda: archive.finish_call(SESSION, call, some(rng), flag, rng.random() < 0.7, at),
            lambda: archive.finish_run(
                SESSION, call, streams if at else None, some(rng), some(rng), flag, at
            ),
        )
    )


def check(archive):
    rows = archive._connection.execute(
        "SELECT id, status, requires_streams, finished_at_ms, is_error, executed FROM tool_calls"
    ).fetchall()
    for call_id, status, requires_streams, finished_at_ms, is_error, executed in rows:
        held = archive._held(call_id).keys()
        assert held >= {("input", "before"), ("input", "after")}
        if status == "started":
            assert finished_at_ms is None
            assert (is_error is None) == (executed is None)
            assert executed != 0
        else:
            assert None not in (finished_at_ms, is_error, executed)
            assert ("result", "after") in held
        if executed:
            assert ("result", "before") in held
            assert ("result", "after") in held
            assert not requires_streams or held >= STREAMS
    orphans = (
        "SELECT count(*) FROM payloads WHERE sha256 NOT IN (SELECT payload_sha256 FROM snapshots)"
    )
    assert archive._connection.execute(orphans).fetchone() == (0,)
    assert archive._connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_keeps_the_rules_of_a_call(archive, seed):
    rng = random.Random(seed)
    done = 0
    for _ in range(120):
        before = contents(archive)
        work = operation(archive, rng)
        state = rng.getstate()
        try:
            work()
        except DataError:
            assert contents(archive) == before
            continue
        done += 1
        check(archive)
        after = contents(archive)
        rng.setstate(state)
        work()  # the same again is done again, and changes nothing
        assert contents(archive) == after
    assert done > 10
