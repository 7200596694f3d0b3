from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.sources.values import Beyond, json_text, parse_json

NUMBERS = ["9" * 5000, "-" + "1" * 100_000, "1e400", "-1E+400"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from([Beyond(each) for each in NUMBERS]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(json_values)
def test_what_is_written_is_read_as_the_same(value):
    read, replaced = parse_json(json_text(value).encode(), beyond=True)
    assert (read, replaced) == (value, False)
    assert json_text(read) == json_text(value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2}, {None: 1}, {"a": b""}, [{1}]]
)
def test_what_is_no_json_is_not_written(value):
    with pytest.raises((TypeError, ValueError)):
        json_text(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_value_error(data):
    try:
        parse_json(data)
    except ValueError as error:
        said = str(error)
    else:
        said = ""
    assert len(said) < 60
