"""The write life of a call on a real archive."""

import pytest

from yarp import payload
from yarp.archive.read import Reader
from yarp.archive.write import Archive, CallFacts, SessionKey, Streams
from yarp.errors import CallConflict, ReferenceUnknown

SESSION = SessionKey("acme", "bob", "s-1", 1000)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "private" / "tool-calls.sqlite3")


@pytest.fixture
def archive(path):
    archive = Archive.open(path, narrow=False)
    yield archive
    archive.close()


def facts(call="c-1", *, tool="sh", streams=False):
    return CallFacts(
        call, tool, working_directory="/src", started_at_ms=1001, requires_streams=streams
    )


def begin(archive, call="c-1", *, streams=False, command="ls"):
    given = payload.of_json({"command": command})
    return archive.begin_call(SESSION, facts(call, streams=streams), given, given, 1002)


def streams(text=b"out\n"):
    out, err = (payload.of(text), payload.TEXT), (payload.of(b""), payload.TEXT)
    return Streams(out, (payload.of(b"short\n"), payload.TEXT), err, err)


def counts(archive):
    return tuple(
        archive._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("sessions", "tool_calls", "snapshots", "payloads")
    )


def row(archive):
    reader = Reader.open(archive.path)
    found = reader.find("acme", "bob", "s-1", "c-1")
    reader.close()
    return found


def test_a_begun_call_has_its_input_before_it_runs_and_is_started(archive):
    reference = begin(archive)
    call = row(archive)
    assert (call.archive_ref, call.status, call.is_error, call.executed) == (
        reference,
        "started",
        None,
        None,
    )
    assert counts(archive) == (1, 1, 2, 1)


def test_the_same_begin_again_gives_the_same_reference_and_no_second_row(archive):
    assert begin(archive) == begin(archive)
    assert counts(archive) == (1, 1, 2, 1)


def test_a_begin_with_another_tool_conflicts_and_changes_nothing(archive):
    begin(archive)
    given = payload.of_json({"command": "ls"})
    with pytest.raises(CallConflict):
        archive.begin_call(SESSION, facts(tool="python"), given, given, 1002)
    assert counts(archive) == (1, 1, 2, 1)


def test_a_begin_with_another_input_conflicts_and_changes_nothing(archive):
    begin(archive)
    with pytest.raises(CallConflict):
        begin(archive, command="rm")
    assert counts(archive) == (1, 1, 2, 1)


def test_a_wrapped_call_goes_from_begin_to_finish(archive):
    reference = begin(archive, streams=True)
    result = payload.of_json({"exitCode": 0})
    assert archive.record_streams(SESSION, "c-1", streams(), 1003) == reference
    archive.result_before(SESSION, "c-1", result, None, payload.TEXT, 1004)
    assert archive.result_text(SESSION, "c-1", payload.of(b"out\n"), "complete", 1004) == reference
    archive.stage_result(SESSION, "c-1", result, False, 1005)
    assert (row(archive).status, row(archive).is_error, row(archive).executed) == (
        "started",
        False,
        True,
    )
    archive.update_final_result(SESSION, "c-1", result, False, 1006)
    call = row(archive)
    assert (call.status, call.is_error, call.executed, call.finished_at_ms) == (
        "finished",
        False,
        True,
        1006,
    )


def test_a_hostless_run_finishes_in_one_transaction(archive):
    begin(archive, streams=True)
    result = payload.of_json({"exitCode": 0})
    for _ in range(2):
        archive.finish_run(SESSION, "c-1", streams(), result, result, False, 1006)
    assert row(archive).status == "finished"
    assert counts(archive) == (1, 1, 8, 5)


def test_a_replaced_staged_result_leaves_no_orphan(archive):
    begin(archive)
    first, last = payload.of_json({"text": "first"}), payload.of_json({"text": "last"})
    archive.result_before(
        SESSION, "c-1", payload.of_json({"text": "raw"}), None, payload.TEXT, 1003
    )
    archive.stage_result(SESSION, "c-1", first, False, 1004)
    for _ in range(2):
        archive.update_final_result(SESSION, "c-1", last, True, 1005)
    reader = Reader.open(archive.path)
    call = reader.find("acme", "bob", "s-1", "c-1")
    after = reader.snapshot(call.call_id, "result", "after")
    assert reader.payload(after.sha256) == b'{"text":"last"}'
    reader.close()
    assert archive._connection.execute(
        "SELECT count(*) FROM payloads WHERE sha256 NOT IN (SELECT payload_sha256 FROM snapshots)"
    ).fetchone() == (0,)


def test_a_call_that_was_never_begun_is_unknown(archive):
    with pytest.raises(ReferenceUnknown):
        archive.result_text(SESSION, "c-9", payload.of(b""), "complete", 1)


def test_an_executed_call_cannot_finish_without_its_result_before(archive):
    begin(archive)
    result = payload.of_json({})
    with pytest.raises(CallConflict):
        archive.finish_call(SESSION, "c-1", result, False, True, 1005)
    assert row(archive).status == "started"
    archive.finish_call(SESSION, "c-1", result, True, False, 1005)
    assert (row(archive).status, row(archive).executed) == ("finished", False)


def test_a_wrapped_call_cannot_finish_without_its_streams(archive):
    begin(archive, streams=True)
    result = payload.of_json({})
    archive.result_before(SESSION, "c-1", result, None, payload.TEXT, 1004)
    with pytest.raises(CallConflict):
        archive.finish_call(SESSION, "c-1", result, False, True, 1005)
    assert row(archive).status == "started"
