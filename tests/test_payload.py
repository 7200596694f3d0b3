"""Payloads of memory and of streams: digests, compression, text."""

import hashlib
import os
import subprocess
import sys

import pytest

from yarp import payload
from yarp.errors import ArchiveCorrupt, StorageError


def body(one):
    return one.body if one.file is None else os.pread(one.file, one.stored_length, 0)


NOISE = os.urandom(3 << 20)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 511,
        b"x" * 512,
        b"line of text\n" * 500_000,
        NOISE,
        # Such streams go on unlike they begin.
        NOISE + b"line of text\n" * 50_000,
        b"line of text\n" * 150_000 + NOISE * 20,
        b"x" * (1 << 20) + NOISE * 8,
    ],
    ids=["empty", "small", "compressed", "text", "noise", "noise-text", "text-noise", "x-noise"],
)
def test_a_stream_and_its_bytes_make_the_same_payload(tmp_path, data):
    writer = payload.PayloadWriter(str(tmp_path))
    for start in range(0, len(data), 70_001):
        writer.write(memoryview(data)[start : start + 70_001])
    streamed, whole = writer.finish(), payload.of(data)
    for one in (streamed, whole):
        assert one.sha256 == hashlib.sha256(data).digest()
        assert one.byte_length == len(data)
        assert payload.decode(one.compression, one.byte_length, one.sha256, body(one)) == data
    assert streamed.compression == whole.compression
    assert os.listdir(tmp_path) == []
    streamed.close()


def test_a_damaged_body_is_found():
    one = payload.of(b"abc" * 1000)
    with pytest.raises(ArchiveCorrupt):
        payload.decode("zstd", one.byte_length, one.sha256, one.body[:-1])
    with pytest.raises(ArchiveCorrupt):
        payload.decode("none", 3, one.sha256, b"abc")
    with pytest.raises(ArchiveCorrupt):
        payload.decode("zstd", one.byte_length - 1, one.sha256, one.body)


@pytest.mark.parametrize(("length", "compression"), [(511, "none"), (512, "zstd")])
def test_compression_begins_where_it_pays(length, compression):
    assert payload.of(b"a" * length).compression == compression


def test_what_does_not_shrink_by_a_twentieth_is_kept_as_it_is():
    assert payload._worthwhile(95, 100)
    assert not payload._worthwhile(96, 100)
    one = payload.of(os.urandom(10_000))
    assert (one.compression, one.stored_length, len(one.body)) == ("none", 10_000, 10_000)


EURO = "€".encode()


@pytest.mark.parametrize(
    ("data", "is_text"),
    [
        (b"", True),
        (b"\0\x1b[0m\r\n", True),
        (EURO, True),
        (EURO[:2], False),
        (b"\xff", False),
        (b"\xed\xa0\x80", False),
        (EURO * 400_000, True),
        (EURO * 400_000 + EURO[:1], False),
        (b"x" * (2 << 20) + b"\xff" + b"x" * (2 << 20), False),
    ],
)
@pytest.mark.parametrize("step", [1 << 16, (1 << 20) - 1])
def test_a_stream_is_text_when_the_whole_of_it_is_utf_8(tmp_path, data, is_text, step):
    writer = payload.PayloadWriter(str(tmp_path))
    for start in range(0, len(data), step):
        writer.write(data[start : start + step])
    one = writer.finish()
    assert one.sha256 == hashlib.sha256(data).digest()
    assert writer.is_text == is_text
    assert writer.media_type == (payload.TEXT if is_text else payload.BINARY)
    one.close()


def test_a_buffer_may_be_used_again_after_it_was_written(tmp_path):
    buffer = bytearray(b"first")
    writer = payload.PayloadWriter(str(tmp_path))
    writer.write(memoryview(buffer))
    buffer[:] = b"other"
    writer.write(memoryview(buffer))
    assert writer.finish().body == b"firstother"


def test_a_directory_that_is_not_there_is_a_storage_error(tmp_path):
    writer = payload.PayloadWriter(str(tmp_path / "absent"))
    with pytest.raises(StorageError, match="no spill file"):
        writer.write(b"x" * (2 << 20))


def test_an_abandoned_stream_leaves_nothing_behind(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    writer = payload.PayloadWriter(str(tmp_path))
    writer.write(b"x" * (2 << 20))
    writer.abandon()
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before


BOUNDED = """
import os, resource, sys
from yarp import payload
from yarp.archive.read import Reader
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey
path, kind, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
archive = SteppedArchive.open(path, narrow=False)
session, given = SessionKey("acme", "bob", "s"), payload.of(b"{}")
archive.begin_call(session, CallFacts("c", "sh", started_at_ms=1, requires_streams=False), given, given, 1)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
writer = payload.PayloadWriter(os.path.dirname(path))
for _ in range(mib * 16):
    writer.write(os.urandom(1 << 16) if kind == "noise" else b"\\0" * (1 << 16))
stream = writer.finish()
archive.result_before(session, "c", given, stream, writer.media_type, 2)
file = Reader.open(path).payload_file(stream.sha256, os.path.dirname(path))
assert os.fstat(file).st_size == mib << 20
print(peak() - before)
"""


@pytest.mark.parametrize("kind", ["noise", "zeros"])
def test_memory_stays_bounded_from_stream_to_archive_and_back(tmp_path, kind):
    path = str(tmp_path / "private" / "tool-calls.sqlite3")
    command = [sys.executable, "-c", BOUNDED, path, kind, "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20


@pytest.mark.slow
def test_a_gigabyte_of_noise_is_one_value_too_large_and_leaves_the_call_started(tmp_path):
    path = str(tmp_path / "private" / "tool-calls.sqlite3")
    command = [sys.executable, "-c", BOUNDED, path, "noise", "1200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "over SQLite's limit" in done.stderr
    command = [sys.executable, "-c", BOUNDED, path, "zeros", "1200"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20


def test_the_c_part_of_zstandard_alone_gives_way_to_the_whole_package():
    code = """
import sys
from yarp import payload
one = payload.of(b"a" * 1000)
assert "zstandard" not in sys.modules
import zstandard
assert zstandard.ZstdDecompressor().decompress(one.body) == b"a" * 1000
assert payload.zstd() is zstandard
assert payload.decode("zstd", 1000, one.sha256, one.body) == b"a" * 1000
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_without_the_c_part_the_whole_package_serves():
    code = """
import sys
from yarp import payload
def refuse(*names):
    raise ImportError
payload.load_alone = refuse
assert payload.of(b"a" * 1000).compression == "zstd"
assert "zstandard" in sys.modules
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
