"""What fails costs the record, never the bytes, the status or the reason. Source: spec "Archive"."""

import contextlib
import os
import sqlite3
import subprocess
import sys

import pytest

from yarp.testing.files import small_disk

PYTHON = sys.executable
SPEAK = ("--", "sh", "-c", "printf 'out\\377'; printf 'err' >&2; exit 9")


def assert_exact_with_a_reason(done, *words):
    """Bytes and status are the command's; one reason, with these words, stands on stderr."""
    assert (done.stdout, done.returncode) == (b"out\xff", 9)
    reason = done.stderr.replace(b"err", b"", 1)
    assert reason.startswith(b"yarp: ")
    assert reason.endswith(b"\n")
    assert reason.count(b"\n") == 1
    for word in words:
        assert word.encode() in reason


def archive_of_foreign_bytes(yarp):
    os.makedirs(os.path.dirname(yarp.archive), mode=0o700)
    with open(yarp.archive, "wb") as file:
        file.write(b"this is no database, and long enough to be looked at by SQLite\n" * 99)
    os.chmod(yarp.archive, 0o600)


def archive_of_a_newer_yarp(yarp):
    yarp.run("--", "true")
    connection = sqlite3.connect(yarp.archive)
    connection.execute("PRAGMA user_version = 2")
    connection.close()


def archive_below_a_file(yarp):
    with open(os.path.join(yarp.root, "data"), "wb"):
        pass


def archive_in_an_open_directory(yarp):
    directory = os.path.join(yarp.root, "public")
    os.mkdir(directory)
    os.chmod(directory, 0o755)
    yarp.env["YARP_ARCHIVE"] = os.path.join(directory, "a.sqlite3")


def archive_at_a_relative_path(yarp):
    yarp.env["YARP_ARCHIVE"] = "a.sqlite3"


BEGIN_FAULTS = {
    "foreign bytes": (archive_of_foreign_bytes, "no SQLite database"),
    "a newer version": (archive_of_a_newer_yarp, "newer"),
    "a file where a directory should be": (archive_below_a_file, "not a directory"),
    "a directory open to others": (archive_in_an_open_directory, "chmod"),
    "a relative path": (archive_at_a_relative_path, "absolute"),
}


@pytest.mark.parametrize("name", BEGIN_FAULTS)
def test_a_begin_that_fails_lets_the_command_run_raw(yarp, name):
    make, word = BEGIN_FAULTS[name]
    make(yarp)
    assert_exact_with_a_reason(yarp.run(*SPEAK), word)


def test_a_begin_that_fails_lets_a_missing_program_be_missing(yarp):
    archive_of_foreign_bytes(yarp)
    assert yarp.run("--", "no-such-program").returncode == 127


@pytest.mark.parametrize("name", ["foreign bytes", "a newer version", "a directory open to others"])
def test_a_hosts_archive_that_fails_after_the_command_leaves_exact_streams(yarp, name):
    make, word = BEGIN_FAULTS[name]
    make(yarp)
    assert_exact_with_a_reason(yarp.run(*yarp.host, *SPEAK), word)


def test_an_archive_damaged_before_a_hosts_command_ends_leaves_exact_streams(yarp):
    yarp.begin_by_host()
    spoil = f"rm -f {yarp.archive}-wal {yarp.archive}-shm; printf spoiled > {yarp.archive}"
    done = yarp.run(*yarp.host, "--", "sh", "-c", f"{spoil}; {SPEAK[3]}")
    assert_exact_with_a_reason(done, "no SQLite database")


@pytest.mark.parametrize("selected", [False, True], ids=["live", "held"])
def test_a_finish_that_the_database_refuses_leaves_exact_streams(yarp, selected):
    refuse = "CREATE TRIGGER t BEFORE UPDATE ON tool_calls BEGIN SELECT RAISE(ABORT, 'no'); END"
    code = f"import sqlite3; sqlite3.connect({yarp.archive!r}).executescript({refuse!r})"
    yarp.script("refuse", f"#!{PYTHON}\n{code}\n")
    yarp.script("pytest", f"#!/bin/sh\nrefuse\n{SPEAK[3]}\n")
    done = yarp.run("--", *(["pytest"] if selected else ["sh", "-c", "exec pytest"]))
    assert_exact_with_a_reason(done, "refused by a constraint")
    assert yarp.call()["status"] == "started"
    assert ("stdout", "before") not in yarp.snapshots(yarp.call())


def test_a_locked_archive_is_waited_for(yarp):
    yarp.run("--", "true")
    connection = sqlite3.connect(yarp.archive, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    child = yarp.start(*SPEAK)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.5)
    connection.execute("COMMIT")
    connection.close()
    out, err = child.communicate(timeout=30)
    assert (out, err, child.returncode) == (b"out\xff", b"err", 9)
    assert [row["status"] for row in yarp.calls()] == ["finished", "finished"]


@pytest.mark.parametrize("text", ["no toml", "version = 1\nunknown = 2\n", "version = 7\n"])
def test_a_broken_configuration_lets_the_command_run_as_if_yarp_were_not_there(yarp, text):
    yarp.configure(text)
    assert_exact_with_a_reason(yarp.run(*SPEAK), yarp.config)
    assert not os.path.exists(yarp.archive)


def limited(yarp, bytes_, *words):
    """A run in which no file can grow beyond so many bytes, as on a full disk."""
    code = (
        "import os, resource, sys\n"
        "limit = int(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "os.execv(sys.argv[2], sys.argv[2:])\n"
    )
    argv = [PYTHON, "-c", code, str(bytes_), *yarp.command(*words)]
    return subprocess.run(argv, env=yarp.env, capture_output=True, stdin=-3, check=False)


NOISE = (
    "import os, sys\n"
    "data = open(sys.argv[1], 'rb').read()\n"
    "for at in range(0, len(data), 100_000): os.write(1, data[at:at + 100_000])\n"
    "os.write(2, b'err'); sys.exit(9)\n"
)


@pytest.mark.parametrize("selected", [False, True], ids=["live", "held"])
def test_a_spool_that_cannot_be_written_leaves_exact_bytes_from_then_on(yarp, tmp_path, selected):
    data = os.urandom(6_000_000)
    (tmp_path / "noise").write_bytes(data)
    (tmp_path / "noise.py").write_text(NOISE)
    yarp.script("pytest", f"#!/bin/sh\nexec {PYTHON} {tmp_path}/noise.py {tmp_path}/noise\n")
    command = ["pytest"] if selected else ["sh", "-c", "exec pytest"]
    done = limited(yarp, 1_500_000, "--", *command)
    assert done.stdout == data
    assert done.returncode == 9
    assert done.stderr.startswith(
        b"erryarp: a spi" if b"spill" in done.stderr else b"erryarp: a spool"
    )
    assert b"File too large" in done.stderr
    assert done.stderr.count(b"yarp: ") == 1
    row = yarp.call()
    assert row["status"] == "started"
    assert ("stdout", "before") not in yarp.snapshots(row)


@pytest.mark.parametrize("selected", [False, True], ids=["live", "held"])
def test_a_stream_transaction_that_fails_leaves_exact_bytes(yarp, tmp_path, selected):
    data = os.urandom(900_000)
    (tmp_path / "noise").write_bytes(data)
    (tmp_path / "noise.py").write_text(NOISE)
    yarp.script("pytest", f"#!/bin/sh\nexec {PYTHON} {tmp_path}/noise.py {tmp_path}/noise\n")
    command = ["pytest"] if selected else ["sh", "-c", "exec pytest"]
    done = limited(yarp, 500_000, "--", *command)
    assert done.stdout == data
    assert done.returncode == 9
    assert done.stderr.startswith(b"erryarp: ")
    assert done.stderr.count(b"\n") == 1
    assert yarp.call()["status"] == "started"
    connection = sqlite3.connect(yarp.archive)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.fixture
def disk(tmp_path):
    """A file system of 4 MiB."""
    with small_disk(tmp_path / "small", 4) as point:
        yield str(point)


def test_a_disk_that_fills_up_while_the_command_runs(yarp, disk, tmp_path):
    yarp.env["YARP_ARCHIVE"] = os.path.join(disk, "a.sqlite3")
    data = os.urandom(9_000_000)
    (tmp_path / "noise").write_bytes(data)
    done = yarp.run("--", PYTHON, "-c", NOISE, str(tmp_path / "noise"))
    assert (done.stdout, done.returncode) == (data, 9)
    assert b"No space left" in done.stderr
    (row,) = yarp.calls(yarp.env["YARP_ARCHIVE"])
    assert row["status"] == "started"


def test_a_disk_that_is_full_before_the_command_starts(yarp, disk):
    yarp.env["YARP_ARCHIVE"] = os.path.join(disk, "a.sqlite3")
    file = os.open(os.path.join(disk, "filler"), os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):  # until it is full
        while True:
            os.write(file, bytes(4096))
    os.close(file)
    assert_exact_with_a_reason(yarp.run(*SPEAK), disk)


@pytest.mark.slow
def test_a_stream_over_sqlites_limit_goes_out_exactly(yarp):
    random_bytes = "openssl enc -aes-128-ctr -nosalt -K 00 -iv 00 </dev/zero 2>/dev/null"
    yarp.script("noise", f"#!/bin/sh\n{random_bytes} | head -c 1200000000\n")
    done = yarp.shell(
        '{ "$yarp" run -- noise; echo $? >&2; } | sha256sum; noise | sha256sum', timeout=300
    )
    shown, sent = done.stdout.splitlines()
    assert shown == sent
    status, *reason = sorted(done.stderr.splitlines(), key=len)
    assert status == b"0"
    assert b"SQLite's limit" in b" ".join(reason)
    assert yarp.call()["status"] == "started"
