"""The rules of seed 002, "Loop model and usage", one case each."""

from __future__ import annotations

import orjson
import pytest

HEAD = {"t": "session", "id": "s"}


def begin(loop):
    return {"t": "begin", "loop": loop}


def sample(sample=None, **counts):
    return {"t": "usage", "sample": sample, "input": 10, "output": 1} | counts


def used(index, *records):
    """The usage of each loop in order, and again when every record is an append of its own."""
    index.write("a.jsonl", HEAD, *records)
    index.sync()
    sql = "SELECT usage FROM loops ORDER BY session_position"
    found = [row["usage"] and orjson.loads(row["usage"]) for row in index.all(sql)]
    other = index.another(index.traces.parent / "again")
    for record in (HEAD, *records):
        other.write("a.jsonl", record, mode="a")
        other.sync()
    assert [row["usage"] and orjson.loads(row["usage"]) for row in other.all(sql)] == found
    return found


def test_samples_of_a_loop_are_summed(index):
    assert used(index, begin("a"), sample("r1"), sample("r2", input=5)) == [
        {"input": 15, "output": 2}
    ]


def test_a_loop_without_samples_has_unknown_usage(index):
    assert used(index, begin("a")) == [None]


def test_a_repeated_snapshot_replaces_the_one_before(index):
    assert used(index, begin("a"), sample("r", output=1), sample("r", output=9)) == [
        {"input": 10, "output": 9}
    ]


def test_a_late_replay_credits_the_loop_of_first_sight(index):
    records = [begin("a"), sample("r"), begin("b"), sample("r", output=7), sample("q")]
    assert used(index, *records) == [{"input": 10, "output": 7}, {"input": 10, "output": 1}]


def test_a_sample_that_counts_once_keeps_its_first_counts(index):
    records = [begin("a"), sample("r", first=True), sample("r", output=7, first=True)]
    assert used(index, *records) == [{"input": 10, "output": 1}]


def test_without_identity_each_observation_counts(index):
    assert used(index, begin("a"), sample(), sample()) == [{"input": 20, "output": 2}]


def test_equal_counts_of_two_responses_stay_two(index):
    assert used(index, begin("a"), sample("r1"), sample("r2")) == [{"input": 20, "output": 2}]


def test_a_sum_of_a_turn_puts_single_counts_out_of_use(index):
    records = [begin("a"), sample("x"), sample(), sample("turn", rank=1, input=11, output=2)]
    assert used(index, *records, begin("b"), sample("y")) == [
        {"input": 11, "output": 2},
        {"input": 10, "output": 1},
    ]


def test_a_snapshot_for_a_loop_that_ended_is_credited_to_it(index):
    records = [begin("a"), {"t": "end"}, begin("b"), sample("turn", loop="a", rank=1)]
    assert used(index, *records) == [{"input": 10, "output": 1}, None]


def test_a_sample_of_a_loop_that_comes_later_is_credited_then(index):
    assert used(index, sample("turn", loop="a"), begin("a")) == [{"input": 10, "output": 1}]


def test_a_part_that_one_response_does_not_tell_is_unknown(index):
    records = [begin("a"), sample("1", cached=3, reasoning=0), sample("2", reasoning=1)]
    assert used(index, *records) == [{"input": 20, "output": 2, "reasoning": 1}]


def test_a_reported_zero_stays_zero(index):
    assert used(index, begin("a"), sample("1", cached=0, cache_write=0)) == [
        {"input": 10, "cached": 0, "cache_write": 0, "output": 1}
    ]


def test_a_part_larger_than_its_whole_is_dropped(index):
    records = [begin("a"), sample("1", cached=11, cache_write=11, reasoning=2)]
    assert used(index, *records) == [{"input": 10, "output": 1}]


@pytest.mark.parametrize("odd", [None, -1, True, 1.5, "10", 2**70])
def test_a_sample_without_whole_counts_is_none(index, odd):
    assert used(index, begin("a"), sample("1", input=odd), sample("2", output=odd)) == [None]
    assert used(index, begin("a"), sample("1", cached=odd)) == [{"input": 10, "output": 1}]


def test_each_session_counts_the_copies_it_holds(index):
    for name in ("s1", "s2"):
        index.write(f"{name}.jsonl", {"t": "session", "id": name}, begin("a"), sample("r"))
    index.sync()
    rows = index.all("SELECT usage FROM loops")
    assert [orjson.loads(row["usage"])["input"] for row in rows] == [10, 10]


def test_a_rebuild_counts_nothing_twice(index):
    index.write("a.jsonl", HEAD, begin("a"), sample(), sample("r"))
    index.sync()
    before = index.all("SELECT usage FROM loops")
    index.sync(rebuild=True)
    assert index.all("SELECT usage FROM loops") == before
