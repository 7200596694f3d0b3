"""A changed archive is read where it changed, and the dataset is that of a whole reading."""

from __future__ import annotations

import random
import shutil
import sqlite3

import pytest
from toy_agent import TABLES

from yarp import payload
from yarp.archive.prune import prune
from yarp.archive.redact import redact
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.dataset import extract as extracting
from yarp.dataset.database import Dataset
from yarp.dataset.report import verify
from yarp.past import importer
from yarp.sources.facts import Kept
from yarp.sources.importers import Importer

STARTED, STAGED, FINISHED, PRUNED = range(4)


class Live:
    """An archive in use: each method is one thing that happens to it, chosen at random."""

    def __init__(self, path, rng):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self.path = str(path)
        self.rng = rng
        self.calls = {}  # (session, name): state, whether it is wrapped
        self.references = {}
        self.fresh = set()  # calls that no import has seen since they were begun
        self.damaged = {}
        self.time = 1000
        self.open().close()

    def open(self):
        return SteppedArchive.open(self.path, narrow=False)

    def session(self, name):
        started = self.rng.choice([None, 500]) if name == "late" else 400
        return SessionKey("acme", "ann", name, started)

    def one(self, *states):
        found = [key for key, (state, _) in self.calls.items() if state in states]
        return self.rng.choice(found) if found else None

    def begin(self):
        gone = self.one(PRUNED) if self.rng.random() < 0.3 else None
        key = gone or (self.rng.choice(["one", "two", "late"]), f"call-{len(self.calls)}")
        session, name = key
        wrapped = self.rng.random() < 0.5
        told = CallFacts(name, "sh", started_at_ms=self.time, requires_streams=wrapped)
        asked = payload.of_json({"command": name, "at": self.time})
        archive = self.open()
        reference = archive.begin_call(self.session(session), told, asked, asked, self.time)
        archive.close()
        self.calls[key] = (STARTED, wrapped)
        self.references[key] = reference
        self.fresh.add(key)

    def went(self, archive, key):
        """What a call leaves before its end."""
        session, name = self.session(key[0]), key[1]
        if self.calls[key][1]:
            kept = (payload.of(f"out of {name}\n".encode() * 40), payload.TEXT)
            none = (payload.of(b""), payload.TEXT)
            streams = Streams(kept, none, none, none, ended=(self.rng.random() < 0.8, True))
            archive.record_streams(session, name, streams, self.time)
        archive.result_before(
            session,
            name,
            payload.of_json({"exitCode": 1, "of": name}),
            None,
            payload.TEXT,
            self.time,
        )
        if self.rng.random() < 0.5:
            whole = self.rng.choice(["complete", "incomplete"])
            archive.result_text(session, name, payload.of(b"text of it"), whole, self.time)

    def stage(self):
        if key := self.one(STARTED):
            archive = self.open()
            self.went(archive, key)
            shown = payload.of_json("staged")
            archive.stage_result(self.session(key[0]), key[1], shown, False, self.time)
            archive.close()
            self.calls[key] = (STAGED, self.calls[key][1])

    def finish(self):
        if key := self.one(STARTED, STAGED):
            archive = self.open()
            session, name = self.session(key[0]), key[1]
            shown = payload.of_json(self.rng.choice(["staged", "final"]))
            if self.calls[key][0] == STAGED:
                archive.update_final_result(session, name, shown, False, self.time)
            else:
                ran = self.rng.random() < 0.8
                if ran:
                    self.went(archive, key)
                archive.finish_call(session, name, shown, self.rng.random() < 0.5, ran, self.time)
            archive.close()
            self.calls[key] = (FINISHED, self.calls[key][1])

    def prune(self):
        prune(self.path, before_ms=self.time - self.rng.choice([0, 5, 10]))
        with_rows = sqlite3.connect(self.path)
        left = {
            reference for (reference,) in with_rows.execute("SELECT archive_ref FROM tool_calls")
        }
        with_rows.close()
        for key, reference in self.references.items():
            if reference not in left:
                self.calls[key] = (PRUNED, False)
                self.damaged.pop(key, None)

    def redact(self):
        if (key := self.one(STARTED, STAGED, FINISHED)) and key not in self.damaged:
            redact(self.path, self.references[key], self.time)

    def damage(self):
        """A payload of a call that no import has seen; one that it has seen is another matter."""
        new = [key for key in self.fresh - self.damaged.keys() if self.calls[key][0] != PRUNED]
        if new:
            key = self.rng.choice(sorted(new))
            self.damaged[key] = self.swap(key, b"\0")

    def mend(self):
        if self.damaged:
            key = self.rng.choice(sorted(self.damaged))
            self.swap(key, self.damaged.pop(key))

    def swap(self, key, body):
        connection = sqlite3.connect(self.path)
        where = (
            " WHERE sha256 = (SELECT payload_sha256 FROM snapshots JOIN tool_calls"
            " ON tool_call_id = id WHERE archive_ref = ? AND subject = 'input' AND stage = 'before')"
        )
        given = [self.references[key]]
        (before,) = connection.execute(f"SELECT body FROM payloads{where}", given).fetchone()
        connection.execute(f"UPDATE payloads SET body = ?{where}", [body, *given])
        connection.commit()
        connection.close()
        return before

    def anything(self):
        self.time += 1
        steps = {
            "begin": 6,
            "stage": 2,
            "finish": 5,
            "prune": 0.4,
            "redact": 0.7,
            "damage": 0.5,
            "mend": 0.5,
        }
        getattr(self, self.rng.choices([*steps], [*steps.values()])[0])()


class Into:
    """A dataset that stays open, and what it kept as it was."""

    def __init__(self, directory):
        self.dataset = Dataset.write(str(directory / "toolcalls.duckdb"))
        self.kept = self.said = 0

    def extract(self, path):
        own = importer()

        def read(item):
            for fact in own.read(item):
                self.kept += type(fact) is Kept
                self.said += 1
                yield fact

        counted = Importer(
            own.agent,
            adapter_version=own.adapter_version,
            options=own.options,
            discover=own.discover,
            read=read,
        )
        return extracting.extract(self.dataset, counted, "ann", {"archive": path})

    def everything(self):
        return {
            table: self.dataset.rows(f"SELECT {columns} FROM {table} ORDER BY ALL")
            for table, columns in TABLES.items()
        }


@pytest.fixture
def into(tmp_path):
    made = []

    def make():
        made.append(Into(tmp_path / f"dataset-{len(made)}"))
        return made[-1]

    yield make
    for each in made:
        each.dataset.close()


@pytest.fixture
def whole(into, monkeypatch):
    """Imports without any place that may be kept."""

    def extract(each, path):
        with monkeypatch.context() as patch:
            patch.setattr(extracting, "places", lambda *_: {})
            each.extract(path)
        return each.everything()

    return extract


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_changes_the_rows_are_those_of_a_fresh_import(tmp_path, into, seed):
    rng = random.Random(seed)
    live = Live(tmp_path / "private" / "archive.sqlite3", rng)
    again = into()
    for _ in range(8):
        for _ in range(rng.randrange(1, 12)):
            live.anything()
        again.extract(live.path)
        live.fresh.clear()
        fresh = into()
        fresh.extract(live.path)
        found, expected = again.everything(), fresh.everything()
        fresh.dataset.close()
        # Rows of sessions are never deleted; those without calls in the archive are pruned there.
        ended = [row for row in found["sessions"] if row not in expected["sessions"]]
        with_calls = {row[1] for row in found["tool_calls"]}
        assert not with_calls.intersection(row[0] for row in ended)
        assert [row for row in found["sessions"] if row not in ended] == expected["sessions"]
        for table in TABLES.keys() - {"sessions"}:
            assert found[table] == expected[table], table
    assert again.kept > 10


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_archives_that_share_calls_give_the_rows_of_whole_readings(tmp_path, into, whole, seed):
    rng = random.Random(seed)
    first = Live(tmp_path / "private" / "a.sqlite3", rng)
    for _ in range(30):
        first.anything()
    shutil.copyfile(first.path, tmp_path / "private" / "b.sqlite3")
    (tmp_path / "private" / "b.sqlite3").chmod(0o600)
    second = Live(tmp_path / "private" / "b.sqlite3", rng)
    for name in ("calls", "references", "damaged"):
        setattr(second, name, dict(getattr(first, name)))
    second.time = first.time
    partly, wholly = into(), into()
    for _ in range(10):
        for _ in range(rng.randrange(1, 8)):
            rng.choice([first, second]).anything()
        for live in rng.sample([first, second], 2):
            partly.extract(live.path)
            assert partly.everything() == whole(wholly, live.path)
            live.fresh.clear()
    assert partly.kept > 20


def test_of_a_large_archive_only_what_changed_is_read(tmp_path, into):
    live = Live(tmp_path / "private" / "archive.sqlite3", random.Random(1))
    for _ in range(30):
        live.begin()
        live.finish()
    again = into()
    again.extract(live.path)
    sessions = len(again.everything()["sessions"])
    again.said = again.kept = 0
    live.time += 1
    live.begin()
    report = again.extract(live.path)
    assert (report.written.calls, report.written.observations, report.written.dropped) == (1, 1, 0)
    assert again.kept == 30
    assert again.said == sessions + 30 + 2  # a call and its place


def test_what_was_redacted_leaves_the_dataset(tmp_path, into):
    live = Live(tmp_path / "private" / "archive.sqlite3", random.Random(2))
    live.begin()
    live.finish()
    again = into()
    again.extract(live.path)
    assert "call-0" in str(again.dataset.rows("SELECT input_text FROM tool_calls"))
    live.redact()
    again.extract(live.path)
    (row,) = again.dataset.rows("SELECT input_text FROM tool_calls")
    assert "yarpRedacted" in row[0]


def test_a_payload_damaged_behind_its_import_costs_no_call(tmp_path, into):
    live = Live(tmp_path / "private" / "archive.sqlite3", random.Random(3))
    live.begin()
    again = into()
    again.extract(live.path)
    live.damage()
    live.time += 1
    live.begin()
    again.extract(live.path)
    assert again.dataset.row("SELECT count(*) FROM tool_calls") == (2,)
    assert again.dataset.rows("SELECT code FROM import_issues") == []


def test_rows_of_another_version_of_the_importer_are_made_anew(tmp_path, into):
    live = Live(tmp_path / "private" / "archive.sqlite3", random.Random(4))
    live.begin()
    again = into()
    again.extract(live.path)
    again.dataset.connection.execute("UPDATE source_items SET adapter_version = 1")
    again.extract(live.path)
    assert again.kept == 0


def test_a_dataset_that_took_a_changed_archive_verifies(tmp_path, into):
    live = Live(tmp_path / "private" / "archive.sqlite3", random.Random(5))
    again = into()
    for _ in range(3):
        for _ in range(6):
            live.begin()
            live.finish()
            live.time += 1
        again.extract(live.path)
    assert again.kept
    assert verify(again.dataset)["valid"]
