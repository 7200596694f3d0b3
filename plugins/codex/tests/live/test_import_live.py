"""What the real Codex left behind, imported: every call that the scripted model made, once."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from yarp.plugin import Call, Issue, Observation, Result
from yarp_codex.importer import discover, read

HERE = Path(__file__).parent
DIRECT, CODE, PLAIN = "gpt-5.5", "gpt-6-sol", "gpt-5-codex"

pytestmark = pytest.mark.slow


def module(name):
    spec = importlib.util.spec_from_file_location(f"yarp_codex_import_{name}", HERE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


Model, agent = module("model").Model, module("agent")


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
    """All facts of a store, calls of one group taken together as the dataset does."""

    def __init__(self, home):
        before = listing(home.codex)
        self.items, facts = 0, []
        for item in discover(home.roots()):
            if isinstance(item, Issue):
                facts.append(item)
                continue
            self.items += 1
            assert item.context is not None, "the list of threads has it"
            facts += [*read(item), *item.issues]
            item.close()
        assert listing(home.codex) == before
        self.issues = [one for one in facts if isinstance(one, Issue)]
        self.calls = {one.copy_of: one for one in facts if isinstance(one, Call)}
        self.seen = Counter(one.copy_of for one in facts if isinstance(one, Call))
        self.identities = {one.identity: one.copy_of for one in facts if isinstance(one, Call)}
        self.results = {}
        for one in facts:
            if isinstance(one, Result):
                value = (one.output_text, json.dumps(one.output_json, sort_keys=True), one.is_error)
                self.results.setdefault(self.identities[one.call], set()).add(value)
        self.observations = [one for one in facts if isinstance(one, Observation)]

    def named(self):
        return Counter(one.native_call_id for one in self.calls.values())

    def texts(self):
        """What the model was given, by the id of the call."""
        return {
            self.calls[group].native_call_id: text
            for group, found in self.results.items()
            for text, _, _ in found
        }


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
    assert found.issues == []
    assert found.items == 2
    wanted = {
        f"call_{word}_{turn}_{index}"
        for word, turns in scripts.items()
        for turn, calls in enumerate(turns)
        for index in range(len(calls))
    }
    assert found.named() == dict.fromkeys(wanted, 1)
    assert set(found.seen.values()) == {1}
    assert all(len(results) == 1 for results in found.results.values())
    assert found.texts() == given
    errors = {
        found.calls[group].native_call_id: is_error
        for group, results in found.results.items()
        for _, _, is_error in results
    }
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
    assert found.issues == []
    outer = {name for name in found.named() if name.startswith("call_")}
    assert outer == {"call_SCRIPTS_0_0", "call_SCRIPTS_1_0", "call_SCRIPTS_2_0"}
    inner = [one for one in found.calls.values() if one.native_call_id not in outer]
    assert sorted(str(one.input.get("cmd", one.input)) for one in inner) == sorted(
        ["echo inside", "echo a", "echo b; exit 2", "{'text': 'x'}"]
    )
    assert all(len(results) == 1 for results in found.results.values())
    assert len(found.results) == len(found.calls) == 7
    tied = {
        one.target.native_call_id: one.native_branch_id
        for one in found.observations
        if isinstance(one.target, Call) and one.native_branch_id
    }
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
    assert found.issues == []
    calls = {one.native_call_id: one for one in found.calls.values()}
    assert set(found.named().values()) == {1}
    assert set(calls) == {
        "call_SUBTASK_0_0", "call_SUBTASK_1_0", "call_PARENT_0_0", "call_PARENT_1_0",
    }  # fmt: skip
    parent = calls["call_PARENT_0_0"]
    assert parent.native_worker_id is None
    assert parent.tool_name == "multi_agent_v1.spawn_agent"
    child = calls["call_SUBTASK_0_0"]
    assert child.native_worker_id == parent.session != child.session


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
    assert found.issues == []
    assert found.items == 2
    assert found.named() == {"call_FIRST_0_0": 1, "call_FIRST_1_0": 1, "call_FORKED_0_0": 1}
    assert sorted(found.seen.values()) == [1, 2, 2], "the copies are there, and seen as such"
    assert all(len(results) == 1 for results in found.results.values())


def test_an_archived_thread_is_found_where_codex_puts_it(prefix, home):
    model = home.model({"FIRST": [[command("echo one")]]}, DIRECT)
    with agent.AppServer(prefix, home.path, home.project) as server:
        place = server.begin(
            "FIRST please", home.project, approvalPolicy="never", sandbox="danger-full-access"
        )
        server.rest()
        server.call("thread/archive", threadId=place["threadId"])
    model.close()
    assert [item.kind for item in discover(home.roots())] == ["archived_sessions"]
    found = Imported(home)
    assert found.issues == []
    assert found.named() == {"call_FIRST_0_0": 1}
    roots = home.roots()
    del roots["archived-sessions"]
    (issue,) = discover(roots)
    assert issue.code == "rollout_outside_roots"
