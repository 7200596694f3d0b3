"""The trace files below the roots of a sync, and what each of them is.

Links are not followed; what cannot be read is reported and takes nothing else down. Source:
spec "Trace index", 8 (Detection) and 9.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from typing import TYPE_CHECKING

from yarp.index.publish import Unconfirmed
from yarp.sources.facts import Issue
from yarp.sources.walk import files_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from yarp.index.frame import TraceFile
    from yarp.index.reader import TraceReader

SUFFIXES = (".jsonl", ".jsonl.zst")
_LEAST_HEAD_BYTES = 1 << 20


def find(roots: Iterable[str]) -> tuple[list[str], list[str]]:
    """The canonical paths of all trace files, sorted; and a sentence for each obstacle.

    Of a file and its compressed twin, which stand side by side while an agent compresses, the
    plain one counts.
    """
    found: set[str] = set()
    problems = []
    for given in roots:
        root = os.path.realpath(given)
        if os.path.isfile(root):
            found.add(root)
            continue
        if not os.path.isdir(root):
            problems.append(f"{given}: is no file or directory that can be read")
            continue

        def hidden(directory: str, why: str, root: str = root) -> None:
            path = os.path.join(root, directory).rstrip("/")
            problems.append(f"{path}: what is below cannot be seen ({why})")

        for below in files_below(root, SUFFIXES, unreadable=hidden):
            if not isinstance(below, Issue):
                found.add(os.path.join(root, below))
    twins = {f"{path}.zst" for path in found if not path.endswith(".zst")}
    return sorted(found - twins), problems


def vanished(paths: Iterable[str]) -> Iterator[str]:
    """Those of the canonical paths where no file is any more; behind a link there is none."""

    @cache
    def canonical(directory: str) -> bool:
        return os.path.realpath(directory) == directory

    for path in paths:
        try:
            there = stat.S_ISREG(os.lstat(path).st_mode) and canonical(os.path.dirname(path))
        except OSError:
            there = False
        if not there:
            yield path


def detect(file: TraceFile, readers: Mapping[str, TraceReader], record_bytes: int) -> TraceReader:
    """The one reader that the first complete line is for. Raises `Unconfirmed` if there is none."""
    most = max(record_bytes, _LEAST_HEAD_BYTES)
    head = next(file.frames(most), None)
    if head is None:
        raise Unconfirmed("it has no complete first line yet")
    if head.line is None:
        raise Unconfirmed(f"its first line is {head.status}")
    value = head.line.value
    fitting = [reader for reader in readers.values() if _fits(reader, value)]
    if len(fitting) > 1:
        names = " and ".join(reader.runtime for reader in fitting)
        raise Unconfirmed(f"its first line fits {names}")
    if not fitting:
        raise Unconfirmed("its first line is of no known runtime")
    return fitting[0]


def _fits(reader: TraceReader, value: object) -> bool:
    try:
        return bool(reader.detect(value))
    except Exception:  # noqa: BLE001 - what it trips over is not its own, and may be another's
        return False


def name_of(path: str) -> str:
    """What a trace file is called wherever it lies, compressed or not."""
    return os.path.basename(path).removesuffix(".zst")
