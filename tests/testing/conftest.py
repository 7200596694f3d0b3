from __future__ import annotations

import re
import subprocess
import sys

import pytest

from yarp.testing.plugin import PluginSite


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


class Faulty:
    """One plugin a fault, and a suite that is run over all of them at once."""

    def __init__(self, factory):
        self.site = PluginSite(factory.mktemp("site"))
        self._folder = factory.mktemp("suites")

    @staticmethod
    def changed(code, changes):
        for before, after in changes:
            assert before in code, before
            code = code.replace(before, after)
        return code

    def install(self, code, faults):
        for name, (changes, _) in faults.items():
            self.site.install(name, self.changed(code, changes).replace("NAME", name))

    def run(self, suite, base, bodies):
        """`bodies`: what stands in the class of a plugin, by its name."""
        for name, body in bodies.items():
            suite += (
                f"\nclass Test{name}({base}):\n    __test__ = True\n    plugin = {name!r}\n{body}"
            )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.site.path))
            return _run(self._folder, suite)


@pytest.fixture
def faulty(tmp_path_factory):
    return Faulty(tmp_path_factory)
