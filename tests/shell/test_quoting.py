import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.shell.quoting import is_recovery, quote, split


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_quoted_word_reads_back_as_the_word(word):
    assert shlex.split(quote(word)) == [word]


@pytest.mark.parametrize("word", ["", "a b", "it's", "$HOME", "`id`", "a\nb", "~", "é", "-n", "*"])
def test_a_real_shell_gives_the_word_back(word):
    shown = subprocess.run(
        ["/bin/sh", "-c", f"printf '[%s]' {quote(word)}"], capture_output=True, check=True
    )
    assert shown.stdout.decode() == f"[{word}]"


@given(st.lists(st.text(alphabet="ab'\"\\ $|", max_size=6), max_size=5))
def test_splitting_is_the_inverse_of_quoting(words):
    assert split(" ".join(map(quote, words))) == words


@given(st.text(alphabet="ab '\"\\", max_size=20))
def test_splitting_agrees_with_the_standard_library_where_both_understand(text):
    found = split(text)
    try:
        expected = shlex.split(text)
    except ValueError:
        assert found is None
    else:
        assert found == expected


@pytest.mark.parametrize(
    "text",
    ["a | b", "a && b", "a; b", "a > f", "echo $X", "echo `id`", 'echo "$X"', "a # b", "ls *", "a\nb",
     "x ~", "'open", '"open', "a\\"],
)  # fmt: skip
def test_what_a_shell_would_act_on_is_not_split(text):
    assert split(text) is None


@pytest.mark.parametrize(
    ("text", "recovery"),
    [
        ("yarp search yr_0 'FAILED|Error'", True),
        ("  /opt/bin/yarp read yr_0 stdout 1:3 ", True),
        ("yarp grep -F x", True),
        ("yarp calls", True),
        ("yarp run -- ls", False),
        ("yarp", False),
        ("yarp search yr_0 x | head", False),
        ("yarp search yr_0 $(id)", False),
        ("echo yarp search", False),
    ],
)
def test_only_a_plain_recovery_command_is_one(text, recovery):
    assert is_recovery(text) is recovery
