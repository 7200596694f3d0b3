"""Payloads of memory and of streams: digests, compression, text."""

import hashlib
import os

import pytest

from yarp import payload
from yarp.errors import ArchiveCorrupt


def body(one):
    return one.body if one.file is None else os.pread(one.file, one.stored_length, 0)


@pytest.mark.parametrize(
    "data", [b"", b"x" * 511, b"x" * 512, b"line of text\n" * 500_000, os.urandom(3 << 20)]
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
