"""Cursor's stores in the dataset: what is current, what a growing store adds, what never enters."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
from yarp.dataset.report import issues, verify
from yarp.plugin import Importer
from yarp_cursor.importer import ADAPTER_VERSION, OPTIONS, discover, read


def _module(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"yarp_cursor_dataset_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


stores = _module("stores")
CURSOR = Importer(
    "cursor", adapter_version=ADAPTER_VERSION, options=OPTIONS, discover=discover, read=read
)


class Taken:
    """Chats with their transcripts, and the dataset of them."""

    def __init__(self, path):
        self.roots = {flag: str(path / flag) for flag in ("chats", "projects")}
        for root in self.roots.values():
            Path(root).mkdir()
        (path / "data").mkdir(mode=0o700)
        self.database = str(path / "data" / "toolcalls.duckdb")

    def write(self, store, *uses, **how):
        store.write(f"{self.roots['chats']}/bucket/agent-1/store.db", **how)
        name = f"{self.roots['projects']}/demo/agent-transcripts/agent-1/agent-1.jsonl"
        stores.transcript(name, *uses)

    def take(self):
        with Dataset.write(self.database) as dataset:
            return extract(dataset, CURSOR, "ada", self.roots)

    def rows(self, statement):
        with Dataset.read(self.database) as dataset:
            return dataset.rows(statement)

    def told(self):
        with Dataset.read(self.database) as dataset:
            return verify(dataset), [one["code"] for one in issues(dataset)]


@pytest.fixture
def taken(tmp_path):
    return Taken(tmp_path)


LS = ("Shell", {"command": "ls"})
CURRENT = """
    SELECT native_call_id, is_current, sequence_number FROM observations
    JOIN tool_calls USING (call_key) WHERE record_kind = 'canonical' ORDER BY ALL"""
VALIDATED = """
    SELECT native_call_id, sequence_number FROM observations
    JOIN tool_calls USING (call_key) WHERE record_kind = 'validation' ORDER BY ALL"""


def test_a_store_that_grows_and_is_rewound_says_what_is_current_now(taken):
    store = stores.Store()
    first, second = store.pair("c1"), store.pair("c2")
    store.root(*first, *second)
    taken.write(store, LS, LS)
    taken.take()
    assert taken.rows(CURRENT) == [("c1", True, 0), ("c2", True, 2000)]
    assert taken.rows(VALIDATED) == [("c1", 0), ("c2", 1)]
    assert taken.take().unchanged == 2
    # The second call is taken back, and a third one is made; all this stands only in the log.
    store.root(*first, *store.pair("c3"))
    taken.write(store, LS, LS, in_log=3)
    taken.take()
    assert taken.rows(CURRENT) == [("c1", True, 0), ("c2", False, None), ("c3", True, 2000)]
    assert taken.rows(VALIDATED) == [("c1", 0), ("c3", 1)]
    told, found = taken.told()
    assert told["valid"]
    assert found == []


def test_neither_prose_nor_keys_enter_the_dataset(taken):
    store = stores.Store()
    prompt = store.json({"role": "user", "content": [{"type": "text", "text": "planted-prompt"}]})
    thought = {"type": "reasoning", "text": "planted-thought"}
    call = stores.call("c1", args={"command": "planted-control"})
    message = store.assistant(thought, {"type": "text", "text": "planted-prose"}, call)
    store.root(prompt, message, store.tool(stores.result("c1")))
    taken.write(store, ("Shell", {"command": "planted-control"}))
    taken.take()
    held = set()
    with Dataset.read(taken.database) as dataset:
        columns = dataset.rows("""
            SELECT table_schema, table_name, column_name FROM information_schema.columns
            WHERE data_type IN ('VARCHAR', 'BLOB')""")
        for schema, table, column in columns:
            for (text,) in dataset.rows(f'SELECT "{column}"::VARCHAR FROM "{schema}"."{table}"'):
                for planted in ("planted", stores.SECRET):
                    if planted in (text or ""):
                        held.add((table, column, planted))
    assert len(columns) > 50
    assert {one for one in held if one[0] == "tool_calls"} == {
        ("tool_calls", "input_text", "planted")
    }
    assert {one for one in held if one[2] == stores.SECRET} == set()
    (text,) = taken.rows("SELECT input_text FROM tool_calls")
    assert text == ('{"command":"planted-control"}',)
    data = Path(taken.database).read_bytes()
    assert b"planted-pro" not in data
    assert b"planted-thought" not in data
    assert stores.SECRET.encode() not in data


def test_a_result_without_a_call_is_seen_and_a_store_that_is_unknown_is_left_out(taken):
    store = stores.Store()
    store.root(store.tool(stores.result("c9")))
    taken.write(store)
    taken.take()
    told, found = taken.told()
    assert (told["orphan_results"], found) == (1, ["result_without_call"])
    broken = stores.Store()
    broken.meta["latestRootBlobId"] = broken.blob(b"\xff")
    taken.write(broken)
    taken.take()
    assert taken.told()[1] == ["unsupported_cursor_source", "result_without_call"]


def test_a_damaged_store_is_an_issue_of_its_own_and_its_neighbour_is_imported(taken):
    store = stores.Store()
    store.root(*store.pair("c1"))
    taken.write(store)
    for number, damage in enumerate((b"no database", b"SQLite format 3\0" + b"\xff" * 5000), 2):
        path = Path(taken.roots["chats"]) / "bucket" / f"agent-{number}" / "store.db"
        path.parent.mkdir()
        path.write_bytes(damage)
    taken.take()
    assert taken.rows("SELECT native_call_id FROM tool_calls") == [("c1",)]
    assert taken.rows(
        "SELECT relative_path, code, status FROM import_issues"
        " JOIN source_items USING (source_item_key) WHERE code <> 'cursor_transcript_count_mismatch'"
        " ORDER BY ALL"
    ) == [
        (f"bucket/agent-{number}/store.db", "malformed_database", "rejected") for number in (2, 3)
    ]
