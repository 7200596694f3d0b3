from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.spool.credentials import CREDENTIALS
from yarp.spool.declared import Redactor
from yarp.spool.receipt import Representation
from yarp.spool.represent import UNDECIDED_BYTES, transform

TEXT = Representation.REPLACEMENT_TEXT
REDACTED = Representation.REDACTED_TEXT
PIECES = ["a", "é", "日", "😀", "\n", "token ghp_" + "a1" * 18, "\ufffd"]


class HoldsLines:
    """Holds a line back until its end, as a redactor that looks at whole lines would."""

    def __init__(self):
        self.rest = b""

    @property
    def held(self):
        return len(self.rest)

    def feed(self, chunk):
        whole, end, self.rest = (self.rest + chunk).rpartition(b"\n")
        return whole + end

    def finish(self):
        return self.rest


LINES = Redactor("lines", window_bytes=1 << 20, make=HoldsLines)


def through(way, data, cuts=(), *, ended=True):
    out, before = [], 0
    for cut in [*sorted(cuts), len(data)]:
        out.append(way.feed(data[before:cut]))
        before = cut
    return b"".join(out) + way.finish(ended=ended)


@given(
    data=st.lists(
        st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=4)), max_size=8
    ).map(b"".join),
    cuts=st.data(),
)
def test_any_cut_of_a_stream_gives_what_the_whole_gives(data, cuts):
    at = cuts.draw(st.lists(st.integers(0, len(data)), max_size=6))
    assert through(transform(TEXT), data, at) == data.decode(errors="replace").encode()
    redactors = [CREDENTIALS, LINES]
    assert through(transform(REDACTED, redactors), data, at) == through(
        transform(REDACTED, redactors), data
    )


def test_a_character_that_is_cut_waits_for_its_rest():
    way = transform(TEXT)
    assert way.feed("x😀".encode()[:3]) == b"x"
    assert way.undecoded == 2
    assert way.feed("😀".encode()[2:]) == "😀".encode()
    assert way.undecoded == 0


def test_a_character_whose_rest_never_came_is_replaced_at_the_end():
    way = transform(TEXT)
    way.feed(b"x\xf0\x9f")
    assert way.finish(ended=True) == "\ufffd".encode()


def test_a_character_is_left_out_where_the_stream_went_on():
    way = transform(TEXT)
    way.feed(b"x\xf0\x9f")
    assert way.finish(ended=False) == b""
    assert way.undecoded == 2


def test_binary_bytes_are_what_they_are():
    data = bytes(range(256))
    assert through(transform(Representation.BINARY, [LINES]), data, [3, 200]) == data


def test_past_the_window_the_rest_of_the_line_is_left_out_and_said():
    way = transform(REDACTED, [LINES])
    secret = b"s" * (3 * UNDECIDED_BYTES)
    out = through(way, b"before\n" + secret + b"\nafter\n", range(0, 3 * UNDECIDED_BYTES, 5000))
    assert out == (
        b"before\n[yarp: %d bytes left out that may hold a secret]\nafter\n" % len(secret)
    )
    assert way.omitted == len(secret)
    assert way.undecided == 0


@pytest.mark.parametrize("chunk", [1000, 4096, 65536, 1 << 20])
def test_chunks_do_not_decide_what_is_left_out(chunk):
    data = b"x" * 30_000 + b"\n" + b"y" * 60_000 + b"\n" + b"z" * 90_000 + b"\nend"
    out = through(transform(REDACTED, [LINES]), data, range(0, len(data), chunk))
    assert out == through(transform(REDACTED, [LINES]), data)
    assert b"x" * 30_000 in out
    assert b"z" * 90_000 not in out


def test_all_redactors_together_hold_no_more_than_the_window():
    way = transform(REDACTED, [LINES, LINES, LINES])
    for _ in range(200):
        way.feed(b"x" * 1000)
        assert way.undecided <= UNDECIDED_BYTES


def test_what_was_undecided_is_left_out_where_the_stream_went_on():
    way = transform(REDACTED, [LINES])
    out = way.feed(b"done\npass") + way.finish(ended=False)
    assert out == b"done\n[yarp: 4 bytes left out that may hold a secret]"
    assert way.omitted == 4


def test_one_huge_line_without_a_secret_is_kept_whole():
    line = b"BEGIN-MARKER\n" + b"x" * (2 << 20) + b"\nEND-MARKER"
    way = transform(REDACTED, [CREDENTIALS])
    assert through(way, line, range(0, len(line), 65536)) == line
    assert way.omitted == 0
