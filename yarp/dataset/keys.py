"""The keys of the dataset's rows: SHA-256 over length-prefixed parts, in hexadecimal.

The same source occurrence gives the same key on any machine and in any order of imports.
Source: spec "Dataset", Shape; reference 9.1.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarp.sources.facts import Part

WORD = 8
"""Lengths, and parts that are integers, take this many bytes, most significant first."""

_SIZES = [size.to_bytes(WORD, "big") for size in range(256)]


def encode(parts: Iterable[Part | None]) -> bytes:
    """The bytes that a key is the digest of; None is an empty part.

    Of several lists of parts, one behind the other, they are the bytes of each, joined.
    Raises TypeError or OverflowError for a part that is no str, bytes or 64-bit integer.
    """
    out: list[bytes] = []
    for part in parts:
        if type(part) is str:
            data = part.encode() if part.isascii() else part.encode("utf-8", "surrogatepass")
        elif part is None:
            data = b""
        elif isinstance(part, int):
            data = part.to_bytes(WORD, "big", signed=part < 0)
        elif isinstance(part, str):
            data = part.encode("utf-8", "surrogatepass")
        else:
            data = bytes(memoryview(part))
        size = len(data)
        out += (_SIZES[size] if size < len(_SIZES) else size.to_bytes(WORD, "big"), data)
    return b"".join(out)


class Family:
    """Keys whose first parts are the same ones."""

    def __init__(self, *first: Part | None) -> None:
        self._first = encode(first)

    def key(self, *parts: Part | None) -> str:
        """The key of the first parts and these."""
        return hashlib.sha256(self._first + encode(parts)).hexdigest()

    def digest(self, *parts: Part | None) -> bytes:
        """The same as 32 bytes."""
        return hashlib.sha256(self._first + encode(parts)).digest()


def key(*parts: Part | None) -> str:
    """The key of these parts."""
    return hashlib.sha256(encode(parts)).hexdigest()


def digest(*parts: Part | None) -> bytes:
    """The same as 32 bytes."""
    return hashlib.sha256(encode(parts)).digest()


def run(unix_user: str, agent: str, started_at_ms: int, pid: int) -> str:
    """The key of a run."""
    return key("run", unix_user, agent, started_at_ms, pid.to_bytes(4, "big"))


def source_root(unix_user: str, agent: str, kind: str, root_path: str) -> str:
    """The key of a root; `root_path` is resolved."""
    return key("source_root", unix_user, agent, kind, root_path)


def source_item(source_root_key: str, relative_path: str) -> str:
    """The key of an item below a root."""
    return key("source_item", source_root_key, relative_path)


def session(unix_user: str, agent: str, native_session_id: str) -> str:
    """The key of a session."""
    return key("session", unix_user, agent, native_session_id)


def result(call_key: str, result_sha256: bytes) -> str:
    """The key of a result."""
    return _RESULTS.key(call_key, result_sha256)


_RESULTS = Family("result")
