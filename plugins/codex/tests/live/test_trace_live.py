"""What the real Codex left behind, as the trace index has it."""

from __future__ import annotations

import json
from collections import Counter

import orjson
import pytest

from yarp.index import query
from yarp.index.examples import EXAMPLES
from yarp.index.store import open_readonly
from yarp.index.sync import sync
from yarp.testing.files import neighbour
from yarp.testing.live import eventually
from yarp_codex.trace import reader

DIRECT, CODE, PLAIN = "gpt-5.5", "gpt-6-sol", "gpt-5-codex"
ITEMS = """
    SELECT json_extract(semantic, '$.role'), json_extract(semantic, '$.evidence_strength'), text
    FROM items LEFT JOIN blobs ON blob_id = json_extract(semantic, '$.value.text.blob_id')
    ORDER BY session_id, item_id"""

pytestmark = pytest.mark.slow


Model, agent = neighbour(__file__, "model").Model, neighbour(__file__, "agent")


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


def test_agents_that_write_to_one_another_are_linked_and_so_are_forks(prefix, home):
    """As the newest models have it: agents are named by paths, and a fork copies nothing."""
    task = {"task_name": "helper", "message": "Look around.", "fork_turns": "none"}
    scripts = {
        "FIRST": [
            [("collaboration__spawn_agent", task)],
            [("collaboration__wait_agent", {"timeout_ms": 10_000})],
        ],
        "SECOND": [],
    }
    served = Model(scripts)
    agent.configure(home, served.url, CODE)
    said = agent.run(prefix, home, home / "project", "FIRST please", *agent.FREE)
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    thread = next(one["thread_id"] for one in events if one["type"] == "thread.started")
    agent.run(prefix, home, home / "project", "SECOND please", *agent.FREE, "fork", thread)
    served.close()
    database = str(home / "index.sqlite3")
    report = sync(database, [str(home / ".codex" / "sessions")], {"codex": reader()})
    assert (report.actions["indexed"], report.actions["failed"]) == (3, 0)
    linked = ask(
        database,
        "SELECT DISTINCT json_extract(semantic, '$.role') AS role, s.native_id AS session,"
        " o.native_id AS other, o.name IS NOT NULL AS named FROM items JOIN sessions AS s"
        " USING (session_id) JOIN sessions AS o ON o.session_id = coalesce("
        "json_extract(semantic, '$.value.child_session_id'),"
        " json_extract(semantic, '$.value.subagent_session_id'),"
        " json_extract(semantic, '$.value.source_session_id')) ORDER BY 1",
    )
    assert {row["role"] for row in linked} == {
        "agent.delegation", "subagent.activity", "subagent.report",
    }  # fmt: skip
    (child,) = {row["other"] for row in linked}
    assert {(row["session"], row["named"]) for row in linked} == {(thread, 1)}
    origins = ask(
        database,
        "SELECT s.native_id AS session, f.native_id AS forked, d.native_id AS delegated"
        " FROM sessions AS s"
        " LEFT JOIN sessions AS f ON f.session_id = json_extract(s.forked_from, '$.session_id')"
        " LEFT JOIN sessions AS d ON d.session_id = json_extract(s.delegated_from, '$.session_id')",
    )
    told = {row["session"]: (row["forked"], row["delegated"]) for row in origins}
    assert told.pop(thread) == (None, None)
    assert told.pop(child) == (None, thread)
    assert list(told.values()) == [(thread, None)]
    asked = ask(database, {one.name: one.sql for one in EXAMPLES}["requests"])
    assert sorted(row["request"] for row in asked) == ["FIRST please", "SECOND please"]


def test_each_scripted_fact_is_found_by_the_statement_that_the_documentation_has(prefix, home):
    """Request, steering, call, output, delegation, final answer and interruption."""
    project = home / "project"
    command = "touch running; sleep 2; echo from the call; exit 3"
    scripts = {
        "SUBTASK": [[("exec_command", {"cmd": "echo from the child"})]],
        "PARENT": [
            [("multi_agent_v1__spawn_agent", {"message": "SUBTASK please"})],
            [("exec_command", {"cmd": "sleep 3; echo parent"})],
        ],
        "FIRST": [[("exec_command", {"cmd": command, "yield_time_ms": 20_000})]],
        "STOP": [[("exec_command", {"cmd": "touch again; sleep 30", "yield_time_ms": 30_000})]],
    }
    served = Model(scripts)
    agent.configure(home, served.url, PLAIN)
    agent.run(prefix, home, project, "PARENT please", *agent.FREE)
    free = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
    with agent.AppServer(prefix, home, project) as server:
        turn = server.begin("FIRST please", project, **free)
        eventually((project / "running").exists)
        said = [{"type": "text", "text": "Rather in src."}]
        thread, number = turn["threadId"], turn["turnId"]
        server.call("turn/steer", threadId=thread, expectedTurnId=number, input=said)
        server.rest()
        turn = server.begin("STOP please", project, **free)
        eventually((project / "again").exists)
        server.call("turn/interrupt", **turn)
        server.rest()
    served.close()
    database = str(home / "index.sqlite3")
    report = sync(database, [str(home / ".codex" / "sessions")], {"codex": reader()})
    assert (report.actions["indexed"], report.actions["failed"]) == (4, 0)
    found = {one.name: ask(database, one.sql) for one in EXAMPLES}
    assert {row["request"] for row in found["requests"]} == {
        "PARENT please", "FIRST please", "STOP please",
    }  # fmt: skip
    assert [row["said"] for row in found["steering"]] == ["Rather in src."]
    assert {row["command"] for row in found["calls"]} == {
        *(scripts[one][-1][0][1]["cmd"] for one in scripts)
    }
    (failed,) = (row for row in found["outputs"] if row["command"] == command)
    assert failed["exit_code"] == 3
    assert "from the call" in failed["output"]
    # The call in the parent's thread names the child; in the child's own, the task opens it.
    (task,) = (row for row in found["delegations"] if row["child"] is not None)
    assert "SUBTASK please" in task["task"]
    opened = {(row["native_id"], row["task"]) for row in found["delegations"] if row is not task}
    assert opened == {(task["child"], "SUBTASK please")}
    assert {row["answer"] for row in found["answers"]} == {"done"}
    assert [(row["outcome"], row["request"]) for row in found["interruptions"]] == [
        ("interrupted", "STOP please")
    ]
    rows = ask(database, "SELECT json_extract(semantic, '$.role') AS role FROM items")
    roles = Counter(row["role"] for row in rows)
    assert roles["runtime.unknown"] <= roles.total() / 100, roles


def ask(database, sql):
    answer = orjson.loads(orjson.dumps(query.run(database, sql)))
    assert answer["complete"], sql
    return answer["rows"]
