"""What becomes of a call that a host tells in events."""

from __future__ import annotations

import json
import os

import pytest

INPUTS = {"input/before", "input/after"}
RESULTS = {"result/before", "result/after"}
STREAMS = {"stdout/before", "stdout/after", "stderr/before", "stderr/after"}


def test_a_call_is_kept_from_its_start_to_its_end(acme):
    first = acme.send(acme.begin(place="/there"))
    assert (first.status, first.reply, first.said) == (0, None, "a plugin's print is no answer\n")
    assert acme.call()["status"] == "started"
    assert acme.send(acme.end()).reply == {}
    call = acme.call()
    assert (call["status"], call["is_error"], call["executed"]) == ("finished", 0, 1)
    assert (call["tool_name"], call["working_directory"]) == ("sh", "/there")
    assert set(call["snapshots"]) == INPUTS | RESULTS
    assert call["snapshots"]["input/before"] == b'{"command":"true"}'
    assert call["snapshots"]["result/after"] == b'{"n":1,"text":"fine"}'


def test_a_result_that_a_rule_knows_is_shown_short_and_kept_whole(acme):
    acme.send(acme.begin(command="pytest -v"))
    answer = acme.send(acme.end(command="pytest -v", text=acme.tests, failed=True))
    shown = answer.reply["out"]["text"]
    call = acme.call()
    assert "FAILED test_a.py::test_x" in shown
    assert len(shown) < 600
    assert f"ref={call['archive_ref']}" in shown
    assert (
        json.loads(call["snapshots"]["result/after"])
        == answer.reply["out"]
        == {"n": 1, "text": shown}
    )
    assert call["snapshots"]["result_text/before"] == acme.tests.encode()
    assert acme.yarp("read", call["archive_ref"], "1:302").stdout.decode() == "".join(
        acme.tests.splitlines(keepends=True)[:302]
    )


def test_a_long_text_of_any_tool_is_capped(acme):
    text = "".join(f"row {number}\n" for number in range(9000))
    acme.send(acme.begin() | {"tool": "ask"})
    shown = acme.send(acme.end(text=text) | {"tool": "ask"}).reply["out"]["text"]
    assert len(shown.encode()) <= 5120
    assert acme.call()["archive_ref"] in shown
    assert acme.call()["snapshots"]["result_text/before"] == text.encode()


def test_an_answer_of_yarps_own_is_never_shortened(acme):
    command = "yarp read yr_00000000000000000000000000000000 1:9000"
    acme.send(acme.begin(command=command))
    assert acme.send(acme.end(command=command, text="row\n" * 9000)).reply == {}


def test_the_file_of_the_whole_output_is_kept_and_shortened_in_place_of_its_beginning(acme):
    file = acme.home / "whole.txt"
    file.write_text("collected\n" * 50_000 + acme.tests)
    acme.send(acme.begin(command="pytest -v"))
    event = acme.end(command="pytest -v", text="collected\n" * 3000, failed=True, file=str(file))
    shown = acme.send(event).reply["out"]["text"]
    call = acme.call()
    assert "FAILED test_a.py::test_x" in shown
    assert "source_output complete" in shown
    assert call["snapshots"]["source_output/before"] == file.read_bytes()
    assert "result_text/before" not in call["snapshots"]


def test_a_whole_output_that_no_rule_knows_is_capped(acme):
    file = acme.home / "whole.txt"
    file.write_text("".join(f"{number}\n" for number in range(200_000)))
    acme.send(acme.begin(command="its-own-tool"))
    shown = acme.send(acme.end(command="its-own-tool", text="0\n1\n" * 4000, file=str(file))).reply[
        "out"
    ]["text"]
    assert shown.splitlines()[0] == "0"
    assert "199999\n" in shown
    assert len(shown.encode()) <= 5120


def test_a_binary_output_leaves_what_the_host_shows(acme):
    file = acme.home / "whole.bin"
    file.write_bytes(b"\xff\x00" * 40_000)
    acme.send(acme.begin(command="cat it"))
    assert acme.send(acme.end(command="cat it", text="\ufffd" * 100, file=str(file))).reply == {}
    assert acme.call()["snapshots"]["source_output/before"] == file.read_bytes()


@pytest.mark.parametrize("odd", ["link", "folder", "gone", "nul"])
def test_a_whole_output_that_is_no_file_is_said_and_the_result_kept(acme, odd):
    path = acme.home / "odd"
    if odd == "link":
        path.symlink_to("/etc/passwd")
    elif odd == "folder":
        path.mkdir()
    acme.send(acme.begin())
    answer = acme.send(acme.end(file=str(path) if odd != "nul" else "a\0b"))
    assert answer.reply == {}
    assert "full output" in answer.said
    assert set(acme.call()["snapshots"]) == INPUTS | RESULTS
    assert acme.call()["status"] == "finished"


def test_the_file_counts_for_the_hosts_own_shell_alone(acme):
    acme.send(acme.begin() | {"tool": "ask"})
    acme.send(acme.end(file="/etc/passwd") | {"tool": "ask"})
    assert set(acme.call()["snapshots"]) == INPUTS | RESULTS


@pytest.mark.parametrize(
    ("policy", "event", "wrapped"),
    [
        (None, {"free": True}, True),
        (None, {"free": False}, False),
        (None, {}, False),
        ("always", {}, True),
        ("never", {"free": True}, False),
        ("always", {"apart": True}, False),
        ("always", {"writable": []}, False),
        ("always", {"writable": ["/elsewhere", "/home/u/da"]}, False),
        ("always", {"writable": ["/elsewhere", "{home}/data/"]}, True),
        ("always", {"writable": ["/"]}, True),
    ],
)
def test_a_command_is_wrapped_where_nobody_judges_it(acme, policy, event, wrapped):
    if policy is not None:
        acme.configure(f'[hosts.acme]\nwrap = "{policy}"\n')
    if "writable" in event:
        event = {"writable": [one.format(home=acme.home) for one in event["writable"]]}
    reply = acme.send(acme.begin(command="pytest -q", **event)).reply
    assert (reply is not None) is wrapped
    assert acme.call()["requires_streams"] == wrapped
    if wrapped:
        assert "run --archive-agent acme" in reply["args"]["command"]
        assert json.loads(acme.call()["snapshots"]["input/after"]) == reply["args"]


def test_what_an_event_tells_of_a_whole_turn_ends_only_what_is_open(acme):
    acme.send(acme.begin("c1"))
    acme.send(acme.end("c1", text="first"))
    acme.send(acme.begin("c2"))
    for call_id in ("c1", "c2", "c3"):
        acme.send(acme.end(call_id, text="told once more", closes=True))
        acme.send(acme.end(call_id, text="told once more", closes=True))
    calls = acme.calls()
    assert list(calls) == ["c1", "c2", "c3"]
    assert all((call["status"], call["executed"]) == ("finished", 1) for call in calls.values())
    texts = [json.loads(call["snapshots"]["result/after"])["text"] for call in calls.values()]
    assert texts == ["first", "told once more", "told once more"]


def test_a_text_too_long_for_one_argument_is_not_wrapped(acme):
    long = "pytest -q " + "x" * 121_000
    assert acme.send(acme.begin(command=long, free=True)).reply is None


@pytest.mark.parametrize(
    ("own", "wrapped"),
    [([], True), (["py"], True), (["pytest"], False), (["tail", "x"], False), (None, False)],
)
def test_a_command_that_the_hosts_shell_gives_a_meaning_of_its_own_is_not_wrapped(
    acme, own, wrapped
):
    event = acme.begin(command="true && pytest -q 2>&1 | tail -5", free=True, own=own)
    assert (acme.send(event).reply is not None) is wrapped
    assert acme.call()["requires_streams"] == wrapped


@pytest.fixture
def pytest_here(acme, monkeypatch):
    """A program of that name that prints what its results look like."""
    (acme.home / "bin").mkdir()
    program = acme.home / "bin" / "pytest"
    program.write_text(f"#!/bin/sh\ncat <<'X'\n{acme.tests}X\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{acme.home}/bin:/usr/bin:/bin")


def test_a_wrapped_call_ends_with_its_streams(acme, pytest_here):
    command = acme.send(acme.begin(command="pytest -q", free=True)).reply["args"]["command"]
    done = acme.shell(command)
    assert done.returncode == 1
    shown = done.stdout.decode()
    assert "FAILED test_a.py::test_x" in shown
    assert acme.send(acme.end(command=command, text=shown, failed=True)).reply == {}
    call = acme.call()
    assert set(call["snapshots"]) == INPUTS | RESULTS | STREAMS
    assert call["snapshots"]["stdout/before"] == acme.tests.encode()
    assert call["status"] == "finished"


def test_a_wrapped_call_whose_streams_are_still_to_come_is_finished_with_them(acme, pytest_here):
    command = acme.send(acme.begin(command="pytest -q", free=True)).reply["args"]["command"]
    answer = acme.send(acme.end(command="pytest -q", text="moved to the background"))
    assert answer.reply == {}
    assert "waits for its streams" in answer.said
    waiting = acme.call()
    assert (waiting["status"], waiting["executed"]) == ("started", 1)
    assert set(waiting["snapshots"]) == INPUTS | {"result/before"}
    assert acme.yarp("archive", "verify").returncode == 0
    acme.shell(command)
    call = acme.call()
    assert (call["status"], call["is_error"]) == ("finished", 0)
    assert set(call["snapshots"]) == INPUTS | RESULTS | STREAMS
    assert call["snapshots"]["result/after"] == waiting["snapshots"]["result/before"]
    assert acme.yarp("archive", "verify").returncode == 0


def test_an_end_without_a_start_is_kept_with_the_start_it_tells(acme):
    assert acme.send(acme.end(command="make it")).reply == {}
    call = acme.call()
    assert call["status"] == "finished"
    assert call["snapshots"]["input/before"] == b'{"command":"make it"}'


def test_a_call_that_fired_nothing_is_closed_as_one_that_never_ran(acme):
    call = acme.begin() | {"tool": "no-such-tool", "out": {"error": "no such tool"}}
    assert acme.send({"kind": "close", "calls": [call]}).reply is None
    found = acme.call()
    assert (found["status"], found["executed"], found["is_error"]) == ("finished", 0, 1)
    assert set(found["snapshots"]) == INPUTS | {"result/after"}


def test_a_closing_event_leaves_an_ended_call_alone(acme):
    acme.send(acme.begin())
    acme.send(acme.end())
    before = acme.call()
    acme.send({"kind": "close", "calls": [acme.begin() | {"out": {"text": "else"}}]})
    assert acme.call() == before


def test_a_begun_call_is_closed_as_refused_only_where_the_host_says_so(acme):
    acme.send(acme.begin("lost"))
    acme.send(acme.begin("denied"))
    calls = [acme.begin(call_id) | {"out": {"text": "no"}} for call_id in ("lost", "denied")]
    answer = acme.send({"kind": "close", "calls": calls, "refused": ["denied"]})
    assert "stays incomplete" in answer.said
    found = acme.calls()
    assert found["lost"]["status"] == "started"
    assert (found["denied"]["status"], found["denied"]["executed"]) == ("finished", 0)


def test_the_same_event_twice_is_one_call_and_one_answer(acme):
    events = [
        acme.begin(command="pytest -v"),
        acme.end(command="pytest -v", text=acme.tests, failed=True),
    ]
    answers = [acme.send(event).reply for event in events for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[2] == answers[3]
    assert answers[2]["out"]["text"] != acme.tests
    assert acme.call()["status"] == "finished"


def test_an_id_that_a_session_uses_again_is_another_call(acme):
    for text in ("one", "two", "three"):
        acme.send(acme.begin(command=f"echo {text}"))
        acme.send(acme.end(command=f"echo {text}", text=text))
    calls = acme.calls()
    assert list(calls) == ["c1", "c1#2", "c1#3"]
    texts = [json.loads(call["snapshots"]["result/before"])["text"] for call in calls.values()]
    assert texts == ["one", "two", "three"]


def test_an_id_whose_call_never_ended_can_be_used_again(acme):
    acme.send(acme.begin(command="echo one"))
    acme.send(acme.begin(command="echo two"))
    acme.send(acme.end(command="echo two", text="two"))
    calls = acme.calls()
    assert [call["status"] for call in calls.values()] == ["started", "finished"]


def test_without_an_archive_commands_are_wrapped_and_nothing_is_kept(acme):
    acme.configure("[archive]\nenabled = false\n")
    reply = acme.send(acme.begin(command="pytest -q", free=True)).reply
    assert "run --shell-program" in reply["args"]["command"]
    assert acme.send(acme.end(command="pytest -q", text=acme.tests)).reply == {}
    assert not acme.archive.exists()


def test_names_that_are_no_unicode_are_kept_as_well_as_they_can_be(acme):
    odd = {"chat": "s\ud800", "tool": "t\udfff"}
    for event in (acme.begin("c\ud800"), acme.end("c\ud800")):
        answer = acme.send(event | odd)
        assert answer.reply in (None, {})
    call = acme.call()
    assert (call["source_call_id"], call["tool_name"]) == ("c\ufffd", "t\ufffd")
    assert call["status"] == "finished"


def test_the_archives_log_stays_short_however_many_processes_come_and_go(acme):
    log = acme.archive.with_name(f"{acme.archive.name}-wal")
    sizes = []
    for number in range(16):
        args = {"text": os.urandom(100_000).hex()}
        acme.send(acme.begin(f"c{number}") | {"tool": "ask", "args": args})
        sizes.append(log.stat().st_size)
    assert max(sizes) < 1 << 20
    assert len(acme.calls()) == 16
    assert acme.yarp("archive", "verify").returncode == 0


@pytest.mark.parametrize(
    "args",
    [
        '{"n":12345678901234567890}',
        '{"a":1,"a":2}',
        '{"text":"half \\ud800 a pair"}',
        '{"n":NaN}',
        '{"deep":' + "[" * 900 + "]" * 900 + "}",
        '{"deep":' + "[" * 90_000 + "]" * 90_000 + "}",
    ],
)
def test_json_that_has_no_canonical_form_is_kept_as_the_hosts_text(acme, args):
    event = json.dumps(acme.begin() | {"args": "HERE"}).replace('"HERE"', args)
    assert acme.send(event.encode()).status == 0
    kept = acme.call()["snapshots"]["input/before"]
    assert kept == args.encode() or json.loads(kept) == {"yarpRawJson": args}


def test_plugins_hear_of_the_start_and_the_end_once(acme, shared, monkeypatch, tmp_path):
    site = tmp_path / "ear"
    info = site / "yarp_ear-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yarp-ear\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[yarp]\near = yarp_ear\n")
    heard = tmp_path / "heard"
    (site / "yarp_ear.py").write_text(
        "from yarp.plugin import hookimpl\n"
        "def note(*words):\n"
        f"    open({str(heard)!r}, 'a').write(repr(words) + chr(10))\n"
        "@hookimpl\n"
        "def yarp_call_started(call): note('start', call.input, bool(call.archive_ref))\n"
        "@hookimpl\n"
        "def yarp_call_finished(call): note('end', call.result, call.executed, call.agent)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{shared / 'site'}:{site}")
    monkeypatch.setenv("YARP_PLUGINS", "acme,ear")
    for event in (acme.begin(), acme.end(), acme.end()):
        acme.send(event)
    assert heard.read_text().splitlines() == [
        "('start', {'command': 'true'}, True)",
        "('end', {'text': 'fine', 'n': 1}, True, 'acme')",
    ]
