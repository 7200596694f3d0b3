"""Codex from npm, in `YARP_TEST_AGENTS` (kept), else in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "0.171.0"
# The last line of builds whose forks copy all records of their parent.
COPYING = "0.149.1"


def installed(version, folder):
    """The folder of an npm prefix that has Codex, installed unless it is there already."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    kept = os.environ.get("YARP_TEST_AGENTS")
    found = (Path(kept) if kept else folder) / f"codex-{version}"
    if not (found / "node_modules" / ".bin" / "codex").exists():
        found.mkdir(parents=True, exist_ok=True)
        (found / "package.json").write_text('{"name": "agents", "private": true}')
        words = ["npm", "install", "--no-audit", "--no-fund", f"@openai/codex@{version}"]
        done = subprocess.run(words, cwd=found, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install Codex: {done.stderr.strip()[-300:]}")
    return found


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The Codex that is tested."""
    return installed(VERSION, tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    """A Codex whose forks are copies."""
    return installed(COPYING, tmp_path_factory.mktemp("agents"))
