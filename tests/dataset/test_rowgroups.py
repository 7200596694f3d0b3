"""Few rows of long texts: row groups end early, and are kept so."""

import os

import pytest
from toy_agent import call, result, session

from yarp.dataset import rowgroups, writer
from yarp.dataset.database import Dataset
from yarp.dataset.report import verify
from yarp.dataset.search import search

MOST = 600_000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(rowgroups, "MOST_BYTES", MOST)
    monkeypatch.setattr(writer, "GROUP_BYTES", 100_000)


def write(store, name, count, size):
    records = [session(name, 1)]
    for at in range(count):
        records += [
            call(f"c{at}", input={"n": at}),
            result(f"c{at}", f"{name}_{at} " * (size // 8)),
        ]
    store.write(f"{name}.jsonl", *records)


def groups(store, table="tool_results"):
    """Rows of each row group."""
    found = store.rows(
        "SELECT max(start + count) FROM pragma_storage_info(?) GROUP BY row_group_id"
        " ORDER BY row_group_id",
        table,
    )
    return [rows for (rows,) in found]


def bytes_of_groups(store):
    """Bytes of the texts of each row group."""
    sizes = [size for (size,) in store.rows("SELECT strlen(output_text) FROM tool_results")]
    counts = groups(store)
    ends = [sum(counts[: at + 1]) for at in range(len(counts))]
    return [sum(sizes[end - count : end]) for count, end in zip(counts, ends, strict=True)]


def test_few_rows_of_long_texts_lie_in_row_groups_of_their_own(store):
    for number in range(10):
        write(store, f"s{number}", 5, 50_000)
    store.extract()
    assert sum(groups(store)) == 50
    assert len(groups(store)) >= 4
    assert max(bytes_of_groups(store)) <= MOST
    with Dataset.read(store.database) as dataset:
        assert verify(dataset)["valid"]
        assert search(dataset, "s7_3 ", None).calls == 1


def test_later_runs_keep_them_and_leave_none_of_their_own(store):
    for number in range(10):
        write(store, f"s{number}", 5, 50_000)
    store.extract()
    before = groups(store)
    for number in range(12):
        write(store, f"t{number}", 2, 10)
        store.extract()
    after = groups(store)
    assert after[:-1] == before[:-1]
    assert sum(after) == 74
    for name in ("u", "v", "w"):
        write(store, name, 5, 50_000)
    store.extract()
    assert sum(groups(store)) == 89
    assert max(bytes_of_groups(store)) <= MOST + 100_000
    with Dataset.read(store.database) as dataset:
        assert verify(dataset)["valid"]


def test_a_log_that_has_grown_long_is_not_left(store, monkeypatch):
    for number in range(10):
        write(store, f"s{number}", 5, 50_000)
    store.extract()
    monkeypatch.setattr(rowgroups, "MOST_LEFT_BYTES", 1000)
    write(store, "t", 5, 1000)
    store.extract()
    assert not os.path.exists(store.database + ".wal")
    assert len(store.calls()) == 55


def test_many_rows_of_short_texts_fill_row_groups(store):
    write(store, "s", 5000, 200)
    store.extract()
    assert groups(store) == [4096, 904]


def test_an_item_that_is_changed_leaves_no_row_twice(store):
    for number in range(10):
        write(store, f"s{number}", 5, 50_000)
    store.extract()
    for number in range(0, 10, 3):
        write(store, f"s{number}", 4, 60_000)
    store.extract()
    texts = store.rows("SELECT output_text FROM tool_results")
    assert len(texts) == 6 * 5 + 4 * 4
    with Dataset.read(store.database) as dataset:
        assert verify(dataset)["valid"]
