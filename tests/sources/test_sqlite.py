from __future__ import annotations

import os
import pathlib
import sqlite3

import pytest

from yarp.sources import held, sqlite
from yarp.sources.facts import Rejected
from yarp.sources.importers import SourceItem
from yarp.sources.jsonl import SourceChanged


def state(directory):
    return {
        entry.name: (
            entry.stat().st_mtime_ns,
            entry.stat().st_mode,
            pathlib.Path(entry.path).read_bytes(),
        )
        for entry in os.scandir(directory)
    }


@pytest.fixture
def store(tmp_path):
    directory = tmp_path / "store"
    directory.mkdir()
    return directory / "store.db"


@pytest.fixture
def private(tmp_path):
    directory = tmp_path / "private"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_is_read_without_a_trace_beside_it(store, private, mode):
    with sqlite3.connect(store) as writer:
        writer.execute(f"PRAGMA journal_mode={mode}")
        writer.execute("CREATE TABLE t (a)")
        writer.execute("INSERT INTO t VALUES (1)")
    writer.close()
    before = state(store.parent)
    item = SourceItem("chats", str(store.parent), "store.db", database=True)
    item.private_directory = str(private)
    assert item.sqlite().execute("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        item.sqlite().execute("INSERT INTO t VALUES (2)")
    item.close()
    item.close()
    assert state(store.parent) == before
    assert os.listdir(private) == []


def test_what_stands_in_the_log_of_a_live_writer_is_seen(store, private):
    writer = sqlite3.connect(store)
    writer.execute("PRAGMA journal_mode=wal")
    writer.execute("CREATE TABLE t (a)")
    writer.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(50)])
    writer.commit()
    before = state(store.parent)
    assert "store.db-wal" in before
    copy = sqlite.Snapshot(str(store), str(private))
    writer.execute("INSERT INTO t VALUES (99)")
    writer.commit()
    assert copy.connection.execute("SELECT count(*) FROM t").fetchone() == (50,)
    copy.close()
    assert set(state(store.parent)) == set(before)
    writer.close()


def test_what_a_crashed_writer_began_is_undone_in_the_copy_alone(store, private):
    pid = os.fork()
    if pid == 0:
        writer = sqlite3.connect(store, isolation_level=None)
        writer.execute("PRAGMA journal_mode=delete")
        writer.execute("PRAGMA cache_size=1")
        writer.execute("CREATE TABLE t (a)")
        writer.execute("INSERT INTO t VALUES ('first')")
        writer.execute("BEGIN")
        writer.executemany("INSERT INTO t VALUES (?)", [("x" * 4000,)] * 100)
        os._exit(0)
    os.waitpid(pid, 0)
    before = state(store.parent)
    assert "store.db-journal" in before
    copy = sqlite.Snapshot(str(store), str(private))
    assert copy.connection.execute("SELECT a FROM t").fetchall() == [("first",)]
    copy.close()
    assert state(store.parent) == before


def test_a_database_that_keeps_changing_is_rejected(store, private, monkeypatch):
    writer = sqlite3.connect(store, isolation_level=None)
    writer.execute("CREATE TABLE t (a)")
    copy_file = sqlite._copy_file

    def disturbed(*places):
        copied = copy_file(*places)
        writer.execute("INSERT INTO t VALUES (1)")
        return copied

    monkeypatch.setattr(sqlite, "_copy_file", disturbed)
    monkeypatch.setattr(sqlite, "_PAUSE_S", 0)
    with pytest.raises(SourceChanged):
        sqlite.Snapshot(str(store), str(private))
    writer.close()
    assert os.listdir(private) == []


@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_database_is_rejected(store, private, content):
    store.write_bytes(content)
    with pytest.raises(Rejected) as caught:
        sqlite.Snapshot(str(store), str(private))
    assert caught.value.issue.code == "malformed_database"
    assert os.listdir(private) == []


def test_links_and_missing_files_are_refused(store, private):
    with pytest.raises(OSError):
        sqlite.Snapshot(str(store), str(private))
    os.symlink("/etc/hostname", store)
    with pytest.raises(OSError):
        sqlite.Snapshot(str(store), str(private))
    assert os.listdir(private) == []


def test_a_copy_has_no_name_while_it_is_read(store, private):
    with sqlite3.connect(store) as writer:
        writer.execute("PRAGMA journal_mode=wal")
        writer.execute("CREATE TABLE t (a)")
        writer.executemany("INSERT INTO t VALUES (?)", [("x" * 4000,)] * 1000)
    copy = sqlite.Snapshot(str(store), str(private))
    assert os.listdir(private) == []
    found = copy.connection.execute("SELECT a FROM t ORDER BY a || rowid").fetchall()
    assert len(found) == 1000
    copy.close()
    writer.close()


def test_what_a_killed_reader_had_copied_is_removed_by_the_next_one_alone(store, private, tmp_path):
    left = private / f"{held.PREFIX}left"
    left.mkdir()
    (left / "copy").write_bytes(b"a part of a store")
    others = {f"{held.PREFIX}{name}" for name in ("file", "link", "mine")} | {"copy-mine"}
    (private / f"{held.PREFIX}file").write_bytes(b"not ours")
    (private / f"{held.PREFIX}link").symlink_to(tmp_path)
    for name in ("copy-mine", f"{held.PREFIX}mine"):
        (private / name).mkdir()
        (private / name / "copy.txt").write_bytes(b"not ours")
    taken, lock = held.held_directory(str(private))
    with sqlite3.connect(store) as writer:
        writer.execute("CREATE TABLE t (a)")
    writer.close()
    sqlite.Snapshot(str(store), str(private)).close()
    assert set(os.listdir(private)) == others | {os.path.basename(taken)}
    assert os.listdir(private / "copy-mine") == ["copy.txt"]
    os.close(lock)


def test_a_copy_that_could_cross_the_size_limit_is_not_begun(store, private):
    with sqlite3.connect(store) as writer:
        writer.execute("CREATE TABLE t (a)")
    writer.close()
    size = store.stat().st_size
    with pytest.raises(OSError, match="could cross the size limit"):
        sqlite.Snapshot(str(store), str(private), most_bytes=size - 1)
    assert os.listdir(private) == []
    sqlite.Snapshot(str(store), str(private), most_bytes=size).close()
