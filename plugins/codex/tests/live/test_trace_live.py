"""What the real Codex left behind, as the trace index has it."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import sync
from yarp_codex.trace import reader

HERE = Path(__file__).parent
DIRECT, CODE = "gpt-5.5", "gpt-6-sol"
ITEMS = """
    SELECT json_extract(semantic, '$.role'), json_extract(semantic, '$.evidence_strength'), text
    FROM items LEFT JOIN blobs ON blob_id = json_extract(semantic, '$.value.text.blob_id')
    ORDER BY session_id, item_id"""

pytestmark = pytest.mark.slow


def module(name):
    spec = importlib.util.spec_from_file_location(f"yarp_codex_trace_{name}", HERE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


Model, agent = module("model").Model, module("agent")


@pytest.fixture
def home(yarp_home, monkeypatch):
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (yarp_home / "project").mkdir()
    return yarp_home


def run(prefix, home, scripts, model, *prompts):
    """Each prompt in the thread of the first one; the rows of the index."""
    served = Model(scripts)
    agent.configure(home, served.url, model)
    thread = None
    for prompt in prompts:
        verb = () if thread is None else ("resume", thread)
        said = agent.run(prefix, home, home / "project", prompt, *agent.FREE, *verb)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        thread = next(one["thread_id"] for one in events if one["type"] == "thread.started")
    served.close()
    database = str(home / "index.sqlite3")
    report = sync(database, [str(home / ".codex" / "sessions")], {"codex": reader()})
    assert (report.actions["indexed"], report.actions["failed"]) == (1, 0)
    opened = open_readonly(database)
    try:
        loops = [json.loads(row[0]) for row in opened.execute('SELECT "end" FROM loops')]
        usage = [json.loads(row[0]) for row in opened.execute("SELECT usage FROM loops")]
        return loops, usage, opened.execute(ITEMS).fetchall()
    finally:
        opened.close()


def test_turns_are_loops_with_what_was_asked_called_and_answered(prefix, home):
    calls = [
        [("exec_command", {"cmd": "echo one && echo two"})],
        [("exec_command", {"cmd": "exit 3"}), ("frobnicate", {})],
    ]
    scripts = {"FIRST": calls, "SECOND": [[("exec_command", {"cmd": "echo three"})]]}
    loops, usage, items = run(prefix, home, scripts, DIRECT, "FIRST please", "SECOND please")
    assert [end["outcome"] for end in loops] == ["completed", "completed"]
    assert [one["output"] for one in usage] == [30, 20]
    roles = Counter(role for role, _, _ in items)
    assert roles["agent.tool_call.shell"] == 3
    assert roles["agent.tool_call"] == 1
    assert roles["tool.output"] == 4
    asked = [item for item in items if item[0].startswith("human.")]
    assert asked == [
        ("human.request", "structural", "FIRST please"),
        ("human.request", "structural", "SECOND please"),
    ]
    assert [item[2] for item in items if item[0] == "agent.final_answer"] == ["done", "done"]
    assert not roles["runtime.unknown"]


def test_commands_inside_a_script_are_shell_calls(prefix, home):
    source = "const r = await tools.exec_command({cmd: 'echo a | cat'}); text(r.output);"
    _, _, items = run(prefix, home, {"FIRST": [[("js", source)]]}, CODE, "FIRST please")
    roles = Counter(role for role, _, _ in items)
    assert (roles["agent.tool_call"], roles["agent.tool_call.shell"]) == (1, 1)
    assert "a\n" in {text for role, _, text in items if role == "tool.output"}
    assert not roles["runtime.unknown"]
