"""The write life of a call on a real archive."""

import os

import pytest

from yarp import payload
from yarp.archive.read import Reader
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.errors import CallConflict, DataError, ReferenceUnknown, StorageError

SESSION = SessionKey("acme", "bob", "s-1", 1000)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "private" / "tool-calls.sqlite3")


@pytest.fixture
def archive(path):
    archive = SteppedArchive.open(path, narrow=False)
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


def test_a_directory_that_is_no_unicode_is_recorded_readably(archive):
    given = payload.of_json({})
    odd = CallFacts(
        "c-1", "sh", working_directory="/tmp/\udcff", started_at_ms=1, requires_streams=False
    )
    archive.begin_call(SESSION, odd, given, given, 1)
    assert row(archive).working_directory == "/tmp/\\udcff"


@pytest.mark.parametrize(("call", "at"), [("\ud800", 1), ("c-1", 2**63)])
def test_a_name_or_time_that_sqlite_cannot_hold_is_refused(archive, call, at):
    given = payload.of_json({})
    with pytest.raises(DataError):
        archive.begin_call(
            SESSION,
            CallFacts(call, "sh", started_at_ms=at, requires_streams=False),
            given,
            given,
            at,
        )
    assert counts(archive) == (0, 0, 0, 0)


def test_streams_again_are_idempotent_and_other_streams_conflict(archive):
    begin(archive, streams=True)
    assert archive.record_streams(SESSION, "c-1", streams(), 1) == archive.record_streams(
        SESSION, "c-1", streams(), 2
    )
    with pytest.raises(CallConflict):
        archive.record_streams(SESSION, "c-1", streams(b"other\n"), 1)
    assert counts(archive) == (1, 1, 6, 4)


def test_a_text_of_another_completeness_conflicts(archive):
    begin(archive)
    text = payload.of(b"some text")
    for _ in range(2):
        archive.result_text(SESSION, "c-1", text, "unknown", 1)
    with pytest.raises(CallConflict):
        archive.result_text(SESSION, "c-1", text, "complete", 1)


def test_a_completeness_of_no_such_word_is_refused_by_the_schema(archive):
    begin(archive)
    with pytest.raises(DataError):
        archive.result_text(SESSION, "c-1", payload.of(b"text"), "perhaps", 1)
    assert counts(archive) == (1, 1, 2, 1)


def test_a_source_output_comes_in_the_transaction_of_its_result_or_not_at_all(archive):
    begin(archive)
    result = payload.of_json({"content": []})
    archive.result_before(SESSION, "c-1", result, None, payload.TEXT, 1)
    with pytest.raises(CallConflict):
        archive.result_before(SESSION, "c-1", result, payload.of(b"full"), payload.TEXT, 1)
    assert counts(archive) == (1, 1, 3, 2)


def test_a_finished_call_takes_no_further_snapshot(archive):
    begin(archive)
    result = payload.of_json({})
    archive.finish_call(SESSION, "c-1", result, True, False, 5)
    before = counts(archive)
    with pytest.raises(CallConflict, match="finished"):
        archive.result_text(SESSION, "c-1", payload.of(b"late"), "complete", 6)
    with pytest.raises(CallConflict, match="finished"):
        archive.result_before(SESSION, "c-1", result, None, payload.TEXT, 6)
    with pytest.raises(CallConflict, match="finished"):
        archive.stage_result(SESSION, "c-1", result, True, 6)
    assert counts(archive) == before


@pytest.mark.parametrize("other", [("result", {"a": 1}), ("is_error", True), ("at", 9)])
def test_a_finish_again_is_idempotent_and_another_finish_conflicts(archive, other):
    begin(archive)
    facts = {"result": {}, "is_error": False, "at": 5}
    archive.result_before(SESSION, "c-1", payload.of_json({}), None, payload.TEXT, 4)

    def finish(facts, operation):
        result = payload.of_json(facts["result"])
        if operation == "finish":
            archive.finish_call(SESSION, "c-1", result, facts["is_error"], True, facts["at"])
        else:
            archive.update_final_result(SESSION, "c-1", result, facts["is_error"], facts["at"])

    for operation in ("finish", "update"):
        finish(facts, operation)
    for operation in ("finish", "update"):
        with pytest.raises(CallConflict):
            finish(facts | dict([other]), operation)


def test_a_staged_result_is_idempotent_and_another_one_conflicts(archive):
    begin(archive)
    result = payload.of_json({"a": 1})
    archive.result_before(SESSION, "c-1", result, None, payload.TEXT, 4)
    for _ in range(2):
        archive.stage_result(SESSION, "c-1", result, False, 5)
    with pytest.raises(CallConflict):
        archive.stage_result(SESSION, "c-1", payload.of_json({"a": 2}), False, 5)
    with pytest.raises(CallConflict):
        archive.stage_result(SESSION, "c-1", result, True, 5)
    with pytest.raises(CallConflict, match="did execute"):
        archive.finish_call(SESSION, "c-1", result, False, False, 6)


def test_a_result_cannot_be_staged_before_it_was_received(archive):
    begin(archive)
    with pytest.raises(CallConflict, match="no result before"):
        archive.stage_result(SESSION, "c-1", payload.of_json({}), False, 5)


def test_a_replaced_payload_stays_while_another_call_needs_it(archive):
    shared = payload.of_json({"shared": True})
    for call in ("c-1", "c-2"):
        begin(archive, call)
        archive.result_before(SESSION, call, payload.of_json({"raw": call}), None, payload.TEXT, 4)
        archive.stage_result(SESSION, call, shared, False, 5)
    archive.update_final_result(SESSION, "c-1", payload.of_json({"own": True}), False, 6)
    archive.update_final_result(SESSION, "c-2", shared, False, 6)
    reader = Reader.open(archive.path)
    assert reader.payload(shared.sha256) == b'{"shared":true}'
    reader.close()


def test_a_session_keeps_its_first_known_start(archive):
    given = payload.of_json({})
    for number, start in enumerate((None, 7, 9)):
        archive.begin_call(
            SessionKey("acme", "bob", "s", start), facts(f"c-{number}"), given, given, 1
        )
    assert archive._connection.execute("SELECT started_at_ms FROM sessions").fetchall() == [(7,)]


def test_references_are_unlike_each_other_and_well_formed(archive):
    references = {begin(archive, f"c-{number}") for number in range(50)}
    assert len(references) == 50
    assert all(len(one) == 35 and one.startswith("yr_") for one in references)


def test_a_stored_body_over_the_limit_is_refused_and_the_call_stays_started(archive):
    begin(archive)
    too_large = payload.Payload(b"\1" * 32, "none", 1_000_000_001, 1_000_000_001, None, os.dup(0))
    with pytest.raises(StorageError, match="over SQLite's limit"):
        archive.result_before(SESSION, "c-1", payload.of_json({}), too_large, payload.BINARY, 1)
    too_large.close()
    assert counts(archive) == (1, 1, 2, 1)
    assert row(archive).status == "started"


def test_a_spill_file_that_is_too_short_rolls_the_transaction_back(archive, tmp_path):
    begin(archive)
    file = payload.private_file(str(tmp_path))
    os.write(file, b"short")
    broken = payload.Payload(b"\1" * 32, "none", 500_000, 500_000, None, file)
    with pytest.raises(StorageError, match="shorter"):
        archive.result_before(SESSION, "c-1", payload.of_json({}), broken, payload.BINARY, 1)
    broken.close()
    assert counts(archive) == (1, 1, 2, 1)
