"""A run that is killed outright, with its whole process group: what its command printed stays."""

import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest

from yarp.archive.verify import verify
from yarp.testing.live import eventually

PYTHON = sys.executable
# `ls` is selected by a rule: its run prints nothing before it ends.
COUNTS = (
    f"#!{PYTHON}\n"
    "import os, sys, time\n"
    "for n in range(int(os.environ.get('LINES', '10'))): print('line', n, flush=True)\n"
    "print('odd', file=sys.stderr, flush=True)\n"
    "time.sleep(float(os.environ.get('BEFORE', '0.6')))\n"
    "os.write(1, b'late \\xff\\n')\n"
    "open('said', 'w').close()\n"
    "if 'FOR_EVER' in os.environ:\n"
    "    n = 0\n"
    "    while True: n += 1; os.write(1, b'more %09d\\n' % n)\n"
    "time.sleep(1000)\n"
)
OUT = b"".join(b"line %d\n" % n for n in range(10)) + b"late \xff\n"


def processes(word):
    """The processes that have `word` among their arguments."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if word.encode() in words and int(name) != os.getpid():
            found.append(int(name))
    return found


@pytest.fixture
def killed(yarp):
    """Start a command, kill its run's group once it has printed enough, wait for what remains."""

    def said():
        return os.path.exists(os.path.join(yarp.root, "said"))

    def kill(*words, name="ls", until=said, text=COUNTS, **options):
        yarp.script(name, text)
        child = yarp.start(*words, cwd=yarp.root, start_new_session=True, **options)
        eventually(until)
        time.sleep(0.2)  # the run takes what was printed, also on a machine that is busy
        os.killpg(child.pid, signal.SIGKILL)
        shown = child.communicate(timeout=30)
        # Guard, command and rescuer all have this home in their words or are the command itself.
        eventually(lambda: not processes(yarp.root))
        return shown

    return kill


class Shown:
    """The file that a run writes to."""

    def __init__(self, yarp):
        self.path = os.path.join(yarp.root, "shown")

    def all(self):
        with open(self.path, "rb") as file:
            return file.read()

    def late(self):
        return self.all().endswith(b"late \xff\n")


@pytest.fixture
def shown(yarp):
    return Shown(yarp)


def read(yarp, *words):
    return subprocess.check_output([yarp.command()[0], "read", *words], env=yarp.env)


def search(yarp, *words):
    return subprocess.check_output([yarp.command()[0], "search", *words], env=yarp.env)


def test_a_selected_command_keeps_what_it_had_printed(yarp, killed):
    assert killed("--", "ls") == (b"", b"")
    call = yarp.call()
    assert call["status"] == "started"
    kept = yarp.snapshots(call)
    assert kept["stdout", "before"] == kept["stdout", "after"]
    assert kept["stdout", "before"] == ("application/octet-stream", OUT)
    assert kept["stderr", "before"] == kept["stderr", "after"]
    assert kept["stderr", "before"] == ("text/plain; charset=utf-8", b"odd\n")
    assert b"odd" in read(yarp, call["archive_ref"], "stderr", "1:1")
    listed = json.loads(read(yarp, call["archive_ref"], "--list", "--json"))
    assert [each["completeness"] for each in listed] == ["incomplete", "incomplete"]
    found = search(yarp, call["archive_ref"], "odd")
    assert b"[source=stderr complete=false matches=1 " in found
    assert b"stderr is incomplete: its run was killed, or did not see its end]" in found
    report = verify(yarp.archive, None)
    assert (report.problems, report.incomplete_calls) == ((), 1)


def test_a_hosts_call_keeps_it_too(yarp, killed):
    reference = yarp.begin_by_host()
    yarp.env["BEFORE"] = "1.5"  # the command starts before its run is ready: with little time left
    assert killed(*yarp.host, "--shell-program", "/bin/sh", "--shell", "ls -l") == (b"", b"")
    call = yarp.call()
    assert (call["archive_ref"], call["status"]) == (reference, "started")
    assert yarp.snapshots(call)["stdout", "before"][1] == OUT
    assert verify(yarp.archive, None).problems == ()


def test_a_command_that_is_shown_live_keeps_it_too(yarp, killed, shown):
    with open(shown.path, "wb") as file:
        _, err = killed("--", "counts", name="counts", until=shown.late, stdout=file)
    assert (shown.all(), err) == (OUT, b"odd\n")
    kept = yarp.snapshots(yarp.call())
    assert (kept["stdout", "before"][1], kept["stderr", "after"][1]) == (OUT, b"odd\n")


def test_one_that_is_shown_live_after_all_keeps_it_too(yarp, killed, shown):
    data = b"\0\n" * (1 << 19)
    binary = COUNTS.replace("for n in", "os.write(1, b'\\0\\n' * (1 << 19))\nfor n in", 1)
    with open(shown.path, "wb") as file:
        killed("--", "cat", "a.bin", name="cat", text=binary, until=shown.late, stdout=file)
    out = yarp.snapshots(yarp.call())["stdout", "before"][1]
    assert shown.all() == out == data + OUT


@pytest.mark.parametrize("name", ["ls", "counts"])
def test_in_the_middle_of_much_output_the_beginning_stays_without_a_gap(yarp, killed, name):
    yarp.env |= {"FOR_EVER": "1", "LINES": "1000"}
    killed("--", name, name=name)
    out = yarp.snapshots(yarp.call())["stdout", "before"][1]
    lines = b"".join(b"line %d\n" % n for n in range(1000)) + b"late \xff\n"
    assert out.startswith(lines)
    rest = out[len(lines) :]
    assert len(rest) > 1000
    assert rest == b"".join(b"more %09d\n" % n for n in range(1, len(rest) // 15 + 2))[: len(rest)]


def test_a_run_that_ends_by_itself_leaves_no_guard_and_no_second_record(yarp):
    yarp.script("ls", f"#!{PYTHON}\nimport time\nfor n in range(900): print(n)\ntime.sleep(0.7)\n")
    done = yarp.run("--", "ls")
    assert done.returncode == 0
    eventually(lambda: not processes(yarp.archive))
    call = yarp.call()
    assert call["status"] == "finished"
    assert yarp.snapshots(call)["stdout", "after"][1] == done.stdout


def test_what_the_run_had_committed_stays_as_it_is(yarp):
    """Killed between its commit and its last word: the rescuer finds the call finished."""
    from yarp.spool.hold import Hold

    yarp.script("ls", f"#!{PYTHON}\nfor n in range(900): print('file', n)\n")
    done = yarp.run("--", "ls")
    call = yarp.call()
    before = yarp.snapshots(call)
    spool = Hold(yarp.root)
    spool.keep(0, before["stdout", "before"][1])
    os.set_inheritable(spool.share(), True)
    ids = [call[name] for name in ("agent", "account", "source_session_id", "source_call_id")]
    words = [PYTHON, "-m", "yarp.rescue", yarp.archive, *ids, str(spool.share()), "-1", "-1"]
    rescued = subprocess.run(words, capture_output=True, close_fds=False, check=False)
    spool.close()
    assert (rescued.returncode, rescued.stdout, rescued.stderr) == (1, b"", b"")
    assert b"bytes omitted" in done.stdout
    assert yarp.snapshots(yarp.call()) == before
    assert tuple(yarp.call()) == tuple(call)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_end_gives_the_short_answer_of_what_came(yarp, number):
    yarp.env["LINES"] = "900"
    yarp.script("ls", COUNTS)
    child = yarp.start("--", "ls", cwd=yarp.root)
    eventually(lambda: os.path.exists(os.path.join(yarp.root, "said")))
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 128 + number
    assert b"bytes omitted" in out
    assert err.startswith(b"odd\n")
    kept = yarp.snapshots(yarp.call())
    assert kept["stdout", "before"][1].endswith(b"line 899\nlate \xff\n")
    assert yarp.call()["status"] == "finished"


def test_a_run_that_was_told_to_end_and_is_stuck_leaves_what_came(yarp):
    yarp.script(
        "fills", f"#!{PYTHON}\nimport os, time\ntime.sleep(0.6)\nos.write(1, bytes(300000))\n"
    )
    reading, writing = os.pipe()
    child = yarp.start("--", "fills", stdout=writing)
    os.close(writing)
    eventually(lambda: select.select([reading], [], [], 0)[0])
    child.terminate()
    child.communicate(timeout=30)
    os.close(reading)
    assert child.returncode == 128 + signal.SIGTERM
    eventually(lambda: not processes(yarp.root))
    call = yarp.call()
    assert call["status"] == "started"
    assert yarp.snapshots(call)["stdout", "before"][1] == bytes(300000)


def test_a_reader_that_goes_away_is_noticed_by_a_command_that_is_guarded(yarp):
    done = yarp.shell("$yarp run -- sh -c 'sleep 0.6; exec yes' | head -1")
    assert done.stdout == b"y\n"
    eventually(lambda: not processes(yarp.archive))
    assert yarp.call()["status"] == "finished"
    assert yarp.receipt()["captureReason"] == "reader-closed"
