"""Captures beside an installed gptme, in one run: what is shown, what is kept, what is found again.

The outputs of the contract's evidence table and its real process of 2,340,024 characters, through
gptme's own code and through a spool of ours; then what it costs to find something in them
afterwards, by the ordinary tools for local files; then the speed of a spool against
`command > file`. gptme's Python is `YARP_TEST_AGENTS/gptme/bin/python`. Source: seed 004,
"Evidence" and "Small implementation sequence".
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

import outputs
import whole

HERE = os.path.dirname(os.path.abspath(__file__))
STREAM_MIB = 1024
SEQ_LAST = "118485293"  # 1 GiB, to a few bytes
STREAM_MB = STREAM_MIB * (1 << 20) / 1e6
REPETITIONS = 3
FILE, DISK = "command > file", "command > file; sync"
KINDS = ("binary,exact", "binary,lossy", "replacement_text,lossy", "redacted_text,lossy")
LINE = b"2026-01-01T00:00:%02d worker-%d GET /items/%d took %d us\n"


def run(out_dir: str) -> list[str]:
    """Measure; raw figures go to `receipts.jsonl` in `out_dir`, a row for each is returned."""
    with (
        tempfile.TemporaryDirectory(prefix="yarp-bench-") as work,
        open(os.path.join(out_dir, "receipts.jsonl"), "w", encoding="utf-8") as raw,
    ):
        environment = whole.home(work)
        ours = {row["name"]: row for row in _ours(work, environment, "table")}
        theirs = {row["name"]: row for row in _theirs(work, environment, "table")}
        report = [_fixture(output, ours, theirs, raw) for output in outputs.table()]
        report.append(_job(ours["background"], theirs.get("background"), raw))
        ours = {row["name"]: row for row in _ours(work, environment, "tasks")}
        theirs = {row["name"]: row for row in _theirs(work, environment, "tasks")}
        for task in outputs.tasks():
            report += _found(task, ours[task.name], theirs.get(task.name), environment, raw)
        return report + _throughput(work, environment, raw)


def _ours(work: str, environment: dict[str, str], what: str) -> list[dict]:
    folder = os.path.join(work, f"ours-{what}")
    os.mkdir(folder, 0o700)
    words = [sys.executable, os.path.join(HERE, "spool_outputs.py"), what, folder]
    return _rows(words, environment)


def _theirs(work: str, environment: dict[str, str], what: str) -> list[dict]:
    """gptme's; nothing when it is not installed."""
    python = _gptme()
    if python is None:
        return []
    folder = os.path.join(work, f"gptme-{what}")
    os.mkdir(folder, 0o700)
    return _rows([python, os.path.join(HERE, "gptme_outputs.py"), what, folder], environment)


def _gptme() -> str | None:
    python = os.path.join(os.environ.get("YARP_TEST_AGENTS", ""), "gptme", "bin", "python")
    return python if os.access(python, os.X_OK) and os.path.isabs(python) else None


def _rows(words: list[str], environment: dict[str, str]) -> list[dict]:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{words[1]} ended with {done.returncode}: {done.stderr[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _fixture(output, ours: dict, theirs: dict, raw) -> str:
    said = []
    for who, rows in (("gptme", theirs), ("yarp", ours)):
        row = rows.get(output.name)
        if row is None:
            said.append(f"{who}: not installed")
            continue
        inline = len(row.pop("inline").encode())
        raw.write(json.dumps({"who": who, "inline_bytes": inline, **row}) + "\n")
        found = "all found" if not row["missing"] else f"{len(row['missing'])} LOST"
        said.append(f"{who}: {inline:,} shown, {row['saved_bytes']:,} saved, {found}")
    return f"{output.name} ({output.size:,} bytes): {'; '.join(said)}"


def _job(ours: dict, theirs: dict | None, raw) -> str:
    said = []
    for who, row in (("gptme", theirs), ("yarp", ours)):
        if row is None:
            said.append(f"{who}: not installed")
            continue
        inline = len(row.pop("inline").encode())
        raw.write(json.dumps({"who": who, "inline_bytes": inline, **row}) + "\n")
        marks = ", ".join(
            f"{name.upper()} {'kept' if row[name] else 'LOST'}" for name in ("begin", "end")
        )
        launch = "" if row["path_at_launch"] else "not "
        said.append(
            f"{who}: {row['saved_bytes']:,} saved, {marks}, exit {row['exit_code']}, "
            f"{inline:,} shown, {launch}named at launch, {row['ms']:.0f} ms"
        )
    return f"a process of {outputs.JOB_CHARACTERS:,} characters that exits 2: {'; '.join(said)}"


def _found(task, ours: dict, theirs: dict | None, environment: dict[str, str], raw) -> list[str]:
    """What it takes to get an answer, once an output has been shown."""
    report = []
    for who, row in (("gptme", theirs), ("yarp", ours)):
        if row is None:
            continue
        inline = row["inline"]
        context, calls, seconds = len(inline.encode()), 0, 0.0
        correct = task.answer.strip() in inline
        if not correct:
            paths = [path for path in row["saved"] if path in inline]
            for path in paths:
                words = [*task.argv, path]
                began = time.perf_counter()
                done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=False)
                seconds += time.perf_counter() - began
                calls += 1
                context += len(" ".join(words).encode()) + len(done.stdout)
                correct = done.stdout.decode() == task.answer
                if correct:
                    break
        facts = {
            "task": task.name,
            "who": who,
            "correct": correct,
            "extra_calls": calls,
            "context_bytes": context,
            "context_tokens": context // 4,
            "retrieval_ms": seconds * 1000,
        }
        raw.write(json.dumps(facts) + "\n")
        report.append(
            f"finding {task.name}, {who}: {'right' if correct else 'WRONG'}, {calls} extra calls, "
            f"{context:,} bytes of context (about {context // 4:,} tokens), "
            f"{seconds * 1000:.1f} ms from the first extra call to the answer"
        )
    return report


def _throughput(work: str, environment: dict[str, str], raw) -> list[str]:
    """1 GiB of a command that makes its output, and of one that takes it from memory."""
    source = os.path.join(work, "stream")
    unit = b"".join(LINE % (n % 60, n % 7, n, n % 9973) for n in range(150_000))
    with open(source, "wb") as file:
        left = STREAM_MIB << 20
        while left > 0:
            left -= file.write(unit[:left])
    report = _kept("seq", ["seq", "1", SEQ_LAST], work, environment, raw)
    # Not cat, which has the kernel copy a file to a file without reading it.
    copy = ["dd", f"if={source}", "bs=64k", "status=none"]
    return report + _kept("dd from the page cache", copy, work, environment, raw)


def _kept(title: str, command: list[str], work: str, environment: dict[str, str], raw) -> list[str]:
    target, folder = os.path.join(work, "file"), os.path.join(work, "spool")
    command = [shutil.which(command[0]) or command[0], *command[1:]]
    to_disk = ["sh", "-c", '"$@" > "$0"; sync -d "$0"', target, *command]
    spool = [sys.executable, os.path.join(HERE, "spool_outputs.py"), "stream", folder]
    timings: dict[str, list] = {name: [] for name in (FILE, DISK, *KINDS)}
    states: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for _ in range(REPETITIONS):
        timings[FILE].append(whole.timed(command, environment, out=target))
        os.unlink(target)
        timings[DISK].append(whole.timed([shutil.which("sh"), *to_disk[1:]], environment))
        os.unlink(target)
        for kind in KINDS:
            timings[kind].append(whole.timed([*spool, kind, *command], environment, out=target))
            with open(target, encoding="utf-8") as said:
                states[kind].append(json.load(said)["capture"])
            shutil.rmtree(folder)
            os.unlink(target)
    for name, runs in timings.items():
        figures = {"runs": [vars(one) for one in runs], "captures": states.get(name)}
        raw.write(json.dumps({"command": title, "kept": name, **figures}) + "\n")
    seconds = {name: statistics.median(r.seconds for r in runs) for name, runs in timings.items()}
    report = [
        f"{STREAM_MIB} MiB of {title}, {name}: {whole.said(timings[name], STREAM_MB)}"
        for name in (FILE, DISK)
    ]
    return report + [
        f"{STREAM_MIB} MiB of {title} kept as {kind}: {whole.said(timings[kind], STREAM_MB)}, of "
        f"the speed of {FILE} {seconds[FILE] / seconds[kind]:.2f} (limit 0.5), of {DISK} "
        f"{seconds[DISK] / seconds[kind]:.2f}, peak memory "
        f"{max(one.peak_mib for one in timings[kind]):.0f} MiB (limit 64), "
        f"{states[kind].count('complete')} of {REPETITIONS} interleaved runs complete"
        for kind in KINDS
    ]


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print("\n".join(run(sys.argv[1])))
