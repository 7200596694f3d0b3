"""Standard streams that write all they are given, or raise.

Python's own write what fits when they are unbuffered (PYTHONUNBUFFERED), and nothing when a
pipe that somebody made non-blocking is full; neither is an error there.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from yarp.spool.stream import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TextIO


class Unwritten(OSError):
    """What stands on a standard stream is not all of the answer."""


class Whole(io.FileIO):
    """A descriptor as a file that is written as a whole; one of its own is closed with it."""

    def __init__(self, descriptor: int, *, own: bool = False) -> None:
        super().__init__(descriptor, "w", closefd=own)

    def write(self, data: Any) -> int:
        """Write all of `data`, or raise BrokenPipeError or Unwritten."""
        view = memoryview(data).cast("B")
        try:
            write_all(self.fileno(), view)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unwritten(error.errno, error.strerror) from error
        return len(view)


class _Said(Whole):
    """Standard error: what cannot be said there is said nowhere, and the exit status speaks."""

    def write(self, data: Any) -> int:
        with suppress(Unwritten):
            super().write(data)
        return memoryview(data).nbytes


@contextmanager
def whole_streams() -> Iterator[None]:
    """Standard output and standard error are written as wholes inside."""
    before = sys.stdout, sys.stderr
    sys.stdout = _whole(sys.stdout, Whole)
    sys.stderr = _whole(sys.stderr, _Said)
    try:
        yield
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _whole(stream: TextIO, kind: type[Whole]) -> TextIO:
    try:
        file = kind(stream.fileno())
    except (AttributeError, OSError):  # it stands for one, in memory
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=kind is _Said or stream.isatty(),
    )
