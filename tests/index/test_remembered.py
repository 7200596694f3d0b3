from __future__ import annotations

import pytest

from yarp.index.remembered import Remembered


@pytest.mark.parametrize("asked", [1, 500])
def test_numbers_come_back_by_their_text_however_often_they_are_stored(asked):
    first = Remembered(2)
    for number in range(200):
        first[f"m{number}"] = (number, 7)
    first["m3"] = (33, 8)
    second = Remembered(2, first.stored())
    second["m4"] = (44, 9)
    second["\ud800"] = (2**32 - 1, 0)
    third = Remembered(2, second.stored())
    for found in (second, third):
        for _ in range(asked):
            assert found.get("m5") == (5, 7)
        assert (found.get("m3"), found.get("m4")) == ((33, 8), (44, 9))
        assert found.get("\ud800") == (2**32 - 1, 0)
        assert found.get("never") is None
    assert Remembered(2).get("m1") is None


def test_a_digest_that_lies_across_rows_is_no_key():
    one = Remembered(1)
    one["a"] = (5,)
    row = one.stored()
    assert Remembered(1, b"1234" + row[:8] + b"x" * 12).get("a") is None
    assert Remembered(1, row + b"1234" + row[:8] + b"x" * 12).get("a") == (5,)
