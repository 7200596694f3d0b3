from __future__ import annotations

import json
import pathlib
import sqlite3
import subprocess
import sys

import orjson
import pytest

from yarp.errors import DataError, ReferenceUnknown, StorageError, UsageError
from yarp.index.metadata import Conflict, Metadata, beside
from yarp.index.query import run


@pytest.fixture
def kept(tmp_path):
    with Metadata(str(tmp_path / "kept.sqlite3"), create=True) as kept:
        yield kept


def test_a_value_is_replaced_only_by_who_knows_it(kept):
    assert kept.set("acme", "s", '{"a": 1}', version=None)["version"] == 1
    with pytest.raises(Conflict, match="it has version 1, and no value was expected"):
        kept.set("acme", "s", "2", version=None)
    with pytest.raises(Conflict, match="it has version 1, and version 2 was expected"):
        kept.set("acme", "s", "2", version=2)
    assert kept.set("acme", "s", '{"b": 2}', version=1)["version"] == 2
    assert json.loads(kept.get("acme", "s")["metadata"]) == {"b": 2}


def test_null_is_a_value_and_a_deleted_version_never_comes_again(kept):
    kept.set("acme", "s", "null", version=None)
    assert kept.get("acme", "s")["metadata"] == "null"
    kept.set("acme", "s", None, version=1)
    with pytest.raises(ReferenceUnknown):
        kept.get("acme", "s")
    with pytest.raises(Conflict, match="there is none, and version 1 was expected"):
        kept.set("acme", "s", "1", version=1)
    assert kept.set("acme", "s", "1", version=None)["version"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        '{"a": 1, "a": 2}',
        "1 2",
        "�",
        '"' + "x" * (1 << 20) + '"',
        "[" * 100000,
    ],
)
def test_what_is_no_json_of_its_own_is_refused(kept, text):
    with pytest.raises(UsageError):
        kept.set("acme", "s", text, version=None)
    assert kept.entries() == []


@pytest.mark.parametrize("name", [("", "s"), ("acme", ""), ("acme", "\ud800")])
def test_a_session_has_a_name(kept, name):
    with pytest.raises(UsageError):
        kept.set(*name, "1", version=None)
    with pytest.raises(UsageError):
        kept.get(*name)


def test_entries_are_listed_by_runtime(kept):
    for runtime, native_id in (("b", "1"), ("a", "2"), ("a", "1")):
        kept.set(runtime, native_id, "0", version=None)
    names = [(one["runtime"], one["native_id"]) for one in kept.entries()]
    assert names == [("a", "1"), ("a", "2"), ("b", "1")]
    assert len(kept.entries("b")) == 1


def test_reading_creates_nothing(tmp_path):
    path = tmp_path / "none.sqlite3"
    with Metadata(str(path)) as kept:
        assert kept.entries() == []
        with pytest.raises(ReferenceUnknown):
            kept.get("a", "b")
    assert not path.exists()


def test_a_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "x.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(DataError, match="no database of session metadata"):
        Metadata(str(path))
    path.write_bytes(b"no database" * 100)
    with pytest.raises(StorageError):
        Metadata(str(path))


@pytest.fixture
def full(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    path = beside(index.path)
    with Metadata(path, create=True) as kept:
        kept.set("acme", "s1", '{"n": [1, 2]}', version=None)
        kept.set("acme", "not yet", "7", version=None)

    def rows():
        answer = run(
            index.path, "SELECT * FROM session_metadata ORDER BY 2", metadata_database=path
        )
        return orjson.loads(orjson.dumps(answer["rows"]))

    return index, path, rows


def test_the_next_query_sees_metadata_matched_or_not(full):
    _, path, rows = full
    first, second = rows()
    assert list(first) == [
        *("runtime", "native_id", "session_id", "metadata", "version", "updated_at"),
    ]
    assert (first["session_id"], second["session_id"]) == (None, 1)
    assert json.loads(second["metadata"]) == {"n": [1, 2]}
    with Metadata(path, create=True) as kept:
        kept.set("acme", "not yet", None, version=1)
        kept.set("acme", "s1", "8", version=1)
    (row,) = rows()
    assert (row["metadata"], row["version"]) == ("8", 2)


def test_metadata_survive_a_rebuild_and_the_index_itself(full):
    index, _, rows = full
    before = rows()
    index.sync(rebuild=True)
    assert rows() == before
    for path in pathlib.Path(index.path).parent.glob("index.sqlite3*"):
        path.unlink()
    index.sync()
    assert [row["metadata"] for row in rows()] == [row["metadata"] for row in before]


def test_the_private_table_is_only_read_by_a_query(full):
    index, path, _ = full
    for sql in ("DELETE FROM kept_metadata.entries", "UPDATE session_metadata SET version = 9"):
        with pytest.raises(UsageError, match=r"only read|cannot modify"):
            run(index.path, sql, metadata_database=path)


@pytest.mark.parametrize("damage", [b"no database" * 100, b""])
def test_metadata_that_cannot_be_read_keep_no_other_question_from_its_answer(full, damage):
    index, path, rows = full
    for beside_it in pathlib.Path(path).parent.glob("*-metadata.sqlite3*"):
        beside_it.unlink()
    pathlib.Path(path).write_bytes(damage)
    sql = "SELECT count(*) AS n FROM sessions"
    assert orjson.loads(orjson.dumps(run(index.path, sql, metadata_database=path)["rows"])) == [
        {"n": 1}
    ]
    with pytest.raises((StorageError, DataError), match=r"metadata of sessions|session metadata"):
        rows()


def test_a_backup_is_a_database_of_its_own(full, tmp_path):
    _, path, _ = full
    target = str(tmp_path / "copy.sqlite3")
    with Metadata(path) as kept:
        assert kept.back_up(target) > 0
        with pytest.raises(StorageError, match="cannot be created"):
            kept.back_up(target)
    with Metadata(target) as copy:
        assert len(copy.entries()) == 2
    assert pathlib.Path(target).stat().st_mode & 0o777 == 0o600


COUNT = """
import json, sys
from yarp.index.metadata import Conflict, Metadata
from yarp.errors import ReferenceUnknown
done = 0
with Metadata(sys.argv[1], create=True) as kept:
    while done < int(sys.argv[2]):
        try:
            try:
                entry = kept.get("acme", "s")
            except ReferenceUnknown:
                kept.set("acme", "s", "1", version=None)
            else:
                kept.set("acme", "s", json.dumps(int(entry["metadata"]) + 1), version=entry["version"])
            done += 1
        except Conflict:
            pass
"""


def test_eight_writers_lose_no_update(tmp_path):
    path = str(tmp_path / "kept.sqlite3")
    words = [sys.executable, "-c", COUNT, path, "6"]
    writers = [subprocess.Popen(words) for _ in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    with Metadata(path) as kept:
        entry = kept.get("acme", "s")
    assert (entry["metadata"], entry["version"]) == ("48", 48)
