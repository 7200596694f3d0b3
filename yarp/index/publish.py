"""What one source says, as rows: the facts of its projector, published in one transaction.

Facts arrive in source order and may correct earlier ones, of this pass or of a sync long ago.
Rows wait here a while, since most corrections follow soon, and are looked up by their keys
after that. A source that is read anew is cleared first, and what has the same key gets the
same id. Source: spec "Trace index", 7 and 9.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from yarp.errors import DataError
from yarp.index.facts import (
    OUTCOMES,
    Amend,
    Drop,
    Item,
    LoopEnd,
    LoopModel,
    LoopStart,
    SessionFact,
    UsageSample,
)
from yarp.index.items import Items
from yarp.index.loops import Loops, number_loops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarp.index.facts import Fact, Link
    from yarp.index.reader import TraceReader
    from yarp.index.store import Store
    from yarp.index.witness import Witnesses


# A session is confirmed by one of its first lines; until then all that is said is held.
_MOST_EARLY = 10_000


class Unconfirmed(Exception):
    """The source confirms no session, or more than one: it stays out of the index whole."""


class Publisher:
    """Takes the facts of one source; `finish` writes what is left and sets it all in order."""

    def __init__(
        self,
        store: Store,
        source_id: int,
        reader: TraceReader,
        witnesses: Witnesses,
        *,
        appends: bool,
    ) -> None:
        self._store = store
        self._sql = store.sql
        self._source = source_id
        self._reader = reader
        self._witnesses = witnesses
        self._appends = appends
        self._early: list[Fact] = []
        self._session: int | None = None
        self._native: str | None = None
        self._former: int | None = None
        self.loops = Loops(store, source_id, witnesses, appends=appends)
        self.items = Items(store, source_id, reader, witnesses, self.loops, appends=appends)
        if appends:
            row = self._sql.execute(
                "SELECT s.id, s.native_id FROM session_sources AS x "
                "JOIN domain_sessions AS s ON s.id = x.session_id WHERE x.source_id = ?",
                (source_id,),
            ).fetchone()
            self._session, self._native = row
            self.loops.session = self.items.session = self._session

    def clear(self) -> None:
        """Take out all that the source said, to be said anew under the same keys."""
        source = (self._source,)
        row = self._sql.execute(
            "SELECT session_id FROM session_sources WHERE source_id = ?", source
        ).fetchone()
        self._former = None if row is None else row[0]
        self.items.clear()
        self.loops.clear()
        for table in ("session_parents", "session_sources", "usage_samples"):
            self._sql.execute(f"DELETE FROM {table} WHERE source_id = ?", source)  # noqa: S608 - names of ours

    def take(self, facts: Iterable[Fact]) -> None:
        """Publish facts; the records of their lines were taken before."""
        for fact in facts:
            if isinstance(fact, SessionFact):
                with self._store.written.on("sessions"):
                    self._take_session(fact)
            elif self._session is None:
                self._early.append(fact)
                if len(self._early) > _MOST_EARLY:
                    raise Unconfirmed("no line confirms a session, as far as it was read")
            else:
                self._take(fact)

    def finish(self) -> None:
        """Write what waits, and bring loops, positions, calls and usage into order.

        Raises `Unconfirmed` when no session was confirmed.
        """
        if self._session is None:
            raise Unconfirmed("no line confirms a session")
        self._witnesses.flush()
        self.items.flush()
        self.items.resolve_calls()
        self.loops.finish()
        if self._former is not None and self._former != self._session:
            self._leave(self._former)

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, Item):
            self.items.take(fact)
        elif isinstance(fact, Amend):
            self.items.amend(fact)
        elif isinstance(fact, UsageSample):
            self.loops.usage(fact)
        elif isinstance(fact, LoopStart):
            self.loops.start(fact)
        elif isinstance(fact, LoopEnd):
            if fact.outcome is not None and fact.outcome not in OUTCOMES:
                raise DataError(f"there is no outcome {fact.outcome!r}")
            self.loops.ended(fact)
        elif isinstance(fact, LoopModel):
            self.loops.model(fact)
        elif isinstance(fact, Drop):
            if fact.loop:
                self.items.flush()
                self.loops.drop(fact.key)
            else:
                self.items.drop(fact.key)
        else:
            raise DataError(f"a projector gave a {type(fact).__name__}, which is no fact")

    # Sessions

    def _take_session(self, fact: SessionFact) -> None:
        if self._native is not None and fact.native_id != self._native:
            raise Unconfirmed("its lines confirm more than one session")
        record_id = self._witnesses.id(fact.line)
        if self._session is None:
            self._native = fact.native_id
            self._session = self._store.session_id(self._reader.runtime, fact.native_id)
            if self._session is None:
                self._session = self._store.new_id("session")
                self._sql.execute(
                    "INSERT INTO domain_sessions VALUES (?, ?, ?)",
                    (self._session, self._reader.runtime, fact.native_id),
                )
            self.loops.session = self.items.session = self._session
            self._sql.execute(
                "INSERT INTO session_sources (source_id, session_id, identity_record_id) "
                "VALUES (?, ?, ?)",
                (self._source, self._session, record_id),
            )
        self._sql.execute(
            "UPDATE session_sources SET created_at = coalesce(?, created_at), "
            "name = coalesce(?, name), working_directory = coalesce(?, working_directory) "
            "WHERE source_id = ?",
            (fact.created_at, fact.name, fact.working_directory, self._source),
        )
        self._parent("forked", fact.forked_from)
        self._parent("delegated", fact.delegated_from)
        early, self._early = self._early, []
        for one in early:
            self._take(one)

    def _parent(self, kind: str, link: Link | None) -> None:
        if link is not None:
            locator = link.locator
            if locator is not None and os.path.isabs(locator):
                locator = os.path.realpath(locator)
            self._sql.execute(
                "REPLACE INTO session_parents VALUES (?, ?, ?, ?, ?)",
                (self._source, kind, link.native_id, locator, self._witnesses.id(link.line)),
            )

    def _leave(self, session: int) -> None:
        """The source supports another session now; the former goes if nothing else supports it."""
        number_loops(self._store, session)
        self._sql.execute(
            "DELETE FROM domain_sessions WHERE id = ? AND NOT EXISTS "
            "(SELECT 1 FROM session_sources WHERE session_id = ?)",
            (session, session),
        )
