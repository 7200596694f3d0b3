from __future__ import annotations

import json
import os
import subprocess

import pytest

from yarp.plugin import DataError, StorageError
from yarp.testing.files import lay, tree
from yarp_cursor.install import health, install, probe, uninstall

FOREIGN = {"version": 1, "hooks": {"preToolUse": [{"command": "lint", "matcher": "Shell"}]}}
KEPT = {
    "missing": None,
    "empty": b"",
    "comments": b'{\n  // mine\n  "version": 1, /* always */\n  "hooks": {}\n}\n',
    "foreign hooks": json.dumps(FOREIGN, indent=2).encode(),
    "odd indentation": b'{\n\t   "hooks" :{\n "preToolUse":\n[\n\n]  } }',
    "a symlink": json.dumps(FOREIGN).encode(),
    "CRLF": json.dumps(FOREIGN, indent=4).replace("\n", "\r\n").encode(),
}
REFUSED = {
    "read-only": (b"{}", StorageError, "read-only"),
    "invalid": (b'{"hooks": [', DataError, "line 1, column 12"),
    "a folder": (None, StorageError, "is a directory"),
    "another version": (b'{"version": 2}', DataError, "version should be 1"),
}


@pytest.fixture
def home(yarp_home, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return yarp_home


def laid(home, kind, content):
    path = home / ".cursor" / "hooks.json"
    lay(str(path), kind, content)
    return path


@pytest.mark.parametrize("kind", KEPT)
def test_installing_and_uninstalling_leaves_every_byte(home, kind):
    path = laid(home, kind, KEPT[kind])
    before = tree(home)
    assert install("user", True, None)
    assert tree(home) == before
    lines = install("user", False, None)
    found = health(None)
    # Cursor itself refuses to read a link.
    assert found.hooked_in is (kind != "a symlink")
    assert any("symbolic link" in line for line in lines) is (kind == "a symlink")
    if kind != "comments":
        assert set(json.loads(path.read_text())["hooks"]) == {
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
        }
    assert uninstall("user", False, None)
    assert tree(home) == before


@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_cannot_take_it_is_refused(home, kind):
    content, error, said = REFUSED[kind]
    laid(home, kind, content)
    before = tree(home)
    for dry_run in (True, False):
        with pytest.raises(error, match=said):
            install("user", dry_run, None)
    assert tree(home) == before
    assert health(None).hooked_in is False


def test_the_entries_are_flat_start_this_yarp_and_do_not_fail_closed(home):
    install("project", False, str(home / "project"))
    found = json.loads((home / "project" / ".cursor" / "hooks.json").read_text())
    assert found["version"] == 1
    for event, hooks in found["hooks"].items():
        (hook,) = hooks
        # A YARP that is gone must not keep every tool from running: no failClosed.
        assert set(hook) == {"command", "type", "timeout"}
        assert "//" not in hook["command"], "it would be taken for a comment"
        program, *words = hook["command"].split()
        assert os.access(program, os.X_OK)
        assert words[-1] == "cursor"
        assert ("--before" in words) is (event == "preToolUse")
    assert health(str(home / "project")).hooked_in is True


def test_the_users_own_hooks_stay_when_the_file_was_edited_since(home):
    path = laid(home, "foreign hooks", KEPT["foreign hooks"])
    install("user", False, None)
    edited = json.loads(path.read_text())
    edited["hooks"]["stop"] = [{"command": "notify"}]
    path.write_text(json.dumps(edited))
    uninstall("user", False, None)
    assert json.loads(path.read_text()) == {
        "version": 1, "hooks": {**FOREIGN["hooks"], "stop": [{"command": "notify"}]},
    }  # fmt: skip


def test_the_version_is_read_from_where_the_program_lies(home, monkeypatch):
    program = home / "versions" / "2026.09.18-0123abc" / "cursor-agent"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (home / "bin").mkdir()
    (home / "bin" / "cursor-agent").symlink_to(program)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    found = health(None)
    assert (found.installed, found.version, found.hooked_in) == (True, "2026.09.18-0123abc", False)


def test_the_hooks_as_they_are_configured_can_be_tried(home):
    assert probe(None) == []
    install("user", False, None)
    (found,) = probe(None)
    assert found.where == str(home / ".cursor" / "hooks.json")
    data = json.dumps(found.event).encode()
    done = subprocess.run(found.words, input=data, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"{}")
