"""Each case of spec "Trace index", 6, and what the first implementation got wrong there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.shell.fragment import MAX_STATEMENTS, statements


def shown(text):
    """Each statement as its words, connector, pipeline, parent and redirects."""
    source = text.encode()
    found, _ = statements(source)
    return [
        (
            " ".join([one["invocations"][0]["program"], *one["invocations"][0]["argv"]])
            if one["invocations"]
            else source[one["range"]["start"] : one["range"]["end"]].decode(),
            one.get("connector"),
            tuple(one["pipeline"].values()) if "pipeline" in one else None,
            one.get("parent_position"),
            [r.get("source_fd", "") + r["operator"] + " " + r["target"] for r in one["redirects"]],
        )
        for one in found
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a | b; c",
            [
                ("a", None, (0, 0), None, []),
                ("b", None, (0, 1), None, []),
                ("c", ";", None, None, []),
            ],
        ),
        ("a > f; b", [("a", None, None, None, ["> f"]), ("b", ";", None, None, [])]),
        (
            "a && b; c",
            [("a", None, None, None, []), ("b", "&&", None, None, []), ("c", ";", None, None, [])],
        ),
        (
            "a && b | c > f",
            [
                ("a", None, None, None, []),
                ("b", "&&", (0, 0), None, []),
                ("c", "&&", (0, 1), None, ["> f"]),
            ],
        ),
        (
            "a\nb & c",
            [
                ("a", None, None, None, []),
                ("b", "newline", None, None, []),
                ("c", "&", None, None, []),
            ],
        ),
        (
            "{ a; b; } > out",
            [("a", None, None, None, ["> out"]), ("b", ";", None, None, ["> out"])],
        ),
        (
            "cat <<'EOF' > out\nhi $(z)\nEOF\n",
            [("cat", None, None, None, ["<< 'EOF'", "> out"])],
        ),
        (
            "cat <<EOF | x\nhi $(z)\nEOF\n",
            [
                ("cat", None, (0, 0), None, ["<< EOF"]),
                ("x", None, (0, 1), None, []),
                ("z", None, None, 0, []),
            ],
        ),
        ("A=1 B=2\nc", [("A=1 B=2", None, None, None, []), ("c", "newline", None, None, [])]),
        ("A=1 B=2 c 2>&1", [("c", None, None, None, ["2>& 1"])]),
        ("2>e >f a b", [("a b", None, None, None, ["2> e", "> f"])]),
        ("a > f b", [("a b", None, None, None, ["> f"])]),
        ("! a || b", [("a", None, None, None, []), ("b", "||", None, None, [])]),
        (
            "x $(a; $(b))",
            [
                ("x $(a; $(b))", None, None, None, []),
                ("a", None, None, 0, []),
                ("$(b)", ";", None, 0, []),
                ("b", None, None, 2, []),
            ],
        ),
        (
            "if a; then b; c; else d; fi",
            [
                ("if a; then b; c; else d; fi", None, None, None, []),
                ("a", None, None, 0, []),
                ("b", None, None, 0, []),
                ("c", ";", None, 0, []),
                ("d", None, None, 0, []),
            ],
        ),
        (
            "a | { b; c; } | d",
            [
                ("a", None, (0, 0), None, []),
                ("b", None, (0, 1), None, []),
                ("c", ";", (0, 1), None, []),
                ("d", None, (0, 2), None, []),
            ],
        ),
    ],
)
def test_a_command_text_is_told_in_statements(text, expected):
    assert shown(text) == expected
    assert statements(text.encode())[1]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("/usr/bin/git x", "git"),
        ("'/opt/my tool' x", "my tool"),
        ('"git"', "git"),
        ("$X a", "$X"),
        ("./bin/* a", "./bin/*"),
        ("a\\ b", "a\\ b"),
        ('"$HOME/x"', '"$HOME/x"'),
        ("pre'fix'", "prefix"),
    ],
)
def test_a_program_is_the_basename_of_what_the_shell_will_not_change(text, program):
    assert statements(text.encode())[0][0]["invocations"][0]["program"] == program


def test_arguments_stay_as_they_are_written():
    (one,), _ = statements(b"""git commit -m 'a b' "$X" --""")
    assert one["invocations"] == [
        {"program": "git", "argv": ["commit", "-m", "'a b'", '"$X"', "--"]}
    ]


@pytest.mark.parametrize(
    "text",
    ["if ((", "echo 'unterminated", "a; b | ; c )", "", "a\0b", "a;;b", "true;;", "a |", "A=1 > f"],
)
def test_a_text_that_is_not_understood_whole_is_partial(text):
    found, complete = statements(text.encode())
    assert complete is (text == "")
    assert all(one["range"]["end"] <= len(text.encode()) for one in found)


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("[ -f x ] && y", ["-f", "x", "]"]),
        ('[ ! -d "a b" -a $n -eq 1 ]', ["!", "-d", '"a b"', "-a", "$n", "-eq", "1", "]"]),
        ("[ x = y ]", ["x", "=", "y", "]"]),
        ('[ -n "$(ls)" ]', ["-n", '"$(ls)"', "]"]),
    ],
)
def test_the_words_of_a_test_are_words(text, argv):
    found, complete = statements(text.encode())
    assert found[0]["invocations"] == [{"program": "[", "argv": argv}]
    assert complete


@pytest.mark.parametrize("text", ["a |", "A=1 > f", "&& a"])
def test_a_command_that_is_missing_is_no_invocation(text):
    found, _ = statements(text.encode())
    assert all(one["invocations"] != [{"program": "", "argv": []}] for one in found)
    assert all(one["range"]["start"] < one["range"]["end"] for one in found)


def test_recovered_statements_of_a_broken_text_are_kept():
    found, complete = statements(b"git status; echo 'unterminated")
    assert [one["invocations"][0]["program"] for one in found[:1]] == ["git"]
    assert not complete


def test_too_many_statements_are_partial():
    found, complete = statements(b"a\n" * (MAX_STATEMENTS + 1))
    assert (len(found), complete) == (MAX_STATEMENTS, False)
    assert statements(b"a\n" * MAX_STATEMENTS)[1]


@given(st.text(alphabet="ab |&;<>(){}$'\"\n#=if the do done\\é", max_size=60))
def test_no_text_breaks_it_and_parents_come_first(text):
    found, _ = statements(text.encode())
    starts = [one["range"]["start"] for one in found]
    assert starts == sorted(starts)
    for index, one in enumerate(found):
        assert one.get("parent_position", -1) < index
