"""Every hook payload of the current build as a call, and every answer in its documented shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.plugin import CallEnded, CallStarted, Decision
from yarp_codex import transcript, turn
from yarp_codex.events import decode, reply

SESSION = "01a229cd-332c-7083-b828-0adc2e93fa2a"
TURN = "01a229cd-3339-7df1-8c54-53b3cf258ea7"
CHILD = "01a229cf-cef0-7320-b8eb-1f482473b59e"
ALWAYS = {"session_id": SESSION, "cwd": "/srv/demo", "transcript_path": None}
EVENTS = {
    "SessionStart": {"model": "gpt-5.5", "permission_mode": "default", "source": "startup"},
    "UserPromptSubmit": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "default", "prompt": "go"},
    "PreToolUse": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "bypassPermissions",
                   "tool_name": "Bash", "tool_input": {"command": "ls -l"}, "tool_use_id": "call_1"},
    "PermissionRequest": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "default",
                          "tool_name": "Bash", "tool_input": {"command": "ls -l"}},
    "PostToolUse": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "bypassPermissions",
                    "tool_name": "Bash", "tool_input": {"command": "ls -l"}, "tool_use_id": "call_1",
                    "tool_response": "total 0\n"},
    "PreCompact": {"turn_id": TURN, "model": "gpt-5.5", "trigger": "auto"},
    "PostCompact": {"turn_id": TURN, "model": "gpt-5.5", "trigger": "auto"},
    "SubagentStart": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "default",
                      "agent_id": CHILD, "agent_type": "default"},
    "SubagentStop": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "default", "agent_id": CHILD,
                     "agent_type": "default", "agent_transcript_path": None, "stop_hook_active": False,
                     "last_assistant_message": "done"},
    "Stop": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "default", "stop_hook_active": False,
             "last_assistant_message": "done"},
    "Interrupt": {"turn_id": TURN, "model": "gpt-5.5", "permission_mode": "default"},
    "SessionEnd": {"reason": "other"},
}  # fmt: skip


def event(kind, **more):
    return {**ALWAYS, "hook_event_name": kind, **EVENTS[kind], **more}


# -- calls


def test_only_events_around_a_tool_tell_of_a_call():
    told = {kind: decode(event(kind)) for kind in EVENTS}
    assert {kind for kind, calls in told.items() if calls} == {"PreToolUse", "PostToolUse"}


def test_a_start_says_where_who_and_whether_anybody_is_asked():
    call = decode(event("PreToolUse"))
    assert isinstance(call, CallStarted)
    assert (call.source_session_id, call.source_call_id) == (SESSION, "call_1")
    assert (call.tool_name, call.input) == ("Bash", {"command": "ls -l"})
    assert (call.model, call.working_directory) == ("gpt-5.5", "/srv/demo")
    assert call.unpermissioned is True
    for mode in ("default", "acceptEdits", "plan", "dontAsk"):
        assert decode(event("PreToolUse", permission_mode=mode)).unpermissioned is False


def test_an_end_carries_the_result_and_the_start_that_may_have_been_missed():
    (call,) = decode(event("PostToolUse"))
    assert isinstance(call, CallEnded)
    assert (call.result, call.executed, call.is_error) == ("total 0\n", True, False)
    assert call.start.input == {"command": "ls -l"}
    assert call.text is None, "no hook can put another text in its place"


def test_a_result_that_codex_has_cut_is_incomplete_and_any_other_unknown():
    cut = (
        "Warning: truncated output (original token count: 87224)\nTotal output lines: 60000\n\n1\n"
    )
    (call,) = decode(event("PostToolUse", tool_response=cut))
    assert call.completeness == "incomplete"
    (call,) = decode(event("PostToolUse"))
    assert call.completeness == "unknown"


@pytest.mark.parametrize(
    ("tool", "given", "response", "failed"),
    [
        ("apply_patch", {"command": "*** Begin Patch\n*** End Patch\n"}, "Exit code: 0\nOutput:\n", False),
        ("mcp__tiny__echo", {"text": "hi"}, {"content": [{"type": "text", "text": "hi"}], "isError": False}, False),
        ("mcp__tiny__echo", {"text": "hi"}, {"content": [], "isError": True}, True),
        ("spawn_agent", {"message": "go"}, '{"agent_id":"01a2","nickname":"Pasteur"}', False),
        ("mcp__tiny__none", None, None, False),
    ],
)  # fmt: skip
def test_other_tools_are_kept_as_they_are(tool, given, response, failed):
    more = {"tool_name": tool, "tool_input": given}
    assert decode(event("PreToolUse", **more)).input == given
    (call,) = decode(event("PostToolUse", tool_response=response, **more))
    assert (call.result, call.is_error) == (response, failed)


def test_a_call_inside_a_script_of_code_mode_is_a_call_of_its_own():
    name = "exec-e17d1edc-f71f-413f-8577-5f1f6e3ac1f5"
    assert decode(event("PreToolUse", tool_use_id=name)).source_call_id == name


def test_the_calls_of_a_subagent_are_told_apart_within_its_session():
    call = decode(event("PreToolUse", agent_id=CHILD, agent_type="default"))
    assert call.source_session_id == SESSION
    assert call.source_call_id == f"{CHILD}/call_1"


@pytest.mark.parametrize("key", ["session_id", "tool_use_id", "tool_name"])
@pytest.mark.parametrize("value", [None, "", 7, []])
def test_an_event_without_what_names_the_call_is_declined(key, value):
    assert decode(event("PreToolUse", **{key: value})) is None
    assert decode(event("PostToolUse", **{key: value})) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["\0", "\ud800", "/sessions/", "exec-"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.sampled_from(list(EVENTS)), st.data())
def test_whatever_an_event_holds_nothing_is_raised(kind, data):
    asked = event(kind, transcript_path="/no/such/sessions/rollout.jsonl")
    for key in data.draw(
        st.lists(st.sampled_from([*asked, "agent_id", "agent_transcript_path"]), max_size=3)
    ):
        asked[key] = data.draw(JSON)
    decode(asked)
    for decision in DECISIONS:
        reply(asked, decision)


@pytest.mark.parametrize(
    "key", ["turn_id", "tool_use_id", "agent_id", "transcript_path", "session_id"]
)
@pytest.mark.parametrize("value", ["\ud800", "a\0b", "a\0/sessions/b", "\ud800/sessions/b"])
def test_text_that_is_no_unicode_or_no_path_is_taken_as_it_is(key, value):
    for kind in ("PreToolUse", "PostToolUse"):
        asked = event(kind, transcript_path="/no/such/sessions/rollout.jsonl")
        assert decode({**asked, key: value}) is not None
    assert decode({**event("Stop", transcript_path="/no/such"), key: value}) is None


# -- the transcript

FREE = {"type": "danger-full-access"}


def context(policy, *writable, turn_id=TURN):
    entries = [{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}]
    entries += [{"path": {"type": "path", "path": path}, "access": "write"} for path in writable]
    entries += [
        {"path": {"type": "path", "path": f"{path}/.git"}, "access": "read"} for path in writable
    ]
    profile = {"type": "managed", "file_system": {"type": "restricted", "entries": entries}}
    return (
        "turn_context",
        {"turn_id": turn_id, "permission_profile": profile, "sandbox_policy": policy},
    )


def called(call_id, arguments, name="exec_command", **more):
    given = {"arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    return (
        "response_item",
        {"type": "function_call", "name": name, "call_id": call_id, **given, **more},
    )


def answered(call_id, output):
    return ("response_item", {"type": "function_call_output", "call_id": call_id, "output": output})


SAID = ("response_item", {"type": "message", "role": "assistant", "content": []})


def happened(call_id, kind="CommandExecution", turn_id=TURN, **more):
    item = {"type": kind, "id": call_id, **more}
    return ("event_msg", {"type": "item_completed", "turn_id": turn_id, "item": item})


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "rollout.jsonl"

    def write(*records, end="\n"):
        lines = [json.dumps({"timestamp": "…", "type": kind, "payload": what}, separators=(",", ":"))
                 for kind, what in records]  # fmt: skip
        path.write_text("\n".join(lines) + end)
        return str(path)

    return write


def test_a_session_without_a_sandbox_may_write_anywhere(written):
    path = written(context({"type": "read-only"}, turn_id="earlier"), context(FREE))
    assert decode(event("PreToolUse", transcript_path=path)).writable is None


def test_a_sandboxed_session_says_where_its_commands_may_write(written):
    policy = {"type": "workspace-write", "network_access": False}
    path = written(
        context(FREE, turn_id="earlier"), context(policy, "/srv/demo", "/home/u/.local/share/yarp")
    )
    call = decode(event("PreToolUse", transcript_path=path))
    assert call.writable == ("/srv/demo", "/home/u/.local/share/yarp")
    path = written(context({"type": "read-only"}))
    assert decode(event("PreToolUse", transcript_path=path)).writable == ()


def test_what_the_transcript_does_not_tell_counts_as_nowhere(written, tmp_path):
    def said(path):
        return decode(event("PreToolUse", transcript_path=path)).writable

    quoted = f'sandbox "type":"turn_context","payload":{{"turn_id":"{TURN}"'
    assert said(written(context(FREE, turn_id="another"))) == ()
    assert (
        said(
            written(answered("call_0", quoted + ',"sandbox_policy":{"type":"danger-full-access"}'))
        )
        == ()
    )
    assert said(written(context(FREE), end="")) == (), "the line is still being written"
    assert said(written(end="")) == ()
    for path in (str(tmp_path), "/no/such", "a\0b", None):
        assert said(path) == ()


def test_the_folder_and_the_shell_that_the_model_asked_for_count(written):
    def started(arguments):
        path = written(
            context(FREE), called("call_0", {"workdir": "/no"}), called("call_1", arguments)
        )
        return decode(event("PreToolUse", transcript_path=path))

    assert started({"cmd": "ls"}).working_directory == "/srv/demo"
    assert started({"cmd": "ls", "workdir": "sub"}).working_directory == "/srv/demo/sub"
    assert started({"cmd": "ls", "workdir": "/srv/other"}).working_directory == "/srv/other"
    assert started({"cmd": "ls", "workdir": 7}).working_directory == "/srv/demo"
    assert started({"cmd": "ls", "shell": "/usr/bin/fish"}).own_words is None
    assert started("{broken workdir").working_directory == "/srv/demo"


def script(call_id, source):
    return (
        "response_item",
        {"type": "custom_tool_call", "name": "exec", "call_id": call_id, "input": source},
    )


def ran(call_id, output):
    content = [{"type": "input_text", "text": output}]
    return (
        "response_item",
        {"type": "custom_tool_call_output", "call_id": call_id, "output": content},
    )


SHOWS = 'const r = await tools.exec_command({cmd: "ls"}); text(r.output);'
READS = 'const r = await tools.exec_command({cmd: "ls"}); text(JSON.parse(r.output).x);'


@pytest.mark.parametrize(
    ("records", "apart"),
    [
        ([], False),
        ([script("c1", SHOWS)], False),
        ([script("c1", READS)], True),
        ([script("c1", READS), ran("c1", "Script completed"), script("c2", SHOWS)], False),
        (
            [script("c1", READS), ran("c1", "Script running with cell ID 7"), script("c2", SHOWS)],
            True,
        ),
        ([script("c1", SHOWS), script("c2", READS)], True),
        ([script("c1", READS), context(FREE), script("c2", SHOWS)], False),
    ],
)
def test_an_output_that_a_script_reads_comes_as_it_is(written, records, apart):
    path = written(context(FREE), *records)
    nested = event("PreToolUse", transcript_path=path, tool_use_id="exec-1")
    assert decode(nested).detached is apart
    direct = event("PreToolUse", transcript_path=path)
    assert decode(direct).detached is False


def test_the_turn_is_found_behind_megabytes_of_output(written):
    noise = [answered(f"call_{number}", "x" * 300_000) for number in range(12)]
    path = written(context({"type": "read-only"}, turn_id="earlier"), context(FREE), *noise)
    assert transcript.before(path, TURN, "call_1").writable is None


@pytest.mark.parametrize("status", [0, 3, -1, 137])
def test_the_exit_status_comes_from_the_transcript(written, status):
    output = 'they say "exit_code":9, and "id":"call_2"'
    item = {
        "status": "completed",
        "aggregated_output": output,
        "exit_code": status,
        "duration": {"secs": 0},
    }
    path = written(
        context(FREE), happened("call_2", exit_code=7, duration={}), happened("call_1", **item)
    )
    (call,) = decode(event("PostToolUse", transcript_path=path))
    assert (call.exit_code, call.is_error) == (status, status != 0)


def test_an_exit_status_that_is_not_told_is_unknown(written):
    for records in (
        (),
        (happened("call_1", exit_code=None, duration={}),),
        (happened("call_9", exit_code=1, x=0),),
    ):
        (call,) = decode(event("PostToolUse", transcript_path=written(context(FREE), *records)))
        assert (call.exit_code, call.is_error) == (None, False)


def closed(path, kind="Stop", **more):
    found = decode(event(kind, transcript_path=path, **more))
    return {call.source_call_id: call for call in found or ()}


def test_the_end_of_a_turn_closes_what_no_hook_told_the_end_of(written):
    path = written(
        context(FREE, turn_id="earlier"), called("call_0", {"cmd": "old"}), answered("call_0", "old"),
        context(FREE),
        called("call_1", {"cmd": "ls"}), happened("call_1", status="completed", exit_code=0), answered("call_1", "a"),
        called("call_2", {"cmd": "rm -rf x"}), answered("call_2", "rejected: rm -f style commands are not permitted"),
        called("call_3", '{"cmd": broken'), answered("call_3", "failed to parse function arguments"),
        called("call_4", {"x": 1}, name="frobnicate"), answered("call_4", "unsupported call: frobnicate"),
        called("call_5", {}, name="fail", namespace="mcp__tiny"),
        happened("call_5", "McpToolCall", status="failed"), answered("call_5", [{"type": "input_text", "text": "no"}]),
        called("call_6", {"session_id": 7, "chars": "y"}, name="write_stdin"), answered("call_6", "Process exited"),
        called("call_7", {"cmd": "still running"}),
        called("call_8", {"cmd": "make"}), happened("call_8", status="declined"), answered("call_8", "rejected by user"),
        SAID,
    )  # fmt: skip
    calls = closed(path)
    assert list(calls) == [f"call_{number}" for number in (1, 2, 3, 4, 5, 6, 8)]
    assert all(call.closes for call in calls.values()), "each ends only what is still open"
    ran = {name: call.executed for name, call in calls.items()}
    assert ran == {"call_1": True, "call_2": False, "call_3": False, "call_4": False, "call_5": True,
                   "call_6": True, "call_8": False}  # fmt: skip
    assert {name for name, call in calls.items() if not call.is_error} == {"call_1", "call_6"}
    assert calls["call_1"].start.tool_name == "Bash"
    assert calls["call_1"].start.input == {"command": "ls"}
    assert calls["call_3"].start.input == {"arguments": '{"cmd": broken'}
    assert calls["call_4"].start.tool_name == "frobnicate"
    assert calls["call_5"].start.tool_name == "mcp__tiny__fail"
    assert calls["call_5"].result == [{"type": "input_text", "text": "no"}]


def test_a_compaction_within_a_turn_hides_no_call_of_it(written):
    path = written(
        context(FREE, turn_id="earlier"), called("call_0", {"cmd": "old"}), answered("call_0", "rejected"),
        context(FREE), called("call_1", {"cmd": "ls"}), answered("call_1", "rejected"),
        ("compacted", {"message": "so far"}),
        context(FREE), called("call_2", {"cmd": "ls"}), answered("call_2", "rejected"), SAID,
    )  # fmt: skip
    assert list(closed(path)) == ["call_1", "call_2"]
    assert list(closed(path, "SessionEnd")) == ["call_1", "call_2"]


@pytest.mark.parametrize("length", range(60, 75))
def test_lines_are_whole_wherever_the_blocks_end(tmp_path, monkeypatch, length):
    monkeypatch.setattr(transcript, "_BLOCK_BYTES", 64)
    lines = [
        bytes([65 + number]) * size
        for number, size in enumerate((0, 1, 63, 64, 65, 200, length, 3))
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    found = list(transcript.from_the_end(str(path), 1 << 20))
    assert found == lines[::-1]
    path.write_bytes(b"\n".join(lines))
    assert list(transcript.from_the_end(str(path), 1 << 20)) == lines[-2::-1], (
        "the last one has no end yet"
    )


def test_the_calls_inside_a_script_are_closed_and_the_script_is_none(written):
    nested = "exec-e17d1edc-f71f-413f-8577-5f1f6e3ac1f5"
    path = written(
        context(FREE),
        ("response_item", {"type": "custom_tool_call", "name": "exec", "call_id": "call_1", "input": "text(1)"}),
        happened(nested, status="failed", command=["/bin/bash", "-lc", "exit 3"], aggregated_output="", exit_code=3),
        happened("exec-2", "McpToolCall", server="tiny", tool="echo", arguments={"a": 1}, status="completed",
                 result={"content": []}),
        ("response_item", {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}),
    )  # fmt: skip
    calls = closed(path)
    assert list(calls) == [nested, "exec-2"]
    assert (calls[nested].exit_code, calls[nested].is_error) == (3, True)
    assert calls[nested].start.input == {"command": "exit 3"}
    assert calls["exec-2"].start.tool_name == "mcp__tiny__echo"
    assert calls["exec-2"].result == {"content": []}


def test_a_subagents_end_closes_the_calls_of_its_own_transcript(written):
    path = written(
        context(FREE), called("call_1", {"cmd": "ls"}), answered("call_1", "rejected by user"), SAID
    )
    calls = closed("/no/such", "SubagentStop", agent_transcript_path=path)
    assert list(calls) == [f"{CHILD}/call_1"]
    assert calls[f"{CHILD}/call_1"].executed is False


def test_an_interrupted_call_of_which_nothing_is_known_stays_open(written):
    records = [
        context(FREE), called("call_1", {"cmd": "rm -f x"}), answered("call_1", "rejected"),
        called("call_2", {"cmd": "make"}), answered("call_2", "Wall time: 2.5 seconds\naborted by user"),
        ("response_item", {"type": "message", "role": "user", "content": []}),
    ]  # fmt: skip
    for kind in ("Interrupt", "SessionEnd", "Stop"):
        assert list(closed(written(*records), kind)) == ["call_1"]
    killed = happened("call_2", status="failed", exit_code=-1)
    calls = closed(written(*records, killed), "SessionEnd")
    assert (calls["call_2"].executed, calls["call_2"].exit_code, calls["call_2"].is_error) == (
        True,
        -1,
        True,
    )


def test_a_transcript_that_is_damaged_or_gone_closes_what_it_can(written, tmp_path):
    path = written(context(FREE), called("call_1", {"cmd": "ls"}), answered("call_1", "no"), SAID)
    with open(path, "a") as file:
        file.write(
            '{"type": "response_item"}\n[]\nnull\nnot json\n{"type": "event_msg", "payload": {"type": "item'
        )
    assert list(closed(path)) == ["call_1"]
    assert closed(str(tmp_path)) == closed("/no/such") == closed(None) == {}


def test_when_a_tool_was_last_called_is_read_from_the_newest_transcript(tmp_path):
    assert turn.last_call_ms(str(tmp_path)) is None
    for day, clock in (("29", "23:59:59"), ("30", "00:20:48.065")):
        folder = tmp_path / "sessions" / "2026" / "11" / day
        folder.mkdir(parents=True)
        records = [
            {"timestamp": f"2026-11-{day}T{clock}Z", "type": kind, "payload": what}
            for kind, what in (called("call_1", {"cmd": "ls"}), answered("call_1", "a"))
        ]
        lines = [
            json.dumps(record, separators=(",", ":"))
            for record in (*records, {"timestamp": 7, "payload": 1})
        ]
        (folder / "rollout-1.jsonl").write_text("\n".join(lines) + "\n")
    assert turn.last_call_ms(str(tmp_path)) == 1795998048065


# -- the shell


def test_a_command_has_no_words_of_the_users_own_once_codex_has_a_snapshot(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = str(tmp_path / ".codex" / "sessions" / "2026" / "rollout.jsonl")
    start = event("PreToolUse", transcript_path=path)
    assert decode(start).own_words == frozenset()
    (tmp_path / ".bashrc").write_text(
        "alias ll='ls -l'\nalias -g G='| grep'\n  git() {\n}\nfunction make { :; }\nfunction tox() {\n}\n"
        'nvm () {\necho "a (b)"\nif [ x ]; then\nexport A=$(x)\n'
    )
    (tmp_path / ".zshenv").write_bytes(b"pytest() { x; }\n\xff() { }\n")
    assert decode(start).own_words >= {"ll", "G", "git", "make", "tox", "nvm", "pytest"}
    assert "echo" not in decode(start).own_words
    snapshots = tmp_path / ".codex" / "shell_snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / f"{CHILD}.1795999771693955627.sh").write_text("")
    assert "git" in decode(start).own_words
    assert decode({**start, "agent_id": CHILD}).own_words == frozenset()
    (snapshots / f"{SESSION}.1795999771693955627.sh").write_text("")
    assert decode(start).own_words == frozenset()


# -- answers

PRE_KEYS = {
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
}
COMMON = {
    "continue",
    "decision",
    "reason",
    "stopReason",
    "suppressOutput",
    "systemMessage",
    "hookSpecificOutput",
}


def complaint(kind, answer):
    """Why the current build refuses an answer, or None: its schemas, and what it says of them."""
    if answer is None:
        return None
    if not isinstance(answer, dict) or answer.keys() - COMMON:
        return "invalid JSON output"
    if kind != "PreToolUse":
        return "unsupported" if answer.keys() - {"systemMessage"} else None
    specific = answer.get("hookSpecificOutput", {})
    permission, reason = (
        specific.get("permissionDecision"),
        specific.get("permissionDecisionReason"),
    )
    if specific.keys() - PRE_KEYS or specific.get("hookEventName", kind) != kind:
        return "invalid JSON output"
    if permission not in (None, "allow", "deny"):
        return "unsupported permissionDecision"
    if permission == "deny" and not (isinstance(reason, str) and reason):
        return "deny without a reason"
    if permission != "deny" and reason is not None:
        return "a reason without deny"
    if "updatedInput" in specific:
        given = specific["updatedInput"]
        if permission != "allow":
            return "updatedInput without allow"
        if not (isinstance(given, dict) and isinstance(given.get("command"), str)):
            return "updatedInput without command"
    elif permission == "allow":
        return "unsupported permissionDecision:allow"
    return None


DECISIONS = [
    Decision(),
    Decision(blocked="[yarp] the archive cannot be written"),
    Decision(input={"command": "yarp run --shell 'ls -l'"}),
    Decision(notice="[yarp] off in this session: config.toml"),
    Decision(content="short", result="short"),
]


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize(
    "decision", DECISIONS, ids=["none", "blocked", "input", "notice", "content"]
)
def test_every_answer_has_the_shape_that_codex_takes(kind, decision):
    answer = reply(event(kind), decision)
    assert complaint(kind, answer) is None
    json.dumps(answer)


def test_a_rewrite_goes_with_the_permission_that_codex_asks_for():
    answer = reply(event("PreToolUse"), Decision(input={"command": "x"}))
    assert answer == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "x"},
        }
    }  # fmt: skip


def test_a_patch_or_an_mcp_call_is_never_rewritten():
    for tool in ("apply_patch", "mcp__tiny__echo", "spawn_agent"):
        assert reply(event("PreToolUse", tool_name=tool), Decision(input={"command": "x"})) is None


def test_nothing_is_allowed_without_a_rewrite():
    for kind in EVENTS:
        assert "allow" not in json.dumps(reply(event(kind), Decision()))


@pytest.mark.parametrize(
    "answer",
    [
        [], {"permission": "deny"}, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "extra": 1}},
        {"hookSpecificOutput": {"hookEventName": "PostToolUse"}},
        {"hookSpecificOutput": {"permissionDecision": "ask"}}, {"hookSpecificOutput": {"permissionDecision": "deny"}},
        {"hookSpecificOutput": {"permissionDecision": "allow"}},
        {"hookSpecificOutput": {"updatedInput": {"command": "x"}}},
        {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"text": "x"}}},
        {"hookSpecificOutput": {"permissionDecisionReason": "x"}},
    ],
)  # fmt: skip
def test_the_check_of_answers_sees_a_wrong_one(answer):
    assert complaint("PreToolUse", answer) is not None
