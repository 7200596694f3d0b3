"""The host suite, held against a host that is right and against one fault each."""

from __future__ import annotations

import pytest

ACME = """
import os
from yarp.plugin import CallEnded, CallStarted, Health, Host, Probe, hookimpl

def decode(event):
    match event.get("kind"):
        case "begin":
            return CallStarted(event["chat"], event["id"], event["tool"], event["args"])
        case "end":
            return CallEnded(event["chat"], event["id"], event["out"], event["failed"],
                text=event["out"])
    return None

def reply(event, decision):
    if decision.result is not None:
        return {"out": decision.result}
    return None if decision.blocked is None else {"deny": decision.blocked}

def replace(event, content):
    return content

def probe(directory):
    if not os.path.exists(_config()):
        return []
    event = {"kind": "begin", "chat": "c", "id": "1", "tool": "sh", "args": {}}
    return [Probe(["yarp", "hook", "NAME"], event, _config())]

def _config():
    return os.path.join(os.environ["HOME"], ".acme")

def install(scope, dry_run, directory):
    if not dry_run:
        with open(_config(), "w") as file:
            file.write("yarp")
    return [f"wrote {_config()}"]

def uninstall(scope, dry_run, directory):
    if os.path.exists(_config()):
        os.unlink(_config())
        return [f"removed {_config()}"]
    return []

def health(directory):
    return Health(installed=True, hooked_in=os.path.exists(_config()))

@hookimpl
def yarp_host():
    return Host("NAME", shell_tools={"sh"}, decode=decode, reply=reply, install=install,
        replace=replace, uninstall=uninstall, health=health, probe=probe, withholds=["It says nothing of streams."])
"""

# name: what is changed in the host, and the tests that must see it
FAULTS = {
    "right": ([], set()),
    "heavy": (
        [("import os", "import os, subprocess")],
        {"test_importing_it_stays_light"},
    ),
    "misnamed": (
        [('Host("NAME"', 'Host("other"')],
        {"test_the_plugin_loads_and_its_hooks_fit"},
    ),
    "lostid": (
        [('CallEnded(event["chat"], event["id"]', 'CallEnded(event["chat"], "?"')],
        {"test_an_exchange_is_one_start_and_one_end_of_one_call"},
    ),
    "raising": (
        [("    return None\n\ndef reply", "    raise KeyError('kind')\n\ndef reply")],
        {"test_an_event_it_does_not_know_is_declined"},
    ),
    "endless": (
        [('case "end":', 'case "finish":')],
        {"test_an_exchange_is_one_start_and_one_end_of_one_call"},
    ),
    "meddling": (
        [('    match event.get("kind"):', '    event["seen"] = 1\n    match event.get("kind"):')],
        {"test_decoding_is_repeatable_and_leaves_the_event_alone"},
    ),
    "talkative": (
        [("return None if decision.blocked is None else", "return")],
        {"test_replies_are_json_and_nothing_is_said_without_a_decision"},
    ),
    "speechless": (
        [('{"deny": decision.blocked}', '{"deny": True}')],
        {"test_a_call_that_cannot_be_archived_is_refused_with_the_reason"},
    ),
    "stubborn": (
        [("    return content\n", "    return event['out']\n")],
        {"test_a_shorter_text_takes_the_place_of_the_hosts_own"},
    ),
    "silent": (
        [('        return {"out": decision.result}\n', "        return None\n")],
        {"test_a_shorter_text_takes_the_place_of_the_hosts_own"},
    ),
    "untidy": (
        [
            (
                "    return []\n\ndef health",
                "    open(_config() + '.old', 'w').close()\n    return []\n\ndef health",
            ),
            (
                '        return [f"removed',
                "        open(_config() + '.old', 'w').close()\n        return [f\"removed",
            ),
        ],
        {"test_uninstalling_gives_every_file_its_bytes_back"},
    ),
    "untried": (
        [('{"kind": "begin", "chat": "c", "id": "1", "tool": "sh", "args": {}}', "{}")],
        {"test_its_hooks_can_be_tried"},
    ),
    "unended": (
        [('text=event["out"]', 'text=event["out"], closes=True')],
        {"test_an_exchange_that_yarp_hook_serves_is_one_call"},
    ),
    "misspelt": (
        [("def yarp_host()", "def yarp_hosts()")],
        {"test_the_plugin_loads_and_its_hooks_fit"},
    ),
    "unmarked": (
        [("@hookimpl\n", "")],
        {"test_the_plugin_loads_and_its_hooks_fit"},
    ),
    "wetrun": (
        [("    if not dry_run:", "    if True:")],
        {"test_a_dry_run_says_what_it_would_do_and_changes_nothing"},
    ),
    "growing": (
        [('open(_config(), "w")', 'open(_config(), "a")')],
        {"test_installing_twice_is_installing_once"},
    ),
    "sticky": (
        [("        os.unlink(_config())\n", "")],
        {"test_installing_twice_is_installing_once"},
    ),
    "boasting": (
        [("hooked_in=os.path.exists(_config())", "hooked_in=True")],
        {"test_health_answers_in_an_empty_home"},
    ),
    "curt": (
        [("It says nothing of streams.", "streams")],
        {"test_what_it_withholds_is_said_in_sentences"},
    ),
    "hidden": (
        [("decode=decode", "decode=lambda event: decode(event)")],
        {"test_the_plugin_loads_and_its_hooks_fit"},
    ),
}
# Whole processes take their time: two hosts show what they tell.
SERVES = "test_an_exchange_that_yarp_hook_serves_is_one_call"
SERVED = ("right", "unended")
SUITE = """
import pytest
from yarp.testing.host import HostSuite

class Exchange(HostSuite):
    __test__ = False

    @pytest.fixture
    def exchange(self):
        return [
            {"kind": "begin", "chat": "c", "id": "1", "tool": "sh", "args": {"command": "ls"}},
            {"kind": "end", "chat": "c", "id": "1", "out": "a", "failed": False},
        ]
"""


@pytest.fixture
def verdicts(faulty):
    """What the suite says of each host, from one run over all of them."""
    faulty.install(ACME, FAULTS)
    bodies = {name: "" if name in SERVED else f"    {SERVES} = None\n" for name in FAULTS}
    return faulty.run(SUITE, "Exchange", bodies)


def test_the_suite_sees_each_fault_and_passes_the_host_that_is_right(verdicts):
    # One test over all of them: another worker would run the suites once more.
    found, output = verdicts
    for name, (_, expected) in FAULTS.items():
        outcomes = found[f"Test{name}"]
        failed = outcomes.get("FAILED", set()) | outcomes.get("ERROR", set())
        assert failed >= expected, (name, output)
    assert set(found["Testright"]) == {"PASSED"}, output


def test_a_host_that_declares_little_is_skipped_by_name(plugin_site, tmp_path, run_suites):
    plugin_site.install(
        "acme",
        "from yarp.plugin import Host, hookimpl\n@hookimpl\ndef yarp_host(): return Host('acme')\n",
    )
    text = SUITE + "\nclass TestAcme(Exchange):\n    __test__ = True\n    plugin = 'acme'\n"
    found, output = run_suites(tmp_path, text)
    assert "FAILED" not in found["TestAcme"]
    assert "acme declares no decode" in output
    assert "acme declares no install" in output


def test_a_newcomer_is_told_what_to_give(plugin_site, tmp_path, run_suites):
    plugin_site.install("acme", ACME.replace("NAME", "acme"))
    text = (
        "from yarp.testing.host import HostSuite\n"
        "class TestAcme(HostSuite):\n    plugin = 'acme'\n"
        "class TestOther(HostSuite):\n    plugin = 'other'\n"
    )
    _, output = run_suites(tmp_path, text)
    assert "give a fixture `exchange`" in output
    assert "no installed distribution has an entry point other in group yarp" in output
