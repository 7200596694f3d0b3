from __future__ import annotations

import json
import os
import stat

import pytest

from yarp import hostfile
from yarp.errors import DataError, StorageError
from yarp.hostfile import Entry

GROUP = {"matcher": "sh", "hooks": [{"type": "command", "command": "/opt/yarp hook acme"}]}
ENTRIES = (
    Entry(("version",), 1, needed=True),
    Entry(("hooks", "before", "[]"), GROUP),
    Entry(("hooks", "after", "[]"), {"command": "/opt/yarp", "args": ["hook", "acme"]}),
    Entry(("sandbox", "writable", "[]"), "/data/yarp"),
    Entry(("plugins", "yarp@yarp"), True),
)
FOREIGN = {"hooks": {"before": [{"hooks": [{"command": "lint hook acme"}]}]}, "theme": "dark"}
TEXTS = {
    "missing": None,
    "empty": b"",
    "blank": b"\n  \n",
    "no hooks": b"{}",
    "comments": b'{\n  // mine\n  "theme": "dark", /* kept */\n}\n',
    "only a comment": b"// nothing yet\n",
    "foreign hooks": json.dumps(FOREIGN, indent=2).encode(),
    "one line": json.dumps(FOREIGN).encode(),
    "odd indentation": b'{\n\t   "hooks" :{\n "before":\n[\n\n]  },"version":1}',
    "CRLF": json.dumps(FOREIGN, indent=4).replace("\n", "\r\n").encode() + b"\r\n",
    "BOM": b"\xef\xbb\xbf" + json.dumps(FOREIGN).encode(),
}


@pytest.fixture
def path(yarp_home):
    return yarp_home / ".acme" / "hooks.json"


def install(path, entries=ENTRIES, *, dry_run=False):
    return hostfile.install(str(path), entries, host="acme", dry_run=dry_run, comments=True)


def uninstall(path, *, dry_run=False):
    return hostfile.uninstall(str(path), host="acme", dry_run=dry_run, comments=True)


def standing(path, entries=ENTRIES):
    return hostfile.standing(str(path), entries, host="acme", comments=True)


def lay(path, content):
    if content is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)


def tree(home):
    return {
        str(one): os.readlink(one) if one.is_symlink() else one.read_bytes()
        for one in home.rglob("*")
        if one.is_symlink() or one.is_file()
    } | {str(one): None for one in home.rglob("*") if one.is_dir() and ".acme" in str(one)}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_file_gets_its_bytes_back(yarp_home, path, kind):
    lay(path, TEXTS[kind])
    before = tree(yarp_home)
    assert install(path, dry_run=True)
    assert tree(yarp_home) == before
    assert standing(path) is False
    assert install(path)
    assert standing(path) is True
    once = tree(yarp_home)
    assert install(path) == []
    assert tree(yarp_home) == once
    assert uninstall(path, dry_run=True)
    assert tree(yarp_home) == once
    assert uninstall(path)
    assert {one: data for one, data in tree(yarp_home).items() if "/data" not in one} == before
    assert uninstall(path) == []


@pytest.mark.parametrize("kind", TEXTS)
def test_without_a_record_the_marked_entries_still_go(yarp_home, path, kind):
    lay(path, TEXTS[kind])
    marked = [entry for entry in ENTRIES if entry.path[0] in ("hooks", "version")]
    install(path, marked)
    for one in (yarp_home / "data").rglob("*.*"):
        one.unlink()
    assert standing(path, marked) is True
    assert install(path, marked) == []
    assert uninstall(path)
    assert b"/opt/yarp" not in path.read_bytes()
    assert uninstall(path) == []


def test_the_link_into_a_dotfiles_folder_stays_a_link(yarp_home, path):
    dotfiles = yarp_home / "dotfiles"
    dotfiles.mkdir()
    target = dotfiles / "acme.json"
    target.write_bytes(TEXTS["foreign hooks"])
    target.chmod(0o640)
    path.parent.mkdir()
    path.symlink_to(target)
    install(path)
    assert path.is_symlink()
    assert json.loads(target.read_text())["plugins"] == {"yarp@yarp": True}
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    uninstall(path)
    assert path.is_symlink()
    assert target.read_bytes() == TEXTS["foreign hooks"]
    assert os.listdir(dotfiles) == ["acme.json"]


def test_a_link_that_leads_nowhere_gets_its_target_and_loses_it_again(yarp_home, path):
    path.parent.mkdir()
    path.symlink_to(yarp_home / "dotfiles" / "acme.json")
    install(path)
    assert (yarp_home / "dotfiles" / "acme.json").is_file()
    uninstall(path)
    assert path.is_symlink()
    assert not (yarp_home / "dotfiles").exists()


REFUSED = {
    "read-only": (b"{}", "read-only", StorageError),
    "invalid": (b'{"hooks": }', "line 1, column 11", DataError),
    "not UTF-8": (b'{"\xff": 1}', "not UTF-8", DataError),
    "another shape": (b'{"hooks": {"before": {}}}', "hooks.before is no array", DataError),
    "another version": (b'{"version": 2}', "version should be 1", DataError),
    "a key twice": (b'{"hooks": {}, "hooks": {}}', "twice", DataError),
}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_cannot_take_it_is_refused_with_the_reason(yarp_home, path, kind, dry_run):
    content, said, error = REFUSED[kind]
    lay(path, content)
    path.chmod(0o444 if kind == "read-only" else 0o644)
    before = tree(yarp_home)
    with pytest.raises(error, match=said) as refusal:
        install(path, dry_run=dry_run)
    assert str(path) in str(refusal.value)
    assert tree(yarp_home) == before


def test_a_folder_in_its_place_is_refused(yarp_home, path):
    path.mkdir(parents=True)
    for change in (install, uninstall):
        with pytest.raises(StorageError, match="is a directory"):
            change(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(StorageError, match="no regular file"):
        install(path)
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("")
    with pytest.raises(StorageError):
        install(path)


def test_a_file_made_read_only_meanwhile_is_left_and_its_record_kept(path):
    install(path)
    path.chmod(0o444)
    with pytest.raises(StorageError, match="read-only"):
        uninstall(path)
    path.chmod(0o644)
    uninstall(path)
    assert not path.exists()


def test_of_an_edited_file_our_entries_alone_are_removed(path):
    lay(path, TEXTS["foreign hooks"])
    install(path)
    edited = json.loads(path.read_text())
    edited["hooks"]["before"].append({"command": "theirs"})
    edited["hooks"]["after"].insert(0, {"command": "theirs too"})
    edited["sandbox"]["writable"].append("/elsewhere")
    path.write_text(json.dumps(edited, indent=7))
    uninstall(path)
    assert json.loads(path.read_text()) == {
        "hooks": {
            "before": [*FOREIGN["hooks"]["before"], {"command": "theirs"}],
            "after": [{"command": "theirs too"}],
        },
        "theme": "dark",
        "sandbox": {"writable": ["/elsewhere"]},
        "version": 1,
    }


def test_a_file_we_made_stays_with_what_others_put_there_and_needs(path):
    install(path)
    edited = json.loads(path.read_text())
    edited["hooks"]["before"].append({"command": "theirs"})
    path.write_text(json.dumps(edited))
    uninstall(path)
    assert json.loads(path.read_text()) == {
        "version": 1,
        "hooks": {"before": [{"command": "theirs"}]},
    }


def test_a_file_we_made_goes_even_if_it_was_formatted_anew(path):
    install(path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=8))
    uninstall(path)
    assert not path.parent.exists()


def test_a_hook_of_ours_in_somebodys_group_goes_and_the_group_stays(path):
    install(path)
    edited = json.loads(path.read_text())
    edited["hooks"]["before"][0]["hooks"].append({"command": "theirs"})
    path.write_text(json.dumps(edited))
    uninstall(path)
    assert json.loads(path.read_text())["hooks"] == {
        "before": [{"matcher": "sh", "hooks": [{"command": "theirs"}]}]
    }


@pytest.mark.parametrize("edited", [False, True])
def test_another_version_of_our_entries_takes_the_place_of_the_old(path, edited):
    lay(path, TEXTS["foreign hooks"])
    install(path)
    if edited:
        path.write_bytes(path.read_bytes() + b"\n")
    newer = (Entry(("hooks", "before", "[]"), {"command": "/new/yarp hook acme"}),)
    assert standing(path, newer) is None
    install(path, newer)
    assert json.loads(path.read_text()) == {
        "hooks": {"before": [*FOREIGN["hooks"]["before"], newer[0].value]},
        "theme": "dark",
        **({"version": 1} if edited else {}),
    }
    assert standing(path, newer) is True
    uninstall(path)
    if not edited:
        assert path.read_bytes() == TEXTS["foreign hooks"]


def test_a_file_that_changes_while_it_is_changed_is_left(path, monkeypatch):
    lay(path, b"{}")
    remember = hostfile._File.remember

    def edit(self, record, before):
        remember(self, record, before)
        path.write_bytes(b'{"theme": "dark"}')

    monkeypatch.setattr(hostfile._File, "remember", edit)
    with pytest.raises(StorageError, match="changed meanwhile"):
        install(path)
    assert path.read_bytes() == b'{"theme": "dark"}'
    assert os.listdir(path.parent) == ["hooks.json"]


def test_a_full_disk_leaves_the_old_file_whole(path, monkeypatch):
    lay(path, b"{}")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageError, match="No space left"):
        install(path)
    assert path.read_bytes() == b"{}"
    assert os.listdir(path.parent) == ["hooks.json"]


def test_what_is_kept_of_the_file_is_private(yarp_home, path):
    lay(path, b'{"token": "secret"}')
    assert "kept a copy of" in install(path)[0]
    kept = list((yarp_home / "data" / "yarp" / "hosts" / "acme").iterdir())
    assert len(kept) == 2
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in kept)
    assert any(one.read_bytes() == b'{"token": "secret"}' for one in kept)


def test_the_hooks_of_ours_in_a_file_are_found_by_what_they_start(path):
    assert hostfile.commands(str(path), host="acme") == []
    lay(path, TEXTS["foreign hooks"])
    install(path)
    assert hostfile.commands(str(path), host="acme") == ["/opt/yarp hook acme"]
    assert hostfile.commands(str(path), host="zeta") == []


def test_the_command_of_a_hook_starts_this_yarp_from_anywhere(tmp_path, monkeypatch):
    import subprocess

    words = hostfile.program()
    assert os.path.isabs(words[0])
    done = subprocess.run([*words, "--version"], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout
    assert hostfile.command("acme").endswith(" hook acme")


def test_a_program_whose_path_json_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr(hostfile, "program", lambda: ["/opt/\udcff/yarp"])
    with pytest.raises(DataError, match="no Unicode"):
        hostfile.command("acme")


def test_both_scopes_are_looked_at_and_what_is_amiss_has_a_note(yarp_home, path):
    entry = Entry(("hooks", "before", "[]"), {"command": "/opt/yarp hook --before acme"})
    files = {"user": str(path), "project": str(yarp_home / "shop" / "hooks.json")}

    def looked():
        return hostfile.places(files.__getitem__, [entry], host="acme")

    def probed():
        found = hostfile.probes(files.__getitem__, {"n": 1}, host="acme")
        return [(one.words, one.event, one.where) for one in found]

    assert [(place.path, place.standing) for place in looked()[0]] == [
        (files["user"], False),
        (files["project"], False),
    ]
    assert (looked()[1], probed()) == ([], [])

    hostfile.install(files["project"], [entry], host="acme", dry_run=False)
    after = Entry(("hooks", "after", "[]"), {"command": "/opt/yarp hook acme"})
    hostfile.install(files["user"], [entry, after], host="acme", dry_run=False)
    places, notes = looked()
    assert [(place.standing, place.again) for place in places] == [
        (None, "yarp install acme"),
        (True, "yarp install acme --scope project"),
    ]
    assert notes == [f"{path} holds hooks of another YARP; run: yarp install acme"]
    words = ("/bin/sh", "-c", "/opt/yarp hook --before acme")
    assert probed() == [(words, {"n": 1}, files["user"]), (words, {"n": 1}, files["project"])]

    path.write_text("{")
    places, notes = looked()
    assert [place.path for place in places] == [files["project"]]
    (note,) = notes
    assert note.startswith(f"{path}: line 1")
    assert note.endswith(".")
    assert [where for _, _, where in probed()] == [files["project"]]
