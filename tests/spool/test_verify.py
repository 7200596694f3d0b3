"""Captures held against their receipts: each kind of damage, one at a time."""

import hashlib
import os
import signal
import subprocess
import sys

import attrs
import pytest

from yarp.spool import receipt as receipts
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import CaptureState, Representation
from yarp.spool.spool import Spool
from yarp.spool.verify import verify


@pytest.fixture
def capture(tmp_path):
    """A published capture: its directory, its receipt, and its files by their endings."""
    directory = tmp_path / "spools"
    spool = Spool(SpoolLocation(str(directory)), representation=Representation.REPLACEMENT_TEXT)
    for stream, data in enumerate(("zwölf\nline\n".encode(), b"error")):
        spool.take(stream, data)
        spool.ended(stream)

    class Kept:
        root = str(directory)
        receipt = spool.finish(exit_code=0)

        def path(self, ending):
            return os.path.join(self.root, f"{self.receipt.capture_id}.{ending}")

        def rewrite(self, **changes):
            with open(self.path("receipt.json"), "wb") as file:
                file.write(attrs.evolve(self.receipt, **changes).encode())

        def stream(self, **changes):
            out, err = self.receipt.streams
            self.rewrite(streams=(attrs.evolve(out, **changes), err))

        @property
        def problems(self):
            return [problem.what for problem in verify(self.root).problems]

    return Kept()


def test_a_capture_as_it_was_published_has_no_problem(capture):
    report = verify(capture.root)
    assert (report.published, report.partial, report.running, report.left) == (1, 0, 0, 0)
    assert report.problems == ()


def test_a_missing_file_is_said(capture):
    os.unlink(capture.path("stderr"))
    assert capture.problems == ["is missing"]


def test_a_changed_byte_is_said(capture):
    with open(capture.path("stdout"), "r+b") as file:
        file.write(b"Z")
    assert capture.problems == ["is not what was captured: its digest is another one"]


def test_a_shortened_file_is_said(capture):
    os.truncate(capture.path("stdout"), 3)
    assert capture.problems[0] == "has 3 bytes, its receipt says 12"


@pytest.mark.parametrize("ending", ["stdout", "receipt.json"])
def test_a_file_that_others_can_reach_is_said(capture, ending):
    os.chmod(capture.path(ending), 0o640)
    assert capture.problems == ["others can reach it: 0640"]


def test_a_directory_that_others_can_reach_is_said(capture):
    os.chmod(capture.root, 0o755)
    assert capture.problems == ["others can reach it: 0755"]


def test_a_link_is_said_and_not_followed(capture, tmp_path):
    os.rename(capture.path("stdout"), tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", capture.path("stdout"))
    assert capture.problems == ["is a link, or no regular file"]


def test_an_edited_receipt_is_said(capture):
    with open(capture.path("receipt.json"), "r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(b" " + data)
    assert capture.problems == ["is not in its canonical form: it was edited"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"observed": 99}, "observed is not accepted + pending + discarded"),
        ({"discarded": -1, "observed": 11}, "a count is below zero"),
        ({"pending": 1, "observed": 13}, "the capture is called complete, and not all was kept"),
        ({"retained_end": 11}, "what is retained is not what was committed"),
        ({"reference": "other.stdout"}, "names another file"),
        ({"uncommitted": 5}, "the capture is called complete, and not all was kept"),
        ({"omitted": 5}, "the capture is called complete, and not all was kept"),
        ({"retained_start": 1, "retained_end": 13}, "what is retained is not a beginning"),
        ({"sha256": None}, "the capture is called complete, and it is not said what of"),
        ({"committed": None}, "the capture is called complete, and it is not said what of"),
    ],
)
def test_counts_that_cannot_be_are_said(capture, changes, what):
    capture.stream(**changes)
    assert f"stdout: {what}" in capture.problems


@pytest.mark.parametrize("before", ["/etc/", "../../x/", "//"])
def test_a_reference_that_leads_out_of_the_conversation_is_said(capture, before):
    out = capture.receipt.streams[0]
    capture.stream(reference=before + out.reference)
    assert "stdout: names another file" in capture.problems


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"capture": CaptureState.PENDING}, "it is published, and the capture is called pending"),
        ({"capture_reason": "job-quota"}, "the capture is called complete, and has a reason why it is not"),
        ({"capture": CaptureState.PARTIAL}, "the capture is called partial, and nothing says why"),
        ({"signal": 9}, "a process ends with a code or by a signal, not both"),
    ],
)  # fmt: skip
def test_states_that_contradict_one_another_are_said(capture, changes, what):
    capture.rewrite(**changes)
    assert what in capture.problems


def test_a_cursor_that_others_can_reach_is_said(capture):
    path = capture.path("cursor-me")
    with open(path, "w"):
        os.chmod(path, 0o644)
    assert capture.problems == ["others can reach it: 0644"]


def test_another_number_of_lines_is_said(capture):
    capture.stream(line_count=3)
    assert capture.problems == ["has another number of lines than its receipt says"]


def test_text_that_is_none_is_said(capture):
    with open(capture.path("stdout"), "wb") as file:
        file.write(b"\xff" * 12)
    digest = hashlib.sha256(b"\xff" * 12).hexdigest()
    capture.stream(sha256=digest, line_count=None)
    assert capture.problems == ["is called text and is no UTF-8"]


def test_a_receipt_that_is_none_is_said(capture):
    with open(capture.path("receipt.json"), "wb") as file:
        file.write(b'{"version": 9}\n')
    (problem,) = verify(capture.root).problems
    assert "no receipt of this version" in problem.what


def test_a_file_that_the_receipt_does_not_name_is_said(capture):
    with open(capture.path("other"), "wb") as file:
        file.write(b"planted")
    os.chmod(capture.path("other"), 0o600)
    assert capture.problems == ["its receipt names no such file"]


def test_a_partial_capture_is_counted_and_is_no_problem(capture):
    out, err = capture.receipt.streams
    capture.rewrite(
        capture=CaptureState.PARTIAL,
        capture_reason="job-quota",
        streams=(attrs.evolve(out, discarded=5, observed=17), err),
    )
    report = verify(capture.root)
    assert (report.published, report.partial, report.problems) == (1, 1, ())


def test_what_a_killed_owner_left_is_counted_and_left_alone(tmp_path):
    code = (
        "import os, sys; from yarp.spool.declared import SpoolLocation; "
        "from yarp.spool.spool import Spool; spool = Spool(SpoolLocation(sys.argv[1])); "
        "spool.take(0, b'begun'); print(flush=True); sys.stdin.read()"
    )
    root = str(tmp_path / "spools")
    owner = subprocess.Popen(
        [sys.executable, "-c", code, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    owner.stdout.readline()
    report = verify(root)
    assert (report.running, report.left, report.problems) == (1, 0, ())
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    before = {name: os.stat(os.path.join(root, name)).st_mtime_ns for name in os.listdir(root)}
    report = verify(root)
    assert (report.running, report.left, report.problems) == (0, 1, ())
    after = {name: os.stat(os.path.join(root, name)).st_mtime_ns for name in os.listdir(root)}
    assert after == before


def test_nothing_that_was_printed_is_in_a_problem(capture):
    with open(capture.path("stdout"), "wb") as file:
        file.write(b"hunter2\n")
    with open(capture.path("receipt.json"), "wb") as file:
        file.write(b"hunter2\n")
    assert receipts.VERSION == 1
    assert all("hunter2" not in problem.what for problem in verify(capture.root).problems)
