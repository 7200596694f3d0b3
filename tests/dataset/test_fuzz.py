"""Fuzz targets: they find no crash, and every row that they leave is whole. Not run by default."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_agent import Store

from yarp.dataset import report
from yarp.dataset.database import Dataset
from yarp.sources.facts import Rejected
from yarp.sources.jsonl import JsonlFile

pytestmark = pytest.mark.slow
FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    [
        "id",
        "input",
        "form",
        "at",
        "tool",
        "session",
        "identity",
        "copy",
        "text",
        "json",
        "error",
        "kind",
    ]
)
records = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["session", "call", "result", "note", "fact"]) | json_values,
        "id": st.text(max_size=2) | json_values,
    }
).flatmap(
    lambda base: st.dictionaries(keys, json_values, max_size=4).map(lambda more: {**more, **base})
)
whole_lines = (records | json_values).map(lambda value: json.dumps(value).encode())
damaged = st.tuples(whole_lines, st.integers(0, 80), st.binary(max_size=3)).map(
    lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] :]
)
files = st.lists(whole_lines | damaged | st.binary(max_size=40), max_size=12).map(b"\n".join)


@FUZZ
@given(st.lists(st.tuples(files, files), min_size=1, max_size=3))
def test_any_files_import_to_whole_rows_and_again_to_the_same(contents):
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory))
        for turn in range(2):
            for number, pair in enumerate(contents):
                path = store.sessions / f"{number}.jsonl"
                path.write_bytes(b'{"type": "session", "id": "s"}\n' + pair[turn])
            store.extract()
            with Dataset.read(store.database) as dataset:
                found = report.verify(dataset)
            faults = [
                name
                for name in found
                if name.startswith(("damaged", "bad", "unobserved", "orphan_calls", "orphan_obs"))
            ]
            assert not any(found[name] for name in faults), found
        before = store.everything()
        store.extract()
        assert store.everything() == before
        fresh = Store(Path(directory) / "fresh")
        fresh.sessions.rmdir()
        store.sessions.rename(fresh.sessions)
        fresh.extract()
        if not store.rows("SELECT 1 FROM source_items WHERE status = 'rejected'"):
            for table in ("tool_calls", "tool_results", "sessions"):
                statement = f"SELECT * FROM {table} ORDER BY ALL"
                if table != "sessions":  # a session stays when its calls have gone
                    assert fresh.rows(statement) == store.rows(statement)


@FUZZ
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_read_to_their_end(data, compressed):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / ("a.jsonl.zst" if compressed else "a.jsonl")
        path.write_bytes(data)
        with JsonlFile(str(path)) as file:
            try:
                for line in file.lines():
                    assert data[line.offset :].startswith(line.data) or compressed
            except Rejected as refused:
                code = refused.issue.code
            else:
                code = None
                file.verify()
        whole = len(data) if compressed else data.rfind(b"\n") + 1
        assert code == "malformed_zstd" if code else file.complete_byte_count == whole
