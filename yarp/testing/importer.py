"""ImporterSuite: what the importers of a plugin must hold to.

    from yarp.testing.importer import ImporterSuite

    class TestAcmeImporter(ImporterSuite):
        plugin = "acme"

        @pytest.fixture
        def roots(self, tmp_path):
            # lay out a synthetic store, with PROMPT in a prompt and OUTPUT in an output
            return {"sessions": str(tmp_path / "sessions")}

        @pytest.fixture
        def excluded(self):
            return ["PROMPT"]

        @pytest.fixture
        def kept(self):
            return ["OUTPUT"]

The store is imported into a dataset of its own, so the extra `dataset` must be installed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from yarp.dataset.rows import ItemRows
from yarp.sources.facts import Rejected
from yarp.sources.importers import Importer, SourceItem
from yarp.sources.jsonl import Line
from yarp.testing.files import facts_of
from yarp.testing.shapes import mutations
from yarp.testing.suite import PluginSuite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from yarp.dataset.run import Report
    from yarp.plugins import Plugins
    from yarp.sources.facts import SourceFact

_MOST_MUTATED_LINES = 40


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

    @pytest.fixture
    def excluded(self) -> list[str]:
        """Strings that stand in the store, in records that must never enter the dataset."""
        pytest.skip("no fixture `excluded`: strings planted in prompts, reasoning, settings, keys")

    @pytest.fixture
    def kept(self) -> list[str]:
        """Strings that stand in inputs and outputs of the store, and must be found."""
        raise NotImplementedError(
            "give a fixture `kept`: strings in inputs and outputs, which the search must find"
        )

    @pytest.fixture
    def imports(self, roots: dict[str, str], tmp_path: Path) -> Callable[..., Imported]:
        """Imports the store; the same `name` goes on with the same dataset."""

        def run(importer: Importer, name: str = "dataset") -> Imported:
            return Imported.of(importer, roots, str(tmp_path / name / "toolcalls.duckdb"))

        return run

    def test_a_second_unchanged_run_inserts_nothing(
        self, importers: dict[str, Importer], imports: Callable[..., Imported]
    ) -> None:
        """Seed 003, Completion criteria."""
        for importer in importers.values():
            first = imports(importer, importer.agent)
            assert first.report.written.calls, f"{importer.agent}: the store gives no calls"
            assert not first.rejected, f"{importer.agent}: items are rejected: {first.rejected}"
            second = imports(importer, importer.agent)
            assert second.report.unchanged == second.report.found, "an unchanged item is read again"
            assert second.rows == first.rows

    def test_an_interrupted_run_resumes_to_the_same_rows(
        self, importers: dict[str, Importer], imports: Callable[..., Imported]
    ) -> None:
        """Whatever item the first run stops at."""
        for importer in importers.values():
            whole = imports(importer, f"{importer.agent}-whole")
            for stop in range(whole.report.found):
                name = f"{importer.agent}-{stop}"
                with pytest.raises(KeyboardInterrupt):
                    imports(_stopping(importer, stop), name)
                assert imports(importer, name).rows == whole.rows, f"stopped at item {stop}"

    def test_importing_leaves_the_store_as_it_was(
        self,
        importers: dict[str, Importer],
        imports: Callable[..., Imported],
        roots: dict[str, str],
    ) -> None:
        """Bytes, modes, times, and nothing beside them: no `-shm`, no `-wal`."""
        before = facts_of(roots.values())
        for importer in importers.values():
            imports(importer, importer.agent)
        assert facts_of(roots.values()) == before

    def test_a_malformed_line_is_one_issue_and_a_partial_one_waits(
        self, importers: dict[str, Importer], imports: Callable[..., Imported]
    ) -> None:
        """The calls and results are those of the whole lines."""
        for importer in importers.values():
            whole = imports(importer, f"{importer.agent}-whole")
            paths = [path for path in whole.lines if path.endswith(".jsonl")]
            for path in paths:
                with open(path, "r+b") as file:
                    first, *rest = file.read().splitlines(keepends=True)
                    file.seek(0)
                    file.write(b"".join([first, b'{"broken": \n', *rest, b'{"partial": 1}']))
            damaged = imports(importer, f"{importer.agent}-damaged")
            assert damaged.malformed == len(paths)
            assert damaged.texts == whole.texts
            assert damaged.deferred == len(paths)

    def test_excluded_records_never_arrive(
        self,
        importers: dict[str, Importer],
        imports: Callable[..., Imported],
        roots: dict[str, str],
        excluded: list[str],
        kept: list[str],
    ) -> None:
        """Every text and blob column of every table is searched; `kept` proves the search."""
        store = b"".join(content for content, *_ in facts_of(roots.values()).values())
        absent = [planted for planted in excluded if planted.encode() not in store]
        assert not absent, f"these stand nowhere in the store: {absent}"
        assert kept, "without a string that must be found, nothing is proven"
        found: set[str] = set()
        for importer in importers.values():
            found |= imports(importer, importer.agent).holding([*excluded, *kept])
        assert found == set(kept), f"missing or leaked: {sorted(found ^ set(kept))}"

    def test_a_record_of_unexpected_shape_is_no_exception(
        self, importers: dict[str, Importer], roots: dict[str, str]
    ) -> None:
        """An agent's next build writes something else: that is an issue, or nothing at all."""
        for importer in importers.values():
            for item in _items(importer, roots):
                if item.database:
                    continue
                lines = [*item.lines()][:_MOST_MUTATED_LINES]
                for place, line in enumerate(lines):
                    # What a record means may hang on the first one, and on the one before it.
                    before = [*lines[:1], *lines[max(1, place - 1) : place]] if place else []
                    for value in mutations(line.value):
                        odd = Line(line.number, line.offset, line.data, value)
                        rows = ItemRows("ann", importer.agent, "an item")
                        try:
                            for fact in importer.read(_Given(item, [*before, odd])):
                                rows.add(fact)
                            rows.finish()
                        except Rejected:
                            pass


class Imported:
    """A dataset behind an import. `rows`: all that must not depend on when it was imported."""

    def __init__(self, path: str, report: Report, lines: list[str]) -> None:
        from yarp.dataset.database import Dataset

        self.report = report
        self.lines = lines
        self._path = path
        with Dataset.read(path) as dataset:
            ask = dataset.rows
            self.rows = {table: ask(f"SELECT {what} ORDER BY ALL") for table, what in _ROWS.items()}
            self.rejected = ask("SELECT relative_path FROM source_items WHERE status = 'rejected'")
            (self.deferred,) = dataset.row(
                "SELECT count(*) FROM source_items WHERE status = 'deferred'"
            )
            (self.malformed,) = dataset.row(
                "SELECT coalesce(sum(occurrence_count), 0) FROM import_issues"
                " WHERE code = 'malformed_jsonl'"
            )
            self.texts = ask(
                "SELECT tool_name, input_text, output_text, output_json, is_error FROM tool_calls"
                " LEFT JOIN tool_results USING (call_key) ORDER BY ALL"
            )

    @classmethod
    def of(cls, importer: Importer, roots: dict[str, str], path: str) -> Imported:
        """Import the store into the dataset at `path`."""
        pytest.importorskip("duckdb", reason="the extra `dataset` is not installed")
        from yarp.dataset.database import Dataset
        from yarp.dataset.extract import extract

        read: list[str] = []

        def reading(item: SourceItem) -> Iterator[SourceFact]:
            yield from importer.read(item)
            if item.file is not None:
                read.append(item.path)

        mask = os.umask(0o077)
        try:
            with Dataset.write(path) as dataset:
                report = extract(dataset, _with(importer, reading), "somebody", roots)
        finally:
            os.umask(mask)
        return cls(path, report, read)

    def holding(self, strings: list[str]) -> set[str]:
        """Which of the strings stand in any text or blob column of any table."""
        from yarp.dataset.database import Dataset

        found = set()
        with Dataset.read(self._path) as dataset:
            columns = dataset.rows(
                "SELECT schema_name, table_name, column_name FROM duckdb_columns()"
                " WHERE NOT internal AND data_type IN ('VARCHAR', 'BLOB')"
                " AND table_name NOT LIKE 'tool_call%_flat' AND table_name NOT LIKE '%_conflicts'"
            )
            for schema, table, column in columns:
                for (value,) in dataset.rows(f'SELECT "{column}" FROM "{schema}"."{table}"'):  # noqa: S608 - the catalogue's names
                    data = value.encode() if isinstance(value, str) else value or b""
                    found |= {planted for planted in strings if planted.encode() in data}
        return found


_ROWS = {
    "roots": "* FROM source_roots",
    "items": "* EXCLUDE (last_run_key) FROM source_items",
    "sessions": "* FROM sessions",
    "calls": "* FROM tool_calls",
    "results": "* FROM tool_results",
    "observations": "* FROM observations",
    "issues": "* EXCLUDE (run_key) FROM import_issues",
}


def _with(importer: Importer, read: Callable[[SourceItem], Iterable[SourceFact]]) -> Importer:
    return Importer(
        importer.agent,
        adapter_version=importer.adapter_version,
        options=importer.options,
        discover=importer.discover,
        read=read,
    )


def _stopping(importer: Importer, stop: int) -> Importer:
    """The importer, whose user presses Ctrl-C in the middle of the item of that number."""
    seen: list[SourceItem] = []

    def read(item: SourceItem) -> Iterator[SourceFact]:
        seen.append(item)
        for number, fact in enumerate(importer.read(item)):
            if len(seen) == stop + 1 and number == 1:
                raise KeyboardInterrupt
            yield fact
        if len(seen) == stop + 1:
            raise KeyboardInterrupt

    return _with(importer, read)


class _Given(SourceItem):
    """The item with other lines."""

    def __init__(self, item: SourceItem, lines: list[Line]) -> None:
        super().__init__(item.kind, item.root, item.relative_path, context=item.context)
        self._given = lines

    def lines(self) -> Iterator[Line]:
        """The lines that were given."""
        yield from self._given

    def line_again(self, line_number: int, *_: int) -> Line:
        """One of them."""
        return next(line for line in self._given if line.number == line_number)


def _items(importer: Importer, roots: dict[str, str]) -> Iterator[SourceItem]:
    """What the importer finds, each item closed behind its use."""
    for item in importer.discover(roots):
        assert isinstance(item, SourceItem), item
        assert item.refused is None, item.refused
        yield item
        item.close()
