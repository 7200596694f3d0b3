"""A carriage return inside a line: content, but where the tool prints progress."""

import subprocess

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])


def summary(command, stdout=b"", stderr=b"", code=0, *, step=1 << 20):
    found = plan(command, RULES)
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    for stream, data in ((0, stdout), (1, stderr)):
        for at in range(0, len(data), step):
            reduction.feed(stream, data[at : at + step])
    shown = reduction.finish(Status(code), Recovery("yr_" + "0" * 32))
    assert shown.changed
    return shown.stdout.decode() + shown.stderr.decode()


def changes(directory, lines):
    """What git says of a file that turned into `lines`: its diff and its own counts."""

    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(directory), *words]
        return subprocess.run(command, check=True, capture_output=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "0")
    (directory / "new.txt").write_bytes(b"".join(line + b"\n" for line in lines))
    git("add", ".")
    return git("diff", "--cached"), git("diff", "--cached", "--shortstat")


@pytest.mark.parametrize("step", [1 << 20, 7])
def test_a_diff_counts_the_lines_that_git_counts_and_shows_no_line_that_is_none(tmp_path, step):
    lines = [b"line %d of the new text which is long enough to matter" % n for n in range(1, 61)]
    lines[5], lines[10], lines[30] = b"50%\r100% done", b"x = 1\r-y = 2", b"old\r+new"
    diff, told = changes(tmp_path, lines)
    assert b"60 insertions(+)" in told
    shown = summary("git diff --cached", diff, step=step).split("\n")
    assert shown[:2] == ["+60 -0 in 1 file", "new.txt +60 -0 (new)"]
    assert "+50%^M100% done" in shown
    assert "+x = 1^M-y = 2" in shown
    assert not any(line.startswith(("-y", "100%")) for line in shown)


def test_other_line_ends_are_seen_in_a_diff_and_the_same_ones_are_not(tmp_path):
    line = b"%c a line of %d bytes or so, as long as lines are in a text\r\n"
    head = b"diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1,40 +1,40 @@\n"
    both = b"".join(line % (b"-", n) + line % (b"+", n + 1) for n in range(40))
    assert "^M" not in summary("git diff", head + both)
    changed = b"".join((line % (b"-", n)).replace(b"\r", b"") + line % (b"+", n) for n in range(40))
    shown = summary("git diff", head + changed)
    assert "- a line of 0 bytes or so, as long as lines are in a text\n" in shown
    assert "+ a line of 0 bytes or so, as long as lines are in a text^M\n" in shown


def test_a_search_names_no_file_that_a_matched_line_names():
    lines = [b"./g.txt:%d:TODO this is to be done some day\n" % n for n in range(1, 301)]
    lines[4] = b"./g.txt:5:TODO real\rfake.py:9:TODO forged\n"
    for command in ("grep -rn TODO .", "rg -n TODO", "git grep -n TODO"):
        shown = summary(command, b"".join(lines)).split("\n")
        assert shown[:2] == ["300 matches in 1 file", "./g.txt (300)"]
        assert " 5:TODO real^Mfake.py:9:TODO forged" in shown


def test_a_name_with_a_carriage_return_is_one_name():
    names = b"".join(b"./src/part%d/file%d.py\n" % (n % 9, n) for n in range(400))
    shown = summary("find .", names + b"./odd\rname.py\n")
    assert "401" in shown.split("\n")[0]
    assert "./odd^Mname.py" in shown


def test_a_log_line_keeps_the_trouble_that_a_later_part_of_it_would_hide():
    lines = b"".join(b"2026-11-29T10:00:%02d INFO request %d\n" % (n % 60, n) for n in range(400))
    trouble = b"2026-11-29T10:07:00 ERROR disk full\rall is well\n"
    for command in ("cat app.log", "docker logs app", "kubectl logs app"):
        shown = summary(command, lines + trouble + lines)
        assert "801 lines" in shown
        assert "ERROR disk full^Mall is well" in shown


def test_a_table_and_a_list_of_problems_keep_their_rows():
    rows = b"".join(b"root %6d 0.0 0.1 1 1 ? S 10:00 0:00 worker %d\n" % (n, n) for n in range(200))
    head = b"USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n"
    odd = b"eve    9999 99.0 9.9 1 1 ? R 10:00 9:00 evil\rroot 1 0.0 0.1 1 1 ? S 10:00 0:00 init\n"
    assert "eve" in summary("ps aux", head + rows + odd)
    found = b"".join(b"src/a%d.py:%d:1: F401 unused\n" % (n % 5, n) for n in range(200))
    shown = summary(
        "flake8 src", found + b"src/z.py:3:1: E999 bad '\rsrc/y.py:1:1: F401 x'\n", code=1
    )
    assert "src/z.py" in shown


def test_progress_is_still_a_line_of_which_the_last_state_is_left():
    states = b"".join(b"Receiving objects: %3d%% (%d/100)\r" % (n, n) for n in range(100))
    said = b"Cloning into 'x'...\n" + states + b"Receiving objects: 100% (100/100), done.\n"
    shown = summary("git clone https://example.org/x", b"", said * 2)
    assert "  1% (1/100)" not in shown
    assert "^M" not in shown


@pytest.mark.parametrize("step", [1 << 20, 5])
def test_of_two_tools_each_part_is_read_as_its_tool_means_it(step):
    fetched = (
        b"".join(b"Updating files: %3d%%\r" % n for n in range(100)) + b"Updating files: done\n"
    )
    found = b"".join(b"./g.txt:%d:TODO this is to be done\n" % n for n in range(1, 300))
    found = b"./g.txt:1:TODO real\rfake.py:9:TODO forged\n" + found
    data = b"== merge\n" + fetched + b"Already up to date.\n== grep\n" + found
    shown = summary(
        "echo '== merge'; git merge main; echo '== grep'; grep -rn TODO .", data, step=step
    )
    assert "Updating files: done" in shown
    assert " 50%" not in shown
    assert "300 matches in 1 file" in shown
    assert "1:TODO real^Mfake.py:9:TODO forged" in shown
