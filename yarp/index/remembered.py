"""What a projector remembers of very many lines: numbers under texts, stored as they lie.

A source may have a hundred thousand messages, and its projector's state is read and written
with every line that comes to it. So what was stored is not unpacked to look up a few keys, and
what is new goes behind it.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

_KEY_BYTES = 8
# As many lookups in the stored bytes take as long as unpacking them all.
_MOST_SEARCHES = 64


class Remembered:
    """A map from texts to `width` numbers of 32 bits each, such as lines.

        seen = Remembered(1, stored)
        seen["msg-7"] = (12,)
        seen.get("msg-7")  # (12,), or None
        seen.stored()      # for the state

    Keys are kept as digests of 64 bits: they can be looked up, and not listed.
    """

    __slots__ = ("_format", "_new", "_old", "_searches", "_unpacked")

    def __init__(self, width: int, stored: bytes = b"") -> None:
        self._format = struct.Struct(f"<{_KEY_BYTES}s{width}I")
        self._old = stored
        self._new: dict[bytes, tuple[int, ...]] = {}
        self._unpacked: dict[bytes, tuple[int, ...]] | None = {} if not stored else None
        self._searches = 0

    def get(self, key: str) -> tuple[int, ...] | None:
        """The numbers under a key; None if there are none."""
        digest = _digest(key)
        found = self._new.get(digest)
        return self._search(digest) if found is None else found

    def __setitem__(self, key: str, numbers: tuple[int, ...]) -> None:
        self._new[_digest(key)] = numbers

    def _search(self, digest: bytes) -> tuple[int, ...] | None:
        if self._unpacked is None:
            self._searches += 1
            if self._searches <= _MOST_SEARCHES:
                return self._find(digest)
            # Of two rows of a key the later counts.
            rows = self._format.iter_unpack(self._old)
            self._unpacked = {row[0]: row[1:] for row in rows}
        return self._unpacked.get(digest)

    def _find(self, digest: bytes) -> tuple[int, ...] | None:
        at = self._old.rfind(digest)
        while at >= 0:
            if at % self._format.size == 0:
                return self._format.unpack_from(self._old, at)[1:]
            at = self._old.rfind(digest, 0, at + _KEY_BYTES - 1)
        return None

    def stored(self) -> bytes:
        """All of it, to begin with the next time."""
        pack = self._format.pack
        return self._old + b"".join([pack(key, *row) for key, row in self._new.items()])


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
