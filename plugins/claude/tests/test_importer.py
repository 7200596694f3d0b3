"""What the importer says of transcripts that are written here in the shapes of Claude Code 2.1."""

from __future__ import annotations

import json
import pickle

import pytest

from yarp.plugin import Call, Issue, Observation, Rejected, Result, Session, SourceItem
from yarp_claude.store import discover, facts

SLUG = "-srv-demo"
AT = "2026-11-30T03:00:{:02}.{:03}Z"


class Store:
    """A `projects` folder; transcripts are written as lists of records."""

    def __init__(self, root):
        self.root = root
        self.sessions = 0

    def write(self, name, *records):
        path = self.root / SLUG / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
        path.write_text("".join(f"{line}\n" for line in lines))

    def said(self, name):
        """The facts of one transcript."""
        return Said(facts(SourceItem("projects", str(self.root), f"{SLUG}/{name}")))


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


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "projects")


def record(kind, number, session="s-1", **more):
    return {
        "parentUuid": f"u-{number - 1}" if number else None,
        "isSidechain": False,
        "type": kind,
        "uuid": f"u-{number}",
        "timestamp": AT.format(number, 0),
        "sessionId": session,
        "cwd": "/srv/demo",
        "version": "2.1.332",
    } | more


def call(number, use_id="toolu_1", name="Bash", value=None, **more):
    block = {"type": "tool_use", "id": use_id, "name": name, "input": value or {"command": "ls"}}
    message = {"id": f"msg_{number}", "role": "assistant", "model": "opus", "content": [block]}
    return record("assistant", number, message=message, **more)


def answer(number, content, use_id="toolu_1", details=None, is_error=False, **more):
    block = {"type": "tool_result", "tool_use_id": use_id, "content": content}
    if is_error:
        block["is_error"] = True
    if details is not None:
        more["toolUseResult"] = details
    return record("user", number, message={"role": "user", "content": [block]}, **more)


def test_a_call_and_its_result_come_with_where_they_stand(store):
    store.write(
        "s-1.jsonl",
        record("user", 0, message={"role": "user", "content": "please"}),
        call(1),
        answer(2, "README.md", details={"stdout": "README.md", "stderr": "", "interrupted": False}),
    )
    said = store.said("s-1.jsonl")
    (made,), (got,) = said.calls, said.results
    assert made == Call(
        ("s-1", "toolu_1"),
        "s-1",
        "Bash",
        {"command": "ls"},
        native_call_id="toolu_1",
        called_at_ms=1796007601000,
        model="opus",
        working_directory="/srv/demo",
        copy_of=("u-1", "toolu_1"),
    )
    assert got.call == made.identity
    assert (got.output_text, got.is_error) == ("README.md", False)
    assert got.output_json == {"toolUseResult": {"stderr": "", "interrupted": False}}
    assert got.returned_at_ms == 1796007602000
    assert said.sessions == [Session("s-1", 1796007600000)]
    asked, answered = said.observations
    assert (asked.target, answered.target) == (made, got)
    assert (asked.native_record_kind, asked.native_branch_id) == ("assistant/tool_use", "u-0/u-1")
    assert (answered.native_record_kind, answered.line_number) == ("user/tool_result", 3)
    assert said.issues == []


def test_parallel_calls_are_paired_by_id_whatever_the_order_of_their_results(store):
    store.write(
        "s-1.jsonl",
        call(1, "toolu_1"),
        call(2, "toolu_2"),
        answer(3, "second", "toolu_2", parentUuid="u-2"),
        answer(4, "first", "toolu_1", parentUuid="u-1"),
    )
    said = store.said("s-1.jsonl")
    assert {got.call[1]: got.output_text for got in said.results} == {
        "toolu_1": "first",
        "toolu_2": "second",
    }


def test_blocks_of_one_record_are_told_apart_by_their_place(store):
    both = call(1, "toolu_1")
    both["message"]["content"] += call(1, "toolu_2")["message"]["content"]
    store.write("s-1.jsonl", both)
    said = store.said("s-1.jsonl")
    assert [seen.content_index for seen in said.observations] == [0, 1]


def test_a_subagent_call_lies_in_its_parents_session_and_names_its_worker(store):
    name = "s-1/subagents/agent-a7.jsonl"
    more = {"isSidechain": True, "agentId": "a7"}
    store.write(name, call(1, **more), answer(2, "found", **more))
    said = store.said(name)
    assert said.calls[0].identity == ("s-1", "toolu_1")
    assert said.calls[0].native_worker_id == "a7"
    assert said.results[0].output_json is None


def test_a_result_whose_call_lies_in_another_file_gets_the_identity_of_that_call(store):
    store.write("s-1/subagents/agent-a7.jsonl", answer(9, "late", sourceToolAssistantUUID="u-1"))
    got = store.said("s-1/subagents/agent-a7.jsonl").results[0]
    assert got.call == ("s-1", "toolu_1")
    assert got.copy_of == ("u-1", "toolu_1")


def test_a_fork_is_counted_where_it_says_that_it_was_made(store):
    store.write(
        "s-2.jsonl", call(1, session="s-2", requestSessionId="s-1"), answer(2, "x", session="s-2")
    )
    said = store.said("s-2.jsonl")
    assert (said.calls[0].identity, said.calls[0].session) == (("s-1", "toolu_1"), "s-1")
    assert said.results[0].call == ("s-1", "toolu_1")
    assert {one.native_id for one in said.sessions} == {"s-1", "s-2"}
    # What the original says of the call counts before what its copy says.
    assert [seen.record_kind for seen in said.observations] == ["projection", "canonical"]
    assert said.observations[0].native_record_kind == "assistant/tool_use"


def test_a_fork_that_does_not_say_shares_a_group_with_the_record_that_it_copies(store):
    store.write("s-1.jsonl", call(1), answer(2, "x"))
    store.write("s-2.jsonl", call(1, session="s-2"), answer(2, "x", session="s-2"))
    first, second = store.said("s-1.jsonl"), store.said("s-2.jsonl")
    assert first.calls[0].identity != second.calls[0].identity
    assert first.calls[0].copy_of == second.calls[0].copy_of == ("u-1", "toolu_1")
    assert first.results[0].copy_of == second.results[0].copy_of == ("u-1", "toolu_1")


def test_sessions_that_share_a_file_keep_their_calls_apart(store):
    store.write(
        "s-1.jsonl",
        call(1),
        call(2, session="s-2"),
        answer(3, "of the second", session="s-2", parentUuid="u-2"),
        answer(4, "of the first", parentUuid="u-1"),
    )
    said = store.said("s-1.jsonl")
    assert {got.call[0]: got.output_text for got in said.results} == {
        "s-2": "of the second",
        "s-1": "of the first",
    }
    assert {one.native_id for one in said.sessions} == {"s-1", "s-2"}


def test_the_session_itself_decides_where_the_chain_is_torn(store):
    store.write(
        "s-1.jsonl", call(1), call(2, session="s-2"), answer(3, "x", session="s-2", parentUuid=None)
    )
    said = store.said("s-1.jsonl")
    assert said.results[0].call == ("s-2", "toolu_1")
    assert said.issues == []


def test_identical_copies_of_a_result_are_equal_and_unequal_ones_stay_apart(store):
    store.write("s-1.jsonl", call(1), answer(2, "a"), answer(3, "a"), answer(4, "b"))
    first, again, other = store.said("s-1.jsonl").results
    assert (first.call, first.output_text) == (again.call, again.output_text)
    assert other.call == first.call
    assert other.output_text == "b"


def progress(number, message, **more):
    data = {"type": "agent_progress", "agentId": "a7", "prompt": "go", "message": message}
    return record("progress", number, data=data, parentToolUseID="toolu_0", **more)


def copied(message):
    return {key: message[key] for key in ("type", "message", "uuid", "timestamp")}


def test_a_copy_in_a_progress_record_is_a_projection_of_the_subagents_call(store):
    more = {"isSidechain": True, "agentId": "a7"}
    asked, answered = call(4, **more), answer(5, "found", **more)
    store.write("s-1/subagents/agent-a7.jsonl", asked, answered)
    store.write("s-1.jsonl", progress(6, copied(asked)), progress(7, copied(answered)))
    own, seen = store.said("s-1/subagents/agent-a7.jsonl"), store.said("s-1.jsonl")
    assert seen.calls[0].identity == own.calls[0].identity
    assert seen.calls[0].copy_of == own.calls[0].copy_of
    assert [one.record_kind for one in seen.observations] == ["projection"]
    assert seen.observations[0].native_record_kind == "progress/assistant/tool_use"
    assert seen.results == []


def test_the_copies_in_progress_records_serve_where_the_subagents_file_is_gone(store):
    store.write("s-1.jsonl", progress(6, copied(call(4))), progress(7, copied(answer(5, "found"))))
    said = store.said("s-1.jsonl")
    assert [one.output_text for one in said.results] == ["found"]
    assert {one.record_kind for one in said.observations} == {"projection"}


def test_progress_of_other_kinds_says_nothing(store):
    data = {"type": "bash_progress", "output": "half", "fullOutput": "half"}
    store.write("s-1.jsonl", record("progress", 1, data=data))
    assert store.said("s-1.jsonl").all == [Session("s-1", 1796007601000)]


DETAILS = {
    "an error's text": ("Error: it failed", "it failed", None),
    "a text of its own": ("Interrupted by the user", "it failed", "Interrupted by the user"),
    "a shell's": (
        {"stdout": "out\n", "stderr": "", "interrupted": True, "backgroundTaskId": "b1"},
        "out",
        {"stderr": "", "interrupted": True, "backgroundTaskId": "b1"},
    ),
    "a file's": (
        {"type": "text", "file": {"filePath": "/a", "content": "x" * 300, "numLines": 1}},
        "     1\u2192" + "x" * 300,
        {"type": "text", "file": {"filePath": "/a", "numLines": 1}},
    ),
    "an edit's": (
        {"filePath": "/a", "oldString": "a", "newString": "b", "structuredPatch": []},
        "The file /a has been updated.",
        {"filePath": "/a", "oldString": "a", "newString": "b", "structuredPatch": []},
    ),
    "a list": (
        [{"type": "text", "text": "out"}, {"type": "image"}],
        "out",
        [{"type": "text"}, {"type": "image"}],
    ),
    "nothing but the text": ({"stdout": "out"}, "out", None),
}


@pytest.mark.parametrize("name", DETAILS)
def test_details_are_kept_without_the_text_that_the_result_has_already(store, name):
    details, text, kept = DETAILS[name]
    store.write("s-1.jsonl", call(1), answer(2, text, details=details))
    got = store.said("s-1.jsonl").results[0]
    assert got.output_text == text
    assert got.output_json == (None if kept is None else {"toolUseResult": kept})


def test_an_image_is_kept_once(store):
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 60},
    }
    details = {"type": "image", "file": {"base64": "iVBOR" * 60, "type": "image/png"}}
    store.write(
        "s-1.jsonl", call(1), answer(2, [{"type": "text", "text": "seen"}, image], details=details)
    )
    got = store.said("s-1.jsonl").results[0]
    assert got.output_text == "seen"
    assert got.output_json == {
        "content": [{"type": "text"}, image],
        "toolUseResult": {"type": "image", "file": {"type": "image/png"}},
    }


def test_details_in_a_record_of_several_results_belong_to_none_and_are_an_issue(store):
    both = answer(3, "a", details={"interrupted": True})
    both["message"]["content"] += answer(3, "b", "toolu_2")["message"]["content"]
    store.write("s-1.jsonl", call(1), call(2, "toolu_2"), both)
    said = store.said("s-1.jsonl")
    assert [got.output_json for got in said.results] == [None, None]
    assert said.codes == ["ambiguous_details"]


def test_a_result_without_content_is_empty_not_unknown(store):
    bare = answer(2, "")
    del bare["message"]["content"][0]["content"]
    store.write("s-1.jsonl", call(1), bare)
    assert store.said("s-1.jsonl").results[0].output_text == ""


def test_searches_that_the_provider_ran_are_calls_with_results_in_the_same_record(store):
    made = call(1, "srvtoolu_1", "web_search", {"query": "x"})
    made["message"]["content"][0]["type"] = "server_tool_use"
    hits = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result"}],
    }
    failed = hits | {
        "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    }
    made["message"]["content"] += [hits, failed]
    store.write("s-1.jsonl", made)
    said = store.said("s-1.jsonl")
    assert [one.tool_name for one in said.calls] == ["web_search"]
    assert [one.output_text for one in said.results] == [None, None]
    assert said.results[1].output_json == {"content": [failed["content"]]}
    assert {one.call for one in said.results} == {said.calls[0].identity}


def saved(path, more="line 1\n..."):
    return (
        f"<persisted-output>\nOutput too large (311.4KB). Full output saved to: {path}\n\n"
        f"Preview (first 2KB):\n{more}\n</persisted-output>"
    )


def persisted(store, session="s-1", name="b1.txt", text="line 1\nline 2\n"):
    path = store.root / SLUG / session / "tool-results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_persisted_output_is_read_from_the_file_that_its_result_names(store):
    path = persisted(store)
    details = {"stdout": "line 1", "persistedOutputPath": path, "persistedOutputSize": 14}
    store.write("s-1.jsonl", call(1), answer(2, saved(path), details=details))
    said = store.said("s-1.jsonl")
    (got,) = said.results
    assert got.output_text == "line 1\nline 2\n"
    assert got.output_json["rendered"] == saved(path)
    assert got.output_json["toolUseResult"]["persistedOutputPath"] == path
    assert said.issues == []


def test_a_subagents_result_names_its_persisted_output_in_the_text_alone(store):
    path = persisted(store)
    store.write("s-1/subagents/agent-a7.jsonl", call(1), answer(2, saved(path)))
    assert store.said("s-1/subagents/agent-a7.jsonl").results[0].output_text == "line 1\nline 2\n"


def test_a_fork_finds_the_persisted_output_of_the_session_that_it_copies(store):
    path = persisted(store, "s-0")
    more = {"session": "s-1"}
    store.write(
        "s-1.jsonl", call(1, requestSessionId="s-0", **more), answer(2, saved(path), **more)
    )
    assert store.said("s-1.jsonl").results[0].output_text == "line 1\nline 2\n"


def test_a_fork_without_a_mark_has_the_result_of_what_it_copies(store):
    path = persisted(store, "s-0")
    details = {"persistedOutputPath": path}
    for session in ("s-0", "s-1"):
        more = {"session": session}
        records = call(1, **more), answer(2, saved(path), details=details, **more)
        store.write(f"{session}.jsonl", *records)
    said = [store.said(f"{session}.jsonl") for session in ("s-0", "s-1")]
    assert [one.codes for one in said] == [[], []]
    one, other = (one.results[0] for one in said)
    assert one.output_text == other.output_text == "line 1\nline 2\n"
    assert one.output_json == other.output_json


def test_a_store_that_was_moved_still_has_its_persisted_outputs(store):
    persisted(store)
    elsewhere = f"/home/other/.claude/projects/{SLUG}/s-1/tool-results/b1.txt"
    store.write("s-1.jsonl", call(1), answer(2, saved(elsewhere)))
    assert store.said("s-1.jsonl").results[0].output_text == "line 1\nline 2\n"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "ROOT/SLUG/s-2/tool-results/b1.txt",
        "ROOT/-srv-other/s-1/tool-results/b1.txt",
        "ROOT/SLUG/s-1/tool-results/../../s-2/tool-results/b1.txt",
        "ROOT/SLUG/s-1/tool-results/..",
        "ROOT/SLUG/s-1/subagents/agent-a7.jsonl",
        "ROOT/SLUG/s-1/tool-results/gone.txt",
        "ROOT/SLUG/s-1/tool-results/link.txt",
        "ROOT/SLUG/s-1/tool-results/binary.txt",
        "ROOT/SLUG/s-1/tool-results/a\0b",
        "ROOT/SLUG/s-1/tool-results/" + "long" * 2000,
    ],
)
def test_no_other_file_is_ever_read_for_a_persisted_output(store, path):
    persisted(store, "s-2", text="planted")
    outside = store.root.parent / "outside.txt"
    outside.write_text("planted")
    inside = store.root / SLUG / "s-1" / "tool-results"
    inside.mkdir(parents=True)
    (inside / "link.txt").symlink_to(outside)
    (inside / "binary.txt").write_bytes(b"planted \xff")
    path = path.replace("ROOT", str(store.root)).replace("SLUG", SLUG)
    store.write("s-1.jsonl", call(1), answer(2, saved(path)))
    said = store.said("s-1.jsonl")
    assert said.results[0].output_text == saved(path)
    assert said.codes == ["persisted_output_unread"]
    assert b"planted" not in pickle.dumps([one.message for one in said.issues])


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "ROOT/-srv-other/s-2/tool-results/b1.txt",
        "ROOT/SLUG/../tool-results/b1.txt",
        "ROOT/SLUG/./tool-results/b1.txt",
        "SLUG/s-2/tool-results",
        "ROOT/SLUG/s-2/subagents/b1.txt",
    ],
)
def test_a_structured_result_names_no_other_file_either(store, path):
    persisted(store, "s-2", text="planted")
    (store.root / SLUG / "tool-results").mkdir()
    (store.root / SLUG / "tool-results" / "b1.txt").write_text("planted")
    path = path.replace("ROOT", str(store.root)).replace("SLUG", SLUG)
    details = {"persistedOutputPath": path}
    store.write("s-1.jsonl", call(1), answer(2, saved(path), details=details))
    said = store.said("s-1.jsonl")
    assert said.results[0].output_text == saved(path)
    assert said.codes == ["persisted_output_unread"]


def test_what_another_tool_prints_about_persisted_outputs_names_nothing(store):
    path = persisted(store)
    store.write("s-1.jsonl", call(1), answer(2, f"cat log:\n{saved(path)}"))
    said = store.said("s-1.jsonl")
    assert said.results[0].output_text == f"cat log:\n{saved(path)}"
    assert said.issues == []


ODD = {
    "no object": [1, 2],
    "no type": {"uuid": "u", "sessionId": "s-1"},
    "a message of another shape": record("assistant", 5, message={"content": 7}),
    "a message that is none": record("user", 5, message="x"),
    "blocks that are none": record("user", 5, message={"content": ["x"]}),
    "a call without a name": call(5, name=""),
    "a call with an id that is no text": call(5, use_id=7),
    "a result with an id that is no text": answer(5, "x", use_id=7),
    "a result with content of another shape": answer(5, {"text": "x"}),
    "a message in a record of an unknown type": record("cron", 5, message={"content": []}),
    "a call in no session": call(5, session=None),
    "a result in no session": answer(5, "x", session=None),
}


@pytest.mark.parametrize("name", ODD)
def test_a_record_of_unknown_shape_is_an_issue_and_its_neighbours_stay(store, name):
    store.write("s-1.jsonl", call(1, "toolu_9"), ODD[name], answer(2, "x", "toolu_9"))
    said = store.said("s-1.jsonl")
    assert said.codes == ["unsupported_record"]
    assert said.issues[0].line_number == 2
    assert [len(said.calls), len(said.results)] == [1, 1]


def test_records_that_hold_no_message_are_passed_over_whatever_their_type(store):
    store.write(
        "s-1.jsonl",
        {"type": "summary", "summary": "x", "leafUuid": "u"},
        {"type": "brand-new", "sessionId": "s-1", "value": 1, "message": "a tip"},
        record("system", 1, subtype="turn_duration"),
    )
    said = store.said("s-1.jsonl")
    assert said.issues == []
    assert said.calls == []


def test_an_ambiguous_id_is_an_issue_and_not_a_guess(store):
    store.write(
        "s-1.jsonl",
        call(1, session="s-1"),
        call(2, session="s-2"),
        call(3, session="s-3", requestSessionId="s-1"),
        call(4, session="s-3", requestSessionId="s-2"),
        answer(5, "x", session="s-3", parentUuid=None),
    )
    said = store.said("s-1.jsonl")
    assert said.codes == ["ambiguous_call_id"]
    assert said.results[0].call not in {one.identity for one in said.calls}


def test_a_persisted_output_that_is_too_large_to_hold_is_an_issue(store, monkeypatch):
    monkeypatch.setattr("yarp_claude.importer.LARGEST_OUTPUT_BYTES", 5)
    path = persisted(store)
    store.write("s-1.jsonl", call(1), answer(2, saved(path)))
    said = store.said("s-1.jsonl")
    assert said.results[0].output_text == saved(path)
    assert said.codes == ["persisted_output_unread"]


def test_a_session_began_with_its_earliest_record_that_tells_a_time(store):
    store.write("s-1.jsonl", call(5), call(3, "toolu_2"), call(4, "toolu_3") | {"timestamp": ""})
    assert store.said("s-1.jsonl").sessions == [Session("s-1", 1796007603000)]


def test_a_file_of_something_else_is_rejected(store):
    store.write("s-1.jsonl", {"event": "x"}, {"type": "other"})
    with pytest.raises(Rejected) as caught:
        store.said("s-1.jsonl")
    assert caught.value.issue.code == "unsupported_claude_source"


def test_an_empty_transcript_says_nothing(store):
    store.write("s-1.jsonl")
    assert store.said("s-1.jsonl").all == []


def test_transcripts_of_sessions_and_subagents_are_found_and_what_tools_wrote_is_not(store):
    for name in (
        "s-1.jsonl",
        "s-1/subagents/agent-a7.jsonl",
        "s-1/subagents/workflows/w-1/agent-b8.jsonl",
        "s-1/tool-results/log.jsonl",
        "memory/notes.jsonl",
        "s-1/subagents/agent-a7.meta.json",
    ):
        store.write(name)
    found = discover({"projects": str(store.root)})
    assert [item.relative_path.removeprefix(f"{SLUG}/") for item in found] == [
        "s-1.jsonl",
        "s-1/subagents/agent-a7.jsonl",
        "s-1/subagents/workflows/w-1/agent-b8.jsonl",
    ]


def test_prompts_prose_reasoning_and_requests_never_leave_the_importer(store):
    planted = "PLANTED"
    silent = {"type": "text", "text": planted}
    store.write(
        "s-1.jsonl",
        record("user", 0, message={"role": "user", "content": planted}),
        record("user", 1, message={"role": "user", "content": [silent]}),
        record(
            "assistant",
            2,
            message={
                "model": "opus",
                "content": [
                    silent,
                    {"type": "thinking", "thinking": planted, "signature": planted},
                    {"type": "redacted_thinking", "data": planted},
                ],
            },
        ),
        record(
            "attachment", 3, attachment={"type": "file", "content": planted}, rendered=[planted]
        ),
        record("system", 4, subtype="local_command", content=planted),
        {"type": "queue-operation", "sessionId": "s-1", "content": planted},
        {"type": "api-request-blob", "sessionId": "s-1", "message": {"content": [silent]}},
        {"type": "api-request", "sessionId": "s-1", "params": planted},
        {"type": "last-prompt", "sessionId": "s-1", "lastPrompt": planted},
        {"type": "brand-new", "sessionId": "s-1", "value": planted},
        record("progress", 5, data={"type": "hook_progress", "promptText": planted}),
        call(6, value={"command": "FOUND IN THE INPUT"}, gitBranch=planted),
        answer(7, "FOUND IN THE RESULT", slug=planted),
    )
    said = pickle.dumps(list(store.said("s-1.jsonl").all))
    assert planted.encode() not in said
    assert b"FOUND IN THE INPUT" in said
    assert b"FOUND IN THE RESULT" in said
