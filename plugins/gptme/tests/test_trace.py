"""What the trace reader says of conversations that are written here in the shapes of gptme."""

from __future__ import annotations

import json

import pytest

from yarp.plugin import Amend, Item, Line, LoopEnd, LoopModel, LoopStart, SessionFact, UsageSample
from yarp_gptme.trace import detect, project, reader

PLACE = "/srv/logs/talk/conversation.jsonl"


def say(role, content, **more):
    # As `datetime.now().isoformat()` writes it: without a zone.
    return {"role": role, "content": content, "timestamp": "2026-11-30T03:05:01.123456"} | more


def assistant(content, *executed, **more):
    told = {"model": "local/mock"} | more
    if executed:
        told["timings"] = {"tool_ms_by_name": dict.fromkeys(executed, 1.0)}
    return say("assistant", content, metadata=told)


def lines(*values):
    for number, value in enumerate(values, 1):
        yield Line(number, number * 100, json.dumps(value).encode(), value)


def told(*values):
    """The facts of a conversation, the session left out."""
    return list(project(PLACE, None).feed(lines(*values)))[1:]


def items(*values):
    """The items as they stand in the end."""
    found = {}
    for fact in told(*values):
        if isinstance(fact, Item):
            found[fact.key] = fact
        elif isinstance(fact, Amend):
            item = found[fact.key]
            item.role, item.call = fact.role or item.role, fact.call or item.call
    return list(found.values())


def end(*values):
    """Line and outcome of the last loop's end."""
    ends = [fact for fact in told(*values) if isinstance(fact, LoopEnd)]
    return (ends[-1].line, ends[-1].outcome) if ends else None


CALL = assistant('I look.\n@shell(call_1): {"command": "ls"}', "shell")
BLOCKS = assistant("So:\n```shell\nls\n```\n```save x\nb\n```\n", "shell", "save")


def test_a_conversation_is_the_folder_that_it_lies_in():
    (session,) = project(PLACE, None).feed(lines(say("system", "")))
    assert session == SessionFact("talk", 1)


def test_a_time_counts_only_with_its_zone():
    zoned = say("system", "", timestamp="2026-11-30T03:05:01+00:00")
    (session,) = project(PLACE, None).feed(lines(zoned))
    assert session == SessionFact("talk", 1, created_at=1796007901000)
    occurred_at = reader().occurred_at
    assert (occurred_at(zoned), occurred_at(say("user", "a"))) == (1796007901000, None)


def test_a_branch_which_copies_a_conversation_is_no_session():
    branch = project("/srv/logs/talk/branches/other.jsonl", None)
    assert list(branch.feed(lines(say("user", "a")))) == []


def test_a_conversation_that_is_moved_goes_on_as_it_was():
    first = project(PLACE, None)
    list(first.feed(lines(say("user", "a"))))
    found = list(project("/srv/kept/talk.jsonl", first.state()).feed(lines(assistant("b"))))
    assert "agent.final_answer" in [one.role for one in found if isinstance(one, Item)]


def test_a_request_its_work_and_its_answer_are_one_loop():
    found = told(
        say("user", "please"),
        CALL,
        say("system", "README.md", call_id="call_1"),
        assistant("One file."),
    )
    assert [(type(one), getattr(one, "role", None)) for one in found] == [
        (LoopStart, None),
        (Item, "human.request"),
        (LoopModel, None),
        (Item, "agent.commentary"),
        (Item, "agent.tool_call"),
        (Item, "tool.output"),
        (Item, "agent.final_answer"),
        (LoopEnd, None),
    ]
    assert found[2] == LoopModel("loop:1", "local/mock")
    assert found[3].text == "I look."
    assert found[4].value == {"tool_name": "shell", "arguments": '{"command": "ls"}'}
    assert (found[5].call, found[5].heuristic, found[5].loop) == ("2.1", False, "loop:1")
    assert found[7] == LoopEnd("loop:1", 4)


def test_results_in_markdown_format_go_by_order_which_is_heuristic():
    found = items(
        say("user", "a"),
        BLOCKS,
        say("system", "one"),
        say("system", "x", hide=True),
        say("system", "y", ui_only=True),
        say("system", "two"),
        assistant("Done."),
    )
    calls = [item.key for item in found if item.role == "agent.tool_call"]
    outputs = [item for item in found if item.role == "tool.output"]
    assert [(item.call, item.text, item.heuristic) for item in outputs] == [
        (calls[0], "one", True),
        (calls[1], "two", True),
    ]
    assert found[2].value["arguments"] == {"command": "ls"}
    assert found[3].value["arguments"] == {"args": "x", "content": "b"}


@pytest.mark.parametrize("results", [["one"], ["a warning", "one", "two"], []])
def test_another_number_of_results_than_of_calls_leaves_in_doubt_whose_they_are(results):
    said = [say("system", one) for one in results]
    found = items(say("user", "a"), BLOCKS, *said, say("user", "b"))
    outputs = [item for item in found if item.role == "tool.output"]
    assert [(item.text, item.call) for item in outputs] == [(one, None) for one in results]


def test_a_result_names_no_call_where_several_have_its_id():
    twice = assistant('@shell(c): {"command": "ls"}\n@shell(c): {"command": "pwd"}', "shell")
    found = items(say("user", "a"), twice, say("system", "x", call_id="c"))
    assert [item.call for item in found if item.role == "tool.output"] == [None]


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [
        (say("system", "Interrupted by user"), "interrupted"),
        (say("system", "Execution declined by user"), "interrupted"),
        (say("system", "LLM request failed: no such model"), "failed"),
        (say("system", "Stopped (5)", metadata={"max_steps_stop": True}), None),
        (assistant("Let me s... ^C Interrupted"), "interrupted"),
        (assistant("Let me s [INTERRUPTED]"), "interrupted"),
    ],
)
def test_a_loop_ends_where_gptme_gives_the_turn_back(stop, outcome):
    before = say("user", "a"), BLOCKS, say("system", "one"), say("system", "two")
    assert end(*before, stop) == (5, outcome)
    found = items(*before, stop, say("user", "b"))
    assert "agent.final_answer" not in [item.role for item in found]
    assert [item.call for item in found if item.role == "tool.output"] == ["2.1", "2.2"]
    assert found[-1].role == "human.request"


def test_what_a_tool_says_of_an_interruption_is_its_output():
    interrupted = say("system", "Interrupted by user", call_id="call_1")
    found = items(say("user", "a"), CALL, interrupted, say("user", "b"))
    assert [item.role for item in found[-2:]] == ["tool.output", "human.steering"]


def test_behind_an_answer_nothing_is_interrupted():
    assert end(say("user", "a"), assistant("b"), say("system", "Interrupted by user")) == (2, None)


def test_the_agent_may_say_by_a_tool_that_it_is_done():
    calls = assistant("```complete\n```", "complete")
    done = say("system", "Task complete. Autonomous session finished.")
    assert end(say("user", "a"), calls, done) == (3, "completed")
    found = items(say("user", "a"), calls, done, say("user", "b"))
    assert [(item.role, item.call) for item in found[-2:]] == [
        ("tool.output", "2.0"),
        ("human.request", None),
    ]
    assert end(say("user", "a"), calls, done, say("user", "<system>Tests fail"), CALL) == (
        None,
        None,
    )


def test_a_model_is_named_as_gptme_does_with_its_effort():
    named = assistant("x", model="openrouter/anthropic/claude-x@y", reasoning_effort="high")
    (model,) = [one for one in told(say("user", "a"), named) if isinstance(one, LoopModel)]
    assert model == LoopModel("loop:1", "openrouter/anthropic/claude-x@y", effort="high")


def test_attached_images_are_told_of():
    found = items(say("user", "see", files=["/srv/a.PNG"]), say("user", "b", files=["/x.txt", 7]))
    assert [item.value["has_images"] for item in found] == [True, False]


def test_what_gptme_says_in_the_persons_name_goes_on_with_the_loop():
    found = told(
        say("user", "a"),
        assistant("Done?"),
        say("user", "<system>No tool call"),
        assistant("Done."),
    )
    assert LoopEnd("loop:1", None) in found
    assert Amend("2.0", role="agent.commentary") in found
    assert sum(isinstance(one, LoopStart) for one in found) == 1
    assert found[-1] == LoopEnd("loop:1", 4)


def test_a_message_of_the_person_while_the_loop_runs_steers_it():
    assert [item.role for item in items(say("user", "a"), CALL, say("user", "b"))][-1] == (
        "human.steering"
    )


@pytest.mark.parametrize(
    ("before", "role"), [([], "runtime.instructions"), ([say("user", "a")], "runtime.notice")]
)
def test_what_gptme_tells_the_model_is_instructions_first_and_notices_then(before, role):
    found = items(*before, say("system", "x", hide=True))
    assert (found[-1].role, found[-1].text) == (role, "x")


def test_only_gptmes_own_words_make_a_failure():
    failed = say("system", "Error during execution: no")
    found = items(say("user", "a"), assistant("```shell\nls\n```", "shell"), failed)
    assert found[-1].value == {"failed": True}
    assert items(say("user", "a"), CALL, say("system", "x", call_id="call_1"))[-1].value == {
        "failed": None
    }


def usage(**metadata):
    found = told(say("user", "a"), assistant("x", **metadata))
    return [one for one in found if isinstance(one, UsageSample)]


def test_tokens_are_counted_by_message():
    assert usage(usage={"input_tokens": 9, "output_tokens": 5}) == [
        UsageSample("loop:1", "2", input=9, output=5)
    ]
    assert usage(cost=1) == usage(usage=7) == []


def test_input_has_what_caches_gave_and_got_which_gptme_takes_out_of_it():
    counts = {
        "input_tokens": 9, "output_tokens": 5, "cache_read_tokens": 80,
        "cache_creation_tokens": 10, "reasoning_tokens": 3,
    }  # fmt: skip
    counted = UsageSample("loop:1", "2", input=99, output=5, cached=80, cache_write=10, reasoning=3)
    assert usage(usage=counts) == [counted]
    # As builds wrote them that had no `usage`.
    assert usage(**counts) == [counted]


WHOLE = [
    say("system", "You are gptme.", hide=True),
    say("user", "a"),
    BLOCKS,
    say("system", "one"),
    say("system", "two"),
    CALL,
    say("system", "out", call_id="call_1"),
    assistant("Done?"),
    say("user", "<system>No tool call"),
    assistant("Done."),
    say("user", "b"),
    BLOCKS,
    say("system", "one"),
    say("system", "Interrupted by user"),
    say("user", "c"),
    BLOCKS,
    say("system", "Interrupted by user"),
    assistant("```complete\n```", "complete"),
    say("system", "Task complete. Autonomous session finished."),
]


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_any_cut_of_a_conversation_gives_the_same_facts(cut):
    whole = list(lines(*WHOLE))
    first = project(PLACE, None)
    found = list(first.feed(whole[:cut]))
    found += project(PLACE, first.state()).feed(whole[cut:])
    assert found == list(project(PLACE, None).feed(whole))


@pytest.mark.parametrize(
    ("head", "ours"),
    [
        (say("system", "x"), True),
        (say("oracle", "x"), False),
        (say(["system"], "x"), False),
        (say("user", ["x"]), False),
        (say("user", "x") | {"type": "user"}, False),
        (say("user", "x") | {"sessionId": "s"}, False),
        ({"role": "user", "content": "x"}, False),
        ([], False),
    ],
)
def test_a_conversation_is_known_by_its_first_line(head, ours):
    assert detect(head) is ours
