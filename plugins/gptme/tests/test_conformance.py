from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from yarp.plugin import CallStarted
from yarp.testing.host import HostSuite
from yarp.testing.importer import ImporterSuite
from yarp.testing.spool import Secret, SpoolSuite
from yarp.testing.trace import TraceSuite


class TestGptme(HostSuite):
    plugin = "gptme"

    def test_what_gptme_has_no_hook_for_is_said_by_the_command_line(self, yarp_home):
        words = [sys.executable, "-m", "yarp", "hosts", "show", "gptme"]
        done = subprocess.run(words, cwd=yarp_home, capture_output=True, text=True, check=True)
        said = " ".join(done.stdout.split())
        for hook in ("process.output", "job.start", "job.end", "tool.execute.error"):
            assert re.search(rf"Missing hooks? [\w., ]*{re.escape(hook)}\b", said), hook
        for step in ("cannot refuse a call", "as an MCP server reach no hook", "has no messages"):
            assert step in said
        # And the README names the same.
        readme = (Path(__file__).parents[1] / "README.md").read_text()
        for hook in ("process.output", "job.start", "job.end", "tool.execute.error"):
            assert hook in readme


class TestGptmeImporter(ImporterSuite):
    plugin = "gptme"

    @pytest.fixture
    def roots(self, tmp_path):
        root = tmp_path / "logs"
        conversations = {
            "markdown": ["PLANTED IN PROSE\n```shell\nls\n```", None],
            "tool": ['@shell(call_1): {"command": "ls"}', "call_1"],
        }
        for name, (text, call_id) in conversations.items():
            messages = [
                {"role": "user", "content": "PLANTED IN A PROMPT"},
                {"role": "assistant", "content": text, "metadata": {"model": "local/mock"}},
                {"role": "system", "content": "README.md"}
                | ({"call_id": call_id} if call_id else {}),
            ]
            path = root / name / "conversation.jsonl"
            path.parent.mkdir(parents=True)
            lines = [
                {"timestamp": f"2026-11-30T03:05:0{at}"} | one for at, one in enumerate(messages)
            ]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {"logs": str(root)}

    @pytest.fixture
    def excluded(self):
        return ["PLANTED IN A PROMPT", "PLANTED IN PROSE"]

    @pytest.fixture
    def kept(self):
        return ["README.md", "ls"]


class TestGptmeTraces(TraceSuite):
    plugin = "gptme"

    @pytest.fixture
    def traces(self, tmp_path):
        told = {"model": "local/mock", "usage": {"input_tokens": 9, "output_tokens": 5}}
        ran = told | {"timings": {"tool_ms_by_name": {"shell": 1.0}}}
        talks = {
            "tool": [
                ("system", "You are gptme.", {"pinned": True, "hide": True}),
                ("user", "What is here?", {}),
                (
                    "assistant",
                    'I look.\n@shell(call_1): {"command": "ls | wc -l"}',
                    {"metadata": ran},
                ),
                ("system", "README.md", {"call_id": "call_1"}),
                ("system", "<system_warning>9 left</system_warning>", {"hide": True}),
                ("assistant", "One file.", {"metadata": told}),
                ("user", "<system>No tool call detected.", {}),
                ("assistant", "Done.", {"metadata": told}),
            ],
            "markdown": [
                ("user", "And here?", {}),
                ("assistant", "So:\n```shell\nls\n```\n```shell\npwd\n```", {"metadata": ran}),
                ("system", "README.md", {}),
                ("system", "Error during execution: no", {}),
                ("user", "Rather not.", {}),
                ("assistant", "As you like.", {}),
            ],
        }
        for name, messages in talks.items():
            path = tmp_path / "logs" / name / "conversation.jsonl"
            path.parent.mkdir(parents=True)
            with path.open("w") as file:
                for at, (role, content, more) in enumerate(messages):
                    time = f"2026-11-30T03:05:0{at}+00:00"
                    line = {"role": role, "content": content, "timestamp": time} | more
                    file.write(json.dumps(line) + "\n")
        return str(tmp_path / "logs")


class TestGptmeSpools(SpoolSuite):
    plugin = "gptme"
    policy = "gptme"

    @pytest.fixture(autouse=True)
    def credentials(self, yarp_home, monkeypatch):
        monkeypatch.setenv("SOME_API_KEY", "a-configured-key")

    @pytest.fixture
    def calls(self, yarp_home):
        names = ("one", "two")
        for name in names:
            (yarp_home / "data" / "gptme" / "logs" / name).mkdir(parents=True)
        return [CallStarted(name, f"{name}-1", "shell", {"command": "make"}) for name in names]

    @pytest.fixture
    def secrets(self):
        return [
            Secret(b"used a-configured-key, ok\n", b"a-configured-key"),
            Secret(b"export MY_TOKEN=hunter2\nok\n", b"hunter2"),
            Secret("ünï MY_TOKEN = hunter2".encode(), b"hunter2"),
        ]
