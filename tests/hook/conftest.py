"""`yarp hook` as whole processes for a made-up host, and what they left in the archive."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest
import zstandard

PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")
# Events: begin, end, close (one that only closes calls), greet (once a session), mute.
PLUGIN = """
from yarp.plugin import CallEnded, CallStarted, Host, hookimpl


def decode(event):
    print("a plugin's print is no answer")
    kind = event.get("kind")
    if kind == "raise":
        raise ValueError("what is this?")
    if kind == "begin":
        return start(event)
    if kind == "end":
        result = event["out"]
        return CallEnded(
            event["chat"], event["id"], result, event.get("failed", False),
            executed=event.get("ran", True), exit_code=event.get("code"),
            closes=event.get("closes", False),
            start=start(event) if "tool" in event else None,
            full_output_path=event.get("file"), completeness="complete",
            text=result.get("text") if isinstance(result, dict) else None,
        )
    if kind == "close":
        return tuple(
            CallEnded(call["chat"], call["id"], call["out"], True, closes=True, start=start(call))
            for call in event["calls"]
        )
    return None


def start(event):
    return CallStarted(
        event["chat"], event["id"], event["tool"], event["args"],
        unpermissioned=event.get("free"), detached=event.get("apart", False),
        writable=event.get("writable"), own_words=event.get("own", ()),
        working_directory=event.get("place"),
    )


def reply(event, decision):
    if decision.notice and event["kind"] == "greet":
        return {"say": decision.notice}
    if decision.blocked and event["kind"] != "mute":
        return {"block": decision.blocked}
    if decision.input is not None:
        return {"args": decision.input}
    if decision.result is not None:
        return {"out": decision.result}
    return {} if event["kind"] == "end" else None


def replace(event, content):
    return {**event["out"], "text": content}


def refused(event, ended):
    return ended.source_call_id in event.get("refused", ())


@hookimpl
def yarp_host():
    return Host("acme", shell_tools={"sh": "command"}, shell="/bin/sh", wrap="unpermissioned",
                decode=decode, reply=reply, replace=replace, refused=refused)
"""
TESTS = "".join(f"test_a.py::test_{number} PASSED\n" for number in range(300))
TESTS += "test_a.py::test_x FAILED\nFAILED test_a.py::test_x - assert 1 == 2\n"
TESTS += "=== 1 failed, 300 passed in 1.2s ===\n"


class Answer:
    """What a hook said and how it ended."""

    def __init__(self, done):
        self.status = done.returncode
        self.said = done.stderr.decode()
        self.reply = json.loads(done.stdout) if done.stdout else None


class Acme:
    """The host: sends events, each to a process of its own."""

    tests = TESTS
    plugin = PLUGIN

    def __init__(self, home, monkeypatch):
        self.home = home
        self.environment = monkeypatch
        self.archive = home / "data" / "yarp" / "tool-calls.sqlite3"

    def words(self, *options):
        return [PROGRAM, "hook", "acme", *options]

    def start(self, event, *options, **more):
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        process = subprocess.Popen(
            self.words(*options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **more,
        )  # fmt: skip
        process.stdin.write(data)
        process.stdin.close()
        process.stdin = None
        return process

    def send(self, event, *options, **more):
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        return Answer(
            subprocess.run(
                self.words(*options), input=data, capture_output=True, check=False, **more
            )
        )

    def configure(self, text):
        self.environment.setenv("XDG_CONFIG_HOME", str(self.home / "config"))
        folder = self.home / "config" / "yarp"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f"version = 1\n{text}")

    def yarp(self, *words):
        return subprocess.run([PROGRAM, *words], capture_output=True, check=False)

    def shell(self, text):
        return subprocess.run(["sh", "-c", text], capture_output=True, check=False)

    @staticmethod
    def begin(call_id="c1", command="true", **more):
        args = {"command": command}
        event = {"kind": "begin", "chat": "s1", "id": call_id, "tool": "sh", "args": args}
        return {**event, **more}

    @staticmethod
    def end(call_id="c1", command="true", text="fine", **more):
        event = Acme.begin(call_id, command)
        return {**event, "kind": "end", "out": {"text": text, "n": 1}, **more}

    def calls(self):
        """Every call by its id: its facts, and the bytes of its snapshots."""
        connection = sqlite3.connect(f"file:{self.archive}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        found = {}
        for row in connection.execute("SELECT * FROM tool_calls ORDER BY id").fetchall():
            call = found[row["source_call_id"]] = dict(row)
            call["snapshots"] = {
                f"{subject}/{stage}": zstandard.decompress(body) if how == "zstd" else body
                for subject, stage, how, body in connection.execute(
                    "SELECT subject, stage, compression, body FROM snapshots JOIN payloads "
                    "ON sha256 = payload_sha256 WHERE tool_call_id = ?", (row["id"],),
                )
            }  # fmt: skip
        connection.close()
        return found

    def call(self):
        (found,) = self.calls().values()
        return found


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """The plugin, and a compiled cache, for all tests that have no configuration of their own."""
    root = tmp_path_factory.mktemp("shared")
    info = root / "site" / "yarp_acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yarp-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[yarp]\nacme = yarp_acme\n")
    (root / "site" / "yarp_acme.py").write_text(PLUGIN)
    return root


@pytest.fixture
def acme(yarp_home, shared, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(shared / "site"))
    monkeypatch.setenv("YARP_PLUGINS", "acme")
    monkeypatch.setenv("USER", "ada")
    for name in ("CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(shared / name.lower()))
    return Acme(yarp_home, monkeypatch)
