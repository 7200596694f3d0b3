"""The real Claude Code against a scripted model: what the archive holds afterwards.

Installs Claude Code from npm into `YARP_TEST_AGENTS` (kept), else into a temporary folder.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from yarp.testing.files import neighbour
from yarp.testing.live import from_npm

HERE = Path(__file__).parent
PACKAGE = "@anthropic-ai/claude-code@2.1.332"
YARP = [sys.executable, "-m", "yarp"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
TESTS = """
import unittest

class TestRows(unittest.TestCase):
    pass

def make(number):
    def test(self):
        self.assertEqual(number, 217 if number == 118 else number, "row 118 is off")
    return test

for number in range(300):
    setattr(TestRows, f"test_row_{number:03}", make(number))
"""
SUITE = "python3 -m unittest -v"
INPUTS = {"input/before", "input/after"}
RESULTS = {"result/before", "result/after"}
STREAMS = {"stdout/before", "stdout/after", "stderr/before", "stderr/after"}
# What the user's shell brings is known once the first command ran.
WARM = ("Bash", {"command": "echo warm"})
BYPASS = "--dangerously-skip-permissions"

pytestmark = pytest.mark.slow


Model = neighbour(__file__, "model").Model


@pytest.fixture(scope="module")
def binaries(tmp_path_factory):
    """The folder that has the program `claude`."""
    found = from_npm("claude", "claude", PACKAGE, factory=tmp_path_factory)
    return found / "node_modules" / ".bin"


@pytest.fixture
def place(yarp_home, binaries):
    return Place(yarp_home, binaries)


class Place:
    """A home with YARP hooked into Claude Code, and a small project."""

    def __init__(self, home, binaries):
        self.home = home
        self.project = home / "project"
        self.archive = home / "data" / "yarp" / "tool-calls.sqlite3"
        self.asked = home / "asked"
        (self.project / "src").mkdir(parents=True)
        (self.project / "notes.txt").write_text("first line\nsecond line\n")
        (self.project / "pixel.png").write_bytes(base64.b64decode(PIXEL))
        (self.project / "test_rows.py").write_text(TESTS)
        server = {"command": sys.executable, "args": [str(HERE / "server.py"), str(self.asked)]}
        self.servers = home / "servers.json"
        self.servers.write_text(json.dumps({"mcpServers": {"rows": server}}))
        kept = {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
        self.environment = kept | {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "HOME": str(home),
            "USER": "ada",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "ANTHROPIC_API_KEY": "dummy",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }
        self.yarp("install", "claude")

    def run(self, scripts, prompt, *options):
        """Ask once, to the end of the turn; the model, which holds every request."""
        model = Model(scripts)
        environment = {**self.environment, "ANTHROPIC_BASE_URL": model.url}
        words = ["claude", "-p", prompt, "--mcp-config", str(self.servers), *options]
        try:
            self.done = subprocess.run(
                words, cwd=self.project, env=environment, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=180, check=False,
            )  # fmt: skip
        finally:
            model.close()
        assert self.done.returncode == 0, self.done.stderr + self.done.stdout
        return model

    def yarp(self, *words, status=0):
        done = subprocess.run(
            [*YARP, *words],
            capture_output=True,
            env=self.environment,
            cwd=self.project,
            check=False,
        )
        assert done.returncode == status, done.stderr.decode() + done.stdout.decode()
        return done.stdout

    def set(self, key, value):
        self.yarp("config", "set", key, value)

    def calls(self):
        """Every archived call by its id: facts, and the bytes of its snapshots."""
        connection = sqlite3.connect(f"file:{self.archive}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        query = "SELECT c.*, s.agent, s.source_session_id FROM tool_calls c JOIN sessions s ON s.id = c.session_id"
        found = {}
        for row in connection.execute(query):
            call = found[row["source_call_id"]] = dict(row)
            call["snapshots"] = {
                name: zstandard.decompress(body) if how == "zstd" else body
                for name, how, body in connection.execute(
                    "SELECT subject || '/' || stage, compression, body FROM snapshots JOIN payloads "
                    "ON sha256 = payload_sha256 WHERE tool_call_id = ?",
                    (row["id"],),
                )
            }
        connection.close()
        return found


def test_every_kind_of_call_is_kept_and_the_model_gets_the_short_answer(place):
    seq = "seq 1 90000"
    notes = str(place.project / "notes.txt")
    turns = [
        [("Read", {"file_path": notes}), WARM],
        [("Bash", {"command": SUITE})],
        [("Bash", {"command": "echo out; echo oops >&2; exit 3"})],
        [("Bash", {"command": seq})],
        [("Bash", {"command": f"{seq}; exit 4"})],
        [
            ("Bash", {"command": "sleep 0.5; echo slow"}),
            ("Bash", {"command": "echo fast"}),
            ("Read", {"file_path": notes}),
        ],
        [("Frobnicate", {"level": 3})],
        [("Read", {"offset": "many"})],
        [("Bash", '{"command": "echo broken')],
        [("Edit", {"file_path": notes, "old_string": "not there", "new_string": "x"})],
        [("mcp__rows__rows", {"count": 30_000})],
        [("Read", {"file_path": str(place.project / "pixel.png")})],
        [("Agent", {"description": "look", "prompt": "SUBTASK: look", "subagent_type": "general-purpose"})],
    ]  # fmt: skip
    subtask = [[("Bash", {"command": "echo from the worker"})], [("Bash", {"command": seq})]]
    model = place.run({"SUBTASK": subtask, "KINDS": turns}, "KINDS please", BYPASS)
    given = model.results()
    calls = place.calls()
    assert len(calls) == sum(map(len, turns + subtask)) == len(given)
    assert {call["status"] for call in calls.values()} == {"finished"}
    assert {call["agent"] for call in calls.values()} == {"claude"}
    assert len({call["source_session_id"] for call in calls.values()}) == 1
    place.yarp("archive", "verify")

    def call(turn, index=0):
        return calls[f"call_KINDS_{turn}_{index}"]

    def shown(turn, index=0):
        return given[f"call_KINDS_{turn}_{index}"]

    assert b"1 of 1 hooks proven" in place.yarp("doctor", "claude")

    # Short and unmodified: equal before and after.
    for turn, index, failed in (
        (0, 0, 0), (0, 1, 0), (2, 0, 1), (5, 0, 0), (5, 1, 0), (5, 2, 0), (11, 0, 0), (12, 0, 0)
    ):  # fmt: skip
        found = call(turn, index)
        assert set(found["snapshots"]) == INPUTS | RESULTS
        assert found["snapshots"]["result/before"] == found["snapshots"]["result/after"]
        assert (found["executed"], found["requires_streams"]) == (1, 0)
        assert found["is_error"] == failed
    assert shown(2) == "Exit code 3\nout\noops"

    # Wrapped, since nobody is asked: a failure too is short, and every byte comes back.
    pruned = call(1)
    assert set(pruned["snapshots"]) == INPUTS | RESULTS | STREAMS
    assert (pruned["requires_streams"], pruned["is_error"]) == (1, 1)
    assert shown(1).startswith("Exit code 1\n")
    assert "test_row_118" in shown(1)
    assert pruned["archive_ref"] in shown(1)
    assert len(shown(1)) < 5000
    listed = place.yarp("read", pruned["archive_ref"], "stderr", "1:302").decode()
    assert listed.count(" ... ok\n") == 299

    # Large: the file of the whole output is kept, and shown short without a frame around it.
    whole = "".join(f"{number}\n" for number in range(1, 90001)).encode()
    large = call(3)
    assert large["snapshots"]["source_output/before"].rstrip() == whole.rstrip()
    assert len(shown(3).encode()) <= 5120
    assert "persisted-output" not in shown(3)
    assert large["archive_ref"] in shown(3)
    assert place.yarp("read", large["archive_ref"], "source_output", "40000:40010") == b"".join(
        b"%d\n" % number for number in range(40000, 40011)
    )
    # A failed one that no rule knows comes as Claude Code cuts it.
    assert call(4)["snapshots"]["result/before"] == call(4)["snapshots"]["result/after"]
    assert "truncated" in shown(4)

    # Never reached a tool.
    for turn in (6, 7, 8, 9):
        found = call(turn)
        assert set(found["snapshots"]) == INPUTS | {"result/after"}
        assert (found["executed"], found["is_error"]) == (0, 1)

    # Another tool's text is capped.
    assert len(shown(10).encode()) <= 5120
    assert place.yarp("read", call(10)["archive_ref"], "29999:30000") == b"row 29998\nrow 29999\n"

    # A worker's calls are its session's, each by its worker's name.
    (worker,) = {name.partition("/")[0] for name in calls if "/" in name}
    assert calls[f"{worker}/call_SUBTASK_0_0"]["status"] == "finished"
    assert len(given["call_SUBTASK_1_0"].encode()) <= 5120


def test_what_a_shell_keeps_between_commands_is_as_without_yarp(place):
    commands = [
        f"cd src && {SUITE} ../test_rows.py -k test_row_001 2>/dev/null",
        "pwd; export YARP_X=1; alias yy=pwd",
        "echo x=$YARP_X; yy; cd ..",
        f"cd src; {SUITE} -h | head -1",
        "pwd",
        f"cd src && {SUITE} 2>&1 | tail -2",
        "pwd; cd /usr",
        "pwd",
    ]
    turns = [[("Bash", {"command": command})] for command in commands]
    ours = place.run({"STATE": turns}, "STATE please", BYPASS).results()
    assert len(place.calls()) == len(commands)
    place.yarp("uninstall", "claude")
    assert ours == place.run({"STATE": turns}, "STATE please", BYPASS).results()


def test_the_permission_question_is_asked_of_the_command_itself_and_decides(place):
    turns = [
        [("Bash", {"command": f"{SUITE} # allowed"})],
        [("Bash", {"command": "touch forbidden"})],
        [("Bash", {"command": "touch allowed"})],
    ]
    judge = ("--permission-prompt-tool", "mcp__rows__judge")
    model = place.run({"JUDGE": turns}, "JUDGE please", *judge)
    asked = [json.loads(line)["input"]["command"] for line in place.asked.read_text().splitlines()]
    assert asked == [turn[0][1]["command"] for turn in turns]
    assert not (place.project / "forbidden").exists()
    assert (place.project / "allowed").exists()
    calls = place.calls()
    allowed, denied = calls["call_JUDGE_0_0"], calls["call_JUDGE_1_0"]
    assert (allowed["executed"], allowed["requires_streams"]) == (1, 0)
    assert (denied["status"], denied["executed"], denied["is_error"]) == ("finished", 0, 1)
    assert set(denied["snapshots"]) == INPUTS | {"result/after"}
    assert "no" in model.results()["call_JUDGE_1_0"]
    place.yarp("archive", "verify")


def test_a_call_that_nobody_allows_is_closed_as_one_that_never_ran(place):
    model = place.run({"MODE": [[("Bash", {"command": "touch ran"})]]}, "MODE please")
    (call,) = place.calls().values()
    assert (call["status"], call["executed"]) == ("finished", 0)
    assert not (place.project / "ran").exists()
    assert "yarp" not in model.results()["call_MODE_0_0"]


def test_wrapping_always_leaves_the_question_to_the_agent(place):
    place.set("hosts.claude.wrap", "always")
    commands = [SUITE, f"{SUITE} -k forbidden"]
    turns = [[WARM], *([("Bash", {"command": command})] for command in commands)]
    judge = ("--permission-prompt-tool", "mcp__rows__judge")
    place.run({"ALWAYS": turns}, "ALWAYS please", *judge)
    asked = [json.loads(line)["input"]["command"] for line in place.asked.read_text().splitlines()]
    assert [command.splitlines()[-1] for command in asked] == commands
    assert all(" run --archive-agent claude " in command for command in asked)
    calls = place.calls()
    assert set(calls["call_ALWAYS_1_0"]["snapshots"]) == INPUTS | RESULTS | STREAMS
    denied = calls["call_ALWAYS_2_0"]
    assert (denied["executed"], denied["status"]) == (0, "finished")


def test_rules_that_allow_a_wrapped_command_are_enough(place):
    place.set("hosts.claude.wrap", "always")
    settings = place.home / ".claude" / "settings.json"
    program = shlex.split(
        json.loads(settings.read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    )
    wrapper = " ".join(program[: program.index("hook")])
    allow = [f"Bash({SUITE}:*)", f"Bash({wrapper} run:*)", "Bash(exit)", "Bash(echo:*)"]
    rules = {"permissions": {"allow": allow}}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | rules))
    model = place.run({"ALLOW": [[WARM], [("Bash", {"command": SUITE})]]}, "ALLOW please")
    call = place.calls()["call_ALLOW_1_0"]
    assert set(call["snapshots"]) == INPUTS | RESULTS | STREAMS
    assert call["archive_ref"] in model.results()["call_ALLOW_1_0"]


def test_a_rule_that_denies_a_command_counts_where_nobody_is_asked(place):
    settings = place.home / ".claude" / "settings.json"
    rules = {"permissions": {"deny": [f"Bash({SUITE}:*)"]}}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | rules))
    turns = [
        [WARM],
        [("Bash", {"command": SUITE})],
        [("Bash", {"command": f"true && {SUITE} -k x"})],
    ]
    model = place.run({"DENY": turns}, "DENY please", BYPASS)
    calls = place.calls()
    for turn in (1, 2):
        assert "has been denied" in model.results()[f"call_DENY_{turn}_0"]
        call = calls[f"call_DENY_{turn}_0"]
        assert (call["requires_streams"], call["executed"], call["status"]) == (1, 0, "finished")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_users_functions_and_aliases_are_found_as_without_yarp(place, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    place.environment["SHELL"] = shutil.which(shell)
    (place.home / f".{shell}rc").write_text(
        "alias python3='echo an alias of python3'\ngit() { echo a function git \"$@\"; }\n"
    )
    commands = [
        "echo warm",
        SUITE,
        "git status",
        "rg first .",
        "grep -rn first .",
        "find . -name n*s.txt",
    ]
    turns = [[("Bash", {"command": command})] for command in commands]
    ours = place.run({"WORDS": turns}, "WORDS please", BYPASS).results()
    assert ours["call_WORDS_1_0"] == "an alias of python3 -m unittest -v"
    assert ours["call_WORDS_2_0"] == "a function git status"
    assert not any(call["requires_streams"] for call in place.calls().values())
    place.yarp("uninstall", "claude")
    assert ours == place.run({"WORDS": turns}, "WORDS please", BYPASS).results()


def test_in_the_sandbox_commands_are_wrapped_once_the_archives_folder_is_open(place):
    if shutil.which("bwrap") is None or shutil.which("socat") is None:
        pytest.skip("Claude Code's sandbox needs bwrap and socat")
    settings = place.home / ".claude" / "settings.json"
    settings.write_text(
        json.dumps(json.loads(settings.read_text()) | {"sandbox": {"enabled": True}})
    )
    turns = [
        [WARM],
        [("Bash", {"command": f"touch {place.home}/outside"})],
        [("Bash", {"command": SUITE})],
    ]
    place.run({"CLOSED": turns}, "CLOSED please", BYPASS)
    calls = place.calls()
    if not calls["call_CLOSED_1_0"]["is_error"]:
        pytest.skip("the sandbox cannot be switched on here")
    assert calls["call_CLOSED_2_0"]["requires_streams"] == 0
    place.set("hosts.claude.sandbox", "true")
    place.yarp("install", "claude")
    model = place.run({"OPEN": turns}, "OPEN please", BYPASS)
    wrapped = place.calls()["call_OPEN_2_0"]
    assert set(wrapped["snapshots"]) == INPUTS | RESULTS | STREAMS
    assert wrapped["archive_ref"] in model.results()["call_OPEN_2_0"]
    assert not (place.home / "outside").exists()
    place.yarp("archive", "verify")


def test_an_archive_that_cannot_be_used_blocks_every_call(place):
    place.archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.archive.write_text("this is no database, and long enough to be seen as none of ours")
    place.archive.chmod(0o600)
    model = place.run({"BLOCKED": [[("Bash", {"command": "touch ran"})]]}, "BLOCKED", BYPASS)
    assert "could not be archived" in model.results()["call_BLOCKED_0_0"]
    assert not (place.project / "ran").exists()


def test_a_broken_configuration_is_said_once_and_tools_run(place):
    configuration = place.home / "config" / "yarp"
    configuration.mkdir(parents=True)
    (configuration / "config.toml").write_text("[archive]\nenabled = 'perhaps'\n")
    turns = [[("Bash", {"command": "echo one"})], [("Bash", {"command": "echo two"})]]
    model = place.run({"BROKEN": turns}, "BROKEN", BYPASS)
    assert list(model.results().values()) == ["one", "two"]
    (store,) = (place.home / ".claude" / "projects").rglob("*.jsonl")
    told = [line for line in store.read_text().splitlines() if "hook_system_message" in line]
    assert len(told) == 1
    assert "config.toml" in told[0]
    assert not place.archive.exists()


def test_both_scopes_capture_once(place):
    place.yarp("install", "claude", "--scope", "project")
    place.run({"TWICE": [[("Bash", {"command": "seq 1 90000"})]]}, "TWICE please", BYPASS)
    (call,) = place.calls().values()
    assert call["status"] == "finished"
    place.yarp("archive", "verify")


def test_the_plugin_folder_captures_without_any_settings(place):
    place.yarp("uninstall", "claude")
    binaries = Path(sys.executable).parent
    place.environment["PATH"] = f"{binaries}:{place.environment['PATH']}"
    folder = HERE.parents[1] / "yarp_claude" / "plugin"
    turns = [[WARM], [("Bash", {"command": SUITE})]]
    model = place.run({"FOLDER": turns}, "FOLDER please", BYPASS, "--plugin-dir", str(folder))
    call = place.calls()["call_FOLDER_1_0"]
    assert set(call["snapshots"]) == INPUTS | RESULTS | STREAMS
    assert call["archive_ref"] in model.results()["call_FOLDER_1_0"]


def test_a_command_that_goes_on_in_the_background_is_kept(place):
    (place.project / "test_slow.py").write_text(f"{TESTS}\nimport time; time.sleep(3)\n")
    turns = [
        [("Bash", {"command": f"sleep 1; {SUITE}", "run_in_background": True})],
        [("Bash", {"command": "echo before; sleep 3", "timeout": 1000})],
        [("Bash", {"command": f"{SUITE} test_slow", "timeout": 1000})],
        [("Bash", {"command": "sleep 5"})],
    ]
    place.run({"BACK": turns}, "BACK please", BYPASS)
    calls = place.calls()
    assert [call["status"] for call in calls.values()] == ["finished"] * 4
    assert [call["requires_streams"] for call in calls.values()] == [0, 0, 1, 0]
    assert set(calls["call_BACK_2_0"]["snapshots"]) == INPUTS | RESULTS | STREAMS
    place.yarp("archive", "verify")


def test_taken_out_again_nothing_of_it_is_left(place):
    settings = place.home / ".claude" / "settings.json"
    place.yarp("uninstall", "claude")
    assert not settings.exists()
    place.run({"OUT": [[("Bash", {"command": "echo one"})]]}, "OUT please", BYPASS)
    assert not place.archive.exists()
