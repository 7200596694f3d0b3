"""The dataset: imports of a made-up home of 200 MB, its size, its search, its census; a peer.

The stores are those of `stores.py`; what an import must find in them is known, and compared.
Figures are whole processes but for the search, which is timed inside of one.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import peer
import stores
import whole

MEGABYTES = 200
NEEDLES = (
    "worker",
    "AssertionError",
    "zzzqqq",
    "4f2a",
    "raise ValueError",
    "passed in",
    "test_token",
)
SOURCES = {
    "claude": ("--projects", ".claude/projects"),
    "codex": ("--sessions", ".codex/sessions"),
    "pi": ("--sessions", ".pi/agent/sessions"),
}
_SEARCH = """
import json, sys, time
from yarp.dataset import indexing
from yarp.dataset.database import Dataset
from yarp.dataset.search import search
found = {}
if sys.argv[1] == "indexed":  # the corpus is smaller than what has an index
    indexing.PAYS_BYTES = 0
with Dataset.read(sys.argv[2]) as dataset:
    began = time.perf_counter()
    index = indexing.ready(dataset)
    print(json.dumps([index is not None, time.perf_counter() - began]))
    for needle in sys.argv[3:]:
        times = []
        for _ in range(15):
            began = time.perf_counter()
            answer = search(dataset, needle, index)
            times.append((time.perf_counter() - began) * 1000)
        assert answer.calls == search(dataset, needle, None).calls
        found[needle] = [answer.calls, times]
print(json.dumps(found))
"""


def run(out_dir):
    """Measure; raw figures go to `out_dir`, summary rows are returned."""
    with tempfile.TemporaryDirectory(prefix="yarp-bench-") as work:
        home = os.path.join(work, "home")
        truths = stores.write(home, MEGABYTES)
        os.sync()  # else the first import waits for the disk to take the stores
        bench = _Bench(work, home)
        rows, raw = [], {}
        for part in (bench.imports, bench.contents, bench.search, bench.census):
            said, figures = part(truths)
            rows += said
            raw.update(figures)
        texts = set().union(*(truth.texts for truth in truths.values()))
        said, raw["peer"] = peer.rows(work, bench.touch, texts)
    with open(os.path.join(out_dir, "dataset.jsonl"), "w", encoding="utf-8") as file:
        file.write(json.dumps(raw) + "\n")
    return rows + said


class _Bench:
    def __init__(self, work, home):
        self.home = home
        self.environment = whole.home(work)
        self.yarp = os.path.join(os.path.dirname(sys.executable), "yarp")
        self.data = os.path.join(work, "data", "toolcall-extractor")
        self.database = os.path.join(self.data, "toolcalls.duckdb")
        self.tell("dataset", "--help")  # makes the compiled cache

    def tell(self, *words):
        """What a command prints."""
        done = subprocess.run(
            [self.yarp, *words], env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def touch(self):
        for directory, _, names in os.walk(self.home):
            for name in names:
                os.utime(os.path.join(directory, name))

    def imports(self, truths):
        rows, raw, most = [], {}, 0
        for how, sources in (("three processes", _single()), ("one process", _chained())):
            shutil.rmtree(self.data, ignore_errors=True)
            cold, peak = self._round(sources)
            unchanged, _ = self._round(sources)
            self.touch()
            touched, _ = self._round(sources)
            rounds = {"cold": cold, "unchanged": unchanged, "touched": touched}
            rows += [
                f"{name}, {how}: {_seconds(runs):.2f} s"
                f" ({sum(run.cpu_seconds for run in runs):.2f} s of processor time; limit {limit})"
                for (name, runs), limit in zip(rounds.items(), (5.0, 0.5, 0.8), strict=True)
            ]
            most = max(most, *(run.peak_mib for runs in rounds.values() for run in runs))
            raw[how] = {name: [vars(run) for run in runs] for name, runs in rounds.items()}
        final = _size(self.data)
        bytes_read = sum(truth.source_bytes for truth in truths.values())
        rows.append(f"peak memory {most:.0f} MiB (limit 450)")
        rows.append(
            f"pilot: {bytes_read / 1e6:.1f} MB of sources, elapsed {_seconds(cold):.2f} s, peak"
            f" temporary space {max(0, peak - final) / 1e6:.1f} MB, DuckDB"
            f" {os.path.getsize(self.database) / 1e6:.1f} MB"
        )
        return rows, {**raw, "peak_bytes": peak, "final_bytes": final}

    def _round(self, commands):
        """Import all stores, by a process for each command; and the most that the files took."""
        with _Watch(self.data) as watch:
            runs = []
            for words in commands:
                given = [
                    os.path.join(self.home, word) if word[0] == "." else word for word in words
                ]
                command = [self.yarp, "dataset", "extract", "--unix-user", "dev", *given]
                runs.append(whole.timed(command, self.environment))
        return runs, watch.most

    def contents(self, truths):
        stats = json.loads(self.tell("dataset", "stats", "--json"))
        verified = json.loads(self.tell("dataset", "verify", "--json"))
        query = "SELECT count(*), sum(occurrence_count) FROM import_issues WHERE code = '{}'"
        malformed = json.loads(
            self.tell("dataset", "sql", "--json", query.format("malformed_jsonl"))
        )["rows"][0]
        digests = "SELECT DISTINCT sha256(output_text) FROM tool_results"
        kept = json.loads(
            self.tell(
                "dataset", "sql", "--json", "--rows", "1000000", "--bytes", str(1 << 26), digests
            )
        )["rows"]
        texts = set().union(*(truth.texts for truth in truths.values()))
        exact = 100 * len({bytes.fromhex(text) for (text,) in kept} & texts) / len(texts)
        expected = {
            name: sum(getattr(truth, name) for truth in truths.values())
            for name in ("calls", "results", "unanswered", "malformed", "copied_calls")
        }
        found = {
            "calls": stats["tool_calls"],
            "results": stats["tool_results"],
            "unanswered": verified["calls_without_results"],
            "malformed": int(malformed[1] or 0),
        }
        wrong = [
            f"WRONG: {name} {found[name]}, not {expected[name]}"
            for name in found
            if found[name] != expected[name]
        ]
        rows = [
            (
                f"pilot: {found['calls']} calls, {found['results']} results, {found['unanswered']}"
                f" incomplete pairs, {verified['calls_with_conflicting_results']} conflicts,"
                f" {found['malformed']} malformed records; copies by forks counted once:"
                f" {expected['copied_calls']}; {', '.join(wrong) or 'as it is'}"
            ),
            f"results byte-exact in the database {exact:.1f} %; verify: {verified['valid']}",
        ]
        return rows, {"stats": stats, "verify": verified, "expected": expected}

    def search(self, _truths):
        size = json.loads(
            self.tell(
                *("dataset", "sql", "--json"),
                "SELECT (SELECT sum(strlen(input_text)) FROM tool_calls) + sum(coalesce("
                "strlen(output_text), 0) + coalesce(strlen(output_json), 0))::BIGINT "
                "FROM tool_results",
            )
        )["rows"][0][0]
        rows, raw = [], {}
        for wish in ("as it is", "indexed"):
            done = subprocess.run(
                [sys.executable, "-c", _SEARCH, wish, self.database, *NEEDLES],
                env=self.environment,
                capture_output=True,
                text=True,
                check=True,
            )
            (has_index, seconds), raw[wish] = map(json.loads, done.stdout.splitlines())
            if has_index:
                share = 100 * os.path.getsize(self.database + ".text") / float(size)
                how = f"index of {share:.1f} % of the text (limit 25), made in {seconds:.2f} s"
            else:
                how = "no index"
            for needle, (calls, times) in raw[wish].items():
                rows.append(
                    f"search {needle!r} in process, {how}: {calls} calls, p50"
                    f" {statistics.median(times):.0f} ms, worst {max(times):.0f} ms (limit 50)"
                )
        return rows, {"search": raw}

    def census(self, _truths):
        out = os.path.join(os.path.dirname(self.home), "census.json")
        command = [self.yarp, "dataset", "benchmark"]
        run = whole.timed(command, self.environment, out=out)
        with open(out, encoding="utf-8") as file:
            found = json.load(file)
        del found["breakdown"]
        return [
            (
                f"census: {found['evaluated']['bytes_before'] / 1e6:.0f} MB at"
                f" {found['evaluated_megabytes_per_second']:.0f} MB/s (limit 60; eligible alone"
                f" {found['eligible_megabytes_per_second']:.0f}), {run.seconds:.2f} s as a process"
                f" ({run.cpu_seconds:.2f} s of processor time)"
            )
        ], {"census": found}


class _Watch:
    """The most bytes that the files below a directory took, looked at now and then."""

    def __init__(self, directory):
        self._directory = directory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.most = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _look(self):
        while not self._ended.wait(0.02):
            self.most = max(self.most, _size(self._directory))


def _size(directory):
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # temporary
                continue
    return total


def _single():
    return [(agent, *source) for agent, source in SOURCES.items()]


def _chained():
    return [tuple(word for words in _single() for word in words)]


def _seconds(runs):
    return sum(run.seconds for run in runs)
