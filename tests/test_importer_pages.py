"""What a plugin's README says of its importer is what the code does."""

from __future__ import annotations

import ast
import pathlib

import pytest

from yarp.testing.light import loaded_by

ROOT = pathlib.Path(__file__).parents[1]
# Whichever argument holds the code of an issue.
PLACES = {"at": 1, "Issue": 0, "Rejected": 0}
CORE = (ROOT / "docs" / "reference" / "dataset.md").read_text()
IMPORTERS = sorted(ROOT.glob("plugins/*/yarp_*/importer.py"))


def codes(source):
    """The issue codes that the source names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            place = PLACES.get(getattr(node.func, "id", getattr(node.func, "attr", "")))
            if place is None or len(node.args) <= place:
                continue
            found = node.args[place]
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                yield found.value


@pytest.mark.parametrize("path", IMPORTERS, ids=lambda path: path.parts[-3])
def test_every_issue_code_of_an_importer_stands_in_its_readme(path):
    page = (path.parents[1] / "README.md").read_text() + CORE
    found = {code for one in path.parent.glob("*.py") for code in codes(one.read_text())}
    assert found, "no codes are found: how are issues made there?"
    assert {code for code in found if f"`{code}`" not in page} == set()


@pytest.mark.parametrize("package", ["yarp_claude", "yarp_codex", "yarp_pi"])
def test_to_find_sources_loads_nothing_that_reads_them(package):
    loaded = loaded_by(f"import {package}; {package}.yarp_importers()")
    assert f"{package}.store" in loaded
    assert not {f"{package}.importer", f"{package}.records", "sqlite3", "zstandard"} & loaded
