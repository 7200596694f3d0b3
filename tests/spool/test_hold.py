"""What is held comes back exactly, in order, from memory or from a file."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarp.errors import StorageError
from yarp.spool import hold as module
from yarp.spool.hold import Hold


def shown(hold):
    """The chunks as they come back, with neighbours of one stream joined."""
    runs = []
    hold.show(lambda stream, data: runs.append((stream, bytes(data))))
    return joined(runs)


def joined(runs):
    whole = []
    for stream, data in runs:
        if whole and whole[-1][0] == stream:
            whole[-1] = (stream, whole[-1][1] + data)
        elif data:
            whole.append((stream, data))
    return whole


@settings(max_examples=60, deadline=None)
@given(
    chunks=st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=300)), max_size=60),
    memory=st.integers(0, 4000),
)
def test_any_chunks_come_back_in_the_order_of_their_arrival(tmp_path_factory, chunks, memory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MEMORY_BYTES", memory)
        patch.setattr(module, "_READ_BYTES", 64)
        hold = Hold(str(tmp_path_factory.getbasetemp()))
        for stream, chunk in chunks:
            hold.keep(stream, chunk)
        assert shown(hold) == joined(chunks)
        hold.close()


def test_a_large_output_lies_in_a_private_file_that_has_no_name(tmp_path):
    hold = Hold(str(tmp_path))
    hold.keep(0, bytes(2 << 20))
    assert os.listdir(tmp_path) == []
    assert os.fstat(hold._file).st_mode & 0o777 == 0o600
    assert shown(hold) == [(0, bytes(2 << 20))]
    hold.close()


def test_small_output_needs_no_directory():
    hold = Hold("/nowhere")
    hold.keep(1, b"few")
    assert shown(hold) == [(1, b"few")]
    with pytest.raises(StorageError, match="/nowhere"):
        hold.keep(0, bytes(2 << 20))
    assert shown(hold) == [(1, b"few")]


FULL_DISK = """
import resource, sys
from yarp.errors import StorageError
from yarp.spool.hold import Hold
resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, 2_500_000))
hold = Hold(sys.argv[1])
kept = 0
try:
    while True:
        hold.keep(kept % 2, bytes([kept]) * 700_001)
        kept += 1
except StorageError as error:
    assert "File too large" in str(error), error
runs = []
hold.show(lambda stream, data: runs.append((stream, bytes(data))))
assert b"".join(data for _, data in runs) == b"".join(bytes([n]) * 700_001 for n in range(kept))
print(kept)
"""


def test_what_was_kept_before_the_disk_was_full_is_still_there(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, check=True
    )
    assert done.stdout == b"3\n"


@settings(max_examples=60, deadline=None)
@given(
    chunks=st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=30)), max_size=20),
    shared_after=st.integers(0, 20),
    lost=st.integers(0, 100),
)
def test_who_shares_the_file_reads_all_of_it_up_to_where_it_was_cut(
    tmp_path_factory, chunks, shared_after, lost
):
    hold = Hold(str(tmp_path_factory.getbasetemp()))
    for number, (stream, chunk) in enumerate(chunks):
        if number == shared_after:
            hold.share()
        hold.keep(stream, chunk)
    file = hold.share()
    assert module.state(file) == module.WHOLE
    size = max(os.fstat(file).st_size - lost, 0)
    os.ftruncate(file, size)
    found = [[], []]
    module.read(file, size, lambda stream, data: found[stream].append(bytes(data)))
    for stream in (0, 1):
        whole = b"".join(chunk for number, chunk in chunks if number == stream)
        assert whole.startswith(b"".join(found[stream]))
        assert lost or whole == b"".join(found[stream])
    hold.close()


def test_who_shares_the_file_knows_whether_it_may_lack_a_chunk(tmp_path):
    hold = Hold(str(tmp_path))
    hold.coming()
    file = hold.share()
    assert module.state(file) == module.WHOLE
    hold.coming()
    assert module.state(file) not in (None, module.WHOLE)
    hold.keep(0, b"it")
    assert module.state(file) == module.WHOLE
    hold.coming()
    hold.settled()
    assert module.state(file) == module.WHOLE
    hold.give_up()
    hold.coming()
    assert module.state(file) is None
    assert shown(hold) == [(0, b"it")]
    hold.close()
