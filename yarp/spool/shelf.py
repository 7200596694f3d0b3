"""The captures below a directory: of one conversation, or of all that a host keeps there.

Below the directory where a search begins no link is followed. A receipt names its files, but a
path in it opens nothing: the files of a capture are those beside it that have its id. Source: seed
004, "Live reads and immutable completion" and "Namespace, permissions and access".
"""

from __future__ import annotations

import enum
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from yarp.errors import DataError, ReferenceUnknown, UsageError
from yarp.spool import live, names, private, quota
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import (
    CaptureState,
    ProcessState,
    Receipt,
    ReferenceState,
    Representation,
    StreamReceipt,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A host keeps its spools a few directories below the one of all its conversations.
_DEPTH = 8
_FILE = re.compile(
    r"([0-9a-f]{32})\.([a-z0-9_]{1,32}(?:\.live|\.json)?|cursor-[A-Za-z0-9_-]{1,64})", re.ASCII
)
_ID = re.compile(r"[0-9a-f]{4,32}", re.ASCII)
_RECEIPT, _RECORD = "receipt.json", "live.json"


class State(enum.StrEnum):
    """Whether a capture is published for good, still written, or left by an owner that died."""

    PUBLISHED = "published"
    RUNNING = "running"
    LEFT = "left"


@attrs.frozen
class Capture:
    """One capture below `root`; `endings` are those of its files that were there when found."""

    root: str
    directory: str
    capture_id: str
    endings: frozenset[str]

    @property
    def location(self) -> SpoolLocation:
        """Where it lies, with no link followed below `root`."""
        return SpoolLocation(self.directory, conversation=self.root)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that have a file; stdout before stderr."""
        found = {ending.removesuffix(".live") for ending in self.endings if _is_stream(ending)}
        return tuple(sorted(found, reverse=True))

    def path(self, ending: str) -> str:
        """The path of one of its files, for people."""
        return os.path.join(self.directory, f"{self.capture_id}.{ending}")

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of its directory, reached without following a link below the root."""
        directory = private.open_directory(self.directory, below=self.root, create=False)
        try:
            yield directory
        finally:
            os.close(directory)


@attrs.frozen
class Standing:
    """How a capture stands at one moment; the receipt of one that is not published is derived."""

    state: State
    receipt: Receipt


def captures(root: str) -> Iterator[Capture]:
    """The captures in the directory `root` and below it, directory by directory.

    Raises DataError where `root` is no directory. What cannot be entered is passed over.
    """
    root = os.path.abspath(root)
    if not os.path.isdir(root):
        raise DataError(f"{root} is no directory")
    for directory, folders, files in os.walk(root):
        if directory[len(root) :].count(os.sep) >= _DEPTH:
            folders.clear()
        folders.sort()
        found: dict[str, set[str]] = {}
        for name in files:
            match = _FILE.fullmatch(name)
            if match is not None:
                found.setdefault(match[1], set()).add(match[2])
        for capture_id, endings in sorted(found.items()):
            if any(each in (_RECEIPT, _RECORD) or _is_stream(each) for each in endings):
                yield Capture(root, directory, capture_id, frozenset(endings))


def _is_stream(ending: str) -> bool:
    return names.stream_file(names.final("0" * 32, ending)) is not None


def find(word: str, roots: Iterable[str]) -> Capture:
    """The capture that `word` names: its id, the beginning of it, or the path of a file of it.

    Raises ReferenceUnknown where there is none, UsageError where several begin so.
    """
    named = _FILE.fullmatch(os.path.basename(word))
    if os.sep in word or named is not None:
        if named is None:
            raise UsageError(f"{word!a} is no file of a capture")
        roots, word = [os.path.dirname(word) or "."], named[1]
    if not _ID.fullmatch(word):
        raise UsageError(f"{word!a} is no capture; list them with: yarp receipt list")
    found = {
        capture.path(""): capture
        for root in roots
        for capture in captures(root)
        if capture.capture_id.startswith(word)
        and (named is None or capture.directory == capture.root)
    }
    if not found:
        raise ReferenceUnknown(f"there is no capture {word}; list them with: yarp receipt list")
    if len(found) > 1 and len({capture.capture_id for capture in found.values()}) == 1:
        places = ", ".join(sorted(capture.directory for capture in found.values()))
        raise UsageError(
            f"{len(found)} directories hold a capture {word}: {places}; name it by the path of "
            "one of its files, or the directory with --in"
        )
    if len(found) > 1:
        raise UsageError(f"{len(found)} captures begin with {word}; write more of the id")
    return next(iter(found.values()))


def standing(capture: Capture) -> Standing:
    """How a capture stands now. Raises DataError for a receipt or a record that is none."""
    if not capture.endings & {_RECEIPT, _RECORD}:
        # Its owner has not yet said whose output this is, or died before.
        with capture.opened() as directory:
            running = quota.is_running(directory, capture.capture_id)
            receipt = _nameless(directory, capture, running=running)
        return Standing(State.RUNNING if running else State.LEFT, receipt)
    with capture.opened() as directory:
        published = _exists(directory, names.receipt(capture.capture_id))
    receipt = live.find(capture.location, capture.capture_id)
    if receipt.capture_id != capture.capture_id:
        raise DataError(f"{capture.path(_RECEIPT)} is the receipt of another capture")
    # What is derived has no time of an end, so this tells when it was published since.
    if published or receipt.finished_at_ms is not None:
        return Standing(State.PUBLISHED, receipt)
    running = receipt.capture is CaptureState.PENDING
    return Standing(State.RUNNING if running else State.LEFT, receipt)


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _nameless(directory: int, capture: Capture, *, running: bool) -> Receipt:
    streams = []
    for name in capture.streams:
        file = open_stream(directory, capture, name)
        if file is None:
            streams.append(StreamReceipt(name))
            continue
        size = os.fstat(file).st_size
        os.close(file)
        reference = os.path.relpath(capture.path(f"{name}.live"), capture.root)
        streams.append(
            StreamReceipt(
                name, committed=size, retained_start=0, retained_end=size, reference=reference
            )
        )
    return Receipt(
        capture.capture_id,
        process=ProcessState.RUNNING if running else None,
        capture=CaptureState.PENDING if running else CaptureState.PARTIAL,
        capture_reason=None if running else "interrupted",
        # Not known; as bytes it is shown without harm.
        representation=Representation.BINARY,
        streams=tuple(streams),
        reference_state=ReferenceState.LOCAL,
    )


def require_here(receipt: Receipt) -> None:
    """ReferenceUnknown where the files are not those of the receipt, whatever lies here."""
    if receipt.reference_state is ReferenceState.NEEDS_TRANSFER:
        raise ReferenceUnknown(
            f"the files of {receipt.capture_id} are with who captured them; they need a transfer"
        )
    if receipt.reference_state is not ReferenceState.LOCAL:
        raise ReferenceUnknown(f"the files of {receipt.capture_id} are {receipt.reference_state}")


def open_stream(directory: int, capture: Capture, stream: str) -> int | None:
    """A descriptor of what is kept of a stream, live or final; None: nothing is."""
    names.require_stream(stream)
    # In this order: the last name is there before the live one goes.
    for name in (names.live, names.final):
        try:
            return private.open_file(directory, name(capture.capture_id, stream))
        except DataError:
            continue
    return None
