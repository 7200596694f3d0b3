"""The dataset as files for other programs: Parquet by agent and month, JSON lines, trajectories.

Everything goes below one new private directory (0700, files 0600) that appears under its name
when it is whole. Parquet is written by pyarrow: the database's own access to files stays off.
Source: spec Dataset, "Beyond".
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from urllib.parse import quote

import duckdb
import orjson
import pyarrow as pa
from pyarrow import parquet

from yarp.dataset.atif import trajectory
from yarp.dataset.filters import Filters
from yarp.errors import DataError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from yarp.dataset.database import Dataset

    Progress = Callable[[int], None]

_BATCH_ROWS = 1024
# Of text, so that a census can divide its work; a reader of one file needs little memory.
_FILE_BYTES = 256 << 20
_GROUP_BYTES = 32 << 20
_UNKNOWN_MONTH = "unknown"

# One row for each call and distinct result; a call without a result has one, with NULLs.
ROWS = """
SELECT c.call_key, s.unix_user, s.agent, s.session_key, s.native_session_id,
       s.started_at_ms AS session_started_at_ms, c.native_call_id, c.native_worker_id,
       c.called_at_ms, c.provider, c.model, c.working_directory, c.tool_name, c.input_format,
       c.input_text, c.input_sha256, r.result_key, r.returned_at_ms, r.is_error, r.output_text,
       r.output_json, r.result_sha256
FROM tool_calls AS c JOIN sessions AS s USING (session_key) LEFT JOIN tool_results AS r
     USING (call_key)
"""
# Some stores have times that no calendar has.
_MONTH = "TRY(strftime(epoch_ms(c.called_at_ms), '%Y-%m'))"


def export(
    dataset: Dataset,
    directory: str,
    kind: str,
    filters: Filters | None = None,
    progress: Progress | None = None,
) -> int:
    """Write the calls that pass the filters as `kind` (parquet, jsonl, atif); how many rows.

    `directory` must not exist yet. `progress` is told how many rows are done.
    """
    write = {"parquet": _parquet, "jsonl": _jsonl, "atif": _atif}[kind]
    if os.path.lexists(directory):
        raise UsageError(f"{directory} is there already; name a new directory")
    directory = os.path.abspath(directory)
    unfinished = f"{directory}.{os.getpid()}.unfinished"
    mask = os.umask(0o077)
    try:
        os.mkdir(unfinished)
        done = write(dataset, unfinished, filters or Filters(), progress or (lambda _: None))
        os.rename(unfinished, directory)
    except duckdb.Error as error:
        raise DataError(f"{dataset.path} cannot be read: {type(error).__name__}") from error
    except OSError as error:
        raise StorageError(f"{directory}: {error.strerror or 'cannot be written'}") from error
    finally:
        os.umask(mask)
        shutil.rmtree(unfinished, ignore_errors=True)
    return done


def _parquet(dataset: Dataset, directory: str, filters: Filters, progress: Progress) -> int:
    """Files `agent=A/month=YYYY-MM/part-N.parquet`; the month of the call, in UTC."""
    where, values = filters.where()
    parts = dataset.rows(
        f"SELECT DISTINCT s.agent, {_MONTH} FROM tool_calls AS c "
        f"JOIN sessions AS s USING (session_key) WHERE {where} ORDER BY ALL",
        values,
    )
    done = 0
    for agent, month in parts:
        folder = os.path.join(
            directory, f"agent={quote(agent, safe='')}", f"month={month or _UNKNOWN_MONTH}"
        )
        os.makedirs(folder)
        rows = dataset.connection.sql(
            f"{ROWS} WHERE {where} AND s.agent = ? AND {_MONTH} IS NOT DISTINCT FROM ?",
            params=[*values, agent, month],
        ).to_arrow_reader(_BATCH_ROWS)
        files = _Files(folder, rows.schema)
        try:
            for batch in rows:
                files.write(batch)
                done += batch.num_rows
                progress(done)
        finally:
            files.close()
    return done


class _Files:
    """The Parquet files of one folder, begun as they are needed."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema
        self._writer: parquet.ParquetWriter | None = None
        self._number = 0
        self._written = 0
        self._group: list[pa.RecordBatch] = []
        self._group_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._group.append(batch)
        self._group_bytes += batch.nbytes
        if self._group_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and end the file."""
        self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if not self._group:
            return
        if self._writer is None:
            name = os.path.join(self._folder, f"part-{self._number:04d}.parquet")
            self._writer = parquet.ParquetWriter(name, self._schema, compression="zstd")
            self._number += 1
            self._written = 0
        self._writer.write_table(pa.Table.from_batches(self._group, self._schema))
        self._written += self._group_bytes
        self._group, self._group_bytes = [], 0
        if self._written >= _FILE_BYTES:
            self._writer.close()
            self._writer = None


def _jsonl(dataset: Dataset, directory: str, filters: Filters, progress: Progress) -> int:
    """One file `calls.jsonl`: a call a line, with its results."""
    done = 0
    with open(os.path.join(directory, "calls.jsonl"), "xb") as file:
        for call in _calls(dataset, filters, "c.call_key"):
            file.write(orjson.dumps(call, option=orjson.OPT_APPEND_NEWLINE))
            done += 1
            progress(done)
    return done


def _atif(dataset: Dataset, directory: str, filters: Filters, progress: Progress) -> int:
    """One file `AGENT/SESSION_KEY.json` for each session: an ATIF trajectory."""
    done = 0
    order = "s.agent, s.session_key, c.called_at_ms NULLS LAST, c.call_key"
    for calls in _sessions(_calls(dataset, filters, order)):
        folder = os.path.join(directory, quote(calls[0]["agent"], safe=""))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, calls[0]["session_key"] + ".json"), "xb") as file:
            file.write(orjson.dumps(trajectory(calls), option=orjson.OPT_INDENT_2))
        done += len(calls)
        progress(done)
    return done


def _sessions(calls: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    session: list[dict[str, Any]] = []
    for call in calls:
        if session and call["session_key"] != session[0]["session_key"]:
            yield session
            session = []
        session.append(call)
    if session:
        yield session


_RESULT = (
    "result_key",
    "returned_at_ms",
    "is_error",
    "output_text",
    "output_json",
    "result_sha256",
)


def _calls(dataset: Dataset, filters: Filters, order: str) -> Iterator[dict[str, Any]]:
    """The calls as plain values, each with its distinct `results`; digests in hexadecimal."""
    where, values = filters.where()
    reading = dataset.connection.execute(
        f"{ROWS} WHERE {where} ORDER BY {order}, r.result_key", values
    )
    columns = [column[0] for column in reading.description or ()]
    call: dict[str, Any] | None = None
    while rows := reading.fetchmany(_BATCH_ROWS):
        for row in rows:
            values_of = {
                name: value.hex() if isinstance(value, bytes) else value
                for name, value in zip(columns, row, strict=True)
            }
            result = {name: values_of.pop(name) for name in _RESULT}
            if call is None or call["call_key"] != values_of["call_key"]:
                if call is not None:
                    yield call
                call = {**values_of, "results": []}
            if result["result_key"] is not None:
                call["results"].append(result)
    if call is not None:
        yield call
