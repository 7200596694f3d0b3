"""Codex from npm, in `YARP_TEST_AGENTS` (kept), else in a temporary folder."""

from __future__ import annotations

import pytest

from yarp.testing.live import from_npm

VERSION = "0.171.0"
# The last line of builds whose forks copy all records of their parent.
COPYING = "0.149.1"


def installed(version, factory):
    return from_npm(f"codex-{version}", "codex", f"@openai/codex@{version}", factory=factory)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The Codex that is tested."""
    return installed(VERSION, tmp_path_factory)


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    """A Codex whose forks are copies."""
    return installed(COPYING, tmp_path_factory)
