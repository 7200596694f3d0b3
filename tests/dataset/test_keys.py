from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from yarp.dataset import keys

parts = st.lists(st.text() | st.binary() | st.integers(0, 2**64 - 1), max_size=5)


def test_a_key_is_the_digest_of_its_parts_each_behind_its_length():
    expected = b"".join(
        len(part).to_bytes(8, "big") + part
        for part in (b"call", "é".encode(), (7).to_bytes(8, "big"))
    )
    assert keys.key("call", "é", 7) == hashlib.sha256(expected).hexdigest()


@given(parts, parts)
def test_unequal_parts_have_unequal_encodings(one, other):
    def plain(values):
        return [
            value.encode()
            if isinstance(value, str)
            else value
            if isinstance(value, bytes)
            else value.to_bytes(8, "big")
            for value in values
        ]

    assert (keys.encode(one) == keys.encode(other)) is (plain(one) == plain(other))


@given(parts)
def test_the_same_parts_give_the_same_key(values):
    assert keys.key(*values) == keys.key(*values)


@given(parts, parts)
def test_keys_that_begin_alike_are_those_of_all_their_parts(first, rest):
    family = keys.Family(*first)
    assert family.key(*rest) == keys.key(*first, *rest)
    assert family.digest(*rest) == keys.digest(*first, *rest)
