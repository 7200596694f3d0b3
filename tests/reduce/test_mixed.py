"""Two tools in one text with nothing between: exact, and then cut so that both can be followed."""

import os
import subprocess
import sys

import pytest

from yarp.reduce.cap import cap
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules

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
    return folder


@pytest.mark.parametrize(
    "text",
    [
        "ruff check --isolated .; pytest -q -p no:cacheprovider",
        "cd . && (ruff check --isolated . || true) && python -m pytest -q -p no:cacheprovider",
        "pytest -q -p no:cacheprovider; ruff check --isolated .",
    ],
)
def test_both_tools_stay_recognisable_under_the_cap(project, text):
    assert plan(text, RULES).selection is None
    env = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", text], cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert len(done.stdout) > 20_000
    shown = cap(done.stdout, 5120, REFERENCE)
    assert len(shown.encode()) <= 5120
    lines = shown.splitlines()
    # What the first tool said first, what the last one said last, and trouble between.
    whole = done.stdout.splitlines()
    assert lines[0] == whole[0]
    assert lines[-2] == whole[-1]
    assert "part_0.py" in shown or "test_part[0]" in shown
    assert "14 failed, 26 passed" in shown
    (found,) = [line for line in whole if line.startswith("Found ")]
    assert found in shown
    assert lines[-1].startswith("[yarp: ")
