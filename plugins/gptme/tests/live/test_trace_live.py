"""What the trace index says of conversations of the real gptme."""

from __future__ import annotations

import json
import signal

import pytest

from yarp.testing.files import neighbour
from yarp.testing.live import eventually

live = neighbour(__file__, "test_live")
agent, binaries, place = live.agent, live.binaries, live.place

pytestmark = pytest.mark.slow
TWO = "So:\n\n```shell\necho one\n```\n\n```shell\necho two\n```\n"
SAID = (
    "SELECT json_extract(i.semantic, '$.role') AS role, b.text FROM items AS i"
    " JOIN sessions AS s USING (session_id) JOIN blobs AS b"
    " ON b.blob_id = json_extract(i.semantic, '$.value.text.blob_id')"
    " WHERE s.native_id = '{}' AND json_extract(i.semantic, '$.role') IN ({}) ORDER BY i.item_id"
)


def ask(place, sql):
    said = json.loads(place.yarp("index", "query", "run", sql))["data"]
    assert said["complete"], said
    return [tuple(row.values()) for row in said["rows"]]


def messages(place):
    lines = (place.conversation() / "conversation.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def synced(place):
    store = str(place.home / "data" / "gptme" / "logs")
    report = json.loads(place.yarp("index", "sync", store))["data"]
    assert report["failed_files"] == 0, report
    roles = dict(
        ask(place, "SELECT json_extract(semantic, '$.role') AS r, count(*) FROM items GROUP BY 1")
    )
    assert roles.get("runtime.unknown", 0) == 0, roles


def test_each_scripted_fact_is_found_by_one_statement(place):
    place.run(
        [
            [("shell", {"command": "echo out | tr o O; (exit 3)"})],
            [("shell", {"command": "echo one"}), ("patch", {"path": "none", "patch": live.PATCH})],
        ],
        options=["--no-stream"],
    )
    place.run([TWO], name="markdown", form="markdown", options=["--no-stream"])
    synced(place)
    roles = "'human.request', 'agent.final_answer'"
    assert ask(place, SAID.format("talk", roles)) == [
        ("human.request", "run demo"),
        ("agent.final_answer", "done"),
    ]
    outputs = ask(
        place,
        "SELECT s.native_id, json_extract(c.semantic, '$.value.tool_name') AS tool,"
        " json_extract(o.semantic, '$.value.failed') AS failed, b.text FROM items AS o"
        " JOIN sessions AS s USING (session_id) JOIN items AS c"
        " ON c.item_id = json_extract(o.semantic, '$.value.call_item_id')"
        " JOIN blobs AS b ON b.blob_id = json_extract(o.semantic, '$.value.text.blob_id')"
        " ORDER BY s.native_id DESC, c.item_id",
    )
    assert [found[:3] for found in outputs] == [
        ("talk", "shell", None),
        ("talk", "shell", None),
        ("talk", "patch", 1),
        ("markdown", "shell", None),
        ("markdown", "shell", None),
    ]
    for (*_, text), printed in zip(outputs, ("Out", "one", "", "one", "two"), strict=True):
        assert printed in text.replace("OuT", "Out")
    # A response is 100 tokens of input, 60 of them from the cache, and 10 of output.
    responses = sum(one["role"] == "assistant" for one in messages(place))
    assert ask(
        place,
        "SELECT json_extract(l.model, '$.id'), l.usage FROM loops AS l"
        " JOIN sessions AS s USING (session_id) WHERE s.native_id = 'talk'",
    ) == [
        (
            "local/mock",
            json.dumps(
                {"input": 100 * responses, "cached": 60 * responses, "output": 10 * responses},
                separators=(",", ":"),
            ),
        )
    ]


def test_an_interrupted_command_has_its_output_and_gptme_goes_on_by_itself(place):
    model = neighbour(__file__, "model").Model(
        {"demo": ["```shell\ntouch running; sleep 60\n```\n"]}
    )
    model.word = "demo"
    process = place.start(model, form="markdown", options=["--no-stream"])
    eventually((place.project / "running").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=agent.PATIENCE_S)
    model.close()
    synced(place)
    said = messages(place)
    number = [one["content"] for one in said].index("Interrupted by user")
    assert said[number + 1]["role"] == "assistant"
    roles = "'tool.output', 'human.request', 'human.steering', 'agent.final_answer'"
    (request, output, answer) = ask(place, SAID.format("talk", roles))
    assert (request[1], answer) == ("run demo", ("agent.final_answer", "done"))
    assert output[1].startswith("Command interrupted: ")
    calls = "SELECT json_extract(semantic, '$.value.call_item_id') IS NULL AS x FROM items"
    calls += " WHERE json_extract(semantic, '$.role') = 'tool.output'"
    assert ask(place, calls) == [(0,)]
    assert ask(place, "SELECT json_extract(\"end\", '$.outcome') AS x FROM loops") == [(None,)]
