"""The output of a compound text, cut by the lines that the text itself prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.reduce.engine import Recovery, Reduction
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])
LISTED = b"".join(b"./src/part-%d/file-%d.py\n" % (n % 7, n) for n in range(200))
STATUS = b"On branch main\nChanges not staged for commit:\n" + b"".join(
    b"\tmodified:   src/part/file-%d.py\n" % n for n in range(80)
)


def summary(text, stdout=b"", stderr=b"", code=0, *, sizes=(1 << 20,), merged=False):
    found = plan(text, RULES)
    assert found.selection is not None
    if found.shape is not None:
        found.shape.merged = merged
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    for stream, data in ((0, stdout), (1, stderr)):
        at = number = 0
        while at < len(data):
            size = sizes[number % len(sizes)]
            reduction.feed(stream, data[at : at + size])
            at += size
            number += 1
    return reduction.finish(found.status(code), Recovery("yr_" + "0" * 32))


def test_lines_before_and_after_stay_around_the_summary():
    shown = summary('echo == here; find .; echo "exit $?"', b"== here\n" + LISTED + b"exit 1\n")
    assert shown.changed
    lines = shown.stdout.splitlines()
    assert lines[0] == b"== here"
    assert lines[-2] == b"exit 1"
    assert lines[-1].startswith(b"[yarp: ")


@pytest.mark.parametrize(
    "stdout",
    [
        LISTED + b"exit 1\n",
        b"== here\n" + LISTED,
        b"== here\n" + LISTED + b"exit one\n",
        b"== here\n" + LISTED + b"exit 1\nmore\n",
        b"x\n== here\n" + LISTED + b"exit 1\n",
        LISTED[:-1],
    ],
)
def test_an_output_that_is_not_as_planned_stays_exact(stdout):
    assert not summary('echo == here; find .; echo "exit $?"', stdout).changed


def test_a_line_that_is_printed_only_on_failure_may_be_missing():
    for ending in (b"", b"none\n"):
        shown = summary("find . || echo none", LISTED + ending)
        assert shown.changed
        assert (b"\nnone\n" in shown.stdout) is bool(ending)


def test_a_cut_output_says_so_only_if_it_was_cut():
    for limit, cut in ((200, True), (201, False)):
        shown = summary(f"find . | head -{limit}", LISTED)
        assert (f"of the first {limit} lines:".encode() in shown.stdout) is cut


def test_each_part_is_shortened_by_its_own_rule():
    shown = summary("find .; echo ----; git status", LISTED + b"----\n" + STATUS, code=0)
    assert shown.changed
    first, _, second = shown.stdout.partition(b"\n----\n")
    assert b"200" in first
    assert b"main" in second
    assert shown.stdout.count(b"[yarp: ") == 1


@pytest.mark.parametrize(
    "stdout",
    [
        LISTED + STATUS,
        LISTED + b"----\n" + STATUS + b"----\n",
        b"----\n" + LISTED + b"----\n" + STATUS,
    ],
)
def test_parts_whose_separator_is_missing_or_doubled_stay_exact(stdout):
    assert not summary("find .; echo ----; git status", stdout).changed


DIFF = b"".join(
    b"diff --git a/f%d b/f%d\nindex 1..2 100644\n--- a/f%d\n+++ b/f%d\n@@ -1 +1 @@\n-old\n+new %d\n"
    % (n, n, n, n, n)
    for n in range(60)
)


def test_a_diff_behind_a_status_shows_where_it_begins():
    shown = summary("git status && git diff", STATUS + DIFF)
    assert shown.stdout.startswith(b"On branch main\n")
    assert b"60 files" in shown.stdout
    assert shown.stdout.count(b"[yarp: ") == 1


def test_without_its_first_line_nobody_knows_whose_the_rest_is():
    assert not summary("git status && git diff", STATUS + STATUS).changed
    assert not summary("git status && git diff", STATUS + DIFF, merged=True).changed
    session = b"=" * 29 + b" test session starts " + b"=" * 30 + b"\n"
    passed = (
        b"".join(b"test_%d.py .\n" % n for n in range(400))
        + b"=" * 29
        + b" 400 passed in 1.00s "
        + b"=" * 30
        + b"\n"
    )
    text = "uv sync 2>&1 | tail -3 && pytest"
    synced = b"Installed 1 package in 3ms\n"
    assert b"400 passed" in summary(text, synced + session + passed).stdout
    # `addopts = -q` leaves the first line out.
    assert not summary(text, synced + passed).changed


def test_searches_of_one_kind_count_together():
    def hits(word):
        return b"".join(b"src/f%d.py:%d:a %b here\n" % (n, n, word) for n in range(400))

    shown = summary("grep -rn foo src; grep -rn bar src", hits(b"foo") + hits(b"bar"))
    assert b"800 matches in 400 files" in shown.stdout
    handed = summary("find . -name '*.py' | xargs grep -n foo", hits(b"foo"))
    assert b"400 matches in 400 files" in handed.stdout
    # The last run of xargs may have had one file, which it does not name.
    odd = summary("find . -name '*.py' | xargs grep -n foo", hits(b"foo") + b"7:a foo here\n")
    assert odd.stdout.startswith(b"401 matches\n")


def test_one_separator_may_stand_between_all_parts():
    text = "echo ---; find .; echo ---; pwd; echo ---; git status"
    shown = summary(text, b"---\n" + LISTED + b"---\n/x\n---\n" + STATUS)
    assert b"\n---\n/x\n---\n" in shown.stdout
    assert shown.stdout.startswith(b"---\n")


def test_a_part_that_no_rule_knows_is_shown_whole_or_nothing_is_shortened():
    text = "find .; echo ----; date -u +x"
    assert b"\n----\nknown to nobody\n" in summary(text, LISTED + b"----\nknown to nobody\n").stdout
    assert not summary(text, LISTED + b"----\n" + b"known to nobody\n" * 60).changed


def test_what_the_shell_says_of_a_helping_command_is_kept():
    shown = summary("cd nowhere; find .", LISTED, b"bash: line 1: cd: nowhere: No such file\n")
    assert shown.changed
    assert shown.stderr == b"bash: line 1: cd: nowhere: No such file\n"


def test_errors_of_a_command_that_nobody_knows_are_shown_whole_or_nothing_is_shortened():
    text = "npm ci > /dev/null; find ."
    assert summary(text, LISTED, b"npm warn old\n").stderr == b"npm warn old\n"
    assert not summary(text, LISTED, b"npm warn old\n" * 60).changed
    assert not summary(text, b"npm warn old\n" + LISTED, merged=True).changed


def test_a_long_output_is_cut_apart_all_the_same():
    many = b"".join(b"./src/part-%d/file-%d.py\n" % (n % 7, n) for n in range(120_000))
    shown = summary(
        "echo == a; find .; echo == b; git status", b"== a\n" + many + b"== b\n" + STATUS
    )
    assert shown.changed
    assert b"120000" in shown.stdout.replace(b",", b"")
    assert b"\n== b\n" in shown.stdout


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=5))
def test_how_the_bytes_arrive_does_not_show(sizes):
    text = 'echo == a; find .; echo == b; git status; echo "exit $?"'
    data = b"== a\n" + LISTED + b"== b\n" + STATUS + b"exit 0\n"
    assert summary(text, data, sizes=sizes).stdout == summary(text, data).stdout
