"""What the index holds: sources, and the roles that each runtime's items have."""

from __future__ import annotations

from typing import Any

from yarp.index.catalog import ROLE_BY_NAME, ROLES
from yarp.index.store import STORAGE_FORMAT, open_readonly


def status(database: str) -> dict[str, Any]:
    """As `index status` prints it; no content of any item is in it."""
    connection = open_readonly(database)
    try:
        policy = connection.execute(
            "SELECT max_indexed_record_bytes, max_published_text_bytes FROM indexing_policy"
        ).fetchone()
        sources, size, indexed, partial = connection.execute(
            "SELECT count(*), coalesce(sum(file_size), 0), coalesce(sum(indexed_bytes), 0), "
            "coalesce(sum(status = 'partial'), 0) FROM trace_sources"
        ).fetchone()
        counted = connection.execute(
            "SELECT json_extract(semantic, '$.role'), runtime, count(*) FROM domain_items AS i "
            "JOIN trace_sources AS s ON s.id = i.source_id GROUP BY 1, 2 ORDER BY 2"
        ).fetchall()
    finally:
        connection.close()
    roles: dict[str, dict[str, int]] = {role.name: {} for role in ROLES}
    for role, runtime, items in counted:
        roles[role][runtime] = items
    told: dict[str, Any] = {"storage_format": STORAGE_FORMAT}
    if policy is not None:
        told["indexing_policy"] = {
            "max_indexed_record_bytes": policy[0],
            "max_published_text_bytes": policy[1],
        }
    return told | {
        "sources": sources,
        "source_bytes": size,
        "indexed_bytes": indexed,
        "incomplete_sources": partial,
        "observed_roles": [
            {
                "semantic_role": name,
                "adapters": sorted(by_runtime),
                "items": sum(by_runtime.values()),
                "note": ROLE_BY_NAME[name].description,
            }
            for name, by_runtime in roles.items()
            if by_runtime
        ],
    }
