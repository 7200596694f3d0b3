"""Where the shards of a census are counted: here, in a pool of processes, or on a Ray cluster.

An executor gives the results as they come; since tallies only add up, no order and no split
changes a total.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from yarp.errors import DataError, UsageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
# Tasks on their way for each worker: enough that none waits, few enough to stop soon.
_AHEAD = 2


class Executor(Protocol):
    """Calls a function on each task, somewhere; what it keeps is for the tasks of one process."""

    def run(
        self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
    ) -> Iterator[_Result]:
        """The results in any order. `function` and the tasks can be pickled."""


class Processes:
    """A pool of processes of this machine; one is this process itself."""

    def __init__(self, processes: int | None = None) -> None:
        """As many as there are processors, unless told."""
        self.processes = processes or len(os.sched_getaffinity(0))

    def run(
        self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
    ) -> Iterator[_Result]:
        """The results in any order."""
        processes = min(self.processes, len(tasks))
        if processes <= 1:
            yield from map(function, tasks)
            return
        import multiprocessing
        from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
        from concurrent.futures.process import BrokenProcessPool

        # Not forked: the database's threads would not be there in the child.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, _begin, (function,)) as pool:
            waiting: set[Future[_Result]] = set()
            try:
                with _for_us_alone():
                    waiting = {pool.submit(_next, task) for task in tasks}
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            except BrokenProcessPool as error:
                raise YarpError("a process of the census ended before its time") from error
            finally:
                for future in waiting:
                    future.cancel()


@contextmanager
def _for_us_alone() -> Iterator[None]:
    """Processes that are started meanwhile never see an interrupt, which a terminal sends to all.

    This one does, afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Ray:
    """A Ray cluster that is there already, by its address; every node reaches the shards."""

    def __init__(self, address: str = "auto") -> None:
        """`auto`: the cluster that this machine belongs to."""
        try:
            import ray
        except ImportError as error:
            raise UsageError("--engine ray needs: pip install 'yarp-core[ray]'") from error
        self._ray = ray
        self._address = address

    def run(
        self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
    ) -> Iterator[_Result]:
        """The results in any order."""
        ray = self._ray
        ours = not ray.is_initialized()
        if ours:
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
            except ConnectionError as error:
                raise UsageError(
                    f"no Ray cluster answers at {self._address}; start one with: ray start --head"
                ) from error
        try:
            given, remote = ray.put(function), ray.remote(_call)
            ahead = max(2, int(ray.cluster_resources().get("CPU", 1)) * _AHEAD)
            left = iter(tasks)
            waiting = [remote.remote(given, task) for task in islice(left, ahead)]
            while waiting:
                done, waiting = ray.wait(waiting)
                yield ray.get(done[0])
                waiting += [remote.remote(given, task) for task in islice(left, 1)]
        except ray.exceptions.RayTaskError as error:
            raise DataError(f"a task of the census failed: {type(error.cause).__name__}") from error
        finally:
            if ours:
                ray.shutdown()


class _Worker:
    """What a process of a pool calls on each of its tasks."""

    function: Callable[[Any], Any]


def _begin(function: Callable[[Any], Any]) -> None:
    _Worker.function = function
    # What is there already stays, so nobody need look at it again and again.
    gc.freeze()


def _next(task: Any) -> Any:
    return _Worker.function(task)


def _call(function: Callable[[_Task], _Result], task: _Task) -> _Result:
    return function(task)
