"""What all conformance suites share: the plugin alone, loaded as YARP loads it."""

from __future__ import annotations

import pytest

from yarp.plugins import Plugins, discover
from yarp.settings import Settings


class PluginSuite:
    """Base of the suites. A suite never passes on nothing: what is not declared is skipped."""

    plugin: str
    """The name of the entry point in group `yarp`."""

    @pytest.fixture
    def loaded(self) -> Plugins:
        """The plugin alone."""
        entries = [entry for entry in discover() if entry.name == self.plugin]
        assert entries, f"no installed distribution has an entry point {self.plugin} in group yarp"
        plugins = Plugins(entries, Settings())
        assert not plugins.problems, plugins.problems
        return plugins
