from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from yarp.plugin import DataError, StorageError
from yarp.testing.files import lay, tree
from yarp_codex.install import health, install, probe, sandbox, uninstall

FOREIGN = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}
COMMENTS = b'{\n  // mine\n  "hooks": {}\n}\n'
SETTINGS = b'# mine\r\nmodel   = "x" # odd\r\n\r\n[tui]\r\n\ttheme = "a"\r\n'


@pytest.fixture
def home(yarp_home, monkeypatch):
    """No Codex on this machine."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return yarp_home


@pytest.fixture
def codex(home, monkeypatch):
    """A Codex on this machine; its settings are there already."""
    programs = home / "bin"
    programs.mkdir()
    program = programs / "codex"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "peer.py"} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_bytes(SETTINGS)
    return home / ".codex"


KEPT = {
    "missing": None,
    "empty": b"",
    "foreign hooks": json.dumps(FOREIGN, indent=2).encode(),
    "odd indentation": b'{\n\t   "hooks" :{\n "PreToolUse":\n[\n\n]  } }',
    "CRLF": json.dumps(FOREIGN, indent=4).replace("\n", "\r\n").encode(),
    "a symlink": json.dumps(FOREIGN).encode(),
}
REFUSED = {
    "comments": (COMMENTS, DataError, "line 2, column 3"),
    "read-only": (b"{}", StorageError, "read-only"),
    "invalid": (b'{"hooks": [', DataError, "line 1, column 12"),
    "a folder": (None, StorageError, "is a directory"),
}


def laid(home, kind, content):
    path = home / ".codex" / "hooks.json"
    lay(str(path), kind, content)
    return path


@pytest.mark.parametrize("kind", KEPT)
def test_installing_and_uninstalling_leaves_every_byte(home, kind):
    path = laid(home, kind, KEPT[kind])
    before = tree(home)
    assert install("user", True, None)
    assert tree(home) == before
    lines = install("user", False, None)
    assert any("/hooks" in line for line in lines), "nobody could be asked to trust them"
    found = json.loads(path.read_text())
    assert set(found["hooks"]) >= {
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SubagentStop",
        "SessionEnd",
    }
    assert health(None).hooked_in is True
    assert uninstall("user", False, None)
    assert tree(home) == before


@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_codex_could_not_read_or_we_not_write_is_refused(home, kind):
    content, error, said = REFUSED[kind]
    laid(home, kind, content)
    before = tree(home)
    for dry_run in (True, False):
        with pytest.raises(error, match=said):
            install("user", dry_run, None)
    assert tree(home) == before


def test_each_hook_starts_this_yarp_and_the_one_before_a_call_says_so(home):
    install("user", False, None)
    found = json.loads((home / ".codex" / "hooks.json").read_text())
    for event, ((group,), limit) in {
        "PreToolUse": (found["hooks"]["PreToolUse"], 30), "SessionEnd": (found["hooks"]["SessionEnd"], 3),
    }.items():  # fmt: skip
        assert set(group) == {"hooks"}, "no matcher: calls of every tool are kept"
        (hook,) = group["hooks"]
        assert set(hook) == {"type", "command", "timeout"}
        assert hook["timeout"] == limit
        program, *words = hook["command"].split()
        assert os.access(program, os.X_OK)
        assert words[-1] == "codex"
        assert ("--before" in words) is (event == "PreToolUse")


def test_codex_is_asked_to_trust_the_hooks_and_gets_its_settings_back(codex, home):
    (codex / "hooks.json").write_text(json.dumps(FOREIGN))
    before = tree(home)
    said = install("user", True, None)
    assert any("would have Codex trust" in line for line in said)
    assert tree(home) == before
    install("user", False, None)
    found = health(None)
    assert (found.installed, found.hooked_in, found.version, found.notes) == (
        True,
        True,
        "0.171.0",
        (),
    )
    assert install("user", False, None) == []
    uninstall("user", False, None)
    assert tree(home) == before
    assert health(None).hooked_in is False


@pytest.mark.parametrize("dry_run", [True, False])
def test_settings_that_are_read_only_refuse_the_whole_installation(codex, home, dry_run):
    (codex / "config.toml").chmod(0o444)
    before = tree(home)
    with pytest.raises(StorageError, match=r"config\.toml is read-only"):
        install("user", dry_run, None)
    assert tree(home) == before


def test_settings_that_codex_cannot_read_leave_the_trust_to_the_user(codex, monkeypatch):
    (codex / "config.toml").write_text("not = = toml")
    lines = install("user", False, None)
    assert any("could not be asked" in line for line in lines)
    uninstall("user", False, None)
    assert (codex / "config.toml").read_text() == "not = = toml"


def test_settings_that_were_edited_since_lose_our_trust_alone(codex):
    install("user", False, None)
    with (codex / "config.toml").open("a") as file:
        file.write(
            '\n[hooks.state."/elsewhere:stop:0:0"]\ntrusted_hash = "theirs"\n\n[notice]\nx = 1 # kept\n'
        )
    said = uninstall("user", False, None)
    assert any("config.toml" in line for line in said)
    left = (codex / "config.toml").read_text()
    assert "hooks.json" not in left
    assert 'trusted_hash = "theirs"' in left
    assert "x = 1 # kept" in left
    assert "# odd" in left


def test_the_link_to_the_settings_stays_a_link(codex, home):
    (codex / "config.toml").rename(home / "config.toml")
    (codex / "config.toml").symlink_to(home / "config.toml")
    install("user", False, None)
    uninstall("user", False, None)
    assert (codex / "config.toml").is_symlink()
    assert (home / "config.toml").read_bytes() == SETTINGS


def test_hooks_that_move_up_when_ours_go_stay_trusted(codex):
    install("user", False, None)
    path = codex / "hooks.json"
    hooks = json.loads(path.read_text())
    hooks["hooks"]["PreToolUse"].append(FOREIGN["hooks"]["PreToolUse"][0])
    path.write_text(json.dumps(hooks))
    from yarp_codex.appserver import AppServer

    with AppServer("codex", str(codex)) as server:
        server.trust([hook for hook in server.hooks() if hook["command"] == "true"])
    uninstall("user", False, None)
    with AppServer("codex", str(codex)) as server:
        (left,) = server.hooks()
    assert (left["command"], left["trustStatus"]) == ("true", "trusted")


def test_a_hook_before_ours_is_seen_as_lost_trust_and_installing_again_heals_it(codex):
    install("user", False, None)
    path = codex / "hooks.json"
    hooks = json.loads(path.read_text())
    hooks["hooks"]["PreToolUse"].insert(0, FOREIGN["hooks"]["PreToolUse"][0])
    path.write_text(json.dumps(hooks))
    found = health(None)
    assert found.hooked_in is False
    assert "nobody trusts" in found.notes[0]
    assert any("trust" in line for line in install("user", False, None))
    assert health(None).hooked_in is True


@pytest.mark.parametrize(("mode", "said"), [
    ("old", "could not be asked"), ("refuses", "could not be asked"), ("forgets", "until you trust them"),
])  # fmt: skip
def test_a_codex_that_does_not_trust_them_leaves_it_to_the_user(codex, monkeypatch, mode, said):
    monkeypatch.setenv("PEER_MODE", mode)
    lines = install("user", False, None)
    assert any(said in line and "/hooks" in line for line in lines)
    assert (codex / "config.toml").read_bytes() == SETTINGS
    found = health(None)
    assert found.hooked_in is False
    assert len(found.notes) == 1
    uninstall("user", False, None)
    assert (codex / "config.toml").read_bytes() == SETTINGS
    assert not (codex / "hooks.json").exists()


def test_a_projects_hooks_count_once_codex_trusts_the_project(codex, home):
    project = home / "project"
    project.mkdir()
    lines = install("project", False, str(project))
    assert any("trusted?" in line for line in lines)
    assert (project / ".codex" / "hooks.json").exists()
    assert health(str(project)).hooked_in is False
    with (codex / "config.toml").open("a") as file:
        file.write(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    assert any("had Codex trust" in line for line in install("project", False, str(project)))
    assert health(str(project)).hooked_in is True
    uninstall("project", False, str(project))
    assert not (project / ".codex").exists()
    assert "trusted_hash" not in (codex / "config.toml").read_text()


def test_with_consent_the_archives_folder_becomes_a_writable_root_and_goes_again(codex, home):
    lines = install("user", False, None)
    assert any("hosts.codex.sandbox" in line for line in lines)
    folder = home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\n[hosts.codex]\nsandbox = true\n")
    root = str(home / "data" / "yarp")
    assert any("would make" in line for line in install("user", True, None))
    assert root not in (codex / "config.toml").read_text()
    assert any(f"made {root}" in line for line in install("user", False, None))
    assert f'writable_roots = ["{root}"]' in (codex / "config.toml").read_text()
    assert stat.S_IMODE(os.stat(root).st_mode) == 0o700
    assert install("user", False, None) == []
    uninstall("user", False, None)
    assert (codex / "config.toml").read_bytes() == SETTINGS


def test_a_root_of_the_users_own_stays(codex, home):
    with (codex / "config.toml").open("a") as file:
        file.write('[sandbox_workspace_write]\nwritable_roots = ["/srv"]\n')
    folder = home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\n[hosts.codex]\nsandbox = true\n")
    install("user", False, None)
    with (codex / "config.toml").open("a") as file:
        file.write("network_access = true\n")
    uninstall("user", False, None)
    assert 'writable_roots = ["/srv"]' in (codex / "config.toml").read_text()


def test_the_hooks_as_they_are_configured_can_be_tried(home):
    assert probe(None) == []
    install("user", False, None)
    install("project", False, str(home / "project"))
    found = probe(str(home / "project"))
    assert [one.where for one in found] == [
        str(home / ".codex" / "hooks.json"), str(home / "project" / ".codex" / "hooks.json"),
    ]  # fmt: skip
    for one in found:
        data = json.dumps(one.event).encode()
        done = subprocess.run(one.words, input=data, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (0, b"")
    (home / ".codex" / "hooks.json").write_text("{")
    assert len(probe(str(home / "project"))) == 1


def test_the_sandbox_is_entered_only_where_the_user_wants_commands_wrapped_there(codex, home):
    assert sandbox(None) is None
    folder = home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\n[hosts.codex]\nsandbox = true\n")
    assert sandbox(None)[1] == "sandbox"
