import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from yarp import payload
from yarp.archive import prune as module
from yarp.archive.prune import prune
from yarp.archive.verify import verify
from yarp.archive.write import Archive, CallFacts, SessionKey
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, PermissionsTooOpen, UsageError


def calls(store):
    return [row[0] for row in store.sql("SELECT source_call_id FROM tool_calls ORDER BY id")]


def is_sound(store):
    return verify(store.path).problems == ()


def test_without_a_bound_nothing_is_pruned(store):
    store.call("one")
    with pytest.raises(UsageError, match="needs a bound"):
        prune(store.path)
    assert calls(store) == ["one"]


def test_calls_that_finished_before_the_bound_go_and_those_at_it_stay(store):
    store.fill(5)
    found = prune(store.path, before_ms=2003)
    assert calls(store) == ["c3", "c4"]
    assert (found.calls, found.sessions, found.payloads) == (3, 0, 6)
    assert is_sound(store)


def test_incomplete_calls_are_never_deleted(store):
    store.call("open", finished_at_ms=None)
    store.call("done")
    prune(store.path, before_ms=9999, max_bytes=0)
    assert calls(store) == ["open"]
    assert verify(store.path).incomplete_calls == 1


def test_a_payload_that_a_younger_call_shares_stays(store):
    store.call("old", text="same", finished_at_ms=1)
    store.call("young", text="same", finished_at_ms=9)
    assert prune(store.path, before_ms=5).payloads == 1
    assert is_sound(store)


def test_sessions_without_calls_go(store):
    store.call("old", session="gone", finished_at_ms=1)
    store.call("young", session="kept", finished_at_ms=9)
    assert prune(store.path, before_ms=5).sessions == 1
    assert store.sql("SELECT source_session_id FROM sessions") == [("kept",)]


def test_payloads_that_nothing_references_go(store):
    store.call("one")
    store.sql(
        "INSERT INTO payloads SELECT randomblob(32), 'none', 5, randomblob(5) "
        "FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200) SELECT i FROM n)"
    )
    assert not is_sound(store)
    assert prune(store.path, before_ms=0).payloads == 200
    assert calls(store) == ["one"]
    assert is_sound(store)


def test_the_file_really_shrinks(store):
    store.fill(60, size=40_000)
    full = os.path.getsize(store.path)
    found = prune(store.path, before_ms=2050)
    assert os.path.getsize(store.path) < full / 4
    assert found.database_bytes_before >= full
    assert found.database_bytes_after < full / 3
    assert store.sql("PRAGMA freelist_count") == [(0,)]
    assert not found.rebuilt


def test_a_size_bound_deletes_the_oldest_until_the_file_fits_and_no_more(store):
    store.fill(60, size=40_000)
    bound = os.path.getsize(store.path) // 2
    found = prune(store.path, max_bytes=bound)
    left = calls(store)
    assert left == [f"c{number}" for number in range(60 - len(left), 60)]
    assert bound - 60000 < os.path.getsize(store.path) <= bound
    assert 25 <= found.calls <= 35
    assert is_sound(store)


def test_a_file_that_fits_loses_nothing(store):
    store.fill(5)
    assert prune(store.path, max_bytes=os.path.getsize(store.path)).calls == 0


def test_with_both_bounds_both_hold(store):
    store.fill(40)
    bound = os.path.getsize(store.path) // 2
    prune(store.path, before_ms=2002, max_bytes=bound)
    assert os.path.getsize(store.path) <= bound
    prune(store.path, before_ms=2039, max_bytes=bound)
    assert calls(store) == ["c39"]


def test_a_dry_run_by_time_says_exactly_what_would_go_and_changes_nothing(store):
    store.fill(20)
    store.call("elsewhere", session="gone", text="same", finished_at_ms=1)
    store.call("open", finished_at_ms=None)
    before = store.sql("SELECT count(*), total(length(body)) FROM payloads")
    planned = prune(store.path, before_ms=2010, dry_run=True)
    assert store.sql("SELECT count(*), total(length(body)) FROM payloads") == before
    done = prune(store.path, before_ms=2010)
    assert (planned.calls, planned.sessions, planned.payloads) == (
        done.calls,
        done.sessions,
        done.payloads,
    )
    assert (done.calls, done.sessions) == (11, 1)
    assert planned.dry_run
    assert not done.dry_run


def test_a_dry_run_by_size_is_close(store):
    store.fill(60)
    bound = os.path.getsize(store.path) // 2
    planned = prune(store.path, max_bytes=bound, dry_run=True)
    assert len(calls(store)) == 60
    done = prune(store.path, max_bytes=bound)
    assert abs(planned.calls - done.calls) <= 3
    assert abs(planned.database_bytes_after - bound) < bound / 4


def test_a_dry_run_that_deletes_everything_leaves_an_empty_archive(store):
    store.fill(20)
    planned = prune(store.path, max_bytes=0, dry_run=True)
    prune(store.path, max_bytes=0)
    assert planned.calls == 20
    assert 0 <= planned.database_bytes_after - os.path.getsize(store.path) <= 8192


def without_auto_vacuum(store):
    store.sql(
        "PRAGMA journal_mode = DELETE",
        "PRAGMA auto_vacuum = NONE",
        "VACUUM",
        "PRAGMA journal_mode = WAL",
    )
    assert store.sql("PRAGMA auto_vacuum") == [(0,)]


def test_a_file_that_cannot_shrink_is_written_anew_once(store):
    store.fill(40)
    without_auto_vacuum(store)
    full = os.path.getsize(store.path)
    assert prune(store.path, before_ms=2030, dry_run=True).rebuilt
    assert store.sql("PRAGMA auto_vacuum") == [(0,)]
    assert prune(store.path, before_ms=2030).rebuilt
    assert store.sql("PRAGMA auto_vacuum") == [(2,)]
    assert os.path.getsize(store.path) < full / 2
    assert is_sound(store)
    assert not prune(store.path, before_ms=2035).rebuilt
    assert not any("backup" in name for name in os.listdir(store.directory))


def test_a_rebuilt_file_meets_a_size_bound_too(store):
    store.fill(40)
    without_auto_vacuum(store)
    bound = os.path.getsize(store.path) // 2
    prune(store.path, max_bytes=bound)
    assert os.path.getsize(store.path) <= bound


def test_the_backup_before_a_rebuild_is_private_and_verified(store, monkeypatch):
    store.fill(5)
    without_auto_vacuum(store)
    seen = []

    def fail(connection, path):
        saved = path + ".pre-vacuum.backup"
        seen.append(stat.S_IMODE(os.stat(saved).st_mode))
        copy = sqlite3.connect(saved)
        seen.append(copy.execute("PRAGMA integrity_check").fetchone()[0])
        seen.append(copy.execute("SELECT count(*) FROM tool_calls").fetchone()[0])
        copy.close()
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(module.upkeep, "vacuum", fail)
    with pytest.raises(ArchiveUnavailable):
        prune(store.path, before_ms=2002)
    assert seen == [0o600, "ok", 3]
    assert is_sound(store)


def test_a_damaged_archive_is_not_rebuilt(store):
    store.fill(40)
    without_auto_vacuum(store)
    store.sql(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'tool_calls(tool_name)', 'tool_calls(model)') "
        "WHERE name = 'tool_calls_tool_name_idx'",
    )
    with pytest.raises(ArchiveCorrupt, match="nothing was changed"):
        prune(store.path, before_ms=2000)


def test_a_nearly_full_disk_can_be_pruned(disk, store_in):
    store = store_in(os.path.join(disk, "private"))
    store.fill(60)
    left = os.statvfs(disk)
    with open(os.path.join(disk, "ballast"), "wb") as file:
        file.write(bytes(left.f_bavail * left.f_frsize - 400_000))
    full = os.path.getsize(store.path)
    assert prune(store.path, before_ms=2050).calls == 50
    assert os.path.getsize(store.path) < full / 3
    assert is_sound(store)


def test_nothing_beside_the_archive_is_touched(store):
    store.call("one")
    os.mkdir(os.path.join(store.directory, "tee"))
    kept = os.path.join(store.directory, "tee", "1.log")
    with open(kept, "w") as file:
        file.write("old output")
    os.utime(kept, (1, 1))
    prune(store.path, before_ms=10**15, max_bytes=0)
    with open(kept) as file:
        assert file.read() == "old output"


def test_without_an_archive_none_is_made(store):
    with pytest.raises(ArchiveUnavailable, match="no archive yet"):
        prune(store.path, before_ms=1)
    assert os.listdir(store.directory) == []


def test_an_archive_that_others_can_reach_is_refused(store):
    store.call("one")
    os.chmod(store.directory, 0o755)
    with pytest.raises(PermissionsTooOpen):
        prune(store.path, before_ms=9999)
    assert calls(store) == ["one"]


def test_the_old_shape_is_migrated_first(store):
    store.make_old(3)
    assert prune(store.path, before_ms=2001).calls == 3
    assert calls(store) == ["c4"]
    assert is_sound(store)


def test_writers_of_live_calls_come_in_between(store):
    store.fill(400, size=4000)
    written = []
    enough, done = threading.Event(), threading.Event()

    def write():
        archive = Archive.open(store.path, narrow=False)
        while not done.is_set():
            command = payload.of_json({"live": len(written)})
            facts = CallFacts(f"live{len(written)}", "sh", started_at_ms=1, requires_streams=False)
            archive.begin_call(SessionKey("acme", "ann", "live"), facts, command, command, 1)
            written.append(facts.source_call_id)
            enough.set()
            time.sleep(0.005)
        archive.close()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        assert enough.wait(30)
        assert prune(store.path, before_ms=9999).calls == 400
    finally:
        done.set()
        thread.join(30)
    assert calls(store) == written
    assert is_sound(store)


def test_a_reader_at_work_delays_the_shrinking_only(store):
    store.fill(20)
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM payloads").fetchone()
    assert prune(store.path, before_ms=2010).calls == 10
    reader.close()
    prune(store.path, before_ms=2010)
    assert is_sound(store)
    assert store.sql("PRAGMA freelist_count") == [(0,)]


def killed_at_random(store, rounds, calls_each):
    import random

    script = "import sys\nfrom yarp.archive.prune import prune\nprint('go', flush=True)\nprune(sys.argv[1], before_ms=10**15)\n"
    for _ in range(rounds):
        store.fill(calls_each, size=3000)
        store.call("open", finished_at_ms=None)
        child = subprocess.Popen([sys.executable, "-c", script, store.path], stdout=subprocess.PIPE)
        child.stdout.readline()
        time.sleep(random.uniform(0, 0.2))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert is_sound(store)
        assert "open" in calls(store)
        prune(store.path, before_ms=10**15)
        assert calls(store) == ["open"]


def test_a_killed_prune_leaves_a_sound_archive(store):
    killed_at_random(store, 3, 60)


@pytest.mark.slow
def test_a_prune_killed_forty_times_leaves_a_sound_archive(store):
    killed_at_random(store, 40, 150)
