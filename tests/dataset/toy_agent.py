"""A small agent of our own: one JSON line a record, and stores made by hand."""

from __future__ import annotations

import json

from yarp.dataset.database import Dataset
from yarp.dataset.extract import extract
from yarp.dataset.framing import stream
from yarp.dataset.ingest import ingest
from yarp.sources.facts import Call, Issue, Observation, Rejected, Result, Session
from yarp.sources.importers import Importer, SourceOption
from yarp.sources.walk import items_below


def discover(roots):
    yield from items_below(roots["sessions"], kind="sessions", suffixes=(".jsonl", ".jsonl.zst"))


def read(item):
    """Records: session {id, at}, call {id, input, ...}, result {id, text, ...}, note, bad."""
    session = None
    for line in item.lines():
        record = line.value
        kind = record.get("type") if isinstance(record, dict) else None
        if session is None:
            if kind != "session":
                raise Rejected("unsupported_toy_source", "its first record is no session")
            session = record["id"]
            yield Session(session, record.get("at"))
        elif kind == "call":
            home = record.get("session", session)
            call = Call(
                tuple(record.get("identity", (home, record["id"]))),
                home,
                record.get("tool", "sh"),
                record.get("input", {}),
                record.get("form", "json"),
                native_call_id=record["id"],
                called_at_ms=record.get("at"),
                copy_of=tuple(record["copy"]) if "copy" in record else None,
            )
            yield Observation.at(
                line, call, native_record_kind="call", record_kind=record.get("kind", "canonical")
            )
        elif kind == "result":
            result = Result(
                tuple(record.get("identity", (record.get("session", session), record["id"]))),
                record.get("text"),
                record.get("json"),
                record.get("error"),
                record.get("at"),
                copy_of=tuple(record["copy"]) if "copy" in record else None,
            )
            yield Observation.at(line, result, native_record_kind="result")
        elif kind == "issue":
            yield Issue.at(line, record["code"], "as the record says")
        elif kind == "raise":
            raise KeyError("planted-in-an-exception")
        elif kind == "fact":
            yield record


TOY = Importer(
    "toy",
    adapter_version=1,
    options=[SourceOption("sessions", kind="directory", help="the sessions")],
    discover=discover,
    read=read,
)


class Store:
    """A store of the toy agent, and what a dataset makes of it."""

    def __init__(self, path):
        self.path = path
        self.sessions = path / "sessions"
        self.sessions.mkdir(parents=True)
        self.database = str(path / "data" / "toolcalls.duckdb")

    def write(self, name, *records, tail=b""):
        path = self.sessions / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines(*records) + tail)
        return path

    def append(self, name, *records, tail=b""):
        with open(self.sessions / name, "ab") as file:
            file.write(lines(*records) + tail)

    def extract(self, importer=TOY, user="ann", **options):
        with Dataset.write(self.database) as dataset:
            vars(dataset).update(options)
            return extract(dataset, importer, user, {"sessions": str(self.sessions)})

    def pipe(self, importer=TOY, user="ann"):
        frames = []
        stream(importer, user, {"sessions": str(self.sessions)}, frames.append)
        with Dataset.write(self.database) as dataset:
            return [*ingest(dataset, user, frames)]

    def rows(self, statement, *values):
        with Dataset.read(self.database) as dataset:
            return dataset.rows(statement, list(values))

    def calls(self):
        return self.rows(
            "SELECT native_session_id, native_call_id, input_text, output_text"
            " FROM tool_calls JOIN sessions USING (session_key)"
            " LEFT JOIN tool_results USING (call_key) ORDER BY ALL"
        )

    def issues(self):
        return self.rows(
            "SELECT code, line_number, occurrence_count FROM import_issues ORDER BY ALL"
        )

    def everything(self):
        """All public rows but for run keys and times, and states of files."""
        with Dataset.read(self.database) as dataset:
            return {
                table: dataset.rows(f"SELECT {columns} FROM {table} ORDER BY ALL")
                for table, columns in TABLES.items()
            }


TABLES = {
    "source_roots": "*",
    "source_items": "* EXCLUDE (last_run_key)",
    "sessions": "*",
    "tool_calls": "*",
    "tool_results": "*",
    "observations": "*",
    "import_issues": "* EXCLUDE (run_key)",
    "private.call_links": "*",
    "private.suspects": "*",
    "private.state": "*",
}


def lines(*records):
    return b"".join(
        (record if isinstance(record, bytes) else json.dumps(record).encode()) + b"\n"
        for record in records
    )


def session(name, at=None):
    return {"type": "session", "id": name, "at": at}


def call(name, **more):
    return {"type": "call", "id": name, "input": {"cmd": name}, **more}


def result(name, text="out", **more):
    return {"type": "result", "id": name, "text": text, **more}


ORIGIN_AND_FORK = {
    "m.jsonl": [
        session("origin", 10),
        call("o", copy=["u1"], at=11),
        result("o", "same", at=12),
        call("p"),
    ],
    "k.jsonl": [
        session("fork", 20),
        call("o", copy=["u1"], at=21),
        result("o", "same", at=22),
        call("q"),
    ],
}
