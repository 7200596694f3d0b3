"""The labels of shell texts."""

import json
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarp import cache
from yarp.census import report
from yarp.census.count import count
from yarp.census.executors import Processes
from yarp.census.measure import Ceiling
from yarp.census.syntax import LABELS, LEXICAL, PARSER, read
from yarp.reduce.plan import plan
from yarp.shell.parse import parse

EXAMPLES = [
    ("pytest -q 'a && b | c; d'", "simple"),
    ('grep "a|b" file', "simple"),
    ("echo \\| a \\; b", "simple"),
    ("echo '$HOME `a` $(b)'", "simple"),
    ("git log | head", "pipeline"),
    ("git log |& head", "pipeline stream_merge"),
    ("make && make test", "and_chain"),
    ("make || true", "or_chain"),
    ("make 2>&1", "stream_merge"),
    ("make &> log", "stream_merge"),
    ("make 2>&-", "stream_merge"),
    ("make > log 2>/dev/null < in", "other_redirection"),
    ("cat <<EOF\na | b; $C\nEOF", "multiline other_redirection parameter_expansion"),
    ("cat <<'EOF'\na | b; $C\nEOF", "multiline other_redirection"),
    ("cat <<EOF | grep a && b\nEOF", "and_chain multiline other_redirection pipeline"),
    ("cat <<< a", "other_redirection"),
    ("a; b", "semicolon"),
    ("a\nb", "multiline"),
    ("a &&\nb", "and_chain multiline"),
    ("echo 'two\nlines'", "simple"),
    ('echo "$A\nlines"', "parameter_expansion"),
    ("make \\\n -j", "simple"),
    ("ls # all; or | none", "comment"),
    ("echo a#b", "simple"),
    ("sleep 5 &", "background"),
    ("echo $HOME", "parameter_expansion"),
    ('echo "${HOME:-a}"', "parameter_expansion"),
    ("echo $((A & 1 || 2))", "parameter_expansion"),
    ("echo $(date)", "command_substitution"),
    ("echo `date`", "command_substitution"),
    ('echo "$(a | b)"', "command_substitution pipeline"),
    ("diff <(a) <(b)", "command_substitution"),
    ("for x in a b; do echo; done", "control_structure semicolon"),
    ("for ((i=0; i<3; i++)) do echo\ndone", "control_structure multiline"),
    ("while a\ndo b\ndone", "control_structure multiline"),
    ("until a\ndo b\ndone", "control_structure multiline"),
    ("case a in b) c;; esac", "control_structure"),
    ("if a; then b; fi", "control_structure semicolon"),
    ("[[ a && b ]]", "control_structure"),
    ("((a++))", "control_structure"),
    ("[ a = b ]", "simple"),
    ("f() { a; }", "semicolon shell_function"),
    ("function f { a; }", "semicolon shell_function"),
    ("(cd a)", "subshell_group"),
    ("{ a; }", "semicolon subshell_group"),
    ("bash -c 'a | b'", "nested_shell"),
    ("sh -eo pipefail -c a", "nested_shell"),
    ("timeout 5 bash -lc a", "nested_shell"),
    ("sudo sh -c a", "nested_shell unsupported_wrapper"),
    ("bash script -c", "simple"),
    ("grep bash -c", "simple"),
    ("/usr/bin/env bash -lc 'x'", "nested_shell path_invocation"),
    ("./run.sh", "path_invocation"),
    ("~/run a", "path_invocation"),
    ("A=1 ./run.sh", "path_invocation"),
    ('"$D/run.sh" a', "parameter_expansion path_invocation"),
    ("$(which a/b)", "command_substitution"),
    ("cat a/b", "simple"),
    ("sudo make", "unsupported_wrapper"),
    ("find . | xargs rm", "pipeline unsupported_wrapper"),
    (". env", "unsupported_wrapper"),
    ("echo sudo", "simple"),
    # The grammar reads it, the parser does not claim to understand it.
    ('echo $"a"', "parser_failure"),
]


@pytest.mark.parametrize(("text", "found"), EXAMPLES)
def test_a_text_has_the_labels_of_what_stands_in_it(text, found):
    syntax = read(text)
    assert list(syntax.labels) == found.split()
    assert syntax.source == PARSER


def test_every_label_has_an_example():
    assert len(LABELS) == len(set(LABELS)) == 18
    assert {label for _, found in EXAMPLES for label in found.split()} == {*LABELS, "simple"}


def test_what_the_examples_say_is_shell():
    """Else their labels would say nothing of the parser."""
    for text, _ in EXAMPLES:
        done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False)
        assert done.returncode == 0, text


FAILURES = [
    ("if a; then", "control_structure parser_failure semicolon"),
    ("a | 'b", "parser_failure pipeline"),
    ("a &&", "and_chain parser_failure"),
    ("a ||", "or_chain parser_failure"),
    ("make 2>&1 &&", "and_chain parser_failure stream_merge"),
    ("make > log <<< a <<< b )", "other_redirection parser_failure"),
    ("a; )", "parser_failure semicolon"),
    ("a\n)", "multiline parser_failure"),
    ("a # b\n)", "comment multiline parser_failure"),
    ("a & )", "background parser_failure"),
    ("$A )", "parameter_expansion parser_failure"),
    ("a $(b", "command_substitution parser_failure"),
    ("f() { a", "parser_failure shell_function"),
    ("(a", "parser_failure subshell_group"),
    ("bash -c 'a' )", "nested_shell parser_failure"),
    ("./a )", "parser_failure path_invocation"),
    ("sudo a )", "parser_failure unsupported_wrapper"),
    ("a \ud800 | b", "parser_failure pipeline"),
    ("a | " + "b" * 300_000, "parser_failure pipeline"),
]


@pytest.mark.parametrize(("text", "found"), FAILURES)
def test_a_text_that_the_parser_refuses_has_lexical_labels_and_says_so(text, found):
    syntax = read(text)
    assert list(syntax.labels) == found.split()
    assert syntax.source == LEXICAL


@settings(deadline=None)
@given(st.text(st.sampled_from("ab |&;<>()$`\"'\\\n#{}=/-c!*~[]"), max_size=40))
def test_any_text_has_known_labels(text):
    syntax = read(text)
    assert syntax.labels
    assert set(syntax.labels) <= {*LABELS, "simple"}
    assert syntax.labels == read(text).labels


def test_a_plan_changes_nothing_of_what_was_read(yarp_home):
    """The plan gets the same chains as the labels did."""
    rules = cache.load().rules_in(None)
    for text, _ in EXAMPLES:
        before = repr(_values(parse(text)))
        plan(text, rules)
        assert repr(_values(parse(text))) == before


def _values(found):
    if isinstance(found, (list, tuple)):
        return [_values(one) for one in found]
    slots = getattr(found, "__slots__", ())
    return {name: _values(getattr(found, name)) for name in slots} if slots else found


def words_in(counted, words):
    """Those of the words that stand anywhere in the two reports."""
    said = json.dumps([report.census(counted), report.ceiling(counted, Ceiling())])
    return [word for word in words if word in said]


def test_no_word_of_a_command_is_in_a_report(dataset_of, result, yarp_home):
    words = [f"planted{number}" for number in range(len(EXAMPLES) * 3)]
    given = iter(words)
    calls = []
    for text, _ in EXAMPLES:
        texts = (f"{next(given)} x; {text}", f"{text} {next(given)}", f"{text} | {next(given)} )")
        calls += [
            {"tool": "bash", "input": {"command": command}, "results": [result("out")]}
            for command in texts
        ]
    counted = count(dataset_of(*calls), cache.load(), Processes(1))
    found = report.census(counted)
    assert set(found["breakdown"]["shell_syntax"]) == {*LABELS, "simple"}
    sources = found["breakdown"]["shell_syntax_source"]
    assert sources["parser"]["results"] > len(EXAMPLES)
    assert sources["lexical"]["results"] >= len(EXAMPLES)
    assert report.ceiling(counted, Ceiling())["assumptions"]["shell_syntax_labels_from"] == {
        name: numbers["results"] for name, numbers in sources.items()
    }
    assert words_in(counted, words) == []
    # They would be found.
    counted.tally.add("family", f"unclear\t{words[7]}\t", (1, 1, 1))
    counted.tally.add("shell_syntax", words[9], (0,) * 8)
    assert words_in(counted, words) == [words[7], words[9]]
