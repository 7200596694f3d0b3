"""Installers and git among builds and tests: each one's outcome, and nothing that none said."""

import io
import os
import re

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])
REFERENCE = "yr_" + "0" * 32

ADDED = (
    "\nadded 212 packages, and audited 213 packages in 4s\n\n"
    "41 packages are looking for funding\n  run `npm fund` for details\n\n"
    "2 moderate severity vulnerabilities\n\nTo address all issues, run:\n  npm audit fix\n\n"
    "Run `npm audit` for details.\n"
)
DEPRECATED = "".join(
    f"npm warn deprecated old-{n}@1.{n}.0: This package is no longer supported, use new-{n}\n"
    for n in range(40)
)
SCRIPT = "\n> shop@1.0.0 test\n> jest\n\n"


def summary(text, stdout, code, stderr="", chunk=1 << 20):
    found = plan(text, RULES)
    assert found.selection.rule == "several"
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    for stream, data in enumerate((stdout.encode(), stderr.encode())):
        for start in range(0, len(data), chunk):
            reduction.feed(stream, data[start : start + chunk])
    return reduction.finish(found.status(code), Recovery(REFERENCE))


def shown(text, stdout, code, stderr="", **more):
    found = summary(text, stdout, code, stderr, **more)
    assert found.changed, found.reason
    assert not found.fault
    return (found.stdout + found.stderr).decode()


def pytest_run(printed=""):
    names = [f"test_{n}" for n in range(12)]
    blocks = "".join(
        f"{f' {name} ':_^80}\n\n    def {name}():\n>       assert 1 == {n}\n"
        f"E       assert 1 == {n}\n\ntests/test_a.py:{n + 3}: AssertionError\n{printed}"
        for n, name in enumerate(names)
    )
    return (
        f"{'F' * 12}{'.' * 30} [100%]\n{' FAILURES ':=^80}\n{blocks}"
        f"{' short test summary info ':=^80}\n"
        + "".join(f"FAILED tests/test_a.py::{name} - assert\n" for name in names)
        + "12 failed, 30 passed in 0.21s\n"
    )


def test_warnings_of_an_installer_cost_no_failing_test_its_name():
    text = shown("npm ci && pytest -q", ADDED + pytest_run(), 1, DEPRECATED)
    for n in range(12):
        assert f"test_a.py::test_{n}" in text
    assert "12 failed, 30 passed" in text
    assert "added 212 packages, and audited 213 packages in 4s" in text
    assert "2 moderate severity vulnerabilities" in text


def test_what_an_installer_warned_of_is_told_where_all_went_well():
    passed = "." * 40 + " [100%]\n" + "40 passed in 0.21s\n"
    text = shown("npm ci && pytest -q", ADDED + passed, 0, DEPRECATED)
    assert "npm warn deprecated (40): old-0@1.0.0 old-1@1.1.0" in text
    assert "40 passed in 0.21s" in text
    assert "vulnerabilities" in text


def test_nothing_is_said_of_tests_that_never_ran():
    errors = "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve\n" + "".join(
        f"npm error While resolving: shop-{n}@1.0.{n}\n" for n in range(120)
    )
    text = shown("npm ci && npm test", "", 1, errors)
    assert "npm error code ERESOLVE" in text
    assert not re.search(r"test|passed|failed", text)


PIP = "".join(
    f"Collecting part-{n}==1.{n}\n  Downloading part_{n}-1.{n}-py3-none-any.whl (12 kB)\n"
    for n in range(60)
)
INSTALLED = "Successfully installed " + " ".join(f"part-{n}-1.{n}" for n in range(60)) + "\n"


def test_what_a_test_prints_is_not_taken_for_what_pip_says():
    printed = "----- Captured stdout call -----\nCollecting stamps\nCollecting coins\n"
    text = shown("pip install -e . && pytest -q", PIP + INSTALLED + pytest_run(printed), 1)
    assert "62 packages" not in text
    assert "Successfully installed 60 packages: part-0-1.0" in text
    assert "part-59" not in text
    # Where pip is quiet, no line is its own.
    text = shown("pip install -q -e . && pytest -q", pytest_run(printed * 4), 1)
    assert "collected" not in text


def test_a_long_list_of_installed_packages_leaves_room_for_what_failed():
    more = INSTALLED.strip() + "".join(f" more-{n}-2.{n}" for n in range(900)) + "\n"
    text = shown("pip install -e . && pytest -q", PIP + more + pytest_run(), 1)
    for n in range(12):
        assert f"test_a.py::test_{n}" in text
    # Of so long a line not all is read, and so nothing is counted.
    assert "Successfully installed part-0-1.0 part-1-1.1" in text
    assert not re.search(r"installed \d+ packages", text)


def test_a_build_that_failed_below_pip_is_read_as_a_build():
    compiled = "".join(
        f"      gcc -O2 -c part{n}.c -o build/temp.linux-x86_64/part{n}.o\n" for n in range(90)
    )
    stderr = (
        "  error: subprocess-exited-with-error\n  \n"
        "  \u00d7 Building wheel for fast (pyproject.toml) did not run successfully.\n"
        f"  │ exit code: 1\n  ╰─> [95 lines of output]\n{compiled}"
        "      part90.c:4:10: fatal error: zlib.h: No such file or directory\n"
        "          4 | #include <zlib.h>\n            |          ^~~~~~~~\n"
        "      compilation terminated.\n"
        "      error: command '/usr/bin/gcc' failed with exit code 1\n"
        "      [end of output]\n  \n"
        "  note: This error originates from a subprocess.\n"
        "  ERROR: Failed building wheel for fast\n"
        "ERROR: Could not build wheels for fast\n"
    )
    text = shown("pip install . && pytest", PIP, 1, stderr)
    assert "\npart90.c:4:10: fatal error: zlib.h: No such file or directory\n" in text
    assert "command '/usr/bin/gcc' failed with exit code 1" in text
    assert "ERROR: Could not build wheels for fast" in text
    assert "passed" not in text


COMMITTED = "[main 1a2b3c4] More files\n 90 files changed, 90 insertions(+)\n" + "".join(
    f" create mode 100644 src/part{n}.py\n" for n in range(90)
)
REJECTED = (
    "To ../there.git\n ! [rejected]        main -> main (fetch first)\n"
    "error: failed to push some refs to '../there.git'\n"
    "hint: Updates were rejected because the remote contains work that you do\n"
)


def test_a_rejected_push_behind_a_commit_is_told_as_rejected():
    text = shown("git commit -m x && git push", COMMITTED * 2, 1, REJECTED)
    assert "[main 1a2b3c4] More files" in text
    assert "90 files changed, 90 insertions(+)" in text
    assert "! [rejected]        main -> main (fetch first)" in text
    assert "error: failed to push some refs" in text


def test_what_a_hook_runs_is_read_as_builds_and_tests_are():
    text = shown("git commit -m x && git push", "", 1, pytest_run("a line of a log\n" * 20))
    assert "12 failed, 30 passed" in text
    assert "test_a.py::test_11" in text


def test_what_nobody_knows_stays_whole():
    strange = "".join(f"polishing stone number {n}\n" for n in range(200))
    found = summary("git commit -m x && git push", strange + COMMITTED, 0, "")
    assert not found.changed


def test_usage_that_npm_shows_hides_nothing_that_comes_later():
    usage = (
        "npm error code EUSAGE\nnpm error Usage:\nnpm error npm ci\nnpm error Options:\n"
        + "npm error [--install-strategy]\n" * 300
        + "npm error A complete log of this run can be found in: /x.log\n"
    )
    later = "npm error code ELIFECYCLE\nnpm error shop@1.0.0 build: `tsc`\n"
    text = shown("npm ci; npm run build", "", 1, usage + later)
    assert "npm error code EUSAGE" in text
    assert "npm error code ELIFECYCLE" in text
    assert "--install-strategy" not in text


def test_apt_in_front_of_a_build():
    apt = "".join(
        f"Get:{n} http://deb.example.org stable/main lib{n} amd64 1.{n} [9 kB]\n"
        f"Selecting previously unselected package lib{n}.\nUnpacking lib{n} (1.{n}) ...\n"
        f"Setting up lib{n} (1.{n}) ...\n"
        for n in range(40)
    )
    lists = "The following NEW packages will be installed:\n  lib0 lib1 lib2\n  lib3 lib4\n"
    counts = "0 upgraded, 40 newly installed, 0 to remove and 3 not upgraded.\n"
    built = "cc -c a.c\na.c:3:1: error: unknown type name 'strange'\nmake: *** [a.o] Error 1\n"
    text = shown("apt-get install -y x && make", lists + counts + apt + built, 2)
    assert counts.strip() in text
    assert "a.c:3:1: error: unknown type name 'strange'" in text
    assert "make: *** [a.o] Error 1" in text
    assert "Unpacking" not in text


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_how_the_bytes_arrive_does_not_show(chunk):
    stdout = COMMITTED + ADDED + pytest_run("Collecting stamps\n")
    for text in ("git pull && npm ci && pytest -q", "pip install x && pytest -q"):
        first, second = (
            summary(text, stdout, 1, DEPRECATED + REJECTED, chunk=size) for size in (1 << 20, chunk)
        )
        assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


def test_the_outcome_of_a_push_behind_a_very_long_output_is_found():
    long = "".join(f"src/part{n}.py:1:1: F401 `os` imported but unused\n" for n in range(20_000))
    text = shown("make lint; git commit -m x && git push", long + COMMITTED, 0)
    assert "[main 1a2b3c4] More files" in text
    assert "90 files changed" in text


def test_a_status_is_the_texts_own():
    assert plan("npm ci && npm test", RULES).status(1).success is False
    assert Status(None).success is None
    assert plan("npm ci; npm test", RULES).status(0).success is None


RECORDINGS = os.path.join(os.path.dirname(__file__), "recordings", "test")


def recorded(name):
    """Both streams of a recorded run as one, and the facts that it must keep."""
    parts = []
    for part in ("stdout", "stderr", "must_keep.txt"):
        path = os.path.join(RECORDINGS, name, part)
        with open(path, encoding="utf-8") if os.path.exists(path) else io.StringIO() as file:
            parts.append(file.read())
    return parts[0] + parts[1], parts[2].splitlines()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pytest_mixed_q", "jest_mixed"),
        ("jest_mixed", "pytest_mixed_q"),
        ("pytest_mixed_q", "go_cart_v"),
        ("cargo_merged", "pytest_mixed_q"),
        ("node_test", "pytest_mixed_q"),
        ("unittest_mixed", "vitest_mixed"),
    ],
)
def test_two_runners_one_after_the_other_are_both_read(first, second):
    outputs, facts = zip(*map(recorded, (first, second)), strict=True)
    header = "\n> shop@1.0.0 test\n> run\n\n"
    text = shown("make test; npm test", header + outputs[0] + header + outputs[1], 1)
    lost = [fact for fact in (*facts[0], *facts[1]) if fact not in text]
    assert lost == []


def test_a_run_that_a_test_prints_stays_with_the_test():
    printed = (
        "----- Captured stdout call -----\n\n> other@1.0.0 test\n> jest\n\nFAIL src/coin.test.js\n"
        "  ● coins \u203a are not stamps\n\n    expect(received).toBe(expected)\n\n"
        "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 total\n"
        + "a line of a log\n"
        * 20
    )
    text = shown("make lint; pytest -q", pytest_run(printed), 1)
    assert "FAIL src/coin.test.js: coins" not in text
    assert "Test Suites: 1 failed" not in text.partition("FAILED ")[0]
    assert "12 failed, 30 passed" in text
    assert "test_a.py::test_11" in text


@pytest.mark.parametrize("lines", [1, 40_000])
def test_a_commit_that_a_failing_test_prints_is_none_of_the_texts(lines):
    printed = (
        "----- Captured stdout call -----\n[main 1a2b3c4] A commit of the test\n"
        " 7 files changed, 7 insertions(+)\nadded 7 packages in 3s\n"
        " ! [rejected]        main -> main (fetch first)\n" + "a line of a log\n" * lines
    )
    head, session, rest = pytest_run().partition("test_a.py:3: AssertionError\n")
    stdout = head + session + printed + rest
    for text in ("pytest -q && git add -A && git commit -m x && git push", "npm ci && pytest -q"):
        reply = shown(text, stdout * (1 if lines > 1 else 2), 1)
        before = reply.partition("FAILED")[0]
        assert "12 failed, 30 passed" in before
        after = reply.rpartition("FAILED")[2]
        for claim in ("A commit of the test", "7 files changed", "added 7", "[rejected]"):
            assert claim not in before
            assert claim not in after


def test_a_commit_behind_tests_is_told():
    passed = f"{' test session starts ':=^80}\n" + "." * 3000 + f"\n{' 30 passed in 2.1s ':=^80}\n"
    text = shown("pytest && git add -A && git commit -m x && git push", passed + COMMITTED, 0)
    assert "30 passed in 2.1s" in text
    assert "[main 1a2b3c4] More files" in text
    assert "90 files changed" in text


def test_of_more_files_than_are_read_no_exact_count_is_told():
    head = "[main 1a2b3c4] All files\n 60000 files changed, 60000 insertions(+)\n"
    for count in (9_000, 18_000, 60_000):
        many = "".join(f" create mode 100644 src/part{n}.py\n" for n in range(count))
        found = summary("git commit -m x && git push", head + many, 0)
        # Far more than anybody commits stays exact.
        assert found.changed == (count < 60_000)
        counts = re.findall(rb"create mode \((.*?)\)", found.stdout)
        assert counts in ([], [b"%d" % count], [b"at least %d" % count])


def test_of_the_last_lines_of_an_installer_nothing_is_counted():
    last = "".join(f"Requirement already satisfied: part-{n}==1 in /x (1)\n" for n in range(5))
    text = shown("pip install x | tail -5; pytest -q", last + pytest_run("a line\n" * 30), 1)
    assert "Requirement already satisfied: part-0==1" in text
    assert not re.search(r"\b5 requirements|already satisfied: part-4.*\(and \d", text)
    assert "12 failed, 30 passed" in text


def test_the_last_lines_of_the_last_command_are_told_as_that():
    tests = "\n".join(pytest_run("a line of a log\n" * 30).splitlines()[-300:]) + "\n"
    text = shown("npm ci && pytest -q | tail -300", ADDED + tests, 0)
    assert text.startswith("of the last command's output the last 300 lines:\n")
    assert "added 212 packages" in text
    assert "12 failed, 30 passed" in text
    assert "FAILED tests/test_a.py::test_11" in text
