from __future__ import annotations

import pytest

from yarp_gptme.captures import Policy

POLICY = Policy({"never_spool": ["pass show", "seq 2"]})


@pytest.mark.parametrize(
    "command",
    [
        "pass show x", "cd repo && pass show x", "FOO=1 pass show x", "sudo -n pass show x",
        "sleep 3; echo x; seq 2 5", "x=$(pass show x)", "echo `pass  show x`", "true\npass show x",
        "sh -c 'pass show x'", "if true; then pass show x; fi", "timeout 5 pass show x | head",
        "(pass show x)", "env A=b nice -n 5 pass show x",
    ],
)  # fmt: skip
def test_a_command_that_is_not_to_be_stored_is_found_wherever_it_stands(command):
    assert POLICY.suppresses(command)


@pytest.mark.parametrize("command", ["echo pass show", "seq 20", "pass", "passage show x", ""])
def test_other_commands_are_stored(command):
    assert not POLICY.suppresses(command)
