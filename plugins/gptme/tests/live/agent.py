"""The real gptme with YARP beside it, for tests: installed once, run in homes of its own.

Installs gptme into `YARP_TEST_AGENTS` (kept), else into a temporary folder. YARP is put beside
it by a second environment that looks into gptme's, so that nothing is written into that.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from yarp.testing.files import neighbour
from yarp.testing.live import folder

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[3]
PACKAGE = "gptme==0.35.1"
YARP = [sys.executable, "-m", "yarp"]
PATIENCE_S = 120
TOOLS = "shell,save,patch,read,ipython"


def installed(tmp_path_factory):
    """gptme's own interpreter."""
    prefix = folder(tmp_path_factory) / "gptme"
    python = prefix / "bin" / "python"
    if not (prefix / "bin" / "gptme").exists():
        # A fresh environment: an unfinished one of an earlier run is made anew.
        make = [[sys.executable, "-m", "venv", "--clear", str(prefix)]]
        make += [[str(python), "-m", "pip", "install", "--quiet", PACKAGE]]
        for words in make:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"pip cannot install {PACKAGE}: {done.stderr.strip()[-300:]}")
    return python


def beside(python, directory):
    """An environment that sees gptme, and YARP from this repository; its interpreter."""
    ask = "import sys, sysconfig; print(sys.version_info[:2]); print(sysconfig.get_path('purelib'))"
    version, theirs = subprocess.run(
        [python, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if version != str(sys.version_info[:2]):
        pytest.skip(f"gptme is installed for Python {version}, the tests run with another")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    found = directory / "bin" / "python"
    ours = subprocess.run(
        [found, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1]
    own = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1]
    paths = [theirs, str(REPOSITORY), *map(str, sorted((REPOSITORY / "plugins").iterdir())), own]
    (Path(ours) / "yarp.pth").write_text("\n".join(paths) + "\n")
    (directory / "bin" / "gptme").write_text(
        f"#!{found}\nimport sys\nfrom gptme.cli.main import main\nsys.exit(main())\n"
    )
    (directory / "bin" / "gptme").chmod(0o755)
    return found


class Place:
    """A home with gptme, YARP hooked into it, and a small project."""

    def __init__(self, home, binaries):
        self.home = home
        self.project = home / "project"
        self.project.mkdir()
        self.archive = home / "data" / "yarp" / "tool-calls.sqlite3"
        self.configuration = home / ".config" / "gptme" / "config.toml"
        kept = {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
        self.environment = kept | {
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "USER": "ada",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "OPENAI_API_KEY": "dummy",
            "GPTME_CHECK": "false",
            "GPTME_CHAT_HISTORY": "false",
            # Without a tokenizer, which would be fetched: tokens are estimated.
            "GPTME_TIKTOKEN_TIMEOUT": "0",
        }
        self.configuration.parent.mkdir(parents=True)
        self.configuration.write_text('[user]\nname = "Ada"\n\n[env]\n')
        self.yarp("install", "gptme")

    def set(self, **settings):
        """More settings of the plugin, behind those that were installed."""
        text = self.configuration.read_text()
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        self.configuration.write_text(text.replace("enabled = true\n", f"enabled = true\n{lines}"))

    def yarp(self, *words, status=0):
        done = subprocess.run(
            [*YARP, *words], capture_output=True, env=self.environment, check=False
        )
        assert done.returncode == status, done.stderr.decode()
        return done.stdout.decode()

    def start(self, model, *, name="talk", form="tool", tools=TOOLS, options=(), **variables):
        words = ["gptme", "-n", "-m", "local/mock", "--tool-format", form, "--context", "files"]
        words += ["--system", "short", "--tools", tools, "--name", name, *options]
        return subprocess.Popen(
            [shutil.which("gptme", path=self.environment["PATH"]), *words[1:], f"run {model.word}"],
            cwd=self.project,
            env={**self.environment, "OPENAI_BASE_URL": model.url, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, turns, **options):
        """Let the model play its turns; the model, which holds every request."""
        model = neighbour(__file__, "model").Model({"demo": turns})
        model.word = "demo"
        process = self.start(model, **options)
        try:
            model.out, model.err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            model.close()
        return model

    def conversation(self, name="talk"):
        return self.home / "data" / "gptme" / "logs" / name

    def receipts(self, name="talk"):
        """Every published receipt of a conversation, oldest first."""
        folder = self.conversation(name) / "tool-outputs" / "captures"
        found = [json.loads(path.read_text()) for path in folder.glob("*.receipt.json")]
        return sorted(found, key=lambda receipt: receipt["created_at_ms"])

    def stream(self, receipt, stream, name="talk"):
        """The kept bytes of a stream."""
        reference = next(s["reference"] for s in receipt["streams"] if s["name"] == stream)
        return (self.conversation(name) / reference).read_bytes()

    def calls(self):
        """Every archived call by its id: facts, and its snapshots by name, parsed."""
        connection = sqlite3.connect(f"file:{self.archive}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        found = {}
        for row in connection.execute(
            "SELECT c.*, s.agent, s.source_session_id FROM tool_calls c "
            "JOIN sessions s ON s.id = c.session_id ORDER BY c.started_at_ms"
        ):
            snapshots = connection.execute(
                "SELECT s.subject || '/' || s.stage AS name, p.compression, p.body "
                "FROM snapshots s JOIN payloads p ON p.sha256 = s.payload_sha256 "
                "WHERE s.tool_call_id = ?",
                (row["id"],),
            )
            found[row["source_call_id"]] = dict(row) | {
                one["name"]: opened(one["compression"], one["body"]) for one in snapshots
            }
        connection.close()
        return found


def opened(compression, data):
    return zstandard.ZstdDecompressor().decompress(data) if compression == "zstd" else data
