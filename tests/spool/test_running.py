"""Real children, real signals: `Running` in a process of its own, as it is meant to be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from yarp.spool import live
from yarp.spool.receipt import CaptureState, ProcessState
from yarp.spool.spool import Spool

OWNER = """
import json, sys, threading
from yarp.spool.declared import SpoolLocation
from yarp.spool.running import Running
from yarp.spool.spool import Spool
options = json.loads(sys.argv[3])
spool = Spool(SpoolLocation(sys.argv[1], conversation=sys.argv[2]), label="child")
running = Running(spool, sys.argv[4:])
if "cancel" in options:
    def cancel():
        while spool.accounting(0).observed < options["cancel"]:
            pass
        running.cancel("asked to")
    threading.Thread(target=cancel, daemon=True).start()
receipt = running.wait(options.get("timeout"))
print(json.dumps([receipt.plain(), spool.preview().text]), flush=True)
"""


@pytest.fixture
def run(location, python):
    def run(*argv, **options):
        owner = python(
            OWNER,
            location.directory,
            location.conversation,
            json.dumps(options),
            *argv,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        plain, preview = json.loads(owner.communicate(timeout=60)[0])
        assert owner.returncode == 0
        receipt = live.find(location, plain["capture_id"])
        assert json.loads(receipt.encode()) == plain
        receipt_streams = {stream.name: stream for stream in receipt.streams}
        return receipt, receipt_streams, preview

    return run


def test_beginning_and_end_of_a_stream_larger_than_any_buffer_are_kept(run, kept):
    """2,340,024 characters and exit code 2: what a tail of 1 Mi characters loses."""
    code = (
        "import sys\n"
        "print('BEGIN-MARKER')\n"
        "for n in range(60000): print('%038d' % n)\n"
        "print('END-MARKER', end='')\n"
        "sys.exit(2)"
    )
    receipt, streams, preview = run(sys.executable, "-c", code)
    data = kept(receipt)
    assert len(data) == streams["stdout"].committed == 13 + 60_000 * 39 + 10
    assert data.startswith(b"BEGIN-MARKER\n")
    assert data.endswith(b"\nEND-MARKER")
    assert (receipt.process, receipt.exit_code) == (ProcessState.EXITED, 2)
    assert receipt.capture is CaptureState.COMPLETE
    assert preview.startswith("exit code 2\n")
    assert "BEGIN-MARKER" in preview
    assert preview.endswith("END-MARKER")


def test_a_failure_that_speaks_on_stderr_alone_is_seen_first(run, kept):
    script = "echo 'fatal: no such ref' >&2; exit 128"
    receipt, streams, preview = run("sh", "-c", script)
    assert (receipt.exit_code, receipt.capture) == (128, CaptureState.COMPLETE)
    assert streams["stdout"].committed == 0
    assert kept(receipt, "stderr") == b"fatal: no such ref\n"
    assert preview == "exit code 128\n[stderr]\nfatal: no such ref"


def test_the_signal_that_killed_a_child_is_told_and_no_code_is_made_up(run):
    receipt, _, preview = run("sh", "-c", "echo before; kill -SEGV $$")
    assert (receipt.process, receipt.exit_code) == (ProcessState.EXITED, None)
    assert receipt.signal == signal.SIGSEGV
    assert receipt.capture is CaptureState.COMPLETE
    assert preview == "killed by signal 11\nbefore"


def test_a_cancelled_child_can_have_a_complete_capture_and_is_no_success(run, kept):
    receipt, _, preview = run("sh", "-c", "echo begun; exec sleep 60", cancel=6)
    assert (receipt.process, receipt.process_reason) == (ProcessState.CANCELLED, "asked to")
    assert (receipt.exit_code, receipt.signal) == (None, signal.SIGTERM)
    assert receipt.capture is CaptureState.COMPLETE
    assert kept(receipt) == b"begun\n"
    assert preview.startswith("cancelled, asked to, killed by signal 15\n")


def test_a_timeout_is_told_apart_from_the_code_that_was_observed(run):
    script = "trap 'exit 7' TERM; echo begun; while :; do sleep 0.01; done"
    receipt, _, _ = run("sh", "-c", script, timeout=0.3)
    assert (receipt.process, receipt.exit_code) == (ProcessState.TIMEOUT, 7)
    assert receipt.process_reason == "after 0.3 s"
    assert receipt.capture is CaptureState.COMPLETE


def test_a_descendant_that_holds_the_pipe_makes_the_capture_partial(run, kept, tmp_path):
    script = f"echo parent; sleep 60 & echo $! > {tmp_path}/pid; exit 0"
    receipt, streams, _ = run("sh", "-c", script)
    try:
        assert (receipt.process, receipt.exit_code) == (ProcessState.EXITED, 0)
        assert (receipt.capture, receipt.capture_reason) == (CaptureState.PARTIAL, "drain-timeout")
        assert kept(receipt) == b"parent\n"
        assert streams["stdout"].observed == streams["stdout"].accepted == 7
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_token_that_a_child_prints_byte_by_byte_is_never_kept(run, kept):
    code = (
        "import os\n"
        "for byte in b'token: ghp_' + b'aB3' * 12 + b' end\\n': os.write(1, bytes([byte]))"
    )
    receipt, _, preview = run(sys.executable, "-c", code)
    assert kept(receipt) == b"token: [redacted] end\n"
    assert "aB3" not in preview


def test_a_child_that_is_killed_with_its_owner_leaves_a_partial_capture(location, python):
    owner = python(
        OWNER,
        location.directory,
        location.conversation,
        "{}",
        *("sh", "-c", "echo begun; exec sleep 60"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = live.captures(location) if os.path.exists(location.directory) else []
        if found and found[0].streams[0].committed == 6:
            break
        time.sleep(0.01)
    owner.kill()
    owner.wait()
    (left,) = live.captures(location)
    assert (left.capture, left.capture_reason) == (CaptureState.PARTIAL, "interrupted")
    assert left.streams[0].committed == 6


# A host that reads its child itself


def test_a_host_with_a_reader_of_its_own_pushes_what_it_reads(location, kept):
    spool = Spool(location)
    child = subprocess.Popen(
        ["sh", "-c", "printf 'é😀'; echo oops >&2; exit 3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for stream, pipe in enumerate((child.stdout, child.stderr)):
        while chunk := os.read(pipe.fileno(), 1):
            spool.take(stream, chunk)
        spool.ended(stream)
        pipe.close()
    receipt = spool.finish(exit_code=child.wait())
    assert (receipt.capture, receipt.exit_code) == (CaptureState.COMPLETE, 3)
    assert (kept(receipt), kept(receipt, "stderr")) == ("é😀".encode(), b"oops\n")
