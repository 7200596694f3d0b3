"""The trace index on stores of three agents: cold, unchanged, one line appended, and asked.

200 MB as in `stores`, a live file of 50 MB, and every statement that the documentation shows.
Source: spec "Trace index", 9; the targets are 20 s, 0.4 s, 50 ms and 100 ms.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time

import orjson
import stores

from yarp.index.examples import EXAMPLES
from yarp.index.metadata import Metadata
from yarp.index.query import run as ask
from yarp.index.sync import sync
from yarp.plugins import Plugins
from yarp.settings import Settings

STORES_MB = 200
LIVE_BYTES = 50_000_000
REPETITIONS = 5
_SESSIONS = "SELECT runtime, native_id FROM sessions ORDER BY session_id LIMIT 50"


def run(out_dir: str) -> list[str]:
    """Measure; raw figures go to `index.jsonl` in `out_dir`, a row for each is returned."""
    readers = Plugins.load(Settings()).trace_readers()
    with (
        tempfile.TemporaryDirectory(prefix="yarp-bench-") as work,
        open(os.path.join(out_dir, "index.jsonl"), "w", encoding="utf-8") as raw,
    ):
        home = os.path.join(work, "home")
        stores.write(home, STORES_MB)
        roots = [
            path
            for reader in readers.values()
            for option in reader.options
            if option.default and os.path.exists(path := os.path.join(home, option.default))
        ]
        database = os.path.join(work, "index.sqlite3")
        report = [_first(database, roots, readers, raw), _again(database, roots, readers, raw)]
        report.append(_appended(work, roots, readers, raw))
        notes = os.path.join(work, "metadata.sqlite3")
        _note_sessions(database, notes)
        return report + [_asked(database, notes, example, raw) for example in EXAMPLES]


def _timed(work):
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done


def _note(raw, **figures):
    raw.write(json.dumps(figures) + "\n")


def _first(database, roots, readers, raw):
    took_s, done = _timed(lambda: sync(database, roots, readers))
    plain = done.plain()
    _note(raw, measure="cold", seconds=took_s, **plain["metrics"])
    assert not plain["failed_files"], plain["source_results"]
    return (
        f"cold sync of {done.source_bytes / 1e6:.0f} MB in {done.discovered} files: {took_s:.1f} s,"
        f" {done.items} items, database {done.size_after / 1e6:.0f} MB (target 20 s)"
    )


def _again(database, roots, readers, raw):
    times = [_timed(lambda: sync(database, roots, readers))[0] for _ in range(REPETITIONS)]
    _note(raw, measure="unchanged", seconds=times)
    return f"unchanged: {statistics.median(times) * 1000:.0f} ms (target 400 ms)"


def _appended(work, roots, readers, raw):
    """One more line of a session that is 50 MB long: its middle once more, many times."""
    paths = [
        os.path.join(directory, name)
        for root in roots
        for directory, _, names in os.walk(root)
        for name in names
    ]
    longest = max(paths, key=os.path.getsize)
    with open(longest, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    place = os.path.join(work, "live")
    os.mkdir(place)
    live = os.path.join(place, "live.jsonl")
    with open(live, "wb") as file:
        file.writelines(lines)
        while file.tell() < LIVE_BYTES:
            file.writelines(lines[5:])
    database = os.path.join(work, "live.sqlite3")
    sync(database, [place], readers)
    times = []
    for number in range(REPETITIONS * 2):
        with open(live, "ab") as file:
            file.write(lines[5 + number % (len(lines) - 5)])
        took_s, done = _timed(lambda: sync(database, [place], readers))
        assert done.actions["appended"] == 1, done.sources
        times.append(took_s)
    _note(raw, measure="append", seconds=times)
    return (
        f"one line appended to {os.path.getsize(live) / 1e6:.0f} MB, in process: "
        f"{statistics.median(times) * 1000:.1f} ms (target 50 ms)"
    )


def _note_sessions(database, notes):
    """Metadata of fifty sessions, such as somebody keeps."""
    sessions = json.loads(orjson.dumps(ask(database, _SESSIONS)["rows"]))
    with Metadata(notes, create=True) as kept:
        for session in sessions:
            kept.set(session["runtime"], session["native_id"], '{"done": true}', version=None)


def _asked(database, notes, example, raw):
    def answer():
        return ask(database, example.sql, metadata_database=notes)

    times = [_timed(answer) for _ in range(REPETITIONS)]
    rows = times[0][1]["returned"]
    assert rows, f"{example.name} finds nothing"
    seconds = [took_s for took_s, _ in times]
    _note(raw, measure="query", name=example.name, seconds=seconds, rows=rows)
    return (
        f"query {example.name}: {statistics.median(seconds) * 1000:.1f} ms, {rows} rows "
        "(target 100 ms)"
    )
