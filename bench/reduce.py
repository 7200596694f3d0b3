"""Reduction: facts kept and tokens saved (see quality.py), warm latency, streaming throughput.

`scripts/bench reduce --cases DIR` adds the cases below another directory.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import quality
import streams
import whole

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

REF = "yr_" + "0123456789abcdef" * 2
RUNS = 3


def run(out_dir: str, cases: list[str] = ()) -> list[str]:
    """Measure; raw figures go to `out_dir`, a line for each summary is returned."""
    rules = compile_rules([builtin_pack()])
    with open(os.path.join(out_dir, "reduce.jsonl"), "w", encoding="utf-8") as raw:
        rows = quality.table("own cases", quality.OWN, raw)
        for directory in cases:
            title = os.path.basename(os.path.abspath(directory))
            rows += quality.table(title, [directory], raw)
        rows += _latency(rules, raw)
        with tempfile.TemporaryDirectory(prefix="yarp-bench-") as work:
            return [*rows, *_selection(rules, work, raw), *_throughput(rules, work, raw)]


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


def _selection(rules, work, raw):
    """One command's rule: in a warm process, and in a fresh one with a valid cache."""
    argv = ["git", "log", "--oneline", "-n", "30"]
    warm = []
    for _ in range(2000):
        started = time.perf_counter()
        select(argv, rules)
        warm.append((time.perf_counter() - started) * 1e6)
    code = (
        "import time; began = time.perf_counter()\n"
        "from yarp import cache\n"
        "from yarp.reduce.rules.match import select\n"
        f"assert select({argv}, cache.load().rules)\n"
        "print((time.perf_counter() - began) * 1000)"
    )
    command = [sys.executable, "-c", code]
    cold = [
        float(subprocess.run(command, env=whole.home(work), capture_output=True, check=True).stdout)
        for _ in range(42)
    ][2:]  # the first ones make the cache and bytecode
    raw.write(json.dumps({"selection_us": warm, "selection_cold_ms": cold}) + "\n")
    warm_us, cold_ms = statistics.median(warm), statistics.median(cold)
    return [
        f"selection among all rules, warm: p50 {warm_us:.0f} us (limit 100)",
        f"selection in a fresh process, with imports and cache: p50 {cold_ms:.1f} ms (limit 15)",
    ]


def _throughput(rules, work, raw):
    """Each stream through `Reduction.feed`, and through a whole `yarp reduce`."""
    yarp = os.path.join(os.path.dirname(sys.executable), "yarp")
    file, out = os.path.join(work, "stream"), os.path.join(work, "summary")
    rows = []
    for stream in streams.ALL:
        stream.write(file)
        command = [yarp, "reduce", "--command", stream.command, "--exit-code", str(stream.status)]
        fed, runs = [], []
        for _ in range(RUNS):
            fed.append(streams.STREAM_MB / _fed(stream, rules, file))
            runs.append(whole.timed(command, whole.home(work), source=file, out=out))
        with open(out, "rb") as shown:
            lost = ", ITS LAST FAILURE IS LOST" if stream.lost(shown.read()) else ""
        row = {"stream": stream.name, "feed_mb_s": fed, "reduce": [vars(run) for run in runs]}
        raw.write(json.dumps(row) + "\n")
        rows.append(
            f"{streams.STREAM_MIB} MiB of {stream.name}: Reduction.feed"
            f" {statistics.median(fed):.0f} MB/s, `yarp reduce`"
            f" {whole.said(runs, streams.STREAM_MB)} (limit 200), peak memory"
            f" {max(run.peak_mib for run in runs):.0f} MiB (limit 64){lost}"
        )
    return rows


def _fed(stream, rules, file):
    """Seconds of feeding the file to a reduction and of finishing it."""
    reduction = Reduction(select(stream.command.split(), rules), Settings())
    with open(file, "rb", buffering=0) as source:
        started = time.perf_counter()
        while chunk := source.read(64 << 10):
            reduction.feed(0, chunk)
        reduction.finish(Status(stream.status), Recovery(REF))
        return time.perf_counter() - started


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
    with tempfile.TemporaryDirectory() as directory:
        print(*run(directory), sep="\n")
