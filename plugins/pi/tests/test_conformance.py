from __future__ import annotations

from yarp.testing.host import HostSuite


class TestPi(HostSuite):
    plugin = "pi"
