import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

HOST = "acme"
PLUGIN = """
from yarp.plugin import Host, hookimpl


@hookimpl
def yarp_host():
    return Host("acme", shell_tools={"sh": "command"}, shell="/bin/sh")
"""


def install_acme(directory):
    """A made-up host as an installed distribution: a folder for PYTHONPATH."""
    info = directory / "yarp_acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yarp-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[yarp]\nacme = yarp_acme\n")
    (info / "RECORD").write_text("")
    (directory / "yarp_acme.py").write_text(PLUGIN)
    return directory


class Peer:
    """Speaks frames to a real `yarp archive ingest`."""

    def __init__(self, environment):
        self.session = {"agent": HOST, "account": "someone", "sourceSessionId": "s1"}
        self.environment = environment
        self.process = None
        self.sent = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "yarp", "archive", "ingest"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )

    def raw(self, body):
        """Send one frame's body; the answer, or None when the process ended without one."""
        self.process.stdin.write(len(body).to_bytes(8, "big") + body)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def frame(self, operation, **fields):
        self.sent += 1
        return {
            "operation": operation,
            "requestId": self.sent,
            "schemaVersion": 1,
            "session": self.session,
            **fields,
        }

    def ask(self, operation, **fields):
        return self.raw(json.dumps(self.frame(operation, **fields)).encode())

    def ok(self, operation, **fields):
        answer = self.ask(operation, **fields)
        assert answer["ok"], answer
        assert answer["requestId"] == self.sent
        return answer

    def begin(self, call_id, tool="sh", before=None, after=None, *, streams=False, directory=None):
        before = {"command": "ls"} if before is None else before
        call = {
            "sourceCallId": call_id,
            "toolName": tool,
            "workingDirectory": directory,
            "startedAtMs": 5,
            "requiresStreams": streams,
        }
        return self.ok(
            "begin_call",
            call=call,
            inputBefore=before,
            inputAfter=before if after is None else after,
            capturedAtMs=6,
        )["archiveRef"]

    def close(self):
        """End the input; exit status and what stood on stderr."""
        self.process.stdin.close()
        self.process.stdout.close()
        status = self.process.wait(20)
        with self.process.stderr:
            return status, self.process.stderr.read().decode()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def environment(tmp_path):
    """A private home with the made-up host installed."""
    home = tmp_path / "home"
    home.mkdir()
    plugins = install_acme(tmp_path / "site")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(plugins),
        "YARP_PLUGINS": HOST,
    }


@pytest.fixture
def archive_path(environment):
    return environment["HOME"] + "/.local/share/yarp/tool-calls.sqlite3"


@pytest.fixture
def connect():
    """Starts peers; whatever of them still runs at the end is killed."""
    peers = []

    def start(environment):
        peers.append(Peer(environment))
        return peers[-1]

    yield start
    for peer in peers:
        if peer.process.poll() is None:
            peer.kill()


@pytest.fixture
def peer(connect, environment):
    return connect(environment)
