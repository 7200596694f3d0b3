"""What an item means, as SQL stores it: {role, value, evidence_strength}.

Members that are unknown are left out, never null. Each role has one shape, which `catalog.ROLES`
tells; a value of another shape is an error of the reader that gave it. Source: seed 002,
"Semantic SQL encoding"; spec "Trace index", 3 and 6.
"""

from __future__ import annotations

from typing import Any

import orjson

from yarp.errors import DataError
from yarp.index.catalog import ROLE_BY_NAME
from yarp.index.text import bounded, estimated_tokens, json_bytes, scalar
from yarp.sources.values import is_deeper, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# What every SQLite reads, with the members around it.
_MOST_DEPTH = 500
_KINDS: dict[str, Callable[[Any], bool]] = {
    "BlobRef": lambda value: isinstance(value, dict) and list(value) == ["blob_id"],
    "boolean": lambda value: type(value) is bool,
    "integer": lambda value: type(value) is int,
    "string": lambda value: type(value) is str,
    "json": lambda _value: True,
    "ShellFragment[]": lambda value: isinstance(value, list) and len(value) > 0,
}


def _check(kind: str) -> Callable[[Any], bool]:
    kind = kind.removesuffix("?")
    if "|" in kind:
        words = frozenset(kind.split("|"))
        return lambda value: type(value) is str and value in words
    return _KINDS[kind]


_MEMBERS = {
    role.name: {name: _check(kind) for name, kind in role.members.items()}
    for role in ROLE_BY_NAME.values()
}


def encode(role: str, value: Mapping[str, Any], *, heuristic: bool, in_loop: bool = True) -> str:
    """The JSON of an item's semantic. Raises DataError for a value that is not the role's.

    Members that are None are left out, and so is a number that SQL does not have. The error
    names role and member, never a content.
    """
    members = _MEMBERS.get(role)
    if members is None:
        raise DataError(f"there is no role {role!r}")
    shape = ROLE_BY_NAME[role]
    told: dict[str, Any] = {}
    for name, fits in members.items():
        found = value.get(name)
        if type(found) is int and fits is _KINDS["integer"] and not -(2**63) <= found < 2**63:
            found = None
        if found is None:
            if name in shape.required:
                raise DataError(f"{role}: {name} is missing")
            continue
        if not fits(found):
            raise DataError(f"{role}: {name} is no {shape.members[name].removesuffix('?')}")
        told[name] = found
    for name in value:
        if name not in members and value[name] is not None:
            raise DataError(f"{role}: has no member {name!r}")
    if role == "agent.reasoning" and (told["representation"] == "unavailable") is ("text" in told):
        raise DataError(f"{role}: text is there exactly when it is not unavailable")
    if shape.needs_loop and not in_loop:
        raise DataError(f"{role}: belongs to a loop")
    strength = "heuristic" if heuristic else "structural"
    return dump({"role": role, "value": told, "evidence_strength": strength})


def dump(value: object) -> str:
    """JSON that SQLite can read back: no lone surrogates, integers of any size."""
    return json_bytes(value).decode()


def arguments(given: Any, limit_bytes: int) -> tuple[Any, Any]:
    """A call's arguments, parsed: as they are published, and as they are.

    A string that holds a JSON object or array is taken as that. Published is None if the whole
    is longer than `limit_bytes`: the record has it. What readers of JSON do not take, a number
    beyond any type or a depth beyond theirs, is `{"yarpRawJson": text}`, as in the archive.
    """
    text = scalar(given) if isinstance(given, str) else None
    parsed = given if text is None else _held_by(text)
    try:
        written = orjson.dumps(parsed)
        published = parsed
    except TypeError:  # for lone surrogates too, and for integers of more than 64 bits
        written = json_bytes(parsed)
        parsed = parse_json(written, beyond=True)[0]
        published = parsed
        if not _is_readable(written):
            published = {"yarpRawJson": written.decode() if text is None else text}
    size = len(written if text is None else text.encode())
    return (published if size <= limit_bytes else None), parsed


def _held_by(text: str) -> Any:
    """The object or array that a text holds, or the text itself if it holds none."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(text.encode(), beyond=True)[0]
        except ValueError:
            pass
    return text


def _is_readable(written: bytes) -> bool:
    try:
        return not is_deeper(parse_json(written)[0], _MOST_DEPTH)
    except ValueError:
        return False


def shell_fragment(command: object, limit_bytes: int, *, parse: bool) -> dict[str, Any] | None:
    """The ShellFragment of a command text, or of a list such as `["sh", "-c", TEXT]`.

    None if there is no command. Without `parse`: of another shell's language, so partial.
    """
    if isinstance(command, list):
        script = len(command) == 3 and command[1] in ("-c", "-lc", "-ic")
        command = command[2] if script else None
    if not isinstance(command, str) or not command.strip():
        return None
    whole = scalar(command)
    text, full_bytes, data = bounded(whole, limit_bytes)
    found: list[dict[str, Any]] = []
    complete = False
    if parse:
        from yarp.shell.fragment import statements

        found, complete = statements(text.encode())
    return {
        "text": {
            "value": text,
            "full_bytes": full_bytes,
            "estimated_tokens": estimated_tokens(whole, len(data)),
        },
        "completeness": "complete" if complete and len(text) == len(whole) else "partial",
        "statements": found,
    }
