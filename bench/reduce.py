"""Reduction: facts kept and tokens saved (see quality.py), warm latency, streaming throughput.

`scripts/bench reduce --cases DIR` adds the cases below another directory.
"""

import itertools
import json
import os
import statistics
import time

import quality

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

REF = "yr_" + "0123456789abcdef" * 2
MIB = 1 << 20


def run(out_dir: str, cases: list[str] = ()) -> list[str]:
    """Measure; raw figures go to `out_dir`, a line for each summary is returned."""
    rules = compile_rules([builtin_pack()])
    with open(os.path.join(out_dir, "reduce.jsonl"), "w", encoding="utf-8") as raw:
        rows = quality.table("own cases", quality.OWN, raw)
        for directory in cases:
            title = os.path.basename(os.path.abspath(directory))
            rows += quality.table(title, [directory], raw)
        return [*rows, *_latency(rules, raw), *_throughput(rules, raw)]


def _reduce(selection, streams, exit_code, chunk=64 << 10):
    reduction = Reduction(selection, Settings())
    for number, data in enumerate(streams):
        view = memoryview(data)
        for at in range(0, len(data), chunk):
            reduction.feed(number, view[at : at + chunk])
    return reduction.finish(Status(exit_code), Recovery(REF))


def _latency(rules, raw):
    inputs = {
        "pytest -v": _pytest_log(16 << 10),
        "find .": _rows(b"src/pkg%d/mod%d.py\n", lambda n: (n % 7, n), 16 << 10),
        "ls -R": b"\n".join(
            b"src/part%d:\n" % n + _rows(b"%b_%b.py\n", _words(n), 1000) for n in range(16)
        ),
        "kubectl get pods": b"NAME         READY   STATUS    RESTARTS   AGE\n"
        + _rows(b"web-%04d     1/1     Running   0          2d\n", lambda n: (n,), 16 << 10),
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


def _words(seed):
    """Names that have no numbers in common."""
    words = [b"alpha", b"Bravo", b"charlie_x", b"delta", b"ECHO", b"foxtrot", b"golf", b"hotel"]
    return lambda n: (words[(n + seed) % 8], words[(n // 8 + seed) % 8] * (1 + n // 64))


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
