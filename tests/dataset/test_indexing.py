"""The text index that grows beside an import ends as the one that is made afterwards."""

import os

import duckdb
import pytest
from toy_agent import ORIGIN_AND_FORK, TOY, call, result, session

from yarp.dataset import database, indexing, textindex, writer
from yarp.dataset import extract as engine
from yarp.dataset.database import Dataset
from yarp.dataset.indexing import Indexing
from yarp.dataset.ownfiles import index_of
from yarp.errors import StorageError

pytestmark = pytest.mark.usefixtures("index_of_any_size")


def extract(store):
    """Import with the index beside it; what `finish` had to add and to drop."""
    with Dataset.write(store.database) as dataset, Indexing(dataset) as indexing:
        engine.extract(dataset, TOY, "ann", {"sessions": str(store.sessions)}, indexing=indexing)
        return indexing.finish()


def indexed(store):
    """The texts by identity, with the words of each."""
    with duckdb.connect(index_of(store.database), read_only=True) as index:
        return index.execute("""
            SELECT identity, call_key, always, list_sort(list(word)) FROM texts
            LEFT JOIN (SELECT word, unnest(texts) AS text FROM words) USING (text)
            GROUP BY text, identity, call_key, always ORDER BY identity""").fetchall()


def made_afterwards(store):
    with Dataset.read(store.database) as dataset:
        assert textindex.update(dataset) == textindex.Update()
    beside = indexed(store)
    with duckdb.connect(index_of(store.database)) as index:
        index.execute("UPDATE info SET version = 0")
    with Dataset.read(store.database) as dataset:
        textindex.update(dataset)
    assert beside == indexed(store)
    return beside


@pytest.fixture(params=[1, 1 << 20], ids=["each item alone", "all together"])
def group_bytes(request, monkeypatch):
    monkeypatch.setattr(writer, "GROUP_BYTES", request.param)


@pytest.mark.usefixtures("group_bytes")
def test_texts_are_listed_as_they_are_committed(store):
    for number in range(5):
        records = (call(f"c{number}-{n}", input={"n": n}) for n in range(3))
        answers = (result(f"c{number}-{n}", f"wörd {n}", json={"k": n}) for n in range(3))
        store.write(f"{number}.jsonl", session(f"s{number}", number), *records, *answers)
    assert extract(store) == textindex.Update()
    assert len(made_afterwards(store)) == 30


@pytest.mark.usefixtures("group_bytes")
def test_what_comes_together_or_changes_is_made_up_for_in_the_end(store):
    for name, records in ORIGIN_AND_FORK.items():
        store.write(name, *records)
    store.write("c.jsonl", session("s", 3), call("c"), result("c", "one"))
    extract(store)
    made_afterwards(store)
    store.write("c.jsonl", session("s", 3), call("c", input={"other": 1}), result("c", "two"))
    store.write("d.jsonl", session("t", 4), call("d"), result("d", "three"))
    extract(store)
    made_afterwards(store)


def test_an_index_that_cannot_be_written_leaves_the_import_alone(store):
    store.write("a.jsonl", session("s"), call("a"), result("a"))
    with Dataset.write(store.database) as dataset, Indexing(dataset) as beside:
        os.mkdir(index_of(store.database))
        roots = {"sessions": str(store.sessions)}
        report = engine.extract(dataset, TOY, "ann", roots, indexing=beside)
        with pytest.raises(StorageError, match="cannot be written"):
            beside.finish()
    assert report.written.calls == len(store.calls()) == 1


def test_only_a_large_dataset_has_an_index_until_it_is_half_as_large(store, monkeypatch):
    path = index_of(store.database)
    for size, found, kept in (
        (2, None, False),
        (0.9, True, True),
        (1.1, True, True),
        (3, None, False),
    ):
        store.write(f"{size}.jsonl", session(f"s{size}"), call(f"c{size}"), result(f"c{size}"))
        store.extract()
        monkeypatch.setattr(indexing, "PAYS_BYTES", int(size * os.path.getsize(store.database)))
        assert (extract(store) and True) is found
        assert os.path.exists(path) is kept
        with Dataset.read(store.database) as dataset:
            index = indexing.ready(dataset)
            assert (index is not None) is kept
            if index is not None:
                index.close()


def test_an_index_that_begins_within_an_import_lists_what_came_before(store, monkeypatch):
    monkeypatch.setattr(writer, "GROUP_BYTES", 1)
    for number in range(8):
        text = f"outcome_{number} " * 20_000
        records = session(f"s{number}", number), call(f"c{number}"), result(f"c{number}", text)
        store.write(f"{number}.jsonl", *records)
    monkeypatch.setattr(indexing, "PAYS_BYTES", 1_200_000)
    assert 0 < extract(store).added < 16
    assert len(made_afterwards(store)) == 16


def test_texts_too_long_for_little_memory_are_listed_with_more(store, monkeypatch):
    monkeypatch.setattr(indexing.Indexing, "take", lambda *_, **__: None)
    monkeypatch.setattr(database, "_MEMORY_BYTES_TO_READ", 24 << 20)
    for number in range(10):
        text = f"outcome_{number} " * 200_000
        records = session(f"s{number}", number), call(f"c{number}"), result(f"c{number}", text)
        store.write(f"{number}.jsonl", *records)
    assert extract(store).added == 20
