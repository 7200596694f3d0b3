"""agentsview, the best peer for the dataset, measured beside it; from PyPI, its telemetry off."""

import contextlib
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import whole

PACKAGE = "agentsview"


def program(work):
    """Its program, installed below `work` unless it is there; None if it is not to be had."""
    place = os.path.join(work, "peer")
    commands = [[sys.executable, "-m", "pip", "install", "-q", "--target", place, PACKAGE]]
    if shutil.which("uv"):
        commands.insert(0, ["uv", "pip", "install", "-q", "--target", place, PACKAGE])
    for command in commands:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, check=True, timeout=300, capture_output=True)
            return os.path.join(place, PACKAGE, "bin", PACKAGE)
    return None


def environment(work):
    """The home directory with the stores, and a place of its own for what it keeps."""
    return {
        **whole.home(work),
        "AGENTSVIEW_DATA_DIR": os.path.join(work, "peer-data"),
        "AGENTSVIEW_TELEMETRY_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "AGENTSVIEW_NO_DAEMON": "1",
    }


def rows(work, touch, texts):
    """Summary rows, and the raw figures. `touch` touches all sources; `texts` are digests."""
    found = program(work)
    if found is None:
        return [f"{PACKAGE}: not to be had from the package index, so not compared"], {}
    used = environment(work)
    said = subprocess.run([found, "version"], env=used, capture_output=True, text=True, check=False)
    version = (said.stdout.split() or ["of unknown version"])[1:2] or ["of unknown version"]
    runs = {
        "cold": whole.timed([found, "sync"], used),
        "unchanged": whole.timed([found, "sync"], used),
    }
    touch()
    runs["touched"] = whole.timed([found, "sync"], used)
    database = os.path.join(work, "peer-data", "sessions.db")
    kept = set()
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for (text,) in connection.execute(_TEXTS):
            kept.add(hashlib.sha256(text.encode()).digest())
        began = time.perf_counter()
        connection.execute(
            f"SELECT count(*) FROM ({_TEXTS}) WHERE instr(text, 'worker')"
        ).fetchall()
        searched = time.perf_counter() - began
    exact = 100 * len(kept & texts) / len(texts)
    raw = {name: vars(run) for name, run in runs.items()}
    return [
        (
            f"{PACKAGE} {version[0].removeprefix('v')}: cold {runs['cold'].seconds:.2f} s,"
            f" unchanged {runs['unchanged'].seconds:.2f} s,"
            f" touched {runs['touched'].seconds:.2f} s,"
            f" peak memory {max(run.peak_mib for run in runs.values()):.0f} MiB, database"
            f" {os.path.getsize(database) / 1e6:.0f} MB, results byte-exact {exact:.1f} %,"
            f" a scan of its outputs {searched * 1000:.0f} ms"
        )
    ], raw


_TEXTS = """
SELECT content AS text FROM tool_result_events
UNION ALL SELECT result_content FROM tool_calls WHERE result_content IS NOT NULL
"""
