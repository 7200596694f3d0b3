"""`yarp reduce` as a whole process: a filter from standard input to standard output."""

import os
import subprocess
import sys

import pytest

PASSED = b"".join(b"tests/test_a.py::test_%d PASSED\n" % n for n in range(400))
PYTEST = (
    b"===== test session starts =====\ncollected 401 items\n\n"
    + PASSED
    + b"tests/test_a.py::test_bad FAILED\n\n===== FAILURES =====\n____ test_bad ____\n\n"
    + b"    def test_bad():\n>       assert 1 == 2\nE       assert 1 == 2\n\ntests/test_a.py:9: AssertionError\n"
    + b"===== short test summary info =====\nFAILED tests/test_a.py::test_bad - assert 1 == 2\n"
    + b"===== 1 failed, 400 passed in 0.31s =====\n"
)


@pytest.fixture
def reduce(yarp_home):
    def run(*words, data=PYTEST, **options):
        return subprocess.run(
            [sys.executable, "-m", "yarp", "reduce", *words],
            input=data,
            capture_output=True,
            check=False,
            **options,
        )

    return run


def test_a_failing_run_is_shortened_with_its_facts_and_says_it_is_not_archived(reduce, yarp_home):
    done = reduce("--command", "pytest -v", "--exit-code", "1")
    assert done.returncode == 0
    assert done.stderr == b""
    for fact in (b"1 failed, 400 passed", b"test_bad", b"assert 1 == 2"):
        assert fact in done.stdout
    assert b"omitted; not archived]\n" in done.stdout
    assert len(done.stdout) < len(PYTEST) // 5
    assert not (yarp_home / "data").exists()


def test_the_answer_is_the_same_however_the_input_arrives(yarp_home, reduce):
    words = [sys.executable, "-m", "yarp", "reduce", "--command=pytest -v", "--exit-code=1"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for at in range(0, len(PYTEST), 997):
        child.stdin.write(PYTEST[at : at + 997])
        child.stdin.flush()
    assert child.communicate()[0] == reduce(*words[4:]).stdout


@pytest.mark.parametrize(
    "command",
    [
        "sometool",
        "pytest --collect-only -q",
        "",
        "a && b | c",
        "'open",
        "git log > f",
        "pytest | wc",
    ],
)
def test_what_no_rule_selects_is_copied_byte_for_byte(reduce, command):
    data = bytes(range(256)) * 5000 + b"no newline"
    done = reduce("--command", command, data=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_an_unselected_stream_is_passed_on_while_it_comes(yarp_home):
    words = [sys.executable, "-m", "yarp", "reduce", "--command", "tail -f log"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for line in (b"one\n", b"two\n"):
        child.stdin.write(line)
        child.stdin.flush()
        assert child.stdout.readline() == line
    child.stdin.close()
    assert child.wait(20) == 0
    child.stdout.close()


def test_small_and_unreadable_output_comes_out_as_it_went_in(reduce):
    for data in (b"", b"1 passed\n", b"\xff\xfe\x00" * 9):
        assert reduce("--command", "pytest", data=data).stdout == data


def test_a_binary_file_comes_out_as_it_went_in(reduce):
    data = b"a\0b\n" * 600_000
    done = reduce("--command", "cat a.bin", data=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_a_quoted_command_selects_its_rule(reduce):
    assert b"not archived" in reduce("--command", "pytest -v -k 'bad or good'").stdout


@pytest.mark.parametrize(
    "command",
    ["cd web && pytest -v 2>&1", "CI=1 timeout 60 uv run pytest -v", "bash -lc 'pytest -v'"],
)
def test_a_compound_text_is_seen_through(reduce, command):
    done = reduce("--command", command, "--exit-code", "1")
    assert b"1 failed, 400 passed" in done.stdout
    assert b"not archived" in done.stdout


def test_a_closed_reader_ends_it_with_141(yarp_home):
    for command in ("cat", "pytest -v"):
        reader, writer = os.pipe()
        os.close(reader)
        with open(os.devnull, "wb") as devnull:
            done = subprocess.run(
                [sys.executable, "-m", "yarp", "reduce", "--command", command],
                input=PYTEST,
                stdout=writer,
                stderr=devnull,
                check=False,
            )
        os.close(writer)
        assert done.returncode == 141


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--command TEXT is missing"),
        (("--command",), "--command needs a value"),
        (("--command", "x", "--exit-code", "300"), "--exit-code takes 0 to 255"),
        (("--command", "x", "y"), "unexpected word y"),
        (("--loud",), "unknown option --loud"),
    ],
)
def test_wrong_words_are_usage_errors(reduce, words, said):
    done = reduce(*words)
    assert done.returncode == 64
    assert done.stdout == b""
    assert said in done.stderr.decode()


def test_a_broken_configuration_is_said_and_nothing_is_swallowed_in_silence(reduce, yarp_home):
    (yarp_home / "config" / "yarp").mkdir(parents=True)
    (yarp_home / "config" / "yarp" / "config.toml").write_text(
        "version = 1\n[reduce]\nsuccess_bytes = 'x'\n"
    )
    done = reduce("--command", "pytest -v")
    assert done.returncode == 64
    assert done.stdout == PYTEST
    assert b"config.toml" in done.stderr


def test_a_full_disk_costs_the_summary_alone(yarp_home, reduce):
    data = PASSED * 100
    done = reduce("--command", "pytest -v", data=data, env={**os.environ, "TMPDIR": "/nowhere"})
    assert done.stdout == data
    assert done.returncode == 74
    assert done.stderr.startswith(b"yarp: ")


def test_switched_off_it_copies(reduce, yarp_home):
    (yarp_home / "config" / "yarp").mkdir(parents=True)
    (yarp_home / "config" / "yarp" / "config.toml").write_text(
        "version = 1\n[pruning]\nenabled = false\n"
    )
    assert reduce("--command", "pytest -v").stdout == PYTEST


def test_help_shows_examples_first(reduce):
    done = reduce("--help")
    assert done.stdout.startswith(b"Examples:")
    assert done.returncode == 0
