import pytest

from yarp.testing.host import HostSuite


class TestAcme(HostSuite):
    plugin = "acme"

    @pytest.fixture
    def exchange(self):
        call = {"chat": "c1", "id": "7"}
        return [
            {"kind": "begin", **call, "tool": "sh", "args": {"command": "ls"}},
            {"kind": "end", **call, "out": "README.md\n", "failed": False},
        ]
