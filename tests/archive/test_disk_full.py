"""A full disk at each step of a call: a clear error, the archive as it was, and on it goes."""

import os
import subprocess

import pytest

from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.errors import StorageError

SESSION = SessionKey("acme", "bob", "s-1")
LARGE = 250_000


@pytest.fixture
def archive(disk):
    archive = SteppedArchive.open(os.path.join(disk, "private", "tool-calls.sqlite3"), narrow=False)
    yield archive
    archive.close()


def fill(disk):
    file = os.open(os.path.join(disk, "ballast"), os.O_CREAT | os.O_WRONLY)
    size = 1 << 18
    while size:
        try:
            os.write(file, b"x" * size)
        except OSError:
            size //= 2
    os.close(file)


def free(disk):
    os.unlink(os.path.join(disk, "ballast"))


def contents(archive):
    return [
        archive._connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
        for table in ("sessions", "tool_calls", "snapshots", "payloads")
    ]


def noise(name):
    return payload.of(name.encode() + os.urandom(LARGE))


class Life:
    """The steps of one wrapped call, each with more to store than a full disk takes."""

    def __init__(self, archive):
        self.archive = archive
        self.input = noise("input")
        self.result = noise("result")
        self.output = (noise("stdout"), payload.BINARY)
        self.nothing = (payload.of(b""), payload.TEXT)
        self.text = noise("text")
        self.staged = noise("staged")
        self.final = noise("final")

    def begin(self):
        facts = CallFacts("c-1", "sh", started_at_ms=1, requires_streams=True)
        self.archive.begin_call(SESSION, facts, self.input, self.input, 1)

    def streams(self):
        four = Streams(self.output, self.nothing, self.nothing, self.nothing)
        self.archive.record_streams(SESSION, "c-1", four, 2)

    def result_before(self):
        self.archive.result_before(SESSION, "c-1", self.result, None, payload.TEXT, 3)

    def result_text(self):
        self.archive.result_text(SESSION, "c-1", self.text, "complete", 3)

    def stage(self):
        self.archive.stage_result(SESSION, "c-1", self.staged, False, 4)

    def final_result(self):
        self.archive.update_final_result(SESSION, "c-1", self.final, False, 5)


STEPS = ["begin", "streams", "result_before", "result_text", "stage", "final_result"]


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk_leaves_the_archive_as_it_was_before_that_step(archive, disk, step):
    life = Life(archive)
    for earlier in STEPS[: STEPS.index(step)]:
        getattr(life, earlier)()
    before = contents(archive)
    # Else the step might fit into the log that earlier ones left, and rightly succeed.
    archive._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fill(disk)
    for _ in range(2):
        with pytest.raises(StorageError, match="no space left on its disk; free some"):
            getattr(life, step)()
    assert contents(archive) == before
    assert archive._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    free(disk)
    for later in STEPS[STEPS.index(step) :]:
        getattr(life, later)()
    assert archive._connection.execute("SELECT status FROM tool_calls").fetchall() == [
        ("finished",)
    ]
    assert archive._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_hostless_finish_on_a_full_disk_leaves_the_call_started(archive, disk):
    life = Life(archive)
    life.begin()
    before = contents(archive)
    four = Streams(life.output, life.nothing, life.nothing, life.nothing)
    fill(disk)
    with pytest.raises(StorageError):
        archive.finish_run(SESSION, "c-1", four, life.result, life.result, False, 5)
    assert contents(archive) == before
    free(disk)
    archive.finish_run(SESSION, "c-1", four, life.result, life.result, False, 5)


def test_a_large_stored_body_on_a_full_disk_rolls_back(archive, disk, tmp_path):
    life = Life(archive)
    life.begin()
    before = contents(archive)
    writer = payload.PayloadWriter(str(tmp_path))
    writer.write(os.urandom(5 << 20))
    large = writer.finish()
    assert large.file is not None
    with pytest.raises(StorageError, match="no space left"):
        archive.result_before(SESSION, "c-1", life.result, large, payload.BINARY, 3)
    large.close()
    assert contents(archive) == before
    archive.result_before(SESSION, "c-1", life.result, None, payload.BINARY, 3)


def test_an_archive_cannot_be_made_on_a_full_disk_but_can_afterwards(disk):
    path = os.path.join(disk, "private", "tool-calls.sqlite3")
    fill(disk)
    with pytest.raises(StorageError):
        SteppedArchive.open(path, narrow=False)
    free(disk)
    archive = SteppedArchive.open(path, narrow=False)
    assert archive._connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    archive.close()


def test_an_archive_on_a_full_disk_can_still_be_read(archive, disk):
    from yarp.archive.read import Reader

    Life(archive).begin()
    fill(disk)
    reader = Reader.open(archive.path)
    (row,) = reader.calls()
    assert len(reader.payload(reader.snapshot(row.call_id, "input", "before").sha256)) == LARGE + 5
    with pytest.raises(StorageError, match="spill file"):
        reader.payload_file(reader.snapshot(row.call_id, "input", "before").sha256, disk)
    reader.close()


def test_a_stream_that_finds_the_disk_full_says_so(disk):
    fill(disk)
    writer = payload.PayloadWriter(disk)

    def drain():
        for _ in range(100):
            writer.write(os.urandom(1 << 20))
        writer.finish()

    with pytest.raises(StorageError, match="No space left"):
        drain()
    writer.abandon()


def test_a_closed_archive_on_a_read_only_disk_can_be_read_but_not_opened_for_writing(disk):
    from yarp.archive.read import Reader

    path = os.path.join(disk, "private", "tool-calls.sqlite3")
    archive = SteppedArchive.open(path, narrow=False)
    Life(archive).begin()
    archive.close()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    reader = Reader.open(path)
    assert [row.status for row in reader.calls()] == ["started"]
    reader.close()
    with pytest.raises(StorageError, match="writable"):
        SteppedArchive.open(path, narrow=False)
