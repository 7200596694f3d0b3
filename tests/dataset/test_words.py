"""The words of texts and needles: what stands in a text has its words in it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from yarp.dataset.words import Part, blanked, listed, parts

TEXT = st.text(st.sampled_from("ab_ 1.\n\x00-=é漢\U0001f600'\"\\"), max_size=30)


def test_a_word_ends_where_the_needle_goes_on_with_something_else():
    assert parts("error") == [Part("error", False, False)]
    assert parts(" error") == [Part("error", True, False)]
    assert parts("src/a.py:12") == [
        Part("src", False, True),
        Part("a", True, True),
        Part("py", True, True),
        Part("12", True, False),
    ]
    assert parts("=> {") == parts("") == []


def test_what_is_not_ascii_belongs_to_words():
    assert parts("größe:漢字") == [Part("größe", False, True), Part("漢字", True, False)]
    assert blanked("größe:漢字\n".encode()) == "größe 漢字 ".encode()


def test_each_word_is_listed_once_with_its_texts():
    words, too_long = listed([b"a b a", b"", b"b  c", b" "], 7)
    found = dict(zip(*words.to_pydict().values(), strict=True))
    assert found == {"a": [7], "b": [7, 9], "c": [9]}
    assert too_long == set()


def test_a_word_too_long_is_not_listed_and_its_texts_are_told():
    words, too_long = listed([b"x" * 128, b"a " + b"x" * 129, b"y" * 129 + b" " + b"x" * 129], 0)
    assert dict(zip(*words.to_pydict().values(), strict=True)) == {"x" * 128: [0], "a": [1]}
    assert too_long == {1, 2}


@settings(deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=8))
def test_the_lists_are_those_that_sets_give(texts):
    words, _ = listed([blanked(text.encode()) for text in texts], 3)
    expected = {}
    for number, text in enumerate(texts, 3):
        for word in sorted(set(blanked(text.encode()).split())):
            expected.setdefault(word.decode(), []).append(number)
    assert dict(zip(*words.to_pydict().values(), strict=True)) == expected


@settings(deadline=None)
@given(TEXT, st.data())
def test_a_needle_cut_from_a_text_finds_its_words_there(text, data):
    start = data.draw(st.integers(0, len(text)))
    needle = text[start : data.draw(st.integers(start, len(text)))]
    words = blanked(text.encode()).decode().split()
    for part in parts(needle):
        assert any(
            (word.startswith(part.word) or not part.begins)
            and (word.endswith(part.word) or not part.ends)
            and part.word in word
            for word in words
        )
