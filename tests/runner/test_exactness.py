"""Both streams come through byte for byte, and lie in the archive the same."""

import fcntl
import os
import subprocess
import sys

import pytest

PYTHON = sys.executable
BINARY = bytes(range(256)) * 41
CASES = {
    "nothing": b"",
    "binary": BINARY,
    "invalid UTF-8": b"caf\xe9 \xff\xfe\n",
    "a code point cut off": "é".encode()[:1],
    "carriage returns and colour": b"\x1b[31mred\x1b[0m\r50%\r\n",
    "a line of 2 MB": b"x" * 2_097_176 + b"\n",
    "3 MB of random bytes": os.urandom(3_000_000),
}


def emit(path, stream=1):
    """A command that writes the file to a stream."""
    return [
        PYTHON,
        "-c",
        f"import os,sys,shutil;shutil.copyfileobj(open({path!r},'rb'),os.fdopen({stream},'wb'))",
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stream", [1, 2])
def test_a_stream_passes_through_exactly_and_is_archived_so(yarp, tmp_path, name, stream):
    data = CASES[name]
    path = tmp_path / "data.bin"
    path.write_bytes(data)
    done = yarp.run("--", *emit(str(path), stream))
    shown = {1: done.stdout, 2: done.stderr}
    assert done.returncode == 0
    assert shown[stream] == data
    assert shown[3 - stream] == b""
    kept = yarp.snapshots(yarp.call())
    subject = {1: "stdout", 2: "stderr"}[stream]
    other = {1: "stderr", 2: "stdout"}[stream]
    assert kept[subject, "before"][1] == kept[subject, "after"][1] == data
    assert kept[other, "before"][1] == kept[other, "after"][1] == b""


def test_the_media_type_of_a_stream_tells_text_from_other_bytes(yarp):
    yarp.run("--", "sh", "-c", r"printf 'gr\303\274n'; printf '\377' >&2")
    kept = yarp.snapshots(yarp.call())
    assert kept["stdout", "before"][0] == "text/plain; charset=utf-8"
    assert kept["stderr", "before"][0] == "application/octet-stream"


def test_two_busy_streams_do_not_hold_each_other_up(yarp):
    code = (
        "import os, threading\n"
        "def fill(fd, byte):\n"
        "    for _ in range(60): os.write(fd, byte * 50000)\n"
        "threads = [threading.Thread(target=fill, args=a) for a in ((1, b'o'), (2, b'e'))]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    done = yarp.run("--", PYTHON, "-c", code)
    assert done.stdout == b"o" * 3_000_000
    assert done.stderr == b"e" * 3_000_000


def test_output_appears_while_the_command_still_runs(yarp, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    child = yarp.start("--", "sh", "-c", f"echo first; read word < {gate}; echo $word")
    assert child.stdout.readline() == b"first\n"
    gate.write_text("second\n")
    out, err = child.communicate(timeout=30)
    assert (out, err, child.returncode) == (b"second\n", b"", 0)


def test_standard_input_is_the_commands_own(yarp):
    assert yarp.run("--", "cat", input=BINARY).stdout == BINARY


def test_a_closed_standard_input_stays_closed_for_the_command(yarp):
    done = yarp.shell('"$yarp" run -- sh -c "cat; echo $?" <&-')
    assert done.stdout.endswith(b"\n")
    raw = yarp.shell('sh -c "cat; echo $?" <&-')
    assert (done.stdout, done.stderr, done.returncode) == (raw.stdout, raw.stderr, raw.returncode)
    assert yarp.call()["status"] == "finished"


def test_a_closed_standard_output_loses_nothing_but_the_showing(yarp):
    done = yarp.shell('"$yarp" run -- sh -c "echo kept; echo said >&2; exit 5" >&-')
    assert (done.stdout, done.returncode) == (b"", 5)
    assert done.stderr.startswith(b"yarp: stdout: ")
    assert done.stderr.endswith(b"\nsaid\n")
    assert yarp.snapshots(yarp.call())["stdout", "before"][1] == b"kept\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ('"$yarp" run -- echo lost >&-', 74),
        ('"$yarp" run -- echo lost > /dev/full', 74),
        ('"$yarp" run -- sh -c "echo lost >&2" 2>&-', 74),
        ('"$yarp" run --help >&-', 74),
        ('"$yarp" run --help > /dev/full', 74),
        ('"$yarp" run -- true >&-', 0),
        ('"$yarp" run -- sh -c "echo said >&2" >&-', 0),
    ],
)
def test_output_that_cannot_be_shown_is_74_where_there_is_any(yarp, line, status):
    done = yarp.shell(line)
    assert done.returncode == status
    assert done.stdout == b""
    if status and "2>&-" not in line:
        assert done.stderr.startswith(b"yarp: stdout: ")
        assert done.stderr.count(b"\n") == 1


def test_all_standard_descriptors_closed_do_no_harm(yarp):
    yarp.shell('"$yarp" run -- sh -c "echo kept; exit 5" <&- >&- 2>&-')
    assert yarp.call()["status"] == "finished"
    assert yarp.snapshots(yarp.call())["stdout", "before"][1] == b"kept\n"


def test_environment_and_directory_are_the_commands_own(yarp, tmp_path):
    yarp.env["ODD"] = "a\nb"
    done = yarp.run("--", "sh", "-c", 'printf "%s|%s" "$ODD" "$(pwd)"', cwd=tmp_path)
    assert done.stdout == b"a\nb|" + os.fsencode(os.path.realpath(tmp_path))
    assert yarp.call()["working_directory"] == os.path.realpath(tmp_path)


def test_further_descriptors_are_handed_on(yarp):
    done = yarp.shell('"$yarp" run -- sh -c "echo three >&3" 3>&1 >/dev/null')
    assert done.stdout == b"three\n"


def test_the_command_gets_no_descriptor_of_ours(yarp):
    done = yarp.run("--", PYTHON, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))")
    assert done.stdout == b"['0', '1', '2', '3']\n"  # 3 lists the directory


def test_a_nonblocking_standard_output_gets_everything(yarp):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
    child = yarp.start("--", "head", "-c", "1000000", "/dev/zero", stdout=writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == bytes(1_000_000)
    assert child.wait(timeout=30) == 0
    child.communicate()


def test_a_directory_that_was_removed_does_not_stop_the_run(yarp, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = yarp.shell(f'cd {gone}; rmdir {gone}; exec "$yarp" run -- echo here')
    assert done.stdout == b"here\n"
    assert yarp.call()["working_directory"] is None


def test_a_full_device_as_standard_output_is_said(yarp):
    with open("/dev/full", "wb") as full:
        done = yarp.run(
            "--", "echo", "x", capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 74
    assert done.stderr == b"yarp: stdout: No space left on device\n"
    assert yarp.snapshots(yarp.call())["stdout", "before"][1] == b"x\n"


@pytest.mark.slow
def test_a_stream_of_one_gib_takes_little_memory(yarp):
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=open('/dev/null', 'wb'))\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    line = b"2026-01-01T00:00:00 GET /index.html 200 some words and a number 4711\n"
    source = os.path.join(yarp.root, "source")
    block = line * (1 + (1 << 20) // len(line))
    with open(source, "wb") as file:
        file.writelines(block[: 1 << 20] for _ in range(1024))
    done = subprocess.run(
        [PYTHON, "-c", code, *yarp.command("--", "cat", source)],
        env=yarp.env, capture_output=True, check=True,
    )  # fmt: skip
    status, peak_kib = map(int, done.stdout.split())
    assert status == 0
    assert peak_kib < 64 * 1024
    assert yarp.receipt()["streams"]["stdout"]["observed"] == 1 << 30
