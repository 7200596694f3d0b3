"""What docs/reference/dataset.md says is what the code does."""

from __future__ import annotations

import ast
import pathlib
import re

import click
import pytest

from yarp.cli import dataset as cli
from yarp.dataset import database, framing
from yarp.dataset.database import Dataset
from yarp.sources import facts

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "dataset.md").read_text()


@pytest.fixture(scope="module")
def columns(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    path.chmod(0o700)
    with Dataset.write(str(path / "x.duckdb")) as dataset:
        found = {}
        for table, column, nullable in dataset.rows(
            "SELECT table_name, column_name, is_nullable FROM duckdb_columns()"
            " WHERE NOT internal AND schema_name = 'main' ORDER BY table_oid, column_index"
        ):
            found.setdefault(table, []).append(column + "?" * nullable)
    return found


def test_every_table_stands_there_with_all_its_columns(columns):
    for table, names in columns.items():
        (row,) = re.findall(rf"^\| `{table}` \|.*$", PAGE, re.MULTILINE)
        if not table.startswith(("tool_calls_flat", "tool_call_conflicts")):
            assert row.split("|")[3].strip() == ", ".join(f"`{name}`" for name in names)


def test_every_issue_code_of_the_core_stands_there_and_no_other():
    used = {"call_without_result"}
    for path in [*ROOT.glob("yarp/sources/*.py"), *ROOT.glob("yarp/dataset/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in ("Issue", "Rejected", "_report", "__init__") and isinstance(
                    node.args[0].value, str
                ):
                    used.add(node.args[0].value)
    page = PAGE[PAGE.index("## Issues") : PAGE.index("## Limits")]
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == {
        code for code in used if re.fullmatch(r"[a-z_]+", code)
    }


def test_every_command_and_option_of_the_core_stands_there():
    for name, command in cli.command.commands.items():
        assert re.search(rf"^\| `{name}\b", PAGE, re.MULTILINE), name
        for option in command.params:
            if isinstance(option, click.Option) and option.name != "help":
                assert option.opts[0] in PAGE, (name, option.opts[0])


def test_limits_and_frames_are_those_of_the_code():
    assert f"{database.MOST_BYTES:,}" in PAGE
    assert f"The first {facts.SINGLE_ISSUES} issues" in PAGE
    for record in framing.RECORDS.values():
        assert f"`{record}`" in PAGE
