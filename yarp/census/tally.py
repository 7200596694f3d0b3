"""What a census adds up: numbers alone, so that parts of any cut come to the same totals."""

from __future__ import annotations

NUMBERS = (
    "results",
    "changed",
    "characters_before",
    "characters_after",
    "bytes_before",
    "bytes_after",
    "lines_before",
    "lines_after",
)
"""What is added up under each label."""


class Tally:
    """Numbers by dimension ("agent", "rule", ...) and label; plain, for pickling and merging."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], list[int]] = {}

    def add(self, dimension: str, label: str, numbers: tuple[int, ...] = (1,)) -> None:
        """Add numbers, in the order of `NUMBERS` or of the dimension's own."""
        group = self.groups.get((dimension, label))
        if group is None:
            self.groups[dimension, label] = [*numbers]
        else:
            for at, number in enumerate(numbers):
                group[at] += number

    def merge(self, other: Tally) -> None:
        """Add all of another tally."""
        for (dimension, label), numbers in other.groups.items():
            self.add(dimension, label, tuple(numbers))

    def number(self, dimension: str, label: str) -> int:
        """The first number under a label: how many there were."""
        return self.groups.get((dimension, label), [0])[0]

    def under(self, dimension: str) -> dict[str, list[int]]:
        """The labels of a dimension in the order of their names."""
        found = [(key[1], numbers) for key, numbers in self.groups.items() if key[0] == dimension]
        return dict(sorted(found))
