"""Several tools in one text with nothing between: whoever said it, each outcome stays."""

import os
import subprocess
import sys

import pytest

from yarp.reduce.cap import cap
from yarp.reduce.engine import Reduction
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])
REFERENCE = "yr_" + "0" * 32
BIN = os.path.dirname(sys.executable)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for number in range(60):
        (folder / f"part_{number}.py").write_text("import os\nimport sys\nx = lambda: None\n")
    (folder / "test_parts.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(40))\n"
        "def test_part(n):\n    value = n * 2\n    assert value % 3, f'part {n} is wrong'\n"
    )
    (folder / "test_good.py").write_text("def test_good(): pass\n" * 2)
    (folder / "lint").write_text("#!/bin/sh\nruff check --isolated .\n")
    (folder / "lint").chmod(0o755)
    return folder


def output_of(text, project):
    env = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(
        ["/bin/sh", "-c", text], cwd=project, env=env, capture_output=True, text=True, check=False
    )


def outcomes(whole):
    (linted,) = [line for line in whole if line.startswith("Found ")]
    return [linted, *(line.partition(" in ")[0] for line in whole if " passed in " in line)]


@pytest.mark.parametrize(
    "text",
    [
        "ruff check --isolated .; pytest -q -p no:cacheprovider",
        "cd . && pytest -q -p no:cacheprovider test_good.py && ruff check --isolated .",
        "pytest -q -p no:cacheprovider test_good.py; pytest -v test_parts.py; ruff check --isolated .",
    ],
)
def test_tools_one_after_the_other_are_shortened_together(project, text):
    done = output_of(text, project)
    found = plan(text, RULES)
    assert found.selection.rule == "several"
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    reduction.feed(0, done.stdout.encode())
    summary = reduction.finish(found.status(done.returncode), Recovery(REFERENCE))
    shown = summary.stdout.decode()
    whole = done.stdout.splitlines()
    assert len(shown) <= 5120 < len(done.stdout) / 4
    for outcome in outcomes(whole):
        assert outcome.strip("= ") in shown
    assert "part_0.py:1:1" in shown
    if "-q -p no:cacheprovider;" in text or "test_parts" in text:
        assert "FAILED test_parts.py::test_part[0]" in shown
        assert "AssertionError: part 0 is wrong" in shown
    assert shown.splitlines()[-1].startswith("[yarp: ")


@pytest.mark.parametrize(
    "text",
    [
        "./lint; pytest -q -p no:cacheprovider",
        "cd . && (./lint || true) && python -m pytest -q -p no:cacheprovider",
        "pytest -q -p no:cacheprovider; ./lint",
    ],
)
def test_what_stays_exact_can_be_followed_under_the_cap(project, text):
    assert plan(text, RULES).selection is None
    done = output_of(text, project)
    assert len(done.stdout) > 20_000
    shown = cap(done.stdout, 5120, REFERENCE)
    assert len(shown.encode()) <= 5120
    lines = shown.splitlines()
    # What the first tool said first, what the last one said last, and each one's outcome.
    whole = done.stdout.splitlines()
    assert lines[0] == whole[0]
    assert lines[-2] == whole[-1]
    for outcome in outcomes(whole):
        assert outcome in shown
    assert lines[-1].startswith("[yarp: ")
