"""What holds for all tests of the core."""

import hashlib
import json
import os
import signal

import pytest

# What a shell has a job in its background ignore, or `nohup`, all that it starts ignores, too.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


class Result:
    """A result of a made-up call; digests and keys are made from what it holds."""

    def __init__(self, text=None, structured=None, is_error=None):
        self.text = text
        self.structured = structured
        self.is_error = is_error


def _fill(connection, calls):
    """Insert calls, each a dict: `tool`, `input`, and if need be `results`, `agent`, `session`, `at`."""
    rows = {"sessions": {}, "tool_calls": {}, "tool_results": {}}
    for number, call in enumerate(calls):
        agent, session = call.get("agent", "acme"), call.get("session", "s1")
        given = call["input"]
        text = given if isinstance(given, str) else json.dumps(given)
        session_key = _key("session", agent, session)
        call_key = call.get("key", _key("call", agent, session, str(number)))
        rows["sessions"][session_key] = (session_key, "ann", agent, session, None)
        rows["tool_calls"][call_key] = (
            *(call_key, session_key, f"native-{number}", None, call.get("at")),
            *("a provider", "a model", "/home/ann/project", call["tool"]),
            *("text" if isinstance(given, str) else "json", text, _digest(text)),
        )
        for result in call.get("results", ()):
            digest = _digest(json.dumps([result.text, result.structured, result.is_error]))
            key = _key("result", call_key, digest.hex())
            structured = None if result.structured is None else json.dumps(result.structured)
            rows["tool_results"][key] = (
                *(key, call_key, call.get("at"), result.is_error, result.text, structured, digest),
            )
    for table, found in rows.items():
        for row in found.values():
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)


def _key(*parts):
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _digest(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@pytest.fixture
def result():
    return Result


@pytest.fixture
def dataset_of(tmp_path):
    """Makes a dataset of calls, or adds them to the one of that name; gives its path."""
    from yarp.dataset.database import Dataset

    mask = os.umask(0o077)

    def make(*calls, name="calls"):
        path = str(tmp_path / "data" / f"{name}.duckdb")
        with Dataset.write(path) as dataset:
            # As an import does: so much as the rows may need.
            dataset.connection.execute("SET memory_limit = '2GB'")
            _fill(dataset.connection, calls)
        return path

    yield make
    os.umask(mask)
