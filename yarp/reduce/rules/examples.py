"""The examples of a pack are its tests: run them all, say what is wrong."""

from typing import Any

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.match import matching, select
from yarp.reduce.rules.model import Example, Pack, Rule
from yarp.settings import Settings

_REFERENCE = "yr_" + "0" * 32


def failures(pack: Pack, rules: dict[str, Any]) -> list[str]:
    """A sentence for each example of the pack that does not hold; `rules` is the compiled set."""
    return [
        f"{pack.name}/{rule.id}: {' '.join(example.command)}: {problem}"
        for rule in pack.rules
        for example in rule.examples
        if (problem := failure(rule, example, rules)) is not None
    ]


def failure(rule: Rule, example: Example, rules: dict[str, Any]) -> str | None:
    """What is wrong with one example; None when it holds."""
    command = list(example.command)
    selection = select(command, rules)
    if example.guard:
        return None if selection is None else f"is not guarded: {selection.rule} was selected"
    if selection is None or (selection.pack, selection.rule) != (rule.pack, rule.id):
        found = ", ".join(
            f"{other['id']} ({guard or 'fits'})" for other, guard, _ in matching(command, rules)
        )
        return f"does not select the rule; found: {found or 'none'}"
    reduction = Reduction(selection, Settings())
    reduction.feed(0, example.stdout or b"")
    reduction.feed(1, example.stderr or b"")
    summary = reduction.finish(Status(example.exit_status), Recovery(_REFERENCE))
    if not summary.changed:
        return f"is not shortened: {summary.reason}"
    shown = (summary.stdout + summary.stderr).decode()
    lost = [fact for fact in example.keep if fact not in shown]
    said = [fact for fact in example.absent if fact in shown]
    problems = [f"loses {lost}"] * bool(lost) + [f"still says {said}"] * bool(said)
    return ", ".join(problems) or None
