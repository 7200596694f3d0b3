"""Events as Claude Code sends them, and the answers it takes."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from yarp.plugin import CallEnded, Decision
from yarp_claude import events

BASH = {
    "session_id": "s1",
    "cwd": "/home/ada/shop",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "seq 9"},
    "tool_use_id": "toolu_1",
}
RESPONSE = {"stdout": "1\n2", "stderr": "", "interrupted": False, "isImage": False}


def pre(**more):
    return {**BASH, "hook_event_name": "PreToolUse", **more}


def post(**more):
    return {**BASH, "hook_event_name": "PostToolUse", "tool_response": RESPONSE, **more}


def test_a_start_says_what_is_known_and_no_more():
    start = events.decode(pre())
    assert (start.source_session_id, start.source_call_id, start.tool_name) == (
        "s1",
        "toolu_1",
        "Bash",
    )
    assert start.working_directory == "/home/ada/shop"
    assert (start.unpermissioned, start.detached, start.model) == (False, False, None)


@pytest.mark.parametrize(
    ("mode", "unpermissioned"),
    [("bypassPermissions", True), ("acceptEdits", False), ("plan", False), (None, None)],
)
def test_only_one_mode_asks_nobody(mode, unpermissioned):
    assert events.decode(pre(permission_mode=mode)).unpermissioned is unpermissioned


def test_a_call_of_cursors_is_none_of_ours():
    assert events.decode(pre(cursor_version="2026.09.18-0123abc")) is None
    assert events.decode(post(cursor_version="2026.09.18-0123abc")) is None


def test_a_command_in_the_background_is_not_waited_for():
    given = {"command": "sleep 9", "run_in_background": True}
    assert events.decode(pre(tool_input=given)).detached


def test_a_workers_call_is_its_sessions_by_the_workers_name():
    start = events.decode(pre(agent_id="a1", agent_type="general-purpose"))
    assert (start.source_session_id, start.source_call_id) == ("s1", "a1/toolu_1")


def test_a_result_has_a_text_only_where_another_can_stand_for_it():
    assert events.decode(post()).text == "1\n2"
    both = {**RESPONSE, "stderr": "Shell cwd was reset"}
    assert events.decode(post(tool_response=both)).text is None
    image = {**RESPONSE, "isImage": True}
    assert events.decode(post(tool_response=image)).text is None
    read = {"type": "text", "file": {"content": "x"}}
    assert events.decode(post(tool_name="Read", tool_response=read)).text is None
    blocks = [{"type": "text", "text": "rows"}]
    assert events.decode(post(tool_name="mcp__a__b", tool_response=blocks)).text == "rows"
    assert events.decode(post(tool_name="mcp__a__b", tool_response=blocks * 2)).text is None


def test_a_replaced_result_keeps_the_tools_own_shape_and_loses_the_frame():
    long = {**RESPONSE, "persistedOutputPath": "/x", "persistedOutputSize": 9}
    event = post(tool_response=long)
    result = events.replace(event, "short")
    assert result == {**RESPONSE, "stdout": "short"}
    reply = events.reply(event, Decision(content="short", result=result))
    assert reply == {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": result}
    }
    blocks = [{"type": "text", "text": "rows", "annotations": {}}]
    assert events.replace(post(tool_name="mcp__a__b", tool_response=blocks), "few") == [
        {"type": "text", "text": "few", "annotations": {}}
    ]


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("{session}/tool-results/b1.txt", True),
        ("{session}/tool-results/../secret.txt", False),
        ("{session}/tool-results/deep/b1.txt", False),
        ("/etc/passwd", False),
        ("", False),
        (7, False),
        ("{session}/tool-results/\0", False),
    ],
)
def test_a_whole_output_counts_only_where_its_session_keeps_such(tmp_path, path, taken):
    session = tmp_path / "projects" / "-shop" / "s1"
    (session / "tool-results").mkdir(parents=True)
    path = path.format(session=session) if isinstance(path, str) else path
    event = post(
        transcript_path=f"{session}.jsonl", tool_response={**RESPONSE, "persistedOutputPath": path}
    )
    ended = events.decode(event)
    assert ended.full_output_path == (path if taken else None)
    assert ended.completeness == "incomplete"


def test_a_link_out_of_the_sessions_folder_is_not_followed(tmp_path):
    session = tmp_path / "s1"
    session.mkdir()
    (session / "tool-results").symlink_to("/etc")
    response = {**RESPONSE, "persistedOutputPath": f"{session}/tool-results/passwd"}
    event = post(transcript_path=f"{tmp_path}/s2.jsonl", tool_response=response)
    assert events.decode(event).full_output_path is None


def test_a_failure_is_told_as_claude_code_words_it():
    event = {**BASH, "hook_event_name": "PostToolUseFailure", "error": "Exit code 2\nno"}
    ended = events.decode({**event, "is_interrupt": False})
    assert (ended.is_error, ended.executed, ended.text) == (True, True, None)
    assert ended.result == {"error": "Exit code 2\nno", "is_interrupt": False}


def test_a_batch_closes_every_call_of_it():
    call = {"tool_name": "Frob", "tool_input": {}, "tool_use_id": "t2", "tool_response": "no such"}
    batch = {"session_id": "s1", "hook_event_name": "PostToolBatch", "tool_calls": [BASH, call, 7]}
    ended = events.decode(batch)
    assert [one.source_call_id for one in ended] == ["toolu_1", "t2"]
    assert all(one.closes and one.executed is None and one.is_error for one in ended)
    assert ended[1].start.tool_name == "Frob"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"session_id": "s1"},
        {"session_id": 7, "hook_event_name": "PreToolUse"},
        pre(tool_use_id=None),
        pre(tool_name=""),
        {key: value for key, value in pre().items() if key != "tool_input"},
        {"session_id": "s1", "hook_event_name": "PostToolBatch", "tool_calls": {}},
        {**BASH, "hook_event_name": "Notification"},
    ],
)
def test_what_tells_of_no_call_is_none(event):
    assert events.decode(event) is None


@pytest.mark.parametrize("response", [None, "text", 7, [], {}, {"stdout": None}, [{"type": "x"}]])
def test_a_result_of_any_shape_is_kept_as_it_is(response):
    for tool in ("Bash", "mcp__a__b", "Other"):
        ended = events.decode(post(tool_name=tool, tool_response=response))
        assert (ended.result, ended.text) == (response, None)


def test_a_refusal_is_the_one_permission_decision_that_is_ever_given():
    said = events.reply(pre(), Decision(blocked="why"))["hookSpecificOutput"]
    assert (said["permissionDecision"], said["permissionDecisionReason"]) == ("deny", "why")
    said = events.reply(pre(), Decision(input={"command": "x"}))["hookSpecificOutput"]
    assert said == {"hookEventName": "PreToolUse", "updatedInput": {"command": "x"}}
    for name in ("PostToolUse", "PostToolUseFailure", "PostToolBatch", "SessionStart", "Stop"):
        assert events.reply({"hook_event_name": name}, Decision(blocked="why")) is None


@pytest.mark.parametrize("name", ["SubagentStart", "SubagentStop", "SessionEnd"])
def test_what_tells_of_no_call_is_answered_with_nothing(name):
    event = {"session_id": "s1", "agent_id": "a1", "agent_type": "x", "hook_event_name": name}
    assert events.decode(event) is None
    assert events.reply(event, Decision(notice="off")) is None


def test_the_user_is_told_with_the_start_of_a_session():
    event = {"session_id": "s1", "hook_event_name": "SessionStart"}
    assert events.reply(event, Decision(notice="off")) == {"systemMessage": "off"}
    assert events.reply(pre(), Decision(notice="off")) is None


def record(call_id, **more):
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "no"}
    return json.dumps({"type": "user", "message": {"content": [result]}, **more}) + "\n"


REJECTED = {"permissionDecision": {"decision": "reject"}, "toolDenialKind": "permission-rule"}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        (REJECTED, True),
        ({"toolDenialKind": "user-rejected"}, True),
        ({"permissionDecision": {"decision": "accept"}}, False),
        ({}, False),
    ],
)
def test_whether_a_call_was_refused_stands_in_the_transcript(tmp_path, more, refused):
    path = tmp_path / "s1.jsonl"
    path.write_text(record("other") + record("t1", **more) + record("t2") + "{")
    event = {"hook_event_name": "PostToolBatch", "transcript_path": str(path)}
    assert events.refused(event, CallEnded("s1", "t1", None, True)) is refused


def test_a_workers_transcript_is_its_own(tmp_path):
    folder = tmp_path / "s1" / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_text(record("t1", **REJECTED))
    event = {"transcript_path": str(tmp_path / "s1.jsonl"), "agent_id": "a1"}
    assert events.refused(event, CallEnded("s1", "a1/t1", None, True))


def test_the_transcript_is_waited_for(tmp_path):
    path = tmp_path / "s1.jsonl"
    path.write_text("")

    def later():
        time.sleep(0.1)
        path.write_text(record("t1", **REJECTED))

    writer = threading.Thread(target=later)
    writer.start()
    assert events.refused({"transcript_path": str(path)}, CallEnded("s1", "t1", None, True))
    writer.join()


def test_a_transcript_that_says_nothing_leaves_the_call_open(monkeypatch):
    monkeypatch.setattr(events, "_TRANSCRIPT_SECONDS", 0)
    ended = CallEnded("s1", "t1", None, True)
    assert not events.refused({"transcript_path": "/no/such"}, ended)
    assert not events.refused({}, ended)


SNAPSHOT = """# Functions
eval $'mine () \\n{ \\n    echo x\\n}' > /dev/null 2>&1
shopt -s expand_aliases
alias -- ll='ls -l'
alias -- 'x.y'='true'
function find {
}
"""


def test_what_the_users_shell_brings_is_known_from_the_snapshot(tmp_path):
    folder = tmp_path / "shell-snapshots"
    folder.mkdir()
    event = pre(transcript_path=f"{tmp_path}/projects/-shop/s1.jsonl")
    assert events.own_words(event) is None
    old, new = folder / "snapshot-bash-1.sh", folder / "snapshot-bash-2.sh"
    old.write_text("alias -- old='x'\n")
    new.write_text(SNAPSHOT)
    os.utime(old, (1, 1))
    assert events.own_words(event) == {"mine", "ll", "x.y", "find", "grep", "pkill", "rg"}
    assert events.decode(event).own_words == events.own_words(event)
    new.write_text(
        "mine () {\n\tinner () {\n\t}\n}\nalias -g -- G='| grep'\nfunction ours() {\n}\n"
    )
    assert events.own_words(event) == {"mine", "G", "ours", "find", "grep", "pkill", "rg"}
    new.write_text('eval "$(echo Zm9v | base64 -d)"\n')
    assert events.own_words(event) is None


def test_where_a_sandboxed_command_can_write(tmp_path, yarp_home):
    own, project = tmp_path / "own", tmp_path / "shop"
    (project / ".claude").mkdir(parents=True)
    own.mkdir()
    event = pre(transcript_path=f"{own}/projects/-shop/s1.jsonl", cwd=str(project))
    assert events.writable(event) is None

    def settings(path, **sandbox):
        path.write_text(json.dumps({"sandbox": sandbox}))

    settings(own / "settings.json", enabled=True, filesystem={"allowWrite": ["//data", "~/x", 7]})
    assert events.writable(event) == (str(project), "/data", f"{yarp_home}/x")
    assert events.decode(event).writable == events.writable(event)
    settings(project / ".claude" / "settings.json", filesystem={"allowWrite": ["/more"]})
    assert "/more" in events.writable(event)
    settings(project / ".claude" / "settings.local.json", enabled=False)
    assert events.writable(event) is None
    settings(project / ".claude" / "settings.local.json", enabled=True)
    outside = {"command": "x", "dangerouslyDisableSandbox": True}
    assert events.writable({**event, "tool_input": outside}) is None
    (own / "settings.json").write_text('{"sandbox": ')
    assert events.writable(event) is not None
