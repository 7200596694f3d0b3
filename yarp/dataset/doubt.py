"""Items to be read again: an original has lost what their copies were given to.

What a copy tells by itself is kept nowhere else. An item in doubt has no checkpoint, so it is
read at the end of the run or by the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import duckdb

    from yarp.dataset.tables import Row, Tables

# Items that show the targets, and of which calls.
_CALLS = """
    SELECT source_item_key AS item, call_key AS call
    FROM observations JOIN {targets} ON call_key = key"""
_RESULTS = """
    SELECT o.source_item_key AS item, r.call_key AS call
    FROM observations AS o JOIN {targets} ON o.result_key = key
    JOIN tool_results AS r ON r.result_key = key"""


def put(connection: duckdb.DuckDBPyConnection, tables: Tables, items: Collection[str]) -> None:
    """Put items in doubt."""
    if items:
        with tables.values([(key,) for key in items], key="VARCHAR") as given:
            connection.execute(
                "DELETE FROM private.checkpoints"
                f" WHERE source_item_key IN (SELECT key FROM {given})"
            )


def among(
    connection: duckdb.DuckDBPyConnection, tables: Tables, items: Collection[str]
) -> set[str]:
    """Those of the items that are in doubt."""
    if not items:
        return set()
    with tables.values([(key,) for key in items], key="VARCHAR") as given:
        found = connection.execute(
            f"SELECT key FROM {given} ANTI JOIN private.checkpoints ON source_item_key = key"
        ).fetchall()
    return {key for (key,) in found}


def put_copies(connection: duckdb.DuckDBPyConnection, tables: Tables, lost: Sequence[Row]) -> None:
    """Put the items in doubt that show, as a copy, what these lost observations had shown."""
    for place, shown in ((2, _CALLS), (3, _RESULTS)):
        targets = {(row[place],) for row in lost if row[place] is not None}
        if not targets:
            continue
        with tables.values(targets, key="VARCHAR") as given:
            found = connection.execute(f"""
                SELECT DISTINCT item FROM ({shown.format(targets=given)})
                ANTI JOIN private.call_links ON source_item_key = item AND own_key = call
                """).fetchall()
        put(connection, tables, [key for (key,) in found])
