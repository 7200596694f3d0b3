"""The suite for trace readers, held against one that is right and one fault each."""

from __future__ import annotations

import pathlib

import pytest

ACME = pathlib.Path(__file__).parents[1] / "index" / "acme.py"
SUITE = """
from yarp.testing.trace import TraceSuite
import pytest, pathlib

class Base(TraceSuite):
    @pytest.fixture
    def traces(self, tmp_path):
        (tmp_path / "traces").mkdir()
        (tmp_path / "traces" / "a.jsonl").write_text(TRACE)
        return str(tmp_path / "traces")
"""
# The reader of the tests trusts its records, which the suite rightly holds against it.
GUARD = [
    (
        (
            "            if isinstance(line.value, dict):\n"
            "                yield from self.record(line.number, line.value)\n"
        ),
        "            yield from self.sound(line)\n",
    ),
    (
        "    def record(self, n, v):\n",
        (
            "    def sound(self, line):\n"
            "        before = self.loop, self.heard\n"
            "        try:\n"
            "            from yarp.testing.trace import _sound\n"
            "            found = list(self.record(line.number, line.value))\n"
            "            for fact in found: _sound(fact)\n"
            "            yield from found\n"
            "            self.state()\n"
            "        except Exception:\n"
            "            self.loop, self.heard = before\n\n"
            "    def record(self, n, v):\n"
        ),
    ),
]
FAULTS = {
    "right": (GUARD, None),
    "trusting": ([], "test_a_record_of_unexpected_shape_is_no_exception"),
    "forgetful": (
        [*GUARD, ("json.dumps([self.loop, self.heard])", "json.dumps([self.loop, False])")],
        "test_any_cutting_into_appends_gives_the_same_index",
    ),
    "fickle": (
        [*GUARD, ('f"{n}.0"', "f\"{n}.{id(object())}.{__import__('time').time_ns()}\"")],
        "test_reading_anew_gives_the_same_index",
    ),
    "greedy": (
        [*GUARD, ('isinstance(head, dict) and head.get("t") in ("session", "note")', "True")],
        "test_no_reader_takes_what_is_no_trace",
    ),
    "misshapen": (
        [('{"has_images": bool', '{"had_images": bool')],
        "test_every_trace_is_published_with_items",
    ),
    "writing": (
        [
            *GUARD,
            (
                "project=lambda locator, state: Projector(state)",
                "project=lambda locator, state: open(locator + '.seen', 'a') and Projector(state)",
            ),
        ],
        "test_traces_keep_their_bytes_modes_and_times",
    ),
}


@pytest.fixture
def verdicts(faulty):
    faulty.install(ACME.read_text().replace('"acme"', '"NAME"'), FAULTS)
    faulty.site.install(
        "bare", "from yarp.plugin import hookimpl\n@hookimpl\ndef yarp_trace_readers(): return []\n"
    )
    trace = ACME.with_name("conversation.jsonl").read_text()
    suite = SUITE.replace("TRACE", repr(trace))
    return faulty.run(suite, "Base", dict.fromkeys([*FAULTS, "bare"], ""))


def test_the_trace_suite_sees_each_fault_and_skips_by_name(verdicts):
    found, output = verdicts
    for name, (_, expected) in FAULTS.items():
        if expected:
            failed = found[f"Test{name}"].get("FAILED", set())
            assert expected in failed, (name, failed, output)
    assert set(found["Testright"]) == {"PASSED"}, output
    assert set(found["Testbare"]) <= {"SKIPPED", "PASSED"} if "Testbare" in found else True
    assert "bare declares no trace readers" in output
