from __future__ import annotations

import fcntl
import os
import subprocess
import threading

import pytest

from yarp.spool import names as names_of
from yarp.spool import private, quota
from yarp.spool.declared import SpoolLocation
from yarp.spool.names import new_id
from yarp.spool.receipt import CaptureState, Representation
from yarp.spool.spool import Spool

MIB = 1 << 20
BINARY = Representation.BINARY

OWNER = """
import os, sys
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Representation
from yarp.spool.spool import Spool
location = SpoolLocation(sys.argv[1], conversation=sys.argv[2], conversation_bytes=8 << 20)
spool = Spool(location, representation=Representation.BINARY, policy="exact")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[3])):
    spool.take(0, bytes(64 << 10))
while spool.capture == "pending" and spool.accounting(0).uncommitted:
    pass
print("pushed", flush=True)
sys.stdin.readline()
spool.ended(0)
spool.ended(1)
receipt = spool.finish(exit_code=0)
print(receipt.capture, receipt.streams[0].committed, receipt.capture_reason, flush=True)
"""


def with_quotas(location, **quotas):
    return SpoolLocation(location.directory, conversation=location.conversation, **quotas)


def capture_of(location, size, **options):
    spool = Spool(location, representation=BINARY, policy="exact", **options)
    for _ in range(0, size, 1 << 16):
        spool.take(0, bytes(1 << 16))
    spool.ended(0)
    spool.ended(1)
    return spool.finish(exit_code=0)


def test_a_stream_of_33_mib_is_kept_up_to_the_jobs_32(location, kept):
    receipt = capture_of(location, 33 * MIB)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "job-quota")
    out = receipt.stream("stdout")
    assert out.observed == 33 * MIB == out.accepted + out.discarded
    assert out.committed == out.retained_end == 32 * MIB == len(kept(receipt))
    assert out.accepted == out.committed + out.uncommitted
    assert receipt.exit_code == 0


def test_both_streams_of_a_job_share_its_quota(location):
    spool = Spool(with_quotas(location, job_bytes=1000), representation=BINARY)
    spool.take(0, bytes(600))
    spool.take(1, bytes(600))
    receipt = spool.finish(exit_code=0)
    assert sum(stream.committed for stream in receipt.streams) == 1000


def test_text_is_cut_between_characters_at_the_quota(location, kept):
    spool = Spool(with_quotas(location, job_bytes=100))
    spool.take(0, b"x" + "日".encode() * 40)
    receipt = spool.finish(exit_code=0)
    assert kept(receipt).decode() == "x" + "日" * 33
    assert receipt.stream("stdout").line_count == 1


def test_a_conversations_jobs_share_its_allowance(location):
    location = with_quotas(location, conversation_bytes=3 * MIB)
    first = capture_of(location, 2 * MIB)
    second = capture_of(location, 2 * MIB)
    third = capture_of(location, 2 * MIB)
    assert first.capture is CaptureState.COMPLETE
    assert (second.capture, second.capture_reason) == (CaptureState.PARTIAL, "conversation-quota")
    assert second.streams[0].committed == MIB
    assert (third.capture, third.streams[0].committed) == (CaptureState.FAILED, 0)
    # What is there already stays: an exhausted allowance refuses new bytes and deletes none.
    assert (
        os.path.getsize(os.path.join(location.conversation, first.streams[0].reference)) == 2 * MIB
    )


def test_a_finished_job_gives_back_what_it_reserved_and_did_not_use(location):
    location = with_quotas(location, conversation_bytes=MIB + 10)
    for _ in range(4):
        assert capture_of(location, 0).capture is CaptureState.COMPLETE
    small = Spool(location, representation=BINARY)
    small.take(0, b"0123456789")
    small.finish(exit_code=0)
    assert capture_of(location, MIB).capture is CaptureState.COMPLETE


def test_a_running_job_holds_what_it_has_reserved(location):
    location = with_quotas(location, conversation_bytes=MIB)
    running = Spool(location, representation=BINARY)
    running.take(0, b"x")
    while not running.accounting(0).committed:
        pass
    assert capture_of(location, 1 << 16).capture_reason == "conversation-quota"
    running.finish()
    assert capture_of(location, 1 << 16).capture is CaptureState.COMPLETE


def test_jobs_in_several_processes_never_have_more_than_the_allowance_together(location, python):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    owners = [
        python(OWNER, location.directory, location.conversation, 48, **pipes) for _ in range(4)
    ]
    for owner in owners:
        assert owner.stdout.readline() == "ready\n"
    ends = [owner.communicate("\n\n")[0].split("\n") for owner in owners]
    kept = [int(end[1].split()[1]) for end in ends]
    assert sum(kept) == 8 * MIB
    found = [
        entry.stat().st_size for entry in os.scandir(location.directory) if "std" in entry.name
    ]
    assert sum(found) == 8 * MIB


@pytest.mark.parametrize("pushed", [0, 1, 16])
def test_what_a_killed_owner_reserved_is_free_again_and_what_it_wrote_counts(
    location, python, pushed
):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    owner = python(OWNER, location.directory, location.conversation, pushed, **pipes)
    owner.stdout.readline()
    owner.stdin.write("\n")
    owner.stdin.flush()
    assert owner.stdout.readline() == "pushed\n"
    owner.kill()
    owner.communicate()
    left = MIB - pushed * (64 << 10)
    receipt = capture_of(with_quotas(location, conversation_bytes=MIB), 2 * MIB)
    assert receipt.streams[0].committed == left


def test_who_reserves_at_the_same_time_never_gets_more_than_there_is(location, monkeypatch):
    monkeypatch.setattr(quota, "_STEP_BYTES", 1)
    allowance = 400
    directory = private.open_directory(location.directory, below=location.conversation)
    ids = [new_id() for _ in range(6)]
    locks = [private.create(directory, names_of.lock(capture)) for capture in ids]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    quotas = [
        quota.Quota(directory, capture, lock, job_bytes=1000, conversation_bytes=allowance)
        for capture, lock in zip(ids, locks, strict=True)
    ]

    def reserve(one):
        while one.allow(one.reserved + 1) > 0 and one.reason is None:
            pass

    threads = [threading.Thread(target=reserve, args=(one,)) for one in quotas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.reserved for one in quotas) == allowance
    assert quota.taken(directory) == allowance
    for lock in (*locks, directory):
        os.close(lock)
