"""The search: exact counts, the newest hits, their lines, and filters."""

import random

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.dataset import indexing, textindex
from yarp.dataset.database import Dataset
from yarp.dataset.filters import Filters
from yarp.dataset.search import Line, holding_of, search


@pytest.fixture(params=["by the index", "by reading"])
def by_the_index(request):
    return request.param == "by the index"


@pytest.fixture(params=["in memory", "in files"])
def find(request, by_the_index, monkeypatch):
    monkeypatch.setattr(indexing, "PAYS_BYTES", 0 if by_the_index else 1 << 40)
    monkeypatch.setattr(textindex, "_SMALL_BYTES", 0)

    def run(path, needle, **more):
        return run.each(path, [needle], **more)[0]

    def each(path, needles, **more):
        with Dataset.read(path) as dataset:
            index = indexing.ready(dataset, hold=request.param == "in memory")
            assert (index is not None) is by_the_index
            answers = [search(dataset, needle, index, **more) for needle in needles]
            if index is not None:
                index.close()
        return answers

    run.each = each
    return run


def test_all_are_counted_and_the_newest_shown(dataset_of, result, find):
    path = dataset_of(
        *[
            {
                "tool": "sh",
                "input": "x",
                "at": at,
                "results": [result("an error")],
                "session": f"{at}",
            }
            for at in (5, None, 9, 7)
        ]
    )
    answer = find(path, "error", limit=2)
    assert answer.calls == 4
    assert [hit.called_at_ms for hit in answer.hits] == [9, 7]
    assert find(path, "error", limit=0).calls == 4
    assert [hit.called_at_ms for hit in find(path, "error").hits] == [9, 7, 5, None]


def test_a_call_with_several_results_counts_once(dataset_of, result, find):
    path = dataset_of(
        {"tool": "sh", "input": "error", "results": [result("error 1"), result("error 2")]}
    )
    answer = find(path, "error")
    assert answer.calls == 1
    assert answer.hits[0].lines[0] == Line("input_text", 1, "error")
    assert {line.text for line in answer.hits[0].lines} == {"error", "error 1", "error 2"}


def test_lines_have_numbers_and_a_part_of_a_long_one(dataset_of, result, find):
    long = "a" * 500 + " error " + "b" * 500
    path = dataset_of(
        {"tool": "sh", "input": "x", "results": [result(f"one\ntwo error error\n{long}\nError")]}
    )
    lines = find(path, "error", lines=5).hits[0].lines
    assert [(line.field, line.number) for line in lines] == [("output_text", 2), ("output_text", 3)]
    assert lines[0].text == "two error error"
    assert lines[1].text == "…" + "a" * 79 + " error " + "b" * 79 + "…"
    assert len(find(path, "error", lines=5, ignore_case=True).hits[0].lines) == 3
    assert find(path, "error", lines=0).hits[0].lines == ()


def test_a_needle_may_hold_a_newline(dataset_of, result, find):
    path = dataset_of({"tool": "sh", "input": "x", "results": [result("one\ntwo\nthree")]})
    answer = find(path, "one\ntwo")
    assert answer.calls == 1
    assert answer.hits[0].lines[0].number == 1
    assert find(path, "one\nthree").calls == 0


def test_filters_hold_for_the_count_and_the_hits(dataset_of, result, find):
    path = dataset_of(
        {"tool": "sh", "input": "x1", "at": 1, "results": [result("error", is_error=True)]},
        {"tool": "sh", "input": "x2", "at": 5, "agent": "other", "results": [result("error")]},
        {"tool": "read", "input": "x3", "session": "s2", "results": [result("error")]},
    )
    for filters, expected in (
        (Filters(), 3),
        (Filters(failed=True), 1),
        (Filters(agent="other"), 1),
        (Filters(tool="read"), 1),
        (Filters(session="s2"), 1),
        (Filters(since_ms=2), 1),
        (Filters(agent="acme", tool="sh", session="s1", since_ms=0), 1),
        (Filters(agent="o'ther"), 0),
    ):
        answer = find(path, "error", filters=filters)
        assert answer.calls == len(answer.hits) == expected


def test_marks_in_a_needle_or_a_filter_are_text(dataset_of, result, find):
    path = dataset_of({"tool": "s?h", "input": "x", "results": [result("100% of 'a' $1 ? \\n")]})
    for needle in ("100%", "'a'", "$1 ?", "\\n", "?"):
        assert find(path, needle, filters=Filters(tool="s?h")).calls == 1
    assert find(path, "100_").calls == 0


def test_an_empty_dataset_holds_nothing(dataset_of, find):
    answer = find(dataset_of(), "error")
    assert (answer.calls, answer.hits) == (0, ())


def test_letters_of_any_case_are_those_that_the_database_lowers_to_one():
    in_words = (
        "SELECT chr(code), lower(chr(code)) FROM (SELECT code::INTEGER AS code FROM "
        "range(1, 1114112) AS t (code) WHERE code NOT BETWEEN 55296 AND 57343) "
        "WHERE lower(chr(code)) BETWEEN 'a' AND 'z' AND strlen(lower(chr(code))) = 1"
    )
    connection = duckdb.connect()
    for character, lower in connection.execute(in_words).fetchall():
        condition, parameters = holding_of(lower, ignore_case=True)
        query = f"SELECT {condition.replace('{}', '$text')}"
        assert connection.execute(query, {**parameters, "text": character}).fetchall() == [(True,)]


TEXTS = st.text(
    st.one_of(
        st.sampled_from("aAiIkKsS\u0130\u0131\u212a\u017f äÄ()[]\\^$.*+?{}|-_/\n\t09"),
        st.characters(codec="utf-8"),
    ),
    max_size=6,
)


@given(before=TEXTS, needle=TEXTS, text=TEXTS, after=TEXTS, ignore_case=st.booleans())
def test_a_pattern_finds_what_the_text_finds(before, needle, text, after, ignore_case):
    whole = before + text + after
    condition, parameters = holding_of(needle, ignore_case=ignore_case)
    plain = "contains(lower($text), lower($given))" if ignore_case else "contains($text, $given)"
    query = f"SELECT {condition.replace('{}', '$text')}, {plain}"
    with duckdb.connect() as connection:
        for held in (
            whole,
            whole.replace(text, needle, 1),
            whole.replace(text, needle.swapcase(), 1),
        ):
            values = {**parameters, "text": held, "given": needle}
            found, expected = connection.execute(query, values).fetchall()[0]
            assert found == expected


ALPHABET = "iI\u0130\u0131kK\u212aaAßẞΣ\u03c3ςǅǆéÉ\u0307 -_\n中"


def lowered(text):
    """As the database does it: each character by itself."""
    return "".join("i" if c == "\u0130" else c.lower() for c in text)


def test_in_any_case_the_calls_and_lines_are_those_that_looking_at_each_text_finds(
    dataset_of, result, find
):
    chance = random.Random(4)
    texts = ["".join(chance.choices(ALPHABET, k=chance.randrange(1, 12))) for _ in range(80)]
    path = dataset_of(
        *[{"tool": "sh", "input": "0", "results": [result(text)], "key": text} for text in texts]
    )
    needles = [*"iI\u0130kKßΣς", "\u0391Σ", "i\u0307"]
    for text in chance.choices(texts, k=30):
        start = chance.randrange(len(text))
        needles.append(text[start : start + chance.randrange(1, 4)])
    answers = find.each(path, needles, ignore_case=True, limit=100, lines=100)
    for needle, found in zip(needles, answers, strict=True):
        expected = {text for text in texts if lowered(needle) in lowered(text)}
        assert {hit.call_key for hit in found.hits} == expected
        assert found.calls == len(expected)
        for hit in found.hits:
            held = [
                (number, line)
                for number, line in enumerate(hit.call_key.split("\n"), 1)
                if lowered(needle) in lowered(line)
            ]
            assert hit.lines
            assert "\n" in needle or [(each.number, each.text) for each in hit.lines] == held
