"""Brings the index in line with the trace files below some roots.

An unchanged file is not opened. One that grew is read from where it ended, after its beginning
and its last 64 KiB were found as they were, and its projector goes on from the state it was
left in; any other change has it read anew, under the same ids. A source is published whole or
not at all, and one that fails takes no other down. What vanished keeps its facts: a deletion
proves nothing. Source: spec "Trace index", 9.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from yarp.errors import YarpError
from yarp.index import known
from yarp.index.discover import detect, find, name_of, vanished
from yarp.index.frame import TraceFile
from yarp.index.publish import Publisher, Unconfirmed
from yarp.index.report import Report
from yarp.index.store import Store, failure
from yarp.index.witness import Witnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from yarp.index.frame import Frame
    from yarp.index.known import Known
    from yarp.index.reader import TraceReader

# Few commits when there is much to do, none that keeps the index locked for long.
_GROUP_BYTES = 16 << 20
_GROUP_S = 1.0
_BATCH_LINES = 512
_BATCH_BYTES = 4 << 20


@frozen
class Options:
    """How to sync: `rebuild` reads all anew, `verify` compares all that was indexed before.

    The limits are of records and texts; `usual_limits` are for a new database.
    """

    rebuild: bool = False
    verify: bool = False
    max_record_bytes: int | None = None
    max_text_bytes: int | None = None
    usual_limits: tuple[int | None, int | None] = (None, None)
    busy_ms: int = 30_000


def sync(
    database: str,
    roots: Sequence[str],
    readers: Mapping[str, TraceReader],
    options: Options | None = None,
    *,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Sync the index at `database` with the files below `roots`; what was done, and to what.

    Raises StorageError for a database that cannot be written, UsageError for a policy that is
    not its own. The fault of a source is in the report.
    """
    report = Report(database=database, progress=progress)
    report.size_before = _database_bytes(database)
    options = options or Options()
    with Store(database, busy_ms=options.busy_ms) as store:
        try:
            _Sync(store, readers, options, report).run(roots)
        except sqlite3.Error as error:
            raise failure(error, database) from error
    report.size_after = _database_bytes(database)
    report.finish()
    return report


@define
class _Sync:
    store: Store
    readers: Mapping[str, TraceReader]
    options: Options
    report: Report
    sources: dict[str, Known] = field(factory=dict)
    skipped: dict[str, tuple[int, int, str, str]] = field(factory=dict)
    vanished: dict[bytes, list[Known]] | None = None
    record_bytes: int = 0

    def run(self, roots: Sequence[str]) -> None:
        store, report = self.store, self.report
        report.written = store.written
        with report.phase("discover"):
            paths, report.problems = find(roots)
        with report.phase("prepare"):
            asked = (self.options.max_record_bytes, self.options.max_text_bytes)
            policy = store.policy(asked, self.options.usual_limits)
            self.record_bytes = policy[0]
            report.policy = policy
            self._load()
            cold = store.empty
            changed = self._changed(paths)
            if cold and changed:
                store.drop_indexes()
        group = _Group(self)
        for path, found in changed:
            group.add(found.st_size)
            self._one(path, found)
        group.commit()
        with report.phase("build_indexes"):
            if cold:
                store.build_indexes()
            if self.options.rebuild:
                store.begin()
                report.orphans = store.collect_orphans()
                store.commit()

    def _load(self) -> None:
        sql = self.store.sql.execute
        self.sources = known.load(self.store.sql)
        for path, *rest in sql("SELECT * FROM skipped_files"):
            self.skipped[path] = tuple(rest)

    def _changed(self, paths: list[str]) -> list[tuple[str, os.stat_result]]:
        """The files to look into; the others are counted."""
        report = self.report
        changed = []
        everything = self.options.rebuild or self.options.verify
        stamp = self._readers_stamp()
        for path in paths:
            try:
                path.encode()
            except UnicodeEncodeError:
                said = "its path is not UTF-8, so no locator can tell it: rename it"
                report.done(path, None, "failed", error=said)
                continue
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue  # since it was found; as if it had been before
            except OSError as error:
                report.done(path, None, "failed", error=error.strerror or str(error))
                continue
            report.discovered += 1
            report.source_bytes += found.st_size
            size = (found.st_size, found.st_mtime_ns)
            source = self.sources.get(path)
            skipped = self.skipped.get(path)
            if skipped is not None and skipped[:3] == (*size, stamp) and not everything:
                report.done(path, None, "skipped", error=skipped[3], file_size=found.st_size)
            elif (
                source is not None
                and not everything
                and (source.file_size, source.modified_ns) == size
            ):
                self._unchanged(source)
            else:
                changed.append((path, found))
        report.total = len(changed)
        return changed

    def _unchanged(self, source: Known) -> None:
        self.report.done(
            source.path,
            source.runtime,
            "unchanged",
            file_size=source.file_size,
            malformed=source.malformed,
            oversized=source.oversized,
            tail=source.status == "partial",
        )

    def _readers_stamp(self) -> str:
        return ",".join(f"{name}:{one.version}" for name, one in sorted(self.readers.items()))

    def _one(self, path: str, found: os.stat_result) -> None:
        """One source, whole or not at all."""
        store, report = self.store, self.report
        report.current = path
        store.savepoint()
        try:
            try:
                file = TraceFile(path)
            except FileNotFoundError:
                store.roll_back()
                report.vanished(found.st_size)
                return
            with file:
                self._publish(file)
                if path in self.skipped:
                    store.sql.execute("DELETE FROM skipped_files WHERE path = ?", (path,))
        except Unconfirmed as reason:
            store.roll_back()
            store.sql.execute(
                "REPLACE INTO skipped_files VALUES (?, ?, ?, ?, ?)",
                (path, found.st_size, found.st_mtime_ns, self._readers_stamp(), str(reason)),
            )
            report.done(path, None, "skipped", error=str(reason), file_size=found.st_size)
        except sqlite3.OperationalError:
            raise  # the disk is full, or the database is damaged: no source will do better
        except Exception as error:  # noqa: BLE001 - whatever a reader raises is its source's fault
            store.roll_back()
            what = f"its reader raised {type(error).__name__}"
            if isinstance(error, YarpError):
                what = str(error)
            elif isinstance(error, OSError):
                what = error.strerror or str(error)
            source = self.sources.get(path)
            runtime = None if source is None else source.runtime
            report.done(path, runtime, "failed", error=what, file_size=found.st_size)
        else:
            store.release()
        report.tick()

    def _publish(self, file: TraceFile) -> None:
        source = self.sources.get(file.path) or self._moved(file)
        if source is None:
            reader = detect(file, self.readers, self.record_bytes)
            return self._read(file, reader, None, "indexed")
        with self.report.phase("fingerprint"):
            reader, grown, same = self._compare(file, source)
        self.report.fingerprint_bytes += file.compared_bytes
        if same:
            known.touch(self.store.sql, file, source)
            self._unchanged(source)
            return None
        return self._read(file, reader, source, "appended" if grown else "rebuilt")

    def _moved(self, file: TraceFile) -> Known | None:
        """The source that this new file was, if it was moved, renamed or compressed since.

        It begins with all that one's records, and where that was is no file any more.
        """
        if self.vanished is None:
            self.vanished = {}
            for path in vanished(self.sources):
                source = self.sources[path]
                began = known.head(self.store.sql, source)
                self.vanished.setdefault(began, []).append(source)
        sql = self.store.sql
        head = None
        if self.vanished:
            head = next(file.frames(self.record_bytes, parse=False), None)
        candidates = [] if head is None else self.vanished.get(head.sha256, [])
        candidates.sort(key=lambda source: name_of(source.path) != name_of(file.path))
        for source in candidates:
            if self._stays(source, file.path) and known.begins(
                sql, file, source, self.record_bytes
            ):
                candidates.remove(source)
                del self.sources[source.path]
                sql.execute(
                    "UPDATE trace_sources SET path = ? WHERE id = ?", (file.path, source.id)
                )
                source.path = file.path
                self.sources[file.path] = source
                return source
        return None

    def _stays(self, source: Known, path: str) -> bool:
        """Whether it would be of the same session at this path, as far as places tell."""
        reader = self.readers.get(source.runtime)
        if reader is None or reader.identity is None:
            return True
        return reader.identity(source.path) == reader.identity(path)

    def _compare(self, file: TraceFile, source: Known) -> tuple[TraceReader, bool, bool]:
        """The reader of a known source; whether it only grew; whether it did not even that."""
        size = file.stat.st_size
        reader = self.readers.get(source.runtime)
        if self.options.rebuild or reader is None or file.compressed:
            same = (
                reader is not None
                and not self.options.rebuild
                and known.whole(self.store.sql, file, source, self.record_bytes)
            )
            if not same:
                reader = detect(file, self.readers, self.record_bytes)
            assert reader is not None  # noqa: S101 - the same only with a reader
            return reader, False, same
        if (
            size < source.indexed_bytes
            or file.stat.st_ino != source.inode
            or not known.same_head(self.store.sql, file, source)
            or file.tail_hash(source.indexed_bytes) != source.tail_hash
            # Of the same size and another time: something inside may be another.
            or (
                (self.options.verify or size == source.file_size)
                and not known.whole(self.store.sql, file, source, self.record_bytes)
            )
        ):
            return detect(file, self.readers, self.record_bytes), False, False
        grown = size > source.indexed_bytes and size != source.file_size
        return reader, grown, not grown

    def _read(
        self, file: TraceFile, reader: TraceReader, source: Known | None, action: str
    ) -> None:
        """Read a source, or what came to it, and publish what it says."""
        store, report = self.store, self.report
        state = None
        if action == "appended":
            state = self._state(source, reader)
            action = "appended" if state is not None else "rebuilt"
        appends = action == "appended"
        source_id = source.id if source is not None else store.new_id("source")
        start, seq = (source.indexed_bytes, source.indexed_lines) if appends and source else (0, 0)
        if source is None:
            # Records and items refer to it; what it is in the end is known at the end.
            store.sql.execute(
                "INSERT INTO trace_sources VALUES "
                "(?, ?, ?, 0, 0, 0, 0, 0, x'', 0, 0, 'partial', 0)",
                (source_id, reader.runtime, file.path),
            )
        witnesses = Witnesses(store, source_id, seq)
        publisher = Publisher(store, source_id, reader, witnesses, appends=appends)
        if source is not None and not appends:
            with report.phase("clear"):
                publisher.clear()
                witnesses.clear()
        projector = reader.project(file.path, state)
        batches = _batches(file.frames(self.record_bytes, start=start, seq=seq))
        while True:
            with report.phase("read"):
                batch = next(batches, None)
                if batch is None:
                    break
                lines = []
                for frame in batch:
                    line = frame.line
                    if line is not None:
                        lines.append(line)
                    witnesses.add(frame, None if line is None else reader.occurred_at(line.value))
            with report.phase("project"):
                publisher.take(projector.feed(lines))
            report.processed_bytes += sum(frame.length + 1 for frame in batch)
            report.records += len(batch)
            report.tick()
        with report.phase("persist"):
            publisher.finish()
            before = source if appends else None
            now = known.left(file, reader.runtime, source_id, witnesses, before)
            known.store(store.sql, now, reader.version, projector.state())
        if file.changed():
            raise OSError(0, "changed while it was read; sync again")
        report.items += publisher.items.said
        report.loops += publisher.loops.said
        report.done(
            file.path,
            reader.runtime,
            action,
            records=len(witnesses),
            items=publisher.items.said,
            indexed_bytes=file.end - start,
            file_size=file.stat.st_size,
            malformed=now.malformed,
            oversized=now.oversized,
            tail=file.tail,
        )

    def _state(self, source: Known | None, reader: TraceReader) -> bytes | None:
        """The state in which the source's projector was left, if this reader can go on from it."""
        row = self.store.sql.execute(
            "SELECT reader_version, state FROM projector_states WHERE source_id = ?",
            (source and source.id,),
        ).fetchone()
        return row[1] if row is not None and row[0] == reader.version else None


class _Group:
    """Commits several sources at a time, and none of them late."""

    def __init__(self, owner: _Sync) -> None:
        self._owner = owner
        self._bytes = 0
        self._since = 0.0
        self._open = False

    def add(self, size: int) -> None:
        """One more source, of that many bytes, comes next."""
        if self._open and (
            self._bytes >= _GROUP_BYTES or time.monotonic() - self._since >= _GROUP_S
        ):
            self.commit()
        if not self._open:
            self._owner.store.begin()
            self._open, self._bytes, self._since = True, 0, time.monotonic()
        self._bytes += size

    def commit(self) -> None:
        """Publish the sources of the group."""
        if self._open:
            with self._owner.report.phase("commit"):
                self._owner.store.commit()
            self._open = False


def _batches(frames: Iterator[Frame]) -> Iterator[list[Frame]]:
    batch: list[Frame] = []
    held = 0
    for frame in frames:
        batch.append(frame)
        held += frame.length
        if len(batch) >= _BATCH_LINES or held >= _BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _database_bytes(path: str) -> int:
    total = 0
    for suffix in ("", "-wal"):
        try:
            total += os.stat(path + suffix).st_size
        except OSError:
            continue
    return total
