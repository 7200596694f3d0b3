"""What lines look like: the patterns that take away what varies are fast, and mean the plain ones."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from yarp.reduce.families.levels import _ERROR, RANKS, Hints, error_in, level_of
from yarp.reduce.families.shapes import masked, vague

PLAIN = re.compile(
    rb"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    rb"|(?<![0-9A-Za-z])(?:0x[0-9a-fA-F]+|(?=[a-f]*[0-9])[0-9a-f]{6,}(?![0-9A-Za-z]))"
    rb"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +[0-9]+|[0-9]+(?:[.,:/][0-9]+)*"
)
PARTS = [
    *(b"0x a f e g 0 12 9 - . : / Jan Jun Jul May Mar Dec Feb Apr Aug Sep Oct Nov A D S Z".split()),
    *(b"123e4567-e89b-12d3-a456-426614174000 deadbeef DEADBEEF abcdef -cafe- 1234 _ \xff".split()),
    *(b" ", b"  "),
]
PLAIN_VALUES = re.compile(
    rb"'[^']*'|\"[^\"]*\"|(?<=[=:])[^\s,;=:]+|(?<!\S)[^\s/@\\]*[/@\\]\S*"
    rb"|(?<![A-Za-z_.-])[A-Za-z_.-]*#[A-Za-z_.#-]*"
)
VALUE_PARTS = [b"a", b"B_", b".", b"-", b"#", b"=", b":", b"'", b'"', b"/", b"@", b"\\", b",", b" "]


@given(st.lists(st.sampled_from(VALUE_PARTS), max_size=14).map(b"".join))
def test_values_texts_and_paths_are_taken_out_as_the_plain_pattern_says(line):
    assert vague(line) == PLAIN_VALUES.sub(b"*", line)


WORDS = (
    b"Errors errno FATAL failed failover excEption Traceback panic denied refused killed oom room "
    b"aborted corrupt segfault segmentation unreachable cannot unable crashed timed time timeout "
    b"fehler FEHLGESCHLAGEN erreur \xc3\xa9chec fallo erro errore KeyError \xe9\x94\x99\xe8\xaf\xaf "
    b"\xe5\xa4\xb1\xe6\x95\x97 \xd0\xbe\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba\xd0\xb0 out _ . :"
).split()


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(b"".join))
@example(b"x123e4567-e89b-12d3-a456-426614174000")
@example(b"at Jan  7, id abc12f and 0xFF, no abcdef but abcde1x")
def test_numbers_identifiers_and_dates_are_masked_as_the_plain_pattern_says(line):
    assert masked(line) == PLAIN.sub(b"#", line)


@given(st.lists(st.sampled_from([*WORDS, b" "]), max_size=6).map(b"".join))
def test_trouble_is_found_wherever_its_pattern_finds_it(line):
    found, plain = error_in(line, Hints([b"other", line])), _ERROR.search(line)
    assert (found and found.span()) == (plain and plain.span())


LEVEL_WORDS = b"|".join([word for _, word in sorted((-len(word), word) for word in RANKS)])
LEVEL = re.compile(
    rb"(?<![A-Za-z_-])(" + LEVEL_WORDS.upper() + rb")(?![A-Za-z_-])"
    rb"|(?i:\b(?:level|lvl|severity|loglevel)[\"']?\s*[=:]\s*[\"']?(" + LEVEL_WORDS + rb")\b)"
    rb"|[\[<(](?i:(" + LEVEL_WORDS + rb"))[\])>]"
    rb"|^(?:\S+\s+\|\s+)?([EWIF])[0-9]{4} [0-9:.]+ +[0-9]+ "
)
KLOG = {b"E": b"error", b"W": b"warning", b"I": b"info", b"F": b"fatal"}
LEVEL_PARTS = [
    *(
        b"ERROR WARN warn [Err] <info> (WARNING) INFORMATION debug E0102 W0102 12:01 7 web |".split()
    ),
    *(b"level= lvl: severity='info' loglevel DEBUG CRIT CRITICAL ERRORS x - _ [ ] = : TLS".split()),
    *(b" ", b"\t"),
]


@given(st.lists(st.sampled_from(LEVEL_PARTS), max_size=9).map(b"".join))
@example(b"web-1  | E0102 12:01 7 level=info ERROR")
@example(b"(x [warn] INFO")
def test_a_level_is_found_wherever_its_pattern_finds_it(line):
    plain = LEVEL.search(line)
    expected = None
    if plain:
        word = plain[plain.lastindex]
        expected = *plain.span(), KLOG[word] if plain.lastindex == 4 else word.lower()
    assert level_of(line, Hints([b"other", line])) == expected


@pytest.mark.parametrize("line", [b"E0102 12:01 7 a", b"web | W0102 12:01 7 a"])
def test_the_levels_of_klog_are_one_letter(line):
    assert level_of(line, Hints([]))[2] in (b"error", b"warning")
