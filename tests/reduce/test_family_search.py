import subprocess
import sys

import pytest

from yarp.reduce.families.base import Status
from yarp.reduce.families.search import FILES_KEPT, Family
from yarp.testing.reducer import feed_in_blocks


def summarise(command, stdout, stderr=b"", exit_code=0, block_bytes=1 << 20):
    family = Family(tuple(command.split()), {"success_bytes": 1024, "failure_bytes": 4096})
    feed_in_blocks(family, stdout, stderr, block_bytes=block_bytes)
    pieces = family.finish(Status(exit_code))
    return None if pieces is None else [piece.text.decode() for piece in pieces]


def test_matches_are_grouped_by_file_under_a_true_total():
    stdout = b"src/a.py:3:x = 1\nsrc/a.py:9:x = 2\nsrc/b.py:1:x = 3\n"
    assert summarise("rg -n x", stdout) == [
        "3 matches in 2 files",
        "src/a.py (2)",
        " 3:x = 1",
        " 9:x = 2",
        "src/b.py (1)",
        " 1:x = 3",
    ]


def test_names_go_after_all_bodies():
    stdout = b"".join(b"src/file_%d.py:%d:match %s\n" % (n // 9, n, b"y" * 60) for n in range(270))
    family = Family(("rg", "-n", "match"), {"success_bytes": 1024, "failure_bytes": 4096})
    family.feed(0, stdout)
    pieces = family.finish(Status(0))
    names = [piece.worth for piece in pieces if piece.text.startswith(b"src/")]
    bodies = [piece.worth for piece in pieces if piece.text.startswith(b" ")]
    assert len(names) == 30
    assert max(names) < min(bodies)


def test_too_many_names_share_lines_by_directory():
    stdout = b"".join(b"pkg_%d/file_%d.txt:1:needle\n" % (n // 50, n) for n in range(500))
    text = "\n".join(summarise("rg -n needle", stdout))
    assert text.startswith(
        "500 matches in 500 files\npkg_0/ (50 in 50 files):\n file_0.txt 1, file_1"
    )
    assert "pkg_9/ (50 in 50 files)" in text


def test_lines_of_context_are_no_matches():
    stdout = b"a.py-1-before\na.py:2:hit\na.py-3-after\n--\nb.py-7-before\nb.py:8:hit\n"
    text = summarise("rg -n -C1 hit", stdout)
    assert text[0] == "2 matches in 2 files"
    assert " 1-before" in text


def test_names_with_dashes_colons_and_numbers_stay_whole():
    stdout = b"my-2-dir/f-3.py:4:hit\nmy-2-dir/f-3.py-5-ctx 7:8: no\n--\nmy-2-dir/g-4.py:1:hit\n"
    text = summarise("grep -rn -A1 hit .", stdout)
    assert text[0] == "2 matches in 2 files"
    assert "my-2-dir/f-3.py (1)" in text
    assert "my-2-dir/g-4.py (1)" in text


def test_lines_of_one_file_are_not_split_at_their_colons():
    stdout = b"host: a.example\nport: 80\n" * 80
    text = summarise("grep : config.yaml", stdout)
    assert text[0] == "160 matches"
    assert text[1] == "host: a.example"


def test_numbered_lines_of_one_file():
    stdout = b"".join(b"%d:line %d\n" % (n, n) for n in range(1, 300, 2))
    text = summarise("rg -n line notes.txt", stdout)
    assert text[:2] == ["150 matches", "1:line 1"]


def test_headings_and_their_files():
    stdout = b"src/a.py\n1:hit\n3-ctx\n9:hit\n\nsrc/b.py\n2:hit\n"
    text = summarise("rg --heading -n hit", stdout)
    assert text[0] == "3 matches in 2 files"
    assert "src/b.py (1)" in text
    assert summarise("rg --heading -N hit", b"src/a.py\nhit\n\nsrc/b.py\nhit\n") is None


def test_complaints_are_kept_and_matches_beside_them():
    stdout = b"a.py:1:hit\n" * 20
    stderr = b"grep: secret: Permission denied\ngrep: gone: No such file or directory\n"
    text = summarise("grep -rn hit .", stdout, stderr, exit_code=2)
    assert text[0] == "grep: secret: Permission denied"
    assert text[1] == "grep: gone: No such file or directory"
    assert text[2] == "20 matches in 1 file"
    many = b"".join(b"grep: f%d: Permission denied\n" % n for n in range(900))
    assert "(900 lines on standard error)" in summarise("grep -r x .", b"", many, 2)


def test_binary_files_are_told():
    stdout = (
        b"Binary file img.png matches\n"
        + b"a.py:1:hit\n" * 9
        + b"grep: b.bin: binary file matches\n"
    )
    text = summarise("grep -rn hit .", stdout)
    assert "Binary file img.png matches" in text
    assert "grep: b.bin: binary file matches" in text
    assert "9 matches in 1 file" in text


def test_a_minified_line_is_cut_around_the_match():
    line = b"var a=1;" * 3000 + b"function findMeHere(){}" + b"var b=2;" * 3000
    text = "\n".join(summarise("rg -n findMeHere dist", b"dist/app.js:1:" + line + b"\n"))
    assert "findMeHere" in text
    assert len(text) < 600
    assert f"line of {len(line) + 2} bytes" in text
    wide = ("é" * 4000 + "findMeHere" + "é" * 4000).encode()
    "\n".join(summarise("rg -n findMeHere dist", b"dist/app.js:1:" + wide + b"\n"))


def test_a_pattern_that_is_no_plain_word_cuts_at_the_start():
    line = b"x" * 5000
    text = "\n".join(summarise("rg -n x+ dist", b"dist/app.js:1:" + line + b"\n"))
    assert " 1:xxx" in text
    assert "line of 5002 bytes" in text


@pytest.mark.parametrize("command", ["rg -n hit", "rg hit", "rg --heading -n hit", "grep -n hit f"])
def test_a_long_search_has_one_answer_however_its_blocks_are_cut(command):
    if "heading" in command:
        unit = b"src/file_%d.py\n1:hit\n2:hit\n\n"
    elif command == "rg hit":
        unit = b"src/file_%d.py:hit it\n" * 3
    elif "grep" in command:
        unit = b"%d:hit\n"
    else:
        unit = b"src/file_%d.py:1:hit it\nsrc/file_%d.py:2:hit\n"
    numbers = unit.count(b"%d")
    stdout = b"".join(unit % ((n // 4,) * numbers) for n in range(60_000))
    results = [summarise(command, stdout, block_bytes=size) for size in (1 << 20, 70_000, 3_001)]
    assert results[0] == results[1] == results[2]
    matches = stdout.count(b"hit\n") + stdout.count(b"hit it\n")
    assert results[0][0].startswith(f"{matches} matches")


@pytest.mark.parametrize("path", [b"d/%d.py", b"d/2026-11-30-%d.log"])
def test_more_files_than_are_kept_are_said_to_be_more(path):
    stdout = b"".join((path + b":1:hit\n") % n for n in range(FILES_KEPT + 9_000))
    assert (
        summarise("rg -n hit", stdout)[0]
        == f"{FILES_KEPT + 9000} matches in at least {FILES_KEPT} files"
    )


def test_nothing_found_is_left_as_it_is():
    assert summarise("rg nothing", b"", exit_code=1) is None


def test_a_path_without_dot_or_slash_is_a_path_where_many_files_are_searched():
    stdout = b"Makefile:all: build\nMakefile:test: all\nLICENSE:all rights: none\n"
    assert "Makefile (2)" in summarise("rg all", stdout)
    assert "Makefile (2)" in summarise("grep -r all", stdout)
    assert "Makefile (2)" not in summarise("grep -h all Makefile LICENSE", stdout)


def test_loading_a_family_loads_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import yarp.reduce.families.search, yarp.reduce.families.diff, yarp.reduce.families.test\n"
        "import yarp.reduce.families.test.pytest, yarp.reduce.families.test.jest\n"
        "print(*(m for m in set(sys.modules) - before if not m.startswith('yarp')))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # `collections`, and what it loads itself.
    light = {"future", "collections", "itertools", "keyword", "operator", "reprlib"}
    assert {name.strip("_") for name in told.stdout.split()} <= light


def test_times_in_a_log_are_no_line_numbers():
    stdout = b"".join(
        b"logs/%s.log:2024-05-01 10:%02d:07 ERROR disk\n" % (name, minute)
        for name in (b"app", b"db")
        for minute in range(60)
    )
    text = summarise("rg ERROR logs", stdout)
    assert text[0] == "120 matches in 2 files"
    assert "logs/app.log (60)" in text


def test_context_without_numbers_cannot_be_told_from_matches():
    assert summarise("rg -C1 hit", b"a.py-key: 1\na.py:hit\n" * 90) is None
    assert summarise("grep -A1 hit a.py", b"hit\nafter\n--\n" * 90) is None


def test_the_lines_around_a_match_of_ag_are_no_matches():
    unit = (
        b"src/part%d.py:7:    raise Unclear\nsrc/part%d.py:8-    nothing: 8\nsrc/part%d.py:9-\n--\n"
    )
    stdout = b"".join(unit % (n, n, n) for n in range(60))
    family = Family(("ag", "-A2", "raise", "src"), {})
    family.feed(0, stdout)
    pieces = family.finish(Status(0))
    assert pieces[0].text == b"60 matches in 60 files"
