"""Takes the content of one call out of the archive and leaves the call.

Each snapshot points to a tombstone that states when, and the digest and length of what
was there. The old bytes are overwritten, not only unlinked. Source: spec "Archive",
Smaller rules.
"""

from __future__ import annotations

import json
import os
import re

import attrs

from yarp import canonical, payload, sqlite
from yarp.archive import migrate, upkeep
from yarp.archive.write import Archive
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, ReferenceUnknown

_TOMBSTONE_BYTES = 512  # a real one has about 150; longer payloads are not even read
_HEX64 = re.compile(r"[0-9a-f]{64}")


@attrs.frozen
class Redacted:
    """What `redact` did to one call.

    `shared_with` names the other calls that hold some of the same bytes; those bytes stay
    until these calls are redacted too. `incomplete` says that the call has not finished:
    what is captured later is not redacted. `backup` is the file of a migration that still
    holds the call as it was, if there is one.
    """

    archive_ref: str
    snapshots: int
    deleted_payloads: int
    shared_with: tuple[str, ...]
    incomplete: bool
    backup: str | None


def redact(path: str, archive_ref: str, redacted_at_ms: int, *, narrow: bool = False) -> Redacted:
    """Replace every snapshot of the call and destroy the bytes that only it held.

    The same again changes no snapshot and cleans the files again. `narrow` is as in
    `Archive.open`. Raises ReferenceUnknown without such a call, and ArchiveUnavailable when
    the call is redacted and other processes keep the old bytes in the write-ahead log.
    """
    upkeep.require_archive(path)
    Archive.open(path, narrow=narrow).close()  # checks its modes and version, and migrates it
    connection = sqlite.connect(path, busy_timeout_ms=upkeep.BUSY_TIMEOUT_MS)
    try:
        connection.execute("PRAGMA secure_delete = ON").fetchone()
        with sqlite.transaction(connection, path):
            redacted = _replace(connection, path, archive_ref, redacted_at_ms)
        # Cells that SQLite moved in earlier times lie about in pages still in use:
        # only a file written anew is surely clean. First the log, should that fail.
        clean = upkeep.checkpoint(connection)
        upkeep.vacuum(connection, path)
        clean = upkeep.checkpoint(connection) and clean
    except sqlite.Error as error:
        raise sqlite.classify(error, path) from error
    finally:
        connection.close()
    if not clean:
        raise ArchiveUnavailable(
            f"{archive_ref} is redacted, but another process is reading, so old bytes may still "
            f"be in {path}-wal; run this command again when it has finished"
        )
    return redacted


def _replace(
    connection: sqlite.Connection, path: str, archive_ref: str, redacted_at_ms: int
) -> Redacted:
    call = connection.execute(
        "SELECT id, status FROM tool_calls WHERE archive_ref = ?", (archive_ref,)
    ).fetchone()
    if call is None:
        raise ReferenceUnknown(f"{archive_ref} names no call; see: yarp calls")
    call_id, status = call
    old = connection.execute(
        "SELECT DISTINCT sha256, uncompressed_byte_length, compression, "
        "CASE WHEN uncompressed_byte_length <= ? THEN body END "
        "FROM snapshots JOIN payloads ON sha256 = payload_sha256 WHERE tool_call_id = ?",
        (_TOMBSTONE_BYTES, call_id),
    ).fetchall()
    snapshots = deleted = 0
    shared: set[str] = set()
    for sha256, byte_length, compression, body in old:
        if not isinstance(sha256, bytes) or not isinstance(byte_length, int):
            raise ArchiveCorrupt(
                f"{path}: a payload of {archive_ref} has no valid digest or length; "
                "run: yarp archive verify"
            )
        if isinstance(body, bytes) and compression == "none" and _is_tombstone(body):
            continue
        stone = payload.of(
            canonical.encode(
                {
                    "yarpRedacted": {
                        "byteLength": byte_length,
                        "redactedAtMs": redacted_at_ms,
                        "sha256": sha256.hex(),
                    }
                }
            )
        )
        connection.execute(
            "INSERT INTO payloads (sha256, compression, uncompressed_byte_length, body) "
            "VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (stone.sha256, stone.compression, stone.byte_length, stone.body),
        )
        snapshots += connection.execute(
            "UPDATE snapshots SET payload_sha256 = ?, media_type = "
            "CASE WHEN media_type = 'application/octet-stream' "
            "THEN 'text/plain; charset=utf-8' ELSE media_type END "
            "WHERE tool_call_id = ? AND payload_sha256 = ?",
            (stone.sha256, call_id, sha256),
        ).rowcount
        others = connection.execute(
            "SELECT DISTINCT archive_ref FROM snapshots "
            "JOIN tool_calls ON tool_calls.id = tool_call_id WHERE payload_sha256 = ?",
            (sha256,),
        ).fetchall()
        if not others:
            connection.execute("DELETE FROM payloads WHERE sha256 = ?", (sha256,))
            deleted += 1
        elif byte_length:  # an empty stream is everybody's and tells nothing
            shared.update(reference for (reference,) in others)
    backup = path + migrate.BACKUP_SUFFIX
    return Redacted(
        archive_ref=archive_ref,
        snapshots=snapshots,
        deleted_payloads=deleted,
        shared_with=tuple(sorted(shared)),
        incomplete=status == "started",
        backup=backup if os.path.exists(backup) else None,
    )


def _is_tombstone(body: bytes) -> bool:
    """Whether these bytes are a tombstone to the letter; a look-alike would hold nothing else."""
    try:
        stone = json.loads(body)["yarpRedacted"]
        at_ms, length, digest = stone["redactedAtMs"], stone["byteLength"], stone["sha256"]
    except (ValueError, TypeError, KeyError):
        return False
    return (
        isinstance(at_ms, int)
        and isinstance(length, int)
        and isinstance(digest, str)
        and _HEX64.fullmatch(digest) is not None
        and body
        == canonical.encode(
            {"yarpRedacted": {"byteLength": length, "redactedAtMs": at_ms, "sha256": digest}}
        )
    )
