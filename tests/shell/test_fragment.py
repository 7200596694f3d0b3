"""Each case of spec "Trace index", 6, and what the first implementation got wrong there."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import assume, given, settings
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
        ("exec {log}>>f", [("exec", None, None, None, ["{log}>> f"])]),
        ("a {x}<f b 2>&1", [("a b", None, None, None, ["{x}< f", "2>& 1"])]),
        ("exec {x}>&-", [("exec", None, None, None, ["{x}>&- "])]),
        ("a '{x}>f' ${x}>f", [("a '{x}>f' ${x}", None, None, None, ["> f"])]),
        ("exec 3<>/dev/x", [("exec", None, None, None, ["3<> /dev/x"])]),
        ("a '<>' <> f", [("a '<>'", None, None, None, ["<> f"])]),
        ("a 3<<<x", [("a", None, None, None, ["3<<< x"])]),
        (
            "f() { a; } > x",
            [("f() { a; } > x", None, None, None, ["> x"]), ("a", None, None, 0, [])],
        ),
        (
            "cat <<A 3<<-'B' | wc\none\nA\n\trm -rf x; y\n\tB\nz",
            [
                ("cat", None, (0, 0), None, ["<< A", "3<<- 'B'"]),
                ("wc", None, (0, 1), None, []),
                ("z", "newline", None, None, []),
            ],
        ),
        (
            "cat > f <<'E'; chmod +x f\nrm $(x)\nE\nz",
            [
                ("cat", None, None, None, ["> f", "<< 'E'"]),
                ("chmod +x f", ";", None, None, []),
                ("z", "newline", None, None, []),
            ],
        ),
        (
            "for x in y; do cat $(q) <<E; done\nrm\nE\n",
            [
                ("for x in y; do cat $(q) <<E; done", None, None, None, []),
                ("cat $(q)", None, None, 0, ["<< E"]),
                ("q", None, None, 1, []),
            ],
        ),
        ("time { a; b; }", [("a", None, None, None, []), ("b", ";", None, None, [])]),
        ("x && time -p ! a", [("x", None, None, None, []), ("a", "&&", None, None, [])]),
        ("time a", [("time a", None, None, None, [])]),
        ("echo time { a", [("echo time { a", None, None, None, [])]),
        ("coproc N { a; }; b", [("a", None, None, None, []), ("b", ";", None, None, [])]),
        ("coproc (a)", [("a", None, None, None, [])]),
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
    ["if ((", "echo 'unterminated", "a; b | ; c )", "", "a\0b", "a;;b", "true;;", "a |", "A=1 > f",
     "a; }", "fi", "x; done", "cat <<A <<B\n$(x)\nA\nB\n", "<<E cat; b\nx\nE\n"],
)  # fmt: skip
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


def test_no_line_of_a_here_document_is_a_statement():
    for text in ("cat <<A <<B\nrm $(x)\nA\nrm\nB\nz\n", "a <<A; b\nrm $(x)\nA\n"):
        found, complete = statements(text.encode())
        programs = [one["invocations"][0]["program"] for one in found]
        assert "rm" not in programs
        assert not complete  # of what it runs, x is not told


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


WORDS = st.sampled_from(["a", "bb/c", "'x y'", '"$v"', "$(q)", "-n", "1", "{", "a{b,c}", "~/x"])
REDIRECTS = st.sampled_from(
    ["> f", "2>&1", "<g", ">>'h i'", "{v}>f", "3<>p", "<<< w", "&>f", ">| f", "2>&-", "< <(q)"]
)
TEXTS = st.sampled_from([("E", "x $v\nrm"), ("'E'", "rm $(x); y"), ("\\E", "if"), ("E", "")])


@st.composite
def commands(draw, depth=2):
    """A command that the shell accepts, and the here-documents that wait for the end of its line."""
    kinds = ["simple"] * 3 + (["list", "pipe", "group", "for", "if", "time"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "simple":
        texts = [draw(TEXTS) for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2])))]
        parts = ["run", *draw(st.lists(WORDS, max_size=3))]
        parts += [f"<<{name}" for name, _ in texts] + draw(st.lists(REDIRECTS, max_size=2))
        return " ".join(parts), [f"{text}\nE\n" for _, text in texts]
    one, first = draw(commands(depth - 1))
    two, second = draw(commands(depth - 1))
    join = draw(st.sampled_from([" && ", " || ", "; ", " & "])) if kind == "list" else " | "
    return {
        "list": (one + join + two, first + second),
        "pipe": (one + join + two, first + second),
        "group": (f"{{ {one}; }}", first),
        "for": (f"for x in $(q) b; do {one}; done", first),
        "if": (f"if {one}; then {two}; fi", first + second),
        "time": (f"time {{ {one}; }}", first),
    }[kind]


@settings(max_examples=80, deadline=None)
@given(commands(), commands())
def test_what_the_shell_accepts_is_told_in_statements_that_stand_there(one, two):
    source = "\n".join([one[0], "".join(one[1]) + two[0], "".join(two[1])])
    text = source.encode()
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, check=False)
    assume(checked.returncode == 0 and not checked.stderr)
    found, complete = statements(text)
    assert complete, source
    runs = [run for one in found for run in one["invocations"]]
    assert sum(run["program"] == "run" for run in runs) == (one[0] + two[0]).count("run")
    assert {run["program"] for run in runs} <= {"run", "q"}, source
    assert sum(len(one["redirects"]) for one in found) >= source.count("<<")
    for index, entry in enumerate(found):
        assert entry.get("parent_position", -1) < index
        shown = text[entry["range"]["start"] : entry["range"]["end"]]
        assert shown == shown.strip() != b""
        for redirect in entry["redirects"]:
            start, end = redirect["range"].values()
            place = text[start:end].decode()
            assert place.startswith(redirect.get("source_fd", "") + redirect["operator"])
            assert place.endswith(redirect["target"])
