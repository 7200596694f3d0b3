"""What the trace reader says of transcripts that are written here in the shapes of Claude Code."""

from __future__ import annotations

import json

import pytest

from yarp.plugin import Amend, Item, Line, LoopEnd, LoopModel, LoopStart, SessionFact, UsageSample
from yarp_claude.trace import detect, project


def lines(*values):
    for number, value in enumerate(values, 1):
        if isinstance(value, dict) and value.get("uuid") == "u":
            value = value | {"uuid": f"u-{number}"}  # noqa: PLW2901 - each record has its own
        yield Line(number, number * 100, json.dumps(value).encode(), value)


def record(kind, **more):
    base = {"type": kind, "uuid": "u", "sessionId": "s-1", "timestamp": "2026-11-30T03:00:00.000Z"}
    return base | {"cwd": "/srv/demo", "isSidechain": False} | more


def prompt(text, prompt_id="p-1", **more):
    message = {"role": "user", "content": text}
    return record("user", message=message, promptId=prompt_id, **more)


def typed(text, prompt_id="p-1", **more):
    return prompt(text, prompt_id, promptSource="typed", **more)


def said(*blocks, stop=None, message_id="m-1", model="opus", **more):
    message = {"id": message_id, "model": model, "content": list(blocks), "stop_reason": stop}
    return record("assistant", message=message, **more)


def text(words):
    return {"type": "text", "text": words}


def use(use_id="t-1", name="Bash", **value):
    return {"type": "tool_use", "id": use_id, "name": name, "input": value or {"command": "ls"}}


def got(content="out", use_id="t-1", details=None, prompt_id="p-1", **more):
    block = {"type": "tool_result", "tool_use_id": use_id, "content": content} | more
    message = {"role": "user", "content": [block]}
    beside = {} if details is None else {"toolUseResult": details}
    return record("user", message=message, promptId=prompt_id, **beside)


def attachment(kind, **value):
    return record("attachment", attachment={"type": kind} | value)


def told(*values):
    """The facts of a transcript, the session left out."""
    found = project("/x.jsonl", None).feed(lines(*values))
    return [fact for fact in found if not isinstance(fact, SessionFact)]


def items(*values):
    return [fact for fact in told(*values) if isinstance(fact, Item)]


def roles(*values):
    return [item.role for item in items(*values)]


def ends(*values):
    return [(one.key, one.line, one.outcome) for one in told(*values) if isinstance(one, LoopEnd)]


ANSWER = said(text("There."), stop="end_turn")
SECOND = said(text("There."), stop="end_turn", message_id="m-9")


def test_a_transcript_is_the_first_session_that_it_names():
    queued = {"type": "queue-operation", "sessionId": "s-1", "timestamp": "2026-11-30T03:00:00Z"}
    found = list(project("/x", None).feed(lines(queued, typed("a", sessionId="s-2"))))
    assert found[:2] == [
        SessionFact("s-1", 1, created_at=1796007600000),
        SessionFact("s-1", 1, working_directory="/srv/demo"),
    ]


def test_a_session_began_with_its_first_record_that_tells_a_time():
    """A fork's first records tell none."""
    mode = {"type": "mode", "sessionId": "s-1"}
    later = typed("b", timestamp="2026-11-30T04:00:00.000Z")
    found = project("/x", None).feed(lines(mode, mode | {"timestamp": "odd"}, typed("a"), later))
    told = [one.created_at for one in found if isinstance(one, SessionFact)]
    assert [one for one in told if one is not None] == [1796007600000]


def test_a_subagents_transcript_is_the_agent_that_the_session_started():
    found = list(project("/x", None).feed(lines(prompt("do", isSidechain=True, agentId="a7"))))
    assert (found[0].native_id, found[0].delegated_from.native_id) == ("a7", "s-1")
    assert (found[2].role, found[2].text, found[2].heuristic) == ("agent.delegation", "do", False)


def test_the_opening_of_a_subagent_is_said_once():
    task = prompt("do", isSidechain=True, agentId="a7")
    assert roles(task, task, said(text("x")), task) == [
        "agent.delegation",
        "agent.commentary",
        "agent.delegation",
    ]


def test_a_request_its_work_and_its_answer_are_one_loop():
    found = told(
        typed("please"),
        said({"type": "thinking", "thinking": "so"}),
        said(text("I look.")),
        said(use(), effort="medium"),
        got(is_error=True, details={"durationMs": 6.5, "truncated": True}),
        ANSWER,
    )
    loop = "loop:1"
    assert found == [
        LoopStart(loop, 1),
        Item("1.0", "human.request", 1, loop=loop, text="please", value={"has_images": False}),
        LoopModel(loop, "opus"),
        Item("2.0", "agent.reasoning", 2, loop=loop, text="so", value={"representation": "full"}),
        Item("3.0", "agent.commentary", 3, loop=loop, text="I look.", value={"has_images": False}),
        Item(
            "call:t-1", "agent.tool_call", 4, loop=loop,
            value={"tool_name": "Bash", "arguments": {"command": "ls"}},
        ),
        Item(
            "5.0", "tool.output", 5, loop=loop, text="out", call="call:t-1",
            value={
                "failed": True, "duration_ms": 6, "runtime_output_tokens": None,
                "runtime_truncated": True,
            },
        ),
        Item("6.0", "agent.final_answer", 6, loop=loop, text="There.", value={"has_images": False}),
        LoopEnd(loop, 6),
    ]  # fmt: skip


def test_a_new_prompt_in_a_running_loop_steers_it_and_more_of_the_same_belongs_to_it():
    found = items(typed("a"), typed("b"), said(use()), typed("c", "p-2"))
    assert [item.role for item in found] == [
        "human.request",
        "human.request",
        "agent.tool_call",
        "human.steering",
    ]
    assert {item.loop for item in found} == {"loop:1"}


def turn(index, prompt=0):
    return {"turnPosition": {"promptIndex": prompt, "turnIndex": index}}


def test_a_prompt_of_another_turn_is_a_request_and_ends_the_loop_that_ran():
    """A fork's prompts have one id, its own first one too; the turn before may have no end."""
    found = told(typed("a", **turn(1)), said(use()), typed("b", **turn(2)), SECOND)
    asked = [(one.role, one.loop) for one in found if getattr(one, "role", "")[:5] == "human"]
    assert asked == [("human.request", "loop:1"), ("human.request", "loop:3")]
    assert ends(typed("a", **turn(1)), said(use()), typed("b", **turn(2)), SECOND) == [
        ("loop:1", 3, None),
        ("loop:3", 4, None),
    ]


@pytest.mark.parametrize("prompt_id", ["p-1", "p-2"])
def test_a_prompt_of_the_same_turn_steers_once_the_model_has_spoken(prompt_id):
    found = items(typed("a", **turn(1)), said(use()), typed("b", prompt_id, **turn(1, 1)))
    assert [item.role for item in found][::2] == ["human.request", "human.steering"]
    assert {item.loop for item in found} == {"loop:1"}


@pytest.mark.parametrize("odd", [{"turnIndex": True}, {"turnIndex": "2"}, {"turnIndex": 0}, [], 7])
def test_a_turn_of_unknown_shape_says_nothing(odd):
    found = items(typed("a", **turn(1)), said(use()), typed("b", "p-2", turnPosition=odd))
    assert found[-1].role == "human.steering"


def test_a_prompt_under_the_id_of_an_earlier_loop_belongs_to_that_one():
    found = told(
        typed("a"), ANSWER, typed("b", "p-2"), said(use(), message_id="m-2"), typed("c", "p-1"),
        got(prompt_id="p-2"), typed("d", "p-2"),
    )  # fmt: skip
    late = [(one.role, one.loop) for one in found if getattr(one, "line", 0) in (5, 6, 7)]
    assert late == [
        ("human.steering", "loop:1"),
        ("tool.output", "loop:3"),
        ("human.steering", "loop:3"),
    ]


@pytest.mark.parametrize("prompt_id", ["p-1", "p-2", "p-9"])
def test_a_late_result_belongs_to_the_loop_of_its_call(prompt_id):
    broken = prompt("[Request interrupted by user]", interruptedMessageId="m-1")
    found = told(
        typed("a"), said(use()), broken, typed("b", "p-2"), got(prompt_id=prompt_id), SECOND
    )
    (late,) = [one for one in found if getattr(one, "role", "") == "tool.output"]
    assert late.loop == "loop:1"
    assert [one.key for one in found if isinstance(one, LoopStart)] == ["loop:1", "loop:4"]
    assert found[-1] == LoopEnd("loop:4", 6)


def test_a_persons_prompt_behind_an_end_begins_a_loop_even_under_a_known_id():
    # A fork rewrites the ids of all prompts that it copies to one.
    assert [
        one.key for one in told(typed("a"), ANSWER, typed("b")) if isinstance(one, LoopStart)
    ] == [
        "loop:1",
        "loop:3",
    ]


def test_a_result_behind_an_end_returns_to_the_loop_of_its_prompt():
    found = told(typed("a"), ANSWER, typed("b", "p-2"), SECOND, got(prompt_id="p-1"))
    assert found[-2] == LoopEnd("loop:1", None)
    assert (found[-1].role, found[-1].loop) == ("tool.output", "loop:1")


def test_a_result_of_no_known_prompt_behind_an_end_opens_a_loop():
    found = told(typed("a"), ANSWER, got(prompt_id="p-9"))
    assert found[-2] == LoopStart("loop:3", 3)


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence"])
def test_an_ending_states_no_outcome(stop):
    assert ends(typed("a"), said(text("x"), stop=stop)) == [("loop:1", 2, None)]


def test_a_turn_that_took_its_time_has_ended():
    assert ends(typed("a"), said(use()), record("system", subtype="turn_duration")) == [
        ("loop:1", 3, None)
    ]


def test_an_interruption_is_an_outcome():
    broken = prompt("[Request interrupted by user]", interruptedMessageId="m-1")
    values = (typed("a"), said(use()), broken)
    assert ends(*values) == [("loop:1", 3, "interrupted")]
    last = items(*values)[-1]
    assert (last.role, last.loop) == ("runtime.notice", "loop:1")


@pytest.mark.parametrize(
    "note", ["[Request interrupted by user for tool use]", "[Request interrupted by user]"]
)
@pytest.mark.parametrize("side", [False, True])
def test_an_interruption_that_names_no_message_is_known_by_its_words(note, side):
    opening = prompt("a", isSidechain=True) if side else typed("a")
    values = (opening, said(use()), prompt(note, rowSource="harness", isSidechain=side))
    assert ends(*values) == [("loop:1", 3, "interrupted")]
    last = items(*values)[-1]
    assert (last.role, last.loop) == ("runtime.notice", "loop:1")


def test_who_types_the_words_of_an_interruption_interrupts_nothing():
    values = (typed("a"), said(use()), typed("[Request interrupted by user]"))
    assert ends(*values) == []
    assert items(*values)[-1].role == "human.steering"
    assert ends(prompt("[Request interrupted by user]")) == []


def test_records_of_one_answer_end_their_loop_with_the_last():
    values = (
        typed("a"),
        said({"type": "thinking", "thinking": ""}, stop="end_turn"),
        said(text("one"), stop="end_turn"),
        said(text("two"), stop="end_turn"),
    )
    found = told(*values)
    assert [one for one in found if isinstance(one, LoopStart)] == [LoopStart("loop:1", 1)]
    assert found[-3:] == [
        Amend("3.0", role="agent.commentary"),
        Item(
            "4.0", "agent.final_answer", 4, loop="loop:1", text="two", value={"has_images": False}
        ),
        LoopEnd("loop:1", 4),
    ]


@pytest.mark.parametrize(
    "sent_on",
    [
        prompt("Stop hook feedback:\nrun the tests", isMeta=True),
        attachment("goal_status", met=False, reason="no"),
    ],
)
def test_a_hook_that_sends_the_model_on_revokes_the_ending(sent_on):
    found = told(
        typed("a"), ANSWER, sent_on, said(text("Done."), stop="end_turn", message_id="m-2")
    )
    assert LoopEnd("loop:1", None) in found
    assert Amend("2.0", role="agent.commentary") in found
    assert sum(isinstance(one, LoopStart) for one in found) == 1
    assert found[-1] == LoopEnd("loop:1", 4)


def test_a_late_replay_of_a_response_belongs_to_its_loop_and_ends_none():
    usage = {"input_tokens": 1, "output_tokens": 20}
    replay = said(text("again"), stop="end_turn")
    replay["message"]["usage"] = usage
    found = told(
        typed("a"),
        ANSWER,
        typed("b", "p-2"),
        said(use(), message_id="m-2", stop="tool_use"),
        replay,
        said(text("more"), message_id="m-2"),
    )
    assert [one.key for one in found if isinstance(one, LoopStart)] == ["loop:1", "loop:3"]
    assert [one for one in found if isinstance(one, LoopEnd)] == [LoopEnd("loop:1", 2)]
    late = [one for one in found if getattr(one, "line", 0) == 5]
    assert [(one.role, one.loop) for one in late] == [("agent.final_answer", "loop:1")]
    assert (found[-1].role, found[-1].loop) == ("agent.commentary", "loop:3")
    assert [one.loop for one in found if isinstance(one, UsageSample)] == ["loop:1"]


def test_a_replay_behind_an_end_opens_no_loop_and_steers_nobody():
    work = said(use(), message_id="m-1", stop="tool_use")
    found = told(
        typed("a"),
        work,
        said(text("x"), stop="end_turn", message_id="m-2"),
        said(text("late"), message_id="m-1"),
        typed("b", "p-2"),
    )
    assert [one.key for one in found if isinstance(one, LoopStart)] == ["loop:1", "loop:5"]
    assert (found[-1].role, found[-1].loop) == ("human.request", "loop:5")


def test_what_claude_code_made_up_behind_an_end_opens_no_loop():
    made_up = said(text("No response requested."), model="<synthetic>", message_id="made-up")
    found = told(typed("a"), ANSWER, made_up, typed("b", "p-2"))
    assert [one.key for one in found if isinstance(one, LoopStart)] == ["loop:1", "loop:4"]
    assert found[-3].loop == "loop:1"


@pytest.mark.parametrize(
    "later", [record("system", subtype="turn_duration"), said(text("x"), stop="end_turn")]
)
def test_an_interruption_stays_one_whatever_ends_behind_it(later):
    broken = prompt("[Request interrupted by user]", interruptedMessageId="m-1")
    assert ends(typed("a"), said(use()), broken, later) == [("loop:1", 3, "interrupted")]


def test_an_ended_response_that_a_person_broke_off_is_interrupted():
    broken = prompt("[Request interrupted by user]", interruptedMessageId="m-1")
    assert ends(typed("a"), ANSWER, broken)[-1] == ("loop:1", 3, "interrupted")


def test_another_submission_before_any_answer_steers():
    found = items(typed("a"), typed("b", "p-2"), typed("c", "p-2"))
    assert [item.role for item in found] == ["human.request", "human.steering", "human.request"]
    assert {item.loop for item in found} == {"loop:1"}


def test_history_written_once_more_is_a_witness_and_nothing_else():
    first = [
        value | {"uuid": f"own-{number}"}
        for number, value in enumerate(
            (typed("a"), said(use(), text("so"), stop="tool_use"), got(), ANSWER)
        )
    ]
    copies = [value | {"sessionId": "s-0", "promptId": "p-9"} for value in first]
    found = told(*first, *copies, typed("b", "p-2"))
    assert [one.key for one in found if isinstance(one, LoopStart)] == ["loop:1", "loop:9"]
    assert len([one for one in found if isinstance(one, Item)]) == 6
    further = [(one.key, one.line) for one in found if isinstance(one, Amend) and one.line]
    assert {("1.0", 5), ("call:t-1", 6), ("2.1", 6), ("3.0", 7), ("4.0", 8)} <= set(further)


def test_a_session_has_the_strongest_and_latest_name_that_it_was_given():
    def named(kind, **more):
        return {"type": kind, "sessionId": "s-1"} | more

    def name(*values):
        found = project("/x", None).feed(lines(typed("a"), *values))
        return [one.name for one in found if isinstance(one, SessionFact) and one.name][-1:]

    title, made_up = named("custom-title", customTitle="Mine"), named("ai-title", aiTitle="Its")
    assert name(title, made_up, named("summary", summary="Sum", leafUuid="u")) == ["Mine"]
    assert name(made_up, named("ai-title", aiTitle="Its 2")) == ["Its 2"]
    assert name(title, named("custom-title", customTitle="Other", sessionId="s-2")) == ["Mine"]
    assert name(named("summary", summary="of another", leafUuid="u", sessionId=None)) == []
    assert name(named("custom-title", customTitle=" ")) == []


@pytest.mark.parametrize("first", [True, False])
def test_a_summary_names_the_session_that_holds_the_message_it_tells_of(first):
    """Summaries of other sessions stand in a transcript too; none of them names a session."""
    ours = {"type": "summary", "summary": "Ours", "leafUuid": "own"}
    other = {"type": "summary", "summary": "Another", "leafUuid": "elsewhere"}
    message = typed("a", uuid="own")
    values = [ours, other, message] if first else [message, typed("b"), other, ours]
    for cut in range(len(values)):
        whole = list(lines(*values))
        begun = project("/x", None)
        found = [*begun.feed(whole[:cut])]
        found += project("/x", begun.state()).feed(whole[cut:])
        assert [one.name for one in found if getattr(one, "name", None)] == ["Ours"]


def test_a_chosen_name_stays_before_a_summary():
    title = {"type": "custom-title", "sessionId": "s-1", "customTitle": "Mine"}
    ours = {"type": "summary", "summary": "Sum", "leafUuid": "own"}
    found = list(project("/x", None).feed(lines(title, typed("a", uuid="own"), ours)))
    assert [one.name for one in found if getattr(one, "name", None)] == ["Mine"]


@pytest.mark.parametrize(
    "copy", [{"requestSessionId": "s-0"}, {"forkedFrom": {"sessionId": "s-0", "messageUuid": "u"}}]
)
def test_a_fork_names_the_session_whose_history_it_began_with(copy):
    grand = said(text("x"), requestSessionId="s-00")
    own = said(text("y"), requestSessionId="s-1", message_id="m-2")
    found = project("/x", None).feed(lines(typed("a"), grand, ANSWER | copy, own))
    origins = [one.forked_from for one in found if isinstance(one, SessionFact) and one.forked_from]
    assert [(one.native_id, one.line) for one in origins] == [("s-00", 2), ("s-0", 3)]


WRITERS = {
    "typed": (typed("a"), "human.request", False),
    "suggested": (prompt("a", promptSource="suggestion_accepted"), "human.request", False),
    "by a program": (prompt("a", promptSource="sdk"), "human.request", True),
    "by Claude Code": (prompt("a", promptSource="system"), "runtime.notice", False),
    "by a human": (prompt("a", origin={"kind": "human"}), "human.request", False),
    "by something else": (prompt("a", origin={"kind": "channel"}), "runtime.notice", False),
    "unmarked": (prompt("a"), "human.request", True),
    "an interruption": (prompt("[Request interrupted by user]"), "runtime.notice", True),
    "a summary": (prompt("a", isCompactSummary=True), "runtime.compaction_summary", False),
    "a continuation": (
        prompt("This session is being continued from a previous conversation that"),
        "runtime.compaction_summary",
        True,
    ),
    "a continuation that was pasted": (
        typed("This session is being continued from a previous conversation that"),
        "human.request",
        False,
    ),
    "news that were pasted": (typed("<task-notification>x"), "human.request", False),
    "a caveat": (prompt("x", isMeta=True), "runtime.notice", False),
    "a command": (prompt("<command-name>/x</command-name>"), "runtime.context", True),
    "a shell of the person": (prompt("<bash-input>ls</bash-input>"), "runtime.context", True),
    "a reminder": (prompt("<system-reminder>x</system-reminder>"), "runtime.notice", True),
    "another tag": (prompt("<novel>x</novel>"), "runtime.unknown", True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_who_wrote_a_message(name):
    value, role, heuristic = WRITERS[name]
    (item,) = items(value)
    assert (item.role, item.heuristic) == (role, heuristic)


def test_what_a_skill_brings_is_instructions():
    skill = prompt("do so", isMeta=True, sourceToolUseID="t-1")
    found = items(typed("a"), said(use(name="Skill", skill="x")), got(), skill)
    assert (found[-1].role, found[-1].value) == ("runtime.instructions", {"category": "skill"})


def test_images_are_told_of_and_those_of_claude_code_are_files():
    image = [text("see"), {"type": "image", "source": {}}]
    first, second = items(typed(image), prompt(image, isMeta=True))
    assert (first.text, first.value) == ("see", {"has_images": True})
    assert (second.role, second.value) == (
        "runtime.context",
        {"category": "file", "has_images": True},
    )


@pytest.mark.parametrize("tool", ["Agent", "Task"])
def test_a_delegation_names_its_child_when_the_child_is_known(tool):
    found = told(
        typed("a"),
        said(use(name=tool, prompt="look")),
        got([text("found")], details={"agentId": "a7", "totalDurationMs": 9, "totalTokens": 5}),
    )
    delegation = next(one for one in found if isinstance(one, Item) and one.key == "call:t-1")
    assert (delegation.role, delegation.text) == ("agent.delegation", "look")
    assert Amend("call:t-1", session="a7") in found
    assert (found[-1].text, found[-1].value["duration_ms"]) == ("found", 9)
    assert found[-1].value["runtime_output_tokens"] == 5


@pytest.mark.parametrize(("code", "failed"), [(200, False), (404, True)])
def test_an_http_code_counts_before_the_verdict(code, failed):
    found = items(
        typed("a"), said(use(name="WebFetch")), got(is_error=not failed, details={"code": code})
    )
    assert found[-1].value["failed"] is failed


def test_a_result_without_a_verdict_has_none():
    assert items(typed("a"), said(use()), got())[-1].value["failed"] is None


def notification(task, use_id="t-9", status="completed"):
    return (
        f"<task-notification>\n<task-id>{task}</task-id>\n<tool-use-id>{use_id}</tool-use-id>\n"
        f"<status>{status}</status>\n</task-notification>"
    )


@pytest.mark.parametrize("way", ["prompt", "attachment"])
@pytest.mark.parametrize(
    ("task", "use_id", "role", "call"),
    [
        ("b1", "t-9", "tool.output", "call:t-1"),
        ("b9", "t-1", "tool.output", "call:t-1"),
        ("b9", "t-2", "tool.output", "call:t-2"),
        ("a7", "t-9", "subagent.report", None),
        ("b9", "t-9", "runtime.notice", None),
    ],
)
def test_news_of_a_task_goes_to_the_call_that_started_it(way, task, use_id, role, call):
    news = notification(task, use_id, "failed")
    values = [
        typed("a"),
        said(use("t-1"), use("t-2"), use("t-3", "Agent", prompt="x")),
        got("running", "t-1", details={"backgroundTaskId": "b1"}),
        got("running", "t-3", details={"isAsync": True, "agentId": "a7"}),
        prompt(news, "p-2", origin={"kind": "task-notification"})
        if way == "prompt"
        else attachment("queued_command", prompt=news, commandMode="task-notification"),
    ]
    last = items(*values)[-1]
    assert (last.role, last.call, last.text) == (role, call, news)
    if role == "tool.output":
        assert last.value == {"failed": True}
    if role == "subagent.report":
        assert last.session == "a7"


def test_news_behind_an_end_opens_a_loop():
    found = told(typed("a"), ANSWER, prompt(notification("b1"), "p-2", promptSource="system"))
    assert found[-2] == LoopStart("loop:3", 3)


@pytest.mark.parametrize(
    ("value", "role"),
    [
        ({"prompt": "b", "origin": {"kind": "human"}}, "human.steering"),
        ({"prompt": [text("b")], "commandMode": "prompt"}, "human.steering"),
        ({"prompt": "b", "commandMode": "task"}, "runtime.context"),
        ({"prompt": "<task-notification>b", "origin": {"kind": "human"}}, "human.steering"),
        ({"prompt": "b", "origin": {"kind": "channel"}}, "runtime.context"),
    ],
)
def test_a_queued_command_is_the_persons_or_internal(value, role):
    found = items(typed("a"), said(use()), attachment("queued_command", **value))
    assert (found[-1].role, found[-1].text[-1]) == (role, "b")


ATTACHED = {
    "task_reminder": ("runtime.notice", None),
    "hook_success": ("runtime.notice", None),
    "silent_turn_reminder": ("runtime.notice", None),
    "plan_mode": ("runtime.state", None),
    "model": ("runtime.state", None),
    "session_context": ("runtime.context", "environment"),
    "compact_file_reference": ("runtime.context", "file"),
    "command_permissions": ("runtime.instructions", "permission"),
    "invoked_skills": ("runtime.instructions", "skill"),
    "skill_listing": ("runtime.instructions", "tool_catalog"),
    "brand_new": ("runtime.unknown", None),
}


@pytest.mark.parametrize("kind", ATTACHED)
def test_an_attachment_has_the_role_of_its_type(kind):
    role, category = ATTACHED[kind]
    (item,) = items(attachment(kind, content="x"))
    assert (item.role, item.text, item.loop) == (role, "x", None)
    assert item.value.get("category") == category
    assert ("has_images" in item.value) is (role != "runtime.instructions")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"snippet": "a", "content": "b"}, "a"),
        ({"content": {"type": "text", "file": {"content": "c"}}}, "c"),
        ({"skills": [{"content": "d"}, {"content": "e"}]}, "d\ne"),
        ({"addedLines": ["f", "g"]}, "f\ng"),
        ({"displayPath": "h"}, "h"),
        ({"filename": "i"}, "i"),
    ],
)
def test_an_attachment_is_told_by_the_first_text_that_it_has(value, words):
    assert items(attachment("file", **value))[0].text == words


def test_an_attachment_without_words_says_nothing_but_a_state_its_name():
    assert items(attachment("file"), attachment("auto_mode"))[0].text == "auto_mode"


def test_tokens_are_counted_by_message_and_made_up_ones_not_at_all():
    usage = {
        "input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 11, "output_tokens_details": {"thinking_tokens": 2},
    }  # fmt: skip
    counted = said(text("x"))
    counted["message"]["usage"] = usage
    made_up = said(text("y"), model="<synthetic>")
    made_up["message"]["usage"] = usage
    found = [one for one in told(typed("a"), counted, made_up) if isinstance(one, UsageSample)]
    assert found == [
        UsageSample("loop:1", "m-1", input=21, output=5, cached=7, cache_write=11, reasoning=2)
    ]


def test_an_api_error_is_a_notice_and_names_no_model():
    found = told(typed("a"), said(text("API Error"), model="<synthetic>", isApiErrorMessage=True))
    assert found[-1].role == "runtime.notice"
    assert not [one for one in found if isinstance(one, LoopModel)]


def test_what_the_provider_ran_is_a_call_with_its_output():
    searched = use("srv-1", "web_search") | {"type": "server_tool_use"}
    hits = {"type": "web_search_tool_result", "tool_use_id": "srv-1", "content": []}
    found = items(typed("a"), said(searched, hits))
    assert [item.role for item in found[1:]] == ["agent.tool_call", "tool.output"]
    assert found[2].call == "call:srv-1"


def test_a_note_with_words_is_a_notice():
    noted = record("system", subtype="compact_boundary", content="Conversation compacted")
    assert roles(noted, record("system", subtype="stop_hook_summary")) == ["runtime.notice"]


@pytest.mark.parametrize("kind", ["started", "result"])
def test_a_run_that_tells_of_itself_opens_a_loop(kind):
    (_, fact) = project("/x", None).feed(lines({"type": kind, "agentId": "a7"}))
    assert fact == LoopStart("loop:1", 1)


WHOLE = [
    {"type": "queue-operation", "sessionId": "s-1"},
    typed("a"),
    said(use("t-1"), use("t-2", "Agent", prompt="x"), use("t-3", "Skill")),
    got("running", "t-1", details={"backgroundTaskId": "b1"}),
    got("found", "t-2", details={"agentId": "a7"}),
    typed("b", "p-2"),
    prompt("do so", isMeta=True, sourceToolUseID="t-3"),
    said(text("one"), stop="end_turn"),
    said(text("two"), stop="end_turn"),
    prompt("Stop hook feedback: x", isMeta=True),
    said(text("three"), stop="end_turn", message_id="m-2"),
    prompt(notification("b1"), "p-3", promptSource="system"),
    prompt(notification("a7"), "p-3", promptSource="system"),
    SECOND,
    got(prompt_id="p-1"),
    typed("c"),
    said(text("late"), stop="end_turn"),
    {"type": "custom-title", "sessionId": "s-1", "customTitle": "x"},
    said(text("x"), requestSessionId="s-0", message_id="m-8"),
    typed("twice", uuid="own"),
    typed("twice", uuid="own"),
]


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_any_cut_of_a_transcript_gives_the_same_facts(cut):
    whole = list(lines(*WHOLE))
    first = project("/x.jsonl", None)
    found = list(first.feed(whole[:cut]))
    found += project("/x.jsonl", first.state()).feed(whole[cut:])
    assert found == list(project("/x.jsonl", None).feed(whole))


@pytest.mark.parametrize(
    ("head", "ours"),
    [
        ({"type": "anything", "sessionId": "s"}, True),
        ({"type": "started", "agentId": "a"}, True),
        ({"type": "result", "agentId": "a"}, True),
        ({"type": "file-history-snapshot", "messageId": "m"}, True),
        ({"type": "summary", "leafUuid": "u"}, True),
        ({"type": "started"}, False),
        ({"type": ["summary"], "leafUuid": "u"}, False),
        ({"type": "session", "id": "s", "cwd": "/"}, False),
        ({"sessionId": 1}, False),
        ([], False),
    ],
)
def test_a_transcript_is_known_by_its_first_line(head, ours):
    assert detect(head) is ours


@pytest.mark.parametrize(
    "odd",
    [
        [1],
        {"type": "user"},
        record("user", message={"content": 7}),
        record("attachment", attachment=7),
        record("system"),
        attachment("queued_command", prompt=7),
        said(use(use_id=7), {"type": "thinking"}, {"no": "type"}),
        got(use_id=7),
        said(use("t-1", "Agent") | {"input": "x"}),
    ],
)
def test_a_line_of_unknown_shape_is_no_matter(odd):
    assert "human.request" in roles(typed("a"), odd)
