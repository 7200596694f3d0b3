"""Files as a suite finds them before, and again after."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def facts_of(roots: Iterable[str]) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and modification time of every file below the roots."""
    found = {}
    for root in roots:
        paths = [root] if os.path.isfile(root) else []
        for directory, _, files in os.walk(root):
            paths += [os.path.join(directory, name) for name in files]
        for path in paths:
            stat = os.stat(path)
            with open(path, "rb") as file:
                content = file.read()
            found[path] = (content, stat.st_mode, stat.st_mtime_ns)
            # Reading for the check must not be what changes the source.
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return found
