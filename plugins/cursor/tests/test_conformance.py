from __future__ import annotations

from yarp.testing.host import HostSuite


class TestCursor(HostSuite):
    plugin = "cursor"
