"""Reading what is kept of a capture: a range at any time, or on and on while it is written.

Positions are bytes of the kept representation, never raw bytes of a pipe. Who reads on has a
cursor of its own, by name: reading moves that one alone, and neither another's nor the marker of
the completion's delivery. Text is given in whole code points. Source: seed 004, "Live reads and
immutable completion".
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import attrs

from yarp.errors import DataError, StorageError, UsageError
from yarp.spool import names, private
from yarp.spool.live import CursorInvalid
from yarp.spool.receipt import MALFORMED, Representation
from yarp.spool.shelf import State, open_stream, require_here, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from yarp.spool.shelf import Capture, Standing

_CONSUMER = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_CURSOR_BYTES = 4096
_LONGEST_CODE_POINT = 4


@attrs.frozen
class Part:
    """Bytes of one stream from `start` to `end`."""

    stream: str
    start: int
    end: int
    data: bytes


@attrs.frozen
class Place:
    """A position in a stream; `generation` names the file that it is of, None: any."""

    offset: int = 0
    generation: str | None = None


def read_range(
    file: int, start: int, end: int, *, text: bool, final: bool = True
) -> tuple[int, int, bytes]:
    """The bytes from `start` to `end` of what is kept, and where they really begin and end.

    Of text a code point belongs to the range that its first byte lies in, so that ranges side by
    side give every byte once; at most three bytes more than asked. Without `final` the file may
    end in the middle of one, which then waits.
    """
    size = os.fstat(file).st_size
    start, end = min(start, size), min(end, size)
    data = os.pread(file, max(0, end - start) + _LONGEST_CODE_POINT - 1, start)
    wanted = end - start
    if not text:
        return start, end, data[:wanted]
    first, last = 0, wanted
    while first < min(len(data), _LONGEST_CODE_POINT - 1) and _continues(data[first]) and start:
        first += 1
    while last < len(data) and last - wanted < _LONGEST_CODE_POINT - 1 and _continues(data[last]):
        last += 1
    if not final and start + last >= size:
        last -= _unfinished(data[first:last])
    last = max(first, last)
    return start + first, start + last, data[first:last]


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _unfinished(data: bytes) -> int:
    """How many bytes at the end of `data` begin a code point that is not all there."""
    for back in range(1, min(_LONGEST_CODE_POINT, len(data) + 1)):
        byte = data[-back]
        if _continues(byte):
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if back < length else 0
    return 0


class Follower:
    """One consumer's way through the streams of a capture, from launch to publication and after.

    `places`: where it stands in each stream, and of which file that is the place.
    """

    def __init__(
        self, capture: Capture, streams: Iterable[str], places: Mapping[str, Place] | None = None
    ) -> None:
        self.capture = capture
        self.streams = tuple(streams)
        self.places = {**dict.fromkeys(self.streams, Place()), **(places or {})}
        self.standing: Standing | None = None

    def poll(self, max_bytes: int) -> list[Part]:
        """What was committed since the last time, at most about `max_bytes` of it.

        After it, `standing` says how the capture stood before the bytes were read: when that was
        no longer running and nothing came, all was read. Raises CursorInvalid where a file is not
        the one that the place was of.
        """
        # First: what is committed when it is over is all there will be.
        self.standing = standing(self.capture)
        require_here(self.standing.receipt)
        kept = {one.name for one in self.standing.receipt.streams if one.reference is not None}
        text = self.standing.receipt.representation is not Representation.BINARY
        final = self.standing.state is not State.RUNNING
        parts: list[Part] = []
        with self.capture.opened() as directory:
            for name in self.streams:
                left = max_bytes - sum(len(part.data) for part in parts)
                if name not in kept or left <= 0:
                    continue
                file = open_stream(directory, self.capture, name)
                if file is None:
                    continue
                try:
                    at = self._place(file, name).offset
                    part = Part(name, *read_range(file, at, at + left, text=text, final=final))
                finally:
                    os.close(file)
                if part.data:
                    parts.append(part)
        return parts

    def _place(self, file: int, stream: str) -> Place:
        found = os.fstat(file)
        generation = f"{found.st_dev:x}-{found.st_ino:x}"
        place = self.places[stream]
        if place.generation not in (None, generation) or found.st_size < place.offset:
            raise CursorInvalid(f"{self.capture.path(stream)} was replaced; begin anew")
        place = self.places[stream] = Place(place.offset, generation)
        return place

    def passed(self, part: Part) -> None:
        """Move past a part that has been given on."""
        self.places[part.stream] = attrs.evolve(self.places[part.stream], offset=part.end)

    def skip_to_tail(self, byte_length: int) -> None:
        """Stand `byte_length` before what is committed now, of each stream."""
        with self.capture.opened() as directory:
            for name in self.streams:
                file = open_stream(directory, self.capture, name)
                if file is not None:
                    self.places[name] = Place(max(0, os.fstat(file).st_size - byte_length))
                    os.close(file)


def load_cursor(capture: Capture, consumer: str) -> dict[str, Place]:
    """Where the consumer of that name stands in each stream; empty: it is new."""
    with capture.opened() as directory:
        try:
            data = private.read_file(directory, _cursor_name(capture, consumer), _CURSOR_BYTES)
        except DataError:
            return {}
    try:
        return {
            names.require_stream(stream): _checked(place)
            for stream, place in json.loads(data).items()
        }
    except (*MALFORMED, DataError) as error:
        path = capture.path(f"cursor-{consumer}")
        raise DataError(f"{path} is no cursor; remove it to begin anew") from error


def _checked(place: dict[str, object]) -> Place:
    offset, generation = place["offset"], place["generation"]
    if type(offset) is not int or offset < 0 or not isinstance(generation, str | None):
        raise ValueError("no place")
    return Place(offset, generation)


def save_cursor(follower: Follower, consumer: str) -> None:
    """Keep where the consumer of that name stands, beside the capture and as private."""
    capture = follower.capture
    value = {name: attrs.asdict(place) for name, place in follower.places.items()}
    with capture.opened() as directory:
        temporary = f".{os.urandom(16).hex()}.new"
        private.publish(directory, temporary, json.dumps(value).encode() + b"\n")
        name = _cursor_name(capture, consumer)
        try:
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            private.remove(directory, temporary)
            raise StorageError(f"a cursor cannot be kept: {error.strerror}") from error


def _cursor_name(capture: Capture, consumer: str) -> str:
    if not _CONSUMER.fullmatch(consumer):
        raise UsageError("the name of a consumer is up to 64 letters, digits, _ and -")
    return f"{capture.capture_id}.cursor-{consumer}"
