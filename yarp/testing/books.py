"""For tests of a reader of traces: what made-up sessions cost, by the rules of the seed alone.

Source: seed 002, "Loop model and usage".
"""

from __future__ import annotations

from typing import TypeAlias

Counts: TypeAlias = dict[str, int]
OPTIONAL = ("cached", "cache_write", "reasoning")


class Books:
    """What each response of one file cost in the end, in the loop where it was first seen."""

    def __init__(self) -> None:
        self.loops: list[list[Counts]] = []
        self.seen: dict[str, Counts] = {}

    def meet(self, response: str | None) -> None:
        """A response is seen, whether it tells its cost by now or not."""
        if response is not None and response not in self.seen:
            self.seen[response] = {}
            self.loops[-1].append(self.seen[response])

    def observe(self, response: str | None, counts: Counts) -> None:
        """The last complete report of a response counts, in the loop of its first sight."""
        if response is None:
            self.loops[-1].append(counts)
        else:
            self.seen[response].clear()
            self.seen[response].update(counts)

    def copy_of(self, other: Books) -> None:
        """A fork begins with what its original has told, and goes its own way from there."""
        reports = {id(one): dict(one) for loop in other.loops for one in loop}
        self.loops = [[reports[id(one)] for one in loop] for loop in other.loops]
        self.seen = {response: reports[id(one)] for response, one in other.seen.items()}


def total(reports: list[Counts]) -> Counts | None:
    """The sum of a loop; a part that one response does not tell is not known of the loop."""
    reports = [one for one in reports if one]
    if not reports:
        return None
    told = (name for name in OPTIONAL if all(name in one for one in reports))
    return {name: sum(one[name] for one in reports) for name in ("input", "output", *told)}
