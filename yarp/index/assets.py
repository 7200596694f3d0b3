"""Values inside records that no answer should hold: images, other data, long texts.

An asset is a `data:` URI, or base64 in the member `data` of an object that also names a media
type, which is how agents keep images. Source: spec "Trace index", 10 (Records).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from yarp.errors import DataError, ReferenceUnknown

if TYPE_CHECKING:
    from collections.abc import Mapping

_MEDIA_KEYS = ("media_type", "mimeType", "mime_type", "mediaType")
_MEDIA_TYPE = re.compile(r"[a-z]+/[\w.+-]+", re.IGNORECASE)
_DATA_URI = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
# Shorter ones are words that happen to be base64 too.
_LEAST_BASE64 = 64


def externalize(value: Any, record_id: int, limit_bytes: int) -> tuple[Any, int]:
    """The value with assets and texts over `limit_bytes` as references; how many they are."""
    count = 0

    def visit(value: Any, pointer: str, parent: Mapping[str, Any] | None) -> Any:
        nonlocal count
        if isinstance(value, dict):
            return {
                key: visit(one, f"{pointer}/{_escape(key)}", value) for key, one in value.items()
            }
        if isinstance(value, list):
            return [visit(one, f"{pointer}/{at}", None) for at, one in enumerate(value)]
        if not isinstance(value, str):
            return value
        media_type = _media_type(value, pointer, parent)
        size = len(value.encode())
        if media_type is None and size <= limit_bytes:
            return value
        count += 1
        reference = {
            "kind": "large_value" if media_type is None else "asset",
            "reference": f"{record_id}#{pointer}",
            "record_id": record_id,
            "json_pointer": pointer,
            "byte_length": size,
        }
        if media_type is not None:
            reference["media_type"] = media_type
        return {"$trace_ref": reference}

    return visit(value, "", None), count


def _media_type(value: str, pointer: str, parent: Mapping[str, Any] | None) -> str | None:
    """The media type of an asset; None for any other text."""
    uri = _DATA_URI.match(value)
    if uri is not None:
        return uri[1] or "text/plain"
    if parent is None or not pointer.endswith("/data") or len(value) < _LEAST_BASE64:
        return None
    said = next((parent[key] for key in _MEDIA_KEYS if isinstance(parent.get(key), str)), None)
    if said is None or not _MEDIA_TYPE.fullmatch(said) or not _BASE64.fullmatch(value):
        return None
    return str(said)


def pointed_at(value: Any, pointer: str) -> tuple[Any, str, Mapping[str, Any] | None]:
    """What a JSON pointer (RFC 6901) leads to, the pointer, and the object that holds it."""
    parent = None
    if pointer and not pointer.startswith("/"):
        raise ReferenceUnknown("a JSON pointer begins with /")
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        parent = value if isinstance(value, dict) else None
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise ReferenceUnknown("the record holds nothing at this pointer")
    return value, pointer, parent


def unpack(value: Any, pointer: str, parent: Mapping[str, Any] | None) -> tuple[bytes, str]:
    """The bytes of an asset and its media type. DataError for what is none."""
    media_type = _media_type(value, pointer, parent) if isinstance(value, str) else None
    if media_type is None:
        raise DataError("there is no asset at this pointer: no data URI, and no base64 image")
    uri = _DATA_URI.match(value)
    body = value if uri is None else value[uri.end() :]
    if uri is not None and not uri[2].lower().endswith(";base64"):
        return unquote_to_bytes(body), media_type
    try:
        if uri is not None:
            body = unquote_to_bytes(body).decode("ascii")
        return base64.b64decode("".join(body.split()), validate=True), media_type
    except (binascii.Error, ValueError):
        raise DataError("the asset is no valid base64") from None


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
