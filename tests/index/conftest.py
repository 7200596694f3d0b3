from __future__ import annotations

import importlib.util
import json
import pathlib
import sqlite3

import orjson
import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import Options, sync

ACME = pathlib.Path(__file__).with_name("acme.py")


@pytest.fixture(scope="session")
def acme():
    """The module of the tests' own runtime."""
    spec = importlib.util.spec_from_file_location("acme_for_tests", ACME)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Index:
    """An index in a directory of its own, over traces that a test writes."""

    def __init__(self, path, reader):
        self.path = str(path / "index.sqlite3")
        self.traces = path / "traces"
        self.traces.mkdir(parents=True, exist_ok=True)
        self.readers = {reader.runtime: reader}

    def another(self, path):
        """An index elsewhere, by the same readers."""
        (reader,) = self.readers.values()
        return Index(path, reader)

    def write(self, name, *records, mode="w"):
        """Write or append records (raw if they are bytes) to a trace file."""
        path = self.traces / name
        with path.open(f"{mode}b") as file:
            for record in records:
                line = record if isinstance(record, bytes) else json.dumps(record).encode()
                file.write(line + b"\n")
        return path

    def sync(self, **options):
        return sync(self.path, [str(self.traces)], self.readers, Options(**options))

    def all(self, sql, *values):
        """The rows of a query, as a reader sees them, as dicts."""
        connection = open_readonly(self.path)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]
        finally:
            connection.close()

    def items(self, where="1"):
        """Role, text and value of the items in their order."""
        found = self.all(
            "SELECT i.item_id, i.semantic, b.text FROM items i LEFT JOIN blobs b ON b.blob_id = "
            "coalesce(json_extract(semantic, '$.value.text.blob_id'), "
            f"json_extract(semantic, '$.value.summary.blob_id')) WHERE {where} "
            "ORDER BY i.session_id, i.loop_id, i.loop_position, i.item_id"
        )
        return [
            (row["item_id"], one["role"], row["text"], one["value"])
            for row in found
            for one in [orjson.loads(row["semantic"])]
        ]

    def dump(self):
        """All that is public, without what a rebuild may number anew."""
        tables = ("sources", "records", "sessions", "loops", "items", "blobs")
        return {name: self.all(f"SELECT * FROM {name} ORDER BY 1") for name in tables}


@pytest.fixture
def index(tmp_path, acme):
    """An index over traces of the tests' own runtime."""
    return Index(tmp_path, acme.READER)


@pytest.fixture(scope="session")
def conversation():
    """A session with one loop that has each kind of fact."""
    text = ACME.with_name("conversation.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
