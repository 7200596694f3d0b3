"""Spools as the plugins want them: where they go, what is taken out, who is told."""

from __future__ import annotations

import os
import sys

import pytest

from yarp.plugins import Plugins, discover
from yarp.settings import Settings
from yarp.spool.receipt import CaptureState, Representation
from yarp.spooling import open_spool
from yarp.types import CallStarted

CODE = """
from yarp.plugin import Redactor, SpoolLocation, hookimpl

class Shout:
    held = 0
    def feed(self, chunk): return chunk.replace(b"quiet", b"LOUD")
    def finish(self): return b""

@hookimpl
def yarp_redactors(policy):
    return [Redactor("shout", window_bytes=0, make=Shout)] if policy == "loud" else None

@hookimpl
def yarp_spool_location(call):
    return SpoolLocation(call.input) if call.agent == "acme" else None

@hookimpl
def yarp_receipt_published(receipt):
    print("told of", receipt.capture_id, receipt.capture)
"""


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "spools")


@pytest.fixture
def plugins(plugin_site, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("yarp_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(plugin_site.path))

    def load(code=CODE):
        plugin_site.install("acme", code)
        return Plugins(discover([str(plugin_site.path)]), Settings())

    yield load
    for name in [name for name in sys.modules if name.startswith("yarp_")]:
        del sys.modules[name]


def call(place, agent="acme"):
    return CallStarted("session", "call-1", "sh", place, agent=agent)


def test_a_plugin_says_where_and_what_and_is_told_of_the_receipt_once(plugins, place, capfd):
    spool = open_spool(
        call(place), plugins=plugins(), sanitation="loud", label="make quiet", job_id="job-1"
    )
    spool.take(0, b"quiet ghp_" + b"a" * 30 + b"\n")
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    assert spool.finish() is receipt
    assert receipt.redactors == ("credentials", "shout")
    assert (receipt.agent, receipt.source_session_id) == ("acme", "session")
    assert (receipt.source_call_id, receipt.job_id) == ("call-1", "job-1")
    assert receipt.command_label == "make LOUD"
    with open(os.path.join(place, receipt.streams[0].reference), "rb") as file:
        assert file.read() == b"LOUD [redacted]\n"
    assert capfd.readouterr().err == f"told of {receipt.capture_id} complete\n"


def test_the_cores_own_redactor_works_under_every_policy(plugins, place):
    spool = open_spool(call(place), plugins=plugins(), sanitation="nobody knows this one")
    assert spool.finish(exit_code=0).redactors == ("credentials",)


def test_other_representations_have_no_redactors(plugins, place):
    loaded = plugins()
    for representation in (Representation.REPLACEMENT_TEXT, Representation.BINARY):
        spool = open_spool(
            call(place), plugins=loaded, sanitation="loud", representation=representation
        )
        receipt = spool.finish(exit_code=0)
        assert (receipt.representation, receipt.redactors) == (representation, ())


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        (
            CODE.replace("return SpoolLocation", "raise OSError('gone')  #"),
            "location-failed",
            "plugin acme raised in yarp_spool_location: OSError: gone",
        ),
        (CODE.replace("SpoolLocation(call.input)", "call.input"), "location-failed", "gave a str"),
        (
            CODE.replace("return [Redactor", "raise OSError('gone')  #"),
            "redactor-failed",
            "plugin acme raised in yarp_redactors: OSError: gone",
        ),
        (
            CODE.replace('[Redactor("shout", window_bytes=0, make=Shout)]', '["shout"]'),
            "redactor-failed",
            "gives a list of Redactor",
        ),
    ],
    ids=["raises", "no location", "redactors raise", "no redactors"],
)
def test_a_plugins_fault_makes_the_capture_unavailable_and_the_call_runs(
    plugins, place, code, reason, said
):
    reports = []
    spool = open_spool(call(place), plugins=plugins(code), sanitation="loud", report=reports.append)
    assert spool.take(0, b"secret")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, reason)
    assert len(reports) == 1
    assert said in reports[0]
    assert not os.path.exists(place)


def test_without_a_plugin_that_knows_the_call_there_is_no_place(plugins, place):
    receipt = open_spool(call(place, agent="other"), plugins=plugins()).finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, "no-location")


def test_a_place_that_cannot_be_used_is_said(plugins, tmp_path):
    (tmp_path / "file").write_text("mine")
    reports = []
    place = str(tmp_path / "file" / "spools")
    receipt = open_spool(call(place), plugins=plugins(), report=reports.append).finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.UNAVAILABLE, "storage")
    assert "no directory" in reports[0]


def test_a_call_whose_output_is_kept_from_view_is_not_spooled(plugins, place):
    code = CODE.replace("return SpoolLocation", "raise AssertionError('asked')  #")
    reports = []
    spool = open_spool(
        call(place),
        plugins=plugins(code),
        suppressed=True,
        label="pass show",
        report=reports.append,
    )
    spool.take(0, b"secret")
    receipt = spool.finish(exit_code=0)
    assert (receipt.capture, receipt.capture_reason) == (CaptureState.DISABLED, "suppressed")
    assert (receipt.command_label, reports) == (None, [])
    assert not os.path.exists(place)


def test_a_plugin_that_fails_when_it_is_told_keeps_no_receipt_from_being_there(plugins, place):
    code = CODE.replace("print(", "raise OSError('no listener')  #")
    reports = []
    receipt = open_spool(call(place), plugins=plugins(code), report=reports.append).finish()
    assert os.path.exists(os.path.join(place, f"{receipt.capture_id}.receipt.json"))
    assert reports == ["plugin acme raised in yarp_receipt_published: OSError: no listener"]
