from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.spool.preview import Budget, Ends, make
from yarp.spool.receipt import PreviewState


def preview(out=b"", err=b"", *, failed=False, budget=None, **more):
    budget = budget or Budget()
    streams = []
    for n, (name, data) in enumerate((("stdout", out), ("stderr", err))):
        ends = Ends(budget.characters(n))
        for at in range(0, len(data), 1000):
            ends.add(data[at : at + 1000])
        streams.append((name, ends))
    more.setdefault("status", "exit code 0")
    return make(streams, failed=failed, budget=budget, **more)


def test_a_small_result_is_shown_whole():
    shown = preview(b"fine\n")
    assert shown.body == "fine"
    assert (shown.fact.state, shown.fact.byte_length) == (PreviewState.COMPLETE, 4)
    assert shown.text == "exit code 0\nfine"


def test_a_large_one_is_shown_by_its_head_and_a_larger_tail():
    data = b"".join(b"line %06d\n" % n for n in range(10_000))
    shown = preview(data)
    head, tail = shown.body.split("[… 120000 bytes in all, the middle is left out …]")
    assert shown.fact.state is PreviewState.HEAD_TAIL
    assert head.startswith("line 000000\n")
    assert tail.endswith("line 009999")
    assert 1900 <= len(head) <= 2002
    assert len(head) * 2 < len(tail) <= 6001


def test_stderr_comes_first_when_the_process_failed_and_second_when_not():
    assert preview(b"out\n", b"err\n").body == "[stdout]\nout\n[stderr]\nerr"
    assert preview(b"out\n", b"err\n", failed=True).body == "[stderr]\nerr\n[stdout]\nout"


def test_stderr_of_a_failure_has_its_share_of_the_bytes_before_stdout():
    budget = Budget(stdout=8000, stderr=2000, combined_bytes=3000)
    shown = preview("日".encode() * 5000, b"e" * 1900, failed=True, budget=budget)
    assert shown.body.startswith("[stderr]\n" + "e" * 1900)
    assert shown.fact.byte_length <= 3000
    assert len(shown.body) > 2000


def test_status_and_what_is_wrong_with_the_capture_stand_outside_of_the_body():
    shown = preview(
        b"x" * 100_000, status="exit code 2", notes=["capture partial: job-quota"], failed=True
    )
    assert shown.text.startswith("exit code 2\ncapture partial: job-quota\n")
    assert "exit code" not in shown.body
    assert shown.fact.byte_length == len(shown.body.encode())


def test_bytes_that_are_no_text_are_shown_without_harm():
    shown = preview(b"\x1b[31mred\x00\xff\r\n\xe2\x80\xaeabc")
    assert shown.body == "\\x1b[31mred\\x00\ufffd\\x0d\n\\u202eabc"


@pytest.mark.parametrize(
    "budget", [Budget(), Budget(40, 10, 200), Budget(0, 0, 0), Budget(5, 5, 3)]
)
@given(
    out=st.binary(max_size=3000) | st.text(max_size=3000).map(str.encode),
    err=st.text(max_size=300).map(str.encode),
    failed=st.booleans(),
)
def test_no_preview_is_larger_than_its_budget(budget, out, err, failed):
    shown = preview(out, err, failed=failed, budget=budget)
    assert shown.fact.byte_length == len(shown.body.encode())
    assert shown.fact.byte_length <= max(budget.combined_bytes, 0)
    if shown.fact.state is PreviewState.COMPLETE and not failed and not err:
        assert len(out.decode(errors="replace")) <= budget.stdout
