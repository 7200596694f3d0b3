"""Reducers of a made-up plugin, in each band, in a whole `yarp run`."""

import sys

import pytest

from yarp.testing.plugin import PluginSite

PLUGIN = """
import os
from yarp.plugin import Band, Family, Piece, Reducer, hookimpl

class Says(Family):
    def feed(self, stream, block):
        if "ACME_PRINTS" in os.environ:
            print("stray")
        if "ACME_EXITS" in os.environ:
            raise SystemExit(9)
        if os.environ.get("ACME_RAISES") in (type(self).__name__, "all"):
            raise KeyError("secret payload")

    def finish(self, status):
        name = type(self).__name__
        if name in os.environ.get("ACME_DECLINES", "").split(","):
            return None
        return [Piece(b"summary by " + name.encode(), 0, lines=0)]

class Exact(Says): pass
class Qualified(Says): pass
class Family_(Says): pass
class Fallback(Says): pass

@hookimpl
def yarp_reducers():
    return [
        Reducer("fallback", band=Band.FALLBACK, make=Fallback),
        Reducer("family", band=Band.FAMILY, serves=["list"], make=Family_),
        Reducer("other", band=Band.FAMILY, serves=["test"], make=Exact),
        Reducer("qualified", band=Band.EXACT, serves=["yarp/ls"], make=Qualified),
        Reducer("exact", band=Band.EXACT, serves=["ls"], make=Exact),
        Reducer("elsewhere", band=Band.EXACT, serves=["find"], make=Exact),
    ]
"""
LINES = 500


@pytest.fixture
def acme(yarp, tmp_path):
    """`yarp run` with the made-up plugin, and an `ls` with much to say."""
    site = tmp_path / "site"
    site.mkdir()
    PluginSite(site).install("acme", PLUGIN)
    yarp.env |= {
        "PYTHONPATH": str(site),
        "YARP_PLUGINS": "acme",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    yarp.script("ls", f"#!{sys.executable}\nprint('some file\\n' * {LINES}, end='')\n")
    return yarp


def answered(acme, **environment):
    done = acme.run("--", "ls", env={**acme.env, **environment})
    assert done.returncode == 0
    assert done.stderr == b""
    return done.stdout.split(b"\n")[0].removeprefix(b"summary by ").decode()


def test_reducers_are_asked_band_by_band_and_by_name_until_one_does_not_decline(acme):
    order = ["Exact", "Qualified", "Family_", "Fallback"]
    for position, name in enumerate(order):
        assert answered(acme, ACME_DECLINES=",".join(order[:position])) == name
    done = acme.run("--", "ls", env={**acme.env, "ACME_DECLINES": ",".join(order)})
    assert done.stdout
    assert b"summary by" not in done.stdout


def test_a_summary_of_a_plugin_has_a_marker_that_leads_back(acme):
    done = acme.run("--", "ls")
    assert f"[yarp: {LINES} lines omitted; ref=yr_".encode() in done.stdout
    assert acme.snapshots(acme.call())["stdout", "before"][1] == b"some file\n" * LINES


def test_a_reducer_that_raises_leaves_the_output_exact_and_is_named(acme):
    done = acme.run("--", "ls", env={**acme.env, "ACME_RAISES": "all"})
    assert done.stdout == b"some file\n" * LINES
    assert done.stderr.startswith(b"yarp: reducer exact of plugin acme raised KeyError")
    assert b"secret" not in done.stderr
    assert done.returncode == 0
    assert acme.call()["status"] == "finished"


def test_a_reducer_that_exits_or_prints_is_no_part_of_the_output(acme):
    done = acme.run("--", "ls", env={**acme.env, "ACME_EXITS": "1", "ACME_PRINTS": "1"})
    assert done.stdout == b"some file\n" * LINES
    assert b"stray\n" in done.stderr
    assert b"yarp: reducer exact of plugin acme raised SystemExit" in done.stderr
    assert done.returncode == 0


def test_a_reducer_that_raises_after_another_answered_is_not_heard_of(acme):
    assert answered(acme, ACME_RAISES="Fallback") == "Exact"


def test_a_module_that_cannot_be_imported_any_more_leaves_the_output_exact(acme, tmp_path):
    from yarp.testing.plugin import PluginSite

    moved = PLUGIN.replace("import os\n", "import os\nif 'ACME_GONE' in os.environ: 1 / 0\n")
    PluginSite(tmp_path / "site").install("late", moved, module="yarp_late")
    acme.env["YARP_PLUGINS"] = "late"
    assert answered(acme) == "Exact"
    done = acme.run("--", "ls", env={**acme.env, "ACME_GONE": "1"})
    assert done.stdout == b"some file\n" * LINES
    assert b"reducer exact of plugin late raised ZeroDivisionError" in done.stderr


def test_a_command_without_a_rule_and_small_output_meet_no_reducer(acme):
    acme.script("unknown", "#!/bin/sh\nseq 1 2000\n")
    assert acme.run("--", "unknown").stdout.startswith(b"1\n2\n")
    acme.script("ls", "#!/bin/sh\necho little\n")
    done = acme.run("--", "ls", env={**acme.env, "ACME_RAISES": "all"})
    assert (done.stdout, done.stderr) == (b"little\n", b"")
