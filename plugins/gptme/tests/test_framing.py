from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp_gptme.framing import Frame

START, END = "START_1_99", "END_1_99"
LAST = b"ReturnCode:0 PWDHEX:2f746d70 END_1_99\n"
OUTPUTS = [b"", b"out\n", b"no newline", b"ReturnCode:", b"ReturnCode:0 PWDHEX:2f \n", b"Return\n",
           b"ReturnCode:1 PWDHEX:aa END_1_98\n", b"START_1_99\n", b"\xff\xfe", b"x" * 40]  # fmt: skip


def through(data, cuts=()):
    frame, out, before = Frame(START, END), [], 0
    for cut in [*sorted(cuts), len(data)]:
        out.append(frame.feed(data[before:cut]))
        before = cut
    return b"".join(out) + frame.finish(), frame.ended


@given(outputs=st.lists(st.sampled_from(OUTPUTS), max_size=6), cuts=st.data())
def test_the_frame_is_taken_off_at_any_chunk_border(outputs, cuts):
    output = b"".join(outputs)
    data = b"left over\nSTART_1_99\n" + output + LAST
    at = cuts.draw(st.lists(st.integers(0, len(data)), max_size=8))
    assert through(data, at) == (output, True)


@pytest.mark.parametrize("cut", range(60))
def test_what_comes_behind_the_frame_goes_with_the_command_and_is_told(cut):
    data = b"START_1_99\na\n" + LAST + b"\nof a child\n"
    frame = Frame(START, END)
    out = frame.feed(data[:cut]) + frame.feed(data[cut:]) + frame.finish()
    assert (out, frame.ended, frame.late) == (b"a\n\nof a child\n", True, True)
    frame = Frame(START, END)
    assert frame.feed(b"START_1_99\na\n" + LAST[:-1]) + frame.feed(b"\n") == b"a\n"
    assert not frame.late


def test_without_its_last_line_the_frame_has_not_ended():
    assert through(b"START_1_99\nhalf ReturnCode:0 PWD") == (b"half ReturnCode:0 PWD", False)


def test_before_its_first_line_nothing_is_the_commands():
    assert through(b"left over of another command\n") == (b"", False)


@pytest.mark.parametrize("size", [1 << 14, 1 << 20])
def test_a_line_that_only_looks_like_the_end_is_not_held_for_ever(size):
    frame = Frame(START, END)
    frame.feed(b"START_1_99\n")
    given = b"ReturnCode:" + b"0" * size
    assert frame.feed(given) == given
