"""Receipts of what the archive holds: of runs, and of calls whose commands ran below one.

A run that no host began says of itself what it captured; of a call that a host began, the
snapshots of its streams do. Both become what a spool publishes, with the call's archive reference
for a capture id and `yr_…/stdout` for the reference of a stream. Source: spec "Receipts"; seed
004, "Representation, identity and inline receipt".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from yarp.errors import ArchiveCorrupt
from yarp.recover.calls import command
from yarp.recover.select import is_tombstone
from yarp.spool.receipt import (
    CaptureState,
    PreviewFact,
    PreviewState,
    ProcessState,
    Receipt,
    ReferenceState,
    Representation,
    StreamReceipt,
)
from yarp.spool.statement import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.archive.read import CallRow, Reader, Source

_STREAMS = ("stdout", "stderr")
# A receipt is a few hundred bytes; a larger result is a host's own.
_RESULT_BYTES = 1 << 16
_TOMBSTONE_BYTES = 256


def receipts(reader: Reader, *, limit: int, damaged: list[str]) -> Iterator[Receipt]:
    """The receipts of at most `limit` calls, the newest first; calls without one are left out.

    The references of those whose payloads are damaged are put into `damaged`.
    """
    for row in reader.calls():
        if limit <= 0:
            return
        if row.agent != "yarp" and not row.requires_streams:
            continue
        try:
            found = receipt(reader, row)
        except ArchiveCorrupt:
            damaged.append(row.archive_ref)
            continue
        if found is not None:
            limit -= 1
            yield found


def receipt(reader: Reader, row: CallRow) -> Receipt | None:
    """The receipt of one call; None: nothing of it ran below `yarp run`.

    What is unknown is None. Raises ArchiveCorrupt for damaged bytes.
    """
    snapshots = reader.snapshots(row.call_id)
    own = row.agent == "yarp"
    before = {name: snapshots.get((name, "before")) for name in _STREAMS}
    kept = [source for source in before.values() if source is not None]
    if not own and not kept and not row.requires_streams:
        return None
    given = snapshots.get(("input", "before"))
    redacted = _is_redacted(reader, given)
    result = {} if redacted or not own else _result(reader, snapshots.get(("result", "before")))
    said: dict[str, Any] = result.get("receipt") or {}
    capture = said.get("capture") or _capture(kept, finished=row.status == "finished")
    process = said.get("process") or _process(row, capture)
    signal = said.get("signal")
    label = None if redacted else command(reader, row)
    return Receipt(
        row.archive_ref,
        process=None if process is None else ProcessState(process),
        capture=CaptureState(capture),
        representation=Representation.BINARY,
        preview=_preview(said, kept, [snapshots.get((name, "after")) for name in _STREAMS]),
        streams=tuple(
            _stream(row, name, None if redacted else before[name], _counts(said, name))
            for name in _STREAMS
        ),
        reference_state=(
            ReferenceState.LOCAL if kept and not redacted else ReferenceState.UNAVAILABLE
        ),
        agent=row.agent,
        source_session_id=row.source_session_id,
        source_call_id=row.source_call_id,
        command_label=None if label is None else label_of(label, ()),
        # A shell's 128 + N is no code of a process that a signal ended.
        exit_code=result.get("exitCode") if signal is None else None,
        signal=signal,
        # Streams without a result: who kept them outlived the run, and saw no end of it.
        capture_reason=said.get("captureReason") or ("interrupted" if process is None else None),
        created_at_ms=row.started_at_ms,
        finished_at_ms=row.finished_at_ms,
    )


def _is_redacted(reader: Reader, given: Source | None) -> bool:
    if given is None or given.byte_length > _TOMBSTONE_BYTES:
        return False
    return is_tombstone(reader.payload(given.sha256))


def _result(reader: Reader, found: Source | None) -> dict[str, Any]:
    if found is None or found.byte_length > _RESULT_BYTES:
        return {}
    try:
        value = json.loads(reader.payload(found.sha256))
    except ValueError as error:
        raise ArchiveCorrupt("the result of a run is no JSON") from error
    return value if isinstance(value, dict) else {}


def _counts(said: dict[str, Any], name: str) -> dict[str, int | None]:
    counts: dict[str, int | None] = (said.get("streams") or {}).get(name) or {}
    return counts


def _capture(kept: list[Source], *, finished: bool) -> str:
    if not kept:
        return "unavailable" if finished else "pending"
    return "complete" if {source.completeness for source in kept} == {"complete"} else "partial"


def _process(row: CallRow, capture: str) -> str | None:
    """How the process stands where no result tells; None: nobody saw its end."""
    if capture == "pending":
        return "running"
    return "exited" if row.status == "finished" or capture == "complete" else None


def _preview(
    said: dict[str, Any], kept: list[Source], shown: list[Source | None]
) -> PreviewFact | None:
    """What the caller was shown of both streams; None: that is not known."""
    counts = [_counts(said, name).get("shown") for name in _STREAMS]
    after = [source for source in shown if source is not None]
    if not said and len(after) == len(_STREAMS):
        counts = [source.byte_length for source in after]
    shortened = said.get("shortened")
    if shortened is None and len(after) == len(kept):
        shortened = [one.sha256 for one in kept] != [one.sha256 for one in after]
    if shortened is None or None in counts:
        return None
    state = PreviewState.HEAD_TAIL if shortened else PreviewState.COMPLETE
    return PreviewFact(state, sum(count for count in counts if count is not None))


def _stream(
    row: CallRow, name: str, kept: Source | None, counts: dict[str, int | None]
) -> StreamReceipt:
    """One stream: exact bytes are their own representation, so what is kept was accepted."""
    if kept is None:
        return StreamReceipt(name, observed=counts.get("observed"))
    length = kept.byte_length
    observed = counts.get("observed")
    if observed is None and kept.completeness == "complete":
        observed = length
    return StreamReceipt(
        name,
        observed=observed,
        accepted=length,
        pending=0,
        discarded=None if observed is None else observed - length,
        committed=length,
        uncommitted=0,
        omitted=0,
        retained_start=0,
        retained_end=length,
        reference=f"{row.archive_ref}/{name}",
        sha256=kept.sha256.hex(),
    )
