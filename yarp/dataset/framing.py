"""Facts on a pipe, from a reader that runs as one Unix user to a writer that runs as another.

Each frame is a line of JSON, `{"record": NAME}` with a `value` where there is one:

    stream_start  version, unix_user, agent, adapter_version
      source_root  kind, path
      source_start
        source_item  kind, root, relative_path
        session | tool_call | tool_result | observation | issue   as in `yarp.sources.facts`
        source_state  what was read of the source
      source_commit | source_rollback (the issue)
    stream_end

No keys cross the pipe: the writer makes them for the user that it was told, so a stream cannot
speak for anybody else. A source counts once its commit is there; a stream that ends before its
own end loses the open source alone. Source: seed 003, "Command line"; reference 9.4.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from yarp.dataset.reading import discovered, read
from yarp.dataset.rows import ImporterFault
from yarp.errors import FrameError
from yarp.sources.beneath import shown
from yarp.sources.facts import Call, Issue, Observation, Result, Session
from yarp.sources.jsonl import LONGEST_LINE_BYTES
from yarp.sources.values import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

    from yarp.sources.facts import SourceFact
    from yarp.sources.importers import Importer, SourceItem

VERSION = 1
MOST_FRAME_BYTES = 2 * LONGEST_LINE_BYTES
"""A longer frame is refused: it would have to be held in memory as a whole."""

RECORDS: dict[type[SourceFact], str] = {
    Session: "session",
    Call: "tool_call",
    Result: "tool_result",
    Observation: "observation",
    Issue: "issue",
}
KINDS = {name: kind for kind, name in RECORDS.items()}


def stream(
    importer: Importer, unix_user: str, roots: Mapping[str, str], write: Callable[[bytes], object]
) -> int:
    """Write the frames of all that lies below the (resolved) roots; gives the number of sources."""

    def send(record: str, value: object = None) -> None:
        write(frame(record, value))

    start = {"version": VERSION, "unix_user": unix_user, "agent": importer.agent}
    send("stream_start", {**start, "adapter_version": importer.adapter_version})
    for option in importer.options:
        if option.flag in roots:
            send("source_root", {"kind": option.source_kind, "path": shown(roots[option.flag])})
    count = 0
    for found in discovered(importer, roots):
        if isinstance(found, Issue):
            send("issue", _plain(found))
        else:
            count += 1
            _send_item(importer, found, send)
    send("stream_end")
    return count


def _send_item(importer: Importer, item: SourceItem, send: Callable[..., None]) -> None:
    send("source_start")
    place = {"kind": item.kind, "root": shown(item.root)}
    send("source_item", {**place, "relative_path": shown(item.relative_path)})
    sent: dict[int, tuple[SourceFact, int]] = {}

    def take(fact: SourceFact) -> None:
        value = None
        if isinstance(fact, Observation):
            take(fact.target)
            value = _plain(fact, "record", "target") | {"target": sent[id(fact.target)][1]}
            if fact.record_sha256 is None and fact.record is not None:
                value["record_sha256"] = _plain_value(hashlib.sha256(fact.record).digest())
        elif isinstance(fact, Call | Result):
            if id(fact) in sent:
                return
            sent[id(fact)] = (fact, len(sent))
        record = RECORDS.get(type(fact))
        if record is None:
            raise ImporterFault(f"a {type(fact).__name__} is no fact")
        send(record, value or _plain(fact))

    reading = read(importer, item, take)
    state = _plain(reading, "rejection")
    send("source_state", state | {"malformed": sorted(reading.malformed)})
    if reading.rejection is None:
        send("source_commit")
    else:
        send("source_rollback", _plain(reading.rejection))


def frames(stream: BinaryIO) -> Iterator[bytes]:
    """The frames on a stream, each of which must fit into memory. Raises FrameError."""
    while line := stream.readline(MOST_FRAME_BYTES):
        if len(line) == MOST_FRAME_BYTES:
            raise FrameError(f"a frame is longer than {MOST_FRAME_BYTES >> 20} MiB")
        yield line


def frame(record: str, value: object = None) -> bytes:
    """One frame with its newline."""
    whole = {"record": record} if value is None else {"record": record, "value": value}
    try:
        return orjson.dumps(whole) + b"\n"
    except (TypeError, ValueError):  # numbers beyond 64 bits; or what is no JSON at all
        try:
            return json_text(whole).encode() + b"\n"
        except (TypeError, ValueError, RecursionError):
            raise ImporterFault("a value is no JSON") from None


def _plain(value: Any, *without: str) -> dict[str, Any]:
    """An attrs value as JSON: bytes as `{"hex": ...}`, what is None left out."""
    named = ((each.name, getattr(value, each.name)) for each in attrs.fields(type(value)))
    return {
        name: each if name in ("input", "output_json") else _plain_value(each)
        for name, each in named
        if each is not None and name not in without
    }


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, tuple | list):
        return [_plain_value(each) for each in value]
    if attrs.has(type(value)):
        return _plain(value)
    return value


def _value(plain: Any) -> Any:
    """What `_plain_value` made plain."""
    if isinstance(plain, dict):
        return bytes.fromhex(plain["hex"])
    if isinstance(plain, list):
        return tuple(_value(each) for each in plain)
    return plain


def fact(kind: Any, plain: dict[str, Any]) -> Any:
    """The value of class `kind` that was sent as `plain`. Raises TypeError or ValueError."""
    values = {
        name: each if name in ("input", "output_json") else _value(each)
        for name, each in plain.items()
    }
    if kind is Call and plain.get("input") is None:
        values["input"] = None
    return kind(**values)
