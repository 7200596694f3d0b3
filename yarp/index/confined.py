"""Bounds of a process while it runs SQL that anybody wrote: memory, temporary files, patience.

A row may have thousands of columns of megabytes, and a sort may want gigabytes of disk: such a
query fails, not the machine. SQLite gets a part of the memory, so that enough is left to say so.
"""

from __future__ import annotations

import resource
import signal
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_DATA_BYTES = 240 << 20
_MOST_HEAP_BYTES = 128 << 20
MOST_FILE_BYTES = 1 << 30


@contextmanager
def confined() -> Iterator[None]:
    """Bound this process. SQLite's share stays as it is afterwards.

    An interrupt ends it at once, by its signal: SQLite would swallow the exception, or be in the
    middle of one long step.
    """
    _share_memory()
    before = [_lower(resource.RLIMIT_DATA, _MOST_DATA_BYTES)]
    before.append(_lower(resource.RLIMIT_FSIZE, MOST_FILE_BYTES))
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # it is not ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        for which, limits in before:
            resource.setrlimit(which, limits)


def _share_memory() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA hard_heap_limit = {_MOST_HEAP_BYTES}")
    connection.close()


def _lower(which: int, most: int) -> tuple[int, tuple[int, int]]:
    """Lower a limit to `most`, if it is above; which one it is, and what it was."""
    limits = soft, hard = resource.getrlimit(which)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(which, (most, hard))
    return which, limits
