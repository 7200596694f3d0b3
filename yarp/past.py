"""YARP's own archive into the dataset, so that live and past calls stand in one place.

The calls stand under the agent `yarp`, each in a session named AGENT/ACCOUNT/SESSION: what their
own agents kept of them is another matter, and may be what YARP had shortened. A call's text is
what the archive gives back: its standard output, else the text of its result. Source: spec
"Dataset of past tool calls".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import orjson

from yarp import paths
from yarp.archive.read import CallRow, Reader, Source
from yarp.errors import ArchiveCorrupt, YarpError
from yarp.sources.content import without_copies
from yarp.sources.facts import Call, Issue, Kept, Observation, Rejected, Result, Session
from yarp.sources.importers import Importer, SourceItem, SourceOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from yarp.sources.facts import SourceFact

AGENT = "yarp"
LARGEST_TEXT_BYTES = 256 << 20


def importer() -> Importer:
    """The declaration."""
    share = os.path.dirname(paths.data_dir())
    home = os.path.expanduser("~")
    usual = os.path.join(share, "yarp", "tool-calls.sqlite3")
    return Importer(
        AGENT,
        adapter_version=2,
        options=[
            SourceOption(
                "archive",
                kind="file",
                help="The archive of live calls.",
                default=os.path.relpath(usual, home) if usual.startswith(home + os.sep) else None,
            )
        ],
        discover=discover,
        read=facts,
    )


def discover(roots: Mapping[str, str]) -> Iterator[SourceItem | Issue]:
    """The archive."""
    yield SourceItem("archive", roots["archive"], "", database=True)


def facts(item: SourceItem) -> Iterator[SourceFact]:
    """What the archive holds, the oldest call last; of what is as it was, only that."""
    connection = item.sqlite()
    try:
        reader = Reader.over(item.path, connection)
    except YarpError as error:
        raise Rejected("unsupported_yarp_source", str(error)) from error
    for *names, started_at_ms in connection.execute(
        "SELECT agent, account, source_session_id, started_at_ms FROM sessions"
    ):
        yield Session("/".join(names), started_at_ms)
    for row, digest in reader.states():
        if item.places.get(row.archive_ref) == digest:
            yield Kept(row.archive_ref)
        else:
            yield from _call(reader, row, digest)


def _call(reader: Reader, row: CallRow, digest: bytes) -> Iterator[SourceFact]:
    snapshots = reader.snapshots(row.call_id)
    before = snapshots.get(("input", "before"))
    session = f"{row.agent}/{row.account}/{row.source_session_id}"
    try:
        value = None if before is None else orjson.loads(reader.payload(before.sha256))
        beside, text = _output(reader, row, snapshots)
    except ArchiveCorrupt:
        what = "a payload of the call is damaged; see: yarp archive verify"
        yield Issue("damaged_payload", what, "error", sqlite_blob_id=row.archive_ref)
        return
    identity = (row.agent, row.account, row.source_session_id, row.source_call_id)
    call = Call(
        identity,
        session,
        row.tool_name,
        value,
        native_call_id=row.source_call_id,
        called_at_ms=row.started_at_ms,
        provider=row.provider,
        model=row.model,
        working_directory=row.working_directory,
    )
    yield from (call, _seen(row, call, "tool_call", digest))
    if row.status != "finished":
        return
    result = Result(
        identity,
        output_text=text if text is not None or beside else "",
        output_json=beside or None,
        is_error=row.is_error,
        returned_at_ms=row.finished_at_ms,
    )
    yield from (result, _seen(row, result, "result", digest))


def _seen(row: CallRow, target: Call | Result, kind: str, digest: bytes) -> Observation:
    return Observation(
        target,
        kind,
        sqlite_rowid=row.call_id,
        sqlite_blob_id=row.archive_ref,
        record_sha256=digest,
    )


def _output(
    reader: Reader, row: CallRow, snapshots: Mapping[tuple[str, str], Source]
) -> tuple[dict[str, Any], str | None]:
    """What was beside the text of the result, and the text."""
    beside: dict[str, Any] = {}
    texts: dict[str, str] = {}
    incomplete = []
    for source in reader.sources(row):
        text = _text(reader, source)
        if text is not None:
            texts[source.name] = text
        else:
            shown = {"byteLength": source.byte_length, "sha256": source.sha256.hex()}
            beside[source.name] = shown | {"mediaType": source.media_type}
        if source.completeness != "complete":
            incomplete.append(source.name)
    if texts.get("stderr"):
        beside["stderr"] = texts["stderr"]
    if incomplete:
        beside["incomplete"] = incomplete
    result = snapshots.get(("result", "before"))
    if result is not None and result.byte_length <= LARGEST_TEXT_BYTES:
        value = orjson.loads(reader.payload(result.sha256))
        code = value.get("exitCode") if isinstance(value, dict) else None
        if isinstance(code, int):
            beside["exitCode"] = code
        kept = without_copies(value, *texts.values())
        if kept is not None:
            beside["result"] = kept
    if row.executed is False:
        beside["executed"] = False
    text = next((texts[name] for name in texts if name != "stderr"), None)
    return beside, text


def _text(reader: Reader, source: Source) -> str | None:
    """The source as text; None where it is none, or too large to be held."""
    if source.byte_length > LARGEST_TEXT_BYTES or source.media_type == "application/octet-stream":
        return None
    data = reader.payload(source.sha256)
    if source.media_type == "application/json":
        value = orjson.loads(data)
        return value if isinstance(value, str) else None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
