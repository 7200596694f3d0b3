"""The output of one process on its way to files: the reader's side.

Whoever reads the pipes pushes chunks here; nothing they push, and nothing that happens to the
files, keeps them waiting under policy `lossy`. Every byte is transformed before it is stored, and
counted. Source: seed 004, "Proposed contract"; spec "Receipts".
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs

from yarp.errors import UsageError, YarpError
from yarp.spool import live, names, preview, statement
from yarp.spool.accounts import Accounts
from yarp.spool.credentials import CREDENTIALS
from yarp.spool.files import Files
from yarp.spool.preview import Budget, Ends, Preview
from yarp.spool.receipt import (
    VERSION,
    Accounting,
    CaptureState,
    Identity,
    PreviewFact,
    PreviewState,
    ProcessState,
    Receipt,
    Representation,
)
from yarp.spool.represent import Transform, transform
from yarp.spool.statement import Outcome
from yarp.spool.store import Store
from yarp.spool.writer import QUEUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yarp.spool.declared import Redactor, SpoolLocation

LOSSY, EXACT = "lossy", "exact"
SETTLE_SECONDS = 5.0
"""How long `finish` waits for a storage that does not answer."""
_NOWHERE = (CaptureState.DISABLED, CaptureState.UNAVAILABLE)


class Spool:
    """Takes a process's output, keeps what may be kept, and says what that was.

    It never raises for what the storage does: `capture` and `reason` say it, then the receipt;
    `problem` is a sentence about it. One thread pushes a stream; all else may be called from
    others.
    """

    def __init__(
        self,
        location: SpoolLocation | None,
        *,
        identity: Identity | None = None,
        representation: Representation = Representation.REDACTED_TEXT,
        redactors: Sequence[Redactor] = (CREDENTIALS,),
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
        self.label: str | None = None
        self.capture = CaptureState.PENDING
        self.reason: str | None = None
        self.problem: str | None = None
        self._doubt: str | None = None
        self._location = location
        redacts = representation is Representation.REDACTED_TEXT
        self._redactors = tuple(redactors) if redacts else ()
        self._budget = budget or Budget()
        self._settle_seconds = settle_seconds
        self._told = published
        self._created_at_ms = _now_ms()
        self._promoted_at: tuple[int, ...] | None = None
        self._showed: tuple[PreviewFact | None] | None = None
        self._outcome = Outcome(ProcessState.RUNNING)
        self._accounts = Accounts(len(self.streams))
        self._turns = [threading.Lock() for _ in self.streams]
        self._transforms: list[Transform] = []
        self._ends = [Ends(self._budget.characters(n)) for n in range(len(self.streams))]
        # What may still stay out of files, in the order in which it goes there otherwise.
        self._order = threading.Lock()
        self._inline: list[tuple[int, bytes]] | None = [] if inline_bytes else None
        self._inline_left = inline_bytes
        self._store = Store(
            self._make_files,
            self._record,
            self._accounts.commit,
            self._stop,
            queue_bytes=queue_bytes,
            exact=policy == EXACT,
        )
        self._lock = threading.Lock()
        self._finishing = self._claimed = self._published = False
        self._finished = threading.Event()
        self._receipt: Receipt | None = None
        self._begin(label, without)

    def _begin(self, label: str | None, without: tuple[CaptureState, str] | None) -> None:
        if without is None:
            try:
                self._transforms = [self._transform() for _ in self.streams]
                self.label = None if label is None else statement.label_of(label, self._redactors)
            except Exception:  # noqa: BLE001 - a redactor's own; nothing is kept unseen by it
                without = CaptureState.UNAVAILABLE, "redactor-failed"
        if without is None and self._location is None:
            without = CaptureState.UNAVAILABLE, "no-location"
        if without is None and self._inline is None:
            try:
                self._store.open()
            except YarpError as error:
                self.problem = str(error)
                without = CaptureState.UNAVAILABLE, "storage"
        if without is not None:
            self.capture, self.reason = without

    # -- what the reader does -----------------------------------------------------------------

    def take(self, stream: int, chunk: bytes) -> bool:
        """Take the next raw bytes of a stream; always True: go on reading.

        Under `lossy` it waits for no storage that stands still, and for a slow one not for long.
        """
        if self._accounts.observe(stream, len(chunk)):
            with self._turns[stream]:
                self._advance(stream, chunk)
        return True

    def ended(self, stream: int) -> None:
        """Say that a stream had its real end: everything that held its pipe has closed it."""
        with self._turns[stream]:
            self._end(stream, ended=True)

    def _end(self, stream: int, *, ended: bool) -> None:
        """Settle what is pending and undecided; the caller has the stream's turn."""
        self._advance(stream, None, ended=ended)
        self._accounts.close(stream, ended=ended)

    def _advance(self, stream: int, chunk: bytes | None, *, ended: bool = False) -> None:
        """Transform raw bytes and hand on what may be kept; the caller has the stream's turn."""
        if self._accounts.is_closed(stream):
            return  # it has been, while we waited for our turn
        if not self._transforms:
            self._accounts.discard(stream, len(chunk or b""))
            return
        way = self._transforms[stream]
        waiting = way.undecoded + len(chunk or b"")
        storing = self.capture is CaptureState.PENDING
        try:
            text = way.finish(ended=ended) if chunk is None else way.feed(chunk)
        except Exception:  # noqa: BLE001 - a redactor's own; the output goes on without it
            self._stop("redactor-failed")
            for each in range(len(self.streams)):
                self._accounts.close(each, ended=False)
            return
        settled = waiting - way.undecoded
        if self._accounts.settle(stream, settled, len(text), way, accepted=storing) and text:
            self._ends[stream].add(text)
            if storing:
                self._keep(stream, text)

    def _keep(self, stream: int, text: bytes) -> None:
        with self._order:
            if self._inline is not None:
                self._inline.append((stream, text))
                self._inline_left -= len(text)
                if self._inline_left < 0:
                    self._spill()
            else:
                self._store.put(stream, text)

    def to_files(self) -> None:
        """Have files from now on, however little there is.

        Waits a bounded time: who has the order may wait for a storage that stands still.
        """
        if self._order.acquire(timeout=self._settle_seconds):
            try:
                self._spill()
            finally:
                self._order.release()

    def _spill(self) -> None:
        """Have in files what was inline until now; the caller has the order."""
        inline, self._inline = self._inline or (), None
        for stream, text in inline:
            self._store.put(stream, text)

    def _stop(self, reason: str, problem: str | None = None) -> None:
        """Keep nothing more; the first reason counts."""
        with self._lock:
            self.problem = self.problem or problem
            if self.capture is CaptureState.PENDING:
                self.capture, self.reason = CaptureState.PARTIAL, reason

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
            self._outcome = Outcome(process, exit_code, signal, process_reason)
            for stream in range(len(self.streams)):
                # Under `exact` a reader may stand there, waiting for the storage.
                turn = self._turns[stream].acquire(timeout=self._settle_seconds)
                try:
                    if turn:
                        self._end(stream, ended=False)
                finally:
                    self._accounts.close(stream, ended=False)
                    if turn:
                        self._turns[stream].release()
            self._conclude(unended, upstream)
        finally:
            self._finished.set()
        if self._told is not None and self._published:
            self._told(self.receipt())
        return self.receipt()

    def _conclude(self, unended: str, upstream: str | None) -> None:
        """Decide the capture's state, and have the receipt published where there are files."""
        seen = [self.accounting(n) for n in range(len(self.streams))]
        if not all(one.ended for one in seen):
            self._doubt = unended
        elif any(one.discarded for one in seen):
            self._doubt = self.reason or "late-output"  # it came after what was said to be the end
        elif any(one.omitted for one in seen):
            self._doubt = "undecided-omitted"
        else:
            self._doubt = upstream
        if self._inline is not None and self.capture not in _NOWHERE:
            shown = self._preview_fact()
            if shown is None or shown.state is PreviewState.HEAD_TAIL:
                self.to_files()
        if self._inline is None and self.capture not in _NOWHERE:
            self._receipt = self._store.close(self._final, self._settle_seconds)
            self._published = self._receipt is not None
        if self._receipt is None:
            self._receipt = self._statement(final=False)

    def _final(self, _files: Files) -> Receipt:
        return self._statement(final=True)

    # -- what others see -----------------------------------------------------------------------

    def accounting(self, stream: int) -> Accounting:
        """The stream's counts, all of one moment."""
        return self._accounts.of(stream)

    def receipt(self) -> Receipt:
        """The published receipt; before that, how things stand: running, pending."""
        return self._receipt or self._statement(final=False)

    def preview(self, notes: Sequence[str] = ()) -> Preview:
        """What to show at once, from the transformed bytes, whatever became of the files."""
        state, reason = self._state()
        if state not in (CaptureState.PENDING, CaptureState.COMPLETE):
            notes = (f"capture {state}" + (f": {reason}" if reason else ""), *notes)
        return self._shown(notes)

    def showed(self, fact: PreviewFact | None) -> None:
        """Say, before `finish`, what the host shows in the place of `preview()`.

        The receipt states that, and files are needed where it is not all. None: nobody knows.
        """
        self._showed = (fact,)

    def promote(self, job_id: str) -> tuple[int, ...]:
        """Make a job of a call in the foreground; how much of each stream was observed by then.

        The capture goes on as it is, and has its files from now on. Raises UsageError when it
        is over.
        """
        with self._lock:
            if self._finishing:
                raise UsageError("a capture that is over becomes no job")
            self._promoted_at = self._accounts.observed()
            self.identity = attrs.evolve(self.identity, job_id=job_id)
        if self.capture is CaptureState.PENDING:
            self.to_files()
            self._store.describe_anew(self._settle_seconds)
        return self._promoted_at

    def claim(self) -> bool:
        """Whether the one automatic completion is the caller's to tell; True once, ever.

        Raises StorageError when the marker cannot be stored.
        """
        with self._lock:
            if not self._finished.is_set() or self._claimed:
                return False
            self._claimed = True
        if not self._published or self._location is None:
            return True
        return live.claim(self._location, self.identity.capture_id)

    # -- how things stand ----------------------------------------------------------------------

    def _state(self) -> tuple[CaptureState, str | None]:
        with self._lock:
            state, reason, finishing = self.capture, self.reason, self._finishing
        if state is CaptureState.PENDING and finishing:
            # Nothing stopped the keeping. It may be that not everything came to be kept.
            whole = self._doubt is None
            return CaptureState.COMPLETE if whole else CaptureState.PARTIAL, self._doubt
        kept = self._inline is not None or any(
            self.accounting(n).committed for n in range(len(self.streams))
        )
        if state is CaptureState.PARTIAL and finishing and not kept:
            return CaptureState.FAILED, reason
        return state, reason

    def _preview_fact(self) -> PreviewFact | None:
        if self._showed is not None:
            return self._showed[0]
        return self._shown().fact if self._transforms else None

    def _shown(self, notes: Sequence[str] = ()) -> Preview:
        return preview.make(
            list(zip(self.streams, self._ends, strict=True)),
            status=self._outcome.words(),
            notes=notes,
            failed=self._outcome.failed,
            budget=self._budget,
        )

    def _statement(self, *, final: bool) -> Receipt:
        state, reason = self._state()
        files = self._store.files
        inline = self._inline is not None and state not in _NOWHERE
        return Receipt(
            **attrs.asdict(self.identity),
            **self._outcome.plain(),
            capture=state,
            capture_reason=reason,
            representation=self.representation,
            preview=self._preview_fact(),
            streams=tuple(
                statement.of_stream(n, name, self.accounting(n), files, final=final, inline=inline)
                for n, name in enumerate(self.streams)
            ),
            reference_state=statement.reach(files, inline=inline),
            command_label=self.label,
            redactors=tuple(one.name for one in self._redactors),
            promoted_at=self._promoted_at,
            created_at_ms=self._created_at_ms,
            finished_at_ms=_now_ms() if self._finishing else None,
        )

    def _make_files(self) -> Files:
        if self._location is None:
            raise UsageError("a spool without a place has no files")
        text = self.representation is not Representation.BINARY
        return Files(self._location, self.identity.capture_id, self.streams, text=text)

    def _record(self) -> dict[str, Any]:
        """What is said of a capture while it runs."""
        return {
            **attrs.asdict(self.identity),
            "command_label": self.label,
            "created_at_ms": self._created_at_ms,
            "pid": os.getpid(),
            "redactors": [one.name for one in self._redactors],
            "representation": self.representation.value,
            "streams": list(self.streams),
            "version": VERSION,
        }

    def _transform(self) -> Transform:
        return transform(self.representation, self._redactors)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
