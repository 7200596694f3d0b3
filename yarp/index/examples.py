"""Questions that past sessions answer, as one SQL statement each.

The documentation shows them, `docs get queries` prints them, and tests run them.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Example:
    """A question and the statement that answers it."""

    name: str
    question: str
    sql: str


_TEXT = "JOIN blobs AS b ON b.blob_id = json_extract(i.semantic, '$.value.text.blob_id')"


def _spoken(name: str, question: str, role: str, said: str) -> Example:
    return Example(
        name,
        question,
        f"""\
WITH latest AS (
    SELECT item_id, row_number() OVER (
        PARTITION BY occurred_at IS NULL ORDER BY occurred_at DESC, item_id DESC
    ) AS turn
    FROM items
    WHERE json_extract(semantic, '$.role') = '{role}'
    ORDER BY turn
    LIMIT 20
)
SELECT s.runtime, s.native_id, i.occurred_at, substr(b.text, 1, 300) AS {said}
FROM latest
JOIN items AS i USING (item_id)
JOIN sessions AS s USING (session_id)
{_TEXT}
ORDER BY latest.turn, i.occurred_at IS NULL""",  # noqa: S608 - documentation
    )


EXAMPLES = (
    _spoken("requests", "What did people ask for last?", "human.request", "request"),
    _spoken(
        "steering", "What did people say while an agent was at work?", "human.steering", "said"
    ),
    Example(
        "calls",
        "Which shell commands ran last, and where?",
        """\
SELECT s.native_id, i.occurred_at,
    json_extract(i.semantic, '$.value.tool_name') AS tool,
    json_extract(i.semantic, '$.value.shell_fragments[0].text.value') AS command,
    coalesce(json_extract(i.semantic, '$.value.working_directory'), s.working_directory) AS place
FROM items AS i
JOIN sessions AS s USING (session_id)
WHERE json_extract(i.semantic, '$.role') = 'agent.tool_call.shell'
ORDER BY i.item_id DESC
LIMIT 20""",
    ),
    Example(
        "programs",
        "Which programs does an agent start in one session, and how often?",
        """\
SELECT json_extract(run.value, '$.program') AS program, count(*) AS runs
FROM items AS i,
    json_each(i.semantic, '$.value.shell_fragments[0].statements') AS statement,
    json_each(statement.value, '$.invocations') AS run
WHERE i.session_id = (SELECT max(session_id) FROM sessions)
    AND json_extract(i.semantic, '$.role') = 'agent.tool_call.shell'
GROUP BY program
ORDER BY runs DESC
LIMIT 20""",
    ),
    Example(
        "outputs",
        "Which calls failed last, and what did they print?",
        f"""\
SELECT s.native_id, i.occurred_at,
    json_extract(c.semantic, '$.value.tool_name') AS tool,
    json_extract(c.semantic, '$.value.shell_fragments[0].text.value') AS command,
    json_extract(i.semantic, '$.value.exit_code') AS exit_code,
    substr(b.text, 1, 300) AS output
FROM items AS i
JOIN sessions AS s USING (session_id)
{_TEXT}
LEFT JOIN items AS c ON c.item_id = json_extract(i.semantic, '$.value.call_item_id')
WHERE json_extract(i.semantic, '$.role') = 'tool.output'
    AND json_extract(i.semantic, '$.value.failed')
ORDER BY i.item_id DESC
LIMIT 20""",  # noqa: S608 - documentation
    ),
    Example(
        "delegations",
        "What was handed to other agents, and to which session?",
        f"""\
SELECT s.native_id, i.occurred_at, substr(b.text, 1, 300) AS task, child.native_id AS child
FROM items AS i
JOIN sessions AS s USING (session_id)
{_TEXT}
LEFT JOIN sessions AS child
    ON child.session_id = json_extract(i.semantic, '$.value.child_session_id')
WHERE json_extract(i.semantic, '$.role') = 'agent.delegation'
ORDER BY i.item_id DESC
LIMIT 20""",  # noqa: S608 - documentation
    ),
    _spoken("answers", "What did agents answer in the end?", "agent.final_answer", "answer"),
    Example(
        "interruptions",
        "Which executions were interrupted or failed, and what was asked for there?",
        """\
WITH stopped AS (
    SELECT l.loop_id, r.occurred_at AS ended_at, row_number() OVER (
        PARTITION BY r.occurred_at IS NULL ORDER BY r.occurred_at DESC, l.loop_id DESC
    ) AS turn
    FROM loops AS l
    JOIN records AS r ON r.record_id = json_extract(l.end, '$.record_id')
    WHERE json_extract(l.end, '$.outcome') IN ('interrupted', 'failed')
    ORDER BY turn
    LIMIT 20
)
SELECT s.native_id, l.session_position, json_extract(l.end, '$.outcome') AS outcome, ended_at,
    (
        SELECT substr(b.text, 1, 300)
        FROM items AS i
        JOIN blobs AS b ON b.blob_id = json_extract(i.semantic, '$.value.text.blob_id')
        WHERE i.loop_id = l.loop_id
            AND json_extract(i.semantic, '$.role') = 'human.request'
        ORDER BY i.loop_position
        LIMIT 1
    ) AS request
FROM stopped
JOIN loops AS l USING (loop_id)
JOIN sessions AS s USING (session_id)
ORDER BY stopped.turn, ended_at IS NULL""",
    ),
    Example(
        "session",
        "What happened in the session that was indexed last, from request to answer?",
        """\
SELECT l.session_position, i.loop_position, json_extract(i.semantic, '$.role') AS role,
    substr(coalesce(
        b.text,
        json_extract(i.semantic, '$.value.shell_fragments[0].text.value'),
        json_extract(i.semantic, '$.value.tool_name')
    ), 1, 200) AS said
FROM items AS i
JOIN loops AS l USING (loop_id)
LEFT JOIN blobs AS b ON b.blob_id = json_extract(i.semantic, '$.value.text.blob_id')
WHERE i.session_id = (SELECT session_id FROM items ORDER BY item_id DESC LIMIT 1)
ORDER BY l.session_position, i.loop_position
LIMIT 200""",
    ),
    Example(
        "search",
        "Where was something spoken of? Candidates by trigrams, checked against the text.",
        f"""\
SELECT s.runtime, s.native_id, i.occurred_at, json_extract(i.semantic, '$.role') AS role,
    substr(b.text, max(1, instr(b.text, 'retry timeout') - 60), 200) AS around
FROM item_search(trigram_query('retry timeout')) AS found
JOIN items AS i ON i.item_id = found.rowid
JOIN sessions AS s USING (session_id)
{_TEXT}
WHERE instr(b.text, 'retry timeout')
LIMIT 20""",  # noqa: S608 - documentation
    ),
    Example(
        "usage",
        "How many tokens did each model take?",
        """\
SELECT json_extract(l.model, '$.id') AS model, count(*) AS loops,
    sum(json_extract(l.usage, '$.input')) AS input,
    sum(json_extract(l.usage, '$.cached')) AS cached,
    sum(json_extract(l.usage, '$.output')) AS output
FROM loops AS l
WHERE l.usage IS NOT NULL
GROUP BY model
ORDER BY input + output DESC""",
    ),
    Example(
        "witnesses",
        "Which lines of which file prove the latest final answer?",
        """\
SELECT src.locator, r.source_position + 1 AS line, r.record_id
FROM (
    SELECT record_ids FROM items
    WHERE json_extract(semantic, '$.role') = 'agent.final_answer'
    ORDER BY item_id DESC LIMIT 1
) AS answer, json_each(answer.record_ids) AS witness
JOIN records AS r ON r.record_id = witness.value
JOIN sources AS src USING (source_id)""",
    ),
    Example(
        "metadata",
        "Which sessions did somebody keep metadata about?",
        """\
SELECT m.runtime, m.native_id, m.version, s.name, m.metadata
FROM session_metadata AS m
LEFT JOIN sessions AS s USING (session_id)
ORDER BY m.updated_at DESC
LIMIT 20""",
    ),
)
