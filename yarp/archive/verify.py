"""Every check of the archive: its file, its values, its snapshots, the bytes of its payloads.

Nothing is changed and nothing of a payload's content is ever told. Incomplete calls are
counted apart: an interrupted process must not look like corruption. Source: seed 000,
"Validation"; reference 2.4.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import attrs

from yarp import payload, sqlite
from yarp.archive import migrate
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, DataError, StorageError, YarpError

if TYPE_CHECKING:
    from collections.abc import Callable

_Found = TypeVar("_Found")

SHOWN_PROBLEMS = 100  # of one kind: a wholly damaged archive must not fill the screen

# What a reference must look like; one that does not is never printed.
_WELL_FORMED = """length(archive_ref) = 35 AND substr(archive_ref, 1, 3) = 'yr_'
    AND substr(archive_ref, 4) NOT GLOB '*[^0-9a-f]*'"""
_LACKS = """NOT EXISTS (SELECT 1 FROM snapshots
    WHERE tool_call_id = tool_calls.id AND subject = '{}' AND stage = '{}')"""
_EXECUTED = "status = 'finished' AND executed = 1"

# (what is wrong with a call, the calls it is wrong with)
_CALLS = (
    (
        "a reference that is not yr_ and 32 hexadecimal digits",
        f"archive_ref IS NULL OR NOT ({_WELL_FORMED})",
    ),
    (
        "a reference that another call has too",
        "archive_ref IN (SELECT archive_ref FROM tool_calls GROUP BY 1 HAVING count(*) > 1)",
    ),
    (
        "a source call id that another call of the session has too",
        """(session_id, source_call_id) IN (SELECT session_id, source_call_id FROM tool_calls
           GROUP BY 1, 2 HAVING count(*) > 1)""",
    ),
    ("no session", "NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = session_id)"),
    (
        "a status that is neither started nor finished",
        "coalesce(status, '') NOT IN ('started', 'finished')",
    ),
    ("requires_streams that is neither 0 nor 1", "coalesce(requires_streams, 2) NOT IN (0, 1)"),
    ("is_error that is neither 0 nor 1", "is_error NOT IN (0, 1)"),
    ("executed that is neither 0 nor 1", "executed NOT IN (0, 1)"),
    ("no start time", "typeof(started_at_ms) <> 'integer'"),
    (
        "status started and yet the values of a finished call",
        """status = 'started' AND (finished_at_ms IS NOT NULL
           OR (is_error IS NULL) <> (executed IS NULL) OR executed = 0)""",
    ),
    (
        "status finished without finish time, is_error or executed",
        """status = 'finished' AND (typeof(finished_at_ms) <> 'integer'
           OR is_error IS NULL OR executed IS NULL)""",
    ),
    ("no input/before", _LACKS.format("input", "before")),
    ("no input/after", _LACKS.format("input", "after")),
    (
        "status finished without result/after",
        f"status = 'finished' AND {_LACKS.format('result', 'after')}",
    ),
    (
        "status finished, executed, without result/before",
        f"{_EXECUTED} AND {_LACKS.format('result', 'before')}",
    ),
    *(
        (
            f"status finished, executed, without the required {subject}/{stage}",
            f"{_EXECUTED} AND requires_streams = 1 AND {_LACKS.format(subject, stage)}",
        )
        for subject in ("stdout", "stderr")
        for stage in ("before", "after")
    ),
)

# The same for snapshots.
_SNAPSHOTS = (
    (
        "an unknown subject",
        """coalesce(subject, '') NOT IN
           ('input', 'result', 'result_text', 'source_output', 'stdout', 'stderr')""",
    ),
    ("a stage that is neither before nor after", "coalesce(stage, '') NOT IN ('before', 'after')"),
    (
        "stage after where there is only before",
        "subject IN ('result_text', 'source_output') AND stage = 'after'",
    ),
    (
        "result text without a valid completeness",
        """subject = 'result_text'
           AND coalesce(source_completeness, '') NOT IN ('complete', 'incomplete', 'unknown')""",
    ),
    (
        "a completeness where only result text has one",
        "subject <> 'result_text' AND source_completeness IS NOT NULL",
    ),
    (
        "a media type its subject cannot have",
        f"""CASE WHEN subject IN ('input', 'result') THEN media_type IS NOT '{payload.JSON}'
            WHEN subject = 'result_text' THEN media_type IS NOT '{payload.TEXT}'
            ELSE coalesce(media_type, '') NOT IN ('{payload.TEXT}', '{payload.BINARY}') END""",
    ),
    (
        "no payload",
        "NOT EXISTS (SELECT 1 FROM payloads WHERE sha256 = snapshots.payload_sha256)",
    ),
)


@attrs.frozen
class Report:
    """What `verify` found.

    `problems` are sentences of one line; `incomplete_calls` is None when the archive is too
    damaged or too foreign to count them. `damaged`: SQLite itself finds the file damaged.
    """

    problems: tuple[str, ...]
    incomplete_calls: int | None
    damaged: bool = False


def verify(path: str, progress: Callable[[int, int], None] | None = None) -> Report:
    """Check the archive at `path` within bounded memory, reading one consistent state of it.

    `progress` is told the bytes of stored bodies checked so far, and all of them. Raises
    ArchiveUnavailable when there is no archive, StorageError when it cannot be read.
    """
    problems = _modes(path)
    try:
        connection = sqlite.connect(path, readonly=True)
    except DataError as error:
        return Report((*problems, _problem(error)), None, isinstance(error, ArchiveCorrupt))
    checks = _Checks(connection, path, problems)
    try:
        return checks.run(progress)
    finally:
        connection.close()


class _Checks:
    def __init__(self, connection: sqlite.Connection, path: str, problems: list[str]) -> None:
        self._connection = connection
        self._path = path
        self._problems = problems
        self._damaged = False

    def run(self, progress: Callable[[int, int], None] | None) -> Report:
        incomplete: int | None = None
        # One read transaction: what writers commit meanwhile is no contradiction.
        self._connection.execute("BEGIN")
        self._guard(self._integrity)
        is_old = self._guard(lambda: migrate.needs_migration(self._connection))
        if is_old is not None:
            if is_old:
                self._report(
                    "the archive has the old shape of version 1; "
                    "`yarp archive prune` or the next captured call migrates it"
                )
            else:
                self._guard(self._values)
            self._guard(lambda: self._payloads(progress))
            incomplete = self._guard(
                lambda: self._one("SELECT count(*) FROM tool_calls WHERE status = 'started'")
            )
        return Report(tuple(self._problems), incomplete, self._damaged)

    def _guard(self, check: Callable[[], _Found]) -> _Found | None:
        """Run one check; a database too damaged for it is a problem, and the next one runs."""
        try:
            return check()
        except DataError as error:
            self._report(_problem(error))
        except sqlite.Error as error:
            classified = sqlite.classify(error, self._path)
            # Code 1: a table or column is not there. Others than damage are no finding.
            if isinstance(classified, StorageError) and sqlite.code(error) not in (0, sqlite.ERROR):
                raise classified from error
            self._damaged = self._damaged or isinstance(classified, ArchiveCorrupt)
            self._report(_problem(classified))
        return None

    def _report(self, problem: str) -> None:
        problem = _one_line(problem)
        if problem not in self._problems:  # damage shows up in every check
            self._problems.append(problem)

    def _one(self, query: str) -> int:
        value: int = self._connection.execute(query).fetchone()[0]
        return value

    def _integrity(self) -> None:
        for (text,) in self._connection.execute(f"PRAGMA integrity_check({SHOWN_PROBLEMS})"):
            for line in text.splitlines():
                if line != "ok" and not line.startswith("***"):
                    # A value that a constraint forbids leaves the file itself sound.
                    self._damaged = self._damaged or "constraint" not in line
                    self._report(f"SQLite integrity: {line}")
        broken = Counter(
            (row[0], row[2]) for row in self._connection.execute("PRAGMA foreign_key_check")
        )
        for (table, parent), count in sorted(broken.items()):
            self._report(f"foreign keys: {count} rows of {table} point to no row of {parent}")

    def _values(self) -> None:
        named = f"CASE WHEN {_WELL_FORMED} THEN archive_ref ELSE 'call ' || id END"
        for what, which in _CALLS:
            self._rows("call", what, f"min({named}) FROM tool_calls WHERE {which}")
        for what, which in _SNAPSHOTS:
            # What a foreign snapshot is called may be content; its call's number is not.
            self._rows(
                "snapshot", what, f"'of call ' || min(tool_call_id) FROM snapshots WHERE {which}"
            )
        doubled = self._one(
            "SELECT count(*) FROM (SELECT 1 FROM sessions "
            "GROUP BY agent, account, source_session_id HAVING count(*) > 1)"
        )
        if doubled:
            self._report(f"{_counted(doubled, 'session')} with rows of the same name")

    def _rows(self, noun: str, what: str, first_where: str) -> None:
        count, first = self._connection.execute(f"SELECT count(*), {first_where}").fetchone()
        if count:
            self._report(f"{_counted(count, noun)} with {what} (first: {first})")

    def _payloads(self, progress: Callable[[int, int], None] | None) -> None:
        orphans, orphan_bytes = self._connection.execute(
            "SELECT count(*), sum(length(body)) FROM payloads WHERE NOT EXISTS "
            "(SELECT 1 FROM snapshots WHERE payload_sha256 = payloads.sha256)"
        ).fetchone()
        if orphans:
            self._report(
                f"{_counted(orphans, 'payload')} ({orphan_bytes} bytes) "
                "that no snapshot references; yarp archive prune removes them"
            )
        total = self._one("SELECT coalesce(sum(length(body)), 0) FROM payloads")
        done = damaged = 0
        rows = self._connection.execute(
            "SELECT coalesce(length(body), 0), rowid, sha256, compression, "
            "uncompressed_byte_length, typeof(body), EXISTS (SELECT 1 FROM snapshots "
            "WHERE payload_sha256 = payloads.sha256 AND media_type = ?) FROM payloads",
            (payload.TEXT,),
        )
        for stored_length, *row in rows:
            problem = self._payload(*row)
            done += stored_length
            if progress is not None:
                progress(done, total)
            if problem is not None:
                damaged += 1
                if damaged <= SHOWN_PROBLEMS:
                    self._report(problem)
        if damaged > SHOWN_PROBLEMS:
            self._report(f"{_counted(damaged - SHOWN_PROBLEMS, 'damaged payload')} more")

    def _payload(
        self,
        rowid: int,
        sha256: object,
        compression: object,
        byte_length: object,
        body_type: str,
        is_text: int,
    ) -> str | None:
        """What is wrong with one payload, or None."""
        if not isinstance(sha256, bytes) or len(sha256) != 32:
            return f"payload in row {rowid} has no SHA-256 digest"
        name = f"payload {sha256.hex()}"
        if not isinstance(compression, str) or compression not in ("none", "zstd"):
            return f"{name} has an unknown compression"
        if not isinstance(byte_length, int) or byte_length < 0:
            return f"{name} has no valid length"
        if body_type != "blob":
            return f"{name} has a body that is no blob"
        digest = hashlib.sha256()
        text = codecs.getincrementaldecoder("utf-8")("strict") if is_text else None
        found = 0
        try:
            with self._connection.blobopen("payloads", "body", rowid, readonly=True) as blob:
                for block in payload.blocks(compression, blob, sha256):
                    found += len(block)
                    if found > byte_length:  # a few bytes of zstd can stand for gigabytes
                        return f"{name} has more than the stated {byte_length} bytes"
                    digest.update(block)
                    if text is not None:
                        text.decode(block)
            if text is not None:
                text.decode(b"", final=True)
        except UnicodeDecodeError:
            return f"{name} is called text and is no UTF-8"
        except ArchiveCorrupt as error:
            return str(error)
        except sqlite.Error:
            return f"{name} cannot be read from the database"
        if found != byte_length:
            return f"{name} has {found} bytes instead of {byte_length}"
        if digest.digest() != sha256:
            return f"{name} hashes to {digest.hexdigest()}"
        return None


def _modes(path: str) -> list[str]:
    """What keeps the directory or the files from being private."""
    problems = []
    wanted = [(os.path.dirname(path) or ".", 0o700), (path, 0o600)]
    wanted += [(path + suffix, 0o600) for suffix in ("-wal", "-shm")]
    for name, mode in wanted:
        try:
            found = os.lstat(name).st_mode
        except FileNotFoundError:
            if name.startswith(path + "-"):
                continue
            raise ArchiveUnavailable(f"{path}: there is no archive yet") from None
        except OSError as error:
            raise StorageError(f"{name} cannot be read: {error.strerror}") from error
        kind = stat.S_ISDIR if mode == 0o700 else stat.S_ISREG
        if not kind(found):
            word = "directory" if mode == 0o700 else "regular file"
            problems.append(_one_line(f"{name} is no {word}; YARP follows no links here"))
        elif stat.S_IMODE(found) != mode:
            problems.append(
                _one_line(
                    f"{name} has mode {stat.S_IMODE(found):04o} instead of {mode:04o}; "
                    f"run: chmod {mode:o} '{name}'"
                )
            )
    return problems


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _problem(error: YarpError) -> str:
    """An error as a problem that verify found, so without the advice to run it."""
    return _one_line(str(error).removesuffix(sqlite.LOOK_CLOSER))


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
