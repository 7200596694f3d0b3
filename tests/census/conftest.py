"""Calls of agents, with outputs that rules know and outputs that they do not."""

import pytest

PASSED = "".join(f"tests/test_a.py::test_{n} PASSED [ 50%]\n" for n in range(400))
PYTEST = (
    "===== test session starts =====\ncollected 401 items\n\n"
    + PASSED
    + "tests/test_a.py::test_bad FAILED\n\n===== FAILURES =====\n____ test_bad ____\n\n"
    "    def test_bad():\n>       assert 1 == 2\nE       assert 1 == 2\n\n"
    "tests/test_a.py:9: AssertionError\n===== short test summary info =====\n"
    "FAILED tests/test_a.py::test_bad - assert 1 == 2\n===== 1 failed, 400 passed in 0.31s =====\n"
)
NAMES = "".join(f"./src/part{n % 7}/module{n}.py\n" for n in range(300))


@pytest.fixture
def failing_run():
    return PYTEST


@pytest.fixture
def filled(dataset_of, result):
    """A dataset with some of everything; gives its path."""
    shell = {"tool": "bash", "agent": "acme"}
    return dataset_of(
        *[
            {
                **shell,
                "session": f"s{number}",
                "input": {"command": "pytest -v"},
                "at": 1_790_000_000_000 + number * 86_400_000 * 9,
                "results": [result(PYTEST + f"{number}\n", is_error=True)],
            }
            for number in range(8)
        ],
        {**shell, "input": {"command": "find . -name '*.py'"}, "results": [result(NAMES)]},
        {**shell, "input": {"cmd": "cd a && pytest -v 2>&1"}, "results": [result(PYTEST)]},
        {**shell, "input": {"command": "md5sum secret-file"}, "results": [result("größe" * 900)]},
        {
            **shell,
            "input": {"command": "for x in 1; do planted-tool; done"},
            "results": [result("out")],
        },
        {**shell, "input": {"other": 1}, "results": [result("no command")]},
        {
            "tool": "read",
            "input": {"path": "/a"},
            "results": [result("planted-output"), result(None, {})],
        },
        {"tool": "Shell", "agent": "other", "input": "ls -la", "results": [result("a\nb\n")]},
        {"tool": "bash", "input": {"command": "pytest"}},
    )
