"""Whether the captures of a conversation are what their receipts say: modes, hashes, counts.

What an owner that died left behind is partial and is counted so; it is no problem, and nothing
here changes it. Source: seed 004, "Live reads and immutable completion".
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import attrs

from yarp import canonical
from yarp.errors import DataError, StorageError
from yarp.spool import names, private
from yarp.spool.receipt import MALFORMED, CaptureState, ReferenceState, Representation
from yarp.spool.shelf import State, captures, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.spool.receipt import Receipt, StreamReceipt
    from yarp.spool.shelf import Capture

_READ_BYTES = 1 << 20
_RECEIPT_BYTES = 1 << 16


@attrs.frozen
class Problem:
    """One thing that is not as it should be."""

    path: str
    what: str


@attrs.frozen
class Report:
    """The captures by how they stand; `partial` are published ones that do not hold all."""

    published: int
    partial: int
    running: int
    left: int
    problems: tuple[Problem, ...]


def verify(root: str) -> Report:
    """Check all captures in `root` and below it."""
    counts = dict.fromkeys(("published", "partial", "running", "left"), 0)
    problems: list[Problem] = []
    seen: set[str] = set()
    for capture in captures(root):
        if capture.directory not in seen:
            seen.add(capture.directory)
            problems += _directory(capture)
        try:
            now = standing(capture)
            counts[now.state] += 1
            with capture.opened() as directory:
                problems += _modes(directory, capture)
                if now.state is State.PUBLISHED:
                    counts["partial"] += now.receipt.capture is not CaptureState.COMPLETE
                    problems += _published(directory, capture, now.receipt)
        except (DataError, StorageError) as error:
            problems.append(Problem(capture.path("receipt.json"), str(error)))
    return Report(**counts, problems=tuple(problems))


def _directory(capture: Capture) -> Iterator[Problem]:
    found = os.stat(capture.directory, follow_symlinks=False)
    if found.st_mode & 0o077:
        yield Problem(capture.directory, f"others can reach it: {stat.S_IMODE(found.st_mode):04o}")


def _modes(directory: int, capture: Capture) -> Iterator[Problem]:
    for ending in sorted(capture.endings):
        try:
            found = os.stat(
                f"{capture.capture_id}.{ending}", dir_fd=directory, follow_symlinks=False
            )
        except FileNotFoundError:
            continue  # it was renamed meanwhile: the capture has just been published
        if not stat.S_ISREG(found.st_mode):
            yield Problem(capture.path(ending), "is a link, or no regular file")
        elif found.st_mode & 0o177:
            yield Problem(
                capture.path(ending), f"others can reach it: {stat.S_IMODE(found.st_mode):04o}"
            )


def _published(directory: int, capture: Capture, receipt: Receipt) -> Iterator[Problem]:
    path = capture.path("receipt.json")
    data = private.read_file(directory, names.receipt(capture.capture_id), _RECEIPT_BYTES)
    if not _is_canonical(data):
        yield Problem(path, "is not in its canonical form: it was edited")
    for what in _states(receipt):
        yield Problem(path, what)
    for stream in receipt.streams:
        for what in _counts(stream, receipt):
            yield Problem(path, f"{stream.name}: {what}")
        yield from _stream(directory, capture, stream, receipt)
    here = receipt.reference_state is ReferenceState.LOCAL
    named = {one.name for one in receipt.streams if here and one.reference is not None}
    for name in capture.streams:
        if name not in named:
            yield Problem(capture.path(name), "its receipt names no such file")


def _is_canonical(data: bytes) -> bool:
    try:
        return canonical.encode(canonical.parse(data.decode())) + b"\n" == data
    except MALFORMED:  # what is known of it is right, and something else is nothing of ours
        return False


def _states(receipt: Receipt) -> Iterator[str]:
    if receipt.capture is CaptureState.PENDING:
        yield "it is published, and the capture is called pending"
    if receipt.capture is CaptureState.COMPLETE and receipt.capture_reason is not None:
        yield "the capture is called complete, and has a reason why it is not"
    if receipt.capture is CaptureState.PARTIAL and receipt.capture_reason is None:
        yield "the capture is called partial, and nothing says why"
    if receipt.exit_code is not None and receipt.signal is not None:
        yield "a process ends with a code or by a signal, not both"


def _counts(stream: StreamReceipt, receipt: Receipt) -> Iterator[str]:
    parts = (stream.observed, stream.accepted, stream.pending, stream.discarded)
    known = [count for count in parts if count is not None]
    if known and min(known) < 0:
        yield "a count is below zero"
    if None not in parts and known[0] != sum(known[1:]):
        yield "observed is not accepted + pending + discarded"
    lacks = (stream.pending, stream.discarded, stream.uncommitted, stream.omitted)
    if receipt.capture is CaptureState.COMPLETE and any(lacks):
        yield "the capture is called complete, and not all was kept"
    start, end = stream.retained_start, stream.retained_end
    if start is not None and end is not None and stream.committed not in (None, end - start):
        yield "what is retained is not what was committed"
    if start not in (None, 0):
        yield "what is retained is not a beginning"
    here = receipt.reference_state is ReferenceState.LOCAL and stream.reference is not None
    if (
        receipt.capture is CaptureState.COMPLETE
        and here
        and None
        in (
            stream.committed,
            stream.sha256,
        )
    ):
        yield "the capture is called complete, and it is not said what of"


def _stream(
    directory: int, capture: Capture, stream: StreamReceipt, receipt: Receipt
) -> Iterator[Problem]:
    if stream.reference is None or receipt.reference_state is not ReferenceState.LOCAL:
        return
    path = capture.path(stream.name)
    parts = stream.reference.split("/")
    named = parts[-1] == names.final(capture.capture_id, stream.name)
    if not named or "" in parts or os.pardir in parts:
        yield Problem(capture.path("receipt.json"), f"{stream.name}: names another file")
        return
    try:
        file = private.open_file(directory, names.final(capture.capture_id, stream.name))
    except DataError:
        yield Problem(path, "is missing")
        return
    except StorageError:
        return  # no regular file, which has been said
    try:
        yield from (Problem(path, what) for what in _content(file, stream, receipt))
    except OSError as error:
        yield Problem(path, f"cannot be read: {error.strerror}")
    finally:
        os.close(file)


def _content(file: int, stream: StreamReceipt, receipt: Receipt) -> Iterator[str]:
    import codecs

    text = codecs.getincrementaldecoder("utf-8")()
    digest = canonical.new_sha256(large=True)
    length = lines = 0
    last, is_text = b"", True
    while block := os.read(file, _READ_BYTES):
        digest.update(block)
        length += len(block)
        lines += block.count(b"\n")
        last = block[-1:]
        if is_text:
            try:
                text.decode(block)
            except UnicodeDecodeError:
                is_text = False
    if stream.committed not in (None, length):
        yield f"has {length} bytes, its receipt says {stream.committed}"
    if stream.sha256 not in (None, digest.hexdigest()):
        yield "is not what was captured: its digest is another one"
        return
    if receipt.representation is Representation.BINARY:
        return
    try:
        text.decode(b"", final=True)
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        yield "is called text and is no UTF-8"
    if stream.line_count not in (None, lines + (last not in {b"", b"\n"})):
        yield "has another number of lines than its receipt says"
