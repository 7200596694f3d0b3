"""Mistakes that other reducers are known for, one test each, on the real command.

A command that is not installed everywhere is played by a script that prints what it printed.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import pytest

from yarp.reduce.engine import Reduction
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])
PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")
MARKER = b"[yarp: "


class Yarp:
    """Runs a text below `yarp run`, and beside it in the plain shell."""

    def __init__(self, home, work):
        self.work = work
        self.bin = home / "bin"
        self.env = {
            "PATH": f"{self.bin}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def run(self, text, **more):
        """What the model gets to see."""
        return self._run([PROGRAM, "run", "--shell", text], **more)

    def plain(self, text, **more):
        return self._run(["/bin/sh", "-c", text], **more)

    def _run(self, argv, **more):
        return subprocess.run(
            argv, cwd=self.work, capture_output=True, timeout=60, check=False,
            **{"env": self.env, "stdin": subprocess.DEVNULL, **more},
        )  # fmt: skip

    def reduced(self, text, output, code=0):
        """What `yarp reduce` makes of a recorded output."""
        argv = [PROGRAM, "reduce", "--command", text, "--exit-code", str(code)]
        return self._run(argv, input=output, stdin=None).stdout

    def git(self, *words, cwd=None):
        subprocess.run(
            ["git", *words], cwd=cwd or self.work, env=self.env, check=True, capture_output=True
        )

    def script(self, name, text):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def both(self, text, **more):
        """The plain run and ours; their exit statuses are the same."""
        plain, shown = self.plain(text, **more), self.run(text, **more)
        assert shown.returncode == plain.returncode
        return plain, shown


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    return home


@pytest.fixture
def yarp(home, tmp_path):
    return Yarp(home, tmp_path)


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def shortened(done):
    return MARKER in done.stdout + done.stderr


def counts(data):
    return set(re.findall(rb"(\d+ (?:passed|failed|errors?|skipped))", data))


# "No tests collected" or "20 passed" over a run that failed, errored at collection, or had a
# failing fixture (`addopts = -q` suffices); a count that the tool's own summary does not bear
# out; "0 containers" for a daemon that is not there; "ok" for a push that was rejected.

PYTEST = "python -m pytest"
FAILING = (
    "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_n(n):\n    assert n % 2\n"
)


@pytest.mark.parametrize("option", ["-q", "-qq"])
def test_a_failed_run_is_never_told_as_passed_or_empty(yarp, option):
    (yarp.work / "pytest.ini").write_text(f"[pytest]\naddopts = {option}\n")
    write(yarp.work, test_a=FAILING)
    shown = yarp.run(PYTEST)
    assert shown.returncode == 1
    assert shortened(shown)
    # With -qq pytest itself gives no totals: then nobody does.
    assert counts(shown.stdout) == ({b"20 failed", b"20 passed"} if option == "-q" else set())
    assert b"no tests" not in shown.stdout.lower()
    for number in range(0, 40, 2):
        assert b"test_n[%d]" % number in shown.stdout


def test_errors_at_collection_are_the_outcome(yarp):
    write(yarp.work, test_good="def test_good(): pass\n")
    for number in range(12):
        write(yarp.work, **{f"test_{number}": "import no_such_module\n"})
    shown = yarp.run(f"{PYTEST} --continue-on-collection-errors")
    assert (shown.returncode, shortened(shown)) == (1, True)
    assert counts(shown.stdout) == {b"1 passed", b"12 errors"}
    assert b"no_such_module" in shown.stdout


def test_a_failing_fixture_is_the_outcome(yarp):
    write(
        yarp.work,
        test_a="import pytest\n@pytest.fixture\ndef broken(): raise OSError('no database')\n"
        + "".join(
            f"def test_good_{n}(): pass\ndef test_bad_{n}(broken): pass\n" for n in range(20)
        ),
    )
    shown = yarp.run(f"{PYTEST} -q")
    assert (shown.returncode, shortened(shown)) == (1, True)
    assert counts(shown.stdout) == {b"20 passed", b"20 errors"}
    assert b"no database" in shown.stdout


def test_no_count_is_made_up_that_the_summary_of_the_tool_does_not_bear_out(yarp):
    write(
        yarp.work,
        test_a="import pytest\n"
        + "".join(
            f"def test_{n}(): print('99 passed, 7 failed'); assert {n} % 3\n" for n in range(30)
        )
        + "@pytest.mark.skip\ndef test_s(): pass\n@pytest.mark.xfail\ndef test_x(): assert 0\n",
    )
    plain, shown = yarp.both(f"{PYTEST} -v")
    assert shortened(shown)
    (said,) = [line for line in plain.stdout.splitlines() if b"xfailed" in line]
    assert said.strip(b"= ").partition(b" in ")[0] in shown.stdout
    assert counts(shown.stdout) <= counts(plain.stdout)


DAEMON = "Cannot connect to the Docker daemon at unix:///nowhere. Is the docker daemon running?"


@pytest.mark.parametrize("text", ["docker ps", "docker images", "docker ps 2>&1 | head -20"])
def test_a_daemon_that_is_not_there_is_no_empty_list(yarp, text):
    if shutil.which("docker") is None:
        yarp.script("docker", f"echo '{DAEMON}' >&2; exit 1")
    plain, shown = yarp.both(text, env={**yarp.env, "DOCKER_HOST": "unix:///nowhere"})
    assert (shown.stdout, shown.stderr) == (plain.stdout, plain.stderr)
    assert b"Is the docker daemon running" in shown.stdout + shown.stderr


def test_a_rejected_push_is_told_as_rejected(yarp):
    yarp.git("init", "-q", "--bare", "there.git")
    for name in ("one", "two"):
        yarp.git("clone", "-q", "there.git", name)
        yarp.git("commit", "-q", "--allow-empty", "-m", name, cwd=yarp.work / name)
    yarp.git("push", "-q", "origin", "HEAD", cwd=yarp.work / "one")
    # What a hook says makes it long enough to be shortened.
    hook = yarp.work / "two" / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nfor n in $(seq 400); do echo checking object $n >&2; done\n")
    hook.chmod(0o755)
    plain, shown = yarp.both("cd two && git push origin HEAD")
    assert shown.returncode == 1
    text = shown.stdout + shown.stderr
    assert b"! [rejected]" in text
    assert b"error: failed to push some refs" in text
    assert b"! [rejected]" in plain.stderr


# `cmd | filter` losing the status; a rewritten command answering the user's permission question;
# a rule that turns an error in its own hook into silence for months.


def test_a_filter_does_not_lose_the_status(yarp):
    write(yarp.work, test_a=FAILING)
    shown = yarp.run(f"bash -c 'set -o pipefail; {PYTEST} | tail -60'")
    assert shown.returncode == 1
    told = 'echo "exit ${PIPESTATUS[0]}"'
    shown = yarp.run(f"bash -c '{PYTEST} -v | tail -90; {told}'")
    assert b"\nexit 1\n" in shown.stdout
    assert b"20 failed" in shown.stdout


def test_a_rewritten_command_answers_no_question_of_permission(yarp):
    # A plan says what to run, and nothing of whether it may run; the text stays readable in it.
    text = "cd x && git push --force"
    found = yarp._run([PROGRAM, "plan", "--json", text])
    plan = json.loads(found.stdout)
    assert set(plan) == {"version", "execution", "result"}
    assert set(plan["execution"]) == {"kind", "command"}
    assert plan["execution"]["command"].endswith(f"--shell '{text}'")


def test_a_fault_of_ours_is_said_and_never_silence(yarp, plugin_site):
    plugin_site.install(
        "acme",
        "from yarp.plugin import Band, Family, Reducer, hookimpl\n"
        "class Broken(Family):\n"
        "    def feed(self, stream, block): pass\n"
        "    def finish(self, status): raise ValueError\n"
        "@hookimpl\ndef yarp_reducers():\n"
        "    return [Reducer('own', band=Band.EXACT, serves=['ls'], make=Broken)]\n",
    )
    text = "ls -l /usr/bin"
    env = {**yarp.env, "PYTHONPATH": str(plugin_site.path)}
    plain, shown = yarp.both(text, env=env)
    assert shown.stdout == plain.stdout
    assert b"reducer own of plugin acme raised ValueError" in shown.stderr


# Text that a pipe, a redirect or `$( )` consumes being the shortened one. Nothing that a program
# reads is ever reduced, only what the model reads.


@pytest.fixture
def repository(yarp):
    yarp.git("init", "-q", ".")
    (yarp.work / "f").write_text("".join(f"a foo line {n}\n" for n in range(900)))
    yarp.git("add", ".")
    yarp.git("commit", "-qm", "one")
    (yarp.work / "f").write_text("".join(f"another foo line {n}\n" for n in range(900)))
    return yarp


@pytest.mark.parametrize(
    "text",
    [
        "n=$(grep -c foo f); echo $n",
        "n=$(grep -n foo f | wc -l); echo $n",
        "git diff > p && git apply -R p && git diff | wc -c",
        "git show HEAD:f > out; cmp out f; wc out",
        "git diff | git apply --stat -",
        "grep -n foo f | cut -d: -f1 | tail -1",
        "diff <(git show HEAD:f) f > d; wc -l < d",
        "tar cf - f | tar tvf - | wc -l",
    ],
)
def test_what_a_program_reads_is_never_shortened(repository, text):
    if "<(" in text:
        text = f"bash -c '{text}'"
    plain = repository.plain(text)
    repository.git("checkout", "-q", "f")
    (repository.work / "f").write_text("".join(f"another foo line {n}\n" for n in range(900)))
    shown = repository.run(text)
    assert shown.returncode == plain.returncode
    assert shown.stdout == plain.stdout


def test_a_patch_that_is_kept_applies(repository):
    repository.run("git diff > p; git diff")
    repository.git("checkout", "-q", "f")
    repository.git("apply", "p")
    assert (repository.work / "f").read_text().startswith("another foo line 0\n")


# JSON values replaced by their types; a patch that exists nowhere; `find` predicates dropped; grep
# flags changed. We never change a command's arguments.


def test_the_values_of_json_are_its_own(yarp):
    rows = [{"id": n, "name": f"item {n}", "price": n * 1.5} for n in range(800)]
    (yarp.work / "data.json").write_text(json.dumps(rows, indent=1))
    plain, shown = yarp.both("cat data.json")
    assert shortened(shown)
    assert b'"item 0"' in shown.stdout
    for line in re.findall(rb'"name": "[^"]*"', shown.stdout):
        assert line in plain.stdout
    assert not re.search(rb'"name": "?(?:string|str|<string>)"?[,}\n]', shown.stdout)


def test_every_line_of_a_patch_that_is_shown_is_in_the_patch(repository):
    plain, shown = repository.both("git diff")
    assert shortened(shown)
    lines = plain.stdout.splitlines()
    changed = [line for line in shown.stdout.splitlines() if line[:1] in (b"+", b"-")]
    assert changed
    assert [line for line in changed if line not in lines and not re.match(rb"[+-]\d+", line)] == []
    # Nothing of it can be taken for a whole patch.
    assert shown.stdout.splitlines()[-1].startswith(MARKER)


@pytest.mark.parametrize(
    "text",
    [
        "find . ! -name '*.py' -not -path './x y/*' -newer f -size +1k",
        "grep -rnIwE --include='*.p[yx]' -A2 'a|b' .",
        "git log --oneline -n 5 --author='A B'",
        "rg -n --no-ignore -g '!x' 'a b' .",
    ],
)
def test_the_arguments_of_a_command_are_not_changed(yarp, text):
    name = text.split()[0]
    yarp.script(name, 'printf "%s\\n" "$@" > "$RECORD"; seq 2000')
    try:
        for run, file in ((yarp.plain, "plain"), (yarp.run, "ours")):
            run(text, env={**yarp.env, "RECORD": str(yarp.work / file)})
    finally:
        (yarp.bin / name).unlink()
    assert (yarp.work / "ours").read_text() == (yarp.work / "plain").read_text()


# Nothing to see until exit for `npm run dev`; 50 GB of memory for a large log; quadratic time on
# `git blame`.


def test_a_server_is_seen_while_it_runs(yarp):
    if shutil.which("npm") is None:
        yarp.script("npm", "echo ready; sleep 30")
    scripts = {"dev": "echo ready; sleep 30"}
    (yarp.work / "package.json").write_text(json.dumps({"name": "x", "scripts": scripts}))
    done = subprocess.Popen(
        [PROGRAM, "run", "--shell", "npm run dev"], cwd=yarp.work, env=yarp.env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        for line in done.stdout:
            if line == b"ready\n":
                break
        else:
            pytest.fail("it ended before anything was seen")
        assert done.poll() is None
    finally:
        os.killpg(done.pid, 9)
        done.wait()
        done.stdout.close()


def test_a_large_log_takes_little_memory(yarp):
    (yarp.work / "big.log").write_bytes(
        b"2026-01-01T00:00:00 INFO request served in 12 ms by worker 7\n" * 500_000
    )
    watch = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    argv = [sys.executable, "-c", watch, PROGRAM, "run", "--shell", "cat big.log"]
    found = yarp._run(argv)
    assert int(found.stdout) < 64 << 10


def test_the_time_of_git_blame_grows_with_its_length():
    line = b"%08x (A Person 2026-01-01 10:00:00 +0100 %6d) a line of code\n"
    times = []
    for count in (20_000, 80_000):
        data = b"".join(line % (n * 2654435761 % (1 << 32), n) for n in range(count))
        best = []
        for _ in range(3):
            start = time.process_time_ns()
            _reduce("git blame f", data)
            best.append(time.process_time_ns() - start)
        times.append(min(best))
    # Four times the lines: sixteen times the work would be quadratic.
    assert times[1] < 10 * times[0]


def _reduce(text, data, code=0):
    found = plan(text, RULES)
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    for at in range(0, len(data), 1 << 16):
        reduction.feed(0, data[at : at + (1 << 16)])
    return reduction.finish(found.status(code), Recovery("yr_" + "0" * 32))


# German, French, Chinese or Japanese messages read as empty: see test_other_languages.py for more.


def test_messages_in_other_languages_are_not_read_as_empty(yarp):
    status = (
        "Auf Branch main\nÄnderungen, die nicht zum Commit vorgemerkt sind:\n"
        '  (benutzen Sie "git add <Datei>...", um die Änderungen zum Commit vorzumerken)\n'
        + "".join(f"\tgeändert:       src/teil/datei-{n}.py\n" for n in range(200))
        + '\nkeine Änderungen zum Commit vorgemerkt (benutzen Sie "git add")\n'
    ).encode()
    shown = yarp.reduced("git status", status)
    assert b"Auf Branch main" in shown
    assert b"datei-" in shown
    assert b"clean" not in shown


# A footer on output that was not shortened; a banner that makes small output longer; recovery that
# expires, or is itself shortened.


@pytest.mark.parametrize("lines", [0, 1, 5, 40])
def test_small_output_has_neither_footer_nor_banner(yarp, lines):
    (yarp.work / "d").mkdir()
    for number in range(lines):
        (yarp.work / "d" / f"n{number}").touch()
    plain, shown = yarp.both("ls d")
    assert (shown.stdout, shown.stderr) == (plain.stdout, plain.stderr)


def test_no_output_gets_longer():
    rng = random.Random(5)
    for text in ("git log", "pytest -v", "grep -rn x .", "ls -la", "cargo build", "cat x.log"):
        for size in (900, 1030, 1200, 1500, 4000, 4200, 5000):
            data = b""
            while len(data) < size:
                data += b"a%d: word %d\n" % (rng.randrange(50), rng.randrange(9999))
            found = _reduce(text, data, rng.choice((0, 1)))
            if found.changed:
                assert len(found.stdout + found.stderr) < len(data)


def test_recovery_is_exact_whole_and_lasts(yarp):
    (yarp.work / "d").mkdir()
    for number in range(200):
        (yarp.work / "d" / f"n{number}").touch()
    plain, shown = yarp.both("ls -l d")
    reference = re.search(rb"ref=(yr_[0-9a-f]{32})", shown.stdout)[1].decode()
    lines = plain.stdout.splitlines(keepends=True)
    for _ in range(2):
        read = yarp.run(f"yarp read {reference} stdout 1:{len(lines)}")
        assert read.stdout == plain.stdout
        assert MARKER not in read.stderr


# stderr dropped when stdout is empty; a panic on a multi-byte character at a cut; a rule for
# `uv pip` swallowing `uv --version`.


def test_stderr_is_kept_when_stdout_is_empty(yarp):
    _, shown = yarp.both("grep -rn foo missing also-missing")
    assert shown.stdout == b""
    assert shown.stderr.count(b"No such file or directory") == 2
    names = " ".join(f"missing-{n}" for n in range(300))
    plain, shown = yarp.both(f"grep -n foo {names}")
    assert plain.stdout == b""
    assert b"missing-0" in shown.stderr
    assert b"No such file or directory" in shown.stderr


@pytest.mark.parametrize("character", ["é", "漢", "😀", "\u0301", "א"])
def test_a_cut_never_breaks_a_character(character):
    for pad in range(4):
        line = "x" * pad + character * 6000
        data = (f"{line}\n" * 3 + f"a.py:1: {line}\n").encode()
        for text in ("cat f.log", "grep -rn . f.log"):
            found = _reduce(text, data)
            assert found.changed
            assert "\ufffd" not in found.stdout.decode()


@pytest.mark.parametrize(
    "text", ["uv --version", "pip --version", "uv pip --help", "cargo --version", "git --version",
             "go version", "npm --version", "pytest --version", "docker --version"],
)  # fmt: skip
def test_a_version_is_shown_as_it_is(yarp, text):
    found = yarp._run([PROGRAM, "rules", "explain", "--json", "--", *text.split()])
    assert json.loads(found.stdout)["outcome"] != "reduce"
