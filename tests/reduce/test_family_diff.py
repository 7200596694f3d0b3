import os
import subprocess

import pytest

from yarp.reduce.engine import Reduction
from yarp.reduce.families.base import Status
from yarp.reduce.families.diff import Family
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])
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


def changed(path, lines=1, *, new=False):
    state = b"new file mode 100644\nindex 0..2\n--- /dev/null\n" if new else b"index 1..2 100644\n"
    old = b"" if new else b"--- a/%b\n" % path
    hunk = b"@@ -0,0 +1,%d @@\n" % lines if new else b"@@ -1,%d +1,%d @@\n" % (lines, lines)
    body = b"".join((b"" if new else b"-old %d\n" % n) + b"+new %d\n" % n for n in range(lines))
    return (
        b"diff --git a/%b b/%b\n" % (path, path) + state + old + b"+++ b/%b\n" % path + hunk + body
    )


def shown(command, stdout):
    reduction = Reduction(select(command.split(), RULES), Settings())
    reduction.feed(0, stdout)
    summary = reduction.finish(Status(0), Recovery("yr_" + "0" * 32))
    assert summary.changed
    return summary.stdout.decode().split("\n")


@pytest.mark.parametrize("count", [1400, 12_000])
def test_of_many_files_what_changed_is_named_before_what_is_new_and_the_others_are_counted(count):
    new = [changed(b"tests/cases/c%d/stdout" % n, 40, new=True) for n in range(count)]
    old = [changed(b"yarp/m%d.py" % n) for n in range(12)]
    lines = shown("git diff HEAD~20", b"".join(new[:700] + old + new[700:]))
    assert lines[0] == f"+{40 * count + 12} -12 in {count + 12} files"
    if count == 1400:
        assert lines[1] == "by directory: tests/ 1400 (+56000 -0), yarp/ 12 (+12 -12)"
    else:
        assert lines[1] == "by directory: tests/ 12000, yarp/ 12"
    assert {f"yarp/m{n}.py +1 -1" for n in range(12)} <= set(lines)
    named = sum(" +" in line for line in lines[2:])
    assert f"... and {count + 12 - named} more files" in lines


def test_directories_are_those_below_what_all_files_share():
    files = [
        changed(b"yarp/%b/m%d.py" % (b"reduce" if n % 3 else b"archive", n)) for n in range(300)
    ]
    lines = shown("git diff", b"".join(files))
    assert lines[1] == "by directory: yarp/reduce/ 200 (+200 -200), yarp/archive/ 100 (+100 -100)"
    alone = shown("git diff", b"".join(changed(b"m%d.py" % n) for n in range(300)))
    assert not any(line.startswith("by directory") for line in alone)


def test_a_history_counts_a_file_once_however_often_it_changed():
    commit = b"commit %040x\nAuthor: A <a@b>\nDate:   Mon Nov 2 10:00:00 2026 +0000\n\n    Step\n\n"
    one = b"".join(commit % n + changed(b"a.py", 20) for n in range(5))
    assert shown("git log -p", one)[0] == "+100 -100 in 1 file, 5 commits"
    two = one + b"".join(commit % n + changed(b"b.py") for n in range(9, 12))
    assert shown("git log -p", two)[0] == "+103 -103 in 2 files, 8 commits"


def test_of_each_commit_it_is_said_how_many_of_its_files_are_not_named():
    commit = b"commit %040x\nAuthor: A <a@b>\nDate:   Mon Nov 2 10:00:00 2026 +0000\n\n    Step\n\n"
    whole = b"".join(
        commit % n + b"".join(changed(b"src/part%d/module%d.py" % (n, at)) for at in range(60))
        for n in range(3)
    )
    lines = shown("git log -p", whole)
    assert lines[0] == "+180 -180 in 180 files, 3 commits"
    for n in range(3):
        named = sum(line.startswith(f"src/part{n}/") for line in lines)
        last = f"src/part{n}/" if named else "    Step"
        places = [at for at, line in enumerate(lines) if line.startswith(last)]
        at = (max(places) if named else places[n]) + 1
        assert named == 60 or lines[at] == f"... and {60 - named} more file{'s' * (named < 59)}"
