"""What has become of an item in a run: read, touched, or rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import define, field

from yarp.dataset.reading import importer_fault
from yarp.dataset.rows import ImporterFault
from yarp.sources.facts import Issue

if TYPE_CHECKING:
    from collections.abc import Collection

    from yarp.dataset.reading import Reading
    from yarp.dataset.rows import ItemRows
    from yarp.dataset.run import Known
    from yarp.sources.jsonl import Stat


@define(slots=True)
class Outcome:
    """What has become of an item: the values of its row in source_items, and what it said.

    `rows` is None where only the checkpoint moves: the file was touched, or is rejected.
    `known`: it has a row already. `claims`: calls that shall be taken from this item.
    """

    source_item_key: str
    source_root_key: str
    relative_path: str
    adapter_version: int
    stat: Stat | None
    status: Literal["complete", "deferred", "rejected"]
    imported_byte_count: int | None = None
    prefix_sha256: bytes | None = None
    fingerprint: bytes | None = None
    surroundings: bytes = b""
    known: bool = False
    rows: ItemRows | None = None
    issues: list[Issue] = field(factory=list)
    claims: Collection[str] = ()

    def filled(self, reading: Reading, rows: ItemRows) -> Outcome:
        """What a reading has made of the item, with the rows of its facts."""
        self.stat, self.surroundings = reading.stat, reading.surroundings
        self.fingerprint = reading.fingerprint
        if reading.rejection is None:
            try:
                rows.finish(reading.malformed)
            except ImporterFault as fault:
                reading.reject(importer_fault(fault), lasting=True)
        if reading.rejection is not None:
            return rejected(self, reading.rejection, lasting=reading.lasting)
        self.status, self.rows, self.issues = reading.status, rows, reading.issues
        self.imported_byte_count = reading.imported_byte_count
        self.prefix_sha256 = reading.prefix_sha256
        return self

    def touched(self, known: Known, stat: Stat | None, fingerprint: bytes) -> Outcome:
        """The item is what it was, but for the state of its file."""
        self.stat, self.fingerprint = stat, fingerprint
        self.surroundings = known.surroundings or b""
        self.status = known.status
        self.imported_byte_count = known.imported_byte_count
        self.prefix_sha256 = known.prefix_sha256
        return self


def unusable(outcome: Outcome) -> Outcome:
    """The outcome of an item whose importer said what no row can hold."""
    issue = Issue("importer_fault", "its importer gave a value that no row can hold", "error")
    return rejected(outcome, issue, lasting=True)


def rejected(outcome: Outcome, issue: Issue, *, lasting: bool) -> Outcome:
    """The outcome of an item that cannot be read; `lasting`: not to be tried again as it is."""
    return Outcome(
        outcome.source_item_key,
        outcome.source_root_key,
        outcome.relative_path,
        outcome.adapter_version,
        outcome.stat,
        "rejected",
        fingerprint=outcome.fingerprint if lasting else None,
        surroundings=outcome.surroundings,
        known=outcome.known,
        issues=[issue],
    )
