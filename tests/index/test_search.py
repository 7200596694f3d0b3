from __future__ import annotations

import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from yarp.index.search import searchable, trigram_query
from yarp.index.store import open_readonly
from yarp.index.sync import sync

ALPHABET = (
    "aAbB c\"'*()-+:^~\0\n\t\xdf\u1e9e\u0130\u0131\u017fK\u212a\xe9\xc9\u4f60\u597d\U0001f600"
    "\ufffd\u0301\u03a3\u03c2\u03c3\u01c5\u01c4"
)


def test_a_literal_is_asked_for_by_all_its_trigrams():
    assert trigram_query("abcd") == '"abc" AND "bcd"'
    assert trigram_query('a"bc') == '"a""b" AND """bc"'
    assert trigram_query("aaaaaaa") == '"aaa"'


@pytest.mark.parametrize("literal", ["", "ab", None, 7, b"abc"])
def test_what_has_no_trigram_is_an_error(literal):
    with pytest.raises(ValueError, match="at least 3 characters"):
        trigram_query(literal)


@pytest.fixture(scope="module")
def corpus():
    """Texts over an alphabet that has all that is odd about case and queries."""
    generator = random.Random(7)
    return ["".join(generator.choices(ALPHABET, k=generator.randrange(3, 60))) for _ in range(400)]


@pytest.fixture(scope="module")
def searched(corpus, acme, tmp_path_factory):
    root = tmp_path_factory.mktemp("search")
    records = [{"t": "session", "id": "s"}, {"t": "begin", "loop": "l"}]
    records += [{"t": "human", "text": text} for text in corpus]
    (root / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    assert sync(str(root / "i.sqlite3"), [str(root)], {"acme": acme.READER}).items == len(corpus)
    connection = open_readonly(str(root / "i.sqlite3"))
    texts = connection.execute(
        "SELECT item_id, text FROM items JOIN blobs "
        "ON blob_id = json_extract(semantic, '$.value.text.blob_id')"
    ).fetchall()
    yield connection, texts
    connection.close()


def candidates(connection, literal):
    sql = "SELECT rowid FROM item_search(trigram_query(?))"
    return {row[0] for row in connection.execute(sql, (literal,))}


def test_every_occurrence_of_ten_thousand_literals_is_found(searched, corpus):
    connection, texts = searched
    assert sorted(text for _, text in texts) == sorted(corpus)
    generator = random.Random(11)
    found = 0
    for _ in range(10_000):
        text = generator.choice(corpus)
        start = generator.randrange(len(text) - 2)
        literal = text[start : start + generator.randrange(3, 12)]
        if generator.random() < 0.2:
            literal = "".join(generator.sample(literal, len(literal)))
        expected = {item_id for item_id, one in texts if literal in one}
        got = candidates(connection, literal)
        assert expected <= got, repr(literal)
        found += len(expected)
    assert found > 8_000


@settings(max_examples=200, deadline=None)
@given(literal=st.text(min_size=3, max_size=40))
@example(literal='"""')
@example(literal="\0\0\0")
@example(literal="AND OR NOT")
@example(literal="x" * 20_000)
@example(literal="".join(chr(n) for n in range(32, 3000)))
def test_no_literal_breaks_the_query(searched, literal):
    connection, _ = searched
    candidates(connection, literal)


def test_case_does_not_decide_a_candidate(searched):
    connection, texts = searched
    for item_id, text in texts[:20]:
        gram = text[:3]
        if gram.upper() != gram and len(gram.upper()) == 3 and gram.isascii():
            assert item_id in candidates(connection, gram.upper())


def test_a_nul_ends_no_text():
    assert searchable("a\0b") == "a\ufffdb"
