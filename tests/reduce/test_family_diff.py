import os
import subprocess

import pytest

from yarp.reduce.families.base import Status
from yarp.reduce.families.diff import Family

RECORDINGS = os.path.join(os.path.dirname(__file__), "recordings", "diff")


def recorded(name):
    with open(os.path.join(RECORDINGS, name, "stdout"), "rb") as file:
        return file.read()


def summarise(stdout, exit_code=0, block_bytes=1 << 20, budget=1024):
    family = Family(("git", "diff"), {"success_bytes": budget, "failure_bytes": 4096})
    start = 0
    while start < len(stdout):
        end = stdout.rfind(b"\n", start, start + block_bytes) + 1
        end = end or stdout.find(b"\n", start) + 1 or len(stdout)
        family.feed(0, stdout[start:end])
        start = end
    pieces = family.finish(Status(exit_code))
    return None if pieces is None else [piece.text.decode() for piece in pieces]


def hunks(pieces):
    return [piece for piece in pieces if piece.startswith("@@")]


def test_what_happened_to_each_file_is_one_line():
    pieces = summarise(recorded("diff_mixed"))
    assert pieces[0] == "+369 -325 in 10 files"
    assert "new_name.txt (renamed from old_name.txt)" in pieces
    assert "logo.png (binary)" in pieces
    assert "run.sh (mode 100644 -> 100755)" in pieces
    assert "gone.txt +0 -20 (deleted)" in pieces
    assert "src/new_module.py +60 -0 (new)" in pieces
    assert "package-lock.json +300 -300 (generated, hunks left out)" in pieces


@pytest.mark.parametrize("name", sorted(os.listdir(RECORDINGS)))
def test_a_hunk_is_shown_as_it_stands_or_says_what_is_missing(name):
    exact = recorded(name)
    for budget in (1024, 4096, 65536):
        for hunk in hunks(summarise(exact, budget=budget)):
            if hunk.endswith("more lines of this hunk ...]"):
                assert hunk.rpartition("\n")[0].encode() in exact
            else:
                assert hunk.encode() in exact


def test_the_hunk_with_most_changes_comes_before_what_came_or_went():
    shown = hunks(summarise(recorded("diff_mixed")))
    assert any('raise ValueError("value is required")' in hunk for hunk in shown)
    assert not any(hunk.startswith("@@ -1,20 +0,0 @@") for hunk in shown)


def test_lines_that_look_like_headers_count_as_what_they_are():
    stdout = (
        b"diff --git a/q.sql b/q.sql\nindex 1..2 100644\n--- a/q.sql\n+++ b/q.sql\n"
        b"@@ -1,3 +1,3 @@\n--- old comment\n+++ new\n same\n-diff --git a b\n+@@ -1 +1 @@\n"
    )
    plain = b"--- a/q.sql\t2024-01-01\n+++ b/q.sql\t2024-01-02\n" + stdout[stdout.index(b"@@") :]
    for data in (stdout, plain, plain + plain.replace(b"q.sql", b"r.sql")):
        pieces = summarise(data)
        files = 2 if b"r.sql" in data else 1
        assert pieces[0].startswith(f"+{2 * files} -{2 * files} in {files} file")
        assert "q.sql +2 -2" in pieces


def test_counts_agree_with_git(tmp_path):
    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *words]
        return subprocess.run(command, check=True, capture_output=True).stdout

    git("init", "-q")
    for n in range(30):
        (tmp_path / f"file {n}.txt").write_text("".join(f"line {i}\n" for i in range(60)))
    git("add", "-A")
    git("commit", "-qm", "one")
    for n in range(30):
        path = tmp_path / f"file {n}.txt"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[n:] + ["++ tail\n", "-- end"] * (n % 3)))
    diff = git("diff")
    counts = [line.split("\t") for line in git("diff", "--numstat").decode().splitlines()]
    pieces = summarise(diff)
    added, removed = (sum(int(count[i]) for count in counts) for i in (0, 1))
    assert pieces[0] == f"+{added} -{removed} in {len(counts)} files"
    for plus, minus, name in counts:
        assert f"{name} +{plus} -{minus}" in pieces


def test_a_huge_diff_is_counted_to_the_end_however_its_blocks_are_cut():
    unit = (
        b"diff --git a/d/f%d.py b/d/f%d.py\nindex 1..2 100644\n--- a/d/f%d.py\n+++ b/d/f%d.py\n"
        b"@@ -1,3 +1,4 @@ def f():\n a\n-b\n+c\n+++ d\n e\n@@ -9,2 +10,1 @@\n x\n-y\n"
    )
    stdout = b"".join(unit % (n, n, n, n) for n in range(40_000))
    results = [summarise(stdout, block_bytes=size) for size in (1 << 20, 90_000, 7_001)]
    assert results[0][0] == "+80000 -80000 in 40000 files"
    assert results[0] == results[1] == results[2]


def test_many_hunks_of_one_file_are_counted_to_the_end():
    head = b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n"
    stdout = head + b"@@ -1,3 +1,4 @@\n a\n-b\n+c\n+d\n e\n" * 60_000
    pieces = summarise(stdout)
    assert pieces[0] == "+120000 -60000 in 1 file"
    assert "x +120000 -60000" in pieces


def test_a_merge_keeps_its_conflicts():
    pieces = summarise(recorded("diff_conflict"), budget=4096)
    text = "\n".join(pieces)
    assert "docs/guide.md +5 -0 (merge)" in pieces
    assert "++<<<<<<< HEAD" in text


def test_a_commit_is_told_with_its_message():
    pieces = summarise(recorded("diff_show"))
    assert pieces[1].startswith("commit ")
    assert "    Second version" in pieces
    assert "    Body of the message." in pieces


def test_the_end_of_a_file_without_newline_is_shown():
    text = "\n".join(summarise(recorded("diff_mixed"), budget=65536))
    assert "\\ No newline at end of file" in text


def test_a_submodule_is_told():
    stdout = b"Submodule lib 1234567..89abcde:\n  > Fix the thing\n  > Another\n"
    assert "Submodule lib 1234567..89abcde:" in summarise(stdout)


def test_what_is_no_diff_is_left_as_it_is():
    assert summarise(b"fatal: not a git repository\n" * 90) is None
    assert summarise(b"") is None
