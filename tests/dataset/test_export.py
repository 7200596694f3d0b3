"""Exports: whole, private, and readable by others."""

import datetime as dt
import json
import os
import stat

import pytest
from pyarrow import dataset as arrow
from pyarrow import parquet

from yarp.dataset import export as exporting
from yarp.dataset.atif import VERSION, moment
from yarp.dataset.database import Dataset
from yarp.dataset.export import export
from yarp.dataset.filters import Filters
from yarp.errors import StorageError, UsageError

OCTOBER = 1_790_900_000_000
NOVEMBER = OCTOBER + 40 * 86_400_000


@pytest.fixture
def path(dataset_of, result):
    return dataset_of(
        {"tool": "sh", "input": {"command": "ls"}, "at": NOVEMBER, "results": [result("größe\0")]},
        {
            "tool": "sh",
            "input": {"command": "two"},
            "at": OCTOBER,
            "results": [result("a", {"exit_code": 1}, is_error=True), result("b", is_error=False)],
        },
        {"tool": "patch", "input": "*** Begin", "session": "s2", "agent": "of/her"},
        {"tool": "list", "input": "[1, 2]", "session": "s2", "at": 10**17},
    )


@pytest.fixture
def write(path, tmp_path):
    def run(kind, **more):
        out = tmp_path / f"out-{kind}"
        with Dataset.read(path) as dataset:
            return out, export(dataset, str(out), kind, **more)

    return run


def rows_of(path):
    with Dataset.read(path) as dataset:
        connection = dataset.connection
        names = [column[0] for column in connection.execute(exporting.ROWS).description]
        rows = connection.execute(exporting.ROWS).fetchall()
    return sorted((dict(zip(names, row, strict=True)) for row in rows), key=repr)


def test_parquet_holds_every_row_by_agent_and_month(path, write):
    out, rows = write("parquet")
    files = sorted(str(file.relative_to(out)) for file in out.rglob("*.parquet"))
    assert files == [
        "agent=acme/month=2026-10/part-0000.parquet",
        "agent=acme/month=2026-11/part-0000.parquet",
        "agent=acme/month=unknown/part-0000.parquet",
        "agent=of%2Fher/month=unknown/part-0000.parquet",
    ]
    assert rows == 5
    found = [row for file in files for row in parquet.ParquetFile(out / file).read().to_pylist()]
    assert sorted(found, key=repr) == rows_of(path)
    hive = arrow.dataset(out, partitioning="hive")
    assert hive.count_rows(filter=arrow.field("month") == "2026-10") == 2


def test_large_partitions_are_several_files(path, write, monkeypatch):
    monkeypatch.setattr(exporting, "_BATCH_ROWS", 1)
    monkeypatch.setattr(exporting, "_GROUP_BYTES", 1)
    monkeypatch.setattr(exporting, "_FILE_BYTES", 1)
    out, _ = write("parquet")
    assert len(list((out / "agent=acme" / "month=2026-10").iterdir())) == 2
    assert arrow.dataset(out).count_rows() == 5


def test_jsonl_holds_a_call_a_line_with_its_results(write):
    out, calls = write("jsonl")
    lines = (out / "calls.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert calls == len(found) == 4
    by_input = {call["input_text"]: call for call in found}
    two = by_input['{"command": "two"}']
    assert {(one["output_text"], one["is_error"]) for one in two["results"]} == {
        ("a", True),
        ("b", False),
    }
    assert by_input["*** Begin"]["results"] == []
    assert by_input['{"command": "ls"}']["results"][0]["output_text"] == "größe\0"
    assert len(two["input_sha256"]) == 64


def test_atif_holds_a_valid_trajectory_for_each_session(write):
    out, calls = write("atif")
    trajectories = [json.loads(file.read_text()) for file in sorted(out.rglob("*.json"))]
    assert calls == sum(len(one["steps"]) for one in trajectories) == 4
    assert len(trajectories) == 3
    for trajectory in trajectories:
        require_valid(trajectory)
    first = next(one for one in trajectories if len(one["steps"]) == 2)
    october, november = first["steps"]
    assert october["timestamp"] == "2026-10-02T00:13:20.000Z"
    assert october["timestamp"] < november["timestamp"]
    assert november["tool_calls"][0]["arguments"] == {"command": "ls"}
    contents = [one["content"] for one in october["observation"]["results"]]
    assert sorted(contents) == ["a", "b"]
    given = [step["tool_calls"][0]["arguments"] for one in trajectories for step in one["steps"]]
    assert {"input": "*** Begin"} in given


# What the published models of ATIF 1.7 allow, field by field, and what they require.
ALLOWED = {
    "trajectory": "schema_version session_id trajectory_id agent steps notes final_metrics "
    "continued_trajectory_ref extra subagent_trajectories",
    "agent": "name version model_name tool_definitions extra",
    "step": "step_id timestamp source model_name reasoning_effort message reasoning_content "
    "tool_calls observation metrics is_copied_context llm_call_count extra",
    "tool_call": "tool_call_id function_name arguments extra",
    "result": "source_call_id content subagent_trajectory_ref extra",
}


def require_valid(trajectory):
    def fields(kind, value, *required):
        assert set(required) <= set(value) <= set(ALLOWED[kind].split())
        assert isinstance(value.get("extra", {}), dict)

    fields("trajectory", trajectory, "schema_version", "agent", "steps")
    assert trajectory["schema_version"] == VERSION == "ATIF-v1.7"
    fields("agent", trajectory["agent"], "name", "version")
    assert trajectory["steps"]
    for number, step in enumerate(trajectory["steps"], 1):
        fields("step", step, "step_id", "source", "message")
        assert (step["step_id"], step["source"]) == (number, "agent")
        assert isinstance(step["message"], str)
        if "timestamp" in step:
            dt.datetime.fromisoformat(step["timestamp"])
        ids = set()
        for call in step["tool_calls"]:
            fields("tool_call", call, "tool_call_id", "function_name", "arguments")
            assert isinstance(call["arguments"], dict)
            ids.add(call["tool_call_id"])
        for result in step.get("observation", {"results": []})["results"]:
            fields("result", result)
            assert result["source_call_id"] in ids
            assert isinstance(result.get("content", ""), str)


def test_filters_choose_what_is_exported(write):
    out, rows = write("parquet", filters=Filters(since_ms=NOVEMBER))
    assert rows == 2
    assert (out / "agent=acme" / "month=2026-11").is_dir()
    assert not (out / "agent=acme" / "month=2026-10").exists()


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "atif"])
def test_an_export_is_private(write, kind):
    before = os.umask(0)
    try:
        out, _ = write(kind)
    finally:
        os.umask(before)
    for place in (out, *out.rglob("*")):
        expected = 0o700 if place.is_dir() else 0o600
        assert stat.S_IMODE(place.stat().st_mode) == expected


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "atif"])
def test_a_dataset_without_calls_is_exported_as_nothing(dataset_of, tmp_path, kind):
    with Dataset.read(dataset_of(name="empty")) as dataset:
        assert export(dataset, str(tmp_path / "out"), kind) == 0
    assert (tmp_path / "out").is_dir()


def test_what_is_there_already_is_never_written_to(write, tmp_path):
    (tmp_path / "out-jsonl").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        write("jsonl")
    assert (tmp_path / "out-jsonl").read_text() == "mine"


def test_an_export_that_fails_leaves_nothing(write, tmp_path, monkeypatch):
    def full(*_arguments, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting.orjson, "dumps", full)
    with pytest.raises(StorageError, match="No space left"):
        write("jsonl")
    assert [place.name for place in tmp_path.iterdir()] == ["data"]


def test_a_time_that_no_calendar_has_is_unknown():
    assert moment(None) is moment(10**17) is None
    assert moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(-1) == "1969-12-31T23:59:59.999Z"


@pytest.mark.parametrize("depth", [150, 300, 1025, 5000])
def test_an_input_of_any_depth_is_exported(dataset_of, tmp_path, depth):
    given = "[" * depth + "]" * depth
    path = dataset_of({"tool": "sh", "input": "x"})
    with Dataset.write(path) as dataset:
        dataset.rows("UPDATE tool_calls SET input_format = 'json', input_text = ?", [given])
    with Dataset.read(path) as dataset:
        export(dataset, str(tmp_path / "out"), "atif")
    (file,) = (tmp_path / "out").glob("*/*.json")
    (step,) = json.loads(file.read_bytes())["steps"]
    (call,) = step["tool_calls"]
    assert call["arguments"] == {"input": given if depth > 200 else json.loads(given)}
