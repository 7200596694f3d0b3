"""An empty file is what a writer begins with: no archive yet, and the next writer makes one in it."""

import contextlib
import os
import sqlite3

import pytest

from yarp.archive.prune import prune
from yarp.archive.read import Reader
from yarp.archive.redact import redact
from yarp.archive.restore import restore
from yarp.archive.stats import stats
from yarp.archive.verify import verify
from yarp.errors import ArchiveUnavailable

COMMANDS = {
    "read": Reader.open,
    "verify": verify,
    "stats": stats,
    "prune": lambda path: prune(path, before_ms=1),
    "prune --dry-run": lambda path: prune(path, before_ms=1, dry_run=True),
    "redact": lambda path: redact(path, "yr_" + "0" * 32, 1),
    "restore": lambda path: restore(
        path, agent="a", account="b", source_session_id="c", source_call_id="d"
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_that_there_is_no_archive_yet_and_makes_none(store, name):
    os.close(os.open(store.path, os.O_CREAT, 0o600))
    with pytest.raises(ArchiveUnavailable, match="there is no archive yet"):
        COMMANDS[name](store.path)
    assert os.path.getsize(store.path) == 0


@pytest.mark.parametrize("name", ["read", "verify", "stats", "prune --dry-run", "restore"])
def test_a_writer_that_was_killed_before_it_made_the_tables_left_no_archive_either(store, name):
    os.close(os.open(store.path, os.O_CREAT, 0o600))
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert os.path.getsize(store.path) > 0
    with pytest.raises(ArchiveUnavailable, match="there is no archive yet"):
        COMMANDS[name](store.path)


def test_the_next_writer_makes_an_archive_in_it(store):
    os.close(os.open(store.path, os.O_CREAT, 0o600))
    store.call("one")
    assert verify(store.path).problems == ()
