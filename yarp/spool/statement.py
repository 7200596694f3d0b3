"""What a spool says of its process and of each stream, in the words of a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from yarp.spool.credentials import CREDENTIALS
from yarp.spool.preview import safe
from yarp.spool.receipt import (
    Accounting,
    ProcessState,
    ReferenceState,
    Representation,
    StreamReceipt,
)
from yarp.spool.represent import transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarp.spool.declared import Redactor
    from yarp.spool.files import Files

LABEL_CHARACTERS = 120
_WORDS = {
    ProcessState.RUNNING: "still running",
    ProcessState.CANCELLED: "cancelled",
    ProcessState.TIMEOUT: "timed out",
}


@attrs.frozen
class Outcome:
    """How the process stands, by what was observed of it; an unknown code is None.

    `process` None: there was none, or nobody saw it.
    """

    process: ProcessState | None
    exit_code: int | None = None
    signal: int | None = None
    process_reason: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than well."""
        return self.process is not ProcessState.RUNNING and (
            self.process is not ProcessState.EXITED
            or self.signal is not None
            or self.exit_code != 0
        )

    def plain(self) -> dict[str, Any]:
        """The facts by the names that a receipt has for them."""
        return attrs.asdict(self)

    def words(self) -> str:
        """The line that stands outside of every clipped text."""
        said = [_WORDS[self.process]] if self.process and self.process in _WORDS else []
        if self.process_reason:
            said.append(self.process_reason)
        if self.signal is not None:
            said.append(f"killed by signal {self.signal}")
        elif self.exit_code is not None:
            said.append(f"exit code {self.exit_code}")
        return ", ".join(said) or ("" if self.process is None else "exited")


def reach(files: Files | None, *, inline: bool) -> ReferenceState:
    """How the kept bytes can be reached."""
    if inline:
        return ReferenceState.INLINE
    return ReferenceState.UNAVAILABLE if files is None else ReferenceState.LOCAL


def of_stream(
    stream: int,
    name: str,
    seen: Accounting,
    files: Files | None,
    *,
    final: bool,
    inline: bool,
) -> StreamReceipt:
    """One stream; what is `inline` is kept by whoever got the preview. Not `final`: it grows."""
    raw = StreamReceipt(name, seen.observed, seen.accepted, seen.pending, seen.discarded)
    if files is None and not inline:
        return raw
    kept = seen.committed if files is not None else seen.uncommitted
    return attrs.evolve(
        raw,
        committed=kept,
        uncommitted=seen.committed + seen.uncommitted - kept,
        omitted=seen.omitted,
        retained_start=0,
        retained_end=kept,
        line_count=files.line_count(stream) if files else None,
        reference=files.reference(stream, final=final) if files else None,
        sha256=files.sha256(stream) if files and final else None,
    )


def label_of(command: str, redactors: Sequence[Redactor]) -> str:
    """One bounded line of a command, redacted like the output at least."""
    way = transform(Representation.REDACTED_TEXT, redactors or (CREDENTIALS,))
    text = way.feed(command.encode("utf-8", "replace")) + way.finish(ended=True)
    line = " ".join(safe(text).split())
    return line if len(line) <= LABEL_CHARACTERS else line[: LABEL_CHARACTERS - 1] + "…"
