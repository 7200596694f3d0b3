from __future__ import annotations

import pytest

from yarp.sources.content import json_sha256, rendered, without_copies

LONG = "a line of an output\n" * 20


def text(words):
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("content", "said", "others"),
    [
        ("as it is\n", "as it is\n", None),
        ("", "", None),
        ([], "", None),
        ([text("a"), text("b")], "a\nb", None),
        ([{"type": "image", "data": "x"}], None, [{"type": "image", "data": "x"}]),
        ([text("a"), {"type": "image"}], "a", [{"type": "text"}, {"type": "image"}]),
        ([{"type": "text", "text": 7}], None, [{"type": "text", "text": 7}]),
        ([{"text": "no type"}], None, [{"text": "no type"}]),
    ],
)
def test_texts_are_joined_and_other_blocks_keep_their_places(content, said, others):
    assert rendered(content) == (said, others)


@pytest.mark.parametrize(
    ("details", "kept"),
    [
        ({"stdout": "done", "stderr": ""}, {"stderr": ""}),
        ({"stdout": " done\n"}, None),
        ({"status": "done"}, {"status": "done"}),
        ({"file": {"content": "done"}, "n": 0}, {"n": 0}),
        ({"file": {}, "patch": []}, {"file": {}, "patch": []}),
        ({"lines": ["done", "not"]}, {"lines": ["done", "not"]}),
        ("done", None),
        ("undone", "undone"),
        ({}, None),
        ([], None),
        ("", None),
        (None, None),
        (False, False),
        (0, 0),
    ],
)
def test_what_repeats_a_short_text_goes_where_its_name_says_output(details, kept):
    assert without_copies(details, "done\n") == kept


@pytest.mark.parametrize("name", ["content", "anything"])
def test_what_repeats_a_long_text_or_a_long_part_of_it_goes_whatever_its_name(name):
    assert without_copies({name: LONG, "x": 1}, f"before\n{LONG}after") == {"x": 1}
    assert without_copies({name: LONG[:100]}, LONG) == {name: LONG[:100]}


def test_items_of_arrays_keep_their_places():
    assert without_copies({"parts": [LONG, "x", {"text": LONG}]}, LONG) == {
        "parts": [None, "x", None]
    }
    assert without_copies({"parts": [LONG, LONG]}, LONG) is None


def test_an_empty_text_is_repeated_by_nothing():
    assert without_copies({"stdout": "", "content": " "}, "") == {"stdout": "", "content": " "}


def test_details_are_left_as_they_were():
    details = {"stdout": "done", "parts": [LONG]}
    without_copies(details, "done", LONG)
    assert details == {"stdout": "done", "parts": [LONG]}


def test_a_digest_depends_on_the_value_and_not_on_the_order_of_its_keys():
    assert json_sha256({"a": 1, "b": 2}) == json_sha256({"b": 2, "a": 1})
    assert json_sha256({"a": 1}) != json_sha256({"a": "1"})
    assert json_sha256({"b": 2**70 + 1, "a": 0}) == json_sha256({"a": 0, "b": 2**70 + 1})
