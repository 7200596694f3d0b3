"""The real Pi, both of its packages, against a scripted model: what the index says of it."""

from __future__ import annotations

import json

import pytest

from yarp.index.examples import EXAMPLES
from yarp.testing.files import neighbour
from yarp.testing.live import eventually

live = neighbour(__file__, "test_live")
prefix, place = live.prefix, live.place

pytestmark = pytest.mark.slow


def ask(place, sql):
    said = json.loads(place.yarp("index", "query", "run", sql))["data"]
    assert said["complete"], said
    return [tuple(row.values()) for row in said["rows"]]


def test_each_scripted_fact_is_found_by_one_statement(prefix, place):
    turns = [
        [("read", {"path": "notes.txt"})],
        [("bash", {"command": "touch running; sleep 2; echo out | tr o O; exit 3"})],
        [],
        [("bash", {"command": "touch again; sleep 30"})],
    ]
    model = place.model({"KINDS": turns})
    store = str(place.home / ".pi" / "agent" / "sessions")
    with live.Pi(prefix, place.home, place.project) as pi:
        pi.command("set_session_name", name="Kinds")
        pi.command("prompt", message="KINDS please")
        eventually((place.project / "running").exists)
        pi.command("steer", message="Rather in src.")
        pi.until("agent_settled", "agent_end")
        place.yarp("index", "sync", store)
        pi.command("prompt", message="Go on.")
        eventually((place.project / "again").exists)
        before = len(pi.seen)
        pi.command("abort")
        # Since 1.0 the answer comes when the agent is at rest already.
        rests = {"agent_settled", "agent_end"}
        if not rests & {event["type"] for event in pi.seen[before:]}:
            pi.until(*rests)
        points = pi.command("get_fork_messages")["messages"]
        pi.command("fork", entryId=points[-1]["entryId"])
        pi.prompt("In the fork.")
    model.close()
    report = json.loads(place.yarp("index", "sync", store))["data"]
    assert (report["skipped_files"], report["failed_files"], report["rebuilt_files"]) == (0, 0, 0)

    roles = dict(
        ask(
            place,
            "SELECT json_extract(semantic, '$.role') AS role, count(*) AS n FROM items GROUP BY 1",
        )
    )
    assert roles.get("runtime.unknown", 0) <= sum(roles.values()) / 100, roles
    said = ask(
        place,
        "SELECT s.forked_from IS NULL, json_extract(semantic, '$.role'), b.text FROM items"
        " JOIN sessions AS s USING (session_id) JOIN blobs AS b"
        " ON b.blob_id = json_extract(semantic, '$.value.text.blob_id')"
        " WHERE json_extract(semantic, '$.role') LIKE 'human.%' ORDER BY s.session_id, item_id",
    )
    assert said[:3] == [
        (1, "human.request", "KINDS please"),
        (1, "human.steering", "Rather in src."),
        (1, "human.request", "Go on."),
    ]
    assert (0, "human.request", "In the fork.") in said
    assert ask(place, "SELECT DISTINCT name FROM sessions WHERE forked_from IS NULL") == [
        ("Kinds",)
    ]
    outcomes = ask(
        place,
        "SELECT json_extract(\"end\", '$.outcome'), count(*) FROM loops GROUP BY 1 ORDER BY 1",
    )
    assert {"completed", "interrupted"} <= {outcome for outcome, _ in outcomes}
    assert None not in {outcome for outcome, _ in outcomes}
    assert ask(
        place,
        "SELECT DISTINCT json_extract(o.semantic, '$.value.failed'), instr(b.text, 'Out') > 0"
        " OR instr(b.text, 'OuT') > 0 FROM items AS c"
        " JOIN items AS o ON json_extract(o.semantic, '$.value.call_item_id') = c.item_id"
        " JOIN blobs AS b ON b.blob_id = json_extract(o.semantic, '$.value.text.blob_id')"
        " WHERE json_extract(c.semantic, '$.value.shell_fragments[0].statements[2].pipeline.id')"
        " IS NOT NULL",
    ) == [(1, 1)]

    # The same by the statements of the documentation; Pi itself delegates nothing.
    found = {one.name: rows(place, one.sql) for one in EXAMPLES}
    requests = {"KINDS please", "Go on.", "In the fork."}
    assert requests <= {row["request"] for row in found["requests"]}
    assert "Rather in src." in {row["said"] for row in found["steering"]}
    assert {turns[1][0][1]["command"], "touch again; sleep 30"} <= {
        row["command"] for row in found["calls"]
    }
    failed = [row for row in found["outputs"] if row["command"] == turns[1][0][1]["command"]]
    assert failed
    assert all("Out" in row["output"] or "OuT" in row["output"] for row in failed)
    assert {row["answer"] for row in found["answers"]} == {"done"}
    assert ("interrupted", "Go on.") in {
        (row["outcome"], row["request"]) for row in found["interruptions"]
    }
    assert found["delegations"] == []


def rows(place, sql):
    said = json.loads(place.yarp("index", "query", "run", sql))["data"]
    assert said["complete"], said
    return said["rows"]
