"""Which blobs of a store a conversation is made of: its root, decoded.

The definition is proto/agent_v1.proto, the part of Cursor's own that is needed; all other fields
are skipped. A root that is not valid protobuf raises ValueError: nothing is guessed from the order
of rows instead. Source: seed 003, "Cursor"; spec "Dataset", Formats.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from yarp_cursor.records import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Blobs = Callable[[str], bytes | None]
    """The content of a blob, by its id."""

_ID_BYTES = 32


class Graph:
    """What a root reaches.

    `order`: the blobs of its messages with the position of each: first what compactions took
    out, then what is in the prompt. `calls`: what is told of each call's times, by its id.
    `pending`: calls that wait to be run, as JSON. `files`: blobs that are files the agent read.
    `directory`: where the conversation works, if it is one place. `whole`: whether every blob
    that could name further messages was there; `gaps` counts the others, and steps that could
    not be read.
    """

    __slots__ = ("calls", "directory", "files", "gaps", "order", "pending", "whole")

    def __init__(self) -> None:
        self.order: dict[str, int] = {}
        self.calls: dict[str, Step] = {}
        self.pending: list[bytes] = []
        self.files: set[str] = set()
        self.directory: str | None = None
        self.whole = True
        self.gaps = 0


class Step:
    """What a turn tells of a call: in which blob, and when it began and ended."""

    __slots__ = ("blob_id", "ended_at_ms", "started_at_ms")

    def __init__(self, blob_id: str, started_at_ms: int | None, ended_at_ms: int | None) -> None:
        self.blob_id = blob_id
        self.started_at_ms = started_at_ms
        self.ended_at_ms = ended_at_ms


def decode(root: bytes, blobs: Blobs) -> Graph:
    """The graph below these bytes of a root. Raises ValueError if they are not valid protobuf."""
    state = _message("ConversationStateStructure", root)
    graph = Graph()
    for archive_id in _ids([state.summary_archive, *state.summary_archives]):
        archive = _blob("ConversationSummaryArchive", blobs(archive_id))
        if archive is None:
            graph.whole = False
            graph.gaps += 1
            continue
        for message_id in _ids(archive.summarized_messages):
            graph.order.setdefault(message_id, len(graph.order))
    for message_id in _ids(state.root_prompt_messages_json):
        graph.order.setdefault(message_id, len(graph.order))
    graph.pending = list(state.pending_tool_calls)
    graph.directory = _directory(state.previous_workspace_uris)
    graph.files = set(_files(state))
    for turn_id in _ids(state.turns):
        turn = _blob("ConversationTurnStructure", blobs(turn_id))
        if turn is None:
            graph.gaps += 1
            continue
        for step_id in _ids(turn.agent_conversation_turn.steps):
            step = _blob("ConversationStep", blobs(step_id))
            if step is None:
                graph.gaps += 1
            elif step.tool_call.tool_call_id:
                call = step.tool_call
                began, ended = map(milliseconds, (call.started_at_ms, call.completed_at_ms))
                told = Step(step_id, began, ended)
                graph.calls.setdefault(call.tool_call_id, told)
    return graph


def _ids(raw: Iterable[bytes]) -> Iterator[str]:
    """The ids among these bytes: what has another length names no blob."""
    return (one.hex() for one in raw if len(one) == _ID_BYTES)


def _directory(uris: Iterable[bytes]) -> str | None:
    from urllib.parse import unquote

    found = {uri.decode("utf-8", "replace") for uri in uris if uri.startswith(b"file:///")}
    return unquote(found.pop().removeprefix("file://")) if len(found) == 1 else None


def _files(state: Any) -> Iterator[str]:
    for raw in state.file_states:
        entry = _blob("FileStateEntry", raw)
        if entry is not None:
            yield from _ids([entry.value])
    for raw in state.file_states_v2:
        entry = _blob("FileStateEntry", raw)
        content = None if entry is None else _blob("FileState", entry.value)
        if content is not None:
            yield from _ids([content.content, content.initial_content])


def _blob(name: str, data: bytes | None) -> Any:
    """A message that a conversation can do without; None if it is not there or cannot be read."""
    try:
        return None if data is None else _message(name, data)
    except ValueError:
        return None


def _message(name: str, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return classes()[name].FromString(data)
    except DecodeError:
        raise ValueError(f"not a {name}") from None


@cache
def classes() -> dict[str, Any]:
    """The messages of the definition, by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    compiled = files("yarp_cursor").joinpath("proto/agent_v1.desc").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    definition = descriptor_pb2.FileDescriptorSet.FromString(compiled).file[0]
    pool.AddSerializedFile(definition.SerializeToString())
    found = message_factory.GetMessageClassesForFiles([definition.name], pool)
    return {name.rpartition(".")[2]: made for name, made in found.items()}
