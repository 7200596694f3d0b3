"""The real gptme against a scripted model: what the archive and the receipts hold afterwards."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATCH = "<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> UPDATED"
pytestmark = pytest.mark.slow

spec = importlib.util.spec_from_file_location("yarp_gptme_live_agent", HERE / "agent.py")
agent = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agent)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory):
    """The folder with the programs of an environment that holds gptme and YARP."""
    python = agent.installed(tmp_path_factory)
    return agent.beside(python, tmp_path_factory.mktemp("beside") / "gptme").parent


@pytest.fixture
def place(yarp_home, binaries):
    return agent.Place(yarp_home, binaries)


def test_every_call_is_in_the_archive_also_one_that_failed(place):
    model = place.run(
        [
            [("shell", {"command": "echo out; echo err >&2"})],
            [("shell", {"command": "echo before; (exit 3)"})],
            [("save", {"path": "notes.txt", "content": "first\n"})],
            [("patch", {"path": "none.txt", "patch": PATCH})],
            [("read", {"path": "notes.txt"})],
            [("no_such_tool", {"x": 1})],
        ]
    )
    calls = place.calls()
    assert {name: (call["tool_name"], call["is_error"]) for name, call in calls.items()} == {
        "call_demo_0_0": ("shell", 0),
        "call_demo_1_0": ("shell", 1),
        "call_demo_2_0": ("save", 0),
        "call_demo_3_0": ("patch", 1),
        "call_demo_4_0": ("read", 0),
    }
    assert {call["status"] for call in calls.values()} == {"finished"}
    assert {(call["agent"], call["source_session_id"]) for call in calls.values()} == {
        ("gptme", "talk")
    }
    assert {(call["provider"], call["model"]) for call in calls.values()} == {("local", "mock")}
    failed = calls["call_demo_1_0"]
    assert json.loads(failed["input/before"]) == {"command": "echo before; (exit 3)"}
    result = json.loads(failed["result/after"])
    assert result["exitCode"] == 3
    assert result["messages"][0]["content"] == model.results()["call_demo_1_0"]


def test_calls_in_markdown_get_ids_of_their_own(place):
    place.run(
        ["```shell\necho one\n```\n\n```shell\necho two\n```\n", "```shell\necho three\n```\n"],
        form="markdown",
        options=["--no-stream"],
    )
    inputs = [json.loads(call["input/before"])["command"] for call in place.calls().values()]
    assert inputs == ["echo one", "echo two", "echo three"]


def test_a_call_is_not_run_when_it_cannot_be_archived(place):
    place.run([[("shell", {"command": "echo warm"})]])
    place.archive.write_bytes(b"no archive")
    model = place.run([[("shell", {"command": "touch ran"})]], name="second")
    assert not (place.project / "ran").exists()
    assert "could not be archived" in model.results()["call_demo_0_0"]


def test_uninstalling_leaves_gptme_as_it_was(place):
    place.yarp("uninstall", "gptme")
    assert place.configuration.read_text() == '[user]\nname = "Ada"\n\n[env]\n'
    place.run([[("shell", {"command": "seq 1 20000"})]])
    assert not place.archive.exists()
    assert place.receipts() == []
