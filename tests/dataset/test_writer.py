"""Groups are committed while the next one is read, and a run that cannot go on says so."""

import threading

import pytest
from toy_agent import TOY, call, result, session

from yarp.dataset import group, writer
from yarp.dataset.database import Dataset, SizeLimitReached
from yarp.dataset.extract import extract


def test_what_keeps_a_group_from_being_committed_ends_the_run(store, monkeypatch):
    monkeypatch.setattr(writer, "GROUP_BYTES", 1)
    for number in range(6):
        store.write(f"{number}.jsonl", session(f"s{number}"), call(f"c{number}"))
    committed = []
    real = writer.Writer._commit

    def commit(self, group):
        if len(committed) == 3:
            raise SizeLimitReached("full")
        committed.append(threading.get_ident())
        real(self, group)

    monkeypatch.setattr(writer.Writer, "_commit", commit)
    with Dataset.write(store.database) as dataset:
        with pytest.raises(SizeLimitReached):
            extract(dataset, TOY, "ann", {"sessions": str(store.sessions)})
        assert dataset.rows("SELECT status FROM import_runs") == [("failed",)]
        assert dataset.row("SELECT count(*) FROM tool_calls") == (3,)
    assert threading.get_ident() not in committed
    monkeypatch.undo()
    with Dataset.write(store.database) as dataset:
        extract(dataset, TOY, "ann", {"sessions": str(store.sessions)})
        assert dataset.row("SELECT count(*) FROM tool_calls") == (6,)


def test_results_enter_in_portions_and_none_is_left_out(store, monkeypatch):
    monkeypatch.setattr(group, "_PORTION_BYTES", 5)
    records = [each for n in range(7) for each in (call(f"c{n}"), result(f"c{n}", "x" * n))]
    store.write("a.jsonl", session("s"), *records)
    store.extract()
    assert store.rows("SELECT output_text FROM tool_results ORDER BY 1") == [
        ("x" * n,) for n in range(7)
    ]
