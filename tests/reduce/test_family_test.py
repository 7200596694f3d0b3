import os
import random

import pytest

from yarp.reduce.families.base import Status
from yarp.reduce.families.lines import split, wanted
from yarp.reduce.families.test import Family, _named, _parser, _sniffed
from yarp.reduce.families.test.report import Report, pieces
from yarp.testing.reducer import feed_in_blocks

RECORDINGS = os.path.join(os.path.dirname(__file__), "recordings", "test")


def recorded(name, part="stdout"):
    with open(os.path.join(RECORDINGS, name, part), "rb") as file:
        return file.read()


def summarise(command, stdout=b"", stderr=b"", exit_code=1, block_bytes=1 << 20):
    """All pieces of a summary, in order; None where the family declines."""
    family = Family(tuple(command.split()), {"success_bytes": 1024, "failure_bytes": 4096})
    feed_in_blocks(family, stdout, stderr, block_bytes=block_bytes)
    told = family.finish(Status(exit_code))
    return None if told is None else [piece.text.decode("utf-8", "replace") for piece in told]


def text_of(*arguments, **options):
    return "\n".join(summarise(*arguments, **options))


def test_no_tests_never_read_as_passed():
    for name in ("pytest_empty", "pytest_nofile", "pytest_deselect"):
        stderr = recorded(name, "stderr") if name == "pytest_nofile" else b""
        text = text_of("pytest", recorded(name), stderr, exit_code=5)
        assert "passed" not in text
        assert "no tests ran" in text or "461 deselected" in text
    assert "Ran 0 tests" in text_of("unittest", b"", recorded("unittest_none", "stderr"), 0)
    assert "no tests to run" in text_of("go test", recorded("go_norun"), exit_code=0)
    assert "No tests found" in text_of("jest", recorded("jest_none"))


def test_errors_at_collection_never_read_as_passed():
    for name in ("pytest_collection", "pytest_collection_addopts_q"):
        text = text_of("pytest", recorded(name), exit_code=2)
        assert "passed" not in text
        assert "No module named 'nowhere_to_be_found'" in text
        assert "Interrupted: 2 errors during collection" in text


def test_passes_beside_a_failing_fixture_are_told_with_its_error():
    text = text_of("pytest", recorded("pytest_collection_continue"))
    assert text.startswith("300 passed, 1 skipped, 6 warnings, 2 errors in")
    assert "ERROR broken/test_import.py" in text


def test_each_failure_is_told_once():
    for name in ("pytest_mixed", "pytest_mixed_ra", "pytest_mixed_xdist_v"):
        lines = "\n".join(summarise("pytest", recorded(name) if name != "pytest_mixed" else MIXED))
        for test in ("test_slug_unicode", "test_div_zero", "test_dict", "test_uses_database"):
            titles = [line for line in lines.split("\n") if line.startswith(("FAILED", "ERROR"))]
            assert sum(test in title for title in titles) == 1
        assert "=== " not in lines


MIXED = recorded("pytest_mixed_q")


def test_a_run_that_was_killed_names_what_had_failed_and_invents_no_count():
    whole = recorded("pytest_mixed_v")
    cut = whole[: whole.index(b"= ERRORS =") - 40]
    text = text_of("pytest -v", cut, exit_code=124)
    assert "FAILED tests/test_mixed.py::test_slug_unicode" in text
    assert "ERROR tests/test_mixed.py::test_uses_database" in text
    assert "passed" not in text


def test_an_internal_error_keeps_its_exception():
    stdout = (
        b"============================= test session starts ==============================\n"
        b"collected 3 items\n\n"
        b"INTERNALERROR> Traceback (most recent call last):\n"
        + b'INTERNALERROR>   File "/usr/lib/python3/site-packages/_pytest/main.py", line 3, in x\n'
        b"INTERNALERROR>     y()\n"
        * 40
        + b'INTERNALERROR>   File "/srv/demo/conftest.py", line 4, in pytest_collection\n'
        b"INTERNALERROR>     boom()\n"
        b"INTERNALERROR> NameError: name 'boom' is not defined\n\n"
        b"============================ no tests ran in 0.01s =============================\n"
    )
    text = text_of("pytest", stdout, exit_code=3)
    assert "NameError: name 'boom' is not defined" in text
    assert "/srv/demo/conftest.py" in text
    assert "no tests ran" in text


def test_a_parameter_may_hold_what_ends_a_name_elsewhere():
    text = text_of("pytest", MIXED)
    assert "FAILED tests/test_mixed.py::TestShop::test_total[c - d-4]\n" in text


def test_a_coverage_that_is_too_low_is_told_though_all_passed():
    stdout = (
        b"....                                                                     [100%]\n"
        b"================================ tests coverage ================================\n"
        b"Name    Stmts   Miss  Cover\n"
        + b"a.py       10      5    50%\n"
        * 60
        + b"TOTAL      10      5    50%\n"
        b"FAIL Required test coverage of 90% not reached. Total coverage: 50.00%\n"
        b"4 passed in 0.10s\n"
    )
    text = text_of("pytest -q", stdout)
    assert "FAIL Required test coverage of 90% not reached. Total coverage: 50.00%" in text
    assert "TOTAL      10      5    50%" in text
    assert "4 passed in 0.10s" in text


def test_a_worker_that_died_is_told():
    stdout = (
        b"2 workers [10 items]\n\n"
        + b"[gw0] [ 10%] PASSED tests/test_a.py::test_x \n" * 50
        + b"[gw1] node down: Not properly terminated\nreplacing crashed worker gw1\n"
        b"=================================== FAILURES ===================================\n"
        b"________________________________ tests/test_a.py _______________________________\n"
        b"[gw1] linux -- Python 3.11.7 /usr/bin/python3\n"
        b"worker 'gw1' crashed while running 'tests/test_a.py::test_segv'\n"
        b"=========================== short test summary info ============================\n"
        b"FAILED tests/test_a.py::test_segv\n"
        b"========================= 1 failed, 9 passed in 1.03s ==========================\n"
    )
    text = text_of("pytest -n 2 -v", stdout)
    assert "worker 'gw1' crashed while running 'tests/test_a.py::test_segv'" in text
    assert "FAILED tests/test_a.py::test_segv" in text
    assert "1 failed, 9 passed in 1.03s" in text


def test_the_same_cause_is_told_once_with_the_number_of_tests_that_have_it():
    text = text_of("pytest", recorded("pytest_allfail_q"))
    assert text.count("RuntimeError: fixture exploded: DB_URL missing") < 4
    assert "(and 119 more with the same error)" in text


def test_a_tests_own_rules_and_words_are_no_sections():
    stdout = (
        b"============================= test session starts ==============================\n"
        b"collected 2 items\n"
        b"= done =\n=====\nFAILED to frobnicate\nexit code 0 in 3s\n1 passed in spirit\n"
        + b"chatter\n" * 300
        + b"============================== 2 passed in 0.03s ===============================\n"
    )
    assert summarise("pytest -s", stdout, exit_code=0) == ["2 passed in 0.03s"]


def test_a_failed_status_without_a_known_failure_shows_the_end_of_what_was_said():
    stdout = b"starting\n" + b"working\n" * 500 + b"disk quota exceeded, giving up\n"
    text = text_of("pytest", stdout, exit_code=1)
    assert "disk quota exceeded, giving up" in text
    assert "passed" not in text
    assert summarise("pytest", b"plain\n" * 300, exit_code=0) is None


@pytest.mark.parametrize(
    ("name", "part", "fact"),
    [
        ("pytest_mixed_v", "stdout", "5 failed, 153 passed"),
        ("unittest_mixed_v", "stderr", "FAILED (failures=3"),
        ("cargo_merged", "stdout", "test result: FAILED. 20 passed; 5 failed"),
        ("go_all_v", "stdout", "FAIL\texample.com/shop/cart"),
        ("jest_mixed", "stderr", "Tests:       5 failed"),
        ("vitest_mixed", "stderr", "FAIL sum.test.js > sums > totals"),
        ("node_test", "stdout", "not ok 61 - totals"),
        ("mocha_mixed", "stdout", "2 failing"),
    ],
)
def test_behind_a_wrapper_the_output_tells_the_runner(name, part, fact):
    data = b"\n> shop@1.0.0 test\n> run\n\n" + recorded(name, part)
    streams = (data, b"") if part == "stdout" else (b"", data)
    assert fact in text_of("npm test", *streams)


@pytest.mark.parametrize(
    ("command", "name", "part"),
    [
        ("pytest -v", "pytest_mixed_v", "stdout"),
        ("unittest -v", "unittest_mixed_v", "stderr"),
        ("cargo test", "cargo_merged", "stdout"),
        ("go test -v", "go_all_v", "stdout"),
        ("jest", "jest_mixed", "stderr"),
        ("vitest run", "vitest_mixed", "stderr"),
        ("npm test", "node_test", "stdout"),
    ],
)
def test_a_long_run_is_the_same_however_its_blocks_are_cut(command, name, part):
    data = recorded(name, part) * (1_600_000 // len(recorded(name, part)))
    sizes = (700_001, 65_536, 1_000)
    results = [
        summarise(command, *((data, b"") if part == "stdout" else (b"", data)), block_bytes=size)
        for size in sizes
    ]
    assert results[0] is not None
    assert results[0] == results[1] == results[2]


def test_a_failure_in_the_middle_of_a_long_run_is_named():
    green = b"".join(
        b"tests/test_g.py::test_case[%d] PASSED      [ 50%%]\n" % n for n in range(40_000)
    )
    failure = MIXED[MIXED.index(b"\n=================================== FAIL") + 1 :]
    text = text_of(
        "pytest -v", green + b"tests/test_mixed.py::test_dict FAILED\n" + green + failure
    )
    assert "FAILED tests/test_mixed.py::test_div_zero" in text
    assert "ZeroDivisionError: division by zero" in text


def test_counts_of_a_run_too_long_to_read_are_whole_or_called_partial():
    lines = b"".join(b"ok  \texample.com/p%d\t0.01s\n" % n for n in range(60_000))
    text = text_of("go test", lines, exit_code=0)
    assert text.startswith("ok 60000 packages")
    targets = b"running 1 test\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n" * 60_000
    assert "(first " in text_of("cargo test", targets, exit_code=0)


def test_words_of_any_language_survive():
    stdout = (
        b"__________________________________ test_x __________________________________\n"
        + "E   ValueError: 値が正しくありません — größer als erlaubt\n".encode()
        + b"tests/test_x.py:3: ValueError\n"
    )
    head = b"=================================== FAILURES ===================================\n"
    end = b"============================== 1 failed in 0.03s ===============================\n"
    text = text_of("pytest", head + stdout + end)
    assert "値が正しくありません — größer als erlaubt" in text
    assert "FAILED test_x" in text


def test_random_bytes_and_random_cuts_never_raise():
    lines = [line for name in sorted(os.listdir(RECORDINGS)) for line in recorded_lines(name)]
    chance = random.Random(7)
    for command in ("pytest", "unittest", "cargo test", "go test", "jest", "vitest", "npm test"):
        for _ in range(6):
            data = b"".join(chance.choice(lines) for _ in range(400))
            data = data[: chance.randrange(len(data))] + chance.randbytes(50).replace(b"\n", b"")
            summarise(command, data, data[::-1], chance.choice((0, 1, 2)), 5_000)


def recorded_lines(name):
    folder = os.path.join(RECORDINGS, name)
    for part in ("stdout", "stderr"):
        if os.path.exists(os.path.join(folder, part)):
            yield from recorded(name, part).splitlines(keepends=True)


@pytest.mark.parametrize("name", sorted(os.listdir(RECORDINGS)))
def test_no_line_that_counts_is_skipped_as_noise(name):
    argv = tuple(recorded(name, "cmd").decode().split())
    for part in ("stdout", "stderr"):
        if not os.path.exists(os.path.join(RECORDINGS, name, part)):
            continue
        data = recorded(name, part)
        told = []
        for lines in (split, None):
            report = Report()
            parser = _parser(_named(argv) or _sniffed(b"\n" + data), report, 0)
            for line in lines(data) if lines else wanted(data, parser):
                parser.line(line)
            parser.finish()
            told.append([(piece.text, piece.worth) for piece in pieces(report, 4096)])
        assert told[0] == told[1]


def test_nextest_is_told_by_its_own_summary():
    stderr = """\
────────────
 Nextest run ID 3c2c8a1e-0000 with nextest profile: default
    Starting 60 tests across 2 binaries
PASSED HERE
        FAIL [   0.004s] shop tests::adds_up
──── STDOUT:             shop tests::adds_up

running 1 test
test tests::adds_up ... FAILED

failures:

failures:
    tests::adds_up

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 25 filtered out; finished in 0.00s

──── STDERR:             shop tests::adds_up

thread 'tests::adds_up' panicked at src/lib.rs:23:9:
assertion `left == right` failed
  left: 3
 right: 4
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

────────────
     Summary [   0.010s] 60 tests run: 59 passed, 1 failed, 0 skipped
        FAIL [   0.004s] shop tests::adds_up
error: test run failed
"""
    passed = "".join(f"        PASS [   0.003s] shop tests::g{n}\n" for n in range(59))
    stderr = stderr.replace("PASSED HERE\n", passed)
    lines = summarise("cargo nextest run", b"", stderr.encode(), 100)
    text = "\n".join(lines)
    assert lines[0] == "Summary [   0.010s] 60 tests run: 59 passed, 1 failed, 0 skipped"
    assert text.count("tests::adds_up") <= 3
    assert "src/lib.rs:23:9" in text
    assert " right: 4" in text
    assert "test result" not in text


def test_a_test_of_a_test_runner_does_not_end_the_run():
    inner = (
        b"============================= test session starts ==============================\n"
        b"collected 1 item\n"
        b"============================== 1 passed in 0.01s ===============================\n"
    )
    stdout = (
        b"============================= test session starts ==============================\n"
        b"collected 2 items\n\n"
        b"=================================== FAILURES ===================================\n"
        b"__________________________________ test_one ____________________________________\n\n"
        b">   assert 1 == 2\nE   assert 1 == 2\n\ntests/test_a.py:3: AssertionError\n"
        b"----------------------------- Captured stdout call -----------------------------\n"
        + inner
        + b"__________________________________ test_two ____________________________________\n\n"
        b">   assert 3 == 4\nE   assert 3 == 4\n\ntests/test_a.py:9: AssertionError\n"
        b"=========================== short test summary info ============================\n"
        b"FAILED tests/test_a.py::test_one - assert 1 == 2\n"
        b"FAILED tests/test_a.py::test_two - assert 3 == 4\n"
        b"============================== 2 failed in 0.03s ===============================\n"
    )
    lines = summarise("pytest", stdout)
    assert lines[0] == "2 failed in 0.03s"
    assert "FAILED tests/test_a.py::test_one" in lines
    assert "tests/test_a.py:9: AssertionError" in "\n".join(lines)


def test_several_sessions_are_told_in_turn():
    text = text_of("tox", MIXED + recorded("pytest_green_v"))
    assert "5 failed, 153 passed" in text
    assert "299 passed, 1 skipped" in text


def test_assertions_of_several_lines_stay_with_their_test():
    stdout = (
        b"--- FAIL: TestTotal (0.00s)\n"
        b"    cart_test.go:17: \n"
        b"        \tError Trace:\t/srv/demo/cart_test.go:17\n"
        b"        \tError:      \tNot equal: \n"
        b"        \t            \texpected: 3\n"
        b"        \t            \tactual  : 4\n"
        b"FAIL\nFAIL\texample.com/shop/cart\t0.003s\nFAIL\n"
    )
    text = text_of("go test ./...", b"go: downloading a v1\n" + stdout)
    assert "expected: 3" in text
    assert "actual  : 4" in text
    assert "downloading" not in text


def test_numbered_failures_below_a_heading_keep_their_causes():
    stdout = (
        b"."
        * 70
        + b"F\n\nFailures:\n\n  1) Basket adds up\n     Failure/Error: expect(total).to eq 4\n\n"
        b"       expected: 4\n            got: 3\n     # ./spec/basket_spec.rb:7:in `block'\n\n"
        b"Finished in 0.01 seconds\n71 examples, 1 failure\n\nFailed examples:\n\n"
        b"rspec ./spec/basket_spec.rb:5 # Basket adds up\n"
    )
    text = text_of("rspec", stdout)
    assert "71 examples, 1 failure" in text
    assert "got: 3" in text
    assert "./spec/basket_spec.rb:7" in text


def test_a_status_that_the_outcome_does_not_bear_out_is_said():
    stdout = recorded("pytest_green_v")
    lines = summarise("pytest -v", stdout, exit_code=139)
    assert lines[0] == "(exit status 139, but no failing test was recognised)"
    assert lines[1].startswith("299 passed, 1 skipped")
    assert summarise("pytest -v", stdout, exit_code=0)[0].startswith("299 passed")


def test_a_failed_run_whose_status_was_lost_is_still_told_as_failed():
    lines = summarise("pytest", MIXED, exit_code=0)
    assert lines[0].startswith("5 failed, 153 passed")
    assert "FAILED tests/test_mixed.py::test_dict" in "\n".join(lines)


def test_an_exception_that_hid_another_is_told_with_it():
    block = (
        b"=================================== FAILURES ===================================\n"
        b"__________________________________ test_load ___________________________________\n\n"
        b"    def load():\n>       open('x')\n"
        b"E       FileNotFoundError: [Errno 2] No such file or directory: 'x'\n"
        + b"E       detail of it\n"
        * 9
        + b"\napp.py:4: FileNotFoundError\n\n"
        b"The above exception was the direct cause of the following exception:\n\n"
        b">       load()\n\ntests/test_load.py:9: \n_ _ _ _ _ _ _ _ _\n\n"
        b">       raise RuntimeError('no settings') from error\n"
        b"E       RuntimeError: no settings\n\napp.py:7: RuntimeError\n"
        b"============================== 1 failed in 0.03s ===============================\n"
    )
    told = Family(("pytest",), {"failure_bytes": 4096})
    told.feed(0, block)
    causes = b"\n".join(piece.text for piece in told.finish(Status(1)) if piece.worth <= 2)
    assert b"FileNotFoundError: [Errno 2]" in causes
    assert b"RuntimeError: no settings" in causes
    assert b"app.py:7: RuntimeError" in causes


def test_a_compilers_frame_stays_whole():
    stderr = (
        b"error[E0308]: mismatched types\n  --> src/lib.rs:4:5\n   |\n3  |   fn f() -> u8 {\n"
        b"   |             -- expected\n4  | /     match x {\n5  | |         _ => 1,\n...  |\n"
        b"9  | |     }\n   | |_____^ expected `u8`\nhelp: try this\n   |\n4  |     as u8\n\n"
        b"error: could not compile `shop` (lib) due to 1 previous error\n"
    )
    text = text_of("cargo test", b"", stderr, 101)
    assert "9  | |     }" in text
    assert "help: try this" in text
    assert "could not compile `shop`" in text


def test_a_sign_of_the_runner_may_come_late():
    noise = b"webpack compiled some module into another module\n" * 6_000
    text = text_of("npm test", noise + MIXED)
    assert "FAILED tests/test_mixed.py::test_div_zero" in text


def test_no_title_stands_over_nothing():
    block = (
        b"=================================== FAILURES ===================================\n"
        b"__________________________________ test_x ______________________________________\n"
        b">   assert 0\nE   assert 0\n\ntests/test_x.py:3: AssertionError\n"
        b"----------------------------- Captured stdout call -----------------------------\n"
        b"\n"
        b"----------------------------- Captured stderr call -----------------------------\n"
        b"fetching\nconnection refused\n"
        b"=========================== short test summary info ============================\n"
        b"FAILED tests/test_x.py::test_x - assert 0\n"
        b"============================== 1 failed in 0.03s ===============================\n"
    )
    text = text_of("pytest", block)
    assert "Captured stdout" not in text
    assert "-- Captured stderr call" in text
    assert "connection refused" in text


def run_of(blocks, summary, outcome, header=True):
    """What pytest prints for these failures; blocks are (title, body)."""
    ruled = lambda title, rule="=": f" {title} ".center(80, rule).encode() + b"\n"  # noqa: E731 - short
    text = ruled("test session starts") + b"collected 9 items\n\n" if header else b"F\n"
    text += ruled("FAILURES")
    for title, body in blocks:
        text += ruled(title, "_") + body
    text += ruled("short test summary info") + b"".join(line + b"\n" for line in summary)
    return text + (ruled(outcome) if header else outcome.encode() + b"\n")


INNER = run_of(
    [("test_ghost", b"E   ghost error\n")],
    [b"FAILED inner/test_in.py::test_ghost - ghost error"],
    "5 failed in 0.01s",
)
CAPTURED = b"----------------------------- Captured stdout call -----------------------------\n"
LOOSE = b"_______ test_ghost _______\nE   ghost error\nFAILED inner/test_in.py::test_ghost\n"


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    "printed",
    [
        INNER,
        LOOSE + b"5 failed in 0.01s\n",
        LOOSE + b"===== 5 failed in 0.01s =====\n",
        INNER + LOOSE + INNER,
        b"INFO root:test_in.py:3 " + INNER,
    ],
)
def test_what_a_test_printed_is_never_the_runs_own_report(header, printed):
    blocks = [
        (f"test_{n}", b"E   assert %d == 0\ntest_a.py:%d: AssertionError\n" % (n, n) + printed)
        for n in (1, 2, 3)
    ]
    blocks = [(title, body.replace(printed, CAPTURED + printed)) for title, body in blocks]
    names = [b"FAILED test_a.py::test_%d - assert %d == 0" % (n, n) for n in (1, 2, 3)]
    lines = summarise("pytest", run_of(blocks, names, "3 failed, 6 passed in 0.20s", header))
    assert lines[0] == "3 failed, 6 passed in 0.20s"
    told = [line for line in "\n".join(lines).split("\n") if line.startswith(("FAILED", "ERROR"))]
    assert told == [f"FAILED test_a.py::test_{n}" for n in (1, 2, 3)]
    assert all(
        line.startswith("| ") or "5 failed in" not in line
        for line in "\n".join(lines[1:]).split("\n")
    )


def test_what_a_test_prints_uncaptured_is_never_the_runs_own_outcome():
    outer = run_of(
        [("test_1", b"E   assert 1 == 0\n")],
        [b"FAILED test_a.py::test_1 - assert 1 == 0"],
        "1 failed, 8 passed in 0.20s",
    )
    collected = b"collected 9 items\n\n"
    stdout = outer.replace(collected, collected + b"test_a.py " + INNER + LOOSE + b"F.\n")
    lines = summarise("pytest -s", stdout)
    assert lines[0] == "1 failed, 8 passed in 0.20s"
    assert [line for line in lines if line.startswith("FAILED")] == ["FAILED test_a.py::test_1"]


def test_what_passing_tests_printed_is_never_the_runs_own_report():
    outer = run_of(
        [("test_1", b"E   assert 1 == 0\n")],
        [b"PASSED test_a.py::test_2", b"FAILED test_a.py::test_1 - assert 1 == 0"],
        "1 failed, 8 passed in 0.20s",
    )
    summary = b" short test summary info ".center(80, b"=")
    passes = b" PASSES ".center(80, b"=") + b"\n" + b" test_2 ".center(80, b"_") + b"\n"
    stdout = outer.replace(summary, passes + CAPTURED + INNER + LOOSE + INNER + summary)
    lines = summarise("pytest -rA", stdout)
    assert lines[0] == "1 failed, 8 passed in 0.20s"
    assert [line for line in lines if line.startswith("FAILED")] == ["FAILED test_a.py::test_1"]


@pytest.mark.parametrize(
    "cause",
    [
        "E       RuntimeError: step failed\n" + "E       pad\n" * 14 + "E       real cause {n}\n",
        "E       ValueError: " + "a" * 700 + "{n}" + "b" * 700 + "\n",
        "E       ValueError: " + "a" * 1500 + "{n}" + "b" * 1500 + "\n",
        "E       line\n" * 900 + "E       real cause {n}\n" + "E       line\n" * 900,
    ],
)
def test_the_same_error_is_said_of_equal_diagnostics_only(cause):
    # Longer lines are cut before a family sees them, so that nothing is known of their middle.
    fed = [cause.format(n=n) for n in range(8)]
    fed = [
        "".join(
            line[:800] + f" [... {len(line)}-byte line ...] " + line[-800:]
            if len(line) > 2048
            else line
            for line in text.splitlines(keepends=True)
        )
        for text in fed
    ]
    blocks = [(f"test_p[{n}]", text.encode() + b"t.py:3: Error\n") for n, text in enumerate(fed)]
    names = [b"FAILED t.py::test_p[%d] - Error" % n for n in range(8)]
    assert "same error" not in text_of("pytest", run_of(blocks, names, "8 failed in 0.20s"))


def test_the_same_error_names_the_test_that_it_equals():
    body = b"E       ValueError: broken\n\nt.py:3: ValueError\n"
    blocks = [(f"test_p[{n}]", b"n = %d\n\n" % n + body) for n in range(3)]
    names = [b"FAILED t.py::test_p[%d] - ValueError: broken" % n for n in range(3)]
    lines = summarise("pytest", run_of(blocks, names, "3 failed in 0.20s"))
    assert "FAILED t.py::test_p[1] (same error as test_p[0])" in lines
    assert "FAILED t.py::test_p[2] (same error as test_p[0])" in lines
    # Where two tests have one short name, the whole name tells which is meant.
    names[1] = b"FAILED other.py::test_p[0] - ValueError: broken"
    blocks[1] = ("test_p[0]", body + b"other.py\n")
    lines = summarise("pytest", run_of(blocks, names, "3 failed in 0.20s"))
    assert "FAILED t.py::test_p[2] (same error as t.py::test_p[0])" in lines


def test_the_same_error_of_subtests_names_the_subtest():
    block = (
        "=" * 70 + "\nFAIL: test_a (t.T.test_a) (i={n})\n" + "-" * 70 + "\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/t.py", line 6, in test_a\n    self.assertEqual(1, 2)\n'
        "AssertionError: 1 != 2\n\n"
    )
    stderr = "".join(block.format(n=n) for n in range(3)) + "-" * 70
    stderr += "\nRan 1 test in 0.001s\n\nFAILED (failures=3)\n"
    lines = summarise("unittest", b"", stderr.encode())
    assert "FAIL: test_a (t.T.test_a) (i=2) (same error as test_a (i=0))" in lines


@pytest.mark.parametrize("message", [b"AssertionError: assert {" + b"'k': 'vvvv', " * 120, b""])
def test_every_failing_name_stands_before_any_long_diagnostic(message):
    body = b"".join(b"E       " + message + b"'k%d'\n" % n for n in range(40))
    blocks = [(f"test_render_case[{n}]", b"E       %d\n" % n + body) for n in range(36)]
    names = [b"FAILED tests/test_r.py::test_render_case[%d] - " % n + message for n in range(36)]
    family = Family(("pytest", "-vv"), {"failure_bytes": 4096})
    family.feed(0, run_of(blocks, names, "36 failed in 0.20s"))
    told = [piece for piece in family.finish(Status(1)) if piece.worth <= 1]
    text = b"\n".join(piece.text for piece in told)
    for n in range(36):
        assert b"FAILED tests/test_r.py::test_render_case[%d]" % n in text
    assert len(text) < 3900


def test_where_no_summary_names_failures_a_search_for_headings_finds_them():
    text = run_of([("test_x", b"E   assert 0\n")], [], "1 failed in 0.20s")
    family = Family(("pytest", "-rN"), {"failure_bytes": 4096})
    family.feed(0, text)
    terms = {term for piece in family.finish(Status(1)) for term in piece.terms}
    assert all(term.encode() in text for term in terms)


def test_what_a_go_test_prints_is_no_verdict():
    stdout = (
        b"=== RUN   TestA\n    a_test.go:7: inner run:\n        --- FAIL: TestGhost (0.00s)\n"
        b"ok  \tinner\t0.1s\n--- FAIL: TestGhost2 (0.00s)\n--- FAIL: TestA (0.00s)\n"
        b"=== RUN   TestB\n=== RUN   TestB/sub\n    --- FAIL: TestB/sub (0.00s)\n"
        b"--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/a\t0.01s\nFAIL\n"
    )
    lines = summarise("go test -v", stdout)
    verdicts = [line.partition(": ")[2] for line in lines if line.startswith("--- FAIL")]
    assert verdicts == ["TestA (0.00s)", "TestB/sub (0.00s)", "TestB (0.00s)"]
    assert lines[0] == "FAIL\texample.com/a\t0.01s"
    assert not any(line.startswith("ok") for line in lines)


def test_what_a_cargo_test_prints_is_no_result():
    inner = (
        b"running 1 test\ntest ghost ... FAILED\n\nfailures:\n\nfailures:\n    ghost\n\n"
        b"test result: FAILED. 0 passed; 9 failed; 0 ignored; finished in 0.00s\n"
    )
    stdout = (
        b"\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n"
        + inner
        + b"thread 'b' panicked at src/lib.rs:3:5:\nboom\n\n\nfailures:\n    b\n\n"
        b"test result: FAILED. 1 passed; 1 failed; 0 ignored; finished in 0.00s\n"
    )
    text = text_of("cargo test", stdout, exit_code=101)
    assert text.startswith("test result: FAILED. 1 passed; 1 failed")
    assert "9 failed" not in [line for line in text.split("\n") if line.startswith("test result")]
    assert "FAILED ghost" not in text
    assert "boom" in text


@pytest.mark.parametrize(
    "printed",
    [
        (
            b"  console.log\n    FAIL ghost.test.js\n      \xe2\x97\x8f ghost\n"
            b"     Test Files  9 failed (9)\n    Tests:       9 failed, 9 total\n\n"
            b"      at Object.log (a.test.js:3:9)\n\n"
        ),
        (
            b"stdout | a.test.js > sums\n FAIL ghost.test.js > ghost\n Test Files  9 failed (9)\n"
            b"Tests:       9 failed, 9 total\n\n"
        ),
    ],
)
def test_what_a_javascript_test_prints_is_no_total(printed):
    stderr = (
        printed + b"FAIL a.test.js\n  \xe2\x97\x8f sums\n\n    expect(received).toBe(expected)\n\n"
        b"    Expected: 3\n    Received: 4\n\nTest Suites: 1 failed, 1 total\n"
        b"Tests:       1 failed, 1 total\n"
    )
    text = text_of("jest", b"", stderr)
    assert "ghost" not in text
    assert "9 failed" not in text
    assert "FAIL a.test.js: sums" in text


def test_what_a_unittest_buffered_is_no_outcome():
    rule = b"=" * 70 + b"\n"
    stderr = (
        rule + b"FAIL: test_a (t.T)\n" + b"-" * 70 + b"\nTraceback (most recent call last):\n"
        b'  File "/srv/t.py", line 6, in test_a\nAssertionError: 1 != 2\n\nStdout:\n'
        b"Ran 9 tests in 0.001s\n\nFAILED (failures=9)\n\n"
        + b"-" * 70
        + b"\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n"
    )
    lines = summarise("unittest -b", b"", stderr)
    assert lines[:2] == ["Ran 2 tests in 0.001s", "FAILED (failures=1)"]
    assert "Ran 9 tests" not in "\n".join(lines[:3])


PLAYWRIGHT = """
Running 3 tests using 2 workers

  \u2713  1 a.spec.ts:3:7 \u203a adds (17ms)
  \u2718  2 b.spec.ts:8:5 \u203a pays (retry #1) (6ms)


  1) b.spec.ts:8:5 \u203a pays \u2500\u2500\u2500\u2500

    Error: rate of DE

    Expected: 7
    Received: 19

        at /srv/app/b.spec.ts:9:13

    Retry #1 \u2500\u2500\u2500\u2500

    Error: rate of DE again

  1 failed
    b.spec.ts:8:5 \u203a pays \u2500\u2500\u2500\u2500
  1 skipped
  1 passed (2.4s)
"""


@pytest.mark.parametrize("command", ["playwright test", "npm test"])
def test_a_failure_of_playwright_is_told_once_whatever_its_retries(command):
    told = summarise(command, PLAYWRIGHT.encode())
    assert told[:3] == ["1 failed", "1 skipped", "1 passed (2.4s)"]
    text = "\n".join(told)
    assert text.count("FAIL b.spec.ts:8:5 \u203a pays") == 1
    assert "Expected: 7" in text
    assert "at /srv/app/b.spec.ts:9:13" in text
    assert "again" not in text
    assert "adds" not in text


def test_a_suite_that_failed_for_its_tests_alone_is_not_a_failure_of_its_own():
    tap = "TAP version 13\n# Subtest: s\n    # Subtest: t\n    not ok 1 - t\n      ---\n"
    tap += "      error: 'wrong'\n      ...\n    1..1\nnot ok 1 - s\n  ---\n  type: 'suite'\n"
    tap += "  failureType: 'subtestsFailed'\n  error: '1 subtest failed'\n  ...\n"
    tap += "# Error [ERR_X]: Cannot find module 'y'\n1..1\n# tests 1\n# pass 0\n# fail 1\n"
    text = text_of("node --test", tap.encode())
    assert "not ok 1 - t" in text
    assert "not ok 1 - s" not in text
    assert "Cannot find module 'y'" in text
    assert "# fail 1" in text


def test_a_test_that_go_skipped_says_why():
    log = "=== RUN   TestIndex\n    a_test.go:9: needs the server\n--- SKIP: TestIndex (0.00s)\n"
    text = text_of("go test -v", (log + "PASS\nok  \tx/y\t0.1s\n").encode(), exit_code=0)
    assert "--- SKIP: TestIndex (0.00s) a_test.go:9: needs the server" in text


def test_a_run_that_was_stopped_says_so_and_where_it_stood_though_a_test_had_failed():
    head = b"============ test session starts ============\ncollected 300 items\n\n"
    lines = [
        b"t.py::test_n[%d] %b [ %2d%%]\n" % (n, b"FAILED" if n == 50 else b"PASSED", n // 3)
        for n in range(100)
    ]
    told = text_of("pytest -v", head + b"".join(lines) + b"t.py::test_n[100] ", exit_code=124)
    first = "(exit status 124; the run printed no summary: it may have been stopped)"
    assert told.split("\n")[0] == first
    assert "FAILED t.py::test_n[50]" in told
    assert "t.py::test_n[100] " in told

    rows = [
        b"test_%d (ut.T.test_%d) ... %b\n" % (n, n, b"FAIL" if n == 50 else b"ok")
        for n in range(100)
    ]
    trace = (
        b"test_100 (ut.T.test_100) ... Traceback (most recent call last):\n"
        b'  File "/usr/lib/python3.11/unittest/case.py", line 57, in testPartExecutor\n    yield\n'
        b'  File "/src/ut.py", line 5, in f\n    time.sleep(60)\nKeyboardInterrupt\n'
    )
    told = text_of("python -m unittest -v", b"", b"".join(rows) + trace, exit_code=130)
    assert told.startswith("(exit status 130; ")
    for fact in (
        "test_50 (ut.T.test_50)",
        "test_100 (ut.T.test_100)",
        'ut.py", line 5',
        "KeyboardInterrupt",
    ):
        assert fact in told
    assert "case.py" not in told


def test_an_interrupted_pytest_tells_where_it_stood():
    lines = [b"t.py::test_n[%d] PASSED [ %2d%%]\n" % (n, n // 3) for n in range(100)]
    end = (
        b"t.py::test_n[100] \n\n" + b"!" * 20 + b" KeyboardInterrupt " + b"!" * 20 + b"\n"
        b"/src/t.py:4: KeyboardInterrupt\n"
        b"(to show a full traceback on KeyboardInterrupt use --full-trace)\n"
        b"============ 100 passed in 4.88s ============\n"
    )
    told = text_of("pytest -v", b"".join(lines) + end, exit_code=2).split("\n")
    assert told[:2] == ["KeyboardInterrupt", "100 passed in 4.88s"]
    assert "/src/t.py:4: KeyboardInterrupt" in told


def test_a_run_that_was_stopped_while_it_printed_tap_names_the_last_test():
    rows = [
        b"# Subtest: case %d\n%b %d - case %d\n  ---\n  duration_ms: 0.1\n  ...\n"
        % (n, b"not ok" if n == 50 else b"ok", n + 1, n)
        for n in range(100)
    ]
    told = text_of("node --test", b"TAP version 13\n" + b"".join(rows), exit_code=143)
    assert "(exit status 143; " in told
    assert "ok 100 - case 99" in told
    ended = text_of("node --test", b"TAP version 13\n" + b"".join(rows), exit_code=1)
    assert "printed no summary" not in ended


def test_a_parameter_with_colons_is_told_once_and_with_its_file():
    blocks = b"".join(
        b"____ test_s[x::%d] ____\n\n    def test_s(n):\n>       assert n == %d\nE       assert 'x' == %d\n\nf/test_f.py:4: AssertionError\n"
        % (n, n, n)
        for n in range(11)
    )
    summary = b"".join(
        b"FAILED f/test_f.py::test_s[x::%d] - assert 'x' == %d\n" % (n, n) for n in range(11)
    )
    text = (
        b"==== test session starts ====\ncollected 13 items\n\nf/test_f.py FFFFFFFFFFF..\n\n"
        b"==== FAILURES ====\n"
        + blocks
        + b"==== short test summary info ====\n"
        + summary
        + b"==== 11 failed, 2 passed in 0.19s ====\n"
    )
    told = summarise("pytest", text)
    names = [line for line in told if line.startswith("FAILED ")]
    assert [name.partition(" - ")[0] for name in names] == [
        f"FAILED f/test_f.py::test_s[x::{n}]" for n in range(11)
    ]
