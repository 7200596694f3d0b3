"""One SQL query over the dataset: read-only, and bounded in rows, cells, output, memory and time.

DuckDB counts neither every text nor every vector against its own limit of memory, and hears of an
interruption only between two vectors. So the query runs in a process of its own, which the kernel
holds to both bounds (`yarp.dataset.answer`). Source: spec Dataset, "Beyond".
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import attrs

from yarp import cache, paths
from yarp.dataset.database import DatasetUnknown, existing
from yarp.errors import DataError, StorageError, UsageError

if TYPE_CHECKING:
    from typing import Any

_ERRORS = {each.__name__: each for each in (DataError, DatasetUnknown, StorageError, UsageError)}


@attrs.frozen
class Bounds:
    """What a query may cost and show at most.

    `memory_mib`: what DuckDB may fill; unless told, what it needs to read this dataset. The
    process may have `answer.MORE_MEMORY_BYTES` more.
    """

    rows: int = 1000
    cell_characters: int = 2000
    output_bytes: int = 1 << 20
    seconds: float = 30.0
    memory_mib: int | None = None
    threads: int = 2


@attrs.frozen
class Answer:
    """The columns and rows of a query, and which bounds cut it: `rows`, `cells`, `output`."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: tuple[str, ...]


def query(database: str | None, text: str, bounds: Bounds | None = None) -> Answer:
    """What one SELECT (or EXPLAIN) says.

    Cells that are no finite number, truth value or NULL come as text. Raises UsageError for a
    statement that is none or is refused, DataError for one that fails or passes a bound of time
    or memory, and for a dataset that is not there.
    """
    bounds = bounds or Bounds()
    asked = {"database": existing(database), "text": text, **attrs.asdict(bounds)}
    arguments = [*cache.interpreter(), "-m", "yarp.dataset.answer"]
    try:
        child = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=paths.environment(),
        )
    except OSError as error:
        raise StorageError(f"{sys.executable} cannot be started: {error.strerror}") from error
    with child:
        try:
            return _told(child, json.dumps(asked).encode())
        finally:
            child.kill()


def _told(child: subprocess.Popen[bytes], asked: bytes) -> Answer:
    assert child.stdin is not None  # noqa: S101 - for the type checker
    assert child.stdout is not None  # noqa: S101 - for the type checker
    try:
        child.stdin.write(asked)
        child.stdin.close()
    except BrokenPipeError:  # it has ended; what it said tells
        pass
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = []
    for line in child.stdout:
        if not line.endswith(b"\n"):
            break
        said = json.loads(line)
        if isinstance(said, list):
            rows.append(tuple(said))
        elif "columns" in said:
            columns = tuple(said["columns"])
        elif "cut" in said:
            return Answer(columns, rows, tuple(said["cut"]))
        else:
            raise _ERRORS[said["error"]](said["message"])
    raise DataError(_ended(child.wait()))


def _ended(status: int) -> str:
    """What to say of a query whose process ended before it had answered."""
    if status == -signal.SIGALRM:
        return "the query did not stop in time and was ended; narrow it"
    return "the query was ended, as it seems for want of memory; narrow it"
