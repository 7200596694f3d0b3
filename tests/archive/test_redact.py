import json
import os
import sqlite3
from hashlib import sha256

import pytest

from yarp import payload
from yarp.archive.migrate import BACKUP_SUFFIX
from yarp.archive.read import Reader
from yarp.archive.redact import redact
from yarp.archive.verify import verify
from yarp.errors import ArchiveCorrupt, ArchiveUnavailable, ReferenceUnknown

AT_MS = 1_790_000_000_000


def secret():
    """Text that stands in the file as it is: short enough not to be compressed."""
    return "SECRET" + os.urandom(40).hex()


def snapshots(store, reference):
    reader = Reader.open(store.path)
    row = reader.call(reference)
    found = {}
    for subject in ("input", "result", "stdout", "stderr", "result_text", "source_output"):
        for stage in ("before", "after"):
            source = reader.snapshot(row.call_id, subject, stage)
            if source is not None:
                found[subject, stage] = (source.media_type, reader.payload(source.sha256))
    reader.close()
    return found


def test_every_snapshot_becomes_a_tombstone_with_time_digest_and_length(store):
    reference = store.call("one", text="hello", streams=(b"out\n", b"\xff\x00"))
    found = redact(store.path, reference, AT_MS)
    assert (found.snapshots, found.deleted_payloads, found.shared_with) == (8, 4, ())
    after = snapshots(store, reference)
    assert len(after) == 8
    media_type, stone = after["stdout", "before"]
    assert media_type == payload.TEXT
    assert json.loads(stone) == {
        "yarpRedacted": {
            "byteLength": 4,
            "redactedAtMs": AT_MS,
            "sha256": sha256(b"out\n").hexdigest(),
        }
    }
    assert after["stderr", "after"][0] == payload.TEXT
    assert after["input", "before"][0] == payload.JSON


def test_a_redacted_archive_verifies(store):
    reference = store.call("one", streams=(b"out", b"\xff"))
    store.call("two", finished_at_ms=None)
    redact(store.path, reference, AT_MS)
    report = verify(store.path)
    assert (report.problems, report.incomplete_calls) == ((), 1)


def test_nothing_of_the_secret_is_left_in_any_file(store):
    hidden = [secret() for _ in range(4)]
    for number in range(40):
        store.call(f"before{number}", text=os.urandom(100).hex())
    reference = store.call(
        hidden[0], text=hidden[1], streams=(hidden[2].encode(), hidden[3].encode() * 40)
    )
    for number in range(40):
        store.call(f"after{number}", text=os.urandom(100).hex())
    held = store.bytes_on_disk()
    assert all(text.encode() in held for text in hidden[:3])
    writer = sqlite3.connect(store.path)  # keeps the log and the shared memory on the disk
    writer.execute("SELECT count(*) FROM tool_calls").fetchone()
    writer.commit()
    redact(store.path, reference, AT_MS)
    assert os.path.exists(store.path + "-wal")
    held = store.bytes_on_disk()
    writer.close()
    # The id that the host gave the call is no payload and stays: look for the JSON around it.
    assert payload.of_json({"command": hidden[0]}).body not in held
    assert not any(text.encode() in held for text in hidden[1:])
    assert len(store.sql("SELECT 1 FROM tool_calls")) == 81


def test_copies_that_sqlite_left_in_pages_still_in_use_are_gone_too(store):
    # Deleting without secure_delete leaves cells behind; so do moves between pages.
    hidden = secret()
    for number in range(60):
        store.call(f"c{number}", text=f"{hidden}{number}")
    reference = store.call("one", text=f"{hidden}one")
    store.sql(
        "PRAGMA secure_delete = OFF",
        "DELETE FROM snapshots WHERE tool_call_id < 61",
        "DELETE FROM tool_calls WHERE id < 61",
        "DELETE FROM payloads WHERE sha256 NOT IN (SELECT payload_sha256 FROM snapshots)",
    )
    assert store.bytes_on_disk().count(hidden.encode()) > 1
    redact(store.path, reference, AT_MS)
    assert hidden.encode() not in store.bytes_on_disk()


def test_bytes_of_other_calls_stay_and_these_are_named(store):
    reference = store.call("one", text="same", streams=(b"", b"only here"))
    other = store.call("two", text="same", streams=(b"", b""))
    found = redact(store.path, reference, AT_MS)
    assert found.shared_with == (other,)
    assert found.deleted_payloads == 2
    assert snapshots(store, other)["result", "before"][1] == b'{"text":"same"}'
    assert verify(store.path).problems == ()
    assert redact(store.path, other, AT_MS).deleted_payloads == 3
    assert verify(store.path).problems == ()


def test_an_empty_stream_is_shared_with_nobody(store):
    reference = store.call("one", text="a", streams=(b"", b""))
    store.call("two", text="b", streams=(b"", b""))
    assert redact(store.path, reference, AT_MS).shared_with == ()


def test_the_same_again_changes_nothing(store):
    reference = store.call("one", streams=(b"out", b"err"))
    redact(store.path, reference, AT_MS)
    before = snapshots(store, reference)
    assert redact(store.path, reference, AT_MS + 5).snapshots == 0
    assert snapshots(store, reference) == before


def test_output_that_only_looks_like_a_tombstone_is_redacted(store):
    stone = b'{"yarpRedacted":{"byteLength":1,"redactedAtMs":2,"sha256":"hunter2"}}'
    reference = store.call("one", streams=(stone, b'{"yarpRedacted":7}'))
    redact(store.path, reference, AT_MS)
    assert b"hunter2" not in store.bytes_on_disk()


def test_an_incomplete_call_is_redacted_and_said_to_be_incomplete(store):
    reference = store.call("one", finished_at_ms=None)
    found = redact(store.path, reference, AT_MS)
    assert (found.snapshots, found.incomplete) == (2, True)
    assert verify(store.path).problems == ()


def test_an_unknown_reference_changes_nothing(store):
    store.call("one")
    before = store.sql("SELECT * FROM payloads")
    with pytest.raises(ReferenceUnknown):
        redact(store.path, "yr_" + "0" * 32, AT_MS)
    assert store.sql("SELECT * FROM payloads") == before


def test_without_an_archive_none_is_made(store):
    with pytest.raises(ArchiveUnavailable, match="no archive yet"):
        redact(store.path, "yr_" + "0" * 32, AT_MS)
    assert os.listdir(store.directory) == []


def test_while_another_process_reads_old_bytes_it_is_said_and_can_be_done_again(store):
    hidden = secret()
    reference = store.call("one", text=hidden)
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM payloads").fetchone()
    with pytest.raises(ArchiveUnavailable, match="run this command again"):
        redact(store.path, reference, AT_MS)
    assert verify(store.path).problems == ()
    reader.close()
    assert redact(store.path, reference, AT_MS).snapshots == 0
    assert hidden.encode() not in store.bytes_on_disk()


def test_the_backup_of_a_migration_that_holds_the_call_is_named(store):
    store.make_old(2)
    store.call("new")
    ((reference,),) = store.sql("SELECT archive_ref FROM tool_calls WHERE source_call_id = 'c1'")
    assert redact(store.path, reference, AT_MS).backup == store.path + BACKUP_SUFFIX


def test_a_payload_whose_length_is_no_number_is_damage(store):
    reference = store.call("one")
    store.sql("UPDATE payloads SET uncompressed_byte_length = x'07'", checks=False)
    with pytest.raises(ArchiveCorrupt, match="no valid digest or length"):
        redact(store.path, reference, AT_MS)
