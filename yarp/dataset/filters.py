"""Which calls are meant: the conditions that the listings, the search and the export share."""

from __future__ import annotations

import attrs


@attrs.frozen
class Filters:
    """Conditions on calls, all of which must hold; None and False ask for nothing.

    `session`: the agent's own session id, or its key. `since_ms`: called at that time or later,
    in Unix milliseconds; a call without a time is left out. `failed`: one of its results is an
    error, as its source says.
    """

    agent: str | None = None
    session: str | None = None
    tool: str | None = None
    since_ms: int | None = None
    failed: bool = False

    def where(self) -> tuple[str, list[object]]:
        """The condition on `tool_calls AS c JOIN sessions AS s`, and the values of its marks."""
        conditions, values = ["true"], list[object]()
        if self.agent is not None:
            conditions.append("s.agent = ?")
            values.append(self.agent)
        if self.session is not None:
            conditions.append("(s.native_session_id = ? OR s.session_key = ?)")
            values += [self.session, self.session]
        if self.tool is not None:
            conditions.append("c.tool_name = ?")
            values.append(self.tool)
        if self.since_ms is not None:
            conditions.append("c.called_at_ms >= ?")
            values.append(self.since_ms)
        if self.failed:
            conditions.append("c.call_key IN (SELECT call_key FROM tool_results WHERE is_error)")
        return " AND ".join(conditions), values
