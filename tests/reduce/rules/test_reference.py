"""The page of rules is made from the rules."""

from pathlib import Path

import pytest

from yarp.reduce.rules.load import FAMILIES, builtin_pack
from yarp.reduce.rules.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rules.md"


def test_the_page_says_what_the_rules_say():
    text = PAGE.read_text("utf-8")
    assert page(text) == text, f"run: python -m yarp.reduce.rules.reference {PAGE}"


def test_every_family_and_every_rule_is_on_the_page():
    text = PAGE.read_text("utf-8")
    for family in FAMILIES:
        described = text.partition(f"### `{family}`\n\n")[2].partition("\n### ")[0]
        assert len(described) > 100, family
    for rule in builtin_pack().rules:
        assert f"| `{rule.id}` |" in text


def test_a_page_without_marks_is_left_alone():
    with pytest.raises(ValueError, match="no generated part"):
        page("# Rules\n")
