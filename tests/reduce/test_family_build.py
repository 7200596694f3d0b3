# ruff: noqa: RUF001 - the quotation marks that compilers print
import os

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.families.build import Family
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings
from yarp.testing.reducer import feed_in_blocks

EXAMPLES = os.path.join(os.path.dirname(__file__), "../../yarp/reduce/rules/builtin/examples/build")


def recorded(name):
    with open(os.path.join(EXAMPLES, name), "rb") as file:
        return file.read()


def summarise(command, stdout=b"", stderr=b"", exit_code=1, block_bytes=1 << 20):
    """All pieces of a summary; None where the family declines."""
    family = Family(tuple(command.split()), {"success_bytes": 1024, "failure_bytes": 4096})
    feed_in_blocks(family, stdout, stderr, block_bytes=block_bytes)
    return family.finish(Status(exit_code))


def text_of(*arguments, **options):
    told = summarise(*arguments, **options)
    assert told is not None
    return "\n".join(piece.text.decode() for piece in told)


def reduced(command, stdout=b"", stderr=b"", exit_code=1):
    reduction = Reduction(
        Selection("test", "test", "build", {}, tuple(command.split())), Settings()
    )
    reduction.feed(0, stdout)
    reduction.feed(1, stderr)
    summary = reduction.finish(Status(exit_code), Recovery("yr_" + "0" * 32))
    return (summary.stdout + summary.stderr).decode() if summary.changed else None


GCC = {
    "de": ("Fehler", "»x« nicht deklariert", "Warnung", "Variable »y« wird nicht verwendet"),
    "fr": ("erreur", "« x » non déclaré", "attention", "variable « y » inutilisée"),
    "zh": ("错误", "‘x’未声明", "警告", "未使用的变量‘y’"),
    "ja": ("エラー", "‘x’ が宣言されていません", "警告", "変数 ‘y’ が使用されていません"),
    "ru": ("ошибка", "«x» не описан", "предупреждение", "неиспользуемая переменная «y»"),
    "xx": ("gremlin", "‘x’ zorp", "blorp", "‘y’ zonk"),
}


@pytest.mark.parametrize("language", sorted(GCC))
def test_a_compiler_is_understood_in_any_language(language):
    error, message, warning, other = GCC[language]
    stderr = "".join(
        f"src/f{n}.c:3:5: {warning}: {other} [-Wunused-variable]\n    3 |  int y;\n      |      ^\n"
        f"src/f{n}.c:4:9: {error}: {message}\n    4 |  return x;\n      |         ^\n"
        for n in range(40)
    ).encode()
    text = text_of("gcc -c f.c", b"", stderr)
    assert f"src/f0.c:4:9: {error}: {message}" in text
    assert "return x;" in text
    assert f"src/f0.c:3:5: {warning}: {other} [-Wunused-variable] (and 39 more)" in text
    assert f"40 {'messages' if language == 'xx' else 'errors'} in 40 files" in text


def test_each_file_with_an_error_is_named_before_a_second_error_of_another():
    stderr = b"".join(
        b"dir/f%d.c:%d:1: error: message number %d of many words\n" % (n, line, line)
        for n in range(60)
        for line in range(1, 21)
    )
    text = reduced("gcc -c f.c", b"", stderr)
    for number in range(60):
        assert f"f{number}.c" in text or "f{" in text
    assert "1200 errors in 60 files" in text


def test_an_undefined_reference_keeps_its_function():
    stderr = b"".join(
        b"/usr/bin/ld: /tmp/cc%d.o: in function `main%d':\n"
        b"link.c:(.text+0x%x): undefined reference to `fn_missing_%d'\n" % (n, n, n, n)
        for n in range(60)
    )
    stderr += b"collect2: error: ld returned 1 exit status\n"
    text = reduced("gcc link.c -o link", b"", stderr)
    assert "in function `main0':" in text
    assert "undefined reference to `fn_missing_0'" in text
    assert "`fn_missing_9'" in text
    assert "collect2: error: ld returned 1 exit status" in text


def test_a_failure_that_says_nothing_known_shows_the_end_of_what_was_said():
    stdout = b"".join(b"step %d of the home-made build\n" % n for n in range(300))
    text = text_of("make all", stdout + b"disk quota exceeded, cannot go on\n")
    assert "disk quota exceeded, cannot go on" in text
    assert "0 errors" not in text


def test_a_build_that_only_prints_unknown_words_is_left_alone():
    assert summarise("make run", b"plain\n" * 600, exit_code=0) is None


def test_a_python_program_that_ends_well_is_left_alone():
    stdout = b"src/a.py:3:1: error: the program's own words\n" * 200
    assert summarise("python3 app.py", stdout, exit_code=0) is None
    assert summarise("python3 app.py", stdout, exit_code=1) is None


def test_a_program_that_cargo_compiled_and_ran_is_left_alone():
    words = b"".join(b"error: row %d is odd, says the program\n" % n for n in range(200))
    compiled = b"    Finished `dev` profile target(s) in 0.02s\n     Running `target/debug/x`\n"
    assert summarise("cargo run", b"", compiled + words, exit_code=1) is None
    failed = b"error[E0425]: cannot find x\n --> src/main.rs:2:5\nerror: could not compile `x`\n"
    assert "E0425" in text_of("cargo run", b"", failed, exit_code=101)


def test_a_crash_of_the_tool_itself_is_told_with_its_own_frames():
    stderr = b"error: cannot format a.py\nTraceback (most recent call last):\n"
    for n in range(90):
        where = b"/usr/lib/python3/site-packages/x.py" if n % 30 else b"/srv/demo/plugin.py"
        stderr += b'  File "%b", line %d, in f%d\n    call(%d)\n' % (where, n, n, n)
    stderr += b"acme.Broken: the rule set is empty\n"
    text = reduced("black --check .", b"", stderr * 2)
    assert "acme.Broken: the rule set is empty" in text
    assert 'File "/srv/demo/plugin.py", line 60' in text
    assert "site-packages" not in text


def test_tests_behind_make_are_told_with_the_failure_of_make():
    stdout = (
        b"pytest -v\n"
        b"============================= test session starts ==============================\n"
        + b"".join(b"tests/test_a.py::test_%d PASSED [ 10%%]\n" % n for n in range(200))
        + b"=================================== FAILURES ===================================\n"
        b"___________________________________ test_b ____________________________________\n"
        b"\n    def test_b():\n>       assert 1 == 2\nE       assert 1 == 2\n\n"
        b"tests/test_a.py:9: AssertionError\n"
        b"=========================== short test summary info ============================\n"
        b"FAILED tests/test_a.py::test_b - assert 1 == 2\n"
        b"======================== 1 failed, 200 passed in 1.20s =========================\n"
    )
    text = text_of("make test", stdout, b"make: *** [Makefile:2: test] Error 1\n", exit_code=2)
    assert "FAILED tests/test_a.py::test_b" in text
    assert "1 failed, 200 passed in 1.20s" in text
    assert "make: *** [Makefile:2: test] Error 1" in text


STREAMS = ["clangpp.stderr", "tsc.stdout", "eslint.stdout", "cargo-clippy.stderr", "ruff.stdout"]


@pytest.mark.parametrize("name", STREAMS)
def test_a_long_stream_is_the_same_however_its_blocks_are_cut(name):
    data = recorded(name)
    data = b"".join(
        b"[%d/900] Building C object CMakeFiles/x.dir/src/file%d.c.o\n" % (n, n) * 20
        + data.replace(b"basket", b"basket%d" % n)
        for n in range(900_000 // len(data))
    )
    results = []
    for size in (700_001, 65_536, 1_000):
        told = summarise("cc x", data, block_bytes=size)
        results.append([(piece.text, piece.worth) for piece in told])
    assert results[0] == results[1] == results[2]


def test_an_error_in_the_middle_of_a_long_build_is_told():
    noise = b"".join(
        b"[%d/90000] Building C object CMakeFiles/x.dir/src/file%d.c.o\n" % (n, n)
        for n in range(40_000)
    )
    error = b"src/a.c:3:5: error: 'x' undeclared\n    3 |   x = 1;\n      |   ^\n"
    text = text_of("ninja", noise + b"FAILED: src/a.c.o\n/usr/bin/cc -c a.c\n" + error + noise)
    assert "src/a.c:3:5: error: 'x' undeclared\n    3 |   x = 1;" in text
    assert "FAILED: src/a.c.o" in text


def test_an_error_behind_a_flood_of_warnings_is_told():
    flood = b"".join(b"src/a%d.c:3:5: warning: unused variable 'x'\n" % n for n in range(60_000))
    quiet = b"[9/9] Linking C executable some/where\n" * 9_000
    error = b"src/z.c:3:5: error: the one that matters\n"
    text = text_of("cc -c", flood + error + quiet)
    assert "src/z.c:3:5: error: the one that matters" in text


def test_every_rule_of_the_family_has_a_budget_its_examples_keep():
    rules = compile_rules([builtin_pack()])
    assert rules["problems"] == ()


def test_an_error_in_a_header_of_the_system_says_which_line_of_ours_asked_for_it():
    gcc = b"src/order.cpp:9:12:   required from here\n"
    gcc += b"/usr/include/c++/12/bits/ops.h:45:23: error: no match for 'operator<'\n"
    gcc += b"src/tax.cpp:7:16: error: 'class Store' has no member named 'totals'\n"
    text = text_of("g++ src/order.cpp", b"", gcc)
    assert "no match for 'operator<'\n  required from src/order.cpp:9:12\n" in text
    assert "'totals'\n  required from" not in text
    clang = b"/usr/include/c++/12/ops.h:45:23: error: invalid operands\n  return a < b;\n"
    clang += (
        b"/usr/include/c++/12/algo.h:1:6: note: in instantiation of function 'x' requested here\n"
    )
    clang += b"src/order.cpp:9:8: note: in instantiation of function 'sort' requested here\n"
    assert "required from src/order.cpp:9:8" in text_of("clang++ src/order.cpp", b"", clang)


def test_what_a_loader_of_a_bundler_says_again_is_said_once_with_its_place():
    stdout = b""
    for line, code in ((11, b"TS2345: wrong"), (12, b"TS2551: also wrong")):
        stdout += b"ERROR in /srv/app/main.tsx\n./main.tsx %d:22-27\n" % line
        stdout += b"[tsl] ERROR in /srv/app/main.tsx(%d,23)\n      %b\n\n" % (line, code)
    stdout += b"webpack 5.1.0 compiled with 2 errors in 12 ms\n"
    text = text_of("webpack", stdout)
    for line, code in ((11, "TS2345: wrong"), (12, "TS2551: also wrong")):
        assert f"ERROR in /srv/app/main.tsx({line},23)\n      {code}" in text
    assert "[tsl]" not in text


def test_the_coverage_of_all_files_stands_for_the_table():
    rows = b"".join(b" file%d.ts | 75 | 28.5 | 57 | 72 | 18-19\n" % n for n in range(60))
    stdout = b"> jest --coverage\n\nFile | %% Stmts |\nAll files | 74.5 | 28.4 | 56 | 72 |\n" + rows
    text = text_of("npm test", stdout, b"\nTests:       9 passed, 9 total\n", exit_code=0)
    assert "All files | 74.5 | 28.4 | 56 | 72 |" in text
    assert "9 passed" in text
    assert "file33.ts" not in text


def test_a_message_behind_a_long_frame_is_told_once_and_in_its_own_place():
    rows = b"".join(
        b"%-3d | def f%d(x: int) -> str:\n%-3d +\n" % (n, n, n + 1) for n in range(6, 440, 2)
    )
    text = (
        b"unformatted: File would be reformatted\n   --> lint/bad.py:4:1\n    |\n"
        + rows
        + b"    |\n\n"
        b"invalid-syntax: Expected a parameter or the end of the parameter list\n"
        b" --> lint/syn.py:1:7\n  |\n1 | def f(:\n  |       ^\n2 |   pass\n  |\n\n"
        b"1 file would be reformatted\n"
    )
    family = Family(("ruff", "format", "--check", "."), {"failure_bytes": 4096})
    family.feed(0, text)
    told = b"\n".join(piece.text for piece in family.finish(Status(2)))
    assert told.count(b"invalid-syntax") == 1
    assert told.index(b"lint/bad.py") < told.index(b"invalid-syntax") < told.index(b"lint/syn.py")
    assert b"def f438" not in told[told.index(b"lint/syn.py") :]
