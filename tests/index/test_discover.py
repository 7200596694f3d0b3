from __future__ import annotations

import os

import pytest

from yarp.index.discover import find, name_of


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")


def test_traces_are_found_below_roots_once_and_in_order(tmp_path):
    a, b = tmp_path / "b" / "a.jsonl", tmp_path / "a.jsonl.zst"
    touch(a, b, tmp_path / "c.json", tmp_path / "d.jsonl.tmp")
    found, problems = find([str(tmp_path), str(tmp_path / "b"), str(a)])
    assert (found, problems) == ([str(b), str(a)], [])


def test_of_a_file_and_its_compressed_twin_the_plain_one_counts(tmp_path):
    touch(tmp_path / "a.jsonl", tmp_path / "a.jsonl.zst")
    assert find([str(tmp_path)])[0] == [str(tmp_path / "a.jsonl")]


def test_links_are_not_followed_and_are_no_obstacle(tmp_path):
    touch(tmp_path / "elsewhere" / "x.jsonl", tmp_path / "root" / "a.jsonl")
    (tmp_path / "root" / "b.jsonl").symlink_to(tmp_path / "elsewhere" / "x.jsonl")
    (tmp_path / "root" / "c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "d").symlink_to(tmp_path / "root")
    assert find([str(tmp_path / "root")]) == ([str(tmp_path / "root" / "a.jsonl")], [])


def test_a_root_that_is_a_link_is_its_target(tmp_path):
    touch(tmp_path / "there" / "a.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert find([str(tmp_path / "link")])[0] == [str(tmp_path / "there" / "a.jsonl")]


def test_a_root_that_is_not_there_is_said(tmp_path):
    found, (problem,) = find([str(tmp_path / "none")])
    assert found == []
    assert "no file or directory" in problem


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_directory_that_cannot_be_read_hides_only_itself(tmp_path):
    touch(tmp_path / "a" / "x.jsonl", tmp_path / "b" / "y.jsonl")
    (tmp_path / "a").chmod(0)
    try:
        found, problems = find([str(tmp_path)])
    finally:
        (tmp_path / "a").chmod(0o700)
    assert found == [str(tmp_path / "b" / "y.jsonl")]
    assert len(problems) == 1


def test_a_trace_is_called_the_same_wherever_it_lies():
    assert name_of("/a/x.jsonl.zst") == name_of("/b/x.jsonl") == "x.jsonl"
