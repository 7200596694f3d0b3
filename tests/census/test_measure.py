"""What is counted of one result."""

import json

import pytest

from yarp import cache
from yarp.census.measure import REFERENCE, Ceiling, Measure, Row, command, properties, succeeded


@pytest.fixture
def measure(yarp_home):
    return Measure(cache.load())


def row(text="out", given=None, tool="bash", **more):
    values = {
        "agent": "acme",
        "tool_name": tool,
        "input_format": "json",
        "input_text": json.dumps(given if given is not None else {"command": "pytest -v"}),
        "is_error": None,
        "output_text": text,
        "output_json": None,
    }
    return Row(**{**values, **more})


def test_a_shortened_result_counts_with_its_marker(measure, failing_run):
    measure.take(row(failing_run, is_error=True))
    numbers = measure.tally.groups["total", "eligible"]
    results, changed, before, after, bytes_before, bytes_after, lines_before, lines_after = numbers
    assert (results, changed) == (1, 1)
    assert before == bytes_before == len(failing_run)
    assert lines_before == failing_run.count("\n")
    assert len(REFERENCE) < after == bytes_after < before // 5
    assert 3 < lines_after < 30
    assert measure.tally.number("missing_recovery_marker", "summary") == 0
    assert measure.tally.groups["rule", "yarp/pytest"] == numbers
    assert measure.tally.groups["reducer", "test"] == numbers


def test_characters_are_scalars_and_a_last_line_may_have_no_end(measure):
    measure.take(row("größe\n漢字 \U0001f600", tool="read"))
    assert measure.tally.groups["total", "evaluated"] == [1, 0, 10, 10, 19, 19, 2, 2]
    measure.take(row("", tool="read"))
    assert measure.tally.groups["total", "evaluated"][6] == 2
    assert ("total", "shell") not in measure.tally.groups


def test_a_lone_surrogate_is_counted_as_its_replacement(measure):
    measure.take(row("a\ud83db", tool="read"))
    assert measure.tally.groups["total", "evaluated"][2:6] == [3, 3, 5, 5]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("pytest -v", "eligible"),
        ("cd a && pytest -v 2>&1 | tail -5", "eligible"),
        ("rg --json x", "passthrough"),
        ("md5sum file", "passthrough"),
        ("for x in 1; do y; done", "unsupported"),
        ("yarp read yr_0 1:2", "recovery"),
    ],
)
def test_why_a_shell_result_is_not_eligible(measure, text, outcome):
    measure.take(row(given={"command": text}))
    assert set(measure.tally.under("outcome")) == {outcome}


def test_shell_tools_are_those_of_hosts_and_those_with_usual_names(measure):
    for tool in ("bash", "Bash", "exec_command", "run_terminal_cmd", "local_shell_call"):
        measure.take(row(tool=tool))
    for tool in ("read", "bashful", "exec"):
        measure.take(row(tool=tool))
    declared = next(iter(cache.load().hosts.items()))
    measure.take(row(agent=declared[0], tool=next(iter(declared[1]["shell_tools"]))))
    assert measure.tally.groups["total", "shell"][0] == 6


def test_the_command_is_found_where_stores_keep_it():
    assert command(row(given={"command": "a", "cmd": "b"}), "") == "a"
    assert command(row(given={"cmd": "b"}), "") == "b"
    assert command(row(given={"script": "c", "command": "a"}), "script") == "c"
    assert command(row(given={"command": ["bash", "-lc", "a | b"]}), "") == "bash -lc 'a | b'"
    assert command(row(given="a text"), "") == "a text"
    assert command(row(input_format="text", input_text="{plain"), "") == "{plain"
    for given in ({"command": 1}, {"command": []}, {"command": ["a", 1]}, [], 7, None):
        assert command(row(input_text=json.dumps(given)), "") is None
    assert command(row(input_text="no JSON"), "") is None


def test_the_status_is_what_the_structured_result_says_before_what_the_source_says():
    def status(structured, is_error=None):
        return succeeded(row(output_json=json.dumps(structured), is_error=is_error))

    assert status({"exit_code": 0}, is_error=True) is True
    assert status({"exitCode": 3}) is False
    assert status({"details": {"exit_code": 1}}) is False
    assert status({"exit_code": 0, "details": {"exit_code": 1}}) is True
    assert status({"status": "failed"}) is False
    assert status({"status": "done"}, is_error=True) is False
    assert status({"exit_code": True}) is status([1]) is status({"details": 3}) is None
    assert succeeded(row(is_error=False)) is True
    assert succeeded(row(is_error=None)) is None


def test_a_status_that_nobody_knows_is_counted(measure, failing_run):
    measure.take(row(failing_run))
    assert measure.tally.number("eligible_status", "unknown") == 1


def test_a_term_that_a_summary_loses_is_a_veto(measure):
    measure._check("A Warning and an ERROR", "an error " + REFERENCE)
    measure._check("an exception", "")
    assert measure.tally.number("diagnostic_veto", "warning") == 1
    assert measure.tally.number("diagnostic_veto", "error") == 0
    assert measure.tally.number("diagnostic_veto_result", "any") == 2
    assert measure.tally.number("missing_recovery_marker", "summary") == 1


@pytest.mark.parametrize(
    ("text", "peculiar"),
    [
        ("plain", ()),
        ("ä", ("non_ascii",)),
        ("a\n" + "b" * 16384, ("long_line_16k",)),
        ("b" * 16384 + "\nend\n", ("long_line_16k",)),
        ("b" * 16383 + "\n" + "c" * 16383 + "\n", ()),
        ("b\n" * 16384, ()),
        ("c" * (1 << 20), ("oversized_line_1m", "long_line_16k")),
        ("x" * 600 + "[... truncated]", ("host_truncated",)),
        ("Exit code 1\nx", ("transport_outcome",)),
        ("x" * 600 + "truncated" + "x" * 600, ()),
    ],
)
def test_what_is_peculiar_about_a_text(text, peculiar):
    assert properties(text) == peculiar


def test_what_was_taken_is_counted_once_and_what_command_texts_say_stays_known(
    measure, failing_run
):
    measure.take(row(failing_run))
    once = measure.taken()
    assert measure.taken().groups == {}
    measure.take(row(failing_run))
    assert measure.tally.groups == once.groups
    measure.take(row(failing_run))
    twice = {label: [2 * number for number in numbers] for label, numbers in once.groups.items()}
    assert measure.taken().groups == twice


def test_a_size_band_is_by_characters(measure):
    for size in (0, 999, 1000, 9999, 10_000, 100_000):
        measure.take(row("ä" * size, tool="read"))
    found = {band: numbers[0] for band, numbers in measure.tally.under("size_band").items()}
    assert found == {"000000-000999": 2, "001000-009999": 2, "010000-099999": 1, "100000+": 1}


def test_only_a_saving_that_is_worth_it_is_removable():
    ceiling = Ceiling(1000, 256, 1500)
    assert ceiling.removable(0) == ceiling.removable(1000) == ceiling.removable(1255) == 0
    assert ceiling.removable(1256) == 256
    assert Ceiling(10_000, 256, 1500).removable(11_000) == 0
    assert Ceiling(10_000, 256, 1500).removable(12_000) == 2000


def test_an_unchanged_result_has_a_class_and_a_family(measure):
    for text in (
        "pytest -v",
        "md5sum secret",
        "rg --json x",
        "git planted",
        "planted-tool --x",
        "python3 planted.py",
        "scp planted",
        "for planted in 1; do y; done",
    ):
        measure.take(row(given={"command": text}))
    measure.take(row(given={}))
    families = set(measure.tally.under("family"))
    assert families == {
        "existing_rule\texisting/pytest\t",
        "required_pass_through\texact inspection/md5sum\t",
        "required_pass_through\tguarded/rg\t",
        "required_pass_through\tnetwork/scp\t",
        "required_pass_through\tunsupported syntax/control_structure+semicolon\t",
        "unclear\tanother program\t",
        "unclear\tno command text\t",
        "unclear\tthe user's own code\t",
        next(
            family for family in families if family.startswith("review_candidate\tsubcommand/git")
        ),
    }
    assert "planted" not in repr(measure.tally.groups)
