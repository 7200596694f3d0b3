"""A command that a rule selects: the short answer, the exact bytes behind it, or just those."""

import os
import re
import subprocess
import sys

import pytest

MARKER = re.compile(
    rb"\[yarp: \d+ (?:lines|bytes) omitted; ref=(yr_[0-9a-f]{32}); (\w+) complete; .*\]\n"
)


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A directory of 300 files, and what `ls -l` says of it."""
    path = str(tmp_path_factory.mktemp("many"))
    for n in range(300):
        os.close(os.open(os.path.join(path, f"file-{n}.txt"), os.O_CREAT))
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return path, subprocess.check_output(["ls", "-l", path], env=environment)


def test_the_answer_is_short_and_names_the_call_that_holds_the_whole(yarp, many):
    path, raw = many
    done = yarp.run("--", "ls", "-l", path)
    assert done.returncode == 0
    assert 0 < len(done.stdout) < 2000
    row = yarp.call()
    found = MARKER.search(done.stdout)
    assert found[1].decode() == row["archive_ref"]
    kept = yarp.snapshots(row)
    assert kept["stdout", "before"][1] == raw
    assert kept["stdout", "after"][1] == done.stdout
    assert kept["stderr", "before"][1] == kept["stderr", "after"][1] == done.stderr == b""
    receipt = yarp.receipt()
    assert receipt["shortened"] is True
    assert receipt["streams"]["stdout"] == {
        "observed": len(raw),
        "accepted": len(raw),
        "shown": len(done.stdout),
    }


def test_what_cannot_be_shortened_is_shown_before_the_command_ends(yarp):
    data = b"\0\n" * 1_000_000
    write = f"exec {sys.executable} -c 'import os; os.write(1, bytes((0, 10)) * 1000000); input()'"
    yarp.script("cat", f"#!/bin/sh\n{write}\n")
    child = yarp.start("--", "cat", "a.bin", stdin=subprocess.PIPE)
    assert child.stdout.read(len(data)) == data
    assert child.communicate(b"\n", timeout=30) == (b"", b"")
    kept = yarp.snapshots(yarp.call())
    assert kept["stdout", "after"] == ("text/plain; charset=utf-8", data)
    assert yarp.receipt()["shortened"] is False


def test_a_host_gets_the_reference_of_its_own_call(yarp, many):
    path, raw = many
    reference = yarp.begin_by_host()
    done = yarp.run(*yarp.host, "--shell-program", "/bin/sh", "--shell", f"ls -l {path}")
    assert MARKER.search(done.stdout)[1].decode() == reference
    kept = yarp.snapshots(yarp.call())
    assert kept["stdout", "before"][1] == raw
    assert kept["stdout", "after"][1] == done.stdout


def test_a_host_whose_call_is_unknown_gets_the_exact_bytes(yarp, many):
    path, raw = many
    done = yarp.run(*yarp.host, "--", "ls", "-l", path)
    assert done.stdout == raw
    assert done.stderr.startswith(b"yarp: ")


@pytest.mark.parametrize(
    "text", ["ls -l {} && true", "ls -l '{}'", "ls -l {} | cat", "ls -l {} #", "sh -c 'ls -l {}'"]
)
def test_a_text_is_seen_through(yarp, many, text):
    path, _ = many
    assert MARKER.search(yarp.run("--shell", text.format(path)).stdout)


@pytest.mark.parametrize(
    "text", ["ls -l {} | sed s/a/a/", 'x=$(ls -l {}); echo "$x"', "ls -l {} > f; sed -n p f"]
)
def test_what_something_else_consumes_stays_exact(yarp, many, text, tmp_path):
    path, raw = many
    assert yarp.run("--shell", text.format(path), cwd=tmp_path).stdout == raw


def test_a_shell_that_is_started_without_a_shell_is_seen_through(yarp, many):
    path, _ = many
    assert MARKER.search(yarp.run("--", "bash", "-lc", f"cd / && ls -l {path}").stdout)


def test_a_text_of_plain_words_is_reduced(yarp, many):
    path, _ = many
    assert MARKER.search(yarp.run("--shell", f"ls -l {path}").stdout)


def test_output_within_the_budget_is_not_touched(yarp, tmp_path):
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "one").touch()
    assert yarp.run("--", "ls", str(tmp_path / "few")).stdout == b"one\n"
    assert yarp.receipt()["shortened"] is False


def test_without_an_archive_the_answer_says_that_it_is_not_archived(yarp, many):
    path, _ = many
    yarp.configure("version = 1\n[archive]\nenabled = false\n")
    done = yarp.run("--", "ls", "-l", path)
    assert b"not archived]" in done.stdout
    assert len(done.stdout) < 2000


def test_output_that_is_held_back_comes_out_in_the_order_it_came(yarp):
    pause = "sleep 0.05;"
    yarp.script(
        "ls", f"#!/bin/sh\nfor n in 1 2 3; do echo $n; {pause} echo -$n >&2; {pause} done\n"
    )
    done = yarp.run("--", "ls", capture_output=False, stdout=-1, stderr=-2)
    assert done.stdout == b"1\n-1\n2\n-2\n3\n-3\n"


def test_a_command_that_follows_is_shown_while_it_runs(yarp, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    yarp.script("jest", f"#!/bin/sh\necho first; read word < {gate}; echo $word\n")
    child = yarp.start("--", "jest", "--watch")
    assert child.stdout.readline() == b"first\n"
    gate.write_text("second\n")
    assert child.communicate(timeout=30) == (b"second\n", b"")


# Faults of the engine, put there by a module that Python loads before YARP.
FAULTS = {
    "loading": "import sys; sys.modules['yarp.reduce.engine'] = None",
    "selecting": "import yarp.reduce.rules.match as m; m.select = lambda *a: 1 / 0",
    "feeding": "import yarp.reduce.engine as e; e.Reduction.feed = lambda *a: 1 / 0",
    "finishing": "import yarp.reduce.engine as e; e.Reduction.finish = lambda *a: 1 / 0",
}


def install_fault(yarp, name):
    faults = os.path.join(yarp.root, "faults")
    os.mkdir(faults)
    with open(os.path.join(faults, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(FAULTS[name] + "\n")
    yarp.env["PYTHONPATH"] = faults


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_while_reducing_leaves_the_exact_bytes_and_is_said(yarp, many, name):
    path, raw = many
    install_fault(yarp, name)
    done = yarp.run("--", "ls", "-l", path)
    assert (done.stdout, done.returncode) == (raw, 0)
    assert done.stderr.startswith(b"yarp: a fault of YARP (")
    assert done.stderr.count(b"\n") == 1
    row = yarp.call()
    assert row["status"] == "finished"
    assert yarp.snapshots(row)["stdout", "after"][1] == raw


def test_much_that_was_held_back_comes_out_exactly(yarp, tmp_path):
    data = os.urandom(5_000_000)
    (tmp_path / "noise").write_bytes(data)
    yarp.script("ls", f"#!/bin/sh\ncat {tmp_path}/noise; exit 3\n")
    install_fault(yarp, "finishing")
    done = yarp.run("--", "ls")
    assert (done.stdout, done.returncode) == (data, 3)
    assert yarp.snapshots(yarp.call())["stdout", "before"][1] == data


def test_a_reader_that_leaves_while_it_is_shown_what_was_held_back_gives_141(yarp, tmp_path):
    (tmp_path / "noise").write_bytes(os.urandom(5_000_000))
    yarp.script("ls", f"#!/bin/sh\ncat {tmp_path}/noise\n")
    install_fault(yarp, "finishing")
    done = yarp.shell('{ "$yarp" run -- ls; echo $? >&2; } | head -c 1 >/dev/null')
    assert done.stderr.endswith(b"\n141\n")
    assert yarp.call()["status"] == "finished"


PLUGIN = """
import os
from yarp.plugin import hookimpl

@hookimpl
def yarp_call_started(call):
    os.write(2, f"started {call.agent} {call.tool_name} {call.archive_ref} {call.input}\\n".encode())

@hookimpl
def yarp_call_finished(call):
    os.write(2, f"finished {call.archive_ref} {call.exit_code} {call.is_error}\\n".encode())
"""


def install_plugin(yarp, text):
    """A plugin that is found on the search path, as an installed one is."""
    site = os.path.join(yarp.root, "site")
    metadata = os.path.join(site, "yarp_acme-1.dist-info")
    os.makedirs(metadata)
    files = {
        os.path.join(site, "yarp_acme.py"): text,
        os.path.join(metadata, "METADATA"): "Metadata-Version: 2.1\nName: yarp-acme\nVersion: 1\n",
        os.path.join(metadata, "entry_points.txt"): "[yarp]\nacme = yarp_acme\n",
    }
    for path, content in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    yarp.env["PYTHONPATH"] = site


def test_plugins_learn_of_the_begin_and_of_the_finish(yarp):
    install_plugin(yarp, PLUGIN)
    done = yarp.run("--", "sh", "-c", "exit 3")
    reference = yarp.call()["archive_ref"]
    given = {"argv": ["sh", "-c", "exit 3"]}
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == [
        f"started yarp run {reference} {given}",
        f"finished {reference} 3 True",
    ]


def test_a_plugin_that_raises_changes_nothing_about_the_call(yarp):
    install_plugin(yarp, PLUGIN.replace("    os.write", "    1 / 0; os.write"))
    done = yarp.run("--", "sh", "-c", "echo out; exit 3")
    assert (done.stdout, done.returncode) == (b"out\n", 3)
    assert done.stderr.count(b"yarp: ") == 2
    assert done.stderr.count(b"acme") >= 2
    assert yarp.call()["status"] == "finished"


def test_a_plugin_that_does_not_load_is_no_concern_of_a_run(yarp):
    install_plugin(yarp, "raise RuntimeError('no')\n")
    yarp.run("--", "true")
    done = yarp.run("--", "sh", "-c", "echo out; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"", 3)


@pytest.mark.parametrize("fault", ["sys.exit(9)", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("hook", ["yarp_call_started", "yarp_call_finished"])
def test_a_plugin_that_exits_in_a_callback_changes_nothing_about_the_call(yarp, hook, fault):
    install_plugin(
        yarp,
        f"import sys\nfrom yarp.plugin import hookimpl\n@hookimpl\ndef {hook}(call): {fault}\n",
    )
    done = yarp.run("--", "sh", "-c", "echo out; exit 3")
    assert (done.stdout, done.returncode) == (b"out\n", 3)
    assert done.stderr.startswith(f"yarp: plugin acme raised in {hook}: ".encode())
    assert done.stderr.count(b"\n") == 1
    assert yarp.call()["status"] == "finished"


def test_what_callbacks_print_is_not_the_output_of_the_command(yarp):
    noise = "    print('printed'); os.write(1, b'written'); os.system('echo spawned')\n"
    install_plugin(yarp, re.sub("    os.write.*\n", noise, PLUGIN))
    done = yarp.run("--", "echo", "out")
    assert done.stdout == b"out\n"
    assert done.stderr.count(b"printed") == 2
    assert done.stderr.count(b"written") == 2
    assert done.stderr.count(b"spawned") == 2
