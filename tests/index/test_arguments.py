"""What of a call's arguments is published, whatever numbers, texts and depths they have."""

from __future__ import annotations

import json

import pytest

from yarp.index.semantic import arguments

DEEP = "[" * 700 + "]" * 700
LIMIT = 65_536


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": "\\ud800 \\u00e9"}', {"a": "\ufffd \u00e9"}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        ('{"a": 1e999, "b": "c"}', {"yarpRawJson": '{"a": 1e999, "b": "c"}'}),
        ('{"a": ' + "9" * 5000 + "}", {"yarpRawJson": '{"a": ' + "9" * 5000 + "}"}),
        (f'{{"a":{DEEP}}}', {"yarpRawJson": f'{{"a":{DEEP}}}'}),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1', '{"a": 1'),
        ("*** Begin Patch \ud800", "*** Begin Patch \ufffd"),
        ("7", "7"),
    ],
)
def test_a_text_is_published_as_the_json_that_it_holds(text, published):
    assert arguments(text, LIMIT)[0] == published
    assert arguments(text, len(text.encode("utf-8", "replace")) - 1)[0] is None


def test_parsed_arguments_have_their_numbers_as_they_were_written(index):
    """Whoever wrote the line: the item stands, and all else in it."""
    call = '{"t": "call", "id": "1", "tool": "sh", "args": {"command": "ls | wc", "n": %s}}'
    index.write(
        "a.jsonl",
        {"t": "session", "id": "s"},
        {"t": "begin", "loop": "a"},
        (call % "1e999").encode(),
        (call.replace('"1"', '"2"') % ("9" * 5000)).encode(),
        (call.replace('"1"', '"3"') % DEEP).encode(),
        b'{"t": "usage", "input": 1e999, "output": 1}',
        b'{"t": "output", "id": "1", "text": "x", "duration_ms": 5}',
    )
    report = index.sync()
    assert (report.malformed, report.actions["failed"]) == (0, 0)
    values = [value for _, role, _, value in index.items() if role == "agent.tool_call.shell"]
    found = [value["arguments"]["yarpRawJson"] for value in values]
    numbers = ("1e999", "9" * 5000, DEEP)
    assert found == [f'{{"command":"ls | wc","n":{number}}}' for number in numbers]
    assert {len(value["shell_fragments"][0]["statements"]) for value in values} == {2}
    assert index.all("SELECT usage FROM loops") == [{"usage": None}]
    assert len(index.all("SELECT json_extract(semantic, '$.value.arguments') FROM items")) == 4
    # A rewrite reads back what is stored.
    assert index.sync(rebuild=True).actions["failed"] == 0


def test_integers_stay_exact_when_a_later_line_tells_more_of_the_call(index):
    number = 123456789012345678901234567890
    call = {"t": "call", "id": "1", "tool": "x", "args": {"n": number}}
    index.write("a.jsonl", {"t": "session", "id": "s"}, {"t": "begin", "loop": "a"}, call)
    index.sync()
    index.write("a.jsonl", {"t": "amend", "key": "call:1"}, mode="a")
    assert index.sync().actions["appended"] == 1
    (row,) = index.all("SELECT semantic FROM items")
    assert json.loads(row["semantic"])["value"]["arguments"] == {"n": number}
