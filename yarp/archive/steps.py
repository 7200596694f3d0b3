"""The end of a call in steps, for writers that stay: result, text, provisional result, finish.

Each step is one short transaction, and idempotent. Source: seed 000, Write lifecycle.
"""

from __future__ import annotations

from yarp import sqlite
from yarp.archive.write import Archive, final_result, require_executed
from yarp.errors import CallConflict
from yarp.payload import JSON, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.archive.write import SessionKey, Snapshot
    from yarp.payload import Payload


class SteppedArchive(Archive):
    """An archive whose calls are ended step by step."""

    __slots__ = ()

    def result_before(
        self,
        session: SessionKey,
        source_call_id: str,
        result: Payload,
        source_output: Payload | None,
        source_output_media_type: str,
        captured_at_ms: int,
    ) -> None:
        """Commit the result as the tool gave it, and the complete output it names, if any."""
        snapshots: list[Snapshot] = [("result", "before", JSON, result, None)]
        if source_output is not None:
            snapshots.append(
                ("source_output", "before", source_output_media_type, source_output, None)
            )
        with sqlite.transaction(self._connection, self.path):
            self._add(self._state(session, source_call_id), snapshots, captured_at_ms)

    def result_text(
        self,
        session: SessionKey,
        source_call_id: str,
        text: Payload,
        completeness: str,
        captured_at_ms: int,
    ) -> str:
        """Commit the exact text blocks that a shorter answer will stand for; give archive_ref."""
        with sqlite.transaction(self._connection, self.path):
            state = self._state(session, source_call_id)
            snapshot: Snapshot = ("result_text", "before", TEXT, text, completeness)
            self._add(state, [snapshot], captured_at_ms)
        return state[1]

    def stage_result(
        self,
        session: SessionKey,
        source_call_id: str,
        result: Payload,
        is_error: bool,
        captured_at_ms: int,
    ) -> None:
        """Commit a provisional result; the call stays started until it is finished."""
        with sqlite.transaction(self._connection, self.path) as connection:
            state = self._state(session, source_call_id)
            call_id, _, status, requires_streams, staged_error, _, _ = state
            if status != "started":
                raise CallConflict(f"call {source_call_id} is finished; it takes no staged result")
            if staged_error is not None and staged_error != is_error:
                raise CallConflict(f"call {source_call_id} has a staged result of another outcome")
            held = self._held(call_id)
            require_executed(source_call_id, held, requires_streams=requires_streams)
            self._keep(call_id, [final_result(result)], captured_at_ms, held)
            connection.execute(
                "UPDATE tool_calls SET is_error = ?, executed = 1 WHERE id = ?", (is_error, call_id)
            )

    def update_final_result(
        self,
        session: SessionKey,
        source_call_id: str,
        result: Payload,
        is_error: bool,
        finished_at_ms: int,
    ) -> None:
        """Replace the staged result and finish the call, in one transaction.

        The replaced payload goes too, unless another snapshot points to it.
        """
        with sqlite.transaction(self._connection, self.path) as connection:
            state = self._state(session, source_call_id)
            call_id, _, status, *_ = state
            held = self._held(call_id)
            staged = held.get(("result", "after"))
            if status == "started" and staged is not None and staged[0] != result.sha256:
                self._insert_payload(result)
                connection.execute(
                    "UPDATE snapshots SET payload_sha256 = ?, captured_at_ms = ? "
                    "WHERE tool_call_id = ? AND subject = 'result' AND stage = 'after'",
                    (result.sha256, finished_at_ms, call_id),
                )
                connection.execute(
                    "DELETE FROM payloads WHERE sha256 = ?1 "
                    "AND NOT EXISTS (SELECT 1 FROM snapshots WHERE payload_sha256 = ?1)",
                    (staged[0],),
                )
                held["result", "after"] = (result.sha256, None)
            self._finish(source_call_id, state, held, result, is_error, True, finished_at_ms)

    def finish_call(
        self,
        session: SessionKey,
        source_call_id: str,
        result: Payload,
        is_error: bool,
        require_pre_result: bool,
        finished_at_ms: int,
    ) -> None:
        """Finish a call with its final result.

        `require_pre_result` says that the tool executed; without it the call was refused before
        it ran, and needs neither a result before nor streams.
        """
        with sqlite.transaction(self._connection, self.path):
            state = self._state(session, source_call_id)
            self._finish(
                source_call_id,
                state,
                self._held(state[0]),
                result,
                is_error,
                require_pre_result,
                finished_at_ms,
            )
