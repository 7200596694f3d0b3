import datetime as dt
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.errors import UsageError
from yarp.recover import calls


class Call:
    call_id = 1
    archive_ref = "yr_" + "0" * 32
    agent = "acme"
    source_session_id = "s"
    tool_name = "sh"
    working_directory = None
    started_at_ms = 1_700_000_000_123
    finished_at_ms = 1
    status = "finished"
    is_error = False


class Snapshots:
    completeness = "complete"

    def __init__(self, **payloads):
        self._payloads = payloads

    def snapshot(self, call_id, subject, stage):
        data = self._payloads.get(f"{subject}_{stage}")
        if data is None:
            return None
        found = type("Source", (), {})()
        found.byte_length, found.sha256, found.completeness = len(data), data, self.completeness
        return found

    def payload(self, sha256):
        return sha256


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b'{"command":"pytest -q\\nmore"}', "pytest -q"),
        (b'{"argv":["ls","-l"]}', "ls -l"),
        (b'{"argv":["sh","-c","sleep 1; exit 0",""]}', "sh -c 'sleep 1; exit 0' ''"),
        (b'{"cmd":["sh","-c","x"]}', "sh -c x"),
        (b'{"path":"/a"}', '{"path":"/a"}'),
        (b'{"command":""}', '{"command":""}'),
        (b'{"command":3}', '{"command":3}'),
        (b'{"yarpRawJson":"{\\"a\\": 1e999}"}', '{"a": 1e999}'),
        (b"[1,2]", "1 2"),
        (b"not json \xff", "not json \N{REPLACEMENT CHARACTER}"),
        (b'{"command":"' + b"x" * 500 + b'"}', "x" * 200),
        (b'"' + b"x" * (1 << 18) + b'"', None),
    ],
)
def test_the_command_is_the_first_line_of_what_was_called(value, line):
    assert calls.command(Snapshots(input_before=value), Call()) == line


def test_sizes_are_of_the_streams_else_of_the_result_else_unknown():
    streams = Snapshots(
        stdout_before=b"12345", stderr_before=b"1", stdout_after=b"1", result_before=b"9" * 9
    )
    assert calls.sizes(streams, Call()) == (6, 1)
    assert calls.sizes(Snapshots(result_before=b"123", result_after=b"1"), Call()) == (3, 1)
    assert calls.sizes(Snapshots(result_before=b""), Call()) == (0, None)
    assert calls.sizes(Snapshots(), Call()) == (None, None)


def test_a_row_escapes_what_a_terminal_would_obey():
    call = Call()
    call.agent = "a\x1b[31m\u202e"
    snapshots = Snapshots(input_before=b'{"command":"echo \\u001b[2J\\u0085."}')
    assert calls.row(calls.facts(snapshots, call)) == (
        f"{call.archive_ref}  2023-11-14T22:13:20Z  a\\x1b[31m\\u{{202e}}  sh  ok  ->-  "
        "echo \\x1b[2J\\u{85}."
    )


RUN = (
    b'{"exitCode":137,"receipt":{"process":"exited","signal":9,"capture":"partial",'
    b'"captureReason":"drain-timeout"}}'
)


def test_a_run_tells_how_it_ended_and_what_was_captured():
    call = Call()
    call.agent = "yarp"
    call.finished_at_ms = call.started_at_ms + 1234
    found = calls.facts(Snapshots(result_before=RUN), call)
    assert (found["exitStatus"], found["signal"], found["durationMs"]) == (137, 9, 1234)
    assert (found["capture"], found["captureReason"]) == ("partial", "drain-timeout")


def test_of_a_hosts_call_the_streams_tell_what_was_captured_and_its_result_tells_nothing():
    snapshots = Snapshots(result_before=RUN, stdout_before=b"1", stderr_before=b"")
    found = calls.facts(snapshots, Call())
    assert (found["exitStatus"], found["capture"], found["captureReason"]) == (
        None, "complete", None,
    )  # fmt: skip
    snapshots.completeness = "incomplete"
    assert calls.facts(snapshots, Call())["capture"] == "partial"


def test_a_call_that_never_ended_has_no_duration():
    call = Call()
    call.finished_at_ms = None
    found = calls.facts(Snapshots(), call)
    assert (found["durationMs"], found["exitStatus"], found["capture"]) == (None, None, None)


def test_a_result_of_another_shape_tells_nothing():
    call = Call()
    call.agent = "yarp"
    assert calls.facts(Snapshots(result_before=b"[1]"), call)["exitStatus"] is None


def test_a_call_without_a_finish_is_started_whatever_else_is_known():
    call = Call()
    call.status, call.is_error = "started", True
    assert calls.state(call) == "started"
    call.status = "finished"
    assert calls.state(call) == "failed"


@given(st.integers(0, 13_600_000_000))
def test_a_time_is_read_as_it_is_written(seconds):
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None).isoformat()
    assert calls.moment(seconds * 1000 + 999) == moment + "Z"
    assert calls.since(moment + "Z") == seconds * 1000
    assert calls.since(moment[:10]) == (seconds - seconds % 86400) * 1000


@pytest.mark.parametrize(
    ("text", "ago"), [("90s", 90), ("2h", 7200), ("1d", 86400), ("3w", 1814400)]
)
def test_a_time_ago_is_counted_from_now(text, ago):
    assert abs(calls.since(text) - (time.time() - ago) * 1000) < 60_000


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "h", "-1h", "2y", "1.5h", "²h", "999999999h"),
        *("2026-13-01", "2026-02-29", "2026-1-1", "1969-12-31", "2026-01-01\n"),
        *("2026-01-01T24:00:00Z", "2026-01-01T00:00:00+00:00"),
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="is no time; write"):
        calls.since(text)
