from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import sqlite3
from pathlib import Path

import pytest

from yarp.plugin import Call, Issue, Observation, Rejected, Result, Session, SourceItem
from yarp_cursor import records
from yarp_cursor.importer import discover, read


def _module(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"yarp_cursor_tests_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


stores = _module("stores")
Store, call, result, T0 = stores.Store, stores.call, stores.result, stores.T0


class Read:
    """What the importer says of one item, sorted out."""

    def __init__(self, facts):
        self.facts = list(facts)
        self.sessions = [one for one in self.facts if isinstance(one, Session)]
        self.calls = {one.native_call_id: one for one in self.facts if isinstance(one, Call)}
        self.results = [one for one in self.facts if isinstance(one, Result)]
        self.observations = [one for one in self.facts if isinstance(one, Observation)]
        self.codes = [one.code for one in self.facts if isinstance(one, Issue)]
        assert len(self.calls) == sum(isinstance(one, Call) for one in self.facts)

    def texts(self, call_id):
        return [one.output_text for one in self.results if one.call[1] == call_id]

    def result(self, call_id):
        (found,) = [one for one in self.results if one.call[1] == call_id]
        return found

    def seen(self, target):
        return [one for one in self.observations if one.target is target]

    def current(self, call_id):
        return {one.is_current for one in self.seen(self.calls[call_id])}

    def order(self):
        """Ids of the calls of the current conversation, in order."""
        found = sorted(
            (one.sequence_number, one.target.native_call_id)
            for one in self.observations
            if isinstance(one.target, Call) and one.sequence_number is not None
        )
        return [call_id for _, call_id in found]


def listing(folder):
    return {
        path: (
            os.stat(path).st_mtime_ns,
            os.stat(path).st_mode,
            Path(path).read_bytes() if os.path.isfile(path) else None,
        )
        for path in sorted(str(one) for one in folder.rglob("*"))
    }


@pytest.fixture
def of(tmp_path):
    def read_of(store, **how):
        store.write(str(tmp_path / "chats" / "bucket" / "agent-1" / "store.db"), **how)
        before = listing(tmp_path / "chats")
        item = SourceItem(
            "chats", str(tmp_path / "chats"), "bucket/agent-1/store.db", database=True
        )
        try:
            return Read(read(item))
        finally:
            item.close()
            assert listing(tmp_path / "chats") == before

    return read_of


def test_a_conversation_is_its_calls_in_the_order_of_its_root(of):
    store = Store()
    system = store.json({"role": "system", "content": "planted-instructions"})
    answer = store.tool(
        result("c2", "second"),
        {
            "output": {
                "success": {"exitCode": 0, "stdout": "second", "stderr": "", "command": "ls"}
            },
            "isError": False,
        },
    )
    both = store.assistant(
        {"type": "text", "text": "planted-prose"},
        call("c1", "Read", {"path": "/a"}),
        call("c2", "Shell", {"command": "ls", "working_directory": "/srv/sub"}),
    )
    store.root(system, both, store.tool(result("c1", "first")), answer, turns=[store.turn("c1")])
    found = of(store)
    assert found.sessions == [Session("agent-1", T0)]
    assert found.order() == ["c1", "c2"]
    one, two = found.calls["c1"], found.calls["c2"]
    assert (one.identity, one.session, one.tool_name, one.input) == (
        ("agent-1", "c1"),
        "agent-1",
        "Read",
        {"path": "/a"},
    )
    assert (one.called_at_ms, found.result("c1").returned_at_ms) == (T0 + 1, T0 + 2)
    assert (two.called_at_ms, found.result("c2").returned_at_ms) == (None, None)
    assert (one.working_directory, two.working_directory) == ("/srv/demo app", "/srv/sub")
    assert found.result("c1").output_json is None
    assert found.result("c2").output_json == {
        "output": {"success": {"exitCode": 0, "command": "ls"}}
    }
    assert (found.result("c1").is_error, found.result("c2").is_error) == (None, False)
    seen = found.seen(one)
    assert [
        (see.native_record_kind, see.record_kind, see.sequence_number, see.content_index)
        for see in seen
    ] == [
        ("assistant/tool-call", "canonical", 1001, 1),
        ("agent.v1.ToolCall", "projection", None, None),
    ]
    assert all(see.record_sha256.hex() == see.sqlite_blob_id for see in found.observations)
    assert not found.codes


def test_messages_that_a_compaction_took_out_are_current_and_come_first(of):
    store = Store()
    old, new = store.pair("c1"), store.pair("c2")
    gone = store.pair("c3")
    store.root(*old)  # an earlier root, which stays
    store.root(*new, archives=[store.archive(*old)])
    found = of(store)
    assert found.order() == ["c1", "c2"]
    assert (found.current("c1"), found.current("c2"), found.current("c3")) == (
        {True},
        {True},
        {False},
    )
    assert gone


def test_without_an_archive_nobody_knows_what_is_not_current(of):
    store = Store()
    store.pair("c1")
    store.root(*store.pair("c2"), archives=["ab" * 32])
    found = of(store)
    assert (found.current("c1"), found.current("c2")) == ({None}, {True})
    assert found.codes == ["cursor_incomplete_root"]


def test_messages_that_are_not_there_are_an_issue(of):
    store = Store()
    store.root(*store.pair("c1"), "ab" * 32)
    found = of(store)
    assert found.order() == ["c1"]
    assert found.codes == ["cursor_incomplete_root"]


@pytest.mark.parametrize("root", ["f" * 64, "", None])
def test_a_missing_root_leaves_all_pairs_and_says_nothing_of_currency(of, root):
    store = Store()
    store.pair("c1")
    store.meta["latestRootBlobId"] = root
    found = of(store)
    assert found.current("c1") == {None}
    assert found.texts("c1") == ["a"]
    assert found.codes == ["cursor_missing_root"]


def test_a_root_of_no_bytes_is_an_empty_conversation(of):
    store = Store()
    store.pair("c1")
    store.meta["latestRootBlobId"] = store.blob(b"")
    found = of(store)
    assert found.current("c1") == {False}
    assert not found.codes


@pytest.mark.parametrize(
    "root", [b"\x0a\xff\xff\xff\x0f" + b"\0" * 9, b"\x0a\x20short", b"\x0c", b'{"role":"user"}']
)
def test_a_root_that_is_no_protobuf_rejects_the_store(of, root):
    store = Store()
    store.pair("c1")
    store.meta["latestRootBlobId"] = store.blob(root)
    with pytest.raises(Rejected) as rejected:
        of(store)
    assert rejected.value.issue.code == "unsupported_cursor_source"


def test_fields_of_every_unknown_kind_are_skipped(of):
    store = Store()
    unknown = b"\x98\x06\x85\x80\x80\x80\x80\x80\x80\x80\x80\x01"  # 99: a number
    unknown += b"\xa1\x06" + b"\1" * 8 + b"\xad\x06" + b"\2" * 4  # 100, 101: fixed 64 and 32 bits
    unknown += b"\xb2\x06\x03abc" + b"\xbb\x06\x08\x01\xbc\x06"  # 102: bytes, 103: a group
    store.root(*store.pair("c1"), extra=unknown + b"\x0a\x05short")
    found = of(store)
    assert found.order() == ["c1"]
    assert not found.codes


def test_a_turn_is_a_second_copy_and_never_a_call(of):
    store = Store()
    turn = store.turn("c9")
    store.root(turns=[turn, store.blob(b"\xff"), "ab" * 32])
    found = of(store)
    assert not found.calls
    assert found.codes == ["cursor_incomplete_root", "projection_without_call"]


def test_times_that_are_none_are_not_known(of):
    store = Store()
    store.root(*store.pair("c1"), turns=[store.turn("c1", 0, 2**63 + 5)])
    found = of(store)
    assert (found.calls["c1"].called_at_ms, found.result("c1").returned_at_ms) == (None, None)


def test_a_call_that_waits_to_be_run_is_told_by_the_root(of):
    store = Store()
    store.root(
        *store.pair("c1"),
        pending=[call("c1"), call("c2", "AskQuestion", {"q": 1}), {"type": "other"}],
    )
    found = of(store)
    assert set(found.calls) == {"c1", "c2"}
    assert (found.calls["c2"].tool_name, found.calls["c2"].input) == ("AskQuestion", {"q": 1})
    assert [see.native_record_kind for see in found.seen(found.calls["c2"])] == [
        "pending_tool_calls"
    ]
    assert found.codes == ["cursor_unknown_message"]


def test_unequal_results_of_one_call_stay_apart(of):
    store = Store()
    pair = store.pair("c1")
    store.tool(result("c1", "Command was aborted by the user"))
    store.root(*pair)
    found = of(store)
    assert sorted(found.texts("c1")) == ["Command was aborted by the user", "a"]
    assert {
        one.output_text: {see.is_current for see in found.seen(one)} for one in found.results
    } == {"a": {True}, "Command was aborted by the user": {False}}


def test_of_two_calls_with_one_id_the_current_one_counts(of):
    store = Store()
    store.assistant(call("c1", "Shell", {"command": "draft"}))
    store.root(store.assistant(call("c1", "Shell", {"command": "sent"})))
    found = of(store)
    assert found.calls["c1"].input == {"command": "sent"}
    assert found.current("c1") == {True, False}
    assert not found.codes
    store.root(
        store.assistant(call("c1", "Shell", {"command": "sent"})), store.assistant(call("c1", "LS"))
    )
    assert of(store).codes == ["call_id_reused"]


def test_a_result_without_its_call_stays(of):
    store = Store()
    store.root(store.tool(result("c9")))
    found = of(store)
    assert [one.call for one in found.results] == [("agent-1", "c9")]
    assert not found.calls


def test_an_id_with_a_newline_and_arguments_that_are_a_string(of):
    store = Store()
    odd, patch = "call-81e8-2\nfc_34e0_2", "*** Begin Patch\n*** End Patch"
    store.root(*store.pair(odd, name="ApplyPatch", args=patch), *store.pair("c2", args='{"a":1}'))
    found = of(store)
    assert (found.calls[odd].input, found.calls[odd].input_format) == (patch, "json_or_text")
    assert found.texts(odd) == ["a"]


def test_results_that_are_no_text_are_kept_as_json(of):
    store = Store()
    image = {"type": "image", "data": "eHg=", "mimeType": "image/png"}
    texts = [{"type": "text", "text": "shown"}, {"type": "text", "text": "only here"}]
    messages = [store.assistant(*(call(f"c{number}") for number in range(5)))]
    messages += [
        store.tool(result("c0", {"n": [1]})),
        store.tool(
            result("c1", "shown", experimental_content=[*texts, image]),
            {"output": [texts[0]], "isError": True, "rawErrorMessages": ["ENOENT"]},
        ),
        store.tool(result("c2", None)),
        store.tool({"type": "tool-result", "toolCallId": "c3", "experimental_content": [image]}),
        store.tool(
            result("c4", "x"),
            {
                "output": {
                    "success": {"agentId": "b", "conversationSteps": [{"text": "planted-prose"}]},
                    "isError": False,
                }
            },
        ),
    ]
    store.root(*messages)
    found = of(store)
    assert (found.result("c0").output_text, found.result("c0").output_json) == (
        None,
        {"result": {"n": [1]}},
    )
    assert found.result("c1").output_json == {
        "content": [texts[1], image],
        "rawErrorMessages": ["ENOENT"],
    }
    assert found.result("c1").is_error is True
    assert (found.result("c2").output_text, found.result("c2").output_json) == ("", None)
    assert (found.result("c3").output_text, found.result("c3").output_json) == (
        None,
        {"content": [image]},
    )
    assert found.result("c4").output_json == {"output": {"success": {"agentId": "b"}}}
    assert found.result("c4").is_error is False


def test_blobs_that_are_no_messages_are_passed_over(of):
    store = Store()
    for value in (
        {"name": "demo"},
        call("x"),
        {"role": "admin", "content": [call("x")]},
        [{"role": "assistant", "content": [call("x")]}],
    ):
        store.json(value)
    for data in (
        b"",
        b"# README",
        b'{"role":"assistant","content":[{"type":"tool-call"',
        random.Random(7).randbytes(96),
    ):
        store.blob(data)
    store.root(*store.pair("c1"))
    found = of(store)
    assert set(found.calls) == {"c1"}
    assert not found.codes


def test_a_file_that_looks_like_a_message_is_none(of):
    store = Store()
    for number, field in enumerate(("file_states", "file_states_v2")):
        file_id = store.assistant(call(f"x{number}"))
        value = bytes.fromhex(file_id)
        if field == "file_states_v2":
            value = stores.made("FileState", content=value)
        store.root(**{field: [stores.made("FileStateEntry", path=b"/a", value=value), b"\xff"]})
        assert f"x{number}" not in of(store).calls


@pytest.mark.parametrize(
    "value",
    [
        {"role": "assistant", "content": [{"type": "tool-call", "toolName": "Shell", "args": {}}]},
        {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "x"}}]},
    ],
)
def test_a_malformed_call_is_an_issue_wherever_it_stands(of, value):
    store = Store()
    store.json(value)
    store.root()
    assert of(store).codes == ["cursor_unknown_message"]


def test_a_current_message_that_is_encrypted_is_an_issue(of):
    store = Store()
    store.root(*store.pair("c1"), store.blob(random.Random(7).randbytes(96)))
    found = of(store)
    assert found.order() == ["c1"]
    assert found.codes == ["cursor_unknown_message"]


def test_a_blob_under_a_false_name_is_an_issue(of):
    store = Store()
    store.rows.append(
        ("ab" * 32, json.dumps({"role": "assistant", "content": [call("c1")]}).encode())
    )
    store.root("ab" * 32)
    found = of(store)
    assert found.order() == ["c1"]
    assert found.codes == ["cursor_blob_mismatch"]


def test_half_a_surrogate_pair_is_an_issue_with_its_blob(of):
    store = Store()
    blobs = store.pair("c1", "a\ud83db")
    store.root(*blobs)
    found = of(store)
    assert found.texts("c1") == ["a\ufffdb"]
    assert [(one.code, one.sqlite_blob_id) for one in found.facts if isinstance(one, Issue)] == [
        ("lone_surrogate", blobs[1])
    ]


def test_what_stands_only_in_the_write_ahead_log_is_read_and_nothing_is_left_behind(of):
    store = Store()
    first = store.pair("c1")
    second = store.pair("c2")
    store.root(*first, *second)
    assert of(store, in_log=3).order() == ["c1", "c2"]


def test_a_subagents_calls_name_the_agent_that_started_it(of):
    store = Store(subagentInfo={"parentAgentId": "agent-0", "toolCallId": "c9"})
    store.root(*store.pair("c1"))
    assert of(store).calls["c1"].native_worker_id == "agent-0"


def test_neither_prose_nor_keys_are_said_anywhere(of):
    store = Store()
    message = store.assistant(
        {"type": "reasoning", "text": "planted-thought"},
        {"type": "text", "text": "planted-prose"},
        call("c1", args={"command": "planted-control"}),
    )
    user = store.json({"role": "user", "content": [{"type": "text", "text": "planted-prompt"}]})
    store.root(user, message, store.tool(result("c1")))
    found = of(store)
    said = repr([[getattr(one, name, None) for name in type(one).__slots__] for one in found.facts])
    assert "planted-control" in said
    assert said.count("planted") == 1
    assert stores.SECRET not in said


def test_the_key_of_blobs_is_held_by_nothing_once_the_metadata_is_read(of):
    store = Store()
    key = store.meta["blobEncryptionKey"] = f"planted-{os.urandom(8).hex()}"
    store.root(*store.pair("c1"))
    found = of(store)
    assert found.calls
    gc.collect()
    seen, left, texts = set(), gc.get_objects(), []
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            if type(one) in (str, bytes):
                texts.append(one)
            else:
                left += gc.get_referents(one)
    forms = (key, key.encode(), key.encode().hex(), key.encode().hex().encode())
    holding = [
        one for one in texts if any(type(one) is type(form) and form in one for form in forms)
    ]
    assert all(one is key for one in holding)


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "CREATE TABLE blobs (id, data)",
        "CREATE TABLE blobs (id, data); CREATE TABLE meta (key, value)",
        "CREATE TABLE blobs (id, data); CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('0', '{}')",
    ],
)
def test_a_database_of_another_kind_is_rejected(tmp_path, schema):
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript(schema)
    connection.close()
    item = SourceItem("chats", str(tmp_path), "store.db", database=True)
    with pytest.raises(Rejected) as rejected:
        list(read(item))
    item.close()
    assert rejected.value.issue.code in ("unsupported_cursor_source", "malformed_database")


def test_a_damaged_database_is_rejected_or_says_what_it_still_holds(tmp_path):
    store = Store()
    store.root(*(one for number in range(30) for one in store.pair(f"c{number}", "a" * 900)))
    path = Path(store.write(str(tmp_path / "store.db")))
    whole, chance = path.read_bytes(), random.Random(11)
    outcomes = set()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
        item = SourceItem("chats", str(tmp_path), "store.db", database=True)
        try:
            outcomes.add(len(list(read(item))) > 0)
        except Rejected as rejected:
            outcomes.add(rejected.issue.code)
        finally:
            item.close()
    assert {True, "malformed_database"} <= outcomes
    assert outcomes <= {True, "malformed_database", "unsupported_cursor_source"}


class Home:
    """A directory of Cursor's with chats, sessions and transcripts."""

    def __init__(self, path):
        self.path = path
        self.roots = {flag: str(path / flag) for flag in ("chats", "acp-sessions", "projects")}
        for root in self.roots.values():
            os.makedirs(root)

    def chat(self, agent_id, store, kind="chats"):
        store.meta["agentId"] = agent_id
        store.write(
            os.path.join(
                self.roots[kind], *(["bucket"] if kind == "chats" else []), agent_id, "store.db"
            )
        )

    def transcript(self, name, *uses, **more):
        folder = os.path.join(self.roots["projects"], "srv-demo", "agent-transcripts")
        return stores.transcript(os.path.join(folder, name), *uses, **more)

    def read(self, kind="projects"):
        """What is said of the items of this kind, by their names, and which are refused."""
        found, codes = {}, []
        for item in discover(self.roots):
            if item.refused is not None:
                codes.append((os.path.basename(item.path), item.refused.code))
            elif item.kind == kind:
                found[os.path.basename(item.path)] = Read(read(item))
                item.close()
        return found, codes


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "cursor")


def two_calls():
    store = Store()
    old, new = store.pair("c1", name="LS", args={"a": 1}), store.pair("c2", args="patch")
    store.pair("c3", name="Gone")
    store.root(*new, archives=[store.archive(*old)])
    return store


def test_stores_are_found_at_any_depth_and_leftovers_are_not_taken_for_some(home):
    home.chat("a1", two_calls())
    home.chat("a2", two_calls(), "acp-sessions")
    residue = Path(home.roots["acp-sessions"], "a3", "meta.json")
    residue.parent.mkdir()
    residue.write_text("{}")
    Path(home.roots["chats"], "bucket", ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    Path(home.roots["chats"], "bucket", "a1", "other-store.db").write_bytes(b"")
    two_calls().write(os.path.join(home.roots["chats"], "early", "store.db"))
    assert [(item.kind, item.relative_path) for item in discover(home.roots)] == [
        ("chats", "bucket/a1/store.db"),
        ("chats", "early/store.db"),
        ("acp_sessions", "a2/store.db"),
    ]


def test_an_acp_session_has_the_order_of_its_root_whatever_the_rows_are(home):
    store = Store()
    pairs = [store.pair(f"c{number}") for number in range(6)]
    store.root(*(one for pair in pairs for one in pair))
    random.Random(3).shuffle(store.rows)
    home.chat("a2", store, "acp-sessions")
    found, codes = home.read("acp_sessions")
    assert found["store.db"].order() == [f"c{number}" for number in range(6)]
    assert len(found["store.db"].results) == 6
    assert not codes


def test_a_transcript_with_the_very_same_calls_confirms_them(home):
    home.chat("a1", two_calls())
    home.transcript("a1/a1.jsonl", ("LS", {"a": 1}), ("Shell", "patch"), partial=b'{"role":"assis')
    found, codes = home.read()
    seen = [
        (one.target.native_call_id, one.record_kind, one.sequence_number, one.line_number)
        for one in found["a1.jsonl"].observations
    ]
    assert seen == [("c1", "validation", 0, 2), ("c2", "validation", 1, 3)]
    assert found["a1.jsonl"].calls["c1"] == home.read("chats")[0]["store.db"].calls["c1"]
    assert not found["a1.jsonl"].codes
    assert not codes


def test_a_subagents_transcript_belongs_to_its_own_store(home):
    home.chat("child", two_calls())
    home.transcript("a1/subagents/child.jsonl", ("LS", {"a": 1}), ("Shell", "patch"))
    found, _ = home.read()
    assert list(found["child.jsonl"].calls) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("uses", "code"),
    [
        ([("LS", {"a": 1})], "cursor_transcript_count_mismatch"),
        (
            [("LS", {"a": 1}), ("Shell", "patch"), ("Shell", "more")],
            "cursor_transcript_count_mismatch",
        ),
        ([("LS", {"a": 2}), ("Shell", "patch")], "cursor_transcript_mismatch"),
        ([("Shell", "patch"), ("LS", {"a": 1})], "cursor_transcript_mismatch"),
    ],
)
def test_a_transcript_with_other_calls_confirms_nothing(home, uses, code):
    home.chat("a1", two_calls())
    home.transcript("a1/a1.jsonl", *uses)
    found, _ = home.read()
    assert found["a1.jsonl"].codes == [code]
    assert not found["a1.jsonl"].calls


def test_without_a_root_a_transcript_gives_the_order(home):
    store = two_calls()
    store.meta["latestRootBlobId"] = ""
    home.chat("a1", store)
    home.transcript(
        "a1/a1.jsonl", ("LS", {"a": 1}), ("Shell", "patch"), ("Gone", {"command": "ls"})
    )
    found, _ = home.read()
    assert [one.sequence_number for one in found["a1.jsonl"].observations] == [0, 1, 2]


def test_transcripts_that_nothing_can_be_held_against_are_named(home):
    home.chat("a1", two_calls())
    home.transcript("elsewhere.jsonl")
    home.transcript("old.txt")
    stores.transcript(os.path.join(home.roots["projects"], "srv-demo", "notes.jsonl"))
    found, codes = home.read()
    assert not found
    assert sorted(codes) == [
        ("elsewhere.jsonl", "cursor_transcript_without_store"),
        ("old.txt", "cursor_text_transcript"),
    ]
    damaged = Store()
    damaged.meta["latestRootBlobId"] = damaged.blob(b"\xff")
    home.chat("a2", damaged)
    home.transcript("a2.jsonl", ("LS", {}))
    found, _ = home.read()
    assert found["a2.jsonl"].facts == []


def mutations(value, depth=0):
    """The value with one part of it replaced by something odd, or missing."""
    odd = (None, True, 7, -1.5, "", "odd", [], {}, [None], {"": None}, 2**70)
    if depth == 0:
        yield from odd
    if isinstance(value, dict) and depth < 6:
        for key, part in value.items():
            yield {name: one for name, one in value.items() if name != key}
            for other in odd:
                yield {**value, key: other}
            for inner in mutations(part, depth + 1):
                yield {**value, key: inner}
    elif isinstance(value, list) and value and depth < 6:
        for inner in mutations(value[0], depth + 1):
            yield [inner, *value[1:]]


def test_messages_and_transcripts_of_unexpected_shape_cost_nothing_but_themselves(home):
    high_level = {"output": {"success": {"stdout": "a", "exitCode": 0}}, "isError": False}
    content = [{"type": "text", "text": "x"}, {"type": "image", "data": "x"}]
    block = result("c1", experimental_content=content)
    options = {"cursor": {"highLevelToolCallResult": high_level}}
    messages = (
        {"role": "assistant", "id": "1", "content": [call("c1")]},
        {"role": "tool", "id": "c1", "content": [block], "providerOptions": options},
    )
    store = Store()
    ids = [store.json(odd) for message in messages for odd in mutations(message)]
    store.root(*ids, *store.pair("c2"), pending=[call("c1"), *mutations(call("c3"))])
    home.chat("a1", store)
    path = Path(home.transcript("a1.jsonl"))
    line = {
        "role": "assistant",
        "message": {"content": [{"type": "tool_use", "name": "A", "input": {}}]},
    }
    path.write_text("".join(json.dumps(odd) + "\n" for odd in mutations(line)))
    found = home.read("chats")[0]["store.db"]
    assert len(ids) > 300
    assert {"c1", "c2", "c3"} <= set(found.calls)
    for one in found.calls.values():
        assert type(one.tool_name) is str
    for one in found.results:
        assert type(one.output_text) in (str, type(None))
        assert (one.output_text, one.output_json) != (None, None)
        assert type(one.is_error) in (bool, type(None))
    assert home.read()[0]["a1.jsonl"].codes == ["cursor_transcript_mismatch"]


def test_metadata_of_unexpected_shape_is_refused_or_says_less():
    info = {"parentAgentId": "p", "toolCallId": "t"}
    plain = {"agentId": "agent-1", "latestRootBlobId": "", "createdAt": T0, "subagentInfo": info}
    said = 0
    for odd in mutations(plain):
        try:
            meta = records.meta(json.dumps(odd))
        except ValueError:
            continue
        said += 1
        texts = (meta.agent_id, meta.root_id, meta.mode, meta.parent_agent_id, meta.tool_call_id)
        assert {type(text) for text in texts} <= {str, type(None)}
        assert type(meta.created_at_ms) in (int, type(None))
    assert said > 50


def test_a_store_whose_folder_is_swapped_for_a_link_is_not_read(home, tmp_path):
    home.chat("a1", two_calls())
    (item,) = [one for one in discover(home.roots) if one.kind == "chats"]
    folder = Path(item.path).parent
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a link stands in its path"):
        list(read(item))
    item.close()
