"""What runs once per tool call loads nothing heavy; checked in fresh processes."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import pytest

from yarp import plugin
from yarp.testing.light import HEAVY, loaded_by

ROOT = pathlib.Path(__file__).parents[1]
HOT = [
    "yarp.argv",
    "yarp.cache",
    "yarp.canonical",
    "yarp.capture",
    "yarp.errors",
    "yarp.event",
    "yarp.hook",
    "yarp.paths",
    "yarp.payload",
    "yarp.plugin",
    "yarp.runner",
    "yarp.settings",
    "yarp.shorten",
    "yarp.sqlite",
    "yarp.types",
    "yarp.archive.read",
    "yarp.archive.write",
    "yarp.archive.whole",
    "yarp.cli.recover",
    "yarp.cli.reduce",
    "yarp.ingest.frames",
    "yarp.ingest.server",
    "yarp.reduce.engine",
    "yarp.reduce.rules.match",
    "yarp.shell.words",
    "yarp.spool.stream",
]
HOT += [f"yarp.recover.{path.stem}" for path in sorted(ROOT.glob("yarp/recover/[a-z]*.py"))]
FAMILIES = [path.stem for path in sorted(ROOT.glob("yarp/reduce/families/[a-z]*.py"))]
FAMILIES += ["build", "test"]


def exists(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("module", HOT)
def test_a_module_of_the_hot_lane_loads_nothing_heavy(module):
    if not exists(module):
        pytest.skip(f"{module} is not part of this version")
    assert loaded_by(f"import {module}") & HEAVY == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_loads_counters_at_most(family):
    assert loaded_by(f"import yarp.reduce.families.{family}") & HEAVY <= {"collections"}


def test_reading_the_cache_loads_nothing_heavy(yarp_home):
    loaded_by("from yarp import cache; cache.load()")
    added = loaded_by("from yarp import cache; cache.load().rules")
    assert added & HEAVY == set()
    assert "yarp.compile" not in added


def test_the_door_and_a_host_that_uses_all_of_it_load_nothing_heavy():
    # `hostfile` is for installers, the cold ones for readers of the past; no call asks for them.
    cold = {"hostfile"}.union(*plugin._COLD.values())
    names = ", ".join(name for name in plugin.__all__ if name not in cold)
    assert loaded_by(f"from yarp.plugin import {names}") & HEAVY == set()


def test_the_guard_sees_a_heavy_module():
    assert "re" in loaded_by("from yarp import plugins") & HEAVY


def imported(*words):
    """The modules that a whole process imports, from the interpreter's own account."""
    done = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip() for line in lines}


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("yarp.runner", ("run", "--", "true")),
        ("yarp.cli.recover", ("search", "yr_00000000000000000000000000000000", "x")),
        ("yarp.cli.recover", ("calls",)),
        ("yarp.cli.reduce", ("reduce", "--command", "true")),
        ("yarp.ingest.server", ("archive", "ingest")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_whole_hot_command_loads_nothing_heavy(yarp_home, module, command):
    if not exists(module):
        pytest.skip(f"{module} is not part of this version")
    script = str(ROOT / "yarp" / "bin" / "yarp")
    imported(script, *command)  # the first one compiles the cache and makes the archive
    added = imported(script, *command) - imported("-c", "pass")
    assert module in added
    assert added & HEAVY == set()
