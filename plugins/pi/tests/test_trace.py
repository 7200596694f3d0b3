"""What the trace reader says of sessions that are written here in the shapes of Pi."""

from __future__ import annotations

import json

import pytest

from yarp.plugin import Amend, Item, Line, LoopEnd, LoopModel, LoopStart, SessionFact, UsageSample
from yarp_pi.trace import detect, project

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s-1",
    "timestamp": "2026-11-29T21:08:00.000Z",
    "cwd": "/srv/demo",
}


def lines(*values):
    above, seen = None, set()
    for number, value in enumerate(values, 1):
        if isinstance(value, dict) and "parentId" in value:
            if value["id"] == "e":
                value = value | {"id": f"e-{number}"}  # noqa: PLW2901 - each entry has its own
            if value["parentId"] == "above":
                value = value | {"parentId": above}  # noqa: PLW2901 - the one before it
            if value["id"] and value["id"] not in seen:
                above = value["id"]
                seen.add(above)
        yield Line(number, number * 100, json.dumps(value).encode(), value)


def say(message, kind="message", **more):
    placed = {"id": "e", "parentId": "above", "timestamp": "2026-11-29T21:08:01.000Z"}
    body = {"message": message} if kind == "message" else message
    return {"type": kind} | placed | body | more


def user(text):
    return say({"role": "user", "content": text})


def assistant(*blocks, stop="toolUse", **more):
    told = {"model": "mock-model", "stopReason": stop}
    return say({"role": "assistant", "content": list(blocks)} | told | more)


def text(words):
    return {"type": "text", "text": words}


CALL = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls"}}


def answer(words="README.md", **more):
    base = {"role": "toolResult", "toolCallId": "call_1", "isError": False}
    return say(base | {"content": [text(words)]} | more)


def told(*values):
    """The facts of a session, its header left out."""
    return list(project("/x.jsonl", None).feed(lines(HEADER, *values)))[1:]


def items(*values):
    return [fact for fact in told(*values) if isinstance(fact, Item)]


def roles(*values):
    return [(item.role, item.text) for item in items(*values)]


def test_the_header_is_the_session():
    forked = HEADER | {"parentSession": "/srv/s/other.jsonl"}
    (fact,) = project("/x.jsonl", None).feed(lines(forked))
    assert (fact.native_id, fact.line, fact.working_directory) == ("s-1", 1, "/srv/demo")
    assert fact.created_at == 1795986480000
    assert (fact.forked_from.line, fact.forked_from.locator) == (1, "/srv/s/other.jsonl")


def test_the_last_name_is_the_sessions():
    named = told(say({"name": "a"}, "session_info"))
    assert named == [SessionFact("s-1", 1, name="a")]


def test_a_request_its_work_and_its_answer_are_one_loop():
    found = told(
        user("please"),
        assistant({"type": "thinking", "thinking": "so"}, text("I look."), CALL),
        answer(durationMs=6),
        assistant(text("There."), stop="stop"),
    )
    loop = "loop:2"
    call = Item(
        "3.2", "agent.tool_call", 3, loop=loop,
        value={"tool_name": "bash", "arguments": {"command": "ls"}},
    )  # fmt: skip
    assert found == [
        LoopStart(loop, 2),
        Item(
            "2.0", "human.request", 2, loop=loop, text="please",
            value={"has_images": False}, heuristic=True,
        ),
        LoopModel(loop, "mock-model"),
        Item("3.0", "agent.reasoning", 3, loop=loop, text="so", value={"representation": "full"}),
        Item("3.1", "agent.commentary", 3, loop=loop, text="I look.", value={"has_images": False}),
        call,
        Item(
            "4.0", "tool.output", 4, loop=loop, text="README.md", call="3.2",
            value={"failed": False, "duration_ms": 6, "runtime_truncated": None},
        ),
        Item("5.0", "agent.final_answer", 5, loop=loop, text="There.", value={"has_images": False}),
        LoopEnd(loop, 5, "completed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [("stop", "completed"), ("aborted", "interrupted"), ("error", "failed"), ("length", "failed")],
)
def test_the_stop_reason_of_the_last_answer_ends_the_loop(stop, outcome):
    found = told(user("please"), assistant(stop=stop))
    assert found[-1] == LoopEnd("loop:2", 3, outcome)


def test_a_loop_that_was_not_seen_to_end_has_no_end():
    found = told(user("please"), assistant(CALL), assistant(stop=None))
    assert not [fact for fact in found if isinstance(fact, LoopEnd)]


def test_an_answer_behind_an_error_goes_on_with_the_loop():
    found = told(user("please"), assistant(stop="error"), assistant(text("Now."), stop="stop"))
    ends = [fact for fact in found if isinstance(fact, LoopEnd)]
    assert [(end.line, end.outcome) for end in ends] == [
        (3, "failed"),
        (None, None),
        (4, "completed"),
    ]
    assert sum(isinstance(fact, LoopStart) for fact in found) == 1


def test_a_message_of_the_person_while_the_loop_runs_steers_it():
    found = items(user("please"), assistant(CALL), user("rather not"))
    assert [item.role for item in found if item.role.startswith("human")] == [
        "human.request",
        "human.steering",
    ]
    assert {item.loop for item in found} == {"loop:2"}


def test_changes_of_model_and_effort_open_no_loop_and_tell_the_first_one_its_effort():
    found = told(
        say({"provider": "mock", "modelId": "m"}, "model_change"),
        say({"thinkingLevel": "high"}, "thinking_level_change"),
        user("please"),
        assistant(text("x")),
        assistant(text("y"), model="another"),
    )
    assert found[0] == LoopStart("loop:4", 4)
    assert [fact for fact in found if isinstance(fact, LoopModel)] == [
        LoopModel("loop:4", "mock-model", effort="high")
    ]


def test_an_answer_without_a_request_opens_a_loop_of_its_own():
    found = told(assistant(text("x"), stop="stop"))
    assert found[0] == LoopStart("loop:2", 2)


def starts(found):
    return [fact.key for fact in found if isinstance(fact, LoopStart)]


def ends(found):
    return [(one.key, one.line, one.outcome) for one in found if isinstance(one, LoopEnd)]


LEFT = [user("one") | {"id": "u"}, assistant(CALL) | {"id": "a"}, answer() | {"id": "r"}]


@pytest.mark.parametrize("parent", [None, "u", "a"])
def test_a_running_loop_that_a_person_left_for_another_branch_is_over(parent):
    """Pi says no outcome: what was said there stands, and the next message steers nobody."""
    found = told(*LEFT, user("another way") | {"parentId": parent}, assistant(stop="stop"))
    assert starts(found) == ["loop:2", "loop:5"]
    assert ends(found) == [("loop:2", 5, None), ("loop:5", 6, "completed")]
    said = [fact.role for fact in found if isinstance(fact, Item)]
    assert said.count("human.request") == 2
    assert "human.steering" not in said


def test_a_summary_of_the_branch_that_was_left_ends_its_loop():
    summed = say({"summary": "so far", "fromId": "u"}, "branch_summary") | {"parentId": "u"}
    found = told(*LEFT, summed, user("another way"))
    assert ends(found) == [("loop:2", 5, None)]
    assert starts(found) == ["loop:2", "loop:6"]
    (summary,) = [one for one in found if getattr(one, "role", "") == "runtime.compaction_summary"]
    assert summary.loop is None


def test_an_answer_on_another_branch_goes_on_with_no_loop_of_the_one_that_was_left():
    done = assistant(text("x"), stop="stop") | {"id": "d"}
    again = assistant(text("y"), stop="stop") | {"parentId": "u"}
    found = told(LEFT[0], done, again)
    assert starts(found) == ["loop:2", "loop:4"]
    assert ends(found) == [("loop:2", 3, "completed"), ("loop:4", 4, "completed")]


@pytest.mark.parametrize("parent", ["r", "gone", 7])
def test_what_goes_on_from_the_last_message_or_from_nothing_known_is_on_its_branch(parent):
    """A label may stand between, which a fork leaves out."""
    label = say({"targetId": "u", "label": "x"}, "label") | {"id": "l"}
    found = told(*LEFT, label, user("go on") | {"parentId": parent})
    assert starts(found) == ["loop:2"]
    assert ends(found) == []
    assert found[-1].role == "human.steering"


def test_a_branch_may_be_left_and_come_back_to():
    found = told(
        *LEFT,
        user("two") | {"id": "u2", "parentId": "u"},
        assistant(text("x"), stop="stop") | {"id": "d2"},
        user("back") | {"parentId": "r"},
    )
    assert starts(found) == ["loop:2", "loop:5", "loop:7"]
    assert ends(found) == [("loop:2", 5, None), ("loop:5", 6, "completed")]


def test_version_1_has_no_branches():
    def bare(value):
        return {key: one for key, one in value.items() if key not in ("id", "parentId")}

    head = {key: value for key, value in HEADER.items() if key != "version"}
    values = [head, *map(bare, LEFT), bare(user("go on"))]
    found = list(project("/x.jsonl", None).feed(lines(*values)))[1:]
    assert (starts(found), ends(found)) == (["loop:2"], [])


def test_an_entry_beside_the_messages_that_is_written_once_more_is_a_witness():
    summed = say({"summary": "so far"}, "compaction") | {"id": "c"}
    found = told(user("a"), summed, assistant(text("x")), summed)
    assert [one.role for one in found if isinstance(one, Item)].count(
        "runtime.compaction_summary"
    ) == 1
    assert found[-1] == Amend("3.0", line=5)


def test_what_is_said_between_loops_belongs_to_the_session_alone():
    ran = say({"role": "bashExecution", "command": "ls", "output": "x"})
    (item,) = [
        item
        for item in items(user("a"), assistant(text("b"), stop="stop"), ran)
        if item.role == "runtime.context"
    ]
    assert (item.loop, item.text) == (None, "ls\nx")
    assert item.value == {"has_images": False, "category": "internal"}


def test_reasoning_that_is_not_shown_is_unavailable():
    (_, item) = items(user("a"), assistant({"type": "thinking", "thinking": ""}))
    assert (item.text, item.value) == (None, {"representation": "unavailable"})


def test_empty_commentary_is_dropped():
    assert roles(user("a"), assistant(text(""), CALL))[1:] == [("agent.tool_call", None)]


def test_images_are_told_of():
    content = [text("see"), {"type": "image", "data": "x", "mimeType": "image/png"}]
    (item,) = items(say({"role": "user", "content": content}))
    assert (item.text, item.value) == ("see", {"has_images": True})


def test_a_skill_before_the_persons_words_is_instructions():
    said = '<skill name="x" location="/x">do so</skill>\n\nplease'
    assert roles(user(said)) == [
        ("runtime.instructions", '<skill name="x" location="/x">do so</skill>'),
        ("human.request", "please"),
    ]
    assert roles(user('<skill name="x">do so</skill>'))[1] == ("human.request", None)
    assert items(user(said))[0].heuristic


def test_a_result_tells_failure_and_truncation_where_pi_does():
    cut = {"truncation": {"truncated": True}}
    found = items(user("a"), assistant(CALL), answer(isError=True, details=cut), answer("again"))
    assert found[2].value == {"failed": True, "duration_ms": None, "runtime_truncated": True}
    # The call has its answer: who made the second one is not known.
    assert (found[3].call, found[3].loop) == (None, "loop:2")


@pytest.mark.parametrize(
    ("custom", "role", "value"),
    [
        ("skill-recall", "runtime.instructions", {"category": "skill"}),
        ("pi-space-memory-recall", "runtime.context", {"category": "memory", "has_images": False}),
        ("lark-auth-check", "runtime.notice", {"has_images": False}),
        ("onboarding", "runtime.notice", {"has_images": False}),
        ("todo-context", "runtime.state", {"has_images": False}),
        ("subagent-notify", "subagent.report", {"has_images": False}),
        ("subagent_control_notice", "subagent.activity", {"has_images": False}),
        ("another", "runtime.unknown", {"has_images": False}),
    ],
)
def test_what_extensions_put_in_has_the_role_of_its_type(custom, role, value):
    entry = say({"customType": custom, "content": "x", "display": True}, "custom_message")
    message = say({"role": "custom", "customType": custom, "content": [text("x")]})
    for one in (entry, message):
        (item,) = items(one)
        assert (item.role, item.text, item.value) == (role, "x", value)


@pytest.mark.parametrize("kind", ["compaction", "branch_summary"])
def test_summaries_are_kept_and_nothing_in_them_is_unfolded(kind):
    summed = say({"summary": "so far", "systemMessage": {"content": [CALL]}}, kind)
    assert roles(summed) == [("runtime.compaction_summary", "so far")]


def test_a_system_prompt_is_instructions():
    sections = {"preamble": "a", "rules": "b", "cwd": None}
    assert roles(say({"role": "system", "content": "", "sections": sections})) == [
        ("runtime.instructions", "a\nb")
    ]


def test_tokens_of_an_answer_are_summed_and_counted_by_entry():
    usage = {"input": 3, "output": 5, "cacheRead": 7, "cacheWrite": 11, "reasoning": 2}
    found = [
        fact for fact in told(user("a"), assistant(usage=usage)) if isinstance(fact, UsageSample)
    ]
    assert found == [
        UsageSample("loop:2", "e-3", input=21, output=5, cached=7, cache_write=11, reasoning=2)
    ]


def test_tokens_of_version_1_have_no_identity():
    entry = assistant(usage={"input": 3, "output": 5})
    del entry["id"], entry["parentId"]
    head = {key: value for key, value in HEADER.items() if key != "version"}
    found = list(project("/x.jsonl", None).feed(lines(head, entry)))
    (sample,) = [fact for fact in found if isinstance(fact, UsageSample)]
    assert (sample.sample, sample.input, sample.cached) == (None, 3, None)


@pytest.mark.parametrize("odd", [{"id": None}, {"id": ""}, {"id": 7}])
def test_an_entry_without_an_id_is_told_and_each_of_its_observations_counts(odd):
    usage = {"input": 3, "output": 5}
    again = assistant(text("x"), usage=usage) | odd
    found = told(user("a"), again, again, assistant(text("y"), stop="stop", usage=usage) | odd)
    samples = [fact for fact in found if isinstance(fact, UsageSample)]
    assert samples == [UsageSample("loop:2", None, input=3, output=5)] * 3
    assert [fact.text for fact in found if isinstance(fact, Item)] == ["a", "x", "x", "y"]
    assert found[-1] == LoopEnd("loop:2", 5, "completed")


def test_an_entry_that_is_written_once_more_stays_in_its_loop_and_ends_none():
    usage = {"input": 3, "output": 5}
    asked = user("a") | {"id": "e1"}
    done = assistant(text("Done."), stop="stop", usage=usage) | {"id": "e2"}
    found = told(asked, done, asked, user("b"), done, assistant(CALL))
    assert [fact.key for fact in found if isinstance(fact, LoopStart)] == ["loop:2", "loop:5"]
    assert [fact for fact in found if isinstance(fact, LoopEnd)] == [
        LoopEnd("loop:2", 3, "completed")
    ]
    said = [(fact.key, fact.role, fact.loop) for fact in found if isinstance(fact, Item)]
    assert said == [
        ("2.0", "human.request", "loop:2"),
        ("3.0", "agent.final_answer", "loop:2"),
        ("5.0", "human.request", "loop:5"),
        ("3.0", "agent.final_answer", "loop:2"),
        ("7.0", "agent.tool_call", "loop:5"),
    ]
    assert Amend("2.0", line=4) in found
    samples = [fact for fact in found if isinstance(fact, UsageSample)]
    assert [(one.loop, one.sample) for one in samples] == [("loop:2", "e2")] * 2


WHOLE = [
    HEADER,
    say({"thinkingLevel": "low"}, "thinking_level_change"),
    user("please"),
    assistant(CALL, CALL | {"id": "call_2"}),
    answer(),
    user("rather not"),
    assistant(text("x"), stop="error"),
    assistant(text("y"), stop="stop"),
    answer(toolCallId="call_2"),
    say({"summary": "so far"}, "compaction"),
    user("next"),
    user("twice") | {"id": "own"},
    assistant(text("twice"), stop="stop") | {"id": "own-2"},
    user("twice") | {"id": "own"},
    assistant(text("twice"), stop="stop") | {"id": "own-2"},
    user("left") | {"id": "left"},
    assistant(CALL) | {"id": "left-2"},
    say({"summary": "of it"}, "branch_summary") | {"parentId": "own"},
    user("another way"),
    say({"name": "named"}, "session_info"),
]


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_any_cut_of_a_session_gives_the_same_facts(cut):
    whole = list(lines(*WHOLE))
    first = project("/x.jsonl", None)
    found = list(first.feed(whole[:cut]))
    found += project("/x.jsonl", first.state()).feed(whole[cut:])
    assert found == list(project("/x.jsonl", None).feed(whole))


@pytest.mark.parametrize(
    ("head", "ours"),
    [
        (HEADER, True),
        ({"type": "message", "id": "e", "message": {}}, True),
        (HEADER | {"cwd": None}, False),
        (HEADER | {"id": 1}, False),
        ({"type": "user", "sessionId": "s"}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_session_is_known_by_its_first_line(head, ours):
    assert detect(head) is ours


@pytest.mark.parametrize(
    "odd",
    [[1], {"type": "message"}, say({"role": "oracle"}), assistant(7), say({"role": "toolResult"})],
)
def test_a_line_of_unknown_shape_says_nothing(odd):
    assert roles(user("a"), odd) == [("human.request", "a")]


def test_a_file_without_a_header_has_no_session():
    assert list(project("/x.jsonl", None).feed(lines(user("a"), user("b")))) == []
