from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from yarp_gptme import client as client_module
from yarp_gptme.client import Client, Failed, Off, Refused

YARP = [sys.executable, "-m", "yarp"]
SESSION = {"agent": "gptme", "account": "ada", "sourceSessionId": "talk"}


def call(name):
    facts = {"sourceCallId": name, "toolName": "shell", "startedAtMs": 1, "requiresStreams": False}
    return {
        "call": facts,
        "inputBefore": {"command": "ls"},
        "inputAfter": {"command": "ls"},
        "capturedAtMs": 1,
    }


@pytest.fixture
def client(yarp_home):
    one = Client(YARP)
    yield one
    one.close()


@pytest.fixture
def peer(tmp_path, yarp_home):
    """A client of a made-up writer, which is the body of a script that is given `frame()`."""
    clients = []

    def make(body):
        script = tmp_path / "peer.py"
        script.write_text(
            "import json, os, sys, time\n"
            "def frame():\n"
            "    head = sys.stdin.buffer.read(8)\n"
            "    if not head: sys.exit()\n"
            "    return json.loads(sys.stdin.buffer.read(int.from_bytes(head, 'big')))\n"
            "def say(asked, **fields):\n"
            "    print(json.dumps({'requestId': asked['requestId'], 'ok': True, 'protocol': 1, **fields}), flush=True)\n"
            f"here = {str(tmp_path)!r}\n" + body
        )
        clients.append(Client([sys.executable, str(script)]))
        return clients[-1]

    yield make
    for one in clients:
        one.close()


def test_a_call_is_begun_and_finished_by_the_real_writer(client):
    assert client.hello(SESSION)["archiveEnabled"] is True
    assert client.request("begin_call", SESSION, call("a"))["archiveRef"].startswith("yr_")
    result = {"sourceCallId": "a", "result": {"n": 1}, "capturedAtMs": 2}
    client.request("result_before", SESSION, result)
    end = {"sourceCallId": "a", "result": {"n": 1}, "isError": False, "requirePreResult": True}
    assert client.request("finish_call", SESSION, {**end, "finishedAtMs": 3})["ok"] is True


def test_a_refusal_says_why_and_the_writer_goes_on(client):
    client.request("begin_call", SESSION, call("a"))
    other = call("a")
    other["inputBefore"] = {"command": "rm"}
    with pytest.raises(Refused, match="another input"):
        client.request("begin_call", SESSION, other)
    client.request("begin_call", SESSION, call("b"))


def test_a_killed_writer_is_started_again_for_the_same_frame(client):
    first = client.request("begin_call", SESSION, call("a"))["archiveRef"]
    os.kill(client._child._process.pid, signal.SIGKILL)
    assert client.request("begin_call", SESSION, call("a"))["archiveRef"] == first


def test_an_input_larger_than_a_pipe_gets_through(client):
    big = call("a")
    big["inputBefore"] = {"command": "é" * 2_000_000}
    assert client.request("begin_call", SESSION, big)["ok"] is True


def test_lone_surrogates_and_strange_values_get_through(client):
    odd = call("a")
    odd["inputBefore"] = {"command": "\ud800", "value": object}
    assert client.request("begin_call", SESSION, odd)["ok"] is True


def test_requests_of_many_threads_come_one_after_another(client):
    found = []
    ask = lambda n: found.append(client.request("begin_call", SESSION, call(f"c{n}"))["archiveRef"])  # noqa: E731
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8


def test_a_program_that_cannot_be_started_is_off_for_good(yarp_home, tmp_path):
    client = Client([str(tmp_path / "gone")])
    for _ in range(2):
        with pytest.raises(Off, match="cannot be started"):
            client.hello(SESSION)


def test_a_broken_configuration_is_off_with_its_reason(yarp_home):
    folder = yarp_home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("broken [")
    client = Client(YARP)
    with pytest.raises(Off, match=r"config\.toml"):
        client.hello(SESSION)
    client.close()


def test_another_protocol_is_off(peer):
    client = peer("say(frame(), protocol=2)\nframe()\n")
    with pytest.raises(Off, match="speaks protocol 1"):
        client.hello(SESSION)


def test_a_restarted_writer_is_asked_for_its_protocol_too(peer):
    client = peer(
        "n = sum(name.isdigit() for name in os.listdir(here)); open(f'{here}/{n}', 'w').close()\n"
        "say(frame(), protocol=9 if n else 1)\nframe()\n"
    )
    client.hello(SESSION)
    with pytest.raises(Off, match="the program 9"):
        client.request("begin_call", SESSION, call("a"))


def test_no_answer_in_time_is_a_failure_after_one_restart(peer, tmp_path):
    client = peer("open(f'{here}/{os.getpid()}.started', 'w').close()\nframe()\ntime.sleep(60)\n")
    with pytest.raises(Failed, match="after a restart"):
        client.request("hello", SESSION, {}, patience_s=1.0)
    assert len(list(tmp_path.glob("*.started"))) <= 2


def test_a_writer_that_was_waited_for_in_vain_is_waited_for_shortly_until_it_answers(
    peer, tmp_path, monkeypatch
):
    client = peer(
        "a = frame()\nwhile not os.path.exists(f'{here}/answers'): time.sleep(0.02)\n"
        "say(a)\nframe()\n"
    )
    monkeypatch.setattr("yarp_gptme.client._IMPATIENT_S", 0.2)
    waited = []
    line = type(client)._exchange

    def exchange(self, operation, request_id, session, frame, until):
        waited.append(until - client_module.time.monotonic())
        return line(self, operation, request_id, session, frame, until)

    monkeypatch.setattr(type(client), "_exchange", exchange)
    for patience_s, most_s in ((0.1, 0.1), (0.6, 0.6), (600.0, 0.2), (600.0, 0.2)):
        waited.clear()
        with pytest.raises(Failed, match="no answer in time"):
            client.request("hello", SESSION, {}, patience_s=patience_s)
        assert max(waited) <= most_s
    (tmp_path / "answers").touch()
    monkeypatch.setattr("yarp_gptme.client._IMPATIENT_S", 60.0)
    client.request("hello", SESSION, {}, patience_s=60.0)
    assert client._silent is False


@pytest.mark.parametrize("line", ["no json", "{}", "[]", '{"ok": 1}'])
def test_an_answer_that_is_none_is_a_failure(peer, line):
    client = peer(f"frame()\nprint({line!r}, flush=True)\nframe()\n")
    with pytest.raises(Failed, match="something else"):
        client.hello(SESSION)


def test_answers_that_nobody_waits_for_are_passed_over(peer):
    client = peer("a = frame()\nsay({'requestId': 999})\nsay(a, extra=7)\nframe()\n")
    assert client.hello(SESSION)["extra"] == 7


def test_a_closed_client_takes_nothing_more(yarp_home):
    client = Client(YARP)
    client.hello(SESSION)
    child = client._child._process
    client.close()
    assert child.poll() == 0
    with pytest.raises(Off):
        client.request("begin_call", SESSION, call("a"))
