"""The end of a call in one transaction, for writers that serve one event and leave.

Two processes may serve one call, or one event twice, in any order: what is archived already is
compared, never doubled. Source: seed 000, Write lifecycle; spec "Hosts", Rules for all.
"""

from __future__ import annotations

from yarp import sqlite
from yarp.archive.write import STREAM_SNAPSHOTS, Archive, final_result
from yarp.errors import CallConflict, ReferenceUnknown
from yarp.payload import JSON, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.archive.write import CallFacts, Held, SessionKey, Snapshot
    from yarp.payload import Payload


class Current:
    """A call as it stands: its id in the archive, its reference, and what it waits for.

    `source_call_id` is the host's own, with `#2` and so on where the session had used that
    before: some models count from zero in every answer. `next_id` is for one more call of that
    id. `archive_ref` None: there is none yet.
    """

    __slots__ = (
        "archive_ref",
        "finished",
        "next_id",
        "requires_streams",
        "source_call_id",
        "tool_name",
    )

    def __init__(
        self,
        source_call_id: str,
        archive_ref: str | None = None,
        tool_name: str | None = None,
        finished: bool = False,
        requires_streams: bool = False,
    ) -> None:
        self.source_call_id = source_call_id
        self.archive_ref = archive_ref
        self.tool_name = tool_name
        self.finished = finished
        self.requires_streams = requires_streams
        self.next_id = source_call_id


class End:
    """What the end of a call adds to it.

    `text` is the exact text that a shorter one stands for, with its completeness. `output` is
    the tool's whole output and its media type. `start` begins a call that was never heard of.
    """

    __slots__ = ("after", "before", "executed", "is_error", "output", "start", "text")

    def __init__(
        self,
        before: Payload,
        after: Payload,
        *,
        is_error: bool,
        executed: bool = True,
        text: tuple[Payload, str] | None = None,
        output: tuple[Payload, str] | None = None,
        start: tuple[CallFacts, Payload] | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self.is_error = is_error
        self.executed = executed
        self.text = text
        self.output = output
        self.start = start

    def snapshots(self) -> list[Snapshot]:
        """All but the last one, `result/after`."""
        if not self.executed:
            return []
        found: list[Snapshot] = [("result", "before", JSON, self.before, None)]
        if self.output is not None:
            found.append(("source_output", "before", self.output[1], self.output[0], None))
        if self.text is not None:
            found.append(("result_text", "before", TEXT, self.text[0], self.text[1]))
        return found


class WholeArchive(Archive):
    """An archive whose calls are begun, and ended, in one transaction each."""

    __slots__ = ()

    def current(self, session: SessionKey, source_call_id: str) -> Current:
        """The latest call of the session that goes by this id."""
        found = Current(source_call_id)
        name, number = source_call_id, 1
        while True:
            row = self._connection.execute(
                "SELECT c.archive_ref, c.tool_name, c.status, c.requires_streams "
                "FROM sessions s JOIN tool_calls c ON c.session_id = s.id "
                "WHERE s.agent = ? AND s.account = ? AND s.source_session_id = ? "
                "AND c.source_call_id = ?",
                (session.agent, session.account, session.source_session_id, name),
            ).fetchone()
            if row is None:
                found.next_id = name
                return found
            found = Current(name, row[0], row[1], row[2] == "finished", bool(row[3]))
            number += 1
            name = f"{source_call_id}#{number}"

    def complete(
        self,
        session: SessionKey,
        source_call_id: str,
        end: End,
        at_ms: int,
        *,
        last_moment: Callable[[], None] | None = None,
    ) -> bool:
        """Commit all that the end of a call tells, and finish it; True unless it was before.

        A call whose streams are still to come keeps its result and stays started until they do:
        CallConflict, after the commit. `last_moment` is called right before it, and may raise.
        """
        waits = False
        with sqlite.transaction(self._connection, self.path) as connection:
            try:
                state = self._state(session, source_call_id)
            except ReferenceUnknown:
                if end.start is None:
                    raise
                self._begin(session, *end.start, at_ms)
                state = self._state(session, source_call_id)
            held = self._held(state[0])
            snapshots = end.snapshots()
            if state[2] == "finished":
                self._compare(state[1], snapshots, held)
                return False
            self._keep(state[0], snapshots, at_ms, held)
            waits = bool(end.executed and state[3] and not held.keys() >= STREAM_SNAPSHOTS)
            if waits:
                connection.execute(
                    "UPDATE tool_calls SET is_error = ?, executed = 1 WHERE id = ?",
                    (end.is_error, state[0]),
                )
            else:
                self._keep(state[0], [final_result(end.after)], at_ms, held)
                self._finish(
                    source_call_id, state, held, end.after, end.is_error, end.executed, at_ms
                )
            if last_moment is not None:
                last_moment()
        if waits:
            raise CallConflict(f"call {source_call_id} waits for its streams; it stays started")
        return True

    def _begin(self, session: SessionKey, facts: CallFacts, body: Payload, at_ms: int) -> None:
        call_id, _, _ = self._call(self._session(session), facts)
        inputs: list[Snapshot] = [
            ("input", stage, JSON, body, None) for stage in ("before", "after")
        ]
        self._keep(call_id, inputs, at_ms, {})

    def _compare(self, archive_ref: str, snapshots: list[Snapshot], held: Held) -> None:
        for subject, stage, _, payload, completeness in snapshots[:1]:
            if held.get((subject, stage)) != (payload.sha256, completeness):
                raise CallConflict(f"call {archive_ref} is finished already, with another result")
