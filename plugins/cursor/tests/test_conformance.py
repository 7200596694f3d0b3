from __future__ import annotations

import importlib.util
import json
from functools import partial
from pathlib import Path

import pytest

from yarp.testing.host import HostSuite
from yarp.testing.importer import ImporterSuite
from yarp.testing.trace import TraceSuite


class TestCursor(HostSuite):
    plugin = "cursor"

    @pytest.fixture
    def exchange(self):
        call = {
            "conversation_id": "5f2c8c0e-0f64-4d8b-9d59-0a4fd1f6c2aa",
            "generation_id": "b7f5a0d2-6f0c-4c59-8f0b-3a2f0b1c7d11",
            "session_id": "5f2c8c0e-0f64-4d8b-9d59-0a4fd1f6c2aa",
            "model": "composer-2",
            "cursor_version": "2026.09.18-0123abc",
            "workspace_roots": ["/srv/demo"],
            "user_email": "someone@example.org",
            "transcript_path": None,
            "tool_name": "Shell",
            "tool_input": {"command": "echo one"},
            "tool_use_id": "call-1\nfc_1",
            "cwd": "/srv/demo",
        }
        output = '{"output":"one\\n","exitCode":0}'
        return [
            {**call, "hook_event_name": "preToolUse", "agent_message": ""},
            {**call, "hook_event_name": "postToolUse", "tool_output": output, "duration": 12},
        ]


def module(name):
    """A module that stands beside this one."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"yarp_cursor_conformance_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


class TestCursorImporter(ImporterSuite):
    plugin = "cursor"

    @pytest.fixture
    def roots(self, tmp_path):
        stores = module("stores")
        roots = {flag: str(tmp_path / flag) for flag in ("chats", "acp-sessions", "projects")}
        for flag in ("chats", "acp-sessions"):
            store = stores.Store(flag)
            # Metadata are JSON, or its hexadecimal text: the key of blobs stands in both.
            if flag == "chats":
                store.meta_value = partial(json.dumps, store.meta)
            prompt = {"role": "user", "content": [{"type": "text", "text": "PLANTED IN A PROMPT"}]}
            said = {"type": "text", "text": "PLANTED IN PROSE"}
            thought = {"type": "reasoning", "text": "PLANTED IN REASONING"}
            system = store.json({"role": "system", "content": "PLANTED IN INSTRUCTIONS"})
            message = store.assistant(thought, said, stores.call("c1"))
            answer = store.tool(stores.result("c1", "notes.txt"))
            store.json({"request": "PLANTED IN A REQUEST"})
            store.blob(b"PLANTED IN A BLOB")
            store.root(system, store.json(prompt), message, answer, turns=[store.turn("c1")])
            store.write(f"{roots[flag]}/bucket/{flag}/store.db", in_log=1)
        stores.transcript(
            f"{roots['projects']}/demo/agent-transcripts/chats.jsonl", ("Shell", {"command": "ls"})
        )
        return roots

    @pytest.fixture
    def excluded(self):
        places = ("A PROMPT", "PROSE", "REASONING", "INSTRUCTIONS", "A REQUEST", "A BLOB")
        secret = "cGxhbnRlZC1ibG9iLWtleQ=="  # of stores.py
        beside = ["planted-title", "planted-prompt", "planted-prose"]
        return [secret, secret.encode().hex(), *beside, *(f"PLANTED IN {one}" for one in places)]

    @pytest.fixture
    def kept(self):
        return ["notes.txt", "c1", '{"command":"ls"}']


class TestCursorTraces(TraceSuite):
    plugin = "cursor"

    @pytest.fixture
    def traces(self, tmp_path):
        return module("transcripts").store(tmp_path / "projects")
