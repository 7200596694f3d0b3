from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from yarp.sources.beneath import shown

names = st.lists(
    st.sampled_from([b"\\", b"x", b"f", b"0", b"\xff", b"\\xff", b"\xc3\xa9", b"a/"]), max_size=6
).map(b"".join)


@given(names, names)
def test_no_two_paths_look_the_same(one, other):
    assert (shown(os.fsdecode(one)) == shown(os.fsdecode(other))) is (one == other)


@given(st.text(st.characters(exclude_characters="\\\0", exclude_categories=["Cs"])))
def test_an_ordinary_path_is_shown_as_it_is(path):
    assert shown(path) == path
