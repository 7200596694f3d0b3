from __future__ import annotations

import base64
import hashlib
import json
import pathlib

import orjson
import pytest
import zstandard

from yarp.errors import DataError, ReferenceUnknown, StorageError, UsageError
from yarp.index import records

PIXEL = base64.b64encode(b"\x89PNG" + bytes(200)).decode()
RECORD = {
    "t": "note",
    "claude": {"source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    "pi": {"type": "image", "mimeType": "image/png", "data": PIXEL},
    "uri": "data:image/gif;base64," + PIXEL,
    "text": "data:,hello%20there",
    "a/b~c": "x" * 500,
    "data": "A" * 100,
}


@pytest.fixture(params=["plain", "compressed"])
def there(request, index, conversation):
    """An index whose last record is RECORD, and that record's id."""
    path = index.write("a.jsonl", *conversation, RECORD)
    if request.param == "compressed":
        path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    index.sync()
    (row,) = index.all("SELECT max(record_id) AS id FROM records")
    return index, row["id"]


def test_a_record_is_verified_where_it_is(there):
    index, record_id = there
    told = records.verify(index.path, record_id)
    data = json.dumps(RECORD).encode()
    assert told == {
        "record_id": record_id,
        "status": "verified",
        "expected_hash": hashlib.sha256(data).hexdigest(),
        "actual_hash": hashlib.sha256(data).hexdigest(),
        "expected_bytes": len(data),
        "actual_bytes": len(data),
    }


def test_what_became_of_a_source_is_said(index, conversation):
    path = index.write("a.jsonl", *conversation)
    index.sync()
    data = path.read_bytes()
    (row,) = index.all("SELECT max(record_id) AS id FROM records")
    path.write_bytes(data[:-5])
    assert records.verify(index.path, row["id"])["status"] == "source_short"
    path.write_bytes(data[:-4] + b"xx\n")
    assert records.verify(index.path, row["id"])["status"] == "hash_mismatch"
    path.unlink()
    told = records.verify(index.path, row["id"])
    assert told["status"] == "source_missing"
    assert "actual_hash" not in told
    shown = records.inspect(index.path, row["id"])
    assert shown["raw_verified"] is False
    reference = orjson.loads(orjson.dumps(shown["representation"]))["$trace_ref"]
    assert (reference["kind"], reference["reason"]) == ("record", "source_missing")
    with pytest.raises(DataError, match="source_missing; nothing was written"):
        records.export(index.path, row["id"], str(path))
    with pytest.raises(ReferenceUnknown):
        records.verify(index.path, 9999)


@pytest.mark.parametrize("name", ["traces", "traces/deep", "traces/deep/a.jsonl"])
def test_what_is_behind_a_link_that_came_is_not_the_source(index, conversation, tmp_path, name):
    """Even if it holds the same: the locator was canonical, and a sync tells where it is now."""
    (index.traces / "deep").mkdir()
    index.write("deep/a.jsonl", *conversation, RECORD)
    index.sync()
    (row,) = index.all("SELECT max(record_id) AS id FROM records")
    there = tmp_path / "there"
    (tmp_path / name).rename(there)
    (tmp_path / name).symlink_to(there)
    assert (index.traces / "deep" / "a.jsonl").is_file()
    told = records.verify(index.path, row["id"])
    assert (told["status"], told["actual_bytes"]) == ("source_missing", 0)
    said, value = shown(index, row["id"])
    assert said["raw_verified"] is False
    assert (value["$trace_ref"]["kind"], value["$trace_ref"]["reason"]) == (
        "record", "source_missing",
    )  # fmt: skip
    output = tmp_path / "out"
    with pytest.raises(DataError, match="source_missing; nothing was written"):
        records.export(index.path, row["id"], str(output))
    with pytest.raises(DataError, match="source_missing; nothing was written"):
        records.extract(index.path, f"{row['id']}#/pi/data", str(output))
    assert not output.exists()


def shown(index, record_id, **bounds):
    told = records.inspect(index.path, record_id, **bounds)
    return told, orjson.loads(orjson.dumps(told["representation"]))


def test_large_values_are_put_aside_with_where_they_are(there):
    index, record_id = there
    told, value = shown(index, record_id, max_value_bytes=200)
    assert told["raw_verified"] is True
    assert told["externalized_values"] == 5
    kinds = {
        name: (value[name] if "$trace_ref" in value[name] else part)["$trace_ref"]
        for name in ("claude", "pi", "uri", "text", "a/b~c")
        for part in [value[name].get("source", value[name]).get("data")]
    }
    assert {name: one["kind"] for name, one in kinds.items()} == {
        "claude": "asset", "pi": "asset", "uri": "asset", "text": "asset", "a/b~c": "large_value",
    }  # fmt: skip
    assert kinds["a/b~c"]["json_pointer"] == "/a~1b~0c"
    assert kinds["claude"]["media_type"] == "image/png"
    assert value["data"] == "A" * 100  # base64 as well, but of no media type


def test_what_does_not_fit_is_put_aside_until_it_does(there):
    index, record_id = there
    told, value = shown(index, record_id, max_output_bytes=1400)
    assert told["representation_bytes"] <= 1400
    assert value["t"] == "note"
    _, value = shown(index, record_id, max_output_bytes=50)
    assert value["$trace_ref"]["reason"] == "output_budget"
    _, value = shown(index, record_id, max_record_bytes=10)
    assert value["$trace_ref"]["reason"] == "record_over_limit"


def test_a_record_is_shown_with_all_its_digits_and_the_place_of_its_file(index, conversation):
    big = {"t": "note", "n": [2**64, -(2**70), 1], "text": "x" * 40}
    lone = b'{"t": "note", "lone": "\\ud800"}'
    index.write("q'uo%te?#x\n.jsonl", *conversation, big, lone)
    index.sync()
    (row,) = index.all("SELECT max(record_id) AS id FROM records")
    told = records.inspect(index.path, row["id"] - 1)
    shown = json.loads(orjson.dumps(told["representation"]))
    assert shown["n"] == [2**64, -(2**70), 1]
    assert told["record"]["source"]["uri"].endswith("/q%27uo%25te%3F%23x%0A.jsonl")
    told = records.inspect(index.path, row["id"])
    assert orjson.loads(orjson.dumps(told["representation"]))["lone"] == "\ufffd"


def test_a_malformed_record_is_shown_as_one(index, conversation):
    index.write("a.jsonl", *conversation, b"no json")
    index.sync()
    (row,) = index.all("SELECT max(record_id) AS id FROM records")
    told, value = shown(index, row["id"])
    assert told["record"]["parse"] == {"status": "malformed", "error": "no JSON value"}
    assert value["$trace_ref"]["reason"] == "malformed"


@pytest.mark.parametrize("pointer", ["/claude/source/data", "/pi/data", "/uri"])
def test_images_are_extracted_from_wherever_agents_keep_them(there, tmp_path, pointer):
    index, record_id = there
    output = tmp_path / "picture"
    told = records.extract(index.path, f"{record_id}#{pointer}", str(output))
    assert output.read_bytes() == base64.b64decode(PIXEL)
    assert output.stat().st_mode & 0o777 == 0o600
    assert told["media_type"] == ("image/gif" if pointer == "/uri" else "image/png")


def test_a_data_uri_of_plain_text_is_an_asset(there, tmp_path):
    index, record_id = there
    records.extract(index.path, f"{record_id}#/text", str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == b"hello there"


@pytest.mark.parametrize(
    ("pointer", "error"),
    [
        ("/data", DataError),
        ("/a~1b~0c", DataError),
        ("/none", ReferenceUnknown),
        ("/uri/0", ReferenceUnknown),
        ("uri", ReferenceUnknown),
        ("", DataError),
    ],
)
def test_what_is_no_asset_is_not_written(there, tmp_path, pointer, error):
    index, record_id = there
    with pytest.raises(error):
        records.extract(index.path, f"{record_id}#{pointer}", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_record_is_exported_once_and_replaced_only_by_force(there, tmp_path):
    index, record_id = there
    output = str(tmp_path / "line.json")
    records.export(index.path, record_id, output)
    assert pathlib.Path(output).read_bytes() == json.dumps(RECORD).encode()
    with pytest.raises(UsageError, match="--force"):
        records.export(index.path, record_id, output)
    records.export(index.path, record_id, output, force=True)
    with pytest.raises(DataError, match="more than 10"):
        records.export(index.path, record_id, output, max_bytes=10, force=True)
    with pytest.raises(StorageError, match="cannot be written"):
        records.export(index.path, record_id, str(tmp_path / "no" / "x"))
    assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []


@pytest.mark.parametrize("reference", ["7", "x#/a", "#/a", "-1#/a", "9" * 30 + "#/a"])
def test_a_reference_has_its_form(index, conversation, reference):
    index.write("a.jsonl", *conversation)
    index.sync()
    with pytest.raises(UsageError, match="RECORD_ID#"):
        records.extract(index.path, reference, "/nowhere")


def test_standard_output_is_no_file_to_export_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="not standard output"):
        records.write_private("-", b"x", force=False)
    assert list(tmp_path.iterdir()) == []
    records.write_private("./-", b"x", force=False)
    assert (tmp_path / "-").read_bytes() == b"x"
