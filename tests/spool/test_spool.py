from __future__ import annotations

import hashlib
import os
import threading

import pytest

from yarp.spool import live, names
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import (
    CaptureState,
    Identity,
    PreviewState,
    ProcessState,
    ReferenceState,
    Representation,
)
from yarp.spool.spool import Spool
from yarp.spool.verify import verify


@pytest.fixture
def location(tmp_path):
    (tmp_path / "talk").mkdir(mode=0o700)
    return SpoolLocation(str(tmp_path / "talk" / "spools"), conversation=str(tmp_path / "talk"))


def kept(location, receipt, stream):
    found = receipt.stream(stream)
    with open(os.path.join(location.conversation, found.reference), "rb") as file:
        return file.read()


def test_what_was_pushed_is_kept_and_the_receipt_says_all_of_it(location):
    spool = Spool(location, label="make all", identity=Identity(names.new_id(), job_id="job-1"))
    spool.take(0, b"one\ntw")
    spool.take(1, b"oops\n")
    spool.take(0, b"o")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=2)
    assert (receipt.process, receipt.exit_code) == (ProcessState.EXITED, 2)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.COMPLETE, None)
    assert receipt.reference_state is ReferenceState.LOCAL
    assert kept(location, receipt, "stdout") == b"one\ntwo"
    assert kept(location, receipt, "stderr") == b"oops\n"
    out = receipt.stream("stdout")
    assert (out.observed, out.accepted, out.pending, out.discarded) == (7, 7, 0, 0)
    assert (out.committed, out.retained_start, out.retained_end, out.line_count) == (7, 0, 7, 2)
    assert out.sha256 == hashlib.sha256(b"one\ntwo").hexdigest()
    assert live.captures(location) == [receipt]
    assert verify(location.directory).problems == ()
    capture = receipt.capture_id
    assert sorted(os.listdir(location.directory)) == [
        names.receipt(capture),
        names.final(capture, "stderr"),
        names.final(capture, "stdout"),
    ]


def test_a_small_result_makes_no_file(location):
    spool = Spool(location, inline_bytes=4096)
    spool.take(0, b"fine\n")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert receipt.reference_state is ReferenceState.INLINE
    assert receipt.preview.state is PreviewState.COMPLETE
    assert spool.preview().body == "fine"
    assert not os.path.exists(location.directory)


def test_without_a_place_the_capture_is_unavailable_and_nothing_is_guessed():
    spool = Spool(None)
    spool.take(0, b"abc")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, "no-location")
    out = receipt.stream("stdout")
    assert (out.observed, out.discarded, out.committed, out.reference) == (3, 3, None, None)


def test_binary_bytes_are_kept_as_they_are(location):
    data = bytes(range(256)) * 100
    spool = Spool(location, representation=Representation.BINARY)
    for n in range(0, len(data), 7):
        spool.take(0, data[n : n + 7])
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert kept(location, receipt, "stdout") == data
    assert receipt.stream("stdout").line_count is None


def test_a_stream_large_enough_for_threads_of_its_own_is_kept_with_its_digest(location):
    location.job_bytes = location.conversation_bytes = 1 << 30
    spool = Spool(location, representation=Representation.BINARY, policy="exact")
    for n in range(40):
        block = bytes([n]) * (1 << 20)
        spool.take(n % 2, block[: 1 << 19])
        spool.take(0, block[1 << 19 :])
    before = threading.active_count()
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert threading.active_count() < before
    assert receipt.capture is CaptureState.COMPLETE
    assert [found.committed for found in receipt.streams] == [30 << 20, 10 << 20]
    assert verify(location.directory).problems == ()
