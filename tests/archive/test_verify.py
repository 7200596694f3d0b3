import os
import sqlite3
import tracemalloc

import pytest
import zstandard

from yarp import payload
from yarp.archive.verify import SHOWN_PROBLEMS, verify
from yarp.errors import ArchiveUnavailable

SECRET = "hunter2"


def problems(store):
    return verify(store.path).problems


def only(store):
    (problem,) = problems(store)
    assert SECRET not in problem
    return problem


def test_a_sound_archive_has_no_problems(store):
    store.call("one", streams=(b"out\n", b"\xff\x00"))
    store.call("two", text="x" * 5000)
    report = verify(store.path)
    assert report.problems == ()
    assert report.incomplete_calls == 0


def test_incomplete_calls_are_counted_and_are_no_problem(store):
    store.call("one")
    store.call("two", finished_at_ms=None)
    report = verify(store.path)
    assert (report.problems, report.incomplete_calls) == ((), 1)


def test_verify_leaves_the_database_as_it_is(store):
    store.call("one", finished_at_ms=None)
    with open(store.path, "rb") as file:
        before = file.read()
    verify(store.path)
    with open(store.path, "rb") as file:
        assert file.read() == before


def test_no_archive_is_no_sound_archive(store):
    with pytest.raises(ArchiveUnavailable, match="there is no archive yet"):
        verify(store.path)


def test_a_directory_and_a_file_that_others_can_reach_are_problems(store):
    store.call("one")
    os.chmod(store.directory, 0o750)
    os.chmod(store.path, 0o644)
    directory, file = problems(store)
    assert "has mode 0750 instead of 0700" in directory
    assert f"chmod 600 '{store.path}'" in file


def test_a_linked_database_is_a_problem(store, another_store):
    store.call("one")
    os.symlink(store.path, another_store.path)
    assert "is no regular file" in only(another_store)


def test_a_file_that_is_no_database_is_a_problem(store):
    with open(os.open(store.path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(b"hunter2 " * 1000)
    report = verify(store.path)
    assert len(report.problems) == 1
    assert "no SQLite database" in report.problems[0]
    assert report.incomplete_calls is None


def test_a_database_of_another_program_is_a_problem(store):
    os.close(os.open(store.path, os.O_CREAT, 0o600))
    store.sql("CREATE TABLE bookmarks (url TEXT)", "PRAGMA user_version = 1")
    assert "is no YARP archive" in only(store)
    assert verify(store.path).incomplete_calls is None


def test_a_wrong_value_does_not_make_the_file_a_damaged_one(store):
    store.call("one")
    store.sql("UPDATE tool_calls SET status = 'lost'", checks=False)
    report = verify(store.path)
    assert report.problems
    assert not report.damaged


def test_a_newer_version_is_a_problem(store):
    store.call("one")
    store.sql("PRAGMA user_version = 2")
    assert "newer" in only(store)


def test_the_old_shape_is_a_problem_and_its_payloads_are_checked(store):
    store.make_old(2)
    report = verify(store.path)
    assert len(report.problems) == 1
    assert "old shape" in report.problems[0]
    assert report.incomplete_calls == 1
    store.sql("UPDATE payloads SET body = x'00' WHERE rowid = 1")
    assert len(problems(store)) == 2


def test_a_half_migrated_archive_is_a_problem(store):
    store.make_old(1)
    store.sql("ALTER TABLE tool_calls ADD COLUMN archive_ref TEXT")
    assert "part of a migration" in only(store)


def test_a_truncated_database_is_a_problem(store):
    for number in range(50):
        store.call(f"c{number}", text=os.urandom(2000).hex())
    for size in (os.path.getsize(store.path) // 2, 5000, 4096, 700, 99):
        os.truncate(store.path, size)
        report = verify(store.path)
        assert report.problems, size
        assert report.damaged
        assert not [each for each in report.problems if "archive verify" in each]


def test_no_flipped_byte_passes_or_breaks_verify(store, another_store):
    store.call("one", text=os.urandom(3000).hex(), streams=(b"out", b"err"))
    with open(store.path, "rb") as file:
        sound = file.read()
    body = payload.of_json({"command": "one"}).body
    inside = sound.index(body)
    assert sound.count(body) == 1
    for at in [*range(inside, inside + len(body)), *range(0, len(sound), 97)]:
        damaged = bytearray(sound)
        damaged[at] ^= 0x40
        with open(os.open(another_store.path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(damaged)
        found = problems(another_store)
        if inside <= at < inside + len(body):
            assert found, at


CALLS = {
    "status": ("a status that is neither", "UPDATE tool_calls SET status = 'hunter2'"),
    "requires_streams": ("requires_streams that is", "UPDATE tool_calls SET requires_streams = 7"),
    "is_error": ("is_error that is", "UPDATE tool_calls SET is_error = 7"),
    "executed": ("executed that is", "UPDATE tool_calls SET executed = 7"),
    "started and finished": (
        "status started and yet",
        "UPDATE tool_calls SET status = 'started'",
    ),
    "started and never executed": (
        "status started and yet",
        "UPDATE tool_calls SET status = 'started', finished_at_ms = NULL, executed = 0",
    ),
    "started with half an outcome": (
        "status started and yet",
        "UPDATE tool_calls SET status = 'started', finished_at_ms = NULL, executed = NULL",
    ),
    "finished without time": ("without finish time", "UPDATE tool_calls SET finished_at_ms = NULL"),
    "finished without outcome": ("without finish time", "UPDATE tool_calls SET is_error = NULL"),
    "no input/before": (
        "no input/before",
        "DELETE FROM snapshots WHERE subject = 'input' AND stage = 'before'",
    ),
    "no input/after": (
        "no input/after",
        "DELETE FROM snapshots WHERE subject = 'input' AND stage = 'after'",
    ),
    "no result/after": (
        "without result/after",
        "DELETE FROM snapshots WHERE subject = 'result' AND stage = 'after'",
    ),
    "no result/before": (
        "without result/before",
        "DELETE FROM snapshots WHERE subject = 'result' AND stage = 'before'",
    ),
    "no stdout/before": (
        "without the required stdout/before",
        "DELETE FROM snapshots WHERE subject = 'stdout' AND stage = 'before'",
    ),
    "no stderr/after": (
        "without the required stderr/after",
        "DELETE FROM snapshots WHERE subject = 'stderr' AND stage = 'after'",
    ),
    "stage": (
        "a stage that is neither",
        "UPDATE snapshots SET stage = 'hunter2' WHERE subject = 'stderr' AND stage = 'after'",
    ),
    "subject": (
        "an unknown subject",
        "UPDATE snapshots SET subject = 'hunter2' WHERE subject = 'stderr' AND stage = 'after'",
    ),
    "json as text": (
        "a media type its subject",
        "UPDATE snapshots SET media_type = 'text/plain; charset=utf-8' WHERE subject = 'input'",
    ),
    "foreign media type": (
        "a media type its subject",
        "UPDATE snapshots SET media_type = 'hunter2' WHERE subject = 'stdout'",
    ),
    "completeness of a stream": (
        "a completeness where only",
        "UPDATE snapshots SET source_completeness = 'complete' WHERE subject = 'stdout'",
    ),
    "result text without completeness": (
        "without a valid completeness",
        "UPDATE snapshots SET subject = 'result_text' WHERE subject = 'stdout' AND stage = 'before'",
    ),
    "result text after": (
        "where there is only before",
        (
            "UPDATE snapshots SET subject = 'result_text', source_completeness = 'complete' "
            "WHERE subject = 'stdout' AND stage = 'after'"
        ),
    ),
    "missing payload": (
        "with no payload",
        "DELETE FROM payloads WHERE sha256 IN (SELECT payload_sha256 FROM snapshots WHERE subject = 'input')",
    ),
    "missing session": ("with no session", "DELETE FROM sessions"),
    "orphan": ("that no snapshot references", "DELETE FROM snapshots WHERE subject = 'stdout'"),
    "digest": ("has no SHA-256 digest", "UPDATE payloads SET sha256 = x'00' WHERE rowid = 1"),
    "compression": ("an unknown compression", "UPDATE payloads SET compression = 'hunter2'"),
    "no zstd": ("does not decompress", "UPDATE payloads SET compression = 'zstd' WHERE rowid = 1"),
    "length": (
        "has 17 bytes instead of 99",
        "UPDATE payloads SET uncompressed_byte_length = 99 WHERE rowid = 1",
    ),
    "short length": (
        "more than the stated 3 bytes",
        "UPDATE payloads SET uncompressed_byte_length = 3 WHERE rowid = 1",
    ),
    "negative length": (
        "has no valid length",
        "UPDATE payloads SET uncompressed_byte_length = -1 WHERE rowid = 1",
    ),
    "text for a body": (
        "a body that is no blob",
        "UPDATE payloads SET body = CAST(body AS TEXT) WHERE rowid = 1",
    ),
    "body": ("hashes to", "UPDATE payloads SET body = zeroblob(17) WHERE rowid = 1"),
    "no UTF-8": (
        "is called text and is no UTF-8",
        "UPDATE snapshots SET media_type = 'text/plain; charset=utf-8' WHERE subject = 'stderr'",
    ),
    "bad reference": ("a reference that is not", "UPDATE tool_calls SET archive_ref = 'hunter2'"),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_wrong_value_is_named_without_content(store, name):
    sentence, damage = CALLS[name]
    store.call("one", streams=(b"out", b"\xff"))
    store.sql(damage, checks=False)
    found = problems(store)
    assert any(sentence in problem for problem in found), found
    assert not any(SECRET in problem or "\n" in problem for problem in found)


def test_a_problem_names_the_reference_of_its_first_call(store):
    reference = store.call("one")
    store.sql("DELETE FROM snapshots WHERE subject = 'result' AND stage = 'after'")
    assert only(store) == f"1 call with status finished without result/after (first: {reference})"


def test_a_preflight_failure_needs_no_result_before_and_no_streams(store):
    store.call("one", streams=(b"", b""))
    store.sql(
        "UPDATE tool_calls SET executed = 0",
        "DELETE FROM snapshots WHERE subject IN ('stdout', 'stderr') OR (subject = 'result' AND stage = 'before')",
        "DELETE FROM payloads WHERE sha256 NOT IN (SELECT payload_sha256 FROM snapshots)",
    )
    assert problems(store) == ()


def test_doubled_rows_of_a_foreign_database_are_problems(store):
    store.call("one")
    store.sql(
        "CREATE TABLE copy AS SELECT * FROM tool_calls",
        "DROP TABLE tool_calls",
        "ALTER TABLE copy RENAME TO tool_calls",
        "INSERT INTO tool_calls SELECT * FROM tool_calls",
        "CREATE TABLE copy AS SELECT * FROM sessions",
        "DROP TABLE sessions",
        "ALTER TABLE copy RENAME TO sessions",
        "INSERT INTO sessions SELECT * FROM sessions",
    )
    found = " ".join(problems(store))
    assert "2 calls with a reference that another call has too" in found
    assert "2 calls with a source call id" in found
    assert "1 session with rows of the same name" in found


def test_a_large_payload_is_checked_in_bounded_memory(store):
    text = os.urandom(1 << 20) * 48
    store.call("one", streams=(text, b""))
    verify(store.path)  # imports and caches are not what is measured
    tracemalloc.start()
    report = verify(store.path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.problems == ()
    assert peak < 8 << 20


def test_a_payload_that_would_expand_without_end_is_stopped(store):
    store.call("one")
    bomb = zstandard.ZstdCompressor(level=3).compress(bytes(1 << 28))
    store.sql(("UPDATE payloads SET compression = 'zstd', body = ? WHERE rowid = 1", (bomb,)))
    tracemalloc.start()
    problem = only(store)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than the stated 17 bytes" in problem
    assert peak < 8 << 20


def test_a_wholly_damaged_archive_does_not_fill_the_screen(store):
    for number in range(SHOWN_PROBLEMS + 20):
        store.call(f"c{number}", text="same")
    store.sql("UPDATE payloads SET body = zeroblob(length(body))")
    found = problems(store)
    assert len(found) == SHOWN_PROBLEMS + 1
    assert found[-1] == "21 damaged payloads more"


def test_a_writer_at_work_is_no_contradiction(store):
    store.call("one")
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM snapshots WHERE subject = 'result'")
    assert problems(store) == ()
    connection.execute("ROLLBACK")
    connection.close()


def test_progress_is_told_up_to_the_whole(store):
    store.call("one")
    told = []
    verify(store.path, lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    assert [done for done, _ in told] == sorted(done for done, _ in told)
