"""Work on a thread: everything, in order, bounded; errors come out."""

import _thread
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarp.spool import behind as module
from yarp.spool.behind import Behind


@settings(max_examples=40, deadline=None)
@given(chunks=st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=99)), max_size=50))
def test_everything_is_worked_on_in_order(chunks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH_BYTES", 128)
        done = []
        behind = Behind(lambda stream, chunk: done.append((stream, chunk)))
        for stream, chunk in chunks:
            behind.put(stream, chunk)
        behind.finish()
        assert done == chunks


def test_a_thread_that_falls_behind_holds_the_reader_back():
    gate = threading.Semaphore(0)
    behind = Behind(lambda stream, chunk: gate.acquire())
    put = []

    def read():
        for n in range(6):
            behind.put(0, bytes(module._BATCH_BYTES))
            put.append(n)

    reader = threading.Thread(target=read)
    reader.start()
    reader.join(timeout=0.3)
    assert len(put) <= 2
    for _ in range(6):
        gate.release()
    reader.join(timeout=30)
    behind.finish()
    assert len(put) == 6


def test_an_error_comes_out_of_the_next_put_or_of_finish():
    def fail(stream, chunk):
        raise OSError("full")

    behind = Behind(fail)
    behind.put(0, bytes(module._BATCH_BYTES))
    with pytest.raises(OSError, match="full"):
        behind.put(0, bytes(module._BATCH_BYTES))
    with pytest.raises(OSError, match="full"):
        behind.finish()


def test_the_thread_ends_when_all_is_done():
    before = _thread._count()
    for batches in ([], [b"x"], [b"x" * (1 << 20), b"y"]):
        behind = Behind(lambda stream, chunk: None, own=False)
        for chunk in batches:
            behind.put(0, chunk)
        behind.finish()
    deadline = time.monotonic() + 10
    while _thread._count() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert _thread._count() == before
