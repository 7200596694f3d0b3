from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_agent import ORIGIN_AND_FORK, TOY, call, result, session

from yarp.dataset import framing
from yarp.dataset.database import Dataset
from yarp.dataset.framing import fact, frame
from yarp.dataset.ingest import ingest
from yarp.errors import FrameError
from yarp.sources.facts import Call, Result
from yarp.sources.values import parse_json


@pytest.fixture
def filled(store):
    store.write(
        "a.jsonl",
        session("s", 1),
        call("a", input={"n": 2**80}),
        result("a", json=[1.5, None]),
        b"{",
        result("x"),
    )
    store.write("b.jsonl", {"type": "nonsense"})
    store.write(
        "c.jsonl", session("t", 2), call("c", input=None), result("c"), call("d"), tail=b"{"
    )
    for name, records in ORIGIN_AND_FORK.items():
        store.write(name, *records)
    return store


def frames(store, user="ann"):
    sent = []
    framing.stream(TOY, user, {"sessions": str(store.sessions)}, sent.append)
    return sent


def take(store, sent, user="ann", **options):
    with Dataset.write(store.database) as dataset:
        return list(ingest(dataset, user, sent, **options))


def test_a_stream_gives_what_an_import_gives(filled, new_store):
    direct = new_store()
    direct.sessions.rmdir()
    filled.sessions.rename(direct.sessions)
    direct.extract()
    piped = new_store()
    take(piped, frames(direct))
    assert piped.everything() == direct.everything()


def test_a_replay_changes_nothing(filled):
    sent = frames(filled)
    take(filled, sent)
    before = filled.everything()
    (report,) = take(filled, sent)
    assert (report.written.calls, report.written.items, report.written.dropped) == (0, 0, 0)
    assert filled.everything() == before


def test_a_replay_of_a_changed_source_replaces_its_rows(filled):
    take(filled, frames(filled))
    filled.write("c.jsonl", session("t", 2), call("other"))
    (report,) = take(filled, frames(filled))
    assert report.written.dropped == 3
    assert [row[1] for row in filled.calls() if row[0] == "t"] == ["other"]


def test_a_stream_cut_anywhere_loses_the_open_source_alone(filled, new_store):
    sent = frames(filled)
    commits = [number for number, data in enumerate(sent) if b'"source_commit"' in data]
    for cut in range(1, len(sent), 7):
        store = new_store()
        with pytest.raises(FrameError, match="ends before its end"):
            take(store, sent[:cut])
        found = store.rows(
            "SELECT (SELECT count(*) FROM source_items WHERE status <> 'rejected'), status"
            " FROM import_runs"
        )
        assert found == [(sum(1 for place in commits if place < cut), "failed")]
        if cut % 2 == 0:
            take(store, sent)
            assert store.rows("SELECT count(*) FROM tool_calls") == [(6,)]


@pytest.mark.parametrize(
    ("place", "data", "said"),
    [
        (0, b"", "a source_root does not belong there"),
        (3, b"no json\n", "frame 4: no frame"),
        (3, frame("source_start")[:9], "frame 4: incomplete: the stream was cut within it"),
        (3, b'{"record": 3}\n', "does not belong"),
        (3, b'{"record": "secret-name"}\n', "a frame of an unknown name"),
        (3, frame("source_root", {"kind": "a", "path": "b"}), "a source is open"),
        (3, frame("stream_end"), "a source is open"),
        (3, frame("source_start"), "a source is open"),
        (4, frame("tool_call", {"no": "call"}), "is not what it should be"),
        (4, frame("observation", {"target": 7}), "points nowhere"),
        (4, frame("observation", {}), "is not what it should be"),
        (4, frame("source_commit"), "the state of the source is missing"),
        (2, frame("source_item", {}), "no source was started"),
        (0, frame("stream_start", {"version": 9}), "another version"),
    ],
)
def test_a_broken_frame_ends_the_stream_and_quotes_nothing(filled, place, data, said):
    sent = frames(filled)
    sent[place] = data
    with pytest.raises(FrameError) as caught:
        take(filled, [each for each in sent if each])
    assert said in str(caught.value)
    assert "secret-name" not in str(caught.value)


def test_a_stream_speaks_for_no_other_user_and_agent(filled):
    sent = frames(filled, "ann")
    with pytest.raises(FrameError, match="another Unix user"):
        take(filled, sent, "bob")
    with pytest.raises(FrameError, match="another agent"):
        take(filled, sent, agent="other")
    take(filled, sent, agent="toy")


def test_streams_one_behind_the_other_are_taken_one_by_one(filled, new_store):
    sent = frames(filled)
    store = new_store()
    reports = take(store, sent + sent)
    assert [(report.written.items > 0, report.unchanged > 0) for report in reports] == [
        (True, False),
        (False, True),
    ]
    with pytest.raises(FrameError, match=f"frame {len(sent) + 1}: a stream_end does not belong"):
        take(new_store(), [*sent, frame("stream_end")])
    with pytest.raises(FrameError, match="ends before its end"):
        take(store, sent + sent[:-1])
    assert store.rows("SELECT status, count(*) FROM import_runs GROUP BY 1 ORDER BY 1") == [
        ("complete", 3),
        ("failed", 1),
    ]


def test_what_no_row_can_hold_rejects_its_source_alone(store):
    store.write("a.jsonl", session("s"), call("a", form="yaml"))
    store.write("b.jsonl", session("s"), call("b", at=2**70))
    store.write("c.jsonl", session("s"), call("c"))
    take(store, frames(store))
    assert [row[1] for row in store.calls()] == ["c"]
    assert [row[0] for row in store.issues()] == ["importer_fault"] * 2


def test_a_source_that_a_later_stream_has_no_more_is_told_and_its_rows_stay(store):
    path = store.write("a.jsonl", session("s"), call("a"))
    take(store, frames(store))
    path.unlink()
    assert [report.vanished for report in take(store, frames(store))] == [1]
    assert len(store.calls()) == 1
    assert store.issues() == [("source_vanished", None, 1)]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
parts = st.lists(st.text() | st.binary() | st.integers(0, 2**63), min_size=1, max_size=4).map(tuple)
times = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(parts, json_values, st.none() | parts, times, st.text())
def test_calls_come_through_frames_as_they_were(identity, value, copy_of, at, text):
    said = Call(identity, text, text, value, copy_of=copy_of, called_at_ms=at, model=text)
    data = frame("tool_call", framing._plain(said))
    assert data.count(b"\n") == 1
    assert fact(Call, parse_json(data)[0]["value"]) == said


@given(
    parts,
    json_values.filter(lambda value: value is not None),
    st.none() | st.text(),
    st.none() | st.booleans(),
)
def test_results_come_through_frames_as_they_were(identity, value, text, is_error):
    said = Result(identity, text, value, is_error)
    assert fact(Result, json.loads(frame("tool_result", framing._plain(said)))["value"]) == said


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_are_refused_as_a_frame_error(tmp_path_factory, data):
    class Nowhere:
        path = "nowhere"

        """No dataset is touched before a stream has started."""

    with pytest.raises(FrameError):
        list(ingest(Nowhere(), "ann", data))


def changed(record, **members):
    """A function that gives these members other values in the first frame of this name."""

    def change(sent):
        place = next(n for n, data in enumerate(sent) if json.loads(data)["record"] == record)
        whole = json.loads(sent[place])
        whole["value"] |= members
        sent[place] = json.dumps(whole).encode() + b"\n"

    return change


def inserted(record, value, place=2):
    return lambda sent: sent.insert(place, frame(record, value))


@pytest.mark.parametrize(
    "change",
    [
        inserted("issue", {"code": "x", "message": 5}),
        inserted("issue", {"code": 5, "message": "m"}),
        inserted("issue", {"code": "x", "message": "m", "severity": "bogus"}),
        inserted("issue", {"code": "x", "message": "m", "record_sha256": {"hex": "00"}}),
        inserted("issue", {"code": "x", "message": "m", "line_number": -1}),
        inserted("issue", {"code": "x", "message": "m", "occurrence_count": 0}),
        lambda sent: sent.insert(2, b'{"record":"issue","value":{"code":"x","message":"\\ud8'),
        changed("stream_start", adapter_version=0),
        changed("stream_start", adapter_version=10**12),
        changed("stream_start", agent=["toy"]),
        changed("stream_start", agent=""),
        changed("source_root", kind=5),
        changed("source_root", path=""),
        changed("source_item", relative_path=None),
        changed("source_item", relative_path=5),
        changed("source_item", relative_path="../../etc/passwd"),
        changed("source_item", relative_path="/etc/passwd"),
        changed("observation", target=False),
        changed("source_state", status="rejected"),
        changed("source_state", status="bogus"),
        changed("source_state", malformed=["a"]),
        changed("source_state", malformed="ab"),
        changed("source_state", imported_byte_count=10**9),
        changed("source_state", prefix_sha256={"hex": "00"}),
        changed("source_state", fingerprint="x"),
        changed("source_state", fingerprint=None),
        changed("source_state", stat=None),
        changed("source_state", stat={"size_bytes": -1}),
        changed("source_state", issues=[{"code": "x", "message": 5}]),
        changed("source_rollback", message=9),
        lambda sent: sent.insert(2, b"[" * 100_000 + b"\n"),
        lambda sent: sent.insert(2, b"\n"),
    ],
)
def test_whatever_a_hostile_stream_says_is_a_broken_frame_and_what_was_whole_stays(
    filled, new_store, change
):
    good, bad = frames(filled), frames(filled)
    change(bad)
    store = new_store()
    first = new_store()
    first.write("z.jsonl", session("z"), call("z"), result("z"))
    take(store, frames(first))
    with pytest.raises(FrameError):
        take(store, bad)
    assert "z" in [row[1] for row in store.calls()]
    take(store, good)


def test_sources_before_a_broken_frame_stay_whatever_is_wrong_with_it(filled, new_store):
    sent = frames(filled)
    change = inserted("issue", {"code": "x", "message": 5}, -1)
    change(sent)
    store = new_store()
    with pytest.raises(FrameError):
        take(store, sent)
    whole = sum(1 for data in sent if b'"source_commit"' in data)
    items = store.rows("SELECT count(*) FROM source_items WHERE status <> 'rejected'")
    assert items == [(whole,)]


def test_a_fact_that_no_row_can_hold_is_a_fault_of_its_source_alone(filled, new_store):
    sent = frames(filled)
    place = next(n for n, data in enumerate(sent) if b'"source_item"' in data) + 1
    sent.insert(place, frame("issue", {"code": "x", "message": 5}))
    store = new_store()
    take(store, sent)
    assert "importer_fault" in [row[0] for row in store.issues()]


def test_a_frame_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(framing, "MOST_FRAME_BYTES", 100)
    assert list(framing.frames(io.BytesIO(b"{}\n" * 3))) == [b"{}\n"] * 3
    with pytest.raises(FrameError, match="longer"):
        list(framing.frames(io.BytesIO(b"{}\n" + b"\0" * 1000)))


@pytest.mark.parametrize("depth", [253, 990, 1021])
def test_a_value_of_any_depth_comes_through_frames(store, new_store, depth):
    data = b'{"a":' * depth + b"1" + b"}" * depth
    line = b'{"type":"call","id":"deep","input":%s}\n' % data
    (store.sessions / "a.jsonl").write_bytes(json.dumps(session("s")).encode() + b"\n" + line)
    piped = new_store()
    take(piped, frames(store))
    assert [row[1] for row in piped.calls()] == ["deep"]


def test_what_is_refused_crosses_the_pipe_with_its_place(new_store, tmp_path):
    piped, extracted = new_store(), new_store()
    for store, take in ((piped, piped.pipe), (extracted, extracted.extract)):
        store.write("a.jsonl", session("s"), call("c"))
        for name in ("one.jsonl", "two.jsonl"):
            (store.sessions / name).symlink_to(tmp_path)
        take()
        assert store.rows(
            "SELECT relative_path, code, status FROM import_issues"
            " JOIN source_items USING (source_item_key) ORDER BY ALL"
        ) == [(name, "path_escape", "rejected") for name in ("one.jsonl", "two.jsonl")]
        (store.sessions / "one.jsonl").unlink()
        take()
        assert store.rows("SELECT relative_path FROM source_items ORDER BY ALL") == [
            ("a.jsonl",),
            ("two.jsonl",),
        ]
