"""The suite for spooling hosts and redactors, held against one that is right and one fault each."""

from __future__ import annotations

import pytest

ACME = """
import os
from yarp.plugin import Host, Redactor, SpoolLocation, hookimpl

WINDOW = 64
SECRET = b"hunter2"

class Hide:
    def __init__(self):
        self._held = b""
    @property
    def held(self):
        return len(self._held)
    def feed(self, chunk):
        data = (self._held + chunk).replace(SECRET, b"***")
        keep = next((n for n in range(len(SECRET) - 1, 0, -1) if data.endswith(SECRET[:n])), 0)
        self._held = data[len(data) - keep:]
        return data[: len(data) - keep]
    def finish(self):
        held, self._held = self._held, b""
        return held

@hookimpl
def yarp_redactors(policy):
    return [Redactor("hide", window_bytes=WINDOW, make=Hide)]

def logs():
    return os.path.join(os.environ["HOME"], "logs")

@hookimpl
def yarp_spool_location(call):
    if call.agent != "NAME":
        return None
    return SpoolLocation(os.path.join(logs(), call.source_session_id, "spools"))

def spools():
    return [logs()]

@hookimpl
def yarp_host():
    return Host("NAME", spools=spools)
"""

# name: what is changed in the plugin, and the tests that must see it
FAULTS = {
    "right": ([], set()),
    "leaking": (
        [("keep = next(", "keep = 0 and next(")],
        {"test_a_secret_does_not_pass_at_any_split", "test_a_secret_is_in_no_file_of_a_capture"},
    ),
    "swallowing": (
        [("        return held\n", "        return b''\n")],
        {"test_what_holds_no_secret_stays_as_it_is"},
    ),
    "moody": (
        [("data = (self._held + chunk)", "data = chunk")],
        {"test_any_chunking_gives_the_same_bytes"},
    ),
    "hoarding": (
        [("keep = next(", "keep = len(data) or next(")],
        {"test_a_plain_flood_is_not_left_out"},
    ),
    "greedy": (
        [("WINDOW = 64", "WINDOW = 1 << 20")],
        {"test_redactors_have_names_and_bounded_windows"},
    ),
    "zealous": (
        [("return data[: len(data) - keep]", "return b''")],
        {"test_what_holds_no_secret_stays_as_it_is"},
    ),
    "shared": (
        [("call.source_session_id, ", "")],
        {"test_spools_lie_in_their_own_conversation"},
    ),
    "relative": (
        [("os.path.join(logs(), call", "os.path.join('logs', call")],
        {"test_spools_lie_in_their_own_conversation"},
    ),
    "grasping": (
        [('    if call.agent != "NAME":\n        return None\n', "")],
        {"test_a_call_of_another_host_has_no_place_here"},
    ),
    "hidden": (
        [("return [logs()]", "return [logs() + '-old']")],
        {"test_what_yarp_receipt_lists_holds_the_spools"},
    ),
    "linked": (
        [
            (
                "    return SpoolLocation(",
                "    os.path.islink(logs()) or os.symlink('/tmp', logs())\n    return SpoolLocation(",
            )
        ],
        {"test_a_capture_is_private_counted_and_published_once"},
    ),
}
SUITE = """
import pytest
from yarp.plugin import CallStarted
from yarp.testing.spool import Secret, SpoolSuite

class Spools(SpoolSuite):
    __test__ = False

    @pytest.fixture
    def calls(self, yarp_home):
        return [CallStarted(name, f"call-{name}", "sh", {"command": "make"}) for name in "ab"]

    @pytest.fixture
    def secrets(self):
        return [Secret(b"login: hunter2 ok\\n", b"hunter2")]
"""


@pytest.fixture
def verdicts(faulty):
    """What the suite says of each plugin, from one run over all of them."""
    faulty.install(ACME, FAULTS)
    return faulty.run(SUITE, "Spools", dict.fromkeys(FAULTS, ""))


def test_the_suite_sees_each_fault_and_passes_the_plugin_that_is_right(verdicts):
    found, output = verdicts
    for name, (_, expected) in FAULTS.items():
        outcomes = found[f"Test{name}"]
        failed = outcomes.get("FAILED", set()) | outcomes.get("ERROR", set())
        assert failed >= expected, (name, failed, output)
    assert set(found["Testright"]) == {"PASSED"}, output


def test_a_plugin_that_spools_nothing_is_skipped_by_name(plugin_site, tmp_path, run_suites):
    plugin_site.install(
        "acme",
        "from yarp.plugin import Host, hookimpl\n@hookimpl\ndef yarp_host(): return Host('acme')\n",
    )
    text = SUITE + "\nclass TestAcme(Spools):\n    __test__ = True\n    plugin = 'acme'\n"
    found, output = run_suites(tmp_path, text)
    assert found == {}, output  # neither passed nor failed
    assert "acme brings no redactors" in output
    assert "acme says of no call where its spools go" in output


def test_a_newcomer_is_told_what_to_give(plugin_site, tmp_path, run_suites):
    plugin_site.install("acme", ACME.replace("NAME", "acme"))
    text = (
        "from yarp.testing.spool import SpoolSuite\n"
        "class TestAcme(SpoolSuite):\n    plugin = 'acme'\n"
    )
    _, output = run_suites(tmp_path, text)
    assert "give a fixture `calls`" in output
    assert "give a fixture `secrets`" in output
