"""The words of texts and needles: what stands in a text has its words in it."""

from hypothesis import given
from hypothesis import strategies as st

from yarp.dataset.words import Part, blanked, parts, tables

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


def test_each_word_of_a_text_stands_in_its_table_once():
    known, places = tables([b"a b a", b"", b"b  c"], 7)
    words = dict(zip(known["code"].to_pylist(), known["word"].to_pylist(), strict=True))
    found = {(words[code], text) for code, text in zip(*places.to_pydict().values(), strict=True)}
    assert found == {("a", 7), ("b", 7), ("", 8), ("b", 9), ("c", 9)}


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
