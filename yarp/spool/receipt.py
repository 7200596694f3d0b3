"""What a capture kept, said honestly: four independent states, counts, references.

A count that is unknown is None, never 0. Source: seed 004, "Representation, identity and inline
receipt"; spec "Receipts".
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from yarp import canonical
from yarp.errors import DataError

VERSION = 1
_PLAIN = {"int": int, "str": str}


class ProcessState(enum.StrEnum):
    """How the process stands; its code or signal is a fact of its own."""

    RUNNING = "running"
    EXITED = "exited"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


class CaptureState(enum.StrEnum):
    """How much of the output was kept.

    `complete` means that both streams ended and all of their representation was stored.
    `partial`: a known beginning is kept. `failed`: nothing that can be relied on is. `disabled`:
    nobody wanted it kept. `unavailable`: there was no place, or no way to make it safe.
    """

    PENDING = "pending"
    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    DISABLED = "disabled"
    UNAVAILABLE = "unavailable"


class Representation(enum.StrEnum):
    """What the retained bytes are of what the process wrote."""

    REDACTED_TEXT = "redacted_text"
    REPLACEMENT_TEXT = "replacement_text"
    BINARY = "binary"


class PreviewState(enum.StrEnum):
    """Whether the preview shows all that there was."""

    COMPLETE = "complete"
    HEAD_TAIL = "head_tail"


class ReferenceState(enum.StrEnum):
    """Whether who reads the receipt can reach the files it names.

    `inline`: there are none, and the preview is all of it.
    """

    INLINE = "inline"
    LOCAL = "local"
    NEEDS_TRANSFER = "needs_transfer"
    UNAVAILABLE = "unavailable"


@attrs.frozen
class Identity:
    """Whose output it is: call and job where they are known, and always a capture of its own."""

    capture_id: str
    agent: str | None = None
    source_session_id: str | None = None
    source_call_id: str | None = None
    job_id: str | None = None


@attrs.frozen
class Accounting:
    """One stream, counted at one moment.

    Raw bytes: `observed` = `accepted` + `pending` + `discarded`, always. `accepted` was given to
    the transformation, `pending` still will be, `discarded` never. Bytes of the representation:
    `committed` can be read, `uncommitted` is not, or never, written. `undecided`: what redactors
    hold back now; `omitted`: what they could not decide about and left out.
    """

    observed: int = 0
    accepted: int = 0
    pending: int = 0
    discarded: int = 0
    committed: int = 0
    uncommitted: int = 0
    undecided: int = 0
    omitted: int = 0
    ended: bool = False


@attrs.frozen
class StreamReceipt:
    """One stream of a finished capture; counts as in `Accounting`.

    What is kept is the representation from `retained_start` to `retained_end`. `line_count`: its
    line ends, and one more for a last line without one; None for binary bytes. `reference` is
    relative to the conversation, None where nothing was kept. `sha256` is of the kept bytes.
    """

    name: str
    observed: int | None = None
    accepted: int | None = None
    pending: int | None = None
    discarded: int | None = None
    committed: int | None = None
    uncommitted: int | None = None
    omitted: int | None = None
    retained_start: int | None = None
    retained_end: int | None = None
    line_count: int | None = None
    reference: str | None = None
    sha256: str | None = None


@attrs.frozen
class PreviewFact:
    """What was shown at once: all or head and tail, and how many bytes of UTF-8."""

    state: PreviewState
    byte_length: int


@attrs.frozen
class Receipt:
    """What a capture kept, published once and never changed.

    The four states say nothing about one another. `process` None: nobody saw how it ended; and
    `preview` None: nothing was shown. `process_reason` says why it was cancelled or
    timed out, `capture_reason` why not all was kept. `redactors` are the names of those that
    were applied, in order. `promoted_at`: how many bytes of each stream had been observed when
    a call in the foreground became a job. Times are Unix milliseconds.
    """

    capture_id: str
    process: ProcessState | None
    capture: CaptureState
    representation: Representation
    preview: PreviewFact | None = None
    streams: tuple[StreamReceipt, ...] = ()
    reference_state: ReferenceState = ReferenceState.UNAVAILABLE
    agent: str | None = None
    source_session_id: str | None = None
    source_call_id: str | None = None
    job_id: str | None = None
    command_label: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    process_reason: str | None = None
    capture_reason: str | None = None
    redactors: tuple[str, ...] = ()
    promoted_at: tuple[int, ...] | None = None
    created_at_ms: int | None = None
    finished_at_ms: int | None = None
    version: int = VERSION

    def stream(self, name: str) -> StreamReceipt | None:
        """The stream of that name; None: there is none."""
        return next((one for one in self.streams if one.name == name), None)

    def elsewhere(self, state: ReferenceState = ReferenceState.NEEDS_TRANSFER) -> Receipt:
        """The receipt for somebody who cannot reach the files: what is known, and no path."""
        streams = tuple(attrs.evolve(stream, reference=None) for stream in self.streams)
        return attrs.evolve(self, streams=streams, reference_state=state)

    def plain(self) -> dict[str, Any]:
        """The receipt as a JSON object."""
        value: dict[str, Any] = attrs.asdict(self, value_serializer=_plain)
        return value

    def encode(self) -> bytes:
        """The bytes of a receipt file: RFC 8785 and a line end."""
        return canonical.encode(self.plain()) + b"\n"


MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What a file that somebody else has written may raise while it is read."""
_MOST = 2**53 - 1
"""More than that RFC 8785 has no digits for."""


def _plain(_owner: object, _field: object, value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def decode(data: bytes, where: str) -> Receipt:
    """The receipt in the bytes of a file; DataError for what is none, naming `where`."""
    try:
        value = canonical.parse(data.decode())
        return of_plain(value)
    except MALFORMED as error:
        raise DataError(f"{where} is no receipt of this version") from error


def require_version(value: Any) -> None:
    """ValueError for a JSON object of another version."""
    if value["version"] != VERSION:
        raise ValueError("another version")


def of_plain(value: Any) -> Receipt:
    """The receipt that a JSON object says; members of later versions are left out."""
    require_version(value)
    fields = _typed(Receipt, value)
    if fields["process"] is not None:
        fields["process"] = ProcessState(fields["process"])
    fields["capture"] = CaptureState(fields["capture"])
    fields["representation"] = Representation(fields["representation"])
    fields["reference_state"] = ReferenceState(fields["reference_state"])
    if fields.get("preview") is not None:
        preview = _typed(PreviewFact, fields["preview"])
        fields["preview"] = PreviewFact(PreviewState(preview["state"]), preview["byte_length"])
    fields["streams"] = tuple(
        StreamReceipt(**_typed(StreamReceipt, stream)) for stream in _each(dict, value["streams"])
    )
    fields["redactors"] = _each(str, fields.get("redactors") or ())
    if fields.get("promoted_at") is not None:
        fields["promoted_at"] = _each(int, fields["promoted_at"])
    return Receipt(**fields)


def _typed(kind: type, value: Any) -> dict[str, Any]:
    """The members of a JSON object that `kind` has; TypeError where one is of another type."""
    found = {}
    for field in attrs.fields(kind):
        if field.name not in value:
            continue
        given = found[field.name] = value[field.name]
        said, _, optional = str(field.type).partition(" | ")
        wanted = _PLAIN.get(said)
        if wanted is not None and type(given) is not wanted and (given is not None or not optional):
            raise TypeError(f"{field.name} is a {type(given).__name__}")
        if isinstance(given, int) and abs(given) > _MOST:
            raise ValueError(f"{field.name} is out of range")
        if isinstance(given, str):
            given.encode()  # a lone surrogate is no text
    return found


def _each(kind: type, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or any(type(value) is not kind for value in values):
        raise TypeError("no list, or an item is of another type")
    for value in values:
        if isinstance(value, int) and abs(value) > _MOST:
            raise ValueError("a number is out of range")
        if isinstance(value, str):
            value.encode()
    return tuple(values)


def of_record(record: Any) -> dict[str, Any]:
    """What the record of a running capture says, by the names that a receipt has for it.

    Raises one of `MALFORMED` for what is none of this version.
    """
    require_version(record)
    said = ("command_label", "created_at_ms", *(field.name for field in attrs.fields(Identity)))
    fields = _typed(Receipt, {name: record[name] for name in said if name in record})
    return {
        **fields,
        "representation": Representation(record["representation"]),
        "redactors": _each(str, record.get("redactors") or ()),
    }
