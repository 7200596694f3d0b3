from __future__ import annotations

import json
import os

import pytest

from yarp.testing.host import HostSuite
from yarp.testing.importer import ImporterSuite
from yarp.testing.trace import TraceSuite

HERE = os.path.dirname(os.path.abspath(__file__))


class TestPi(HostSuite):
    plugin = "pi"


class TestPiImporter(ImporterSuite):
    plugin = "pi"

    @pytest.fixture
    def roots(self, tmp_path):
        root = tmp_path / "sessions"
        use = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls"}}
        thought = {"type": "thinking", "thinking": "PLANTED IN REASONING"}
        got = [{"type": "text", "text": "README.md"}]
        messages = [
            {"role": "user", "content": "PLANTED IN A PROMPT"},
            {"role": "assistant", "content": [thought, use], "provider": "mock", "model": "mock"},
            {"role": "toolResult", "toolCallId": "call_1", "content": got, "isError": False},
        ]
        for session in ("s-1", "s-2"):
            lines = [{"type": "session", "version": 3, "id": session, "cwd": "/srv/demo"}]
            for number, message in enumerate(messages):
                above = f"e-{number - 1}" if number else None
                placed = {"id": f"e-{number}", "parentId": above, "timestamp": "2026-11-29T21:00Z"}
                lines.append({"type": "message", **placed, "message": message})
            path = root / "--srv-demo--" / f"{session}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {"sessions": str(root)}

    @pytest.fixture
    def excluded(self):
        return ["PLANTED IN A PROMPT", "PLANTED IN REASONING"]

    @pytest.fixture
    def kept(self):
        return ["README.md", "call_1"]


class TestPiTraces(TraceSuite):
    plugin = "pi"

    @pytest.fixture
    def traces(self):
        return os.path.join(HERE, "recordings", "sessions")
