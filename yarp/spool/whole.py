"""Whole texts that a host hands over: published at once under a name nobody can guess."""

from __future__ import annotations

import os
import re
import time

from yarp.errors import DataError
from yarp.spool import private

_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def save_text(
    directory: str, text: str, *, kind: str = "tool", suffix: str = ".txt", below: str | None = None
) -> str:
    """Publish `text` as a new private file in `directory`/`kind`; its path.

    The file is there whole and on the disk, or not at all; an existing one is neither changed
    nor used again, so that each call has its own. `kind` is one plain name. `below` as for
    `private.open_directory`. Raises DataError for a kind that could lead elsewhere, StorageError
    when it cannot be written.
    """
    if not _KIND.fullmatch(kind):
        raise DataError("a kind of output is one word of letters, digits, - and _")
    if not re.fullmatch(r"(\.[A-Za-z0-9]{1,16})?", suffix):
        raise DataError("a suffix is a dot and a few letters")
    path = os.path.join(directory, kind)
    opened = private.open_directory(path, below=below)
    try:
        stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
        name = f"{stamp}-{os.urandom(16).hex()}{suffix}"
        private.publish(opened, name, text.encode("utf-8", "replace"))
    finally:
        os.close(opened)
    return os.path.join(path, name)
