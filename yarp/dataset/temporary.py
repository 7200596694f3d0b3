"""Where DuckDB puts what does not fit into its memory: a private directory beside the database.

Each connection has its own, for DuckDB's names in it are the same everywhere. It is removed when
the connection is closed, and what a killed process leaves by whoever opens the dataset next.
"""

from __future__ import annotations

import os
from contextlib import suppress

from yarp.sources.held import held_directory, remove, remove_leftovers


class TemporaryDirectory:
    """A directory of mode 0700 beside `database`; where none can be made, `path` is None."""

    def __init__(self, database: str) -> None:
        parent, name = os.path.split(database)
        remove_leftovers(parent, prefix_of(name))
        self.path: str | None = None
        self._lock = -1
        try:
            self.path, self._lock = held_directory(parent, prefix_of(name))
        except OSError:  # nobody can write there, who may well read
            return

    def beneath(self, name: str) -> str | None:
        """The path of a directory in it, which is there."""
        if self.path is None:
            return None
        place = os.path.join(self.path, name)
        with suppress(FileExistsError):
            os.mkdir(place, 0o700)  # by DuckDB it would be as the umask says
        return place

    def size_bytes(self) -> int:
        """What lies in it."""
        total = 0
        for place, _, names in os.walk(self.path or ""):
            for name in names:
                try:
                    total += os.lstat(os.path.join(place, name)).st_size
                except FileNotFoundError:
                    continue
        return total

    def remove(self) -> None:
        """Remove it; more than once does no harm."""
        if self.path is not None:
            remove(self.path)
            os.close(self._lock)
            self.path = None


def prefix_of(name: str) -> str:
    """How the names of such directories begin, for a database of this name."""
    return f"{name}.tmp"
