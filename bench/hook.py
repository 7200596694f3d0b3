"""`yarp hook` as whole processes on a full archive, against a bare interpreter.

Measured from a regular install (wheels in an environment of their own) and from the environment
of scripts/bootstrap, each against its own `python -I -c pass`, interleaved. The events are those
of a host that is in use; the archive holds 50,000 calls, and 100 hooks have run before.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TextIO

import whole
from run import regular_install

from yarp.archive.write import Archive

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOST = "claude"
CALLS = 50_000
WARM_UP = 100
REPETITIONS = 60
EVENT_BYTES = 16 << 10
# What is measured, and how many bare interpreters it may cost at the median; at p95 one more.
LIMITS = {
    "before a call": 2.5,
    "after a call": 2.5,
    "after a command, reduced": 3.5,
    "after a command, reduced with the parser": 5.0,
    "no call": 2.5,
}
SESSION = {"session_id": "bench", "cwd": "/", "permission_mode": "default"}


def run(out_dir: str) -> list[str]:
    """Measure; raw timings go to `hook.jsonl` in `out_dir`, a row for each figure is returned."""
    with (
        tempfile.TemporaryDirectory(prefix="yarp-bench-") as work,
        open(os.path.join(out_dir, "hook.jsonl"), "w", encoding="utf-8") as raw,
    ):
        home = whole.home(work)
        environments = {"bootstrap": os.path.dirname(sys.executable)}
        report = []
        try:
            plugin = os.path.join(ROOT, "plugins", HOST)
            environments["regular"] = regular_install(work, plugin)
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", None) or b""
            report.append(f"no regular install to measure: {error} {output.decode()[-300:]}")
        _fill(os.path.join(home["XDG_DATA_HOME"], "yarp", "tool-calls.sqlite3"))
        for name in ("regular", "bootstrap"):
            if name in environments:
                report += _measure(name, environments[name], home, raw)
    return report


def _fill(path: str) -> None:
    """An archive of many small calls."""
    Archive.open(path, narrow=True).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO sessions VALUES (1, ?, 'bench', 'before', 1)", (HOST,))
    connection.executemany(
        "INSERT INTO tool_calls VALUES (?, 1, ?, ?, 'Bash', NULL, NULL, '/', ?, 0, ?, "
        "'finished', 0, 1)",
        ((n, f"toolu_{n}", f"yr_{n:032x}", n, n) for n in range(1, CALLS + 1)),
    )
    connection.executemany(
        "INSERT INTO payloads VALUES (?, 'none', 900, ?)",
        ((n.to_bytes(32, "big"), os.urandom(900)) for n in range(1, 2 * CALLS + 1)),
    )
    connection.executemany(
        "INSERT INTO snapshots VALUES (?, ?, ?, 'application/json', NULL, 1, ?)",
        (
            (n, subject, stage, (2 * n - (subject == "input")).to_bytes(32, "big"))
            for n in range(1, CALLS + 1)
            for subject in ("input", "result")
            for stage in ("before", "after")
        ),
    )
    connection.commit()
    connection.close()


def _before(number: int, tool: str = "Read", command: str = "") -> dict[str, object]:
    given = {"command": command} if command else {"file_path": f"/srv/shop/{number}.py"}
    call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"toolu_b{number}"}
    return {**SESSION, "hook_event_name": "PreToolUse", **call}


def _file(number: int) -> list[dict[str, object]]:
    lines = "".join(f"    value_{n} = read(source, {n * 7919 % 1000})\n" for n in range(400))
    content = f"# {number}\n{lines}"[:EVENT_BYTES]
    response = {"type": "text", "file": {"filePath": "/srv/shop/a.py", "content": content}}
    before = _before(number)
    after = {**before, "hook_event_name": "PostToolUse", "tool_response": response}
    return [before, after]


def _command(number: int, command: str) -> list[dict[str, object]]:
    lines = "".join(f"tests/test_shop.py::test_price_{n} PASSED  [{n}%]\n" for n in range(330))
    stdout = f"{lines[:EVENT_BYTES]}\n=== {number} passed in 1.2s ===\n"
    response = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    before = _before(number, "Bash", command)
    after = {**before, "hook_event_name": "PostToolUse", "tool_response": response}
    return [before, after]


def _events(what: str, number: int) -> list[dict[str, object]]:
    """The events to send; the last one is measured."""
    if what == "no call":
        return [{**SESSION, "hook_event_name": "SessionStart", "source": "startup"}]
    if what == "before a call":
        return [_before(number)]
    if what == "after a call":
        return _file(number)
    return _command(number, "cd web && pytest -v 2>&1" if "parser" in what else "pytest -v")


def _measure(name: str, bin_dir: str, home: dict[str, str], raw: TextIO) -> list[str]:
    bare = [os.path.join(bin_dir, "python"), "-I", "-c", "pass"]
    hook = [os.path.join(bin_dir, "yarp"), "hook", HOST]
    number = 0 if name == "regular" else 10_000_000
    for _ in range(WARM_UP // 2):
        number += 1
        for event in _file(number):
            _timed(hook, event, home)
    timings: dict[str, list[tuple[float, float]]] = {key: [] for key in ("bare", *LIMITS)}
    for _ in range(REPETITIONS):
        for what in LIMITS:
            number += 1
            *first, last = _events(what, number)
            for event in first:
                _timed(hook, event, home)
            timings["bare"].append(_timed(bare, None, home))
            timings[what].append(_timed(hook, last, home))
    for key, values in timings.items():
        rows = ({"install": name, "what": key, "ms": ms, "cpu_ms": cpu} for ms, cpu in values)
        raw.writelines(json.dumps(row) + "\n" for row in rows)
    base, base_cpu = _middle(timings["bare"])
    late = sorted(ms for ms, _ in timings["bare"])[int(len(timings["bare"]) * 0.95)]
    report = [f"bare, {name} install: p50 {base:.1f} ms, p95 {late:.1f} ms"]
    for what, limit in LIMITS.items():
        took, cpu = _middle(timings[what])
        p95 = sorted(ms for ms, _ in timings[what])[int(REPETITIONS * 0.95)]
        report.append(
            f"{what}, {name} install: p50 {took:.1f} ms, ratio {took / base:.2f} (limit {limit}), "
            f"p95 {p95 / base:.2f} (limit {limit + 1}); of processor time {cpu / base_cpu:.2f}"
        )
    return report


def _middle(values: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(ms for ms, _ in values), statistics.median(cpu for _, cpu in values)


def _timed(command: list[str], event: object, home: dict[str, str]) -> tuple[float, float]:
    """Milliseconds, and those of the processor, of a whole process that is given `event`."""
    data = b"" if event is None else json.dumps(event).encode()
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, home, file_actions=actions)
    os.close(reading)
    os.close(null)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
        pipe.write(data)
    _, status, used = os.wait4(pid, 0)
    took = (time.perf_counter() - began) * 1000
    if status:
        raise OSError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return took, (used.ru_utime + used.ru_stime) * 1000


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print("\n".join(run(sys.argv[1])))
