"""The output of one process on its way to files: the reader's side.

Whoever reads the pipes pushes chunks here; nothing they push, and nothing that happens to the
files, keeps them waiting under policy `lossy`. Every byte is transformed before it is stored, and
counted: observed = accepted + pending + discarded, at every moment. Source: seed 004, "Proposed
contract"; spec "Receipts".
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING

import attrs

from yarp.errors import UsageError, YarpError
from yarp.spool import live, names, preview
from yarp.spool.files import Files, Refused
from yarp.spool.preview import Budget, Ends, Preview
from yarp.spool.receipt import (
    VERSION,
    Accounting,
    CaptureState,
    Identity,
    PreviewState,
    ProcessState,
    Receipt,
    ReferenceState,
    Representation,
    StreamReceipt,
)
from yarp.spool.represent import Transform, transform
from yarp.spool.writer import QUEUE_BYTES, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yarp.spool.declared import Redactor, SpoolLocation

LOSSY, EXACT = "lossy", "exact"
SETTLE_SECONDS = 5.0
"""How long `finish` waits for a storage that does not answer."""
_LABEL_CHARACTERS = 120


class _Count:
    """One stream's counts; under the spool's lock."""

    __slots__ = (
        "accepted",
        "closed",
        "committed",
        "discarded",
        "ended",
        "observed",
        "omitted",
        "pending",
        "produced",
        "undecided",
    )

    def __init__(self) -> None:
        self.observed = self.accepted = self.pending = self.discarded = 0
        self.produced = self.committed = self.undecided = self.omitted = 0
        self.ended = self.closed = False


class Spool:
    """Takes a process's output, keeps what may be kept, and says what that was.

    It never raises for what the storage does: `capture` and `reason` say it, then the receipt.
    One thread pushes a stream; `finish`, `preview` and the rest may be called from others.
    """

    def __init__(
        self,
        location: SpoolLocation | None,
        *,
        identity: Identity | None = None,
        representation: Representation = Representation.REDACTED_TEXT,
        redactors: Sequence[Redactor] = (),
        policy: str = LOSSY,
        label: str | None = None,
        streams: Sequence[str] = names.STREAMS,
        inline_bytes: int = 0,
        queue_bytes: int = QUEUE_BYTES,
        settle_seconds: float = SETTLE_SECONDS,
        budget: Budget | None = None,
        without: tuple[CaptureState, str] | None = None,
        published: Callable[[Receipt], object] | None = None,
    ) -> None:
        """Have the files from launch; with `inline_bytes`, only once there are more bytes.

        `location` None, or `without`: nothing is kept, and the receipt says why. `label` is
        bounded and redacted like the output. `published` is told of the receipt, once.
        """
        if policy not in (LOSSY, EXACT):
            raise UsageError("a spool's policy is lossy or exact")
        self.identity = identity or Identity(names.new_id())
        names.require_id(self.identity.capture_id)
        self.streams = tuple(names.require_stream(name) for name in streams)
        self.representation = representation
        self.capture = CaptureState.PENDING
        self.reason: str | None = None
        self.problem: str | None = None
        self._location = location
        self._redactors = tuple(redactors)
        self._budget = budget or Budget()
        self._settle_seconds = settle_seconds
        self._inline_bytes = inline_bytes
        self._inline: list[tuple[int, bytes]] | None = [] if inline_bytes else None
        self._inline_size = 0
        self._told = published
        self._created_at_ms = _now_ms()
        self._promoted_at: tuple[int, ...] | None = None
        self._lock = threading.Lock()
        self._counts = [_Count() for _ in self.streams]
        self._order = threading.Lock()
        self._turns = [threading.Lock() for _ in self.streams]
        self._transforms: list[Transform] = []
        self._ends = [Ends(self._budget.characters(n)) for n in range(len(self.streams))]
        self._files: Files | None = None
        self._described: Identity | None = None
        self._opened = threading.Event()
        self._finishing = False
        self._finished = threading.Event()
        self._receipt: Receipt | None = None
        self._kept = False
        self._claimed = False
        self._process: tuple[ProcessState | None, int | None, int | None, str | None] = (
            ProcessState.RUNNING,
            None,
            None,
            None,
        )
        self._writer = Writer(self._store, queue_bytes=queue_bytes, exact=policy == EXACT)
        self.label = None
        if without is None and location is None:
            without = CaptureState.UNAVAILABLE, "no-location"
        if without is not None:
            self.capture, self.reason = without
            return
        try:
            self._transforms = [transform(representation, self._redactors) for _ in self.streams]
            self.label = None if label is None else self._bounded(label)
        except Exception:  # noqa: BLE001 - a redactor's own; nothing is kept that it did not see
            self._transforms = []
            self.capture, self.reason = CaptureState.UNAVAILABLE, "redactor-failed"
            return
        if self._inline is None:
            try:
                self._open()
            except YarpError as error:
                self.problem = str(error)
                self.capture, self.reason = CaptureState.UNAVAILABLE, "storage"

    # -- what the reader does -----------------------------------------------------------------

    def take(self, stream: int, chunk: bytes) -> bool:
        """Take the next raw bytes of a stream; always True: go on reading.

        Under `lossy` it waits for nothing but its own work on the bytes.
        """
        size = len(chunk)
        count = self._counts[stream]
        with self._lock:
            count.observed += size
            if self._finishing or count.closed or not self._transforms:
                count.discarded += size
                return True
            count.pending += size
        with self._turns[stream]:
            self._advance(stream, chunk, size)
        return True

    def ended(self, stream: int) -> None:
        """Say that a stream had its real end: everything that held its pipe has closed it."""
        with self._turns[stream]:
            self._end(stream, ended=True)

    def _end(self, stream: int, *, ended: bool) -> None:
        """Settle what is pending and undecided; the caller has the stream's turn."""
        count = self._counts[stream]
        if count.closed:
            return
        self._advance(stream, None, 0, ended=ended)
        with self._lock:
            count.closed = True
            count.ended = ended
            count.discarded += count.pending
            count.pending = 0

    def _advance(self, stream: int, chunk: bytes | None, size: int, *, ended: bool = False) -> None:
        """Transform raw bytes and hand on what may be kept; the caller has the stream's turn."""
        count = self._counts[stream]
        if count.closed or not self._transforms:
            return  # what was pending is settled
        way = self._transforms[stream]
        waiting = way.undecoded
        storing = self.capture is CaptureState.PENDING
        try:
            text = way.feed(chunk) if chunk is not None else way.finish(ended=ended)
        except Exception:  # noqa: BLE001 - a redactor's own; the output goes on without it
            self._lose_redactors()
            return
        with self._lock:
            if not self._transforms:
                return  # the other stream's redactor has failed meanwhile
            # A character that was cut off for good is dropped by `_end`.
            settled = waiting + size - way.undecoded
            count.pending -= settled
            if storing:
                count.accepted += settled
                count.produced += len(text)
            else:
                count.discarded += settled
            count.undecided, count.omitted = way.undecided, way.omitted
        if text:
            self._ends[stream].add(text)
            if storing:
                self._keep(stream, text)

    def _lose_redactors(self) -> None:
        """Nothing more can be made safe; what was pending is discarded."""
        self._stop("redactor-failed")
        with self._lock:
            self._transforms = []
            for count in self._counts:
                count.discarded += count.pending
                count.omitted += count.undecided
                count.pending = count.undecided = 0

    def _keep(self, stream: int, text: bytes) -> None:
        with self._order:
            if self._inline is not None:
                self._inline.append((stream, text))
                self._inline_size += len(text)
                if self._inline_size > self._inline_bytes:
                    self._spill()
            elif not self._writer.put(stream, text):
                self._stop("saturated")

    def _spill(self) -> None:
        """Have in files what was inline until now; the caller has the order."""
        inline, self._inline = self._inline or (), None
        for stream, text in inline:
            if not self._writer.put(stream, text):
                self._stop("saturated")

    def _stop(self, reason: str) -> None:
        """Store nothing more; the first reason stays."""
        with self._lock:
            if self.capture is CaptureState.PENDING:
                self.capture, self.reason = CaptureState.PARTIAL, reason

    # -- what the writer's thread does ---------------------------------------------------------

    def _open(self) -> Files:
        """Make the files and say whose they are. Raises YarpError."""
        if self._location is None:
            raise UsageError("a spool without a place has no files")
        text = self.representation is not Representation.BINARY
        files = Files(self._location, self.identity.capture_id, self.streams, text=text)
        self._files = files
        self._describe(files)
        return files

    def _describe(self, files: Files) -> None:
        identity = self.identity
        files.describe(
            {
                **attrs.asdict(identity),
                "command_label": self.label,
                "created_at_ms": self._created_at_ms,
                "pid": os.getpid(),
                "redactors": [one.name for one in self._redactors],
                "representation": self.representation.value,
                "streams": list(self.streams),
                "version": VERSION,
            }
        )
        self._described = identity

    def _store(self, stream: int, data: bytes) -> bool:
        try:
            files = self._files or self._open()
            if self._described != self.identity:
                self._describe(files)
            self._opened.set()
            try:
                files.append(stream, data)
            finally:
                with self._lock:
                    self._counts[stream].committed = files.committed[stream]
        except Refused as refused:
            self._stop(str(refused))
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            self.problem = f"a spool cannot be written: {error.strerror}"
            self._stop("storage-full" if full else "storage")
        except YarpError as error:
            self.problem = str(error)
            self._stop("storage")
        else:
            return True
        return False

    def _publish(self) -> None:
        """The last that the writer's thread does."""
        files = self._files
        if files is None:
            return
        try:
            files.settle()
            receipt = self._make_receipt(files, final=True)
            if self._writer.commits():
                files.publish(receipt.encode())
                self._receipt = receipt
                self._kept = True
            else:
                files.unsettle()
        except (OSError, YarpError) as error:
            self.problem = f"a receipt cannot be published: {error}"
            self._stop("receipt-unpublished")
            files.unsettle()
        finally:
            files.close()

    # -- the end -------------------------------------------------------------------------------

    def finish(
        self,
        process: ProcessState | None = ProcessState.EXITED,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        process_reason: str | None = None,
        unended: str = "drain-timeout",
        upstream: str | None = None,
    ) -> Receipt:
        """Settle everything, publish the receipt and give it; the first call decides.

        `process` None: there was none, as for a text that a tool hands over.
        `upstream`: why what was handed over may not have been all; the capture is partial then,
        though all of that is kept. `unended`: the reason when a stream did not have its end. It
        waits for a storage that does not answer, for `settle_seconds` and no longer.
        """
        with self._lock:
            first, self._finishing = not self._finishing, True
        if not first:
            self._finished.wait()
            return self.receipt()
        try:
            self._process = process, exit_code, signal, process_reason
            for stream in range(len(self.streams)):
                # Under `exact` a reader may stand there, waiting for the storage.
                if self._turns[stream].acquire(timeout=self._settle_seconds):
                    self._end(stream, ended=False)
                    self._turns[stream].release()
            self._conclude(unended, upstream)
        finally:
            self._finished.set()
        if self._told is not None and self._kept:
            self._told(self.receipt())
        return self.receipt()

    def _conclude(self, unended: str, upstream: str | None) -> None:
        """Decide the capture's state, and have the receipt published where there are files."""
        with self._lock:
            if self.capture is CaptureState.PENDING:
                if not all(count.ended for count in self._counts):
                    self.reason = unended
                elif any(count.omitted for count in self._counts):
                    self.reason = "undecided-omitted"
                else:
                    self.reason = upstream
        shown = self.preview()
        with self._order:
            if self._inline is not None and shown.fact.state is PreviewState.HEAD_TAIL:
                self._spill()
        if self._inline is not None:
            self._receipt = self._make_receipt(None, final=True)
            return
        if self._location is None or self.capture in _WITHOUT:
            self._receipt = self._make_receipt(None, final=True)
            return
        if not self._writer.close(self._publish, self._settle_seconds):
            self._stop("storage-stalled")
        if self._receipt is None:
            self._receipt = self._make_receipt(self._files, final=False)

    def _make_receipt(self, files: Files | None, *, final: bool) -> Receipt:
        process, exit_code, signal, process_reason = self._process
        state, reason = self._state()
        inline = self._inline is not None and state not in _WITHOUT
        streams = tuple(
            self._stream(n, files, final=final, inline=inline) for n in range(len(self.streams))
        )
        where = ReferenceState.UNAVAILABLE
        if inline:
            where = ReferenceState.INLINE
        elif files is not None:
            where = ReferenceState.LOCAL
        return Receipt(
            **attrs.asdict(self.identity),
            process=process,
            capture=state,
            representation=self.representation,
            preview=self.preview().fact if self._transforms else None,
            streams=streams,
            reference_state=where,
            command_label=self.label,
            exit_code=exit_code,
            signal=signal,
            process_reason=process_reason,
            capture_reason=reason,
            redactors=tuple(one.name for one in self._redactors),
            promoted_at=self._promoted_at,
            created_at_ms=self._created_at_ms,
            finished_at_ms=_now_ms() if self._finishing else None,
        )

    def _state(self) -> tuple[CaptureState, str | None]:
        """The capture's state as it would be published now."""
        with self._lock:
            kept = any(count.committed for count in self._counts) or self._inline is not None
            if self.capture is CaptureState.PARTIAL and not kept:
                return CaptureState.FAILED, self.reason
            if self.capture is not CaptureState.PENDING or not self._finishing:
                return self.capture, self.reason
            state = CaptureState.COMPLETE if self.reason is None else CaptureState.PARTIAL
            return state, self.reason

    def _stream(
        self, stream: int, files: Files | None, *, final: bool, inline: bool
    ) -> StreamReceipt:
        seen = self.accounting(stream)
        name = self.streams[stream]
        if files is None and not inline:
            return StreamReceipt(name, seen.observed, seen.accepted, seen.pending, seen.discarded)
        kept = seen.committed + seen.uncommitted if inline else seen.committed
        return StreamReceipt(
            name,
            seen.observed,
            seen.accepted,
            seen.pending,
            seen.discarded,
            committed=kept,
            uncommitted=0 if inline else seen.uncommitted,
            omitted=seen.omitted,
            retained_start=0,
            retained_end=kept,
            line_count=files.line_count(stream) if files else None,
            reference=files.reference(stream, final=final) if files else None,
            sha256=files.sha256(stream) if files and final else None,
        )

    # -- what others see -----------------------------------------------------------------------

    def accounting(self, stream: int) -> Accounting:
        """The stream's counts, all of one moment."""
        with self._lock:
            count = self._counts[stream]
            return Accounting(
                observed=count.observed,
                accepted=count.accepted,
                pending=count.pending,
                discarded=count.discarded,
                committed=count.committed,
                uncommitted=count.produced - count.committed,
                undecided=count.undecided,
                omitted=count.omitted,
                ended=count.ended,
            )

    def receipt(self) -> Receipt:
        """The published receipt; before that, how things stand: running, pending."""
        return self._receipt or self._make_receipt(self._files, final=False)

    def preview(self, notes: Sequence[str] = ()) -> Preview:
        """What to show at once, from the transformed bytes, whatever became of the files."""
        process, exit_code, signal, process_reason = self._process
        state, reason = self._state()
        if state not in (CaptureState.PENDING, CaptureState.COMPLETE):
            notes = (f"capture {state}" + (f": {reason}" if reason else ""), *notes)
        return preview.make(
            list(zip(self.streams, self._ends, strict=True)),
            status=_status(process, exit_code, signal, process_reason),
            notes=notes,
            failed=process is not ProcessState.RUNNING and (signal is not None or exit_code != 0),
            budget=self._budget,
        )

    def promote(self, job_id: str) -> tuple[int, ...]:
        """Make a job of a call in the foreground; how much of each stream was observed by then.

        The capture goes on as it is, and has its files from now on.
        """
        with self._lock:
            if self._finishing:
                raise UsageError("a capture that is over becomes no job")
            self._promoted_at = tuple(count.observed for count in self._counts)
            self.identity = attrs.evolve(self.identity, job_id=job_id)
            storing = self.capture is CaptureState.PENDING
        with self._order:
            self._spill()
            if storing and self._writer.put(0, b""):
                storing = True
        if storing:
            self._opened.wait(self._settle_seconds)
        return self._promoted_at

    def claim(self) -> bool:
        """Whether the one automatic completion is the caller's to tell; True once, ever."""
        with self._lock:
            if not self._finishing or self._claimed:
                return False
            self._claimed = True
        if not self._kept or self._location is None:
            return True
        return live.claim(self._location, self.identity.capture_id)

    def _bounded(self, label: str) -> str:
        """A label without secrets and without line ends, of bounded length."""
        way = transform(Representation.REDACTED_TEXT, self._redactors)
        text = way.feed(label.encode("utf-8", "replace")) + way.finish(ended=True)
        line = " ".join(preview.safe(text).split())
        if len(line) > _LABEL_CHARACTERS:
            line = line[: _LABEL_CHARACTERS - 1] + "…"
        return line


_WITHOUT = (CaptureState.DISABLED, CaptureState.UNAVAILABLE)


def _status(
    process: ProcessState | None, exit_code: int | None, signal: int | None, reason: str | None
) -> str:
    words = {
        ProcessState.RUNNING: "still running",
        ProcessState.CANCELLED: "cancelled",
        ProcessState.TIMEOUT: "timed out",
    }
    said = [words[process]] if process is not None and process in words else []
    if reason:
        said.append(reason)
    if signal is not None:
        said.append(f"killed by signal {signal}")
    elif exit_code is not None:
        said.append(f"exit code {exit_code}")
    return ", ".join(said) or ("" if process is None else "exited")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
