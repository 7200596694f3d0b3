"""`yarp run --shell TEXT` beside the plain shell: the same bytes, the same status."""

import os
import random
import re
import subprocess

import pytest

from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules

TEXTS = [
    "ls -l few && true",
    "cd few && ls -l | head -5; echo $?",
    'ls missing; echo "exit: $?"',
    "ls few missing 2>/dev/null || true",
    "ls missing 2>&1 | cat; exit 7",
    "set -e; ls missing; echo never",
    "n=$(ls few | wc -l); echo $n",
    "ls few > out; cat out; rm out",
    "for f in few/*; do ls $f; done",
    "bash -lc 'ls -l few' | tail -1",
    "grep -rn one few | sort | head",
    "grep -c one few/one > n && cat n; rm n",
    "cat <<'EOF' | grep -n b\na b\nc\nEOF",
    "ls few >&2; ls missing >/dev/null",
    "printf 'a\\0b\\377\\n'; ls few",
    "(exit 3)",
    "find few -type f -exec grep -n one {} +",
    "find few -type f | xargs grep -n t | sort",
    "grep -n one few/one; grep -n three few/three",
    "ls few | wc -l && ls -l few",
    "command -v sh && ls few",
    "ls missing || { echo failed; exit 9; }",
    "kill -9 $$; ls",
    "ls few &\nwait",
    "{ ls few; ls missing; } 2>&1",
    "ls 'few' # a comment",
    "true && ls few\nls few\n",
    "ls few; ls )",
    "echo hi | sort; ls -1 few",
    'read x; echo "$x"; ls few',
]
MARKER = re.compile(rb"\[yarp: [^\n]*ref=(yr_[0-9a-f]{32})")


@pytest.fixture
def few(tmp_path):
    (tmp_path / "few").mkdir()
    for name in ("one", "two words", "three"):
        (tmp_path / "few" / name).write_text(f"{name}\n")
    return tmp_path


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_runs_as_in_the_plain_shell(yarp, few, text):
    plain = subprocess.run(
        ["/bin/sh", "-c", text],
        cwd=few,
        env=yarp.env,
        capture_output=True,
        check=False,
        input=b"in\n",
    )
    done = yarp.run("--shell", text, cwd=few, input=b"in\n")
    same = re.compile(rb"^/bin/sh: (?:line )?\d+: ", re.MULTILINE)
    assert done.stdout == plain.stdout
    assert same.sub(b"", done.stderr) == same.sub(b"", plain.stderr)
    assert done.returncode == (128 - plain.returncode if plain.returncode < 0 else plain.returncode)


@pytest.fixture
def many(tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(300):
        (tmp_path / "many" / f"file-{number}.txt").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cd many && ls -l 2>&1", b"300"),
        ("echo '== many'; ls -l many; echo \"exit: $?\"", b"== many\n"),
        ("echo '== many'; ls -l many; echo \"exit: $?\"", b"exit: 0\n"),
        ("ls -l many | head -200", b"of the first 200 lines:"),
        ("rm missing; ls -l many", b"300"),
        ("pwd; ls -l many", b"300"),
    ],
)
def test_a_compound_text_is_shortened_and_the_whole_is_kept(yarp, many, text, shown):
    plain = subprocess.run(
        ["/bin/sh", "-c", text], cwd=many, env=yarp.env, capture_output=True, check=False
    )
    done = yarp.run("--shell", text, cwd=many)
    assert done.returncode == plain.returncode
    assert len(done.stdout) < len(plain.stdout) / 3
    assert shown in done.stdout
    assert len(MARKER.findall(done.stdout + done.stderr)) == 1
    kept = yarp.snapshots(yarp.call())
    assert kept["stdout", "before"][1] == plain.stdout
    for line in plain.stderr.splitlines():
        assert line.rpartition(b": ")[2] in done.stderr


def test_separate_outputs_are_shortened_apart(yarp, many):
    (many / "note").write_text("a remark\n")
    done = yarp.run("--shell", "ls -l many; echo '-----'; cat note", cwd=many)
    assert done.stdout.splitlines()[-1].startswith(b"[yarp: ")
    assert b"\n-----\na remark\n" in done.stdout
    assert b"300" in done.stdout


def test_outputs_with_nothing_between_them_are_shortened_where_they_can_be_told_apart(
    yarp, tmp_path
):
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    for number in range(120):
        (tmp_path / f"file-{number}.txt").write_text("old words\n" * 5)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    for number in range(120):
        (tmp_path / f"file-{number}.txt").write_text("new words\n" * 5)
    done = yarp.run("--shell", "git status && git diff", cwd=tmp_path)
    assert done.stdout.startswith(b"On branch ")
    assert b"120 files" in done.stdout
    assert len(MARKER.findall(done.stdout)) == 1
    for text in (
        "find . -name 'file*' | xargs grep -n new",
        "find . -name 'file*' -exec grep -n new {} +",
        "grep -rn --include='*-1*' new .; grep -rn --include='*-1*' words .",
    ):
        plain = subprocess.run(
            ["/bin/sh", "-c", text], cwd=tmp_path, capture_output=True, check=True
        ).stdout
        done = yarp.run("--shell", text, cwd=tmp_path)
        files = len({line.split(b":")[0] for line in plain.splitlines()})
        assert b"%d matches in %d files" % (plain.count(b"\n"), files) in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        # A separator that is also a line of the output.
        "ls -l many; echo '-----'; echo x > '-----'; ls -d -- -*; ls -l many",
        # An echo that does not end its line where the plan thinks.
        "ls -l many | tr '\\n' ' '; echo done",
        "ls -l many && ls -l many",
        "ls -l many; cat many/*; head -c 5 /dev/zero",
    ],
)
def test_what_cannot_be_told_apart_stays_exact(yarp, many, text):
    plain = subprocess.run(
        ["/bin/sh", "-c", text], cwd=many, env=yarp.env, capture_output=True, check=False
    )
    done = yarp.run("--shell", text, cwd=many)
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)


# -- what a plan claims, held against a real shell ---------------------------------------------

RULES = compile_rules([builtin_pack()])
TOOL = "#!/bin/sh\necho P out\necho P err >&2\nexit $CODE\n"
LINTER = TOOL.replace("P ", "M ")
NOISE = "#!/bin/sh\necho N out\necho N err >&2\nexit 0\n"
PARTS = [
    "pytest", "noise", "cd AWAY", "true", "false", "echo hi", "mkdir -p sub", "A=1 pytest", "x=$(noise)",
    "timeout 9 pytest", "bash -c pytest", "bash -c 'noise; pytest'", "(pytest)", "{ pytest; }",
    "mypy x", "mypy x", "bash -euc 'mypy x; pytest'", "pushd AWAY", "noise | wc -l", "command -v sh",
    "set -e", "(set -e; pytest; true)", "{ set -e; mypy x; true; }", "{ echo hi; exit $?; }", "(exit 3)",
    "! pytest", "{ true; exit; }", "exit 256",
]  # fmt: skip
AROUND = [
    "", " 2>&1", " > /dev/null", " 2>/dev/null", " > f", " >&2", " | cat", " 2>&1 | tail -50",
    " | grep P", " &> f", " 2>&1 >/dev/null", " | head", " |& tee f", " < /dev/null",
]  # fmt: skip
JOINS = [" && ", "; ", " || ", "\n", " | "]


def test_what_a_plan_claims_of_one_tool_holds_in_a_real_shell(tmp_path):
    for name, text in (("pytest", TOOL), ("mypy", LINTER), ("noise", NOISE)):
        (tmp_path / name).write_text(text)
        os.chmod(tmp_path / name, 0o755)
    (tmp_path / "away").mkdir()
    rng = random.Random(17)
    checked = certain = 0
    while checked < 200:
        text = "".join(
            rng.choice(PARTS) + rng.choice(AROUND) + (rng.choice(JOINS) if more else "")
            for more in reversed(range(rng.randint(1, 3)))
        )
        text += rng.choice(("", "", "; echo $?", "\necho $?", '; echo "${PIPESTATUS[0]}"'))
        text = text.replace("AWAY", str(tmp_path / "away"))
        found = plan(text, RULES)
        if found.selection is None or (found.shape and len(found.shape.segments) > 1):
            continue
        checked += 1
        code = rng.choice("03")
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CODE": code}
        done = subprocess.run(
            ["bash", "-c", text], cwd=tmp_path, env=env, capture_output=True, check=False
        )
        tools = {"pytest": "P", "mypy": "M", "several": "PM"}[found.selection.rule]
        outs = {f"{tool} {what}".encode() for tool in tools for what in ("out", "err")}
        told = {b"hi"} if found.shape else set()
        numbers = [line for line in done.stdout.splitlines() if line.isdigit()]
        places = {line for line in done.stdout.splitlines() if line[:1] in (b"/", b"~")}
        assert set(done.stdout.splitlines()) <= {*outs, *told, *numbers, *places}, text
        assert not places or found.shape.segments[0].before or found.shape.segments[0].after, text
        after = found.shape.segments[0].after if found.shape else []
        spoke = any(line in done.stdout for line in outs)
        # Where the shell ended before, the line is missing and all stays exact.
        if after and after[0].status and spoke and numbers and "wc" not in text:
            assert numbers[-1:] == [code.encode()], text
        whole = found.shape is not None and found.shape.whole_stderr
        allowed = {*outs, b"hi"} | ({b"N err", b"N out"} if whole else set())
        if whole and len(found.shape.segments) == 1:
            allowed |= {b"P err", b"P out", b"M err", b"M out"}
        told = {line for line in done.stderr.splitlines() if whole and line[:1] in b"/~1234567890"}
        assert set(done.stderr.splitlines()) <= allowed | told, text
        if found.confidence == "complete" and spoke and not done.returncode:
            certain += 1
            assert code == "0", text
    assert certain > 5
