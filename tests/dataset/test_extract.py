from __future__ import annotations

import itertools
import json
import os
import pathlib

import pytest
import zstandard
from toy_agent import TOY, Store, call, lines, result, session

from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
from yarp.dataset.report import issues
from yarp.errors import PluginError, UsageError
from yarp.sources.facts import Issue, Rejected
from yarp.sources.importers import Importer, SourceItem


def with_version(number):
    return Importer(
        "toy",
        adapter_version=number,
        options=TOY.options,
        discover=TOY.discover,
        read=TOY.read,
    )


def test_calls_and_results_are_kept_with_their_place(store):
    store.write("a.jsonl", session("s", 5), call("c", at=7), result("c", "out", error=False, at=8))
    report = store.extract()
    assert (report.found, report.written.calls, report.written.results) == (1, 1, 1)
    assert store.calls() == [("s", "c", '{"cmd":"c"}', "out")]
    assert store.rows(
        "SELECT record_kind, native_record_kind, line_number, byte_offset,"
        " record_sha256 FROM observations ORDER BY line_number"
    ) == [
        ("canonical", "call", 2, 40, digest(call("c", at=7))),
        (
            "canonical",
            "result",
            3,
            40 + len(lines(call("c", at=7))),
            digest(result("c", "out", error=False, at=8)),
        ),
    ]


def digest(record):
    import hashlib

    return hashlib.sha256(lines(record)[:-1]).digest()


def test_a_second_unchanged_run_inserts_nothing(store):
    store.write("a.jsonl", session("s"), call("c"), result("c"))
    store.extract()
    before = store.everything()
    report = store.extract()
    assert (report.unchanged, report.written.items, report.written.calls) == (1, 0, 0)
    assert store.everything() == before


def test_a_file_touched_but_equal_is_not_read_again(store):
    path = store.write("a.jsonl", session("s"), call("c"))
    store.extract()
    os.utime(path, ns=(5, 5))
    report = store.extract()
    assert (report.written.touched, report.written.items) == (1, 0)
    assert store.rows("SELECT snapshot_mtime_ns FROM source_items") == [(5,)]
    assert store.extract().unchanged == 1


def test_an_append_adds_what_is_new_and_leaves_the_rest(store):
    store.write("a.jsonl", session("s"), call("c"), tail=b'{"type":')
    store.extract()
    assert store.rows("SELECT status FROM source_items") == [("deferred",)]
    store.append("a.jsonl", b'"call", "id": "d"}', result("c"))
    report = store.extract()
    assert (report.written.calls, report.written.results, report.written.observations) == (1, 1, 2)
    assert store.calls() == [("s", "c", '{"cmd":"c"}', "out"), ("s", "d", "{}", None)]
    assert store.rows("SELECT status FROM source_items") == [("complete",)]
    assert store.issues() == []


@pytest.mark.parametrize("keep_times", [False, True])
def test_a_replaced_file_loses_what_it_holds_no_more(store, keep_times):
    path = store.write("a.jsonl", session("s"), call("c"), result("c"))
    store.extract()
    found = path.stat()
    store.write("a.jsonl", session("s"), call("d"), result("d"))
    if keep_times:
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    report = store.extract()
    assert report.written.dropped == 2
    assert [row[1] for row in store.calls()] == ["d"]
    assert store.issues() == [("checkpoint_reset", None, 1)]


def test_a_newer_adapter_reads_again(store):
    store.write("a.jsonl", session("s"), call("c"))
    store.extract()
    assert store.extract(with_version(2)).written.items == 1
    assert store.extract(with_version(2)).unchanged == 1
    assert store.rows("SELECT adapter_version FROM source_items") == [(2,)]
    assert store.issues() == []


def test_unequal_results_of_one_call_stay_apart(store):
    store.write(
        "a.jsonl",
        session("s"),
        call("c"),
        result("c", "one"),
        result("c", "two"),
        result("c", "one"),
    )
    store.extract()
    assert store.rows(
        "SELECT output_text, variant_count, result_observation_count FROM tool_call_conflicts ORDER BY 1"
    ) == [
        ("one", 2, 2),
        ("two", 2, 1),
    ]
    assert store.rows("FROM tool_calls_flat") == []


def test_equal_results_are_one_and_the_earliest_time_counts(store):
    store.write(
        "a.jsonl", session("s"), call("c"), result("c", at=9), result("c", at=3), result("c")
    )
    store.extract()
    assert store.rows("SELECT returned_at_ms FROM tool_results") == [(3,)]
    assert store.rows(
        "SELECT call_observation_count, result_observation_count FROM tool_calls_flat"
    ) == [(1, 3)]


def test_an_unresolved_result_waits_for_its_call(store):
    store.write("a.jsonl", session("s"), result("late"))
    store.extract()
    assert store.rows(
        "SELECT count(*) FROM tool_results ANTI JOIN tool_calls USING (call_key)"
    ) == [(1,)]
    store.append("a.jsonl", call("late"))
    store.extract()
    assert store.calls() == [("s", "late", '{"cmd":"late"}', "out")]


def test_an_unresolved_result_right_behind_a_malformed_record_is_set_apart(store):
    store.write(
        "a.jsonl", session("s"), b"{", result("x"), result("y"), call("z"), b"{", result("z")
    )
    store.extract()
    assert store.issues() == [
        ("malformed_jsonl", 2, 1),
        ("malformed_jsonl", 6, 1),
        ("result_without_call", 3, 1),
    ]
    assert store.rows("SELECT count(*) FROM tool_results") == [(2,)]


def test_a_result_that_was_set_apart_comes_back_with_its_call(store):
    store.write("a.jsonl", session("s"), b"{", result("x"))
    store.extract()
    store.write("b.jsonl", session("t"), call("x", session="t", identity=["s", "x"]))
    store.extract()
    assert [row[1:] for row in store.calls()] == [("x", '{"cmd":"x"}', "out")]
    assert ("result_without_call", 3, 1) not in store.issues()


def test_pairs_across_files_are_found_in_any_order(store):
    store.write("a.jsonl", session("s"), result("x"))
    store.write("b.jsonl", session("s"), call("x"))
    store.extract()
    assert store.calls() == [("s", "x", '{"cmd":"x"}', "out")]


ORIGIN = [
    session("origin", 10),
    call("c", copy=["u1"], at=11),
    result("c", "same", at=12),
    call("d", copy=["u2"]),
]
FORK = [
    session("fork", 20),
    call("c", copy=["u1"], at=21),
    result("c", "same", at=22),
    result("d", "only here", copy=["u2"]),
    call("e", copy=["u3"]),
]
FORK_OF_FORK = [
    session("child", 30),
    call("c", copy=["u1"]),
    result("c", "other"),
    call("e", copy=["u3"]),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_copies_count_once_whatever_the_order_of_import(new_store, order):
    files = {"m.jsonl": ORIGIN, "k.jsonl": FORK, "x.jsonl": FORK_OF_FORK}
    once, apart = new_store(), new_store()
    for name, records in files.items():
        once.write(name, *records)
    once.extract()
    for place in order:
        name = list(files)[place]
        apart.write(name, *files[name])
        apart.extract()
    assert once.calls() == [
        ("fork", "e", '{"cmd":"e"}', None),
        ("origin", "c", '{"cmd":"c"}', "other"),
        ("origin", "c", '{"cmd":"c"}', "same"),
        ("origin", "d", '{"cmd":"d"}', "only here"),
    ]
    assert once.rows(
        "SELECT call_observation_count FROM tool_calls_flat ORDER BY native_call_id"
    ) == [(1,), (2,)]
    assert without_places(apart) == without_places(once)
    assert once.rows("SELECT count(*) FROM observations") == [(10,)]


def without_places(store):
    """All rows, but for what hangs on the directory that the store lies in."""
    return {
        table: store.rows(f"SELECT {columns} FROM {table} ORDER BY ALL")
        for table, columns in {
            "sessions": "*",
            "tool_calls": "*",
            "tool_results": "*",
            "observations": "* EXCLUDE (observation_key, source_item_key)",
        }.items()
    }


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_one_call_in_two_sessions_the_first_session_s_row_counts(new_store, order):
    files = [
        ("z.jsonl", [session("first", 1), call("c", identity=["u"], at=1)]),
        ("a.jsonl", [session("second", 2), call("c", identity=["u"], at=2)]),
    ]
    store = new_store()
    for place in order:
        store.write(files[place][0], *files[place][1])
        store.extract()
    assert store.rows(
        "SELECT native_session_id, called_at_ms FROM tool_calls JOIN sessions USING (session_key)"
    ) == [("first", 1)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_one_call_under_two_roots_the_same_place_s_row_counts_in_any_order(new_store, order):
    """A file and another state of it under the same name, as a backup has it."""
    store = new_store()
    records = [session("s", 1), call("c", tool="one")], [session("s", 1), call("c", tool="two")]
    roots = [store.path / "one", store.path / "two"]
    for root in roots:
        root.mkdir()
    for place in order:
        (roots[place] / "a.jsonl").write_bytes(lines(*records[place]))
        with Dataset.write(store.database) as dataset:
            extract(dataset, TOY, "ann", {"sessions": str(roots[place])})
    taken = store.rows("SELECT tool_name FROM tool_calls")
    first = store.rows("""
        SELECT root_path FROM source_items JOIN source_roots USING (source_root_key)
        ORDER BY source_item_key LIMIT 1""")
    assert taken == [(first[0][0].rsplit("/", 1)[1],)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_copy_s_text_belongs_to_one_of_several_originals_in_any_order(new_store, order):
    """Two files of one session tell more of a result, each in its own way; the fork only its text."""
    told = [
        ("a.jsonl", session("origin", 10), {"from": "a"}),
        ("b.jsonl", session("origin", 10), {"from": "b"}),
        ("c.jsonl", session("fork", 20), None),
    ]
    once, apart = new_store(), new_store()
    for store, places in ((once, range(3)), (apart, order)):
        for place in places:
            name, head, structure = told[place]
            given = {} if structure is None else {"json": structure}
            store.write(name, head, call("x", copy=["u"]), {**result("x", copy=["u"]), **given})
            if store is apart:
                store.extract()
    once.extract()
    assert once.rows("SELECT count(*), count(output_json) FROM tool_results") == [(2, 2)]
    assert without_places(apart) == without_places(once)


def test_when_the_origin_drops_a_call_its_copy_takes_over(store):
    store.write("a.jsonl", *ORIGIN)
    store.write("b.jsonl", *FORK)
    store.write("c.jsonl", session("s1", 1), call("k", identity=["u"], at=1))
    store.write("d.jsonl", session("s2", 2), call("k", identity=["u"], at=2))
    store.extract()
    store.write("a.jsonl", session("origin", 10), call("other"))
    store.write("c.jsonl", session("s1", 1))
    store.extract()
    assert ("fork", "c", '{"cmd":"c"}', "same") in store.calls()
    assert ("s2", "k", '{"cmd":"k"}', None) in store.calls()
    assert not [row for row in store.calls() if row[0] in ("origin", "s1") and row[1] != "other"]


def test_a_canonical_record_s_row_counts_before_a_projection_s(store):
    store.write("a.jsonl", session("s"), call("c", kind="projection", tool="projected"))
    store.write("b.jsonl", session("s"), call("c", tool="true"))
    store.extract()
    assert store.rows("SELECT tool_name FROM tool_calls") == [("true",)]


def test_rows_survive_the_deletion_of_their_source(store):
    path = store.write("a.jsonl", session("s"), call("c"), result("c"))
    store.write("b.jsonl", session("t"), call("d"))
    store.extract()
    before = store.calls()
    data = path.read_bytes()
    path.unlink()
    assert store.extract().vanished == 1
    assert store.extract().vanished == 0
    assert store.calls() == before
    assert store.issues() == [("source_vanished", None, 1)]
    path.write_bytes(data)
    store.extract()
    assert store.calls() == before
    assert store.issues() == []


def test_an_unsupported_source_is_an_issue_and_the_others_are_imported(store):
    store.write("a.jsonl", {"type": "nonsense"})
    store.write("b.jsonl", session("s"), call("c"))
    assert store.extract().written.rejected == 1
    assert store.issues() == [("unsupported_toy_source", None, 1)]
    assert len(store.calls()) == 1
    assert store.extract().unchanged == 2


def test_an_importer_s_fault_costs_its_item_alone_and_quotes_nothing(store):
    store.write("a.jsonl", session("s"), call("a"), {"type": "raise"})
    store.write("b.jsonl", session("s"), call("b"))
    store.extract()
    assert [row[1] for row in store.calls()] == ["b"]
    assert store.rows("SELECT code, severity, message FROM import_issues") == [
        ("importer_fault", "error", "its importer raised KeyError")
    ]


@pytest.mark.parametrize(
    "fact",
    [
        call("x", at=2**70),
        call("x", at="yesterday"),
        call("x", tool=["no", "name"]),
        call("x", kind="no such kind"),
        call("x", form="yaml"),
        call("x", form="text"),
        {"type": "result", "id": "x"},
        call("x", session="missing"),
        {"type": "fact"},
    ],
)
def test_a_value_that_no_row_can_hold_costs_its_item_alone(store, fact):
    store.write("a.jsonl", session("s"), call("a"), fact)
    store.write("b.jsonl", session("s"), call("b"))
    store.extract()
    assert [row[1] for row in store.calls()] == ["b"]
    assert [row[0] for row in store.issues()] == ["importer_fault"]


def test_a_rejected_item_keeps_what_it_had(store):
    store.write("a.jsonl", session("s"), call("c"))
    store.extract()
    before = store.calls()
    store.write("a.jsonl", {"type": "nonsense"})
    store.extract()
    assert store.calls() == before
    assert store.rows("SELECT status FROM source_items") == [("rejected",)]
    store.write("a.jsonl", session("s"), call("d"))
    store.extract()
    assert [row[1] for row in store.calls()] == ["d"]


def disturb(change):
    """The toy importer, whose source changes in the middle of the first reading."""
    changed = []

    def read(item):
        for number, fact in enumerate(TOY.read(item)):
            if number == 2 and not changed:
                changed.append(item.path)
                change(pathlib.Path(item.path))
            yield fact

    return Importer("toy", adapter_version=1, options=TOY.options, discover=TOY.discover, read=read)


def truncate(path):
    os.truncate(path, 60)


def replace(path):
    path.with_suffix(".new").write_bytes(lines(session("s"), call("other"), call("another")))
    path.with_suffix(".new").rename(path)


def edit(path):
    with open(path, "r+b") as file:
        file.seek(50)
        file.write(b"#")


@pytest.mark.parametrize("change", [truncate, replace, edit, os.unlink])
def test_a_source_that_changes_while_it_is_read_is_rejected_and_read_anew(store, change):
    store.write("a.jsonl", session("s"), call("c"), call("d"))
    store.write("b.jsonl", session("t"), call("e"))
    report = store.extract(disturb(change))
    assert report.written.rejected == 1
    assert [row[1] for row in store.calls()] == ["e"]
    assert store.issues() == [("source_changed_during_read", None, 1)]
    assert store.rows(
        "SELECT status, imported_byte_count FROM source_items ORDER BY relative_path"
    )[0] == ("rejected", None)
    store.write("a.jsonl", session("s"), call("c"))
    store.extract()
    assert sorted(row[1] for row in store.calls()) == ["c", "e"]
    assert store.issues() == []


def test_an_append_while_it_is_read_waits_for_the_next_run(store):
    store.write("a.jsonl", session("s"), call("c"), call("d"))

    def append(path):
        with open(path, "ab") as file:
            file.write(lines(call("late")))

    store.extract(disturb(append))
    assert [row[1] for row in store.calls()] == ["c", "d"]
    assert store.issues() == []
    store.extract()
    assert [row[1] for row in store.calls()] == ["c", "d", "late"]


def test_a_compressed_source_is_read(store):
    (store.sessions / "a.jsonl.zst").write_bytes(zstandard.compress(lines(session("s"), call("c"))))
    store.extract()
    assert [row[1] for row in store.calls()] == ["c"]
    assert store.extract().unchanged == 1


def test_many_issues_of_one_kind_are_bounded(store):
    store.write("a.jsonl", session("s"), *[b"{"] * 1760, call("c"))
    store.extract()
    found = store.issues()
    assert len(found) == 21
    assert sum(row[2] for row in found) == 1760
    assert len(store.calls()) == 1


def test_users_and_roots_stand_apart(store):
    store.write("a.jsonl", session("s"), call("c"))
    store.extract(user="ann")
    store.extract(user="bob")
    assert store.rows("SELECT count(*), count(DISTINCT call_key) FROM tool_calls") == [(2, 2)]
    assert store.rows("SELECT unix_user, source_kind FROM source_roots ORDER BY 1") == [
        ("ann", "sessions"),
        ("bob", "sessions"),
    ]


def test_numbers_and_texts_that_canonical_json_cannot_hold_are_kept_as_text(store):
    store.write(
        "a.jsonl",
        session("s"),
        b'{"type": "call", "id": "big", "input": {"n": 18446744073709551617}}',
        call("text", form="json_or_text", input='{"a": [1,'),
        call("json", form="json_or_text", input='{"b": 1, "a": 2.0}'),
        call("large", form="json_or_text", input="[123456789012345678901]"),
        call("exact", form="text", input=' {"a": 1}'),
    )
    store.extract()
    assert store.rows(
        "SELECT native_call_id, input_format, input_text FROM tool_calls ORDER BY 1"
    ) == [
        ("big", "json", '{"yarpRawJson":"{\\"n\\":18446744073709551617}"}'),
        ("exact", "text", ' {"a": 1}'),
        ("json", "json", '{"a":2,"b":1}'),
        ("large", "json", '{"yarpRawJson":"[123456789012345678901]"}'),
        ("text", "text", '{"a": [1,'),
    ]


def test_texts_are_exact_to_the_byte(store):
    text = "\r\n\ttabs\x00nul\x1b[31m é \u2028 \U0001f600" + "x" * 300_000
    store.write("a.jsonl", session("s"), call("c"), result("c", text, json={"k": text}))
    store.extract()
    ((stored, structure),) = store.rows("SELECT output_text, output_json FROM tool_results")
    assert stored == text
    import json

    assert json.loads(structure) == {"k": text}


def test_lone_surrogates_become_replacement_characters_and_an_issue(store):
    store.write(
        "a.jsonl", session("s"), call("c"), b'{"type":"result","id":"c","text":"a\\ud83db"}'
    )
    store.extract()
    assert store.calls()[0][3] == "a\ufffdb"
    assert store.issues() == [("lone_surrogate", 3, 1)]


def test_links_that_lead_out_are_not_followed(store, tmp_path):
    (tmp_path / "secret.jsonl").write_bytes(lines(session("s"), call("secret")))
    (store.sessions / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    store.extract()
    store.extract()
    assert store.calls() == []
    assert store.issues() == [("path_escape", None, 1)]
    (store.sessions / "link.jsonl").unlink()
    store.extract()
    assert store.issues() == []


def sources(store, code):
    """Where issues of this code are, below the store."""
    with Dataset.read(store.database) as dataset:
        found = [each["source"] for each in issues(dataset) if each["code"] == code]
    assert all(each.startswith(f"{store.sessions}/") for each in found)
    return [each[len(str(store.sessions)) + 1 :] for each in found]


def test_each_link_that_leads_out_is_named_until_it_does_so_no_longer(store, tmp_path):
    store.write("a.jsonl", session("s"), call("c"))
    store.write("d/b.jsonl", session("t"), call("c"))
    for name in ("one.jsonl", "d/two.jsonl", "three"):
        (store.sessions / name).symlink_to(tmp_path)
    report = store.extract()
    assert (report.found, report.written.rejected) == (5, 3)
    assert sources(store, "path_escape") == ["d/two.jsonl", "one.jsonl", "three"]
    assert store.extract().unchanged == 5
    (store.sessions / "one.jsonl").unlink()
    store.write("one.jsonl", session("u"), call("c"))
    (store.sessions / "three").unlink()
    report = store.extract()
    assert (report.found, report.written.items, report.vanished) == (4, 1, 0)
    assert sources(store, "path_escape") == ["d/two.jsonl"]
    assert store.issues() == [("path_escape", None, 1)]
    assert len(store.calls()) == 3


def test_a_source_that_gives_way_to_a_link_keeps_its_rows_and_says_so(store, tmp_path):
    path = store.write("a.jsonl", session("s"), call("c"))
    store.extract()
    path.unlink()
    path.symlink_to(tmp_path)
    store.extract()
    assert (sources(store, "path_escape"), len(store.calls())) == (["a.jsonl"], 1)
    path.unlink()
    assert store.extract().vanished == 1
    assert (store.issues(), len(store.calls())) == ([("source_vanished", None, 1)], 1)


def test_nothing_is_gone_that_lies_below_what_cannot_be_looked_into(store):
    for name in ("a.jsonl", "d/b.jsonl", "d/e/c.jsonl", "d.jsonl"):
        store.write(name, session(name), call("c"))
    store.extract()
    (store.sessions / "d.jsonl").unlink()

    def discover(roots):
        for item in TOY.discover(roots):
            if not item.relative_path.startswith("d/"):
                yield item
        refused = Issue("unreadable", "a directory cannot be read", "error")
        yield SourceItem("sessions", roots["sessions"], "d", refused=refused)

    toy = Importer("toy", adapter_version=1, options=TOY.options, discover=discover, read=TOY.read)
    assert store.extract(toy).vanished == 1
    assert sources(store, "unreadable") == ["d"]
    assert sources(store, "source_vanished") == ["d.jsonl"]
    assert store.extract().vanished == 0
    assert sources(store, "unreadable") == []


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("touched", [False, True])
def test_a_directory_that_is_swapped_for_a_link_before_it_is_read_is_not_followed(
    store, tmp_path, packed, depth, touched
):
    name = "d/e/b.jsonl" + (".zst" if packed else "")
    pack = zstandard.compress if packed else bytes
    store.write("a.jsonl", session("s"), call("c"))
    store.write(name).write_bytes(pack(lines(session("t"), call("c"))))
    secret = tmp_path / "elsewhere" / name.removeprefix("d/")
    secret.parent.mkdir(parents=True)
    secret.write_bytes(pack(lines(session("secret"), call("c"))))
    if touched:
        store.extract()
        os.utime(store.sessions / name)

    def discover(roots):
        yield from [*TOY.discover(roots)]
        swapped, by = (("d", "elsewhere"), ("d/e", "elsewhere/e"))[depth - 1]
        (store.sessions / swapped).rename(tmp_path / "before")
        (store.sessions / swapped).symlink_to(tmp_path / by)

    toy = Importer("toy", adapter_version=1, options=TOY.options, discover=discover, read=TOY.read)
    store.extract(toy)
    assert [row[0] for row in store.calls()] == (["s", "t"] if touched else ["s"])
    assert sources(store, "path_escape") == [name]


def test_a_file_whose_name_is_no_utf_8_is_imported(store):
    path = os.path.join(os.fsencode(store.sessions), b"bad\xff.jsonl")
    with open(path, "wb") as file:
        file.write(lines(session("s"), call("c")))
    store.extract()
    assert store.rows("SELECT relative_path FROM source_items") == [("bad\\xff.jsonl",)]
    assert store.extract().unchanged == 1


@pytest.mark.parametrize("order", [1, -1])
def test_files_whose_names_are_shown_alike_are_both_imported(new_store, order):
    store = new_store()
    names = [b"a\xff.jsonl", b"a\\xff.jsonl", b"a\\\\xff.jsonl", b"a\\\xff.jsonl", b"a\\y.jsonl"]
    for number, name in enumerate(names[::order]):
        with open(os.path.join(os.fsencode(store.sessions), name), "wb") as file:
            file.write(lines(session(f"s{number}"), call("c")))
    store.extract()
    assert len(store.calls()) == len(names)
    found = store.rows("SELECT source_item_key, relative_path FROM source_items ORDER BY ALL")
    assert len({path for _, path in found}) == len(names)
    # Names without anything odd are as they are.
    assert {"a\\xff.jsonl", "a\\y.jsonl"} <= {path for _, path in found}
    again = store.extract()
    assert (again.unchanged, again.vanished) == (len(names), 0)
    assert found == store.rows(
        "SELECT source_item_key, relative_path FROM source_items ORDER BY ALL"
    )


def test_roots_whose_names_are_shown_alike_are_apart(store, tmp_path):
    for name in (b"r\xff", b"r\\xff"):
        root = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
        os.mkdir(root)
        with open(os.path.join(root, "a.jsonl"), "wb") as file:
            file.write(lines(session(repr(name)), call("c")))
        with Dataset.write(store.database) as dataset:
            assert extract(dataset, TOY, "ann", {"sessions": root}).vanished == 0
    assert len(store.rows("SELECT DISTINCT root_path FROM source_roots")) == 2
    assert len(store.calls()) == 2


def test_what_an_importer_knows_of_an_item_may_hold_such_a_name(store):
    def discover(roots):
        for item in TOY.discover(roots):
            item.context = [item.relative_path, 1 << 70]
            yield item

    with open(os.path.join(os.fsencode(store.sessions), b"bad\xff.jsonl"), "wb") as file:
        file.write(lines(session("s"), call("c")))
    toy = Importer("toy", adapter_version=1, options=TOY.options, discover=discover, read=TOY.read)
    store.extract(toy)
    assert len(store.calls()) == 1
    assert store.extract(toy).unchanged == 1


def test_a_root_must_be_there(store):
    os.rmdir(store.sessions)
    with pytest.raises(UsageError, match="--sessions"):
        store.extract()


def test_sources_keep_bytes_times_and_listing(store):
    store.write("a.jsonl", session("s"), call("c"), result("c"))
    store.write("b/c.jsonl", session("t"), b"{", call("d"))

    def state():
        return {
            str(path): (
                path.stat().st_mode,
                path.stat().st_mtime_ns,
                path.is_file() and path.read_bytes(),
            )
            for path in sorted(store.sessions.rglob("*"))
        }

    before = state()
    store.extract()
    store.extract()
    assert state() == before


def test_runs_are_recorded(store):
    store.write("a.jsonl", session("s"))
    report = store.extract()
    assert store.rows("SELECT run_key, unix_user, agent, status FROM import_runs") == [
        (report.run_key, "ann", "toy", "complete")
    ]
    assert isinstance(store, Store)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Rejected("unsupported_toy_index", "no"), "unsupported_toy_index"),
        (OSError(13, "Permission denied"), "unreadable"),
    ],
)
def test_an_importer_that_cannot_look_is_an_issue_and_nothing_counts_as_gone(store, fault, code):
    store.write("a.jsonl", session("s"), call("c"))
    store.extract()

    def discover(_roots):
        raise fault

    blind = Importer(
        "toy", adapter_version=1, options=TOY.options, discover=discover, read=TOY.read
    )
    assert store.extract(blind).vanished == 0
    assert store.issues() == [(code, None, 1)]
    assert len(store.calls()) == 1
    with Dataset.read(store.database) as dataset:
        (found,) = [one["source"] for one in issues(dataset) if one["code"] == code]
    assert found == str(store.sessions)
    assert (store.extract().vanished, store.issues()) == (0, [])


def test_an_importer_that_fails_while_looking_fails_the_run(store):
    broken = Importer(
        "toy",
        adapter_version=1,
        options=TOY.options,
        discover=lambda roots: roots["none"],
        read=TOY.read,
    )
    with pytest.raises(PluginError, match="importer of toy raised KeyError"):
        store.extract(broken)
    assert store.rows("SELECT status FROM import_runs") == [("failed",)]


@pytest.mark.parametrize("depth", [900, 990, 1000, 1010, 1020, 1023, 5000])
def test_a_value_of_any_depth_is_imported_or_an_issue_and_its_neighbours_survive(store, depth):
    deep = '{"a":' * depth + "1" + "}" * depth
    lines = [json.dumps(each) for each in (session("s"), call("one"), call("two"))]
    odd = '{"type":"call","id":"deep","input":%s}'
    texts = json.dumps({"type": "call", "id": "text", "form": "json_or_text", "input": deep})
    lines[2:2] = [odd % deep, odd % deep.replace("1", "99999999999999999999"), texts]
    (store.sessions / "a.jsonl").write_text("\n".join([*lines, ""]))
    store.extract()
    found = [row[0] for row in store.rows("SELECT native_call_id FROM tool_calls ORDER BY ALL")]
    issues = store.rows("SELECT code, count(*) FROM import_issues GROUP BY 1")
    if depth < 1024:
        assert (found, issues) == (["deep", "one", "text", "two"], [])
    else:
        assert (found, issues) == (["one", "text", "two"], [("malformed_jsonl", 2)])


@pytest.mark.parametrize(
    "issue",
    [
        Issue("x", 5),
        Issue(5, "m"),
        Issue("x", "m", "bogus"),
        Issue("x", "\ud800"),
        Issue("x", "m", line_number=-1),
        Issue("x", "m", record_sha256=b"short"),
    ],
)
def test_an_issue_that_no_row_can_hold_is_a_fault_of_the_importer(store, issue):
    def refused(_item):
        raised = Rejected("x", "m")
        raised.issue = issue
        raise raised

    store.write("a.jsonl", session("s"))
    for read, discover in (
        (lambda _item: [issue], TOY.discover),
        (refused, TOY.discover),
        (TOY.read, lambda roots: [issue, *TOY.discover(roots)]),
    ):
        importer = Importer(
            "toy", adapter_version=1, options=TOY.options, discover=discover, read=read
        )
        (store.sessions / "a.jsonl").touch()
        store.extract(importer)
        assert "importer_fault" in [row[0] for row in store.issues()]
