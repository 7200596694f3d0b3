"""The hooks in Claude Code's settings: in, out, and how they stand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import yarp_claude
from yarp.plugin import YarpError
from yarp_claude.install import health, install, probe, uninstall

PLUGIN = Path(yarp_claude.__file__).parent / "plugin"
EVENTS = [
    "SessionStart",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
]
FOREIGN = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}]}}  # fmt: skip


@pytest.fixture
def settings(yarp_home):
    (yarp_home / ".claude").mkdir()
    return yarp_home / ".claude" / "settings.json"


def hooks(path):
    return json.loads(path.read_text())["hooks"]


def commands(path):
    return {
        event: [hook["command"] for group in groups for hook in group["hooks"]]
        for event, groups in hooks(path).items()
    }


def test_the_plugin_folder_has_the_same_hooks(settings):
    install("user", False, None)
    shipped = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    program = commands(settings)["SessionStart"][0].removesuffix(" hook claude")
    assert json.loads(json.dumps(hooks(settings)).replace(program, "yarp")) == shipped
    assert json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())["name"] == "yarp"


def test_every_event_gets_its_hook_and_the_one_before_a_call_says_so(settings):
    install("user", False, None)
    found = commands(settings)
    assert list(found) == EVENTS
    assert all(one.endswith(" hook claude") for event in EVENTS for one in found[event] if event != "PreToolUse")  # fmt: skip
    assert found["PreToolUse"][0].endswith(" hook --before claude")


def test_a_project_has_its_own_file_that_is_not_shared(yarp_home, tmp_path):
    install("project", False, str(tmp_path))
    assert (tmp_path / ".claude" / "settings.local.json").exists()
    assert not (yarp_home / ".claude").exists()
    uninstall("project", False, str(tmp_path))
    assert not (tmp_path / ".claude").exists()


def test_another_directory_of_claude_codes_own_is_respected(yarp_home, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "own"))
    install("user", False, None)
    assert (tmp_path / "own" / "settings.json").exists()


BEFORE = {
    "empty": "",
    "compact": '{"model":"opus"}',
    "foreign": json.dumps(FOREIGN, indent=2) + "\n",
    "odd": '{\n   "hooks":\t{ "PreToolUse" : [ ] },\n\n "env": {"A": "1.0"}}',
    "crlf": '{\r\n  "model": "opus"\r\n}\r\n',
    "ours beside": json.dumps({"hooks": {"Stop": []}, "permissions": {"allow": ["Bash(ls)"]}}),
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_out_again_the_file_has_the_bytes_it_had(settings, before):
    settings.write_bytes(before.encode())
    install("user", False, None)
    assert set(hooks(settings)) >= set(EVENTS)
    uninstall("user", False, None)
    assert settings.read_bytes() == before.encode()


def test_a_file_that_was_not_there_is_gone_again(yarp_home):
    install("user", False, None)
    uninstall("user", False, None)
    assert not (yarp_home / ".claude").exists()


def test_a_link_into_a_dotfiles_folder_stays_a_link(settings, tmp_path):
    (tmp_path / "dotfiles.json").write_text('{"model": "opus"}')
    settings.symlink_to(tmp_path / "dotfiles.json")
    install("user", False, None)
    assert settings.is_symlink()
    uninstall("user", False, None)
    assert (tmp_path / "dotfiles.json").read_text() == '{"model": "opus"}'


@pytest.mark.parametrize("odd", ["invalid", "comments", "folder", "read-only"])
def test_a_file_that_cannot_be_used_is_refused_with_a_reason(settings, odd):
    if odd == "folder":
        settings.mkdir()
    else:
        # Claude Code itself reads no comments, and then none of the file.
        texts = {"invalid": '{"model": ', "comments": "// mine\n{}"}
        settings.write_text(texts.get(odd, "{}"))
        settings.chmod(0o400 if odd == "read-only" else 0o600)
    with pytest.raises(YarpError, match=r"settings\.json"):
        install("user", False, None)
    health(None)


def test_foreign_hooks_stay_where_they_are(settings):
    settings.write_text(json.dumps(FOREIGN))
    install("user", False, None)
    assert hooks(settings)["PreToolUse"][0] == FOREIGN["hooks"]["PreToolUse"][0]
    assert len(hooks(settings)["PreToolUse"]) == 2


def test_it_stands_where_all_is_in_place(settings):
    assert health(None).hooked_in is False
    install("user", False, None)
    found = health(None)
    assert (found.hooked_in, found.notes) == (True, ())


def test_hooks_of_another_yarp_are_told(settings):
    install("user", False, None)
    settings.write_text(settings.read_text().replace("/yarp hook", "/gone/yarp hook"))
    (note,) = health(None).notes
    assert "another YARP; run: yarp install claude" in note


@pytest.mark.parametrize("scope", ["user", "project"])
def test_hooks_that_are_switched_off_are_told(settings, tmp_path, scope):
    install("user", False, None)
    if scope == "user":
        settings.write_text(settings.read_text()[:-1].rstrip().rstrip("}") + ',"disableAllHooks": true}')  # fmt: skip
    else:
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    found = health(str(tmp_path))
    assert found.hooked_in is False
    assert "disableAllHooks" in found.notes[0]


def test_the_version_is_read_beside_the_program(settings, tmp_path, monkeypatch):
    package = tmp_path / "node_modules" / "@anthropic-ai" / "claude-code"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(
        '{"name": "@anthropic-ai/claude-code", "version": "2.1.332"}'
    )
    program = package / "bin" / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert health(None).version == "2.1.332"
    native = tmp_path / "share" / "claude" / "versions" / "2.1.400"
    native.parent.mkdir(parents=True)
    os.replace(program, native)
    (tmp_path / "bin" / "claude").unlink()
    (tmp_path / "bin" / "claude").symlink_to(native)
    assert health(None).version == "2.1.400"


def test_when_a_tool_was_last_called_is_read_from_the_newest_transcript(settings):
    assert health(None).last_call_ms is None
    folder = settings.parent / "projects" / "-shop"
    (folder / "s1" / "subagents").mkdir(parents=True)
    called = {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t1"}]}}
    lines = [
        {**called, "timestamp": "2026-01-02T03:04:05.678Z"},
        {"type": "user", "timestamp": "2026-01-02T09:00:00.000Z", "message": "about tool_use"},
    ]
    newest = folder / "s1" / "subagents" / "agent-a1.jsonl"
    newest.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type": "tool_use"')
    (folder / "s1.jsonl").write_text("")
    os.utime(folder / "s1.jsonl", (1, 1))
    assert health(None).last_call_ms == 1767323045678


def test_the_hook_before_a_call_can_be_tried_as_claude_code_starts_it(settings):
    assert probe(None) == []
    install("user", False, None)
    (found,) = probe(None)
    assert found.where == str(settings)
    assert found.words[:2] == ("/bin/sh", "-c")
    assert found.event["hook_event_name"] == "PreToolUse"


def configure(yarp_home, text):
    (yarp_home / "config" / "yarp").mkdir(parents=True, exist_ok=True)
    (yarp_home / "config" / "yarp" / "config.toml").write_text(f"version = 1\n{text}")


def test_the_sandbox_is_opened_only_with_consent(settings, yarp_home):
    before = '{"sandbox": {"enabled": true}}'
    settings.write_text(before)
    assert any("hosts.claude.sandbox true" in line for line in install("user", False, None))
    assert json.loads(settings.read_text())["sandbox"] == {"enabled": True}
    assert "sandbox" in health(None).notes[0]
    configure(yarp_home, "[hosts.claude]\nsandbox = true\n")
    assert not any("hosts.claude.sandbox" in line for line in install("user", False, None))
    files = json.loads(settings.read_text())["sandbox"]["filesystem"]
    assert files == {"allowWrite": [str(yarp_home / "data" / "yarp")]}
    assert (yarp_home / "data" / "yarp").is_dir()
    assert (health(None).hooked_in, health(None).notes) == (True, ())
    uninstall("user", False, None)
    assert settings.read_text() == before
