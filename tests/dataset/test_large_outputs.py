"""Outputs of a megabyte each: few rows fill what DuckDB holds in memory."""

import json
import os
import random
import subprocess
import sys

import pytest

from yarp.dataset import indexing, textindex
from yarp.dataset.database import Dataset
from yarp.dataset.export import export
from yarp.dataset.report import verify
from yarp.dataset.search import search

LINE = "alpha beta gamma delta of an output that is long\n"


@pytest.mark.slow
@pytest.mark.usefixtures("index_of_any_size")
def test_a_store_of_large_outputs_is_imported_searched_verified_and_exported(store, tmp_path):
    text = LINE * (950_000 // len(LINE))
    for number in range(4):
        with open(store.sessions / f"{number}.jsonl", "w") as file:
            file.write(json.dumps({"type": "session", "id": f"s{number}", "at": 1}) + "\n")
            for at in range(50):
                call = {"type": "call", "id": f"c{at}", "input": {"cmd": "x"}}
                result = {"type": "result", "id": f"c{at}", "text": f"{text}last_{number}_{at}"}
                file.write(json.dumps(call) + "\n" + json.dumps(result) + "\n")
    report = store.extract()
    assert (report.written.calls, report.written.results) == (200, 200)
    with Dataset.read(store.database) as dataset:
        assert textindex.update(dataset).added == 400
        index = indexing.ready(dataset)
        assert search(dataset, "last_3_17", index).calls == 1
        assert search(dataset, "long\nalpha", index, limit=1).calls == 200
        index.close()
        assert verify(dataset)["valid"]
        assert export(dataset, str(tmp_path / "out"), "parquet") == 200


IMPORT = """
import sys
from toy_agent import TOY
from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
from yarp.dataset.indexing import Indexing
with Dataset.write(sys.argv[1]) as dataset, Indexing(dataset) as indexing:
    extract(dataset, TOY, "ann", {"sessions": sys.argv[2]}, indexing=indexing)
    indexing.finish()
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")))
"""


@pytest.mark.slow
def test_large_outputs_are_imported_in_little_memory(store):
    for number in range(30):
        with open(store.sessions / f"{number}.jsonl", "w") as file:
            file.write(json.dumps({"type": "session", "id": f"s{number}", "at": 1}) + "\n")
            for at in range(10):
                text = f"{number} {at} {LINE}" * (1_000_000 // (len(LINE) + 5))
                call = {"type": "call", "id": f"c{at}", "input": {"cmd": "x"}}
                result = {"type": "result", "id": f"c{at}", "text": text}
                file.write(json.dumps(call) + "\n" + json.dumps(result) + "\n")
    ran = subprocess.run(
        [sys.executable, "-c", IMPORT, store.database, str(store.sessions)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) < 450 << 10
    assert store.rows("SELECT count(*) FROM tool_results") == [(300,)]


WORDS_IMPORT = """
import resource, sys
from toy_agent import TOY
from yarp.dataset import indexing
from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
indexing.PAYS_BYTES = 150 << 20
with Dataset.write(sys.argv[1]) as dataset, indexing.Indexing(dataset) as beside:
    extract(dataset, TOY, "ann", {"sessions": sys.argv[2]}, indexing=beside)
    assert beside.finish().text_bytes > 100 << 20
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")))
"""


@pytest.mark.slow
def test_an_index_that_begins_within_an_import_takes_little_memory(store):
    rnd = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [
        "日本語",
        *("".join(rnd.choices(letters, k=rnd.randint(3, 11))) for _ in range(30_000)),
    ]
    for number in range(32):
        with open(store.sessions / f"{number:02}.jsonl", "w") as file:
            file.write(json.dumps({"type": "session", "id": f"s{number}", "at": 1}) + "\n")
            for at in range(60):
                text = " ".join(rnd.choices(words, k=13_000))
                call = {"type": "call", "id": f"c{at}", "input": {"cmd": "x"}}
                result = {"type": "result", "id": f"c{at}", "text": text}
                file.write(json.dumps(call) + "\n" + json.dumps(result) + "\n")
    ran = subprocess.run(
        [sys.executable, "-c", WORDS_IMPORT, store.database, str(store.sessions)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) < 450 << 10
