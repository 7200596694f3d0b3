"""Runs the extension's own tests in node, against a scripted peer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLUGIN = HERE.parent


def node_that_reads_typescript() -> tuple[str, list[str]]:
    """The program and its options: `YARP_TEST_NODE`, else `node` on the PATH."""
    node = os.environ.get("YARP_TEST_NODE") or shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if found < (22, 6):
        pytest.skip(f"node {version.strip()} cannot read TypeScript; 22.6 can (YARP_TEST_NODE)")
    return node, [] if found >= (22, 18) else ["--experimental-strip-types"]


@pytest.mark.parametrize("name", ["capture", "client"])
def test_the_extension_keeps_its_side_of_the_contract(name):
    node, options = node_that_reads_typescript()
    done = subprocess.run(
        [node, *options, "--test", "--test-reporter=tap", f"extension/{name}.test.ts"],
        cwd=HERE, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    failed = "\n".join(line for line in done.stdout.splitlines() if line.startswith("not ok"))
    assert done.returncode == 0, f"{failed}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
    assert "\n# pass 0\n" not in done.stdout


def test_the_extension_speaks_the_servers_protocol():
    from yarp.ingest.server import PROTOCOL

    source = (PLUGIN / "yarp_pi" / "extension" / "client.ts").read_text()
    assert f"export const PROTOCOL = {PROTOCOL};" in source


def test_the_extension_needs_no_package():
    for path in (PLUGIN / "yarp_pi" / "extension").glob("*.ts"):
        for source in re.findall(r'from "([^"]+)"', path.read_text()):
            assert source.startswith(("node:", "./")), f"{path.name} imports {source}"
