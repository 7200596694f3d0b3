import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.errors import DataError, ReferenceUnknown
from yarp.recover import read
from yarp.recover.select import Text

CAP = 10_000


def texts(data):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return Text(len(data), data), Text(len(data), None, os.dup(file.fileno()))


@given(st.text("ab\r\n", max_size=40).map(str.encode), st.integers(1, 12), st.integers(0, 12))
def test_any_range_of_lines_is_the_slice_of_the_lines(data, first, length):
    whole = data.split(b"\n")
    whole = [line + b"\n" for line in whole[:-1]] + ([whole[-1]] if whole[-1] else [])
    last = first + length
    patch = pytest.MonkeyPatch()
    patch.setattr(read, "_BLOCK_BYTES", 3)
    for text in texts(data):
        assert read.total_lines(text) == len(whole)
        assert read.head(text, last, CAP) == b"".join(whole[:last])
        assert read.tail(text, last, CAP) == b"".join(whole[-last:])
        if last <= len(whole):
            assert read.lines(text, first, last, CAP, CAP) == b"".join(whole[first - 1 : last])
        else:
            with pytest.raises(ReferenceUnknown, match=f"the source has {len(whole)} lines"):
                read.lines(text, first, last, CAP, CAP)
        text.close()
    patch.undo()


@given(st.binary(max_size=40), st.integers(0, 41), st.integers(1, 41))
def test_any_range_of_bytes_is_the_slice_of_the_bytes(data, start, length):
    for text in texts(data):
        if start + length <= len(data):
            assert read.byte_range(text, start, start + length, CAP, CAP) == data[start:][:length]
        else:
            with pytest.raises(ReferenceUnknown, match=f"the source has {len(data)} bytes"):
                read.byte_range(text, start, start + length, CAP, CAP)
        text.close()


def test_what_is_over_a_ceiling_is_refused_whole():
    data = b"123456789\n" * 10
    text = Text(len(data), data)
    assert read.lines(text, 1, 5, 50, 5) == data[:50]
    assert read.byte_range(text, 5, 45, 40, 5) == data[5:45]
    for refused in (
        lambda: read.lines(text, 1, 6, 1000, 5),
        lambda: read.lines(text, 1, 6, 50, 6),
        lambda: read.byte_range(text, 0, 51, 50, 100),
        lambda: read.byte_range(text, 5, 46, 50, 4),
        lambda: read.head(text, 6, 50),
        lambda: read.tail(text, 6, 50),
    ):
        with pytest.raises(DataError, match="more than the") as caught:
            refused()
        assert caught.value.exit_code == 65


def test_lines_are_counted_with_an_unended_last_one():
    assert [read.count_lines(data) for data in (b"", b"a", b"a\n", b"a\nb", b"\n")] == [
        0,
        1,
        1,
        2,
        1,
    ]
