import os

import pytest

from yarp.archive.stats import stats
from yarp.errors import ArchiveUnavailable, ArchiveVersionUnsupported, PermissionsTooOpen


def test_the_figures_of_an_archive(store):
    store.call("one", text="a" * 10000)
    store.call("two", text="a" * 10000, session="other")
    store.call("three", finished_at_ms=None)
    found = stats(store.path)
    assert (found.sessions, found.calls, found.incomplete_calls) == (2, 3, 1)
    # three inputs and one result, kept once
    lengths = store.sql("SELECT sum(uncompressed_byte_length), sum(length(body)) FROM payloads")
    assert [(found.logical_payload_bytes, found.stored_payload_bytes)] == lengths
    assert found.logical_payload_bytes == 10011 + 17 + 17 + 19
    assert found.stored_payload_bytes < 1000
    assert found.database_bytes >= os.path.getsize(store.path)
    assert (found.oldest_call_ms, found.newest_call_ms) == (1000, 1000)


def test_without_calls_their_times_are_unknown(store):
    store.call("one")
    store.sql("DELETE FROM snapshots", "DELETE FROM tool_calls", "DELETE FROM payloads")
    found = stats(store.path)
    assert (found.calls, found.logical_payload_bytes, found.oldest_call_ms) == (0, 0, None)


def test_stats_migrates_nothing_and_makes_nothing(store):
    with pytest.raises(ArchiveUnavailable, match="no archive yet"):
        stats(store.path)
    assert os.listdir(store.directory) == []
    store.make_old(2)
    assert stats(store.path).calls == 3
    assert not any("backup" in name for name in os.listdir(store.directory))


def test_stats_of_a_database_of_another_program_are_refused(store):
    store.call("one")
    store.sql("DROP TABLE snapshots")
    with pytest.raises(ArchiveVersionUnsupported):
        stats(store.path)


def test_a_time_that_is_no_number_is_never_printed(store):
    store.call("one")
    store.sql("UPDATE tool_calls SET started_at_ms = 'hunter2'", checks=False)
    assert stats(store.path).oldest_call_ms is None


@pytest.mark.parametrize("wide", ["file", "directory"])
def test_stats_of_what_others_can_reach_are_refused_and_nothing_is_narrowed(store, wide):
    store.call("one")
    path = store.path if wide == "file" else store.directory
    os.chmod(path, 0o755)
    with pytest.raises(PermissionsTooOpen):
        stats(store.path)
    assert os.stat(path).st_mode & 0o777 == 0o755
    os.chmod(path, 0o700)
