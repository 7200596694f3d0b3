from __future__ import annotations

import json
import os

import pytest

from yarp.errors import DataError, StorageError
from yarp_pi.install import health, install, uninstall


@pytest.fixture
def home(yarp_home, monkeypatch):
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)
    monkeypatch.chdir(yarp_home)
    return yarp_home


@pytest.fixture
def target(home):
    return home / ".pi" / "agent" / "extensions" / "yarp"


def tree(root):
    return {
        os.path.relpath(os.path.join(directory, name), root)
        for directory, folders, files in os.walk(root)
        for name in folders + files
    }


def test_the_extension_lands_where_pi_looks(home, target):
    lines = install("user", False, None)
    assert (target / "index.ts").is_file()
    record = json.loads((target / "yarp.json").read_text())
    assert os.path.isabs(record["program"][0])
    assert f"wrote {target / 'index.ts'}" in lines
    assert "secrets" in lines[-1]
    assert health(None).hooked_in is True
    assert install("user", False, None) == []


def test_uninstalling_leaves_the_tree_as_it_was(home, target):
    (home / ".pi").mkdir()
    before = tree(home)
    install("user", False, None)
    uninstall("user", False, None)
    assert tree(home) == before
    assert uninstall("user", False, None) == []


def test_a_dry_run_names_the_same_files_and_changes_nothing(home):
    would = install("user", True, None)
    assert tree(home) == set()
    did = install("user", False, None)
    assert [line.split()[-1] for line in would] == [line.split()[-1] for line in did]
    before = tree(home)
    assert any(line.startswith("would remove") for line in uninstall("user", True, None))
    assert tree(home) == before


def test_pis_own_directory_can_lie_elsewhere(home, monkeypatch):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", "~/elsewhere")
    install("user", False, None)
    assert (home / "elsewhere" / "extensions" / "yarp" / "index.ts").is_file()


def test_a_project_gets_its_own_and_is_told_of_trust(home):
    project = home / "project"
    project.mkdir()
    lines = install("project", False, str(project))
    assert (project / ".pi" / "extensions" / "yarp" / "index.ts").is_file()
    assert any("trusted" in line for line in lines)
    assert health(str(project)).hooked_in is True
    assert health(None).hooked_in is False


def test_other_extensions_are_kept(home, target):
    other = target.parent / "other.ts"
    other.parent.mkdir(parents=True)
    other.write_text("export default function () {}\n")
    install("user", False, None)
    (target / "mine.md").write_text("notes\n")
    uninstall("user", False, None)
    assert other.is_file()
    assert sorted(os.listdir(target)) == ["mine.md"]


def test_an_edited_file_is_kept_as_a_backup(home, target):
    install("user", False, None)
    (target / "index.ts").write_text("// edited\n")
    assert health(None).hooked_in is False
    assert "index.ts" in health(None).notes[0]
    lines = install("user", False, None)
    assert any(line.endswith("index.ts.backup") for line in lines)
    assert (target / "index.ts.backup").read_text() == "// edited\n"
    assert health(None).hooked_in is True
    (target / "capture.ts").write_text("// edited\n")
    uninstall("user", False, None)
    assert sorted(os.listdir(target)) == ["capture.ts.backup", "index.ts.backup"]


def test_an_older_extension_is_brought_up_to_date_without_backups(home, target):
    install("user", False, None)
    record = json.loads((target / "yarp.json").read_text())
    digest = record["files"].pop("result.ts")
    (target / "result.ts").rename(target / "old.ts")
    record["files"]["old.ts"] = digest
    (target / "yarp.json").write_text(json.dumps(record))
    assert "another version" in health(None).notes[0]
    install("user", False, None)
    assert not (target / "old.ts").exists()
    assert (target / "result.ts").exists()
    assert not [name for name in os.listdir(target) if "backup" in name]


def test_backups_and_notes_do_not_stand_in_the_way_of_installing_again(home, target):
    install("user", False, None)
    (target / "index.ts").write_text("// mine\n")
    (target / "notes.md").write_text("mine\n")
    install("user", False, None)
    for _ in range(2):
        uninstall("user", False, None)
        assert sorted(os.listdir(target)) == ["index.ts.backup", "notes.md"]
        install("user", False, None)
        assert health(None).hooked_in is True
    (target / "index.ts").write_text("// mine again\n")
    uninstall("user", False, None)
    assert (target / "index.ts.backup").read_text() == "// mine\n"
    assert (target / "index.ts.backup2").read_text() == "// mine again\n"


@pytest.mark.parametrize("edited", [False, True])
def test_a_dry_run_of_uninstalling_says_exactly_what_happens(home, target, edited):
    install("user", False, None)
    if edited:
        (target / "index.ts").write_text("// mine\n")
    would = uninstall("user", True, None)
    did = uninstall("user", False, None)
    said = [line.replace("would remove ", "removed ") for line in would]
    assert [line.replace("would keep ", "kept ") for line in said] == did
    gone = f"removed {target.parent.parent}" in did
    assert gone is not edited


def test_pis_own_directory_stays_even_if_installing_made_it(home, monkeypatch):
    install("user", False, None)
    uninstall("user", False, None)
    assert tree(home) == {".pi"}
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(home / "own"))
    install("user", False, None)
    uninstall("user", False, None)
    assert tree(home) == {".pi", "own"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_fails_where_the_change_would(home, target, dry_run):
    (home / ".pi").write_text("a file\n")
    with pytest.raises(StorageError, match="is not a directory"):
        install("user", dry_run, None)
    (home / ".pi").unlink()
    (home / ".pi").symlink_to("/nonexistent/there")
    with pytest.raises(StorageError, match="is not a directory"):
        install("user", dry_run, None)
    (home / ".pi").unlink()
    install("user", False, None)
    (target / "index.ts").unlink()
    (target / "index.ts").mkdir()
    with pytest.raises(StorageError, match="is a directory"):
        install("user", dry_run, None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_directory_that_cannot_be_written_fails_a_dry_run_too(home, target, dry_run):
    home.chmod(0o500)
    with pytest.raises(StorageError, match="not writable"):
        install("user", dry_run, None)
    home.chmod(0o700)
    install("user", False, None)
    target.chmod(0o500)
    with pytest.raises(StorageError, match="not writable"):
        uninstall("user", dry_run, None)
    target.chmod(0o700)


@pytest.mark.parametrize(
    "record",
    [
        "{",
        "[]",
        '{"writtenBy": "somebody"}',
        '{"writtenBy": "yarp install pi", "program": [], "files": {}, "created": []}',
        '{"writtenBy": "yarp install pi", "program": ["/x"], "files": {"../x": ""}, "created": []}',
    ],
)
def test_a_record_that_is_not_ours_is_refused(home, target, record):
    target.mkdir(parents=True)
    (target / "yarp.json").write_text(record)
    for change in (install, uninstall):
        with pytest.raises(DataError):
            change("user", False, None)
    assert (target / "yarp.json").read_text() == record
    assert health(None).hooked_in is False
    assert health(None).notes


def test_a_directory_or_link_of_somebody_else_is_refused(home, target):
    target.mkdir(parents=True)
    (target / "index.ts").write_text("theirs\n")
    with pytest.raises(DataError):
        install("user", False, None)
    assert (target / "index.ts").read_text() == "theirs\n"
    (target / "index.ts").unlink()
    target.rmdir()
    target.symlink_to(home)
    with pytest.raises(DataError):
        install("user", False, None)


def test_a_program_that_is_gone_is_named(home, target):
    install("user", False, None)
    record = json.loads((target / "yarp.json").read_text())
    record["program"] = ["/nonexistent/yarp"]
    (target / "yarp.json").write_text(json.dumps(record))
    assert "/nonexistent/yarp" in health(None).notes[0]
    install("user", False, None)
    assert health(None).hooked_in is True


def test_the_version_of_pi_comes_from_its_package(home, monkeypatch):
    package = home / "lib" / "node_modules" / "@earendil-works" / "pi-coding-agent"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text(
        '{"name": "@earendil-works/pi-coding-agent", "version": "1.6.0"}'
    )
    cli = package / "dist" / "cli.js"
    cli.write_text("")
    cli.chmod(0o755)
    (home / "bin").mkdir()
    (home / "bin" / "pi").symlink_to(cli)
    monkeypatch.setenv("PATH", str(home / "bin"))
    found = health(None)
    assert (found.installed, found.version) == (True, "1.6.0")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert health(None).installed is False


def test_when_a_tool_was_last_called_is_read_from_the_newest_session(home):
    assert health(None).last_call_ms is None
    folder = home / ".pi" / "agent" / "sessions" / "--home-ada--"
    folder.mkdir(parents=True)
    called = {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "bash"}]}
    lines = [
        {"type": "message", "timestamp": "2026-01-02T03:04:05.678Z", "message": called},
        {"type": "message", "timestamp": "2026-01-02T09:00:00.000Z", "message": {"role": "user"}},
    ]
    (folder / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "old.jsonl").write_text('{"toolCall": 1}\n')
    os.utime(folder / "old.jsonl", (1, 1))
    assert health(None).last_call_ms == 1767323045678
