import os

import pytest

from yarp.archive import restore as module
from yarp.archive.restore import restore
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, ReferenceUnknown

IDS = {"agent": "acme", "account": "ann", "source_session_id": "chat"}


def restored(store, name):
    streams = restore(store.path, **IDS, source_call_id=name)
    data = [b"".join(stream.blocks()) for stream in streams]
    for stream in streams:
        stream.close()
    return data


def test_both_streams_come_back_exactly(store):
    out, err = bytes(range(256)) * 10, b"warning\r\n\x1b[0m"
    store.call("one", streams=(out, err))
    assert restored(store, "one") == [out, err]


def test_empty_streams_come_back_empty(store):
    store.call("one", streams=(b"", b""))
    assert restored(store, "one") == [b"", b""]


def test_a_large_stream_goes_through_a_file_that_nobody_sees(store, monkeypatch):
    monkeypatch.setattr(module, "_MEMORY_BYTES", 1000)
    out = os.urandom(3 << 20)
    store.call("one", streams=(out, b"err"))
    assert restored(store, "one") == [out, b"err"]
    assert not [name for name in os.listdir(store.directory) if "tool-calls" not in name]


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
@pytest.mark.parametrize("stream", [0, 1])
def test_damage_of_either_stream_is_found_before_a_byte_is_given(
    store, monkeypatch, stream, memory_bytes
):
    monkeypatch.setattr(module, "_MEMORY_BYTES", memory_bytes)
    store.call("one", streams=(b"out", b"err"))
    store.sql(("UPDATE payloads SET body = x'585858' WHERE body = ?", ((b"out", b"err")[stream],)))
    with pytest.raises(ArchiveCorrupt):
        restored(store, "one")


def test_an_unknown_call_and_a_call_without_streams_are_named(store):
    store.call("one")
    with pytest.raises(ReferenceUnknown, match="no call two"):
        restored(store, "two")
    with pytest.raises(ReferenceUnknown, match="no exact stdout"):
        restored(store, "one")


def test_a_call_that_never_finished_gives_what_was_committed(store):
    store.call("one", streams=(b"out", b"err"))
    store.sql(
        "UPDATE tool_calls SET status = 'started', finished_at_ms = NULL, is_error = NULL, executed = NULL"
    )
    assert restored(store, "one") == [b"out", b"err"]


def test_without_an_archive_there_is_nothing_to_restore(store):
    with pytest.raises(ArchiveUnavailable):
        restored(store, "one")
