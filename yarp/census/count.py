"""Counts a dataset: its shards, by an executor, into one tally."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from yarp.census.measure import Ceiling, Measure
from yarp.census.shards import Opened, shards
from yarp.census.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yarp.cache import Compiled
    from yarp.census.executors import Executor
    from yarp.census.shards import Shard

_COLLECTED_CHARACTERS = 4 << 20


@attrs.frozen
class Counted:
    """The tally of a whole dataset, and how long it took."""

    tally: Tally
    seconds: float


def count(
    source: str,
    compiled: Compiled,
    executor: Executor,
    ceiling: Ceiling | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Counted:
    """Count what the rules of `compiled` do to every result of `source`, a path.

    The rules of projects are left out, and pruning counts as switched on. `progress` is told how
    many shards of how many are done.
    """
    compiled.settings.pruning_enabled = True
    started = time.monotonic()
    tasks = shards(source)
    tally, work = Tally(), _Work(compiled, ceiling or Ceiling())
    try:
        for done, part in enumerate(executor.run(work, tasks), 1):
            tally.merge(part)
            if progress is not None:
                progress(done, len(tasks))
    finally:
        work.opened.close()
    return Counted(tally, time.monotonic() - started)


class _Work:
    """Counts one shard after the other, in whatever process; each keeps what it has found out."""

    def __init__(self, compiled: Compiled, ceiling: Ceiling) -> None:
        self._given = compiled, ceiling
        self._measure: Measure | None = None
        self.opened = Opened()

    def __reduce__(self) -> tuple[type[_Work], tuple[Compiled, Ceiling]]:
        """What another process needs to begin."""
        return _Work, self._given

    def __call__(self, shard: Shard) -> Tally:
        """The tally of a shard."""
        measure = self._measure = self._measure or Measure(*self._given)
        with _collected() as collect:
            for row in shard.rows(self.opened):
                measure.take(row)
                collect(len(row.output_text))
        return measure.taken()


@contextmanager
def _collected() -> Iterator[Callable[[int], None]]:
    """What is told how much text was read, and looks for garbage after so much of it.

    A reduction makes thousands of objects that live as long as it does. The collector, which
    counts objects, would look at them again and again: a fifth of all time.
    """
    left = _COLLECTED_CHARACTERS

    def read(characters: int) -> None:
        nonlocal left
        left -= characters
        if left < 0:
            gc.collect(1)
            left = _COLLECTED_CHARACTERS

    enabled = gc.isenabled()
    gc.disable()
    try:
        yield read
    finally:
        if enabled:
            gc.enable()
