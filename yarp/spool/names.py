"""How the files of captures are called, and which of them belong together.

A capture's files lie beside one another in its conversation's spool directory:

    ID.lock             held by its owner while it lives; its size is what the owner has reserved
    ID.live.json        from launch: whose output it is, and how it is represented
    ID.STREAM.live      while it grows: nothing but readable bytes, its size is their number
    .ID.receipt         room for the receipt, taken at launch: a full disk shall not lose it
    ID.STREAM           the same bytes, for good
    ID.receipt.json     published last, never changed
    ID.delivered        its completion has been told

Source: seed 004, "Live reads and immutable completion".
"""

from __future__ import annotations

import os
import re

from yarp.errors import DataError

STREAMS = ("stdout", "stderr")

_ID = re.compile(r"[0-9a-f]{32}")
_STREAM = re.compile(r"([0-9a-f]{32})\.([a-z0-9_]{1,32})(\.live)?")
_RESERVED = ("lock", "delivered", "receipt", "live")


def new_id() -> str:
    """A name nobody can guess, for one capture."""
    return os.urandom(16).hex()


def require_id(capture_id: str) -> str:
    """The capture's id as it is; DataError for what is none, and so for every path."""
    if not _ID.fullmatch(capture_id):
        raise DataError("a capture is named by 32 hexadecimal digits")
    return capture_id


def require_stream(name: str) -> str:
    """The stream's name as it is; DataError for one that could not be a file's."""
    if name in _RESERVED or not re.fullmatch(r"[a-z0-9_]{1,32}", name):
        raise DataError("a stream is named by small letters, digits and underscores")
    return name


def stream_file(name: str) -> str | None:
    """The capture whose stream is kept in the file of that name; None: it is no such file."""
    found = _STREAM.fullmatch(name)
    return found[1] if found and found[2] not in _RESERVED else None


def lock(capture_id: str) -> str:
    """The file whose lock its owner holds."""
    return f"{capture_id}.lock"


def record(capture_id: str) -> str:
    """The record of a running capture."""
    return f"{capture_id}.live.json"


def record_to_come(capture_id: str) -> str:
    """That record, while it is written."""
    return f".{capture_id}.record"


def room(capture_id: str) -> str:
    """The room for its receipt."""
    return f".{capture_id}.receipt"


def live(capture_id: str, stream: str) -> str:
    """A stream while it grows."""
    return f"{capture_id}.{stream}.live"


def final(capture_id: str, stream: str) -> str:
    """A stream for good."""
    return f"{capture_id}.{stream}"


def receipt(capture_id: str) -> str:
    """The receipt."""
    return f"{capture_id}.receipt.json"


def delivered(capture_id: str) -> str:
    """The delivery marker."""
    return f"{capture_id}.delivered"
