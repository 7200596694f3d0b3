"""What the trace reader says of transcripts that are written here in the shapes of Cursor."""

from __future__ import annotations

import time
from importlib import util
from pathlib import Path

import orjson
import pytest

from yarp.index.examples import EXAMPLES
from yarp.index.query import run
from yarp.index.sync import sync
from yarp.plugin import Amend, Item, Link, LoopEnd, LoopStart, SessionFact
from yarp_cursor import injected
from yarp_cursor.trace import detect, project, reader

_spec = util.spec_from_file_location(
    "yarp_cursor_transcripts", Path(__file__).with_name("transcripts.py")
)
made = util.module_from_spec(_spec)
_spec.loader.exec_module(made)
ended, failed, lines, query, said, text, use, user = (
    made.ended, made.failed, made.lines, made.query, made.said, made.text, made.use, made.user,
)  # fmt: skip

FOLDER = "/srv/.cursor/projects/demo/agent-transcripts"
PLACE = f"{FOLDER}/s-1/s-1.jsonl"
CHILD = f"{FOLDER}/s-1/subagents/c-1.jsonl"


def told(*values, place=PLACE):
    """The facts of a transcript, the session left out."""
    return list(project(place, None).feed(lines(*values)))[1:]


def items(*values, place=PLACE):
    """The items as they stand in the end."""
    found = {}
    for fact in told(*values, place=place):
        if isinstance(fact, Item):
            found[fact.key] = fact
        elif isinstance(fact, Amend):
            item = found[fact.key]
            item.role = fact.role or item.role
            item.heuristic = item.heuristic if fact.heuristic is None else fact.heuristic
    return list(found.values())


def roles(*values, place=PLACE):
    return [item.role for item in items(*values, place=place)]


def ends(*values):
    """Of each loop its line, and line and outcome of its end."""
    found = {}
    for fact in told(*values):
        if isinstance(fact, LoopStart):
            found[fact.key] = (None, None)
        elif isinstance(fact, LoopEnd):
            found[fact.key] = (fact.line, fact.outcome)
    return [(int(key.removeprefix("loop:")), *end) for key, end in found.items()]


# Whose transcript it is


@pytest.mark.parametrize(
    ("place", "session", "parent"),
    [
        (PLACE, "s-1", None),
        (PLACE + ".zst", "s-1", None),
        ("/elsewhere/s-1/s-1.jsonl", "s-1", None),
        (f"{FOLDER}/s-1.jsonl", "s-1", None),
        (f"{FOLDER}/s-1/transcript.jsonl", "s-1", None),
        (CHILD, "c-1", "s-1"),
    ],
)
def test_whose_a_transcript_is_its_place_says(place, session, parent):
    (fact, *_) = project(place, None).feed(lines({"x": 1}, query("a")))
    link = None if parent is None else Link(2, native_id=parent)
    assert fact == SessionFact(session, 2, delegated_from=link)


@pytest.mark.parametrize(
    "place", ["/x/s-1.jsonl", f"{FOLDER}/s-1/other.jsonl", "/s-1.jsonl", "/x/s-1/s-1.json"]
)
def test_a_file_in_another_place_confirms_no_session(place):
    assert list(project(place, None).feed(lines(query("a"), said("b")))) == []


def test_a_transcript_that_is_moved_goes_on_as_it_was():
    first = project(PLACE, None)
    list(first.feed(lines(query("a"))))
    (fact,) = project("/x/renamed.jsonl", first.state()).feed(lines(said(use())))
    assert (fact.role, fact.loop) == ("agent.tool_call", "loop:1")


@pytest.mark.parametrize(
    ("head", "ours"),
    [
        (query("a"), True),
        (said("a"), True),
        ({"role": "user", "message": {"content": "a"}}, True),
        (query("a") | {"timestamp": "2026-11-30T03:05:01Z"}, True),
        (query("a") | {"type": "user"}, False),
        (query("a") | {"sessionId": "s"}, False),
        (query("a") | {"content": "a"}, False),
        ({"role": "tool", "message": {"content": []}}, False),
        ({"role": ["user"], "message": {"content": []}}, False),
        ({"role": "user", "message": {"content": 7}}, False),
        ({"role": "user", "message": "a"}, False),
        ({"role": "user", "content": "a", "timestamp": "2026-11-30T03:05:01Z"}, False),
        (ended(), False),
        (failed(), False),
        ([query("a")], False),
        (None, False),
    ],
)
def test_a_transcript_is_known_by_its_first_line(head, ours):
    assert detect(head) is ours


# Loops


def test_a_request_its_work_and_its_answer_are_one_loop():
    found = told(query("please"), said("I look.", use()), said("One file."), ended())
    loop = "loop:1"
    assert found == [
        LoopStart(loop, 1),
        Item(
            "1.0", "human.request", 1, loop=loop, text="please",
            value={"has_images": False}, heuristic=True,
        ),
        Item(
            "2.0", "agent.final_answer", 2, loop=loop, text="I look.",
            value={"has_images": False}, heuristic=True,
        ),
        Amend("2.0", role="agent.commentary", heuristic=False),
        Item(
            "2.1", "agent.tool_call", 2, loop=loop,
            value={
                "tool_name": "Shell", "arguments": {"command": "ls"}, "working_directory": None,
            },
        ),
        Item(
            "3.0", "agent.final_answer", 3, loop=loop, text="One file.",
            value={"has_images": False}, heuristic=True,
        ),
        Amend("3.0", role="agent.final_answer", line=4, heuristic=False),
        LoopEnd(loop, 4, "completed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "outcome", "role"),
    [
        ("success", "completed", "agent.final_answer"),
        ("aborted", "interrupted", "agent.commentary"),
        ("error", "failed", "agent.commentary"),
        ("of the next build", None, "agent.commentary"),
        (None, None, "agent.commentary"),
    ],
)
def test_a_turn_ends_as_cursor_says(status, outcome, role):
    talk = [query("a"), said("b"), ended(status), query("c"), said("d"), ended(status)]
    assert ends(*talk) == [(1, 3, outcome), (4, 6, outcome)]
    assert roles(*talk) == ["human.request", role] * 2


def test_an_error_is_a_notice_and_the_end_of_its_turn():
    assert ends(query("a"), failed()) == [(1, 2, "failed")]
    assert [(one.role, one.text, one.loop) for one in items(query("a"), failed("No"))[1:]] == [
        ("runtime.notice", "No", "loop:1")
    ]
    talk = [query("a"), said(use()), ended("error", error="Connection lost")]
    assert (items(*talk)[-1].text, ends(*talk)) == ("Connection lost", [(1, 3, "failed")])


def test_what_the_agent_does_behind_an_error_goes_on_with_its_turn():
    talk = [query("a"), failed(), said("b"), ended()]
    assert ends(*talk) == [(1, 4, "completed")]
    assert {item.loop for item in items(*talk)} == {"loop:1"}
    assert ends(query("a"), failed(), ended("error")) == [(1, 3, "failed")]
    assert ends(query("a"), failed(), query("b")) == [(1, 2, "failed"), (3, None, None)]


def test_what_a_person_says_before_the_turn_has_ended_steers_it():
    assert roles(query("a"), said(use()), query("b"), said("c"), ended())[2] == "human.steering"
    # Where ends are told, a text is none.
    talk = [query("a"), said("b"), ended(), query("c"), said("d"), query("e")]
    assert roles(*talk)[-2:] == ["agent.commentary", "human.steering"]


def test_without_ends_the_next_request_closes_what_was_answered():
    talk = [query("a"), said("b"), query("c"), said("d")]
    assert ends(*talk) == [(1, 3, None), (3, None, None)]
    assert [(one.role, one.heuristic) for one in items(*talk)] == [
        ("human.request", True),
        ("agent.final_answer", True),
    ] * 2


def test_work_behind_the_end_is_a_loop_of_its_own():
    talk = [query("a"), said("b"), ended(), said(use()), said("c"), ended("aborted")]
    assert ends(*talk) == [(1, 3, "completed"), (4, 6, "interrupted")]
    assert ends(said("a"), ended()) == [(1, 2, "completed")]


def test_an_end_of_nothing_and_an_empty_message_begin_nothing():
    empty = {"role": "assistant", "message": {"content": []}}
    assert ends(ended(), ended("error", error="x"), empty) == []
    assert ends(query("a"), ended(), ended("aborted"), empty) == [(1, 2, "completed")]


# What was said and called


def test_reasoning_that_is_not_shown_is_told_of_and_left_out_of_the_text():
    found = items(query("a"), said("[REDACTED]"), said("b\n\n[REDACTED]\n"), ended())
    assert [(one.role, one.text) for one in found[1:]] == [
        ("agent.reasoning", None),
        ("agent.reasoning", None),
        ("agent.final_answer", "b"),
    ]
    assert found[1].value == {"representation": "unavailable"}
    assert roles(query("a"), said("b"), said("[REDACTED]"), ended())[1] == "agent.final_answer"


def test_a_call_has_its_input_as_it_stands_and_its_directory():
    patch = use("ApplyPatch") | {"input": "*** Begin Patch"}
    none = {"type": "tool_use", "name": "GetMcpTools"}
    here = use(command="ls", working_directory="/srv")
    there = use(command="ls", working_directory="src")
    found = items(query("a"), said(patch, none, here, there))[1:]
    assert [(one.value["arguments"], one.value["working_directory"]) for one in found] == [
        ("*** Begin Patch", None),
        (None, None),
        ({"command": "ls", "working_directory": "/srv"}, "/srv"),
        ({"command": "ls", "working_directory": "src"}, None),
    ]


def test_a_task_is_a_delegation_on_both_sides():
    (_, parent) = items(query("a"), said(use("Task", prompt="find", subagent_type="explore")))
    assert (parent.role, parent.text) == ("agent.delegation", "find")
    child = items(query("find"), said("x"), ended(), query("more"), said("y"), place=CHILD)
    assert [(one.role, one.text, one.loop) for one in child if "agent.d" in one.role] == [
        ("agent.delegation", "find", "loop:1"),
        ("agent.delegation", "more", "loop:4"),
    ]


def test_images_are_told_of():
    image = {"type": "image", "source": {"data": "x"}}
    (seen,) = items(user("<user_query>\nsee\n</user_query>", image))
    assert (seen.text, seen.value) == ("see", {"has_images": True})
    (alone,) = items(user(image))
    assert (alone.role, alone.text, alone.value) == ("human.request", None, {"has_images": True})


# What Cursor puts around a person's words


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("please", [(None, "please")]),
        ("<user_query>\n  a\n</user_query>", [(None, "  a")]),
        ("<user_query>a</user_query>\n<user_query>b</user_query>", [(None, "a\n\nb")]),
        ("<user_query>\n</user_query>", []),
        (
            "<user_query>why <user_query>a</user_query> and </user_query>?</user_query>",
            [(None, "why <user_query>a</user_query> and </user_query>?")],
        ),
        ("<user_query>never closed", [(None, "<user_query>never closed")]),
        ("<html>a</html> why?", [(None, "<html>a</html> why?")]),
        ("a < b", [(None, "a < b")]),
        (
            "<user_info>\nlinux\n</user_info>\n<user_query>a</user_query>\n<rules>r</rules>",
            [("environment", "linux"), (None, "a"), ("project", "r")],
        ),
        ("<user_info>linux</user_info>\n\nplease", [("environment", "linux"), (None, "please")]),
        ("<agent_skills>s</agent_skills>", [("skill", "s")]),
        ("<rules>never closed", [(None, "<rules>never closed")]),
        (
            "loose <new_tag x='1'>t</new_tag><user_query>a</user_query> words",
            [("", "loose <new_tag x='1'>t</new_tag>"), (None, "a"), ("", "words")],
        ),
        ("<new_tag>t</new_tag><user_query>a</user_query>", [("", "t"), (None, "a")]),
        (f"{made.STAMP}\n<user_query>a</user_query>", [(None, "a")]),
        ("<timestamp>noon</timestamp>a", [("environment", "noon"), (None, "a")]),
        ("", []),
    ],
)
def test_a_message_is_a_persons_words_and_what_cursor_adds(given, found):
    seen = injected.parts(given)
    assert [
        (None if one.injected is None else one.injected.category or "", one.text) for one in seen
    ] == found
    assert all(
        one.injected is None
        or one.injected.role != "runtime.unknown"
        or one.injected.category is None
        for one in seen
    )


def test_every_known_element_is_an_item_of_its_role_and_opens_nothing():
    for one in injected.INJECTED:
        words = f"<{one.marker}>\nx\n</{one.marker}>"
        (item,) = items(user(words))
        assert (item.role, item.text, item.loop, item.heuristic) == (one.role, "x", None, True)
        assert item.value.get("category") == one.category
        assert [item.loop for item in items(query("a", words))] == ["loop:1"] * 2


def test_what_has_no_role_is_unknown():
    (item, _) = items(query("a", "<of_the_next_build>x</of_the_next_build>"))
    assert (item.role, item.value) == ("runtime.unknown", {"has_images": False})


@pytest.mark.parametrize(
    ("given", "at"),
    [
        (made.STAMP, made.STAMPED_MS),
        (made.STAMP.replace("AM", "PM"), made.STAMPED_MS + 12 * 3_600_000),
        (made.STAMP.replace("10:15 AM (UTC-5)", "12:15\u202fAM (UTC+5:30)"), 1_772_477_100_000),
        (f"\n{made.STAMP}\nx", made.STAMPED_MS),
        (f"x {made.STAMP}", None),
        (made.STAMP.replace(" (UTC-5)", ""), None),
        (made.STAMP.replace("UTC-5", "UTC-50"), None),
        (made.STAMP.replace("10:15", "13:15"), None),
        (made.STAMP.replace("10:15", "10:75"), None),
        (made.STAMP.replace("Mar 3", "Feb 30"), None),
        (made.STAMP.replace("2026", "0000"), None),
        (made.STAMP.replace("Mar", "mars"), None),
    ],
)
def test_the_only_time_is_what_a_message_begins_with(given, at):
    assert injected.stamp(given) == at
    assert reader().occurred_at(user(given)) == at
    assert reader().occurred_at(said(given)) is None


def test_a_session_began_with_its_first_request_if_that_says_when():
    def created(*values):
        facts = project(PLACE, None).feed(lines(*values))
        return [fact.created_at for fact in facts if isinstance(fact, SessionFact)]

    assert created(user("<rules>r</rules>"), query("a", made.STAMP)) == [None, made.STAMPED_MS]
    assert created(query("a"), said("b"), ended(), query("c", made.STAMP)) == [None]


@pytest.mark.parametrize(
    "words",
    [
        "<user_query>" * 100_000,
        "<x><user_query></user_query>" * 40_000,
        "<user_query></user_query>" * 40_000,
        "<user_query>" * 50_000 + "</user_query>" * 50_000,
        "<rules>" * 100_000 + "<user_query>a</user_query>",
        "<a b" * 200_000,
        " \n" * 400_000,
        "<a " + " " * 800_000,
    ],
    ids=range(8),
)
def test_hostile_words_cost_no_more_than_their_length(words):
    began = time.process_time()
    injected.parts(words)
    assert time.process_time() - began < 2


# In the index


WHOLE = [
    {"x": 1},
    user("<agent_skills>s</agent_skills>"),
    query("a", made.STAMP),
    said("b", use()),
    query("c"),
    said("[REDACTED]", use("Task", prompt="d")),
    said("e"),
    query("f"),
    failed(),
    said("g"),
    ended(),
    said("h"),
    said("i", use()),
    ended("aborted"),
    ended("error", error="j"),
    query("k"),
    said("l"),
    query("m"),
    said("n"),
    ended(),
]


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
@pytest.mark.parametrize("place", [PLACE, CHILD])
def test_any_cut_of_a_transcript_gives_the_same_facts(place, cut):
    whole = list(lines(*WHOLE))
    first = project(place, None)
    found = list(first.feed(whole[:cut]))
    found += project(place, first.state()).feed(whole[cut:])
    assert found == list(project(place, None).feed(whole))


@pytest.mark.parametrize(
    "odd",
    [
        7,
        [query("a")],
        {"role": "assistant"},
        {"role": "assistant", "message": {"content": 2**70}},
        {
            "role": "assistant",
            "message": {"content": [None, 7, [], {"type": []}, {"type": "text"}]},
        },
        said({"type": "tool_use", "name": ["x"]}, {"type": "tool_use", "name": ""}),
        said(text(7), text("")),
        ended(["success"]) | {"error": {"message": "x"}},
        {"type": ["turn_ended"]},
        {"type": "error", "error": {"message": "x"}},
        {"type": "of the next build"},
    ],
)
def test_a_line_of_unknown_shape_is_no_matter(odd):
    assert "human.request" in roles(odd, query("a"), odd)
    if isinstance(odd, dict) and odd.get("type") != "error":
        # And it is no text, call or notice.
        assert roles(query("a"), odd) == ["human.request"]


class Index:
    def __init__(self, path):
        self.database = str(path / "index.sqlite3")
        self.projects = path / "projects"

    def sync(self):
        return sync(self.database, [str(self.projects)], {"cursor": reader()})

    def rows(self, sql):
        return orjson.loads(orjson.dumps(run(self.database, sql)))["rows"]


@pytest.fixture
def index(tmp_path):
    return Index(tmp_path)


def test_the_documented_questions_are_answered_where_a_transcript_has_the_facts(index):
    made.store(index.projects)
    index.sync()
    index.sync()
    answers = {one.name: index.rows(one.sql) for one in EXAMPLES}
    without = {"outputs", "usage", "metadata", "search"}  # no result, no tokens
    assert {name for name, rows in answers.items() if not rows} == without
    assert answers["requests"][0]["occurred_at"] == made.STAMPED_MS
    assert {row["request"] for row in answers["interruptions"]} == {"and here?", "again"}
    assert [row["answer"] for row in answers["answers"]] == [
        "Two files.", "In the hay.", "Here it is.", "Done as asked.",
    ]  # fmt: skip
    assert "needle" in str(answers["delegations"])
    assert {row["program"] for row in answers["programs"]} == {"ls", "wc", "false"}
    found = index.rows(
        "SELECT p.native_id FROM sessions AS c JOIN sessions AS p"
        " ON p.session_id = json_extract(c.delegated_from, '$.session_id')"
        " WHERE c.native_id = 'child'"
    )
    assert found == [{"native_id": "talk"}]


def test_a_transcript_that_is_written_anew_keeps_its_ids_and_tells_what_it_holds(index):
    path = index.projects / "demo" / "agent-transcripts" / "s" / "s.jsonl"
    ids = "SELECT item_id, loop_id, record_ids FROM items ORDER BY item_id"
    made.write(path, query("a"), said("b", use()), said("c"), ended())
    assert index.sync().actions["indexed"] == 1
    before = index.rows(ids)
    beside = made.write(path.with_suffix(".new"), query("a"), said("b", use()), said("c"),
                        ended(), query("d"), said("e"))  # fmt: skip
    Path(beside).replace(path)
    assert index.sync().actions["rebuilt"] == 1
    after = index.rows(ids)
    assert [row["item_id"] for row in after][: len(before)] == [row["item_id"] for row in before]
    assert len(after) == len(before) + 2


def test_a_session_that_begins_as_one_that_is_gone_is_another(index):
    folder = index.projects / "demo" / "agent-transcripts"
    made.write(folder / "a" / "a.jsonl", query("go on"))
    index.sync()
    (folder / "a" / "a.jsonl").unlink()
    made.write(folder / "b" / "b.jsonl", query("go on"), said("b"))
    assert index.sync().actions["indexed"] == 1
    assert index.rows("SELECT native_id FROM sessions ORDER BY 1") == [
        {"native_id": "a"}, {"native_id": "b"},
    ]  # fmt: skip


def test_a_transcript_that_moves_to_its_newer_place_is_the_same_source(index):
    folder = index.projects / "demo" / "agent-transcripts"
    old = Path(made.write(folder / "a.jsonl", query("a"), said("b")))
    index.sync()
    before = index.rows("SELECT source_id, session_id, native_id FROM sessions, sources")
    (folder / "a").mkdir()
    old.rename(folder / "a" / "a.jsonl")
    assert index.sync().actions["unchanged"] == 1
    assert index.rows("SELECT source_id, session_id, native_id FROM sessions, sources") == before


def test_a_session_of_a_file_in_no_known_place_is_left_out_whole(index):
    made.write(index.projects / "notes.jsonl", query("a"), said("b"))
    report = index.sync()
    assert report.actions["skipped"] == 1
    assert "no line confirms a session" in str(report.sources)
    assert index.rows("SELECT * FROM sources") == []


def test_what_json_allows_and_few_expect_costs_a_transcript_nothing(index):
    path = index.projects / "s" / "s.jsonl"
    made.write(path, query("a"))
    with path.open("ab") as file:
        file.write(b'{"role":"assistant","message":{"content":[{"type":"text","text":"x\\ud800"},'
                   b'{"type":"tool_use","name":"Shell","input":{"command":"ls \\udfff",'
                   b'"n":123456789012345678901234567890}}]}}\n'
                   b"not json\n\n"
                   b'{"type":"turn_ended","status":"error","error":"\\u0000"}\n')  # fmt: skip
    assert index.sync().actions["indexed"] == 1
    text, command = index.rows(
        "SELECT (SELECT text FROM blobs WHERE blob_id = json_extract(semantic, "
        "'$.value.text.blob_id')) AS x, json_extract(semantic, "
        "'$.value.shell_fragments[0].text.value') AS y, json_extract(semantic, "
        "'$.value.arguments') AS z FROM items WHERE loop_position IN (1, 2) ORDER BY loop_position"
    )
    assert text["x"] == "x\ufffd"
    assert command["y"] == "ls \ufffd"
    assert "123456789012345678901234567890" in command["z"]
