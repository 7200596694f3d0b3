import random
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.shell.words import simple_argv

WORDS = st.text("abz09-_./:,+@%=~*?[]{}'\"\\$`!#&|;<>() \té^", max_size=24)


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("git status", ["git", "status"]),
        ("  rg\t-n  foo src/a.py ", ["rg", "-n", "foo", "src/a.py"]),
        (
            "npm install left-pad@1.3.0 --tag=next",
            ["npm", "install", "left-pad@1.3.0", "--tag=next"],
        ),
        ("ls 100%", ["ls", "100%"]),
    ],
)
def test_plain_words_are_split_at_blanks(text, argv):
    assert simple_argv(text) == argv


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "a | b",
        "a && b",
        "a; b",
        "a > b",
        "echo 'x'",
        "echo $HOME",
        "ls *.py",
        "ls ~",
        "ls ~user",
        "echo {a,b}",
        "a # b",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\x0bb",
        "A=1 b",
        "time ls",
        "for x",
        "if",
        "! a",
        "[[ a",
        "ls =git",
        "echo !!",
        "größe",
        "a\u00a0b",
    ],
)
def test_whatever_a_shell_could_read_otherwise_is_left_to_the_grammar(text):
    assert simple_argv(text) is None


@given(WORDS)
def test_the_grammar_sees_the_same_words(text):
    argv = simple_argv(text)
    if argv is None:
        return
    import tree_sitter
    import tree_sitter_bash

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    root = parser.parse(text.encode()).root_node
    assert not root.has_error
    (command,) = root.named_children
    assert command.type == "command"
    assert [node.text.decode() for node in command.named_children] == argv


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_reads_the_same_words():
    rng = random.Random(7)
    letters = "abyz0189-_./:,+@%= \t"
    texts = ["".join(rng.choices(letters, k=rng.randint(1, 20))) for _ in range(2000)]
    plain = [text for text in texts if simple_argv("w " + text) is not None]
    script = "".join(f"w {text}\n" for text in plain)
    shown = subprocess.run(
        ["bash", "--norc", "-c", 'w() { printf \'%s\\0\' "$#" "$@"; }\n' + script],
        capture_output=True,
        check=True,
    ).stdout.decode()
    expected = "".join(
        f"{len(argv) - 1}\0" + "".join(word + "\0" for word in argv[1:])
        for argv in (simple_argv("w " + text) or [] for text in plain)
    )
    assert len(plain) > 1000
    assert shown == expected
