import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from yarp.archive import migrate, upkeep
from yarp.archive.read import Reader
from yarp.archive.verify import verify
from yarp.archive.write import Archive
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, ArchiveVersionUnsupported

CALLS = "SELECT id, source_call_id, status, finished_at_ms FROM tool_calls ORDER BY id"
SNAPSHOTS = "SELECT tool_call_id, subject, stage, payload_sha256 FROM snapshots ORDER BY 1, 2, 3"
PAYLOADS = "SELECT sha256, compression, body FROM payloads ORDER BY 1"


def content(store):
    return [store.sql(query) for query in (CALLS, SNAPSHOTS, PAYLOADS)]


def is_old(store):
    connection = sqlite3.connect(store.path)
    try:
        return migrate.needs_migration(connection)
    finally:
        connection.close()


def schema(path):
    connection = sqlite3.connect(path)
    try:
        return sorted(
            connection.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL "
                "AND tbl_name IN ('tool_calls', 'snapshots')"
            )
        )
    finally:
        connection.close()


def test_the_old_shape_becomes_the_seeds_shape_and_keeps_every_row(store, another_store):
    store.make_old(20)
    another_store.call("fresh")
    before = content(store)
    assert is_old(store)
    migrate.migrate(store.path)
    assert not is_old(store)
    assert content(store) == before
    assert schema(store.path) == schema(another_store.path)
    assert store.sql("PRAGMA user_version") == [(1,)]
    report = verify(store.path)
    assert (report.problems, report.incomplete_calls) == ((), 1)


def test_every_call_gets_a_reference_of_its_own(store):
    store.make_old(20)
    migrate.migrate(store.path)
    references = {row[0] for row in store.sql("SELECT archive_ref FROM tool_calls")}
    assert len(references) == 21
    reader = Reader.open(store.path)
    assert {reader.call(reference).archive_ref for reference in references} == references
    reader.close()


def test_the_backup_is_private_whole_and_one_file(store):
    store.make_old(5)
    before = content(store)
    migrate.migrate(store.path)
    backup = store.path + ".pre-indexed-output-v1.backup"
    assert stat.S_IMODE(os.stat(backup).st_mode) == 0o600
    connection = sqlite3.connect(f"file:{backup}?mode=ro", uri=True)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert migrate.needs_migration(connection)
    assert [
        connection.execute(query).fetchall() for query in (CALLS, SNAPSHOTS, PAYLOADS)
    ] == before
    connection.close()
    beside = {name for name in os.listdir(store.directory) if "backup" in name}
    assert beside == {os.path.basename(backup)}


def test_a_present_archive_is_left_alone(store):
    store.call("one")
    before = store.sql("SELECT archive_ref FROM tool_calls")
    migrate.migrate(store.path)
    assert store.sql("SELECT archive_ref FROM tool_calls") == before
    assert not os.path.exists(store.path + migrate.BACKUP_SUFFIX)


def test_opening_to_write_migrates(store):
    store.make_old(3)
    reference = store.call("after")
    assert reference.startswith("yr_")
    assert verify(store.path).problems == ()


def test_opening_at_once_migrates_once(store):
    store.make_old(300)
    errors = []

    def open_it():
        try:
            Archive.open(store.path, narrow=False).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert verify(store.path).problems == ()


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE tool_calls ADD COLUMN archive_ref TEXT",
        "ALTER TABLE snapshots ADD COLUMN source_completeness TEXT",
    ],
)
def test_a_part_of_a_migration_is_an_error(store, damage):
    store.make_old(1)
    store.sql(damage)
    before = content(store)
    with pytest.raises(ArchiveCorrupt, match="part of a migration"):
        migrate.migrate(store.path)
    with pytest.raises(ArchiveCorrupt, match="part of a migration"):
        Archive.open(store.path, narrow=False)
    assert content(store) == before


def test_a_newer_version_is_refused(store):
    store.make_old(1)
    store.sql("PRAGMA user_version = 2")
    with pytest.raises(ArchiveVersionUnsupported, match="newer"):
        migrate.migrate(store.path)
    with pytest.raises(ArchiveVersionUnsupported, match="newer"):
        Archive.open(store.path, narrow=False)


def test_without_room_for_twice_the_archive_nothing_begins(store, monkeypatch):
    store.make_old(1)

    class Full:
        f_bavail, f_frsize = 1, 1

    monkeypatch.setattr(upkeep.os, "statvfs", lambda path: Full)
    with pytest.raises(ArchiveUnavailable, match="make room"):
        migrate.migrate(store.path)
    assert is_old(store)
    assert not os.path.exists(store.path + migrate.BACKUP_SUFFIX)


def test_a_damaged_archive_is_not_migrated(store):
    store.make_old(200)
    with open(store.path, "r+b") as file:
        for page in range(6, 14):
            file.seek(page * 4096)
            file.write(bytes(64))
    with pytest.raises(ArchiveCorrupt):
        migrate.migrate(store.path)
    assert not os.path.exists(store.path + migrate.BACKUP_SUFFIX)
    assert not os.path.exists(store.path + migrate.BACKUP_SUFFIX + ".partial")


def test_rows_that_break_the_new_rules_leave_the_old_archive(store):
    store.make_old(2)
    store.sql(
        "UPDATE snapshots SET subject = 'hunter2' WHERE subject = 'input' AND stage = 'after'",
        checks=False,
    )
    before = content(store)
    with pytest.raises(Exception) as caught:
        migrate.migrate(store.path)
    assert caught.value.exit_code == 65
    assert "hunter2" not in str(caught.value)
    assert content(store) == before


def test_the_backup_of_an_interrupted_attempt_is_replaced(store):
    store.make_old(2)
    for name in (migrate.BACKUP_SUFFIX, migrate.BACKUP_SUFFIX + ".partial"):
        with open(store.path + name, "w") as file:
            file.write("left over")
        os.chmod(store.path + name, 0o644)
    migrate.migrate(store.path)
    backup = store.path + migrate.BACKUP_SUFFIX
    assert stat.S_IMODE(os.stat(backup).st_mode) == 0o600
    connection = sqlite3.connect(backup)
    assert migrate.needs_migration(connection)
    connection.close()
    assert not os.path.exists(backup + ".partial")


def killed_at_random(store, rounds):
    """Kill a migrating process at random moments; how many rounds found it done, and not."""
    store.make_old(400)
    with open(store.path, "rb") as file:
        old = file.read()
    before = content(store)
    script = (
        "import sys\nfrom yarp.archive import migrate, upkeep\nimport sqlite3\n"
        "print('go', flush=True)\nmigrate.migrate(sys.argv[1])\n"
    )
    started = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", script, store.path], check=True, stdout=subprocess.DEVNULL
    )
    longest = time.monotonic() - started
    done = 0
    for _ in range(rounds):
        for name in os.listdir(store.directory):
            if name.endswith(("-wal", "-shm")):
                os.unlink(os.path.join(store.directory, name))
        with open(store.path, "wb") as file:
            file.write(old)
        child = subprocess.Popen([sys.executable, "-c", script, store.path], stdout=subprocess.PIPE)
        child.stdout.readline()
        time.sleep(random.uniform(0, longest))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        done += not is_old(store)
        assert content(store) == before
        assert store.sql("PRAGMA integrity_check") == [("ok",)]
        migrate.migrate(store.path)
        assert content(store) == before
        assert verify(store.path).problems == ()
        assert not os.path.exists(store.path + migrate.BACKUP_SUFFIX + ".partial")
    return done


def test_a_killed_migration_leaves_the_old_archive_or_the_new(store):
    killed_at_random(store, 8)


@pytest.mark.slow
def test_a_migration_killed_a_hundred_times_leaves_the_old_archive_or_the_new(store):
    done = killed_at_random(store, 100)
    assert 0 < done < 100
