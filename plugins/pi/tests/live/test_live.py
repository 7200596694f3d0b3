"""The real Pi, both of its packages, against a scripted model: what the archive holds afterwards.

Installs Pi from npm into `YARP_TEST_AGENTS` (kept), else into a temporary folder.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from yarp.testing.files import neighbour
from yarp.testing.live import from_npm

HERE = Path(__file__).parent
PACKAGES = {
    "1.x": "@earendil-works/pi-coding-agent@1",
    "0.73": "@mariozechner/pi-coding-agent@0.73.1",
}
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

pytestmark = pytest.mark.slow


Model, Pi = neighbour(__file__, "model").Model, neighbour(__file__, "agent").Pi


@pytest.fixture(scope="module", params=PACKAGES)
def prefix(request, tmp_path_factory):
    packages = ("node@22", PACKAGES[request.param])
    return from_npm(f"pi-{request.param}", "pi", *packages, factory=tmp_path_factory)


@pytest.fixture
def place(yarp_home):
    return Place(yarp_home)


class Place:
    """A home with Pi, YARP and two more extensions in it, and a small project."""

    def __init__(self, home):
        self.home = home
        self.project = home / "project"
        self.archive = home / "data" / "yarp" / "tool-calls.sqlite3"
        (self.project / "tests").mkdir(parents=True)
        (self.project / "notes.txt").write_text("first line\nsecond line\n")
        (self.project / "pixel.png").write_bytes(base64.b64decode(PIXEL))
        (self.project / "test_rows.py").write_text(TESTS)
        self.yarp("install", "pi")
        for name in ("a-block.ts", "z-block.ts"):
            shutil.copy(HERE / "others.ts", home / ".pi" / "agent" / "extensions" / name)

    def model(self, scripts):
        model = Model(scripts)
        mock = {"id": "mock-model", "name": "Mock", "reasoning": False, "input": ["text", "image"]}
        provider = {
            "baseUrl": model.url, "api": "openai-completions", "apiKey": "dummy",
            "models": [{**mock, "contextWindow": 2_000_000, "maxTokens": 8000}],
        }  # fmt: skip
        agent = self.home / ".pi" / "agent"
        (agent / "models.json").write_text(json.dumps({"providers": {"mock": provider}}))
        return model

    def start_instead(self, *program):
        record = self.home / ".pi" / "agent" / "extensions" / "yarp" / "yarp.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"program": program}))

    def yarp(self, *words, status=0):
        done = subprocess.run([*YARP, *words], capture_output=True, env=os.environ, check=False)
        assert done.returncode == status, done.stderr.decode()
        return done.stdout

    def calls(self):
        """Every archived call by its id: facts, and the digests of its snapshots."""
        connection = sqlite3.connect(f"file:{self.archive}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        query = "SELECT c.*, s.agent, s.source_session_id FROM tool_calls c JOIN sessions s ON s.id = c.session_id"
        found = {}
        for row in connection.execute(query):
            snapshots = connection.execute(
                "SELECT subject || '/' || stage, hex(payload_sha256) FROM snapshots WHERE tool_call_id = ?",
                (row["id"],),
            )
            found[(row["source_session_id"], row["source_call_id"])] = dict(row) | dict(
                snapshots.fetchall()
            )
        connection.close()
        return found


INPUTS = {"input/before", "input/after"}
RESULTS = {"result/before", "result/after"}
STREAMS = {"stdout/before", "stdout/after", "stderr/before", "stderr/after"}


def snapshots(call):
    return {key for key in call if "/" in key}


def test_every_kind_of_call_is_kept_and_the_model_gets_the_short_answer(prefix, place):
    seq = "seq 1 90000"
    turns = [
        [("read", {"path": "notes.txt"})],
        [("bash", {"command": "python3 -m unittest -v"})],
        [("bash", {"command": "echo out; echo oops >&2; exit 3"})],
        [("bash", {"command": "echo BLOCK-EARLY"})],
        [("bash", {"command": "echo BLOCK-LATE"})],
        [("frobnicate", {"level": 3})],
        [("bash", {"command": "sleep 0.5; echo slow"}), ("read", {"path": "notes.txt"})],
        [("bash", {"command": seq})],
        [("bash", {"command": f"{seq}; exit 4"})],
        [("read", {"path": "pixel.png"})],
        [("read", '{"path": "notes.txt", "limit": 1234567890123456789}')],
        [("write", '{"path": "odd.txt", "content": "half \\ud800 a pair"}')],
        [("frobnicate", '{"level": 1234567890123456789, "text": "\\udfff"}')],
    ]
    model = place.model({"KINDS": turns})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("KINDS please")
        said = pi.said()
    model.close()
    assert said == []
    calls = {call_id: call for (_, call_id), call in place.calls().items()}
    given = model.results()
    assert len(calls) == sum(map(len, turns)) == len(given)
    assert all(call["status"] == "finished" and call["agent"] == "pi" for call in calls.values())
    place.yarp("archive", "verify")

    def call(turn, index=0):
        return calls[f"call_KINDS_{turn}_{index}"]

    def shown(turn, index=0):
        return given[f"call_KINDS_{turn}_{index}"]

    # Short and unmodified: equal before and after.
    for turn, index in ((0, 0), (2, 0), (6, 0), (6, 1), (9, 0), (10, 0), (11, 0)):
        found = call(turn, index)
        assert snapshots(found) == INPUTS | RESULTS
        assert found["input/before"] == found["input/after"]
        assert found["result/before"] == found["result/after"]
        assert (found["executed"], found["requires_streams"]) == (1, 0)
    assert (call(0)["is_error"], call(2)["is_error"]) == (0, 1)
    assert shown(0) == "first line\nsecond line\n"

    # Pruned: the model sees the failure, and every byte comes back.
    pruned = call(1)
    assert snapshots(pruned) == INPUTS | RESULTS | STREAMS
    assert (pruned["executed"], pruned["requires_streams"], pruned["is_error"]) == (1, 1, 1)
    assert pruned["stderr/before"] != pruned["stderr/after"]
    assert "test_row_118" in shown(1)
    assert len(shown(1)) < 5_000
    assert pruned["archive_ref"] in shown(1)
    assert "Command exited with code 1" in shown(1)
    listed = place.yarp("read", pruned["archive_ref"], "stderr", "1:302").decode()
    assert listed.count(" ... ok\n") == 299
    hits = place.yarp("search", pruned["archive_ref"], "test_row_217 ").decode()
    assert "test_row_217" in hits

    # Never run: blocked before and after YARP was asked, and unknown.
    for turn in (3, 4, 5, 12):
        assert snapshots(call(turn)) == INPUTS | {"result/after"}
        assert (call(turn)["executed"], call(turn)["is_error"]) == (0, 1)
    assert "not allowed: BLOCK-LATE" in shown(4)

    # Large: short for the model, whole in the archive.
    whole = "".join(f"{number}\n" for number in range(1, 90001)).encode()
    large = call(7)
    assert "source_output/before" in large
    assert len(shown(7).encode()) <= 5_120
    assert large["archive_ref"] in shown(7)
    source = "source_output"
    assert place.yarp("read", large["archive_ref"], source, "40000:40010") == b"".join(
        f"{number}\n".encode() for number in range(40000, 40011)
    )
    connection = sqlite3.connect(place.archive)
    length, digest = connection.execute(
        "SELECT uncompressed_byte_length, hex(sha256) FROM payloads WHERE hex(sha256) = ?",
        (large["source_output/before"],),
    ).fetchone()
    assert length == len(whole)
    failed = call(8)
    assert failed["is_error"] == 1
    assert len(shown(8).encode()) <= 5_120
    assert failed["archive_ref"] in shown(8)
    if "source_output/before" in failed:  # 1.x
        assert failed["source_output/before"] == digest
    else:
        (completeness,) = connection.execute(
            "SELECT source_completeness FROM snapshots WHERE tool_call_id = ? AND subject = 'result_text'",
            (failed["id"],),
        ).fetchone()
        assert completeness == "incomplete"
    connection.close()


def test_every_session_has_its_own_calls_through_switches_and_reloads(prefix, place):
    turns = [[("bash", {"command": "echo one"})], [], [("bash", {"command": "echo two"})], []]
    model = place.model({"SWITCH": turns})
    with Pi(prefix, place.home, place.project) as pi:
        sessions = []

        def ask(text):
            pi.prompt(text)
            sessions.append(pi.command("get_state")["sessionId"])

        ask("SWITCH please")
        first = pi.command("get_state")["sessionFile"]
        pi.command("prompt", message="/test-reload")
        ask("go on")
        points = pi.command("get_fork_messages")["messages"]
        pi.command("fork", entryId=points[-1]["entryId"])
        ask("go on")
        pi.command("new_session")
        ask("SWITCH again")
        pi.command("switch_session", sessionPath=first)
        said = pi.said()
    model.close()
    assert said == []
    assert len(set(sessions)) == 3
    expected = {
        (sessions[0], "call_SWITCH_0_0"),
        (sessions[0], "call_SWITCH_2_0"),
        (sessions[2], "call_SWITCH_2_0"),
        (sessions[3], "call_SWITCH_0_0"),
    }
    calls = place.calls()
    assert set(calls) == expected
    assert all(call["status"] == "finished" for call in calls.values())
    place.yarp("archive", "verify")


def test_nothing_of_yarp_is_in_pis_own_session(prefix, place):
    model = place.model({"PLAIN": [[("bash", {"command": "echo one"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("PLAIN please")
    model.close()
    (store,) = (place.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    assert not re.search(r"yarp|yr_", store.read_text().replace(str(place.home), ""))


def test_an_archive_that_cannot_be_used_blocks_every_call(prefix, place):
    place.archive.parent.mkdir(parents=True, mode=0o700)
    place.archive.write_text("this is no database, and long enough to be seen as none of ours")
    place.archive.chmod(0o600)
    model = place.model({"BLOCKED": [[("bash", {"command": "touch ran"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("BLOCKED please")
    model.close()
    assert "could not be archived" in model.results()["call_BLOCKED_0_0"]
    assert not (place.project / "ran").exists()


def test_a_broken_configuration_is_said_once_and_tools_run(prefix, place):
    configuration = place.home / "config" / "yarp"
    configuration.mkdir(parents=True)
    (configuration / "config.toml").write_text("[archive]\nenabled = 'perhaps'\n")
    turns = [[("bash", {"command": "echo one"})], [("bash", {"command": "echo two"})]]
    model = place.model({"BROKEN": turns})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("BROKEN please")
        said = pi.said()
    model.close()
    assert list(model.results().values()) == ["one\n", "two\n"]
    assert len(said) == 1
    assert "config.toml" in said[0]
    assert not place.archive.exists()


def test_a_program_that_is_gone_is_said_once_and_tools_run(prefix, place):
    place.start_instead("/gone/yarp")
    model = place.model({"GONE": [[("bash", {"command": "echo one"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("GONE please")
        said = pi.said()
    model.close()
    assert list(model.results().values()) == ["one\n"]
    assert len(said) == 1
    assert "/gone" in said[0]


@pytest.mark.parametrize("refused", ["result_before", "stage_result", "update_final_result"])
def test_a_wrapped_command_that_cannot_be_finished_shows_its_exact_streams(prefix, place, refused):
    place.start_instead(sys.executable, str(HERE / "refuser.py"), refused)
    model = place.model({"RESTORE": [[("bash", {"command": "python3 -m unittest -v"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("RESTORE please")
        said = pi.said()
    model.close()
    shown = model.results()["call_RESTORE_0_0"]
    assert shown.count(" ... ok\n") == 299
    assert shown.startswith("test_row_000")
    assert shown.endswith("FAILED (failures=1)\n\n\nCommand exited with code 1")
    assert len(said) == 1
    assert "the disk is full" in said[0]
    (call,) = place.calls().values()
    assert call["status"] == "started"
    assert snapshots(call) >= INPUTS | STREAMS
    place.yarp("archive", "verify")


def test_a_result_that_cannot_be_kept_is_shown_as_pi_has_it(prefix, place):
    place.start_instead(sys.executable, str(HERE / "refuser.py"), "stage_result")
    model = place.model({"KEEP": [[("bash", {"command": "seq 1 3000"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("KEEP please")
    model.close()
    assert "\n2999\n3000" in model.results()["call_KEEP_0_0"]
    assert "yr_" not in model.results()["call_KEEP_0_0"]
    (call,) = place.calls().values()
    assert call["status"] == "started"


def test_a_killed_writer_is_replaced_and_no_call_is_lost(prefix, place):
    turns = [[("bash", {"command": "echo one"})], [], [("bash", {"command": "echo two"})], []]
    model = place.model({"KILL": turns})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("KILL please")
        first = pi.writer()
        os.kill(first, signal.SIGKILL)
        pi.prompt("go on")
        assert pi.writer() != first
        said = pi.said()
    model.close()
    assert said == []
    assert [call["status"] for call in place.calls().values()] == ["finished"] * 2
    place.yarp("archive", "verify")


def suite_that_hangs(place):
    """A command that a rule selects: 300 tests pass, the next one hangs; its unique name."""
    name = f"test_hangs_{uuid.uuid4().hex}"
    (place.project / f"{name}.py").write_text(
        TESTS.replace("217 if", "118 if")
        + "def hang(self):\n    import time; time.sleep(600)\nTestRows.test_z_hangs = hang\n"
    )
    return name


def is_gone(name):
    for _ in range(100):
        listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True)
        if name not in listed.stdout:
            return True
        time.sleep(0.1)
    return False


def shows_the_partial_output(place, call, shown):
    assert "test_z_hangs" in shown
    assert call["archive_ref"] in shown
    assert len(shown) < 6000
    assert snapshots(call) >= INPUTS | RESULTS | STREAMS
    assert (call["status"], call["is_error"], call["requires_streams"]) == ("finished", 1, 1)
    tests = place.yarp("read", call["archive_ref"], "stderr", "290:301").decode()
    assert "test_row_299" in tests
    assert "test_z_hangs" in tests
    return True


def test_a_command_that_pi_kills_is_shown_with_what_it_had_printed(prefix, place):
    name = suite_that_hangs(place)
    turns = [
        [("bash", {"command": "echo before; sleep 600", "timeout": 1})],
        [("bash", {"command": f"python3 -m unittest -v {name}", "timeout": 3})],
    ]
    model = place.model({"TIME": turns})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("TIME is up")
        said = pi.said()
    model.close()
    assert said == []
    shown = model.results()
    calls = {call_id: call for (_, call_id), call in place.calls().items()}
    assert shown["call_TIME_0_0"] == "before\n\n\nCommand timed out after 1 seconds"
    assert calls["call_TIME_0_0"]["status"] == "finished"
    assert shown["call_TIME_1_0"].endswith("Command timed out after 3 seconds")
    assert shows_the_partial_output(place, calls["call_TIME_1_0"], shown["call_TIME_1_0"])
    assert is_gone(name)
    place.yarp("archive", "verify")


def test_an_aborted_command_keeps_what_it_had_printed(prefix, place):
    name = suite_that_hangs(place)
    model = place.model({"ABORT": [[("bash", {"command": f"python3 -m unittest -v {name}"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.command("prompt", message="ABORT me")
        pi.until("tool_execution_start")
        time.sleep(3)
        pi.command("abort")
        while pi.command("get_state")["isStreaming"]:
            time.sleep(0.1)
        (ended,) = (event for event in pi.seen if event["type"] == "tool_execution_end")
    model.close()
    (call,) = place.calls().values()
    (block,) = ended["result"]["content"]
    assert block["text"].endswith("Command aborted")
    assert shows_the_partial_output(place, call, block["text"])
    assert is_gone(name)
    place.yarp("archive", "verify")


def test_an_aborted_call_is_finished(prefix, place):
    model = place.model({"ABORT": [[("bash", {"command": "echo started; sleep 600"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.command("prompt", message="ABORT me")
        pi.until("tool_execution_start")
        pi.command("abort")
        while pi.command("get_state")["isStreaming"]:
            time.sleep(0.1)
    model.close()
    (call,) = place.calls().values()
    assert (call["status"], call["is_error"]) == ("finished", 1)
    place.yarp("archive", "verify")


def test_one_prompt_without_a_terminal_is_archived_to_its_end(prefix, place):
    model = place.model({"PRINT": [[("bash", {"command": "echo one"})]]})
    done = Pi.once(prefix, place.home, place.project, "PRINT please")
    model.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    (call,) = place.calls().values()
    assert call["status"] == "finished"
    place.yarp("archive", "verify")


def test_an_extension_of_the_user_and_one_of_the_project_capture_once(prefix, place, monkeypatch):
    monkeypatch.chdir(place.project)
    place.yarp("install", "pi", "--scope", "project")
    (place.home / ".pi" / "agent" / "trust.json").write_text(json.dumps({str(place.project): True}))
    model = place.model({"TWICE": [[("bash", {"command": "echo one"})]]})
    with Pi(prefix, place.home, place.project) as pi:
        pi.prompt("TWICE please")
        said = pi.said()
    model.close()
    assert said == []
    (call,) = place.calls().values()
    assert call["status"] == "finished"


def test_calls_that_a_script_makes_are_kept_and_never_shortened(prefix, place):
    if prefix.name == "pi-0.73":
        pytest.skip("Pi 0.73 has no scripts")
    code = "const r = await tools.bash({command: 'seq 1 5000'}); return r.output.length + ':' + r.exit_code;"
    model = place.model({"SCRIPT": [[("codemode", {"code": code})]]})
    with Pi(prefix, place.home, place.project, "--tools", "+codemode") as pi:
        pi.prompt("SCRIPT please")
    model.close()
    assert "23893:0" in model.results()["call_SCRIPT_0_0"]
    nested = {call_id: call for (_, call_id), call in place.calls().items()}["call_SCRIPT_0_0/1"]
    assert nested["result/before"] == nested["result/after"]
    assert nested["status"] == "finished"


def test_the_extension_is_strict_typescript(tmp_path_factory):
    packages = ("typescript@5.9", "@types/node@20")
    compiler = from_npm("typescript", "tsc", *packages, factory=tmp_path_factory)
    modules = compiler / "node_modules"
    done = subprocess.run(
        [modules / ".bin" / "tsc", "-p", HERE.parents[1], "--typeRoots", modules / "@types"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
