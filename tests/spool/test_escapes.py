from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.spool.credentials import CREDENTIALS
from yarp.spool.escapes import Escapes
from yarp.spool.receipt import Representation
from yarp.spool.represent import transform

TEXTS = {
    b"a\x1b[01;31m\x1b[Kb\x1b[m\x1b[Kc": b"abc",
    b"\x1b]0;title\x07x\x1b]8;;https://host/\x1b\\link\x1b]8;;\x1b\\": b"xlink",
    b"\x1b(B\x1b[?25l\x1b7\x1b8\x1bMa\x1b=": b"a",
    b"\x1bPq#0;1\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d": b"abcd",
    b"\x1b]never ended\nnext line": b"\nnext line",
    b"\x1b[\nx": b"\nx",
    b"\x1b\x1b[1mx\x1b": b"x",
    b"\x1b[1;": b"",
    "é\x1b[1m日\x1b[0m".encode(): "é日".encode(),
}
PIECES = [b"a", b"\n", b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"[", b"]", b"0;3", b"m", b"\x07", b"\\", b" ",
          b"(", b"B", b";" * 300, b"x" * 4100, "é".encode()]  # fmt: skip


def through(data, cuts=()):
    one, out, before = Escapes(), [], 0
    for cut in [*sorted(cuts), len(data)]:
        out.append(one.feed(data[before:cut]))
        assert one.held < 4200
        before = cut
    return b"".join(out) + one.finish()


@pytest.mark.parametrize("data", TEXTS)
def test_what_steers_a_terminal_is_taken_out_wherever_a_chunk_ends(data):
    for cut in range(len(data) + 1):
        assert through(data, [cut]) == TEXTS[data]
    assert through(data, range(len(data))) == TEXTS[data]


@given(data=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), cuts=st.data())
def test_the_chunks_make_no_difference(data, cuts):
    at = cuts.draw(st.lists(st.integers(0, len(data)), max_size=6))
    out = through(data, at)
    assert out == through(data)
    assert b"\x1b" not in out


def test_one_that_never_ends_takes_a_bounded_part():
    assert len(through(b"\x1b]" + b"x" * 10_000)) > 5000


@pytest.mark.parametrize("cut", range(60))
def test_a_secret_that_is_coloured_in_the_middle_is_taken_out(cut):
    data = b"x ghp_abcdefghij\x1b[01;31m\x1b[KKLMNOPQRST\x1b[mUVWXYZ0123 MY_API_\x1b[1mKEY\x1b[m=hunter2\n"
    way = transform(Representation.REDACTED_TEXT, [CREDENTIALS])
    out = way.feed(data[:cut]) + way.feed(data[cut:]) + way.finish(ended=True)
    assert out == b"x [redacted] MY_API_KEY=[redacted]\n"


def test_other_representations_keep_them():
    way = transform(Representation.REPLACEMENT_TEXT)
    assert way.feed(b"\x1b[1mx") == b"\x1b[1mx"


def test_what_began_as_an_escape_when_the_reading_stopped_is_no_loss():
    way = transform(Representation.REDACTED_TEXT, [CREDENTIALS])
    assert way.feed(b"7\x1b[1;") == b"7"
    assert way.undecided == 4
    assert way.finish(ended=False) == b""
    assert (way.undecided, way.omitted) == (0, 0)
