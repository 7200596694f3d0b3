"""git, gcc, make, apt, grep, ls and find speaking German, French, Chinese and Japanese, as recorded.

Facts survive, and no sentence of ours counts what was not there. (git speaks no Japanese.)
"""

import os
import re

import pytest

from yarp.reduce.engine import Reduction
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])
FOLDER = os.path.join(os.path.dirname(__file__), "languages")
# What must be in the answer, whatever the language.
FACTS = {
    "git-pull": ["src/part-0/file-0.txt", "FETCH_HEAD", "a04bd0b..a94e37d"],
    "git-pull-good": ["60 files changed, 240 insertions(+), 240 deletions(-)"],
    "git-status": ["main", "41", "src/new-{0..59}.txt (60)", "{30..39}.txt (10", "{0..29}.txt (30"],
    "git-status-conflict": ["main", "41", "src/part-{0..5}/file-{0..59}.txt (60"],
    "git-commit": ["100 files changed, 90 insertions(+), 160 deletions(-)", "a large change"],
    "gcc": ["(15 errors in 3 files)", "c/m0.c:3:37: ", "c/m2.c:3:37: ", "c/m0.c:6:33: ",
            "-Wreturn-type 9", "-Wunused-variable 6", "return zz1;"],
    "make": ["(15 errors in 3 files)", "m0.o]", "m2.o]", "missing.o"],
    "apt": ["cowsay figlet libcaca0 libtext-charwidth-perl sl toilet", "141", "7"],
    "grep": ["missing/file-0.txt"],
    "ls": ["src/part-0/file-{0", "missing/file-0.txt", "(67 more: "],
    "find": ["src/part-{0..5}/file-{0..", "missing/file-0.txt", "(67 more: "],
}  # fmt: skip
# Each count that a sentence of ours may hold, beside those of FACTS.
NAMES = {"ls": "8 names: .txt 8", "find": "110 names in 7 directories: .txt 110"}
JAPANESE = {"ls": "10 names: .txt 10", "find": "60 names in 6 directories: .txt 60"}


def recorded(name, part):
    path = os.path.join(FOLDER, name, part)
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def shown(name, chunk_bytes):
    found = plan(recorded(name, "cmd").decode().strip(), RULES)
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    exact = []
    for stream, part in enumerate(("stdout", "stderr")):
        data = recorded(name, part)
        exact.append(data)
        for at in range(0, len(data), chunk_bytes):
            reduction.feed(stream, data[at : at + chunk_bytes])
    status = found.status(int(recorded(name, "exitcode")))
    summary = reduction.finish(status, Recovery("yr_" + "0" * 32))
    return [summary.stdout, summary.stderr] if summary.changed else exact, exact


@pytest.mark.parametrize("name", sorted(os.listdir(FOLDER)))
def test_facts_survive_and_nothing_is_made_up(name):
    language, _, kind = name.partition("-")
    answer, exact = shown(name, 1 << 20)
    text = b"".join(answer).decode()
    assert [fact for fact in FACTS[kind] if fact not in text] == []
    names = (JAPANESE if language == "ja" else NAMES).get(kind)
    if names is not None:
        assert text.startswith(names + "\n")
    assert len(text.encode()) <= len(b"".join(exact))
    # What the tool says last, how it ended, is never lost.
    last = (
        b"".join(exact[:1] if kind.startswith(("git", "apt")) else exact).decode().splitlines()[-1]
    )
    if kind not in ("gcc", "ls", "find", "grep", "git-commit"):
        assert last in text
    said = {line for data in exact for line in data.decode().splitlines()}
    for line in text.splitlines():
        ours = re.match(r"\(?(\d+) (names|errors?|matches|files?|messages|lines)\b", line)
        if ours and line not in said and not line.startswith("[yarp: "):
            assert any(line in allowed for allowed in (*FACTS[kind], names or "")) or (
                line == "(70 lines on standard error)"
            )
    assert shown(name, 41)[0] == answer


@pytest.mark.parametrize(
    "date", ["11月30日 00:21", "30. nov. 00:21", "nov 30 00:21", "Th11 30 2025"]
)
def test_a_long_listing_is_read_in_any_language_or_not_at_all(date):
    lines = [f"-rw-r--r-- 1 root root 28 {date} file-{n}.txt" for n in range(90)]
    for total in ("total 360", "总计 360", "insgesamt 360"):
        text = listed("\n".join([total, *lines]) + "\n")
        assert text.startswith("90 names: .txt 90\n")


def test_a_date_that_is_not_understood_leaves_the_listing_exact():
    text = "".join(f"-rw-r--r-- 1 a b 28 gestern abend um acht file-{n}\n" for n in range(90))
    assert listed(text) == ""


def listed(text):
    reduction = Reduction(plan("ls -l", RULES).selection, Settings())
    reduction.feed(0, text.encode())
    status = plan("ls -l", RULES).status(0)
    return reduction.finish(status, Recovery("yr_" + "0" * 32)).stdout.decode()
