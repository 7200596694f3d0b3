"""A process that the command leaves in the background lives on, and nobody waits for it."""

import os
import subprocess
import sys

import pytest

from yarp.archive.read import Reader
from yarp.archive.verify import verify
from yarp.testing.live import eventually

PYTHON = sys.executable
SAYS = (
    "yarp: the command ended and left a process behind that holds its output; that process goes "
    "on, and what it prints from now on is neither shown nor kept\n"
)
# Waits for the test's word, prints more than a pipe holds, and tells that it got there.
SERVER = (
    f"#!{PYTHON}\n"
    "import os, sys, time\n"
    "if 'CLOSED' in os.environ: os.close(int(os.environ['CLOSED']))\n"
    "while not os.path.exists('go'): time.sleep(0.01)\n"
    "for stream in map(int, sys.argv[1:]):\n"
    "    for _ in range(20): os.write(stream, bytes(65536))\n"
    "open('alive', 'w').close()\n"
)
# What is closed, and the streams that the server holds.
KINDS = {"stdout": ("2>/dev/null", "1"), "stderr": (">/dev/null", "2"), "both": ("", "1 2")}


def processes(yarp):
    """The processes that have the home of this test, dead ones that nobody reaped as well."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"HOME={yarp.root}\0".encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


def completeness(yarp):
    reader = Reader.open(yarp.archive)
    (call,) = reader.calls()
    found = {source.name: source.completeness for source in reader.sources(call)}
    reader.close()
    return found


def serve(yarp):
    """Let the server print, and wait until it and all that was started here is gone."""
    alive = os.path.join(yarp.root, "alive")
    assert not os.path.exists(alive)
    assert processes(yarp)
    open(os.path.join(yarp.root, "go"), "w").close()
    eventually(lambda: os.path.exists(alive))
    eventually(lambda: not processes(yarp))


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_on_without_being_killed_and_its_run_says_so(yarp, kind):
    elsewhere, streams = KINDS[kind]
    yarp.script("server", SERVER)
    # The run's streams have their end here: the caller waits for nobody.
    done = yarp.run(
        "--", "sh", "-c", f"server {streams} {elsewhere} & echo out; echo err >&2; exit 3",
        cwd=yarp.root,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert done.stderr.decode() == "err\n" + SAYS
    serve(yarp)
    receipt = yarp.receipt()
    assert (receipt["capture"], receipt["captureReason"]) == ("partial", "drain-timeout")
    held = ("stdout", "stderr") if kind == "both" else (kind,)
    assert completeness(yarp) == {
        name: "incomplete" if name in held else "complete" for name in ("stdout", "stderr")
    }
    assert verify(yarp.archive).problems == ()


def test_a_hosts_command_leaves_one_too(yarp):
    yarp.begin_by_host()
    yarp.script("server", SERVER)
    done = yarp.run(*yarp.host, "--shell", "server 1 2 & exit 0", cwd=yarp.root)
    assert (done.returncode, done.stderr.decode()) == (0, SAYS)
    serve(yarp)
    assert completeness(yarp) == {"stdout": "incomplete", "stderr": "incomplete"}


def test_a_shortened_command_leaves_one_too_and_its_marker_says_incomplete(yarp):
    yarp.script("server", SERVER)
    yarp.script("ls", "#!/bin/sh\nserver 1 2 &\ni=0\nwhile [ $i -lt 900 ]; do echo $((i+=1)); done")
    done = yarp.run("--", "ls", cwd=yarp.root)
    assert b"stdout incomplete" in done.stdout
    assert done.stderr.decode() == SAYS
    serve(yarp)


def test_a_descriptor_of_the_caller_is_not_kept_open_by_who_reads_on(yarp):
    yarp.script("server", SERVER)
    reading, writing = os.pipe()
    yarp.env["CLOSED"] = str(writing)
    done = yarp.run("--", "sh", "-c", "server 1 & exit 0", cwd=yarp.root, pass_fds=(writing,))
    os.close(writing)
    assert done.stderr.decode() == SAYS
    assert os.read(reading, 1) == b""
    os.close(reading)
    serve(yarp)


def test_a_command_that_leaves_nobody_behind_has_nobody_reading_on(yarp):
    done = yarp.run("--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
    assert done.stderr == b""
    left = int(done.stdout)
    eventually(lambda: processes(yarp) == [left])
    os.kill(left, 9)
    assert completeness(yarp) == {"stdout": "complete", "stderr": "complete"}


def test_without_cat_somebody_else_reads_on(yarp, monkeypatch):
    from yarp.spool import drainer

    monkeypatch.setattr(drainer, "_READERS", (("/nonexistent/cat",), drainer._READERS[-1]))
    reading, writing = os.pipe()
    assert drainer.drain_to_the_end([reading])
    os.close(reading)
    assert os.write(writing, bytes(65536)) == 65536
    assert os.write(writing, bytes(65536)) == 65536  # the pipe held that much: somebody read it
    os.close(writing)
    os.wait()


def test_when_nobody_can_read_on_it_is_said(monkeypatch):
    from yarp.spool import drainer

    monkeypatch.setattr(drainer, "_READERS", (("/nonexistent/cat",),))
    reading, writing = os.pipe()
    assert not drainer.drain_to_the_end([reading])
    os.close(reading)
    os.close(writing)


def test_what_a_reader_went_away_from_is_incomplete(yarp):
    done = subprocess.run(
        ["sh", "-c", '"$yarp" run -- yes | head -n 1'],
        env={**yarp.env, "yarp": yarp.command()[0]}, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == b"y\n"
    assert completeness(yarp) == {"stdout": "incomplete", "stderr": "complete"}
