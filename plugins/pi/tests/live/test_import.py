"""The real Pi, both of its packages, against a scripted model: what the dataset holds of it."""

from __future__ import annotations

import collections
import json

import pytest

from yarp.dataset.database import Dataset
from yarp.testing.files import neighbour

live = neighbour(__file__, "test_live")
prefix, place = live.prefix, live.place

pytestmark = pytest.mark.slow
pytest.importorskip("duckdb")


class Past:
    """The dataset of a place."""

    def __init__(self, place):
        self.place = place

    def extract(self):
        """Import the sessions; what the command said."""
        store = str(self.place.home / ".pi" / "agent" / "sessions")
        words = ("dataset", "extract", "--unix-user", "ada", "pi", "--sessions", store)
        return self.place.yarp(*words).decode()

    def rows(self, statement):
        path = self.place.home / "data" / "toolcall-extractor" / "toolcalls.duckdb"
        with Dataset.read(str(path)) as dataset:
            return dataset.rows(statement)

    def verified(self):
        return json.loads(self.place.yarp("dataset", "verify", "--json"))


def made_by(model):
    """How often the model made a call of each id: ids repeat between sessions."""
    found = collections.Counter()
    for body in model.requests:
        for event in model.events(body):
            if event.startswith("{"):
                for choice in json.loads(event)["choices"]:
                    calls = choice["delta"].get("tool_calls", ())
                    found.update(call["id"] for call in calls)
    return found


@pytest.mark.parametrize("hooked", [True, False])
def test_every_call_of_sessions_forks_and_clones_is_there_once(prefix, place, hooked):
    if not hooked:
        place.yarp("uninstall", "pi")
    seq = "seq 1 90000"
    turns = [
        [("read", {"path": "notes.txt"})],
        [("bash", {"command": "echo out; echo oops >&2; exit 3"})],
        [("bash", {"command": "sleep 0.4; echo slow"}), ("read", {"path": "notes.txt"})],
        [("frobnicate", {"level": 3})],
        [("bash", {"command": seq})],
        [("bash", {"command": f"{seq}; exit 4"})],
        [("read", {"path": "pixel.png"})],
        [("read", '{"path": "notes.txt", "limit": 1234567890123456789}')],
        [("write", '{"path": "odd.txt", "content": "half \\ud800 a pair"}')],
        [],
        [("bash", {"command": "echo again"})],
        [],
        [("bash", {"command": "echo once more"})],
    ]
    model = place.model({"KINDS": turns})
    past = Past(place)
    with live.Pi(prefix, place.home, place.project) as pi:
        pi.prompt("KINDS please")
        pi.prompt("Go on.")
        first = pi.command("get_state")["sessionFile"]
        points = pi.command("get_fork_messages")["messages"]
        pi.command("fork", entryId=points[-1]["entryId"])
        pi.prompt("Go on in the fork.")
        pi.command("clone")
        pi.prompt("Go on in the clone.")
        past.extract()
        pi.command("new_session")
        pi.prompt("KINDS in a new session")
        pi.command("switch_session", sessionPath=first)
        pi.prompt("Go on where we were.")
    model.close()
    past.extract()

    made = made_by(model)
    assert made["call_KINDS_10_0"] >= 2
    rows = past.rows(
        "SELECT native_call_id, tool_name, provider, model, called_at_ms, output_text,"
        " is_error, returned_at_ms, working_directory"
        " FROM tool_calls JOIN tool_results USING (call_key)"
    )
    assert collections.Counter(row[0] for row in rows) == made
    assert past.rows("SELECT count(*) FROM tool_calls") == [(made.total(),)]
    given = {(call, text) for body in model.requests for call, text in results(body)}
    # The last results of a session were not sent on to the model in every case.
    assert given <= {(row[0], row[5]) for row in rows}
    for row in rows:
        assert row[2:4] == ("mock", "mock-model")
        assert 0 <= row[7] - row[4] < 60_000
        assert row[8] == str(place.project)
    failed = {row[0] for row in rows if row[6]}
    assert failed == {f"call_KINDS_{at}_0" for at in (1, 3, 5)}

    # Half a pair of surrogates that the model wrote is told of, where Pi keeps it.
    codes = dict(past.rows("SELECT code, sum(occurrence_count) FROM import_issues GROUP BY code"))
    assert set(codes) <= {"lone_surrogate"}
    verified = past.verified()
    assert verified["valid"], verified
    assert verified["calls_without_results"] == verified["calls_with_conflicting_results"] == 0
    assert past.rows("SELECT count(DISTINCT source_item_key) FROM observations")[0][0] >= 4
    ((seen,),) = past.rows("SELECT count(*) FROM observations WHERE call_key IS NOT NULL")
    assert seen > made.total()
    assert past.extract().endswith("0 new calls, 0 new results\n")


def results(body):
    for message in body["messages"]:
        if message["role"] == "tool":
            content = message["content"]
            parts = content if isinstance(content, list) else [{"text": content}]
            yield message["tool_call_id"], "\n".join(part.get("text", "") for part in parts)
