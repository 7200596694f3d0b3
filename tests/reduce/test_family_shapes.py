"""What lines look like: the patterns that take away what varies are fast, and mean the plain ones."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from yarp.reduce.families.log import _ERROR, _error_in
from yarp.reduce.families.shapes import masked

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
    found, plain = _error_in(line), _ERROR.search(line)
    assert (found and found.span()) == (plain and plain.span())
