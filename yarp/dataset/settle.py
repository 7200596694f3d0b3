"""The end of a run: copies come together, and what cannot be resolved is set apart.

The outcome depends on what was imported and not on the order. Everything here can be done again
without harm, so an interrupted run is settled by the next one. Source: seed 003, "Identity and
pairing"; spec "Dataset", Shape.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from yarp.dataset import doubt, keys
from yarp.dataset.rows import issue_rows
from yarp.dataset.tables import Tables
from yarp.sources.facts import Issue

if TYPE_CHECKING:
    from collections.abc import Collection

    from yarp.dataset.database import Dataset

# A link's rank: of all places that say a call, the lowest is whose row counts.
_RANK = """(s.started_at_ms IS NULL, coalesce(s.started_at_ms, 0), s.native_session_id, l.weight,
  i.relative_path, l.source_item_key, l.own_key)"""
_LINKS = f"""
  SELECT l.source_item_key, l.own_key, l.group_key, l.owns, {_RANK} AS rank
  FROM private.call_links AS l JOIN sessions AS s USING (session_key)
  JOIN source_items AS i USING (source_item_key)"""


def unsettled(dataset: Dataset) -> bool:
    """Whether items were committed since the last run that came to its end."""
    (found,) = dataset.row("SELECT unsettled FROM private.state")
    return bool(found)


def to_read_again(dataset: Dataset) -> dict[str, set[str]]:
    """The items that must be read again, each with the calls that are to be taken from it.

    A call's row comes from the place of the lowest rank. Where that place lost its row to a
    copy, or another place that held it is gone, or a result was set apart whose call has come
    since, only the source can give it back; and likewise what a copy told by itself, where the
    original that it was given to has lost that.
    """
    claims: dict[str, set[str]] = defaultdict(set)
    lone = f"""
        SELECT arg_min(source_item_key, rank), own_key FROM ({_LINKS}
          SEMI JOIN (SELECT own_key FROM private.call_links WHERE NOT owns) USING (own_key))
        GROUP BY own_key
        HAVING NOT arg_min(owns, rank)"""
    for item, own_key in dataset.rows(lone):
        claims[item].add(own_key)
    links = [link for link in _shared_links(dataset) if link[4] is not None]
    for group in _groups(links).values():
        item, own_key, _, present, _ = min((links[n] for n in group), key=lambda link: link[4])
        if not present:
            claims[item].add(own_key)
    dropped = """
        SELECT x.source_item_key FROM private.suspects AS x
        ANTI JOIN observations AS o
          ON o.result_key = x.result_key AND o.source_item_key = x.source_item_key
        SEMI JOIN tool_calls AS c ON c.call_key = x.call_key"""
    doubted = """
        SELECT source_item_key FROM source_items ANTI JOIN private.checkpoints
        USING (source_item_key) WHERE status <> 'rejected'"""
    for (item,) in [
        *dataset.rows(dropped),
        *dataset.rows(doubted),
        *_pointing_at_ghosts(dataset),
    ]:
        claims[item].update(())
    return dict(claims)


def _pointing_at_ghosts(dataset: Dataset) -> list[tuple[Any, ...]]:
    """Items whose observations show a call that no item holds.

    It was taken from the original of copies, which has gone since.
    """
    ghosts = "SELECT call_key FROM tool_calls ANTI JOIN private.call_links ON own_key = call_key"
    if not dataset.rows(f"{ghosts} LIMIT 1"):
        return []
    return dataset.rows(f"""
        WITH ghosts AS MATERIALIZED ({ghosts}),
        outcomes AS (SELECT result_key FROM tool_results SEMI JOIN ghosts USING (call_key))
        SELECT source_item_key FROM observations SEMI JOIN ghosts USING (call_key)
        UNION
        SELECT source_item_key FROM observations SEMI JOIN outcomes USING (result_key)""")


def settle(dataset: Dataset, run_key: str, later: Collection[str] = ()) -> tuple[int, int, int]:
    """Bring copies together and set unresolved results apart, in one transaction.

    `later`: items that must be read again still; they stay in doubt. Gives how many
    rows of calls and of results that has taken away, and how many besides that nobody showed.
    """
    counted = "SELECT (SELECT count(*) FROM tool_calls), (SELECT count(*) FROM tool_results)"
    before = dataset.row(counted)
    with dataset.transaction() as connection:
        tables = Tables(connection)
        _collapse(dataset, tables)
        _let_originals_tell(dataset)
        unseen = _drop_unseen(dataset, tables)
        doubt.put(connection, tables, later)
        _quarantine(dataset, tables, run_key)
        connection.execute("UPDATE private.state SET unsettled = false")
    after = dataset.row(counted)
    calls, results = (was - now - no for was, now, no in zip(before, after, unseen, strict=True))
    return calls, results, sum(unseen)


def _shared_links(dataset: Dataset) -> list[tuple[Any, ...]]:
    """Links of groups with several calls: item, own key, group, whether its call is there, rank.

    The rank is None for a result whose call the item does not hold.
    """
    return dataset.rows(f"""
        WITH shared AS (
          SELECT group_key FROM private.call_links WHERE group_key IS NOT NULL
          GROUP BY group_key HAVING min(own_key) <> max(own_key))
        SELECT l.source_item_key, l.own_key, l.group_key, c.call_key IS NOT NULL,
          CASE WHEN s.session_key IS NOT NULL THEN {_RANK} END
        FROM private.call_links AS l SEMI JOIN shared USING (group_key)
        JOIN source_items AS i USING (source_item_key)
        LEFT JOIN sessions AS s ON s.session_key = l.session_key
        LEFT JOIN tool_calls AS c ON c.call_key = l.own_key""")


def _groups(links: list[tuple[Any, ...]]) -> dict[int, list[int]]:
    """The places of links that belong together, by a shared group or a shared call."""
    parent = list(range(len(links)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    first: dict[Any, int] = {}
    for place, (_, own_key, group_key, *_) in enumerate(links):
        for name in (own_key, group_key):
            other = first.setdefault(name, place)
            parent[root(place)] = root(other)
    groups: dict[int, list[int]] = defaultdict(list)
    for place in range(len(links)):
        groups[root(place)].append(place)
    return groups


def _collapse(dataset: Dataset, tables: Tables) -> None:
    links = _shared_links(dataset)
    moved: list[tuple[str, str]] = []
    for group in _groups(links).values():
        here = [links[place] for place in group]
        candidates = [link for link in here if link[3] and link[4] is not None]
        if candidates:
            winner = min(candidates, key=lambda link: link[4])[1]
            moved += [(own_key, winner) for own_key in {link[1] for link in here} - {winner}]
    if not moved:
        return
    run = dataset.connection.execute
    with tables.values(moved, loser="VARCHAR", winner="VARCHAR") as given:
        run(f"CREATE TEMP TABLE moved AS SELECT * FROM {given}")
    run("DELETE FROM tool_calls WHERE call_key IN (SELECT loser FROM moved)")
    run("""
        UPDATE observations SET call_key = m.winner FROM moved AS m
        WHERE observations.call_key = m.loser""")
    results = dataset.rows("""
        SELECT r.result_key, m.winner, r.result_sha256 FROM tool_results AS r
        JOIN moved AS m ON m.loser = r.call_key""")
    run("DROP TABLE moved")
    renamed = [(old, keys.result(winner, sha256), winner) for old, winner, sha256 in results]
    if renamed:
        columns = {"old": "VARCHAR", "new": "VARCHAR", "winner": "VARCHAR"}
        with tables.values(renamed, **columns) as given:
            run(f"CREATE TEMP TABLE renamed AS SELECT * FROM {given}")
        _rename_results(dataset)
        run("DROP TABLE renamed")


def _rename_results(dataset: Dataset) -> None:
    """Give results of `renamed` to the winners' calls; equal ones become one, the earliest."""
    run = dataset.connection.execute
    run("""
        CREATE TEMP TABLE earliest AS
        SELECT m.new, min(r.returned_at_ms) AS returned, min(m.old) AS old, min(m.winner) AS winner
        FROM tool_results AS r JOIN renamed AS m ON m.old = r.result_key GROUP BY m.new""")
    run("""
        UPDATE tool_results SET returned_at_ms = e.returned FROM earliest AS e
        WHERE result_key = e.new AND e.returned IS NOT NULL
          AND (returned_at_ms IS NULL OR e.returned < returned_at_ms)""")
    run("""
        CREATE TEMP TABLE unknown AS
        SELECT e.* FROM earliest AS e ANTI JOIN tool_results AS r ON r.result_key = e.new""")
    run("""
        INSERT INTO tool_results
        SELECT u.new, u.winner, u.returned, r.is_error, r.output_text, r.output_json,
          r.result_sha256
        FROM tool_results AS r JOIN unknown AS u ON u.old = r.result_key""")
    run("DELETE FROM tool_results WHERE result_key IN (SELECT old FROM renamed)")
    run("""
        UPDATE observations SET result_key = m.new FROM renamed AS m
        WHERE observations.result_key = m.old""")
    run("DROP TABLE unknown")
    run("DROP TABLE earliest")


def _let_originals_tell(dataset: Dataset) -> None:
    """Give a copy's result to the original's with the same text, whatever else that one tells.

    A fork may copy what the model was given and leave out what happened. Then its result tells
    less of the same call, and is no variant of it. Where several originals have that text, all
    copies go to the one with the lowest key, also those that were given to another before it
    came. Read once more, a copy's result comes back without an observation: those it had are the
    original's by then.
    """
    run = dataset.connection.execute
    several = "SELECT call_key FROM tool_results GROUP BY ALL HAVING count(*) > 1"
    if not dataset.rows(f"{several} LIMIT 1"):
        return  # else all texts would be read
    run(f"""
        CREATE TEMP TABLE said AS
        SELECT r.call_key, r.result_key, r.text, bool_or(l.own_key IS NOT NULL) AS own
        FROM (SELECT call_key, result_key, sha256(output_text) AS text FROM tool_results
          SEMI JOIN ({several}) USING (call_key)) AS r
        LEFT JOIN observations AS o ON o.result_key = r.result_key
        LEFT JOIN private.call_links AS l
          ON l.source_item_key = o.source_item_key AND l.own_key = r.call_key
        GROUP BY ALL""")
    run("""
        CREATE TEMP TABLE told AS
        SELECT s.call_key, s.result_key AS old, s.own, t.new FROM said AS s
        JOIN (SELECT call_key, text, min(result_key) AS new FROM said WHERE own
          GROUP BY ALL) AS t
          ON t.call_key = s.call_key AND t.text = s.text
        WHERE s.result_key <> t.new""")
    run("""
        UPDATE observations SET result_key = t.new FROM told AS t
        WHERE observations.result_key = t.old AND NOT EXISTS (
          FROM private.call_links AS l
          WHERE l.source_item_key = observations.source_item_key AND l.own_key = t.call_key)""")
    run("DELETE FROM tool_results WHERE result_key IN (SELECT old FROM told WHERE NOT own)")
    run("DROP TABLE told")
    run("DROP TABLE said")


def _drop_unseen(dataset: Dataset, tables: Tables) -> list[int]:
    """Drop the calls and the results that no observation shows; gives how many of each."""
    counts = []
    for table, column in (("tool_calls", "call_key"), ("tool_results", "result_key")):
        gone = dataset.rows(f"SELECT {column} FROM {table} ANTI JOIN observations USING ({column})")
        counts.append(len(gone))
        if gone:
            with tables.values(gone, key="VARCHAR") as given:
                dataset.connection.execute(
                    f"DELETE FROM {table} WHERE {column} IN (SELECT key FROM {given})"
                )
    return counts


def _quarantine(dataset: Dataset, tables: Tables, run_key: str) -> None:
    """Set apart results right behind a malformed record whose call is nowhere.

    That record may have been the call, and cannot be recovered. Source: seed 003,
    "Implementation status".
    """
    found = dataset.rows("""
        SELECT x.source_item_key, x.result_key, x.line_number, x.byte_offset, x.record_sha256
        FROM private.suspects AS x
        JOIN tool_results AS r ON r.result_key = x.result_key
        ANTI JOIN tool_calls AS c ON c.call_key = r.call_key
        ORDER BY x.source_item_key, x.line_number""")
    if not found:
        return
    issues: dict[str, list[Issue]] = defaultdict(list)
    for item, _, line_number, byte_offset, record_sha256 in found:
        issues[item].append(
            Issue(
                "result_without_call",
                "a result right behind a malformed record has no call; it is set apart",
                line_number=line_number,
                byte_offset=byte_offset,
                record_sha256=record_sha256,
            )
        )
    rows = [
        row
        for item, own in issues.items()
        for row in issue_rows(own, run_key, item, (item, "behind"))
    ]
    run = dataset.connection.execute
    with tables.values([(row[0],) for row in rows], key="VARCHAR") as given:
        run(f"DELETE FROM import_issues WHERE issue_key IN (SELECT key FROM {given})")
    tables.insert("import_issues", rows)
    places = [(row[0], row[1]) for row in found]
    with tables.values(places, item="VARCHAR", key="VARCHAR") as given:
        run(f"""
            DELETE FROM observations
            WHERE (source_item_key, result_key) IN (SELECT (item, key) FROM {given})""")
        run(f"""
            DELETE FROM tool_results WHERE result_key IN (
              SELECT key FROM {given} ANTI JOIN observations ON result_key = key)""")
