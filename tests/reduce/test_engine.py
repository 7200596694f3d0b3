import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarp.reduce import blocks
from yarp.reduce.engine import Reduction, Status
from yarp.reduce.families.base import Family, Piece
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings

REF = "yr_" + "0123456789abcdef" * 2
RULES = [
    Selection(
        "yarp",
        rule.id,
        rule.family,
        rule.options,
        (rule.programs[0], *(word[0] for word in rule.prefix)),
    )
    for rule in builtin_pack().rules
    if rule.action == "reduce"
]
PLAIN = Selection("yarp", "none", "none", {"progress": 3}, ("tool",))


class Everything(Family):
    """Shows each line it is fed."""

    def __init__(self, argv, options):
        super().__init__(argv, options)
        self.fed = [b"", b""]

    def feed(self, stream, block):
        self.fed[stream] += block

    def finish(self, status):
        return [
            Piece(line, 5, stream) for stream in (0, 1) for line in self.fed[stream].splitlines()
        ]


def reduce(
    data, *families, status=0, stderr=b"", selection=PLAIN, step=None, recovery=None, options=None
):
    candidates = [(family.__name__, family) for family in families]
    reduction = Reduction(selection, options or Settings(), lambda _: candidates)
    for number, stream in enumerate((data, stderr)):
        for at in range(0, len(stream), step or max(1, len(stream))):
            reduction.feed(number, stream[at : at + (step or len(stream))])
    return reduction.finish(Status(status), recovery or Recovery(REF))


def seen(data, *, step=None, line_bytes=2048, family="none", **options):
    """What a family is fed for these bytes."""
    fed = []

    class Listener(Everything):
        def finish(self, status):
            fed.append(self.fed[0])

    options = {"progress": 3, **options, "success_bytes": 256, "max_line_bytes": line_bytes}
    selection = Selection("yarp", "none", family, options, ("tool",))
    reduce(data, Listener, selection=selection, step=step)
    return fed[0]


PAD = b"\n" * 256


def test_output_at_the_budget_is_never_touched():
    assert not reduce(b"x\n" * 512, Everything).changed
    assert reduce(b"x\n" * 5120, Everything).changed


def test_a_failure_has_the_larger_budget_and_an_unknown_status_counts_as_one():
    data = b"line\n" * 800
    assert reduce(data, Everything).changed
    assert not reduce(data, Everything, status=1).changed
    assert not reduce(data, Everything, status=None).changed


def test_the_budget_is_for_both_streams_together():
    summary = reduce(b"out\n" * 400, Everything, stderr=b"err\n" * 4000)
    assert summary.changed
    assert len(summary.stdout) + len(summary.stderr) <= 1024
    assert (summary.stdout + summary.stderr).count(b"[yarp: ") == 1
    assert summary.stderr.endswith(b"]\n")
    assert b"; stderr, stdout complete; " in summary.stderr


def test_a_summary_that_saves_too_little_gives_way_to_the_exact_bytes():
    class Long(Everything):
        def finish(self, status):
            return [Piece(b"y" * 800, 0)]

    assert reduce(b"x\n" * 600, Long).reason == "no saving"
    assert reduce(b"x\n" * 1200, Long).changed


def test_a_family_without_hope_is_fed_no_more_and_the_output_stays_exact():
    fed = []

    class Hopeless(Everything):
        hopeless = True

        def feed(self, stream, block):
            fed.append(block)
            super().feed(stream, block)

    reduction = Reduction(PLAIN, Settings(), lambda _: [("it", Hopeless)])
    for _ in range(3):
        reduction.feed(0, b"a line\n" * 200_000)
    assert reduction.hopeless
    assert len(fed) == 1
    assert not reduction.finish(Status(0), Recovery(REF)).changed


def test_a_family_that_raises_or_declines_costs_the_summary_alone():
    class Raises(Everything):
        def feed(self, stream, block):
            raise ValueError("secret payload")

    class RaisesLate(Everything):
        def finish(self, status):
            raise KeyError("secret payload")

    class Declines(Everything):
        def finish(self, status):
            return None

    data = b"line\n" * 4000
    for family in (Raises, RaisesLate, Declines):
        summary = reduce(data, family)
        assert not summary.changed
        assert "secret" not in summary.reason
    assert "ValueError" in reduce(data, Raises).reason
    assert "ValueError" in reduce(data, Raises, Everything).fault
    assert "KeyError" in reduce(data, Declines, RaisesLate, Everything).fault
    assert reduce(data, Declines, Everything).fault is None


def test_a_reducer_whose_turn_does_not_come_may_raise_unheard():
    class Raises(Everything):
        def feed(self, stream, block):
            raise ValueError

    summary = reduce(b"line\n" * 4000, Everything, Raises)
    assert summary.changed
    assert summary.fault is None


def test_the_marker_counts_what_is_missing_and_how_to_find_it():
    class Failures(Everything):
        def finish(self, status):
            return [Piece(b"3000 failed", 0, lines=0)] + [
                Piece(b"FAILED test_%d" % n, 3, terms=(f"test_{n}", "FAILED")) for n in range(3000)
            ]

    data = b"".join(b"FAILED test_%d\nas said\nabove\n" % n for n in range(3000))
    summary = reduce(data, Failures, status=1)
    lines = summary.stdout.splitlines()
    shown = len([line for line in lines if line.startswith(b"FAILED")])
    assert lines[0] == b"3000 failed"
    assert (
        lines[-1]
        == (
            f"[yarp: {9000 - shown} lines omitted; ref={REF}; stdout complete; "
            f"search: yarp search {REF} 'FAILED' -m1900 -C0]"
        ).encode()
    )
    assert 4000 < len(summary.stdout) <= 4096


def test_without_an_archive_the_marker_says_so():
    summary = reduce(b"line\n" * 4000, Everything, recovery=Recovery(None))
    assert summary.stdout.endswith(b" lines omitted; not archived]\n")
    assert b"yr_" not in summary.stdout


def test_a_search_pattern_matches_its_words_literally():
    class One(Everything):
        def finish(self, status):
            return [Piece(b"a" * 3000, 9, terms=("--test_g[3].x",)), Piece(b"ok", 0)]

    data = b"line\n" * 4000 + b"see --test_g[3].x here\n"
    assert rb"'\--test_g\[3\]\.x'" in reduce(data, One).stdout


def test_what_looks_like_a_marker_is_marked_as_the_output_s_own_or_left_in_exact_bytes():
    forged = b"[yarp: 9 lines omitted; ref=yr_%b; stdout complete]\n" % (b"f" * 32)
    summary = reduce(forged + b"x\n" * 4000, Everything)
    assert summary.stdout.startswith(b"[in the output: yarp: 9 lines omitted; ref=yr_ffff")
    assert summary.stdout.count(b"[yarp: ") == 1
    # Hidden by what a terminal does not show, at the cut of a long line, in a word of a search.
    for hidden in (
        b"[ya\x1b[0mrp: 9\n",
        b"[y\x07arp: 9\n",
        b"10%\r[yarp: 9\n",
        b"[YARP SEARCH: 9\n",
    ):
        text = reduce(hidden + b"x\n" * 4000, Everything).stdout
        assert text.lower().startswith(b"[in the output: yarp")
    text = reduce(b"x" * 9000 + b"[yarp: 9" + b"x" * 1000 + b"\n", Everything).stdout
    assert text.count(b"[yarp: ") == 1
    assert not reduce(forged, Everything).changed


def test_a_word_that_looks_like_a_marker_is_no_search_word():
    class One(Everything):
        def finish(self, status):
            words = ("[yarp: 9", "lost", "\ufffd")
            return [*(Piece(b"a" * 3000, 9, terms=(word,)) for word in words), Piece(b"ok", 0)]

    data = b"line\n" * 4000 + b"[yarp: 9 lost \xff\n"
    assert b"'lost']" in reduce(data, One).stdout


def test_what_is_worth_little_fills_half_of_the_budget_at_most():
    class Graded(Everything):
        def finish(self, status):
            return [Piece(b"tail %03d" % n, 6) for n in range(500)] + [
                Piece(b"told %03d" % n, 5) for n in range(20)
            ]

    shown = reduce(b"x\n" * 5000, Graded).stdout
    assert 256 < len(shown) <= 512
    assert shown.count(b"told") == 20


def test_a_piece_that_must_stay_is_cut_at_lines_not_dropped():
    class Trace(Everything):
        def finish(self, status):
            return [Piece(b"\n".join(b"frame %d of the trace" % n for n in range(400)), 0)]

    text = reduce(b"line\n" * 4000, Trace).stdout.decode()
    assert text.startswith("frame 0 of the trace\n")
    assert "frame 399 of the trace\n[yarp: " in text
    assert " lines ...]\n" in text


def test_one_long_line_shows_its_length_and_both_ends():
    text = reduce(b'{"first":1,' + b"x" * 3_000_000 + b',"last":2}', Everything).stdout
    assert text.startswith(b'{"first":1,xxx')
    assert b"[... 3000021-byte line ...]" in text
    assert b'xxx,"last":2}\n[yarp: ' in text
    assert text.endswith(b" stdout --bytes 0:16384]\n")


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        (b"\x1b[1;31mred\x1b[0m text\n", b"red text\n"),
        (b"\x1b]0;title\x07shown\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", b"shownlink\n"),
        (b"\x1b]0;never ended\nnext line\n", b"\nnext line\n"),
        (b"\x1b[31", b""),
        (b"\x1b(Bcharset\x1b=\n", b"charset\n"),
        (b"10%\r20%\r100% done\n", b"100% done\n"),
        (b"10%\r20%\r", b"20%"),
        (b"a\r\nb\r\r\nc\r\n", b"a\nb\nc\n"),
        (b"working\r       \rdone\n", b"done\n"),
        (b"10%\x1b[K\r\x1b[K20%\r\n", b"20%\n"),
        (b"one\ntwo\rTWO\nthree\n", b"one\nTWO\nthree\n"),
        ("grün\r日本\n".encode(), "日本\n".encode()),
    ],
)
def test_a_family_sees_what_a_terminal_would_show_at_last(raw, plain):
    for step in (None, 1, 7):
        assert seen(PAD + raw, step=step) == PAD + plain


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        (b"10%\r20%\r100% done\n", b"10%^M20%^M100% done\n"),
        (b"a\r\nb\r\r\n\r\rc\n\r\n", b"a\nb\nc\n\n"),
        (b"\rone\r\r\rtwo\r", b"one^Mtwo"),
        (b"\x1b[1mone\x1b[0m\r\n", b"one\n"),
    ],
)
def test_where_no_progress_is_printed_a_carriage_return_is_seen_inside_a_line(raw, plain):
    for step in (None, 1, 7):
        assert seen(PAD + raw, step=step, progress=0) == PAD + plain


def test_in_a_diff_a_carriage_return_is_seen_at_an_end_unless_all_lines_have_one():
    assert seen(PAD + b"+a\r\n-b\n", family="diff", progress=0) == PAD + b"+a^M\n-b\n"
    both = (PAD + b"+a\n-b\n").replace(b"\n", b"\r\n")
    assert seen(both, family="diff", progress=0) == PAD + b"+a\n-b\n"


@given(st.text("a\r\n", max_size=40))
def test_without_progress_lines_lose_only_the_returns_at_their_ends(text):
    lines = [re.sub("\r+", "^M", line.strip("\r")) for line in text.split("\n")]
    shown = PAD + PAD + "\n".join(lines).encode()
    assert seen(PAD + PAD + text.encode(), progress=0) == shown


def test_the_rule_tells_which_stream_holds_progress():
    def way(family, options, stream, **more):
        return blocks.returns_of(Selection("p", "r", family, options, ("t",)), stream, **more)

    assert way("test", {}, 0) == way("build", {}, 1) == way("status", {}, 0) == blocks.OVERWRITES
    assert way("search", {}, 0) == way("status", {"progress": 0}, 1) == blocks.TEXT
    assert way("json", {"progress": 2}, 0) == way("diff", {}, 1) == blocks.TEXT
    assert way("json", {"progress": 2}, 1) == blocks.OVERWRITES
    assert way("json", {"progress": 2}, 0, merged=True) == blocks.OVERWRITES
    assert way("diff", {}, 0) == blocks.EXACT_TEXT


@given(st.text("aé日💥", max_size=400), st.integers(60, 300))
def test_both_ends_of_a_line_stay_within_their_room_and_whole(text, room):
    line = text.encode()
    shown = blocks.both_ends(line, line, len(line), room)
    assert len(shown) <= room
    assert "\ufffd" not in shown.decode()


@given(st.text("a\r\n", max_size=40))
def test_of_each_line_stays_what_its_carriage_returns_left(text):
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    assert seen(PAD + PAD + text.encode()) == PAD + PAD + "\n".join(lines).encode()


def test_dense_and_sparse_carriage_returns_are_read_alike():
    line = b"1\r2\r3\r4\r5\n\rx\ny\r\n"
    assert seen(PAD + line * 60) == PAD + b"5\nx\ny\n" * 60
    assert seen(PAD + line + b"z" * 1000) == PAD + b"5\nx\ny\n" + b"z" * 1000


def test_progress_without_a_newline_is_bounded_and_keeps_its_last_state():
    data = b"".join(b"\rdownloaded %d of 400000 kB" % n for n in range(60_000))
    assert seen(PAD + data).endswith(b"downloaded 59999 of 400000 kB")
    assert len(seen(PAD + data)) < 300


@pytest.mark.parametrize(
    "size", [blocks._BLOCK_BYTES - 1, blocks._BLOCK_BYTES, blocks._BLOCK_BYTES + 1, 3_000_000]
)
def test_lines_at_the_edge_of_a_block_are_whole(size):
    data = b"a" * (size - 7) + b"\nb\nlast"
    line, b, last = seen(data).split(b"\n")
    assert (b, last) == (b"b", b"last")
    assert line.startswith(b"aaaa")
    assert b"[... %d-byte line ...]" % (size - 7) in line
    assert len(line) <= 2048


def test_memory_is_bounded_by_the_policy():
    import tracemalloc

    class Counts(Everything):
        def feed(self, stream, block):
            self.fed[stream] = b"%d" % len(block)

    reduction = Reduction(PLAIN, Settings(), lambda _: [("counts", Counts)])
    chunk = (b"x" * 80 + b"\n") * 800 + b"y" * 100_000
    tracemalloc.start()
    for _ in range(300):
        reduction.feed(0, chunk)
        reduction.feed(1, memoryview(chunk))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reduction.finish(Status(0), Recovery(REF)) is not None
    assert peak < 12 << 20


LINES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=30).map(str.encode),
    st.sampled_from(
        [
            b"error: it broke",
            b"FAILED tests/test_a.py::test_b - assert 1 == 2",
            b"src/a.py:3:match",
            b"src/a.py-4-near",
            b"diff --git a/x b/x",
            b"@@ -1 +1 @@",
            b"+new",
            b"-old",
            b"commit 0123456789abcdef",
            b"Author: A <a@b>",
            b"drwxr-xr-x 2 a b 4096 Nov 29 19:16 pkg1",
            b"deep/pkg1/file2.ts",
            b"dir:",
            b"total 8",
            b"\xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80 x",
            b" M src/a.py",
            b"\tmodified:   a",
            b"Untracked files:",
            b"* main",
            b"\x1b[31mred\x1b[0m",
            b"10%\r20%",
            b"test a ... ok",
            b"test result: FAILED. 1 passed; 1 failed",
            b"==== 1 failed, 2 passed in 0.1s ====",
            b"Collecting a",
            b"npm warn deprecated a@1: b",
            b"--- FAIL: TestX (0.0s)",
            b"\xff\xfe\x00",
            b"x" * 5000,
            "\U0001f600é".encode() * 700,
            b"",
            b"E   assert 0",
            b"____ test_b ____",
        ]
    ),
)
OUTPUT = st.lists(
    st.tuples(LINES, st.sampled_from([b"\n", b"\n", b"\r\n", b""]), st.integers(1, 60)), max_size=40
).map(lambda rows: b"".join((line + end) * times for line, end, times in rows))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(RULES),
    OUTPUT,
    OUTPUT,
    st.sampled_from([0, 1, None]),
    st.lists(st.integers(1, 5000), min_size=1, max_size=8),
)
def test_any_output_in_any_chunks_gives_one_honest_summary(selection, out, err, status, steps):
    whole = reduce(out, stderr=err, status=status, selection=selection)
    pieces = Reduction(selection, Settings())
    cuts = [0, 0]
    turn = 0
    while cuts[0] < len(out) or cuts[1] < len(err):
        step = steps[turn % len(steps)]
        stream = turn % 2
        pieces.feed(stream, (out, err)[stream][cuts[stream] : cuts[stream] + step])
        cuts[stream] += step
        turn += 1
    chunked = pieces.finish(Status(status), Recovery(REF))
    assert (whole.changed, whole.stdout, whole.stderr) == (
        chunked.changed,
        chunked.stdout,
        chunked.stderr,
    )
    assert "raised" not in whole.reason
    if not whole.changed:
        return
    name, budget = ("success_bytes", 1024) if status == 0 else ("failure_bytes", 4096)
    budget = selection.options.get(name, budget)
    size = len(whole.stdout) + len(whole.stderr)
    total = len(out) + len(err)
    assert size <= budget < total
    assert total - size >= max(256, total * 15 // 100)
    text = whole.stdout.decode() + whole.stderr.decode()
    assert text.count(f"; ref={REF}; ") == 1
    assert text.endswith("\n")


@pytest.mark.slow
@pytest.mark.parametrize("selection", RULES, ids=lambda selection: selection.rule)
def test_no_family_grows_with_what_it_reads(selection):
    import random
    import tracemalloc

    rng = random.Random(5)
    starts = [
        b"FAILED ",
        b"\tmodified:   ",
        b"  ",
        b"diff --git a/",
        b"commit ",
        b"E   ",
        b"error: ",
        b"- ",
        b"+",
        b"@@ ",
    ]
    starts += [
        b"test ",
        b"--- FAIL: ",
        b"",
        b"npm warn deprecated ",
        b"WARNING: ",
        b"PASS ",
        b"x/y:3:",
        b"____ ",
    ]
    reduction = Reduction(selection, Settings())
    tracemalloc.start()
    for _ in range(10):
        chunk = b"".join(
            b"%b%x/%x: %x\n"
            % (rng.choice(starts), rng.getrandbits(64), rng.getrandbits(200), rng.getrandbits(90))
            for _ in range(12_000)
        )
        reduction.feed(0, chunk)
        reduction.feed(1, chunk)
    reduction.finish(Status(1), Recovery(REF))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20
