"""`yarp receipt` over captures of real spools."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from yarp.cli import root
from yarp.cli.receipt import command
from yarp.spool import live
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Identity, Representation
from yarp.spool.spool import Spool
from yarp.testing.plugin import PluginSite

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = [sys.executable, "-m", "yarp"]
SECRET = "hunter2-was-printed"
OUT = f"zwölf {SECRET}\n".encode() * 100
HOST = """
import os
from yarp.plugin import Host, hookimpl

@hookimpl
def yarp_host():
    return Host("acme", spools=spools)

def spools():
    if os.environ.get("ACME") == "faulty":
        raise KeyError("logs")
    return [os.environ["ACME_LOGS"], "/no/such/place"]
"""
JOB = """
import os, sys
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Representation
from yarp.spool.spool import Spool
spool = Spool(SpoolLocation(sys.argv[1]), representation=Representation.REPLACEMENT_TEXT)
spool.take(0, b"begun\\n")
while spool.accounting(0).committed < 6:
    pass
print(spool.identity.capture_id, flush=True)
for line in sys.stdin.buffer:
    spool.take(0, line)
spool.ended(0)
spool.ended(1)
spool.finish(exit_code=2)
"""


@pytest.fixture(scope="module")
def acme(tmp_path_factory):
    """The directory of a plugin that brings the host, and of what is compiled of it once."""
    folder = tmp_path_factory.mktemp("acme")
    PluginSite(folder).install("acme", HOST)
    return folder


@pytest.fixture
def logs(yarp_home, acme, monkeypatch, tmp_path):
    """A host that spools, with its logs here."""
    # Not the first one: that is the program's own, where no plugin comes from.
    monkeypatch.setattr(sys, "path", [sys.path[0], str(acme), *sys.path[1:]])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(acme), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("YARP_PLUGINS", "acme")
    for name in ("cache", "config"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(acme / name))
    folder = tmp_path / "logs"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ACME_LOGS", str(folder))
    return folder


def keep(folder, out=OUT, err=b"broken\n", representation=Representation.REPLACEMENT_TEXT, **more):
    spool = Spool(
        SpoolLocation(str(folder)),
        identity=Identity(os.urandom(16).hex(), "acme", "s-1", "c-1"),
        representation=representation,
        label="make all",
    )
    for stream, data in enumerate((out, err)):
        spool.take(stream, data)
        spool.ended(stream)
    return spool.finish(**{"exit_code": 2, **more})


class Done:
    def __init__(self, stdout, stderr):
        self.stdout = stdout
        self.stderr = stderr


def receipt(*words, status=0):
    """The command in this process: a hundred interpreters would take their time to start."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        ended = root.main(["yarp", "receipt", *words])
    done = Done(out.buffer.getvalue(), err.buffer.getvalue())
    assert ended == status, (ended, done.stdout, done.stderr)
    return done


def parsed(*words, **more):
    return json.loads(receipt(*words, "--json", **more).stdout)


@pytest.fixture
def job(logs):
    """A process that captures what it is told, a line at a time."""
    process = subprocess.Popen(
        [sys.executable, "-c", JOB, str(logs / "one")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.capture_id = process.stdout.readline().decode().strip()
    yield process
    process.kill()
    process.communicate()


def test_list_finds_the_captures_of_hosts_and_the_runs_in_the_archive(logs):
    one, two = keep(logs / "a" / "tool-outputs"), keep(logs / "b", exit_code=0)
    subprocess.run([*PROGRAM, "run", "--", "echo", SECRET], check=True, capture_output=True)
    rows = parsed("list")["receipts"]
    assert {row["capture_id"] for row in rows[1:]} == {one.capture_id, two.capture_id}
    assert [row["state"] for row in rows] == ["archived", "published", "published"]
    assert rows[0]["capture_id"].startswith("yr_")
    assert rows[0]["streams"][0]["committed"] == len(SECRET) + 1
    shown = receipt("list").stdout.decode()
    assert one.capture_id[:12] in shown
    assert "exited 2" in shown
    assert "complete" in shown


def test_list_takes_a_directory_and_a_limit(logs, tmp_path):
    keep(logs / "a")
    kept = [keep(tmp_path / "other") for _ in range(3)]
    found = parsed("list", str(tmp_path / "other"), "--limit", "2")
    assert found["more"] is True
    assert parsed("list", str(tmp_path / "other"), "--limit", "3")["more"] is False
    assert {row["capture_id"] for row in found["receipts"]} < {one.capture_id for one in kept}
    assert (
        b"there are older ones" in receipt("list", str(tmp_path / "other"), "--limit", "2").stderr
    )


def test_nothing_that_was_printed_is_in_list_show_or_verify(logs):
    one = keep(logs / "a")
    for words in (["list"], ["show", one.capture_id], ["verify"]):
        for more in ([], ["--json"]):
            done = receipt(*words, *more)
            assert SECRET.encode() not in done.stdout + done.stderr


def test_without_captures_list_says_so(logs):
    assert receipt("list").stdout == b"no captures\n"
    assert parsed("list") == {"receipts": [], "more": False}


def test_a_host_that_cannot_say_where_its_spools_are_is_said(logs, monkeypatch):
    monkeypatch.setenv("ACME", "faulty")
    assert b"host acme: its spools are not known" in receipt("list").stderr


def test_show_prints_the_receipt_as_it_was_published(logs):
    one = keep(logs / "a")
    row = parsed("show", one.capture_id[:8])
    published = json.loads(one.encode())
    assert {name: row[name] for name in published} == published
    assert row["state"] == "published"
    assert row["directory"] == str(logs / "a")
    with open(row["files"]["stdout"], "rb") as file:
        assert file.read() == OUT
    shown = receipt("show", row["files"]["stderr"]).stdout.decode()
    assert "process:  exited 2\n" in shown
    assert "kept:     complete, as replacement_text\n" in shown
    assert f"observed {len(OUT):,}, accepted {len(OUT):,}, pending 0, discarded 0" in shown


def test_show_of_a_run_in_the_archive_leads_to_yarp_read(logs):
    subprocess.run([*PROGRAM, "run", "--", "echo", "hi"], check=True, capture_output=True)
    reference = parsed("list")["receipts"][0]["capture_id"]
    assert parsed("show", reference)["streams"][0]["reference"] == f"{reference}/stdout"
    assert f"yarp read {reference} stdout\n".encode() in receipt("show", reference).stdout
    done = receipt("show", reference, "--stream", "stdout", "--bytes", "0:2", status=64)
    assert f"yarp read {reference} stdout --bytes 0:2".encode() in done.stderr


def test_show_prints_a_part_between_characters(logs):
    one = keep(logs / "a")

    def part(span):
        words = ("show", one.capture_id, "--stream", "stdout", "--bytes", span)
        return receipt(*words).stdout

    assert part("0:3") == "zwö".encode()[:4]
    assert part("3:6") == b"lf"
    assert part("0:3") + part("3:6") == "zwölf".encode()
    row = parsed("show", one.capture_id, "--stream", "stdout", "--bytes", "3:6")
    assert row == {"stream": "stdout", "start": 4, "end": 6, "text": "lf"}


def test_binary_bytes_are_shown_without_harm_and_raw_on_request(logs):
    one = keep(logs / "a", b"\x1b[2J\xff\n", representation=Representation.BINARY)
    words = ("show", one.capture_id, "--stream", "stdout", "--bytes", "0:")
    assert b"\x1b" not in receipt(*words).stdout
    assert receipt(*words, "--raw").stdout == b"\x1b[2J\xff\n"
    assert parsed(*words)["base64"] == "G1sySv8K"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--stream", "stdout"], 64, "go together"),
        (["--bytes", "0:1"], 64, "go together"),
        (["--stream", "stdout", "--bytes", "1"], 64, "0:4096"),
        (["--stream", "stdout", "--bytes", "9:1"], 64, "not below"),
        (["--stream", "stdout", "--bytes", "\u0663:\u0664"], 64, "0:4096"),
        (["--stream", "stdout", "--bytes", "0:99999999"], 65, "are not there"),
        (["--stream", "other", "--bytes", "0:1"], 65, "nothing is kept"),
        (["--stream", "../x", "--bytes", "0:1"], 65, "nothing is kept"),
    ],
)
def test_a_part_that_cannot_be_given_is_refused(logs, words, status, said):
    done = receipt("show", keep(logs / "a").capture_id, *words, status=status)
    assert said.encode() in done.stderr
    assert done.stdout == b""


def test_a_part_larger_than_the_ceiling_is_refused(logs):
    one = keep(logs / "a", b"x" * (1 << 20))
    done = receipt("show", one.capture_id, "--stream", "stdout", "--bytes", "0:1000000", status=65)
    assert b"more than the" in done.stderr


def test_an_unknown_capture_is_said(logs):
    assert b"yarp receipt list" in receipt("show", "0123abcd", status=65).stderr
    assert b"yarp receipt list" in receipt("show", "nothing", status=64).stderr


def test_verify_finds_a_tampered_file(logs):
    one = keep(logs / "a")
    assert receipt("verify").stdout.endswith(b"captures: ok\n")
    path = logs / "a" / f"{one.capture_id}.stdout"
    path.write_bytes(OUT[:-1] + b"x")
    done = receipt("verify", status=65)
    assert done.stdout.endswith(b"captures: 1 problem\n")
    assert f"{path}: is not what was captured".encode() in done.stderr
    found = parsed("verify", str(logs), status=65)
    assert (found["ok"], found["published"], len(found["problems"])) == (False, 1, 1)


def test_tail_gives_the_end_of_what_is_kept(logs):
    one = keep(logs / "a")
    done = receipt("tail", one.capture_id, "--bytes", "10")
    assert done.stdout == b"==> stdout <==\n-printed\n\n==> stderr <==\nbroken\n".replace(
        b"\n\n", b"\n"
    ).replace(b"-printed", OUT[-10:-1])
    assert done.stderr == b"yarp: published; process exited 2; capture complete\n"
    done = receipt("tail", one.capture_id, "--stream", "stderr")
    assert done.stdout == b"broken\n"


def test_tail_follows_a_job_until_its_end_and_consumes_nothing(logs, job):
    follower = subprocess.Popen(
        [*PROGRAM, "receipt", "tail", job.capture_id, "--follow", "--stream", "stdout"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert follower.stdout.readline() == b"begun\n"
    job.stdin.write("zwölf\n".encode())
    job.stdin.flush()
    assert follower.stdout.readline() == "zwölf\n".encode()
    job.communicate(b"end\n")
    out, err = follower.communicate(timeout=30)
    assert (out, follower.returncode) == (b"end\n", 0)
    assert err == b"yarp: published; process exited 2; capture complete\n"
    assert live.claim(SpoolLocation(str(logs / "one")), job.capture_id)


def test_tail_of_a_killed_owner_ends_and_says_what_it_is(logs, job):
    follower = subprocess.Popen(
        [*PROGRAM, "receipt", "tail", job.capture_id, "--follow", "--json"],
        stdout=subprocess.PIPE,
    )
    first = json.loads(follower.stdout.readline())
    assert first == {"stream": "stdout", "start": 0, "end": 6, "text": "begun\n"}
    job.send_signal(signal.SIGKILL)
    last = json.loads(follower.communicate(timeout=30)[0].splitlines()[-1])
    assert last == {
        "state": "left",
        "process": None,
        "exit_code": None,
        "signal": None,
        "capture": "partial",
        "capture_reason": "interrupted",
    }


def test_two_consumers_go_on_where_each_of_them_stopped(logs, job):
    def tail(name):
        return receipt(
            "tail", job.capture_id, "--stream", "stdout", "--consumer", name, "--bytes", "4096"
        ).stdout

    assert tail("a") == b"begun\n"
    job.communicate(b"end\n")
    assert tail("a") == b"end\n"
    assert tail("b") == b"begun\nend\n"
    assert tail("a") == b""


def test_tail_of_a_replaced_file_says_to_begin_anew(logs):
    one = keep(logs / "a")
    words = ("tail", one.capture_id, "--consumer", "me")
    receipt(*words)
    path = logs / "a" / f"{one.capture_id}.stdout"
    path.rename(logs / "a" / "old")
    path.write_bytes(OUT)
    assert b"begin anew" in receipt(*words, status=65).stderr


def test_export_rewrites_references_and_says_what_stayed(logs, tmp_path):
    one, two = keep(logs / "a" / "tool-outputs"), keep(logs / "a" / "tool-outputs")
    target = str(tmp_path / "copy")
    done = parsed("export", str(logs / "a"), target, "--without", f"{one.capture_id}:stdout")
    assert done["left"] == [
        {"capture_id": one.capture_id, "stream": "stdout", "reason": "it is not permitted"}
    ]
    assert done["byte_length"] == len(OUT) + 2 * len(b"broken\n")
    assert sorted(os.listdir(target)) == sorted(
        f"{capture_id}.{ending}"
        for capture_id in (one.capture_id, two.capture_id)
        for ending in ("stdout", "stderr", "receipt.json")
        if (capture_id, ending) != (one.capture_id, "stdout")
    )
    assert parsed("verify", target)["ok"]
    with open(os.path.join(target, f"{one.capture_id}.stdout"), "wb") as file:
        file.write(b"planted")
    assert b"planted" not in receipt("tail", one.capture_id, "--in", target).stdout
    words = ("show", one.capture_id, "--in", target, "--stream", "stdout", "--bytes", "0:1")
    assert b"nothing is kept of stdout" in receipt(*words, status=65).stderr
    assert parsed("show", two.capture_id, "--in", target)["directory"] == target


def test_export_shares_one_capture_with_a_child(logs, tmp_path):
    keep(logs / "a")
    one = keep(logs / "a")
    target = str(tmp_path / "child")
    receipt("export", str(logs / "a"), target, "--only", one.capture_id, "--child")
    (row,) = parsed("list", target)["receipts"]
    assert (row["capture_id"], row["command_label"]) == (one.capture_id, None)
    assert row["exit_code"] == 2


def test_help_leads_with_examples(logs):
    for words in ([], ["export"]):
        assert b"yarp receipt" in receipt(*words, "--help").stdout.split(b"Options")[0]


def test_odd_names_and_values_are_shown_without_harm(logs):
    folder = os.path.join(os.fsencode(logs), b"odd\xff\x1b[2J")
    os.mkdir(folder, 0o700)
    one = keep(os.fsdecode(folder))
    path = os.path.join(os.fsdecode(folder), f"{one.capture_id}.receipt.json")
    with open(path, "wb") as file:
        file.write(attrs.evolve(one, job_id="\x1b[31m", command_label="\x1b[0m").encode())
    for words in (["list"], ["show", one.capture_id], ["tail", one.capture_id], ["verify"]):
        done = receipt(*words)
        assert b"\x1b" not in done.stdout + done.stderr
    assert json.loads(receipt("list", "--json").stdout)["receipts"][0]["job_id"] == "\x1b[31m"


def test_a_pipe_in_the_place_of_a_receipt_hides_no_other(logs):
    bad, good = keep(logs / "a"), keep(logs / "a")
    path = logs / "a" / f"{bad.capture_id}.receipt.json"
    path.unlink()
    os.mkfifo(path)
    done = receipt("list", "--json")
    assert [row["capture_id"] for row in json.loads(done.stdout)["receipts"]] == [good.capture_id]
    assert b"no regular file" in done.stderr


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("live.json", '{{"version":1,"capture_id":"{id}","representation":"binary","streams":["stdout"],{more}}}'),
        ("receipt.json", '{{"version":1,"capture_id":"{id}","process":"exited","capture":"failed","representation":"binary","streams":[],"reference_state":"local",{more}}}'),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "more",
    [
        '"command_label":5', '"command_label":"\\ud800x"', '"redactors":5', '"redactors":[1]',
        '"created_at_ms":"x"', '"created_at_ms":1' + "0" * 30, '"agent":[1]',
    ],
)  # fmt: skip
def test_one_damaged_file_is_one_problem_and_hides_no_other(logs, tmp_path, ending, text, more):
    good, bad = keep(logs / "a"), "ab" * 16
    path = logs / "a" / f"{bad}.{ending}"
    path.write_text(text.format(id=bad, more=more))
    path.chmod(0o600)
    rows = parsed("list")["receipts"]
    assert [row["capture_id"] for row in rows] == [good.capture_id]
    assert b"1 problem" in receipt("verify", status=65).stdout
    receipt("show", bad, status=65)
    done = receipt("export", str(logs / "a"), str(tmp_path / "copy"))
    assert b"receipts: 1" in done.stdout
    assert f"{bad} did not go along".encode() in done.stderr


def test_an_unknown_member_that_has_no_canonical_form_is_a_problem(logs):
    one = keep(logs / "a")
    path = logs / "a" / f"{one.capture_id}.receipt.json"
    path.write_bytes(path.read_bytes()[:-2] + b',"zzz":1' + b"0" * 30 + b"}\n")
    assert b"was edited" in receipt("verify", status=65).stderr


def test_what_a_terminal_would_obey_is_escaped_in_json_and_of_an_export(logs, tmp_path):
    one = keep(logs / "a")
    path = logs / "a" / f"{one.capture_id}.receipt.json"
    stream = attrs.evolve(one.streams[0], name="\x1b[2Jx")
    path.write_bytes(attrs.evolve(one, job_id="a\u202eb\x9b", streams=(stream,)).encode())
    done = receipt("list", "--json")
    assert json.loads(done.stdout)["receipts"][0]["job_id"] == "a\u202eb\x9b"
    assert b"a\\u202eb\\u009b" in done.stdout
    done = receipt("export", str(logs / "a"), str(tmp_path / "copy"))
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"did not go along" in done.stderr


def test_of_copies_a_capture_is_named_by_its_place(logs, tmp_path):
    one = keep(logs / "a")
    receipt("export", str(logs / "a"), str(logs / "a" / "copy"))
    done = receipt("show", one.capture_id, status=64)
    assert b"2 directories hold a capture" in done.stderr
    parsed("show", str(logs / "a" / f"{one.capture_id}.stdout"), "--in", str(logs / "b"))
    done = receipt("export", str(logs / "a"), str(tmp_path / "again"))
    assert b"receipts: 1" in done.stdout
    assert b"of this id has gone along already" in done.stderr


def test_tail_of_a_stream_that_is_not_there_is_said(logs):
    one = keep(logs / "a")
    assert b"nothing is kept of nope" in receipt("tail", one.capture_id, "--stream", "nope", status=65).stderr  # fmt: skip


def test_files_that_need_a_transfer_are_not_read_here(logs, tmp_path):
    one = keep(logs / "a")
    target = tmp_path / "copy"
    receipt("export", str(logs / "a"), str(target), "--no-files")
    assert parsed("show", one.capture_id, "--in", str(target))["files"] == {}
    (target / f"{one.capture_id}.stdout").write_bytes(b"planted")
    for words in (["show", "--stream", "stdout", "--bytes", "0:1"], ["tail"]):
        done = receipt(words[0], one.capture_id, "--in", str(target), *words[1:], status=65)
        assert b"need a transfer" in done.stderr
        assert done.stdout == b""


def test_the_reference_names_every_command_and_option():
    text = (DOCS / "reference" / "receipt.md").read_text("utf-8")
    for name, one in command.commands.items():
        assert f"## `{name}`" in text or f"`{name}`, " in text or f", `{name}`" in text
        for parameter in one.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert f"{parameter.opts[0]}" in text, (name, parameter.opts[0])
