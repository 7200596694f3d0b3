"""The words of `yarp run`."""

import pytest

IDS = ["--archive-agent", "a", "--archive-account", "b", "--archive-session", "c"]
WRONG = {
    "nothing": [],
    "no command": ["--"],
    "an unknown option": ["--colour", "--", "true"],
    "an unknown short option": ["-x", "--", "true"],
    "a command without dashes": ["ls", "-l"],
    "a text and a command": ["--shell", "true", "--", "true"],
    "a shell without a text": ["--shell-program", "/bin/sh", "--", "true"],
    "an option without its value": ["--shell"],
    "an option twice": ["--shell", "a", "--shell", "b"],
    "three of the four ids": [*IDS, "--", "true"],
    "an empty id": [*IDS, "--archive-call", "", "--", "true"],
    "a terminal for a host's call": [*IDS, "--archive-call", "d", "--tty", "--", "true"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_wrong_words_are_64_and_one_sentence_and_nothing_runs(yarp, words):
    done = yarp.run(*words)
    assert (done.returncode, done.stdout) == (64, b"")
    assert done.stderr.startswith(b"yarp: ")
    assert done.stderr.count(b"\n") == 1
    import os

    assert not os.path.exists(yarp.archive)


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_begins_with_examples(yarp, word):
    done = yarp.run(word)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Examples:\n  yarp run -- ")
    for option in (b"--shell TEXT", b"--shell-program PATH", b"--tty", b"--archive-call ID"):
        assert option in done.stdout


def test_an_option_takes_its_value_after_an_equals_sign_too(yarp):
    assert yarp.run("--shell=echo a=b").stdout == b"a=b\n"


def test_words_after_the_dashes_are_the_commands_own(yarp):
    assert yarp.run("--", "echo", "--tty", "--", "--help").stdout == b"--tty -- --help\n"
