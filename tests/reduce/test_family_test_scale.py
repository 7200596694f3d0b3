"""Names and first causes survive wherever they stand in a run of any length."""

import re

import pytest

from yarp.reduce.engine import Recovery, Reduction
from yarp.reduce.families.base import Status
from yarp.reduce.families.test import Family
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings


def blocks(data, size=1 << 20):
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + size) + 1 or len(data)
        yield data[start:end]
        start = end


def text_of(command, stdout=b"", stderr=b"", exit_code=1):
    family = Family(tuple(command.split()), {"success_bytes": 1024, "failure_bytes": 4096})
    for stream, data in enumerate((stdout, stderr)):
        for block in blocks(data):
            family.feed(stream, block)
    pieces = family.finish(Status(exit_code)) or []
    return "\n".join(piece.text.decode() for piece in pieces)


def shown(command, stdout=b"", stderr=b"", exit_code=1):
    selection = Selection("p", "r", "test", {}, tuple(command.split()))
    reduction = Reduction(selection, Settings())
    reduction.feed(0, stdout)
    reduction.feed(1, stderr)
    summary = reduction.finish(Status(exit_code), Recovery("yr_ref"))
    return (summary.stdout + summary.stderr).decode()


def go_passes(first, count):
    return b"".join(b"=== RUN   TestAll/case_%d\n" % n for n in range(first, first + count))


def go_verdicts(first, count):
    return b"".join(
        b"    --- PASS: TestAll/case_%d (0.00s)\n" % n for n in range(first, first + count)
    )


def test_a_failing_subtest_amid_many_passing_ones_keeps_its_name_and_log():
    text = (
        b"=== RUN   TestAll\n"
        + go_passes(0, 30_000)
        + b"=== RUN   TestAll/broken\n    all_test.go:7: want 1, got 2\n"
        + go_passes(40_000, 30_000)
        + b"--- FAIL: TestAll (0.10s)\n"
        + go_verdicts(0, 30_000)
        + b"    --- FAIL: TestAll/broken (0.00s)\n"
        + go_verdicts(40_000, 30_000)
        + b"FAIL\nFAIL\texample.com/all\t0.2s\nFAIL\n"
    )
    told = shown("go test -v ./...", text)
    assert "--- FAIL: TestAll/broken" in told
    assert "all_test.go:7: want 1, got 2" in told
    assert "FAIL\texample.com/all" in told


def test_a_failing_test_before_and_after_many_others_keeps_its_log():
    one = b"=== RUN   TestOk%d\n--- PASS: TestOk%d (0.00s)\n"
    passing = b"".join(one % (n, n) for n in range(30_000))
    bad = b"=== RUN   TestBad\n    bad_test.go:9: boom\n--- FAIL: TestBad (0.00s)\n"
    told = shown("go test -v", passing + bad + passing + b"FAIL\nFAIL\tm\t1s\nFAIL\n")
    assert "--- FAIL: TestBad" in told
    assert "bad_test.go:9: boom" in told


def test_packages_of_a_huge_run_are_counted_and_the_failing_one_stands_first():
    ok = b"".join(b"ok  \texample.com/p%d\t0.01s\n" % n for n in range(60_000))
    bad = b"--- FAIL: TestX (0.00s)\n    x_test.go:3: no\nFAIL\nFAIL\texample.com/bad\t0.1s\n"
    told = shown("go test ./...", ok + bad + ok + b"FAIL\n")
    assert told.startswith("FAIL\texample.com/bad")
    assert "FAIL 1, ok 120000 packages" in told
    assert "x_test.go:3: no" in told


def test_a_log_that_speaks_of_errors_costs_no_failing_pytest_name():
    log = b"".join(b"ERROR: retry %d\n" % n for n in range(30_000))
    failures = b"".join(
        b"____ test_bad[%d] ____\n\n    def test_bad(n):\n>       assert n\nE       assert %d\n\n"
        b"t.py:3: AssertionError\n" % (n, n)
        for n in range(3)
    )
    summary = b"".join(b"FAILED t.py::test_bad[%d] - assert %d\n" % (n, n) for n in range(3))
    text = (
        b"=" * 26 + b" test session starts " + b"=" * 26 + b"\ncollected 4 items\n\n"
        b"t.py::test_ok PASSED [ 25%]\n" + log + b"t.py::test_bad[0] FAILED [ 50%]\n" + log
        + b"=" * 35 + b" FAILURES " + b"=" * 35 + b"\n" + failures
        + b"=" * 28 + b" short test summary info " + b"=" * 28 + b"\n" + summary
        + b"=" * 25 + b" 3 failed, 1 passed in 2.00s " + b"=" * 25 + b"\n"
    )  # fmt: skip
    told = shown("pytest -v -s", text)
    assert told.startswith("3 failed, 1 passed in 2.00s")
    for number in range(3):
        assert f"FAILED t.py::test_bad[{number}]" in told
        assert f"E       assert {number}" in told


@pytest.mark.parametrize("ending", [b"", b" [ 12%]", b" [ 3/32]"])
def test_names_with_brackets_are_read_from_the_progress_of_a_run_that_was_killed(ending):
    head = b"=" * 26 + b" test session starts " + b"=" * 26 + b"\ncollected 64 items\n\n"
    lines = b"".join(
        b"t.py::test_p[a [b]-%d] %s%s\n" % (n, b"FAILED" if n % 2 else b"PASSED", ending)
        for n in range(64)
    )
    told = shown(
        "pytest -v -rN", head + lines + b"Fatal Python error: Aborted\n" * 200, exit_code=134
    )
    assert "no failing test was recognised" not in told
    for number in range(1, 64, 2):
        assert f"FAILED t.py::test_p[a [b]-{number}]" in told


def test_failures_of_many_thousands_are_counted_and_a_search_lists_them():
    names = b"".join(b"FAILED tests/t.py::test_%d - assert 0\n" % n for n in range(10_000))
    text = (
        b"=" * 28 + b" short test summary info " + b"=" * 28 + b"\n" + names
        + b"=" * 25 + b" 10000 failed in 9.00s " + b"=" * 25 + b"\n"
    )  # fmt: skip
    told = shown("pytest", text)
    assert told.startswith("10000 failed in 9.00s")
    assert "yarp search yr_ref 'FAILED'" in told
    assert "(9000 more failures were seen)" in told


def test_a_log_that_speaks_of_errors_costs_no_failing_unittest_name():
    log = b"".join(b"ERROR: retry %d\n" % n for n in range(30_000))
    block = (
        b"=" * 70 + b"\nFAIL: test_bad (t.T.test_bad)\n" + b"-" * 70
        + b'\nTraceback (most recent call last):\n  File "t.py", line 3, in test_bad\n'
        b"AssertionError: 1 != 2\n\n"
    )  # fmt: skip
    end = b"-" * 70 + b"\nRan 3 tests in 0.1s\n\nFAILED (failures=1)\n"
    told = shown("python -m unittest", b"", log + block + log + end)
    assert "FAIL: test_bad (t.T.test_bad)" in told
    assert "AssertionError: 1 != 2" in told
    assert "FAILED (failures=1)" in told


@pytest.mark.parametrize("count", [1_100, 60_000])
@pytest.mark.parametrize("merged", [False, True])
def test_a_log_that_speaks_of_errors_costs_no_failing_cargo_test(count, merged):
    log = b"".join(b"error: retry %d\n" % n for n in range(count))
    ok = b"running 1 test\ntest good ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\n"
    build = b"   Compiling m v0.1.0\n     Running unittests src/lib.rs (target/debug/deps/m-1)\n"
    bad = (
        b"running 1 test\n" + log + b"test late::BAD ... FAILED\n\nfailures:\n\n"
        b"---- late::BAD stdout ----\n" + log
        + b"thread 'late::BAD' panicked at src/lib.rs:9:5:\nassertion failed\n\n\n"
        b"failures:\n    late::BAD\n\n"
        b"test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\n"
    )  # fmt: skip
    end = b"error: test failed, to rerun pass `--lib`\n"
    streams = (build + ok + bad + log + end, b"") if merged else (ok + bad, build + log + end)
    told = shown("cargo test", *streams, exit_code=101)
    assert "FAILED late::BAD" in told
    assert "test result: FAILED. 0 passed; 1 failed" in told
    assert "panicked at src/lib.rs:9:5" in told


MANY = 2_400
REPORTS = {
    "pytest": (
        b"=" * 28 + b" short test summary info " + b"=" * 28 + b"\n",
        b"FAILED t.py::test_%d - assert 0\n",
        b"=" * 25 + b" 2400 failed in 9.00s " + b"=" * 25 + b"\n",
    ),
    "pytest -rN": (
        b"=" * 34 + b" FAILURES " + b"=" * 34 + b"\n",
        b"_____ test_%d _____\n\n>       assert 0\nE       assert 0\n\nt.py:3: AssertionError\n",
        b"=" * 25 + b" 2400 failed in 9.00s " + b"=" * 25 + b"\n",
    ),
    "pytest -v -rN": (
        b"=" * 26 + b" test session starts " + b"=" * 26 + b"\n",
        b"t.py::test_%d FAILED [ 10%%]\n",
        b"Fatal Python error: Aborted\n",
    ),
    "cargo test": (
        b"running 2400 tests\n",
        b"test test_%d ... FAILED\n",
        b"\ntest result: FAILED. 0 passed; 2400 failed\n",
    ),
    "cargo nextest run": (
        b" Nextest run ID 1 with nextest profile: default\n",
        b"        FAIL [   0.004s] m::test test_%d\n",
        b"     Summary [   1.0s] 2400 tests run: 0 passed, 2400 failed\n",
    ),
    "go test": (
        b"",
        b"--- FAIL: Test_test_%d (0.00s)\n    a_test.go:3: no\n",
        b"FAIL\nFAIL\tm\t1s\n",
    ),
    "jest": (
        b"FAIL src/a.test.js\n",
        "  \u25cf group \u203a test_%d\n\n    Error: no\n\n".encode(),
        b"Tests:       2400 failed, 2400 total\n",
    ),
    "vitest": (
        b" RUN  v3.0.0 /src\n\n\xe2\x8e\xaf\xe2\x8e\xaf Failed Tests 2400 \xe2\x8e\xaf\xe2\x8e\xaf\n\n",
        b" FAIL  src/a.test.ts > group > test_%d\nError: no\n\n",
        b" Test Files  1 failed (1)\n      Tests  2400 failed (2400)\n",
    ),
    "python -m unittest": (
        b"",
        b"=" * 70
        + b"\nFAIL: test_%d (t.T)\n"
        + b"-" * 70
        + b"\nTraceback (most recent call last):\n"
        b"AssertionError: no\n\n",
        b"-" * 70 + b"\nRan 2400 tests in 1s\n\nFAILED (failures=2400)\n",
    ),
    "npm test": (
        b"TAP version 13\n",
        b"not ok %d - test_%d\n  ---\n  error: no\n  ...\n",
        b"1..2400\n",
    ),
}


@pytest.mark.parametrize("command", sorted(REPORTS))
def test_the_markers_search_finds_every_failing_name_that_is_not_shown(command):
    start, one, end = REPORTS[command]
    source = start + b"".join(one % ((n,) * one.count(b"%d")) for n in range(MANY)) + end
    told = shown(command, source)
    words = re.search(r"search: yarp search yr_ref '([^']+)'", told)
    assert words, told
    found = "\n".join(line for line in source.decode().splitlines() if re.search(words[1], line))
    assert not [n for n in range(MANY) if not re.search(rf"test_{n}\b", found)]
