"""What is read at once for speed says the same as what is read line by line."""

import types

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from yarp.reduce.blocks import Stream
from yarp.reduce.families.base import LatePiece, Piece, Status
from yarp.reduce.families.lines import Parser
from yarp.reduce.families.search import LINES_KEPT, Family
from yarp.reduce.families.test.cargo import Cargo
from yarp.reduce.families.test.pytest import Pytest
from yarp.reduce.families.test.report import Report, pieces
from yarp.reduce.terms import common_terms, shared_terms
from yarp.reduce.way import _Text


def told(found):
    return [(piece.text, piece.worth, piece.lines, piece.terms) for piece in found or ()]


def lines_of(parts, most=30):
    return st.lists(st.sampled_from(parts), max_size=most).map(b"".join)


# -- searches

MATCHES = [
    *(b"src/a.py:3:x = 1\n", b"src/a.py:9:x: 2\n", b"src/b.py:1:\n", b"a:1:b\n", b"/a:7:c:8:d\n"),
    *(b"src/a.py-4-y\n", b"src/a.py-4-y:5:z\n", b"a-1-b:3:x\n", b"a:b:3:x\n", b"x-y/z-1.c:2:q\n"),
    *(b":3:x\n", b"a::x\n", b"no match\n", b"--\n", b"\n", b"rg: b: denied\n", b"12:text\n"),
]


def searched(command, data, at_once):
    family = Family(tuple(command.split()), {"success_bytes": 300})
    if not at_once:
        family._alike = lambda lines: False
    family.feed(0, data)
    return told(family.finish(Status(0)))


@given(
    lines_of(MATCHES[:5]), lines_of(MATCHES, 3), st.sampled_from(["rg -n x", "rg x", "rg -nC1 x"])
)
@example(b"a:1:x\n", b"a-1-b:3:x\n", "rg -n x")
@example(b"Chunk ID: 1\nWall time: 1 s\nOutput:\na:1:x\nb:2:y\n", b"", "rg -n x")
@example(b"a-1-y\n" + b"a:2:x\n" * 5, b"", "rg -n x")
@example(b"a:1:x\n" * 60, b"", "rg -n x")
def test_a_search_is_told_alike_line_by_line_and_at_once(alike, others, command):
    for data in (alike + others, others + alike, alike + others + alike * 20):
        assert searched(command, data, True) == searched(command, data, False)


def test_a_search_of_more_lines_than_are_kept_is_told_alike():
    for count in (LINES_KEPT, LINES_KEPT + 1):
        data = b"".join(b"f%d:%d:x\n" % (number % 700, number % 9) for number in range(count))
        assert len(data) < 64 * 1024
        assert searched("rg -n x", data, True) == searched("rg -n x", data, False)


def test_a_search_whose_lines_are_alike_is_read_at_once():
    family = Family(("rg", "-n", "x"), {})
    family.feed(0, b"Chunk ID: 1\nOutput:\n" + b"src/a-b.py:3:x\nsrc/c.py:4:x\n" * 4)
    assert family.finish(Status(0))
    assert family.counts == {b"src/a-b.py": 4, b"src/c.py": 4}


# -- tests

RULE = b"=" * 20
PYTEST = [
    *(b"a.py::test_a PASSED [ 12%]\n", b"a.py::test_b[x [1] PASSED [100%]\n"),
    *(b"a.py::test_c FAILED [ 13%]\n", b"a.py::test_d SKIPPED (why) [ 14%]\n"),
    *(b"ERROR: x PASSED [ 15%]\n", b"[gw0] [ 1%] PASSED a.py::test_e\n", b"= PASSED [ 16%]\n"),
    *(b"a PASSED [ 7x%]\n", b"a PASSED [  9%] \n", b"a PASSED [ 9%]\n", b" PASSED [ 17%]\n", b"\n"),
    b"pytest: error: x PASSED [ 18%]\n",
    b"log " + RULE + b" test session starts " + RULE + b" PASSED [ 19%]\n",
    RULE + b" test session starts " + RULE + b"\n",
    RULE + b" FAILURES " + RULE + b"\n",
    b"____ test_c ____\n",
    b"E   assert 1 == 2\n",
    RULE + b" 1 failed, 2 passed in 0.10s " + RULE + b"\n",
    b"2 passed in 0.10s\n",
]
CARGO = [
    *(b"test a::b ... ok\n", b"test a ... FAILED\n", b"test result: ... ok\n", b"ok\n", b"\n"),
    *(
        b"test a ... bench ... ok\n",
        b" Nextest run ID 1 ... ok\n",
        b"test Nextest run ID x ... ok\n",
    ),
    *(b"test result: ok. 2 passed; 0 failed; 0 ignored\n", b"running 2 tests\n", b"failures:\n"),
    *(b"---- a stdout ----\n", b"thread 'a' panicked at x.rs:1:2:\n", b"    a\n", b"error: x\n"),
    b"test x Nextest run ID y ... ok\n",
]


def reported(parser_class, data, at_once):
    report = Report()
    parser = parser_class(report, 0)
    if not at_once:
        parser.lines = types.MethodType(Parser.lines, parser)
    parser.lines(data)
    parser.finish()
    state = report.outcomes, report.notes, report.failed, report.recognised, parser.plain.text()
    return told(pieces(report, 4096)), state


@pytest.mark.parametrize(("parser_class", "parts"), [(Pytest, PYTEST), (Cargo, CARGO)])
def test_tests_are_told_alike_line_by_line_and_at_once(parser_class, parts):
    usual = parts[-6] if parser_class is Pytest else b""

    @given(lines_of(parts, 12), lines_of(parts[:3], 5), lines_of(parts, 6))
    def alike(first, middle, last):
        data = first + usual + middle + last
        assert reported(parser_class, data, True) == reported(parser_class, data, False)

    alike()


# -- the way back


@given(
    st.lists(st.text("ab \n", max_size=9), max_size=30).map(lambda parts: "".join(parts).encode()),
    st.lists(st.sampled_from([b"a", b"b", b"aa", b"ab", b"ba", b"aab", b"abab"]), unique=True),
    st.sampled_from([2, 1000]),
)
def test_lines_with_words_are_found_and_counted_as_they_are(data, words, most):
    stream = Stream(100)
    stream.feed(data)
    text = _Text(bytearray(data), stream, most)
    lines = [line for line in data.split(b"\n") if any(word in line for word in words)][:most]
    assert list(text.lines_with(words)) == lines
    if words:
        hits = sum(map(data.count, words))
        assert text.count_with(words) == (len(lines) if hits > 20 else hits)


@given(st.lists(st.sampled_from([(), ("a",), ("b",), *((c,) for c in "cdefgh"), ("a", "b")])))
def test_words_for_what_was_dropped_are_looked_for_only_as_far_as_need_be(terms):
    dropped = [Piece(b"", 1, terms=each) for each in terms]
    assert common_terms(dropped) == shared_terms(dropped)
    asked = []
    late = [LatePiece(b"", 1, 0, 1, lambda each=each: asked.append(each) or each) for each in terms]
    assert common_terms(late) == shared_terms(dropped)
    if all(len(each) == 1 for each in terms):
        assert len(set(asked)) <= 6
