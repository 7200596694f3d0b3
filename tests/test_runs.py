"""Receipts of runs, from an archive that real runs have written."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from yarp import payload, runs
from yarp.archive.read import Reader
from yarp.archive.redact import redact
from yarp.archive.write import Archive, CallFacts, SessionKey, Streams

PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")


@pytest.fixture
def yarp(yarp_home):
    """Runs a command below `yarp run`; gives the receipt of the newest call."""
    path = yarp_home / "data" / "yarp" / "tool-calls.sqlite3"

    def run(*words):
        subprocess.run(
            [PROGRAM, "run", "--", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return next(listed(path))

    run.archive = str(path)
    return run


def listed(path, limit=10):
    reader = Reader.open(str(path))
    yield from [*runs.receipts(reader, limit=limit, damaged=[])]
    reader.close()


def test_a_run_says_how_it_ended_and_what_is_kept(yarp):
    receipt = yarp("sh", "-c", "printf out; printf error >&2; exit 3")
    assert receipt.capture_id.startswith("yr_")
    assert (receipt.process, receipt.exit_code, receipt.signal) == ("exited", 3, None)
    assert (receipt.capture, receipt.capture_reason) == ("complete", None)
    assert receipt.representation == "binary"
    assert receipt.preview.state == "complete"
    assert receipt.preview.byte_length == 8
    out, err = receipt.streams
    assert (out.observed, out.accepted, out.pending, out.discarded, out.committed) == (
        3,
        3,
        0,
        0,
        3,
    )
    assert (err.retained_start, err.retained_end) == (0, 5)
    assert out.reference == f"{receipt.capture_id}/stdout"
    assert receipt.reference_state == "local"
    assert receipt.command_label == "sh -c 'printf out; printf error >&2; exit 3'"


def test_a_signal_is_no_exit_code(yarp):
    receipt = yarp("sh", "-c", "kill -TERM $$")
    assert (receipt.process, receipt.exit_code) == ("exited", None)
    assert receipt.signal == signal.SIGTERM


def test_what_a_command_line_says_of_secrets_is_in_no_receipt(yarp):
    receipt = yarp("sh", "-c", "API_TOKEN=secretsecret123; echo hi")
    assert receipt.command_label == "sh -c 'API_TOKEN=[redacted]; echo hi'"


def test_of_a_run_that_was_killed_nobody_saw_the_end(yarp):
    process = subprocess.Popen(
        [PROGRAM, "run", "--", "sh", "-c", "echo part; sleep 30"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not os.path.exists(yarp.archive) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    process.kill()
    process.wait()
    while not (found := [*listed(yarp.archive)]) or found[0].process == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (found[0].process, found[0].capture) == (None, "partial")
    assert found[0].capture_reason == "interrupted"


def test_a_short_answer_is_no_lost_output(yarp):
    receipt = yarp("seq", "1", "20000")
    assert receipt.capture == "complete"
    assert receipt.streams[0].committed == 108_894


def test_a_pipe_that_a_descendant_holds_is_partial(yarp):
    receipt = yarp("sh", "-c", "echo begun; sleep 3 &")
    assert (receipt.process, receipt.exit_code) == ("exited", 0)
    assert (receipt.capture, receipt.capture_reason) == ("partial", "drain-timeout")


def test_a_program_that_is_not_there_has_no_capture(yarp):
    receipt = yarp("no-such-program")
    assert receipt.exit_code == 127
    assert (receipt.capture, receipt.capture_reason) == ("unavailable", "not-started")


def test_of_a_redacted_run_only_the_states_are_left(yarp):
    reference = yarp("sh", "-c", "echo hunter2").capture_id
    redact(yarp.archive, reference, 1, narrow=True)
    (receipt,) = listed(yarp.archive)
    assert receipt.command_label is None
    assert receipt.reference_state == "unavailable"
    assert [stream.reference for stream in receipt.streams] == [None, None]


def begun(path, call, *, streams):
    archive = Archive.open(path, narrow=True)
    body = payload.of_json({"command": "make"})
    session = SessionKey("acme", "bob", "s-1")
    facts = CallFacts(call, "shell", started_at_ms=7, requires_streams=streams)
    archive.begin_call(session, facts, body, body, 7)
    return archive, session


def test_a_wrapped_call_is_told_by_its_snapshots(yarp):
    archive, session = begun(yarp.archive, "c-1", streams=True)
    (pending,) = listed(yarp.archive)
    assert (pending.process, pending.capture) == ("running", "pending")
    assert [stream.committed for stream in pending.streams] == [None, None]
    out, none = (payload.of(b"all of it\n"), payload.TEXT), (payload.of(b""), payload.TEXT)
    short = (payload.of(b"short\n"), payload.TEXT)
    archive.record_streams(session, "c-1", Streams(out, short, none, none), 8)
    archive.close()
    (receipt,) = listed(yarp.archive)
    assert (receipt.process, receipt.exit_code, receipt.capture) == ("exited", None, "complete")
    assert (receipt.preview.state, receipt.preview.byte_length) == ("head_tail", 6)
    assert receipt.streams[0].observed == 10
    assert (receipt.agent, receipt.source_call_id) == ("acme", "c-1")


def test_of_a_stream_that_was_not_kept_to_its_end_the_observed_bytes_are_unknown(yarp):
    archive, session = begun(yarp.archive, "c-1", streams=True)
    out, none = (payload.of(b"a beginning"), payload.TEXT), (payload.of(b""), payload.TEXT)
    archive.record_streams(session, "c-1", Streams(out, out, none, none, ended=(False, True)), 8)
    archive.close()
    (receipt,) = listed(yarp.archive)
    assert (receipt.process, receipt.capture) == (None, "partial")
    assert receipt.capture_reason == "interrupted"
    assert [stream.observed for stream in receipt.streams] == [None, 0]
    assert receipt.streams[0].discarded is None


def test_a_call_that_did_not_run_below_yarp_has_none(yarp):
    archive, _ = begun(yarp.archive, "c-1", streams=False)
    archive.close()
    assert [*listed(yarp.archive)] == []


def test_a_damaged_run_is_named_and_the_others_are_listed(yarp):
    damaged = yarp("sh", "-c", "exit 1").capture_id
    whole = yarp("true").capture_id
    database = sqlite3.connect(yarp.archive)
    database.execute(
        "UPDATE payloads SET body = zeroblob(length(body)) WHERE sha256 IN (SELECT payload_sha256 "
        "FROM snapshots n JOIN tool_calls c ON c.id = n.tool_call_id WHERE archive_ref = ? "
        "AND n.subject = 'result')",
        (damaged,),
    )
    database.commit()
    database.close()
    reader, found = Reader.open(yarp.archive), []
    assert [one.capture_id for one in runs.receipts(reader, limit=9, damaged=found)] == [whole]
    reader.close()
    assert found == [damaged]
