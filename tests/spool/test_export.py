"""Copies of a conversation's receipts: what may go along, and what a reference leads to then."""

import os
import subprocess
import sys

import attrs
import pytest

from yarp.errors import ReferenceUnknown, StorageError
from yarp.spool import receipt as receipts
from yarp.spool import shelf
from yarp.spool.declared import SpoolLocation
from yarp.spool.export import export
from yarp.spool.follow import Follower
from yarp.spool.receipt import Identity, ReferenceState, Representation
from yarp.spool.spool import Spool
from yarp.spool.verify import verify

SPOOLS = os.path.join("conversation", "tool-outputs", "jobs")


@pytest.fixture
def conversation(tmp_path):
    """Keeps a capture in the conversation; gives its id."""
    root = tmp_path / "conversation"

    def keep(out=b"out\n", err=b"err\n", **more):
        spool = Spool(
            SpoolLocation(str(tmp_path / SPOOLS), conversation=str(root)),
            identity=Identity(os.urandom(16).hex(), "acme", "s-1", "c-1"),
            representation=Representation.REPLACEMENT_TEXT,
            label="make all",
        )
        for stream, data in enumerate((out, err)):
            spool.take(stream, data)
            spool.ended(stream)
        return spool.finish(exit_code=2, **more).capture_id

    root.mkdir(mode=0o700)
    keep.root = str(root)
    keep.target = str(tmp_path / "copy")
    keep.path = lambda capture_id, ending: str(tmp_path / SPOOLS / f"{capture_id}.{ending}")
    return keep


def exported(conversation, **more):
    found = export(shelf.captures(conversation.root), conversation.target, **more)
    for receipt in found.receipts:
        path = os.path.join(conversation.target, f"{receipt.capture_id}.receipt.json")
        with open(path, "rb") as file:
            assert receipts.decode(file.read(), path) == receipt
    for directory, _, files in os.walk(conversation.target):
        assert os.stat(directory).st_mode & 0o777 == 0o700
        assert all(
            os.stat(os.path.join(directory, name)).st_mode & 0o777 == 0o600 for name in files
        )
    return found


def rewritten(conversation, capture_id, **changes):
    """Publish another receipt in the place of the capture's own, as a foreign program would."""
    path = conversation.path(capture_id, "receipt.json")
    with open(path, "rb") as file:
        receipt = receipts.decode(file.read(), path)
    with open(path, "wb") as file:
        file.write(attrs.evolve(receipt, **changes).encode())


def test_references_lead_to_the_copies_wherever_these_are_moved(conversation, tmp_path):
    capture_id = conversation()
    (receipt,) = exported(conversation).receipts
    assert [one.reference for one in receipt.streams] == [
        f"{capture_id}.stdout",
        f"{capture_id}.stderr",
    ]
    assert receipt.reference_state == "local"
    os.rename(conversation.target, tmp_path / "moved")
    with open(tmp_path / "moved" / receipt.streams[1].reference, "rb") as file:
        assert file.read() == b"err\n"
    report = verify(str(tmp_path / "moved"))
    assert (report.published, report.problems) == (1, ())


def test_the_evidence_is_the_same_but_for_its_references(conversation):
    capture_id = conversation()
    (receipt,) = exported(conversation).receipts
    original = shelf.standing(shelf.find(capture_id, [conversation.root])).receipt
    assert attrs.evolve(receipt, streams=()) == attrs.evolve(original, streams=())
    for ours, theirs in zip(receipt.streams, original.streams, strict=True):
        assert attrs.evolve(ours, reference=None) == attrs.evolve(theirs, reference=None)


def test_what_is_denied_stays_and_is_marked(conversation):
    denied, whole = conversation(b"hunter2\n"), conversation()
    found = exported(
        conversation, permitted=lambda one, stream: (one, stream) != (denied, "stdout")
    )
    by_id = {receipt.capture_id: receipt for receipt in found.receipts}
    assert by_id[denied].streams[0].reference is None
    assert by_id[denied].streams[1].reference == f"{denied}.stderr"
    assert by_id[whole].streams[0].reference == f"{whole}.stdout"
    assert [(left.capture_id, left.stream) for left in found.left] == [(denied, "stdout")]
    assert not os.path.exists(os.path.join(conversation.target, f"{denied}.stdout"))


def test_a_receipt_without_any_file_is_unavailable(conversation):
    conversation()
    (receipt,) = exported(conversation, permitted=lambda _one, _stream: False).receipts
    assert receipt.reference_state == "unavailable"
    assert receipt.exit_code == 2
    assert len(os.listdir(conversation.target)) == 1


def test_a_child_gets_states_and_permitted_output_and_nothing_else(conversation):
    capture_id = conversation()
    (receipt,) = exported(conversation, for_child=True).receipts
    assert (receipt.command_label, receipt.source_session_id, receipt.preview) == (None,) * 3
    assert (receipt.capture_id, receipt.source_call_id) == (capture_id, "c-1")
    assert (receipt.exit_code, receipt.capture) == (2, "complete")


def test_a_missing_or_tampered_file_does_not_go_along(conversation):
    missing, tampered = conversation(b"gone\n"), conversation(b"true\n")
    os.unlink(conversation.path(missing, "stdout"))
    with open(conversation.path(tampered, "stdout"), "wb") as file:
        file.write(b"fake\n")
    found = exported(conversation)
    reasons = {left.capture_id: left.reason for left in found.left}
    assert reasons == {
        missing: "its file is missing",
        tampered: "its file is not what was captured",
    }
    assert all(receipt.streams[0].reference is None for receipt in found.receipts)
    assert not os.path.exists(os.path.join(conversation.target, f"{tampered}.stdout"))


def test_what_is_larger_than_the_bound_does_not_go_along(conversation):
    conversation(b"x" * 100, b"")
    found = exported(conversation, max_bytes=99)
    assert "99 bytes" in found.left[0].reason
    assert found.byte_length == 0


@pytest.mark.parametrize("reference", ["/etc/passwd", "../../../secret", "other.stdout"])
def test_a_path_in_a_receipt_opens_nothing(conversation, tmp_path, reference):
    (tmp_path / "secret").write_text("hunter2")
    capture_id = conversation()
    original = shelf.standing(shelf.find(capture_id, [conversation.root])).receipt
    out, err = original.streams
    rewritten(
        conversation,
        capture_id,
        streams=(attrs.evolve(out, reference=reference, sha256=None, committed=None), err),
    )
    found = exported(conversation)
    assert found.receipts[0].streams[0].reference is None
    assert found.left[0].reason == "its reference names another file"


def test_a_link_in_the_place_of_a_stream_is_not_followed(conversation, tmp_path):
    (tmp_path / "secret").write_text("hunter2")
    capture_id = conversation()
    path = conversation.path(capture_id, "stdout")
    os.unlink(path)
    os.symlink(tmp_path / "secret", path)
    found = exported(conversation)
    assert found.left[0].capture_id == capture_id
    for name in os.listdir(conversation.target):
        with open(os.path.join(conversation.target, name), "rb") as file:
            assert b"hunter2" not in file.read()


@pytest.mark.parametrize("state", [ReferenceState.NEEDS_TRANSFER, ReferenceState.UNAVAILABLE])
def test_files_that_are_somewhere_else_are_not_taken_from_here(conversation, state):
    capture_id = conversation()
    rewritten(conversation, capture_id, reference_state=state)
    found = exported(conversation)
    assert found.receipts[0].reference_state == state
    assert [one.reference for one in found.receipts[0].streams] == [None, None]
    assert found.byte_length == 0


def test_a_running_capture_stays_and_what_a_killed_owner_left_goes_as_partial(conversation):
    code = (
        "import os, sys; from yarp.spool.declared import SpoolLocation; "
        "from yarp.spool.spool import Spool; spool = Spool(SpoolLocation(sys.argv[1])); "
        "spool.take(0, b'begun\\n')\n"
        "while spool.accounting(0).committed < 6: pass\n"
        "print(flush=True); sys.stdin.read()"
    )
    directory = os.path.dirname(conversation.path("", ""))
    os.makedirs(directory, 0o700)
    os.chmod(directory, 0o700)
    owner = subprocess.Popen(
        [sys.executable, "-c", code, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    owner.stdout.readline()
    found = exported(conversation)
    assert (found.receipts, found.left[0].reason) == ((), "it is still running")
    owner.kill()
    owner.communicate()
    (receipt,) = exported(conversation).receipts
    assert (receipt.capture, receipt.capture_reason) == ("partial", "interrupted")
    assert receipt.streams[0].reference == f"{receipt.capture_id}.stdout"
    assert verify(conversation.target).partial == 1


def test_a_target_that_holds_something_is_refused(conversation, tmp_path):
    conversation()
    os.mkdir(conversation.target, 0o700)
    (tmp_path / "copy" / "mine").touch()
    with pytest.raises(StorageError, match="not empty"):
        exported(conversation)


def test_a_target_that_others_can_reach_or_a_link_is_refused(conversation, tmp_path):
    conversation()
    os.mkdir(conversation.target, 0o755)
    with pytest.raises(StorageError, match="chmod 700"):
        exported(conversation)
    os.rmdir(conversation.target)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    os.symlink(tmp_path / "elsewhere", conversation.target)
    with pytest.raises(StorageError, match="link"):
        exported(conversation)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_hostile_umask_changes_nothing(conversation):
    conversation()
    before = os.umask(0)
    try:
        assert len(exported(conversation).receipts) == 1
    finally:
        os.umask(before)


def test_receipts_alone_say_that_their_files_need_a_transfer(conversation):
    capture_id = conversation()
    denied = conversation()
    found = exported(conversation, with_files=False, permitted=lambda one, stream: one != denied)
    by_id = {receipt.capture_id: receipt for receipt in found.receipts}
    assert by_id[capture_id].reference_state == "needs_transfer"
    assert by_id[capture_id].streams[0].reference == f"tool-outputs/jobs/{capture_id}.stdout"
    assert by_id[denied].reference_state == "unavailable"
    assert sorted(os.listdir(conversation.target)) == sorted(
        f"{one}.receipt.json" for one in (capture_id, denied)
    )
    assert found.byte_length == 0
    assert verify(conversation.target).problems == ()
    # What happens to lie there under the name is not what is meant.
    path = os.path.join(conversation.target, f"{capture_id}.stdout")
    with open(path, "wb") as file:
        file.write(b"planted")
    copy = shelf.find(path, [])
    with pytest.raises(ReferenceUnknown, match="transfer"):
        Follower(copy, ["stdout"]).poll(99)
