from __future__ import annotations

import json

import pytest

from yarp.plugin import JsonlFile
from yarp_codex import native, records


def read(tmp_path, *lines):
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(line + "\n" for line in lines))
    with JsonlFile(str(path)) as file:
        return list(records.read(file.lines()))


def record(tmp_path, sort, payload):

    line = {"timestamp": "2026-09-21T14:13:20.007Z", "type": sort, "payload": payload}
    (found,) = read(tmp_path, json.dumps(line))
    return found


@pytest.mark.parametrize(
    ("sort", "payload", "kind", "name"),
    [
        ("session_meta", {"id": "x"}, "Meta", "session_meta"),
        ("turn_context", {}, "Turn", "turn_context"),
        ("response_item", {"type": "function_call"}, "Call", "response_item/function_call"),
        ("response_item", {"type": "local_shell_call"}, "Call", "response_item/local_shell_call"),
        ("response_item", {"type": "message"}, "Message", "response_item/message"),
        ("response_item", {"type": "tool_search_output"}, "Output", "response_item/tool_search_output"),
        ("event_msg", {"type": "exec_command_end"}, "Happened", "event_msg/exec_command_end"),
        ("event_msg", {"type": "item_completed", "item": {"type": "FileChange"}}, "Happened", "event_msg/item_completed/FileChange"),
        ("event_msg", {"type": "item_completed", "item": {"type": "AgentMessage"}}, "Shown", "event_msg/item_completed"),
        ("event_msg", {"type": "item_completed", "item": {"type": ["x"]}}, "Record", "event_msg/item_completed"),
        ("event_msg", {"type": ["x"]}, "Record", "event_msg"),
        ("compacted", {"message": "x"}, "Record", "compacted"),
    ],
)  # fmt: skip
def test_each_line_is_one_record_of_its_kind(tmp_path, sort, payload, kind, name):
    found = record(tmp_path, sort, payload)
    assert (found.__class__.__name__, found.name) == (kind, name)
    assert found.at_ms == 1790000000007
    assert found.ordinal is None


def test_json_that_is_no_record_is_told_apart(tmp_path):
    found = read(tmp_path, "[]", "3", '{"type":"message"}', '{"type":[],"payload":{}}')
    assert [one.__class__.__name__ for one in found] == ["Strange"] * 4


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"name": "exec_command"}, "exec_command"),
        ({"name": "mcp__tiny__echo"}, "mcp__tiny__echo"),
        ({"name": "echo", "namespace": "mcp__tiny"}, "mcp__tiny__echo"),
        ({"name": "echo", "namespace": "mcp__tiny__"}, "mcp__tiny__echo"),
        ({"name": "exec_command", "namespace": "functions"}, "exec_command"),
        ({"name": "spawn_agent", "namespace": "multi_agent_v1"}, "multi_agent_v1.spawn_agent"),
        ({}, None),
    ],
)
def test_a_tool_of_a_server_has_one_name_however_it_is_written(tmp_path, payload, name):
    found = record(tmp_path, "response_item", {"type": "function_call", **payload})
    assert found.tool_name == name


@pytest.mark.parametrize("source", ["exec", {"custom": "x"}, {"subagent": "review"}])
def test_a_source_may_be_a_word_or_an_object(tmp_path, source):
    found = record(tmp_path, "session_meta", {"id": "x", "source": source})
    assert found.is_subagent == ("subagent" in source)
    assert found.parent_thread_id is None


def test_a_subagent_names_its_parent(tmp_path):
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "parent", "depth": 1}}}
    found = record(tmp_path, "session_meta", {"id": "x", "source": source})
    assert (found.is_subagent, found.parent_thread_id) == (True, "parent")


@pytest.mark.parametrize(
    ("item", "failed"),
    [
        ({"success": True}, False),
        ({"success": False, "status": "completed"}, True),
        ({"status": "declined"}, True),
        ({"exit_code": 2}, True),
        ({"exit_code": 0}, False),
        ({"result": {"Err": "x"}}, True),
        ({"result": {"Ok": {"isError": True}}}, True),
        ({"result": {"isError": False}}, False),
        ({"status": "completed"}, False),
        ({"status": "in_progress"}, None),
        ({}, None),
    ],
)
def test_whether_a_tool_failed_is_told_in_many_ways_or_not_at_all(tmp_path, item, failed):
    found = record(tmp_path, "event_msg", {"type": "exec_command_end", **item})
    assert found.failed is failed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Chunk ID: a1\nWall time: 0.01 seconds\nProcess exited with code 2\nOutput:\nx", 2),
        ("Wall time: 0.01 seconds\nProcess exited with code -1\nOutput:\n", -1),
        ("Wall time: 0.01 seconds\nProcess running with session ID 7\nOutput:\n", None),
        ("Exit code: 3\nWall time: 0 seconds\nOutput:\n", 3),
        ('{"output":"x\\n","metadata":{"exit_code":4,"duration_seconds":0.1}}', 4),
        ('{"output":"x"}', None),
        ("I say: Exit code: 3\nWall time: 0 seconds", None),
        ("unsupported call: shell", None),
    ],
)
def test_an_exit_status_is_read_from_what_codex_itself_writes(text, code):
    assert native.exit_code(text) == code
