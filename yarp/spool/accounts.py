"""Where every byte of a stream is, at every moment: observed = accepted + pending + discarded.

Raw bytes are counted apart from what the transformation makes of them, which is longer or shorter.
Source: seed 004, "Small implementation sequence", slice 2.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from yarp.spool.receipt import Accounting

if TYPE_CHECKING:
    from yarp.spool.represent import Transform


class _Account:
    """One stream; `closed`: it takes nothing more."""

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


class Accounts:
    """The accounts of all streams of a capture, under one lock."""

    def __init__(self, streams: int) -> None:
        self._lock = threading.Lock()
        self._accounts = [_Account() for _ in range(streams)]

    def observe(self, stream: int, size: int) -> bool:
        """Raw bytes have come; False: the stream is closed, and they are discarded."""
        with self._lock:
            account = self._accounts[stream]
            account.observed += size
            if account.closed:
                account.discarded += size
            else:
                account.pending += size
            return not account.closed

    def settle(
        self, stream: int, size: int, produced: int, way: Transform, *, accepted: bool
    ) -> bool:
        """Pending bytes went through `way`, which made so many of them.

        Not `accepted`: nothing is stored any more, and they went through for the preview alone.
        False: the stream was closed meanwhile, and they are discarded already.
        """
        with self._lock:
            account = self._accounts[stream]
            if account.closed:
                return False
            account.pending -= size
            if accepted:
                account.accepted += size
                account.produced += produced
            else:
                account.discarded += size
            account.undecided, account.omitted = way.undecided, way.omitted
            return True

    def discard(self, stream: int, size: int) -> None:
        """Pending bytes are not transformed at all."""
        with self._lock:
            account = self._accounts[stream]
            if not account.closed:
                account.pending -= size
                account.discarded += size

    def commit(self, stream: int, total: int) -> None:
        """So many bytes of the representation can be read by now."""
        with self._lock:
            self._accounts[stream].committed = total

    def close(self, stream: int, *, ended: bool) -> None:
        """Nothing more is taken of a stream; what is pending is discarded.

        `ended`: it had its real end.
        """
        with self._lock:
            account = self._accounts[stream]
            if account.closed:
                return
            account.closed, account.ended = True, ended
            account.discarded += account.pending
            account.omitted += account.undecided
            account.pending = account.undecided = 0

    def is_closed(self, stream: int) -> bool:
        """Whether nothing more is taken of a stream."""
        return self._accounts[stream].closed

    def observed(self) -> tuple[int, ...]:
        """The raw bytes of each stream so far, of one moment."""
        with self._lock:
            return tuple(account.observed for account in self._accounts)

    def of(self, stream: int) -> Accounting:
        """One stream's counts, all of one moment."""
        with self._lock:
            account = self._accounts[stream]
            return Accounting(
                observed=account.observed,
                accepted=account.accepted,
                pending=account.pending,
                discarded=account.discarded,
                committed=account.committed,
                uncommitted=account.produced - account.committed,
                undecided=account.undecided,
                omitted=account.omitted,
                ended=account.ended,
            )
