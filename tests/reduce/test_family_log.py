import random

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.families.log import code
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings

REFERENCE = "yr_" + "0" * 32


def summarise(data, *command, chunk_bytes=1 << 20, budget=None):
    options = {"success_bytes": budget} if budget else {}
    reduction = Reduction(Selection("test", "x", "log", options, command), Settings())
    for start in range(0, len(data), chunk_bytes):
        reduction.feed(0, data[start : start + chunk_bytes])
    summary = reduction.finish(Status(0), Recovery(REFERENCE))
    return summary.stdout.decode() if summary.changed else None


def log(count, odd=()):
    lines = [
        f"2026-11-29T10:{n // 60 % 60:02d}:{n % 60:02d}Z svc[{n % 7}]: INFO GET /item/{n * 37} in {n % 90} ms"
        for n in range(count)
    ]
    for at, line in odd:
        lines.insert(at, line)
    return "".join(line + "\n" for line in lines).encode()


def test_the_one_line_that_is_like_no_other_survives():
    text = summarise(log(2000, [(1234, "the lock file was taken over by QX-12")]), "cat", "x.log")
    assert "the lock file was taken over by QX-12" in text
    assert "and 1999 more like this" in text


def test_totals_by_level_are_those_of_the_whole_stream():
    data = log(900, [(n, f"2026-11-29T10:00:00Z ERROR disk {n}") for n in range(0, 900, 90)])
    assert summarise(data, "docker", "logs", "x").startswith(
        "910 lines, 2026-11-29T10:00:00 to 2026-11-29T10:14:59: error 10, info 900\n"
    )


def test_no_error_is_claimed_where_a_line_counts_none():
    data = b"".join(b"step %d done, 0 errors, failed: 0 failed\n" % n for n in range(200))
    text = summarise(data + b"end\n", "cat", "steps.txt")
    assert text.startswith("201 lines\n")
    assert "199 more like this" in text


def test_a_small_text_is_shown_as_it_is_and_a_small_log_is_not():
    assert summarise(log(40), "cat", "readings.txt") is None
    assert summarise(log(40), "cat", "readings.log") is not None


def test_a_repeated_error_is_said_once_with_its_count_and_last_time():
    data = log(
        300,
        [(n, f"2026-11-29T11:{n // 10}:00Z ERROR no route to 10.0.0.{n}") for n in (20, 90, 200)],
    )
    text = summarise(data, "journalctl", "-u", "x")
    assert text.count("no route") == 1
    assert "(and 2 more like this, last 11:20:00)" in text


def test_a_java_trace_keeps_its_head_and_every_cause():
    trace = [
        "2026-11-29T10:00:01Z ERROR request failed",
        "java.lang.IllegalStateException: no session",
        *(f"\tat org.example.A.m{n}(A.java:{n})" for n in range(40)),
        "Caused by: java.io.IOException: broken pipe",
        *(f"\tat org.example.B.m{n}(B.java:{n})" for n in range(40)),
        "\t... 12 more",
    ]
    text = summarise(log(400, [(100, "\n".join(trace))]), "kubectl", "logs", "x")
    assert "ERROR request failed\njava.lang.IllegalStateException: no session\n" in text
    assert "Caused by: java.io.IOException: broken pipe\n\tat org.example.B.m0" in text
    assert "A.m30" not in text


def test_two_python_traces_of_one_kind_of_call_keep_both_reasons():
    def trace(order, reason):
        return (
            f"2026-11-29T10:00:01Z ERROR order {order} failed\nTraceback (most recent call last):\n"
            f'  File "a.py", line {order}, in f\n    g(x)\n    ^^^^\n{reason}'
        )

    data = log(300, [(50, trace(7, "ValueError: negative")), (200, trace(9, "KeyError: 'tax'"))])
    text = summarise(data, "docker", "logs", "x")
    assert "ValueError: negative" in text
    assert "ERROR order 9 failed\n    [...]\nKeyError: 'tax'" in text


def test_identifiers_do_not_make_every_line_its_own_kind():
    draw = random.Random(5)
    lines = [
        f"INFO request {draw.getrandbits(128):032x} took {draw.randrange(900)} ms"
        for _ in range(500)
    ]
    lines.insert(321, "INFO the queue was drained by hand")
    text = summarise("\n".join(lines).encode(), "cat", "web.log")
    assert "and 499 more like this" in text
    assert "drained by hand" in text


def test_prose_and_code_stay_exact():
    draw = random.Random(6)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randrange(2, 9))) for _ in range(4000)]
    prose = "\n".join(" ".join(words[at : at + 10]) for at in range(0, 4000, 10)).encode()
    assert summarise(prose, "cat", "notes.txt") is None
    assert summarise(log(500), "cat", "src/log.py") is None
    assert summarise(log(500), "head", "-n", "500", "README.md") is None


@pytest.mark.parametrize(
    "name", ["a.py", "x/Makefile", "b.TSX", "package.toml", "requirements.txt"]
)
def test_code_is_known_by_its_name(name):
    assert code(name)


@pytest.mark.parametrize("name", ["a.log", "x.txt", "py", "data", "out.log.1"])
def test_other_files_are_no_code(name):
    assert not code(name)


@pytest.mark.parametrize("chunk_bytes", [1, 77, 65_536])
def test_how_the_bytes_arrive_does_not_show(chunk_bytes):
    data = log(
        700, [(9, "\x1b[31mERROR\x1b[0m first"), (600, "Traceback (most recent call last):\n  x")]
    )
    whole = summarise(data, "docker", "logs", "x")
    assert summarise(data, "docker", "logs", "x", chunk_bytes=chunk_bytes) == whole


def test_a_trace_across_two_blocks_is_one():
    filler = log(9_000)
    at = (1 << 20) - len(filler) - 60
    assert at > 0
    filler += b"x" * (at - 1) + b"\n"
    error = b"ERROR boom\n" + b"".join(b"    at frame%d (a.js:%d)\n" % (n, n) for n in range(20))
    text = summarise(filler + error + log(3000), "docker", "logs", "x")
    assert "ERROR boom\n    at frame0 (a.js:0)" in text


def test_the_statuses_of_a_web_server_are_counted_however_its_blocks_are_cut():
    lines = [
        f'10.0.0.{n % 9} - - [28/Nov/2026:06:{n // 60:02d}:{n % 60:02d} +0000] "GET /a/{n} HTTP/1.1"'
        f' {503 if n % 211 == 7 else 404 if n % 100 == 3 else 200} {n} "-" "curl/8"\n'
        for n in range(1800)
    ]
    data = "".join(lines).encode()
    texts = {summarise(data, "cat", "access.log", chunk_bytes=size) for size in (1 << 20, 7_001)}
    (text,) = texts
    assert "status 200 1773, 404 18, 503 9" in text
    assert '"GET /a/7 HTTP/1.1" 503' in text
    assert "503 mentioned" not in text
