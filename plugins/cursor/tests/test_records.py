from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from yarp.plugin import JsonlFile
from yarp_cursor import graph, records

META = {
    "name": "x",
    "agentId": "a1",
    "blobEncryptionKey": "planted",
    "latestRootBlobId": "AB",
    "createdAt": 5,
}


@pytest.mark.parametrize(
    "write", [lambda text: text.encode().hex(), str, str.encode, lambda text: f" {text}\n"]
)
def test_metadata_is_json_or_its_hexadecimal_text(write):
    found = records.meta(write(json.dumps(META)))
    assert (found.agent_id, found.root_id, found.created_at_ms) == ("a1", "ab", 5)


def test_what_is_not_wanted_is_passed_over_however_it_is_nested():
    odd = {
        "x": [{"agentId": "no", "y": '},"agentId":"no"'}],
        "blobEncryptionKey": {"a": [1, {"k": "planted"}]},
        **META,
        "z": '\\"{[,',
    }
    found = records.members(json.dumps(odd).encode(), frozenset({"agentId", "createdAt"}))
    assert found == {"agentId": b'"a1"', "createdAt": b"5"}


def test_the_relation_of_a_subagent_is_kept():
    info = {
        "parentAgentId": "p",
        "rootParentAgentId": "r",
        "toolCallId": "t",
        "typeName": "explore",
        "secret": 1,
    }
    found = records.meta(json.dumps({"subagentInfo": info, **META}))
    assert (found.parent_agent_id, found.tool_call_id) == ("p", "t")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"x"',
        "zz",
        "abc",
        '{"a":1',
        '{"a" 1}',
        '{"a":1}}',
        '{"agentId":nope}',
        "7b",
        "{}x",
        "é",
    ],
)
def test_metadata_of_another_shape_is_refused(text):
    with pytest.raises(ValueError):
        records.meta(text)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, 5),
        ("5", 5),
        (0, None),
        (-1, None),
        (True, None),
        ("x", None),
        ("9" * 20, None),
        (None, None),
        (2**60, None),
    ],
)
def test_a_time_is_a_number_or_its_digits(value, found):
    assert records.milliseconds(value) == found


CALL = {
    "type": "tool-call",
    "toolCallId": "c1\nfc_1",
    "toolName": "Shell",
    "args": {"command": "ls"},
}
RESULT = {"type": "tool-result", "toolCallId": "c1\nfc_1", "toolName": "Shell", "result": "a"}


def test_calls_and_results_are_found_with_their_ids_as_they_stand():
    reasoning = {"type": "reasoning", "text": "x"}
    (call,) = records.blocks({"role": "assistant", "content": [reasoning, CALL]})
    assert (call.index, call.call_id, call.tool_name, call.arguments) == (
        1,
        "c1\nfc_1",
        "Shell",
        {"command": "ls"},
    )
    (result,) = records.blocks({"role": "tool", "content": [RESULT]})
    assert (result.call_id, result.result, result.is_error) == ("c1\nfc_1", "a", None)
    assert records.blocks({"role": "user", "content": "x"}) == []


@pytest.mark.parametrize(("args", "found"), [("patch", "patch"), ({}, {}), ([1], [1]), (None, {})])
def test_arguments_may_be_a_string_or_missing(args, found):
    (call,) = records.blocks(
        {
            "role": "assistant",
            "content": [
                {**CALL, "args": args}
                if args is not None
                else {k: v for k, v in CALL.items() if k != "args"}
            ],
        }
    )
    assert call.arguments == found


@pytest.mark.parametrize(
    ("high_level", "is_error"),
    [
        ({"isError": True}, True),
        ({"isError": False}, False),
        ({"output": {"isError": True}}, True),
        ({"output": [1]}, None),
        ({}, None),
        (3, None),
    ],
)
def test_an_error_is_what_cursor_calls_one(high_level, is_error):
    options = {"cursor": {"highLevelToolCallResult": high_level}}
    (result,) = records.blocks({"role": "tool", "content": [RESULT], "providerOptions": options})
    assert result.is_error is is_error


@pytest.mark.parametrize(
    ("message", "tools"),
    [
        (None, False),
        ([], False),
        (CALL, False),
        ({"role": "admin", "content": [CALL]}, False),
        ({"role": "assistant", "content": {}}, False),
        ({"role": "assistant", "content": ["x"]}, False),
        ({"role": "assistant", "content": [{"type": 1}]}, False),
        ({"role": "assistant", "content": [{**CALL, "toolCallId": ""}]}, True),
        ({"role": "assistant", "content": [{**CALL, "toolName": None}]}, True),
        ({"role": "assistant", "content": [{**CALL, "args": 3}]}, True),
        ({"role": "user", "content": [CALL]}, True),
        ({"role": "assistant", "content": [RESULT]}, True),
        ({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "x"}]}, True),
        ({"role": "assistant", "content": "x", "tool_calls": [{"function": {}}]}, True),
    ],
)
def test_a_message_is_taken_as_a_whole_or_not_at_all(message, tools):
    with pytest.raises(records.Odd) as odd:
        records.blocks(message)
    assert odd.value.tools is tools


def test_a_transcript_has_calls_without_ids(tmp_path):
    lines = [
        {"role": "user", "message": {"content": [{"type": "tool_use", "name": "No"}]}},
        {
            "role": "assistant",
            "message": {
                "content": [
                    {"type": "text"},
                    {"type": "tool_use", "name": "LS", "input": {"a": 1}},
                    {"type": "tool_use"},
                ]
            },
        },
        {"role": "assistant", "message": {"content": "x"}},
        {"type": "turn_ended", "status": "success"},
        [],
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with JsonlFile(str(path)) as file:
        found = [
            (one.line.number, one.index, one.tool_name, one.arguments)
            for one in records.uses(file.lines())
        ]
    assert found == [(2, 1, "LS", {"a": 1})]


def test_the_compiled_definition_is_the_one_that_can_be_read():
    source = files("yarp_cursor").joinpath("proto/agent_v1.proto").read_text()
    source = re.sub(r"//.*", "", source)
    written = {
        (message, name, int(number), repeated is not None, kind)
        for message, body in re.findall(r"message (\w+) \{(.*?)\}", source, re.DOTALL)
        for repeated, kind, name, number in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body)
        for repeated in [repeated or None]
    }
    kinds = {12: "bytes", 9: "string", 4: "uint64"}
    compiled = {
        (
            message,
            field.name,
            field.number,
            field.is_repeated,
            field.message_type.name if field.message_type else kinds[field.type],
        )
        for message, made in graph.classes().items()
        for field in made.DESCRIPTOR.fields
    }
    assert compiled == written
    assert len(compiled) > 15
