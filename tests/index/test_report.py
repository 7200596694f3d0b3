"""What a sync says that it did."""

from __future__ import annotations

import os

import pytest

ACTIONS = ("indexed", "appended", "unchanged", "rebuilt", "skipped", "failed", "incomplete")
MEMBERS = {
    *("adapters", "database", "indexing_policy", "discovered_files", "indexed_records"),
    *("indexed_items", "malformed_records", "oversized_records", "metrics", "source_results"),
    *(f"{action}_files" for action in ACTIONS),
    *("orphan_blobs", "problems"),  # beyond the specification
}
METRICS = {
    *("elapsed_ms", "source_bytes", "processed_bytes", "fingerprint_bytes", "writes"),
    *("database_bytes_before", "database_bytes_after", "phases_ms", "persist_ms"),
}
PHASES = {
    *("discover", "prepare", "clear", "read", "project", "persist", "fingerprint", "commit"),
    *("build_indexes", "unattributed"),
}
PARTS = {"trace_records", "sessions", "loops", "items", "item_search", "other"}


@pytest.fixture
def told(index, conversation):
    index.write("a.jsonl", *conversation)
    index.write("odd.jsonl", b"nothing of ours")
    return index.sync().plain()


def test_a_report_has_the_members_of_the_specification(told):
    assert set(told) == MEMBERS
    metrics = told["metrics"]
    assert set(metrics) == METRICS
    assert set(metrics["phases_ms"]) == PHASES
    assert set(metrics["persist_ms"]) == PARTS
    assert set(metrics["writes"]) == {"records", "sessions", "loops", "items"}
    (result,) = told["source_results"]
    assert set(result) == {
        *("path", "adapter", "action", "indexed_records", "indexed_items", "indexed_bytes"),
        *("file_size", "malformed_records", "oversized_records", "incomplete_tail", "error"),
    }


def test_what_was_written_is_the_time_of_the_phase_that_writes(told):
    phases, parts = told["metrics"]["phases_ms"], told["metrics"]["persist_ms"]
    # Both are rounded to tenths.
    assert sum(parts.values()) == pytest.approx(phases["persist"], abs=0.1 * (len(parts) + 1))
    assert all(spent >= 0 for spent in (*phases.values(), *parts.values()))
    whole = told["metrics"]["elapsed_ms"]
    assert sum(phases.values()) == pytest.approx(whole, abs=0.1 * (len(phases) + 1))


def test_what_is_read_again_to_compare_is_counted(index, conversation):
    path = index.write("a.jsonl", *conversation)
    assert index.sync().plain()["metrics"]["fingerprint_bytes"] == 0
    assert index.sync().plain()["metrics"]["fingerprint_bytes"] == 0
    whole = path.stat().st_size
    head = len(path.read_bytes().split(b"\n")[0]) + 1
    index.write("a.jsonl", {"t": "human", "text": "more"}, mode="a")
    metrics = index.sync().plain()["metrics"]
    assert whole < 64 << 10
    assert metrics["fingerprint_bytes"] == head + whole
    assert metrics["processed_bytes"] == path.stat().st_size - whole
    os.utime(path, ns=(1, 1))
    metrics = index.sync(verify=True).plain()["metrics"]
    assert metrics["fingerprint_bytes"] == head + 2 * path.stat().st_size
    assert metrics["processed_bytes"] == 0
