"""The labels of shell texts."""

import pytest

from yarp.census.syntax import labels


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pytest -q 'a && b | c; d'", "simple"),
        ('grep "a|b" file', "simple"),
        ("git log | head", "pipeline"),
        ("make && make test", "and_chain"),
        ("make || true", "or_chain"),
        ("make 2>&1", "stream_merge"),
        ("make &> log", "stream_merge"),
        ("make > log", "other_redirection"),
        ("cat <<EOF\na\nEOF", "multiline other_redirection"),
        ("a; b", "semicolon"),
        ("a\nb", "multiline"),
        ("ls # all", "comment"),
        ("sleep 5 &", "background"),
        ("echo $HOME", "parameter_expansion"),
        ('echo "${HOME}"', "parameter_expansion"),
        ("echo '$HOME `a` $(b)'", "simple"),
        ("echo $(date)", "command_substitution"),
        ("echo `date`", "command_substitution"),
        ("diff <(a) <(b)", "command_substitution"),
        ("for x in a b; do echo; done", "control_structure semicolon"),
        ("f() { a; }; f", "semicolon shell_function"),
        ("(cd a)", "subshell_group"),
        ("bash -c 'a | b'", "nested_shell"),
        ("/usr/bin/env bash -lc 'x'", "path_invocation"),
        ("./run.sh", "path_invocation"),
        ("A=1 ./run.sh", "path_invocation"),
        ("sudo make", "unsupported_wrapper"),
        ("if a; then", "control_structure parser_failure semicolon"),
        ("echo \\| a \\; b", "simple"),
    ],
)
def test_a_text_has_the_labels_of_what_stands_in_it(text, found):
    assert labels(text) == found.split()
