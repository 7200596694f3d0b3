"""Where the spools of a conversation go: its own `tool-outputs`, which gptme owns and deletes."""

from __future__ import annotations

import contextvars
import os
from contextlib import contextmanager

from yarp.plugin import SpoolLocation
from yarp_gptme.install import logs_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = os.path.join("tool-outputs", "captures")

_known: contextvars.ContextVar[SpoolLocation | None] = contextvars.ContextVar(
    "yarp_spool_location", default=None
)


def location(conversation: str, **quotas: int) -> SpoolLocation:
    """The place below a conversation's directory, with what may be retained there."""
    return SpoolLocation(os.path.join(conversation, FOLDER), conversation=conversation, **quotas)


def file_of(conversation: str, capture_id: str, stream: str) -> str:
    """Where a stream of a capture stands once it is over."""
    return os.path.join(conversation, FOLDER, f"{capture_id}.{stream}")


def nowhere(directory: str | os.PathLike[str], why: str) -> Path:
    """What stands in the place of a path where there is none."""
    from pathlib import Path

    return Path(directory, "tool-outputs", f"({why.replace(os.sep, ' ')})")


@contextmanager
def known(found: SpoolLocation | None) -> Iterator[None]:
    """Within gptme the directory is known, whatever it is called: `location_of` gives it."""
    token = _known.set(found)
    try:
        yield
    finally:
        _known.reset(token)


def location_of(conversation_id: str) -> SpoolLocation | None:
    """The place for a conversation by its id; None: an id that leads out of gptme's logs."""
    found = _known.get()
    if found is not None:
        return found
    if os.path.basename(conversation_id) != conversation_id:
        return None
    if conversation_id in ("", os.curdir, os.pardir):
        return None
    directory = os.path.join(logs_directory(), conversation_id)
    return location(directory) if os.path.isdir(directory) else None
