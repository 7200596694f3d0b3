from __future__ import annotations

import json
import os

import pytest

from yarp.testing.host import HostSuite
from yarp.testing.importer import ImporterSuite
from yarp.testing.trace import TraceSuite

HERE = os.path.dirname(os.path.abspath(__file__))


class TestClaude(HostSuite):
    plugin = "claude"

    @pytest.fixture
    def exchange(self):
        with open(os.path.join(HERE, "recordings", "call.json"), encoding="utf-8") as file:
            return json.load(file)


class TestClaudeImporter(ImporterSuite):
    plugin = "claude"

    @pytest.fixture
    def roots(self, tmp_path):
        root = tmp_path / "projects"
        folder = root / "-srv-demo" / "s-1"
        (folder / "subagents").mkdir(parents=True)
        (folder / "tool-results").mkdir()
        saved = folder / "tool-results" / "b1.txt"
        saved.write_text("line 1\nline 2\n")
        frame = f"<persisted-output>\nOutput too large. Full output saved to: {saved}\n\nline 1"
        said = {"type": "text", "text": "PLANTED IN PROSE"}
        thought = {"type": "thinking", "thinking": "PLANTED IN REASONING", "signature": "x"}
        beside = [
            record(0, "user", "PLANTED IN A PROMPT"),
            record(7, "assistant", [said, thought]),
            {"type": "last-prompt", "sessionId": "s-1", "lastPrompt": "PLANTED IN A PROMPT"},
            {"type": "api-request", "sessionId": "s-1", "params": "PLANTED IN A REQUEST"},
        ]
        write(folder.with_suffix(".jsonl"), [*turn(1, "README.md"), *turn(3, frame), *beside])
        write(folder / "subagents" / "agent-a7.jsonl", turn(5, "found"))
        return {"projects": str(root)}

    @pytest.fixture
    def excluded(self):
        return [f"PLANTED IN {where}" for where in ("PROSE", "REASONING", "A PROMPT", "A REQUEST")]

    @pytest.fixture
    def kept(self):
        return ["README.md", "line 1\nline 2\n", "toolu_1"]


def turn(number, text):
    """A call and its result."""
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "ls"}}
    got = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
    for at, kind, block in ((number, "assistant", use), (number + 1, "user", got)):
        yield record(at, kind, [block])


def record(at, kind, content):
    return {
        "type": kind,
        "uuid": f"u-{at}",
        "parentUuid": f"u-{at - 1}",
        "sessionId": "s-1",
        "timestamp": f"2026-11-30T03:00:0{at}.000Z",
        "message": {"role": kind, "content": content},
    }


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


class TestClaudeTraces(TraceSuite):
    plugin = "claude"

    @pytest.fixture
    def traces(self):
        return os.path.join(HERE, "recordings", "projects")
