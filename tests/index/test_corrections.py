"""Facts that correct one another, in any order: appends end where one reading does."""

from __future__ import annotations

import itertools
import json
import sqlite3

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yarp.index.store import open_readonly
from yarp.index.sync import Options, sync
from yarp.testing.trace import _synced

LOOPS = ("a", "b")
KEYS = ("k1", "k2", "call:1", "out:1")
TEXTS = ("the first text", "another text", "")
ROLES = ("human.steering", "agent.commentary", "runtime.notice", "agent.delegation")
ROLES += ("subagent.report", "runtime.instructions", "runtime.compaction_summary")


def record(t, **fields):
    drawn = {name: one if hasattr(one, "map") else st.just(one) for name, one in fields.items()}
    return st.fixed_dictionaries({"t": st.just(t), **drawn})


def maybe(fields):
    """Some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


records = st.one_of(
    record("begin", loop=st.sampled_from(LOOPS)),
    record("end", loop=st.sampled_from(LOOPS), outcome=st.sampled_from([None, "failed"])),
    record("end", loop=st.sampled_from(LOOPS), revoked=True),
    record("human", text=st.sampled_from(TEXTS), at=st.integers(1_790_000_000_000, 1_790_000_000_009)),
    record("call", id="1", tool=st.sampled_from(["sh", "x"]), args=st.just({"command": "ls | wc"})),
    record("output", id="1", text=st.sampled_from(TEXTS)),
    record(
        "item",
        key=st.sampled_from(KEYS[:2]),
        role=st.sampled_from(ROLES),
        text=st.sampled_from(TEXTS),
        session=st.sampled_from([None, "s2"]),
        unless_known=st.booleans(),
    ),
    st.builds(
        lambda base, more: base | more,
        record("amend", key=st.sampled_from(KEYS), primary=st.booleans()),
        maybe(
            {
                "role": st.sampled_from(ROLES),
                "text": st.sampled_from(TEXTS),
                "loop": st.sampled_from(LOOPS),
                "session": st.just("s2"),
                "heuristic": st.booleans(),
            }
        ),
    ),
    record("drop", key=st.sampled_from(KEYS)),
    record("drop", key=st.sampled_from(LOOPS), loop=True),
    record("usage", sample=st.sampled_from([None, "r"]), input=3, output=st.integers(1, 2)),
    record("model", id=st.sampled_from([None, "m"]), effort=st.sampled_from([None, "high"])),
)  # fmt: skip
HEAD = [{"t": "session", "id": "s1"}, {"t": "begin", "loop": "a"}]
COUNTER = itertools.count()


def sound(database):
    """What holds whatever was said."""
    connection = open_readonly(database)
    try:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for loop, at, count in connection.execute(
            "SELECT loop_id, max(loop_position), count(DISTINCT loop_position) FROM items "
            "WHERE loop_id IS NOT NULL GROUP BY 1"
        ):
            assert at == count - 1, loop
        places = [row[0] for row in connection.execute("SELECT session_position FROM loops")]
        assert sorted(places) == list(range(len(places)))
        found = {
            row[0]
            for word in ("first text", "another")
            for row in connection.execute(
                "SELECT rowid FROM item_search(trigram_query(?))", (word,)
            )
        }
        said = {
            row[0]
            for row in connection.execute(
                "SELECT item_id FROM items JOIN blobs ON blob_id = "
                "json_extract(semantic, '$.value.text.blob_id') WHERE text <> '' AND "
                "json_extract(semantic, '$.role') IN ('human.request', 'human.steering', "
                "'agent.commentary', 'agent.delegation')"
            )
        }
        assert found == said
        integrity = "INSERT INTO item_search(item_search) VALUES('integrity-check')"
    finally:
        connection.close()
    with sqlite3.connect(database) as writer:
        writer.execute(integrity)
    writer.close()


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(said=st.lists(records, max_size=10))
def test_appends_end_where_one_reading_does(tmp_path, acme, said):
    place = tmp_path / str(next(COUNTER))
    readers = {"acme": acme.READER}
    lines = [json.dumps(one) + "\n" for one in HEAD + said]
    for name in ("whole", "grown"):
        (place / name).mkdir(parents=True)
    (place / "whole" / "x.jsonl").write_text("".join(lines))
    report, expected = _synced(str(place / "whole.db"), [str(place / "whole")], readers)
    if report.actions["failed"]:  # it said what no reader may say
        return
    sound(str(place / "whole.db"))
    for line in lines:
        with (place / "grown" / "x.jsonl").open("a") as file:
            file.write(line)
        report, told = _synced(str(place / "grown.db"), [str(place / "grown")], readers)
    assert told == expected
    sound(str(place / "grown.db"))
    sync(str(place / "grown.db"), [str(place / "grown")], readers, Options(rebuild=True))
    assert _synced(str(place / "grown.db"), [str(place / "grown")], readers)[1] == expected
    sound(str(place / "grown.db"))
