"""The suites for rules, reducers and importers, held against one that is right and one fault each."""

from __future__ import annotations

import pytest

RULES = """
[[rules]]
id = "acme-list"
programs = ["acmels"]
family = "list"
guards = ["--json"]

[[rules.examples]]
command = ["acmels"]
stdout = "out.txt"
keep = ["400"]
recorded = false

[[rules.examples]]
command = ["acmels", "--json"]
guard = true
"""
OUTPUT = "".join(f"src/pkg{n % 7}/file_{n}.py\n" for n in range(400))
PACK = """
from yarp.plugin import RulePack, hookimpl

@hookimpl
def yarp_rule_packs():
    return [RulePack("NAME", FOLDER)]
"""
RULE_FAULTS = {
    "right": ([], None),
    "unguarded": (
        [("guard = true", 'stdout = "out.txt"\nkeep = ["400"]')],
        "test_every_rule_has_an_example_and_a_guard",
    ),
    "forgetful": (
        [('keep = ["400"]', 'keep = ["no such fact"]')],
        "test_every_example_holds_beside_the_rules_of_the_core",
    ),
    "idle": (
        [('command = ["acmels", "--json"]', 'command = ["acmeother", "--json"]')],
        "test_every_guard_example_is_kept_away_by_a_guard_of_its_rule",
    ),
    "greedy": ([('"acmels"', '"find"')], "test_no_rule_claims_what_another_claims"),
    "hollow": ([(RULES, "")], "test_packs_have_names_of_their_own_and_hold_rules"),
}


def hold(verdicts, faults):
    """Each fault is seen by its test, and nothing is held against what is right."""
    found, output = verdicts
    for name, (_, expected) in faults.items():
        if expected:
            assert expected in found[f"Test{name}"].get("FAILED", ()), (name, output)
    assert set(found["Testright"]) == {"PASSED"}, output


@pytest.fixture
def rule_verdicts(faulty):
    for name, (changes, _) in RULE_FAULTS.items():
        rules = faulty.site.path / name
        rules.mkdir()
        (rules / "acme.toml").write_text(faulty.changed(RULES, changes))
        (rules / "out.txt").write_text(OUTPUT)
        faulty.site.install(name, PACK.replace("NAME", name).replace("FOLDER", repr(str(rules))))
    faulty.site.install(
        "bare", "from yarp.plugin import hookimpl\n@hookimpl\ndef yarp_rule_packs(): return []\n"
    )
    suite = "from yarp.testing.rules import RuleSuite\n"
    return faulty.run(suite, "RuleSuite", dict.fromkeys([*RULE_FAULTS, "bare"], ""))


def test_the_rule_suite_sees_each_fault_and_skips_by_name(rule_verdicts):
    hold(rule_verdicts, RULE_FAULTS)
    found, output = rule_verdicts
    assert "Testbare" not in found
    assert "bare declares no rule packs" in output


REDUCER = """
from yarp.plugin import Band, Family, Piece, Reducer, hookimpl

class Counts(Family):
    def __init__(self, argv, options):
        super().__init__(argv, options)
        self.lines = 0
        self.failed = []

    def feed(self, stream, block):
        self.lines += block.count(b"\\n")
        self.failed += [line for line in block.splitlines() if line.startswith(b"FAIL")]

    def finish(self, status):
        if status.success:
            return None
        return [Piece(b"\\n".join(self.failed), 0), Piece(b"%d lines" % self.lines, 1, lines=0)]

@hookimpl
def yarp_reducers():
    return [Reducer("NAME", band=Band.FAMILY, serves=["test"], make=Counts)]
"""
REDUCER_FAULTS = {
    "right": ([], None),
    "heavy": (
        [("from yarp.plugin", "import subprocess\nfrom yarp.plugin")],
        "test_importing_them_stays_light",
    ),
    "growing": (
        [('b"%d lines" % self.lines', 'b"x" * 99999')],
        "test_a_reducer_declines_or_shrinks",
    ),
    "losing": (
        [('line.startswith(b"FAIL")', "False")],
        "test_each_sample_is_reduced_and_keeps_its_facts",
    ),
    "blockwise": (
        [('self.lines += block.count(b"\\n")', "self.lines += 1")],
        "test_the_same_stream_in_other_blocks_gives_the_same",
    ),
    "doubling": (
        [("1, lines=0)", "1, lines=50000)")],
        "test_pieces_are_text_and_count_no_line_twice",
    ),
    "binary": (
        [('b"%d lines" % self.lines', 'b"\\xff"')],
        "test_pieces_are_text_and_count_no_line_twice",
    ),
    "unmet": (
        [('serves=["test"]', 'serves=["diff"]')],
        "test_each_sample_meets_a_reducer_and_keeps_its_facts_within_the_budget",
    ),
    "verbose": (
        [
            (
                '[Piece(b"\\n".join(self.failed), 0)',
                '[Piece(b"a long line that says little\\n" * 200, 0), Piece(self.failed[0], 9)',
            )
        ],
        "test_each_sample_meets_a_reducer_and_keeps_its_facts_within_the_budget",
    ),
    "frail": (
        [("line.startswith(b", "line.decode() and line.startswith(b")],
        "test_odd_output_raises_nothing",
    ),
    "declining": (
        [("if status.success", "if True")],
        "test_each_sample_is_reduced_and_keeps_its_facts",
    ),
}
SAMPLES = """
import pytest
from yarp.testing.reducer import ReducerSuite, Sample

class Samples(ReducerSuite):
    __test__ = False

    @pytest.fixture
    def samples(self):
        out = b"".join(b"ok %d\\n" % n for n in range(5000)) + b"FAIL two, since one and one are not three\\n"
        return [Sample(("pytest",), stdout=out, exit_code=1, keep=(b"FAIL two",))]
"""


@pytest.fixture
def reducer_verdicts(faulty):
    faulty.install(REDUCER, REDUCER_FAULTS)
    faulty.site.install(
        "bare", "from yarp.plugin import hookimpl\n@hookimpl\ndef yarp_reducers(): pass\n"
    )
    suite = SAMPLES + "\nclass Testnew(ReducerSuite):\n    plugin = 'right'\n"
    return faulty.run(suite, "Samples", dict.fromkeys([*REDUCER_FAULTS, "bare"], ""))


def test_the_reducer_suite_sees_each_fault_and_skips_by_name(reducer_verdicts):
    hold(reducer_verdicts, REDUCER_FAULTS)
    found, output = reducer_verdicts
    assert "Testbare" not in found
    assert "bare declares no reducers" in output
    assert "give a fixture `samples`" in output


IMPORTER = """
import os
from yarp.plugin import Call, Importer, Observation, Session, SourceOption, hookimpl, items_below

SEEN = []

def discover(roots):
    return items_below(roots["sessions"], kind="sessions", suffixes=(".jsonl",))

def read(item):
    path = item.path
    for line in item.lines():
        yield Session("s")
        if not isinstance(line.value, dict) or "prompt" in line.value:
            continue
        call = Call(("s", line.number), "s", "sh", line.value)
        yield call
        yield Observation.at(line, call, native_record_kind="call")

@hookimpl
def yarp_importers():
    option = SourceOption("sessions", kind="directory", help="the sessions")
    return [Importer("acme", adapter_version=1, options=[option], discover=discover, read=read)]
"""
IMPORTER_FAULTS = {
    "right": ([], None),
    "touching": (
        [("    for line", "    os.utime(path)\n    for line")],
        "test_sources_keep_their_bytes_modes_and_times",
    ),
    "littering": (
        [("    for line", '    open(path + ".lock", "w").close()\n    for line')],
        "test_sources_keep_their_bytes_modes_and_times",
    ),
    "forgetful": (
        [("    for line", "    if path in SEEN: return\n    SEEN.append(path)\n    for line")],
        "test_reading_twice_gives_the_same_and_something",
    ),
    "blind": (
        [("items_below(", "() and items_below(")],
        "test_reading_twice_gives_the_same_and_something",
    ),
    "leaky": ([('"prompt" in', '"no such key" in')], "test_excluded_records_never_arrive"),
    "empty": ([("line.value)", "{})")], "test_excluded_records_never_arrive"),
    "restless": (
        [('kind="sessions", s', 'kind=f"k{os.urandom(4).hex()}", s')],
        "test_a_second_unchanged_run_inserts_nothing",
    ),
    "credulous": (
        [("not isinstance(line.value, dict) or ", "")],
        "test_a_record_of_unexpected_shape_is_no_exception",
    ),
    "demanding": ([('"sessions", kind', '"state-db", kind')], "test_every_option_has_a_root"),
}
IMPORTING = (
    "test_a_second_unchanged_run_inserts_nothing",
    "test_an_interrupted_run_resumes_to_the_same_rows",
    "test_importing_leaves_the_store_as_it_was",
    "test_a_malformed_line_is_one_issue_and_a_partial_one_waits",
    "test_a_record_of_unexpected_shape_is_no_exception",
    "test_excluded_records_never_arrive",
)
STORE = """
import pytest
from yarp.testing.importer import ImporterSuite

class Store(ImporterSuite):
    __test__ = False

    @pytest.fixture
    def roots(self, tmp_path):
        (tmp_path / "sessions").mkdir()
        lines = ['{"prompt": "PLANTED"}', '{"cmd": "KEPT"}', '{"cmd": "more"}']
        (tmp_path / "sessions" / "a.jsonl").write_text("\\n".join([*lines, ""]))
        return {"sessions": str(tmp_path / "sessions")}

    @pytest.fixture
    def excluded(self):
        return ["PLANTED"]

    @pytest.fixture
    def kept(self):
        return ["KEPT"]
"""


@pytest.fixture
def importer_verdicts(tmp_path_factory, run_suites):
    from yarp.testing.plugin import PluginSite

    folder = tmp_path_factory.mktemp("suites")
    site = PluginSite(tmp_path_factory.mktemp("site"))
    text = STORE
    for name, (changes, expected) in IMPORTER_FAULTS.items():
        code = IMPORTER
        for before, after in changes:
            assert before in code, name
            code = code.replace(before, after)
        site.install(name, code)
        text += f"\nclass Test{name}(Store):\n    __test__ = True\n    plugin = {name!r}\n"
        if expected:  # the others are slow, and proven to pass by what is right
            text += "".join(f"    {test} = None\n" for test in IMPORTING if test != expected)
    text += "\nclass Testbare(Store):\n    __test__ = True\n    plugin = 'bare'\n"
    site.install(
        "bare", "from yarp.plugin import hookimpl\n@hookimpl\ndef yarp_importers(): pass\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site.path))
        return run_suites(folder, text)


def test_the_importer_suite_sees_each_fault_and_skips_by_name(importer_verdicts):
    hold(importer_verdicts, IMPORTER_FAULTS)
    found, output = importer_verdicts
    assert "Testbare" not in found
    assert "bare declares no importers" in output
