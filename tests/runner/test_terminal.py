"""On a terminal: what no rule selects gets the terminal itself."""

import contextlib
import fcntl
import os
import select
import signal
import sys
import termios
import time

import pytest

PYTHON = sys.executable


class Terminal:
    """A run whose controlling terminal is a pseudo-terminal; `out` or `in_` take its place."""

    def __init__(self, command, env, *, out=None, in_=None):
        self.master, slave = os.openpty()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            os.dup2(slave if in_ is None else in_, 0)
            os.dup2(slave if out is None else out, 1)
            os.dup2(slave, 2)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.closerange(3, 100)
            os.execve(command[0], command, env)
        os.close(slave)
        self.seen = b""

    def expect(self, text):
        """Read until `text` was seen."""
        deadline = time.monotonic() + 30
        while text not in self.seen:
            assert select.select([self.master], [], [], deadline - time.monotonic())[0], self.seen
            self.seen += os.read(self.master, 65536)

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        """The status, once all output is read."""
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while data := os.read(self.master, 65536):
                self.seen += data
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_an_unselected_command_gets_the_terminal_itself(yarp):
    code = (
        "import os; print([os.isatty(fd) for fd in (0, 1, 2)], os.ttyname(1)); raise SystemExit(4)"
    )
    terminal = Terminal(yarp.command("--", PYTHON, "-c", code), yarp.env)
    assert terminal.end() == 4
    assert b"[True, True, True] /dev/pts/" in terminal.seen
    row = yarp.call()
    assert (row["status"], row["requires_streams"]) == ("finished", 0)
    assert {subject for subject, _ in yarp.snapshots(row)} == {"input", "result"}
    receipt = yarp.receipt()
    assert (receipt["capture"], receipt["captureReason"]) == ("disabled", "terminal")
    assert receipt["streams"]["stdout"] == {"observed": None, "accepted": None, "shown": None}


def test_the_command_can_ask_on_the_terminal(yarp):
    terminal = Terminal(yarp.command("--", "sh", "-c", "read word; echo got $word"), yarp.env)
    terminal.type(b"hello\n")
    terminal.expect(b"got hello")
    assert terminal.end() == 0


def test_the_session_is_the_terminals(yarp):
    terminal = Terminal(yarp.command("--", "tty"), yarp.env)
    assert terminal.end() == 0
    name = terminal.seen.split()[0].decode()
    assert yarp.call()["source_session_id"].startswith(f"{name}:{terminal.pid}:")


def test_a_selected_command_is_kept_on_a_terminal_too(yarp):
    yarp.script("pytest", "#!/bin/sh\n[ -t 1 ] || echo through a pipe\n")
    terminal = Terminal(yarp.command("--", "pytest"), yarp.env)
    assert terminal.end() == 0
    assert terminal.seen == b"through a pipe\r\n"
    assert yarp.snapshots(yarp.call())["stdout", "before"][1] == b"through a pipe\n"


ASKS = (
    "#!/bin/sh\n"
    "i=0; while [ $i -lt 900 ]; do echo file $((i+=1)); done\n"
    "printf 'Perform these actions? Enter a value: ' >&%d\n"
    "read word\n"
    "echo got $word\n"
)


@pytest.mark.parametrize("stream", [1, 2])
def test_the_question_of_a_selected_command_is_seen_before_it_is_answered(yarp, stream):
    yarp.script("ls", ASKS % stream)
    terminal = Terminal(yarp.command("--", "ls"), yarp.env)
    terminal.expect(b"Enter a value: ")
    assert b"file 1\r\n" in terminal.seen
    terminal.type(b"yes\n")
    terminal.expect(b"got yes\r\n")
    assert terminal.end() == 0
    kept = yarp.snapshots(yarp.call())
    assert kept["stdout", "before"][1].endswith(b"got yes\n")
    assert kept["stdout", "after"] == kept["stdout", "before"]
    assert terminal.seen.count(b"Enter a value: ") == 1


def test_a_question_that_goes_to_a_file_shows_nothing_and_is_shortened(yarp, tmp_path):
    yarp.script("ls", ASKS % 1)
    with open(tmp_path / "out", "wb") as file:
        terminal = Terminal(yarp.command("--", "ls"), yarp.env, out=file.fileno())
    time.sleep(1.5)
    terminal.type(b"yes\n")
    assert terminal.end() == 0
    assert b"omitted" in (tmp_path / "out").read_bytes()


@pytest.mark.slow
def test_what_looks_like_no_question_is_shown_when_it_waits_long(yarp):
    yarp.script("ls", ASKS.replace("Enter a value: ", "Press any key to go on . . .") % 1)
    terminal = Terminal(yarp.command("--", "ls"), yarp.env)
    terminal.expect(b"to go on . . .")
    terminal.type(b"x\n")
    assert terminal.end() == 0
    assert b"omitted" not in terminal.seen


def test_a_line_that_comes_in_pieces_is_no_question(yarp):
    piecemeal = (
        "i=0; while [ $i -lt 900 ]; do echo file $((i+=1)); done; printf ...; sleep 1.7; echo ."
    )
    yarp.script("ls", f"#!/bin/sh\n{piecemeal}\n")
    terminal = Terminal(yarp.command("--", "ls"), yarp.env)
    assert terminal.end() == 0
    assert b"omitted" in terminal.seen


def test_a_pause_between_lines_is_no_question(yarp):
    yarp.script(
        "ls", "#!/bin/sh\ni=0\nwhile [ $i -lt 900 ]; do echo file $((i+=1)); done; sleep 1.7"
    )
    terminal = Terminal(yarp.command("--", "ls"), yarp.env)
    assert terminal.end() == 0
    assert b"omitted" in terminal.seen


def test_the_option_tty_gives_the_terminal_to_any_command(yarp):
    yarp.script("pytest", "#!/bin/sh\n[ -t 1 ] && echo a terminal\n")
    terminal = Terminal(yarp.command("--tty", "--", "pytest"), yarp.env)
    assert terminal.end() == 0
    assert terminal.seen == b"a terminal\r\n"
    assert yarp.call()["requires_streams"] == 0


def test_with_stdin_from_a_terminal_the_command_shares_our_process_group(yarp):
    reading, writing = os.pipe()
    code = "import os; print(os.getpgrp() == os.getpgid(os.getppid())); print(input())"
    terminal = Terminal(yarp.command("--", PYTHON, "-c", code), yarp.env, out=writing)
    os.close(writing)
    terminal.type(b"typed\n")
    with os.fdopen(reading) as file:
        assert file.read() == "True\ntyped\n"
    assert terminal.end() == 0
    assert yarp.call()["requires_streams"] == 1


def test_a_key_that_interrupts_reaches_the_command_once(yarp):
    code = (
        "import os, signal, time\n"
        "count = 0\n"
        "def on(*_):\n"
        "    global count; count += 1\n"
        "signal.signal(2, on)\n"
        "os.write(1, b'ready\\n')\n"
        "while not count: signal.pause()\n"
        "time.sleep(0.3)\n"
        "os.write(1, b'interrupts: %d\\n' % count)\n"
    )
    reading, writing = os.pipe()
    terminal = Terminal(yarp.command("--", PYTHON, "-c", code), yarp.env, out=writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        assert file.readline() == b"ready\n"
        terminal.type(b"\x03")
        assert file.read() == b"interrupts: 1\n"
    assert terminal.end() == 0


def test_a_command_with_the_terminal_may_be_interrupted_often(yarp):
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [2])\n"
        "for n in range(3):\n"
        "    os.write(1, b'ready %d\\n' % n); signal.sigwait([2])\n"
    )
    terminal = Terminal(yarp.command("--", PYTHON, "-c", code), yarp.env)
    for n in range(3):
        terminal.expect(b"ready %d" % n)
        terminal.type(b"\x03")
    assert terminal.end() == 0
    assert yarp.call()["is_error"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_sent_to_us_reaches_a_command_on_the_terminal(yarp, number):
    terminal = Terminal(yarp.command("--", "sh", "-c", "echo ready; exec sleep 1000"), yarp.env)
    terminal.expect(b"ready")
    os.kill(terminal.pid, number)
    assert terminal.end() == 128 + number
    assert yarp.call()["status"] == "finished"
