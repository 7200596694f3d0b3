"""Places of a database whose records a changed item need not say again.

An observation holds the digest of its record. What an importer finds unchanged by that digest, it
leaves as it is (`Kept`), with all that stands on it. Source: seed 003, "Incremental imports".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from yarp.dataset.database import Dataset
    from yarp.dataset.tables import Row, Tables


def places(dataset: Dataset, item_key: str) -> dict[str, bytes]:
    """The places of an item, and the digest of the record that stood at each.

    Issues are made anew by each reading, so a place with one is not among them; where not all
    of them can be told by their places, and where calls are copies of others, none is.
    """
    whole = """
        SELECT EXISTS (FROM import_issues WHERE source_item_key = $1
            AND (sqlite_blob_id IS NULL OR occurrence_count > 1))
          OR EXISTS (FROM private.call_links WHERE source_item_key = $1
            AND group_key IS NOT NULL)"""
    if dataset.row(whole, [item_key])[0]:
        return {}
    return dict(
        dataset.rows(
            """
            SELECT sqlite_blob_id, min(record_sha256) FROM observations
            WHERE source_item_key = $1 AND sqlite_blob_id IS NOT NULL AND sqlite_blob_id NOT IN (
              SELECT sqlite_blob_id FROM import_issues WHERE source_item_key = $1)
            GROUP BY ALL HAVING min(record_sha256) = max(record_sha256)""",
            [item_key],
        )
    )


def read_anew(dataset: Dataset, tables: Tables, item_key: str, kept: Collection[str]) -> list[Row]:
    """The observations of an item at all places but those that are kept."""
    with tables.values(((place,) for place in kept), place="VARCHAR") as given:
        return dataset.connection.execute(
            f"SELECT o.* FROM observations AS o ANTI JOIN {given} ON place = o.sqlite_blob_id"
            " WHERE o.source_item_key = $1",
            [item_key],
        ).fetchall()


def unlink(dataset: Dataset, tables: Tables, item_key: str, kept: Collection[str]) -> None:
    """Forget which calls an item holds, but for those at places that are kept."""
    with tables.values(((place,) for place in kept), place="VARCHAR") as given:
        dataset.connection.execute(
            f"""
            DELETE FROM private.call_links WHERE source_item_key = $1 AND own_key NOT IN (
              SELECT call_key FROM observations SEMI JOIN {given} ON place = sqlite_blob_id
              WHERE source_item_key = $1 AND call_key IS NOT NULL)""",
            [item_key],
        )
