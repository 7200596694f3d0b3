"""`yarp run` as whole processes: start-up against a bare interpreter, and large streams.

Start-up is measured from a regular install (a wheel in an environment of its own) and from
the environment of scripts/bootstrap, each against its own `python -I -c pass`, interleaved.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TextIO

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPETITIONS = 120
STREAM_MIB = 256
LINE = b"2026-01-01T00:00:%02d worker-%d GET /items/%d took %d us, sent %d bytes\n"


def run(out_dir: str) -> list[str]:
    """Measure; raw timings go to `run.jsonl` in `out_dir`, a row for each figure is returned."""
    with (
        tempfile.TemporaryDirectory(prefix="yarp-bench-") as work,
        open(os.path.join(out_dir, "run.jsonl"), "w", encoding="utf-8") as raw,
    ):
        home = _environment(work)
        environments = {"bootstrap": os.path.dirname(sys.executable)}
        report = []
        try:
            environments["regular"] = _regular_install(work)
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", None) or b""
            report.append(f"no regular install to measure: {error} {output.decode()[-300:]}")
        for name, limit in (("regular", 2.0), ("bootstrap", 2.5)):
            if name in environments:
                report.append(_start_up(name, environments[name], limit, home, raw))
        report += _streams(environments["bootstrap"], home, work, raw)
    return report


def _environment(work: str) -> dict[str, str]:
    names = {"HOME": "home", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"}
    environment = {
        **os.environ,
        **{variable: os.path.join(work, name) for variable, name in names.items()},
        "XDG_CONFIG_HOME": os.path.join(work, "config"),
    }
    # Without it every start would compile what changed since the last one.
    for variable in ("PYTHONDONTWRITEBYTECODE", "YARP_ARCHIVE", "YARP_PLUGINS", "PYTHONPATH"):
        environment.pop(variable, None)
    return environment


def _regular_install(work: str) -> str:
    """The `bin` directory of a new environment that has the wheel of this checkout."""
    wheels, target = os.path.join(work, "wheels"), os.path.join(work, "venv")
    constraints = os.path.join(ROOT, "constraints.txt")
    python = os.path.join(target, "bin", "python")
    if shutil.which("uv"):
        build = ["uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", wheels]
        _do([*build, "--python", sys.executable, ROOT])
        _do(["uv", "venv", "--quiet", "--python", sys.executable, target])
        install = ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    else:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        _do([*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT])
        _do([sys.executable, "-m", "venv", target])
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _do([*install, "-c", constraints, os.path.join(wheels, os.listdir(wheels)[0])])
    return os.path.join(target, "bin")


def _do(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def _start_up(name: str, bin_dir: str, limit: float, home: dict[str, str], raw: TextIO) -> str:
    commands = {
        "bare": [os.path.join(bin_dir, "python"), "-I", "-c", "pass"],
        "run": [os.path.join(bin_dir, "yarp"), "run", "--", "true"],
    }
    for command in commands.values():
        for _ in range(3):
            subprocess.run(command, env=home, check=True)
    timings: dict[str, list[float]] = {key: [] for key in commands}
    for _ in range(REPETITIONS):
        for key, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, env=home, check=True)
            timings[key].append((time.perf_counter() - began) * 1000)
    for key, values in timings.items():
        raw.writelines(json.dumps({"install": name, "what": key, "ms": ms}) + "\n" for ms in values)
    bare, ours = (statistics.median(timings[key]) for key in ("bare", "run"))
    return (
        f"`yarp run -- true`, {name} install: {ours:.1f} ms, bare interpreter {bare:.1f} ms, "
        f"ratio {ours / bare:.2f} (limit {limit}), {REPETITIONS} repetitions"
    )


def _streams(bin_dir: str, home: dict[str, str], work: str, raw: TextIO) -> list[str]:
    text, noise = os.path.join(work, "text"), os.path.join(work, "noise")
    with open(text, "wb") as file:
        for block in range(STREAM_MIB):
            lines = (
                LINE % (n % 60, n % 7, block * 7919 + n * 31, n * block % 9973, n * 131)
                for n in range(1 << 14)
            )
            file.write(b"".join(lines)[: 1 << 20].ljust((1 << 20) - 1) + b"\n")
    with open(noise, "wb") as file:
        file.writelines(os.urandom(1 << 20) for _ in range(STREAM_MIB))
    # A rule selects a program by its name alone.
    selected = os.path.join(work, "pytest")
    with open(selected, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nexec cat {text}\n")
    os.chmod(selected, 0o755)
    yarp = os.path.join(bin_dir, "yarp")
    report = []
    rates: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    for name, command in (
        ("text, live", ["cat", text]),
        ("random bytes, live", ["cat", noise]),
        ("text, selected", [selected, "-q"]),
    ):
        for _ in range(3):
            seconds, peak_kib = _timed([yarp, "run", "--", *command], home)
            measured = {"stream": name, "mib": STREAM_MIB, "s": seconds, "peak_kib": peak_kib}
            raw.write(json.dumps(measured) + "\n")
            rates[name].append((STREAM_MIB / seconds, peak_kib / 1024))
        rate = statistics.median(rate for rate, _ in rates[name])
        peak = max(peak for _, peak in rates[name])
        report.append(
            f"{STREAM_MIB} MiB of {name}: {rate:.0f} MiB/s, median of 3 (limit 143: 150 MB/s), "
            f"peak memory {peak:.0f} MiB (limit 64)"
        )
    return report


def _timed(command: list[str], home: dict[str, str]) -> tuple[float, int]:
    """Seconds and the peak memory, in KiB, of a whole process."""
    null = os.open(os.devnull, os.O_WRONLY)
    began = time.perf_counter()
    actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
    pid = os.posix_spawn(command[0], command, home, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    os.close(null)
    if status:
        raise OSError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return seconds, used.ru_maxrss


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print("\n".join(run(sys.argv[1])))
