"""Around code of a plugin's: what it prints and what it raises."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Escape(Exception):
    """A plugin raised what is no Exception, such as SystemExit; that is its cause."""


@contextmanager
def foreign() -> Iterator[None]:
    """Around code of a plugin's: its prints go to stderr, and all it raises is an Exception.

    Stdout is an answer: a host's frames, JSON, the output of a command. The interrupt of a user
    passes as it is; SystemExit and its like become `Escape`.
    """
    stdout = sys.stdout
    _flush(stdout)
    private = -1
    with suppress(OSError):  # it is closed
        private = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        _point_at_stderr()
    sys.stdout = sys.stderr
    try:
        yield
    except (GeneratorExit, KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, KeyboardInterrupt) and callable(signal.getsignal(signal.SIGINT)):
            raise
        raise Escape(sentence(error)) from error
    finally:
        # What it wrote past `sys.stdout` must be out before the descriptor is ours again.
        _flush(stdout)
        _flush(sys.stderr)
        sys.stdout = stdout
        if private >= 0:
            os.dup2(private, 1)
            os.close(private)


def _point_at_stderr() -> None:
    try:
        os.dup2(2, 1)
    except OSError:  # that is closed too
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _flush(stream: Any) -> None:
    with suppress(AttributeError, OSError, ValueError):  # it is none, full or closed
        stream.flush()


def sentence(error: BaseException) -> str:
    """What an exception of a plugin's is called, in one line."""
    if isinstance(error, Escape) and error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}" if lines[0] else type(error).__name__
