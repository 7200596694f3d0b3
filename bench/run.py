"""`yarp run` as whole processes: start-up against a bare interpreter, and large streams.

Start-up is measured from a regular install (a wheel in an environment of its own) and from
the environment of scripts/bootstrap, each against its own `python -I -c pass`, interleaved.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TextIO

import streams
import whole

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPETITIONS = 120


def run(out_dir: str) -> list[str]:
    """Measure; raw timings go to `run.jsonl` in `out_dir`, a row for each figure is returned."""
    with (
        tempfile.TemporaryDirectory(prefix="yarp-bench-") as work,
        open(os.path.join(out_dir, "run.jsonl"), "w", encoding="utf-8") as raw,
    ):
        home = whole.home(work)
        environments = {"bootstrap": os.path.dirname(sys.executable)}
        report = []
        try:
            environments["regular"] = regular_install(work)
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", None) or b""
            report.append(f"no regular install to measure: {error} {output.decode()[-300:]}")
        for name, limit in (("regular", 2.0), ("bootstrap", 2.5)):
            if name in environments:
                report.append(_start_up(name, environments[name], limit, home, raw))
        report += _streams(environments["bootstrap"], home, work, raw)
    return report


def regular_install(work: str, *plugins: str) -> str:
    """The `bin` directory of a new environment with the wheels of this checkout and `plugins`."""
    wheels, target = os.path.join(work, "wheels"), os.path.join(work, "venv")
    constraints = os.path.join(ROOT, "constraints.txt")
    python = os.path.join(target, "bin", "python")
    if shutil.which("uv"):
        build = ["uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", wheels]
        for source in (ROOT, *plugins):
            _do([*build, "--python", sys.executable, source])
        _do(["uv", "venv", "--quiet", "--python", sys.executable, target])
        install = ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    else:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        sources = [ROOT, *plugins]
        _do([*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, *sources])
        _do([sys.executable, "-m", "venv", target])
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    built = [os.path.join(wheels, name) for name in os.listdir(wheels) if name.endswith(".whl")]
    _do([*install, "-c", constraints, *built])
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
    """Large streams through `yarp run`: live ones of a program no rule knows, selected ones."""
    yarp, file = os.path.join(bin_dir, "yarp"), os.path.join(work, "stream")
    log = next(stream for stream in streams.ALL if stream.name == "a log")
    noise = next(stream for stream in streams.ALL if stream.name == "random bytes")
    programs = os.path.join(work, "programs")
    os.mkdir(programs)
    environment = {**home, "PATH": programs + os.pathsep + home["PATH"]}
    report = []
    for title, stream, command in (
        ("text, live", log, "produce"),
        ("random bytes, live", noise, "produce"),
        *((stream.name, stream, stream.command) for stream in streams.ALL),
    ):
        stream.write(file)
        words = command.split()
        # A rule selects a program by its name alone.
        program = os.path.join(programs, words[0])
        with open(program, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\n{shutil.which('cat')} {file}\nexit {stream.status}\n")
        os.chmod(program, 0o755)
        runs = []
        for _ in range(3):
            shutil.rmtree(home["XDG_DATA_HOME"], ignore_errors=True)
            whole_command = [yarp, "run", "--", *words]
            runs.append(whole.timed(whole_command, environment, status=stream.status))
        os.remove(program)
        raw.write(json.dumps({"stream": title, "runs": [vars(run) for run in runs]}) + "\n")
        report.append(
            f"{streams.STREAM_MIB} MiB of {title} through `yarp run`:"
            f" {whole.said(runs, streams.STREAM_MB)} (limit 150), peak memory"
            f" {max(run.peak_mib for run in runs):.0f} MiB (limit 64)"
        )
    return report


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print("\n".join(run(sys.argv[1])))
