"""Signals reach the command and what it started."""

import os
import signal
import sys
import time

import pytest

PYTHON = sys.executable
# Says that it is ready, and for each signal which one came; ends with 40 + its number.
TRAPS = (
    "import os, signal, sys, time\n"
    "def on(number, frame):\n"
    "    os.write(1, b'got %d\\n' % number); os._exit(40 + number)\n"
    "for number in (1, 2, 3, 10, 12, 15): signal.signal(number, on)\n"
    "os.write(1, b'ready\\n')\n"
    "while True: time.sleep(60)\n"
)


@pytest.mark.parametrize("number", [1, 2, 3, 10, 12, 15])
def test_a_signal_reaches_the_command_which_decides_the_status(yarp, number):
    child = yarp.start("--", PYTHON, "-c", TRAPS)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert (out, err) == (b"got %d\n" % number, b"")
    assert child.returncode == 40 + number
    assert yarp.call()["status"] == "finished"


def test_a_signal_reaches_the_commands_children_too(yarp):
    yarp.script("traps", f"#!{PYTHON}\n{TRAPS}")
    child = yarp.start("--", "sh", "-c", "trap : TERM; traps; echo end $?")
    assert child.stdout.readline() == b"ready\n"
    child.terminate()
    assert child.communicate(timeout=30)[0] == b"got 15\nend 55\n"


def test_a_second_interrupt_kills(yarp):
    code = (
        "import os, signal, time\n"
        "signal.signal(2, lambda *_: os.write(1, b'not yet\\n'))\n"
        "os.write(1, b'ready\\n')\n"
        "while True: time.sleep(60)\n"
    )
    child = yarp.start("--", PYTHON, "-c", code)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == b"not yet\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 128 + signal.SIGKILL
    assert yarp.receipt()["signal"] == signal.SIGKILL


def test_a_signal_that_our_caller_ignores_stays_ignored(yarp):
    child = yarp.start(
        "--", "sh", "-c", "kill -HUP $$; echo alive",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert child.communicate(timeout=30)[0] == b"alive\n"
    assert child.returncode == 0


def test_a_caller_that_ignores_its_childrens_ends_does_not_hide_the_status(yarp):
    done = yarp.run(
        "--", "sh", "-c", "exit 7",
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (7, b"")


def test_without_a_thread_a_signal_still_ends_the_run_and_the_command(yarp):
    with open(os.path.join(yarp.root, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(
            "import _thread\ndef no(*a): raise RuntimeError\n_thread.start_new_thread = no\n"
        )
    yarp.env["PYTHONPATH"] = yarp.root
    child = yarp.start("--", "sh", "-c", "echo $$; sleep 0.6; echo lasting; sleep 1000")
    command = int(child.stdout.readline())
    assert child.stdout.readline() == b"lasting\n"
    child.terminate()
    assert child.wait(timeout=30) == -signal.SIGTERM
    child.communicate()
    deadline = time.monotonic() + 30
    while runs(command):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_command_inherits_no_blocked_signals(yarp):
    done = yarp.run("--", "grep", "^SigBlk", "/proc/self/status")
    assert int(done.stdout.split()[1], 16) == 0


def test_without_a_terminal_the_command_has_a_process_group_of_its_own(yarp):
    done = yarp.run("--", PYTHON, "-c", "import os; print(os.getpid() == os.getpgrp())")
    assert done.stdout == b"True\n"


def test_a_reader_that_is_stuck_does_not_keep_a_run_that_was_told_to_end(yarp):
    reading, writing = os.pipe()
    child = yarp.start("--", "sh", "-c", "echo begun >&2; head -c 300000 /dev/zero", stdout=writing)
    os.close(writing)
    assert child.stderr.readline() == b"begun\n"
    child.terminate()
    child.communicate(timeout=30)
    os.close(reading)
    assert child.returncode == 128 + signal.SIGTERM


def test_a_signal_sent_twice_does_not_cost_the_record(yarp):
    child = yarp.start("--", PYTHON, "-c", TRAPS)
    assert child.stdout.readline() == b"ready\n"
    for _ in range(5):
        child.terminate()
    out, _ = child.communicate(timeout=30)
    # The command may hear of more than one before it is gone.
    assert (set(out.splitlines()), child.returncode) == ({b"got 15"}, 55)
    assert yarp.call()["status"] == "finished"


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def test_a_command_that_lasts_goes_with_a_run_that_is_killed(yarp):
    child = yarp.start("--", "sh", "-c", "sleep 1000 & echo $!; sleep 0.6; echo lasting; wait")
    grandchild = int(child.stdout.readline())
    assert child.stdout.readline() == b"lasting\n"
    child.kill()
    assert child.communicate(timeout=30) == (b"", b"")
    deadline = time.monotonic() + 30
    while runs(grandchild):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_finished_command_leaves_behind_stays(yarp):
    done = yarp.run("--", "sh", "-c", "sleep 1000 >&- 2>&- & echo $!; sleep 0.6")
    left = int(done.stdout)
    time.sleep(0.3)
    assert runs(left)
    os.kill(left, signal.SIGKILL)
