"""`yarp hook` as whole processes on a full archive, against a bare interpreter.

Measured from a regular install (wheels in an environment of their own) and from the environment
of scripts/bootstrap, each against its own `python -I -c pass`, interleaved. The events are those
of a host that is in use; the archive holds 50,000 calls, and 100 hooks have run before.
"""

from __future__ import annotations

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
    number = 0
    for _ in range(WARM_UP // 2):
        number += 1
        for event in _file(number if name == "regular" else number + 10_000_000):
            _timed(hook, event, home)
    timings: dict[str, list[float]] = {key: [] for key in ("bare", *LIMITS)}
    for _ in range(REPETITIONS):
        for what in LIMITS:
            number += 1
            events = _events(what, number if name == "regular" else number + 10_000_000)
            for event in events[:-1]:
                _timed(hook, event, home)
            timings["bare"].append(_timed(bare, None, home))
            timings[what].append(_timed(hook, events[-1], home))
    for key, values in timings.items():
        raw.writelines(json.dumps({"install": name, "what": key, "ms": ms}) + "\n" for ms in values)
    base = statistics.median(timings["bare"])
    return [
        f"{what}, {name} install: p50 {statistics.median(timings[what]):.1f} ms, bare {base:.1f} "
        f"ms, ratio {statistics.median(timings[what]) / base:.2f} (limit {limit}), p95 "
        f"{sorted(timings[what])[int(REPETITIONS * 0.95)] / base:.2f} (limit {limit + 1})"
        for what, limit in LIMITS.items()
    ]


def _timed(command: list[str], event: object, home: dict[str, str]) -> float:
    """Milliseconds of a whole process that is given `event`."""
    data = b"" if event is None else json.dumps(event).encode()
    began = time.perf_counter()
    done = subprocess.run(command, env=home, input=data, capture_output=True, check=True)
    took = (time.perf_counter() - began) * 1000
    if done.stderr:
        raise OSError(done.stderr.decode())
    return took


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print("\n".join(run(sys.argv[1])))
