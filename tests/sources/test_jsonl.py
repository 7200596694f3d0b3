from __future__ import annotations

import json
import os

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from yarp.sources.facts import Rejected
from yarp.sources.jsonl import JsonlFile, SourceChanged
from yarp.sources.values import json_text


@pytest.fixture
def write(tmp_path):
    def write(data, name="a.jsonl"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


def read(path):
    with JsonlFile(path) as file:
        lines = list(file.lines())
        file.verify()
    return lines, file


def test_lines_carry_their_number_place_bytes_and_value(write):
    lines, file = read(write(b'{"a":1}\n\n[2]\r\n{"b":3}\n'))
    assert [(line.number, line.offset, line.data, line.value) for line in lines] == [
        (1, 0, b'{"a":1}', {"a": 1}),
        (3, 9, b"[2]\r", [2]),
        (4, 14, b'{"b":3}', {"b": 3}),
    ]
    assert file.issues == []
    assert file.complete_byte_count == 22
    assert not file.waits


def test_only_a_newline_ends_a_line(write):
    text = json.dumps({"a": "x\u2028y\u0085z"}, ensure_ascii=False).encode()
    lines, _ = read(write(text + b"\n"))
    assert [line.value["a"] for line in lines] == ["x\u2028y\u0085z"]


def test_a_last_line_without_newline_waits_even_if_it_parses(write):
    lines, file = read(write(b'{"a":1}\n{"b":2}'))
    assert [line.value for line in lines] == [{"a": 1}]
    assert file.waits
    assert file.complete_byte_count == 8


def test_a_byte_order_mark_is_no_part_of_the_first_record(write):
    lines, file = read(write(b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"b":1}\n'))
    assert [(line.number, line.offset, line.value) for line in lines] == [(1, 0, {"a": 1})]
    assert file.malformed == {2}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\0" * 4096, "NUL bytes"),
        (b'\0\0{"a":1}', "NUL bytes"),
        (b'{"a":1}{"b":2}', "more than one JSON value"),
        (b'{"a": "b', "no JSON value"),
        (b'{"a":', "it ends too early"),
        (b'"\xff"', "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"[NaN]", "a number that JSON does not have"),
        (b"[" * 100_000, "nested too deeply"),
        *[(b'{"a":' * n + b"1" + b"}" * n, "nested too deeply") for n in (1025, 5000)],
        (b"[" * 1025 + b'"\\ud800"' + b"]" * 1025, "nested too deeply"),
        (b"[" * 1025 + b"9" * 30 + b"]" * 1025, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_json_is_an_issue_and_its_neighbours_survive(write, line, said):
    lines, file = read(write(b'{"a":1}\n' + line + b'\n{"b":2}\n'))
    assert [each.number for each in lines] == [1, 3]
    assert [each.offset for each in lines] == [0, 9 + len(line)]
    (issue,) = file.issues
    assert (issue.code, issue.line_number, issue.byte_offset) == ("malformed_jsonl", 2, 8)
    assert issue.message == f"not a JSON record: {said}"
    assert file.malformed == {2}


@pytest.mark.parametrize("inner", [b"", b"9999999999999999999999", b'"\\ud800"'])
def test_a_line_of_the_greatest_depth_is_read(write, inner):
    lines, file = read(write(b"[" * 1024 + inner + b"]" * 1024 + b"\n"))
    assert len(lines) == 1
    assert file.malformed == set()


NUMBERS = ["9" * 5000, "-" + "1" * 100_000, "1e400", "-1E+400", "1" * 4300, "0." + "3" * 5000]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_of_any_size_is_read_and_written_again_with_all_its_digits(write, number):
    text = f'{{"a":[{number},"{number}"],"b":1}}'
    ((line,), file) = read(write(text.encode() + b"\n"))
    assert not file.issues
    assert line.value["b"] == 1
    assert line.value["a"][1] == number
    if "." not in number:
        assert json_text(line.value) == text
        assert json_text(file_again(file, line)) == text


def file_again(file, line):
    with JsonlFile(file.path) as again:
        return again.line_at(line.offset, line.number, len(line.data)).value


# What becomes of it; what is written with escapes keeps them.
KEYS = {
    r'{"\ud800":1,"\ud801":2}': r'{"\ud800":1,"\ud801":2}',
    r'{"\ud800":1,"\ufffd":2}': r'{"\ud800":1,"\ufffd":2}',
    r'{"\ud800":1,"a":2}': r'{"\ufffd":1,"a":2}',
    r'[{"\ud800":"\ud800","\ud801":2}]': r'[{"\ud800":"\ufffd","\ud801":2}]',
}


@pytest.mark.parametrize("text", KEYS)
def test_keys_that_half_a_pair_tells_apart_stay_apart(write, text):
    ((line,), file) = read(write(text.encode() + b"\n"))
    assert line.value == json.loads(KEYS[text])
    assert [issue.code for issue in file.issues] == ["lone_surrogate"] * (KEYS[text] != text)
    written = json_text(line.value)
    assert json.loads(written.encode()) == line.value


def test_of_many_bad_lines_the_first_are_told_and_the_others_counted(write):
    lines, file = read(write(b"{}\n" + b"x\n" * 5000 + b'{"a":1}\n' + b"[9,}\n"))
    assert [each.number for each in lines] == [1, 5002]
    assert [issue.line_number for issue in file.issues] == [*range(2, 23)]
    assert [issue.occurrence_count for issue in file.issues] == [1] * 20 + [4981]
    assert file.malformed == {5001, 5003}


def test_a_compressed_file_that_expands_beyond_reason_is_rejected(tmp_path):
    import zstandard

    path = tmp_path / "bomb.jsonl.zst"
    path.write_bytes(zstandard.compress(b"{}\n" + b"\n" * (100 << 20)))
    with JsonlFile(str(path)) as file, pytest.raises(Rejected) as caught:
        list(file.lines())
    assert caught.value.issue.code == "expands_too_much"


def test_empty_lines_count_and_say_nothing(write):
    lines, file = read(write(b"{}\n" + b"\n" * (3 << 20) + b" \n{}\n"))
    assert [(each.number, each.offset) for each in lines] == [
        (1, 0),
        ((3 << 20) + 3, (3 << 20) + 5),
    ]
    assert file.issues == []


def test_a_lone_surrogate_becomes_a_replacement_character_and_an_issue(write):
    lines, file = read(write(b'{"k\\udc00":["\\ud83d x","\\ud83d\\ude00"]}\n'))
    assert lines[0].value == {"k\ufffd": ["\ufffd x", "\U0001f600"]}
    assert [issue.code for issue in file.issues] == ["lone_surrogate"]


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**40, 2**53 + 1])
def test_integers_are_exact_whatever_their_size(write, number):
    lines, file = read(write(b'{"a":%d}\n' % number))
    assert lines[0].value == {"a": number}
    assert file.issues == []


def test_a_line_of_40_mb_is_read(write):
    lines, _ = read(write(b'{"a":1}\n"' + b"x" * 40_000_000 + b'"\n{"b":2}\n'))
    assert [len(line.data) for line in lines] == [7, 40_000_002, 7]
    assert lines[2].offset == 8 + 40_000_003


def test_a_digest_can_be_had_of_any_first_bytes(write):
    import hashlib

    data = b"".join(b'{"a":%d}\n' % number for number in range(300_000))
    with JsonlFile(write(data + b"tail")) as file:
        file.mark(9)
        file.mark(2_000_001)
        file.mark(len(data))
        for _ in file.lines():
            pass
    for length in (9, 2_000_001, len(data)):
        assert file.marks[length] == hashlib.sha256(data[:length]).digest()
    assert file.prefix_sha256 == hashlib.sha256(data).digest()


def test_an_append_during_the_reading_is_fine(write):
    path = write(b'{"a":1}\n')
    with JsonlFile(path) as file:
        with open(path, "ab") as more:
            more.write(b'{"b":2}\n')
        assert len(list(file.lines())) == 1
        file.verify()


def truncate(path):
    os.truncate(path, 4)


def replace(path):
    with open(path + ".new", "wb") as new:
        new.write(b'{"a":1}\n' * 3)
    os.rename(path + ".new", path)


def edit(path):
    with open(path, "r+b") as file:
        file.write(b'{"c"')
    os.utime(path, ns=(0, 1))


def edit_and_append(path):
    with open(path, "r+b") as file:
        file.write(b'{"c"')
        file.seek(0, 2)
        file.write(b'{"b":2}\n')


@pytest.mark.parametrize("change", [truncate, replace, edit, edit_and_append, os.unlink])
def test_any_other_change_during_the_reading_is_told(write, change):
    path = write(b'{"a":1}\n{"a":2}\n')
    with JsonlFile(path) as file:
        for line in file.lines():
            if line.number == 1:
                change(path)
        with pytest.raises(SourceChanged):
            file.verify()


def test_a_compressed_file_reads_like_a_plain_one(write):
    data = b'{"a":1}\n{"b":2}\n{"c"'
    whole = zstandard.compress(data[:11]) + zstandard.compress(data[11:])
    lines, file = read(write(whole, "a.jsonl.zst"))
    assert [(line.offset, line.value) for line in lines] == [(0, {"a": 1}), (8, {"b": 2})]
    assert file.complete_byte_count == len(whole)
    with pytest.raises(ValueError, match="compressed"):
        file.line_at(0, 1, 7)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-5], lambda data: data[:20] + b"garbage" * 9]
)
def test_a_damaged_compressed_file_is_rejected(write, damage):
    data = zstandard.compress(b'{"a":"%s"}\n' % os.urandom(40).hex().encode() * 20)
    with pytest.raises(Rejected) as caught:
        read(write(damage(data), "a.jsonl.zst"))
    assert caught.value.issue.code == "malformed_zstd"


def test_what_is_no_regular_file_is_refused(tmp_path, write):
    link = tmp_path / "link.jsonl"
    link.symlink_to(write(b"{}\n"))
    os.mkfifo(tmp_path / "fifo.jsonl")
    for path in (link, tmp_path / "fifo.jsonl", tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(OSError):
            JsonlFile(str(path))


def test_a_line_can_be_read_again(write):
    with JsonlFile(write(b'{"a":1}\n{"b":2}\n')) as file:
        first = list(file.lines())[1]
        again = file.line_at(first.offset, first.number, len(first.data))
    assert (again.value, again.number, again.sha256) == (first.value, 2, first.sha256)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(
    st.lists(json_values, max_size=12), st.binary(max_size=3).filter(lambda tail: b"\n" not in tail)
)
def test_every_record_comes_back_from_its_place(tmp_path_factory, values, tail):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    data = b"".join(json.dumps(value).encode() + b"\n" for value in values) + tail
    path.write_bytes(data)
    lines, file = read(str(path))
    assert [line.value for line in lines] == values
    assert all(data[line.offset :].startswith(line.data + b"\n") for line in lines)
    assert file.waits is bool(tail)
