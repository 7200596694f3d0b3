"""The raw records behind the index: verified, shown within bounds, exported.

The bytes stay in the trace file, so nothing is shown or written before they are found as they
were indexed. Source: spec "Trace index", 10 (Records).
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from attrs import frozen

from yarp.errors import DataError, ReferenceUnknown, StorageError, UsageError
from yarp.index.assets import externalize, pointed_at, unpack
from yarp.index.frame import TraceFile
from yarp.index.store import open_readonly
from yarp.index.text import json_bytes
from yarp.sources.values import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_EXPORTED_BYTES = 16 << 20
MOST_ASSET_BYTES = 32 << 20
_LEAST_VALUE_BYTES = 64
_MOST_DIGITS = 18


@frozen
class Record:
    """A record as it was indexed."""

    id: int
    path: str
    runtime: str
    seq: int
    offset: int
    length: int
    sha256: bytes
    status: str
    error: str | None


def find(database: str, record_id: int) -> Record:
    """The record of that id. ReferenceUnknown if there is none."""
    connection = open_readonly(database)
    try:
        row = connection.execute(
            "SELECT r.id, s.path, s.runtime, r.seq, r.byte_offset, r.byte_length, r.raw_hash, "
            "r.parse_status, r.parse_error FROM trace_records AS r "
            "JOIN trace_sources AS s ON s.id = r.source_id WHERE r.id = ?",
            (record_id,),
        ).fetchone()
    finally:
        connection.close()
    if row is None:
        raise ReferenceUnknown(f"there is no record {record_id} in this index")
    return Record(*row)


def verify(database: str, record_id: int) -> dict[str, Any]:
    """Whether the bytes of a record are where and as they were indexed."""
    return check(find(database, record_id))


def check(record: Record) -> dict[str, Any]:
    """As `verify`: verified, source_missing, source_short or hash_mismatch."""
    told: dict[str, Any] = {
        "record_id": record.id,
        "status": "source_missing",
        "expected_hash": record.sha256.hex(),
        "expected_bytes": record.length,
        "actual_bytes": 0,
    }
    digest = hashlib.sha256()
    actual = 0
    try:
        for chunk in _chunks(record):
            digest.update(chunk)
            actual += len(chunk)
    except OSError:
        return told
    except DataError:  # a compressed file that is none any more
        return {**told, "status": "hash_mismatch", "actual_bytes": actual}
    told |= {"actual_bytes": actual, "actual_hash": digest.hexdigest()}
    if actual < record.length:
        return {**told, "status": "source_short"}
    same = digest.digest() == record.sha256
    return {**told, "status": "verified" if same else "hash_mismatch"}


def _chunks(record: Record) -> Iterator[bytes]:
    with TraceFile(record.path) as file:
        yield from file.content(record.offset, record.length)


def _read(record: Record) -> tuple[str, bytes]:
    """The status of a record, and its bytes if it is verified."""
    try:
        data = b"".join(_chunks(record))
    except OSError:
        return "source_missing", b""
    except DataError:
        return "hash_mismatch", b""
    if len(data) < record.length:
        return "source_short", b""
    same = hashlib.sha256(data).digest() == record.sha256
    return ("verified", data) if same else ("hash_mismatch", b"")


def inspect(
    database: str,
    record_id: int,
    *,
    max_record_bytes: int = 16 << 20,
    max_value_bytes: int = 16 << 10,
    max_output_bytes: int = 64 << 10,
) -> dict[str, Any]:
    """A record and what it says, with what is too large for an answer put aside.

    In place of such a value stands `{"$trace_ref": {...}}`: an asset (`asset extract` gets it),
    a long value, or the whole record (`record export`), with the reason.
    """
    record = find(database, record_id)
    told: dict[str, Any] = {
        "record": {
            "id": record.id,
            "source": {"adapter": record.runtime, "uri": f"file://{quote(record.path)}"},
            "seq": record.seq,
            "byte_offset": record.offset,
            "byte_length": record.length,
            "raw_hash": record.sha256.hex(),
            "parse": {"status": record.status}
            | ({} if record.error is None else {"error": record.error}),
            "oversized": record.status == "oversized",
        }
    }
    if record.length > max_record_bytes:
        status, data = check(record)["status"], b""
        reason: str | None = "record_over_limit"
    else:
        status, data = _read(record)
        reason = None
    if status != "verified":
        reason = status
    value: Any = None
    if reason is None:
        try:
            value = parse_json(data.removeprefix(b"\xef\xbb\xbf"), beyond=True)[0]
        except ValueError:
            reason = "malformed"
    put_aside = 0
    limit = max_value_bytes
    while reason is None:
        shown, put_aside = externalize(value, record.id, limit)
        encoded = json_bytes(shown)
        if len(encoded) <= max_output_bytes:
            break
        limit //= 4
        if limit < _LEAST_VALUE_BYTES:
            reason = "output_budget"
    if reason is not None:
        reference = {
            "kind": "record",
            "reference": f"{record.id}#",
            "record_id": record.id,
            "json_pointer": "",
            "byte_length": record.length,
            "reason": reason,
        }
        encoded, put_aside = orjson.dumps({"$trace_ref": reference}), 1
    return told | {
        "raw_verified": status == "verified",
        "representation": orjson.Fragment(encoded),
        "externalized_values": put_aside,
        "representation_bytes": len(encoded),
    }


def export(
    database: str,
    record_id: int,
    output: str,
    *,
    max_bytes: int = MOST_EXPORTED_BYTES,
    force: bool = False,
) -> dict[str, Any]:
    """Write the verified bytes of a record to a file of its own."""
    record = find(database, record_id)
    data = _verified(record, max_bytes)
    write_private(output, data, force=force)
    return {
        "record_id": record.id,
        "output": output,
        "byte_length": len(data),
        "sha256": record.sha256.hex(),
    }


def extract(
    database: str,
    reference: str,
    output: str,
    *,
    max_record_bytes: int = 16 << 20,
    max_bytes: int = MOST_ASSET_BYTES,
    force: bool = False,
) -> dict[str, Any]:
    """Write the asset that `RECORD_ID#/json/pointer` names: a data URI, or a base64 image."""
    number, mark, pointer = reference.partition("#")
    if not mark or not number.isdecimal() or len(number) > _MOST_DIGITS:
        raise UsageError("a reference is RECORD_ID#/json/pointer, as record inspect shows it")
    record = find(database, int(number))
    data = _verified(record, max_record_bytes)
    try:
        value = parse_json(data, beyond=True)[0]
    except ValueError:
        raise DataError(f"record {record.id} holds no JSON, so no asset") from None
    asset, media_type = unpack(*pointed_at(value, pointer))
    if len(asset) > max_bytes:
        raise DataError(f"the asset has {len(asset)} bytes, more than {max_bytes}: --max-bytes")
    write_private(output, asset, force=force)
    return {
        "reference": reference,
        "media_type": media_type,
        "output": output,
        "byte_length": len(asset),
        "sha256": hashlib.sha256(asset).hexdigest(),
    }


def _verified(record: Record, max_bytes: int) -> bytes:
    if record.length > max_bytes:
        raise DataError(f"record {record.id} has {record.length} bytes, more than {max_bytes}")
    status, data = _read(record)
    if status != "verified":
        raise DataError(f"record {record.id}: {status}; nothing was written")
    return data


def write_private(path: str, data: bytes, *, force: bool) -> None:
    """Write a file of mode 0600; one that is there is replaced only with `force`."""
    if path == "-":
        # Standard output has the report.
        raise UsageError("a file is written, not standard output; one of that name is ./-")
    partial = f"{path}.{os.getpid()}.partial"
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(data)
            if force:
                os.replace(partial, path)
            else:
                os.link(partial, path)
        finally:
            if os.path.lexists(partial):
                os.unlink(partial)
    except FileExistsError:
        raise UsageError(f"{path} is there already; give --force to replace it") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from error
