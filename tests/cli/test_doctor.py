"""`yarp doctor`: each thing that keeps calls from being captured is found by trying."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time

import pytest

PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")
ACME = f"""
import json
import os
from yarp.plugin import CallStarted, Health, Host, Probe, hookimpl

STATE = json.loads(os.environ.get("ACME", "{{}}"))

def decode(event):
    return CallStarted("s", event["id"], "sh", {{}}) if "id" in event else None

def health(directory):
    return Health(installed=STATE.get("installed", True), hooked_in=STATE.get("hooked", True),
                  version="3.1", last_call_ms=STATE.get("last"), notes=STATE.get("notes", ()))

def probe(directory):
    words = STATE.get("words", [{PROGRAM!r}, "hook", "acme"])
    return [Probe(words, {{"id": "c1"}}, "/home/ada/acme.json")] if words else []

def sandbox(directory):
    return STATE.get("sandbox")

def install(scope, dry_run, directory):
    return []

@hookimpl
def yarp_host():
    return Host("acme", title="Acme", decode=decode, health=health, probe=probe,
                sandbox=sandbox, install=install)
"""


@pytest.fixture
def doctor(plugin_site, yarp_home, monkeypatch):
    plugin_site.install("acme", ACME)
    monkeypatch.setenv("YARP_PLUGINS", "acme")

    def run(*words, **state):
        done = subprocess.run(
            [PROGRAM, "doctor", "--json", *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ACME": json.dumps(state)},
            cwd=yarp_home,
        )
        assert done.stderr == "", done.stderr
        checked = json.loads(done.stdout)["checked"]
        found = [finding for one in checked for finding in one["findings"]]
        assert done.returncode == (65 if found else 0)
        assert all(finding.endswith(".") for finding in found)
        return {one["about"]: one["state"] for one in checked}, found

    run.home = yarp_home
    run.archive = yarp_home / "data" / "yarp" / "tool-calls.sqlite3"
    return run


def configure(home, text):
    (home / "config" / "yarp").mkdir(parents=True, exist_ok=True)
    (home / "config" / "yarp" / "config.toml").write_text(f"version = 1\n{text}")


def test_where_all_is_well_the_hook_is_proven_and_nothing_is_changed(doctor):
    state, found = doctor()
    assert found == []
    assert state["acme"] == "installed, 3.1, hooked in, 1 of 1 hooks proven"
    assert not doctor.archive.exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["/gone/yarp", "hook", "acme"], "cannot be started: No such file"),
        (["/bin/sh", "-c", "/gone/yarp hook acme"], "status 127"),
        (["/bin/sh", "-c", "cat > /dev/null"], "it said nothing"),
        ([PROGRAM, "hook", "other"], "no plugin of the name other"),
    ],
)
def test_a_hook_that_keeps_nothing_is_found(doctor, words, reason):
    state, (finding,) = doctor(words=words)
    assert "0 of 1 hooks proven" in state["acme"]
    assert finding.startswith("The hook in /home/ada/acme.json does not keep calls")
    assert reason in finding
    assert "run: yarp install acme" in finding


def test_what_the_plugin_knows_is_said(doctor):
    _, found = doctor(notes=["Hooks are switched off in acme.json; remove that"])
    assert found == ["Hooks are switched off in acme.json; remove that."]


def test_a_host_that_is_not_hooked_in_is_a_finding_only_when_asked_for(doctor):
    assert doctor(hooked=False, words=[])[1] == []
    assert doctor("acme", hooked=False, words=[])[1] == [
        "YARP is not hooked in; run: yarp install acme."
    ]


def test_a_host_that_is_not_here_needs_no_mending(doctor):
    assert doctor(installed=False, hooked=False, words=[], notes=["It is gone."])[1] == []


def test_calls_that_were_made_and_not_kept_are_found(doctor):
    now = time.time_ns() // 1_000_000
    _, (finding,) = doctor(last=now)
    assert "was not kept" in finding
    event = b'{"id": "c9"}'
    subprocess.run([PROGRAM, "hook", "acme"], input=event, check=True, env=os.environ)
    assert doctor(last=now + 30_000)[1] == []
    assert "was not kept" in doctor(last=now + 3_600_000)[1][0]


def test_a_write_from_inside_the_sandbox_is_proven(doctor):
    assert doctor(sandbox=["/usr/bin/env"])[1] == []
    _, (finding,) = doctor(sandbox=["/bin/false"])
    assert str(doctor.archive.parent) in finding
    assert "yarp config set hosts.acme.sandbox true" in finding
    assert list(doctor.archive.parent.iterdir()) == []


def test_a_broken_configuration_is_found(doctor):
    configure(doctor.home, "[archive]\nenabled = 'perhaps'\n")
    _, found = doctor()
    assert "config.toml" in found[0]
    assert "as if YARP were not there" in found[0]


def test_an_archive_that_is_off_is_found(doctor):
    configure(doctor.home, "[archive]\nenabled = false\n")
    _, (finding,) = doctor()
    assert "yarp config set archive.enabled true" in finding


@pytest.mark.parametrize(
    "what", ["foreign", "read-only", "open", pytest.param("locked", marks=pytest.mark.slow)]
)
def test_an_archive_that_cannot_be_used_is_found(doctor, what):
    subprocess.run([PROGRAM, "hook", "acme"], input=b'{"id": "c9"}', check=True, env=os.environ)
    connection = None
    if what == "foreign":
        for name in ("-wal", "-shm"):
            os.unlink(f"{doctor.archive}{name}")
        doctor.archive.write_text("this is no database, and long enough to be seen as none of ours")
    elif what == "read-only":
        doctor.archive.chmod(0o400)
    elif what == "open":
        doctor.archive.chmod(0o644)
    else:
        connection = sqlite3.connect(doctor.archive, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
    state, found = doctor()
    if connection is not None:
        connection.close()
    if what == "read-only" and os.geteuid() == 0:
        return  # root writes everywhere
    assert state["archive"] == "cannot be used"
    assert str(doctor.archive) in found[0]


def test_a_plugin_that_fails_is_named(doctor, plugin_site, monkeypatch):
    plugin_site.install("bad", "raise RuntimeError('no')")
    monkeypatch.setenv("YARP_PLUGINS", "acme,bad")
    _, found = doctor()
    assert any("plugin bad" in finding for finding in found)


def test_for_people_it_is_a_list(doctor):
    done = subprocess.run(
        [PROGRAM, "doctor", "acme"], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["configuration", "archive", "plugins", "acme"]


def test_an_unknown_host_is_said():
    done = subprocess.run([PROGRAM, "doctor", "acne"], capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "no plugin declares a host 'acne'" in done.stderr
