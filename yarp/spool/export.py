"""Copies of a conversation's receipts for somebody else: only what is permitted goes along.

Every copied stream is checked while it is copied; the receipt is published last, its references
rewritten to the files beside it. What is denied, missing, damaged, too large or not here is marked
unavailable instead: a reference never leads outside. Source: seed 004, "Namespace, permissions and
access".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from yarp import canonical
from yarp.errors import DataError, StorageError
from yarp.spool import private
from yarp.spool.receipt import ReferenceState
from yarp.spool.shelf import State, open_stream, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yarp.spool.receipt import Receipt, StreamReceipt
    from yarp.spool.shelf import Capture

MAX_BYTES = 128 << 20
_COPY_BYTES = 1 << 20


@attrs.frozen
class Left:
    """What did not go along, and why; `stream` None: the whole capture."""

    capture_id: str
    stream: str | None
    reason: str


@attrs.frozen
class Exported:
    """The receipts as they were published in the target, and what was left out of them."""

    receipts: tuple[Receipt, ...]
    left: tuple[Left, ...]
    byte_length: int


def export(
    captures: Iterable[Capture],
    target: str,
    *,
    permitted: Callable[[str, str], bool] = lambda _capture_id, _stream: True,
    max_bytes: int = MAX_BYTES,
    for_child: bool = False,
    with_files: bool = True,
) -> Exported:
    """Publish the captures' receipts in the new or empty directory `target`.

    `permitted(capture_id, stream)` says which streams may go along, `max_bytes` how much of them
    together. A running capture is no fixed evidence and stays; one that its owner left goes as
    partial. `for_child`: only identity, states, counts and references; neither the command's
    label nor the session of whose conversation it is. Without `with_files` nothing is copied: the
    receipts say that their files need a transfer, for a reader who has another way to them.
    Raises StorageError where the target cannot be used.
    """
    found = [*captures]  # all of them before the target is made, which may lie below the same root
    directory = _target(target)
    copy = _Copy(directory, permitted, max_bytes, with_files=with_files)
    receipts: list[Receipt] = []
    taken: set[str] = set()
    try:
        for capture in found:
            if capture.capture_id in taken:
                copy.leave(capture, None, "a capture of this id has gone along already")
                continue
            taken.add(capture.capture_id)
            receipt = copy.capture(capture, for_child=for_child)
            if receipt is not None:
                private.publish(directory, f"{capture.capture_id}.receipt.json", receipt.encode())
                receipts.append(receipt)
    finally:
        os.close(directory)
    return Exported(tuple(receipts), tuple(copy.left), copy.byte_length)


def _target(path: str) -> int:
    """The target's descriptor: made private, or already there, private and empty."""
    path = os.path.abspath(path)
    directory = private.open_directory(path, below=os.path.dirname(path))
    problem = None
    if os.fstat(directory).st_mode & 0o077:
        problem = f"others can reach {path}; run: chmod 700 '{path}'"
    elif os.listdir(directory):
        problem = f"{path} is not empty; name a new directory"
    if problem is None:
        return directory
    os.close(directory)
    raise StorageError(problem)


class _Copy:
    """One export while it goes on."""

    def __init__(
        self,
        directory: int,
        permitted: Callable[[str, str], bool],
        max_bytes: int,
        *,
        with_files: bool,
    ) -> None:
        self.left: list[Left] = []
        self.byte_length = 0
        self._directory = directory
        self._permitted = permitted
        self._max_bytes = max_bytes
        self._with_files = with_files

    def capture(self, capture: Capture, *, for_child: bool) -> Receipt | None:
        """Copy what may go along of a capture; the receipt to publish. None: it stays."""
        try:
            now = standing(capture)
            if now.state is State.RUNNING:
                self.leave(capture, None, "it is still running")
                return None
            receipt = now.receipt
            with capture.opened() as source:
                streams = tuple(
                    self._stream(source, capture, stream, receipt) for stream in receipt.streams
                )
        except (DataError, StorageError) as error:
            self.leave(capture, None, str(error))
            return None
        state = receipt.reference_state
        if not any(stream.reference for stream in streams):
            if state is ReferenceState.LOCAL:
                state = ReferenceState.UNAVAILABLE
        elif not self._with_files:
            state = ReferenceState.NEEDS_TRANSFER
        receipt = attrs.evolve(receipt, streams=streams, reference_state=state)
        if for_child:
            receipt = attrs.evolve(
                receipt, command_label=None, source_session_id=None, preview=None
            )
        return receipt

    def _stream(
        self, source: int, capture: Capture, stream: StreamReceipt, receipt: Receipt
    ) -> StreamReceipt:
        if stream.reference is None:
            return stream
        reason: str | None
        if not self._permitted(capture.capture_id, stream.name):
            reason = "it is not permitted"
        elif receipt.reference_state is not ReferenceState.LOCAL:
            # The files are somewhere else; what lies here under the name is not what is meant.
            reason = "its files are not here"
        elif not self._with_files:
            return stream
        else:
            reason = self._copied(source, capture, stream)
        if reason is None:
            return attrs.evolve(stream, reference=f"{capture.capture_id}.{stream.name}")
        self.leave(capture, stream.name, reason)
        return attrs.evolve(stream, reference=None)

    def _copied(self, source: int, capture: Capture, stream: StreamReceipt) -> str | None:
        """Copy a stream; a sentence of why it did not go along."""
        if stream.reference is None or (
            os.path.basename(stream.reference).removesuffix(".live")
            != f"{capture.capture_id}.{stream.name}"
        ):
            return "its reference names another file"
        file = open_stream(source, capture, stream.name)
        if file is None:
            return "its file is missing"
        name = f"{capture.capture_id}.{stream.name}"
        try:
            length = os.fstat(file).st_size
            if self.byte_length + length > self._max_bytes:
                return f"it is larger than what is left of {self._max_bytes} bytes"
            copied = private.create(self._directory, name)
            try:
                digest = canonical.new_sha256(large=True)
                length = 0
                while block := os.read(file, _COPY_BYTES):
                    length += len(block)
                    digest.update(block)
                    private.write_all(copied, block)
                os.fsync(copied)
            finally:
                os.close(copied)
        except OSError as error:
            private.remove(self._directory, name)
            raise StorageError(f"{name} cannot be copied: {error.strerror}") from error
        finally:
            os.close(file)
        if stream.sha256 not in (None, digest.hexdigest()) or stream.committed not in (
            None,
            length,
        ):
            private.remove(self._directory, name)
            return "its file is not what was captured"
        self.byte_length += length
        return None

    def leave(self, capture: Capture, stream: str | None, reason: str) -> None:
        """Say that a stream, or all of a capture, did not go along."""
        self.left.append(Left(capture.capture_id, stream, reason))
