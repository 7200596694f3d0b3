import pytest

from yarp.reduce.rules.examples import failure
from yarp.reduce.rules.load import builtin_pack, compile_rules, problems

PACK = builtin_pack()
RULES = compile_rules([PACK])
EXAMPLES = [(rule, example) for rule in PACK.rules for example in rule.examples]


def test_every_rule_has_an_example_that_is_shortened_and_a_guard():
    assert problems(PACK) == []


def test_no_two_rules_claim_the_same_command():
    assert RULES["problems"] == ()


@pytest.mark.parametrize(
    ("rule", "example"),
    EXAMPLES,
    ids=[f"{rule.id}: {' '.join(example.command)}" for rule, example in EXAMPLES],
)
def test_an_example_holds(rule, example):
    problem = failure(rule, example, RULES)
    assert problem is None


def test_a_hundred_and_fifty_rules_are_proven_on_what_a_tool_printed():
    recorded = [
        rule.id
        for rule in PACK.rules
        if any(example.recorded and not example.guard for example in rule.examples)
    ]
    print(f"{len(recorded)} of {len(PACK.rules)} rules have a recorded example")
    assert len(recorded) >= 150
