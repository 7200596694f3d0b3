"""The real gptme against a scripted model: what the archive and the receipts hold afterwards."""

from __future__ import annotations

import json
import signal

import pytest

from yarp.testing.files import neighbour
from yarp.testing.live import eventually

PATCH = "<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> UPDATED"
pytestmark = pytest.mark.slow

agent = neighbour(__file__, "agent")


@pytest.fixture(scope="module")
def binaries(tmp_path_factory):
    """The folder with the programs of an environment that holds gptme and YARP."""
    python = agent.installed(tmp_path_factory)
    return agent.beside(python, tmp_path_factory.mktemp("beside") / "gptme").parent


@pytest.fixture
def place(yarp_home, binaries):
    return agent.Place(yarp_home, binaries)


def test_every_call_is_in_the_archive_also_one_that_failed(place):
    model = place.run(
        [
            [("shell", {"command": "echo out; echo err >&2"})],
            [("shell", {"command": "echo before; (exit 3)"})],
            [("save", {"path": "notes.txt", "content": "first\n"})],
            [("patch", {"path": "none.txt", "patch": PATCH})],
            [("read", {"path": "notes.txt"})],
            [("no_such_tool", {"x": 1})],
        ]
    )
    calls = place.calls()
    assert {name: (call["tool_name"], call["is_error"]) for name, call in calls.items()} == {
        "call_demo_0_0": ("shell", 0),
        "call_demo_1_0": ("shell", 1),
        "call_demo_2_0": ("save", 0),
        "call_demo_3_0": ("patch", 1),
        "call_demo_4_0": ("read", 0),
    }
    assert {call["status"] for call in calls.values()} == {"finished"}
    assert {(call["agent"], call["source_session_id"]) for call in calls.values()} == {
        ("gptme", "talk")
    }
    assert {(call["provider"], call["model"]) for call in calls.values()} == {("local", "mock")}
    failed = calls["call_demo_1_0"]
    assert json.loads(failed["input/before"]) == {"command": "echo before; (exit 3)"}
    result = json.loads(failed["result/after"])
    assert result["exitCode"] == 3
    assert result["messages"][0]["content"] == model.results()["call_demo_1_0"]


def test_two_calls_of_one_answer_are_two(place):
    two = [("shell", {"command": "echo one"}), ("shell", {"command": "echo two"})]
    model = place.run([two], options=["--no-stream"])
    calls = place.calls()
    assert list(calls) == ["call_demo_0_0", "call_demo_0_1"]
    assert "`two`" in model.results()["call_demo_0_1"]


def test_calls_in_markdown_get_ids_of_their_own(place):
    place.run(
        ["```shell\necho one\n```\n\n```shell\necho two\n```\n", "```shell\necho three\n```\n"],
        form="markdown",
        options=["--no-stream"],
    )
    inputs = [json.loads(call["input/before"])["command"] for call in place.calls().values()]
    assert inputs == ["echo one", "echo two", "echo three"]


def test_a_call_is_not_run_when_it_cannot_be_archived(place):
    place.run([[("shell", {"command": "echo warm"})]])
    place.archive.write_bytes(b"no archive")
    model = place.run([[("shell", {"command": "touch ran"})]], name="second")
    assert not (place.project / "ran").exists()
    assert "could not be archived" in model.results()["call_demo_0_0"]


def test_its_health_is_asked_in_gptmes_own_interpreter(place):
    found = json.loads(place.yarp("hosts", "show", "gptme", "--json"))
    assert (found["installed"], found["hooked_in"], found["version"]) == (True, True, "0.35.1")
    assert not [note for note in found["notes"] if "unavailable" in note]
    assert any(sentence.startswith("Missing hook") for sentence in found["withholds"])


def test_uninstalling_leaves_gptme_as_it_was(place):
    place.yarp("uninstall", "gptme")
    assert place.configuration.read_text() == '[user]\nname = "Ada"\n\n[env]\n'
    place.run([[("shell", {"command": "seq 1 20000"})]])
    assert not place.archive.exists()
    assert place.receipts() == []


# Receipts


EMIT = (
    "import sys\nw=sys.stdout.write\nw('BEGIN-MARKER\\n')\n"
    "for i in range(60000): w('%038d\\n' % i)\nw('END-MARKER\\n')\nsys.exit(2)\n"
)


def sizes(receipt):
    return [(s["name"], s["observed"], s["committed"]) for s in receipt["streams"]]


def test_a_huge_output_keeps_every_byte_and_shows_head_and_tail(place):
    model = place.run(
        [[("shell", {"command": "seq 1 60000"})], [("shell", {"command": "echo small"})]]
    )
    (receipt,) = place.receipts()
    assert (receipt["process"], receipt["exit_code"]) == ("exited", 0)
    assert (receipt["capture"], receipt["capture_reason"]) == ("complete", None)
    assert receipt["source_call_id"] == "call_demo_0_0"
    assert place.stream(receipt, "stdout") == b"".join(b"%d\n" % n for n in range(1, 60001))
    shown = model.results()["call_demo_0_0"]
    assert len(shown) < 10_000
    for part in ("1\n2\n", "\n60000", receipt["capture_id"], "348894 bytes, whole in /"):
        assert part in shown
    # What a receipt names is attached to no message, neither by gptme nor by us.
    log = (place.conversation() / "conversation.jsonl").read_text().splitlines()
    assert not [message for message in map(json.loads, log) if message.get("files")]
    # gptme itself wrote no second copy.
    assert not (place.conversation() / "tool-outputs" / "shell").exists()
    call = place.calls()["call_demo_0_0"]
    assert call["source_output/before"] == place.stream(receipt, "stdout")
    assert json.loads(call["result/after"])["receipts"] == [receipt]
    assert "output truncated" in json.loads(call["result/before"])["messages"][0]["content"]
    assert shown == json.loads(call["result/after"])["messages"][0]["content"]
    # And the command line finds it, and what it keeps is what was kept.
    assert receipt["capture_id"][:8] in place.yarp("receipt", "list")
    assert "(published)" in place.yarp("receipt", "show", receipt["capture_id"])
    place.yarp("receipt", "verify")
    tail = place.yarp(
        "receipt", "show", receipt["capture_id"], "--stream", "stdout", "--bytes", "0:4"
    )
    assert tail == "1\n2\n"


def test_a_real_process_of_2340024_characters_that_exits_2_keeps_its_beginning(place):
    (place.project / "emit.py").write_text(EMIT)
    command = "python3 emit.py"
    model = place.run(
        [
            [("shell", {"command": command, "background": "true"})],
            [("shell", {"command": "wait 1 60s"})],
            [("shell", {"command": command})],
        ]
    )
    for receipt in place.receipts():
        assert (receipt["process"], receipt["exit_code"]) == ("exited", 2)
        assert receipt["capture"] == "complete"
        assert sizes(receipt)[0] == ("stdout", 2340024, 2340024)
        kept = place.stream(receipt, "stdout")
        assert kept.startswith(b"BEGIN-MARKER\n0")
        assert kept.endswith(b"\nEND-MARKER\n")
    assert len(place.receipts()) == 2
    results = model.results()
    assert "BEGIN-MARKER" in results["call_demo_1_0"]
    assert "exit code: 2" in results["call_demo_1_0"]
    assert "Return code: 2" in results["call_demo_2_0"]


def test_a_background_job_is_read_while_it_runs(place):
    command = "echo line 1; until [ -e go ]; do sleep 0.05; done; echo line 2; exit 3"
    live = "../data/gptme/logs/talk/tool-outputs/captures/*.stdout.live"
    model = place.run(
        [
            [("shell", {"command": command, "background": "true"})],
            [("shell", {"command": f"until cat {live} | grep line; do sleep 0.05; done"})],
            [("shell", {"command": "output 1"})],
            [("shell", {"command": "output 1 --new"})],
            [("shell", {"command": "touch go"})],
            [("shell", {"command": "wait 1 60s"})],
        ]
    )
    results = model.results()
    receipt = next(r for r in place.receipts() if r["job_id"])
    assert (receipt["process"], receipt["exit_code"]) == ("exited", 3)
    assert receipt["capture"] == "complete"
    started = results["call_demo_0_0"]
    assert receipt["capture_id"] in started
    assert f"{receipt['capture_id']}.stdout.live" in started
    assert "`line 1`" in results["call_demo_1_0"]
    assert "output running" in results["call_demo_2_0"]
    assert "line 1\n" in results["call_demo_3_0"]
    assert place.stream(receipt, "stdout") == b"line 1\nline 2\n"
    assert (receipt["source_call_id"], receipt["job_id"]) == ("call_demo_0_0", "1")
    # The call that began it names the capture; the model was told once that it ended.
    begun = json.loads(place.calls()["call_demo_0_0"]["result/after"])["receipts"]
    assert [one["capture_id"] for one in begun] == [receipt["capture_id"]]
    assert [one["process"] for one in begun] == ["running"]
    folder = place.conversation() / "tool-outputs" / "captures"
    assert (folder / f"{receipt['capture_id']}.delivered").exists()


def test_a_promoted_command_keeps_its_one_capture_and_its_exit_code(place):
    command = "echo first; seq 1 3000; sleep 2.5; seq 3001 6000; echo last >&2; (exit 7)"
    model = place.run(
        [[("shell", {"command": command})], [("shell", {"command": "wait 1 20s"})]],
        GPTME_SHELL_FOREGROUND_TIMEOUT="1",
    )
    (receipt,) = place.receipts()
    assert (receipt["process"], receipt["exit_code"], receipt["capture"]) == (
        "exited",
        7,
        "complete",
    )
    assert receipt["job_id"] == "1"
    wanted = b"first\n" + b"".join(b"%d\n" % n for n in range(1, 6001))
    assert place.stream(receipt, "stdout") == wanted
    assert place.stream(receipt, "stderr") == b"last\n"
    assert 0 < receipt["promoted_at"][0] < len(wanted)
    assert "Promoted to background" in model.results()["call_demo_0_0"]
    assert receipt["capture_id"] in model.results()["call_demo_0_0"]


def test_a_killed_job_is_cancelled_and_keeps_what_it_wrote(place):
    place.run(
        [
            [("shell", {"command": "echo begun; sleep 60", "background": "true"})],
            [("shell", {"command": "sleep 0.5"})],
            [("shell", {"command": "kill 1"})],
        ]
    )
    (receipt,) = place.receipts()
    assert (receipt["process"], receipt["signal"], receipt["exit_code"]) == ("cancelled", 15, None)
    assert receipt["capture"] == "complete"
    assert place.stream(receipt, "stdout") == b"begun\n"


def test_a_command_past_gptmes_time_limit_is_a_timeout(place):
    model = place.run(
        [[("shell", {"command": "seq 1 30000; sleep 60"})], [("shell", {"command": "echo on"})]],
        GPTME_SHELL_TIMEOUT="2",
    )
    (receipt,) = place.receipts()
    assert (receipt["process"], receipt["exit_code"], receipt["capture"]) == (
        "timeout",
        None,
        "complete",
    )
    assert place.stream(receipt, "stdout").endswith(b"\n30000\n")
    assert "timed out" in model.results()["call_demo_0_0"]
    assert "`on`" in model.results()["call_demo_1_0"]


def test_a_descendant_that_holds_the_pipe_makes_the_capture_partial(place):
    place.run(
        [
            [("shell", {"command": "echo parent; sleep 8 & exit 4", "background": "true"})],
            [("shell", {"command": "wait 1 20s"})],
            [("shell", {"command": "sleep 2"})],
        ]
    )
    (receipt,) = place.receipts()
    assert (receipt["process"], receipt["exit_code"]) == ("exited", 4)
    assert (receipt["capture"], receipt["capture_reason"]) == ("partial", "drain-timeout")
    assert place.stream(receipt, "stdout") == b"parent\n"


def test_configured_credentials_never_reach_a_file(place):
    secret = "sk-a-configured-key"
    model = place.run(
        [
            [
                (
                    "shell",
                    {
                        "command": f"seq 1 9000; printf '%s' {secret[:9]}; sleep 0.3; echo {secret[9:]}; seq 1 9000"
                    },
                )
            ]
        ],
        SOME_API_KEY=secret,
    )
    (receipt,) = place.receipts()
    assert (receipt["capture"], receipt["representation"]) == ("complete", "redacted_text")
    kept = place.stream(receipt, "stdout")
    assert secret.encode() not in kept
    assert b"[REDACTED]\n1\n" in kept
    del model


def test_with_reduce_a_rule_answers_and_the_whole_text_is_in_the_archive(place):
    place.set(reduce=True)
    (place.project / "test_rows.py").write_text(
        "import unittest\n\nclass TestRows(unittest.TestCase): pass\n\n"
        "def make(n): return lambda self: self.assertEqual(n, 5 if n == 118 else n)\n\n"
        "for n in range(300): setattr(TestRows, f'test_row_{n:03}', make(n))\n"
    )
    model = place.run([[("shell", {"command": "python3 -m unittest -v"})]])
    shown = model.results()["call_demo_0_0"]
    assert "test_row_118" in shown
    assert "test_row_007" not in shown
    assert "Return code: 1" in shown
    call = place.calls()["call_demo_0_0"]
    assert call["archive_ref"] in shown
    assert b"test_row_007" in call["result_text/before"]
    assert "test_row_007" in json.loads(call["result/before"])["messages"][0]["content"]
    assert "test_row_007" in place.yarp("search", call["archive_ref"], "test_row_007")


def test_a_command_that_the_user_keeps_from_being_stored_is_not(place):
    place.set(never_spool=["seq"])
    model = place.run([[("shell", {"command": "seq 1 60000"})]])
    # What gptme saves is a text that says so.
    assert [receipt["process"] for receipt in place.receipts()] == [None]
    files = [path for path in (place.conversation() / "tool-outputs").rglob("*") if path.is_file()]
    assert all(b"30000" not in path.read_bytes() for path in files)
    assert "\n59999\n60000" in model.results()["call_demo_0_0"]


def test_an_interrupted_command_is_cancelled_and_its_call_says_so(place):
    model = neighbour(__file__, "model").Model(
        {"demo": [[("shell", {"command": "seq 1 60000; sleep 60"})]]}
    )
    model.word = "demo"
    process = place.start(model)
    try:
        eventually(lambda: list(place.conversation().rglob("*.stdout.live")))
        eventually(
            lambda: any(
                p.stat().st_size > 300_000 for p in place.conversation().rglob("*.stdout.live")
            )
        )
        process.send_signal(signal.SIGINT)
        eventually(place.receipts)
        eventually(lambda: [c["status"] for c in place.calls().values()] == ["finished"])
    finally:
        process.terminate()
        process.communicate(timeout=30)
        model.close()
    (receipt,) = place.receipts()
    assert (receipt["process"], receipt["process_reason"]) == (
        "cancelled",
        "interrupted by the user",
    )
    assert place.stream(receipt, "stdout").endswith(b"\n60000\n")
    (call,) = place.calls().values()
    assert call["is_error"] == 1


def test_a_killed_gptme_leaves_what_is_partial_and_stays_partial(place):
    waits = f"until [ -e {place.home}/gate ]; do sleep 0.05; done"
    model = neighbour(__file__, "model").Model(
        {
            "demo": [
                [("shell", {"command": f"echo kept; {waits}", "background": "true"})],
                [("shell", {"command": waits})],
            ]
        }
    )
    model.word = "demo"

    def listed():
        found = json.loads(place.yarp("receipt", "list", "--json"))["receipts"]
        return [one for one in found if one["job_id"] == "1"]

    process = place.start(model)
    try:
        eventually(
            lambda: any(p.stat().st_size for p in place.conversation().rglob("*.stdout.live"))
        )
        (left,) = listed()
        assert (left["process"], left["capture"]) == ("running", "pending")
    finally:
        process.kill()
        (place.home / "gate").touch()
        process.communicate(timeout=30)
        model.close()
    assert place.receipts() == []
    (left,) = listed()
    assert (left["capture"], left["capture_reason"]) == ("partial", "interrupted")
    place.run([[("shell", {"command": "echo again"})]])
    assert [one["capture"] for one in listed()] == ["partial"]


def test_a_large_result_of_the_python_tool_is_kept(place):
    model = place.run([[("ipython", {"code": "print('B' + 'x' * 50_000 + 'E')"})]])
    (receipt,) = place.receipts()
    assert (receipt["capture"], receipt["process"]) == ("partial", None)
    assert "x" * 50_000 + "E" in place.stream(receipt, "txt").decode()
    shown = model.results()["call_demo_0_0"]
    assert len(shown) < 9000
    assert receipt["capture_id"] in shown
    before = json.loads(place.calls()["call_demo_0_0"]["result/before"])
    assert "x" * 50_000 in before["messages"][0]["content"]


def test_a_gptme_of_another_shape_is_told_once_and_runs_as_without_us(place):
    shim = place.home / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(
        "import importlib.abc, sys\n"
        "class Find(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name != 'yarp_gptme.inside': return None\n"
        "        sys.meta_path.remove(self)\n"
        "        from gptme.tools import shell, shell_background as jobs\n"
        "        real = shell._format_shell_output\n"
        "        shell._format_shell_output = lambda cmd, *rest, **named: real(cmd, *rest, **named)\n"
        "        append = jobs.BackgroundJob._append_output\n"
        "        jobs.BackgroundJob._append_output = lambda self, *a, **k: append(self, *a, **k)\n"
        "sys.meta_path.insert(0, Find())\n"
    )
    model = place.run([[("shell", {"command": "seq 1 60000"})]], PYTHONPATH=str(shim))
    assert [receipt["process"] for receipt in place.receipts()] == [None]
    said = " ".join((model.out + model.err).split())
    assert said.count("spools of commands in the foreground: unavailable") == 1
    assert said.count("spools of background jobs: unavailable") == 1
    assert "output truncated" in model.results()["call_demo_0_0"]
    assert place.calls()["call_demo_0_0"]["status"] == "finished"
