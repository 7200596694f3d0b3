"""Connections and errors of SQLite, on real files."""

import os
import sqlite3
import subprocess
import sys

import pytest

from yarp import sqlite
from yarp.errors import (
    ArchiveCorrupt,
    ArchiveUnavailable,
    ArchiveVersionUnsupported,
    DataError,
    StorageError,
)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a b%20#?.sqlite3")


def make(path, rows=1):
    connection = sqlite.connect(path)
    connection.execute("CREATE TABLE t (a PRIMARY KEY)")
    with sqlite.transaction(connection, path):
        connection.executemany("INSERT INTO t VALUES (?)", ((n,) for n in range(rows)))
    return connection


def test_a_reader_works_beside_a_writer_and_after_it(path):
    writer = make(path)
    assert os.path.exists(path + "-wal")
    reader = sqlite.connect(path, readonly=True)
    assert reader.execute("SELECT a FROM t").fetchall() == [(0,)]
    reader.close()
    writer.close()
    assert not os.path.exists(path + "-wal")
    reader = sqlite.connect(path, readonly=True)
    assert reader.execute("SELECT a FROM t").fetchall() == [(0,)]
    reader.close()


@pytest.mark.parametrize("size", [None, 4096])
def test_a_new_file_has_larger_pages_and_an_old_one_keeps_its_own(path, size):
    if size is not None:
        old = sqlite3.connect(path)
        old.execute(f"PRAGMA page_size = {size}")
        old.execute("PRAGMA auto_vacuum = INCREMENTAL")
        old.execute("PRAGMA journal_mode = WAL")
        old.close()
    writer = make(path)
    assert writer.execute("PRAGMA page_size").fetchone() == (size or sqlite.PAGE_BYTES,)
    assert writer.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    writer.close()


LEAVE_A_LOG = """
import os, sys
from yarp import sqlite
connection = sqlite.connect(sys.argv[1])
connection.execute("INSERT INTO t VALUES (7)")
os._exit(0)
"""


def test_a_reader_sees_what_a_writer_left_in_the_log_when_it_vanished(path):
    make(path).close()
    subprocess.run([sys.executable, "-c", LEAVE_A_LOG, path], check=True)
    os.unlink(path + "-shm")
    assert os.path.getsize(path + "-wal")
    reader = sqlite.connect(path, readonly=True)
    assert reader.execute("SELECT a FROM t").fetchall() == [(0,), (7,)]
    reader.close()


def test_a_read_only_connection_cannot_write(path):
    make(path).close()
    reader = sqlite.connect(path, readonly=True)
    with pytest.raises(ArchiveUnavailable), sqlite.transaction(reader, path):
        reader.execute("INSERT INTO t VALUES (2)")
    reader.close()


def test_a_read_only_connection_makes_no_file(path):
    with pytest.raises(ArchiveUnavailable, match="unable to open"):
        sqlite.connect(path, readonly=True)
    assert not os.path.exists(path)


def test_a_file_that_is_no_database_is_named_so(path):
    with open(path, "w") as file:
        file.write("a letter to a friend, " * 100)
    for readonly in (True, False):
        with pytest.raises(ArchiveVersionUnsupported, match="no SQLite database; move it away"):
            sqlite.connect(path, readonly=readonly)
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_damaged_database_is_named_so(path):
    make(path, 5000).close()
    with open(path, "r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096 * 20)
    reader = sqlite.connect(path, readonly=True)
    with (
        pytest.raises(ArchiveCorrupt, match="yarp archive verify"),
        sqlite.transaction(reader, path, "DEFERRED"),
    ):
        reader.execute("SELECT count(*) FROM t WHERE a > 3").fetchone()
    reader.close()


def test_a_lock_that_is_kept_is_waited_for_and_then_named(path):
    holder = make(path)
    holder.execute("BEGIN IMMEDIATE")
    waiter = sqlite.connect(path, busy_timeout_ms=50)
    with pytest.raises(ArchiveUnavailable, match="locked"), sqlite.transaction(waiter, path):
        pass
    holder.execute("ROLLBACK")
    with sqlite.transaction(waiter, path):
        pass
    waiter.close()
    holder.close()


def test_a_refused_row_is_a_data_error_and_rolls_the_whole_transaction_back(path):
    connection = make(path)

    def insert_twice():
        with sqlite.transaction(connection, path):
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("INSERT INTO t VALUES (0)")

    with pytest.raises(DataError, match="constraint"):
        insert_twice()
    assert connection.execute("SELECT a FROM t").fetchall() == [(0,)]
    connection.close()


def test_any_other_exception_rolls_back_and_passes_through(path):
    connection = make(path)

    def interrupted():
        with sqlite.transaction(connection, path):
            connection.execute("INSERT INTO t VALUES (1)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not connection.in_transaction
    assert connection.execute("SELECT a FROM t").fetchall() == [(0,)]
    connection.close()


def test_a_message_never_quotes_a_value(path):
    connection = make(path)
    connection.execute("INSERT INTO t VALUES (CAST(x'ff' || 'secret' AS TEXT))")
    with pytest.raises(ArchiveCorrupt) as caught, sqlite.transaction(connection, path):
        connection.execute("SELECT a FROM t").fetchall()
    assert "secret" not in str(caught.value)
    connection.close()


def test_a_value_over_the_limit_is_a_storage_error(path):
    connection = make(path)
    with (
        pytest.raises(StorageError, match="over SQLite's limit"),
        sqlite.transaction(connection, path),
    ):
        connection.execute("INSERT INTO t VALUES (zeroblob(1000000001))")
    connection.close()


def test_inspection_refuses_before_anything_changes(path):
    import sqlite3

    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (url)")
    other.close()
    with open(path, "rb") as file:
        before = file.read()

    def refuse(connection):
        raise ArchiveVersionUnsupported(path)

    with pytest.raises(ArchiveVersionUnsupported):
        sqlite.connect(path, inspect=refuse)
    with open(path, "rb") as file:
        assert file.read() == before
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_the_driver_comes_without_the_price_of_its_package():
    code = "import sys, yarp.sqlite; assert not {'sqlite3', 'typing', 'functools', 'collections'} & set(sys.modules); import functools; functools.lru_cache(None)(len); functools.wraps"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_schema_whose_damage_is_no_text_is_damage_all_the_same(path, readonly):
    make(path).close()
    with open(path, "r+b") as file:
        data = file.read()
        file.seek(data.index(b"CREATE TABLE t (a"))
        file.write(b"CREATE TABLE \xe9 \xe9")
    with pytest.raises(ArchiveCorrupt) as caught:
        sqlite.connect(path, readonly=readonly, inspect=lambda c: c.execute("SELECT 1 FROM t"))
    assert str(caught.value).isprintable()


def test_a_long_log_is_emptied_when_nobody_needs_it(path):
    writer, reader = sqlite.connect(path), sqlite.connect(path)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("CREATE TABLE t (body BLOB)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM t").fetchall()
    sqlite.shorten_log(writer, path)
    short = os.stat(f"{path}-wal").st_size
    assert short > 0
    writer.execute("INSERT INTO t VALUES (zeroblob(4000000))")
    sqlite.shorten_log(writer, path)
    assert os.stat(f"{path}-wal").st_size > 4_000_000  # somebody reads
    reader.execute("COMMIT")
    sqlite.shorten_log(writer, path)
    assert os.stat(f"{path}-wal").st_size == 0
    assert reader.execute("SELECT length(body) FROM t").fetchone() == (4_000_000,)
    reader.close()
    writer.close()
