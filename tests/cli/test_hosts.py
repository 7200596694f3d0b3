from __future__ import annotations

import json
import subprocess
import sys

import pytest

ACME = """
import os
from yarp.plugin import DataError, Health, Host, hookimpl

def install(scope, dry_run, directory):
    if os.environ.get("ACME") == "broken":
        raise DataError("settings.json is no JSON; mend it first")
    if os.environ.get("ACME") == "faulty":
        raise KeyError("hooks")
    return [f"{'would write' if dry_run else 'wrote'} {scope} settings"]

def uninstall(scope, dry_run, directory):
    return []

def health(directory):
    if os.environ.get("ACME") == "faulty":
        raise KeyError("version")
    return Health(installed=True, hooked_in=False, version="3.1", notes=["It is switched off."])

@hookimpl
def yarp_host():
    return Host("acme", title="Acme", install=install, uninstall=uninstall, health=health,
        withholds=["It tells nothing of streams."])
"""
BARE = """
from yarp.plugin import Host, hookimpl

@hookimpl
def yarp_host():
    return Host("bare")
"""


@pytest.fixture(autouse=True)
def hosts(plugin_site, monkeypatch):
    plugin_site.install("acme", ACME)
    plugin_site.install("bare", BARE)
    monkeypatch.setenv("YARP_PLUGINS", "acme,bare")


def run(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "yarp", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        **more,
    )


def test_the_list_says_how_each_host_stands():
    done = run("hosts")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["acme", "yes", "no", "3.1", "none"]
    assert lines[2] == ["bare", "unknown", "unknown", "unknown", "none"]


def test_show_says_what_is_withheld_for_people_and_for_programs():
    shown = run("hosts", "show", "acme").stdout
    assert "Acme (acme), by yarp-acme 1.0.0" in shown
    assert "It is switched off." in shown
    assert "It tells nothing of streams." in shown
    row = json.loads(run("hosts", "show", "acme", "--json").stdout)
    assert row["withholds"] == ["It tells nothing of streams."]
    assert row["hooked_in"] is False
    assert row["last_call"] is None
    rows = json.loads(run("hosts", "--json").stdout)["hosts"]
    assert rows[0] == row
    assert rows[1]["installed"] is None


def test_the_last_call_of_a_host_is_shown(yarp_home):
    code = (
        "from yarp import paths, payload\n"
        "from yarp.archive.write import Archive, CallFacts, SessionKey\n"
        "archive = Archive.open(paths.archive_file(), narrow=True)\n"
        "session = SessionKey('acme', 'me', 's1', None)\n"
        "facts = CallFacts('c1', 'sh', started_at_ms=1700000000000, requires_streams=False)\n"
        "print(archive.begin_call(session, facts, payload.of(b'{}'), payload.of(b'{}'), 1))\n"
        "archive.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    last = json.loads(run("hosts", "show", "acme", "--json").stdout)["last_call"]
    assert last == {"archive_ref": done.stdout.strip(), "started_at_ms": 1700000000000}
    assert json.loads(run("hosts", "show", "bare", "--json").stdout)["last_call"] is None
    assert done.stdout.strip() in run("hosts").stdout


def test_an_archive_that_cannot_be_read_is_a_note(yarp_home):
    folder = yarp_home / "data" / "yarp"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "tool-calls.sqlite3").write_text("no database")
    (folder / "tool-calls.sqlite3").chmod(0o600)
    done = run("hosts", "show", "acme", "--json")
    assert done.returncode == 0
    assert any("tool-calls.sqlite3" in note for note in json.loads(done.stdout)["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("install", "acme"), "wrote user settings\n"),
        (("install", "acme", "--dry-run"), "would write user settings\n"),
        (("install", "acme", "--scope", "project"), "wrote project settings\n"),
        (("uninstall", "acme"), "nothing to change\n"),
    ],
    ids=" ".join,
)
def test_install_and_uninstall_are_the_hosts_own_and_print_what_changed(words, said):
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_a_host_without_an_installer_says_so():
    done = run("install", "bare")
    assert (done.returncode, done.stdout) == (64, "")
    assert "cannot be hooked in" in done.stderr


@pytest.mark.parametrize(
    ("state", "status", "sentence"),
    [
        ("broken", 65, "yarp: settings.json is no JSON; mend it first\n"),
        ("faulty", 70, "yarp: plugin acme failed to install: KeyError: 'hooks'\n"),
    ],
)
def test_an_installer_that_cannot_go_on_is_one_sentence(monkeypatch, state, status, sentence):
    monkeypatch.setenv("ACME", state)
    done = run("install", "acme")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", sentence)


def test_health_that_raises_is_a_note_and_the_list_goes_on(monkeypatch):
    monkeypatch.setenv("ACME", "faulty")
    done = run("hosts", "--json")
    rows = json.loads(done.stdout)["hosts"]
    assert rows[0]["notes"] == ["its state cannot be told: KeyError: 'version'"]
    assert rows[0]["installed"] is None
    assert len(rows) == 2


def test_a_host_whose_plugin_failed_is_refused_with_the_reason(plugin_site, monkeypatch):
    plugin_site.install("gone", "raise OSError('no disk')")
    monkeypatch.setenv("YARP_PLUGINS", "acme,gone")
    done = run("hosts", "show", "gone")
    assert done.returncode == 70
    assert done.stderr == (
        "yarp: plugin gone (yarp-gone 1.0.0) cannot be loaded: OSError: no disk\n"
    )
    listed = run("hosts")
    assert listed.returncode == 70
    assert "acme" in listed.stdout
