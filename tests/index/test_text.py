from __future__ import annotations

import pytest

from yarp.index.text import bounded, estimated_tokens, instant_ms, json_bytes, scalar
from yarp.sources.values import Beyond, parse_json


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd你好", 3), ("你好", 2), ("abcdef你好", 4)]
)
def test_tokens_are_estimated_as_the_format_says(text, tokens):
    assert estimated_tokens(text, len(text.encode())) == tokens


def test_a_bound_falls_between_code_points():
    assert bounded("abcdef你好", 5)[:2] == ("abcde", 12)
    assert bounded("abcdef你好", 10)[:2] == ("abcdef你", 12)
    assert bounded("abcdef你好", 12)[:2] == ("abcdef你好", 12)


def test_a_lone_surrogate_becomes_a_replacement_character():
    assert scalar("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert scalar("\ud83d\ude00") == "\U0001f600"


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("2026-01-02T03:04:05.1Z", 1767323045100),
        ("2026-01-02T03:04:05.123456789+01:00", 1767319445123),
        (1767323045123, 1767323045123),
        ("2026-01-02T03:04:05", None),
        ("yesterday", None),
        (1767323045, None),
        (True, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_only_a_time_with_its_offset_or_milliseconds_is_one(value, milliseconds):
    assert instant_ms(value) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        '{"a":[1e999,-1e400],"b":{"c":null,"d":true,"e":1.5}}',
        '{"a":' + "9" * 5000 + "}",
        "[" * 1000 + '{"a":' + "9" * 30 + "}" + "]" * 1000,
        "[" * 300 + "]" * 300,
        '["\\\\ \\" \U0001f600",123456789012345678901234567890]',
    ],
)
def test_json_is_written_again_as_it_was_read(text):
    assert json_bytes(parse_json(text.encode(), beyond=True)[0]).decode() == text


def test_a_number_beyond_any_type_passes_for_no_integer():
    number = Beyond("9" * 5000)
    assert type(number) is not int
    assert instant_ms(number) is None
