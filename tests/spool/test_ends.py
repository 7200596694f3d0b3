"""Promotion, finish, poll and kill at once: one capture, one receipt, one completion."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest

from yarp.errors import UsageError
from yarp.spool import live
from yarp.spool.credentials import CREDENTIALS
from yarp.spool.live import Cursor
from yarp.spool.receipt import CaptureState, ProcessState, ReferenceState
from yarp.spool.spool import Spool


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_promotion_at_a_chunk_border_adopts_the_capture_and_repeats_nothing(
    location, kept, inline_bytes
):
    # The border lies within a character and within a credential.
    text = b"in the foreground \xf0\x9f\x98\x80 ghp_" + b"aB3" * 12 + b"\nas a job\n"
    for border in range(0, len(text), 7):
        spool = Spool(location, inline_bytes=inline_bytes, redactors=[CREDENTIALS])
        capture = spool.identity.capture_id
        spool.take(0, text[:border])
        assert spool.promote("job-1") == (border, 0)
        running = live.find(location, capture)
        assert (running.capture, running.job_id) == (CaptureState.PENDING, "job-1")
        spool.take(0, text[border:])
        spool.ended(0)
        spool.ended(1)
        receipt = spool.finish(exit_code=0)
        assert kept(receipt).decode() == "in the foreground 😀 [redacted]\nas a job\n"
        assert (receipt.job_id, receipt.promoted_at) == ("job-1", (border, 0))
        assert receipt.capture is CaptureState.COMPLETE
        assert len(list(live.captures(location))) == 1
        for name in os.listdir(location.directory):
            os.unlink(os.path.join(location.directory, name))


def test_a_capture_that_is_over_becomes_no_job(location):
    spool = Spool(location)
    spool.finish(exit_code=0)
    with pytest.raises(UsageError):
        spool.promote("job-1")


def test_a_promoted_job_whose_storage_has_failed_says_so(location):
    location.job_bytes = 3
    spool = Spool(location, inline_bytes=100)
    spool.take(0, b"abcdef")
    assert spool.promote("job-1") == (6, 0)
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "job-quota")
    assert receipt.job_id == "job-1"


def test_a_result_that_outgrows_its_preview_goes_to_files_and_a_smaller_one_does_not(
    location, kept
):
    large = Spool(location, inline_bytes=100_000)
    large.take(0, b"x" * 9000)
    large.ended(0)
    large.ended(1)
    receipt = large.finish(exit_code=0)
    assert receipt.reference_state is ReferenceState.LOCAL
    assert kept(receipt) == b"x" * 9000
    small = Spool(location, inline_bytes=100_000)
    small.take(0, b"x" * 7000)
    small.ended(0)
    small.ended(1)
    receipt = small.finish(exit_code=0)
    assert (receipt.reference_state, receipt.capture) == (
        ReferenceState.INLINE,
        CaptureState.COMPLETE,
    )
    assert receipt.streams[0].committed == len(small.preview().body) == 7000
    assert receipt.streams[0].reference is None


def test_finish_poll_and_kill_at_once_give_one_receipt_and_one_completion(location):
    told = []
    for _ in range(5):
        published = []
        spool = Spool(location, published=published.append)
        child = subprocess.Popen(["sh", "-c", "yes | head -c 200000"], stdout=subprocess.PIPE)
        receipts, claims, seen = [], [], bytearray()
        cursor = Cursor(location, spool.identity.capture_id, "stdout")

        def read(child=child, spool=spool, receipts=receipts):
            while chunk := os.read(child.stdout.fileno(), 4096):
                spool.take(0, chunk)
            spool.ended(0)
            spool.ended(1)
            receipts.append(spool.finish(exit_code=child.wait()))

        def kill(child=child, spool=spool, receipts=receipts):
            child.kill()
            receipts.append(spool.finish(ProcessState.CANCELLED, process_reason="killed"))

        def poll(spool=spool, cursor=cursor, seen=seen, receipts=receipts):
            while len(receipts) < 2:
                seen.extend(cursor.read())
                spool.receipt()
                spool.preview()
                time.sleep(0.001)

        def claim(spool=spool, claims=claims, receipts=receipts):
            while len(receipts) < 2:
                time.sleep(0.001)
            claims.append(spool.claim())

        threads = [threading.Thread(target=each) for each in (read, poll, kill, claim, claim)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        child.stdout.close()
        first, second = receipts
        assert first is second
        assert published == [first]
        assert sorted(claims) == [False, True]
        seen.extend(cursor.read(1 << 20))
        with open(os.path.join(location.conversation, first.streams[0].reference), "rb") as file:
            assert file.read() == seen
        assert first.streams[0].committed == len(seen)
        told.append(first.process)
    assert len(live.captures(location)) == 5


def test_the_tail_of_a_decoder_is_not_lost_at_the_end(location, kept):
    spool = Spool(location, redactors=[CREDENTIALS])
    spool.take(0, b"waiting for input: TOK")
    spool.take(0, b"EN \xf0\x9f")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert kept(receipt).decode() == "waiting for input: TOKEN \ufffd"
    assert receipt.streams[0].accepted == 27
    assert receipt.capture is CaptureState.COMPLETE


def test_what_is_undecided_when_a_job_is_cancelled_is_left_out_and_counted(location, kept):
    spool = Spool(location, redactors=[CREDENTIALS])
    spool.take(0, b"so far\nTOKEN=\xf0\x9f")
    receipt = spool.finish(ProcessState.CANCELLED, unended="cancelled")
    out = receipt.streams[0]
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "cancelled")
    assert kept(receipt) == b"so far\n[yarp: 6 bytes left out that may hold a secret]"
    assert (out.observed, out.accepted, out.discarded, out.omitted) == (15, 13, 2, 6)


def test_output_after_the_end_was_told_makes_a_capture_partial(location):
    spool = Spool(location)
    spool.ended(0)
    spool.take(0, b"late")
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "late-output")
    assert receipt.streams[0].discarded == 4


def test_a_label_is_one_bounded_line_without_a_credential(location):
    spool = Spool(
        location,
        redactors=[CREDENTIALS],
        label="curl -H 'Authorization: Bearer abc-def-12'\n" + "x" * 500,
    )
    assert spool.label.startswith("curl -H 'Authorization: Bearer [redacted]' xxx")
    assert len(spool.label) == 120
    assert "\n" not in spool.label
