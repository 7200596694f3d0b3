from __future__ import annotations

from yarp.testing.host import HostSuite


class TestCodex(HostSuite):
    plugin = "codex"
