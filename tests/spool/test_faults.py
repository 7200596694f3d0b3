"""What the storage does to a capture: the child goes on, and the receipt says what was kept."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time

import pytest

from yarp.errors import StorageError
from yarp.spool import live
from yarp.spool.declared import Redactor, SpoolLocation
from yarp.spool.files import Files
from yarp.spool.receipt import CaptureState, ProcessState, ReferenceState, Representation
from yarp.spool.spool import Spool

BINARY = Representation.BINARY


def on(disk):
    return SpoolLocation(str(disk / "spools"), conversation=str(disk))


def bytes_of(location, receipt, stream=0):
    with open(os.path.join(location.conversation, receipt.streams[stream].reference), "rb") as file:
        return file.read()


def stored(spool, stream=0):
    """Wait until what was pushed is committed, or nothing more will be."""
    while spool.capture is CaptureState.PENDING and spool.accounting(stream).uncommitted:
        pass


def failing(monkeypatch, spool, write):
    monkeypatch.setattr(spool._store.files, "_write", write)


def test_a_full_disk_ends_the_keeping_and_the_receipt_still_gets_there(disk):
    location = on(disk)
    spool = Spool(location, representation=BINARY, policy="exact")
    block = os.urandom(64 << 10)
    for _ in range(40):
        assert spool.take(0, block)
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=3)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "storage-full")
    assert (receipt.process, receipt.exit_code) == (ProcessState.EXITED, 3)
    out = receipt.streams[0]
    assert 0 < out.committed < 1 << 20
    assert out.observed == 40 * len(block) == out.accepted + out.discarded
    kept = bytes_of(location, receipt)
    assert kept == (block * 40)[: out.committed]
    assert hashlib.sha256(kept).hexdigest() == out.sha256
    assert live.find(location, receipt.capture_id) == receipt
    assert "No space left" in spool.problem


def test_a_disk_that_is_full_at_the_start_makes_the_capture_unavailable(disk):
    file = os.open(disk / "all", os.O_WRONLY | os.O_CREAT)
    while os.statvfs(disk).f_bavail:
        os.write(file, bytes(4096))
    os.close(file)
    spool = Spool(on(disk))
    spool.take(0, b"abc")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, "storage")
    assert receipt.streams[0].committed is None
    assert spool.preview().body == "abc"
    assert not os.path.exists(disk / "spools") or os.listdir(disk / "spools") == []


def test_a_disk_that_is_full_before_the_record_leaves_nothing_behind(location, names, monkeypatch):
    def full(self, record):
        raise StorageError("no space left")

    monkeypatch.setattr(Files, "describe", full)
    spool = Spool(location)
    spool.take(0, b"abc")
    receipt = spool.finish(exit_code=9)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, "storage")
    assert receipt.reference_state == "unavailable"
    assert [stream.reference for stream in receipt.streams] == [None, None]
    assert names() == []


def test_a_short_write_goes_on_where_it_stopped(location, kept, monkeypatch):
    spool = Spool(location, policy="exact", redactors=())
    failing(monkeypatch, spool, lambda file, data: os.write(file, data[:3]))
    spool.take(0, b"0123456789")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert receipt.capture is CaptureState.COMPLETE
    assert kept(receipt) == b"0123456789"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(errno.ENOSPC, "storage-full"), (errno.EIO, "storage"), (None, "storage")],
    ids=["no space", "input/output error", "a write of nothing"],
)
def test_a_write_that_fails_in_the_middle_counts_what_was_written(
    location, kept, monkeypatch, error, reason
):
    spool = Spool(location, redactors=())
    spool.take(0, b"before ")
    stored(spool)
    calls = []

    def write(file, data):
        calls.append(data)
        if len(calls) == 1:
            return os.write(file, data[:4])
        if error is None:
            return 0
        raise OSError(error, os.strerror(error))

    failing(monkeypatch, spool, write)
    spool.take(0, b"0123456789")
    stored(spool)
    spool.take(0, b"later")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, reason)
    assert kept(receipt) == b"before 0123"
    out = receipt.streams[0]
    assert (out.observed, out.accepted, out.discarded) == (22, 17, 5)
    assert (out.committed, out.uncommitted) == (11, 6)
    assert spool.preview().body == "before 0123456789later"


def test_a_capture_of_which_nothing_could_be_stored_has_failed(location, monkeypatch):
    spool = Spool(location)

    def write(file, data):
        raise OSError(errno.EIO, "broken disk")

    failing(monkeypatch, spool, write)
    spool.take(1, b"error: it broke\n")
    stored(spool, 1)
    receipt = spool.finish(exit_code=1)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.FAILED, "storage")
    assert spool.preview().text == (
        "exit code 1\ncapture failed: storage\n[stderr]\nerror: it broke"
    )


def test_the_reader_never_waits_for_a_storage_that_stands_still(location):
    """A pipe that nobody reads takes the place of the file: the kernel itself blocks the write."""
    spool = Spool(location, representation=BINARY, queue_bytes=1 << 20, settle_seconds=0.2)
    reading, writing = os.pipe()
    os.dup2(writing, spool._store.files._open[2])
    spool.take(0, bytes(1 << 18))
    time.sleep(0.3)
    for _ in range(64):
        spool.take(0, bytes(1 << 18))
    assert (spool.capture, spool.reason) == (CaptureState.PARTIAL, "saturated")
    seen = spool.accounting(0)
    assert seen.observed == 65 << 18 == seen.accepted + seen.discarded
    assert seen.accepted <= (1 << 20) + (1 << 18)
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.FAILED, "saturated")
    assert receipt.streams[0].reference.endswith(".live")
    # When it comes round, nothing is published behind anybody's back.
    os.set_blocking(reading, False)
    while spool._store._writer._thread.is_alive():
        try:
            os.read(reading, 1 << 20)
        except BlockingIOError:
            time.sleep(0.001)
    os.close(reading)
    os.close(writing)
    assert live.find(location, receipt.capture_id).capture_reason == "interrupted"
    assert spool.finish() is receipt


@pytest.mark.parametrize("inline_bytes", [0, 1000])
def test_under_exact_a_storage_that_stands_still_holds_the_reader_and_not_who_finishes(
    location, inline_bytes
):
    spool = Spool(
        location,
        representation=BINARY,
        policy="exact",
        queue_bytes=1 << 18,
        settle_seconds=0.1,
        inline_bytes=inline_bytes,
    )
    reading, writing = os.pipe()
    spool.promote("job")
    os.dup2(writing, spool._store.files._open[2])

    def push():
        for _ in range(8):
            spool.take(0, bytes(1 << 18))

    reader = threading.Thread(target=push)
    reader.start()
    while spool.accounting(0).observed < 2 << 18:
        time.sleep(0.001)
    receipt = spool.finish(ProcessState.CANCELLED)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.FAILED, "storage-stalled")
    out = receipt.streams[0]
    assert out.observed == out.accepted + out.discarded
    reader.join()
    assert spool.accounting(0).observed == 8 << 18
    os.close(reading)  # the write ends with a broken pipe
    os.close(writing)


def test_under_exact_the_child_is_held_back_and_nothing_is_lost(location, kept, monkeypatch):
    spool = Spool(location, representation=BINARY, policy="exact", queue_bytes=1000)

    def slow(file, data):
        time.sleep(0.001)
        return os.write(file, data)

    failing(monkeypatch, spool, slow)
    for n in range(100):
        spool.take(0, bytes([n]) * 500)
        assert spool.accounting(0).uncommitted <= 1500
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert receipt.capture is CaptureState.COMPLETE
    assert kept(receipt) == b"".join(bytes([n]) * 500 for n in range(100))


@pytest.mark.parametrize("broken", ["fsync", "link"])
def test_a_failure_before_the_receipt_is_published_leaves_a_partial_capture(
    location, names, monkeypatch, broken
):
    spool = Spool(location)
    spool.take(0, b"evidence\n")
    spool.ended(0)
    spool.ended(1)
    whole = getattr(os, broken)
    calls = []

    def sometimes(*words, **options):
        calls.append(words)
        if len(calls) == 3:  # both streams are settled by then
            raise OSError(errno.EIO, "broken disk")
        return whole(*words, **options)

    monkeypatch.setattr(os, broken, sometimes)
    receipt = spool.finish(exit_code=0)
    monkeypatch.undo()
    assert (receipt.capture, receipt.capture_reason) == (
        CaptureState.PARTIAL,
        "receipt-unpublished",
    )
    assert receipt.streams[0].reference.endswith(".stdout.live")
    assert not [name for name in names() if name.endswith((".stdout", ".receipt.json"))]
    found = live.find(location, receipt.capture_id)
    assert (found.capture, found.capture_reason) == (CaptureState.PARTIAL, "interrupted")
    assert bytes_of(location, found) == b"evidence\n"


def test_a_name_that_somebody_took_is_neither_overwritten_nor_used(location):
    spool = Spool(location)
    spool.take(0, b"evidence\n")
    path = os.path.join(location.directory, f"{spool.identity.capture_id}.receipt.json")
    with open(path, "w") as file:
        file.write("mine")
    os.chmod(path, 0o400)
    receipt = spool.finish(exit_code=0)
    assert receipt.capture is CaptureState.PARTIAL
    assert receipt.capture_reason in ("drain-timeout", "receipt-unpublished")
    assert receipt.streams[0].reference.endswith(".live")
    with open(path) as file:
        assert file.read() == "mine"
    assert os.stat(path).st_mode & 0o777 == 0o400


def test_a_file_that_somebody_else_changed_is_not_called_complete(location):
    spool = Spool(location)
    spool.take(0, b"evidence\n")
    stored(spool)
    with open(os.path.join(location.conversation, spool.receipt().streams[0].reference), "ab") as f:
        f.write(b"not ours")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (
        CaptureState.PARTIAL,
        "receipt-unpublished",
    )


class Breaks:
    held = 0

    def __init__(self):
        self.rest = b""

    def feed(self, chunk):
        if b"!" in chunk:
            raise ValueError("no such byte")
        return chunk

    def finish(self):
        return b""


def test_a_redactor_that_fails_ends_the_keeping_and_nothing_unseen_is_kept(location, kept):
    redactors = [Redactor("breaks", window_bytes=1, make=Breaks)]
    spool = Spool(location, redactors=redactors)
    spool.take(0, b"fine\n")
    spool.take(0, b"secret!")
    spool.take(0, b"more")
    spool.take(1, b"error")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "redactor-failed")
    assert kept(receipt) == b"fine\n"
    out, err = receipt.streams
    assert (out.observed, out.accepted, out.discarded) == (16, 5, 11)
    assert (err.observed, err.discarded) == (5, 5)
    assert "secret" not in spool.preview().text


def test_a_redactor_that_cannot_be_made_makes_the_capture_unavailable(location):
    def make():
        raise OSError("gone")

    spool = Spool(location, redactors=[Redactor("gone", window_bytes=1, make=make)], label="x")
    spool.take(0, b"secret")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (
        CaptureState.UNAVAILABLE,
        "redactor-failed",
    )
    assert receipt.preview is None
    assert spool.preview().body == ""
    assert not os.path.exists(location.directory)


def test_a_command_whose_output_is_kept_from_view_leaves_nothing(location):
    spool = Spool(location, without=(CaptureState.DISABLED, "suppressed"), label="read password")
    spool.take(0, b"secret")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.DISABLED, "suppressed")
    assert receipt.reference_state is ReferenceState.UNAVAILABLE
    assert receipt.command_label is None
    assert spool.preview().body == ""
    assert not os.path.exists(location.directory)


def test_a_linked_spool_directory_makes_the_capture_unavailable(location, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", location.directory)
    spool = Spool(location)
    spool.take(0, b"abc")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, "storage")
    assert "follow no links" in spool.problem
    assert os.listdir(tmp_path / "elsewhere") == []
