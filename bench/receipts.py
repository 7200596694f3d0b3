"""Captures beside an installed gptme, in one run: what is shown, what is kept, what is found again.

The outputs of the contract's evidence table and its real process of 2,340,024 characters: through
gptme's own shell tool, through it with our plugin, and through a spool alone. Then what it costs
to find something in them afterwards, by the ordinary tools for local files; then the speed of a
spool against `command > file`. gptme's Python is `YARP_TEST_AGENTS/gptme/bin/python`. Source: seed
004, "Evidence" and "Small implementation sequence".
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
        sides, report = _sides(work)
        table = {name: _rows(side, "table", work, environment) for name, side in sides.items()}
        report += [_fixture(output, table, raw) for output in outputs.table()]
        report.append(_job(table, raw))
        found = {name: _rows(side, "tasks", work, environment) for name, side in sides.items()}
        for task in outputs.tasks():
            report += _found(task, found, environment, raw)
        return report + _throughput(work, environment, raw)


def _sides(work: str) -> tuple[dict[str, list[str]], list[str]]:
    """Who is compared, by the words that run it; and a sentence of who cannot be."""
    theirs = os.path.join(HERE, "gptme_outputs.py")
    sides, problems = {}, []
    python = os.path.join(os.environ.get("YARP_TEST_AGENTS", ""), "gptme", "bin", "python")
    if not os.access(python, os.X_OK):
        problems.append("gptme is not installed at YARP_TEST_AGENTS/gptme; it is not compared")
    else:
        python = os.path.abspath(python)
        sides["gptme"] = [python, theirs]
        beside = _beside(python, os.path.join(work, "beside"))
        if beside is None:
            problems.append("gptme has another Python than this one; the plugin is not compared")
        else:
            sides["gptme with yarp"] = [beside, theirs, "yarp"]
    sides["a spool alone"] = [sys.executable, os.path.join(HERE, "spool_outputs.py")]
    return sides, problems


def _beside(python: str, directory: str) -> str | None:
    """The Python of an environment that sees gptme and this checkout; None: they do not fit."""
    ask = "import sys, sysconfig; print(sys.version_info[:2]); print(sysconfig.get_path('purelib'))"

    def asked(one: str) -> list[str]:
        done = subprocess.run([one, "-c", ask], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    (version, theirs), (own_version, own) = asked(python), asked(sys.executable)
    if version != own_version:
        return None
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    found = os.path.join(directory, "bin", "python")
    root = os.path.dirname(HERE)
    plugins = os.path.join(root, "plugins")
    paths = [theirs, root, *(os.path.join(plugins, name) for name in os.listdir(plugins)), own]
    with open(os.path.join(asked(found)[1], "yarp.pth"), "w", encoding="utf-8") as file:
        file.write("\n".join(paths) + "\n")
    return found


def _rows(side: list[str], what: str, work: str, environment: dict[str, str]) -> dict[str, dict]:
    """What one side answers, by the name of the output or of the task."""
    folder = tempfile.mkdtemp(dir=work)
    words = [*side[:2], what, folder, *side[2:]]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{side[1]} ended with {done.returncode}: {done.stderr[-500:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row for row in rows}


def _note(raw, who: str, row: dict, **more) -> int:
    """Keep the raw figures of a row; the bytes that are shown of it."""
    inline = len(row["inline"].encode())
    facts = {name: value for name, value in row.items() if name not in ("inline", "saved")}
    raw.write(json.dumps({"who": who, "inline_bytes": inline, **facts, **more}) + "\n")
    return inline


def _fixture(output, table: dict[str, dict], raw) -> str:
    said = []
    for who, rows in table.items():
        row = rows[output.name]
        inline = _note(raw, who, row)
        found = "all found" if not row["missing"] else f"{len(row['missing'])} LOST"
        said.append(f"{who}: {inline:,} shown, {row['saved_bytes']:,} saved, {found}")
    return f"{output.name} ({output.size:,} bytes): {'; '.join(said)}"


def _job(table: dict[str, dict], raw) -> str:
    said = []
    for who, rows in table.items():
        row = rows["background"]
        inline = _note(raw, who, row)
        marks = ", ".join(
            f"{name.upper()} {'kept' if row[name] else 'LOST'}" for name in ("begin", "end")
        )
        launch = "" if row["path_at_launch"] else "not "
        said.append(
            f"{who}: {row['saved_bytes']:,} saved, {marks}, exit {row['exit_code']}, "
            f"{inline:,} shown, {launch}named at launch, {row['ms']:.0f} ms"
        )
    return f"a process of {outputs.JOB_CHARACTERS:,} characters that exits 2: {'; '.join(said)}"


def _found(task, sides: dict[str, dict], environment: dict[str, str], raw) -> list[str]:
    """What it takes to get an answer, once an output has been shown."""
    report = []
    for who, rows in sides.items():
        row = rows[task.name]
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
