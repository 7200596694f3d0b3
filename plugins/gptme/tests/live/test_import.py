"""The real gptme against a scripted model: what the dataset holds of its conversations."""

from __future__ import annotations

import json
import shutil

import pytest

from yarp.dataset.database import Dataset
from yarp.testing.files import neighbour

live = neighbour(__file__, "test_live")
binaries, place = live.binaries, live.place

pytestmark = pytest.mark.slow
pytest.importorskip("duckdb")


def extract(place):
    """Import the conversations; what the command said."""
    logs = str(place.home / "data" / "gptme" / "logs")
    return place.yarp("dataset", "extract", "--unix-user", "ada", "gptme", "--logs", logs)


def rows(place, statement):
    path = place.home / "data" / "toolcall-extractor" / "toolcalls.duckdb"
    with Dataset.read(str(path)) as dataset:
        return dataset.rows(statement)


@pytest.mark.parametrize("hooked", [True, False])
def test_every_call_is_there_once_in_both_formats_and_in_a_fork(place, hooked):
    if not hooked:
        place.yarp("uninstall", "gptme")
    model = place.run(
        [
            [("shell", {"command": "echo out; echo err >&2"})],
            [("shell", {"command": "echo before; (exit 3)"})],
            [("save", {"path": "notes.txt", "content": "first\n"})],
            [("patch", {"path": "none.txt", "patch": live.PATCH})],
            [("shell", {"command": "echo one"}), ("read", {"path": "notes.txt"})],
            [("shell", {"command": "seq 1 60000"})],
            [("shell", {"command": "sleep 1; echo late", "background": "true"})],
            [("shell", {"command": "wait 1 20s"})],
            [("no_such_tool", {"x": 1})],
        ],
        # Streaming, gptme takes the first call of an answer and leaves out the rest.
        options=["--no-stream"],
    )
    texts = [
        "One.\n\n```shell\necho one\n```\n",
        "Two at once.\n\n```shell\necho two\n```\n\n```shell\necho three\n```\n",
        "A file.\n\n```save x.md\n# x\n```\n",
        "```ipython\n1 + 1\n```\n",
    ]
    place.run(texts, form="markdown", name="marked", options=["--no-stream"])
    logs = place.home / "data" / "gptme" / "logs"
    # What gptme's own command for it does.
    shutil.copytree(logs / "talk", logs / "fork", symlinks=True)
    extract(place)

    given = model.results()
    found = rows(
        place,
        "SELECT native_call_id, tool_name, output_text, is_error, provider, model"
        " FROM tool_calls JOIN tool_results USING (call_key)",
    )
    named = {row[0]: row for row in found if row[0] is not None}
    assert sorted(row[0] for row in found if row[0] is not None) == sorted(
        f"call_demo_{at}_{n}" for at, n in [*((at, 0) for at in range(9)), (4, 1)]
    )
    for name, row in named.items():
        assert row[2] == given.get(name, row[2])
        assert row[4:] == ("local", "mock")
    assert {name for name, row in named.items() if row[3]} == {"call_demo_3_0", "call_demo_8_0"}
    unnamed = sorted((row[1], row[2]) for row in found if row[0] is None)
    assert [tool for tool, _ in unnamed] == ["ipython", "save", "shell", "shell", "shell"]
    shown = "".join(text for _, text in unnamed)
    for part in ("`one`", "`two`", "`three`", "x.md", "2"):
        assert part in shown

    assert rows(place, "SELECT count(*) FROM tool_calls") == [(len(found),)]
    assert rows(place, "SELECT code, message FROM import_issues") == []
    ((seen,),) = rows(place, "SELECT count(*) FROM observations WHERE call_key IS NOT NULL")
    assert seen == len(found) + len(named)
    verified = json.loads(place.yarp("dataset", "verify", "--json"))
    assert verified["valid"], verified
    assert verified["calls_without_results"] == verified["calls_with_conflicting_results"] == 0
    assert extract(place).endswith("0 new calls, 0 new results\n")
