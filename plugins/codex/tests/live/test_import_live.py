"""What the real Codex left behind, imported: every call that the scripted model made, once."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
from yarp.dataset.report import issues, verify
from yarp.plugin import Importer
from yarp.testing.files import neighbour
from yarp_codex.store import ADAPTER_VERSION, OPTIONS, discover, read

HERE = Path(__file__).parent
CODEX = Importer(
    "codex", adapter_version=ADAPTER_VERSION, options=OPTIONS, discover=discover, read=read
)
DIRECT, CODE, PLAIN = "gpt-5.5", "gpt-6-sol", "gpt-5-codex"

pytestmark = pytest.mark.slow


Model, agent = neighbour(__file__, "model").Model, neighbour(__file__, "agent")


class Home:
    """A home with Codex in it, and a project."""

    def __init__(self, path):
        self.path = path
        self.codex = path / ".codex"
        self.project = path / "project"
        self.project.mkdir()

    def model(self, scripts, name):
        found = Model(scripts)
        server = f'command = "{sys.executable}"\nargs = ["{HERE / "mcp_server.py"}"]'
        agent.configure(self.path, found.url, name, "[mcp_servers.tiny]", server)
        return found

    def roots(self):
        found = {
            "sessions": self.codex / "sessions",
            "archived-sessions": self.codex / "archived_sessions",
            "state-db": self.codex / "state_5.sqlite",
        }
        return {flag: str(path) for flag, path in found.items() if path.exists()}


@pytest.fixture
def home(yarp_home, monkeypatch):
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return Home(yarp_home)


class Imported:
    """The dataset of a home's store, imported twice: the second time, nothing is new."""

    def __init__(self, home):
        before = listing(home.codex)
        folder = home.path / "dataset"
        folder.mkdir(mode=0o700)
        self.database = str(folder / "toolcalls.duckdb")
        found = self.take(home).found
        again = self.take(home)
        assert (again.unchanged, again.written.calls, again.written.results) == (found, 0, 0)
        assert listing(home.codex) == before
        with Dataset.read(self.database) as dataset:
            self.issues = issues(dataset)
            self.valid = verify(dataset)["valid"]
        # Of sessions; beside them stands Codex's list of threads.
        self.items = self.rows(SESSIONS)[0][0]
        self.calls = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in self.rows(CALLS)}

    def take(self, home):
        with Dataset.write(self.database) as dataset:
            return extract(dataset, CODEX, "ada", home.roots())

    def rows(self, statement):
        with Dataset.read(self.database) as dataset:
            return dataset.rows(statement)

    def named(self):
        """How often each call is there."""
        return Counter(row[0] for row in self.rows("SELECT native_call_id FROM tool_calls"))

    def results(self):
        """What the model was given and whether it failed, by the id of the call; one each."""
        rows = self.rows(RESULTS)
        found = {row[0]: row[1:] for row in rows}
        assert len(found) == len(rows)
        return found

    def texts(self):
        return {name: text for name, (text, _) in self.results().items()}

    def observed(self):
        """How many records say each call, and in how many rollouts."""
        return {name: (records, items) for name, records, items in self.rows(OBSERVED)}


COLUMNS = ("native_call_id", "tool_name", "input", "worker", "session")
SESSIONS = """
    SELECT count(*) FROM source_items JOIN source_roots USING (source_root_key)
    WHERE source_kind <> 'state_db'"""
CALLS = """
    SELECT native_call_id, tool_name, input_text, native_worker_id, native_session_id
    FROM tool_calls JOIN sessions USING (session_key)"""
RESULTS = """
    SELECT native_call_id, output_text, is_error
    FROM tool_results JOIN tool_calls USING (call_key)"""
OBSERVED = """
    SELECT native_call_id, count(*), count(DISTINCT source_item_key)
    FROM observations JOIN tool_calls USING (call_key) GROUP BY 1"""
TIED = """
    SELECT native_call_id, native_branch_id FROM observations JOIN tool_calls USING (call_key)
    WHERE native_branch_id IS NOT NULL"""


def listing(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            stat = os.lstat(os.path.join(path, name))
            found[os.path.join(path, name)] = (stat.st_size, stat.st_mtime_ns, stat.st_mode)
    return found


def thread_of(output):
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return next(one["thread_id"] for one in events if one["type"] == "thread.started")


def command(text, **more):
    return ("exec_command", {"cmd": text, **more})


FIRST = [
    [command("echo one; echo two >&2")],
    [command("echo failed; exit 3")],
    [("apply_patch", "*** Begin Patch\n*** Add File: notes.txt\n+a\n*** End Patch\n")],
    [("apply_patch", "*** Begin Patch\n*** Update File: gone.txt\n@@\n-a\n+b\n*** End Patch\n")],
    [command("sleep 0.3; echo slow"), command("echo fast")],
    [("mcp__tiny__echo", {"text": "x"}), ("mcp__tiny__fail", {})],
    [("frobnicate", {"a": 1}), ("exec_command", '{"cmd": 5')],
    [command("sleep 1.5; echo late", yield_time_ms=250)],
    [command("sleep 2; echo after")],
]


def test_direct_calls_of_a_thread_its_resumption_and_its_forks_are_there_once(prefix, home):
    scripts = {
        "FIRST": FIRST,
        "RESUMED": [[command("echo resumed")]],
        "FORKED": [[command("echo forked"), command("seq 1 60000")]],
    }
    model = home.model(scripts, DIRECT)
    thread = thread_of(agent.run(prefix, home.path, home.project, "FIRST please", *agent.FREE))
    for words in (("resume", thread, "RESUMED please"), ("fork", thread, "FORKED please")):
        *verb, prompt = words
        agent.run(prefix, home.path, home.project, prompt, *agent.FREE, *verb)
    given = model.results()
    model.close()
    found = Imported(home)
    assert (found.issues, found.valid) == ([], True)
    assert found.items == 2
    wanted = {
        f"call_{word}_{turn}_{index}"
        for word, turns in scripts.items()
        for turn, calls in enumerate(turns)
        for index in range(len(calls))
    }
    assert found.named() == dict.fromkeys(wanted, 1)
    assert found.texts() == given
    errors = {name: is_error for name, (_, is_error) in found.results().items()}
    assert errors["call_FIRST_0_0"] is False
    assert errors["call_FIRST_1_0"] is True
    assert errors["call_FIRST_5_1"] is True
    assert errors["call_FIRST_6_0"] is None
    assert errors["call_FIRST_7_0"] is False, "its end came later, as an event"


def test_scripts_and_the_calls_inside_them_are_there_once(prefix, home):
    scripts = {
        "SCRIPTS": [
            [("js", "const r = await tools.exec_command({cmd: 'echo inside'}); text(r.output);")],
            [
                (
                    "js",
                    """await Promise.all([
                      tools.exec_command({cmd: 'echo a'}),
                      tools.exec_command({cmd: 'echo b; exit 2'}),
                      tools.mcp__tiny__echo({text: 'x'}),
                    ]);""",
                )
            ],
            [("js", "throw new Error('no');")],
        ]
    }
    model = home.model(scripts, CODE)
    agent.run(prefix, home.path, home.project, "SCRIPTS please", *agent.FREE)
    given = model.results()
    model.close()
    found = Imported(home)
    assert (found.issues, found.valid) == ([], True)
    outer = {name for name in found.named() if name.startswith("call_")}
    assert outer == {"call_SCRIPTS_0_0", "call_SCRIPTS_1_0", "call_SCRIPTS_2_0"}
    inner = [json.loads(one["input"]) for name, one in found.calls.items() if name not in outer]
    assert sorted(str(one.get("cmd", one)) for one in inner) == sorted(
        ["echo inside", "echo a", "echo b; exit 2", "{'text': 'x'}"]
    )
    assert len(found.results()) == len(found.calls) == 7
    tied = dict(found.rows(TIED))
    assert Counter(tied.values()) == {"call_SCRIPTS_0_0": 1, "call_SCRIPTS_1_0": 3}
    assert {name: text for name, text in found.texts().items() if name in outer} == given


def test_a_subagents_calls_are_in_its_own_session_and_name_their_parent(prefix, home):
    scripts = {
        "SUBTASK": [[command("echo from the child")], [("frobnicate", {})]],
        "PARENT": [
            [("multi_agent_v1__spawn_agent", {"message": "SUBTASK please"})],
            [command("sleep 3; echo parent")],
        ],
    }
    model = home.model(scripts, PLAIN)
    agent.run(prefix, home.path, home.project, "PARENT please", *agent.FREE)
    model.close()
    found = Imported(home)
    assert (found.issues, found.valid) == ([], True)
    assert set(found.named().values()) == {1}
    assert set(found.calls) == {
        "call_SUBTASK_0_0", "call_SUBTASK_1_0", "call_PARENT_0_0", "call_PARENT_1_0",
    }  # fmt: skip
    parent, child = (found.calls[f"call_{name}_0_0"] for name in ("PARENT", "SUBTASK"))
    assert parent["worker"] is None
    assert parent["tool_name"] == "multi_agent_v1.spawn_agent"
    assert child["worker"] == parent["session"] != child["session"]


def test_what_a_helper_was_given_of_its_parents_history_counts_once(prefix, home):
    """The copy has no events, and ends before the call that started the helper.

    The task is not shown to the scripted model, so the helper goes on with its parent's script:
    calls of its own, with ids that its parent uses too.
    """
    inside = "const r = await tools.exec_command({cmd: 'echo %s'}); text(r.output);"
    spawn = {"task_name": "sub", "message": "a task", "fork_turns": "all"}
    turns = [
        [("js", inside % "before")],
        [("collaboration__wait_agent", {"timeout_ms": 10_000})],
        [("collaboration__spawn_agent", spawn)],
        [("js", inside % "after")],
        [("collaboration__wait_agent", {"timeout_ms": 10_000})],
    ]
    model = home.model({"PARENT": turns}, CODE)
    agent.run(prefix, home.path, home.project, "PARENT please", *agent.FREE)
    model.close()
    found = Imported(home)
    assert (found.issues, found.valid) == ([], True)
    assert found.items == 2
    outer = {name: count for name, count in found.named().items() if name.startswith("call_")}
    assert outer == {f"call_PARENT_{number}_0": 1 + (number > 2) for number in range(5)}
    assert sum(found.named().values()) == sum(outer.values()) + 3, "each echo, once"
    calls = "SELECT count(*) FROM tool_calls"
    assert found.rows(calls) == found.rows("SELECT count(*) FROM tool_results")
    copied = [found.observed()[f"call_PARENT_{number}_0"] for number in range(2)]
    assert [items for _, items in copied] == [2, 2]


def test_a_fork_that_copied_its_parent_counts_its_calls_once(copying, home):
    scripts = {
        "FIRST": [[("shell_command", {"command": "echo one"})], [("frobnicate", {})]],
        "FORKED": [[("shell_command", {"command": "echo forked"})]],
    }
    model = home.model(scripts, "gpt-5.2")
    free = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
    with agent.AppServer(copying, home.path, home.project) as server:
        place = server.begin("FIRST please", home.project, **free)
        server.rest()
        fork = server.call("thread/fork", threadId=place["threadId"], **free)["thread"]["id"]
        asked = [{"type": "text", "text": "FORKED please"}]
        server.call("turn/start", threadId=fork, input=asked)
        server.rest()
    model.close()
    found = Imported(home)
    assert (found.issues, found.valid) == ([], True)
    assert found.items == 2
    assert found.named() == {"call_FIRST_0_0": 1, "call_FIRST_1_0": 1, "call_FORKED_0_0": 1}
    assert set(found.results()) == set(found.calls)
    assert found.observed() == {
        "call_FIRST_0_0": (2, 2), "call_FIRST_1_0": (2, 2), "call_FORKED_0_0": (1, 1),
    }, "the copies are there, as observations"  # fmt: skip
    assert found.calls["call_FIRST_0_0"]["session"] == place["threadId"]
    assert found.calls["call_FORKED_0_0"]["session"] == fork


def test_an_archived_thread_is_found_where_codex_puts_it(prefix, home):
    model = home.model({"FIRST": [[command("echo one")]]}, DIRECT)
    with agent.AppServer(prefix, home.path, home.project) as server:
        place = server.begin(
            "FIRST please", home.project, approvalPolicy="never", sandbox="danger-full-access"
        )
        server.rest()
        server.call("thread/archive", threadId=place["threadId"])
    model.close()
    kinds = [item.kind for item in discover(home.roots())]
    assert kinds == ["archived_sessions", "state_db"]
    found = Imported(home)
    assert (found.issues, found.valid) == ([], True)
    assert found.named() == {"call_FIRST_0_0": 1}
    roots = home.roots()
    del roots["archived-sessions"]
    (threads,) = discover(roots)
    assert [issue.code for issue in read(threads)] == ["rollout_outside_roots"]
