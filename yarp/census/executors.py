"""Where the shards of a census are counted: here, in a pool of processes, or on a Ray cluster.

An executor gives the results as they come; since tallies only add up, no order and no split
changes a total.
"""

from __future__ import annotations

import gc
import os
import signal
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from yarp.errors import DataError, UsageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext, SpawnContext
    from multiprocessing.process import BaseProcess

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
        from multiprocessing.connection import wait

        left = iter(tasks)
        workers = _started(function, processes)
        try:
            busy = {worker.connection: worker for worker in workers if worker.take(left)}
            while busy:
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    found = worker.given()
                    if not worker.take(left):
                        del busy[worker.connection]
                    yield found
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process that calls the function on one task after the other, as they are handed to it.

    It ends when nobody can hand it any more, whatever became of this process.
    """

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.connection = connection
        self._process = process

    def take(self, left: Iterator[Any]) -> bool:
        """Hand it the next task; False when there is none."""
        for task in left:
            try:
                self.connection.send(task)
            except OSError:
                raise YarpError(_ENDED) from None
            return True
        return False

    def given(self) -> Any:
        """The result of its task; raises what that raised."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            raise YarpError(_ENDED) from None
        if isinstance(found, YarpError):
            raise found
        return found

    def end(self) -> None:
        """End it, even in the middle of a task."""
        self.connection.close()
        self._process.kill()
        self._process.join()


_ENDED = "a process of the census ended before its time"


def _started(function: Callable[[Any], Any], count: int) -> list[_Worker]:
    """New workers, none of which hears an interrupt: it is for this process to end them."""
    import multiprocessing

    # A copy of this process has all that is loaded here; a new one loads it all once more.
    copied = _alone()
    context: ForkContext | SpawnContext = (
        multiprocessing.get_context("fork") if copied else multiprocessing.get_context("spawn")
    )
    if not copied:
        # To start it would let interrupts through again.
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()
    workers: list[_Worker] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            # What a copy has open of the others' would keep these from ever ending.
            inherited = [ours, *(worker.connection for worker in workers)] if copied else []
            process = context.Process(
                target=_serve, args=(function, theirs, inherited), daemon=True
            )
            process.start()
            theirs.close()
            workers.append(_Worker(process, ours))
    except BaseException:
        for worker in workers:
            worker.end()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return workers


def _serve(
    function: Callable[[Any], Any], connection: Connection, inherited: list[Connection]
) -> None:
    """Call the function on each task that comes."""
    for other in inherited:
        other.close()
    # What is there already stays, so nobody need look at it again and again.
    gc.freeze()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            found = function(task)
        except YarpError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - its words may be content
            found = DataError(f"a task of the census failed: {type(error).__name__}")
        try:
            connection.send(found)
        except BrokenPipeError:
            return


def _alone() -> bool:
    """Whether this process has no second thread: what that one holds, a copy would wait for.

    False where nobody says.
    """
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


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


def _call(function: Callable[[_Task], _Result], task: _Task) -> _Result:
    return function(task)
