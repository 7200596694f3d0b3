"""observed = accepted + pending + discarded, whatever happens, and whenever one looks."""

from __future__ import annotations

import errno
import os
import random
import threading

import pytest

from yarp.spool.credentials import CREDENTIALS
from yarp.spool.declared import Redactor, SpoolLocation
from yarp.spool.receipt import CaptureState, ProcessState, Representation
from yarp.spool.spool import Spool

PIECES = [
    *(b"x" * 3, b"line\n", "é😀".encode(), b"\xff\xf0\x9f", b"ghp_" + b"a" * 40, b"TOKEN="),
    *(b"y" * 3000, b"\0" * 50, b"", "日".encode()[:2]),
]


class Breaks:
    """A redactor that raises when it meets a word."""

    held = 0

    def feed(self, chunk):
        if b"\0" in chunk:
            raise ValueError("no such byte")
        return chunk

    def finish(self):
        return b""


class Faulty(Spool):
    """A spool whose disk fails, or writes short, as its `disk` says."""

    disk = None

    def _make_files(self):
        files = super()._make_files()
        files._write = self._faulty_write
        return files

    def _faulty_write(self, file, data):
        short = os.write(file, data[: max(1, len(data) // 2)])
        if self.disk.random() < 0.05:
            raise OSError(self.disk.choice([errno.ENOSPC, errno.EIO]), "broken disk")
        return short


def holds(spool):
    for stream in range(2):
        seen = spool.accounting(stream)
        assert seen.observed == seen.accepted + seen.pending + seen.discarded
        assert min(seen.accepted, seen.pending, seen.discarded, seen.committed) >= 0
        assert seen.uncommitted >= 0
    return seen


def one_run(directory, seed):
    chance = random.Random(seed)
    faulty = chance.random() < 0.2
    make = Faulty if faulty else Spool
    redactors = [CREDENTIALS, Redactor("breaks", window_bytes=1, make=Breaks)]
    location = SpoolLocation(
        directory,
        conversation=directory,
        job_bytes=chance.choice([0, 10, 5000, 1 << 20]),
        conversation_bytes=1 << 40,
    )
    Faulty.disk = random.Random(seed)
    spool = make(
        location if chance.random() < 0.9 else None,
        redactors=redactors[: chance.randint(0, 2)],
        representation=chance.choice(list(Representation)),
        policy=chance.choice(["lossy", "exact"]),
        inline_bytes=chance.choice([0, 100_000]) if faulty else 100_000,
        queue_bytes=chance.choice([1, 1000, 1 << 20]),
    )
    pushed = [0, 0]
    finished = None
    for _ in range(chance.randint(1, 20)):
        event = chance.random()
        stream = chance.randint(0, 1)
        if event < 0.8:
            chunk = b"".join(chance.choices(PIECES, k=chance.randint(1, 3)))
            spool.take(stream, chunk)
            pushed[stream] += len(chunk)
        elif event < 0.85:
            spool.ended(stream)
        elif event < 0.88:
            spool.preview()
        elif event < 0.89 and finished is None:
            spool.promote("job")
        elif event < 0.95:
            finished = spool.finish(
                chance.choice(list(ProcessState)[1:]), exit_code=0, unended="cancelled"
            )
        holds(spool)
    receipt = spool.finish(ProcessState.CANCELLED)
    holds(spool)
    assert finished in (None, receipt)
    for stream, found in enumerate(receipt.streams):
        assert found.pending == 0
        assert found.observed == found.accepted + found.discarded
        assert spool.accounting(stream).observed == pushed[stream]
    if receipt.capture is CaptureState.COMPLETE:
        assert not any(found.discarded or found.uncommitted for found in receipt.streams)
    return receipt.capture


def many_runs(directory, runs, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)
    seen = {one_run(str(directory), seed) for seed in runs}
    assert {CaptureState.COMPLETE, CaptureState.PARTIAL, CaptureState.UNAVAILABLE} <= seen


def test_the_equation_holds_at_every_step_of_any_interleaving(tmp_path, monkeypatch):
    many_runs(tmp_path, range(1000), monkeypatch)


@pytest.mark.slow
def test_the_equation_holds_in_ten_thousand_interleavings(tmp_path, monkeypatch):
    many_runs(tmp_path, range(1000, 11_000), monkeypatch)


def test_the_equation_holds_for_who_looks_while_others_push_and_finish(location):
    spool = Spool(location, redactors=[CREDENTIALS], queue_bytes=4096)
    done = threading.Event()
    faults = []

    def watch():
        while not done.is_set():
            try:
                holds(spool)
                spool.receipt()
                spool.preview()
            except Exception as error:
                faults.append(error)
                return

    def push(stream):
        chance = random.Random(stream)
        for _ in range(300):
            spool.take(stream, b"".join(chance.choices(PIECES, k=4)))

    threads = [
        threading.Thread(target=watch),
        *(threading.Thread(target=push, args=(n,)) for n in (0, 1)),
    ]
    for thread in threads:
        thread.start()
    threads[1].join(0.05)
    receipts = []
    ends = [
        threading.Thread(target=lambda: receipts.append(spool.finish(ProcessState.CANCELLED)))
        for _ in range(4)
    ]
    for thread in ends:
        thread.start()
    for thread in [*ends, *threads[1:]]:
        thread.join()
    done.set()
    threads[0].join()
    assert faults == []
    assert len({id(receipt) for receipt in receipts}) == 1
    assert all(found.pending == 0 for found in receipts[0].streams)
