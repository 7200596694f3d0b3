from __future__ import annotations

import os
import pathlib
import sqlite3

import attrs
import orjson
import pytest
import zstandard

from yarp.errors import DataError, UsageError
from yarp.index.records import verify
from yarp.index.store import STORAGE_FORMAT
from yarp.index.sync import sync


def test_a_conversation_is_published_in_its_order(index, conversation):
    index.write("a.jsonl", *conversation)
    report = index.sync().plain()
    assert (report["indexed_files"], report["indexed_records"]) == (1, len(conversation))
    items = index.items("loop_id IS NOT NULL")
    assert [(role, text) for _, role, text, _ in items] == [
        ("human.request", "Find the needle in the haystack"),
        ("agent.reasoning", "hm"),
        ("agent.tool_call.shell", None),
        ("tool.output", "hay/needle"),
        ("human.steering", "also look in the barn"),
        ("agent.commentary", "Looking there"),
        ("agent.delegation", "Search the barn"),
        ("subagent.report", "Nothing here"),
        ("runtime.notice", "Be quick"),
        ("runtime.compaction_summary", "We look for a needle"),
        ("agent.final_answer", "It is in the hay"),
    ]
    (session,) = index.all("SELECT * FROM sessions")
    assert (session["native_id"], session["name"]) == ("s1", "A session")
    (loop,) = index.all("SELECT * FROM loops")
    assert orjson.loads(loop["usage"]) == {
        "input": 100, "cached": 80, "output": 7, "reasoning": 2,
    }  # fmt: skip
    assert orjson.loads(loop["model"]) == {"id": "m-1", "effort": "high", "context_window": 200_000}
    assert orjson.loads(loop["end"])["outcome"] == "completed"
    assert items[3][3]["call_item_id"] == items[2][0]


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_any_cutting_into_appends_gives_the_same_index(index, conversation, tmp_path, steps):
    index.write("a.jsonl", *conversation)
    index.sync()
    expected = index.dump()
    other = index.another(tmp_path / "other")
    for start in range(0, len(conversation), steps):
        other.write("a.jsonl", *conversation[start : start + steps], mode="a")
        other.sync()
    found = other.dump()
    expected["sources"][0]["locator"] = found["sources"][0]["locator"]
    assert found == expected


def test_an_unchanged_file_is_not_opened(index, conversation):
    path = index.write("a.jsonl", *conversation)
    index.sync()
    stat = path.stat()
    path.write_bytes(b"x" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert index.sync().actions["unchanged"] == 1
    assert index.sync(verify=True).actions["skipped"] == 1
    assert len(index.all("SELECT * FROM sessions")) == 1  # the old publication stays


def test_an_append_reads_only_what_came(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    before = index.dump()
    index.write("a.jsonl", {"t": "item", "role": "runtime.notice", "text": "late"}, mode="a")
    report = index.sync()
    assert report.actions["appended"] == 1
    assert (report.records, report.items) == (1, 1)
    after = index.dump()
    for name in ("records", "items", "loops", "sessions"):
        assert after[name][: len(before[name])] == before[name], name


def test_an_unfinished_line_waits_and_costs_nothing_meanwhile(index, conversation):
    path = index.write("a.jsonl", *conversation)
    with path.open("ab") as file:
        file.write(b'{"t": "item", "role": "runtime.not')
    assert index.sync().incomplete == 1
    count = len(index.all("SELECT * FROM records"))
    assert count == len(conversation)
    report = index.sync()
    assert (report.actions["unchanged"], report.incomplete) == (1, 1)
    with path.open("ab") as file:
        file.write(b'ice", "text": "whole"}\n')
    report = index.sync()
    assert (report.actions["appended"], report.incomplete) == (1, 0)
    assert index.items()[-1][2] == "whole"


def test_a_rewrite_keeps_ids_by_their_keys_and_reuses_none(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    before = {row["item_id"]: row["semantic"] for row in index.all("SELECT * FROM items")}
    gone = conversation[:5] + conversation[6:]  # later lines move up; calls keep their keys
    index.write("a.jsonl", *gone)
    assert index.sync().actions["rebuilt"] == 1
    after = {row["item_id"]: row["semantic"] for row in index.all("SELECT * FROM items")}
    call = [key for key, semantic in before.items() if "tool_call" in semantic]
    assert call == [key for key, semantic in after.items() if "tool_call" in semantic]
    index.write("a.jsonl", conversation[0])
    index.sync()
    index.write("a.jsonl", *gone)
    index.sync()
    again = {row["item_id"]: row["semantic"] for row in index.all("SELECT * FROM items")}
    assert not set(again) & set(after)
    assert [row["session_id"] for row in index.all("SELECT * FROM sessions")] == [1]


def test_a_rebuild_changes_nothing(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    before = index.dump()
    report = index.sync(rebuild=True)
    assert (report.actions["rebuilt"], report.orphans) == (1, 0)
    assert index.dump() == before
    assert index.all("SELECT rowid FROM item_search(trigram_query('haystack'))") != []


def test_the_same_bytes_written_anew_are_no_change(index, conversation):
    path = index.write("a.jsonl", *conversation)
    index.sync()
    before = index.dump()
    os.utime(path, ns=(1, 1))
    assert index.sync().actions["unchanged"] == 1
    assert index.sync().actions["unchanged"] == 1
    path.unlink()
    index.write("a.jsonl", *conversation)
    index.sync()
    assert index.dump() == before


def test_a_change_in_the_middle_of_the_same_length_is_seen(index, conversation):
    path = index.write("a.jsonl", *conversation)
    index.sync()
    path.write_bytes(path.read_bytes().replace(b"needle in", b"noodle in"))
    assert index.sync().actions["rebuilt"] == 1
    assert index.all("SELECT rowid FROM item_search(trigram_query('noodle'))")
    assert not index.all("SELECT rowid FROM item_search(trigram_query('needle in'))")


def test_a_rewrite_of_the_same_size_and_time_is_found_by_verify_alone(index, conversation):
    path = index.write("a.jsonl", *conversation)
    index.sync()
    found = os.stat(path)
    data = path.read_bytes().replace(b"needle in", b"noodle in")
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    noodles = "SELECT rowid FROM item_search(trigram_query('noodle'))"
    assert index.sync().actions["unchanged"] == 1
    assert index.all(noodles) == []
    assert index.sync(verify=True).actions["rebuilt"] == 1
    assert index.all(noodles)
    assert index.sync(verify=True).actions["unchanged"] == 1


def test_what_vanished_keeps_its_facts(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    before = index.dump()
    (index.traces / "a.jsonl").unlink()
    index.sync(rebuild=True)
    assert index.dump() == before


def test_what_vanishes_while_a_sync_runs_is_no_failure(index, conversation):
    index.write("a.jsonl", *conversation)
    last = index.write("b.jsonl", {**conversation[0], "id": "s2"})
    report = sync(
        index.path, [str(index.traces)], index.readers, progress=lambda _: last.unlink(True)
    )
    assert report.actions == {**dict.fromkeys(report.actions, 0), "indexed": 1}
    assert (report.discovered, report.total) == (1, 1)
    assert index.all("SELECT native_id FROM sessions") == [{"native_id": conversation[0]["id"]}]
    # The next sync goes on from there.
    index.write("b.jsonl", {**conversation[0], "id": "s2"})
    assert index.sync().actions["indexed"] == 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_directory_that_becomes_a_link_while_a_sync_runs_is_not_followed(
    index, conversation, tmp_path, known, whole
):
    """Whether it is one below the root, or the root itself."""
    place = index.traces / "deep"
    place.mkdir()
    index.write("deep/z.jsonl", {**conversation[0], "id": "z"})
    if known:
        index.sync()
        index.write("deep/z.jsonl", {"t": "note", "text": "more"}, mode="a")
    secret = index.another(tmp_path / "secret")
    (secret.traces / "deep").mkdir()
    secret.write("deep/z.jsonl", {**conversation[0], "id": "secret"}, {"t": "note"})
    index.write("a.jsonl", *conversation)
    before = index.dump() if known else None
    swapped, there = (index.traces, secret.traces) if whole else (place, secret.traces / "deep")

    def swap(_):
        if not swapped.is_symlink():
            swapped.rename(tmp_path / "away")
            swapped.symlink_to(there)

    report = sync(index.path, [str(index.traces)], index.readers, progress=swap)
    assert swapped.is_symlink()
    assert [(one["action"], one.get("error")) for one in report.sources] == [
        ("indexed", None),
        ("failed", "a link stands in its path; it is not followed"),
    ]
    natives = {row["native_id"] for row in index.all("SELECT native_id FROM sessions")}
    assert natives == {conversation[0]["id"]} | ({"z"} if known else set())
    if before is not None:
        records = index.dump()["records"]
        assert [row for row in records if row in before["records"]] == before["records"]


@pytest.mark.parametrize("name", ["deep", "deep/deeper", "deep/deeper/a.jsonl"])
def test_what_moved_and_left_a_link_in_its_place_is_the_same_source(index, conversation, name):
    (index.traces / "deep" / "deeper").mkdir(parents=True)
    path = index.write("deep/deeper/a.jsonl", *conversation)
    index.sync()
    before = index.dump()
    place, there = index.traces / name, index.traces / "there.jsonl"
    place.rename(there)
    place.symlink_to(there)
    assert index.sync().actions["unchanged"] == 1
    after = index.dump()
    assert after["sources"][0].pop("locator") == str(path.resolve()) != str(path)
    del before["sources"][0]["locator"]
    assert after == before


def test_where_the_place_tells_the_session_a_file_elsewhere_is_another_source(
    index, conversation, acme
):
    index.readers["acme"] = attrs.evolve(
        acme.READER, identity=lambda path: os.path.basename(path).partition(".")[0]
    )
    index.write("a.jsonl", *conversation)
    index.sync()
    (index.traces / "a.jsonl").rename(index.traces / "b.jsonl")
    assert index.sync().actions["indexed"] == 1
    (index.traces / "below").mkdir()
    (index.traces / "b.jsonl").rename(index.traces / "below" / "b.jsonl")
    assert index.sync().actions["unchanged"] == 1
    found = [os.path.relpath(row["locator"], index.traces) for row in index.dump()["sources"]]
    assert found == ["a.jsonl", "below/b.jsonl"]


@pytest.mark.parametrize("name", ["a.jsonl.zst", "a.jsonl", "b.jsonl"])
def test_a_file_that_was_moved_renamed_or_compressed_is_the_same_source(index, conversation, name):
    path = index.write("a.jsonl", *conversation)
    index.sync()
    before = index.dump()
    there = index.traces / "archived"
    there.mkdir()
    target = there / name
    data = path.read_bytes()
    target.write_bytes(zstandard.compress(data) if name.endswith(".zst") else data)
    path.unlink()
    index.sync()
    after = index.dump()
    assert after["sources"][0].pop("locator") == str(target)
    del before["sources"][0]["locator"]
    assert after == before
    assert index.sync().actions["unchanged"] == 1


def test_another_file_of_the_same_name_is_no_vanished_source(index, conversation):
    """Some runtimes call every file the same, and begin each with the same line."""
    for name in ("one", "two", "three"):
        (index.traces / name).mkdir()
        more = {"t": "note", "text": name}
        index.write(f"{name}/log.jsonl", {"t": "note"}, *conversation, more)
        index.sync()
        if name == "two":
            moved = index.traces / name / "log.jsonl"
            (index.traces / "elsewhere").mkdir()
            moved.rename(index.traces / "elsewhere" / "log.jsonl")
        else:
            (index.traces / name / "log.jsonl").unlink()
    index.sync()
    locators = [row["locator"] for row in index.all("SELECT locator FROM sources ORDER BY 1")]
    assert [path.split("/")[-2] for path in locators] == ["elsewhere", "one", "three"]


def test_a_file_without_a_session_leaves_nothing_and_is_not_opened_again(index, conversation):
    index.write("a.jsonl", {"t": "note"}, *conversation[2:5])
    index.write("b.jsonl", {"unknown": 1})
    index.write("c.jsonl", b"no json")
    (index.traces / "d.jsonl").write_bytes(b'{"t": "session"')
    index.write("e.jsonl", *conversation, {"t": "session", "id": "another"})
    report = index.sync().plain()
    assert report["skipped_files"] == 5
    assert {one["error"] for one in report["source_results"]} == {
        "no line confirms a session",
        "its first line is of no known runtime",
        "its first line is malformed",
        "it has no complete first line yet",
        "its lines confirm more than one session",
    }
    assert all(rows == [] for rows in index.dump().values())
    assert index.sync().actions["skipped"] == 5
    index.write("d.jsonl", *conversation)
    assert index.sync().actions["indexed"] == 1


def test_a_reader_that_fails_takes_no_other_source_down(index, conversation):
    index.write("a.jsonl", *conversation[:6], {"t": "crash"})
    index.write("b.jsonl", *conversation)
    report = index.sync().plain()
    assert (report["failed_files"], report["indexed_files"]) == (1, 1)
    (failed,) = report["source_results"]
    assert failed["error"] == "its reader raised RuntimeError"
    assert len(index.all("SELECT * FROM sources")) == 1
    assert len(index.all("SELECT * FROM blobs")) == 11


@pytest.mark.parametrize(
    "record",
    [
        {"t": "item", "role": "no.such.role"},
        {"t": "item", "role": "agent.reasoning"},
        {"t": "item", "role": "agent.reasoning", "value": {"representation": "full"}},
        {"t": "item", "role": "tool.output", "value": {"exit_code": "1"}},
        {"t": "item", "role": "tool.output", "value": {"colour": "red"}},
        {"t": "item", "role": "human.request", "outside": True},
        {"t": "item", "role": "runtime.context", "value": {"category": "project"}},
        {"t": "item", "role": "runtime.notice", "witnesses": [999]},
        {"t": "end", "outcome": "well"},
    ],
)
def test_a_value_that_is_not_its_roles_fails_its_source(index, conversation, record):
    index.write("a.jsonl", *conversation[:6], record)
    assert index.sync().actions["failed"] == 1


def test_a_lone_surrogate_does_not_poison_its_source(index, conversation):
    surrogate = {"t": "item", "role": "runtime.notice", "text": "a\ud800b"}
    call = {"t": "call", "id": "c9", "tool": "sh", "args": {"command": "echo \udfff", "n": 2**70}}
    raw = {"t": "call", "id": "c8", "tool": "x", "args": '{"a": "\\ud800"}'}
    index.write("a.jsonl", *conversation[:6], surrogate, call, raw)
    assert index.sync().actions["indexed"] == 1
    found = index.items()
    assert ("runtime.notice", "a\ufffdb") in [(role, text) for _, role, text, _ in found]
    call, raw = found[-2][3], found[-1][3]
    assert call["shell_fragments"][0]["text"]["value"] == "echo \ufffd"
    assert call["arguments"] == {"command": "echo \ufffd", "n": 2**70}
    assert raw["arguments"] == {"a": "\ufffd"}


def test_the_same_text_is_kept_once_across_sources(index, conversation):
    other = [{**conversation[0], "id": "s3"}, *conversation[1:]]
    index.write("a.jsonl", *conversation)
    index.write("b.jsonl", *other)
    index.sync()
    assert len(index.all("SELECT * FROM blobs")) == 11


def test_two_sources_of_one_session_are_ordered_by_time(index):
    def part(at, loop):
        begin = {"t": "begin", "loop": loop, "at": at}
        return [{"t": "session", "id": "s"}, begin, {"t": "human", "text": loop, "at": at}]

    index.write("z.jsonl", *part(1_790_000_000_000, "first"))
    index.write("a.jsonl", *part(1_790_000_009_000, "last"), {"t": "begin", "loop": "timeless"})
    index.sync()
    rows = index.all(
        "SELECT session_position, text FROM loops JOIN items USING (loop_id) "
        "JOIN blobs ON blob_id = json_extract(semantic, '$.value.text.blob_id') ORDER BY 1"
    )
    assert [tuple(row.values()) for row in rows] == [(0, "first"), (1, "last")]
    assert index.all("SELECT max(session_position) AS n FROM loops") == [{"n": 2}]
    (session,) = index.all("SELECT source_ids FROM sessions")
    assert len(orjson.loads(session["source_ids"])) == 2


def test_links_resolve_whenever_their_target_comes(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    delegation = next(value for _, role, _, value in index.items() if role == "agent.delegation")
    assert "child_session_id" not in delegation
    index.write("b.jsonl", {"t": "session", "id": "s2", "delegated_from": {"native_id": "s1"}})
    locator = str(index.traces / "a.jsonl")
    index.write("c.jsonl", {"t": "session", "id": "s3", "forked_from": {"locator": locator}})
    index.write("d.jsonl", {"t": "session", "id": "s4", "forked_from": {"native_id": "s4"}})
    index.sync()
    sessions = {row["native_id"]: row for row in index.all("SELECT * FROM sessions")}
    target = sessions["s2"]["session_id"]
    values = {role: value for _, role, _, value in index.items()}
    assert values["agent.delegation"]["child_session_id"] == target
    assert values["subagent.report"]["source_session_id"] == target
    first = sessions["s1"]["session_id"]
    assert orjson.loads(sessions["s2"]["delegated_from"])["session_id"] == first
    assert orjson.loads(sessions["s3"]["forked_from"])["session_id"] == first
    assert sessions["s4"]["forked_from"] is None
    index.write("b.jsonl", {"t": "session", "id": "s2b"})
    index.sync()
    values = {role: value for _, role, _, value in index.items()}
    assert "child_session_id" not in values["agent.delegation"]


def test_an_item_that_is_said_anew_keeps_no_reference_of_before(index, conversation):
    delegation = {"t": "item", "key": "k", "role": "agent.delegation", "session": "s2"}
    output = {"t": "output", "id": "c7", "text": "x"}
    notice = {"t": "item", "role": "runtime.notice", "text": "x"}
    index.write("a.jsonl", *conversation, delegation, output)
    index.sync()
    again = [{**notice, "key": "k"}, {**notice, "key": "out:c7"}]
    recast = {"t": "amend", "key": "out:c8", "role": "runtime.notice"}
    again += [{**output, "id": "c8"}, recast, {"t": "call", "id": "c8"}]
    index.write("a.jsonl", *again, {"t": "call", "id": "c7"}, mode="a")
    index.write("b.jsonl", {"t": "session", "id": "s2"})
    index.sync()
    values = [value for _, role, _, value in index.items() if role == "runtime.notice"]
    assert len(values) == 4
    assert all(set(value) == {"text", "has_images"} for value in values)


def test_the_bounds_of_the_first_sync_stay(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync(max_text_bytes=10, max_record_bytes=100_000)
    assert max(len(row["text"].encode()) for row in index.all("SELECT text FROM blobs")) == 10
    with pytest.raises(UsageError, match="records of 100000 and texts of 10 bytes"):
        index.sync(max_text_bytes=11, rebuild=True)
    assert index.sync().policy == (100_000, 10)


def test_an_argument_over_the_bound_is_left_to_its_record(index, conversation):
    call = {"t": "call", "id": "c9", "tool": "sh", "args": {"command": "echo " + "x" * 90}}
    index.write("a.jsonl", *conversation[:4], call)
    index.sync(max_text_bytes=64)
    value = index.items()[-1][3]
    assert "arguments" not in value
    fragment = value["shell_fragments"][0]
    assert (len(fragment["text"]["value"]), fragment["text"]["full_bytes"]) == (64, 95)
    assert fragment["completeness"] == "partial"


def test_an_oversized_record_is_kept_as_a_place_and_not_read(index, conversation):
    index.write("a.jsonl", *conversation, {"t": "crash", "x": "y" * 5000})
    report = index.sync(max_record_bytes=4000)
    assert (report.oversized, report.actions["indexed"]) == (1, 1)
    assert len(index.all("SELECT * FROM records")) == len(conversation) + 1


def test_a_changed_item_is_found_by_what_it_is_now(index, conversation):
    told = {"t": "item", "key": "k", "role": "runtime.unknown", "text": "a curious text"}
    index.write("a.jsonl", *conversation, told)
    index.sync()
    query = "SELECT rowid FROM item_search(trigram_query('curious'))"
    assert index.all(query) == []
    index.write(
        "a.jsonl", {"t": "amend", "key": "k", "role": "human.steering", "loop": "l1"}, mode="a"
    )
    index.sync()
    assert len(index.all(query)) == 1
    (item,) = index.items(
        "json_extract(semantic, '$.role') = 'human.steering' AND text LIKE 'a c%'"
    )
    assert item[3]["has_images"] is False
    (row,) = index.all("SELECT record_ids FROM items WHERE item_id = ?", item[0])
    assert len(orjson.loads(row["record_ids"])) == 2
    index.write("a.jsonl", {"t": "amend", "key": "k", "text": "another text"}, mode="a")
    index.sync()
    assert index.all(query) == []
    index.write("a.jsonl", {"t": "drop", "key": "k"}, mode="a")
    index.sync()
    assert index.all("SELECT rowid FROM item_search(trigram_query('another'))") == []


def test_an_item_that_moves_takes_its_place_by_its_first_line(index, conversation):
    begin = {"t": "begin", "loop": "l2"}
    early = {"t": "item", "key": "k", "role": "runtime.notice", "text": "early"}
    late = {"t": "item", "role": "runtime.notice", "text": "late"}
    move = {"t": "amend", "key": "k", "loop": "l2"}
    for records in ([*conversation, early, begin, late, move], [{"t": "drop", "key": "k"}]):
        index.write("a.jsonl", *records, mode="a")
        index.sync()
    notices = index.all(
        "SELECT loop_position FROM items JOIN loops USING (loop_id) WHERE session_position = 1"
    )
    assert notices == [{"loop_position": 0}]


def test_a_call_that_follows_its_output_is_named_too(index, conversation):
    output = {"t": "output", "id": "c7", "text": "first"}
    index.write("a.jsonl", *conversation, output)
    index.sync()
    assert "call_item_id" not in index.items()[-1][3]
    index.write("a.jsonl", {"t": "call", "id": "c7", "tool": "x"}, mode="a")
    index.sync()
    out, call = index.items()[-2:]
    assert out[3]["call_item_id"] == call[0]
    index.write("a.jsonl", {"t": "drop", "key": "call:c7"}, mode="a")
    index.sync()
    assert "call_item_id" not in index.items()[-1][3]


def test_orphaned_texts_are_collected_by_a_rebuild(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    index.write("a.jsonl", *conversation[:4])
    index.sync()
    assert len(index.all("SELECT * FROM blobs")) > 2
    assert index.sync(rebuild=True).orphans == 9
    assert len(index.all("SELECT * FROM blobs")) == 2


def test_an_index_of_another_format_is_refused_untouched(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    with sqlite3.connect(index.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DataError, match="storage format 99"):
        index.sync()
    with pytest.raises(DataError, match="storage format 99"):
        index.all("SELECT 1")


@pytest.mark.parametrize("version", [0, STORAGE_FORMAT])
def test_a_database_of_somebody_else_is_refused_untouched(index, version):
    with sqlite3.connect(index.path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = pathlib.Path(index.path).read_bytes()
    with pytest.raises(DataError, match="is the database of another program"):
        index.sync()
    assert pathlib.Path(index.path).read_bytes() == before


def test_a_path_with_special_characters_is_a_path(index, tmp_path, conversation):
    odd = index.another(tmp_path / "a b?mode=rw#x%20y")
    odd.write("ü?#%.jsonl", *conversation)
    odd.sync()
    assert odd.all("SELECT locator FROM sources") == [{"locator": str(odd.traces / "ü?#%.jsonl")}]


def test_everything_the_index_writes_is_private(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    for path in pathlib.Path(index.path).parent.glob("index.sqlite3*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_reader_that_trips_over_a_head_leaves_it_to_others(index, conversation, acme):
    index.readers["clumsy"] = attrs.evolve(
        acme.READER, runtime="clumsy", detect=lambda head: head["no such key"]
    )
    index.write("a.jsonl", *conversation)
    assert index.sync().actions["indexed"] == 1


def test_a_head_that_two_readers_claim_is_nobodys(index, conversation, acme):
    index.readers["twin"] = attrs.evolve(acme.READER, runtime="twin")
    index.write("a.jsonl", *conversation)
    (result,) = index.sync().sources
    assert (result["action"], result["error"]) == ("skipped", "its first line fits acme and twin")


def test_a_new_version_of_a_reader_reads_what_changed_anew(index, conversation, acme):
    index.write("a.jsonl", *conversation)
    index.write("b.jsonl", {**conversation[0], "id": "s3"})
    index.sync()
    index.readers["acme"] = attrs.evolve(acme.READER, version=2)
    index.write("a.jsonl", {"t": "note"}, mode="a")
    report = index.sync()
    assert (report.actions["rebuilt"], report.actions["unchanged"]) == (1, 1)


def test_what_is_said_before_the_session_is_kept_until_it_is_confirmed(index, conversation):
    head, *rest = conversation
    index.write("a.jsonl", {"t": "note"}, *rest, head)
    index.sync()
    assert len(index.items()) == 12
    begin = {"t": "begin", "loop": "l"}
    many = [begin] + [{"t": "human", "text": str(number)} for number in range(10_000)]
    index.write("b.jsonl", {"t": "note"}, *many, {"t": "session", "id": "late"})
    (result,) = [one for one in index.sync().sources if one["action"] == "skipped"]
    assert "as far as it was read" in result["error"]


def test_a_source_larger_than_what_waits_in_memory_is_whole(index, conversation):
    """More items, records and texts than are held at a time; corrections reach back to them."""
    notes = [
        {"t": "item", "key": f"k{n}", "role": "runtime.notice", "text": f"{n} " + "x" * 4000}
        for n in range(2_500)
    ]
    quiet = [{"t": "note"}] * 6_000
    fixes = [
        {"t": "amend", "key": "k7", "text": "mended"},
        {"t": "drop", "key": "k8"},
        {"t": "output", "id": "c1", "text": "said anew"},
    ]
    index.write("a.jsonl", *conversation, *notes, *quiet, *fixes)
    assert index.sync().actions["indexed"] == 1
    texts = [text for _, _, text, _ in index.items()]
    assert len(texts) == 12 + 2_499
    assert "mended" in texts
    assert "said anew" in texts
    assert "hay/needle" not in texts
    count = index.all("SELECT count(*) AS n FROM records")[0]["n"]
    assert count == len(conversation) + 2_500 + 6_000 + 3
    assert index.sync(rebuild=True).orphans == 3


def test_a_search_index_that_is_damaged_says_what_to_do(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    with sqlite3.connect(index.path) as connection:
        connection.execute("DROP TABLE item_search_config")
    connection.close()
    with pytest.raises(DataError, match="move it away and sync anew"):
        index.all("SELECT 1")
    with pytest.raises(DataError, match="move it away and sync anew"):
        index.sync()


def test_the_report_counts_each_item_and_loop_once(index, conversation):
    said = [
        {"t": "item", "key": "a", "role": "agent.commentary", "text": "once"},
        {"t": "item", "key": "a", "role": "agent.commentary", "text": "anew"},
        {"t": "item", "key": "b", "role": "agent.commentary", "text": "gone"},
        {"t": "amend", "key": "a", "text": "mended"},
        {"t": "drop", "key": "b"},
        {"t": "begin", "loop": "none"},
        {"t": "drop", "key": "none", "loop": True},
    ]
    index.write("a.jsonl", *conversation, *said)
    for options in ({}, {"rebuild": True}):
        told = index.sync(**options).plain()
        items = index.all("SELECT count(*) AS n FROM items")[0]["n"]
        loops = index.all("SELECT count(*) AS n FROM loops")[0]["n"]
        writes = told["metrics"]["writes"]
        assert (told["indexed_items"], writes["items"], writes["loops"]) == (items, items, loops)
    index.write("a.jsonl", {"t": "amend", "key": "a", "text": "again"}, mode="a")
    assert index.sync().items == 1


def test_a_file_that_became_garbage_keeps_its_facts_which_verify_finds_missing(index, conversation):
    index.write("a.jsonl", *conversation)
    index.sync()
    before = index.items()
    index.write("a.jsonl", b"garbage")
    for options in ({}, {"rebuild": True}):
        assert index.sync(**options).actions["skipped"] == 1
        assert index.items() == before
    (record_id,) = index.all("SELECT max(record_id) AS id FROM records")[0].values()
    assert verify(index.path, record_id)["status"] != "verified"
