from __future__ import annotations

import threading
import time

import pytest

from yarp.spool.writer import Writer


class Storage:
    """Stores in memory; stands still while `gate` is closed."""

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.stored = []
        self.entered = threading.Event()

    def store(self, stream, data):
        self.entered.set()
        self.gate.wait()
        self.stored.append((stream, data))
        return True


@pytest.fixture
def storage():
    one = Storage()
    yield one
    one.gate.set()


def test_everything_is_stored_in_order(storage):
    writer = Writer(storage.store, queue_bytes=100, exact=True)
    for n in range(500):
        assert writer.put(n % 2, b"%03d" % n)
    assert writer.close(lambda: storage.stored.append("last"), 10)
    assert storage.stored.pop() == "last"
    for stream in (0, 1):
        got = b"".join(data for found, data in storage.stored if found == stream)
        assert got == b"".join(b"%03d" % n for n in range(stream, 500, 2))


def test_a_lossy_writer_never_waits_for_a_storage_that_stands_still(storage):
    storage.gate.clear()
    writer = Writer(storage.store, queue_bytes=100, exact=False)
    assert writer.put(0, b"first")
    storage.entered.wait()
    time.sleep(0.3)  # longer than a storage may take and still count as one that stores
    taken = 0
    while writer.put(0, b"x" * 10):
        taken += 1
    assert taken == 9
    storage.gate.set()
    assert not writer.put(0, b"later")
    assert writer.close(lambda: None, 10)
    assert b"".join(data for _, data in storage.stored) == b"first" + b"x" * 90


def test_an_exact_writer_holds_its_reader_back(storage):
    storage.gate.clear()
    writer = Writer(storage.store, queue_bytes=10, exact=True)
    writer.put(0, b"x" * 10)
    through = threading.Event()

    def push():
        writer.put(0, b"y")
        through.set()

    threading.Thread(target=push, daemon=True).start()
    assert not through.wait(0.1)
    storage.gate.set()
    assert through.wait(10)
    assert writer.close(lambda: None, 10)


def test_a_slow_storage_holds_a_lossy_reader_back_within_bounds(storage, monkeypatch):
    monkeypatch.setattr("yarp.spool.writer.BACKPRESSURE_SECONDS", 0.1)

    def slow(stream, data):
        time.sleep(0.002)
        return storage.store(stream, data)

    writer = Writer(slow, queue_bytes=10, exact=False)
    taken = 0
    while writer.put(0, b"x" * 10):
        taken += 1
    assert taken > 5
    writer.close(lambda: None, 10)
    assert len(storage.stored) == taken


def test_a_fault_ends_the_storing_and_keeps_nobody_waiting():
    def broken(stream, data):
        raise OSError("broken disk")

    writer = Writer(broken, queue_bytes=1000, exact=True)
    while writer.put(0, b"x" * 100):
        pass
    called = []
    assert writer.close(lambda: called.append(1), 10)
    assert called == [1]


def test_who_closes_does_not_wait_forever_and_nothing_happens_behind_their_back(storage):
    storage.gate.clear()
    writer = Writer(storage.store, queue_bytes=100, exact=False)
    writer.put(0, b"first")
    writer.put(0, b"second")
    called = []
    assert not writer.close(lambda: called.append(writer.commits()), 0.05)
    storage.gate.set()
    writer._thread.join(10)
    assert called == [False]
    assert storage.stored in ([(0, b"first")], [(0, b"firstsecond")])
    assert not writer.commits()


def test_small_chunks_are_stored_together(storage):
    storage.gate.clear()
    writer = Writer(storage.store, queue_bytes=1 << 20, exact=True)
    for _ in range(1000):
        writer.put(0, b"x")
    storage.gate.set()
    writer.close(lambda: None, 10)
    assert len(storage.stored) <= 3
