"""Two real Unix users, and nothing between them but a pipe."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest
import toy_agent
from toy_agent import call, result, session

from yarp.dataset.database import Dataset
from yarp.testing.files import facts_of
from yarp.testing.plugin import PluginSite

READER, WRITER = 65_531, 65_532
# Where Python lies in a folder of its owner, another user is to be after it is loaded.
COMMAND = """
import os, sys, tempfile
import duckdb, orjson, pyarrow, zstandard
import yarp.dataset.extract, yarp.dataset.framing, yarp.dataset.ingest, yarp.dataset.report
import yarp.dataset.textindex
import yarp.plugins, yarp.plugin, yarp.config
from yarp.cli import dataset, root
with tempfile.TemporaryDirectory() as place, open(os.devnull, "w") as sys.stdout:
    with open(f"{place}/a.jsonl", "w") as file:
        file.write('{"type":"session","id":"s"}\\n{"type":"call","id":"c","input":{}}\\n')
        file.write('{"type":"result","id":"c","text":"words"}\\n')
    words = ["extract", "--unix-user", "x", "--database", f"{place}/data/x.duckdb"]
    root.run(dataset.command, "toolcall-extractor", [*words, "toy", "--sessions", place])
sys.stdout = sys.__stdout__
os.setgroups([])
user = int(sys.argv.pop(1))
os.setresgid(user, user, user)
os.setresuid(user, user, user)
os.umask(0o022)
sys.exit(dataset.main())
"""
PLUGIN = """

from yarp.plugin import hookimpl

@hookimpl
def yarp_importers():
    return [TOY]
"""


class Users:
    """A store that one user alone can read, and a data directory that another one owns."""

    def __init__(self, path):
        site = PluginSite(path / "site")
        site.path.mkdir()
        site.install("toy", pathlib.Path(toy_agent.__file__).read_text() + PLUGIN)
        package = os.path.dirname(importlib.util.find_spec("yarp").submodule_search_locations[0])
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(site.path), package]),
            "YARP_PLUGINS": "toy",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.sessions = path / "bobs" / "sessions"
        self.database = str(path / "anns" / "data" / "toolcalls.duckdb")
        self._homes = {READER: self.sessions.parent, WRITER: path / "anns"}
        self.sessions.mkdir(parents=True)
        self._homes[WRITER].mkdir()

    def write(self, name, *records):
        (self.sessions / name).write_bytes(toy_agent.lines(*records))
        self.settle()

    def settle(self):
        for user, home in self._homes.items():
            for place in (home, *home.rglob("*")):
                os.chown(place, user, user)
                os.chmod(place, 0o700 if place.is_dir() else 0o600)

    def start(self, user, *words, **streams):
        streams.setdefault("stdout", subprocess.PIPE)
        environment = self._environment | {"HOME": str(self._homes[user])}
        words = [sys.executable, "-c", COMMAND, str(user), *words]
        return subprocess.Popen(words, cwd="/", env=environment, **streams)

    def pipe(self, most_bytes=None):
        """What both of them ended with, and what the writer complained of."""
        stream = ["stream", "--unix-user", "bob", "toy", "--sessions", str(self.sessions)]
        ingest = ["ingest", "--unix-user", "bob", "--database", self.database]
        with self.start(READER, *stream, stdout=subprocess.PIPE) as reader:
            sent = reader.stdout
            cut = None
            if most_bytes is not None:
                words = ["head", "-c", str(most_bytes)]
                cut = subprocess.Popen(words, stdin=sent, stdout=subprocess.PIPE)
                sent = cut.stdout
            with self.start(
                WRITER, *ingest, stdin=sent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as writer:
                sent.close()
                reader.stdout.close()
                said, err = writer.communicate(timeout=120)
            if cut is not None:
                cut.wait()
        return reader.returncode, writer.returncode, said.decode(), err.decode()

    def rows(self, statement):
        with Dataset.read(self.database) as dataset:
            return dataset.rows(statement)

    def everything(self):
        return {
            table: self.rows(f"SELECT {columns} FROM {table} ORDER BY ALL")
            for table, columns in toy_agent.TABLES.items()
        }


@pytest.fixture
def users():
    if os.getuid() != 0:
        pytest.skip("only root may start processes of two other users")
    path = pathlib.Path(tempfile.mkdtemp())  # pytest's own folder lets no other user through
    path.chmod(0o711)
    try:
        yield Users(path)
    finally:
        shutil.rmtree(path)


CALLS = "SELECT native_call_id, output_text FROM tool_calls LEFT JOIN tool_results USING (call_key) ORDER BY 1"


@pytest.mark.slow
def test_a_stream_of_another_user_is_taken_and_neither_reads_the_others_files(users):
    users.write("a.jsonl", session("s", 1), call("a"), result("a"))
    users.write("b.jsonl", session("t", 2), call("b"), result("b", "x" * 200_000))
    before = facts_of([str(users.sessions)])
    direct = ["extract", "--unix-user", "bob", "--database", users.database]
    direct += ["toy", "--sessions", str(users.sessions)]
    with users.start(WRITER, *direct, stderr=subprocess.PIPE) as refused:
        assert b"no directory that can be read" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 64

    # A stream that is cut off loses the source that is open, and that alone.
    _, status, _, complaint = users.pipe(150_000)
    assert status == 74
    assert complaint.startswith("toolcall-extractor: frame ")
    assert users.rows(CALLS) == [("a", "out")]

    assert users.pipe()[:2] == (0, 0)
    assert users.rows(CALLS) == [("a", "out"), ("b", "x" * 200_000)]
    taken = users.everything()
    assert users.pipe()[2].splitlines()[-1] == "0 new calls, 0 new results"
    assert users.everything() == taken
    assert users.rows("SELECT DISTINCT unix_user FROM sessions") == [("bob",)]
    assert facts_of([str(users.sessions)]) == before
    own = pathlib.Path(users.database).parent
    for place in (own, *own.iterdir()):
        found = place.lstat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode) & 0o077) == (WRITER, 0), place
