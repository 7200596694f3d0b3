"""What a command writes is written as a whole, whatever its standard streams are."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time

import pytest

from yarp.index.store import Store
from yarp.testing.files import small_disk

SQL = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 4000) "
SQL += "SELECT i, hex(zeroblob(250)) AS text FROM n"
QUERY = ("index", "query", "run", "--limit", "10000", "--max-output-bytes", "16000000", SQL)
ANSWER_BYTES = 2_000_000


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def environment(request, yarp_home):
    Store(str(yarp_home / "data" / "yarp" / "trace-index.sqlite3")).close()
    return os.environ | {"PYTHONUNBUFFERED": request.param}


def start(words, environment, out):
    return subprocess.Popen(
        [sys.executable, "-m", "yarp", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def disk(tmp_path):
    """A file system of 1 MiB."""
    with small_disk(tmp_path / "disk", 1) as point:
        yield point


def test_a_disk_that_gets_full_fails_the_command(environment, disk):
    with open(disk / "out", "wb") as out:
        child = start(QUERY, environment, out)
        told = child.communicate()[1].decode()
    assert (child.returncode, told) == (
        74,
        "yarp: standard output cannot be written: No space left on device\n",
    )


def test_a_reader_that_goes_away_ends_the_command_with_141(environment):
    child = start(QUERY, environment, subprocess.PIPE)
    assert len(child.stdout.read(100)) == 100
    child.stdout.close()
    assert (child.wait(), child.stderr.read()) == (141, b"")
    child.stderr.close()


def nonblocking(words, environment):
    """What comes out of a pipe that somebody made non-blocking and that is read late."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    child = start(words, environment, writer)
    os.close(writer)
    time.sleep(0.5)
    with open(reader, "rb") as file:
        said = file.read()
    return child.wait(), said, child.communicate()[1]


def test_an_answer_gets_whole_through_a_pipe_that_does_not_block(environment):
    status, said, told = nonblocking(QUERY, environment)
    assert (status, told) == (0, b"")
    assert len(said) > ANSWER_BYTES
    assert said.endswith(b"}\n")


@pytest.mark.parametrize(
    "words",
    ["search --help", "index --help", "reduce --help", "archive ingest --help"],
)
def test_a_help_gets_whole_through_it_too(environment, words):
    whole = subprocess.run(
        [sys.executable, "-m", "yarp", *words.split()],
        capture_output=True,
        check=True,
        env=environment,
    )
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = 0
    try:
        while True:
            filled += os.write(writer, b"x")
    except BlockingIOError:
        pass
    child = start(words.split(), environment, writer)
    os.close(writer)
    time.sleep(0.5)
    with open(reader, "rb") as file:
        said = file.read()[filled:]
    assert (child.wait(), child.communicate()[1]) == (0, b"")
    assert said == whole.stdout


@pytest.mark.parametrize(
    "words", ["search --help", "reduce --help", "hook --help", "archive ingest --help", "hosts"]
)
def test_a_full_device_is_one_sentence_and_74(environment, words):
    with open("/dev/full", "wb") as out:
        child = start(words.split(), environment, out)
        told = child.communicate()[1].decode()
    assert (child.returncode, told.count("\n")) == (74, 1)
    assert told.startswith("yarp: ")
    assert "No space left on device" in told
