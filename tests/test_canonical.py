"""RFC 8785 bytes: the fast paths against the reference, and host text that no path can hold."""

import contextlib
import json
import random

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
