"""Counts a dataset: its shards, by an executor, into one tally."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from yarp.census.measure import Ceiling, Measure
from yarp.census.shards import shards
from yarp.census.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.cache import Compiled
    from yarp.census.executors import Executor
    from yarp.census.shards import Shard


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
    tally = Tally()
    for done, part in enumerate(executor.run(_Work(compiled, ceiling or Ceiling()), tasks), 1):
        tally.merge(part)
        if progress is not None:
            progress(done, len(tasks))
    return Counted(tally, time.monotonic() - started)


@attrs.frozen
class _Work:
    """Counts one shard, in whatever process."""

    compiled: Compiled
    ceiling: Ceiling

    def __call__(self, shard: Shard) -> Tally:
        measure = Measure(self.compiled, self.ceiling)
        for row in shard.rows():
            measure.take(row)
        return measure.tally
