"""The calls in which a text stands: an exact count, and the newest of them with their lines.

A current text index says which calls hold the text, or which have to be read to know; without
one all are read. The lines that are shown come from the database itself.
Source: spec Dataset, "Beyond".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from yarp.dataset.filters import Filters

if TYPE_CHECKING:
    from yarp.dataset.database import Dataset
    from yarp.dataset.textindex import TextIndex
    from yarp.dataset.wordlist import Narrowed

_FIELDS = ("input_text", "output_text", "output_json")
# Of longer ones no pattern is made.
_PATTERN_CHARACTERS = 256
# What else than `I` and `K` the database's `lower` makes an `i` and a `k`.
_ALSO = {"i": "\u0130", "k": "\u212a"}
# The results are read in so many parts at a time.
_PARTS = 2
# Of a line, so much before and after what was found.
_AROUND_CHARACTERS = 80


@attrs.frozen
class Line:
    """One line that holds the text: where, its 1-based number, and what stands around it."""

    field: str
    number: int
    text: str


@attrs.frozen
class Hit:
    """A call that holds the text. Times are Unix milliseconds, None where unknown."""

    call_key: str
    agent: str
    native_session_id: str
    tool_name: str
    called_at_ms: int | None
    lines: tuple[Line, ...] = ()


@attrs.frozen
class Found:
    """How many calls hold the text, all of them; and the newest ones, as many as were asked for.

    `narrowed`: the index spared reading the rest.
    """

    calls: int
    hits: tuple[Hit, ...]
    narrowed: bool


def search(
    dataset: Dataset,
    needle: str,
    index: TextIndex | None = None,
    *,
    filters: Filters | None = None,
    ignore_case: bool = False,
    limit: int = 20,
    lines: int = 3,
) -> Found:
    """Find `needle`, a text as it is and no pattern, in the inputs and results of all calls.

    At most `limit` hits with at most `lines` lines each. `index` None, or one that is not of
    these rows: everything is read.
    """
    narrowed = None
    if index is not None and index.is_current(dataset):
        narrowed = index.narrow(needle, ignore_case=ignore_case)
    chosen = (filters or Filters()).where()
    found = _find(dataset, needle, narrowed, chosen, ignore_case, limit)
    shown = _lines(dataset, [hit.call_key for hit in found.hits], needle, ignore_case, lines)
    hits = [attrs.evolve(hit, lines=tuple(shown.get(hit.call_key, ()))) for hit in found.hits]
    return attrs.evolve(found, hits=tuple(hits))


def _find(
    dataset: Dataset,
    needle: str,
    narrowed: Narrowed | None,
    chosen: tuple[str, list[object]],
    ignore_case: bool,
    limit: int,
) -> Found:
    if narrowed is not None and not (narrowed.certain.num_rows or narrowed.unsure.num_rows):
        return Found(0, (), narrowed=True)
    where, values = chosen
    parameters: dict[str, object] = {}
    for at, value in enumerate(values):
        where = where.replace("?", f"$filter{at}", 1)
        parameters[f"filter{at}"] = value
    parts, given = [], {}
    if narrowed is not None and narrowed.certain.num_rows:
        parts.append("SELECT call_key FROM certain")
        given["certain"] = narrowed.certain
    if narrowed is None or narrowed.unsure.num_rows:
        condition, looked_for = holding_of(needle, ignore_case=ignore_case)
        parts += _reading(dataset, condition, "" if narrowed is None else _UNSURE)
        parameters |= looked_for
        if narrowed is not None:
            given["unsure"] = narrowed.unsure
    query = _QUERY.format(holding=" UNION ALL ".join(parts), where=where, limit=int(limit))
    for name, table in given.items():
        dataset.connection.register(name, table)
    try:
        rows = dataset.rows(query, parameters)
    finally:
        for name in given:
            dataset.connection.unregister(name)
    hits = tuple(Hit(*row[1:]) for row in rows if row[1] is not None)
    return Found(rows[0][0], hits, narrowed is not None)


def _reading(dataset: Dataset, condition: str, chosen: str) -> list[str]:
    """Queries for the keys of calls of which a text holds the needle, each for a thread.

    By itself the database begins a second one where a table has 122,880 rows.
    """
    fields = {name: condition.replace("{}", name) for name in _FIELDS}
    queries = [f"SELECT call_key FROM tool_calls {chosen} WHERE {fields['input_text']}"]
    (last,) = dataset.row(f"SELECT coalesce(max(rowid), 0) FROM {dataset.texts}")
    share = last // _PARTS + 1
    return queries + [
        "SELECT call_key FROM"
        f" (FROM {dataset.texts} WHERE rowid >= {first} AND rowid < {first + share}) {chosen}"
        f" WHERE {fields['output_text']} OR {fields['output_json']}"
        for first in range(0, last + 1, share)
    ]


def holding_of(needle: str, *, ignore_case: bool) -> tuple[str, dict[str, object]]:
    """A condition whether a column, `{}`, holds the needle; and its parameters.

    A pattern is looked for three times as fast as a text is, and as one in a lowered text.
    """
    plain = "contains(lower({}), lower($needle))" if ignore_case else "contains({}, $needle)"
    if len(needle) > _PATTERN_CHARACTERS or (ignore_case and not needle.isascii()):
        return plain, {"needle": needle}
    letters = [_pattern_of(character, ignore_case=ignore_case) for character in needle]
    # As a group: a bare text would be looked for as one.
    condition = "regexp_matches({}, $pattern)"
    parameters: dict[str, object] = {"pattern": f"({''.join(letters)})"}
    also = [_ALSO[letter] for letter in _ALSO if ignore_case and letter in needle.lower()]
    if also:
        # Apart: in the pattern they would make it five times as slow.
        there = " OR ".join(f"contains({{}}, '{letter}')" for letter in also)
        condition = f"({condition} OR (({there}) AND {plain}))"
        parameters["needle"] = needle
    return condition, parameters


def _pattern_of(character: str, *, ignore_case: bool) -> str:
    if not character.isalnum():
        return f"\\x{{{ord(character):x}}}"
    if not ignore_case or character.lower() == character.upper():
        return character
    return f"[{character.lower()}{character.upper()}]"


_UNSURE = "SEMI JOIN unsure USING (call_key)"
_QUERY = """
WITH holding AS ({holding}), found AS MATERIALIZED (
    SELECT c.call_key, s.agent, s.native_session_id, c.tool_name, c.called_at_ms
    FROM tool_calls AS c JOIN sessions AS s USING (session_key) SEMI JOIN holding USING (call_key)
    WHERE {where}
)
SELECT total.calls, shown.* FROM (SELECT count(*) AS calls FROM found) AS total LEFT JOIN
    (FROM found ORDER BY called_at_ms DESC NULLS LAST, call_key LIMIT {limit}) AS shown ON true
ORDER BY shown.called_at_ms DESC NULLS LAST, shown.call_key
"""


def _lines(
    dataset: Dataset, keys: list[str], needle: str, ignore_case: bool, limit: int
) -> dict[str, list[Line]]:
    """For each call the first lines that hold the needle."""
    if not keys or not limit:
        return {}
    marks = ", ".join("?" * len(keys))
    # The database's own lowering: character by character, so that places in it are the text's.
    lowered = ", ".join(f"lower({name})" if ignore_case else "NULL" for name in _FIELDS)
    rows = dataset.rows(
        f"SELECT call_key, input_text, output_text, output_json, {lowered} "
        "FROM tool_calls LEFT JOIN tool_results USING (call_key) "
        f"WHERE call_key IN ({marks}) ORDER BY call_key, result_key",
        keys,
    )
    if ignore_case:
        (needle,) = dataset.row("SELECT lower(?)", [needle])
    found: dict[str, list[Line]] = {}
    for key, *texts in rows:
        lines = found.setdefault(key, [])
        for field, text, low in zip(_FIELDS, texts[:3], texts[3:], strict=True):
            if text is not None:
                for line in _found(field, text, low or text, needle, limit - len(lines)):
                    # An input is there again with each of its results.
                    if line not in lines:
                        lines.append(line)
    return found


def _found(field: str, text: str, looked_in: str, looked_for: str, limit: int) -> list[Line]:
    found: list[Line] = []
    at = looked_in.find(looked_for)
    number, counted = 1, 0
    while at >= 0 and len(found) < limit:
        number += text.count("\n", counted, at)
        counted = at
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        first = max(start, at - _AROUND_CHARACTERS)
        last = min(end, at + len(looked_for) + _AROUND_CHARACTERS)
        around = text[first:last]
        if first > start:
            around = "…" + around
        found.append(Line(field, number, around + ("…" if last < end else "")))
        at = looked_in.find(looked_for, end)
    return found
