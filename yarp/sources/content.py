"""The text that a model was given, and what a tool says beside it without repeating it.

Source: seed 003, Draft DuckDB schema ("removes a rendered-text copy from `output_json`").
"""

from __future__ import annotations

import json
from typing import Any

from yarp import canonical

# From here on a string that equals the text, or stands in it, is no coincidence.
_TELLING_CHARACTERS = 32
_LONG_CHARACTERS = 256
# A shorter one is a copy where its name says that it is output.
_OUTPUT = frozenset({"content", "output", "result", "stderr", "stdout", "text"})
_NOTHING: Any = object()


def rendered(content: str | list[dict[str, Any]]) -> tuple[str | None, list[Any] | None]:
    """The text of content blocks, and the blocks themselves where that is not all of them.

    Texts are joined by newlines; None where there are blocks but none of text. Among the blocks
    a text stands without its words, which are in the text.
    """
    if isinstance(content, str):
        return content, None
    texts = [block["text"] for block in content if _is_text(block)]
    if len(texts) == len(content):
        return "\n".join(texts), None
    kept = [
        {key: item for key, item in block.items() if key != "text"} if _is_text(block) else block
        for block in content
    ]
    return "\n".join(texts) if texts else None, kept


def _is_text(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and type(block.get("text")) is str


def without_copies(details: object, *texts: str) -> Any:
    """`details` without the strings that repeat one of `texts`; None where nothing is left.

    A string repeats a text when it is the same but for blanks around it (a short one only under
    a name of output, such as `stdout`), or when it has 256 characters or more and stands in the
    text whole. Members of objects go; items of arrays become null, so that the others keep their
    places. What holds nothing more goes as well, and what was empty before stays.
    """
    found = _without("content", details, texts, {text.strip() for text in texts})
    return None if found is _NOTHING or found in ({}, [], "") else found


def _without(name: str, value: Any, texts: tuple[str, ...], whole: set[str]) -> Any:
    kind = type(value)
    if kind is str:
        core = value.strip()
        if len(core) >= _LONG_CHARACTERS:
            # Equal to the text: the usual case, and a comparison is much faster than a search.
            same = any(core == text or core in text for text in texts)
            return _NOTHING if same else value
        if core in whole and core and (name in _OUTPUT or len(core) >= _TELLING_CHARACTERS):
            return _NOTHING
        return value
    if kind is dict:
        members = {key: _without(key, item, texts, whole) for key, item in value.items()}
        kept = {key: item for key, item in members.items() if item is not _NOTHING}
        return kept if kept or not value else _NOTHING
    if kind is list:
        items = [_without("", item, texts, whole) for item in value]
        if value and all(item is _NOTHING for item in items):
            return _NOTHING
        return [None if item is _NOTHING else item for item in items]
    return value


def json_sha256(value: object) -> bytes:
    """The digest of a parsed JSON value's canonical text, for use in an identity.

    A value that RFC 8785 cannot hold counts by its text with sorted keys instead.
    """
    try:
        return canonical.sha256(canonical.encode(value))
    except canonical.NotCanonical:
        return canonical.sha256(json.dumps(value, sort_keys=True).encode())
