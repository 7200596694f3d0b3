"""What the index has of Claude Code's transcripts: one session a file, whoever else is in it."""

from __future__ import annotations

import json

import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import sync
from yarp_claude.trace import reader


class Transcripts:
    """Files of records, and what the index says of them."""

    def __init__(self, path):
        self.root = path / "projects"
        self.root.mkdir()
        self.database = str(path / "index.sqlite3")

    def write(self, name, *records, mode="w"):
        with (self.root / f"{name}.jsonl").open(mode) as file:
            for record in records:
                file.write((record if isinstance(record, str) else json.dumps(record)) + "\n")

    def sync(self):
        return sync(self.database, [str(self.root)], {"claude": reader()})

    def ask(self, sql):
        opened = open_readonly(self.database)
        try:
            return opened.execute(sql).fetchall()
        finally:
            opened.close()


@pytest.fixture
def transcripts(tmp_path):
    return Transcripts(tmp_path)


def message(kind, uuid, session, content, **more):
    said = {"content": content} | (
        {"id": f"m-{uuid}", "model": "opus"} if kind == "assistant" else {}
    )
    if kind == "assistant":
        said |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}}
    return {
        "type": kind, "uuid": uuid, "sessionId": session, "cwd": "/srv", "message": said,
        "timestamp": "2026-11-30T03:00:00.000Z", "isSidechain": False,
    } | more  # fmt: skip


def talk(session, *uuids, **more):
    for uuid in uuids:
        yield message("user", f"{uuid}-asked", session, f"ask {uuid}", promptSource="typed")
        yield message("assistant", uuid, session, [{"type": "text", "text": uuid}], **more)


def test_a_transcript_with_records_of_two_sessions_is_the_one_that_it_names_first(transcripts):
    """Older builds went on with a session under a new id; all of it is the first one's."""
    transcripts.write("b", *talk("s-old", "one"), *talk("s-new", "two"))
    report = transcripts.sync()
    assert (report.actions["indexed"], report.actions["skipped"]) == (1, 0)
    assert transcripts.ask("SELECT native_id FROM sessions") == [("s-old",)]
    assert transcripts.ask("SELECT count(*), sum(json_extract(usage, '$.output')) FROM loops") == [
        (2, 4)
    ]
    # The file of the old one supports the same session.
    transcripts.write("a", *talk("s-old", "one"))
    transcripts.sync()
    assert transcripts.ask("SELECT native_id, json_array_length(source_ids) FROM sessions") == [
        ("s-old", 2)
    ]


def test_a_file_that_names_no_session_is_skipped_whole(transcripts):
    opener = {"type": "file-history-snapshot", "messageId": "m"}
    transcripts.write("a", opener, message("user", "u", None, "x"))
    assert transcripts.sync().actions["skipped"] == 1
    assert transcripts.ask("SELECT * FROM records") == []


@pytest.mark.parametrize(("marked", "linked"), [(True, 1), (False, 0)])
def test_a_fork_is_linked_by_its_mark_alone(transcripts, marked, linked):
    """Equal records of two files do not say which of them was first: no mark, no link."""
    mark = {"requestSessionId": "s-1"} if marked else {}
    transcripts.write("a", *talk("s-1", "one"))
    transcripts.write("b", *talk("s-2", "one", **mark), *talk("s-2", "two"))
    transcripts.sync()
    assert transcripts.ask("SELECT native_id, count(forked_from) FROM sessions GROUP BY 1") == [
        ("s-1", 0),
        ("s-2", linked),
    ]
    assert transcripts.ask("SELECT count(*) FROM loops") == [(3,)]


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_number_beyond_any_type_takes_nothing_else_away(transcripts, number):
    use = {"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": "ls", "n": "N"}}
    got = {"type": "tool_result", "tool_use_id": "t-1", "content": "x"}
    records = [
        message("user", "u-0", "s-1", "ask", promptSource="typed"),
        message("assistant", "u-1", "s-1", [use]),
        message("user", "u-2", "s-1", [got], toolUseResult={"durationMs": "N", "totalTokens": "N"}),
    ]
    transcripts.write("a", *[json.dumps(one).replace('"N"', number) for one in records])
    report = transcripts.sync()
    assert (report.malformed, report.actions["indexed"]) == (0, 1)
    roles = "SELECT json_extract(semantic, '$.role') FROM items ORDER BY item_id"
    assert [row[0] for row in transcripts.ask(roles)] == [
        "human.request",
        "agent.tool_call.shell",
        "tool.output",
    ]
    raw = "json_extract(semantic, '$.value.arguments.yarpRawJson')"
    (given,) = transcripts.ask(f"SELECT {raw} FROM items WHERE {raw} IS NOT NULL")
    assert given == (f'{{"command":"ls","n":{number}}}',)
