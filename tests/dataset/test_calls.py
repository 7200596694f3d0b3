"""The list of calls: newest first, filtered, with how they went."""

from yarp.dataset.calls import calls
from yarp.dataset.database import Dataset
from yarp.dataset.filters import Filters


def listed(path, *arguments, **more):
    with Dataset.read(path) as dataset:
        return calls(dataset, *arguments, **more)


def test_the_newest_call_comes_first_with_how_it_went(dataset_of, result):
    path = dataset_of(
        {"tool": "sh", "input": "older", "at": 1, "results": [result("out", is_error=False)]},
        {"tool": "sh", "input": "newer", "at": 2},
        {
            "tool": "read",
            "input": {"path": "/a"},
            "results": [result("größe", is_error=True), result(None, {"a": 1}, is_error=None)],
        },
    )
    newer, older, timeless = listed(path)
    assert (newer.beginning, newer.results, newer.is_error) == ("newer", 0, None)
    assert (older.results, older.is_error, older.output_characters) == (1, False, 3)
    assert (timeless.tool_name, timeless.results, timeless.is_error) == ("read", 2, True)
    assert (timeless.input_characters, timeless.output_characters) == (14, 5)
    assert timeless.called_at_ms is None


def test_filters_and_a_text_choose(dataset_of, result):
    path = dataset_of(
        {"tool": "sh", "input": "cargo test", "at": 1, "results": [result("an error")]},
        {"tool": "sh", "input": "cargo build", "at": 2, "agent": "other"},
        {"tool": "sh", "input": "ls", "at": 3, "results": [result(None, {"said": "cargo"})]},
    )
    assert [call.called_at_ms for call in listed(path, text="cargo")] == [3, 2, 1]
    assert [call.called_at_ms for call in listed(path, Filters(agent="acme"), text="cargo")] == [
        3,
        1,
    ]
    assert [call.called_at_ms for call in listed(path, Filters(since_ms=2), limit=1)] == [3]
    assert [call.called_at_ms for call in listed(path, text="an error")] == [1]
    assert listed(path, text="%") == []


def test_the_beginning_of_an_input_is_bounded(dataset_of):
    path = dataset_of({"tool": "write", "input": "x" * 100_000})
    (call,) = listed(path)
    assert call.input_characters == 100_000
    assert len(call.beginning) == 200
