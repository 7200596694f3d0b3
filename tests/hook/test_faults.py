"""Whatever goes wrong: before a call it is blocked, after one the host's result stays."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import pytest

NOISE = "a plugin's print is no answer\n"


def broken_archive(acme):
    acme.archive.parent.mkdir(parents=True, mode=0o700)
    acme.archive.write_text("this is no database, and long enough to be seen as none of ours")
    acme.archive.chmod(0o600)


def test_a_call_that_cannot_be_archived_is_blocked_with_the_reason(acme):
    broken_archive(acme)
    answer = acme.send(acme.begin())
    assert answer.status == 0
    assert "could not be archived" in answer.reply["block"]
    assert "is no SQLite database" in answer.reply["block"]
    assert "yarp archive verify" in answer.reply["block"]


def test_a_host_that_has_no_word_for_it_is_told_by_the_status(acme, plugin_site, monkeypatch):
    broken_archive(acme)
    event = acme.begin() | {"kind": "begin"}
    code = acme.plugin.replace('{"block": decision.blocked}', "None")
    plugin_site.install("acme", code)
    monkeypatch.setenv("PYTHONPATH", str(plugin_site.path))
    assert acme.send(event).status == 0
    answer = acme.send(event, "--before")
    assert (answer.status, answer.reply) == (2, None)
    assert "could not be archived" in answer.said


def test_a_result_that_cannot_be_archived_stays_the_hosts_own(acme):
    broken_archive(acme)
    answer = acme.send(acme.end(command="pytest -v", text=acme.tests))
    assert (answer.status, answer.reply) == (0, {})
    assert "is no SQLite database" in answer.said


def test_an_archive_that_others_can_read_blocks(acme):
    (acme.home / "open").mkdir(mode=0o755)
    acme.environment.setenv("YARP_ARCHIVE", str(acme.home / "open" / "calls.sqlite3"))
    assert "chmod 700" in acme.send(acme.begin()).reply["block"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_archive_blocks(acme):
    acme.send(acme.begin())
    acme.archive.chmod(0o400)
    assert "block" in acme.send(acme.begin("c2")).reply


def limited(byte_length):
    """Every file of the child ends here, as on a full disk."""

    def limit():
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (byte_length, byte_length))

    return limit


def test_a_full_disk_blocks_before_and_changes_nothing_after(acme):
    acme.send(acme.begin())
    args = {"command": os.urandom(60_000).hex()}
    blocked = acme.send(acme.begin("c2") | {"args": args}, preexec_fn=limited(40_000))
    assert "could not be archived" in blocked.reply["block"]
    event = acme.end(text=os.urandom(60_000).hex())
    answer = acme.send(event, preexec_fn=limited(40_000))
    assert answer.reply == {}
    assert answer.said != NOISE
    assert list(acme.calls()) == ["c1"]
    assert acme.call()["status"] == "started"
    assert acme.send(event).said == NOISE
    assert acme.call()["status"] == "finished"


def locked(acme):
    """Somebody writes, and does not come to an end."""
    connection = sqlite3.connect(acme.archive, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def waits_for_the_archive(acme, process):
    folder = f"/proc/{process.pid}/fd"
    while process.poll() is None:
        with suppress(OSError):
            if str(acme.archive) in [
                os.readlink(f"{folder}/{name}") for name in os.listdir(folder)
            ]:
                return
        time.sleep(0.01)


def test_after_a_call_nobody_waits_long_for_a_locked_archive(acme):
    acme.send(acme.begin())
    connection = locked(acme)
    try:
        # It ends while the archive is still locked.
        answer = acme.send(acme.end())
    finally:
        connection.close()
    assert (answer.status, answer.reply) == (0, {})
    assert "the archive took more than 2 s" in answer.said
    assert acme.call()["status"] == "started"


@pytest.mark.slow
def test_before_a_call_a_locked_archive_is_waited_for_and_then_blocks(acme):
    acme.send(acme.begin())
    connection = locked(acme)
    try:
        answer = acme.send(acme.begin("c2"))
    finally:
        connection.close()
    assert "kept it locked" in answer.reply["block"]
    assert list(acme.calls()) == ["c1"]


def test_before_a_call_an_archive_that_is_soon_free_again_is_waited_for(acme):
    acme.send(acme.begin())
    connection = locked(acme)
    process = acme.start(acme.begin("c2"))
    waits_for_the_archive(acme, process)
    connection.close()
    out, _ = process.communicate(timeout=30)
    assert out == b""
    assert list(acme.calls()) == ["c1", "c2"]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[1]", b'"text"', b"\xff\xfe", b"{\0}"),
        *(b'{"kind": "begin"} {}', b"[" * 100_000, b'{"kind": ' + b"[" * 100_000),
    ],
)
def test_what_is_no_event_changes_nothing(acme, data):
    answer = acme.send(data)
    assert (answer.status, answer.reply) == (0, None)
    assert "the event is no JSON" in answer.said
    assert not acme.archive.exists()


@pytest.mark.parametrize(
    "event",
    [{"kind": "news"}, {"kind": None}, {"kind": "greet", "chat": "s1"}],
)
def test_an_event_that_tells_of_no_call_changes_nothing(acme, event):
    answer = acme.send(event)
    assert (answer.status, answer.reply, answer.said) == (0, None, NOISE)
    assert not acme.archive.exists()


def test_an_event_that_the_plugin_cannot_read_never_ends_the_agents_call(acme):
    answer = acme.send({"kind": "raise"})
    assert (answer.status, answer.reply) == (0, None)
    assert "yarp: plugin acme raised ValueError in its decode\n" in answer.said
    assert "what is this" not in answer.said


@pytest.mark.parametrize("why", ["missing", "failing"])
def test_a_plugin_that_cannot_be_used_blocks_what_comes_before_a_call(
    acme, plugin_site, monkeypatch, why
):
    if why == "failing":
        plugin_site.install("acme", "raise RuntimeError('no')")
    monkeypatch.setenv("PYTHONPATH", str(plugin_site.path))
    before, after = acme.send(acme.begin(), "--before"), acme.send(acme.end())
    assert (before.status, before.reply) == (2, None)
    assert (after.status, after.reply) == (0, None)
    assert "acme" in before.said
    assert not acme.archive.exists()


@pytest.mark.parametrize("fault", ["replace", "reply"])
def test_what_goes_wrong_with_a_shorter_text_costs_no_call(acme, plugin_site, monkeypatch, fault):
    faults = {
        "replace": ('return {**event["out"], "text": content}', "raise KeyError('no')"),
        "reply": ('return {"out": decision.result}', "raise KeyError('no')"),
    }
    plugin_site.install("acme", acme.plugin.replace(*faults[fault]))
    monkeypatch.setenv("PYTHONPATH", str(plugin_site.path))
    acme.send(acme.begin(command="pytest -v"))
    answer = acme.send(acme.end(command="pytest -v", text=acme.tests, failed=True))
    assert (answer.status, answer.reply) == (0, {})
    assert answer.said != NOISE
    call = acme.call()
    assert call["status"] == "finished"
    assert call["snapshots"]["result/before"] == call["snapshots"]["result/after"]


@pytest.mark.slow
def test_slow_plugins_hear_of_the_end_after_the_host_has_its_answer(
    acme, shared, monkeypatch, tmp_path
):
    site = tmp_path / "ear"
    info = site / "yarp_ear-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yarp-ear\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[yarp]\near = yarp_ear\n")
    (site / "yarp_ear.py").write_text(
        "import time\n"
        "from yarp.plugin import hookimpl\n"
        "@hookimpl\n"
        "def yarp_call_finished(call):\n"
        "    time.sleep(2.5)\n"
        f"    open({str(tmp_path / 'heard')!r}, 'w').close()\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{shared / 'site'}:{site}")
    monkeypatch.setenv("YARP_PLUGINS", "acme,ear")
    acme.send(acme.begin())
    answer = acme.send(acme.end())
    assert (answer.reply, answer.said) == ({}, NOISE)
    assert (tmp_path / "heard").exists()


def test_a_broken_configuration_is_said_once_a_session_and_tools_run(acme):
    acme.configure("[archive]\nenabled = 'perhaps'\n")
    greeting = acme.send({"kind": "greet", "chat": "s1"})
    assert "config.toml" in greeting.reply["say"]
    for event in (acme.begin(), acme.end()):
        answer = acme.send(event, *(["--before"] if event["kind"] == "begin" else []))
        assert (answer.status, answer.reply) == (0, None if event["kind"] == "begin" else {})
    assert not acme.archive.exists()


def test_a_broken_configuration_and_a_failing_plugin_leave_the_agent_alone(
    acme, plugin_site, monkeypatch
):
    acme.configure("[archive]\nenabled = 'perhaps'\n")
    plugin_site.install("acme", "raise RuntimeError('no')")
    monkeypatch.setenv("PYTHONPATH", str(plugin_site.path))
    answer = acme.send(acme.begin(), "--before")
    assert (answer.status, answer.reply) == (0, None)


def test_the_interrupt_of_a_terminal_is_not_for_the_hook(acme):
    acme.send(acme.begin())
    connection = locked(acme)
    process = acme.start(acme.begin("c2"))
    waits_for_the_archive(acme, process)
    process.send_signal(signal.SIGINT)
    connection.close()
    assert process.communicate(timeout=30) == (b"", NOISE.encode())
    assert list(acme.calls()) == ["c1", "c2"]


def test_an_answer_that_nobody_reads_is_said(acme):
    acme.send(acme.begin(command="pytest -v"))
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(
            acme.words(), stdin=subprocess.PIPE, stdout=full, stderr=subprocess.PIPE
        )
        event = acme.end(command="pytest -v", text=acme.tests)
        _, said = process.communicate(json.dumps(event).encode())
    assert process.returncode == 74
    assert b"the answer cannot be written" in said


@pytest.mark.parametrize(
    "words", [[], ["--before"], ["a", "b"], ["--what", "acme"], ["acme", "--what"]]
)
def test_wrong_words_are_said(acme, words):
    program = acme.words()[0]
    done = subprocess.run([program, "hook", *words], capture_output=True, check=False)
    assert done.returncode == 64
    assert b"yarp hook --help" in done.stderr


def test_a_process_that_is_killed_leaves_a_whole_archive_and_the_event_can_come_again(acme):
    events = [
        event
        for number in range(6)
        for event in (
            acme.begin(f"c{number}", "pytest -v"),
            acme.end(f"c{number}", "pytest -v", acme.tests),
        )
    ]
    for step, event in enumerate(events):
        process = acme.start(event)
        time.sleep(0.005 * (step + 1))
        process.kill()
        process.communicate()
        assert acme.send(event).status == 0
    calls = acme.calls()
    assert sorted(calls) == [f"c{number}" for number in range(6)]
    assert all(call["status"] == "finished" for call in calls.values())
    assert acme.yarp("archive", "verify").returncode == 0


def rounds(acme, count):
    for number in range(count):
        ids = [f"r{number}c{index}" for index in range(8)]
        for kind in (acme.begin, acme.end):
            # Each event twice: two processes may serve one call.
            events = [kind(call_id) for call_id in ids for _ in range(2)]
            started = [(event, acme.start(event)) for event in events]
            for event, process in started:
                _, said = process.communicate(timeout=60)
                assert process.returncode == 0
                if b"took more than 2 s" in said:  # the machine, not the archive
                    said = acme.send(event).said.encode()
                assert said.decode() == NOISE
    calls = acme.calls()
    assert len(calls) == 8 * count
    assert all(call["status"] == "finished" for call in calls.values())
    assert acme.yarp("archive", "verify").returncode == 0


def test_sixteen_at_once_lose_and_double_nothing(acme):
    rounds(acme, 2)


@pytest.mark.slow
def test_sixteen_at_once_lose_and_double_nothing_for_a_hundred_rounds(acme):
    rounds(acme, 100)


def test_it_runs_as_a_module_too(acme):
    words = [sys.executable, "-m", "yarp", "hook", "acme"]
    done = subprocess.run(words, input=b'{"kind": "news"}', capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
