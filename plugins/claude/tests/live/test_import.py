"""The real Claude Code against a scripted model: what the dataset holds of its transcripts."""

from __future__ import annotations

import json

import pytest

from yarp.dataset.database import Dataset
from yarp.testing.files import neighbour

live = neighbour(__file__, "test_live")
binaries, place = live.binaries, live.place

pytestmark = pytest.mark.slow
pytest.importorskip("duckdb")


class Past:
    """The dataset of a place."""

    def __init__(self, place):
        self.place = place

    def extract(self):
        """Import the transcripts; what the command said."""
        store = str(self.place.home / ".claude" / "projects")
        words = ("dataset", "extract", "--unix-user", "ada", "claude", "--projects", store)
        return self.place.yarp(*words).decode()

    def rows(self, statement):
        path = self.place.home / "data" / "toolcall-extractor" / "toolcalls.duckdb"
        with Dataset.read(str(path)) as dataset:
            return dataset.rows(statement)

    def verified(self):
        return json.loads(self.place.yarp("dataset", "verify", "--json"))


@pytest.mark.parametrize("hooked", [True, False])
def test_every_call_of_a_session_its_continuation_and_its_forks_is_there_once(place, hooked):
    if not hooked:
        place.yarp("uninstall", "claude")
    notes = str(place.project / "notes.txt")
    seq = "seq 1 90000"
    look = {"description": "look", "prompt": "SUBTASK: look", "run_in_background": False}
    turns = [
        [("Read", {"file_path": notes}), ("Bash", {"command": "echo warm"})],
        [("Bash", {"command": "echo out; echo oops >&2; exit 3"})],
        [("Bash", {"command": f"cd .. && {seq} && cd -"})],
        [("Bash", {"command": f"{seq}; exit 4"})],
        [("Bash", {"command": "sleep 0.4; echo slow"}), ("Bash", {"command": "echo fast"})],
        [("Frobnicate", {"level": 3})],
        [("Bash", '{"command": "echo broken')],
        [("mcp__rows__rows", {"count": 30_000})],
        [("Read", {"file_path": str(place.project / "pixel.png")})],
        [("Agent", look | {"subagent_type": "general-purpose"})],
        [],
        [("Bash", {"command": "echo again"})],
        [],
        [("Bash", {"command": "echo in the fork"})],
        [],
    ]  # fmt: skip
    subtask = [[("Bash", {"command": "echo from the worker"})], [("Bash", {"command": seq})]]
    scripts = {"SUBTASK": subtask, "KINDS": turns}
    given = place.run(scripts, "KINDS please", live.BYPASS).results()
    past = Past(place)
    past.extract()
    for options in (["--continue"], ["--continue", "--fork-session"]):
        given |= place.run(scripts, "Go on.", live.BYPASS, *options).results()
    said = past.extract()
    made = [f"call_KINDS_{at}_{n}" for at, turn in enumerate(turns) for n in range(len(turn))]
    made += [f"call_SUBTASK_{at}_0" for at in range(len(subtask))]
    assert sorted(given) == sorted(made), said

    rows = past.rows(
        "SELECT native_call_id, tool_name, native_worker_id IS NOT NULL, model IS NOT NULL,"
        " called_at_ms, output_text, output_json, is_error, returned_at_ms, working_directory"
        " FROM tool_calls JOIN tool_results USING (call_key)"
    )
    calls = {row[0]: row for row in rows}
    assert sorted(row[0] for row in rows) == sorted(made)
    assert past.rows("SELECT count(*) FROM tool_calls") == [(len(made),)]
    for name, row in calls.items():
        _, _, by_worker, has_model, called, text, structure, _, returned, folder = row
        beside = json.loads(structure) if structure else {}
        # What the model got; of a persisted output it got a frame, and the whole is kept.
        assert beside.get("rendered", text or "") == given[name], name
        assert by_worker is name.startswith("call_SUBTASK"), name
        assert (has_model, called <= returned) == (True, True), name
        assert folder, name
    failed = {name for name, row in calls.items() if row[7]}
    assert failed == {f"call_KINDS_{at}_0" for at in (1, 3, 5, 6)}
    whole = "".join(f"{number}\n" for number in range(1, 90001))
    persisted = {name for name, row in calls.items() if whole in (row[5] or "")}
    assert hooked or persisted == {"call_KINDS_2_0", "call_SUBTASK_1_0"}

    assert past.rows("SELECT code, message FROM import_issues") == []
    verified = past.verified()
    assert verified["valid"], verified
    assert verified["calls_without_results"] == verified["calls_with_conflicting_results"] == 0
    # Of the fork's copies every one is an observation.
    copies = past.rows(
        "SELECT native_call_id FROM observations JOIN tool_calls USING (call_key)"
        " WHERE record_kind = 'projection'"
    )
    before = {name for name in made if "KINDS" in name and name != "call_KINDS_13_0"}
    assert sorted(name for (name,) in copies) == sorted(before)
    assert past.rows("SELECT count(DISTINCT source_item_key) FROM observations") == [(3,)]
    assert past.extract().endswith("0 new calls, 0 new results\n")
