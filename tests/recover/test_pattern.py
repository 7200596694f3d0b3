import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.errors import UsageError
from yarp.recover.pattern import Matcher

LINES = st.lists(st.text("ab_ .1\t-", max_size=6), min_size=1, max_size=8)


def selected(matcher, block):
    plain = matcher.normalise(block)
    found = [number for number, *_ in matcher.lines(plain)]
    assert matcher.count(plain) == len(found)
    return found


def expressions():
    classes = (r"\d", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", "[^a]", "[ab]", "[^ ]", r"\.")
    atoms = st.sampled_from(["a", "b", "1", "_", "-", ".", "^", "$", *classes])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            inner.map(lambda part: f"(?:{part})*"),
            inner.map(lambda part: f"({part})?"),
            inner.map(lambda part: f"(?:{part}){{2}}"),
            inner.map(lambda part: f"(?i:{part})"),
        ),
        max_leaves=6,
    )


@given(expressions(), LINES)
def test_the_selected_lines_are_those_of_python_re(expression, lines):
    if r"\B" in expression:
        # Before 3.14 Python's \B matches nothing in an empty text; RE2's does, as in PCRE.
        lines = [line or " " for line in lines]
    pattern = re.compile(expression, re.ASCII)
    # RE2 finds `\B` in an empty text, as Perl does; Python does so from 3.14 on.
    lines = [line or "." for line in lines] if "\\B" in expression else lines
    wanted = [number for number, line in enumerate(lines) if pattern.search(line)]
    block = "\n".join(lines).encode()
    matcher = Matcher([expression.encode()])
    assert selected(matcher, block + b"\n") == wanted
    # Line by line, as for patterns about the whole text.
    assert [n for n, *_ in matcher._each_line(block)] == wanted


@given(st.text("ab.*(\\[^$", min_size=1, max_size=4), LINES)
def test_fixed_strings_are_plain_text(needle, lines):
    wanted = [number for number, line in enumerate(lines) if needle in line]
    assert selected(Matcher([needle.encode()], fixed=True), "\n".join(lines).encode()) == wanted


@pytest.mark.parametrize(
    ("patterns", "options", "wanted"),
    [
        ([b"foo"], {}, [0, 3, 4]),
        ([b"FOO"], {"ignore_case": True}, [0, 1, 3, 4]),
        ([b"foo"], {"words": True}, [0, 3]),
        ([b"^foo$"], {}, [0]),
        ([b"\\Afoo\\z"], {}, [0]),
        ([b"\\Afoo"], {}, [0, 4]),
        ([b"(?-m)^foo"], {}, [0, 4]),
        ([b"foo", b"bar"], {}, [0, 2, 3, 4]),
        ([b"a)(b"], {"fixed": True}, []),
        ([b"^$"], {}, [5]),
        ([b"^"], {}, [0, 1, 2, 3, 4, 5, 6]),
        ([b"$"], {}, [0, 1, 2, 3, 4, 5, 6]),
        ([b"r\\n"], {}, []),
        ([b"r\\n|foo$"], {}, [0]),
        ([b"\\Qfoo", b"\\Qb\\Ear"], {}, [0, 2, 3, 4]),
        ([b"\\\\Qfoo", b"bar"], {}, [2, 4]),
        ([b"\\Qfoo"], {"words": True}, [0, 3]),
        ([b"[^x]FOO"], {}, []),
        ([b"(?s)foo.FOO"], {}, []),
        ([b"\xc3\xa9{2}"], {}, [6]),
        ([b"\xc3\x89{2}"], {"ignore_case": True}, [6]),
        ([b"^..$"], {}, [6]),
    ],
)
def test_options_and_anchors(patterns, options, wanted):
    block = "foo\nFOO\nbar\na foo b\nfoobar\n\néé\n".encode()
    assert selected(Matcher(patterns, **options), block) == wanted


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain\ttab\n", b"plain\ttab"),
        (b"dos\r\n", b"dos"),
        (b"bare\r", rb"bare\x0d"),
        (b"a\rb\n", rb"a\x0db"),
        (b"\x1b[31;1mred\x1b[0m\x1b[K\n", b"red"),
        (b"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", b"xlink"),
        (b"\x1b(B\x1b=\x1b7x\n", b"x"),
        (b"\x1b]0;never ends\n", rb"\x1b]0;never ends"),
        (b"\x1b[31\n", rb"\x1b[31"),
        (b"bell\x07 del\x7f nul\0\n", rb"bell\x07 del\x7f nul\x00"),
        (b"caf\xe9 \xff\xfe ok\n", rb"caf\xe9 \xff\xfe ok"),
        ("é \x9b \u0085 \u00a0\n".encode(), "é \\u{9b} \\u{85} \u00a0".encode()),
        ("日本\n".encode(), "日本".encode()),
    ],
)
def test_a_line_is_shown_without_what_a_terminal_would_obey(line, shown):
    assert Matcher([b"x"]).normalise(line) == shown


def test_a_terminal_sequence_never_swallows_the_next_line():
    matcher = Matcher([b"FAILED"])
    assert selected(matcher, b"\x1b]0;open\nFAILED\x07\n\x1b[\nFAILED\n") == [1, 3]


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), min_size=1))
def test_a_block_is_normalised_line_by_line(lines):
    matcher = Matcher([b"x"])
    block = b"".join(line + b"\n" for line in lines)
    alone = [matcher.normalise(line + b"\n") for line in lines]
    assert matcher.normalise(block).split(b"\n") == alone
    for line in alone:
        assert line.decode().replace("\t", "").isprintable() or not line.isascii()


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ([b"a(?=b)"], "refused (invalid perl operator: (?=)"),
        ([b"(a)\\1"], "refused (invalid escape sequence: \\1)"),
        ([b"a)(b"], "refused (unexpected ): a)(b)"),
        ([b"[a"], "refused (missing "),
        ([b"\xff"], "refused (invalid UTF-8)"),
        ([b"a{1001}"], "repetition"),
        ([b"((a{100}){100}){100}"], "refused ("),
        ([b"\\pL{1000}"], "refused ("),
        ([b""], "1 to 1024 bytes"),
        ([b"x" * 1025], "1 to 1024 bytes"),
        ([b"a\nb"], "no line break"),
        ([b"a"] * 9, "give 1 to 8"),
        ([], "give 1 to 8"),
    ],
)
def test_a_refused_pattern_says_what_to_do(patterns, message):
    with pytest.raises(UsageError) as caught:
        Matcher(patterns)
    assert message in str(caught.value)
    assert any(word in str(caught.value) for word in ("use ", "give ", "change it"))


@pytest.mark.parametrize("pattern", [b"(a*)*b", b"(a|aa)+$b", b"(x+x+)+y", b"(.*)*(.*)*(.*)*z{3}"])
def test_no_pattern_takes_more_than_linear_time(pattern):
    # A backtracking engine would need longer than the universe has.
    assert selected(Matcher([pattern]), b"a" * 100_000 + b"x" * 100_000 + b"\n") == []
