"""Texts as the index keeps them, and the times that records tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from yarp.sources.values import Beyond, deep_values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Unix milliseconds outside of these years are some other number.
_EARLIEST_MS, _LATEST_MS = 946_684_800_000, 4_102_444_800_000


def instant_ms(value: object) -> int | None:
    """Unix milliseconds of an RFC 3339 time with its offset, or of a number that is such.

    None for anything else: a time without an offset could be any of a day's.
    """
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        if found.tzinfo is None:
            return None
        since = found - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    if isinstance(value, int | float) and _EARLIEST_MS <= value < _LATEST_MS:
        return int(value)
    return None


def scalar(text: str) -> str:
    """The text with each lone surrogate as U+FFFD, so that it can be stored and hashed."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def json_bytes(value: Any) -> bytes:
    """The value as compact JSON, whatever its integers and texts, and however deep.

    An integer of more than 64 bits stands there whole, and any other number that is `Beyond`
    as it was written; a lone surrogate, as in a path that is not UTF-8, is U+FFFD.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        with deep_values():
            return _written(value)


def _written(value: Any) -> bytes:
    if isinstance(value, str):
        return orjson.dumps(scalar(value))
    if isinstance(value, dict):
        members = [_written(key) + b":" + _written(one) for key, one in value.items()]
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join([_written(one) for one in value]) + b"]"
    if isinstance(value, Beyond) or type(value) is int:
        return str(value).encode()
    return orjson.dumps(value)


def bounded(text: str, limit_bytes: int) -> tuple[str, int, bytes]:
    """The longest prefix of at most `limit_bytes` UTF-8 bytes, the whole's bytes, and those.

    Cuts fall between code points.
    """
    data = text.encode()
    if len(data) <= limit_bytes:
        return text, len(data), data
    return data[:limit_bytes].decode("utf-8", "ignore"), len(data), data


def estimated_tokens(text: str, byte_length: int) -> int:
    """`ascii4_unicode1_v1`: a quarter of the ASCII characters, rounded up, and all others.

    `byte_length` is that of the text's UTF-8. Source: seed 002, "Semantic SQL encoding".
    """
    if byte_length == len(text):
        return (byte_length + 3) // 4
    ascii_count = len(text.encode("ascii", "ignore"))
    return (ascii_count + 3) // 4 + len(text) - ascii_count
