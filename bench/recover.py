"""Recovery as whole processes: start-up against a bare interpreter, and one very large source.

`yarp search` looks through 1 MiB, `yarp read` takes 32 KiB out of it; both are interleaved with
`python -I -c pass`. The large source is searched for a word on its last line and for a common one.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time

from yarp import payload
from yarp.archive.write import Archive, CallFacts, SessionKey, Streams

REPETITIONS = 120
WARM_UP = 5
LIMIT = 3.5
LARGE_MIB = 1024
READ_BYTES = 32 << 10


def run(out_dir: str) -> list[str]:
    """Measure; raw timings go to `out_dir`, a line for each figure is returned."""
    with tempfile.TemporaryDirectory(prefix="recover-", dir=out_dir) as work:
        os.chmod(work, 0o700)
        path = os.path.join(work, "calls.sqlite3")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": work,
            "YARP_ARCHIVE": path,
            "TMPDIR": work,
        }
        ref = _archived(path, "ordinary", work, _pieces(1))
        rows = _start_up(ref, environment, out_dir)
        large = _archived(path, "large", work, _pieces(LARGE_MIB))
        with open(os.path.join(out_dir, "recover-large.jsonl"), "w", encoding="utf-8") as raw:
            rows += [
                _large(name, ["search", large, *words], environment, raw)
                for name, words in (
                    ("a word on the last line", ["the very end"]),
                    ("two words, one common", ["FAILED|passed"]),
                    ("the count of a class", ["-c", "[0-9]{3}ms$"]),
                )
            ]
    return rows


def _pieces(count: int):
    """MiB of the output of a test suite, the first and the last with a failure."""
    rng = random.Random(1)
    lines = [
        f"tests/test_{rng.randrange(99)}.py::test_{rng.randrange(1000)} "
        + ("passed" if rng.randrange(50) else "skipped")
        + f" in {rng.randrange(1000)}ms on worker {rng.randrange(8)}\n"
        for _ in range(20_000)
    ]
    for number in range(count):
        rng.shuffle(lines)
        piece = f"piece {number}\n" + "".join(lines)
        end = "FAILED here\nthe very end\n" if number in (0, count - 1) else "\n"
        yield (piece[: (1 << 20) - len(end) - 1] + "\n" + end)[: 1 << 20].encode()


def _archived(path: str, call: str, work: str, pieces) -> str:
    writer = payload.PayloadWriter(work)
    for piece in pieces:
        writer.write(piece)
    out = (writer.finish(), writer.media_type)
    none, given = (payload.of(b""), payload.TEXT), payload.of_json({"command": "make test"})
    archive = Archive.open(path, narrow=False)
    session = SessionKey("acme", "bob", "bench", 1)
    facts = CallFacts(call, "sh", started_at_ms=1, requires_streams=True)
    ref = archive.begin_call(session, facts, given, given, 1)
    result = payload.of_json({"exitCode": 1})
    streams = Streams(out, none, none, none)
    archive.finish_run(session, call, streams, result, result, is_error=True, finished_at_ms=2)
    archive.close()
    return ref


def _start_up(ref: str, environment: dict[str, str], out_dir: str) -> list[str]:
    yarp = [os.path.join(os.path.dirname(sys.executable), "yarp")]
    commands = {
        "bare": [sys.executable, "-I", "-c", "pass"],
        "search": [*yarp, "search", ref, "FAILED|Error"],
        "read": [*yarp, "read", ref, "stdout", "--bytes", f"500000:{500000 + READ_BYTES}"],
    }
    timings: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(WARM_UP + REPETITIONS):
        for name, command in commands.items():
            seconds, _ = _timed(command, environment)
            if turn >= WARM_UP:
                timings[name].append(seconds * 1000)
    with open(os.path.join(out_dir, "recover.jsonl"), "w", encoding="utf-8") as raw:
        for turn in range(REPETITIONS):
            row = {name: round(times[turn], 3) for name, times in timings.items()}
            raw.write(json.dumps(row) + "\n")
    bare = statistics.median(timings["bare"])
    return [
        f"`yarp {name}`, {what}: {statistics.median(timings[name]):.1f} ms, bare interpreter "
        f"{bare:.1f} ms, ratio {statistics.median(timings[name]) / bare:.2f} (limit {LIMIT}), "
        f"{REPETITIONS} repetitions"
        for name, what in (("search", "1 MiB"), ("read", "32 KiB of 1 MiB"))
    ]


def _large(name: str, words: list[str], environment: dict[str, str], raw) -> str:
    yarp = os.path.join(os.path.dirname(sys.executable), "yarp")
    seconds, peak_kib = _timed([yarp, *words], environment)
    raw.write(json.dumps({"name": name, "s": round(seconds, 3), "peak_kib": peak_kib}) + "\n")
    return (
        f"{LARGE_MIB} MiB, {name}: {seconds:.1f} s ({LARGE_MIB / seconds:.0f} MiB/s, "
        f"verified first), peak memory {peak_kib / 1024:.0f} MiB (limit 64)"
    )


def _timed(command: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Seconds and the peak memory, in KiB, of a whole process."""
    null = os.open(os.devnull, os.O_WRONLY)
    began = time.perf_counter()
    actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
    pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    os.close(null)
    if status:
        raise OSError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return seconds, used.ru_maxrss


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print("\n".join(run(sys.argv[1])))
