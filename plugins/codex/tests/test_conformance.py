from __future__ import annotations

import json

import pytest

from yarp.testing.host import HostSuite
from yarp.testing.importer import ImporterSuite


class TestCodex(HostSuite):
    plugin = "codex"

    @pytest.fixture
    def prepared_home(self, yarp_home, monkeypatch):
        # A Codex that is asked for trust keeps logs of its own in this home.
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.delenv("CODEX_HOME", raising=False)
        return yarp_home

    @pytest.fixture
    def exchange(self):
        call = {
            "session_id": "01a229cd-332c-7083-b828-0adc2e93fa2a",
            "turn_id": "01a229cd-3339-7df1-8c54-53b3cf258ea7",
            "transcript_path": "/srv/demo/.codex/sessions/2026/11/30/rollout.jsonl",
            "cwd": "/srv/demo",
            "model": "gpt-5.5",
            "permission_mode": "bypassPermissions",
            "tool_name": "Bash",
            "tool_input": {"command": "echo one"},
            "tool_use_id": "call_1",
        }
        return [
            {**call, "hook_event_name": "PreToolUse"},
            {**call, "hook_event_name": "PostToolUse", "tool_response": "one\n"},
        ]


class TestCodexImporter(ImporterSuite):
    plugin = "codex"

    @pytest.fixture
    def roots(self, tmp_path):
        lines = [
            ("session_meta", {"id": "one", "timestamp": "2026-09-21T14:13:00.000Z", "cwd": "/srv"}),
            (
                "response_item",
                {
                    "type": "function_call",
                    "name": "exec_command",
                    "arguments": '{"cmd":"ls"}',
                    "call_id": "call_1",
                },
            ),
            (
                "response_item",
                {"type": "function_call_output", "call_id": "call_1", "output": "notes.txt\n"},
            ),
        ]
        (tmp_path / "sessions").mkdir()
        with (tmp_path / "sessions" / "rollout-one.jsonl").open("w") as file:
            for number, (kind, payload) in enumerate(lines):
                stamp = f"2026-09-21T14:13:00.{number:03}Z"
                file.write(
                    json.dumps({"timestamp": stamp, "type": kind, "payload": payload}) + "\n"
                )
        return {"sessions": str(tmp_path / "sessions")}
