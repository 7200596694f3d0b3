import os
import sqlite3

import pytest

from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.testing.files import small_disk

# The shape of version 1 before references and result texts, with its auto_vacuum at 0.
OLD_SHAPE = """
PRAGMA journal_mode = WAL;
PRAGMA user_version = 1;
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, account TEXT NOT NULL,
  source_session_id TEXT NOT NULL, started_at_ms INTEGER,
  UNIQUE (agent, account, source_session_id)
);
CREATE TABLE tool_calls (
  id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES sessions(id),
  source_call_id TEXT NOT NULL, tool_name TEXT NOT NULL, provider TEXT, model TEXT,
  working_directory TEXT, started_at_ms INTEGER NOT NULL,
  requires_streams INTEGER NOT NULL CHECK (requires_streams IN (0, 1)),
  finished_at_ms INTEGER, status TEXT NOT NULL CHECK (status IN ('started', 'finished')),
  is_error INTEGER CHECK (is_error IN (0, 1)), executed INTEGER CHECK (executed IN (0, 1)),
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
    subject IN ('input', 'result', 'source_output', 'stdout', 'stderr')
  ),
  stage TEXT NOT NULL CHECK (stage IN ('before', 'after')),
  media_type TEXT NOT NULL, captured_at_ms INTEGER NOT NULL,
  payload_sha256 BLOB NOT NULL REFERENCES payloads(sha256),
  PRIMARY KEY (tool_call_id, subject, stage)
);
CREATE INDEX tool_calls_started_at_idx ON tool_calls(started_at_ms);
CREATE INDEX tool_calls_tool_name_idx ON tool_calls(tool_name);
CREATE INDEX snapshots_payload_idx ON snapshots(payload_sha256);
"""


class Store:
    """An archive of a made-up host in a private directory, filled through the real writer."""

    def __init__(self, directory):
        os.mkdir(directory, 0o700)
        self.directory = str(directory)
        self.path = os.path.join(self.directory, "tool-calls.sqlite3")

    def call(self, name, text="done", **words):
        """Archive one call, finished unless `finished_at_ms` is None, and give its reference."""
        archive = SteppedArchive.open(self.path, narrow=False)
        try:
            # Killing the machine is not what these tests do.
            archive._connection.execute("PRAGMA synchronous = OFF")
            return self._call(archive, name, text, **words)
        finally:
            archive.close()

    def fill(self, count, size=20000):
        """Archive `count` calls c0, c1, ... of about `size` bytes, finished at 2000, 2001, ..."""
        archive = SteppedArchive.open(self.path, narrow=False)
        archive._connection.execute("PRAGMA synchronous = OFF")
        for number in range(count):
            text = os.urandom(size // 2).hex()
            self._call(archive, f"c{number}", text, finished_at_ms=2000 + number)
        archive.close()

    def _call(self, archive, name, text, *, session="chat", finished_at_ms=2000, streams=None):
        key = SessionKey("acme", "ann", session, 1000)
        facts = CallFacts(name, "sh", started_at_ms=1000, requires_streams=streams is not None)
        command = payload.of_json({"command": name})
        reference = archive.begin_call(key, facts, command, command, 1000)
        if finished_at_ms is None:
            return reference
        result = payload.of_json({"text": text})
        if streams is not None:
            out, err = (
                (payload.of(data), payload.TEXT if data.isascii() else payload.BINARY)
                for data in streams
            )
            archive.record_streams(key, name, Streams(out, out, err, err), 1500)
        archive.result_before(key, name, result, None, payload.TEXT, 1500)
        archive.finish_call(key, name, result, False, True, finished_at_ms)
        return reference

    def sql(self, *statements, checks=True):
        """Run statements behind the writer's back; the rows of the last one."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            if not checks:
                connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("PRAGMA foreign_keys = OFF")
            rows = []
            for statement in statements:
                words = (statement,) if isinstance(statement, str) else statement
                rows = connection.execute(*words).fetchall()
            return rows
        finally:
            connection.close()

    def bytes_on_disk(self):
        """Everything in the archive's directory, one after the other."""
        found = b""
        for name in sorted(os.listdir(self.directory)):
            with open(os.path.join(self.directory, name), "rb") as file:
                found += file.read()
        return found

    def make_old(self, calls):
        """Make an archive of the old shape with `calls` finished calls and one incomplete."""
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(self.path)
        connection.executescript(OLD_SHAPE)
        connection.execute("INSERT INTO sessions VALUES (1, 'acme', 'ann', 'chat', 1000)")
        for number in range(1, calls + 2):
            done = number <= calls
            connection.execute(
                "INSERT INTO tool_calls VALUES (?, 1, ?, 'sh', NULL, NULL, '/', 1000, 0, ?, ?, ?, ?)",
                (
                    number,
                    f"c{number}",
                    *((2000, "finished", 0, 1) if done else (None, "started", None, None)),
                ),
            )
            for subject in ("input", "result") if done else ("input",):
                kept = payload.of_json({subject: number})
                connection.execute(
                    "INSERT INTO payloads VALUES (?, ?, ?, ?)",
                    (kept.sha256, kept.compression, kept.byte_length, kept.body),
                )
                for stage in ("before", "after"):
                    connection.execute(
                        "INSERT INTO snapshots VALUES (?, ?, ?, 'application/json', 1000, ?)",
                        (number, subject, stage, kept.sha256),
                    )
        connection.commit()
        connection.close()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "private")


@pytest.fixture
def store_in():
    return Store


@pytest.fixture
def another_store(tmp_path):
    return Store(tmp_path / "another")


@pytest.fixture
def disk(tmp_path):
    """A file system of 4 MiB."""
    with small_disk(tmp_path / "disk", 4) as point:
        yield str(point)
