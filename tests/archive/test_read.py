"""Reading: refusals, the recovery order, verified payloads."""

import os
import sqlite3
import subprocess
import sys

import pytest

from yarp import payload, sqlite
from yarp.archive.read import Reader
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.errors import (
    ArchiveCorrupt,
    ArchiveUnavailable,
    ArchiveVersionUnsupported,
    PermissionsTooOpen,
    ReferenceUnknown,
    StorageError,
)

EMPTY = payload.of(b"")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "private" / "tool-calls.sqlite3")


@pytest.fixture
def archive(path):
    archive = SteppedArchive.open(path, narrow=False)
    yield archive
    archive.close()


@pytest.fixture
def reader(archive):
    reader = Reader.open(archive.path)
    yield reader
    reader.close()


def begin(archive, call, *, agent="acme", session="s-1", tool="sh", at=1000):
    given = payload.of_json({"command": call})
    return archive.begin_call(
        SessionKey(agent, "bob", session),
        CallFacts(call, tool, started_at_ms=at, requires_streams=False),
        given,
        given,
        at,
    )


def key(session="s-1"):
    return SessionKey("acme", "bob", session)


def modes(path):
    return {name: os.stat(os.path.join(path, name)).st_mode for name in os.listdir(path)}


def test_there_is_no_archive_before_the_first_capture(path):
    with pytest.raises(ArchiveUnavailable, match="no archive yet"):
        Reader.open(path)
    assert not os.path.exists(os.path.dirname(path))


@pytest.mark.parametrize("name", ["", "tool-calls.sqlite3"])
def test_what_others_can_reach_is_refused_and_left_as_it_is(path, name):
    SteppedArchive.open(path, narrow=False).close()
    open_path = os.path.join(os.path.dirname(path), name).rstrip("/")
    os.chmod(open_path, 0o755)
    for opened in (Reader.open, lambda path: SteppedArchive.open(path, narrow=False)):
        with pytest.raises(PermissionsTooOpen, match="chmod"):
            opened(path)
    assert os.stat(open_path).st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["", "tool-calls.sqlite3"])
def test_the_known_default_directory_is_narrowed(path, name):
    SteppedArchive.open(path, narrow=False).close()
    open_path = os.path.join(os.path.dirname(path), name).rstrip("/")
    os.chmod(open_path, 0o755)
    SteppedArchive.open(path, narrow=True).close()
    assert os.stat(open_path).st_mode & 0o077 == 0


def test_a_link_is_refused(path, tmp_path):
    SteppedArchive.open(path, narrow=False).close()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    link = str(other / "tool-calls.sqlite3")
    os.symlink(path, link)
    for opened in (Reader.open, lambda path: SteppedArchive.open(path, narrow=True)):
        with pytest.raises(StorageError, match="does not follow links"):
            opened(link)


def test_a_newer_version_is_refused_and_left_as_it_is(path):
    SteppedArchive.open(path, narrow=False).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with open(path, "rb") as file:
        before = file.read()
    for opened in (Reader.open, lambda path: SteppedArchive.open(path, narrow=False)):
        with pytest.raises(ArchiveVersionUnsupported, match="version 2 is newer"):
            opened(path)
    with open(path, "rb") as file:
        assert file.read() == before


@pytest.mark.parametrize("version", [0, 1])
def test_another_programs_database_is_refused_and_left_as_it_is(path, version):
    os.mkdir(os.path.dirname(path), 0o700)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    os.chmod(path, 0o600)
    with open(path, "rb") as file:
        before = file.read()
    for opened in (Reader.open, lambda path: SteppedArchive.open(path, narrow=False)):
        with pytest.raises(
            ArchiveVersionUnsupported, match="another program's database; move it away"
        ):
            opened(path)
    with open(path, "rb") as file:
        assert file.read() == before
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path):
    os.mkdir(os.path.dirname(path), 0o700)
    with open(path, "w") as file:
        file.write("a letter to a friend, " * 100)
    os.chmod(path, 0o600)
    for opened in (Reader.open, lambda path: SteppedArchive.open(path, narrow=False)):
        with pytest.raises(ArchiveVersionUnsupported, match="no SQLite database"):
            opened(path)
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_directory_in_the_archives_place_is_refused(path):
    os.makedirs(path, 0o700)
    os.chmod(os.path.dirname(path), 0o700)
    for opened in (Reader.open, lambda path: SteppedArchive.open(path, narrow=True)):
        with pytest.raises(StorageError, match="not a regular file"):
            opened(path)


def test_an_empty_private_file_becomes_the_archive(path):
    os.mkdir(os.path.dirname(path), 0o700)
    os.close(os.open(path, os.O_CREAT, 0o600))
    with pytest.raises(ArchiveUnavailable, match="there is no archive yet"):
        Reader.open(path)
    SteppedArchive.open(path, narrow=False).close()
    Reader.open(path).close()


def test_a_reader_changes_no_file_of_a_closed_archive(path):
    SteppedArchive.open(path, narrow=False).close()
    with open(path, "rb") as file:
        before = file.read()
    Reader.open(path).close()
    with open(path, "rb") as file:
        assert file.read() == before
    assert all(mode & 0o077 == 0 for mode in modes(os.path.dirname(path)).values())


def test_a_call_is_found_by_its_reference_and_by_the_hosts_ids(archive, reader):
    reference = begin(archive, "c-1")
    assert reader.call(reference).source_call_id == "c-1"
    assert reader.find("acme", "bob", "s-1", "c-1").archive_ref == reference
    assert reader.find("acme", "eve", "s-1", "c-1") is None
    with pytest.raises(ReferenceUnknown, match="yarp calls"):
        reader.call("yr_" + "0" * 32)


def test_calls_come_newest_first_and_filtered(archive, reader):
    begin(archive, "c-1", at=1000)
    begin(archive, "c-3", at=3000, tool="python")
    begin(archive, "c-2", at=2000, session="s-2")
    begin(archive, "c-4", at=1000, agent="other")
    archive.finish_call(key(), "c-3", payload.of_json({}), True, False, 3001)

    def found(**filters):
        return [row.source_call_id for row in reader.calls(**filters)]

    assert found() == ["c-3", "c-2", "c-4", "c-1"]
    assert found(limit=2) == ["c-3", "c-2"]
    assert found(agent="acme", since_ms=2000) == ["c-3", "c-2"]
    assert found(session="s-2") == ["c-2"]
    assert found(tool="python") == found(failed=True) == ["c-3"]


def test_unknown_facts_are_none_and_never_zero(archive, reader):
    row = reader.call(begin(archive, "c-1"))
    assert (row.provider, row.finished_at_ms, row.is_error, row.executed) == (
        None,
        None,
        None,
        None,
    )


def test_sources_are_the_streams_else_the_text_else_the_source_output(archive, reader):
    row = reader.call(begin(archive, "c-1"))
    assert reader.sources(row) == []

    def names():
        return [(one.name, one.completeness, one.byte_length) for one in reader.sources(row)]

    archive.result_before(
        key(), "c-1", payload.of_json({}), payload.of(b"\xff\xfe"), payload.BINARY, 1
    )
    assert names() == [("source_output", "complete", 2)]
    archive.result_text(key(), "c-1", payload.of(b"text"), "incomplete", 1)
    assert names() == [("result_text", "incomplete", 4)]
    some = (payload.of(b"out\n"), payload.TEXT)
    none = (EMPTY, payload.TEXT)
    archive.record_streams(key(), "c-1", Streams(some, some, none, none), 1)
    assert names() == [("stdout", "complete", 4), ("stderr", "complete", 0)]


@pytest.mark.parametrize("data", [b"", b"short", b"text line\n" * 300_000, os.urandom(3 << 20)])
def test_a_payload_reads_back_exactly_in_memory_and_as_a_file(archive, reader, tmp_path, data):
    begin(archive, "c-1")
    writer = payload.PayloadWriter(str(tmp_path))
    writer.write(data)
    one = writer.finish()
    archive.result_before(key(), "c-1", payload.of_json({}), one, writer.media_type, 1)
    one.close()
    assert reader.payload(one.sha256) == data
    file = reader.payload_file(one.sha256, str(tmp_path))
    assert os.lseek(file, 0, os.SEEK_CUR) == 0
    assert os.fstat(file).st_nlink == 0
    with open(file, "rb") as stream:
        assert stream.read() == data


def damage(archive, how):
    archive._connection.execute("UPDATE payloads SET " + how)


@pytest.mark.parametrize(
    "how",
    [
        "body = substr(body, 1, length(body) - 5)",
        "body = zeroblob(length(body))",
        "body = x'28b52ffd' || substr(body, 5, 3) || zeroblob(20)",
        "compression = 'none'",
        "uncompressed_byte_length = uncompressed_byte_length + 1",
        "uncompressed_byte_length = uncompressed_byte_length - 1",
        "uncompressed_byte_length = 0",
        "sha256 = zeroblob(32)",
    ],
)
def test_a_damaged_payload_is_never_given_out(archive, reader, tmp_path, how):
    given = payload.of(b"a line of text\n" * 1000)
    archive._connection.execute("PRAGMA foreign_keys = OFF")
    with sqlite.transaction(archive._connection, archive.path):
        archive._insert_payload(given)
    damage(archive, how)
    sha256 = b"\0" * 32 if how.startswith("sha256") else given.sha256
    with pytest.raises(ArchiveCorrupt, match=sha256.hex()):
        reader.payload(sha256)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ArchiveCorrupt, match=sha256.hex()):
        reader.payload_file(sha256, str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
    assert [name for name in os.listdir(tmp_path) if name != "private"] == []


def test_a_payload_that_is_not_there_is_named(reader, tmp_path):
    with pytest.raises(ArchiveCorrupt, match="missing"):
        reader.payload(b"\1" * 32)
    with pytest.raises(ArchiveCorrupt, match="missing"):
        reader.payload_file(b"\1" * 32, str(tmp_path))


FORBIDDEN = "typing enum json re dataclasses pathlib subprocess sqlite3 zstandard orjson hashlib threading signal tempfile"


def test_a_small_call_is_written_and_read_without_a_heavy_import(path):
    code = f"""
import sys
from yarp import canonical, payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey
from yarp.archive.read import Reader
archive = SteppedArchive.open({path!r}, narrow=False)
given = payload.of(canonical.encode({{"argv": ["git", "status", "\\u00e9"]}}))
session = SessionKey("acme", "bob", "s")
reference = archive.begin_call(
    session, CallFacts("c", "run", started_at_ms=1, requires_streams=False), given, given, 1)
writer = payload.PayloadWriter({os.path.dirname(path)!r})
writer.write(b"a line of text\\n" * 2000)
result = payload.of(canonical.encode({{"exitCode": 0, "receipt": {{"a": [1, None, True]}}}}))
archive.result_before(session, "c", result, writer.finish(), writer.media_type, 2)
archive.finish_call(session, "c", result, False, True, 2)
reader = Reader.open({path!r})
source = reader.sources(reader.call(reference))[0]
assert reader.payload(source.sha256) == b"a line of text\\n" * 2000
print(*sorted(set(sys.modules) & set({FORBIDDEN.split()!r})))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
