"""Captures as other processes see them: while they run, after they ended, and left behind."""

from __future__ import annotations

import json
import os
import subprocess
import threading

import pytest

from yarp.errors import DataError, StorageError
from yarp.spool import live
from yarp.spool.live import Cursor, CursorInvalid
from yarp.spool.receipt import CaptureState, ProcessState, ReferenceState, Representation
from yarp.spool.spool import Spool

OWNER = """
import sys
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Identity
from yarp.spool.spool import Spool
spool = Spool(SpoolLocation(sys.argv[1], conversation=sys.argv[2]), label="sleep 9",
              identity=Identity("c" * 32, agent="acme", job_id="job-1"))
print("launched", flush=True)
for line in sys.stdin:
    spool.take(0, line.encode())
    while spool.accounting(0).uncommitted:
        pass
    print("kept", flush=True)
spool.ended(0)
spool.ended(1)
spool.finish(exit_code=0)
"""
CAPTURE = "c" * 32


@pytest.fixture
def owner(location, python):
    process = python(
        OWNER,
        location.directory,
        location.conversation,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "launched\n"

    def says(text):
        process.stdin.write(text + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "kept\n"

    process.says = says
    yield process
    process.kill()
    process.communicate()


def test_a_running_capture_is_pending_from_launch_and_its_counts_are_not_guessed(location, owner):
    owner.says("one")
    (found,) = live.captures(location)
    assert (found.process, found.capture) == (ProcessState.RUNNING, CaptureState.PENDING)
    assert (found.agent, found.job_id, found.command_label) == ("acme", "job-1", "sleep 9")
    out = found.stream("stdout")
    assert (out.committed, out.retained_end) == (4, 4)
    assert (out.observed, out.accepted, out.discarded, out.line_count, out.sha256) == (None,) * 5
    assert out.reference == f"outputs/{CAPTURE}.stdout.live"


def test_each_consumer_has_a_cursor_of_its_own_while_the_job_runs_and_after_it(location, owner):
    first, second = (Cursor(location, CAPTURE, "stdout") for _ in range(2))
    owner.says("one")
    assert first.read() == b"one\n"
    assert first.read() == b""
    owner.says("two")
    assert first.read() == b"two\n"
    assert second.read(2) == b"on"
    owner.communicate("")
    assert (first.read(), second.read()) == (b"", b"e\ntwo\n")
    assert (first.offset, second.offset) == (8, 8)
    kept = Cursor(location, CAPTURE, "stdout", offset=4, generation=first.generation)
    assert kept.text() == "two\n"


def test_reading_takes_nothing_from_the_one_completion(location, owner):
    owner.says("one")
    assert Cursor(location, CAPTURE, "stdout").read() == b"one\n"
    assert not live.claim(location, CAPTURE)  # it runs: there is nothing to tell
    owner.communicate("")
    Cursor(location, CAPTURE, "stdout").read()
    assert [live.claim(location, CAPTURE) for _ in range(3)] == [True, False, False]
    Cursor(location, CAPTURE, "stdout").read()


def test_of_many_who_would_tell_the_completion_one_does(location):
    spool = Spool(location)
    assert not spool.claim()
    spool.finish(exit_code=0)
    told = []
    threads = [threading.Thread(target=lambda: told.append(spool.claim())) for _ in range(4)]
    threads += [
        threading.Thread(
            target=lambda: told.append(live.claim(location, spool.identity.capture_id))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.count(True) == 1


def test_what_a_killed_owner_left_is_partial_and_is_never_promoted(location, owner, names):
    owner.says("one")
    owner.says("two")
    owner.kill()
    owner.communicate()
    before = names()
    for _ in range(2):
        found = live.find(location, CAPTURE)
        assert (found.process, found.capture) == (None, CaptureState.PARTIAL)
        assert found.capture_reason == "interrupted"
        assert (found.exit_code, found.signal, found.finished_at_ms) == (None, None, None)
        assert found.stream("stdout").committed == 8
        assert found.reference_state is ReferenceState.LOCAL
    assert Cursor(location, CAPTURE, "stdout").read() == b"one\ntwo\n"
    # Another capture in the same place changes nothing about it.
    Spool(location).finish(exit_code=0)
    assert set(before) <= set(names())
    assert live.find(location, CAPTURE) == found
    assert live.claim(location, CAPTURE)
    assert not live.claim(location, CAPTURE)


def test_a_published_receipt_never_changes_whatever_comes_later(location, kept):
    spool = Spool(location)
    spool.take(0, b"evidence\n")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=2)
    data = kept(receipt)
    path = os.path.join(location.directory, f"{receipt.capture_id}.receipt.json")
    with open(path, "rb") as file:
        before = file.read()
    spool.take(0, b"late\n")
    spool.ended(0)
    assert spool.finish(ProcessState.CANCELLED, exit_code=0, process_reason="later") is receipt
    assert spool.receipt() is receipt
    spool.preview()
    with open(path, "rb") as file:
        assert file.read() == before
    assert kept(receipt) == data == b"evidence\n"
    assert live.find(location, receipt.capture_id) == receipt
    assert spool.accounting(0).discarded == 5


def test_missing_files_are_said_and_the_receipt_stays(location):
    spool = Spool(location)
    spool.take(0, b"evidence\n")
    receipt = spool.finish(exit_code=0)
    os.unlink(os.path.join(location.conversation, receipt.streams[0].reference))
    assert live.find(location, receipt.capture_id) == receipt
    with pytest.raises(DataError, match="no stream stdout"):
        Cursor(location, receipt.capture_id, "stdout").read()
    with pytest.raises(DataError, match="holds no capture"):
        live.find(location, "0" * 32)


def test_an_unfinished_capture_with_a_missing_stream_says_so_with_unknowns(location, owner):
    os.unlink(os.path.join(location.directory, f"{CAPTURE}.stdout.live"))
    out = live.find(location, CAPTURE).stream("stdout")
    assert (out.committed, out.reference) == (None, None)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":2}', b"\xff", b"[1]", b"x" * 70_000])
def test_a_record_or_receipt_that_is_none_is_an_error_and_hides_no_other(location, owner, data):
    broken = "d" * 32
    with open(os.path.join(location.directory, f"{broken}.live.json"), "wb") as file:
        file.write(data)
    with pytest.raises(DataError):
        live.find(location, broken)
    assert [found.capture_id for found in live.captures(location)] == [CAPTURE]


def test_a_link_in_the_place_of_a_file_is_not_read(location, owner, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = os.path.join(location.directory, f"{CAPTURE}.stdout.live")
    os.unlink(path)
    os.symlink(secret, path)
    with pytest.raises(StorageError):
        Cursor(location, CAPTURE, "stdout").read()


@pytest.mark.parametrize("name", ["../x", "stdout/../..", "", "lock", "a.b", "receipt"])
def test_no_stream_name_leads_elsewhere(location, owner, name):
    with pytest.raises(DataError):
        Cursor(location, CAPTURE, name)
    with pytest.raises(DataError):
        live.find(location, name)


def test_a_file_that_was_replaced_makes_a_cursor_invalid(location, owner):
    owner.says("one")
    cursor = Cursor(location, CAPTURE, "stdout")
    cursor.read()
    path = os.path.join(location.directory, f"{CAPTURE}.stdout.live")
    os.rename(path, path + "-away")
    with open(path, "w") as file:
        file.write("another text")
    with pytest.raises(CursorInvalid):
        cursor.read()
    with pytest.raises(CursorInvalid):
        Cursor(location, CAPTURE, "stdout", offset=100).read()


def test_reads_of_text_end_between_characters(location):
    spool = Spool(location, representation=Representation.REPLACEMENT_TEXT)
    text = "aé日😀" * 10
    spool.take(0, text.encode())
    spool.finish(exit_code=0)
    for size in range(4, 12):
        cursor = Cursor(location, spool.identity.capture_id, "stdout")
        parts = []
        while part := cursor.read(size):
            parts.append(part.decode())
            assert len(part) <= size
        assert "".join(parts) == text


def test_jobs_of_one_second_and_one_command_share_nothing(location):
    spools = [Spool(location, label="make") for _ in range(20)]
    for number, spool in enumerate(spools):
        spool.take(0, b"job %d\n" % number)
    receipts = [spool.finish(exit_code=0) for spool in spools]
    assert len({receipt.streams[0].reference for receipt in receipts}) == 20
    for number, receipt in enumerate(receipts):
        assert Cursor(location, receipt.capture_id, "stdout").read() == b"job %d\n" % number
    assert len(live.captures(location)) == 20


def test_a_receipt_file_is_canonical_json_with_all_that_a_receipt_says(location):
    spool = Spool(location, label="make all")
    spool.take(0, b"x\n")
    receipt = spool.finish(exit_code=0)
    with open(os.path.join(location.directory, f"{receipt.capture_id}.receipt.json"), "rb") as file:
        data = file.read()
    value = json.loads(data)
    assert data == receipt.encode()
    assert value == json.loads(json.dumps(receipt.plain()))
    assert list(value) == sorted(value)
    assert value["version"] == 1
    assert value["streams"][0]["committed"] == 2
    assert os.stat(location.directory).st_mode & 0o777 == 0o700
    for entry in os.scandir(location.directory):
        assert entry.stat().st_mode & 0o777 == 0o600


def test_a_receipt_for_who_cannot_reach_the_files_names_none(location):
    spool = Spool(location)
    spool.take(0, b"x\n")
    receipt = spool.finish(exit_code=0)
    for state in (ReferenceState.NEEDS_TRANSFER, ReferenceState.UNAVAILABLE):
        shared = receipt.elsewhere(state)
        assert shared.reference_state is state
        assert [stream.reference for stream in shared.streams] == [None, None]
        assert shared.streams[0].sha256 == receipt.streams[0].sha256
        assert (shared.exit_code, shared.capture) == (receipt.exit_code, receipt.capture)
