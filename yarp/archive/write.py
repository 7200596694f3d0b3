"""The write life of a call: its begin, its streams, a whole run; each one short transaction.

Every operation is idempotent: the same facts again change nothing, other facts raise
CallConflict. How the call of a host ends stands beside it, in `steps` for writers that stay,
in `whole` for those that serve one event. Source: seed 000, Write lifecycle and SQLite
settings; reference 2.1 and 2.3.
"""

from __future__ import annotations

import os

from yarp import payload as payloads
from yarp import sqlite
from yarp.archive.shape import Shape, create, make_private
from yarp.errors import CallConflict, ReferenceUnknown, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from yarp.payload import Payload

    # subject, stage, media type, payload, source completeness
    Snapshot = tuple[str, str, str, Payload, str | None]
    # digest and completeness by subject and stage
    Held = dict[tuple[str, str], tuple[bytes, str | None]]
    # call id, archive_ref, status, requires_streams, is_error, executed, finished_at_ms
    State = tuple[int, str, str, int, int | None, int | None, int | None]

# One value, its row's other columns and the record header share SQLite's limit of 10**9 bytes.
MAX_BODY_BYTES = 1_000_000_000 - 256
_COPY_BYTES = 1 << 20
# A stored stream of hundreds of megabytes leaves a WAL of that size; this gives the disk back.
_WAL_LIMIT_BYTES = 16 << 20
_REFERENCE_ATTEMPTS = 3

STREAM_SNAPSHOTS = frozenset(
    [("stdout", "before"), ("stdout", "after"), ("stderr", "before"), ("stderr", "after")]
)


class SessionKey:
    """Which conversation of which agent and local account a call belongs to."""

    __slots__ = ("account", "agent", "source_session_id", "started_at_ms")

    def __init__(
        self, agent: str, account: str, source_session_id: str, started_at_ms: int | None = None
    ) -> None:
        self.agent = agent
        self.account = account
        self.source_session_id = source_session_id
        self.started_at_ms = started_at_ms


class CallFacts:
    """What is known of a call before it runs; None where the host does not say."""

    __slots__ = (
        "model",
        "provider",
        "requires_streams",
        "source_call_id",
        "started_at_ms",
        "tool_name",
        "working_directory",
    )

    def __init__(
        self,
        source_call_id: str,
        tool_name: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        working_directory: str | None = None,
        started_at_ms: int,
        requires_streams: bool,
    ) -> None:
        self.source_call_id = source_call_id
        self.tool_name = tool_name
        self.provider = provider
        self.model = model
        # A directory need not have a Unicode name; the call must be recorded all the same.
        self.working_directory = (
            None
            if working_directory is None
            else working_directory.encode("utf-8", "backslashreplace").decode("utf-8")
        )
        self.started_at_ms = started_at_ms
        self.requires_streams = requires_streams


class Streams:
    """The four stream snapshots of a wrapped call, each with its media type.

    `ended`: whether stdout, and whether stderr, was kept to its end.
    """

    __slots__ = ("ended", "stderr_after", "stderr_before", "stdout_after", "stdout_before")

    def __init__(
        self,
        stdout_before: tuple[Payload, str],
        stdout_after: tuple[Payload, str],
        stderr_before: tuple[Payload, str],
        stderr_after: tuple[Payload, str],
        *,
        ended: tuple[bool, bool] = (True, True),
    ) -> None:
        self.stdout_before = stdout_before
        self.stdout_after = stdout_after
        self.stderr_before = stderr_before
        self.stderr_after = stderr_after
        self.ended = ended

    def snapshots(self) -> list[Snapshot]:
        """The snapshots these streams become."""
        stdout, stderr = (None if ended else "incomplete" for ended in self.ended)
        return [
            ("stdout", "before", self.stdout_before[1], self.stdout_before[0], stdout),
            ("stdout", "after", self.stdout_after[1], self.stdout_after[0], None),
            ("stderr", "before", self.stderr_before[1], self.stderr_before[0], stderr),
            ("stderr", "after", self.stderr_after[1], self.stderr_after[0], None),
        ]


class Archive:
    """An archive open for writing.

    Operations raise ReferenceUnknown for a call that was never begun, CallConflict for other
    facts than the archive holds, StorageError and its kinds when the transaction could not
    commit; the archive then is as it was.
    """

    __slots__ = ("_connection", "path")

    def __init__(self, path: str, connection: sqlite.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: str, *, narrow: bool) -> Self:
        """Open the archive at `path`, making it or migrating its old shape where needed.

        `narrow` is for the known default directory: broader modes are taken away there and an
        error elsewhere. Source: seed 000, Filesystem permissions and Migrations.
        """
        make_private(path, narrow=narrow)
        shape = Shape(path)
        connection = sqlite.connect(path, inspect=shape.inspect)
        if shape.version == 0:
            try:
                create(connection, path)
            except BaseException:
                connection.close()
                raise
        if not shape.is_old:
            return cls(path, connection)
        connection.close()
        from yarp.archive.migrate import migrate

        migrate(path)
        return cls(path, sqlite.connect(path))

    def close(self) -> None:
        """Close the database; the last one to do so checkpoints it into one file."""
        self._connection.close()

    def leave(self) -> None:
        """Make ready to end without closing, which costs more than a short process does."""
        sqlite.shorten_log(self._connection, self.path)

    def begin_call(
        self,
        session: SessionKey,
        call: CallFacts,
        input_before: Payload,
        input_after: Payload,
        captured_at_ms: int,
        *,
        own_time: bool = False,
    ) -> str:
        """Commit a call with both its inputs, before it executes; give its archive_ref.

        `own_time`: the host names no time of the start, so that of who came first stays.
        """
        with sqlite.transaction(self._connection, self.path):
            session_id = self._session(session)
            call_id, archive_ref, new = self._call(session_id, call, own_time=own_time)
            self._keep(
                call_id,
                [
                    ("input", "before", payloads.JSON, input_before, None),
                    ("input", "after", payloads.JSON, input_after, None),
                ],
                captured_at_ms,
                {} if new else self._held(call_id),
            )
        return archive_ref

    def record_streams(
        self, session: SessionKey, source_call_id: str, streams: Streams, captured_at_ms: int
    ) -> str:
        """Commit the four stream snapshots of a wrapped call; give its archive_ref.

        A call that was ended before, and waited for them, is finished as it was ended.
        """
        with sqlite.transaction(self._connection, self.path) as connection:
            state = self._state(session, source_call_id)
            self._add(state, streams.snapshots(), captured_at_ms)
            held = self._held(state[0])
            waited = state[2] == "started" and state[5] and ("result", "before") in held
            if waited and ("result", "after") not in held:
                connection.execute(
                    "INSERT INTO snapshots SELECT tool_call_id, 'result', 'after', media_type, "
                    "NULL, ?, payload_sha256 FROM snapshots "
                    "WHERE tool_call_id = ? AND subject = 'result' AND stage = 'before'",
                    (captured_at_ms, state[0]),
                )
                connection.execute(
                    "UPDATE tool_calls SET status = 'finished', finished_at_ms = ? WHERE id = ?",
                    (captured_at_ms, state[0]),
                )
        return state[1]

    def finish_run(
        self,
        session: SessionKey,
        source_call_id: str,
        streams: Streams | None,
        result_before: Payload,
        result_after: Payload,
        is_error: bool,
        finished_at_ms: int,
    ) -> None:
        """Streams, both results and the finish of a hostless `yarp run`, in one transaction."""
        snapshots = [] if streams is None else streams.snapshots()
        snapshots.append(("result", "before", payloads.JSON, result_before, None))
        with sqlite.transaction(self._connection, self.path):
            state = self._state(session, source_call_id)
            held = self._held(state[0])
            self._refuse_finished(state, held, snapshots)
            snapshots.append(final_result(result_after))
            self._keep(state[0], snapshots, finished_at_ms, held)
            self._finish(source_call_id, state, held, result_after, is_error, True, finished_at_ms)

    def _session(self, session: SessionKey) -> int:
        key = (session.agent, session.account, session.source_session_id)
        row = self._connection.execute(
            "SELECT id, started_at_ms FROM sessions "
            "WHERE agent = ? AND account = ? AND source_session_id = ?",
            key,
        ).fetchone()
        if row is None:
            inserted = self._connection.execute(
                "INSERT INTO sessions (agent, account, source_session_id, started_at_ms) "
                "VALUES (?, ?, ?, ?)",
                (*key, session.started_at_ms),
            ).lastrowid
            assert inserted is not None  # noqa: S101 - sqlite3 types it Optional; an insert has one
            return inserted
        session_id: int = row[0]
        if row[1] is None and session.started_at_ms is not None:
            self._connection.execute(
                "UPDATE sessions SET started_at_ms = ? WHERE id = ?",
                (session.started_at_ms, session_id),
            )
        return session_id

    def _call(
        self, session_id: int, call: CallFacts, *, own_time: bool = False
    ) -> tuple[int, str, bool]:
        facts = (
            call.tool_name,
            call.provider,
            call.model,
            call.working_directory,
            int(call.requires_streams),
        )
        for attempt in range(_REFERENCE_ATTEMPTS):
            archive_ref = f"yr_{os.urandom(16).hex()}"
            try:
                cursor = self._connection.execute(
                    "INSERT INTO tool_calls (session_id, source_call_id, archive_ref, tool_name, "
                    "provider, model, working_directory, requires_streams, started_at_ms, status) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'started') "
                    "ON CONFLICT (session_id, source_call_id) DO NOTHING",
                    (session_id, call.source_call_id, archive_ref, *facts, call.started_at_ms),
                )
            except sqlite.IntegrityError:  # a reference drawn twice
                if attempt + 1 == _REFERENCE_ATTEMPTS:
                    raise
                continue
            if cursor.rowcount == 1 and cursor.lastrowid is not None:
                return cursor.lastrowid, archive_ref, True
            break
        row = self._connection.execute(
            "SELECT id, archive_ref, started_at_ms, tool_name, provider, model, "
            "working_directory, requires_streams FROM tool_calls "
            "WHERE session_id = ? AND source_call_id = ?",
            (session_id, call.source_call_id),
        ).fetchone()
        if row[3:] != facts or (row[2] != call.started_at_ms and not own_time):
            raise CallConflict(f"call {call.source_call_id} was begun already with other facts")
        return row[0], row[1], False

    def _state(self, session: SessionKey, source_call_id: str) -> State:
        row: State | None = self._connection.execute(
            "SELECT c.id, c.archive_ref, c.status, c.requires_streams, c.is_error, c.executed, "
            "c.finished_at_ms FROM sessions s JOIN tool_calls c ON c.session_id = s.id "
            "WHERE s.agent = ? AND s.account = ? AND s.source_session_id = ? "
            "AND c.source_call_id = ?",
            (session.agent, session.account, session.source_session_id, source_call_id),
        ).fetchone()
        if row is None:
            raise ReferenceUnknown(
                f"no call {source_call_id} in session {session.source_session_id} "
                f"of {session.agent}; begin it first"
            )
        return row

    def _held(self, call_id: int) -> Held:
        """What the archive holds of a call: digest and completeness by subject and stage."""
        return {
            (subject, stage): (sha256, completeness)
            for subject, stage, sha256, completeness in self._connection.execute(
                "SELECT subject, stage, payload_sha256, source_completeness "
                "FROM snapshots WHERE tool_call_id = ?",
                (call_id,),
            )
        }

    def _add(self, state: State, snapshots: list[Snapshot], captured_at_ms: int) -> None:
        held = self._held(state[0])
        self._refuse_finished(state, held, snapshots)
        if snapshots[0][:2] in held and any(snapshot[:2] not in held for snapshot in snapshots):
            raise CallConflict(f"call {state[1]} recorded its {snapshots[0][0]} without the rest")
        self._keep(state[0], snapshots, captured_at_ms, held)

    def _refuse_finished(
        self,
        state: State,
        held: Held,
        snapshots: list[Snapshot],
    ) -> None:
        if state[2] == "finished" and any(snapshot[:2] not in held for snapshot in snapshots):
            raise CallConflict(f"call {state[1]} is finished; it takes no further snapshot")

    def _keep(
        self, call_id: int, snapshots: list[Snapshot], captured_at_ms: int, held: Held
    ) -> None:
        """Insert the snapshots that `held` lacks, and add them to it; the others must be equal."""
        inserted: list[bytes] = []
        values: list[object] = []
        for subject, stage, media_type, payload, told in snapshots:
            sha256 = payload.sha256
            # The column is not for streams. One that was not kept to its end is told by its
            # time, which is before that of what was shown of it.
            completeness = told if subject == "result_text" else None
            at_ms = captured_at_ms if told == completeness else captured_at_ms - 1
            found = held.get((subject, stage))
            if found is None:
                held[subject, stage] = (sha256, completeness)
                if sha256 not in inserted:
                    self._insert_payload(payload)
                    inserted.append(sha256)
                values += (
                    call_id,
                    subject,
                    stage,
                    media_type,
                    completeness,
                    at_ms,
                    sha256,
                )
            elif found != (sha256, completeness):
                raise CallConflict(f"another {subject}/{stage} is archived for this call")
        if values:
            rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * (len(values) // 7))
            self._connection.execute(
                "INSERT INTO snapshots (tool_call_id, subject, stage, media_type, "  # noqa: S608 - marks
                f"source_completeness, captured_at_ms, payload_sha256) VALUES {rows}",
                values,
            )

    def _insert_payload(self, payload: Payload) -> None:
        if payload.stored_length > MAX_BODY_BYTES:
            raise StorageError(
                f"{self.path}: a payload of {payload.byte_length} bytes is stored in "
                f"{payload.stored_length}, over SQLite's limit of {MAX_BODY_BYTES}"
            )
        file = payload.file
        body = payload.body
        if file is None:
            if body is None:
                raise ValueError("this payload is closed")
            self._connection.execute(
                "INSERT INTO payloads (sha256, compression, uncompressed_byte_length, body) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (sha256) DO NOTHING",
                (payload.sha256, payload.compression, payload.byte_length, body),
            )
            return
        cursor = self._connection.execute(
            "INSERT INTO payloads (sha256, compression, uncompressed_byte_length, body) "
            "VALUES (?, ?, ?, zeroblob(?)) ON CONFLICT (sha256) DO NOTHING",
            (payload.sha256, payload.compression, payload.byte_length, payload.stored_length),
        )
        if cursor.rowcount == 1 and cursor.lastrowid is not None:
            self._copy_body(file, payload.stored_length, cursor.lastrowid)

    def _copy_body(self, file: int, stored_length: int, row_id: int) -> None:
        with self._connection.blobopen("payloads", "body", row_id) as blob:
            position = 0
            while position < stored_length:
                try:
                    block = os.pread(file, _COPY_BYTES, position)
                except OSError as error:
                    raise StorageError(f"a spill file is unreadable: {error.strerror}") from error
                if not block:
                    raise StorageError("a spill file is shorter than its payload")
                blob.write(block)
                position += len(block)
        self._connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")

    def _finish(
        self,
        source_call_id: str,
        state: State,
        held: Held,
        result: Payload,
        is_error: bool,
        executed: bool,
        finished_at_ms: int,
    ) -> None:
        call_id, _, status, requires_streams, found_error, found_executed, found_finished = state
        if status == "finished":
            found = (found_error, found_executed, found_finished, held.get(("result", "after")))
            if found == (is_error, executed, finished_at_ms, (result.sha256, None)):
                return
            raise CallConflict(f"call {source_call_id} is finished already, with another result")
        if executed:
            require_executed(source_call_id, held, requires_streams=requires_streams)
        elif found_executed:
            raise CallConflict(f"call {source_call_id} has a staged result; it did execute")
        self._keep(call_id, [final_result(result)], finished_at_ms, held)
        self._connection.execute(
            "UPDATE tool_calls SET status = 'finished', finished_at_ms = ?, is_error = ?, "
            "executed = ? WHERE id = ?",
            (finished_at_ms, is_error, executed, call_id),
        )


def final_result(result: Payload) -> Snapshot:
    """The snapshot of what the model was given."""
    return ("result", "after", payloads.JSON, result, None)


def require_executed(source_call_id: str, held: Held, *, requires_streams: int) -> None:
    """CallConflict: what an execution leaves behind is not archived yet."""
    if ("result", "before") not in held:
        raise CallConflict(f"call {source_call_id} has no result before; record that first")
    if requires_streams and not held.keys() >= STREAM_SNAPSHOTS:
        raise CallConflict(f"call {source_call_id} lacks streams that it requires")
