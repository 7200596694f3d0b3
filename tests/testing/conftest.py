from __future__ import annotations

import re
import subprocess
import sys

import pytest


def _run(folder, text):
    (folder / "test_suites.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-q", "--tb=short", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {}
    for outcome, case, test in re.findall(
        r"^(PASSED|FAILED|ERROR|SKIPPED).*?::(\w+)::(\w+)", done.stdout, re.MULTILINE
    ):
        found.setdefault(case, {}).setdefault(outcome, set()).add(test)
    return found, done.stdout


@pytest.fixture(scope="session")
def run_suites():
    """Runs test classes in a pytest of their own: outcomes by class, and all that it printed."""
    return _run
