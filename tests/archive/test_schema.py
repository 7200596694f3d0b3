"""The database as seed 000 writes it: tables, checks, indexes and settings."""

import os
import re
import subprocess
import sys

import pytest

from yarp import sqlite
from yarp.archive import shape
from yarp.archive.write import Archive

# Copied from seed 000, "Database", so that a change of the packaged file cannot pass unseen.
SEED = """\
PRAGMA user_version = 1;
CREATE TABLE sessions (
id INTEGER PRIMARY KEY,
agent TEXT NOT NULL,
account TEXT NOT NULL,
source_session_id TEXT NOT NULL,
started_at_ms INTEGER,
UNIQUE (agent, account, source_session_id)
);
CREATE TABLE tool_calls (
id INTEGER PRIMARY KEY,
session_id INTEGER NOT NULL REFERENCES sessions(id),
source_call_id TEXT NOT NULL,
archive_ref TEXT NOT NULL UNIQUE CHECK (
length(archive_ref) = 35
AND substr(archive_ref, 1, 3) = 'yr_'
AND substr(archive_ref, 4) NOT GLOB '*[^0-9a-f]*'
),
tool_name TEXT NOT NULL,
provider TEXT,
model TEXT,
working_directory TEXT,
started_at_ms INTEGER NOT NULL,
requires_streams INTEGER NOT NULL CHECK (requires_streams IN (0, 1)),
finished_at_ms INTEGER,
status TEXT NOT NULL CHECK (status IN ('started', 'finished')),
is_error INTEGER CHECK (is_error IN (0, 1)),
executed INTEGER CHECK (executed IN (0, 1)),
UNIQUE (session_id, source_call_id)
);
CREATE TABLE payloads (
sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
compression TEXT NOT NULL CHECK (compression IN ('none', 'zstd')),
uncompressed_byte_length INTEGER NOT NULL CHECK (uncompressed_byte_length >= 0),
body BLOB NOT NULL
);
CREATE TABLE snapshots (
tool_call_id INTEGER NOT NULL REFERENCES tool_calls(id) ON DELETE CASCADE,
subject TEXT NOT NULL CHECK (
subject IN (
'input', 'result', 'result_text', 'source_output', 'stdout', 'stderr'
)
),
stage TEXT NOT NULL CHECK (stage IN ('before', 'after')),
media_type TEXT NOT NULL,
source_completeness TEXT CHECK (
source_completeness IN ('complete', 'incomplete', 'unknown')
),
captured_at_ms INTEGER NOT NULL,
payload_sha256 BLOB NOT NULL REFERENCES payloads(sha256),
PRIMARY KEY (tool_call_id, subject, stage),
CHECK (
(
subject = 'result_text'
AND stage = 'before'
AND source_completeness IS NOT NULL
)
OR (
subject <> 'result_text'
AND source_completeness IS NULL
)
)
);
CREATE INDEX tool_calls_started_at_idx ON tool_calls(started_at_ms);
CREATE INDEX tool_calls_tool_name_idx ON tool_calls(tool_name);
CREATE INDEX snapshots_payload_idx ON snapshots(payload_sha256);
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "private" / "tool-calls.sqlite3")


def statements(sql):
    return [part.strip() for part in sql.split(";") if part.strip()]


def test_a_fresh_archive_holds_the_statements_of_the_seed_and_nothing_else(path):
    Archive.open(path, narrow=False).close()
    connection = sqlite.connect(path, readonly=True)
    found = [
        row[0]
        for row in connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        )
    ]
    connection.close()
    assert found == statements(SEED)[1:]


def test_the_packaged_schema_is_the_seed_byte_for_byte():
    with open(shape._SCHEMA_FILE, encoding="utf-8") as file:
        assert file.read() == SEED


def test_the_six_settings_read_back_as_the_seeds(path):
    archive = Archive.open(path, narrow=False)
    names = (
        "journal_mode",
        "synchronous",
        "foreign_keys",
        "busy_timeout",
        "auto_vacuum",
        "user_version",
    )
    found = {name: archive._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
    archive.close()
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "auto_vacuum": 2,
        "user_version": 1,
    }


def test_the_write_ahead_log_stays_short(path):
    archive = Archive.open(path, narrow=False)
    assert archive._connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (256,)
    archive.close()


def test_the_directory_and_all_files_are_private_from_their_creation(path):
    before = os.umask(0)
    try:
        archive = Archive.open(path, narrow=False)
    finally:
        os.umask(before)
    directory = os.path.dirname(path)
    assert os.stat(directory).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(directory)) == [
        "tool-calls.sqlite3",
        "tool-calls.sqlite3-shm",
        "tool-calls.sqlite3-wal",
    ]
    for name in os.listdir(directory):
        assert os.stat(os.path.join(directory, name)).st_mode & 0o777 == 0o600
    archive.close()


OPEN_AT_ONCE = """
import sys
from yarp.archive.write import Archive
sys.stdin.readline()
Archive.open(sys.argv[1], narrow=False).close()
"""


def test_eight_processes_may_open_a_new_archive_at_once(path):
    os.mkdir(os.path.dirname(path), 0o700)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AT_ONCE, path],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(8)
    ]
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    assert [(child.communicate()[1], child.returncode) for child in children] == [(b"", 0)] * 8
    connection = sqlite.connect(path, readonly=True)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table'"
    ).fetchone() == (4,)
    connection.close()


def test_the_statement_of_the_reference_lists_the_newest_calls(store):
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    with open(os.path.join(root, "docs", "reference", "archive.md"), encoding="utf-8") as file:
        (statement,) = re.findall(r"```sql\n--[^\n]*\n(.*?)```", file.read(), re.DOTALL)
    reference = store.call("one")
    assert store.sql(statement) == [(reference, "acme", "sh", "1970-01-01 00:00:01", "finished")]
