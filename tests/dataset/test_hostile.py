"""Each hostile input gives its row of issues, and what stands beside it is imported."""

from __future__ import annotations

import json

import pytest
import zstandard
from toy_agent import call, lines, result, session

from yarp.dataset.database import Dataset
from yarp.dataset.report import verify

BEFORE = [session("s"), call("a"), result("a")]
AFTER = [call("z"), result("z")]
NEIGHBOURS = [("s", "a", '{"cmd":"a"}', "out"), ("s", "z", '{"cmd":"z"}', "out")]
MALFORMED = {
    "NUL bytes alone": b"\0" * 100_000,
    "NUL bytes before a record": b"\0\0" + lines(call("x"))[:-1],
    "two records on one line": lines(call("x"))[:-1] + lines(call("y"))[:-1],
    "half a record and a whole one": b'{"type":"call","id":' + lines(call("x"))[:-1],
    "the head of a record": b'{"type":"call","id":"x","inp',
    "bytes that are no UTF-8": b'{"type":"call","id":"x","input":"\xff\xfe"}',
    "a surrogate in UTF-8": b'{"type":"call","id":"x","input":"\xed\xa0\x80"}',
    "NaN": b'{"type":"call","id":"x","input":{"n":NaN}}',
    "nested without end": b'{"type":"call","id":"x","input":' + b"[" * 100_000 + b"}",
    "a byte order mark in the middle": b"\xef\xbb\xbf" + lines(call("x"))[:-1],
    "no JSON at all": b"\x89PNG\r\x1a",
}
KEPT = {
    "line ends of Unicode": ("x\u2028y\u0085z\r", "x\u2028y\u0085z\r"),
    "a NUL": ("x\0y", "x\0y"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_line_that_is_no_record_is_an_issue_with_its_place(store, kind):
    store.write("a.jsonl", *BEFORE, MALFORMED[kind], *AFTER)
    store.write("b.jsonl", session("t"), call("b"))
    store.extract()
    assert store.calls() == [*NEIGHBOURS, ("t", "b", '{"cmd":"b"}', None)]
    assert store.rows(
        "SELECT code, line_number, byte_offset, occurrence_count, relative_path"
        " FROM import_issues JOIN source_items USING (source_item_key)"
    ) == [("malformed_jsonl", 4, len(lines(*BEFORE)), 1, "a.jsonl")]
    assert store.rows("SELECT DISTINCT status FROM source_items") == [("complete",)]


@pytest.mark.parametrize("kind", KEPT)
def test_a_line_that_is_merely_odd_is_a_record(store, kind):
    given, kept = KEPT[kind]
    odd = json.dumps(result("a", given), ensure_ascii=False).replace("\0", "\\u0000").encode()
    store.write("a.jsonl", session("s"), call("a"), odd, *AFTER)
    store.extract()
    assert store.issues() == []
    (text,) = [row[3] for row in store.calls() if row[1] == "a"]
    assert text == kept
    assert store.calls()[1:] == NEIGHBOURS[1:]


@pytest.mark.slow
def test_lines_of_40_mb_are_a_record_and_an_issue(store):
    text = "x" * 40_000_000
    cut = b'{"type":"call","id":"x","input":"' + text.encode()
    store.write("a.jsonl", session("s"), call("a"), result("a", text), cut, *AFTER)
    store.extract()
    assert store.calls() == [("s", "a", '{"cmd":"a"}', text), NEIGHBOURS[1]]
    assert store.issues() == [("malformed_jsonl", 4, 1)]


def test_a_byte_order_mark_before_the_first_record_is_none_of_it(store):
    path = store.write("a.jsonl", *BEFORE, *AFTER)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    store.extract()
    assert store.calls() == NEIGHBOURS
    assert store.issues() == []


def test_a_number_past_64_bits_is_kept_as_its_text(store):
    odd = b'{"type":"call","id":"m","input":{"n":9223372036854775808123}}'
    store.write("a.jsonl", *BEFORE, odd, *AFTER)
    store.extract()
    assert [row for row in store.calls() if row[1] != "m"] == NEIGHBOURS
    (text,) = [row[2] for row in store.calls() if row[1] == "m"]
    assert json.loads(text) == {"yarpRawJson": '{"n":9223372036854775808123}'}


RAW = ['{"n":%s,"m":[1]}' % ("9" * 5000), '{"n":-%s}' % ("1" * 50_000), '{"n":1e400,"m":"x"}',
       '{"\\ud800":1,"\\ud801":2}', '{"n":[{"\\ud800":%s,"\\ud801":1e999}]}' % ("7" * 4301)]  # fmt: skip


@pytest.mark.parametrize("given", RAW)
@pytest.mark.parametrize("piped", [False, True])
def test_what_no_double_and_no_text_holds_is_kept_to_the_byte(store, given, piped):
    odd = f'{{"type":"call","id":"m","input":{given}}}'
    said = f'{{"type":"result","id":"m","text":"out","json":{given}}}'
    store.write("a.jsonl", *BEFORE, odd.encode(), said.encode(), *AFTER)
    if piped:
        store.pipe()
    else:
        store.extract()
    assert [row for row in store.calls() if row[1] != "m"] == NEIGHBOURS
    texts = store.rows(
        "SELECT input_format, input_text, output_json FROM tool_calls JOIN tool_results"
        " USING (call_key) WHERE native_call_id = 'm'"
    )
    ((form, *texts),) = texts
    assert form == "json"
    assert [json.loads(text) for text in texts] == [{"yarpRawJson": given}] * 2
    assert store.issues() == []
    with Dataset.read(store.database) as dataset:
        assert verify(dataset)["valid"]


def test_half_a_surrogate_pair_is_replaced_and_said(store):
    odd = b'{"type":"result","id":"a","text":"x\\ud83dy"}'
    store.write("a.jsonl", session("s"), call("a"), odd, *AFTER)
    store.extract()
    assert store.calls() == [("s", "a", '{"cmd":"a"}', "x\ufffdy"), NEIGHBOURS[1]]
    assert store.issues() == [("lone_surrogate", 3, 1)]


def test_a_last_line_without_its_end_waits_even_if_it_parses(store):
    store.write("a.jsonl", *BEFORE, call("z"), tail=lines(result("z"))[:-1])
    store.extract()
    assert store.calls()[-1] == ("s", "z", '{"cmd":"z"}', None)
    assert store.rows("SELECT status FROM source_items") == [("deferred",)]
    store.append("a.jsonl", tail=b"\n")
    store.extract()
    assert store.calls() == NEIGHBOURS
    assert store.rows("SELECT status FROM source_items") == [("complete",)]


def test_a_pretty_printed_file_is_rejected_once_and_no_other(store):
    (store.sessions / "a.jsonl").write_text(json.dumps([*BEFORE] * 300, indent=1))
    store.write("b.jsonl", *BEFORE, *AFTER)
    store.extract()
    assert store.calls() == NEIGHBOURS
    found = store.issues()
    assert 1 <= len(found) <= 25
    assert {code for code, _, _ in found} <= {"malformed_jsonl", "unsupported_toy_source"}


@pytest.mark.parametrize(
    "data", [b"", b"\n\n\n", b"\0" * 9, b"\xef\xbb\xbf", b"null\n", b"[]\n", b"\xff\xfe{\0}\0\n"]
)
def test_a_file_of_nothing_costs_no_other_file(store, data):
    (store.sessions / "a.jsonl").write_bytes(data)
    store.write("b.jsonl", *BEFORE, *AFTER)
    store.extract()
    assert store.calls() == NEIGHBOURS


def test_a_damaged_compressed_file_is_an_issue_and_no_other_suffers(store):
    whole = zstandard.compress(lines(*BEFORE) * 50)
    (store.sessions / "a.jsonl.zst").write_bytes(whole[: len(whole) // 2] + b"\0" * 40)
    (store.sessions / "c.jsonl.zst").write_bytes(b"no zstd at all")
    store.write("b.jsonl", *BEFORE, *AFTER)
    store.extract()
    assert store.calls() == NEIGHBOURS
    assert store.rows(
        "SELECT relative_path, code, status FROM import_issues JOIN source_items"
        " USING (source_item_key) ORDER BY ALL"
    ) == [
        ("a.jsonl.zst", "malformed_zstd", "rejected"),
        ("c.jsonl.zst", "malformed_zstd", "rejected"),
    ]
