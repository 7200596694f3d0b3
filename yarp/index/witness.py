"""The records of a source, by the lines that facts name as their witnesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yarp.errors import DataError

if TYPE_CHECKING:
    from yarp.index.frame import Frame
    from yarp.index.store import Store


_MOST_WAITING = 5_000


class Witnesses:
    """Takes the records of one pass over a source, and knows those of all passes before.

    `first_seq` is where this pass begins: its records are kept in memory, others looked up.
    """

    def __init__(self, store: Store, source_id: int, first_seq: int) -> None:
        self._store = store
        self._source = source_id
        self.first_seq = first_seq
        self._ids: list[int] = []
        self._times: list[int | None] = []
        self._new: list[tuple[Any, ...]] = []
        self._before: dict[int, tuple[int, int, bytes]] = {}
        self.malformed = self.oversized = 0

    def __len__(self) -> int:
        return len(self._ids)

    def clear(self) -> None:
        """Take out all records, to be read anew; one that did not change keeps its id."""
        source = (self._source,)
        self._before = {
            seq: (offset, record_id, digest)
            for seq, offset, record_id, digest in self._store.sql.execute(
                "SELECT seq, byte_offset, id, raw_hash FROM trace_records WHERE source_id = ?",
                source,
            )
        }
        self._store.sql.execute("DELETE FROM trace_records WHERE source_id = ?", source)

    def add(self, frame: Frame, occurred_at: int | None) -> None:
        """The next record."""
        before = self._before.get(frame.seq)
        if before is not None and before[0] == frame.offset and before[2] == frame.sha256:
            record_id = before[1]
        else:
            record_id = self._store.new_id("record")
        if frame.status == "malformed":
            self.malformed += 1
        elif frame.status == "oversized":
            self.oversized += 1
        self._ids.append(record_id)
        self._times.append(occurred_at)
        self._new.append(
            (
                record_id,
                self._source,
                frame.seq,
                frame.offset,
                frame.length,
                frame.sha256,
                occurred_at,
                frame.status,
                frame.error,
            )
        )
        if len(self._new) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write the records that wait."""
        if self._new:
            with self._store.written.on("trace_records"):
                self._store.sql.executemany(
                    "INSERT INTO trace_records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", self._new
                )
            self._new.clear()

    def id(self, line: int) -> int:
        """The record of a line, counted from 1."""
        at = line - 1 - self.first_seq
        if 0 <= at < len(self._ids):
            return self._ids[at]
        return int(self._row(line)[0])

    def time(self, line: int) -> int | None:
        """When the record of a line happened, as far as it tells."""
        at = line - 1 - self.first_seq
        if 0 <= at < len(self._times):
            return self._times[at]
        found: int | None = self._row(line)[1]
        return found

    def _row(self, line: int) -> Any:
        row = self._store.sql.execute(
            "SELECT id, occurred_at FROM trace_records WHERE source_id = ? AND seq = ?",
            (self._source, line - 1),
        ).fetchone()
        if row is None or line - 1 >= self.first_seq:
            raise DataError(f"a fact names line {line}, which was not read yet")
        return row
