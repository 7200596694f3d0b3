"""What the importer says of conversations that are written here in the shapes of gptme 0.35."""

from __future__ import annotations

import json
import pickle

import pytest

from yarp.plugin import Call, Issue, Observation, Rejected, Result, Session, SourceItem
from yarp_gptme.importer import discover, facts

AT = "2026-11-30T03:05:{:02}.636638"


class Store:
    """A `logs` folder; conversations are written as lists of messages, a second apart."""

    def __init__(self, root):
        self.root = root

    def write(self, name, *messages, file="conversation.jsonl"):
        path = self.root / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"timestamp": AT.format(at)} | one if isinstance(one, dict) else one)
            for at, one in enumerate(messages)
        ]
        path.write_text("".join(f"{line}\n" for line in lines))

    def said(self, name="demo", file="conversation.jsonl"):
        """The facts of one conversation."""
        return Said(facts(SourceItem("logs", str(self.root), f"{name}/{file}")))


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
        """What each call was answered."""
        found = {got.call: got.output_text for got in self.results}
        return [(call.tool_name, found.pop(call.identity, None)) for call in self.calls] + [
            (None, text) for text in found.values()
        ]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "logs")


def user(text="please"):
    return {"role": "user", "content": text}


def assistant(text, *executed, **metadata):
    told = {"model": "local/mock"} | metadata
    if executed:
        told["timings"] = {"tool_ms": 1.0, "tool_ms_by_name": dict.fromkeys(executed, 1.0)}
    return {"role": "assistant", "content": text, "metadata": told}


def system(text, call_id=None, **more):
    return {"role": "system", "content": text} | ({"call_id": call_id} if call_id else {}) | more


def fenced(words, text):
    return f"```{words}\n{text}\n```\n"


@pytest.mark.parametrize(
    ("named", "parts"),
    [
        ("openrouter/anthropic/claude-x@y", ("openrouter", "anthropic/claude-x@y")),
        ("bare", (None, "bare")),
        ("", (None, None)),
        (7, (None, None)),
    ],
)
def test_a_model_is_what_stands_behind_its_provider(store, named, parts):
    store.write("demo", user(), assistant(fenced("shell", "ls"), "shell", model=named))
    (made,) = store.said().calls
    assert (made.provider, made.model) == parts


def test_what_is_for_the_screen_alone_answers_no_call(store):
    store.write(
        "demo",
        user(),
        assistant(fenced("shell", "ls"), "shell"),
        system("compacting", ui_only=True),
        system("README.md"),
    )
    (got,) = store.said().results
    assert got.output_text == "README.md"


def test_a_call_in_markdown_format_gets_its_result_by_order_and_says_so(store):
    store.write(
        "demo",
        user(),
        assistant(f"Step.\n\n{fenced('shell', 'ls')}", "shell"),
        system("Ran command: `ls`\n\n`README.md`\n\n"),
    )
    said = store.said()
    (made,), (got,) = said.calls, said.results
    assert (made.tool_name, made.input, made.input_format) == ("shell", "ls", "text")
    assert (made.provider, made.model, made.native_call_id) == ("local", "mock", None)
    assert made.session == "demo"
    assert got.call == made.identity
    assert got.output_text == "Ran command: `ls`\n\n`README.md`\n\n"
    assert got.is_error is None
    assert [seen.native_record_kind for seen in said.observations] == [
        "assistant/markdown",
        "system by order",
    ]
    assert said.sessions == [Session("demo", None)]
    assert said.issues == []


def test_a_call_in_tool_format_is_answered_by_its_id(store):
    store.write(
        "demo",
        assistant('@shell(call_1): {"command": "ls"}\n@read(call_2): {"path": "a {b"}', "shell"),
        system("second", "call_2"),
        system("first", "call_1"),
    )
    said = store.said()
    assert said.pairs == [("shell", "first"), ("read", "second")]
    assert [made.native_call_id for made in said.calls] == ["call_1", "call_2"]
    assert [made.input for made in said.calls] == ['{"command": "ls"}', '{"path": "a {b"}']
    assert said.calls[0].input_format == "json_or_text"
    assert [seen.native_record_kind for seen in said.observations] == [
        *["assistant/tool"] * 2,
        *["system"] * 2,
    ]


def test_a_time_without_an_offset_is_not_guessed(store):
    store.write("demo", assistant(fenced("shell", "ls"), "shell"))
    assert store.said().calls[0].called_at_ms is None


def test_a_time_with_an_offset_is_taken(store):
    made = assistant(fenced("shell", "ls"), "shell") | {"timestamp": "2026-11-30T03:05:01+00:00"}
    store.write("demo", made)
    assert store.said().calls[0].called_at_ms == 1796007901000


def test_several_blocks_and_as_many_results_go_by_order(store):
    store.write(
        "demo",
        assistant(f"{fenced('shell', 'a')}\n{fenced('save x.py', 'b')}", "shell", "save"),
        system("one"),
        system("a warning", hide=True),
        system("two"),
        assistant("done"),
    )
    said = store.said()
    assert said.pairs == [("shell", "one"), ("save", "two")]
    assert said.calls[1].input == {"args": "x.py", "content": "b"}


@pytest.mark.parametrize("results", [["one"], ["one", "two", "three"]])
def test_where_order_leaves_a_doubt_there_is_an_issue_and_no_result(store, results):
    store.write(
        "demo",
        assistant(f"{fenced('shell', 'a')}\n{fenced('shell', 'b')}", "shell"),
        *map(system, results),
        assistant(fenced("shell", "c"), "shell"),
        system("of c"),
    )
    said = store.said()
    assert said.pairs == [("shell", None), ("shell", None), ("shell", "of c")]
    assert said.codes == ["ambiguous_result"]


def test_news_of_a_job_in_the_background_answers_no_call(store):
    store.write(
        "demo",
        assistant(fenced("shell", "wait 1"), "shell"),
        system("Background shell job #1 finished (exit code 3): `x`"),
        system("**Job #1** - Finished"),
    )
    assert store.said().pairs == [("shell", "**Job #1** - Finished")]


def test_a_person_who_speaks_ends_the_waiting(store):
    store.write("demo", assistant(fenced("shell", "a"), "shell"), user(), system("later"))
    assert store.said().pairs == [("shell", None)]


def test_a_block_that_gptme_did_not_execute_is_no_call(store):
    store.write(
        "demo",
        assistant(f"Such as {fenced('save x', 'b')}\n{fenced('python', 'c')}", "shell"),
        assistant(fenced("shell", "a"), "shell"),
        assistant(fenced("no_such_tool", "x")),
        assistant(fenced("shell", "not run")),
    )
    said = store.said()
    assert [made.input for made in said.calls] == ["a"]
    # The first one says that a shell ran, and shows none.
    assert said.codes == ["ambiguous_call"]


def test_without_word_of_what_was_executed_a_block_of_a_tool_is_a_call(store):
    store.write("demo", assistant(fenced("shell", "a")), system("out"))
    assert store.said().pairs == [("shell", "out")]


def test_what_looks_like_a_call_in_tool_format_is_one_only_where_results_name_calls(store):
    store.write("demo", assistant('@shell(call_1): {"command": "ls"}'), system("x"))
    assert store.said().calls == []


def test_what_looks_like_a_call_inside_a_block_is_an_example(store):
    text = fenced("text", '@shell(call_1): {"command": "example"}') + '@shell(call_2): {"a": 1}'
    store.write("demo", assistant(text), system("x", "call_2"))
    assert [made.native_call_id for made in store.said().calls] == ["call_2"]


def test_arguments_that_do_not_end_are_no_call(store):
    store.write(
        "demo",
        assistant('@shell(call_1): {"command": "\\"}{"}'),
        assistant('@shell(call_2): {"command": 5'),
        system("x", "call_1"),
    )
    assert store.said().pairs == [("shell", "x")]


def test_an_id_that_comes_again_belongs_to_the_call_that_has_no_result_yet(store):
    made = assistant('@shell(call_1): {"command": "ls"}')
    store.write("demo", made, system("one", "call_1"), made, system("two", "call_1"))
    assert store.said().pairs == [("shell", "one"), ("shell", "two")]


def test_a_result_of_two_open_calls_is_an_issue_and_stays_unmatched(store):
    made = assistant('@shell(call_1): {"command": "ls"}')
    store.write("demo", made, made, system("one", "call_1"))
    said = store.said()
    assert said.pairs == [("shell", None), ("shell", None), (None, "one")]
    assert said.codes == ["ambiguous_call_id"]


@pytest.mark.parametrize(
    ("text", "call_id"),
    [
        ("Error during execution: no such file", None),
        ("Tool 'x' is not available for execution.", "call_1"),
    ],
)
def test_gptmes_own_words_for_a_failure_are_an_error(store, text, call_id):
    store.write(
        "demo",
        assistant(fenced("shell", "a") if call_id is None else '@x(call_1): {"a": 1}'),
        system(text, call_id),
    )
    assert store.said().results[0].is_error is True


FENCES = {
    "one in another": "````save x.md\n```shell\nls\n```\n````\n",
    "a tagged one in one of a text": "```save x.md\n# x\n```python\n1\n```\n\n```\n",
    "a shell's, with text behind": "```shell\nls\n```\nand then\n",
    "one behind a block of no tool": "```shell\nls\n```\n```\nx\n```\nand\n```json\n1\n```\n",
}


@pytest.mark.parametrize("name", FENCES)
def test_fences_that_say_what_ends_where_are_read(store, name):
    tool = FENCES[name].lstrip("`").split()[0]
    store.write("demo", assistant(FENCES[name], tool), system("done"))
    said = store.said()
    assert said.pairs == [(tool, "done")]
    assert said.issues == []


DOUBTS = {
    "a block that does not end": "```save x\nb\n",
    "a bare fence in a text": "```save x.md\nb\n```\ncode\n```\n",
}


@pytest.mark.parametrize("executed", [[], ["save"]])
@pytest.mark.parametrize("name", DOUBTS)
def test_fences_that_leave_a_doubt_are_an_issue_and_no_call(store, name, executed):
    store.write("demo", assistant(DOUBTS[name], *executed), system("done"))
    said = store.said()
    assert (said.calls, said.codes) == ([], ["ambiguous_call"])


def test_fences_of_prose_are_no_matter(store):
    store.write("demo", assistant("so:\n```python\nx\n```\nmore ```\n```\n"), assistant("```"))
    assert store.said().issues == []


def test_calls_in_xml_are_an_issue_and_not_a_guess(store):
    text = "<tool-use>\n<shell>ls</shell>\n</tool-use>"
    store.write("demo", assistant(text, "shell"), system("done"))
    said = store.said()
    assert (said.calls, said.results, said.codes) == ([], [], ["ambiguous_call"])


def test_a_fork_and_a_branch_copy_messages_and_so_give_the_same_identities(store):
    made = [user(), assistant(fenced("shell", "ls"), "shell"), system("out")]
    store.write("demo", *made)
    store.write("fork", *made)
    store.write("demo", *made, file="branches/other.jsonl")
    own = store.said()
    for copy in (store.said("fork"), store.said("demo", "branches/other.jsonl")):
        assert copy.calls[0].identity == own.calls[0].identity
        assert copy.results == own.results
    assert store.said("demo", "branches/other.jsonl").sessions == [Session("demo", None)]


def test_a_line_of_unknown_shape_is_an_issue_and_its_neighbours_stay(store):
    odd = [[1], {"role": "oracle", "content": "x"}, {"role": "assistant", "content": ["x"]}]
    store.write("demo", *odd, assistant(fenced("shell", "ls"), "shell"), system("out"))
    said = store.said()
    assert said.codes == ["unsupported_record"] * 3
    assert said.pairs == [("shell", "out")]


def test_a_file_of_something_else_is_rejected(store):
    store.write("demo", {"event": "x"})
    with pytest.raises(Rejected) as caught:
        store.said()
    assert caught.value.issue.code == "unsupported_gptme_source"


def test_an_empty_conversation_says_nothing(store):
    store.write("demo")
    assert store.said().all == []


def test_conversations_and_branches_are_found_and_copies_of_them_are_not(store, tmp_path):
    for file in (
        "conversation.jsonl",
        "branches/other.jsonl",
        "branches/other/events.jsonl",
        "events.jsonl",
        "context-savings.jsonl",
        "tool-outputs/shell/conversation.jsonl",
    ):
        store.write("demo", file=file)
    (store.root / "demo" / "workspace").symlink_to(tmp_path)
    found = list(discover({"logs": str(store.root)}))
    assert [item.relative_path for item in found] == [
        "demo/conversation.jsonl",
        "demo/branches/other.jsonl",
    ]


def test_a_root_that_is_one_conversation_gives_it_its_own_name(store):
    store.write("demo", assistant(fenced("shell", "ls"), "shell"))
    (item,) = discover({"logs": str(store.root / "demo")})
    assert Said(facts(item)).calls[0].session == "demo"


def test_prompts_prose_and_what_gptme_adds_never_leave_the_importer(store):
    planted = "PLANTED"
    store.write(
        "demo",
        system(planted, hide=True),
        system(planted),
        user(planted),
        assistant(f"{planted}\n{fenced('shell', 'FOUND IN THE INPUT')}{planted}", "shell"),
        system(planted, hide=True),
        system("FOUND IN THE RESULT"),
        user(planted),
        system(planted),
        assistant(f"<thinking>{planted}</thinking>{fenced('text', planted)}", note=planted),
    )
    said = pickle.dumps(store.said().all)
    assert planted.encode() not in said
    assert b"FOUND IN THE INPUT" in said
    assert b"FOUND IN THE RESULT" in said


def test_conversations_whose_names_are_no_text_are_apart(store):
    names = ["a\udcff", "a\\xff"]
    for name in names:
        store.write(name, {"role": "user", "content": "hi"})
    sessions = [store.said(name).sessions[0].native_id for name in names]
    assert sessions == ["a\\xff", "a\\\\xff"]
