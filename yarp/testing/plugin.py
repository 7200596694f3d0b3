"""Registered under pytest11: fixtures for the conformance suites and for tests of plugins.

A plugin's test file inherits a suite, such as `yarp.testing.host.HostSuite`, and fills in the
fixtures that the suite asks for. Nothing here is active unless a test asks for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Before the suites are imported: their assertions are shown in full.
pytest.register_assert_rewrite(
    *(
        f"yarp.testing.{name}"
        for name in ("host", "importer", "reducer", "rules", "spool", "suite", "trace")
    )
)

_VARIABLES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


@pytest.fixture
def yarp_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for this test and its children: no archive, cache or configuration yet."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for variable in _VARIABLES:
        monkeypatch.setenv(variable, str(home / variable.split("_")[1].lower()))
    for variable in ("YARP_ARCHIVE", "YARP_PLUGINS"):
        monkeypatch.delenv(variable, raising=False)
    return home


class PluginSite:
    """A directory of installed plugins, as `pip install` would leave it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(
        self,
        name: str,
        code: str,
        *,
        version: str = "1.0.0",
        distribution: str | None = None,
        module: str | None = None,
    ) -> None:
        """Put a plugin there whose module holds `code`."""
        distribution = distribution or f"yarp-{name}"
        module = module or distribution.replace("-", "_")
        (self.path / f"{module}.py").write_text(code)
        info = self.path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(f"[yarp]\n{name} = {module}\n")


@pytest.fixture
def plugin_site(tmp_path: Path, yarp_home: Path, monkeypatch: pytest.MonkeyPatch) -> PluginSite:  # noqa: ARG001 - asked for its effect
    """A place for made-up plugins, on the search path of this test's children."""
    site = tmp_path / "site"
    site.mkdir()
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *([before] if before else [])]))
    return PluginSite(site)
