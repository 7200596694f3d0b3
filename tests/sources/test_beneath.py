from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.sources.beneath import Escapes, open_directory, open_file, placed, shown, stat_of

names = st.lists(
    st.sampled_from([b"\\", b"x", b"f", b"0", b"\xff", b"\\xff", b"\xc3\xa9", b"a/"]), max_size=6
).map(b"".join)


@given(names, names)
def test_no_two_paths_look_the_same(one, other):
    assert (shown(os.fsdecode(one)) == shown(os.fsdecode(other))) is (one == other)


@given(st.text(st.characters(exclude_characters="\\\0", exclude_categories=["Cs"])))
def test_an_ordinary_path_is_shown_as_it_is(path):
    assert shown(path) == path


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "x").write_text("inside")
    (tmp_path / "secret" / "b").mkdir(parents=True)
    (tmp_path / "secret" / "b" / "x").write_text("secret")
    return root


def content(root, path):
    fd = open_file(str(root), path)
    with open(fd) as file:
        return file.read()


def descriptors():
    return set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()


def test_a_file_is_opened_below_its_root_which_may_be_a_link(root, tmp_path):
    (tmp_path / "named").symlink_to(root)
    before = descriptors()
    for place in (root, tmp_path / "named"):
        assert content(place, "a/b/x") == content(place, "a//b/./x") == "inside"
        assert stat_of(str(place), "a/b/x").st_size == len("inside")
    assert content(*placed(str(root / "a" / "b" / "x"))) == "inside"
    assert content(*placed(str(root / "a" / "b" / "x"), str(root))) == "inside"
    assert len(descriptors()) == len(before)


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/x"])
@pytest.mark.parametrize("inside", [False, True])
def test_no_link_below_the_root_is_followed_wherever_it_leads(root, tmp_path, link, inside):
    kept = root / "kept" if inside else tmp_path / "elsewhere"
    (root / link).rename(kept)
    (root / link).symlink_to(kept)
    before = descriptors()
    with pytest.raises(Escapes, match="a link stands in its path"):
        open_file(str(root), "a/b/x")
    if link != "a/b/x":
        for what in (stat_of, open_directory):
            with pytest.raises(Escapes):
                what(str(root), "a/b/x")
    assert len(descriptors()) == len(before)


@pytest.mark.parametrize(
    "path", ["../secret/b/x", "a/../../secret/b/x", "a/..", "none", "a", "a/b/x/y", "a/none/x"]
)
def test_what_is_no_file_below_the_root_is_an_error(root, path):
    before = descriptors()
    with pytest.raises(OSError):
        open_file(str(root), path)
    assert len(descriptors()) == len(before)


def test_a_path_elsewhere_is_none_below_the_root(root, tmp_path):
    for path in (tmp_path / "secret" / "b" / "x", tmp_path / "root2" / "x"):
        with pytest.raises(Escapes):
            placed(str(path), str(root))


def test_a_fifo_is_refused_without_waiting_for_its_writer(root):
    os.mkfifo(root / "a" / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_file(str(root), "a/pipe")
