from __future__ import annotations

import pytest

from yarp.testing.host import HostSuite


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
