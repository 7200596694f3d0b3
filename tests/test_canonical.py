"""RFC 8785 bytes: the fast paths against the reference, and host text that no path can hold."""

import contextlib
import json
import random
import struct
import subprocess
import sys

import orjson
import pytest
import rfc8785

from yarp import canonical

SMALL = 20_000
LARGE = 100_000


def characters(rng):
    pools = (
        "abcXYZ019 _-./",
        '"\\\b\f\n\r\t\x00\x1f\x7f',
        "\u0080\u00e9\u2028\u2029\ud7ff",
        "\ue000\uf8ff\ufb33\uffff",
        "\U00010000\U0001f600\U0010ffff",
    )
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.choice((0, 1, 3, 8))))


def number(rng):
    kind = rng.randrange(7)
    if kind == 0:
        return rng.randrange(-1000, 1000)
    if kind == 1:
        return rng.randrange(-(2**53) + 1, 2**53)
    if kind == 2:
        return rng.choice((0.0, -0.0, 1.0, 1e16, 1e20, 1e21, 1e22, 1e-5, 1e-6, 1e-7, 5e-324, 1e300))
    if kind == 3:
        return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-12, 25)
    if kind == 4:
        return float(rng.randrange(-(2**60), 2**60))
    if kind == 5:
        return rng.uniform(1e-7, 2e-5)
    return rng.randrange(100) / 8


def value(rng, depth=0):
    kind = rng.randrange(6 if depth < 4 else 4)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return number(rng)
    if kind in (2, 3):
        return characters(rng)
    if kind == 4:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {characters(rng): value(rng, depth + 1) for _ in range(rng.randrange(5))}


def compare(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        one = value(rng)
        wanted = rfc8785.dumps(one)
        assert canonical.encode(one) == wanted
        with contextlib.suppress(canonical._Declined):
            assert canonical._encode_small(one) == wanted
        assert canonical.encode_text(json.dumps(one)) == wanted


def test_the_fast_paths_equal_the_reference_on_generated_values():
    compare(SMALL, 1)


@pytest.mark.slow
def test_the_fast_paths_equal_the_reference_on_many_generated_values():
    compare(LARGE, 2)


# RFC 8785, section 3.2.2.
EXAMPLE = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50,
              2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
EXAMPLE_CANONICAL = (
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
)
# RFC 8785, section 3.2.3.
SORTING = r"""{
  "\u20ac": "Euro Sign", "\r": "Carriage Return",
  "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
}"""
SORTED = [
    "Carriage Return",
    "One",
    "Control",
    "Latin Small Letter O With Diaeresis",
    "Euro Sign",
    "Emoji: Grinning Face",
    "Hebrew Letter Dalet With Dagesh",
]
# RFC 8785, Appendix B.
NUMBERS = """
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2
"""


def double(digits):
    return struct.unpack(">d", bytes.fromhex(digits))[0]


def test_the_rfcs_own_example_has_the_rfcs_bytes():
    assert canonical.encode_text(EXAMPLE).decode() == EXAMPLE_CANONICAL


def test_the_rfcs_sorting_example_has_the_rfcs_order():
    encoded = canonical.encode_text(SORTING)
    assert list(json.loads(encoded).values()) == SORTED


@pytest.mark.parametrize("line", NUMBERS.split("\n")[1:-1])
def test_the_rfcs_numbers_print_as_the_rfc_says(line):
    digits, printed = line.split()
    assert canonical.encode(double(digits)) == printed.encode()
    assert canonical.encode([{"n": double(digits)}]) == b'[{"n":%s}]' % printed.encode()


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        b"x",
        2**53 + 1,
        10**21,
        10**400,
    ],
)
def test_what_rfc_8785_cannot_hold_is_refused(value):
    for nested in (value, [value], {"a": [value]}):
        with pytest.raises(canonical.NotCanonical):
            canonical.encode(nested)


@pytest.mark.parametrize(
    "integer",
    [
        2**53 - 1,
        2**53,
        -(2**53),
        2**53 + 2,
        10**16,
        10**20,
        999999999999999900000,
        295147905179352830000,
    ],
)
def test_an_integer_whose_double_prints_the_same_digits_is_written_so(integer):
    assert canonical.encode(integer) == str(integer).encode()
    assert canonical.encode_text(f'{{"n": [{integer}]}}') == b'{"n":[%d]}' % integer


@pytest.mark.parametrize(
    "text",
    [
        "1234567890123456789",
        '{"id": 9007199254740993}',
        "18446744073709551616",
        "1" + "0" * 21,
        "1" * 5000,
        r'"\ud800"',
        r'{"\udc00": 1}',
        '{"a": 1, "a": 2}',
        '[{"b": {"a": 1, "\\u0061": 1}}]',
        "NaN",
        "[-Infinity, Infinity]",
        "1e400",
        '{"yarpRawJson": "the host says so itself"}',
        "[" * 100_000 + "]" * 100_000,
    ],
)
def test_json_that_rfc_8785_would_change_is_kept_as_its_own_text(text):
    for given in (text, text.encode(), f" {text}\n"):
        encoded = canonical.encode_text(given)
        assert encoded == orjson.dumps({"yarpRawJson": text})
        assert canonical.raw_text(encoded) == text


def test_a_bare_surrogate_in_text_becomes_its_escape():
    assert canonical.raw_text(canonical.encode_text('"\ud800"')) == r'"\ud800"'


@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"yarpRawJson":1}', b'{"a":1,"yarpRawJson":"x"}', b'{"yarpRawJson":"x","z":1}'],
)
def test_other_payloads_have_no_raw_text(data):
    assert canonical.raw_text(data) is None


@pytest.mark.parametrize(
    "text", ["", " ", "nul", "{", '{"a":1,}', "1 2", '"\n"', "'a'", "\ufeff1", b"\xff"]
)
def test_what_is_no_json_is_an_error(text):
    with pytest.raises(ValueError) as caught:
        canonical.encode_text(text)
    assert not isinstance(caught.value, canonical.NotCanonical)


def test_malformed_text_is_an_error_where_json_was_never_imported():
    code = """
from yarp import canonical
try:
    canonical.encode_text('{"a"')
except ValueError:
    print("error")
"""
    assert (
        subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True).stdout
        == b"error\n"
    )


def test_many_rows_and_long_strings_take_the_fast_path():
    rows = [{"id": number, "name": f"n{number}", "ok": None} for number in range(5000)]
    assert (
        canonical.encode(rows)
        == orjson.dumps(rows, option=orjson.OPT_SORT_KEYS)
        == rfc8785.dumps(rows)
    )
    assert canonical._orjson_agrees(rows)


def test_a_digest_is_the_same_by_every_implementation():
    import hashlib

    for data in (b"", b"abc", b"x" * (2 << 20)):
        assert canonical.sha256(data) == hashlib.sha256(data).digest()
        light = canonical.new_sha256(large=False)
        light.update(data)
        assert light.digest() == hashlib.sha256(data).digest()
