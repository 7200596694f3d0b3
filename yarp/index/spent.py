"""How long a sync wrote, by what it wrote."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = ("trace_records", "sessions", "loops", "items", "item_search", "other")


class Spent:
    """Seconds by part. Of parts inside one another, each second counts for the innermost."""

    def __init__(self) -> None:
        self.parts = dict.fromkeys(PARTS, 0.0)
        self._inside: list[str] = []
        self._since = 0.0

    @property
    def total(self) -> float:
        """Seconds of all parts together."""
        return sum(self.parts.values())

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        """Time what happens inside."""
        self._turn()
        self._inside.append(part)
        try:
            yield
        finally:
            self._turn()
            self._inside.pop()

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._inside:
            self.parts[self._inside[-1]] += now - self._since
        self._since = now
