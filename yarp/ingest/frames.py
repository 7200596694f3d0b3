"""Frames: one JSON object behind an unsigned 8-byte big-endian length, at most 256 MiB.

A frame that cannot be understood (length, JSON, operation, keys, types) raises FrameError and
ends the process: nothing after it can be trusted. Source: seed 001, "Ingest process"; spec
"Archive", Ingest.
"""

from __future__ import annotations

import os

from yarp import canonical
from yarp.errors import FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import Any

MAX_FRAME_BYTES = 256 * 1024 * 1024
_MAX_MILLISECONDS = 2**63 - 1


def read_frames(descriptor: int) -> Iterator[bytearray]:
    """Each frame's body, until the peer closes between two frames."""
    while True:
        header = _read(descriptor, 8, "length")
        if header is None:
            return
        byte_length = int.from_bytes(header, "big")
        if not 0 < byte_length <= MAX_FRAME_BYTES:
            raise FrameError(f"frame of {byte_length} bytes; 1 to {MAX_FRAME_BYTES} are allowed")
        body = _read(descriptor, byte_length, "body")
        if body is None:
            raise FrameError("the peer closed in the middle of a frame")
        yield body


def _read(descriptor: int, byte_length: int, part: str) -> bytearray | None:
    """Exactly `byte_length` bytes, or None when the peer closed before the first.

    Memory grows with what arrives, not with what a header claims.
    """
    data = bytearray()
    while len(data) < byte_length:
        chunk = os.read(descriptor, min(byte_length - len(data), 1 << 20))
        if not chunk:
            if not data:
                return None
            raise FrameError(f"the peer closed after {len(data)} of {byte_length} {part} bytes")
        data += chunk
    return data


class Json:
    """A JSON member as the host wrote it: parsed, and its text where parsing may have lost some."""

    __slots__ = ("text", "value")

    def __init__(self, value: object, text: str | None) -> None:
        self.value = value
        self.text = text

    def canonical(self) -> bytes:
        """The bytes to archive: RFC 8785, or the text itself inside a `yarpRawJson` object."""
        if self.text is not None:
            return canonical.encode_text(self.text)
        import orjson

        # The frame came through a round trip unchanged, so this is the host's own text.
        return canonical.encode_text(orjson.dumps(self.value))


class Request:
    """One operation: its fields are checked, absent optional ones are None."""

    __slots__ = ("fields", "operation", "request_id", "schema_version", "session")

    def __init__(
        self,
        operation: str,
        request_id: int,
        schema_version: int,
        session: dict[str, object],
        fields: dict[str, object],
    ) -> None:
        self.operation = operation
        self.request_id = request_id
        self.schema_version = schema_version
        self.session = session
        self.fields = fields


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_name(value: object) -> bool:
    """Identifiers go into columns: not empty, and encodable as UTF-8."""
    if type(value) is not str or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_time(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_MILLISECONDS


def _is_int(value: object) -> bool:
    return type(value) is int and -(2**31) <= value < 2**32


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _is_any(value: object) -> bool:  # noqa: ARG001 - every JSON value is allowed
    return True


def _is_completeness(value: object) -> bool:
    return value in ("complete", "incomplete", "unknown")


def _is_source(value: object) -> bool:
    return value in ("stdout", "source_output", "result_text")


_Checks = dict[str, "Callable[[object], bool] | _Checks"]

# A name with a trailing "?" may be absent (null counts as absent).
_SESSION: _Checks = {
    "agent": _is_name,
    "account": _is_name,
    "sourceSessionId": _is_name,
    "startedAtMs?": _is_time,
}
_PLANNED_CALL: _Checks = {
    "sourceCallId": _is_name,
    "toolName": _is_name,
    "workingDirectory?": _is_name,
}
_BEGUN_CALL: _Checks = {
    **_PLANNED_CALL,
    "provider?": _is_name,
    "model?": _is_name,
    "startedAtMs": _is_time,
    "requiresStreams": _is_bool,
}
_FINAL: _Checks = {
    "sourceCallId": _is_name,
    "result": _is_any,
    "isError": _is_bool,
    "finishedAtMs": _is_time,
}
OPERATIONS: dict[str, _Checks] = {
    "hello": {},
    "plan": {"call": _PLANNED_CALL, "input": _is_any},
    "begin_call": {
        "call": _BEGUN_CALL,
        "inputBefore": _is_any,
        "inputAfter": _is_any,
        "capturedAtMs": _is_time,
    },
    "result_before": {
        "sourceCallId": _is_name,
        "result": _is_any,
        "fullOutputPath?": _is_name,
        "capturedAtMs": _is_time,
    },
    "result_text": {
        "sourceCallId": _is_name,
        "text": _is_text,
        "sourceCompleteness": _is_completeness,
        "capturedAtMs": _is_time,
    },
    "stage_result": {
        "sourceCallId": _is_name,
        "result": _is_any,
        "isError": _is_bool,
        "capturedAtMs": _is_time,
    },
    "update_final_result": _FINAL,
    "finish_call": {**_FINAL, "requirePreResult": _is_bool},
    "reduce": {
        "sourceCallId": _is_name,
        "command": _is_text,
        "text": _is_text,
        "isError": _is_bool,
        "exitCode?": _is_int,
        "ending?": _is_text,
        "sourceCompleteness": _is_completeness,
    },
    "cap": {
        "sourceCallId": _is_name,
        "text": _is_text,
        "source?": _is_source,
        "ending?": _is_text,
        "sourceCompleteness": _is_completeness,
    },
}
# Members that hold the host's own JSON, archived as it came.
_HOST_JSON = ("input", "inputBefore", "inputAfter", "result")
_ENVELOPE: _Checks = {"requestId": _is_id, "schemaVersion": _is_id, "session": _SESSION}


def parse(frame: bytes | bytearray) -> Request:
    """The request that a frame's body holds; FrameError for all that is not one."""
    members = _members(frame)
    operation = members.pop("operation", None)
    checks = OPERATIONS.get(operation) if isinstance(operation, str) else None
    if checks is None or not isinstance(operation, str):
        raise FrameError("frame with an unknown operation")
    fields = _checked(members, {**_ENVELOPE, **checks}, operation)
    request_id = fields.pop("requestId")
    schema_version = fields.pop("schemaVersion")
    session = fields.pop("session")
    if TYPE_CHECKING:
        assert isinstance(request_id, int)
        assert isinstance(schema_version, int)
        assert isinstance(session, dict)
    return Request(operation, request_id, schema_version, session, fields)


def _checked(found: object, checks: _Checks, where: str) -> dict[str, object]:
    if not isinstance(found, dict):
        raise FrameError(f"{where}: an object is wanted")
    values: dict[str, object] = {}
    known = 0
    for name, check in checks.items():
        optional = name.endswith("?")
        key = name.removesuffix("?")
        value = found.get(key)
        known += key in found
        inner = value.value if isinstance(value, Json) else value
        if key not in found or (optional and inner is None):
            if not optional:
                raise FrameError(f"{where}: {key} is missing")
            values[key] = None
        elif isinstance(check, dict):
            values[key] = _checked(value, check, f"{where}.{key}")
        elif not check(inner):
            raise FrameError(f"{where}: {key} has a wrong type or value")
        else:
            values[key] = value
    if known != len(found):
        raise FrameError(f"{where}: unknown key")
    return values


def _members(frame: bytes | bytearray) -> dict[str, object]:
    """The frame's top-level members, the host's own JSON among them kept whole."""
    import orjson

    try:
        parsed = orjson.loads(frame)
    except orjson.JSONDecodeError:
        return members_with_text(frame, _HOST_JSON)
    if not isinstance(parsed, dict):
        raise FrameError("a frame holds one JSON object")
    # Unchanged by a round trip: no duplicate key, no number or escape that parsing altered.
    try:
        unchanged = orjson.dumps(parsed) == frame
    except TypeError:  # nested deeper than orjson writes
        unchanged = False
    if not unchanged:
        return members_with_text(frame, _HOST_JSON)
    for name in _HOST_JSON:
        if name in parsed:
            parsed[name] = Json(parsed[name], None)
    return parsed


def members_with_text(frame: bytes | bytearray, exact: Container[str]) -> dict[str, Any]:
    """The members of a JSON object, those whose names are in `exact` as `Json` with their text."""
    from json import JSONDecodeError, JSONDecoder

    try:
        text = frame.decode()
    except UnicodeDecodeError as error:
        raise FrameError("a frame is not UTF-8") from error
    decode = JSONDecoder(strict=False).raw_decode
    members: dict[str, object] = {}
    try:
        position = _skip(text, 0)
        if text[position] != "{":
            raise FrameError("a frame holds one JSON object")
        position = _skip(text, position + 1)
        while text[position] != "}":
            key, position = decode(text, position)
            if not isinstance(key, str) or key in members:
                raise FrameError("a frame with a malformed or repeated key")
            position = _skip(text, position)
            if text[position] != ":":
                raise FrameError("a frame is not JSON")
            start = _skip(text, position + 1)
            try:
                value, position = decode(text, start)
            except RecursionError:  # a host's own value, nested deeper than Python reads
                if key not in exact:
                    raise
                value, position = None, _end_of_value(text, start)
            members[key] = Json(value, text[start:position]) if key in exact else value
            position = _skip(text, position)
            if text[position] == ",":
                position = _skip(text, position + 1)
                if text[position] == "}":
                    raise FrameError("a frame is not JSON")
            elif text[position] != "}":
                raise FrameError("a frame is not JSON")
        if _skip(text, position + 1) != len(text):
            raise FrameError("a frame holds one JSON object")
    except (JSONDecodeError, IndexError, RecursionError, ValueError) as error:
        raise FrameError("a frame is not JSON") from error
    return members


def _end_of_value(text: str, start: int) -> int:
    """Where the object or array that starts at `start` ends, by its brackets alone."""
    import re

    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text[start:]):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return start + found.end()
    raise FrameError("a frame is not JSON")


def _skip(text: str, position: int) -> int:
    end = len(text)
    while position < end and text[position] in " \t\r\n":
        position += 1
    return position
