from __future__ import annotations

import json
import os

import pytest

from yarp.testing.host import HostSuite

HERE = os.path.dirname(os.path.abspath(__file__))


class TestClaude(HostSuite):
    plugin = "claude"

    @pytest.fixture
    def exchange(self):
        with open(os.path.join(HERE, "recordings", "call.json"), encoding="utf-8") as file:
            return json.load(file)
