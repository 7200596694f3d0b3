"""The life of a call, around made-up tools, with the real writer of the archive."""

from __future__ import annotations

import json
import sqlite3
import sys
from types import SimpleNamespace

import pytest
import zstandard

from yarp_gptme import calls
from yarp_gptme.client import Client
from yarp_gptme.record import Blocked, Recorder

YARP = [sys.executable, "-m", "yarp"]


def message(content, **more):
    return SimpleNamespace(
        role="system", content=content, call_id=None, files=[], hide=False, **more
    )


def use(tool="shell", call_id="call_1", **more):
    given = {"args": None, "content": None, "kwargs": {"command": "ls"}, "start": 3}
    return SimpleNamespace(**{**given, "tool": tool, "call_id": call_id, **more})


class Place:
    def __init__(self, home):
        self.home = home
        self.said = []
        self.recorder = Recorder(Client(YARP), self.said.append, wrapped=True)

    def run(self, tool_use, tool, log=None):
        """As `ToolUse.execute` does it: hooks around the tool, and each result told of."""

        def inner(given, log, workspace, told):
            data = SimpleNamespace(tool_use=given, log=log, workspace=workspace, result_msgs=None)
            yield from self.recorder.before(data)
            for one in tool():
                told(one)
                yield one
            yield from self.recorder.after(data)

        return self.recorder.execute(inner)(tool_use, log)

    def archived(self):
        self.recorder.close()
        connection = sqlite3.connect(self.home / "data" / "yarp" / "tool-calls.sqlite3")
        connection.row_factory = sqlite3.Row
        found = {}
        for row in connection.execute("SELECT * FROM tool_calls"):
            snapshots = connection.execute(
                "SELECT subject || '/' || stage, compression, body FROM snapshots "
                "JOIN payloads ON sha256 = payload_sha256 WHERE tool_call_id = ?",
                (row["id"],),
            )
            found[row["source_call_id"]] = dict(row) | {
                name: json.loads(zstandard.decompress(body) if kind == "zstd" else body)
                for name, kind, body in snapshots
            }
        connection.close()
        return found


@pytest.fixture
def place(yarp_home):
    one = Place(yarp_home)
    yield one
    one.recorder.close()


def texts(result):
    return [one["content"] for one in result["messages"]]


def test_the_result_is_committed_before_its_last_message_is_shown(place):
    states = []

    def tool():
        yield message("first")
        yield message("second")

    for one in place.run(use(), tool):
        with sqlite3.connect(place.home / "data" / "yarp" / "tool-calls.sqlite3") as connection:
            states.append(
                (one.content, connection.execute("SELECT status FROM tool_calls").fetchone()[0])
            )
        connection.close()
    assert states == [("first", "started"), ("second", "finished")]
    call = place.archived()["call_1"]
    assert texts(call["result/before"]) == texts(call["result/after"]) == ["first", "second"]
    assert call["input/before"] == {"command": "ls"}


def test_what_other_hooks_change_of_the_input_is_after(place):
    tool_use = use()

    def inner(given, log, workspace, told):
        given.kwargs = {"command": "ls -l"}
        yield from place.recorder.before(SimpleNamespace(tool_use=given, log=log))
        told(message("x"))
        yield message("x")
        yield from place.recorder.after(SimpleNamespace(tool_use=given, log=log))

    list(place.recorder.execute(inner)(tool_use))
    call = place.archived()["call_1"]
    assert (call["input/before"], call["input/after"]) == ({"command": "ls"}, {"command": "ls -l"})


def test_what_our_own_part_put_into_a_result_is_not_in_the_one_before(place):
    def tool():
        call = calls.current()
        call.shown.append(("short", "the long text of gptme"))
        call.receipts.append({"capture_id": "c"})
        call.exit_code = 2
        yield message("Ran: short")

    list(place.run(use(), tool))
    call = place.archived()["call_1"]
    assert texts(call["result/before"]) == ["Ran: the long text of gptme"]
    assert texts(call["result/after"]) == ["Ran: short"]
    assert call["result/after"]["receipts"] == [{"capture_id": "c"}]
    assert call["result/after"]["exitCode"] == 2
    assert call["is_error"] == 1


def test_a_call_that_is_interrupted_is_finished_with_what_came(place):
    def tool():
        yield message("partial")
        raise KeyboardInterrupt

    seen = []
    with pytest.raises(KeyboardInterrupt):
        seen += place.run(use(), tool)
    call = place.archived()["call_1"]
    assert (call["status"], call["is_error"]) == ("finished", 1)
    assert call["result/after"]["interrupted"] == "KeyboardInterrupt"
    assert texts(call["result/after"]) == ["partial"]


def test_a_call_that_nobody_reads_to_its_end_is_finished(place):
    running = place.run(use(), lambda: iter([message("one"), message("two"), message("three")]))
    next(running)
    running.close()
    call = place.archived()["call_1"]
    assert call["result/after"]["interrupted"] == "GeneratorExit"


def test_an_id_that_comes_again_gets_a_number(place):
    log = SimpleNamespace(
        messages=[SimpleNamespace(role="assistant", content="@shell(call_1): {}")]
    )
    for _ in range(2):
        list(place.run(use(), lambda: iter([message("x")]), log))
    # A later process of the same conversation, which has only its log.
    place.recorder.close()
    place.recorder = Recorder(Client(YARP), place.said.append, wrapped=True)
    list(place.run(use(), lambda: iter([message("x")]), log))
    log.messages *= 3
    list(place.run(use(), lambda: iter([message("x")]), log))
    found = place.archived()
    assert len(found) == 4
    assert {name.partition("#")[0] for name in found} == {"call_1"}
    assert {call["status"] for call in found.values()} == {"finished"}


def test_a_call_without_an_id_gets_one_from_where_it_stands(place):
    log = SimpleNamespace(messages=[SimpleNamespace(role="user", content="x")] * 5)
    markdown = use(call_id=None, kwargs=None, content="ls", args=["-l"])
    for _ in range(2):
        list(place.run(markdown, lambda: iter([message("x")]), log))
    found = place.archived()
    assert list(found) == ["at-5-3", "at-5-3#2"]
    assert found["at-5-3"]["input/before"] == {"command": "ls", "args": ["-l"]}


def test_what_is_asked_in_secret_is_kept_by_nobody(place):
    list(place.run(use(tool="elicit"), lambda: iter([message("the password")])))
    call = place.archived()["call_1"]
    assert "password" not in json.dumps([call["result/before"], call["result/after"]])


def test_without_an_archive_the_call_runs(yarp_home):
    folder = yarp_home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\n[archive]\nenabled = false\n")
    place = Place(yarp_home)
    assert [one.content for one in place.run(use(), lambda: iter([message("ran")]))] == ["ran"]
    assert place.said == []
    place.recorder.close()


def test_where_yarp_cannot_be_started_the_call_runs_and_it_is_said(yarp_home):
    place = Place(yarp_home)
    place.recorder = Recorder(Client([str(yarp_home / "gone")]), place.said.append, wrapped=True)
    for _ in range(2):
        assert [one.content for one in place.run(use(), lambda: iter([message("ran")]))] == ["ran"]
    assert all("nothing is archived" in said for said in place.said)


def test_a_call_that_cannot_be_archived_does_not_run(place):
    folder = place.home / "data" / "yarp"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "tool-calls.sqlite3").write_bytes(b"no archive")
    (folder / "tool-calls.sqlite3").chmod(0o600)
    ran = []
    call = calls.Call(use(), "talk")
    with pytest.raises(Blocked, match="could not be archived"):
        place.recorder.begin(call, None)
    assert not ran
    assert not issubclass(Blocked, Exception)


def test_with_hooks_alone_a_call_that_went_well_is_kept(yarp_home):
    said = []
    recorder = Recorder(Client(YARP), said.append, wrapped=False)
    place = Place(yarp_home)
    tool_use = use()
    list(recorder.before(SimpleNamespace(tool_use=tool_use, log=None)))
    list(recorder.after(SimpleNamespace(tool_use=tool_use, log=None, result_msgs=(message("ok"),))))
    recorder.close()
    call = place.archived()["call_1"]
    assert (call["status"], texts(call["result/after"])) == ("finished", ["ok"])


def test_a_message_may_be_declared_and_a_fault_in_that_changes_nothing(yarp_home):
    place = Place(yarp_home)
    place.recorder = Recorder(
        Client(YARP),
        place.said.append,
        wrapped=True,
        declare=lambda call, one, where: message("declared"),
    )
    assert [one.content for one in place.run(use(), lambda: iter([message("x")]))] == ["declared"]
    place.recorder.close()

    def broken(call, one, where):
        raise RuntimeError("broken")

    place.recorder = Recorder(Client(YARP), place.said.append, wrapped=True, declare=broken)
    assert [one.content for one in place.run(use(call_id="b"), lambda: iter([message("x")]))] == [
        "x"
    ]
    place.recorder.close()
