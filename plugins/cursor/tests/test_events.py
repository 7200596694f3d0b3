"""Every documented hook payload as a call or none, and every answer in its documented shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.plugin import CallEnded, CallStarted, Decision
from yarp_cursor.events import decode, replace, reply

CHAT = "5f2c8c0e-0f64-4d8b-9d59-0a4fd1f6c2aa"
COMMON = {
    "conversation_id": CHAT, "generation_id": "b7f5a0d2-6f0c-4c59-8f0b-3a2f0b1c7d11", "session_id": CHAT,
    "model": "composer-2", "model_id": "composer-2", "model_params": {}, "cursor_version": "2026.09.18-0123abc",
    "workspace_roots": ["/srv/demo"], "user_email": "someone@example.org", "transcript_path": None,
}  # fmt: skip
CALL_ID = "call-71c5-2\nfc_0a_2"
CALL = {
    "tool_name": "Shell",
    "tool_input": {"command": "ls -l"},
    "tool_use_id": CALL_ID,
    "cwd": "/srv/demo",
}
MCP = {"content": [{"type": "text", "text": "row 1\n" * 900}, {"type": "image", "data": "AA=="},
                   {"type": "text", "text": "row 2\n"}], "isError": False}  # fmt: skip
EVENTS = {
    "preToolUse": {**CALL, "agent_message": "I list the files"},
    "postToolUse": {**CALL, "tool_output": '{"output":"total 0\\n","exitCode":0}', "duration": 41},
    "postToolUseFailure": {**CALL, "error_message": "Command failed with exit code 2", "failure_type": "error",
                           "is_interrupt": False, "duration": 7},
    "beforeShellExecution": {"command": "ls -l", "cwd": "/srv/demo", "sandbox": False},
    "afterShellExecution": {"command": "ls -l", "output": "total 0\n", "duration": 41, "sandbox": False},
    "beforeMCPExecution": {"tool_name": "echo", "tool_input": "{}", "mcp_server_name": "tiny", "command": "tiny"},
    "afterMCPExecution": {"tool_name": "echo", "tool_input": "{}", "result_json": "{}", "duration": 3},
    "beforeReadFile": {"file_path": "/srv/demo/a", "content": "a", "attachments": []},
    "afterFileEdit": {"file_path": "/srv/demo/a", "edits": [{"old_string": "a", "new_string": "b"}]},
    "beforeSubmitPrompt": {"prompt": "go", "attachments": []},
    "sessionStart": {"is_background_agent": False, "composer_mode": "agent"},
    "sessionEnd": {"reason": "completed"},
    "stop": {"status": "completed", "loop_count": 0},
    "preCompact": {"trigger": "auto", "usage": {}},
    "subagentStart": {"subagent_id": "s1", "type": "explore", "task": "look", "tool_call_id": "c1"},
    "subagentStop": {"status": "completed", "summary": "", "agent_transcript_path": None},
    "afterAgentResponse": {"text": "done"},
    "afterAgentThought": {"text": "hm", "duration": 1},
}  # fmt: skip


def event(kind, **more):
    return {**COMMON, "hook_event_name": kind, **EVENTS[kind], **more}


# -- calls


def test_a_call_is_told_by_the_three_events_that_name_it_and_by_no_other():
    told = {kind for kind in EVENTS if decode(event(kind)) is not None}
    assert told == {"preToolUse", "postToolUse", "postToolUseFailure"}


def test_a_start_keeps_the_id_with_its_newline_and_the_place_of_the_event():
    call = decode(event("preToolUse"))
    assert isinstance(call, CallStarted)
    assert (call.source_session_id, call.source_call_id) == (CHAT, CALL_ID)
    assert (call.tool_name, call.input, call.model) == ("Shell", {"command": "ls -l"}, "composer-2")
    assert call.working_directory == "/srv/demo", "hooks of the user run in ~/.cursor"
    assert call.unpermissioned is None, "no event says whether anybody is asked"


def test_a_command_in_a_place_of_its_own_or_behind_the_scene_is_known_as_such():
    def started(**given):
        return decode(event("preToolUse", tool_input={"command": "ls", **given}))

    assert started(working_directory="/srv/demo/sub").working_directory == "/srv/demo/sub"
    assert started(working_directory="").working_directory == "/srv/demo"
    assert started().detached is False
    assert started(is_background=True).detached is True
    assert started(block_until_ms=0).detached is True
    assert started(block_until_ms=30_000).detached is False


def test_an_end_carries_the_hosts_own_text_and_its_status():
    call = decode(event("postToolUse"))
    assert isinstance(call, CallEnded)
    assert call.result == EVENTS["postToolUse"]["tool_output"]
    assert (call.exit_code, call.is_error, call.executed) == (0, False, True)
    assert call.start.input == {"command": "ls -l"}
    assert call.text is None, "no hook can replace a shell result"


@pytest.mark.parametrize(
    "output", [None, "", "no json", "[]", '{"output":"x"}', '{"exitCode":true}', {"exitCode": 0}]
)
def test_an_output_of_another_shape_is_kept_and_its_status_unknown(output):
    call = decode(event("postToolUse", tool_output=output))
    assert call.result == output
    assert call.exit_code is (0 if isinstance(output, dict) else None)


@pytest.mark.parametrize(
    ("failure", "ran"),
    [("error", True), ("timeout", True), ("permission_denied", False), ("of another kind", True)],
)
def test_a_failure_is_an_end_and_a_refused_call_did_not_run(failure, ran):
    call = decode(event("postToolUseFailure", failure_type=failure))
    assert (call.is_error, call.executed, call.exit_code) == (True, ran, None)
    assert call.result == {
        "error_message": "Command failed with exit code 2", "failure_type": failure, "is_interrupt": False,
    }  # fmt: skip


@pytest.mark.parametrize("key", ["tool_use_id", "tool_name"])
@pytest.mark.parametrize("value", [None, "", 7, {}])
@pytest.mark.parametrize("kind", ["preToolUse", "postToolUse", "postToolUseFailure"])
def test_an_event_without_what_names_the_call_is_declined(kind, key, value):
    assert decode(event(kind, **{key: value})) is None


def test_a_session_without_a_conversation_is_known_by_its_own_id():
    assert decode(event("preToolUse", conversation_id=None)).source_session_id == CHAT
    assert decode(event("preToolUse", conversation_id=None, session_id=None)) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["\0", "\ud800", "MCP:x", "Shell"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.sampled_from(list(EVENTS)), st.data())
def test_whatever_an_event_holds_nothing_is_raised_and_the_answer_fits(kind, data):
    asked = event(kind)
    for key in data.draw(st.lists(st.sampled_from(list(asked)), max_size=3)):
        asked[key] = data.draw(JSON)
    decode(asked)
    replace(asked, "short")
    for decision in DECISIONS.values():
        answer = reply(asked, decision)
        assert isinstance(answer, dict)
        assert answer.get("permission", "deny") == "deny"


# -- MCP results


def mcp(result, **more):
    text = result if isinstance(result, str) else json.dumps(result)
    return event("postToolUse", tool_name="MCP:echo", tool_input={}, tool_output=text, **more)


def test_the_texts_of_an_mcp_result_can_be_given_another_one():
    asked = mcp(MCP)
    assert decode(asked).text == "row 1\n" * 900 + "row 2\n"
    short = replace(asked, "short")
    assert short == {
        "content": [{"type": "text", "text": "short"}, {"type": "image", "data": "AA=="}], "isError": False,
    }  # fmt: skip
    assert reply(asked, Decision(content="short", result=short)) == {
        "updated_mcp_tool_output": short
    }


@pytest.mark.parametrize(
    "result",
    ["", "no json", "7", "[]", {}, {"content": "text"}, {"content": []}, {"content": [{"type": "image"}]},
     {"content": [{"type": "text", "text": 7}]}, {"content": MCP["content"], "structuredContent": {"rows": 2}}],
)  # fmt: skip
def test_an_mcp_result_of_another_shape_stays_as_it_is(result):
    assert decode(mcp(result)).text is None
    assert replace(mcp(result), "short") is None


def test_no_other_result_is_replaced():
    for tool in ("Shell", "Read", "Grep", "tiny-echo"):
        assert (
            decode(event("postToolUse", tool_name=tool, tool_output=json.dumps(MCP))).text is None
        )


# -- answers

PERMISSION = {"permission", "user_message", "agent_message"}
MAY_ANSWER = {
    "preToolUse": PERMISSION | {"updated_input", "additional_context"},
    "postToolUse": {"additional_context", "updated_mcp_tool_output"},
    "postToolUseFailure": {"additional_context"},
    "beforeShellExecution": PERMISSION, "beforeMCPExecution": PERMISSION, "beforeReadFile": PERMISSION,
    "beforeSubmitPrompt": {"continue", "user_message", "additional_context"},
    "sessionStart": {"env", "additional_context"},
    "stop": {"followup_message"}, "subagentStop": {"followup_message"},
    "preCompact": {"user_message"}, "subagentStart": PERMISSION,
}  # fmt: skip


def complaint(kind, answer):
    """Why Cursor would not take an answer, or would take it for an approval; None: it is good."""
    if not isinstance(answer, dict):
        return "not an object: an empty answer is a failure"
    if answer.keys() - MAY_ANSWER.get(kind, set()):
        return "a key that this step does not take"
    if answer.get("permission", "deny") != "deny":
        return "an approval"
    if "permission" in answer and not answer.get("user_message"):
        return "a refusal without a reason"
    if "updated_input" in answer and (
        "permission" in answer or not isinstance(answer["updated_input"], dict)
    ):
        return "a rewrite with a permission, or of another shape"
    return None


DECISIONS = {
    "none": Decision(),
    "blocked": Decision(blocked="[yarp] the archive cannot be written"),
    "input": Decision(input={"command": "yarp run --shell 'ls -l'"}),
    "notice": Decision(notice="[yarp] off in this session: config.toml"),
    "content": Decision(content="short", result={"content": []}),
}


@pytest.mark.parametrize("kind", [*EVENTS, "somethingNew"])
@pytest.mark.parametrize("decision", DECISIONS)
def test_every_answer_has_the_shape_that_cursor_takes(kind, decision):
    asked = event(kind) if kind in EVENTS else {**COMMON, "hook_event_name": kind}
    answer = reply(asked, DECISIONS[decision])
    assert complaint(kind, answer) is None
    json.dumps(answer)
    if decision == "none":
        assert answer == {}


def test_only_the_step_before_a_call_can_refuse_and_it_says_why():
    for kind in EVENTS:
        refused = "permission" in reply(event(kind), DECISIONS["blocked"])
        assert refused is (kind == "preToolUse")
    answer = reply(event("preToolUse"), DECISIONS["blocked"])
    assert (
        answer["agent_message"] == answer["user_message"] == "[yarp] the archive cannot be written"
    )


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("preToolUse", None), ("preToolUse", []), ("preToolUse", {"permission": "allow"}),
     ("preToolUse", {"permission": "ask"}), ("preToolUse", {"permission": "deny"}),
     ("preToolUse", {"updated_input": "ls"}), ("afterShellExecution", {"permission": "deny"}),
     ("preToolUse", {"updated_input": {}, "permission": "deny", "user_message": "x"}),
     ("postToolUse", {"updated_input": {}}), ("preToolUse", {"hookSpecificOutput": {}})],
)  # fmt: skip
def test_the_check_of_answers_sees_a_wrong_one(kind, answer):
    assert complaint(kind, answer) is not None
