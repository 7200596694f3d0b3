"""What the index has of Pi's sessions: their names, and whose history they go on with."""

from __future__ import annotations

import json

import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import sync
from yarp_pi.trace import reader


class Sessions:
    """Files of entries, and what the index says of them."""

    def __init__(self, path):
        self.root = path / "sessions"
        self.root.mkdir()
        self.database = str(path / "index.sqlite3")

    def write(self, name, *entries, **header):
        path = self.root / f"2026-11-29T21-08-00-000Z_{name}.jsonl"
        head = {"type": "session", "version": 3, "id": name, "cwd": "/srv"} | header
        lines = [one if isinstance(one, str) else json.dumps(one) for one in (head, *entries)]
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def sync(self):
        return sync(self.database, [str(self.root)], {"pi": reader()})

    def ask(self, sql):
        opened = open_readonly(self.database)
        try:
            return opened.execute(sql).fetchall()
        finally:
            opened.close()

    def origins(self):
        return self.ask(
            "SELECT child.native_id, parent.native_id FROM sessions AS child"
            " LEFT JOIN sessions AS parent ON parent.session_id ="
            " json_extract(child.forked_from, '$.session_id') ORDER BY 1"
        )


@pytest.fixture
def sessions(tmp_path):
    return Sessions(tmp_path)


def entry(number, role="user", **message):
    above = None if number == 1 else f"e-{number - 1}"
    said = {"role": role, "content": f"say {number}"} | message
    return {"type": "message", "id": f"e-{number}", "parentId": above, "message": said}


@pytest.mark.parametrize("child_first", [False, True])
def test_a_fork_is_linked_by_the_path_of_its_original(sessions, child_first):
    """Both have the same entries: each is an item of its own session."""
    path = sessions.root / "2026-11-29T21-08-00-000Z_s-1.jsonl"
    if child_first:
        sessions.write("s-2", entry(1), entry(2), parentSession=str(path))
        sessions.sync()
        assert sessions.origins() == [("s-2", None)]
    sessions.write("s-1", entry(1))
    sessions.sync()
    if not child_first:
        sessions.write("s-2", entry(1), entry(2), parentSession=str(path))
        sessions.sync()
    assert sessions.origins() == [("s-1", None), ("s-2", "s-1")]
    assert sessions.ask("SELECT count(*) FROM items") == [(3,)]


def test_the_path_of_an_original_may_lead_through_a_link(sessions, tmp_path):
    (tmp_path / "link").symlink_to(sessions.root)
    name = sessions.write("s-1", entry(1)).name
    sessions.write("s-2", entry(1), parentSession=str(tmp_path / "link" / name))
    sessions.sync()
    assert sessions.origins() == [("s-1", None), ("s-2", "s-1")]


@pytest.mark.parametrize("parent", ["elsewhere.jsonl", "/gone/s-1.jsonl", "", 7, None])
def test_a_path_that_leads_nowhere_links_nothing(sessions, parent):
    sessions.write("s-1", entry(1))
    sessions.write("s-2", entry(1), parentSession=parent)
    assert sessions.sync().actions["indexed"] == 2
    assert sessions.origins() == [("s-1", None), ("s-2", None)]


def test_a_session_has_the_name_that_it_was_given_last(sessions):
    names = [
        {"type": "session_info", "id": f"n-{number}", "parentId": "e-1", "name": name}
        for number, name in enumerate(["first", "second", "", None, 7])
    ]
    sessions.write("s-1", entry(1), *names)
    sessions.sync()
    assert sessions.ask("SELECT name FROM sessions") == [("second",)]


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_number_beyond_any_type_takes_nothing_else_away(sessions, number):
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls", "n": "N"}}
    told = [
        entry(1, timestamp="N"),
        entry(2, "assistant", content=[call], usage={"input": "N", "output": 1}),
        entry(3, "toolResult", content=[], toolCallId="c", isError=False, durationMs="N"),
    ]
    sessions.write("s-1", *[json.dumps(one).replace('"N"', number) for one in told])
    report = sessions.sync()
    assert (report.malformed, report.actions["indexed"]) == (0, 1)
    roles = "SELECT json_extract(semantic, '$.role') FROM items ORDER BY item_id"
    assert [row[0] for row in sessions.ask(roles)] == [
        "human.request",
        "agent.tool_call.shell",
        "tool.output",
    ]
    assert sessions.ask("SELECT usage FROM loops") == [(None,)]
    raw = "json_extract(semantic, '$.value.arguments.yarpRawJson')"
    (given,) = sessions.ask(f"SELECT {raw} FROM items WHERE {raw} IS NOT NULL")
    assert given == (f'{{"command":"ls","n":{number}}}',)
