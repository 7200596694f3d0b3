"""A tally as the two reports of the census: what was saved, and what could still be.

Neither holds any content: labels are names of agents, tools, rules and programs that rules or
tables of YARP know. Source: rust-YARP's `benchmark-yarp` and `analyze-ceiling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarp.census.tally import NUMBERS

if TYPE_CHECKING:
    from typing import Any

    from yarp.census.count import Counted
    from yarp.census.measure import Ceiling
    from yarp.census.tally import Tally

_OUTCOMES = ("passthrough", "ambiguous", "unsupported", "recovery", "no_command")
_BREAKDOWN = (
    "agent",
    "tool",
    "rule",
    "reducer",
    "shell_syntax",
    "shell_syntax_status",
    "shell_syntax_source",
    "result_property",
    "status",
    "size_band",
)


def totals(tally: Tally) -> dict[str, Any]:
    """The census but for its time: equal for equal datasets, however they were cut."""
    evaluated, shell, eligible = (_group(tally, "total", name) for name in _TOTALS)
    removed = eligible["characters_before"] - eligible["characters_after"]
    return {
        "evaluated_results": evaluated["results"],
        "shell_results": shell["results"],
        "eligible_results": eligible["results"],
        **{f"{name}_results": tally.number("outcome", name) for name in _OUTCOMES},
        "unknown_status_results": tally.number("eligible_status", "unknown"),
        "affected_results": eligible["changed"],
        "evaluated": _sizes(evaluated),
        "shell": _sizes(shell),
        "eligible": _sizes(eligible),
        "removed_percent": {
            "of_eligible_characters": _percent(removed, eligible["characters_before"]),
            "of_shell_characters": _percent(removed, shell["characters_before"]),
            "of_all_characters": _percent(removed, evaluated["characters_before"]),
            "of_eligible_lines": _percent(
                eligible["lines_before"] - eligible["lines_after"], eligible["lines_before"]
            ),
        },
        "diagnostic_veto_results": tally.number("diagnostic_veto_result", "any"),
        "diagnostic_vetoes": {
            term: numbers[0] for term, numbers in tally.under("diagnostic_veto").items()
        },
        "missing_recovery_markers": tally.number("missing_recovery_marker", "summary"),
        "reducer_faults": tally.number("fault", "reducer"),
        "breakdown": {
            dimension: {
                label: dict(zip(NUMBERS, numbers, strict=True))
                for label, numbers in tally.under(dimension).items()
            }
            for dimension in _BREAKDOWN
        },
    }


def census(counted: Counted) -> dict[str, Any]:
    """The census of a dataset, with how fast it went."""
    report = totals(counted.tally)
    seconds = max(counted.seconds, 1e-9)
    return {
        "scope": "stored_results_with_text",
        "elapsed_seconds": round(counted.seconds, 3),
        "evaluated_megabytes_per_second": round(
            report["evaluated"]["bytes_before"] / 1e6 / seconds, 2
        ),
        "eligible_megabytes_per_second": round(
            report["eligible"]["bytes_before"] / 1e6 / seconds, 2
        ),
        **report,
    }


def ceiling(counted: Counted, used: Ceiling) -> dict[str, Any]:
    """What summaries could remove of the shell results that stay as they are, by family."""
    tally = counted.tally
    families: list[dict[str, Any]] = [
        {"class": name, "family": family, **_removable(numbers), **_suggested(reducer)}
        for label, numbers in tally.under("family").items()
        for name, family, reducer in [label.split("\t")]
    ]
    families.sort(key=lambda one: (-one["removable_characters"], one["class"], one["family"]))
    return {
        "scope": "stored_shell_result_text",
        "assumptions": {
            "summary_character_budget": used.summary_characters,
            "minimum_removed_characters": used.minimum_removed_characters,
            "minimum_savings_basis_points": used.minimum_savings_basis_points,
            "shell_syntax_labels_overlap": True,
            "shell_syntax_labels_from": {
                label: numbers[0] for label, numbers in tally.under("shell_syntax_source").items()
            },
        },
        "totals": {
            "shell_results": _group(tally, "total", "shell")["results"],
            "changed_results": _group(tally, "total", "shell")["changed"],
            "unchanged": _removable(tally.groups.get(("unchanged", "all"), [0, 0, 0])),
            "classes": {
                name: _removable(numbers)
                for name, numbers in tally.under("unchanged_class").items()
            },
        },
        "scenarios": {
            name: _removable(tally.groups.get(("scenario", name), [0, 0, 0]))
            for name in ("candidates", "candidates_and_unclear", "all_unchanged")
        },
        "shell_syntax": [
            {"label": label, **_removable(numbers)}
            for label, numbers in tally.under("unchanged_syntax").items()
        ],
        "families": families,
    }


_TOTALS = ("evaluated", "shell", "eligible")


def _group(tally: Tally, dimension: str, label: str) -> dict[str, int]:
    numbers = tally.groups.get((dimension, label), [0] * len(NUMBERS))
    return dict(zip(NUMBERS, numbers, strict=True))


def _sizes(group: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in group.items() if name not in ("results", "changed")}


def _removable(numbers: list[int]) -> dict[str, int]:
    names = ("results", "characters", "removable_characters")
    return dict(zip(names, numbers, strict=True))


def _suggested(reducer: str) -> dict[str, str]:
    return {"suggested_reducer": reducer} if reducer else {}


def _percent(part: int, whole: int) -> float | None:
    """None of nothing."""
    return round(100 * part / whole, 4) if whole else None
