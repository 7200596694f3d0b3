"""Which of all installed readers a trace's first line is for: one, or none."""

from __future__ import annotations

import itertools

import pytest

from yarp.plugins import Plugins, discover
from yarp.settings import Settings

SAID = {"timestamp": "2026-11-30T03:05:01Z"}
HEADS = {
    "pi": [
        {"type": "session", "version": 3, "id": "s", "cwd": "/srv"} | SAID,
        {"type": "message", "id": "m", "message": {"role": "user", "content": []}} | SAID,
    ],
    "claude": [
        {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "a"}} | SAID,
        {"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": []}},
        {"type": "started", "agentId": "a"},
        {"type": "file-history-snapshot", "messageId": "m"},
        {"type": "summary", "leafUuid": "u"},
    ],
    "codex": [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/srv"}} | SAID,
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": []}},
    ],
    "gptme": [
        {"role": "system", "content": "a", "pinned": True} | SAID,
        {"role": "user", "content": "a"} | SAID,
    ],
    "cursor": [
        {"role": "user", "message": {"content": [{"type": "text", "text": "a"}]}},
        {"role": "assistant", "message": {"content": "a"}},
        {"role": "user", "message": {"content": []}} | SAID,
    ],
}
STRANGERS = [
    {"role": "user", "content": "a"},
    {"role": "user", "message": "a"},
    {"messages": [{"role": "user", "content": "a"}]},
    {"type": "turn_ended", "status": "success"},
    {"type": "message", "role": "user", "content": []},
    {"type": "error", "error": "a"},
    {},
    [],
    "a",
    None,
]


@pytest.fixture(scope="module")
def readers():
    found = Plugins(discover(), Settings()).trace_readers()
    if missing := HEADS.keys() - found.keys():
        pytest.skip(f"the core alone cannot compare them: {', '.join(missing)} is not installed")
    assert found.keys() == HEADS.keys(), "give HEADS what the first lines of the new one look like"
    return found


def fitting(readers, head):
    return [name for name, one in readers.items() if one.detect(head)]


@pytest.mark.parametrize("runtime", HEADS)
def test_a_first_line_is_of_one_runtime(readers, runtime):
    for head in HEADS[runtime]:
        assert fitting(readers, head) == [runtime], head


@pytest.mark.parametrize("pair", list(itertools.permutations(HEADS, 2)), ids="-".join)
def test_no_runtime_takes_a_line_of_another_with_a_member_more(readers, pair):
    """What the next version of a runtime may add, or another one already has."""
    own, other = pair
    for head, stranger in itertools.product(HEADS[own], HEADS[other]):
        # One runtime is known by that alone, whatever else stands in the line.
        for name, value in stranger.items():
            if name == "sessionId":
                continue
            assert len(fitting(readers, {name: value} | head)) <= 1, (head, name)


@pytest.mark.parametrize("head", STRANGERS, ids=str)
def test_what_is_of_no_runtime_is_nobodys(readers, head):
    assert fitting(readers, head) == []
