"""Reading the archive: calls, snapshots and verified payloads, changing nothing.

Source: seed 000, Payload encoding and Write lifecycle (recovery order); reference 2.5.
"""

from __future__ import annotations

import os

from yarp import canonical, sqlite
from yarp import payload as payloads
from yarp.archive.shape import has_present_shape, require_made
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, ReferenceUnknown
from yarp.paths import require_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_COPY_BYTES = 1 << 18
_CALL_COLUMNS = (
    "c.id, c.archive_ref, s.agent, s.account, s.source_session_id, c.source_call_id, "
    "c.tool_name, c.provider, c.model, c.working_directory, c.started_at_ms, "
    "c.finished_at_ms, c.status, c.is_error, c.executed, c.requires_streams"
)
# A stream that was not kept to its end is older than what was shown of it.
_COMPLETENESS = (
    "CASE WHEN n.stage = 'before' AND n.subject IN ('stdout', 'stderr') AND n.captured_at_ms < "
    "(SELECT shown.captured_at_ms FROM snapshots shown WHERE shown.tool_call_id = n.tool_call_id "
    "AND shown.subject = n.subject AND shown.stage = 'after') "
    "THEN 'incomplete' ELSE coalesce(n.source_completeness, 'complete') END"
)
_SNAPSHOT = (
    f"SELECT n.subject, n.stage, {_COMPLETENESS}, p.uncompressed_byte_length, n.media_type, "  # noqa: S608 - constants only
    "p.sha256 FROM snapshots n JOIN payloads p ON p.sha256 = n.payload_sha256 "
    "WHERE n.tool_call_id = ?"
)
# A text that is another one whenever any snapshot of the call is.
_STATE = (
    "(SELECT group_concat(n.subject || ' ' || n.stage || ' ' || hex(n.media_type) || ' ' || "
    "hex(n.source_completeness) || ' ' || n.captured_at_ms || ' ' || hex(n.payload_sha256)) "
    "FROM snapshots n WHERE n.tool_call_id = c.id)"
)
_CALLS = f"SELECT {_CALL_COLUMNS} FROM tool_calls c JOIN sessions s ON s.id = c.session_id"  # noqa: S608 - constants only


class CallRow:
    """One call as the archive holds it; times in ms since 1970, None where unknown."""

    __slots__ = (
        "account",
        "agent",
        "archive_ref",
        "call_id",
        "executed",
        "finished_at_ms",
        "is_error",
        "model",
        "provider",
        "requires_streams",
        "source_call_id",
        "source_session_id",
        "started_at_ms",
        "status",
        "tool_name",
        "working_directory",
    )

    def __init__(
        self,
        call_id: int,
        archive_ref: str,
        agent: str,
        account: str,
        source_session_id: str,
        source_call_id: str,
        tool_name: str,
        provider: str | None,
        model: str | None,
        working_directory: str | None,
        started_at_ms: int,
        finished_at_ms: int | None,
        status: str,
        is_error: int | None,
        executed: int | None,
        requires_streams: int,
    ) -> None:
        self.call_id = call_id
        self.archive_ref = archive_ref
        self.agent = agent
        self.account = account
        self.source_session_id = source_session_id
        self.source_call_id = source_call_id
        self.tool_name = tool_name
        self.provider = provider
        self.model = model
        self.working_directory = working_directory
        self.started_at_ms = started_at_ms
        self.finished_at_ms = finished_at_ms
        self.status = status
        self.is_error = None if is_error is None else bool(is_error)
        self.executed = None if executed is None else bool(executed)
        self.requires_streams = bool(requires_streams)


class Source:
    """Exact bytes of a call that can be recovered: a stream, a result text, a snapshot.

    `name` is the snapshot's subject; `completeness` is 'complete', 'incomplete' or 'unknown'.
    """

    __slots__ = ("byte_length", "completeness", "media_type", "name", "sha256")

    def __init__(
        self, name: str, completeness: str, byte_length: int, media_type: str, sha256: bytes
    ) -> None:
        self.name = name
        self.completeness = completeness
        self.byte_length = byte_length
        self.media_type = media_type
        self.sha256 = sha256


class Reader:
    """An archive open for reading only. Errors of SQLite come as the kinds of `sqlite.classify`."""

    __slots__ = ("_connection", "path")

    def __init__(self, path: str, connection: sqlite.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: str) -> Reader:
        """Open the archive at `path`; nothing is repaired, narrowed or migrated.

        Raises ArchiveUnavailable when there is none, PermissionsTooOpen when others can reach
        it, ArchiveVersionUnsupported when it is another program's or of another shape.
        """
        if not os.path.lexists(path):
            raise ArchiveUnavailable(f"{path}: there is no archive yet; nothing was captured")
        require_private(os.path.dirname(path), directory=True, narrow=False)
        require_private(path, directory=False, narrow=False)
        connection = sqlite.connect(path, readonly=True)
        try:
            _require_readable(connection, path)
        except sqlite.Error as error:
            connection.close()
            raise sqlite.classify(error, path) from error
        except BaseException:
            connection.close()
            raise
        return cls(path, connection)

    @classmethod
    def over(cls, path: str, connection: sqlite.Connection) -> Reader:
        """The archive in an open connection, such as that of a copy; `path` is for messages.

        Raises as `open`, but for what concerns the file. Closing is the caller's.
        """
        try:
            _require_readable(connection, path)
        except sqlite.Error as error:
            raise sqlite.classify(error, path) from error
        return cls(path, connection)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def call(self, archive_ref: str) -> CallRow:
        """The call of that reference; ReferenceUnknown when there is none."""
        for row in self._rows(f"{_CALLS} WHERE c.archive_ref = ?", (archive_ref,)):
            return CallRow(*row)
        raise ReferenceUnknown(f"{archive_ref}: no such call; list them with: yarp calls")

    def find(
        self, agent: str, account: str, source_session_id: str, source_call_id: str
    ) -> CallRow | None:
        """The call of a host's own ids, or None."""
        for row in self._rows(
            f"{_CALLS} WHERE s.agent = ? AND s.account = ? AND s.source_session_id = ? "
            "AND c.source_call_id = ?",
            (agent, account, source_session_id, source_call_id),
        ):
            return CallRow(*row)
        return None

    def calls(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        tool: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        before: CallRow | None = None,
        failed: bool = False,
        limit: int | None = None,
    ) -> Iterator[CallRow]:
        """Calls, the newest first; `session` is the agent's own id of it.

        `until_ms` is not part of the time; `before` gives only those that come after that call
        here.
        """
        conditions: list[str] = []
        values: list[object] = []
        if before is not None:
            conditions.append("(c.started_at_ms, c.id) < (?, ?)")
            values += (before.started_at_ms, before.call_id)
        for condition, value in (
            ("s.agent = ?", agent),
            ("s.source_session_id = ?", session),
            ("c.tool_name = ?", tool),
            ("c.started_at_ms >= ?", since_ms),
            ("c.started_at_ms < ?", until_ms),
            ("c.is_error = ?", 1 if failed else None),
        ):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        values.append(-1 if limit is None else limit)
        statement = f"{_CALLS}{where} ORDER BY c.started_at_ms DESC, c.id DESC LIMIT ?"
        for row in self._rows(statement, values):
            yield CallRow(*row)

    def states(self) -> Iterator[tuple[CallRow, bytes]]:
        """Every call, the newest first, with a digest of all that the archive holds of it.

        Payloads count by their digests, so none of them is read.
        """
        statement = (
            f"SELECT {_CALL_COLUMNS}, {_STATE} FROM tool_calls c "  # noqa: S608 - constants only
            "JOIN sessions s ON s.id = c.session_id ORDER BY c.started_at_ms DESC, c.id DESC"
        )
        for row in self._rows(statement, ()):
            yield CallRow(*row[:-1]), canonical.sha256(repr(row).encode())

    def snapshot(self, call_id: int, subject: str, stage: str) -> Source | None:
        """One snapshot of a call, or None."""
        for name, _, *facts in self._rows(
            f"{_SNAPSHOT} AND n.subject = ? AND n.stage = ?", (call_id, subject, stage)
        ):
            return Source(name, *facts)
        return None

    def snapshots(self, call_id: int) -> dict[tuple[str, str], Source]:
        """All snapshots of a call by subject and stage."""
        return {
            (name, stage): Source(name, *facts)
            for name, stage, *facts in self._rows(_SNAPSHOT, (call_id,))
        }

    def sources(self, row: CallRow) -> list[Source]:
        """What search and read look into, by the recovery order of seed 000.

        The streams before, else the result text, else the source output, else nothing.
        """
        for subjects in (("stdout", "stderr"), ("result_text",), ("source_output",)):
            found = [self.snapshot(row.call_id, subject, "before") for subject in subjects]
            sources = [source for source in found if source is not None]
            if sources:
                return sources
        return []

    def payload(self, sha256: bytes) -> bytes:
        """The uncompressed bytes of a payload, verified; ArchiveCorrupt when they are damaged."""
        for compression, byte_length, body in self._rows(
            "SELECT compression, uncompressed_byte_length, CAST(body AS BLOB) "
            "FROM payloads WHERE sha256 = ?",
            (sha256,),
        ):
            return payloads.decode(compression, byte_length, sha256, body)
        raise ArchiveCorrupt(f"{self.path}: payload {sha256.hex()} is missing")

    def payload_file(self, sha256: bytes, directory: str) -> int:
        """The descriptor of an unlinked file with a payload's bytes, verified, at its beginning.

        Bounded memory whatever the size; nothing is given before all of it is verified.
        """
        for row_id, compression, byte_length in self._rows(
            "SELECT rowid, compression, uncompressed_byte_length FROM payloads WHERE sha256 = ?",
            (sha256,),
        ):
            file = payloads.private_file(directory)
            try:
                for block in self._verified(row_id, compression, byte_length, sha256):
                    payloads.write_all(file, block)
                os.lseek(file, 0, os.SEEK_SET)
            except BaseException:
                os.close(file)
                raise
            return file
        raise ArchiveCorrupt(f"{self.path}: payload {sha256.hex()} is missing")

    def payload_blocks(self, sha256: bytes) -> Iterator[bytes]:
        """The uncompressed bytes of a payload in blocks: verified only once the last is taken."""
        for row_id, compression, byte_length in self._rows(
            "SELECT rowid, compression, uncompressed_byte_length FROM payloads WHERE sha256 = ?",
            (sha256,),
        ):
            yield from self._verified(row_id, compression, byte_length, sha256)
            return
        raise ArchiveCorrupt(f"{self.path}: payload {sha256.hex()} is missing")

    def _verified(
        self, row_id: int, compression: str, byte_length: int, sha256: bytes
    ) -> Iterator[bytes]:
        large = byte_length > _COPY_BYTES
        digest = canonical.new_sha256(large=large)
        found_length = 0
        try:
            with self._connection.blobopen("payloads", "body", row_id, readonly=True) as blob:
                blocks = payloads.blocks(compression, blob, sha256)
                for block in blocks:
                    found_length += len(block)
                    if found_length > byte_length:
                        break
                    digest.update(block)
                    yield block
        except sqlite.Error as error:
            raise sqlite.classify(error, self.path) from error
        payloads.check(sha256, byte_length, digest.digest(), found_length)

    def _rows(
        self, statement: str, values: tuple[object, ...] | list[object]
    ) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(statement, values)
        except sqlite.Error as error:
            raise sqlite.classify(error, self.path) from error
        except UnicodeEncodeError:
            return  # no row holds what is no Unicode text


def _require_readable(connection: sqlite.Connection, path: str) -> None:
    require_made(connection, path)
    if not has_present_shape(connection, path):
        raise ArchiveUnavailable(
            f"{path}: is of an older shape; any writing command migrates it, "
            "for example: yarp run -- true"
        )
