"""YARP's own archive in the dataset; the archives are made by the real writer."""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
import subprocess
import sys

import pytest

from yarp import canonical, payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.past import facts, importer
from yarp.sources.facts import Call, Issue, Observation, Rejected, Result, Session
from yarp.sources.importers import SourceItem

KEY = SessionKey("acme", "ann", "chat", 1000)


class Store:
    def __init__(self, directory):
        directory.mkdir(mode=0o700)
        self.path = str(directory / "tool-calls.sqlite3")

    def call(
        self,
        name,
        *,
        streams=None,
        text=None,
        completeness="complete",
        result=None,
        finished_at_ms: int | None = 2000,
        command=None,
    ):
        archive = SteppedArchive.open(self.path, narrow=False)
        told = CallFacts(
            name, "sh", provider="home", model="m-1", working_directory="/srv",
            started_at_ms=1500, requires_streams=bool(streams),
        )  # fmt: skip
        command = payload.of_json(command or {"command": name})
        reference = archive.begin_call(KEY, told, command, command, 1500)
        if streams:
            out, err = (
                (payload.of(data), payload.TEXT if data.isascii() else payload.BINARY)
                for data in streams
            )
            archive.record_streams(KEY, name, Streams(out, out, err, err), 1600)
        if finished_at_ms is not None:
            kept = payload.of_json(result or {"kind": "done"})
            archive.result_before(KEY, name, kept, None, payload.TEXT, 1600)
            if text is not None:
                archive.result_text(KEY, name, payload.of(text.encode()), completeness, 1600)
            archive.finish_call(KEY, name, kept, True, True, finished_at_ms)
        archive.close()
        return reference

    def said(self):
        item = SourceItem("archive", self.path, "", database=True)
        try:
            return list(facts(item))
        finally:
            item.close()

    def one(self, kind):
        (found,) = (one for one in self.said() if isinstance(one, kind))
        return found


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "private")


def test_a_call_stands_in_the_session_of_its_own_agent(store):
    reference = store.call("c1")
    session, call, asked, result, answered = store.said()
    assert session == Session("acme/ann/chat", 1000)
    assert call == Call(
        ("acme", "ann", "chat", "c1"),
        "acme/ann/chat",
        "sh",
        {"command": "c1"},
        native_call_id="c1",
        called_at_ms=1500,
        provider="home",
        model="m-1",
        working_directory="/srv",
    )
    assert result.call == call.identity
    assert (result.is_error, result.returned_at_ms) == (True, 2000)
    assert (asked.target, answered.target) == (call, result)
    assert {asked.sqlite_blob_id, answered.sqlite_blob_id} == {reference}
    assert isinstance(asked, Observation)


def test_the_text_of_a_call_is_its_standard_output_and_errors_stand_beside(store):
    store.call("c1", streams=(b"out\n", b"oops\n"), result={"exitCode": 3, "stdout": "out\n"})
    result = store.one(Result)
    assert result.output_text == "out\n"
    assert result.output_json == {"stderr": "oops\n", "exitCode": 3, "result": {"exitCode": 3}}


def test_a_call_without_output_is_empty_and_not_unknown(store):
    store.call("c1", streams=(b"", b""), result={"stdout": ""})
    result = store.one(Result)
    assert (result.output_text, result.output_json) == ("", {"result": {"stdout": ""}})


def test_bytes_that_are_no_text_are_told_of_and_not_forced_into_one(store):
    store.call("c1", streams=(b"\xff\xfe", b""))
    result = store.one(Result)
    assert result.output_text is None
    assert result.output_json["stdout"]["byteLength"] == 2
    assert result.output_json["stdout"]["mediaType"] == payload.BINARY


@pytest.mark.parametrize(
    ("completeness", "said"), [("complete", None), ("incomplete", ["result_text"])]
)
def test_a_result_text_is_the_text_and_says_when_it_is_not_the_whole(store, completeness, said):
    store.call("c1", text="rendered", completeness=completeness, result={"output": "rendered"})
    result = store.one(Result)
    assert result.output_text == "rendered"
    assert (result.output_json or {}).get("incomplete") == said
    assert "result" not in (result.output_json or {})


def test_a_call_that_never_finished_has_no_result(store):
    store.call("c1", finished_at_ms=None)
    assert not [one for one in store.said() if isinstance(one, Result)]
    assert store.one(Call).native_call_id == "c1"


def test_an_input_that_json_cannot_hold_canonically_is_kept_as_its_text(store):
    archive = SteppedArchive.open(store.path, narrow=False)
    odd = payload.of(canonical.encode_text('{"n": 1234567890123456789}'))
    told = CallFacts("c1", "sh", started_at_ms=1, requires_streams=False)
    archive.begin_call(KEY, told, odd, odd, 1)
    archive.close()
    assert store.one(Call).input == {"yarpRawJson": '{"n": 1234567890123456789}'}


def test_a_damaged_payload_is_an_issue_and_other_calls_stay(store):
    store.call("c1")
    reference = store.call("c2", result={"kind": "another"})
    connection = sqlite3.connect(store.path)
    connection.execute(
        "UPDATE payloads SET body = zeroblob(length(body)) WHERE sha256 = (SELECT payload_sha256"
        " FROM snapshots JOIN tool_calls ON tool_call_id = id"
        " WHERE source_call_id = 'c2' AND subject = 'result' AND stage = 'before')"
    )
    connection.commit()
    connection.close()
    issue = store.one(Issue)
    assert (issue.code, issue.sqlite_blob_id) == ("damaged_payload", reference)
    assert store.one(Call).native_call_id == "c1"


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_a_file_that_is_no_archive_is_rejected(tmp_path, content):
    path = tmp_path / "other.sqlite3"
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE other (x)")
        connection.close()
    else:
        path.write_bytes(content)
    item = SourceItem("archive", str(path), "", database=True)
    with pytest.raises(Rejected):
        list(facts(item))
    item.close()


def test_live_calls_stand_in_the_dataset_as_they_were_and_nothing_is_left_beside_the_archive(
    yarp_home,
):
    pytest.importorskip("duckdb")
    from yarp.dataset.database import Dataset

    def yarp(*words, status=0):
        command = [sys.executable, "-m", "yarp", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout

    yarp("run", "--", "sh", "-c", "seq 1 3; echo oops >&2; exit 3", status=3)
    archive = yarp_home / "data" / "yarp" / "tool-calls.sqlite3"
    before = {path.name: path.read_bytes() for path in archive.parent.iterdir() if path.is_file()}
    extract = ("dataset", "extract", "--unix-user", "ada", "yarp", "--archive", str(archive))
    assert "1 new calls, 1 new results" in yarp(*extract)
    after = {path.name: path.read_bytes() for path in archive.parent.iterdir() if path.is_file()}
    assert after == before
    assert "0 new calls, 0 new results" in yarp(*extract)
    yarp("run", "--", "echo", "again")
    assert "1 new calls, 1 new results" in yarp(*extract)
    assert json.loads(yarp("dataset", "verify", "--json"))["valid"]
    path = yarp_home / "data" / "toolcall-extractor" / "toolcalls.duckdb"
    with Dataset.read(str(path)) as dataset:
        rows = dataset.rows(
            "SELECT output_text, output_json->>'$.stderr', output_json->>'$.exitCode'"
            " FROM tool_calls JOIN tool_results USING (call_key) ORDER BY called_at_ms"
        )
    assert rows == [("1\n2\n3\n", "oops\n", "3"), ("again\n", None, "0")]


def test_the_usual_place_is_offered_and_never_read_unasked(yarp_home):
    (option,) = importer().options
    assert (option.flag, option.kind, option.required) == ("archive", "file", True)
    assert option.default == os.path.join("data", "yarp", "tool-calls.sqlite3")
    assert not pathlib.Path(yarp_home, "data").exists()
