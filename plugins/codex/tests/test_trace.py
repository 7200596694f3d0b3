"""What the trace reader says of rollouts that are written here in the shapes of Codex."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import sync
from yarp.plugin import Amend, Item, Line, LoopEnd, LoopStart, SessionFact
from yarp_codex.trace import detect, project, reader


def _module(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"yarp_codex_trace_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


made = _module("rollout")
Rollout, envelope = made.Rollout, made.envelope
USAGE = {
    "input_tokens": 10,
    "cached_input_tokens": 4,
    "output_tokens": 3,
    "reasoning_output_tokens": 1,
    "total_tokens": 13,
}


class Index:
    """What the index has of some rollouts."""

    def __init__(self, path, *rollouts):
        for number, rollout in enumerate(rollouts):
            rollout.write(path / "sessions", f"rollout-{number}.jsonl")
        self.report = sync(
            str(path / "index.sqlite3"), [str(path / "sessions")], {"codex": reader()}
        )
        assert not self.report.actions["failed"], self.report.sources
        with open_readonly(str(path / "index.sqlite3")) as opened:
            self.sessions = self._rows(opened, "SELECT * FROM sessions ORDER BY session_id")
            self.loops = self._rows(
                opened, "SELECT * FROM loops ORDER BY session_id, session_position"
            )
            texts = dict(opened.execute("SELECT blob_id, text FROM blobs"))
            self.items = self._rows(opened, "SELECT * FROM items ORDER BY item_id")
        for item in self.items:
            said = item["semantic"]
            value = said["value"]
            text = value.pop("text", None) or value.pop("summary", None)
            item |= {"role": said["role"], "strength": said["evidence_strength"], "value": value}
            item["text"] = texts[text["blob_id"]] if text else None

    @staticmethod
    def _rows(opened, query):
        cursor = opened.execute(query)
        names = [one[0] for one in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
        for row in rows:
            for name in (
                "end",
                "model",
                "usage",
                "semantic",
                "record_ids",
                "forked_from",
                "delegated_from",
            ):
                if row.get(name) is not None:
                    row[name] = json.loads(row[name])
        return rows

    def roles(self):
        return [(item["role"], item["text"]) for item in self.items]

    def of(self, role):
        return [item for item in self.items if item["role"] == role]


@pytest.fixture
def index(tmp_path):
    return lambda *rollouts: Index(tmp_path, *rollouts)


def user(rollout, text):
    return rollout.item("message", role="user", content=[{"type": "input_text", "text": text}])


def asked(rollout, text, *, item=True):
    user(rollout, text)
    if item:
        return rollout.happened("UserMessage", "u", content=[{"type": "text", "text": text}])
    return rollout.event("user_message", message=text, images=[])


def answered(rollout, text, **more):
    rollout.happened("AgentMessage", "m", content=[{"type": "Text", "text": text}])
    return rollout.item(
        "message", role="assistant", content=[{"type": "output_text", "text": text}], **more
    )


def done(rollout, text, turn_id="t1"):
    return rollout.event("task_complete", turn_id=turn_id, last_agent_message=text)


def test_a_turn_is_a_loop_with_its_request_its_work_and_its_answer(index):
    rollout = asked(Rollout().turn(), "run it")
    answered(rollout, "I look first.").call("call_1").ran("call_1", "ls", "a\n").output(
        "call_1", envelope("a\n")
    )
    found = index(done(answered(rollout, "Done."), "Done."))
    assert found.roles() == [
        ("human.request", "run it"),
        ("agent.commentary", "I look first."),
        ("agent.tool_call.shell", None),
        ("tool.output", envelope("a\n")),
        ("agent.final_answer", "Done."),
    ]
    assert [len(item["record_ids"]) for item in found.items] == [2, 2, 1, 2, 2]
    assert [item["strength"] for item in found.items] == [
        "structural",
        "heuristic",
        "structural",
        "structural",
        "structural",
    ]
    assert found.items[3]["value"] == {
        "call_item_id": found.items[2]["item_id"],
        "exit_code": 0,
        "failed": False,
        "duration_ms": 0,
        "runtime_truncated": False,
        "runtime_output_tokens": 5,
    }
    (loop,) = found.loops
    assert (loop["native_id"], loop["end"]["outcome"]) == ("t1", "completed")
    assert loop["model"] == {"id": "gpt-5.5"}
    (session,) = found.sessions
    assert (session["native_id"], session["working_directory"], session["created_at"]) == (
        made.THREAD,
        "/srv/demo",
        1789999980000,
    )


def test_what_codex_puts_before_the_model_is_never_a_persons(index):
    rollout = Rollout().turn()
    rollout.item(
        "message",
        role="developer",
        content=[
            {"type": "input_text", "text": "<skills_instructions>x"},
            {"type": "input_text", "text": "Be kind."},
            {"type": "input_text", "text": "<brand_new>x</brand_new>"},
        ],
    )
    for text in (
        "# AGENTS.md instructions for /x",
        "<environment_context>x",
        "Warning: apply_patch was requested via exec_command",
        "no marker",
        "<brand_new>x</brand_new>",
    ):
        user(rollout, text)
    found = index(rollout)
    assert [(item["role"], item["value"].get("category")) for item in found.items] == [
        ("runtime.instructions", "skill"),
        ("runtime.instructions", "project"),
        ("runtime.instructions", "project"),
        ("runtime.instructions", "project"),
        ("runtime.context", "environment"),
        ("runtime.notice", None),
        ("runtime.unknown", None),
        ("runtime.unknown", None),
    ]
    assert {item["strength"] for item in found.items} == {"heuristic"}


def test_what_newer_builds_say_of_a_text_comes_before_its_words(index):
    """A kind that is not known, or is a person's, says nothing; nor do kinds of another shape."""
    kinds = ["multi_agent.usage_hint", "tools.removed_definition", "host_skills.instructions"]
    kinds += ["brand.new", "user.text", 7]
    rollout = Rollout().turn()

    def message(role, texts, kinds):
        content = [{"type": "input_text", "text": text} for text in texts]
        beside = {"content_item_kinds": kinds}
        rollout.item(
            "message",
            role=role,
            content=content,
            internal_chat_message_metadata_passthrough=beside,
        )

    message("developer", [f"text {number}" for number in range(7)], kinds)
    message("user", ["plain"], ["environments.environment_context"])
    message("user", ["<skill>x", "plain"], ["skills.x", "multi_agent.subagent_notification"])
    message("user", ["<environment_context>x"], "odd")
    found = [
        (item["role"], item["value"].get("category"), item["strength"])
        for item in index(rollout).items
    ]
    assert found == [
        ("runtime.instructions", "collaboration", "structural"),
        ("runtime.instructions", "tool_catalog", "structural"),
        ("runtime.instructions", "skill", "structural"),
        *[("runtime.instructions", "project", "heuristic")] * 4,
        ("runtime.context", "environment", "structural"),
        ("runtime.instructions", "skill", "structural"),
        ("subagent.report", None, "structural"),
        ("runtime.context", "environment", "heuristic"),
    ]


def test_the_events_proof_may_come_first_and_texts_may_contain_one_another(index):
    rollout = Rollout().turn().event("user_message", message="please run the tests", images=["x"])
    user(rollout, "<image>\nplease run the tests")
    asked(rollout.call("call_1"), "and now this one too")
    found = index(rollout)
    assert found.roles() == [
        ("human.request", "please run the tests"),
        ("agent.tool_call.shell", None),
        ("human.steering", "and now this one too"),
    ]
    assert found.items[0]["value"] == {"has_images": True}
    assert [len(item["record_ids"]) for item in found.items] == [2, 1, 2]


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


@pytest.mark.parametrize("shown_first", [False, True])
@pytest.mark.parametrize("by", ["model", "event", "local", "item"])
@pytest.mark.parametrize("text", ["see this", ""])
def test_an_image_that_one_witness_has_is_the_messages(index, by, shown_first, text):
    rollout = Rollout().turn()
    words = [{"type": "input_text", "text": text}] if text else []
    images = [IMAGE] if by == "model" else []
    if by == "model" and not text:
        tags = [{"type": "input_text", "text": one} for one in ("<image>", "</image>")]
        images = [tags[0], IMAGE, tags[1]]

    def told():
        rollout.item("message", role="user", content=[*words, *images])

    if not shown_first:
        told()
    named = {"event": {"images": ["x"]}, "local": {"local_images": ["x"]}}.get(by, {})
    if by == "item":
        shown = [{"type": "text", "text": text}, {"type": "localImage", "path": "/x.png"}]
        rollout.happened("UserMessage", "u", content=shown)
    else:
        rollout.event("user_message", message=text, **named)
    if shown_first:
        told()
    (item,) = index(rollout).of("human.request")
    assert item["value"] == {"has_images": True}


def test_images_of_the_agent_and_of_codex_are_told_of(index):
    rollout = asked(Rollout().turn(), "x")
    text = {"type": "output_text", "text": "See."}
    rollout.event("agent_message", message="See.")
    rollout.item("message", role="assistant", content=[text, IMAGE])
    rollout.item("message", role="developer", content=[{**text, "text": "<image>"}, IMAGE])
    rollout.item("message", role="developer", content=[IMAGE])
    given = {"items": [{"type": "text", "text": "see"}, {"type": "local_image", "path": "/x"}]}
    rollout.call("call_1", "spawn_agent", json.dumps(given))
    rollout.item("agent_message", author="/root", recipient="/root/a", content=[text, IMAGE])
    found = index(rollout).items[1:]
    assert [(item["role"], item["value"]["has_images"]) for item in found] == [
        ("agent.commentary", True),
        ("runtime.context", True),
        ("runtime.context", True),
        ("agent.delegation", True),
        ("agent.delegation", True),
    ]


def test_short_texts_do_not_pair_by_containment(index):
    rollout = user(Rollout().turn(), "a much longer text with ok in it")
    found = index(rollout.event("user_message", message="ok", images=[]))
    assert found.roles() == [
        ("runtime.unknown", "a much longer text with ok in it"),
        ("human.request", "ok"),
    ]


def test_rollouts_without_turn_events_have_a_loop_for_each_request(index):
    """The oldest builds: a request comes before `turn_context`, which comes again and again."""
    rollout = user(Rollout(), "<environment_context>x")
    asked(rollout, "first", item=False).add("turn_context", {"model": "gpt-5-codex", "cwd": "/srv"})
    rollout.event("agent_message", message="on it").call("call_1").output("call_1", "x")
    rollout.add("turn_context", {"model": "gpt-5-codex", "cwd": "/srv"})
    rollout.item("message", role="assistant", content=[{"type": "output_text", "text": "on it"}])
    rollout.event("agent_message", message="All done.")
    asked(rollout, "second", item=False).add("turn_context", {"model": "other", "cwd": "/srv"})
    found = index(rollout)
    assert found.roles() == [
        ("runtime.context", "<environment_context>x"),
        ("human.request", "first"),
        ("agent.commentary", "on it"),
        ("agent.tool_call.shell", None),
        ("tool.output", "x"),
        ("agent.final_answer", "All done."),
        ("human.request", "second"),
    ]
    assert found.items[0]["loop_id"] is None, "what comes before a request opens no loop"
    assert [loop["model"]["id"] for loop in found.loops] == ["gpt-5-codex", "other"]
    assert [loop["end"] is not None for loop in found.loops] == [True, False]
    assert "outcome" not in found.loops[0]["end"]


@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        ({"type": "task_complete"}, "completed"),
        ({"type": "turn_aborted", "reason": "interrupted"}, "interrupted"),
        ({"type": "turn_aborted", "reason": "error"}, "failed"),
    ],
)
def test_how_a_turn_ends(index, payload, outcome):
    found = index(asked(Rollout().turn(), "x").add("event_msg", payload))
    assert found.loops[0]["end"]["outcome"] == outcome


def test_a_turn_that_was_never_ended_is_closed_by_the_next_one(index):
    rollout = asked(Rollout().turn(turn_id="t1"), "one")
    found = index(asked(rollout.turn(turn_id="t2"), "two"))
    first, second = found.loops
    assert first["end"] == {"record_id": second["start_record_id"]}
    assert second["end"] is None
    assert [(item["role"], item["loop_id"]) for item in found.items] == [
        ("human.request", first["loop_id"]),
        ("human.request", second["loop_id"]),
    ]


def test_a_turn_may_be_told_of_once_more_behind_its_end_and_stays_one(index):
    rollout = done(answered(asked(Rollout().turn(), "x"), "y"), "y")
    rollout.add("turn_context", {"turn_id": "t1", "model": "gpt-5.5"})
    rollout.event("token_count", info={"total_token_usage": USAGE, "last_token_usage": USAGE})
    found = index(rollout)
    assert len(found.loops) == 1
    assert found.loops[0]["usage"]["input"] == 10


def test_an_output_may_come_before_or_behind_what_happened(index):
    rollout = asked(Rollout().turn(), "x").call("call_1").call("call_2")
    rollout.ran("call_1", "ls", "a", 2).output("call_1", "text of it").output(
        "call_2", envelope("b")
    )
    rollout.ran("call_2", "ls", "b", 3)
    one, two = index(rollout).of("tool.output")
    assert (one["text"], one["value"]["exit_code"], one["value"]["failed"]) == (
        "text of it",
        2,
        True,
    )
    assert (two["text"], two["value"]["exit_code"], two["value"]["failed"]) == (
        envelope("b"),
        3,
        True,
    )
    assert [len(item["record_ids"]) for item in (one, two)] == [2, 2]


def test_calls_inside_a_script_are_items_of_their_own(index):
    rollout = asked(Rollout().turn(), "x").script("call_1", "await tools.exec_command({cmd:'ls'})")
    rollout.ran("exec-1", "ls -la && pwd", "a\n", 1)
    rollout.happened(
        "McpToolCall",
        "exec-2",
        server="tiny",
        tool="echo",
        arguments={"n": 1},
        status="completed",
        result={"content": [{"type": "text", "text": "one"}], "isError": False},
    )
    blocks = [
        {"type": "input_text", "text": text}
        for text in (
            "Script completed\nWall time 0.2 seconds\nOutput:\n",
            '{"chunk_id":"a","wall_time_seconds":0.1,"exit_code":1,"original_token_count":5,"output":"a"}',
        )
    ]
    found = index(rollout.output("call_1", blocks, "custom_tool_call_output"))
    assert [item["role"] for item in found.items[1:]] == [
        "agent.tool_call",
        "agent.tool_call.shell",
        "tool.output",
        "agent.tool_call",
        "tool.output",
        "tool.output",
    ]
    fragment = found.items[2]["value"]["shell_fragments"][0]
    assert [one["invocations"][0]["program"] for one in fragment["statements"]] == ["ls", "pwd"]
    assert found.items[2]["value"]["working_directory"] == "/srv/demo app"
    assert (found.items[3]["text"], found.items[3]["value"]["exit_code"]) == ("a\n", 1)
    assert (found.items[4]["value"]["tool_name"], found.items[5]["text"]) == (
        "mcp__tiny__echo",
        "one",
    )
    assert found.items[6]["value"] == {
        "call_item_id": found.items[1]["item_id"],
        "exit_code": 1,
        "failed": True,
        "duration_ms": 200,
        "runtime_output_tokens": 5,
    }


CODE_3 = {"exit_code": 3, "failed": True}
NOTHING_CUT = {"runtime_truncated": False, "runtime_output_tokens": 5}
COMMAND = '{"chunk_id":"a","wall_time_seconds":0.1,"exit_code":3,"output":"a"}'
# Each form of a command's output that a build has, with what it says of the command's end.
FORMS = [
    ("exec_command", envelope("x"), {"exit_code": 0, "failed": False, "duration_ms": 0} | NOTHING_CUT),
    ("exec_command", envelope("x", 3).partition("\n")[2], CODE_3 | {"duration_ms": 0} | NOTHING_CUT),
    ("exec_command", "Wall time: 1.000 seconds\nProcess exited with code 3\nOutput:\n", CODE_3 | {"duration_ms": 1000}),
    ("exec_command", "Wall time: 1.000 seconds\nProcess exited with code 3", CODE_3 | {"duration_ms": 1000}),
    ("exec_command", "Wall time: 1.000 seconds\nProcess exited with code 3\nWarning: truncated output (original token count: 9)\nOutput:\nx", CODE_3 | {"duration_ms": 1000, "runtime_truncated": True, "runtime_output_tokens": 9}),
    ("exec_command", envelope("Warning: truncated output (original token count: 5)\nTotal output lines: 9", 3), CODE_3 | {"duration_ms": 0, "runtime_truncated": True, "runtime_output_tokens": 5}),
    ("shell_command", "Exit code: 3\nWall time: 1.5 seconds\nTotal output lines: 9\nOutput:\nx", CODE_3 | {"duration_ms": 1500, "runtime_truncated": True}),
    ("shell_command", "Exit code: 3\nOutput:\nx", CODE_3),
    ("shell_command", "Wall time: 1.5 seconds\nExit code: 3\nOutput:\nx", CODE_3 | {"duration_ms": 1500}),
    ("shell", '{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.2}}', CODE_3 | {"duration_ms": 200}),
    ("shell", '{"metadata": {"exit_code": 3, "duration_seconds": 0.2}, "output": "x"}', CODE_3 | {"duration_ms": 200}),
    ("container.exec", '{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.2}}', CODE_3 | {"duration_ms": 200}),
    ("shell", {"content": "Exit code: 3\nWall time: 1 seconds\nOutput:\nx", "success": False}, CODE_3 | {"duration_ms": 1000}),
    ("write_stdin", "Wall time: 0.5000 seconds\nProcess running with session ID 7\nOriginal token count: 5\nOutput:\nx", {"duration_ms": 500} | NOTHING_CUT),
    ("exec", f"Script completed\nWall time 1 seconds\nOutput:\n{COMMAND}\n", CODE_3 | {"duration_ms": 1000}),
    ("exec", f"Script completed\nWall time 1 seconds\nOutput:\n{COMMAND}\n{COMMAND}", {"failed": True, "duration_ms": 1000}),
    ("exec", 'Script completed\nOutput:\n{"content":[],"isError":true}', {"failed": True}),
    ("exec", "Script failed\nOutput:\nboom", {"failed": True}),
    (None, envelope("x", 3), CODE_3 | {"duration_ms": 0} | NOTHING_CUT),
    ("exec_command", "failed to parse function arguments", {}),
    ("exec_command", "Exit code: 3\nand more", {}),
    ("exec_command", '{"exit_code": 3}\nProcess exited with code 4', {}),
    ("exec_command", "Output:\nProcess exited with code 4", {}),
    ("frobnicate", {"content": "x", "success": False}, {"failed": True}),
    ("mcp__a__b", "Exit code: 1\nWall time: 1 seconds\nOutput:\n", {}),
    ("mcp__a__b", "Wall time: 0.1000 seconds\nOutput:\nExit code: 1", {"duration_ms": 100}),
]  # fmt: skip


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(("name", "output", "said"), FORMS)
def test_only_what_codex_itself_wrote_says_how_a_call_ended(index, name, output, said, blocks):
    if blocks and isinstance(output, str):
        output = [{"type": "input_text", "text": output}]
    rollout = asked(Rollout().turn(), "x")
    if name is not None:  # else the call is in the rollout that this one is a fork of
        rollout.call("call_1", name, "{}")
    (item,) = index(rollout.output("call_1", output)).of("tool.output")
    item["value"].pop("call_item_id", None)
    assert item["value"] == said
    assert item["text"]


def test_an_event_says_how_a_command_ended_where_its_output_does_not(index):
    rollout = asked(Rollout().turn(), "x").call("call_1", "shell").output("call_1", "aborted")
    rollout.event("exec_command_end", call_id="call_1", exit_code=3, aggregated_output="x")
    (item,) = index(rollout).of("tool.output")
    assert (item["text"], item["value"]["exit_code"], item["value"]["failed"]) == (
        "aborted",
        3,
        True,
    )


def test_a_turns_own_count_of_tokens_puts_single_ones_out_of_use(index):
    rollout = asked(Rollout().turn(), "x")
    rollout.event(
        "token_count",
        info={"total_token_usage": USAGE, "last_token_usage": USAGE, "model_context_window": 9},
    )
    for count in (10, 30):
        rollout.add(
            "token_usage_record",
            {"turn_id": "t1", "usage": USAGE, "turn_token_usage": {**USAGE, "input_tokens": count}},
        )
    rollout.add("token_usage_record", {"turn_id": "t9", "turn_token_usage": USAGE})
    (loop,) = index(rollout).loops
    assert loop["usage"] == {"input": 30, "cached": 4, "output": 3, "reasoning": 1}
    assert loop["model"]["context_window"] == 9


def test_counts_that_are_told_twice_count_once(index):
    rollout = Rollout().event(
        "token_count", info={"total_token_usage": USAGE, "last_token_usage": USAGE}
    )
    rollout = asked(rollout.turn(), "x")
    for total in (USAGE, USAGE, {**USAGE, "total_tokens": 26}, None, None):
        rollout.event("token_count", info={"total_token_usage": total, "last_token_usage": USAGE})
    found = index(rollout.event("token_count", info=None))
    assert found.loops[0]["usage"]["input"] == 40
    assert len(found.loops) == 1, "what comes before a turn opens none"


def test_a_fork_is_linked_and_what_it_copied_of_older_turns_is_not_its_own(index):
    old, own = "01a22a65-0000-7000-8000-00000000000a", "01a22a67-0000-7000-8000-00000000000b"
    parent_id, fork_id = (
        "01a22a64-0000-7000-8000-00000000000c",
        "01a22a66-0000-7000-8000-00000000000d",
    )
    parent = done(answered(asked(Rollout(parent_id).turn(turn_id=old), "first"), "one"), "one", old)
    fork = Rollout(fork_id, forked_from_id=parent_id)
    for line in parent.lines:
        fork.add(json.loads(line)["type"], json.loads(line)["payload"])
    found = index(parent, asked(fork.turn(turn_id=own), "second"))
    assert [item["text"] for item in found.of("human.request")] == ["first", "second"]
    assert found.sessions[1]["forked_from"]["session_id"] == found.sessions[0]["session_id"]
    assert [(item["text"], item["loop_id"]) for item in found.of("runtime.context")] == [
        (parent_id, None)
    ]
    assert [loop["native_id"] for loop in found.loops] == [old, own]


def test_a_fork_whose_ids_hold_no_time_keeps_what_it_copied(index):
    fork = Rollout("fork", forked_from_id="parent").add("session_meta", {"id": "parent"})
    found = index(asked(asked(fork.turn(turn_id="a"), "first").turn(turn_id="b"), "second"))
    assert [item["text"] for item in found.of("human.request")] == ["first", "second"]


def test_a_helpers_thread_is_linked_and_its_task_is_no_persons(index):
    parent = asked(Rollout("parent").turn(), "x").call(
        "call_1", "spawn_agent", '{"message":"do it"}', namespace="multi_agent_v1"
    )
    parent.happened(
        "CollabAgentToolCall",
        "call_1",
        tool="spawn_agent",
        receiver_thread_ids=["child"],
        status="completed",
    )
    parent.output("call_1", '{"agent_id":"child"}')
    parent.event("sub_agent_activity", kind="started", agent_thread_id="child", event_id="call_1")
    parent.happened("SubAgentActivity", "call_1", kind="completed", agent_thread_id="child")
    user(parent, "<subagent_notification>\ndone")
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "parent"}}}
    child = Rollout(
        "child",
        ordinals=True,
        source=source,
        thread_source="subagent",
        subagent_history_start_ordinal=2,
    )
    child.call("call_0")
    found = index(parent, asked(child.turn(), "do it"))
    ours, theirs = found.sessions
    assert theirs["delegated_from"]["session_id"] == ours["session_id"]
    handed, task = found.of("agent.delegation")
    assert (handed["text"], handed["value"]["child_session_id"]) == (
        '{"message":"do it"}',
        theirs["session_id"],
    )
    assert (task["text"], task["session_id"]) == ("do it", theirs["session_id"])
    activities = found.of("subagent.activity")
    assert [one["text"] for one in activities] == ["started", "completed"]
    assert {one["value"]["subagent_session_id"] for one in activities} == {theirs["session_id"]}
    assert len(found.of("subagent.report")) == 1
    assert not [
        item
        for item in found.of("agent.tool_call.shell")
        if item["session_id"] == theirs["session_id"]
    ]


def test_messages_between_agents(index):
    rollout = asked(Rollout().turn(), "x")
    for author, recipient, text in (
        ("/root", "/root/a", "do it"),
        ("/root/a", "/root", "Message Type: FINAL_ANSWER\ndone"),
        ("/root/a", "/root", "on it"),
    ):
        rollout.item(
            "agent_message",
            author=author,
            recipient=recipient,
            content=[{"type": "text", "text": text}],
        )
    assert [role for role, _ in index(rollout).roles()[1:]] == [
        "agent.delegation",
        "subagent.report",
        "subagent.activity",
    ]


def test_messages_between_agents_are_linked_by_the_paths_that_name_them(index):
    """As newer builds write them: what is said before a path is known is linked when it is."""
    ours, theirs = Rollout("parent", session_id="parent").turn(), "child"

    def message(rollout, author, recipient, text):
        content = [{"type": "input_text", "text": text}]
        rollout.item("agent_message", author=author, recipient=recipient, content=content)

    asked(ours, "x")
    message(ours, "/root", "/root/helper", "do it")
    given = '{"task_name":"helper","message":"do it"}'
    ours.call("call_1", "spawn_agent", given, namespace="collaboration")
    ours.happened(
        "SubAgentActivity",
        "call_1",
        kind="started",
        agent_thread_id=theirs,
        agent_path="/root/helper",
    )
    ours.output("call_1", '{"task_name":"/root/helper"}')
    message(ours, "/root/helper", "/root", "on it")
    message(ours, "/root/helper", "/root", "Message Type: FINAL_ANSWER\nPayload:\ndone")
    message(ours, "/root/other", "/root", "who am I?")
    user(ours, '<subagent_notification>\n{"agent_path":"child","status":{"completed":"x"}}\n</subagent_notification>')  # fmt: skip
    spawned = {"parent_thread_id": "parent", "agent_path": "/root/helper"}
    child = Rollout(
        theirs,
        source={"subagent": {"thread_spawn": spawned}},
        thread_source="subagent",
        session_id="parent",
        agent_nickname="Peirce",
    ).turn()
    message(child, "/root", "/root/helper", "Message Type: NEW_TASK\nPayload:\ndo it")
    message(child, "/root/helper", "/root", "may I ask?")
    message(child, "/root", "/root/helper", "Message Type: MESSAGE\nyou may")
    grand = Rollout(
        "grandchild",
        source={"subagent": {"thread_spawn": {"agent_path": "/root/helper/deep"}}},
        parent_thread_id=theirs,
        session_id="parent",
    ).turn()
    message(grand, "/root/helper/deep", "/root/helper", "here")
    message(grand, "/root/helper/deep", "/root", "and here")
    found = index(ours, child, grand)
    names = {session["session_id"]: session["native_id"] for session in found.sessions}
    members = ("child_session_id", "source_session_id", "subagent_session_id")
    told = [
        (names[item["session_id"]], item["role"], names.get(item["value"].get(member)))
        for item in found.items
        for member in members
        if item["role"] == {**dict(zip(members, ("agent.delegation", "subagent.report", "subagent.activity"), strict=True))}[member]
    ]  # fmt: skip
    assert told == [
        ("parent", "agent.delegation", "child"),
        ("parent", "agent.delegation", "child"),
        ("parent", "subagent.activity", "child"),
        ("parent", "subagent.activity", "child"),
        ("parent", "subagent.report", "child"),
        ("parent", "subagent.activity", None),
        ("parent", "subagent.report", "child"),
        ("child", "agent.delegation", None),
        ("child", "subagent.activity", "parent"),
        ("child", "agent.delegation", None),
        ("grandchild", "subagent.activity", "child"),
        ("grandchild", "subagent.activity", "parent"),
    ]
    assert [session["name"] for session in found.sessions] == [None, "Peirce", None]


def test_a_thread_has_the_name_that_it_was_given_last(index):
    rollout = Rollout().event("thread_name_updated", thread_id=made.THREAD, thread_name="one")
    rollout.event("thread_name_updated", thread_id="another", thread_name="not this")
    rollout.event("thread_name_updated", thread_id=made.THREAD, thread_name="two")
    assert index(rollout).sessions[0]["name"] == "two"


def test_a_fork_that_copies_nothing_names_what_it_goes_on_from(index):
    parent = done(answered(asked(Rollout("parent").turn(), "first"), "one"), "one")
    base = {"thread_id": "parent", "end_ordinal_exclusive": 19, "end_byte_offset": 4711}
    fork = Rollout("fork", ordinals=True, history_base=base)
    usage = {"total_token_usage": USAGE, "last_token_usage": dict.fromkeys(USAGE, 0)}
    fork.event("token_count", info=usage)
    fork.output("call_1", envelope("late", 3))
    found = index(parent, asked(fork.turn(turn_id="t2"), "second"))
    ours, theirs = found.sessions
    assert theirs["forked_from"]["session_id"] == ours["session_id"]
    assert [loop["session_id"] for loop in found.loops] == [
        ours["session_id"],
        theirs["session_id"],
    ]
    assert found.loops[1]["usage"] is None
    (late,) = found.of("tool.output")
    assert (late["loop_id"], late["value"]["exit_code"]) == (None, 3)


@pytest.mark.parametrize(
    ("given", "published"),
    [
        (
            r'{"cmd":"echo \ud800","workdir":"/w"}',
            {"cmd": "echo \ufffd", "workdir": "/w"},
        ),
        (
            '{"cmd":"echo x","workdir":"/w","n":12345678901234567890123}',
            {"cmd": "echo x", "workdir": "/w", "n": 12345678901234567890123},
        ),
        (
            '{"cmd":"echo x","workdir":"/w","n":1e999}',
            {"yarpRawJson": '{"cmd":"echo x","workdir":"/w","n":1e999}'},
        ),
    ],
)
def test_odd_texts_and_numbers_in_a_calls_arguments_keep_its_command(index, given, published):
    found = index(asked(Rollout().turn(), "x").call("call_1", arguments=given))
    (item,) = found.of("agent.tool_call.shell")
    assert item["value"]["arguments"] == published
    assert item["value"]["working_directory"] == "/w"
    statement = item["value"]["shell_fragments"][0]["statements"][0]
    assert statement["invocations"][0]["program"] == "echo"


def test_reasoning_summaries_errors_and_searches(index):
    rollout = asked(Rollout().turn(), "x")
    rollout.item(
        "reasoning",
        summary=[{"type": "summary_text", "text": "one"}, {"text": "two"}],
        encrypted_content="x",
    )
    rollout.item("reasoning", summary=[], encrypted_content="x")
    rollout.item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    rollout.event("error", message="it broke").add(
        "compacted", {"message": "so far", "replacement_history": [{"type": "message"}]}
    )
    rollout.add("compacted", {"message": "", "replacement_history": []})
    found = index(rollout)
    assert found.roles()[1:] == [
        ("agent.reasoning", "one\ntwo"),
        ("agent.reasoning", None),
        ("agent.tool_call", None),
        ("runtime.notice", "it broke"),
        ("runtime.compaction_summary", "so far"),
    ]
    assert [item["value"] for item in found.of("agent.reasoning")] == [
        {"representation": "summary"},
        {"representation": "unavailable"},
    ]
    assert found.of("agent.tool_call")[0]["value"] == {
        "tool_name": "web_search",
        "arguments": {"type": "search", "query": "q"},
    }


def test_phases_that_are_told_need_no_guess(index):
    rollout = asked(Rollout().turn(), "x")
    answered(rollout, "on it", phase="commentary")
    answered(rollout, "here", phase="final_answer")
    found = index(rollout)
    assert [(item["role"], item["strength"]) for item in found.items[1:]] == [
        ("agent.commentary", "structural"),
        ("agent.final_answer", "structural"),
    ]


def test_a_command_of_the_users_own_is_no_call(index):
    rollout = asked(Rollout().turn(), "x").event(
        "exec_command_end", call_id="u", source="user_shell", command=["ls"]
    )
    assert len(index(rollout).items) == 1


@pytest.mark.parametrize(
    ("head", "ours"),
    [
        ({"type": "session_meta", "payload": {}}, True),
        ({"type": "compacted", "payload": {}}, True),
        ({"type": "session_meta"}, False),
        ({"type": "session", "id": "x", "cwd": "/"}, False),
        ({"type": "user", "payload": {}}, False),
    ],
)
def test_a_rollout_is_known_by_its_first_line(head, ours):
    assert detect(head) is ours


def test_events_without_a_header_say_nothing():
    projector = project("/x", None)
    value = {"type": "event_msg", "payload": {"type": "user_message", "message": "x"}}
    assert list(projector.feed([Line(1, 0, b"", value)])) == []


def test_the_state_of_a_projector_holds_no_long_texts():
    projector = project("/x", None)
    rollout = asked(Rollout().turn(), "long " * 10_000)
    for number in range(40):
        answered(rollout, f"{number} " * 10_000)
    lines = [Line(number, 0, b"", json.loads(line)) for number, line in enumerate(rollout.lines, 1)]
    kinds = {type(fact) for fact in projector.feed(lines)}
    assert {SessionFact, LoopStart, Item, Amend} <= kinds
    assert LoopEnd not in kinds
    assert len(projector.state()) < 5_000
