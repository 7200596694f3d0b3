from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yarp import hostfile, jsontext
from yarp.errors import DataError

blanks = st.text(" \t\n", max_size=4) | st.sampled_from(["\r\n", "\r\n  ", "\n    "])
remarks = blanks | st.sampled_from([" // note\n", "/* a, [b] */", "\n  // {\n  ", " //\r\n"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)


@st.composite
def documents(draw, comments):
    """An object as JSON text in any formatting; `hooks` may hold arrays."""
    gap = remarks if comments else blanks

    def around(text):
        return draw(gap) + text + draw(gap)

    def joined(items, opening, closing):
        text = ",".join(map(around, items))
        if comments and items and draw(st.booleans()):
            text += "," + draw(gap)
        return opening + (text or draw(gap)) + closing

    def value(depth):
        kind = draw(st.sampled_from(["scalar", "array", "object"])) if depth else "scalar"
        if kind == "array":
            return joined([value(depth - 1) for _ in range(draw(st.integers(0, 2)))], "[", "]")
        if kind == "object":
            return table({draw(st.text(max_size=3)): None for _ in range(2)}, depth - 1)
        return json.dumps(draw(scalars), ensure_ascii=draw(st.booleans()))

    def table(members, depth):
        items = [
            json.dumps(key) + draw(gap) + ":" + draw(gap) + (text or value(depth))
            for key, text in members.items()
        ]
        return joined(items, "{", "}")

    hooks = {}
    for event in draw(st.lists(st.sampled_from(["before", "after"]), unique=True)):
        hooks[event] = joined([value(2) for _ in range(draw(st.integers(0, 2)))], "[", "]")
    members = {"hooks": table(hooks, 1)} if draw(st.booleans()) else {}
    for key in draw(st.lists(st.text(max_size=3), max_size=2)):
        members.setdefault(key, None)
    if draw(st.booleans()):
        members = dict(reversed(members.items()))
    return around(table(members, 2))


OURS = {"yarp": "yarp hook acme", "list": [1, {"deep": "é"}]}
PLACES = [("hooks", "before", "[]"), ("hooks", "after", "[]"), ("hooks", "before", "[]"), ("top",)]


def is_ours(path, member):
    return path in PLACES and member.node.value == OURS


def put_in_and_take_out(text, comments):
    before = jsontext.parse(text, comments=comments).value
    whole, made = text, []
    for place in PLACES:
        whole, created = jsontext.insert(whole, place, OURS, comments=comments)
        made += created
    found = jsontext.parse(whole, comments=comments).value
    assert found["top"] == OURS
    assert found["hooks"]["before"][-2:] == [OURS, OURS]
    assert found["hooks"]["after"][-1] == OURS
    rest, count = jsontext.remove(whole, is_ours, set(made), comments=comments)
    assert count == len(PLACES)
    assert jsontext.parse(rest, comments=comments).value == before
    return whole


@settings(max_examples=50)
@given(documents(comments=False))
def test_what_goes_into_json_is_valid_and_comes_out_again(text):
    whole = put_in_and_take_out(text, comments=False)
    json.loads(whole)


@settings(max_examples=50)
@given(documents(comments=True))
def test_what_goes_into_json_with_comments_comes_out_again(text):
    put_in_and_take_out(text, comments=True)


@settings(max_examples=50)
@given(documents(comments=False))
def test_parsing_says_what_the_standard_parser_says(text):
    assert jsontext.parse(text, comments=False).value == json.loads(text)


@settings(max_examples=50)
@given(documents(comments=True), st.data())
def test_a_part_of_a_text_is_refused_or_says_the_same(text, data):
    part = text[: data.draw(st.integers(0, len(text)))]
    try:
        found = jsontext.parse(part, comments=True)
    except DataError as error:
        said = str(error)
    else:
        # Only remarks and blanks were cut away.
        assert found.value == jsontext.parse(text, comments=True).value
        return
    assert said.startswith("line ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{\n  "hooks": {\n    "a": [\n      1\n    ]\n  }\n}\n',
         '{\n  "hooks": {\n    "a": [\n      1,\n      2\n    ]\n  }\n}\n'),
        ('{"hooks":{"a":[1]}}', '{"hooks":{"a":[1, 2]}}'),
        ('{"hooks": {}}', '{"hooks": {"a": [2]}}'),
        ("{}\n", '{"hooks": {"a": [2]}}\n'),
        ("", '{\n  "hooks": {\n    "a": [\n      2\n    ]\n  }\n}\n'),
        (" \n", '{\n  "hooks": {\n    "a": [\n      2\n    ]\n  }\n}\n'),
        ('{\r\n\t"hooks": {\r\n\t}\r\n}', '{\r\n\t"hooks": {\r\n\t\t"a": [\r\n\t\t\t2\r\n\t\t]\r\n\t}\r\n}'),
        ('{\n   "x": 1\n}', '{\n   "x": 1,\n   "hooks": {\n      "a": [\n         2\n      ]\n   }\n}'),
        ('\ufeff{"x": 1}', '\ufeff{"x": 1, "hooks": {"a": [2]}}'),
    ],
)  # fmt: skip
def test_what_is_written_follows_what_stands_beside_it(text, wanted):
    assert jsontext.insert(text, ("hooks", "a", "[]"), 2, comments=False)[0] == wanted


def test_a_remark_stays_with_what_it_is_about():
    text = '{\n  "x": 1 // one\n  // two\n}'
    whole, _ = jsontext.insert(text, ("y",), 2, comments=True)
    assert whole == '{\n  "x": 1, // one\n  "y": 2\n  // two\n}'
    text = '{\n  "x": 1, // one\n}'
    whole, _ = jsontext.insert(text, ("y",), 2, comments=True)
    assert whole == '{\n  "x": 1, // one\n  "y": 2\n}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hooks": []}', "hooks is no object"),
        ('{"hooks": null}', "hooks is no object"),
        ('{"hooks": {"a": {}}}', "hooks.a is no array"),
        ('{"hooks": {}, "hooks": {}}', "twice"),
        ("[]", "the whole is no object"),
        ('{"x": 1 // no\n}', "line 1, column 9"),
        ('{"x": 1,}', "line 1, column 9"),
        ('{"x": "a\nb"}', "line 1, column"),
        ('{"x": 1} {', "line 1, column 10"),
        ("[" * 5000, "levels"),
        ("{x: 1}", "line 1, column 2"),
        ("nulls", "line 1, column 5"),
        ("", "the whole"),
    ],
)  # fmt: skip
def test_what_is_no_such_json_is_refused_by_line_and_column(text, said):
    if not text:
        text = "1"
    with pytest.raises(DataError) as refusal:
        jsontext.insert(text, ("hooks", "a", "[]"), 2, comments=False)
    assert said in str(refusal.value)


def test_two_remarks_around_an_object_are_not_one():
    assert not jsontext.is_blank("/* a */{}/* b */", comments=True)
    assert jsontext.is_blank("\ufeff/* a */ // b\n", comments=True)
    assert not jsontext.is_blank("// a", comments=False)


def test_a_number_of_thousands_of_digits_is_still_json():
    text = "[" + "1" * 10_000 + "]"
    assert jsontext.parse(text, comments=False).end == len(text)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(documents(comments=True), st.booleans())
def test_a_file_in_any_formatting_gets_its_bytes_back(yarp_home, text, edited):
    path = yarp_home / "hooks.json"
    entries = [
        hostfile.Entry(("hooks", "before", "[]"), {"command": "/opt/yarp hook acme"}),
        hostfile.Entry(("hooks", "new", "[]"), {"command": "/opt/yarp hook acme"}),
        hostfile.Entry(("ours",), {"sure": True}),
    ]
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(data)
    before = jsontext.parse(text, comments=True).value
    hostfile.install(str(path), entries, host="acme", dry_run=False, comments=True)
    assert hostfile.standing(str(path), entries, host="acme", comments=True)
    if edited:
        whole = path.read_bytes().decode()
        whole, _ = jsontext.insert(whole, ("theirs", "[]"), 1, comments=True)
        path.write_bytes(whole.encode())
    hostfile.uninstall(str(path), host="acme", dry_run=False, comments=True)
    if edited:
        left = jsontext.parse(path.read_bytes().decode(), comments=True).value
        assert left == {**before, "theirs": [1]}
    else:
        assert path.read_bytes() == data
