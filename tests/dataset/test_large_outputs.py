"""Outputs of a megabyte each: few rows fill what DuckDB holds in memory."""

import json

import pytest

from yarp.dataset import textindex
from yarp.dataset.database import Dataset
from yarp.dataset.export import export
from yarp.dataset.report import verify
from yarp.dataset.search import search

LINE = "alpha beta gamma delta of an output that is long\n"


@pytest.mark.slow
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
        index = textindex.ready(dataset)
        assert search(dataset, "last_3_17", index).calls == 1
        assert search(dataset, "long\nalpha", index, limit=1).calls == 200
        index.close()
        assert verify(dataset)["valid"]
        assert export(dataset, str(tmp_path / "out"), "parquet") == 200
