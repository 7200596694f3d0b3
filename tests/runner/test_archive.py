"""The call of a run in the archive, of its own or begun by a host."""

import json
import os
import subprocess
import sys

import pytest

PYTHON = sys.executable


def test_the_call_is_committed_before_the_command_starts(yarp):
    code = (
        "import sqlite3, sys\n"
        "rows = sqlite3.connect(sys.argv[1]).execute(\n"
        "  'SELECT tool_name, status, subject, stage, body FROM tool_calls JOIN snapshots'\n"
        "  ' ON tool_call_id = tool_calls.id JOIN payloads ON sha256 = payload_sha256')\n"
        "for row in rows: print(*row)\n"
    )
    done = yarp.run("--", PYTHON, "-c", code, yarp.archive)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("run started input ") for line in lines), done


def test_a_call_of_its_own_says_who_what_and_where(yarp, tmp_path):
    yarp.run("--", "printf", "%s", "ä", cwd=tmp_path)
    row = yarp.call()
    assert (row["agent"], row["account"], row["tool_name"]) == ("yarp", "ada", "run")
    assert row["working_directory"] == os.path.realpath(tmp_path)
    assert row["started_at_ms"] <= row["finished_at_ms"]
    assert row["requires_streams"] == 1
    kept = yarp.snapshots(row)
    assert json.loads(kept["input", "before"][1]) == {"argv": ["printf", "%s", "ä"]}
    assert kept["input", "before"] == kept["input", "after"]
    assert kept["result", "before"] == kept["result", "after"]


def test_the_receipt_counts_the_bytes_of_each_stream(yarp):
    yarp.run("--", "sh", "-c", "printf 12345; printf 123 >&2; exit 2")
    assert yarp.result() == {
        "exitCode": 2,
        "receipt": {
            "process": "exited",
            "signal": None,
            "capture": "complete",
            "captureReason": None,
            "representation": "binary",
            "shortened": False,
            "streams": {
                "stdout": {"observed": 5, "accepted": 5, "shown": 5},
                "stderr": {"observed": 3, "accepted": 3, "shown": 3},
            },
        },
    }


def test_runs_of_one_parent_share_a_session(yarp):
    yarp.shell('"$yarp" run -- true; "$yarp" run -- true')
    yarp.shell('"$yarp" run -- true; :')
    one, two, other = (row["source_session_id"] for row in yarp.calls())
    assert one == two != other


def test_the_account_is_known_without_a_variable(yarp):
    del yarp.env["USER"]
    yarp.run("--", "true")
    import pwd

    assert yarp.call()["account"] == pwd.getpwuid(os.getuid()).pw_name


def test_words_that_are_no_unicode_are_kept_as_their_json_text(yarp):
    done = yarp.run("--", "printf", "%s", b"caf\xe9")
    assert done.stdout == b"caf\xe9"
    raw = json.loads(yarp.snapshots(yarp.call())["input", "before"][1])
    assert json.loads(raw["yarpRawJson"]) == {"argv": ["printf", "%s", "caf\udce9"]}


def test_a_text_runs_unchanged_in_the_shell(yarp):
    done = yarp.run("--shell", "echo a | tr a b; exit 6")
    assert (done.stdout, done.returncode) == (b"b\n", 6)
    kept = yarp.snapshots(yarp.call())
    assert json.loads(kept["input", "before"][1]) == {"command": "echo a | tr a b; exit 6"}


def test_the_shell_is_the_one_that_was_named_and_never_that_of_the_environment(yarp):
    yarp.script("odd-shell", '#!/bin/sh\necho "odd: $1 $2"\n')
    yarp.env["SHELL"] = "/bin/false"
    done = yarp.run("--shell-program", os.path.join(yarp.bin, "odd-shell"), "--shell", "ls *")
    assert done.stdout == b"odd: -c ls *\n"
    assert yarp.run("--shell", "echo $0").stdout == b"/bin/sh\n"


def test_a_text_that_begins_like_an_option_is_a_text(yarp):
    raw = yarp.run_line(["/bin/sh", "-c", "--", "-x y"])
    done = yarp.run("--shell", "-x y")
    assert (done.stdout, done.stderr, done.returncode) == (raw.stdout, raw.stderr, raw.returncode)


def test_a_hosts_call_gets_its_streams_and_stays_started(yarp):
    yarp.begin_by_host()
    done = yarp.run(*yarp.host, "--", "sh", "-c", "printf out; printf err >&2; exit 9")
    assert (done.stdout, done.stderr, done.returncode) == (b"out", b"err", 9)
    row = yarp.call()
    assert (row["status"], row["finished_at_ms"], row["is_error"]) == ("started", None, None)
    kept = yarp.snapshots(row)
    assert kept["stdout", "before"][1] == kept["stdout", "after"][1] == b"out"
    assert kept["stderr", "before"][1] == kept["stderr", "after"][1] == b"err"
    assert ("result", "before") not in kept


def test_a_hosts_program_that_is_not_there_has_empty_streams(yarp):
    yarp.begin_by_host()
    done = yarp.run(*yarp.host, "--", "no-such-program")
    assert (done.returncode, done.stderr) == (127, b"yarp: no-such-program: not found\n")
    assert yarp.snapshots(yarp.call())["stderr", "after"][1] == b""


def test_a_hosts_call_that_was_never_begun_leaves_the_bytes_and_says_so(yarp):
    yarp.run("--", "true")
    done = yarp.run(*yarp.host, "--", "sh", "-c", "printf out; exit 9")
    assert (done.stdout, done.returncode) == (b"out", 9)
    assert done.stderr.startswith(b"yarp: ")
    assert b"c-1" in done.stderr
    assert [row["source_call_id"] for row in yarp.calls()].count("c-1") == 0


def test_a_killed_run_leaves_the_call_started(yarp):
    child = yarp.start("--", "sh", "-c", "echo ready; read word", stdin=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.kill()
    child.communicate(timeout=30)
    row = yarp.call()
    assert (row["status"], row["finished_at_ms"]) == ("started", None)


def test_with_the_archive_off_nothing_is_kept(yarp):
    yarp.configure("version = 1\n[archive]\nenabled = false\n")
    done = yarp.run("--", "sh", "-c", "printf out; printf err >&2; exit 9")
    assert (done.stdout, done.stderr, done.returncode) == (b"out", b"err", 9)
    assert not os.path.exists(yarp.archive)


def test_with_pruning_off_everything_is_kept_and_nothing_shortened(yarp):
    yarp.configure("version = 1\n[pruning]\nenabled = false\n")
    yarp.script("pytest", "#!/bin/sh\nseq 10000\n")
    done = yarp.run("--", "pytest")
    assert done.stdout == b"".join(b"%d\n" % n for n in range(1, 10001))
    assert yarp.receipt()["shortened"] is False


@pytest.mark.parametrize("variable", ["YARP_ARCHIVE", "XDG_DATA_HOME"])
def test_the_archive_lies_where_the_environment_says(yarp, tmp_path, variable):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    path = private / "yarp" / "tool-calls.sqlite3" if variable == "XDG_DATA_HOME" else private / "a"
    yarp.env[variable] = str(private if variable == "XDG_DATA_HOME" else path)
    yarp.run("--", "true")
    assert len(yarp.calls(path)) == 1
