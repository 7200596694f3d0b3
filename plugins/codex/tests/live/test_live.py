"""The real Codex against a scripted model: what the archive holds, and what the model was given."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from yarp.testing.files import neighbour

HERE = Path(__file__).parent
YARP = [sys.executable, "-m", "yarp"]
DIRECT, CODE, PLAIN = "gpt-5.5", "gpt-6-sol", "gpt-5-codex"
TESTS = """
import unittest

class TestRows(unittest.TestCase):
    pass

def make(number):
    def test(self):
        self.assertEqual(number, 217 if number == 118 and {fails} else number, "row 118 is off")
    return test

for number in range({count}):
    setattr(TestRows, f"test_row_{{number:05}}", make(number))
"""
FAILING, LARGE = "python3 -m unittest -v test_rows", "python3 -m unittest -v test_many"

pytestmark = pytest.mark.slow


Model, agent = neighbour(__file__, "model").Model, neighbour(__file__, "agent")


@pytest.fixture
def place(yarp_home, prefix, monkeypatch):
    monkeypatch.setenv("PATH", f"{prefix / 'node_modules' / '.bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return Place(yarp_home, prefix)


class Place:
    """A home with Codex and YARP in it, and a small project."""

    def __init__(self, home, prefix):
        self.home = home
        self.prefix = prefix
        self.project = home / "project"
        self.archive = home / "data" / "yarp" / "tool-calls.sqlite3"
        (self.project / "sub").mkdir(parents=True)
        (self.project / "test_rows.py").write_text(TESTS.format(count=300, fails=True))
        (self.project / "test_many.py").write_text(TESTS.format(count=6000, fails=False))

    def choose(self, text):
        folder = self.home / "config" / "yarp"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f"version = 1\n[hosts.codex]\n{text}\n")

    def start(self, scripts, model, *more):
        """The scripted model, Codex pointed at it, and YARP hooked in."""
        found = Model(scripts)
        server = f'command = "{sys.executable}"\nargs = ["{HERE / "mcp_server.py"}"]'
        agent.configure(self.home, found.url, model, "[mcp_servers.tiny]", server, *more)
        self.yarp("install", "codex")
        return found

    def run(self, prompt, *options):
        return agent.run(self.prefix, self.home, self.project, prompt, *(options or agent.FREE))

    def yarp(self, *words, status=0):
        done = subprocess.run([*YARP, *words], capture_output=True, env=os.environ, check=False)
        assert done.returncode == status, done.stderr.decode()
        return done.stdout.decode()

    def calls(self, *, doubled=False):
        """Every archived call by its id: facts, and the digests of its snapshots."""
        connection = sqlite3.connect(f"file:{self.archive}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        query = "SELECT c.*, s.agent, s.source_session_id FROM tool_calls c JOIN sessions s ON s.id = c.session_id ORDER BY c.id"
        found = {}
        for row in connection.execute(query).fetchall():
            snapshots = connection.execute(
                "SELECT subject || '/' || stage, hex(payload_sha256) FROM snapshots WHERE tool_call_id = ?",
                (row["id"],),
            )
            assert doubled or row["source_call_id"] not in found
            found[row["source_call_id"]] = dict(row) | dict(snapshots.fetchall())
        connection.close()
        return found


INPUTS = {"input/before", "input/after"}
RESULTS = {"result/before", "result/after"}
STREAMS = {"stdout/before", "stdout/after", "stderr/before", "stderr/after"}


def snapshots(call):
    return {key for key in call if "/" in key}


def running(answers):
    return int(re.findall(r"running with session ID (\d+)", answers)[-1])


def command(text, **more):
    return ("exec_command", {"cmd": text, **more})


def test_every_kind_of_call_is_kept_and_the_model_gets_the_short_answer(place):
    patch = "*** Begin Patch\n*** Add File: notes.txt\n+first line\n*** End Patch\n"
    misfit = "*** Begin Patch\n*** Update File: none.txt\n@@\n-x\n+y\n*** End Patch\n"
    turns = [
        [command("echo out; echo oops >&2; exit 3")],
        [command(FAILING)],
        [command(LARGE)],
        [command("sleep 0.3; echo slow"), command(FAILING), command("echo quick")],
        [("frobnicate", {"level": 3})],
        [command("git status; rm -rf notes.txt")],
        [("mcp__tiny__echo", {"text": "hi"})],
        [("mcp__tiny__fail", {})],
        [("apply_patch", patch)],
        [("apply_patch", misfit)],
        [("exec_command", '{"cmd": broken')],
        [command("cd sub; export WHERE=here; pwd")],
        [command('pwd; echo "WHERE=$WHERE"')],
        [command(f"cd sub && cd .. && {FAILING}")],
        [command("sleep 1; echo late; exit 6", yield_time_ms=250)],
        [("write_stdin", lambda seen: {"session_id": running(seen), "yield_time_ms": 4000})],
    ]
    model = place.start({"KINDS": turns}, DIRECT)
    place.run("KINDS please")
    model.close()
    calls, given = place.calls(), model.results()
    assert set(calls) == set(given)
    assert len(calls) == sum(map(len, turns))
    assert {name for name, call in calls.items() if call["status"] != "finished"} == set()
    assert {call["agent"] for call in calls.values()} == {"codex"}
    assert len({call["source_session_id"] for call in calls.values()}) == 1
    place.yarp("archive", "verify")

    def call(turn, index=0):
        return calls[f"call_KINDS_{turn}_{index}"]

    def shown(turn, index=0):
        return given[f"call_KINDS_{turn}_{index}"]

    # Unmodified.
    for turn, index, failed in (
        (0, 0, 1),
        (3, 0, 0),
        (3, 2, 0),
        (6, 0, 0),
        (8, 0, 0),
        (11, 0, 0),
        (12, 0, 0),
    ):
        found = call(turn, index)
        assert snapshots(found) == INPUTS | RESULTS
        assert found["input/before"] == found["input/after"]
        assert found["result/before"] == found["result/after"]
        assert (found["executed"], found["requires_streams"], found["is_error"]) == (1, 0, failed)
    assert "Process exited with code 3" in shown(0)

    # Wrapped: the model sees the failure and the status, and every byte comes back.
    for turn, index in ((1, 0), (3, 1), (13, 0)):
        pruned = call(turn, index)
        assert snapshots(pruned) == INPUTS | RESULTS | STREAMS
        assert (pruned["executed"], pruned["requires_streams"], pruned["is_error"]) == (1, 1, 1)
        assert pruned["input/before"] != pruned["input/after"]
        assert "test_row_00118" in shown(turn, index)
        assert "Process exited with code 1" in shown(turn, index)
        assert pruned["archive_ref"] in shown(turn, index)
        assert len(shown(turn, index)) < 5_000
        listed = place.yarp("read", pruned["archive_ref"], "stderr", "1:302")
        assert listed.count(" ... ok\n") == 299
    large = call(2)
    assert len(shown(2)) < 2_000
    assert "Process exited with code 0" in shown(2)
    parts = [f"{first}:{first + 499}" for first in range(1, 6001, 500)]
    listed = "".join(place.yarp("read", large["archive_ref"], "stderr", part) for part in parts)
    assert len(listed) > 300_000
    assert listed.count(" ... ok\n") == 6000
    assert "test_row_04711" in place.yarp("search", large["archive_ref"], "test_row_04711 ")

    # Never run: unknown, refused by Codex's own rules although wrapped, malformed, a misfit.
    for turn in (4, 5, 9, 10):
        assert (call(turn)["executed"], call(turn)["is_error"]) == (0, 1)
        assert snapshots(call(turn)) >= INPUTS | {"result/after"}
    assert call(5)["requires_streams"] == 1
    assert "rm -f style commands are not permitted" in shown(5)
    assert (place.project / "notes.txt").exists()

    # Run, with no hook behind them.
    assert (call(7)["executed"], call(7)["is_error"]) == (1, 1)
    assert (call(14)["executed"], call(14)["is_error"]) == (1, 1)
    assert (call(15)["executed"], call(15)["tool_name"]) == (1, "write_stdin")

    # As without us: each command starts in the project, with no export of the last.
    assert shown(11).endswith(f"Output:\n{place.project}/sub\n")
    assert shown(12).endswith(f"Output:\n{place.project}\nWHERE=\n")


def test_calls_inside_a_script_are_kept_and_shortened_one_by_one(place):
    turns = [
        [("js", f'const r = await tools.exec_command({{cmd: "{FAILING}"}});\ntext(r);')],
        [("js", ('const [a, b] = await Promise.all([tools.exec_command({cmd: "sleep 0.2; echo A"}),'
                ' tools.exec_command({cmd: "echo B; exit 2"})]);\ntext(JSON.stringify({a, b}));'))],
        [("js", "const r = await tools.mcp__tiny__fail({});\ntext(r);")],
        [("js", 'const r = await tools.exec_command({cmd: "rm -rf sub"});\ntext(r);')],
        [("js", 'throw new Error("no");')],
    ]  # fmt: skip
    model = place.start({"SCRIPT": turns}, CODE)
    place.run("SCRIPT please")
    model.close()
    calls, given = list(place.calls().values()), model.results()
    place.yarp("archive", "verify")
    assert all(call["source_call_id"].startswith("exec-") for call in calls)
    # Of a call that Codex refuses inside a script, nothing tells the end.
    assert [call["status"] for call in calls] == ["finished"] * 4 + ["started"]
    pruned, slow, quick, failed, refused = calls
    if slow["is_error"]:  # the two of a pair may begin in any order
        slow, quick = quick, slow
    assert snapshots(pruned) == INPUTS | RESULTS | STREAMS
    assert pruned["archive_ref"] in given["call_SCRIPT_0_0"]
    assert '"exit_code":1' in given["call_SCRIPT_0_0"]
    assert "test_row_00118" in given["call_SCRIPT_0_0"]
    listed = place.yarp("read", pruned["archive_ref"], "stderr", "1:302")
    assert listed.count(" ... ok\n") == 299
    assert (slow["is_error"], quick["is_error"]) == (0, 1)
    assert (failed["executed"], failed["is_error"]) == (1, 1)
    assert snapshots(refused) == INPUTS
    assert (place.project / "sub").exists()


def test_an_output_that_a_script_reads_is_left_alone(place):
    reads = f'const r = await tools.exec_command({{cmd: "{FAILING}"}});\ntext(r.output.split("ok").length);'
    model = place.start({"READS": [[("js", reads)]]}, CODE)
    place.run("READS please")
    model.close()
    (call,) = place.calls().values()
    assert (call["status"], call["requires_streams"], call["is_error"]) == ("finished", 0, 1)
    assert model.results()["call_READS_0_0"].rstrip().endswith("300")


def test_a_subagents_calls_belong_to_its_session(place):
    scripts = {
        "SUBTASK": [[command(FAILING)], [("frobnicate", {})]],
        "PARENT": [
            [("multi_agent_v1__spawn_agent", {"message": "SUBTASK please"})],
            [command("sleep 3; echo parent")],
        ],
    }
    model = place.start(scripts, PLAIN)
    place.run("PARENT please")
    model.close()
    calls = place.calls()
    place.yarp("archive", "verify")
    assert len({call["source_session_id"] for call in calls.values()}) == 1
    assert all(call["status"] == "finished" for call in calls.values())
    own = {name.partition("/")[2]: call for name, call in calls.items() if "/" in name}
    assert set(own) == {"call_SUBTASK_0_0", "call_SUBTASK_1_0"}
    assert set(calls) - {call["source_call_id"] for call in own.values()} == {
        "call_PARENT_0_0",
        "call_PARENT_1_0",
    }
    assert own["call_SUBTASK_0_0"]["archive_ref"] in model.results()["call_SUBTASK_0_0"]
    assert own["call_SUBTASK_1_0"]["executed"] == 0


def test_a_wrapped_command_that_outlives_the_wait_is_short_when_it_ends(place):
    slow = (place.project / "test_rows.py").read_text() + "\nimport time\ntime.sleep(1.5)\n"
    (place.project / "test_slow.py").write_text(slow)
    turns = [
        [command("python3 -m unittest -v test_slow", yield_time_ms=250)],
        [("write_stdin", lambda seen: {"session_id": running(seen), "yield_time_ms": 5000})],
        [command(FAILING, tty=True)],
    ]
    model = place.start({"SLOW": turns}, DIRECT)
    place.run("SLOW please")
    model.close()
    calls, given = place.calls(), model.results()
    place.yarp("archive", "verify")
    first = calls["call_SLOW_0_0"]
    assert (first["status"], first["is_error"], first["requires_streams"]) == ("finished", 1, 1)
    assert snapshots(first) == INPUTS | RESULTS | STREAMS
    assert first["archive_ref"] in given["call_SLOW_1_0"]
    assert "test_row_00118" in given["call_SLOW_1_0"]
    assert "Process exited with code 1" in given["call_SLOW_1_0"]
    # In a terminal the two streams are one.
    last = calls["call_SLOW_2_0"]
    assert (last["status"], last["is_error"], last["requires_streams"]) == ("finished", 1, 1)
    assert "test_row_00118" in given["call_SLOW_2_0"]


def test_of_an_interrupted_command_nothing_is_claimed_and_nothing_is_left(place):
    slow = "\nimport os, time\nopen('began', 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    (place.project / "test_slow.py").write_text((place.project / "test_rows.py").read_text() + slow)
    began = place.project / "began"
    turns = [
        [command("rm -rf sub")],
        [command("python3 -m unittest -v test_slow", yield_time_ms=30_000)],
    ]
    model = place.start({"STOP": turns}, DIRECT)
    with agent.AppServer(place.prefix, place.home, place.project) as server:
        turn = server.begin(
            "STOP please", place.project, approvalPolicy="never", sandbox="danger-full-access"
        )
        while not (began.exists() and began.read_text()):
            time.sleep(0.1)
        time.sleep(1)
        server.call("turn/interrupt", **turn)
        server.rest()
    model.close()
    process = Path("/proc") / began.read_text()
    for _ in range(100):
        if not process.exists():
            break
        time.sleep(0.1)
    assert not process.exists()
    refused, stopped = place.calls().values()
    assert (refused["status"], refused["executed"]) == ("finished", 0)
    assert (stopped["status"], stopped["executed"]) in {("started", None), ("finished", 1)}
    place.yarp("archive", "verify")


def test_hooked_in_twice_nothing_is_kept_twice(place):
    model = place.start({"TWICE": [[command(FAILING)], [command("echo one")]]}, DIRECT)
    (place.project / ".git").mkdir()
    with (place.home / ".codex" / "config.toml").open("a") as file:
        file.write(f'[projects."{place.project}"]\ntrust_level = "trusted"\n')
    words = [*YARP, "install", "codex", "--scope", "project"]
    done = subprocess.run(
        words, cwd=place.project, capture_output=True, text=True, env=os.environ, check=True
    )
    assert "had Codex trust them" in done.stdout
    place.run("TWICE please")
    model.close()
    calls = place.calls()
    assert set(calls) == {"call_TWICE_0_0", "call_TWICE_1_0"}
    assert all(call["status"] == "finished" for call in calls.values())
    assert calls["call_TWICE_0_0"]["archive_ref"] in model.results()["call_TWICE_0_0"]
    place.yarp("archive", "verify")


def test_with_approvals_on_codex_still_asks_and_judges_the_command_itself(place):
    turns = [[command(FAILING)], [command("git status; rm -rf sub")]]
    for decision, there in (("decline", True), ("accept", False)):
        word = decision.upper()
        model = place.start({word: turns}, DIRECT)
        with agent.AppServer(place.prefix, place.home, place.project, decision) as server:
            server.turn(
                f"{word} please",
                place.project,
                approvalPolicy="on-request",
                sandbox="danger-full-access",
            )
            asked = server.asked
        model.close()
        # Asked about the one command that Codex would have asked about, and shown its words.
        (one,) = asked
        assert one["params"]["command"].rstrip("\"'").endswith("git status; rm -rf sub")
        assert one["params"]["proposedExecpolicyAmendment"] == ["rm", "-rf", "sub"]
        assert (place.project / "sub").exists() is there
        calls = place.calls()
        assert calls[f"call_{word}_0_0"]["archive_ref"] in model.results()[f"call_{word}_0_0"]
        assert calls[f"call_{word}_1_0"]["executed"] == (0 if there else 1)
        assert all(call["status"] == "finished" for call in calls.values())


@pytest.mark.parametrize("decision", ["forbidden", "prompt"])
def test_a_rule_of_the_users_counts_for_a_wrapped_command(place, decision):
    model = place.start({"RULE": [[command(FAILING)]]}, DIRECT)
    rules = place.home / ".codex" / "rules"
    rules.mkdir()
    (rules / "default.rules").write_text(
        f'prefix_rule(pattern=["python3"], decision="{decision}")\n'
    )
    place.run("RULE please")
    model.close()
    (call,) = place.calls().values()
    assert (call["requires_streams"], call["executed"], call["status"]) == (1, 0, "finished")
    assert "reject" in model.results()["call_RULE_0_0"].lower()


@pytest.mark.parametrize(("wrap", "policy", "wrapped"), [
    ("never", "never", False), ("unpermissioned", "never", True), ("unpermissioned", "on-request", False),
])  # fmt: skip
def test_the_user_chooses_where_commands_are_wrapped(place, wrap, policy, wrapped):
    place.choose(f'wrap = "{wrap}"')
    model = place.start({"CHOICE": [[command(FAILING)]]}, DIRECT)
    with agent.AppServer(place.prefix, place.home, place.project) as server:
        server.turn(
            "CHOICE please", place.project, approvalPolicy=policy, sandbox="danger-full-access"
        )
    model.close()
    (call,) = place.calls().values()
    assert bool(call["requires_streams"]) is wrapped
    assert (call["status"], call["is_error"]) == ("finished", 1)


@pytest.fixture
def outside(place, prefix, monkeypatch):
    """A place outside of /tmp, where a sandboxed command may write, and Codex makes no helpers."""
    home = Path("/var/tmp") / f"yarp-{os.getpid()}"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(home / variable.split("_")[1].lower()))
    yield Place(home, prefix)
    shutil.rmtree(home)


def test_in_a_sandbox_commands_are_wrapped_only_with_the_archives_folder_as_a_root(outside):
    turns = [[command("touch ../outside && echo escaped")], [command(FAILING)]]
    for consent in (False, True):
        if consent:
            outside.choose("sandbox = true")
        model = outside.start({"BOX": turns}, DIRECT)
        outside.run("BOX please", *agent.SANDBOXED)
        model.close()
        given = model.results()
        if "Read-only file system" not in given["call_BOX_0_0"]:
            pytest.skip(f"Codex's sandbox does not work here: {given['call_BOX_0_0'][-200:]}")
        call = list(outside.calls(doubled=True).values())[-1]
        assert (call["status"], call["is_error"], call["requires_streams"]) == (
            "finished",
            1,
            consent,
        )
        assert (call["archive_ref"] in given["call_BOX_1_0"]) is consent
    # Twice: what was called is what was kept, and the sandbox lets us write.
    assert "proven" in outside.yarp("doctor", "codex")
    listed = outside.yarp("read", call["archive_ref"], "stderr", "1:302")
    assert listed.count(" ... ok\n") == 299
    outside.yarp("uninstall", "codex")
    assert "writable_roots" not in (outside.home / ".codex" / "config.toml").read_text()


def test_an_archive_that_cannot_be_used_blocks_every_call(place):
    place.archive.parent.mkdir(parents=True, mode=0o700)
    place.archive.write_text("this is no database, and long enough to be seen as none of ours")
    place.archive.chmod(0o600)
    model = place.start(
        {"BLOCKED": [[command("touch ran")], [("mcp__tiny__echo", {"text": "hi"})]]}, DIRECT
    )
    place.run("BLOCKED please")
    model.close()
    assert not (place.project / "ran").exists()
    for result in model.results().values():
        assert "could not be archived" in result


def test_without_its_plugin_calls_are_blocked_and_without_yarp_they_run(place, monkeypatch):
    model = place.start(
        {"BLOCKED": [[command("echo ran")]], "GONE": [[command("echo ran")]]}, DIRECT
    )
    monkeypatch.setenv("YARP_PLUGINS", "none")
    place.run("BLOCKED please")
    hooks = place.home / ".codex" / "hooks.json"
    hooks.write_text(hooks.read_text().replace(os.path.dirname(sys.executable), "/no/such/place"))
    place.run("GONE please", *agent.FREE, "--dangerously-bypass-hook-trust")
    model.close()
    given = model.results()
    assert "YARP_PLUGINS leaves plugin codex" in given["call_BLOCKED_0_0"]
    assert given["call_GONE_0_0"].endswith("ran\n")


def test_installing_trusts_the_hooks_and_uninstalling_leaves_the_bytes(place):
    folder = place.home / ".codex"
    folder.mkdir()
    settings = b'# mine\r\nmodel   = "x" # odd\r\n\r\n[tui]\r\n  theme = "a"\r\n'
    others = b'{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    (folder / "config.toml").write_bytes(settings)
    (folder / "hooks.json").write_bytes(others)
    said = place.yarp("install", "codex")
    assert "trust" in said
    assert place.yarp("install", "codex") == "nothing to change\n"
    shown = json.loads(place.yarp("hosts", "show", "codex", "--json"))
    assert "1 of 1 hooks proven" in place.yarp("doctor", "codex")
    assert (shown["installed"], shown["hooked_in"], shown["version"], shown["notes"]) == (
        True,
        True,
        place.prefix.name.removeprefix("codex-"),
        [],
    )
    # Somebody's hook goes before ours: the keys of trust count positions.
    hooks = json.loads((folder / "hooks.json").read_text())
    hooks["hooks"]["PreToolUse"].insert(0, {"hooks": [{"type": "command", "command": "true"}]})
    written = (folder / "hooks.json").read_bytes()
    (folder / "hooks.json").write_text(json.dumps(hooks))
    shown = json.loads(place.yarp("hosts", "show", "codex", "--json"))
    assert (shown["hooked_in"], len(shown["notes"])) == (False, 1)
    (folder / "hooks.json").write_bytes(written)
    place.yarp("uninstall", "codex")
    assert (folder / "config.toml").read_bytes() == settings
    assert (folder / "hooks.json").read_bytes() == others


def test_a_project_is_hooked_in_once_it_is_trusted(place):
    model = place.start({"HERE": [[command("echo one")]]}, DIRECT)
    place.yarp("uninstall", "codex")
    (place.project / ".git").mkdir()
    words = [*YARP, "install", "codex", "--scope", "project"]
    done = subprocess.run(
        words, cwd=place.project, capture_output=True, text=True, env=os.environ, check=True
    )
    assert "trusted?" in done.stdout
    with (place.home / ".codex" / "config.toml").open("a") as file:
        file.write(f'[projects."{place.project}"]\ntrust_level = "trusted"\n')
    done = subprocess.run(
        words, cwd=place.project, capture_output=True, text=True, env=os.environ, check=True
    )
    assert "had Codex trust them" in done.stdout
    place.run("HERE please")
    model.close()
    assert list(place.calls()) == ["call_HERE_0_0"]
