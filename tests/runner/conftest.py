"""`yarp run` as a whole process, in a home of its own, and what it left in the archive."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest
import zstandard

from yarp import payload
from yarp.archive.write import Archive, CallFacts, SessionKey

PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")


HOST_IDS = {"agent": "acme", "account": "bob", "session": "s-1", "call": "c-1"}


class Yarp:
    """Starts `yarp run` and reads the archive with SQLite alone."""

    def __init__(self, root):
        self.root = str(root)
        self.bin = os.path.join(self.root, "bin")
        os.mkdir(self.bin)
        self.config = os.path.join(self.root, "config", "yarp", "config.toml")
        self.archive = os.path.join(self.root, "data", "yarp", "tool-calls.sqlite3")
        self.env = {
            "PATH": self.bin + ":" + os.environ["PATH"],
            "HOME": self.root,
            "USER": "ada",
            "XDG_CONFIG_HOME": os.path.join(self.root, "config"),
            "XDG_CACHE_HOME": os.path.join(self.root, "cache"),
            "XDG_DATA_HOME": os.path.join(self.root, "data"),
            "LANG": "C.UTF-8",
        }

    host = tuple(word for name, value in HOST_IDS.items() for word in ("--archive-" + name, value))

    def begin_by_host(self):
        """What a host commits before it runs `yarp run` with the four ids."""
        archive = Archive.open(self.archive, narrow=True)
        body = payload.of_json({"command": "true"})
        facts = CallFacts("c-1", "shell", started_at_ms=1, requires_streams=True)
        session = SessionKey("acme", "bob", "s-1")
        reference = archive.begin_call(session, facts, body, body, 1)
        archive.close()
        return reference

    def command(self, *words):
        return [PROGRAM, "run", *words]

    def run(self, *words, **options):
        given = {"env": self.env, "capture_output": True, "timeout": 60}
        if "input" not in options:
            given["stdin"] = subprocess.DEVNULL
        return subprocess.run(self.command(*words), check=False, **{**given, **options})

    def start(self, *words, **options):
        given = {"env": self.env, "stdin": subprocess.DEVNULL, "stdout": -1, "stderr": -1}
        return subprocess.Popen(self.command(*words), **{**given, **options})

    def shell(self, line, **options):
        """Run a shell line in which `$yarp` is the program."""
        return self.run_line(["sh", "-c", line], **options)

    def run_line(self, argv, **options):
        given = {"env": {**self.env, "yarp": PROGRAM}, "capture_output": True, "timeout": 60}
        return subprocess.run(argv, check=False, **{**given, **options})

    def configure(self, text):
        os.makedirs(os.path.dirname(self.config), exist_ok=True)
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def script(self, name, text):
        """A program `name` on PATH."""
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def calls(self, path=None):
        connection = sqlite3.connect(path or self.archive)
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT c.*, s.agent, s.account, s.source_session_id FROM tool_calls c "
            "JOIN sessions s ON s.id = c.session_id ORDER BY c.id"
        ).fetchall()
        connection.close()
        return rows

    def call(self):
        """The only call."""
        (row,) = self.calls()
        return row

    def snapshots(self, call):
        """(subject, stage) -> (media type, exact bytes)."""
        connection = sqlite3.connect(self.archive)
        found = {}
        for subject, stage, media_type, compression, body in connection.execute(
            "SELECT subject, stage, media_type, compression, body FROM snapshots "
            "JOIN payloads ON sha256 = payload_sha256 WHERE tool_call_id = ?",
            (call["id"],),
        ):
            whole = body
            if compression == "zstd":
                whole = zstandard.ZstdDecompressor().decompressobj().decompress(body)
            found[subject, stage] = (media_type, whole)
        connection.close()
        return found

    def result(self):
        return json.loads(self.snapshots(self.call())["result", "after"][1])

    def receipt(self):
        return self.result()["receipt"]


@pytest.fixture
def yarp(tmp_path, precompiled):
    yarp = Yarp(tmp_path)
    precompiled.put(yarp.env["XDG_CONFIG_HOME"], yarp.env["XDG_CACHE_HOME"])
    return yarp
