"""TraceSuite: what the trace readers of a plugin must hold to.

from yarp.testing.trace import TraceSuite

class TestAcmeTraces(TraceSuite):
    plugin = "acme"

    @pytest.fixture
    def traces(self, tmp_path):
        # lay out synthetic trace files of every kind of record
        return str(tmp_path / "sessions")
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from yarp.index.catalog import ROLE_BY_NAME
from yarp.index.discover import find
from yarp.index.facts import OUTCOMES, Drop, Item, LoopEnd
from yarp.index.frame import TraceFile
from yarp.index.semantic import encode
from yarp.index.store import open_readonly
from yarp.index.sync import Options, sync
from yarp.sources.jsonl import Line
from yarp.testing.files import facts_of
from yarp.testing.shapes import ODD, mutations
from yarp.testing.suite import PluginSuite

if TYPE_CHECKING:
    from pathlib import Path

    from yarp.index.facts import Fact
    from yarp.index.reader import TraceReader
    from yarp.index.report import Report
    from yarp.plugins import Plugins

_MOST_RECORD_BYTES = 16 << 20
_MOST_MUTATED_LINES = 80


class TraceSuite(PluginSuite):
    """Inherit it as `Test<Name>`, set `plugin`, give `traces`.

    A plugin without trace readers is skipped by name.
    """

    most_unknown = 0.01
    """How many of the items may be `runtime.unknown`, as a share."""

    @pytest.fixture
    def traces(self) -> str:
        """A directory of synthetic traces, of all the readers that the plugin declares."""
        raise NotImplementedError("give a fixture `traces`: the path of a directory of traces")

    @pytest.fixture
    def place(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A directory apart from the traces, for the index."""
        return tmp_path_factory.mktemp("index")

    @pytest.fixture
    def readers(self, loaded: Plugins) -> dict[str, TraceReader]:
        """What the plugin declares, by runtime."""
        declared = loaded.trace_readers()
        assert not loaded.problems, loaded.problems
        if not declared:
            pytest.skip(f"{self.plugin} declares no trace readers")
        return declared

    @pytest.fixture
    def files(self, traces: str, readers: dict[str, TraceReader]) -> dict[str, TraceReader]:
        """The reader of each trace file, by path; one by its first line alone."""
        paths, problems = find([traces])
        assert paths, "the directory holds no traces"
        assert not problems
        found = {}
        for path in paths:
            with TraceFile(path) as file:
                head = next(file.frames(_MOST_RECORD_BYTES))
            assert head.line is not None, f"{path}: its first line is {head.status}"
            fitting = [one for one in readers.values() if one.detect(head.line.value)]
            assert len(fitting) == 1, f"{path}: {len(fitting)} readers fit its first line"
            found[path] = fitting[0]
        return found

    def test_no_reader_takes_what_is_no_trace(self, readers: dict[str, TraceReader]) -> None:
        """Detection is asked about every JSON file below the roots."""
        for reader in readers.values():
            for value in (*ODD, {"type": "odd"}, {"id": 7, "type": ["odd"]}):
                assert reader.detect(value) is False, (reader.runtime, value)

    def test_every_trace_is_published_with_items(
        self, traces: str, readers: dict[str, TraceReader], place: Path
    ) -> None:
        """No source is skipped or fails, and what the reader says has the shapes of its roles."""
        report, told = _synced(str(place / "index.sqlite3"), [traces], readers)
        assert report.actions["indexed"] == report.discovered, _exceptions(report)
        assert told["sessions"]
        assert told["items"]
        roles = [item["role"] for item in told["items"]]
        unknown = roles.count("runtime.unknown")
        assert unknown <= self.most_unknown * len(roles), f"{unknown} of {len(roles)} are unknown"

    def test_any_cutting_into_appends_gives_the_same_index(
        self, traces: str, readers: dict[str, TraceReader], files: dict[str, Any], place: Path
    ) -> None:
        """The projector's state is all that it needs to go on, and nothing is held back."""
        _, whole = _synced(str(place / "whole.sqlite3"), [traces], readers)
        for number, cut in enumerate((1, 7)):
            root = place / f"cut{number}"
            database = str(place / f"cut{number}.sqlite3")
            lines = {path: _lines(path) for path in files}
            longest = max(len(one) for one in lines.values())
            for start in range(0, longest, cut):
                for path, own in lines.items():
                    below = os.path.relpath(path, os.path.realpath(traces)).removesuffix(".zst")
                    copy = root / below
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    with copy.open("ab") as file:
                        file.writelines(own[start : start + cut])
                report, told = _synced(database, [str(root)], readers)
                assert not report.actions["failed"], _exceptions(report)
                assert not report.actions["rebuilt"], "a state was not gone on from"
            for relation, rows in whole.items():
                assert told[relation] == rows, f"{relation} differ when {cut} lines come at a time"

    def test_reading_anew_gives_the_same_index(
        self, traces: str, readers: dict[str, TraceReader], place: Path
    ) -> None:
        """Keys hang on what is read: a rebuild finds every item under its id again."""
        database = str(place / "index.sqlite3")
        _synced(database, [traces], readers)
        before = _ids(database)
        report = sync(database, [traces], readers, Options(rebuild=True))
        assert report.actions["rebuilt"] == report.discovered, _exceptions(report)
        assert _ids(database) == before

    def test_a_record_of_unexpected_shape_is_no_exception(
        self, files: dict[str, TraceReader]
    ) -> None:
        """A runtime's next version writes something else: that costs no source its place."""
        for path, reader in files.items():
            projector = reader.project(path, None)
            for line in _parsed(path)[:_MOST_MUTATED_LINES]:
                state = projector.state()
                for value in mutations(line.value):
                    odd = Line(line.number, line.offset, line.data, value)
                    another = reader.project(path, state)
                    for fact in another.feed([odd]):
                        _sound(fact)
                    another.state()
                    reader.occurred_at(value)
                for _ in projector.feed([line]):
                    pass

    def test_traces_keep_their_bytes_modes_and_times(
        self, traces: str, readers: dict[str, TraceReader], place: Path
    ) -> None:
        """The traces belong to the agent: nothing is written beside them either."""
        before = facts_of([traces])
        _synced(str(place / "index.sqlite3"), [traces], readers)
        assert facts_of([traces]) == before


_TEXTS = ("key", "text", "call", "session", "loop", "sample", "native_id", "name", "id", "effort")
_NUMBERS = ("line", "created_at", "occurred_at", "context_window")


def _sound(fact: Fact) -> None:
    """What the index would refuse, and the whole source with it."""
    for names, kind in ((_TEXTS, str), (_NUMBERS, int)):
        for name in names:
            found = getattr(fact, name, None)
            if not (isinstance(fact, Drop) and name == "loop"):
                assert found is None or type(found) is kind, f"{fact!r}: {name} is {found!r}"
    if isinstance(fact, Item):
        shape = ROLE_BY_NAME[fact.role]
        value = dict(fact.value or {})
        if "has_images" in shape.members:
            value.setdefault("has_images", False)
        if fact.text is not None:
            value[shape.text] = {"blob_id": 1}
        encode(fact.role, value, heuristic=False, in_loop=fact.loop is not None)
    elif isinstance(fact, LoopEnd):
        assert fact.outcome is None or fact.outcome in OUTCOMES


def _exceptions(report: Report) -> list[tuple[str, str, str | None]]:
    return [
        (one["path"], one["action"], one.get("error"))
        for one in report.sources
        if one["action"] in ("skipped", "failed")
    ]


def _lines(path: str) -> list[bytes]:
    """The raw complete lines of a trace."""
    if path.endswith(".zst"):
        import zstandard

        with open(path, "rb") as file:
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            return reader.read().splitlines(keepends=True)
    with open(path, "rb") as file:
        return [line for line in file.read().split(b"\n")[:-1] for line in [line + b"\n"]]


def _parsed(path: str) -> list[Line]:
    with TraceFile(path) as file:
        return [frame.line for frame in file.frames(_MOST_RECORD_BYTES) if frame.line is not None]


def _rows(database: str, sql: str) -> list[dict[str, Any]]:
    connection = open_readonly(database)
    try:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]
    finally:
        connection.close()


def _synced(
    database: str, roots: list[str], readers: dict[str, TraceReader]
) -> tuple[Report, dict[str, list[Any]]]:
    """Sync, and all that the index then says, without the ids, which an order decides."""
    report = sync(database, roots, readers)
    items = []
    for row in _rows(
        database,
        "SELECT s.native_id, l.session_position, i.loop_position, i.occurred_at, i.semantic, "
        "b.text, (SELECT json_group_array(source_position) FROM (SELECT source_position "
        "FROM json_each(i.record_ids) JOIN records ON record_id = value ORDER BY 1)) AS lines "
        "FROM items AS i JOIN sessions AS s USING (session_id) "
        "LEFT JOIN loops AS l USING (loop_id) LEFT JOIN blobs AS b ON b.blob_id = coalesce("
        "json_extract(semantic, '$.value.text.blob_id'), "
        "json_extract(semantic, '$.value.summary.blob_id'))",
    ):
        semantic = orjson.loads(row.pop("semantic"))
        value = {
            name: name if name.endswith("_id") or name in ("text", "summary") else one
            for name, one in semantic.pop("value").items()
        }
        items.append({**row, **semantic, "value": value})
    loops = _rows(
        database,
        "SELECT s.native_id AS session, l.session_position, l.native_id, l.model, l.usage, "
        "b.source_position AS begins, e.source_position AS ends, "
        "json_extract(l.end, '$.outcome') AS outcome "
        "FROM loops AS l JOIN sessions AS s USING (session_id) "
        "JOIN records AS b ON b.record_id = l.start_record_id "
        "LEFT JOIN records AS e ON e.record_id = json_extract(l.end, '$.record_id')",
    )
    sessions = _rows(
        database,
        "SELECT runtime, native_id, created_at, name, working_directory, "
        "forked_from IS NULL AS unforked, delegated_from IS NULL AS own FROM sessions",
    )
    told = {"sessions": sessions, "loops": loops, "items": items}
    return report, {name: sorted(rows, key=repr) for name, rows in told.items()}


def _ids(database: str) -> list[Any]:
    return [
        _rows(database, f"SELECT * FROM {relation} ORDER BY 1")  # noqa: S608 - names of ours
        for relation in ("sources", "sessions", "loops", "items")
    ]
