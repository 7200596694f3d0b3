"""The status is the command's own; a reader or a descendant that misbehaves has no say."""

import os
import signal
import subprocess
import sys

import pytest

PYTHON = sys.executable


@pytest.mark.parametrize("status", [0, 1, 77, 255])
def test_the_exit_status_is_the_commands(yarp, status):
    assert yarp.run("--", "sh", "-c", f"exit {status}").returncode == status
    row = yarp.call()
    assert (row["status"], row["is_error"], row["executed"]) == ("finished", int(status != 0), 1)
    assert yarp.result()["exitCode"] == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_a_command_ended_by_a_signal_is_128_and_its_number(yarp, number):
    done = yarp.run("--", "sh", "-c", f"echo before; kill -{int(number)} $$")
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"before\n", b"")
    assert yarp.receipt()["signal"] == number
    assert yarp.result()["exitCode"] == 128 + number


def test_an_exit_status_above_128_is_no_signal(yarp):
    assert yarp.run("--", "sh", "-c", "exit 143").returncode == 143
    assert yarp.receipt()["signal"] is None


def test_a_program_that_is_not_there_is_127(yarp):
    done = yarp.run("--", "no-such-program", "x")
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr == b"yarp: no-such-program: not found\n"
    assert yarp.call()["status"] == "finished"
    assert yarp.receipt()["capture"] == "unavailable"


def test_a_program_below_a_file_is_127(yarp):
    assert yarp.run("--", "/etc/passwd/x").returncode == 127


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp"])
def test_what_cannot_be_executed_is_126(yarp, path):
    done = yarp.run("--", path)
    assert (done.returncode, done.stdout) == (126, b"")
    assert done.stderr == f"yarp: {path}: Permission denied\n".encode()


def test_a_file_of_no_executable_format_is_126(yarp):
    yarp.script("odd", "no interpreter line\n")
    done = yarp.run("--", "odd")
    assert (done.returncode, done.stderr) == (126, b"yarp: odd: Exec format error\n")


def test_no_shell_sees_the_words(yarp):
    done = yarp.run("--", "printf", "%s|", "a b", "$HOME", "*", "", "'")
    assert done.stdout == b"a b|$HOME|*||'|"


def test_sigpipe_has_its_default_in_the_command(yarp):
    done = yarp.run("--", "sh", "-c", "yes | head -n 1")
    assert (done.stdout, done.stderr) == (b"y\n", b"")


def test_a_reader_that_goes_away_ends_the_run_with_141(yarp):
    done = yarp.shell('{ "$yarp" run -- yes; echo $? >&2; } | head -n 1')
    assert (done.stdout, done.stderr) == (b"y\n", b"141\n")
    row = yarp.call()
    assert row["status"] == "finished"
    receipt = yarp.receipt()
    assert (receipt["capture"], receipt["captureReason"]) == ("partial", "reader-closed")


def test_it_is_141_too_when_the_command_does_not_mind(yarp):
    done = yarp.shell(
        '{ "$yarp" run -- sh -c "trap \\"\\" PIPE; yes 2>/dev/null; exit 0"; echo $? >&2; } | head -n 1'
    )
    assert (done.stdout, done.stderr) == (b"y\n", b"141\n")


def test_the_other_stream_goes_on_when_one_reader_goes_away(yarp):
    done = yarp.shell(
        '{ "$yarp" run -- sh -c "trap \\"\\" PIPE; yes 2>/dev/null; echo still here >&2"; } | head -n 1'
    )
    assert done.stderr == b"still here\n"


def test_a_descendant_that_keeps_the_pipe_does_not_keep_the_run(yarp):
    done = yarp.run("--", "sh", "-c", "sleep 1000 & echo $!; exit 3")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 3
    assert done.stderr.startswith(b"yarp: the command ended and left a process behind")
    receipt = yarp.receipt()
    assert (receipt["capture"], receipt["captureReason"]) == ("partial", "drain-timeout")


@pytest.mark.slow
@pytest.mark.parametrize("pause", ["sleep 0.05", ":"])
def test_a_descendant_that_writes_for_ever_does_not_keep_the_run(yarp, pause):
    pid = os.path.join(yarp.root, "pid")
    loop = f"(while echo x; do {pause}; done) 2>/dev/null & echo $! >{pid}; exit 3"
    done = yarp.run("--", "sh", "-c", loop)
    with open(pid, encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    assert done.returncode == 3
    assert yarp.receipt()["captureReason"] == "drain-timeout"


def test_what_the_command_left_in_its_pipe_is_read_by_a_slow_reader_too(yarp):
    done = yarp.shell('"$yarp" run -- head -c 300000 /dev/zero | (sleep 1; cat)')
    assert done.stdout == bytes(300_000)


def test_a_command_that_closes_its_streams_is_waited_for(yarp):
    done = yarp.run("--", "sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 9")
    assert done.returncode == 9
    assert yarp.receipt()["capture"] == "complete"


def test_all_of_it_works_where_a_process_cannot_be_watched_by_a_descriptor(yarp):
    """As on other systems, old kernels and in some sandboxes."""
    with open(os.path.join(yarp.root, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write("import os; del os.pidfd_open\n")
    yarp.env["PYTHONPATH"] = yarp.root
    done = yarp.run("--", "sh", "-c", "echo out; echo err >&2; exit 5")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 5)
    assert yarp.run("--", "sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 9").returncode == 9
    done = yarp.run("--", "sh", "-c", "sleep 1000 & echo $!; exit 3")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 3


def test_an_empty_name_is_a_program_that_is_not_there(yarp):
    done = yarp.run("--", "")
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr == b"yarp: '': not found\n"


def test_a_variable_without_a_name_keeps_no_command_from_running(yarp):
    words = ["env", "=x", *yarp.command("--", "sh", "-c", "echo $KEPT")]
    environment = {**yarp.env, "KEPT": "kept"}
    done = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"kept\n", b"")
