"""Where the spools of a conversation go: its own `tool-outputs`, which gptme owns and deletes."""

from __future__ import annotations

import os

from yarp.plugin import SpoolLocation
from yarp_gptme.install import logs_directory

FOLDER = os.path.join("tool-outputs", "captures")


def location(
    conversation: str, *, job_bytes: int = 32 << 20, conversation_bytes: int = 128 << 20
) -> SpoolLocation:
    """The place for a conversation directory, with what may be retained there."""
    return SpoolLocation(
        os.path.join(conversation, FOLDER),
        job_bytes=job_bytes,
        conversation_bytes=conversation_bytes,
    )


def location_of(conversation_id: str) -> SpoolLocation | None:
    """The place for a conversation by its id; None: an id that leads out of gptme's logs."""
    if not conversation_id or os.path.basename(conversation_id) != conversation_id:
        return None
    if conversation_id in (os.curdir, os.pardir):
        return None
    return location(os.path.join(logs_directory(), conversation_id))
