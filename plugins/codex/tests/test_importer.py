from __future__ import annotations

import importlib.util
import json
import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from yarp.plugin import Call, Issue, Observation, Rejected, Result, Session, SourceItem
from yarp_codex import importer
from yarp_codex.store import discover, read


def _module(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"yarp_codex_tests_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


made = _module("rollout")
Rollout, envelope, THREAD, T0 = made.Rollout, made.envelope, made.THREAD, made.T0


class Read:
    """What the importer says of one rollout, sorted out."""

    def __init__(self, facts, issues=()):
        self.facts = list(facts)
        self.sessions = [one for one in self.facts if isinstance(one, Session)]
        self.calls = {one.native_call_id: one for one in self.facts if isinstance(one, Call)}
        self.results = [one for one in self.facts if isinstance(one, Result)]
        self.observations = [one for one in self.facts if isinstance(one, Observation)]
        self.issues = [one for one in self.facts if isinstance(one, Issue)] + list(issues)
        named = [one for one in self.facts if isinstance(one, Call) and one.native_call_id]
        assert len({one.native_call_id for one in named}) == len(named)

    def result(self, call_id):
        (found,) = self.results_of(call_id)
        return found

    def results_of(self, call_id):
        return [one for one in self.results if one.call == self.calls[call_id].identity]

    def kinds_of(self, target):
        return [one.native_record_kind for one in self.observations if one.target is target]


@pytest.fixture
def of(tmp_path):
    def read_of(rollout, **item):
        path = rollout.write(tmp_path / "sessions")
        item = SourceItem("sessions", str(tmp_path / "sessions"), os.path.relpath(path, tmp_path / "sessions"), **item)  # fmt: skip
        try:
            facts = list(read(item))
            return Read(facts, item.issues)
        finally:
            item.close()

    return read_of


def test_a_direct_call_is_one_call_and_one_result_seen_three_times(of):
    rollout = Rollout(ordinals=True).turn().call("call_1", arguments='{"cmd":"echo é","workdir":"sub"}')  # fmt: skip
    rollout.ran("call_1", "echo é", "é\n").output("call_1", envelope("é\n"))
    found = of(rollout)
    assert found.sessions == [Session(THREAD, 1789999980000)]
    call = found.calls["call_1"]
    assert (call.identity, call.session, call.tool_name) == (
        (THREAD, "call_1"),
        THREAD,
        "exec_command",
    )
    assert (call.input, call.input_format) == ('{"cmd":"echo é","workdir":"sub"}', "json_or_text")
    assert (call.provider, call.model, call.working_directory) == (
        "mock",
        "gpt-5.5",
        "/srv/demo/sub",
    )
    assert call.called_at_ms == 1789999980003
    result = found.result("call_1")
    assert result.output_text == envelope("é\n")
    assert result.output_json == {
        "status": "completed",
        "exit_code": 0,
        "duration": {"secs": 0, "nanos": 7},
    }
    assert (result.is_error, result.returned_at_ms) == (False, 1789999980005)
    assert found.kinds_of(call) == ["response_item/function_call"]
    assert found.kinds_of(result) == [
        "response_item/function_call_output",
        "event_msg/item_completed/CommandExecution",
    ]
    last = found.observations[-1]
    assert (last.record_kind, last.line_number, last.sequence_number) == ("projection", 5, 4)
    assert not found.issues


def test_what_happened_may_stand_before_or_behind_the_output(of):
    """Codex writes the end of a patch before its output, that of a command behind it."""
    end = {
        "call_id": "call_1",
        "command": ["bash", "-lc", "ls"],
        "stdout": "",
        "stderr": "",
        "aggregated_output": "a\n",
        "exit_code": 1,
        "status": "failed",
    }
    before = of(Rollout().call("call_1").event("exec_command_end", **end).output("call_1", "a\n"))
    behind = of(Rollout().call("call_1").output("call_1", "a\n").event("exec_command_end", **end))
    for found in (before, behind):
        result = found.result("call_1")
        assert (result.output_text, result.is_error) == ("a\n", True)
        assert result.output_json == {"status": "failed", "exit_code": 1}
    patch = {
        "call_id": "call_2",
        "stdout": "Success.\n",
        "stderr": "",
        "success": True,
        "changes": {"/a": {"type": "add", "content": "x"}},
    }
    rollout = Rollout().item(
        "custom_tool_call", call_id="call_2", name="apply_patch", input="*** Begin Patch"
    )
    found = of(
        rollout.event("patch_apply_end", **patch).output(
            "call_2",
            "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n",
            "custom_tool_call_output",
        )
    )
    call = found.calls["call_2"]
    assert (call.input, call.input_format) == ("*** Begin Patch", "text")
    assert found.result("call_2").output_json == {"success": True, "changes": patch["changes"]}
    assert found.result("call_2").is_error is False


def test_a_text_that_the_model_was_not_given_stays_as_structure(of):
    rollout = (
        Rollout()
        .call("call_1")
        .ran("call_1", "ls", "all of it\n")
        .output("call_1", envelope("…cut…"))
    )
    assert of(rollout).result("call_1").output_json["aggregated_output"] == "all of it\n"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("head of it…24 chars truncated…the end\n", False),
        ("head\n\n... command output truncated for persistence ...\n\nend\n", False),
        ("head of it and more…7 tokens truncated…the end\n", True),
    ],
)
def test_a_text_that_codex_cut_elsewhere_tells_nothing_new(of, told, kept):
    """A fork that copies its parent's records cuts what happened once more."""
    rollout = (
        Rollout().call("call_1").output("call_1", "head of it…338894 chars truncated…the end\n")
    )
    rollout.event("exec_command_end", call_id="call_1", command=["ls"], aggregated_output=told)
    structure = of(rollout).result("call_1").output_json
    assert ("aggregated_output" in (structure or {})) is kept


def test_the_output_inside_of_an_older_tools_json_is_no_second_text(of):
    text = '{"output":"a\\n","metadata":{"exit_code":2,"duration_seconds":0.1}}'
    rollout = Rollout().call("call_1", "shell", '{"command":["bash","-lc","ls"]}')
    rollout.event(
        "exec_command_end", call_id="call_1", command=["bash", "-lc", "ls"], aggregated_output="a\n"
    )
    result = of(rollout.output("call_1", text)).result("call_1")
    assert (result.output_text, result.output_json, result.is_error) == (text, None, True)


def test_a_command_that_a_hook_replaced_is_told_beside_the_call(of):
    rollout = (
        Rollout().call("call_1").ran("call_1", "yarp run -- ls", "a\n").output("call_1", "a\n")
    )
    found = of(rollout)
    assert found.calls["call_1"].input == '{"cmd":"ls"}'
    assert found.result("call_1").output_json["command"] == ["/bin/bash", "-lc", "yarp run -- ls"]


def test_distinct_outputs_of_one_call_stay_apart(of):
    rollout = (
        Rollout()
        .call("call_1")
        .output("call_1", "one")
        .output("call_1", "two")
        .output("call_1", "one")
    )
    found = of(rollout.ran("call_1", "ls", "two"))
    one, two = found.results_of("call_1")
    assert (one.output_text, one.output_json) == ("one", None)
    assert two.output_text == "two"
    # Of which of them the projection tells is shown by its text; what else it says claims less.
    assert [entry["source"] for entry in two.output_json["source_projections"]] == [
        "event_msg/item_completed/CommandExecution"
    ]
    assert found.kinds_of(one) == ["response_item/function_call_output"] * 2


def test_projections_that_contradict_one_another_are_both_kept(of):
    rollout = Rollout().call("call_1").output("call_1", "x")
    rollout.event(
        "exec_command_end", call_id="call_1", command=["ls"], exit_code=0, status="completed"
    )
    rollout.event(
        "exec_command_end", call_id="call_1", command=["ls"], exit_code=3, status="failed"
    )
    result = of(rollout).result("call_1")
    assert result.output_json == {
        "status": "completed", "exit_code": 0,
        "source_projections": [{"source": "event_msg/exec_command_end", "status": "failed", "exit_code": 3}],
    }  # fmt: skip
    assert result.is_error is False


def test_calls_inside_a_script_are_calls_of_their_own_tied_by_order_only(of):
    rollout = Rollout().turn("gpt-6-sol").script("call_1", "await tools.exec_command({cmd:'ls'})")
    rollout.ran("exec-1", "ls", "a\n", 2)
    rollout.happened(
        "FileChange",
        "exec-2",
        changes={"/a": {"type": "add", "content": "x"}},
        status="completed",
        stdout="Success.\n",
        stderr="",
    )
    rollout.happened(
        "McpToolCall",
        "exec-3",
        server="tiny",
        tool="echo",
        arguments={"text": "x"},
        status="completed",
        result={
            "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
            "structuredContent": {"n": 1},
            "isError": False,
        },
    )
    blocks = [
        {"type": "input_text", "text": "Script completed\nWall time 0.1 seconds\nOutput:\n"},
        {"type": "input_text", "text": "{}"},
    ]
    found = of(rollout.output("call_1", blocks, "custom_tool_call_output"))
    assert set(found.calls) == {"call_1", "exec-1", "exec-2", "exec-3"}
    outer = found.calls["call_1"]
    assert (outer.tool_name, outer.input_format) == ("exec", "text")
    assert (
        found.result("call_1").output_text
        == "Script completed\nWall time 0.1 seconds\nOutput:\n\n{}"
    )
    assert found.result("call_1").is_error is False
    ran, changed, asked = (found.calls[f"exec-{number}"] for number in (1, 2, 3))
    assert ran.input == {"argv": ["/bin/bash", "-lc", "ls"], "cmd": "ls"}
    assert (ran.tool_name, ran.model, ran.called_at_ms) == ("exec_command", "gpt-6-sol", T0 + 5)
    assert ran.working_directory == "/srv/demo app"
    assert (changed.tool_name, changed.input) == (
        "apply_patch",
        {"changes": {"/a": {"type": "add", "content": "x"}}},
    )
    assert (asked.tool_name, asked.input) == ("mcp__tiny__echo", {"text": "x"})
    assert (found.result("exec-1").output_text, found.result("exec-1").is_error) == ("a\n", True)
    assert found.result("exec-2").output_json == {"status": "completed"}
    assert found.result("exec-3").output_text == "x\ny"
    assert found.result("exec-3").output_json == {
        "status": "completed",
        "result": {"structuredContent": {"n": 1}, "isError": False},
    }
    nested = [one for one in found.observations if "by order" in one.native_record_kind]
    assert len(nested) == 6
    assert {(one.native_branch_id, one.record_kind) for one in nested} == {("call_1", "projection")}


def test_with_several_scripts_at_work_a_call_is_tied_to_none(of):
    rollout = Rollout().script("call_1", "a").script("call_2", "b").ran("exec-1", "ls", "a\n")
    rollout.output("call_1", "Script completed\n").ran("exec-2", "ls", "a\n").output(
        "call_2", "x"
    ).ran("exec-3", "ls", "")
    found = of(rollout)
    tied = {
        one.target.native_call_id: one.native_branch_id
        for one in found.observations
        if isinstance(one.target, Call)
    }
    assert tied == {
        "call_1": None,
        "call_2": None,
        "exec-1": None,
        "exec-2": "call_2",
        "exec-3": None,
    }


def test_a_script_that_is_waited_for_goes_on(of):
    rollout = (
        Rollout()
        .script("call_1", "a")
        .output("call_1", "Script running with cell ID 7\nWall time 0.3 seconds\n")
    )
    rollout.call("call_2", "wait", '{"cell_id":"7"}').ran("exec-1", "ls", "late\n")
    rollout.output("call_2", [{"type": "input_text", "text": "Script completed\nx"}]).ran(
        "exec-2", "ls", ""
    )
    found = of(rollout)
    tied = {
        one.target.native_call_id: one.native_branch_id
        for one in found.observations
        if isinstance(one.target, Call)
    }
    assert (tied["exec-1"], tied["exec-2"]) == ("call_1", None)


def test_a_call_that_only_an_event_tells_of_is_recovered(of):
    rollout = Rollout().event(
        "mcp_tool_call_end",
        call_id="call_1",
        invocation={"server": "tiny", "tool": "fail", "arguments": {"n": 1}},
        result={"Err": "gone"},
        duration={"secs": 1, "nanos": 0},
    )
    found = of(rollout)
    call, result = found.calls["call_1"], found.result("call_1")
    assert (call.tool_name, call.input, call.called_at_ms) == ("mcp__tiny__fail", {"n": 1}, None)
    assert (result.output_text, result.is_error) == (None, True)
    assert result.output_json == {"result": {"Err": "gone"}, "duration": {"secs": 1, "nanos": 0}}
    assert [one.record_kind for one in found.observations] == ["projection"] * 2


def test_a_command_that_the_user_typed_is_no_tool_call(of):
    rollout = Rollout().event(
        "exec_command_end",
        call_id="u1",
        source="user_shell",
        command=["bash", "-lc", "ls"],
        aggregated_output="a\n",
        exit_code=0,
    )
    found = of(rollout)
    assert not found.calls
    assert not found.results
    assert not found.issues


def test_a_search_without_an_id_is_left_visibly_unmatched(of):
    action = {"type": "search", "query": "yarp"}
    rollout = Rollout().item("web_search_call", status="completed", action=action)
    rollout.item("web_search_call", status="completed", action=action)
    found = of(rollout.event("web_search_end", call_id="ws_1", query="yarp", action=action))
    calls = [one for one in found.facts if isinstance(one, Call)]
    assert [(one.native_call_id, one.tool_name, one.input) for one in calls] == [
        (None, "web_search", action)
    ] * 2
    assert len({one.identity for one in calls}) == len({one.copy_of for one in calls}) == 2
    assert not found.results
    assert [(one.code, one.line_number) for one in found.issues] == [("result_without_call", 4)]


def test_a_search_with_an_id_is_joined_to_its_end(of):
    action = {"type": "search", "query": "yarp"}
    rollout = Rollout().item("web_search_call", id="ws_1", status="completed", action=action)
    found = of(rollout.event("web_search_end", call_id="ws_1", query="yarp", action=action))
    assert found.result("ws_1").output_json == {"query": "yarp", "action": action}
    assert not found.issues


def test_the_older_local_shell_call_is_a_call(of):
    action = {"type": "exec", "command": ["ls"], "timeout_ms": 5, "working_directory": "/x"}
    rollout = Rollout().item(
        "local_shell_call", id="lsh_1", call_id="call_1", status="completed", action=action
    )
    found = of(
        rollout.output(
            "call_1", '{"output":"a\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}'
        )
    )
    call = found.calls["call_1"]
    assert (call.tool_name, call.input, call.working_directory) == ("local_shell", action, "/x")
    assert found.result("call_1").is_error is False


def test_a_tool_search_has_its_tools_as_structure(of):
    rollout = Rollout().item(
        "tool_search_call", call_id="call_1", execution="client", arguments={"query": "echo"}
    )
    rollout.item(
        "tool_search_output",
        call_id="call_1",
        status="completed",
        execution="client",
        tools=[{"name": "echo"}],
    )
    found = of(rollout)
    assert (found.calls["call_1"].tool_name, found.calls["call_1"].input) == (
        "tool_search",
        {"query": "echo"},
    )
    assert found.result("call_1").output_json == {
        "status": "completed",
        "execution": "client",
        "tools": [{"name": "echo"}],
    }


def test_blocks_that_are_no_text_and_outputs_of_other_shapes_are_structure(of):
    image = {"type": "input_image", "image_url": "data:image/png;base64,eHg="}
    rollout = (
        Rollout().call("call_1").output("call_1", [{"type": "input_text", "text": "a"}, image])
    )
    rollout.call("call_2").output("call_2", {"content": "x", "success": False})
    rollout.call("call_3").output("call_3", [1, 2])
    rollout.call("call_4").output("call_4", None).call("call_5").output("call_5", [])
    found = of(rollout)
    assert (found.result("call_1").output_text, found.result("call_1").output_json) == (
        "a",
        {"content": [image]},
    )
    assert (found.result("call_2").output_text, found.result("call_2").output_json) == (
        None,
        {"content": "x", "success": False},
    )
    assert found.result("call_3").output_json == {"canonical_structured_output": [1, 2]}
    assert found.result("call_4").output_json == {"canonical_structured_output": None}
    assert (found.result("call_5").output_text, found.result("call_5").output_json) == ("", None)


def test_arguments_that_are_no_json_are_kept_as_they_are(of):
    found = of(Rollout().call("call_1", arguments='{"cmd": 5').output("call_1", "failed to parse"))
    assert (found.calls["call_1"].input, found.calls["call_1"].input_format) == (
        '{"cmd": 5',
        "json_or_text",
    )


def test_what_a_record_of_another_shape_gives_is_kept_as_json(of):
    rollout = Rollout().call("call_1", arguments=None)
    rollout.item("custom_tool_call", name="exec", call_id="call_2", input=5)
    rollout.item("custom_tool_call", name="exec", call_id="call_3", input="")
    rollout.item("local_shell_call", call_id="call_4", action=None)
    rollout.item("local_shell_call", call_id="call_5")
    calls = of(rollout).calls
    assert [(calls[f"call_{n}"].input, calls[f"call_{n}"].input_format) for n in range(1, 6)] == [
        (None, "json"),
        (5, "json"),
        ("", "text"),
        (None, "json"),
        ({}, "json"),
    ]


def test_a_history_that_replaces_another_makes_no_calls(of):
    old = [{"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "call_9"}]
    found = of(
        Rollout().call("call_1").add("compacted", {"message": "x", "replacement_history": old})
    )
    assert set(found.calls) == {"call_1"}
    assert not found.issues


def test_the_first_header_says_whose_the_file_is_and_later_ones_do_not(of):
    rollout = Rollout(source={"custom": "x"}).add(
        "session_meta", {"id": THREAD, "cwd": "/elsewhere"}
    )
    rollout.add("session_meta", {"id": "another"}).call("call_1")
    found = of(rollout)
    assert [one.native_id for one in found.sessions] == [THREAD]
    assert found.calls["call_1"].session == THREAD
    assert found.calls["call_1"].working_directory == "/srv/demo"


def test_a_copy_in_a_fork_shares_what_its_original_has_however_far_it_is_copied(of):
    """Older builds repeat all records of the parent in the fork, with new times."""
    parent = Rollout("parent").call("call_1").output("call_1", "x").call("call_2")
    fork = Rollout("fork", forked_from_id="parent")
    second = Rollout("second", forked_from_id="fork")
    original = of(parent)
    for line in parent.lines:
        value = json.loads(line)
        fork.add(value["type"], value["payload"])
    fork.call("call_3")
    for line in fork.lines:
        value = json.loads(line)
        second.add(value["type"], value["payload"])
    copy, further = of(fork), of(second)
    for call_id in ("call_1", "call_2"):
        calls = [found.calls[call_id] for found in (original, copy, further)]
        assert len({one.copy_of for one in calls}) == 1
        assert [one.session for one in calls] == ["parent", "fork", "second"]
        assert len({one.identity for one in calls}) == 3
    assert copy.calls["call_3"].copy_of == further.calls["call_3"].copy_of
    # The same id, used for something else in another fork, is another call.
    assert (
        copy.calls["call_3"].copy_of
        != of(Rollout("parent").call("call_3", arguments="{}")).calls["call_3"].copy_of
    )


def test_what_a_copying_fork_calls_itself_is_its_own(of):
    """A turn's id holds the time when it began, and so does the thread's."""
    old, own = "01a22a65-0000-7000-8000-00000000000a", "01a22a67-0000-7000-8000-00000000000b"
    parent_id, fork_id = (
        "01a22a64-0000-7000-8000-00000000000c",
        "01a22a66-0000-7000-8000-00000000000d",
    )
    parent = Rollout(parent_id).turn(turn_id=old).call("call_1")
    fork = Rollout(fork_id, forked_from_id=parent_id)
    for line in parent.lines:
        fork.add(json.loads(line)["type"], json.loads(line)["payload"])
    copy = of(fork.turn(turn_id=own).call("call_2"))
    original = of(parent.turn(turn_id=own).call("call_2"))
    assert copy.calls["call_1"].copy_of == original.calls["call_1"].copy_of
    assert copy.calls["call_2"].copy_of != original.calls["call_2"].copy_of
    helper = Rollout("child", ordinals=True, subagent_history_start_ordinal=3)
    helper.add("session_meta", {"id": "parent"}).call("call_1").call("call_2")
    found = of(helper).calls
    assert [found[name].copy_of[0] for name in ("call_1", "call_2")] == ["parent", "child"]


def test_forks_that_only_refer_to_their_parents_share_nothing(of):
    base = {"thread_id": "parent", "end_ordinal_exclusive": 3}
    found = [
        of(Rollout(name, forked_from_id="parent", history_base=base).call("call_9"))
        for name in ("one", "two")
    ]
    assert len({one.calls["call_9"].copy_of for one in found}) == 2


def test_a_subagents_calls_name_the_thread_that_it_works_for(of):
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "parent", "depth": 1}}}
    found = of(Rollout(source=source, thread_source="subagent").call("call_1"))
    assert found.calls["call_1"].native_worker_id == "parent"
    assert found.calls["call_1"].session == THREAD


def test_an_id_that_is_used_again_is_an_issue_and_no_second_call(of):
    found = of(Rollout().call("call_1").call("call_1").call("call_1", arguments='{"cmd":"other"}'))
    assert found.calls["call_1"].input == '{"cmd":"ls"}'
    assert len(found.kinds_of(found.calls["call_1"])) == 3
    assert [(one.code, one.line_number) for one in found.issues] == [("call_id_reused", 4)]


def test_an_output_without_its_call_stays_and_one_that_names_none_is_an_issue(of):
    found = of(Rollout().output("call_9", "x").item("function_call_output", output="y"))
    assert [one.call for one in found.results] == [(THREAD, "call_9")]
    assert [(one.code, one.line_number) for one in found.issues] == [("result_without_call", 3)]


def test_records_of_unknown_kinds_are_issues_when_they_may_be_calls(of):
    rollout = Rollout().item("teleport_call", call_id="x").item("ghost_snapshot").event("brand_new")
    rollout.item("function_call", arguments="{}", call_id="x").item(
        "function_call", name="a", arguments="{}"
    )
    rollout.lines.append('{"oh":"no"}')
    found = of(rollout)
    assert Counter(one.code for one in found.issues) == {
        "unknown_call_record": 3,
        "unknown_record": 1,
    }
    assert not found.calls


@pytest.mark.parametrize(
    "first", ['{"type":"message"}', '{"timestamp":"x","type":"session_meta","payload":{}}', "[]"]
)
def test_a_file_without_a_header_is_rejected(of, first):
    rollout = Rollout().call("call_1")
    rollout.lines[0] = first
    with pytest.raises(Rejected) as rejected:
        of(rollout)
    assert rejected.value.issue.code == "unsupported_codex_source"


def test_behind_a_damaged_first_line_only_a_header_of_the_files_own_thread_counts(of):
    rollout = Rollout("fork").add("session_meta", {"id": "parent"}).call("call_1")
    rollout.lines[0] = rollout.lines[0][:40]
    with pytest.raises(Rejected):
        of(rollout)
    rollout = Rollout().add("session_meta", {"id": THREAD}).call("call_1")
    rollout.lines[0] = rollout.lines[0][:40]
    assert set(of(rollout).calls) == {"call_1"}


def test_a_damaged_line_and_an_unfinished_one_leave_their_neighbours_alone(of, tmp_path):
    rollout = Rollout().call("call_1").call("call_2").call("call_3")
    rollout.lines[2] = rollout.lines[2] + rollout.lines[2]  # two records in one line
    rollout.lines[3] = rollout.lines[3][:-1]
    rollout.text = lambda: "\n".join(rollout.lines)
    found = of(rollout)
    assert set(found.calls) == {"call_1"}
    assert [(one.code, one.line_number) for one in found.issues] == [("malformed_jsonl", 3)]


def test_an_empty_file_says_nothing(of):
    rollout = Rollout()
    rollout.lines = []
    assert not of(rollout).facts


def large_rollout():
    rollout = Rollout()
    for number in range(40):
        rollout.call(f"call_{number}").ran(f"call_{number}", "ls", f"{number} " * 500)
        rollout.output(f"call_{number}", envelope(f"{number} " * 500))
    return rollout.ran("call_0", "ls", "late\n")


@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_too_much_to_hold_is_read_again_with_the_same_result(
    tmp_path, monkeypatch, compressed
):
    folder = tmp_path / "sessions"
    path = large_rollout().write(folder)
    if compressed:
        data = zstandard.ZstdCompressor().compress(path.read_bytes())
        path.unlink()
        path = path.with_name(path.name + ".zst")
        path.write_bytes(data)
    found = []
    for held in (1 << 20, 10_000, 0):
        monkeypatch.setattr(importer, "HELD_BYTES", held)
        item = SourceItem("sessions", str(folder), os.path.relpath(path, folder))
        found.append(Read(read(item)))
        item.close()
    for one in found:
        assert len(one.results) == 40
    texts = [
        {one.call: (one.output_text, one.output_json) for one in read_.results} for read_ in found
    ]
    assert texts[0] == texts[1] == texts[2]
    counts = [
        Counter((one.line_number, one.record_sha256) for one in read_.observations)
        for read_ in found
    ]
    assert counts[0] == counts[1] == counts[2]


def state(path, *threads):
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE threads (id TEXT, rollout_path TEXT, cwd TEXT, model_provider TEXT, model TEXT, created_at INTEGER, title TEXT)"
    )
    connection.executemany("INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?, 'secret title')", threads)
    connection.commit()
    connection.close()


def found_below(tmp_path, *flags):
    roots = {
        "sessions": "sessions",
        "archived-sessions": "archived_sessions",
        "state-db": "state_5.sqlite",
    }
    return list(discover({flag: str(tmp_path / roots[flag]) for flag in ("sessions", *flags)}))


def test_rollouts_are_found_plain_and_compressed_and_archived_ones_too(tmp_path):
    plain = Rollout("one").write(tmp_path / "sessions")
    Rollout("two").write(tmp_path / "sessions", "rollout-two.jsonl.zst")
    (plain.parent / (plain.name + ".zst")).write_bytes(b"being compressed")
    (plain.parent / "notes.txt").write_text("x")
    Rollout("three").write(tmp_path / "archived_sessions")
    found = found_below(tmp_path, "archived-sessions")
    assert [(one.kind, os.path.basename(one.path)) for one in found] == [
        ("sessions", plain.name),
        ("sessions", "rollout-two.jsonl.zst"),
        ("archived_sessions", "rollout-2026-09-21T14-13-00-three.jsonl"),
    ]


def test_the_list_of_threads_fills_gaps_and_names_what_is_missing(tmp_path):
    rollout = Rollout("one", cwd=None, model_provider=None, timestamp=None)
    rollout.lines[0] = rollout.lines[0].replace(made.stamp(0), "yesterday")
    path = rollout.call("call_1").write(tmp_path / "sessions")
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text("")
    state(
        tmp_path / "state_5.sqlite",
        ("one", str(path), "/listed", "listed", "gpt-9", 1_790_000_000),
        ("two", str(elsewhere), "/x", "x", "x", 1),
        ("three", str(tmp_path / "gone.jsonl"), "/x", "x", "x", 1),
        ("four", str(tmp_path / "a\0b.jsonl"), "/x", "x", "x", 1),
    )
    before = sorted(os.listdir(tmp_path))
    found = found_below(tmp_path, "state-db")
    assert sorted(os.listdir(tmp_path)) == before
    item, listed = found
    assert (listed.path, listed.refused) == (str(tmp_path / "state_5.sqlite"), None)
    assert [(one.code, one.sqlite_blob_id) for one in read(listed)] == [
        ("rollout_missing", "four"),
        ("rollout_missing", "three"),
        ("rollout_outside_roots", "two"),
    ]
    assert "secret title" not in repr(item.context)
    read_ = Read(read(item))
    item.close()
    call = read_.calls["call_1"]
    assert (call.working_directory, call.provider, call.model) == ("/listed", "listed", "gpt-9")
    assert read_.sessions == [Session("one", 1_790_000_000_000)]


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be one" * 9])
def test_a_list_that_cannot_be_read_is_an_issue_and_the_rollouts_are_read(tmp_path, content):
    Rollout("one").write(tmp_path / "sessions")
    (tmp_path / "state_5.sqlite").write_bytes(content)
    item, listed = found_below(tmp_path, "state-db")
    assert listed.path == str(tmp_path / "state_5.sqlite")
    assert listed.refused.code in ("unsupported_codex_state", "malformed_database")
    assert item.refused is None


def test_prompts_prose_and_reasoning_are_said_nowhere(of):
    secret = "planted-secret"
    rollout = Rollout(base_instructions={"text": secret}, git={"branch": secret})
    rollout.item("message", role="user", content=[{"type": "input_text", "text": secret}])
    rollout.item("reasoning", summary=[{"text": secret}], encrypted_content=secret)
    rollout.event("user_message", message=secret).event("agent_message", message=secret)
    rollout.happened("AgentMessage", "m", content=[{"type": "Text", "text": secret}])
    rollout.add("turn_context", {"model": "m", "user_instructions": secret})
    rollout.add("compacted", {"message": secret}).add("world_state", {"x": secret})
    rollout.call("call_1", arguments='{"cmd":"echo planted-control"}').output(
        "call_1", "planted-control"
    )
    found = of(rollout)
    said = repr(
        [
            [getattr(one, name) for name in one.__slots__ if not name.startswith("__")]
            for one in found.facts
            if hasattr(one, "__slots__")
        ]
    )
    assert "planted-control" in said
    assert secret not in said


def mutations(value, depth=0):
    """The value with one part of it replaced by something odd, or missing."""
    odd = (None, True, 7, -1.5, "", "odd", [], {}, [None], {"": None}, 2**70)
    if depth == 0:
        yield from odd
    if isinstance(value, dict) and depth < 4:
        for key, part in value.items():
            yield {name: one for name, one in value.items() if name != key}
            for other in odd:
                yield {**value, key: other}
            for inner in mutations(part, depth + 1):
                yield {**value, key: inner}
    elif isinstance(value, list) and value and depth < 4:
        for inner in mutations(value[0], depth + 1):
            yield [inner, *value[1:]]


def test_a_record_of_unexpected_shape_costs_nothing_but_itself(tmp_path):
    """A next version of Codex writes something else: the dataset can hold what is said of it."""
    whole = Rollout().turn().script("call_1", "x").ran("exec-1", "ls", "a\n", 1)
    whole.output("call_1", [{"type": "input_text", "text": "Script completed\n"}])
    whole.call("call_2", "wait", '{"cell_id":"7"}').output("call_2", '{"output":"x","metadata":{}}')
    whole.item("local_shell_call", call_id="call_3", action={"command": ["ls"]})
    whole.item("tool_search_call", call_id="call_4", arguments={"q": 1})
    whole.item("tool_search_output", call_id="call_4", tools=[])
    whole.item("image_generation_call", id="ig_1", status="completed", result="eHg=")
    whole.happened(
        "McpToolCall",
        "exec-2",
        server="a",
        tool="b",
        arguments={},
        result={"content": [{"type": "text", "text": "x"}]},
    )
    whole.happened("CollabAgentToolCall", "exec-3", tool="spawn_agent", receiver_thread_ids=["a"])
    whole.event("patch_apply_end", call_id="call_5", changes={"/a": {}}, stdout="x", success=True)
    whole.event("web_search_end", call_id="ws_1", query="q", action={"type": "search"})
    whole.event(
        "mcp_tool_call_end",
        call_id="call_6",
        invocation={"server": "a", "tool": "b"},
        result={"Ok": {"content": []}},
    )
    whole.event(
        "dynamic_tool_call_response",
        call_id="call_7",
        tool="t",
        arguments={},
        content_items=[{"type": "inputText", "text": "x"}],
    )
    (tmp_path / "sessions").mkdir()
    path = tmp_path / "sessions" / "rollout.jsonl"
    tried = 0
    for number, line in enumerate(whole.lines):
        values = [json.dumps(value) for value in mutations(json.loads(line))]
        # One file for all of a line's mutations; the header's need files of their own.
        files = [[value] for value in values] if number == 0 else [values]
        for several in files:
            lines = [*whole.lines[:number], *several, *whole.lines[number + 1 :]]
            path.write_text("".join(one + "\n" for one in lines))
            item = SourceItem("sessions", str(tmp_path / "sessions"), "rollout.jsonl")
            try:
                facts = list(read(item))
            except Rejected:
                assert number == 0
                continue
            finally:
                item.close()
            tried += len(several)
            for fact in facts:
                if isinstance(fact, Call):
                    assert type(fact.tool_name) is type(fact.session) is str
                    assert type(fact.called_at_ms) in (int, type(None))
                    assert type(fact.model) in (str, type(None))
                elif isinstance(fact, Result):
                    assert type(fact.output_text) in (str, type(None))
                    assert (fact.output_text, fact.output_json) != (None, None)
                    assert type(fact.is_error) in (bool, type(None))
    assert tried > 1000
