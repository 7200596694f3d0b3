import json
import os
import pty
import sqlite3
import subprocess
import sys

import pytest

from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.cli import archive as module
from yarp.cli.root import main


class Cli:
    """`yarp archive ...` against one archive, in this process."""

    def __init__(self, path, capsys):
        self.path = path
        self._capsys = capsys

    def __call__(self, *words):
        """The exit status, standard output and standard error of one command."""
        self._capsys.readouterr()
        status = main(["yarp", "archive", *words])
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def call(self, name, out=b"out\n", err=b"err\n", *, finished_at_ms=2000):
        archive = SteppedArchive.open(self.path, narrow=False)
        key = SessionKey("acme", "ann", "chat", 1000)
        command = payload.of_json({"command": name})
        facts = CallFacts(name, "sh", started_at_ms=1000, requires_streams=True)
        reference = archive.begin_call(key, facts, command, command, 1000)
        streams = [(payload.of(data), payload.BINARY) for data in (out, out, err, err)]
        archive.record_streams(key, name, Streams(*streams), 1500)
        if finished_at_ms is not None:
            result = payload.of_json({"of": name})
            archive.result_before(key, name, result, None, payload.TEXT, 1500)
            archive.finish_call(key, name, result, False, True, finished_at_ms)
        archive.close()
        return reference


@pytest.fixture
def yarp(tmp_path, monkeypatch, capsys):
    directory = tmp_path / "private"
    directory.mkdir(mode=0o700)
    path = str(directory / "tool-calls.sqlite3")
    monkeypatch.setenv("YARP_ARCHIVE", path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Cli(path, capsys)


def damage(yarp):
    connection = sqlite3.connect(yarp.path)
    connection.execute("UPDATE payloads SET body = zeroblob(length(body))")
    connection.commit()
    connection.close()


def test_stats_prints_keys_and_values_in_their_order(yarp):
    yarp.call("one")
    status, out, err = yarp("stats")
    keys = [line.split(": ")[0] for line in out.splitlines()]
    assert keys == [
        "sessions",
        "calls",
        "incomplete_calls",
        "logical_payload_bytes",
        "stored_payload_bytes",
        "database_bytes",
        "oldest_call_ms",
        "newest_call_ms",
    ]
    assert (status, err) == (0, "")
    assert "\ncalls: 1\n" in out


def test_stats_json_says_null_where_text_says_nothing(yarp):
    SteppedArchive.open(yarp.path, narrow=False).close()
    assert "oldest" not in yarp("stats")[1]
    found = json.loads(yarp("stats", "--json")[1])
    assert found["calls"] == 0
    assert found["oldest_call_ms"] is None


def test_verify_of_a_sound_archive_ends_with_0(yarp):
    yarp.call("one", finished_at_ms=None)
    assert yarp("verify") == (0, "incomplete_calls: 1\narchive: ok\n", "")
    assert json.loads(yarp("verify", "--json")[1]) == {
        "ok": True,
        "incomplete_calls": 1,
        "problems": [],
    }


def test_verify_of_a_damaged_archive_ends_with_65_and_a_line_each(yarp):
    yarp.call("one")
    damage(yarp)
    status, out, err = yarp("verify")
    assert (status, out) == (65, "incomplete_calls: 0\narchive: 4 problems\n")
    assert len(err.splitlines()) == 4
    assert all(
        line.startswith("yarp: archive verification failed: payload ") for line in err.splitlines()
    )
    status, out, err = yarp("verify", "--json")
    assert (status, err) == (65, "")
    assert len(json.loads(out)["problems"]) == 4


@pytest.mark.parametrize("command", ["stats", "verify"])
def test_without_an_archive_reading_commands_end_with_74_and_make_none(yarp, command):
    status, out, err = yarp(command)
    assert (status, out) == (74, "")
    assert "there is no archive yet" in err
    assert not os.path.exists(yarp.path)


def test_verify_of_a_damaged_file_says_what_to_do_and_not_to_verify(yarp):
    for number in range(9):
        yarp.call(f"c{number}", out=os.urandom(3000))
    os.truncate(yarp.path, 30_000)
    status, _, err = yarp("verify")
    assert status == 65
    assert "yarp: what is damaged stays so: move the file away with its -wal and -shm" in err
    assert "run: yarp archive verify" not in err


def test_open_modes_are_named_and_not_repaired(yarp):
    yarp.call("one")
    os.chmod(yarp.path, 0o644)
    status, _, err = yarp("verify")
    assert status == 65
    assert "mode 0644 instead of 0600" in err
    assert os.stat(yarp.path).st_mode & 0o777 == 0o644


def test_prune_needs_a_bound(yarp):
    yarp.call("one")
    status, _, err = yarp("prune")
    assert status == 64
    assert "--before TIMESTAMP or --max-bytes N" in err


def test_prune_says_what_went(yarp):
    yarp.call("one", finished_at_ms=1_767_225_599_999)
    yarp.call("two", out=b"two\n", finished_at_ms=1_767_225_600_000)
    status, out, err = yarp("prune", "--before", "2026-01-01T00:00:00Z", "--dry-run")
    assert (status, out.splitlines()[:2]) == (0, ["dry_run: true", "pruned_calls: 1"])
    assert "nothing was changed" in err
    status, out, err = yarp("prune", "--before", "2026-01-01T00:00:00Z")
    assert (status, err) == (0, "")
    assert out.startswith("pruned_calls: 1\npruned_sessions: 0\npruned_payloads: 3\n")
    found = json.loads(yarp("prune", "--max-bytes", "0", "--json")[1])
    assert (found["pruned_calls"], found["pruned_sessions"]) == (1, 1)
    assert yarp("verify")[0] == 0


def test_a_bound_that_cannot_be_met_is_said(yarp):
    yarp.call("one", finished_at_ms=None)
    status, out, err = yarp("prune", "--max-bytes", "10")
    assert (status, out.splitlines()[0]) == (0, "pruned_calls: 0")
    assert err.endswith(
        "still larger than that: what is left are incomplete calls, which are never deleted\n"
    )


def test_a_bound_below_an_empty_archive_is_said_to_be_so(yarp):
    yarp.call("one")
    status, out, err = yarp("prune", "--max-bytes", "10")
    assert (status, out.splitlines()[0]) == (0, "pruned_calls: 1")
    assert err.endswith("still larger than that: it is empty, and an empty one has this size\n")


def test_a_bound_that_a_reader_keeps_out_of_reach_is_said_to_be_so(yarp):
    for number in range(9):
        yarp.call(f"c{number}", out=os.urandom(9000))
    connection = sqlite3.connect(yarp.path, isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM payloads").fetchone()
    yarp.call("younger", finished_at_ms=10**13)
    size = os.path.getsize(yarp.path)
    _, _, err = yarp("prune", "--max-bytes", str(size - 40_000))
    connection.close()
    assert err.endswith("another process reads it now; run this again when that has ended\n")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01z", 1000),
        ("2026-01-01T00:00:00+00:00", 1_767_225_600_000),
        ("2026-01-01T00:00:00.5Z", 1_767_225_600_500),
        ("2026-01-01T00:00:00.123000Z", 1_767_225_600_123),
        ("2026-01-01T00:00:00.1230001Z", 1_767_225_600_124),
        ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
    ],
)
def test_utc_times_are_read_to_the_millisecond(text, ms):
    assert module._milliseconds(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00+01:00",
        "2026-01-01T00:00:00-00:00",
        "2026-01-01T00:00:00.Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "2026-1-1T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        "٢٠٢٦-01-01T00:00:00Z",
        "20260101T000000Z",
        "1767225600",
    ],
)
def test_other_times_are_refused_with_64(yarp, text):
    yarp.call("one")
    status, _, err = yarp("prune", "--before", text)
    assert status == 64
    assert "2026-01-31T00:00:00Z" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("text", ["-1", "5k", "", "1.5"])
def test_other_sizes_are_refused_with_64(yarp, text):
    assert yarp("prune", "--max-bytes", text)[0] == 64


def test_redact_names_what_it_did_and_what_is_left(yarp):
    reference = yarp.call("one", out=b"same\n", err=b"mine\n")
    other = yarp.call("two", out=b"same\n", err=b"yours\n", finished_at_ms=None)
    status, out, err = yarp("redact", reference)
    assert (status, out) == (0, f"redacted: {reference}\nsnapshots: 8\ndeleted_payloads: 3\n")
    assert f"{other} holds some of the same bytes" in err
    found = json.loads(yarp("redact", other, "--json")[1])
    assert found["incomplete"] is True
    assert found["shared_with"] == []
    assert yarp("verify")[0] == 0


def test_redact_of_an_unknown_reference_ends_with_65(yarp):
    yarp.call("one")
    status, _, err = yarp("redact", "yr_" + "0" * 32)
    assert status == 65
    assert "names no call" in err


RESTORE = ["--archive-agent", "acme", "--archive-account", "ann", "--archive-session", "chat"]


def restore(call, **words):
    return subprocess.run(
        [sys.executable, "-m", "yarp", "archive", "restore", *RESTORE, "--archive-call", call],
        capture_output=True,
        check=False,
        **words,
    )


def test_restore_gives_each_stream_on_its_own(yarp):
    yarp.call("one", out=bytes(range(256)), err=b"\xff\r\n\x00")
    done = restore("one")
    assert (done.returncode, done.stdout, done.stderr) == (0, bytes(range(256)), b"\xff\r\n\x00")


def test_restore_of_damaged_streams_gives_nothing_and_ends_with_65(yarp):
    yarp.call("one")
    damage(yarp)
    done = restore("one")
    assert (done.returncode, done.stdout) == (65, b"")
    assert done.stderr.startswith(b"yarp: payload ")


def test_restore_needs_all_four_ids(yarp):
    yarp.call("one")
    status, _, err = yarp("restore", *RESTORE)
    assert status == 64
    assert "--archive-call" in err


def test_ingest_takes_no_words_and_ends_at_the_end_of_its_input(yarp):
    done = subprocess.run(
        [sys.executable, "-m", "yarp", "archive", "ingest"],
        input=b"",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_broken_configuration_is_said_by_every_command(yarp, tmp_path):
    (tmp_path / "config" / "yarp").mkdir(parents=True)
    (tmp_path / "config" / "yarp" / "config.toml").write_text("version = 9\n")
    for words in (["stats"], ["verify"], ["prune", "--max-bytes", "1"]):
        assert yarp(*words)[0] == 64


@pytest.mark.parametrize(
    "words", [[], ["stats"], ["verify"], ["prune"], ["redact"], ["restore"], ["ingest"]]
)
def test_help_shows_examples_before_options(yarp, words):
    status, out, _ = yarp(*words, "--help")
    assert status == 0
    assert f"yarp archive {' '.join(words)}".rstrip() in out
    assert out.index("Examples:") < out.index("Options")


def test_the_output_has_no_colour(yarp, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    yarp.call("one")
    for words in (["stats"], ["verify"], ["verify", "--help"]):
        assert "\x1b[3" not in yarp(*words)[1]


def test_a_long_verification_tells_a_terminal_how_far_it_is(yarp):
    yarp.call("one")
    script = (
        "import sys\nfrom yarp.cli import archive, root\n"
        "archive._PROGRESS_AFTER_S = archive._PROGRESS_EVERY_S = 0\n"
        "sys.exit(root.main(['yarp', 'archive', 'verify']))"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", script], stderr=theirs, stdout=subprocess.PIPE, check=True
    )
    os.close(theirs)
    told = os.read(ours, 65536)
    os.close(ours)
    assert done.stdout == b"incomplete_calls: 0\narchive: ok\n"
    assert b"yarp: verified 0 of 0 MiB" in told
    assert told.endswith(b"\r\x1b[K")
