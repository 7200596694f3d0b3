"""What was shown against what the host would have shown, over archives with known figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from yarp import cache, payload
from yarp.archive.read import Reader
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.settings import Settings
from yarp.types import Cut
from yarp.usage import text_of, usage


def compiled(cut=None, agent="acme"):
    from yarp.reduce.rules.load import builtin_pack, compile_rules

    host = {"shell_tools": {"sh": "command"}, "cut": None if cut is None else cut.plain()}
    import marshal

    rules = marshal.dumps(compile_rules([builtin_pack()]))
    return cache.Compiled(Settings().dump(), {agent: host}, {}, {}, (), (), (), {}, rules)


class Calls:
    """An archive to which calls are written as hosts write them."""

    def __init__(self, path):
        self.path = str(path)
        self.archive = SteppedArchive.open(self.path, narrow=True)
        self.count = 0

    def add(
        self, command=None, *, agent="acme", tool="sh", before=None, after=None, result=None,
        result_after=None, source_output=None, result_text=None, given=None, at=1000, cwd=None,
    ):  # fmt: skip
        self.count += 1
        name = f"c{self.count}"
        session = SessionKey(agent, "ann", "s1")
        facts = CallFacts(
            name, tool, started_at_ms=at, working_directory=cwd, requires_streams=before is not None
        )
        body = payload.of_json(given or {"command": command})
        reference = self.archive.begin_call(session, facts, body, body, at)
        empty = (payload.of(b""), payload.TEXT)
        streams = None
        if before is not None:
            text = before if after is None else after
            streams = Streams(
                (payload.of(before), payload.TEXT), (payload.of(text), payload.TEXT), empty, empty
            )
        if agent == "yarp":
            done = payload.of_json({"exitCode": 0})
            self.archive.finish_run(session, name, streams, done, done, False, at)
            return reference
        if streams is not None:
            self.archive.record_streams(session, name, streams, at)
        if result is None:
            return reference
        output = None if source_output is None else payload.of(source_output)
        self.archive.result_before(session, name, payload.of_json(result), output, payload.TEXT, at)
        if result_text is not None:
            self.archive.result_text(session, name, payload.of(result_text), "complete", at)
        shown = payload.of_json(result if result_after is None else result_after)
        self.archive.stage_result(session, name, shown, False, at)
        shown = payload.of_json(result if result_after is None else result_after)
        self.archive.update_final_result(session, name, shown, False, at)
        return reference

    def report(self, by="agent", *, cut=None, **more):
        self.archive.close()
        reader = Reader.open(self.path)
        found = usage(reader, compiled(cut), by, **more)
        reader.close()
        return found


@pytest.fixture
def calls(tmp_path):
    tmp_path.chmod(0o700)
    return Calls(tmp_path / "archive.sqlite3")


def blocks(text):
    return {"content": [{"type": "text", "text": text}]}


CUT = Cut(4000, "bytes", keeps="tail")
LONG = b"0123456789abcde\n" * 1000  # 4,000 tokens, 1,000 after the cut


def test_a_wrapped_call_is_compared_with_what_the_hosts_cut_would_leave(calls):
    calls.add("pytest", before=LONG, after=b"x" * 400, result=blocks("x" * 400))
    found = calls.report(cut=CUT).groups["acme"]
    assert (found.calls, found.compared) == (1, 1)
    assert (found.exact_tokens, found.host_tokens, found.shown_tokens) == (4000, 1000, 100)
    assert (found.saved_tokens, found.saved_percent) == (900, 90.0)


def test_without_a_declared_cut_the_comparison_is_unknown_not_zero(calls):
    calls.add("pytest", before=LONG, after=b"x" * 400, result=blocks("x" * 400))
    found = calls.report().groups["acme"]
    assert (found.compared, found.host_tokens, found.saved_tokens, found.saved_percent) == (
        0, None, None, None,
    )  # fmt: skip
    assert (found.exact_tokens, found.shown_tokens) == (4000, 100)


def test_an_unchanged_call_saves_nothing_whatever_the_cut(calls):
    calls.add("true", result=blocks("y" * 40))
    calls.add("pytest", before=b"z" * 80, result=blocks("z" * 80))
    found = calls.report().groups["acme"]
    assert (found.compared, found.host_tokens, found.shown_tokens, found.saved_tokens) == (
        2, 30, 30, 0,
    )  # fmt: skip
    assert found.saved_percent == 0.0


def test_a_shortened_result_is_compared_with_the_hosts_own(calls):
    calls.add(
        "make", result=blocks("h" * 4000), result_after=blocks("s" * 400), source_output=LONG,
        result_text=b"h" * 4000,
    )  # fmt: skip
    found = calls.report().groups["acme"]
    assert (found.exact_tokens, found.host_tokens, found.shown_tokens) == (4000, 1000, 100)


def test_a_host_that_shows_less_than_it_gives_its_hooks_is_taken_by_what_it_shows(calls):
    calls.add(
        "make", result=blocks("h" * 4000), result_after=blocks("s" * 40), source_output=LONG,
    )  # fmt: skip
    cut = Cut(800, "characters", keeps="head", beyond=4000)
    found = calls.report(cut=cut).groups["acme"]
    assert (found.exact_tokens, found.host_tokens, found.shown_tokens) == (4000, 200, 10)


def test_a_recovery_read_is_a_cost_to_the_rule_whose_call_it_reads(calls):
    reference = calls.add("pytest", before=LONG, after=b"x" * 400, result=blocks("x" * 400))
    calls.add(f"yarp search {reference} 'FAILED|Error'", result=blocks("f" * 200))
    calls.add(f"/usr/bin/yarp read {reference} 1:20", result=blocks("r" * 40))
    calls.add(f"cd /tmp && yarp search {reference} x", result=blocks("c" * 4))
    calls.add("yarp grep panicked", result=blocks("g" * 4))
    calls.add("yarp run -- true", result=blocks("t" * 4))
    calls.add(f"yarp search {'yr_' + '0' * 32} x", result=blocks("n" * 4))
    report = calls.report("rule", cut=CUT)
    found = report.groups["yarp/pytest"]
    assert (found.calls, found.recovery_calls, found.recovery_tokens) == (4, 3, 61)
    assert (found.host_tokens, found.shown_tokens, found.saved_tokens) == (1000, 161, 839)
    rest = report.groups[None]
    assert (rest.calls, rest.recovery_calls, rest.recovery_tokens) == (3, 2, 2)
    assert report.total.saved_tokens == 839 - 2
    assert report.total.recovery_tokens == 63


def test_recovery_can_cost_more_than_was_spared(calls):
    reference = calls.add("pytest", before=b"a" * 4000, after=b"b" * 400, result=blocks("b" * 400))
    calls.add(f"yarp read {reference} 1:900", result=blocks("c" * 8000))
    found = calls.report(cut=CUT).total
    assert found.saved_tokens == 1000 - 100 - 2000
    assert found.saved_percent == -110.0


def test_a_run_without_a_host_knows_what_was_shown_but_not_what_would_have_been(calls):
    calls.add(
        agent="yarp", tool="run", given={"argv": ["pytest", "-q"]}, before=LONG, after=b"s" * 40
    )
    calls.add(agent="yarp", tool="run", given={"argv": ["sometool", "x"]}, before=LONG)
    calls.add(agent="yarp", tool="run", given={"command": "pytest"}, before=b"t" * 4)
    report = calls.report("rule", cut=CUT)
    pytest_ = report.groups["yarp/pytest"]
    assert (pytest_.calls, pytest_.compared, pytest_.shown_tokens) == (2, 0, 11)
    assert (pytest_.exact_tokens, pytest_.host_tokens) == (4001, None)
    assert report.groups[None].saved_tokens is None


def test_calls_are_added_up_by_tool_and_only_those_since_a_time(calls):
    calls.add("true", result=blocks("y" * 40), at=1000)
    calls.add("true", result=blocks("y" * 40), at=5000)
    calls.add(tool="browse", given={"url": "x"}, result={"page": "p" * 38}, at=6000)
    report = calls.report("tool", since_ms=5000)
    assert {key: group.calls for key, group in report.groups.items()} == {"sh": 1, "browse": 1}
    assert report.groups["browse"].shown_tokens == 13  # its JSON: the shape says no text
    assert report.total.calls == 2


def test_an_unfinished_call_counts_and_is_unknown(calls):
    calls.add("sleep 9")
    calls.add("pytest", before=LONG, after=b"x" * 400)
    found = calls.report(cut=CUT).groups["acme"]
    assert (found.calls, found.compared, found.shown_tokens) == (2, 1, 100)


def test_damage_is_counted_as_unknown_and_said(calls):
    import sqlite3

    calls.add("true", result=blocks("y" * 40))
    calls.archive.close()
    connection = sqlite3.connect(calls.path)
    connection.execute("UPDATE payloads SET body = X'00' WHERE instr(body, X'79797979')")
    connection.commit()
    connection.close()
    report = calls.report()
    assert report.damaged == 1
    assert (report.total.calls, report.total.shown_tokens) == (1, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (blocks("in a block"), "in a block"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}], "ab"),
        ({"stdout": "o", "stderr": "e", "interrupted": False}, "oe"),
        ({"output": "o", "metadata": {}}, "o"),
        ({"answer": 42}, None),
        ([1, 2], None),
        (7, None),
    ],
)
def test_the_text_of_a_result_is_found_in_the_shapes_that_hosts_use(value, text):
    assert text_of(value) == text


def stats(*words):
    return subprocess.run(
        [sys.executable, "-P", "-m", "yarp", "stats", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )


def test_the_command_prints_figures_and_never_content(yarp_home, plugin_site, monkeypatch):
    plugin_site.install(
        "acme",
        "from yarp.plugin import Cut, Host, hookimpl\n"
        "@hookimpl\n"
        "def yarp_host():\n"
        "    return Host('acme', shell_tools={'sh'}, cut=Cut(4000, 'bytes', keeps='tail'))\n",
    )
    path = yarp_home / "data" / "yarp" / "tool-calls.sqlite3"
    calls = Calls(path)
    secret = b"the-secret-token\n" * 1000
    reference = calls.add(
        "pytest -k the-secret-token", before=secret, after=b"x" * 400, result=blocks("x" * 400)
    )
    calls.add(f"yarp read {reference} 1:2", result=blocks("the-secret-token"))
    calls.archive.close()
    before = path.read_bytes()
    done = stats()
    assert done.returncode == 0, done.stderr
    header, acme, total = done.stdout.splitlines()
    assert header.split() == [
        "AGENT",
        "CALLS",
        "COMPARED",
        "EXACT",
        "HOST",
        "SHOWN",
        "RECOVERY",
        "SAVED",
        "%",
    ]
    assert acme.split() == [
        "acme",
        "2",
        "2",
        "4,254",
        "1,000",
        "104",
        "4",
        "in",
        "1",
        "896",
        "89.6",
    ]
    assert total.split()[0] == "total"
    for by in ("agent", "tool", "rule"):
        done = stats("--by", by, "--json")
        found = json.loads(done.stdout)
        assert found["total"]["compared"]["saved_tokens"] == 896
        assert found["estimate"] == "ascii4_unicode1_v1"
        assert by in found["groups"][0]
        assert "secret" not in done.stdout + done.stderr
    assert path.read_bytes() == before
    # What any reader of a write-ahead log makes.
    assert {name.removesuffix("-wal").removesuffix("-shm") for name in os.listdir(path.parent)} == {
        path.name
    }


def test_the_command_says_what_is_wrong(yarp_home):
    done = stats()
    assert done.returncode == 74
    assert "there is no archive yet" in done.stderr
    assert stats("--since", "yesterday").returncode == 64
    assert stats("--by", "weather").returncode == 64
