import json
import os
import sqlite3
import subprocess
import sys

import pytest

from yarp.archive.read import Reader

ARCHIVE_IDS = ("--archive-agent", "--archive-account", "--archive-session", "--archive-call")


def yarp(environment, *words):
    return subprocess.run(
        [sys.executable, "-m", "yarp", *words], capture_output=True, env=environment, check=False
    )


def rows(path, sql):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def stored(path, reference, subject, stage):
    reader = Reader.open(path)
    try:
        found = reader.snapshot(reader.call(reference).call_id, subject, stage)
        return None if found is None else reader.payload(found.sha256)
    finally:
        reader.close()


def test_the_whole_life_of_a_call_is_committed_operation_by_operation(
    peer, environment, archive_path
):
    reference = peer.begin("c1", after={"command": "ls -l"})
    assert rows(archive_path, "SELECT status, archive_ref FROM tool_calls") == [
        ("started", reference)
    ]
    peer.ok("result_before", sourceCallId="c1", result={"content": "long"}, capturedAtMs=7)
    text = peer.ok(
        "result_text", sourceCallId="c1", text="long", sourceCompleteness="complete", capturedAtMs=8
    )
    assert text["archiveRef"] == reference
    peer.ok(
        "stage_result", sourceCallId="c1", result={"content": "l"}, isError=False, capturedAtMs=9
    )
    assert rows(archive_path, "SELECT status FROM tool_calls") == [("started",)]
    peer.ok(
        "update_final_result",
        sourceCallId="c1",
        result={"content": "l!"},
        isError=True,
        finishedAtMs=10,
    )
    assert rows(
        archive_path, "SELECT status, is_error, executed, finished_at_ms FROM tool_calls"
    ) == [("finished", 1, 1, 10)]
    assert stored(archive_path, reference, "input", "before") == b'{"command":"ls"}'
    assert stored(archive_path, reference, "input", "after") == b'{"command":"ls -l"}'
    assert stored(archive_path, reference, "result", "before") == b'{"content":"long"}'
    assert stored(archive_path, reference, "result", "after") == b'{"content":"l!"}'
    assert stored(archive_path, reference, "result_text", "before") == b"long"
    assert peer.close() == (0, "")
    assert yarp(environment, "archive", "verify").returncode == 0


def test_a_call_that_never_ran_finishes_without_a_result_before(peer, environment, archive_path):
    peer.begin("c1")
    peer.ok(
        "finish_call",
        sourceCallId="c1",
        result={"content": "blocked"},
        isError=True,
        requirePreResult=False,
        finishedAtMs=9,
    )
    assert rows(archive_path, "SELECT status, executed FROM tool_calls") == [("finished", 0)]
    peer.close()
    assert yarp(environment, "archive", "verify").returncode == 0


def test_the_same_request_again_has_the_same_answer_and_makes_no_second_row(peer, archive_path):
    begin = peer.frame(
        "begin_call",
        call={"sourceCallId": "c1", "toolName": "sh", "startedAtMs": 5, "requiresStreams": False},
        inputBefore={},
        inputAfter={},
        capturedAtMs=6,
    )
    steps = [
        begin,
        peer.frame("result_before", sourceCallId="c1", result={"a": 1}, capturedAtMs=7),
        peer.frame(
            "result_text", sourceCallId="c1", text="t", sourceCompleteness="unknown", capturedAtMs=7
        ),
        peer.frame(
            "stage_result", sourceCallId="c1", result={"a": 2}, isError=False, capturedAtMs=8
        ),
        peer.frame(
            "update_final_result", sourceCallId="c1", result={"a": 3}, isError=False, finishedAtMs=9
        ),
    ]
    for step in steps:
        body = json.dumps(step).encode()
        first = peer.raw(body)
        assert first["ok"], first
        peer.kill()  # the acknowledgement may be lost with the process
        peer.start()
        assert peer.raw(body) == first
    assert rows(archive_path, "SELECT count(*) FROM tool_calls") == [(1,)]
    assert rows(archive_path, "SELECT count(*) FROM snapshots") == [(5,)]


def test_the_same_call_with_other_facts_is_refused_and_the_session_goes_on(peer, archive_path):
    peer.begin("c1")
    answer = peer.ask(
        "begin_call",
        call={
            "sourceCallId": "c1",
            "toolName": "other",
            "startedAtMs": 5,
            "requiresStreams": False,
        },
        inputBefore={},
        inputAfter={},
        capturedAtMs=6,
    )
    assert answer["ok"] is False
    peer.ok("result_before", sourceCallId="c1", result={}, capturedAtMs=7)
    again = peer.ask("result_before", sourceCallId="c1", result={"b": 1}, capturedAtMs=7)
    assert again["ok"] is False
    assert rows(archive_path, "SELECT tool_name FROM tool_calls") == [("sh",)]


def test_a_result_for_a_call_that_was_never_begun_is_refused(peer):
    peer.begin("c1")
    answer = peer.ask("result_before", sourceCallId="nobody", result={}, capturedAtMs=7)
    assert answer["ok"] is False
    assert "nobody" in answer["error"]


def test_another_schema_version_is_refused_and_the_process_goes_on(peer):
    frame = {**peer.frame("hello"), "schemaVersion": 2}
    answer = peer.raw(json.dumps(frame).encode())
    assert answer["ok"] is False
    assert "schemaVersion 2" in answer["error"]
    assert peer.ok("hello")["protocol"] == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 8,
        b"\x7f" + b"\xff" * 7,
        b"\0\0\0",
        (100).to_bytes(8, "big") + b"{",
        (2).to_bytes(8, "big") + b"[]",
        (1).to_bytes(8, "big") + b"{",
        (20).to_bytes(8, "big") + b'{"operation":"eras"}',
    ],
    ids=["zero", "too large", "half a length", "cut", "no object", "not JSON", "unknown operation"],
)
def test_a_malformed_frame_ends_the_process_with_74_and_no_answer(peer, sent):
    peer.process.stdin.write(sent)
    peer.process.stdin.flush()
    peer.process.stdin.close()
    assert peer.process.stdout.read() == b""
    assert peer.process.wait(20) == 74
    assert b"yarp: ingest ends" in peer.process.stderr.read()
    peer.process.stdout.close()
    peer.process.stderr.close()


def test_the_end_between_two_frames_is_a_clean_end(peer):
    peer.ok("hello")
    assert peer.close() == (0, "")


def test_a_host_without_a_plugin_is_refused_before_anything_is_written(peer, archive_path):
    peer.session = {**peer.session, "agent": "unheard-of"}
    call = {"sourceCallId": "c1", "toolName": "sh"}
    assert "unheard-of" in peer.ask("plan", call=call, input={"command": "ls"})["error"]
    begun = {**call, "startedAtMs": 5, "requiresStreams": False}
    answer = peer.ask("begin_call", call=begun, inputBefore={}, inputAfter={}, capturedAtMs=6)
    assert answer["ok"] is False
    assert not os.path.exists(archive_path)


@pytest.mark.parametrize(
    "text",
    ['{"id":1234567890123456789}', '"\\ud800"', '{"a":1,"a":2}', '{"n":NaN}', "[1e400]"],
)
def test_json_that_the_canonical_form_cannot_hold_is_archived_as_it_came(peer, archive_path, text):
    frame = json.dumps(
        peer.frame(
            "begin_call",
            call={
                "sourceCallId": "c1",
                "toolName": "t",
                "startedAtMs": 5,
                "requiresStreams": False,
            },
            inputBefore="HERE",
            inputAfter="HERE",
            capturedAtMs=6,
        )
    ).replace('"HERE"', text)
    answer = peer.raw(frame.encode())
    assert answer["ok"], answer
    archived = json.loads(stored(archive_path, answer["archiveRef"], "input", "before"))
    assert archived == {"yarpRawJson": text}


def test_the_whole_output_is_read_from_the_file_that_the_shell_tool_names(
    peer, archive_path, tmp_path
):
    output = tmp_path / "full.log"
    output.write_bytes(b"\xff raw\r\n" * 1000)
    reference = peer.begin("c1", tool="sh")
    peer.ok(
        "result_before", sourceCallId="c1", result={}, fullOutputPath=str(output), capturedAtMs=7
    )
    assert stored(archive_path, reference, "source_output", "before") == output.read_bytes()
    other = peer.begin("c2", tool="fetch")
    peer.ok(
        "result_before", sourceCallId="c2", result={}, fullOutputPath=str(output), capturedAtMs=7
    )
    assert stored(archive_path, other, "source_output", "before") is None


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "missing"])
def test_what_is_no_regular_file_is_refused_as_the_whole_output(peer, archive_path, tmp_path, kind):
    path = tmp_path / "full.log"
    (tmp_path / "real").write_bytes(b"x")
    if kind == "link":
        path.symlink_to(tmp_path / "real")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    reference = peer.begin("c1")
    answer = peer.ask(
        "result_before", sourceCallId="c1", result={}, fullOutputPath=str(path), capturedAtMs=7
    )
    assert answer["ok"] is False
    assert stored(archive_path, reference, "result", "before") is None


def test_a_plan_wraps_only_what_a_rule_selects_and_keeps_the_rest_of_the_input(peer):
    call = {"sourceCallId": "c'1", "toolName": "sh", "workingDirectory": "/"}
    answer = peer.ok("plan", call=call, input={"command": "pytest tests", "timeout": 5})
    assert answer["requiresStreams"] is True
    assert answer["result"] == "ordinary"
    assert answer["input"]["timeout"] == 5
    words = answer["input"]["command"]
    assert words.endswith(
        "run --archive-agent acme --archive-account someone --archive-session s1 "
        "--archive-call 'c'\\''1' --shell-program /bin/sh --shell 'pytest tests'"
    )
    for command in ("echo hello", "cd x && pytest > log", "n=$(grep -c foo f)", ""):
        left = peer.ok("plan", call=call, input={"command": command})
        assert left.get("input") is None
        assert left["requiresStreams"] is False
    assert peer.ok("plan", call={**call, "toolName": "fetch"}, input=["x"]).get("input") is None


def test_a_recovery_command_is_known_and_never_wrapped(peer):
    call = {"sourceCallId": "c1", "toolName": "sh"}
    answer = peer.ok("plan", call=call, input={"command": "yarp search yr_0 'a|b'"})
    assert answer["result"] == "recovery"
    assert answer.get("input") is None


ACME_RULE = """
[[rules]]
id = "acme-things"
programs = ["acme"]
family = "list"
"""


def test_the_rules_of_a_project_count_for_the_calls_that_run_in_it(connect, environment, tmp_path):
    for project in ("one", "two"):
        rules = tmp_path / project / ".yarp" / "rules"
        rules.mkdir(parents=True)
        (rules / "acme.toml").write_text(ACME_RULE.replace("things", project))
        (tmp_path / project / "below").mkdir()
        assert yarp(environment, "rules", "trust", str(tmp_path / project)).returncode == 0
    (tmp_path / "link").symlink_to(tmp_path / "two" / "below")
    peer = connect(environment)
    listing = "".join(f"./part/thing-{number:03}\n" for number in range(300))
    places = {
        "one": True,
        "one/below": True,
        "": False,
        "link": True,
        "two/gone": True,
        None: False,
    }
    for number, (place, inside) in enumerate(places.items()):
        directory = None if place is None else str(tmp_path / place)
        call = {"sourceCallId": f"c{number}", "toolName": "sh", "workingDirectory": directory}
        planned = peer.ok("plan", call=call, input={"command": "acme list"})
        assert (planned.get("input") is not None) is inside, place
        peer.begin(f"c{number}", before={"command": "acme list"}, directory=directory)
        reduced = peer.ok(
            "reduce",
            sourceCallId=f"c{number}",
            command="acme list",
            text=listing,
            isError=False,
            exitCode=0,
            sourceCompleteness="complete",
        )
        assert reduced["changed"] is inside, place


LONG = "".join(f"test_{number} (suite.Case.test_{number}) ... ok\n" for number in range(400)) + (
    "test_bad (suite.Case.test_bad) ... FAIL\n\n"
    + "=" * 70
    + "\nFAIL: test_bad (suite.Case.test_bad)\n"
    + "-" * 70
    + '\nTraceback (most recent call last):\n  File "/srv/suite.py", line 9, in test_bad\n'
    + "    self.assertEqual(1, 2)\nAssertionError: 1 != 2\n\n"
    + "-" * 70
    + "\nRan 401 tests in 0.100s\n\nFAILED (failures=1)\n"
)


def test_a_result_is_reduced_in_the_same_process_and_says_where_the_whole_lies(peer):
    reference = peer.begin("c1", before={"command": "python3 -m unittest -v"})
    answer = peer.ok(
        "reduce",
        sourceCallId="c1",
        command="python3 -m unittest -v",
        text=LONG,
        isError=True,
        exitCode=1,
        sourceCompleteness="complete",
    )
    assert answer["changed"] is True
    assert answer["needsResultText"] is True
    assert answer["source"] == "result_text"
    assert reference in answer["content"]
    assert "test_bad" in answer["content"]
    assert "FAILED (failures=1)" in answer["content"]
    assert len(answer["content"]) < 1500
    untouched = peer.ok(
        "reduce",
        sourceCallId="c1",
        command="cat x | python3 -m unittest -v",
        text=LONG,
        isError=True,
        sourceCompleteness="complete",
    )
    assert untouched == {
        "requestId": peer.sent,
        "ok": True,
        "changed": False,
        "needsResultText": False,
    }


def test_a_reduction_reads_the_whole_output_where_the_archive_has_it(peer, tmp_path):
    output = tmp_path / "full.log"
    output.write_text(LONG)
    peer.begin("c1", before={"command": "python3 -m unittest -v"})
    peer.ok(
        "result_before", sourceCallId="c1", result={}, fullOutputPath=str(output), capturedAtMs=7
    )
    answer = peer.ok(
        "reduce",
        sourceCallId="c1",
        command="python3 -m unittest -v",
        text="the host's own end of it",
        isError=True,
        sourceCompleteness="incomplete",
    )
    assert answer["changed"] is True
    assert answer["source"] == "source_output"
    assert answer["needsResultText"] is False
    assert "test_bad" in answer["content"]


def test_a_long_text_is_capped_and_a_short_one_is_not(peer):
    reference = peer.begin("c1")
    text = "".join(f"line {number}\n" for number in range(5000))
    answer = peer.ok("cap", sourceCallId="c1", text=text, sourceCompleteness="complete")
    assert answer["changed"] is True
    assert answer["needsResultText"] is True
    assert len(answer["content"].encode()) <= 5120
    assert reference in answer["content"]
    short = peer.ok("cap", sourceCallId="c1", text="short", sourceCompleteness="complete")
    assert short["changed"] is False


def test_a_committed_source_is_capped_in_place_of_the_part_that_the_host_shows(peer, tmp_path):
    reference = peer.begin("c1")
    whole = tmp_path / "whole.log"
    whole.write_text("".join(f"line {number}\n" for number in range(50_000)))
    shown = "".join(f"line {number}\n" for number in range(48_000, 50_000)) + "\nended with 3"
    result = {"result": {}, "capturedAtMs": 2, "fullOutputPath": str(whole)}
    peer.ok("result_before", sourceCallId="c1", **result)
    fields = {"text": shown, "ending": "\nended with 3", "sourceCompleteness": "incomplete"}
    answer = peer.ok("cap", sourceCallId="c1", **fields)
    assert (answer["source"], answer["needsResultText"]) == ("source_output", False)
    content = answer["content"]
    assert content.startswith("line 0\n")
    assert content.endswith("\nended with 3")
    assert "line 49999\n" in content
    assert reference in content
    assert len(content.encode()) <= 5120


@pytest.mark.parametrize(
    ("printed", "named"), [("err", "stderr"), ("out", "stdout"), ("both", "stderr")]
)
def test_a_wrapped_command_is_capped_from_the_stream_it_wrote_to(peer, environment, printed, named):
    peer.begin("c1", streams=True)
    script = "import sys\nlines = ''.join(f'line {number}\\n' for number in range(20000))\n"
    script += {
        "err": "sys.stderr.write(lines)",
        "out": "sys.stdout.write(lines)",
        "both": "sys.stdout.write('a line\\n'); sys.stderr.write(lines)",
    }[printed]
    ids = ("acme", "someone", "s1", "c1")
    options = [word for pair in zip(ARCHIVE_IDS, ids, strict=True) for word in pair]
    done = yarp(environment, "run", *options, "--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    shown = "".join(f"line {number}\n" for number in range(18_000, 20_000))
    fields = {"text": shown, "source": "stdout", "sourceCompleteness": "complete"}
    answer = peer.ok("cap", sourceCallId="c1", **fields)
    assert (answer["source"], answer["needsResultText"]) == (named, False)
    assert f"{named} complete" in answer["content"]
    assert answer["content"].startswith("line 0\n") is (printed != "both")
    # A place in what the host shows of two streams is none in either of them.
    way = answer["content"].rpartition("; ")[2].removesuffix("]\n").split()
    assert way[-1] == "--list" if printed == "both" else way[-2] == named
    assert yarp(environment, *way[2:]).returncode == 0


def test_with_the_archive_off_nothing_is_kept_cut_or_blocked_by_it(
    connect, environment, archive_path
):
    config = environment["HOME"] + "/.config/yarp/config.toml"
    os.makedirs(os.path.dirname(config), 0o700)
    with open(config, "w") as handle:
        handle.write("version = 1\n[archive]\nenabled = false\n")
    peer = connect(environment)
    assert peer.ok("hello")["archiveEnabled"] is False
    call = {"sourceCallId": "c1", "toolName": "sh"}
    wrapped = peer.ok("plan", call=call, input={"command": "pytest"})
    assert "--archive-call" not in wrapped["input"]["command"]
    assert wrapped["requiresStreams"] is False
    for operation in ("reduce", "cap"):
        fields = {"sourceCallId": "c1", "text": LONG, "sourceCompleteness": "complete"}
        if operation == "reduce":
            fields |= {"command": "pytest", "isError": True}
        assert peer.ok(operation, **fields)["changed"] is False
    peer.close()
    assert not os.path.exists(archive_path)


def test_an_open_archive_folder_is_narrowed_and_a_newer_archive_refuses_every_begin(
    peer, environment, archive_path
):
    peer.begin("c1")
    peer.close()
    connection = sqlite3.connect(archive_path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    peer.start()
    for number in (2, 3):
        answer = peer.ask(
            "begin_call",
            call={"sourceCallId": f"c{number}", "toolName": "sh", "startedAtMs": 5,
                  "requiresStreams": False},
            inputBefore={}, inputAfter={}, capturedAtMs=6,
        )  # fmt: skip
        assert answer["ok"] is False
        assert "version" in answer["error"]


def test_a_broken_configuration_is_said_in_every_answer(connect, environment):
    config = environment["HOME"] + "/.config/yarp/config.toml"
    os.makedirs(os.path.dirname(config), 0o700)
    with open(config, "w") as handle:
        handle.write("version = 1\ncolour = 3\n")
    peer = connect(environment)
    for _ in range(2):
        answer = peer.ask("hello")
        assert answer["ok"] is False
        assert "colour" in answer["error"]
    peer.kill()


REDUCER = """
from yarp.plugin import Band, Family, Piece, Reducer

class Says(Family):
    def feed(self, stream, block):
        if b"(failures=2)" in block:
            raise KeyError("secret payload")
        print("stray")

    def finish(self, status):
        return [Piece(b"said by acme", 0, lines=0)]


@hookimpl
def yarp_reducers():
    return [Reducer("says", band=Band.FALLBACK, make=Says)]
"""


def test_a_plugin_may_reduce_and_what_it_raises_leaves_the_result_alone(
    environment, connect, tmp_path
):
    with open(tmp_path / "site" / "yarp_acme.py", "a", encoding="utf-8") as module:
        module.write(REDUCER)
    peer = connect(environment)
    peer.begin("c1", before={"command": "python3 -m unittest -v"})
    fields = {
        "sourceCallId": "c1",
        "command": "python3 -m unittest -v",
        "isError": True,
        "sourceCompleteness": "complete",
    }
    assert peer.ok("reduce", text=LONG, **fields)["content"].startswith("said by acme\n[yarp: ")
    failing = LONG.replace("(failures=1)", "(failures=2)")
    assert peer.ok("reduce", text=failing, **fields)["changed"] is False
    status, said = peer.close()
    assert status == 0
    assert "reducer says of plugin acme raised KeyError" in said
    assert "secret" not in said


NOISE = "print('printed'); os.write(1, b'written'); os.system('echo spawned')"


def test_what_plugins_print_is_no_part_of_the_answers(connect, environment):
    """Nor does a plugin read the frames, whichever thread of its it is."""
    with open(environment["PYTHONPATH"] + "/yarp_acme.py", "a") as handle:
        handle.write(
            f"import os, sys, threading\n{NOISE}\nassert sys.stdin.read() == ''\n"
            f"@hookimpl\ndef yarp_rewrite_input(call): {NOISE}\n"
            "@hookimpl\ndef yarp_call_started(call):\n"
            f"    def late(): {NOISE}\n"
            "    threads.append(threading.Thread(target=late)); threads[-1].start()\n"
            "@hookimpl\ndef yarp_call_finished(call): threads[0].join(); sys.exit(9)\n"
            "threads = []\n"
        )
    peer = connect(environment)
    peer.ok("plan", call={"sourceCallId": "c1", "toolName": "sh"}, input={"command": "ls"})
    peer.begin("c1")
    peer.ok(
        "finish_call", sourceCallId="c1", result={}, isError=True,
        requirePreResult=False, finishedAtMs=9,
    )  # fmt: skip
    status, said = peer.close()
    assert status == 0
    assert "plugin acme raised in yarp_call_finished: SystemExit: 9" in said
    for word in ("printed", "written", "spawned"):
        assert word in said


@pytest.mark.parametrize(
    ("descriptors", "status"), [("<&-", 0), (">&-", 74), ("2>&-", 0), ("<&- >&- 2>&-", 74)]
)
def test_closed_standard_descriptors_harm_nothing(environment, descriptors, status):
    line = f'exec "$0" -m yarp archive ingest </dev/null {descriptors}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable], env=environment, capture_output=True, check=False
    )
    assert done.returncode == status
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("depth", [200, 254, 1000, 1100, 5000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_archived_and_never_ends_the_session(
    peer, archive_path, depth, opening, closing
):
    value = opening * depth + '"]}"' + closing * depth
    frame = json.dumps(
        peer.frame(
            "begin_call",
            call={
                "sourceCallId": "c1",
                "toolName": "t",
                "startedAtMs": 5,
                "requiresStreams": False,
            },
            inputBefore="HERE",
            inputAfter="HERE",
            capturedAtMs=6,
        )
    ).replace('"HERE"', value)
    answer = peer.raw(frame.encode())
    assert answer["ok"], answer
    archived = stored(archive_path, answer["archiveRef"], "input", "before")
    assert archived == value.encode() or json.loads(archived) == {"yarpRawJson": value}
    assert peer.ok("hello")
