"""`yarp hook cursor` as whole processes: what Cursor gets, and what the archive holds."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import pytest

PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")
CALL = {
    "conversation_id": "chat", "model": "composer-2", "cwd": "/srv/demo", "tool_name": "Shell",
    "tool_input": {"command": "git status"}, "tool_use_id": "call-1\nfc_1",
}  # fmt: skip
OUTPUT = '{"output":"clean\\n","exitCode":0}'


class Cursor:
    def __init__(self, home):
        self.home = home
        self.archive = home / "data" / "yarp" / "tool-calls.sqlite3"

    def send(self, kind, *options, **more):
        words = [PROGRAM, "hook", *options, "cursor"]
        asked = json.dumps({**CALL, "hook_event_name": kind, **more})
        done = subprocess.run(words, input=asked, capture_output=True, text=True, check=False)
        assert done.stdout, "an empty answer is a failure"
        return done.returncode, json.loads(done.stdout)

    def calls(self):
        connection = sqlite3.connect(f"file:{self.archive}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        found = [dict(row) for row in connection.execute("SELECT * FROM tool_calls ORDER BY id")]
        connection.close()
        return found


@pytest.fixture
def cursor(yarp_home, monkeypatch):
    monkeypatch.setenv("YARP_PLUGINS", "cursor")
    return Cursor(yarp_home)


def configure(home, text):
    folder = home / "config" / "yarp"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f"version = 1\n{text}")


def test_a_call_is_kept_and_cursor_is_told_nothing(cursor):
    assert cursor.send("preToolUse", "--before") == (0, {})
    assert cursor.send("postToolUse", tool_output=OUTPUT) == (0, {})
    (call,) = cursor.calls()
    assert call["source_call_id"] == "call-1\nfc_1"
    assert (call["status"], call["executed"], call["is_error"]) == ("finished", 1, 0)


def test_a_refused_call_and_a_failed_one_are_kept_as_such(cursor):
    for name, failure in (("a", "permission_denied"), ("b", "error")):
        cursor.send("preToolUse", "--before", tool_use_id=name)
        more = {"error_message": "no", "failure_type": failure, "is_interrupt": False}
        assert cursor.send("postToolUseFailure", tool_use_id=name, **more) == (0, {})
    assert [(call["status"], call["executed"], call["is_error"]) for call in cursor.calls()] == [
        ("finished", 0, 1), ("finished", 1, 1),
    ]  # fmt: skip


def test_where_the_user_says_so_commands_are_wrapped_and_never_approved(cursor):
    configure(cursor.home, '[hosts.cursor]\nwrap = "always"\n')
    status, answer = cursor.send("preToolUse", "--before")
    assert (status, set(answer)) == (0, {"updated_input"})
    assert " run --archive-agent cursor " in answer["updated_input"]["command"]
    status, answer = cursor.send("preToolUse", "--before", tool_use_id="b", tool_input={
        "command": "git status", "is_background": True})  # fmt: skip
    assert answer == {}, "nobody waits for its output"


def test_a_long_mcp_result_is_kept_whole_and_shown_short(cursor):
    text = "".join(f"row {number} of a long table\n" for number in range(4000))
    more = {"tool_name": "MCP:rows", "tool_input": {}, "tool_use_id": "m"}
    cursor.send("preToolUse", "--before", **more)
    result = {"content": [{"type": "text", "text": text}]}
    _, answer = cursor.send("postToolUse", **more, tool_output=json.dumps(result))
    (block,) = answer["updated_mcp_tool_output"]["content"]
    (call,) = cursor.calls()
    assert call["archive_ref"] in block["text"]
    assert len(block["text"]) < 10_000
    words = [PROGRAM, "read", call["archive_ref"], "result_text", "2001:2003"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"row {number} of a long table\n" for number in range(2000, 2003))


def test_a_broken_archive_refuses_the_call_before_and_nothing_after(cursor):
    cursor.archive.parent.mkdir(parents=True, mode=0o700)
    cursor.archive.write_text("this is no database, and long enough to be seen as none of ours")
    cursor.archive.chmod(0o600)
    status, answer = cursor.send("preToolUse", "--before")
    assert (status, answer["permission"]) == (0, "deny")
    assert "could not be archived" in answer["user_message"]
    assert cursor.send("postToolUse", tool_output=OUTPUT) == (0, {})
    assert cursor.send("postToolUseFailure", error_message="no", failure_type="error") == (0, {})
    for kind in (
        "beforeShellExecution",
        "beforeReadFile",
        "beforeSubmitPrompt",
        "sessionStart",
        "stop",
    ):
        assert cursor.send(kind) == (0, {}), kind


def test_a_broken_configuration_lets_tools_run(cursor):
    configure(cursor.home, "nonsense = 1\n")
    assert cursor.send("preToolUse", "--before") == (0, {})
    assert not cursor.archive.exists()
