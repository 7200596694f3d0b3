from __future__ import annotations

import os
import sys
import tomllib

import pytest

from yarp.plugin import DataError, hostfile
from yarp_gptme.install import config_file, health, install, uninstall

TEXT = '# mine\n[user]\nname = "Ada"\n\n[env]\nX = "1"\n'


@pytest.fixture
def file(yarp_home, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    path = yarp_home / ".config" / "gptme" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_the_block_switches_the_plugin_on_and_says_which_program(file):
    file.write_text(TEXT)
    lines = install("user", False, None)
    assert file.read_text().startswith(TEXT)
    assert tomllib.loads(file.read_text())["plugin"]["yarp"] == {
        "enabled": True,
        "program": hostfile.program(),
    }
    assert any(line.startswith("wrote ") for line in lines)
    assert any("private archive" in line for line in lines)


def test_installing_twice_changes_nothing(file):
    file.write_text(TEXT)
    install("user", False, None)
    before = file.read_bytes()
    assert not any(line.startswith("wrote") for line in install("user", False, None))
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", [TEXT, "", TEXT.rstrip("\n"), '[plugins]\nenabled = ["a"]\n'])
def test_uninstalling_restores_the_text(file, text):
    file.write_text(text)
    install("user", False, None)
    uninstall("user", False, None)
    assert file.read_text() == text
    assert uninstall("user", False, None) == []
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_a_file_that_installing_made_goes_again(file):
    install("user", False, None)
    uninstall("user", False, None)
    assert not file.exists()


def test_the_users_list_of_allowed_plugins_gets_our_name(file):
    file.write_text('[plugins]\nenabled = ["other"]  # these\n')
    install("user", False, None)
    assert tomllib.loads(file.read_text())["plugins"]["enabled"] == ["other", "yarp"]


def test_what_the_user_wrote_meanwhile_stays(file):
    file.write_text(TEXT)
    install("user", False, None)
    file.write_text(file.read_text() + "\n[later]\ny = 2\n")
    uninstall("user", False, None)
    assert file.read_text() == TEXT + "\n[later]\ny = 2\n"


def test_a_dry_run_writes_nothing(file):
    file.write_text(TEXT)
    assert any(line.startswith("would write") for line in install("user", True, None))
    assert file.read_text() == TEXT


@pytest.mark.parametrize("text", ["[broken", "[plugin.yarp]\nenabled = false\n", "plugin = 3\n"])
def test_a_file_that_cannot_take_the_block_is_refused_untouched(file, text):
    file.write_text(text)
    with pytest.raises(DataError):
        install("user", False, None)
    assert file.read_text() == text


def test_a_project_has_a_file_of_its_own(file, tmp_path):
    install("project", False, str(tmp_path))
    # It names no program: a project is not to say what is run.
    table = tomllib.loads((tmp_path / "gptme.toml").read_text())["plugin"]["yarp"]
    assert table == {"enabled": True}
    assert not file.exists()


def test_a_link_stays_a_link(file, tmp_path):
    real = tmp_path / "real.toml"
    real.write_text(TEXT)
    file.symlink_to(real)
    install("user", False, None)
    assert file.is_symlink()
    uninstall("user", False, None)
    assert file.is_symlink()
    assert real.read_text() == TEXT


def test_the_mode_of_the_file_stays(file):
    file.write_text(TEXT)
    os.chmod(file, 0o640)
    install("user", False, None)
    assert file.stat().st_mode & 0o777 == 0o640


def test_without_gptme_it_says_so(file):
    assert any("gptme is neither on the PATH nor" in line for line in install("user", False, None))
    found = health(None)
    assert (found.installed, found.hooked_in) == (False, False)


@pytest.fixture
def gptme(yarp_home, monkeypatch):
    """A program `gptme` whose interpreter answers what it is told to, to any question."""

    def make(answer):
        folder = yarp_home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "python").write_text(f"#!/bin/sh\ncat <<'E'\n{answer}\nE\n")
        (folder / "gptme").write_text(f"#!{folder}/python\n")
        for path in folder.iterdir():
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return make


def test_a_gptme_without_the_plugin_is_told_how_to_get_it(file, gptme):
    gptme('{"gptme": "0.35.1"}')
    lines = install("user", False, None)
    assert any("-m pip install yarp-gptme." in line for line in lines)
    found = health(None)
    assert (found.installed, found.hooked_in, found.version) == (True, False, "0.35.1")


def test_a_gptme_in_the_environment_of_yarp_needs_no_path(file, gptme, yarp_home, monkeypatch):
    gptme('{"gptme": "0.35.1"}')
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(yarp_home / "bin" / "python"))
    found = health(None)
    assert (found.installed, found.version) == (True, "0.35.1")
    assert any("-m pip install yarp-gptme." in line for line in install("user", False, None))


def test_another_version_of_the_plugin_is_found(file, gptme):
    gptme('{"gptme": "0.35.1", "yarp-gptme": "0.0.1"}')
    install("user", False, None)
    assert any("gptme has yarp-gptme 0.0.1" in note for note in health(None).notes)


def test_a_list_of_allowed_plugins_without_ours_is_found(file, gptme):
    gptme('{"gptme": "0.35.1", "yarp-gptme": "1.0.0"}')
    install("user", False, None)
    file.write_text('[plugins]\nenabled = ["other"]\n' + file.read_text())
    found = health(None)
    assert not found.hooked_in
    assert any("leaves yarp out" in note for note in found.notes)


def test_an_interpreter_that_answers_nothing_is_no_reason_to_fail(file, gptme):
    gptme("no json")
    install("user", False, None)
    assert health(None).version is None


def test_another_program_in_the_block_is_found(file):
    install("user", False, None)
    path = config_file("user", None)
    with open(path) as f:
        text = f.read()
    file.write_text(text.replace(hostfile.program()[-1], "/gone/yarp"))
    assert any("names another YARP" in note for note in health(None).notes)
