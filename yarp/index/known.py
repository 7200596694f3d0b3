"""A source as the last sync left it, and how much of that still holds."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from attrs import asdict, define

if TYPE_CHECKING:
    from sqlite3 import Connection

    from yarp.index.frame import TraceFile
    from yarp.index.witness import Witnesses

_COLUMNS = (
    *("id", "runtime", "path", "file_size", "modified_ns", "inode", "indexed_bytes"),
    *("indexed_lines", "tail_hash", "malformed_records", "oversized_records", "status"),
)


@define
class Known:
    """The row of a source; `file_size` and `modified_ns` are of the file as it was read."""

    id: int
    runtime: str
    path: str
    file_size: int
    modified_ns: int
    inode: int
    indexed_bytes: int
    indexed_lines: int
    tail_hash: bytes
    malformed: int
    oversized: int
    status: str


def load(sql: Connection) -> dict[str, Known]:
    """All sources by their paths."""
    rows = sql.execute(f"SELECT {', '.join(_COLUMNS)} FROM trace_sources")  # noqa: S608 - names of ours
    return {row[2]: Known(*row) for row in rows}


def same_head(sql: Connection, file: TraceFile, source: Known) -> bool:
    """Whether the file begins with the first record of the source."""
    row = sql.execute(
        "SELECT raw_hash, byte_length FROM trace_records WHERE source_id = ? AND seq = 0",
        (source.id,),
    ).fetchone()
    if row is None:
        return False
    if file.compressed:
        head = next(file.frames(row[1], parse=False), None)
        file.compared_bytes += 0 if head is None else head.length + 1
        return head is not None and head.sha256 == row[0]
    data = file.pread(row[1] + 1, 0)
    file.compared_bytes += len(data)
    return data[-1:] == b"\n" and hashlib.sha256(data[:-1]).digest() == row[0]


def head(sql: Connection, source: Known) -> bytes:
    """The digest of the source's first record; empty if it has none."""
    row = sql.execute(
        "SELECT raw_hash FROM trace_records WHERE source_id = ? AND seq = 0", (source.id,)
    ).fetchone()
    return b"" if row is None else bytes(row[0])


def begins(sql: Connection, file: TraceFile, source: Known, record_bytes: int) -> bool:
    """Whether the file begins with every record of the source, as it was indexed."""
    known = sql.execute(
        "SELECT raw_hash FROM trace_records WHERE source_id = ? ORDER BY seq", (source.id,)
    )
    for frame in file.frames(record_bytes, parse=False):
        row = known.fetchone()
        if row is None:
            return True
        file.compared_bytes += frame.length + 1
        if row[0] != frame.sha256:
            return False
    return known.fetchone() is None


def whole(sql: Connection, file: TraceFile, source: Known, record_bytes: int) -> bool:
    """As `begins`; what came since is an append, which a compressed file has none of."""
    if not begins(sql, file, source, record_bytes):
        return False
    return not file.compressed or file.end == source.indexed_bytes


def touch(sql: Connection, file: TraceFile, source: Known) -> None:
    """Note that the file is another, or was written anew, and holds the same."""
    found = file.stat
    source.file_size, source.modified_ns = found.st_size, found.st_mtime_ns
    sql.execute(
        "UPDATE trace_sources SET file_size = ?, modified_ns = ?, inode = ? WHERE id = ?",
        (found.st_size, found.st_mtime_ns, found.st_ino, source.id),
    )


def left(
    file: TraceFile, runtime: str, source_id: int, witnesses: Witnesses, before: Known | None
) -> Known:
    """The source as this reading leaves it, which went on from `before` or began anew."""
    found = file.stat
    return Known(
        source_id,
        runtime,
        file.path,
        found.st_size,
        found.st_mtime_ns,
        found.st_ino,
        file.end,
        witnesses.first_seq + len(witnesses),
        file.tail_hash(file.end),
        witnesses.malformed + (before.malformed if before else 0),
        witnesses.oversized + (before.oversized if before else 0),
        "partial" if file.tail else "complete",
    )


def store(sql: Connection, source: Known, reader_version: int, state: bytes) -> None:
    """Write the source, and the state from which its projector goes on."""
    values = list(asdict(source).values())
    sql.execute(
        f"UPDATE trace_sources SET {', '.join(f'{name} = ?' for name in _COLUMNS)}, "  # noqa: S608 - names of ours
        "updated_at = ? WHERE id = ?",
        (*values, time.time_ns() // 1_000_000, source.id),
    )
    sql.execute(
        "REPLACE INTO projector_states VALUES (?, ?, ?)", (source.id, reader_version, state)
    )
