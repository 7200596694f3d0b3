"""Frames that are wrong in a place or two, at a real server on a real archive."""

import json
import random
import sqlite3
import sys

from yarp.errors import FrameError
from yarp.ingest.server import Server

SESSION = {"agent": "acme", "account": "someone", "sourceSessionId": "s1"}
ODD = [None, True, -1, 2**63, 2**70, 1.5, "", "c2", "x" * 300, "\ud800", [], [[]], {}, {"a": 1}]
KEYS = ["colour", "Operation", "", "requestid", "result"]


def good_frames(chance):
    call_id = f"c{chance.randrange(12)}"  # few: the same call comes again, with other facts
    call = {"sourceCallId": call_id, "toolName": "sh", "startedAtMs": 5, "requiresStreams": False}
    value = chance.choice([{"command": "ls"}, [1, 2.5], "text", None, {"n": 2**60}])
    common = {"requestId": chance.randrange(5), "schemaVersion": 1, "session": dict(SESSION)}
    named = {"sourceCallId": call_id}
    return (
        chance.choice(
            [
                {"operation": "hello"},
                {
                    "operation": "plan",
                    "call": {"sourceCallId": call_id, "toolName": "sh"},
                    "input": value,
                },
                {
                    "operation": "begin_call",
                    "call": call,
                    "inputBefore": value,
                    "inputAfter": value,
                    "capturedAtMs": 6,
                },
                {"operation": "result_before", **named, "result": value, "capturedAtMs": 7},
                {
                    "operation": "result_text",
                    **named,
                    "text": "a\nb",
                    "sourceCompleteness": "complete",
                    "capturedAtMs": 7,
                },
                {
                    "operation": "stage_result",
                    **named,
                    "result": value,
                    "isError": False,
                    "capturedAtMs": 8,
                },
                {
                    "operation": "update_final_result",
                    **named,
                    "result": value,
                    "isError": False,
                    "finishedAtMs": 9,
                },
                {
                    "operation": "finish_call",
                    **named,
                    "result": value,
                    "isError": True,
                    "requirePreResult": False,
                    "finishedAtMs": 9,
                },
                {
                    "operation": "reduce",
                    **named,
                    "command": "pytest",
                    "text": "x\n" * 3000,
                    "isError": True,
                    "sourceCompleteness": "unknown",
                },
                {
                    "operation": "cap",
                    **named,
                    "text": "x\n" * 3000,
                    "sourceCompleteness": "unknown",
                },
            ]
        )
        | common
    )


def spoil(frame, chance):
    """The frame with a member replaced, added, dropped or renamed; or its text cut or altered."""
    inner = [frame, *(value for value in frame.values() if isinstance(value, dict))]
    target = chance.choice(inner)
    kind = chance.randrange(6)
    if kind == 0:
        target[chance.choice(KEYS)] = chance.choice(ODD)
    elif kind in (1, 2) and target:
        target[chance.choice(sorted(target))] = chance.choice(ODD)
    elif kind == 3 and target:
        target.pop(chance.choice(sorted(target)))
    text = json.dumps(frame, ensure_ascii=chance.random() < 0.8, allow_nan=True)
    if kind == 4:
        return text[: chance.randrange(len(text))].encode("utf-8", "surrogatepass")
    if kind == 5:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice('{}[]",:x0\\\u00e9') + text[at + 1 :]
    return text.encode("utf-8", "surrogatepass")


def fuzz(monkeypatch, environment, count):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", [*sys.path, environment["PYTHONPATH"]])
    chance = random.Random(7)
    server = Server(("yarp",))
    outcomes = {"ok": 0, "refused": 0, "malformed": 0}
    for _ in range(count):
        frame = good_frames(chance)
        body = spoil(frame, chance) if chance.random() < 0.8 else json.dumps(frame).encode()
        try:
            answer = json.loads(server.answer(body))
        except FrameError:
            outcomes["malformed"] += 1
            continue
        assert set(answer) >= {"requestId", "ok"}
        if not answer["ok"]:
            assert "inside YARP" not in answer["error"], (answer, body)
        outcomes["ok" if answer["ok"] else "refused"] += 1
    server.close()
    return outcomes


def assert_no_half_row(archive_path):
    connection = sqlite3.connect(archive_path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        halves = connection.execute(
            "SELECT id FROM tool_calls AS c WHERE 2 <> (SELECT count(*) FROM snapshots"
            " WHERE tool_call_id = c.id AND subject = 'input')"
            " OR (status = 'finished') <> (finished_at_ms IS NOT NULL)"
            " OR (status = 'finished' AND NOT EXISTS (SELECT 1 FROM snapshots"
            " WHERE tool_call_id = c.id AND subject = 'result' AND stage = 'after'))"
        ).fetchall()
        assert halves == []
        assert connection.execute("SELECT count(*) FROM tool_calls").fetchone()[0] > 0
    finally:
        connection.close()


def test_ten_thousand_fuzzed_frames_leave_no_half_row(monkeypatch, environment, archive_path):
    outcomes = fuzz(monkeypatch, environment, 10_000)
    assert sum(outcomes.values()) == 10_000
    assert min(outcomes.values()) > 500, outcomes
    assert_no_half_row(archive_path)
