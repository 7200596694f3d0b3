from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.tokens import Gauge, estimate
from yarp.types import Cut


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("abcd你好", 3), ("你好", 2), ("abcdef你好", 4)],
)
def test_the_estimate_is_a_quarter_of_ascii_and_one_for_each_other(text, tokens):
    assert estimate(text) == tokens


def gauged(data, cut=None, step=None):
    gauge = Gauge(cut)
    for at in range(0, len(data), step or max(1, len(data))):
        gauge.feed(data[at : at + (step or len(data))])
    gauge.finish()
    return gauge


@given(st.binary(max_size=300), st.integers(1, 7))
def test_how_the_bytes_come_means_nothing(data, step):
    cut = Cut(40, "bytes", keeps="tail", lines=3)
    whole, parts = gauged(data, cut), gauged(data, cut, step)
    assert (whole.whole, whole.left) == (parts.whole, parts.left)
    assert whole.whole == estimate(data.decode("utf-8", "replace"))
    assert whole.left <= whole.whole


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        (Cut(4000, "characters", keeps="ends"), 1000),
        (Cut(4000, "bytes", keeps="tail"), 1000),
        (Cut(4000, "bytes", keeps="head", lines=10), 25),
        (Cut(10**6, "bytes", keeps="tail", lines=10), 25),
        (Cut(10**6, "characters", keeps="ends", lines=10), 25),
        (Cut(300, "tokens", keeps="ends"), 300),
        (Cut(10**6, "tokens", keeps="ends"), 2500),
        (Cut(2000, "characters", keeps="head", beyond=9_999), 500),
        (Cut(2000, "characters", keeps="head", beyond=10_000), 2500),
        (Cut(2000, "bytes", keeps="head", beyond=9_999), 500),
    ],
)
def test_a_cut_leaves_what_the_host_says(cut, left):
    found = gauged(b"123456789\n" * 1000, cut, step=777)
    assert (found.whole, found.left) == (2500, left)


def test_a_cut_of_characters_counts_characters_and_one_of_bytes_bytes():
    text = "字".encode() * 1000
    assert gauged(text, Cut(500, "characters", keeps="head")).left == 500
    assert gauged(text, Cut(300, "bytes", keeps="tail")).left == 100


@pytest.mark.parametrize("unit", ["bytes", "characters", "tokens"])
@pytest.mark.parametrize("keeps", ["head", "tail", "ends"])
def test_what_fits_is_not_cut(unit, keeps):
    for limit in (10, 11, 20):
        assert gauged(b"1234567890", Cut(limit, unit, keeps=keeps)).left == 3
        assert gauged(b"1\n2\n3\n4\n5\n", Cut(limit, unit, keeps=keeps, lines=5)).left == 3
    assert gauged(b"", Cut(1, unit, keeps=keeps)).left == 0


def test_memory_is_bounded_by_the_cut():
    gauge = Gauge(Cut(1000, "bytes", keeps="tail"))
    for _ in range(1000):
        gauge.feed(b"x" * 5000)
    gauge.finish()
    assert (gauge.whole, gauge.left) == (1_250_000, 250)
    assert len(gauge._tail) <= 2000


def test_a_cut_says_what_is_wrong_with_it():
    for wrong in ((0, "bytes", "tail"), (1, "lines", "tail"), (1, "bytes", "middle")):
        with pytest.raises(ValueError, match="cut"):
            Cut(*wrong[:2], keeps=wrong[2])
    cut = Cut(7, "bytes", keeps="tail", lines=2)
    assert Cut(**cut.plain()) == cut
