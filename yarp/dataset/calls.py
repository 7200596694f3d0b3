"""The calls of the dataset as a list, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from yarp.dataset.filters import Filters

if TYPE_CHECKING:
    from yarp.dataset.database import Dataset

_BEGINNING_CHARACTERS = 200


@attrs.frozen
class Call:
    """A call, how its results went, and how many characters it took and gave.

    `results` counts distinct results, `is_error` is True if one of them is an error, None where
    no source says. `beginning`: the first characters of its input.
    """

    call_key: str
    agent: str
    native_session_id: str
    tool_name: str
    called_at_ms: int | None
    results: int
    is_error: bool | None
    input_characters: int
    output_characters: int
    beginning: str


def calls(
    dataset: Dataset,
    filters: Filters | None = None,
    *,
    text: str | None = None,
    limit: int = 50,
) -> list[Call]:
    """The newest calls that pass the filters and whose input or output holds `text`."""
    where, values = (filters or Filters()).where()
    if text is not None:
        where += (
            " AND (contains(c.input_text, ?) OR c.call_key IN (SELECT call_key FROM tool_results"
            " WHERE contains(output_text, ?) OR contains(output_json, ?)))"
        )
        values += [text, text, text]
    rows = dataset.rows(
        f"""
            WITH chosen AS MATERIALIZED (
                SELECT c.call_key, s.agent, s.native_session_id, c.tool_name, c.called_at_ms
                FROM tool_calls AS c JOIN sessions AS s USING (session_key)
                WHERE {where} ORDER BY called_at_ms DESC NULLS LAST, call_key LIMIT {int(limit)}
            ), ended AS (
                SELECT call_key, count(*) AS results, bool_or(is_error) AS is_error,
                       sum(coalesce(length(output_text), 0)) AS characters
                FROM tool_results SEMI JOIN chosen USING (call_key) GROUP BY call_key
            )
            SELECT chosen.*, coalesce(results, 0), is_error, length(input_text),
                   coalesce(characters, 0)::BIGINT, left(input_text, {_BEGINNING_CHARACTERS})
            FROM chosen JOIN (SELECT call_key, input_text FROM tool_calls) USING (call_key)
                 LEFT JOIN ended USING (call_key)
            ORDER BY called_at_ms DESC NULLS LAST, call_key
            """,
        values,
    )
    return [Call(*row) for row in rows]
