"""The marker's command, run for real: it leads to lines that the summary left out."""

import os
import re
import shlex

import pytest

from yarp import payload
from yarp.archive.write import Archive, CallFacts, SessionKey, Streams
from yarp.cli import recover
from yarp.reduce import way
from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings

NOW = 1_700_000_000_000
RECORDINGS = os.path.join(os.path.dirname(__file__), "recordings")
CASES = sorted(
    (family, name)
    for family in os.listdir(RECORDINGS)
    for name in os.listdir(os.path.join(RECORDINGS, family))
)


def read(family, name, part):
    path = os.path.join(RECORDINGS, family, name, part)
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    os.chmod(folder, 0o700)
    path = str(folder / "calls.sqlite3")
    archive = Archive.open(path, narrow=False)
    yield archive
    archive.close()


def kept(archive, name, out, err):
    """The reference of a call with these streams."""
    session = SessionKey("acme", "default", "session", NOW)
    call = CallFacts(name, "shell", started_at_ms=NOW, requires_streams=True)
    empty = payload.of_json({})
    ref = archive.begin_call(session, call, empty, empty, NOW)
    sides = [(payload.of(data), "application/octet-stream") for data in (out, err)]
    archive.record_streams(session, name, Streams(sides[0], sides[0], sides[1], sides[1]), NOW)
    return ref


def summarise(ref, family, argv, out, err, status):
    settings = Settings()
    reduction = Reduction(Selection("test", "test", family, {}, tuple(argv)), settings)
    reduction.feed(0, out)
    reduction.feed(1, err)
    return reduction.finish(Status(status), Recovery(ref))


def followed(archive, summary):
    """The words of the marker's command, and what it prints."""
    text = summary.stdout + summary.stderr
    words = shlex.split(re.search(rb"(yarp (?:search|read) [^\n]*)\]\n", text)[1].decode())
    settings = Settings()
    settings.archive_path = archive.path
    run = recover.search if words[1] == "search" else recover.read
    answer, status = run(words[2:], settings)
    assert status == 0
    return words, answer


def lines_of(words, answer):
    if words[1] == "read":
        return answer.splitlines()
    return [m[1] for m in re.finditer(rb"(?m)^(?:stdout|stderr)[:-]\d+[:-](.*)$", answer)]


@pytest.mark.parametrize(("family", "name"), CASES)
def test_a_markers_command_prints_lines_that_the_summary_left_out(archive, family, name):
    out, err = read(family, name, "stdout"), read(family, name, "stderr")
    argv = shlex.split(read(family, name, "cmd").decode().split(" 2>&1")[0])
    ref = kept(archive, f"{family}/{name}", out, err)
    summary = summarise(ref, family, argv, out, err, int(read(family, name, "exitcode")))
    if not summary.changed:
        return
    words, answer = followed(archive, summary)
    text = b"\n".join(
        line for line in (summary.stdout + summary.stderr).splitlines() if b"[yarp: " not in line
    )
    assert any(not way.told(line, text) for line in lines_of(words, answer))
    if words[1] == "search":
        found = re.findall(rb"matches=(\d+) showing=(\d+)", answer)
        assert all(matches == showing for matches, showing in found) or len(answer) > 24_000


def test_the_way_to_hunks_that_are_missing_leads_to_hunks(archive):
    hunk = b"@@ -%d,3 +%d,3 @@ def f%d():\n context\n-old%d %s\n+new%d %s\n"
    diff = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n" + b"".join(
        hunk % (n, n, n, n, b"x" * 150, n, b"y" * 150) for n in range(1, 14)
    )
    ref = kept(archive, "hunks", diff, b"")
    words, answer = followed(archive, summarise(ref, "diff", ["git", "diff"], diff, b"", 0))
    assert answer.count(b"@@ -") == 13 or b"\n-old13" in answer, words


def test_the_way_to_more_matches_starts_where_the_summary_ends(archive):
    out = b"".join(
        b"yarp/part%d/module.py:%d:    import thing_%d, other_%d\n" % (n // 12, n, n, n)
        for n in range(705)
    )
    ref = kept(archive, "matches", out, b"")
    summary = summarise(ref, "search", ["grep", "-rn", "import", "yarp"], out, b"", 0)
    words, answer = followed(archive, summary)
    fresh = [line for line in lines_of(words, answer) if not way.told(line, summary.stdout)]
    assert len(fresh) > 100


def test_the_way_to_more_names_is_a_range_of_the_list(archive):
    out = b"".join(
        b"./pkg_%s:\n__init__.py\nalpha_%s.py\n\n" % (b"abcdefgh"[n % 8 :] + b"z" * n, b"q" * n)
        for n in range(40)
    )
    ref = kept(archive, "names", out, b"")
    summary = summarise(ref, "list", ["ls", "-R"], out, b"", 0)
    words, answer = followed(archive, summary)
    assert words[1] == "read"
    assert any(not way.told(line, summary.stdout) for line in answer.splitlines())


def test_a_place_with_a_part_of_its_names_says_how_many_more():
    names = [b"src/Odd-NAME.X"]
    names += [b"src/%s/plain_%s.py" % (b"d" * n, b"abcdefghij"[n % 10 :]) for n in range(1, 40)]
    names += [b"src/%s.py" % (b"wxyz"[n % 4 :] + b"k" * n) for n in range(30)]
    out = b"".join(name + b"\n" for name in names)
    summary = summarise("yr_" + "0" * 32, "list", ["find", "src"], out, b"", 0)
    direct = [name for name in names if name.count(b"/") == 1]
    shown = [
        line for line in summary.stdout.split(b"\n") if line.startswith((b"src/Odd", b"src/: "))
    ]
    told = sum(name.removeprefix(b"src/") in b" ".join(shown) for name in direct)
    assert 0 < told < len(direct)
    assert b"(+%d more)" % (len(direct) - told) in shown[-1]
