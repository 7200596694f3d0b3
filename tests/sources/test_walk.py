from __future__ import annotations

import os

import pytest

from yarp.sources.facts import Issue, Rejected
from yarp.sources.importers import SourceItem
from yarp.sources.walk import files_below, items_below


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    for path in ("b.jsonl", "a/x.jsonl", "a/y.txt", "a/c/z.jsonl"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("{}\n")
    return root


def found(root):
    return [
        one if isinstance(one, str) else one.code for one in files_below(str(root), (".jsonl",))
    ]


def test_regular_files_of_the_name_are_found_at_any_depth(root):
    assert sorted(found(root)) == ["a/c/z.jsonl", "a/x.jsonl", "b.jsonl"]


def test_links_within_the_root_are_found_once_at_their_own_place(root):
    (root / "again.jsonl").symlink_to("b.jsonl")
    (root / "loop").symlink_to(root)
    assert sorted(found(root)) == ["a/c/z.jsonl", "a/x.jsonl", "b.jsonl"]


def test_links_that_lead_out_are_issues(root, tmp_path):
    (tmp_path / "secret.jsonl").write_text("{}\n")
    (root / "leak.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (root / "out").symlink_to(tmp_path)
    (root / "dead.txt").symlink_to(tmp_path / "nothing")
    assert sorted(found(root)) == [
        "a/c/z.jsonl",
        "a/x.jsonl",
        "b.jsonl",
        "path_escape",
        "path_escape",
    ]


def test_fifos_and_sockets_are_no_sources(root):
    os.mkfifo(root / "pipe.jsonl")
    assert "pipe.jsonl" not in found(root)


def test_a_directory_that_cannot_be_read_is_an_issue_and_the_rest_is_found(root):
    if os.getuid() == 0:
        pytest.skip("root reads everything")
    (root / "a").chmod(0)
    try:
        assert sorted(found(root)) == ["b.jsonl", "unreadable"]
    finally:
        (root / "a").chmod(0o700)


def test_a_missing_root_is_an_issue(tmp_path):
    assert found(tmp_path / "none") == ["unreadable"]


def test_items_can_be_chosen_by_path(root):
    items = list(
        items_below(
            str(root), kind="sessions", suffixes=(".jsonl",), accept=lambda path: "/c/" not in path
        )
    )
    assert sorted(item.relative_path for item in items) == ["a/x.jsonl", "b.jsonl"]
    assert all(isinstance(item, SourceItem) and item.kind == "sessions" for item in items)
    assert not any(isinstance(item, Issue) for item in items)


def test_a_file_beside_an_item_is_read_only_below_the_root(root, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (root / "leak").symlink_to(tmp_path / "secret")
    item = SourceItem("sessions", str(root), "b.jsonl")
    assert item.read_beside("a/y.txt") == b"{}\n"
    assert item.read_beside(str(root / "a" / "y.txt")) == b"{}\n"
    for path in ("leak", "../secret", str(tmp_path / "secret"), "a", "none", "a/../../secret", ""):
        assert item.read_beside(path) is None
    with pytest.raises(Rejected):
        item.read_beside("a/y.txt", most_bytes=2)


def test_a_directory_that_becomes_a_link_while_it_is_looked_for_is_not_entered(root, tmp_path):
    walk = files_below(str(root), (".jsonl",))
    assert next(walk) == "b.jsonl"
    (root / "a").rename(tmp_path / "elsewhere")
    (root / "a").symlink_to(tmp_path / "elsewhere")
    assert [one.code for one in walk] == ["path_escape"]


def test_a_file_beside_an_item_is_not_read_through_a_link_that_comes_meanwhile(
    root, tmp_path, monkeypatch
):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "y.txt").write_text("secret")
    realpath = os.path.realpath

    def swapped(path):
        found = realpath(path)
        if path.endswith("y.txt"):
            (root / "a").rename(tmp_path / "before")
            (root / "a").symlink_to(tmp_path / "elsewhere")
        return found

    monkeypatch.setattr(os.path, "realpath", swapped)
    assert SourceItem("sessions", str(root), "b.jsonl").read_beside("a/y.txt") is None
    assert (root / "a").is_symlink()


def test_what_is_refused_is_an_item_with_its_place(root, tmp_path):
    (root / "a" / "leak.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (root / "out").symlink_to(tmp_path)
    found = items_below(str(root), kind="sessions", suffixes=(".jsonl",), accept=lambda _: False)
    assert {item.relative_path: item.refused.code for item in found} == {
        "a/leak.jsonl": "path_escape",
        "out": "path_escape",
    }
    (item,) = items_below(str(tmp_path / "none"), kind="sessions", suffixes=(".jsonl",))
    assert (item.path, item.refused.code) == (str(tmp_path / "none"), "unreadable")


def test_what_is_passed_over_is_not_entered_and_leads_nowhere(root, tmp_path):
    (root / "out").symlink_to(tmp_path)
    (root / "a" / "leak.jsonl").symlink_to(tmp_path / "secret.jsonl")
    passed = {"out", "a/c", "a/leak.jsonl"}
    assert [*files_below(str(root), (".jsonl",), passed.__contains__)] == ["b.jsonl", "a/x.jsonl"]
