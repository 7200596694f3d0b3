"""Reduction: facts kept, bytes and tokens before and after, warm latency, streaming throughput.

`YARP_CASES` names another directory of cases (each with cmd, exitcode, stdout, stderr and
must_keep.txt). Tokens are estimated: words of up to six letters, three digits, single signs.
"""

import itertools
import json
import os
import re
import shlex
import statistics
import time

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

CASES = os.path.join(os.path.dirname(__file__), "..", "tests", "reduce", "cases")
REF = "yr_" + "0123456789abcdef" * 2
MIB = 1 << 20
TOKEN = re.compile(r"[^\W\d_]{1,6}|\d{1,3}|[^\w\s]|_|\n+")


def run(out_dir: str) -> list[str]:
    """Measure; raw timings go to `out_dir`, a line for each figure is returned."""
    pack = builtin_pack()
    rules = compile_rules([pack])
    with open(os.path.join(out_dir, "reduce.jsonl"), "w", encoding="utf-8") as raw:
        return [
            *_quality("examples", _examples(pack), rules, raw),
            *_quality("cases", _cases(os.environ.get("YARP_CASES", CASES)), rules, raw),
            *_latency(rules, raw),
            *_throughput(rules, raw),
        ]


def _reduce(selection, streams, exit_code, chunk=64 << 10):
    reduction = Reduction(selection, Settings())
    for number, data in enumerate(streams):
        view = memoryview(data)
        for at in range(0, len(data), chunk):
            reduction.feed(number, view[at : at + chunk])
    return reduction.finish(Status(exit_code), Recovery(REF))


def _tokens(data: bytes) -> int:
    return len(TOKEN.findall(data.decode("utf-8", "replace")))


def _quality(title, cases, rules, raw):
    facts = kept = before = after = tokens_before = tokens_after = larger = lost = 0
    for name, command, exit_code, streams, must_keep in cases:
        selection = select(command, rules)
        shown = exact = b"".join(streams)
        if selection is not None:
            summary = _reduce(selection, streams, exit_code)
            shown = summary.stdout + summary.stderr if summary.changed else exact
        missing = [fact for fact in must_keep if fact.encode() not in shown]
        facts += len(must_keep)
        kept += len(must_keep) - len(missing)
        lost += bool(missing)
        before += len(exact)
        after += len(shown)
        tokens_before += _tokens(exact)
        tokens_after += _tokens(shown)
        larger += len(shown) > len(exact)
        row = {
            "case": name,
            "rule": selection and selection.rule,
            "bytes": [len(exact), len(shown)],
            "lost": missing,
        }
        raw.write(json.dumps(row) + "\n")
    if not before:
        return [f"reduce {title}: none"]
    return [
        (
            f"reduce {title}: {kept} of {facts} facts kept, {larger} made larger,"
            f" bytes {before:,} -> {after:,} (-{100 - after * 100 / before:.1f} %),"
            f" tokens about {tokens_before:,} -> {tokens_after:,}"
            f" (-{100 - tokens_after * 100 / max(1, tokens_before):.1f} %)"
        )
    ]


def _examples(pack):
    for rule in pack.rules:
        for example in rule.examples:
            if not example.guard:
                streams = (example.stdout or b"", example.stderr or b"")
                name = f"{rule.id}: {' '.join(example.command)}"
                yield name, list(example.command), example.exit_status, streams, example.keep


def _cases(directory):
    for name in sorted(os.listdir(directory)):

        def read(part, name=name):
            with open(os.path.join(directory, name, part), "rb") as file:
                return file.read()

        facts = [fact for fact in read("must_keep.txt").decode().splitlines() if fact]
        command = shlex.split(read("cmd").decode())
        yield name, command, int(read("exitcode")), (read("stdout"), read("stderr")), facts


def _latency(rules, raw):
    inputs = {
        "pytest -v": _pytest_log(16 << 10),
        "find .": _rows(b"src/pkg%d/mod%d.py\n", lambda n: (n % 7, n), 16 << 10),
        "git status": b"Changes not staged for commit:\n"
        + _rows(b"\tmodified:   src/a%d.py\n", lambda n: (n,), 16 << 10),
        "rg -n x": _rows(b"src/mod%d.py:%d:    x = f(%d)\n", lambda n: (n // 20, n, n), 16 << 10),
    }
    rows = []
    for command, data in inputs.items():
        times = []
        for _ in range(300):
            started = time.perf_counter()
            selection = select(command.split(), rules)
            _reduce(selection, (data, b""), 0)
            times.append((time.perf_counter() - started) * 1000)
        raw.write(json.dumps({"latency_ms": command, "times": [round(t, 4) for t in times]}) + "\n")
        # The first few carry the imports.
        warm = sorted(times[10:])
        rows.append(
            f"reduce 16 KiB `{command}` warm: p50 {statistics.median(warm):.2f} ms,"
            f" p95 {warm[len(warm) * 95 // 100]:.2f} ms (limit 2)"
        )
    return rows


def _throughput(rules, raw):
    plain = _pytest_log(64 * MIB)
    coloured = plain[: 16 * MIB].replace(b"PASSED", b"\x1b[32mPASSED\x1b[0m")
    failing = b"FAILED tests/test_a.py::test_b - AssertionError: assert 1 == 2\n" * (16 * MIB // 63)
    progress = b"\rcollecting 10 items\n" * (16 * MIB // 21)
    inputs = {
        "64 MiB pytest -v": ("pytest -v", plain),
        "colour": ("pytest -v", coloured),
        "every line fails": ("pytest", failing),
        "carriage returns": ("pytest", progress),
        "one line": ("pytest", b"x" * (64 * MIB)),
        "find": ("find .", _rows(b"deep/pkg%d/src/f%d.ts\n", lambda n: (n % 97, n), 24 * MIB)),
        "rg": ("rg -n x", _rows(b"src/m%d.py:%d:  x = %d\n", lambda n: (n // 40, n, n), 24 * MIB)),
    }
    rows = []
    for name, (command, data) in inputs.items():
        speeds = []
        for _ in range(3):
            started = time.perf_counter()
            _reduce(select(command.split(), rules), (data, b""), 0, chunk=MIB)
            speeds.append(len(data) / (time.perf_counter() - started) / 1e6)
        raw.write(json.dumps({"throughput_mb_s": name, "speeds": speeds}) + "\n")
        rows.append(f"reduce stream, {name}: {max(speeds):.0f} MB/s (aim 200)")
    return rows


def _rows(line, values, size):
    rows = (line % values(n) for n in itertools.count())
    whole = []
    while size > 0:
        whole.append(next(rows))
        size -= len(whole[-1])
    return b"".join(whole)


def _pytest_log(size: int) -> bytes:
    lines = b"".join(
        b"tests/test_green.py::test_g[%d] PASSED%b[%3d%%]\n" % (n, b" " * 60, n * 100 // 8000)
        for n in range(8000)
    )
    log = b"============ test session starts ============\ncollected 8000 items\n\n"
    log += lines * (size // len(lines) + 1)
    return (
        log[: log.rfind(b"\n", 0, size - 60) + 1]
        + b"=========== 8000 passed in 0.31s ===========\n"
    )


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        print(*run(directory), sep="\n")
