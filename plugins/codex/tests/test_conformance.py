from __future__ import annotations

import importlib.util
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from yarp.testing.host import HostSuite
from yarp.testing.importer import ImporterSuite
from yarp.testing.trace import TraceSuite


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
        made = rollouts()
        prompt = {"text": "PLANTED IN A PROMPT"}
        rollout = made.Rollout(base_instructions=prompt, git={"branch": "PLANTED IN SETTINGS"})
        rollout.turn().add("turn_context", {"model": "m", "user_instructions": prompt["text"]})
        rollout.item("message", role="user", content=[{"type": "input_text", **prompt}])
        rollout.event("user_message", message=prompt["text"])
        thought = [{"type": "summary_text", "text": "PLANTED IN REASONING"}]
        rollout.item("reasoning", summary=thought, encrypted_content="PLANTED IN CIPHERTEXT")
        rollout.call("call_1").ran("call_1", "ls", "notes.txt\n")
        rollout.output("call_1", made.envelope("notes.txt\n"))
        said = [{"type": "Text", "text": "PLANTED IN PROSE"}]
        rollout.happened("AgentMessage", "m", content=said)
        rollout.event("agent_message", message="PLANTED IN PROSE")
        rollout.add("compacted", {"message": "PLANTED IN A SUMMARY"})
        rollout.add("world_state", {"x": "PLANTED IN SETTINGS"})
        path = rollout.write(tmp_path / "sessions")
        state = tmp_path / "state_5.sqlite"
        columns = "id TEXT PRIMARY KEY, rollout_path TEXT, created_at INTEGER, title TEXT"
        with closing(sqlite3.connect(state, isolation_level=None)) as connection:
            connection.execute(f"CREATE TABLE threads ({columns}, first_user_message TEXT)")
            row = (made.THREAD, str(path), 0, "PLANTED IN A TITLE", prompt["text"])
            connection.execute("INSERT INTO threads VALUES (?, ?, ?, ?, ?)", row)
            connection.execute("CREATE TABLE logs (message TEXT)")
            connection.execute("INSERT INTO logs VALUES ('PLANTED IN A LOG')")
        return {"sessions": str(tmp_path / "sessions"), "state-db": str(state)}

    @pytest.fixture
    def excluded(self):
        places = ("A PROMPT", "PROSE", "REASONING", "CIPHERTEXT", "SETTINGS", "A SUMMARY")
        return [f"PLANTED IN {place}" for place in (*places, "A TITLE", "A LOG")]

    @pytest.fixture
    def kept(self):
        return ["notes.txt", "call_1", '{"cmd":"ls"}']


def rollouts():
    """The module that puts rollouts together."""
    path = Path(__file__).with_name("rollout.py")
    spec = importlib.util.spec_from_file_location("yarp_codex_conformance_rollout", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class TestCodexTraces(TraceSuite):
    plugin = "codex"

    @pytest.fixture
    def traces(self, tmp_path):
        made = rollouts()
        usage = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), 5)
        text = [{"type": "text", "text": "please run the tests"}]
        new = made.Rollout(ordinals=True).turn()
        new.item("message", role="developer", content=[{"type": "input_text", "text": "Be kind."}])
        new.item("message", role="user", content=[{"type": "input_text", "text": text[0]["text"]}])
        new.happened("UserMessage", "u", content=text)
        new.item("reasoning", summary=[{"type": "summary_text", "text": "Tests first."}])
        new.script("call_1", "await tools.exec_command({cmd: 'ls'})").ran("exec-1", "ls", "a\n")
        new.output("call_1", [{"type": "input_text", "text": "Script completed\nWall time 1 s"}])
        new.call("call_2").ran("call_2", "ls", "a\n", 2).output("call_2", made.envelope("a\n", 2))
        new.call("call_3", "spawn_agent", '{"message":"go"}').output("call_3", '{"agent_id":"a"}')
        new.item("web_search_call", action={"query": "yarp"}).event("error", message="it broke")
        new.add("token_usage_record", {"turn_id": "t1", "turn_token_usage": usage})
        new.happened("AgentMessage", "m", content=[{"type": "Text", "text": "All is well."}])
        new.item("message", role="assistant", content=[{"type": "t", "text": "All is well."}])
        new.event("task_complete", turn_id="t1", last_agent_message="All is well.")
        old = made.Rollout("old", forked_from_id=made.THREAD)
        for number in range(2):
            content = [{"type": "input_text", "text": f"request number {number}"}]
            old.item("message", role="user", content=content)
            old.event("user_message", message=f"request number {number}", images=[])
            old.add("turn_context", {"model": "gpt-5", "cwd": "/srv"})
            old.call(f"call_{number}", "shell", '{"command":["bash","-lc","ls"]}')
            old.output(f"call_{number}", '{"output":"a","metadata":{"exit_code":1}}')
            end = {"command": ["ls"], "aggregated_output": "a", "exit_code": 1}
            old.event("exec_command_end", call_id=f"call_{number}", **end)
            old.event("token_count", info={"total_token_usage": usage, "last_token_usage": usage})
            old.event("agent_message", message=f"answer {number}")
        new.write(tmp_path / "sessions")
        old.write(tmp_path / "sessions")
        return str(tmp_path / "sessions")
