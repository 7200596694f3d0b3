"""What the importer says of sessions that are written here in the shapes of Pi 0.73 and 1.6."""

from __future__ import annotations

import json
import pickle

import pytest

from yarp.plugin import Call, Issue, Observation, Rejected, Result, Session, SourceItem
from yarp_pi.importer import facts

FOLDER = "--srv-demo--"
AT = "2026-11-29T21:08:{:02}.{:03}Z"
MS = 1795986480000


class Store:
    """A `sessions` folder; sessions are written as lists of entries."""

    def __init__(self, root):
        self.root = root

    def write(self, name, *entries):
        path = self.root / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [one if isinstance(one, str) else json.dumps(one) for one in entries]
        path.write_text("".join(f"{line}\n" for line in lines))

    def said(self, name="a.jsonl"):
        """The facts of one session."""
        return Said(facts(SourceItem("sessions", str(self.root), f"{FOLDER}/{name}")))


class Said:
    def __init__(self, found):
        self.all = list(found)
        self.calls, self.results, self.observations, self.issues, self.sessions = (
            [one for one in self.all if isinstance(one, kind)]
            for kind in (Call, Result, Observation, Issue, Session)
        )

    @property
    def codes(self):
        return [issue.code for issue in self.issues]

    @property
    def pairs(self):
        """The texts of the results by the time of their call's entry, in seconds."""
        at = {call.identity: (call.called_at_ms - MS) // 1000 for call in self.calls}
        return {at.get(got.call): got.output_text for got in self.results}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "sessions")


def header(session="s-1", version=3, **more):
    head = {"type": "session", "id": session, "timestamp": AT.format(0, 0), "cwd": "/srv/demo"}
    return head | ({} if version is None else {"version": version}) | more


def entry(number, above, message, kind="message"):
    """An entry with the id `e-NUMBER` below the one of number `above`."""
    parent = None if above is None else f"e-{above}"
    placed = {"id": f"e-{number}", "parentId": parent, "timestamp": AT.format(number, 0)}
    return {"type": kind} | placed | ({"message": message} if kind == "message" else message)


def use(use_id="call_1", name="bash", **arguments):
    return {"type": "toolCall", "id": use_id, "name": name, "arguments": arguments}


def said_by_model(*blocks, **more):
    told = {"provider": "mock", "model": "mock-model", "stopReason": "toolUse"}
    return {"role": "assistant", "content": list(blocks)} | told | more


def answer(text, use_id="call_1", **more):
    content = [{"type": "text", "text": text}] if isinstance(text, str) else text
    base = {"role": "toolResult", "toolCallId": use_id, "toolName": "bash"}
    return base | {"content": content, "isError": False} | more


def test_a_call_and_its_result_come_with_where_they_stand(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, {"role": "user", "content": "please"}),
        entry(2, 1, said_by_model({"type": "text", "text": "so"}, use(command="ls"))),
        entry(3, 2, answer("README.md", details={}, durationMs=6, timestamp=MS + 2950)),
    )
    said = store.said()
    (made,), (got,) = said.calls, said.results
    assert made.identity[:4] == ("call_1", "e-2", AT.format(2, 0), 1)
    assert len(made.identity[4]) == 32
    assert made.session == "s-1"
    assert (made.tool_name, made.input) == ("bash", {"command": "ls"})
    assert (made.provider, made.model) == ("mock", "mock-model")
    assert (made.called_at_ms, made.working_directory) == (MS + 2000, "/srv/demo")
    assert made.copy_of is None
    assert got == Result(
        made.identity, "README.md", {"durationMs": 6}, is_error=False, returned_at_ms=MS + 3000
    )
    assert said.sessions == [Session("s-1", MS)]
    asked, answered = said.observations
    assert (asked.target, answered.target) == (made, got)
    assert (asked.native_branch_id, asked.content_index, asked.line_number) == ("e-1/e-2", 1, 3)
    assert (answered.native_branch_id, answered.native_record_kind) == ("e-2/e-3", "toolResult")
    assert said.issues == []


def test_parallel_results_are_chained_one_to_the_next(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use("call_1"), use("call_2"))),
        entry(2, 1, answer("first", "call_1")),
        entry(3, 2, answer("second", "call_2")),
    )
    said = store.said()
    assert [got.call[0] for got in said.results] == ["call_1", "call_2"]
    assert [got.call for got in said.results] == [made.identity for made in said.calls]


def test_a_reused_id_belongs_to_the_call_above_in_its_branch(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use())),
        entry(2, 1, answer("first")),
        entry(3, 2, said_by_model(use())),
        entry(4, 3, answer("second")),
        entry(5, 1, said_by_model(use())),
        entry(6, 5, answer("in another branch")),
        entry(7, 1, answer("first, in another branch")),
    )
    said = store.said()
    found = {}
    for got in said.results:
        found.setdefault(got.call[1], []).append(got.output_text)
    assert found == {
        "e-1": ["first", "first, in another branch"],
        "e-3": ["second"],
        "e-5": ["in another branch"],
    }
    assert said.issues == []


def test_a_fork_copies_entries_and_so_gives_the_same_identities_in_another_session(store):
    made = [entry(1, None, said_by_model(use())), entry(2, 1, answer("x"))]
    store.write("a.jsonl", header(), *made)
    store.write("b.jsonl", header("s-2", parentSession="/x/a.jsonl"), *made)
    first, second = store.said("a.jsonl"), store.said("b.jsonl")
    assert first.calls[0].identity == second.calls[0].identity
    assert first.results[0] == second.results[0]
    assert [one.native_id for one in second.sessions] == ["s-2"]


def test_the_same_ids_at_another_time_are_another_call(store):
    later = entry(1, None, said_by_model(use())) | {"timestamp": AT.format(30, 0)}
    store.write("a.jsonl", header(), entry(1, None, said_by_model(use())))
    store.write("b.jsonl", header("s-2"), later)
    assert store.said("a.jsonl").calls[0].identity != store.said("b.jsonl").calls[0].identity


def test_an_aborted_message_leaves_a_call_without_a_result(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use(), stopReason="aborted", errorMessage="aborted")),
        entry(2, 1, {"role": "user", "content": "again"}),
    )
    said = store.said()
    assert (len(said.calls), said.results, said.issues) == (1, [], [])


def test_version_2_differs_in_the_name_of_one_role(store):
    store.write(
        "a.jsonl",
        header(version=2),
        entry(1, None, {"role": "hookMessage", "customType": "x", "content": "x"}),
        entry(2, 1, said_by_model(use())),
        entry(3, 2, answer("x")),
    )
    said = store.said()
    assert said.results[0].call == said.calls[0].identity
    assert said.calls[0].identity[1] == "e-2"
    assert said.issues == []


def without_ids(*entries):
    return [
        {key: value for key, value in one.items() if key not in ("id", "parentId")}
        for one in entries
    ]


@pytest.mark.parametrize("version", [None, 1])
def test_version_1_has_places_for_ids_and_the_observation_says_so(store, version):
    store.write(
        "a.jsonl",
        header(version=version, provider="mock", modelId="m"),
        *without_ids(
            entry(1, None, said_by_model(use())),
            entry(2, 1, answer("first")),
            entry(3, 2, said_by_model(use())),
            entry(4, 3, answer("second")),
        ),
    )
    said = store.said()
    offsets = [one.byte_offset for one in said.observations if isinstance(one.target, Call)]
    assert [made.identity[:3] for made in said.calls] == [("call_1", "s-1", at) for at in offsets]
    assert said.pairs == {1: "first", 3: "second"}
    assert [one.native_record_kind for one in said.observations][:2] == [
        "assistant/toolCall identified by byte offset",
        "toolResult identified by byte offset",
    ]
    assert said.observations[0].native_branch_id is None


@pytest.mark.parametrize(
    "head",
    [
        header(version=4),
        header(version="3"),
        header(version=True),
        header(session=""),
        {"type": "message", "id": "e-1"},
        [1],
    ],
)
def test_a_session_of_unknown_version_or_without_a_header_is_rejected(store, head):
    store.write("a.jsonl", head, entry(1, None, said_by_model(use())))
    with pytest.raises(Rejected) as caught:
        store.said()
    assert caught.value.issue.code == "unsupported_pi_source"


def test_an_empty_session_says_nothing(store):
    store.write("a.jsonl")
    assert store.said().all == []


TRUNCATION = {"content": "28001\n" * 60, "truncated": True, "totalLines": 30000}


def test_details_are_kept_without_the_text_that_was_shown(store):
    shown = (
        "28001\n" * 60 + "\n[Showing lines 28001-30000 of 30000. Full output: /tmp/pi-bash-1.log]"
    )
    details = {"truncation": TRUNCATION, "fullOutputPath": "/tmp/pi-bash-1.log"}
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use())),
        entry(2, 1, answer(shown, details=details)),
    )
    got = store.said().results[0]
    assert got.output_text == shown
    assert got.output_json == {
        "details": {
            "truncation": {"truncated": True, "totalLines": 30000},
            "fullOutputPath": "/tmp/pi-bash-1.log",
        }
    }


def test_texts_are_joined_and_images_kept_beside_them(store):
    image = {"type": "image", "data": "iVBOR", "mimeType": "image/png"}
    blocks = [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]
    store.write(
        "a.jsonl", header(), entry(1, None, said_by_model(use())), entry(2, 1, answer(blocks))
    )
    got = store.said().results[0]
    assert got.output_text == "a\nb"
    assert got.output_json == {"content": [{"type": "text"}, image, {"type": "text"}]}


def test_calls_inside_a_script_stay_details_of_its_own_call(store):
    nested = {
        "calls": [
            {"id": "call_1/1", "name": "bash", "arguments": {"command": "ls"}, "status": "ok"}
        ],
        "complete": True,
    }
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use(name="codemode"))),
        entry(2, 1, answer("Script completed", nestedCalls=nested)),
    )
    said = store.said()
    assert [made.tool_name for made in said.calls] == ["codemode"]
    assert said.results[0].output_json == {"nestedCalls": nested}


def test_compactions_and_summaries_make_no_calls(store):
    made = said_by_model(use("call_9"))
    store.write(
        "a.jsonl",
        header(),
        entry(
            1,
            None,
            {"summary": "x", "details": {"messages": [made]}, "systemMessage": made},
            "compaction",
        ),
        entry(2, 1, {"summary": "x", "fromId": "e-1"}, "branch_summary"),
        entry(3, 2, {"customType": "x", "content": [use("call_9")]}, "custom_message"),
        entry(4, 3, {"targetId": "e-1", "replacement": [use("call_9")]}, "context_edit"),
        entry(5, 4, {"role": "user", "content": [use("call_9")]}),
    )
    said = store.said()
    assert said.all == [Session("s-1", MS)]


def test_what_the_person_ran_with_an_exclamation_mark_is_no_tool_call(store):
    ran = {"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 0}
    store.write("a.jsonl", header(), entry(1, None, ran))
    assert store.said().all == [Session("s-1", MS)]


def test_a_result_without_a_call_stays_and_meets_no_other(store):
    store.write("a.jsonl", header(), entry(1, None, answer("x")), entry(2, 1, answer("x")))
    said = store.said()
    assert len({got.call for got in said.results}) == 2
    assert said.codes == []


def test_a_result_in_no_branch_of_its_calls_is_an_issue_and_not_a_guess(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use())),
        entry(2, 1, said_by_model(use())),
        entry(3, None, answer("x")),
    )
    said = store.said()
    assert said.codes == ["ambiguous_call_id"]
    assert said.results[0].call not in {made.identity for made in said.calls}


def test_a_torn_branch_leaves_a_result_to_the_one_call_that_has_none(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use("call_1"), use("call_2"))),
        '{"type":"message","id":"e-2","parentId":"e-1","mess',
        entry(3, 2, answer("second", "call_2")),
    )
    said = store.said()
    assert said.results[0].call == said.calls[1].identity


def test_a_torn_branch_never_gives_a_second_result_to_an_answered_call(store):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use())),
        entry(2, 1, answer("first")),
        '{"type":"message","id":"e-3","parentId":"e-2","mess',
        entry(4, 3, answer("of a call that is lost")),
    )
    said = store.said()
    assert said.pairs == {1: "first", None: "of a call that is lost"}
    assert said.codes == ["ambiguous_call_id"]


def test_entries_that_go_round_in_a_ring_end(store):
    ring = entry(2, 3, {"role": "user", "content": "x"})
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use())),
        ring,
        entry(3, 2, {"role": "user", "content": "x"}),
        entry(4, 3, answer("x")),
        entry(5, None, said_by_model(use())),
    )
    assert len(store.said().results) == 1


ODD = {
    "no object": [1, 2],
    "no type": {"id": "e-9"},
    "a role that is not known": entry(9, 1, {"role": "oracle", "content": "x"}),
    "a role that is no text": entry(9, 1, {"role": ["user"], "content": "x"}),
    "a message that is none": entry(9, 1, "x"),
    "no id": {"type": "message", "message": answer("x")},
    "a message in an entry of an unknown type": {"type": "new", "id": "e-9", "message": {}},
    "a second header": header("s-2"),
    "a call without an id": entry(9, 1, said_by_model(use(use_id=""))),
    "a call whose name is no text": entry(9, 1, said_by_model(use(name=7))),
    "content of another shape": entry(9, 1, said_by_model() | {"content": 7}),
    "a result without an id": entry(9, 1, answer("x", use_id=None)),
    "a result with content of another shape": entry(9, 1, answer({"text": "x"}, "call_1")),
    "a result whose verdict is no boolean": entry(9, 1, answer("x", isError="no")),
}


@pytest.mark.parametrize("name", ODD)
def test_an_entry_of_unknown_shape_is_an_issue_and_its_neighbours_stay(store, name):
    store.write(
        "a.jsonl",
        header(),
        entry(1, None, said_by_model(use())),
        ODD[name],
        entry(2, 1, answer("x")),
    )
    said = store.said()
    assert said.codes == ["unsupported_record"]
    assert said.issues[0].line_number == 3
    assert said.pairs == {1: "x"}


def test_an_entry_of_a_new_type_without_a_message_is_passed_over(store):
    store.write("a.jsonl", header(), {"type": "brand_new", "id": "e-9", "message": "a tip"})
    assert store.said().issues == []


def test_prompts_prose_and_reasoning_never_leave_the_importer(store):
    planted = "PLANTED"
    silent = {"type": "text", "text": planted}
    store.write(
        "a.jsonl",
        header(parentSession=planted),
        entry(1, None, {"role": "system", "content": planted, "sections": {"x": planted}}),
        entry(2, 1, {"role": "user", "content": [silent]}),
        entry(
            3,
            2,
            said_by_model(
                silent,
                {"type": "thinking", "thinking": planted, "thinkingSignature": planted},
                use(command="FOUND IN THE INPUT"),
                errorMessage=planted,
            ),
        ),
        entry(4, 3, answer("FOUND IN THE RESULT", details={"x": "FOUND IN DETAILS"})),
        entry(5, 4, {"role": "bashExecution", "command": planted, "output": planted}),
        entry(6, 5, {"summary": planted, "systemMessage": {"content": planted}}, "compaction"),
        entry(7, 6, {"customType": "x", "data": planted}, "custom"),
        entry(8, 7, {"customType": "x", "content": planted}, "custom_message"),
        entry(9, 8, {"name": planted}, "session_info"),
        entry(10, 9, {"label": planted}, "label"),
        entry(11, 10, {"value": planted}, "brand_new"),
    )
    said = pickle.dumps(store.said().all)
    assert planted.encode() not in said
    for found in (b"FOUND IN THE INPUT", b"FOUND IN THE RESULT", b"FOUND IN DETAILS"):
        assert found in said
