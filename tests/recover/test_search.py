import os
import re
import subprocess
import sys
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.recover import search
from yarp.recover.pattern import Matcher
from yarp.recover.select import Text

REF = "yr_" + "0" * 32


def in_memory(data):
    return Text(len(data), data)


def in_file(data):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return Text(len(data), None, os.dup(file.fileno()))


def found(data, pattern, *, keep=10**6, text=None, **options):
    text = text or in_memory(data)
    return search.scan(text, Matcher([pattern]), keep, **options)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(search, "_BLOCK_BYTES", 64)
    monkeypatch.setattr(search, "MAX_LINE_BYTES", 256)
    monkeypatch.setattr(search, "_OVERLAP_BYTES", 32)


def numbers(data, pattern, **options):
    return [line.number for line in found(data, pattern, **options).lines]


def answer(
    data, pattern, *, before=2, after=2, results=20, cap_bytes=32768, cap_lines=1900, err=b""
):
    sources = []
    matcher = Matcher([pattern])
    for name, content in (("stdout", data), ("stderr", err)):
        text = in_memory(content)
        hits = search.scan(text, matcher, results)
        sources.append(search.Source(name, "true", text, hits, matcher))
    return search.Answer(
        REF, sources, [], max_results=results, cap_bytes=cap_bytes, cap_lines=cap_lines
    ).fitted(before, after)


@given(
    st.lists(st.text("ab\r", max_size=4).map(str.encode), max_size=30),
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
)
def test_blocks_of_any_size_give_the_same_lines(lines, ended, invert, keep):
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    whole = data.split(b"\n")
    whole = whole[:-1] if whole[-1] == b"" else whole
    wanted = [n for n, line in enumerate(whole, 1) if (b"a" in line) != invert]
    small = pytest.MonkeyPatch()
    small.setattr(search, "_BLOCK_BYTES", 3)
    try:
        for text in (in_memory(data), in_file(data)):
            hits = found(data, b"a", keep=keep, text=text, invert=invert)
            assert hits.matches == len(wanted)
            assert [line.number for line in hits.lines] == wanted[:keep]
            for line in hits.lines:
                assert text.read(line.start, line.end) == whole[line.number - 1]
            text.close()
    finally:
        small.undo()


def test_the_last_line_needs_no_newline_and_an_empty_source_has_no_lines():
    assert numbers(b"x\nlast", b"last") == [2]
    assert numbers(b"x\nlast\n", b"^$") == []
    assert numbers(b"", b"^") == []
    assert numbers(b"\n\n", b"^$") == [1, 2]
    assert numbers(b"", b"a", invert=True) == []


def test_a_needle_across_the_pieces_of_an_over_long_line_is_found(small_pieces):
    for place in range(1, 1000, 7):
        line = b"." * place + b"needle" + b"." * (1000 - place)
        hits = found(b"first\n" + line + b"\nlast\n", b"needle|last")
        assert [hit.number for hit in hits.lines] == [2, 3]
        assert hits.lines[0].hit <= 6 + place + 32
        assert [hit.number for hit in hits.long_lines] == [2]


def test_anchors_hold_only_at_the_ends_of_an_over_long_line(small_pieces):
    line = b"s" + b"x" * 1000 + b"e"
    for pattern, wanted in (
        (b"^x", []),
        (b"x$", []),
        (b"^s", [1]),
        (b"e$", [1]),
        (b"\\bx", []),
        (b"x\\b", []),
        (b"\\Ax|x\\z", []),
        (b"\\As", [1]),
    ):
        assert numbers(line, pattern) == wanted, pattern
        assert numbers(line + b"\n", pattern) == wanted, pattern
    assert numbers(line + b"\nshort\n", b"y", invert=True) == [1, 2]


def test_a_binary_source_is_told_not_searched_unless_asked(small_pieces):
    data = b"x\n" * 1000 + b"\0x\n"
    assert found(data, b"x").binary
    assert not found(data, b"x").lines
    assert found(data, b"x", as_text=True).matches == 1001
    assert found(b"x" * 1000 + b"\0\n", b"y").binary


def test_the_answer_has_the_documented_shape():
    lines = b"".join(b"line %d\n" % n for n in range(1, 31))
    assert answer(lines, b"^line (5|6|20)$", before=1, after=2, err=b"oops 5\nline 5\n") == (
        f"""[yarp search: ref={REF}]
[source=stdout complete=true matches=3 showing=3 before=1 after=2 max_results=20]
stdout-4-line 4
stdout:5:line 5
stdout:6:line 6
stdout-7-line 7
stdout-8-line 8
--
stdout-19-line 19
stdout:20:line 20
stdout-21-line 21
stdout-22-line 22
--
[source=stderr complete=true matches=1 showing=1 before=1 after=2 max_results=20]
stderr-1-oops 5
stderr:2:line 5
Read exact context: yarp read {REF} stdout 4:8
Read exact context: yarp read {REF} stdout 19:22
Read exact context: yarp read {REF} stderr 1:2
""".encode()
    )


def test_a_source_without_a_hit_still_has_its_header():
    assert (
        b"[source=stderr complete=true matches=0 showing=0 before=2 after=2 max_results=20]\n"
        b"Read exact context"
    ) in answer(b"a\n", b"a", err=b"b\n")


def test_more_matches_than_results_are_counted_and_said():
    text = answer(b"a\n" * 50, b"a", results=3)
    assert b"matches=50 showing=3" in text
    assert b"[yarp search: 47 selected line(s) omitted]\n" in text


def test_groups_merge_exactly_when_they_touch():
    data = b"".join(b"%d\n" % n for n in range(1, 20))
    assert b"--" not in answer(data, b"^(3|8)$", before=2, after=2)
    assert b"--" in answer(data, b"^(3|9)$", before=2, after=2)
    assert answer(data, b"^(3|4)$", before=0, after=0).count(b"Read exact") == 1


def test_context_shrinks_before_a_selected_line_goes():
    data = b"".join(b"%d %s\n" % (n, b"x" * 60) for n in range(300))
    text = answer(data, b"^(50|150|250) ", before=50, after=50, cap_bytes=4096)
    assert b"matches=3 showing=3" in text
    before, after = (int(n) for n in re.search(rb"before=(\d+) after=(\d+)", text).groups())
    assert 0 < before < 50
    assert before - after in (0, 1)
    assert len(text) <= 4096


def test_without_context_nothing_but_the_lines_is_shown_and_one_way_to_read_each_source():
    lines = b"".join(b"line %d\n" % n for n in range(1, 31))
    assert answer(lines, b"^line (5|6|20)$", before=0, after=0, err=b"oops\nline 5\n") == (
        f"""[yarp search: ref={REF}]
[source=stdout complete=true matches=3 showing=3 before=0 after=0 max_results=20]
stdout:5:line 5
stdout:6:line 6
stdout:20:line 20
[source=stderr complete=true matches=1 showing=1 before=0 after=0 max_results=20]
stderr:2:line 5
Read exact context: yarp read {REF} stdout 5:20
Read exact context: yarp read {REF} stderr 2:2
""".encode()
    )


def test_many_lines_are_shown_compactly_before_any_goes():
    data = b"".join(b"FAILED test_%d\nnoise\nnoise\n" % n for n in range(600))
    text = answer(data, b"FAILED", before=0, after=0, results=600)
    assert text.count(b"stdout:") == 600
    assert b"omitted" not in text
    assert text.count(b"Read exact context") == 1


def test_lines_are_dropped_from_the_source_that_shows_most():
    text = answer(
        b"a" * 50 + b"\n" + b"a\n" * 400, b"a", err=b"a err\n", results=400, cap_bytes=2048
    )
    assert b"[source=stderr complete=true matches=1 showing=1" in text
    shown = int(re.search(rb"matches=401 showing=(\d+)", text).group(1))
    assert text.count(b"stdout:") == shown > 20
    assert b"[yarp search: %d selected line(s) omitted]" % (401 - shown) in text


def test_one_line_says_where_the_first_match_is_when_nothing_else_fits():
    assert (
        answer(b"x\na\n", b"a", cap_lines=1)
        == (
            f"[yarp search: ref={REF}; matches=1; showing=0; omitted=1; first=stdout:2; "
            f"read=yarp read {REF} stdout 2:2]\n"
        ).encode()
    )
    assert answer(b"a\n", b"a", cap_bytes=64) is None


@given(
    st.lists(st.sampled_from([b"a", b"b" * 50, b"a" + b"c" * 900, b""]), min_size=1, max_size=60),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(1, 60),
    st.integers(1, 200),
    st.integers(1024, 8000),
)
def test_an_answer_keeps_its_ceilings_and_counts_right(
    lines, before, after, results, cap_lines, cap
):
    matches = sum(line[:1] == b"a" for line in lines)
    if not matches:
        return
    data = b"\n".join(lines) + b"\n"
    text = answer(
        data, b"^a", before=before, after=after, results=results, cap_lines=cap_lines, cap_bytes=cap
    )
    assert len(text) <= cap
    assert text.count(b"\n") <= cap_lines
    assert b"matches=%d" % matches in text
    shown = [line for line in text.split(b"\n") if line.startswith(b"stdout:")]
    omitted = re.search(rb"(\d+) selected line\(s\) omitted|omitted=(\d+)", text)
    assert len(shown) + int((omitted and (omitted[1] or omitted[2])) or 0) == matches
    for line in shown:
        number, content = line.removeprefix(b"stdout:").split(b":", 1)
        assert lines[int(number) - 1].startswith(content.removesuffix(b"..."))


def test_a_long_line_is_cut_around_its_match():
    line = b"a" * 50_000 + b"needle" + b"b" * 50_000
    text = answer(line + b"\n", b"needle")
    assert b"stdout:1:...a" in text
    assert b"needle" in text
    assert text.count(b"...") == 2
    assert b" --bytes " in text


@given(st.text("aé日\U0001f600", max_size=60), st.integers(32, 64), st.integers(0, 60))
def test_a_cut_falls_between_characters_and_keeps_the_match(line, limit, place):
    plain = line.encode()
    hit = len(line[:place].encode()) if place < len(line) else 0
    shown = search.cut(plain, limit, hit)
    kept = shown.decode().removeprefix("...").removesuffix("...")
    assert kept in line
    assert len(kept.encode()) <= limit
    assert plain[hit : hit + 1] == b"" or line[len(plain[:hit].decode())] in kept


@pytest.mark.slow
def test_a_gibibyte_is_searched_in_bounded_memory():
    # In a process of its own: a peak counts all that this one ever did.
    code = (
        "import resource\n"
        "from yarp.recover import search\n"
        "from yarp.recover.pattern import Matcher\n"
        "from yarp.recover.select import Text\n"
        "found = search.scan(Text(int(sys.argv[1]), None, 0), Matcher([b'the end']), 10**6)\n"
        "print(found.matches, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    with tempfile.TemporaryFile() as file:
        block = b"".join(b"%d some ordinary output\n" % n for n in range(40_000))
        for _ in range(2**30 // len(block)):
            file.write(block)
        file.write(b"the end\n")
        size = file.tell()
        file.seek(0)
        # The one that starts it counts too, so that is a small one.
        small = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
        command = [*small, sys.executable, "-c", f"import sys; {code}", str(size)]
        told = subprocess.run(command, stdin=file, capture_output=True, check=True)
    matches, peak_kib = map(int, told.stdout.split())
    assert matches == 1
    assert peak_kib < 64 * 1024
