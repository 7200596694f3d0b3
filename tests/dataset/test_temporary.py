"""DuckDB's temporary files: private, counted, and gone afterwards."""

import os
import signal
import stat
import subprocess
import sys

import pytest
from toy_agent import call, result, session

from yarp.dataset import report
from yarp.dataset.database import Dataset, SizeLimitReached
from yarp.errors import StorageError

SPILLING = "CREATE TEMP TABLE large AS SELECT n, md5(n::VARCHAR) AS d FROM range({}) AS t(n)"
LITTLE_MEMORY = "SET memory_limit = '32MB'"
CHILD = f"""
import sys, time
from yarp.dataset.database import Dataset
dataset = getattr(Dataset, sys.argv[2])(sys.argv[1])
if sys.argv[2] == "write":
    dataset.connection.execute("SET enable_progress_bar = false")
    dataset.connection.execute({LITTLE_MEMORY!r})
    dataset.connection.execute({SPILLING.format(2_000_000)!r})
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def made(store):
    store.write("a.jsonl", session("s"), call("c"), result("c", "earlier"))
    store.extract()
    return store


def temporary(store):
    """The temporary directories, and the bytes in each."""
    parent = os.path.dirname(store.database)
    found = [name for name in os.listdir(parent) if ".tmp" in name]
    return {name: sum(sizes(os.path.join(parent, name))) for name in found}


def sizes(directory):
    return [
        os.path.getsize(os.path.join(place, name))
        for place, _, names in os.walk(directory)
        for name in names
    ]


def test_what_does_not_fit_into_memory_lies_in_a_private_directory(made):
    with Dataset.write(made.database) as dataset:
        dataset.connection.execute(LITTLE_MEMORY)
        dataset.connection.execute(SPILLING.format(2_000_000))
        ((name, size),) = temporary(made).items()
        place = os.path.join(dataset.directory, name)
        assert size > 1 << 20
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
        for inner, _, names in os.walk(place):
            for each in names:
                assert stat.S_IMODE(os.stat(os.path.join(inner, each)).st_mode) == 0o600
        assert dataset.used_bytes() > size
        assert report.stats(dataset)["database_bytes"] < size
    assert temporary(made) == {}


def test_readers_and_a_writer_have_directories_of_their_own(made):
    with Dataset.read(made.database), Dataset.read(made.database):
        assert len(temporary(made)) == 2
    assert temporary(made) == {}


@pytest.mark.parametrize("how", ["read", "write"])
def test_what_a_killed_process_leaves_is_removed_by_the_next(made, how):
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, made.database, how], stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout.readline() == b"ready\n"
            if how == "read":  # one that lives keeps its own
                with Dataset.read(made.database):
                    assert len(temporary(made)) == 2
                assert len(temporary(made)) == 1
            else:
                assert sum(temporary(made).values()) > 1 << 20
        finally:
            child.send_signal(signal.SIGKILL)
    assert len(temporary(made)) == 1
    Dataset.read(made.database).close()
    assert temporary(made) == {}
    assert len(made.calls()) == 1


def test_files_of_an_earlier_version_are_removed(made):
    os.mkdir(made.database + ".tmp")
    with open(made.database + ".tmp/duckdb_temp_storage_DEFAULT-0.tmp", "wb") as file:
        file.write(b"x" * 1000)
    Dataset.write(made.database).close()
    assert temporary(made) == {}


def test_one_who_may_not_write_there_may_still_read(made, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "no")

    monkeypatch.setattr("yarp.dataset.temporary.held_directory", refused)
    with Dataset.read(made.database) as dataset:
        assert dataset.row("SELECT count(*) FROM tool_calls") == (1,)
        assert temporary(made) == {}


def test_temporary_files_stay_below_the_size_limit(made):
    with Dataset.write(made.database) as dataset:
        dataset.most_bytes = dataset.used_bytes() + (20 << 20)
        dataset.require_room(1 << 20, 10)
        dataset.connection.execute(LITTLE_MEMORY)
        with pytest.raises(StorageError, match="what was committed stays"):
            dataset.rows(SPILLING.format(20_000_000))
        assert dataset.used_bytes() <= dataset.most_bytes
    assert temporary(made) == {}
    made.write("b.jsonl", session("t"), call("d"), result("d", "later"))
    made.extract()
    assert len(made.calls()) == 2
    with Dataset.read(made.database) as dataset:
        assert report.verify(dataset)["valid"]


def test_temporary_files_count_for_the_size_limit(made):
    with Dataset.write(made.database) as dataset:
        dataset.connection.execute(LITTLE_MEMORY)
        dataset.connection.execute(SPILLING.format(2_000_000))
        dataset.most_bytes = dataset.used_bytes() + (1 << 20)
        with pytest.raises(SizeLimitReached):
            dataset.require_room(1 << 20, 10)
