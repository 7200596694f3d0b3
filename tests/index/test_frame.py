from __future__ import annotations

import hashlib
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from yarp.errors import DataError
from yarp.index import frame
from yarp.index.frame import TraceFile


def frames(path, most_bytes=1 << 20, **where):
    with TraceFile(str(path)) as file:
        found = list(file.frames(most_bytes, **where))
        return found, file.end, file.tail


def test_every_complete_line_is_a_record(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(
        b'{"a":1}\r\n\nno json\n{"a": NaN}\n"\\ud800"\n' + b'"' + b"x" * 99 + b'"\n{"b":'
    )
    found, end, tail = frames(path, 99)
    assert [one.status for one in found] == [
        "ok",
        "malformed",
        "malformed",
        "malformed",
        "ok",
        "oversized",
    ]
    assert found[1].error == "empty"
    assert found[4].line.value == "\ufffd"
    data = path.read_bytes()
    for seq, one in enumerate(found):
        assert one.seq == seq
        own = data[one.offset : one.offset + one.length]
        assert one.sha256 == hashlib.sha256(own).digest()
        assert data[one.offset + one.length : one.offset + one.length + 1] == b"\n"
    assert data[end:] == b'{"b":'
    assert tail


@pytest.mark.parametrize("number", [2**63, 2**64, 10**40, -(2**70)])
def test_an_integer_of_any_size_is_exact(tmp_path, number):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"n": number}) + "\n")
    assert frames(path)[0][0].line.value == {"n": number}


@pytest.mark.parametrize("number", ["1e999", "-1e400", "9" * 5000, "-" + "1" * 5000])
def test_a_number_that_no_type_holds_takes_no_record_away(tmp_path, number):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"n": {number}, "text": "x"}}\n{{"n": NaN}}\n{{"n": -Infinity}}\n')
    found = frames(path)[0]
    assert [one.status for one in found] == ["ok", "malformed", "malformed"]
    value = found[0].line.value
    assert value["text"] == "x"
    assert value["n"] == float("-inf" if number.startswith("-") else "inf")
    assert repr(value["n"]) == number


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=12),
    block=st.integers(1, 50),
    most=st.integers(0, 30),
    compressed=st.booleans(),
)
def test_any_size_of_blocks_gives_the_same_records(
    tmp_path_factory, lines, block, most, compressed
):
    path = tmp_path_factory.mktemp("f") / ("x.jsonl.zst" if compressed else "x.jsonl")
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(zstandard.compress(data + b"rest") if compressed else data + b"rest")
    before, frame.BLOCK_BYTES = frame.BLOCK_BYTES, block
    try:
        found, end, tail = frames(path, most)
        assert (end, tail) == (len(data), True)
        assert [data[one.offset : one.offset + one.length] for one in found] == lines
        assert [one.sha256 for one in found] == [hashlib.sha256(line).digest() for line in lines]
        assert [one.status == "oversized" for one in found] == [len(line) > most for line in lines]
        if len(lines) > 1:
            start = found[1].offset
            again = frames(path, most, start=start, seq=1)[0]
            assert [(one.seq, one.sha256) for one in again] == [
                (one.seq, one.sha256) for one in found[1:]
            ]
    finally:
        frame.BLOCK_BYTES = before


def test_a_file_that_is_not_zstd_is_refused(tmp_path):
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(b"no zstd at all")
    with pytest.raises(DataError, match="not what zstd writes"):
        frames(path)


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/x.jsonl"])
@pytest.mark.parametrize("inside", [False, True])
def test_no_link_is_followed_wherever_it_stands_in_the_path(tmp_path, link, inside):
    path = tmp_path / "a" / "b" / "x.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    assert len(frames(path)[0]) == 1
    elsewhere = tmp_path / ("a/kept" if inside and link != "a" else "elsewhere")
    (tmp_path / link).rename(elsewhere)
    (tmp_path / link).symlink_to(elsewhere)
    assert path.read_text() == "{}\n"
    with pytest.raises(OSError, match="a link stands in its path"):
        frames(path)
