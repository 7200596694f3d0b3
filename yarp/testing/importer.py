"""ImporterSuite: what the importers of a plugin must hold to.

    from yarp.testing.importer import ImporterSuite

    class TestAcmeImporter(ImporterSuite):
        plugin = "acme"

        @pytest.fixture
        def roots(self, tmp_path):
            # lay out a synthetic store
            return {"sessions": str(tmp_path / "sessions")}

What needs the dataset (resuming, issues, exclusions) is not asked yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yarp.sources.importers import SourceItem
from yarp.testing.files import facts_of
from yarp.testing.suite import PluginSuite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugins import Plugins
    from yarp.sources.importers import Importer


class ImporterSuite(PluginSuite):
    """Inherit it as `Test<Name>`, set `plugin`, give `roots`.

    A plugin without importers is skipped by name.
    """

    @pytest.fixture
    def roots(self) -> dict[str, str]:
        """A synthetic store: for each option of the importer the path of its root."""
        raise NotImplementedError(
            "give a fixture `roots`: a dict from each option flag of the importer to the path of "
            "a synthetic store"
        )

    @pytest.fixture
    def importers(self, loaded: Plugins) -> dict[str, Importer]:
        """What the plugin declares, by agent."""
        declared = loaded.importers()
        assert not loaded.problems, loaded.problems
        if not declared:
            pytest.skip(f"{self.plugin} declares no importers")
        return declared

    def test_every_option_has_a_root(
        self, importers: dict[str, Importer], roots: dict[str, str]
    ) -> None:
        """The store that the tests read is whole."""
        for importer in importers.values():
            assert importer.adapter_version > 0
            wanted = {option.flag for option in importer.options if option.required}
            assert wanted <= set(roots), f"{importer.agent}: no root for {wanted - set(roots)}"

    def test_reading_twice_gives_the_same_and_something(
        self, importers: dict[str, Importer], roots: dict[str, str]
    ) -> None:
        """What a record says depends on the source alone."""
        for importer in importers.values():
            first = [[*importer.read(item)] for item in _items(importer, roots)]
            assert any(first), f"{importer.agent}: the store gives no records"
            assert [[*importer.read(item)] for item in _items(importer, roots)] == first

    def test_sources_keep_their_bytes_modes_and_times(
        self, importers: dict[str, Importer], roots: dict[str, str]
    ) -> None:
        """The store belongs to the agent: nothing is written beside it either."""
        before = facts_of(roots.values())
        assert before, "the roots hold no files"
        for importer in importers.values():
            for item in _items(importer, roots):
                for _ in importer.read(item):
                    pass
        assert facts_of(roots.values()) == before


def _items(importer: Importer, roots: dict[str, str]) -> Iterator[SourceItem]:
    """What the importer finds, each item closed behind its use."""
    for item in importer.discover(roots):
        assert isinstance(item, SourceItem), item
        yield item
        item.close()
