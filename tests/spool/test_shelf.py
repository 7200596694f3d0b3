"""Captures below a directory, of real spools: found, told apart, never through a link."""

import json
import os
import signal
import subprocess
import sys

import pytest

from yarp.errors import DataError, ReferenceUnknown, UsageError
from yarp.spool import names, shelf
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Representation
from yarp.spool.spool import Spool

OWNER = """
import sys
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Representation
from yarp.spool.spool import Spool
spool = Spool(SpoolLocation(sys.argv[1]), representation=Representation.REPLACEMENT_TEXT,
    label="make all")
spool.take(0, "half a lïne".encode())
while spool.accounting(0).committed < 12:
    pass
print(spool.identity.capture_id, flush=True)
sys.stdin.read()
spool.take(0, b", and the rest\\n")
spool.ended(0)
spool.ended(1)
spool.finish(exit_code=0)
"""


def capture(directory, out=b"out\n", err=b"", **more):
    spool = Spool(SpoolLocation(str(directory)), representation=Representation.REPLACEMENT_TEXT)
    for stream, data in enumerate((out, err)):
        spool.take(stream, data)
        spool.ended(stream)
    return spool.finish(exit_code=0, **more)


@pytest.fixture
def owner(tmp_path):
    """A process that captures half a line and waits: its handle, and the capture's id."""
    spools = tmp_path / "conversation" / "tool-outputs"
    spools.mkdir(parents=True)
    spools.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(spools)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.capture_id = process.stdout.readline().strip()
    process.root = str(tmp_path)
    yield process
    process.kill()
    process.communicate()


def only(root):
    (found,) = shelf.captures(root)
    return found


def test_captures_of_several_conversations_are_found_below_one_directory(tmp_path):
    ids = [capture(tmp_path / name / "tool-outputs" / "jobs").capture_id for name in "ab"]
    assert [found.capture_id for found in shelf.captures(str(tmp_path))] == ids
    found = shelf.find(ids[0][:8], [str(tmp_path)])
    assert found.directory == str(tmp_path / "a" / "tool-outputs" / "jobs")
    assert found.streams == ("stdout", "stderr")


def test_a_capture_is_named_by_the_path_of_any_of_its_files(tmp_path):
    receipt = capture(tmp_path)
    for ending in ("stdout", "stdout.live", "receipt.json"):
        path = str(tmp_path / f"{receipt.capture_id}.{ending}")
        assert shelf.find(path, []).capture_id == receipt.capture_id


@pytest.mark.parametrize("word", ["/etc/passwd", "../x", "xyz", "", "yr_", "0" * 33, "\0"])
def test_what_names_no_capture_opens_nothing(tmp_path, word):
    with pytest.raises(UsageError):
        shelf.find(word, [str(tmp_path)])


def test_an_unknown_or_ambiguous_id_is_refused(tmp_path):
    with pytest.raises(ReferenceUnknown):
        shelf.find("0000", [str(tmp_path)])
    (tmp_path / ("0000" + "a" * 28 + ".receipt.json")).touch()
    (tmp_path / ("0000" + "b" * 28 + ".receipt.json")).touch()
    with pytest.raises(UsageError, match="2 captures"):
        shelf.find("0000", [str(tmp_path)])


def test_a_published_capture_stands_as_it_was_published(tmp_path):
    receipt = capture(tmp_path)
    now = shelf.standing(only(str(tmp_path)))
    assert (now.state, now.receipt) == ("published", receipt)


def test_a_running_capture_is_pending_and_its_committed_bytes_are_counted(owner):
    found = only(owner.root)
    now = shelf.standing(found)
    assert now.state == "running"
    assert (now.receipt.process, now.receipt.capture) == ("running", "pending")
    assert now.receipt.command_label == "make all"
    out = now.receipt.streams[0]
    assert (out.committed, out.observed) == (12, None)
    owner.communicate("")
    done = shelf.standing(found)
    assert (done.state, done.receipt.capture) == ("published", "complete")


def test_what_a_killed_owner_left_is_partial_and_stays_so(owner):
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    found = only(owner.root)
    for _ in range(2):
        now = shelf.standing(found)
        assert now.state == "left"
        assert (now.receipt.process, now.receipt.exit_code) == (None, None)
        assert (now.receipt.capture, now.receipt.capture_reason) == ("partial", "interrupted")
        assert now.receipt.streams[0].committed == 12
    assert not os.path.exists(found.path("receipt.json"))


def test_streams_without_a_word_of_whose_they_are_are_left_ones(tmp_path):
    capture_id = names.new_id()
    (tmp_path / f"{capture_id}.stdout.live").write_bytes(b"abc")
    now = shelf.standing(only(str(tmp_path)))
    assert now.state == "left"
    assert [(one.name, one.committed) for one in now.receipt.streams] == [("stdout", 3)]


def test_no_link_below_the_root_is_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    receipt = capture(elsewhere)
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    (root / "linked").symlink_to(elsewhere)
    assert list(shelf.captures(str(root))) == []
    # Slipped in between the search and the look:
    own = root / "own"
    capture(own, b"mine\n")
    found = only(str(root))
    own.rename(root / "moved")
    own.symlink_to(elsewhere)
    with pytest.raises(Exception, match="link"):
        shelf.standing(found)
    assert receipt.capture == "complete"


def test_a_linked_file_is_not_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    spools = tmp_path / "spools"
    receipt = capture(spools)
    path = spools / f"{receipt.capture_id}.stdout"
    path.unlink()
    path.symlink_to(secret)
    found = only(str(spools))
    with found.opened() as directory, pytest.raises(Exception, match="cannot be opened"):
        shelf.open_stream(directory, found, "stdout")


def test_the_receipt_of_another_capture_is_refused(tmp_path):
    receipt = capture(tmp_path)
    other = tmp_path / ("0" * 32 + ".receipt.json")
    other.write_bytes((tmp_path / f"{receipt.capture_id}.receipt.json").read_bytes())
    other.chmod(0o600)
    with pytest.raises(DataError, match="another capture"):
        shelf.standing(shelf.find("0" * 32, [str(tmp_path)]))


def test_a_directory_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DataError, match="no directory"):
        list(shelf.captures(str(tmp_path / "none")))


@pytest.mark.parametrize(
    "damage",
    [
        {"command_label": 7},
        {"created_at_ms": "now"},
        {"streams": [{"name": "stdout", "committed": "much"}]},
        {"streams": {}},
        {"redactors": [1]},
        {"preview": []},
        {"exit_code": True},
        {"capture_id": None},
    ],
)
def test_a_receipt_with_values_of_other_types_is_refused(tmp_path, damage):
    receipt = capture(tmp_path)
    path = tmp_path / f"{receipt.capture_id}.receipt.json"
    path.write_text(json.dumps(json.loads(receipt.encode()) | damage))
    with pytest.raises(DataError, match="no receipt of this version"):
        shelf.standing(only(str(tmp_path)))
