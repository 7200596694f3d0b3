"""How long work tells on stderr that it goes on: one line on a terminal, once it takes a while."""

from __future__ import annotations

import sys
import time

_AFTER_SECONDS = 1.0
_EVERY_SECONDS = 0.2


class Progress:
    """A line that is kept up to date; on anything but a terminal nothing is said. Use `with`."""

    def __init__(self) -> None:
        self._started = self._shown = time.monotonic()
        self._open = sys.stderr.isatty()
        self._said = False

    def __enter__(self) -> Progress:  # noqa: PYI034 - no class is derived from this
        return self

    def __exit__(self, *_: object) -> None:
        if self._said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def say(self, what: str) -> None:
        """Show how far the work is."""
        now = time.monotonic()
        if (
            self._open
            and now - self._started >= _AFTER_SECONDS
            and now - self._shown >= _EVERY_SECONDS
        ):
            self._shown, self._said = now, True
            sys.stderr.write(f"\ryarp: {what}\x1b[K")
            sys.stderr.flush()
