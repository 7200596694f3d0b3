"""The real Claude Code against a scripted model: what the index says of its transcripts."""

from __future__ import annotations

import json
import subprocess

import pytest

from yarp.index.examples import EXAMPLES
from yarp.testing.files import neighbour
from yarp.testing.live import eventually

live = neighbour(__file__, "test_live")
binaries, place = live.binaries, live.place

pytestmark = pytest.mark.slow


def ask(place, sql):
    said = json.loads(place.yarp("index", "query", "run", sql))["data"]
    assert said["complete"], said
    return [tuple(row.values()) for row in said["rows"]]


def test_each_scripted_fact_is_found_by_one_statement(place):
    look = {"description": "look", "prompt": "SUBTASK: look", "run_in_background": False}
    turns = [
        [("Read", {"file_path": str(place.project / "notes.txt")})],
        [("Bash", {"command": "echo out && echo oops >&2; exit 3"})],
        [("Agent", look | {"subagent_type": "general-purpose"})],
        [],
        [("Bash", {"command": "echo again"})],
        [],
    ]
    scripts = {"SUBTASK": [[("Bash", {"command": "echo from the worker"})]], "KINDS": turns}
    place.run(scripts, "KINDS please", live.BYPASS)
    store = str(place.home / ".claude" / "projects")
    place.yarp("index", "sync", store)
    place.run(scripts, "Go on.", live.BYPASS, "--continue")
    place.run(scripts, "And in a fork.", live.BYPASS, "--continue", "--fork-session")
    report = json.loads(place.yarp("index", "sync", store))["data"]
    assert (report["skipped_files"], report["failed_files"], report["rebuilt_files"]) == (0, 0, 0)
    assert report["appended_files"] == 1

    roles = dict(
        ask(
            place,
            "SELECT json_extract(semantic, '$.role') AS role, count(*) AS n FROM items GROUP BY 1",
        )
    )
    assert roles.get("runtime.unknown", 0) <= sum(roles.values()) / 100, roles
    # The session, its continuation and the fork, which holds a copy of both.
    assert ask(
        place,
        "SELECT b.text, count(*) FROM items JOIN blobs AS b"
        " ON b.blob_id = json_extract(semantic, '$.value.text.blob_id')"
        " WHERE json_extract(semantic, '$.role') = 'human.request' GROUP BY 1 ORDER BY 1",
    ) == [("And in a fork.", 1), ("Go on.", 2), ("KINDS please", 2)]
    assert ask(
        place,
        "SELECT json_extract(o.semantic, '$.value.failed'), b.text FROM items AS c"
        " JOIN items AS o ON json_extract(o.semantic, '$.value.call_item_id') = c.item_id"
        " JOIN blobs AS b ON b.blob_id = json_extract(o.semantic, '$.value.text.blob_id')"
        " WHERE json_extract(c.semantic, '$.value.shell_fragments[0].statements[1].connector')"
        " = '&&' LIMIT 1",
    ) == [(1, "Exit code 3\nout\noops")]
    assert ask(
        place,
        "SELECT DISTINCT w.delegated_from IS NOT NULL FROM items AS d JOIN sessions AS w"
        " ON w.session_id = json_extract(d.semantic, '$.value.child_session_id')"
        " JOIN items AS c ON c.session_id = w.session_id"
        " WHERE json_extract(d.semantic, '$.role') = 'agent.delegation'"
        " AND json_extract(c.semantic, '$.value.arguments.command') = 'echo from the worker'",
    ) == [(1,)]
    answers = ask(
        place,
        "SELECT count(*) FROM items WHERE json_extract(semantic, '$.role') = 'agent.final_answer'",
    )
    ended = ask(place, 'SELECT count(*), count("end"), count(usage), count(model) FROM loops')
    assert answers == [(ended[0][0],)]
    assert len(set(ended[0])) == 1
    assert not ask(
        place,
        "SELECT item_id FROM items WHERE json_extract(semantic, '$.role') = 'tool.output'"
        " AND json_extract(semantic, '$.value.call_item_id') IS NULL",
    )


def test_each_scripted_fact_is_found_by_the_statement_that_the_documentation_has(place):
    """Request, steering, call, output, delegation, final answer and interruption."""
    command = "touch running; sleep 3; echo from the call; exit 3"
    look = {"description": "look", "prompt": "SUBTASK: look", "run_in_background": False}
    turns = [
        [("Agent", look | {"subagent_type": "general-purpose"})],
        [("Bash", {"command": command})],
        [],
        [("Bash", {"command": "touch again; sleep 60"})],
    ]
    scripts = {"SUBTASK": [[("Bash", {"command": "echo from the worker"})]], "KINDS": turns}
    model = live.Model(scripts)
    words = ["claude", "-p", live.BYPASS, "--verbose"]
    words += ["--input-format", "stream-json", "--output-format", "stream-json"]
    child = subprocess.Popen(
        words, cwd=place.project, env=place.environment | {"ANTHROPIC_BASE_URL": model.url},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        say(child, type="user", message={"role": "user", "content": "KINDS please"})
        eventually((place.project / "running").exists)
        say(child, type="user", message={"role": "user", "content": "Rather in src."})
        rest(child)
        say(child, type="user", message={"role": "user", "content": "Go on."})
        eventually((place.project / "again").exists)
        say(child, type="control_request", request_id="1", request={"subtype": "interrupt"})
        rest(child)
        child.stdin.close()
        child.wait(60)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        model.close()
    report = json.loads(place.yarp("index", "sync", str(place.home / ".claude" / "projects")))
    assert report["data"]["indexed_files"] == 2
    found = {one.name: rows(place, one.sql) for one in EXAMPLES}
    assert {row["request"] for row in found["requests"]} == {"KINDS please", "Go on."}
    assert [row["said"] for row in found["steering"]] == ["Rather in src."]
    assert {row["command"] for row in found["calls"]} == {
        command, "touch again; sleep 60", "echo from the worker",
    }  # fmt: skip
    (failed,) = (row for row in found["outputs"] if row["command"] == command)
    assert failed["output"] == "Exit code 3\nfrom the call"
    # The call in the session names the worker; in the worker's own, the task opens it.
    (task,) = (row for row in found["delegations"] if row["child"] is not None)
    assert {(row["native_id"], row["task"]) for row in found["delegations"] if row is not task} == {
        (task["child"], "SUBTASK: look")
    }
    assert {row["native_id"]: row["answer"] for row in found["answers"]} == {
        task["native_id"]: "done", task["child"]: "done",
    }  # fmt: skip
    assert [(row["outcome"], row["request"]) for row in found["interruptions"]] == [
        ("interrupted", "Go on.")
    ]
    kinds = "SELECT json_extract(semantic, '$.role') AS role, count(*) AS n FROM items GROUP BY 1"
    roles = {row["role"]: row["n"] for row in rows(place, kinds)}
    assert roles.get("runtime.unknown", 0) <= sum(roles.values()) / 100, roles


def rows(place, sql):
    said = json.loads(place.yarp("index", "query", "run", sql))["data"]
    assert said["complete"], said
    return said["rows"]


def say(child, **message):
    child.stdin.write(json.dumps(message) + "\n")
    child.stdin.flush()


def rest(child):
    """Wait until the agent has answered all that it was asked."""
    for line in child.stdout:
        if json.loads(line).get("type") == "result":
            return
    raise AssertionError("the agent ended")
