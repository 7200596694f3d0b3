"""RuleSuite: what the rule packs of a plugin must hold to.

from yarp.testing.rules import RuleSuite

class TestAcmeRules(RuleSuite):
plugin = "acme"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yarp.reduce.rules.examples import failures
from yarp.reduce.rules.load import builtin_pack, compile_rules, load_pack, problems
from yarp.reduce.rules.match import matching
from yarp.testing.suite import PluginSuite

if TYPE_CHECKING:
    from yarp.plugins import Plugins
    from yarp.reduce.rules.model import Pack


class RuleSuite(PluginSuite):
    """Inherit it as `Test<Name>` and set `plugin`. A plugin without packs is skipped by name."""

    @pytest.fixture
    def packs(self, loaded: Plugins) -> list[Pack]:
        """The plugin's packs, read and checked."""
        declared = loaded.rule_packs()
        assert not loaded.problems, loaded.problems
        if not declared:
            pytest.skip(f"{self.plugin} declares no rule packs")
        return [load_pack(pack.directory, pack.name) for _, pack in declared]

    def test_packs_have_names_of_their_own_and_hold_rules(self, packs: list[Pack]) -> None:
        """Two packs of one name, or an empty one, are a mistake."""
        names = [pack.name for pack in [builtin_pack(), *packs]]
        assert len(set(names)) == len(names), names
        for pack in packs:
            assert pack.rules, f"{pack.name} holds no rules; is its folder package data?"

    def test_every_rule_has_an_example_and_a_guard(self, packs: list[Pack]) -> None:
        """One that is shortened, and one that stays exact."""
        assert [problem for pack in packs for problem in problems(pack)] == []

    def test_every_example_holds_beside_the_rules_of_the_core(self, packs: list[Pack]) -> None:
        """It selects its rule, is shortened, keeps its facts; a guard selects nothing."""
        rules = compile_rules([builtin_pack(), *packs])
        assert [problem for pack in packs for problem in failures(pack, rules)] == []

    def test_every_guard_example_is_kept_away_by_a_guard_of_its_rule(
        self, packs: list[Pack]
    ) -> None:
        """A command that the rule would not have claimed anyway guards nothing."""
        rules = compile_rules([builtin_pack(), *packs])
        idle = [
            f"{pack.name}/{rule.id}: {' '.join(example.command)}"
            for pack in packs
            for rule in pack.rules
            for example in rule.examples
            if example.guard
            and not any(
                (found["pack"], found["id"]) == (pack.name, rule.id) and guard is not None
                for found, guard, _ in matching(list(example.command), rules)
            )
        ]
        assert idle == []

    def test_no_rule_claims_what_another_claims(self, packs: list[Pack]) -> None:
        """Rules that claim the same command switch each other off."""
        assert compile_rules([builtin_pack(), *packs])["problems"] == ()
