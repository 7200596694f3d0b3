"""Reading what is kept, at once and on and on, while a real process writes it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from yarp.errors import DataError, UsageError
from yarp.spool import live, shelf
from yarp.spool.credentials import CREDENTIALS
from yarp.spool.declared import SpoolLocation
from yarp.spool.follow import Follower, Place, load_cursor, read_range, save_cursor
from yarp.spool.receipt import Representation
from yarp.spool.spool import Spool

TEXT = "aé日😀z".encode() * 3

OWNER = """
import sys
import time
from yarp.spool.credentials import CREDENTIALS
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Representation
from yarp.spool.spool import Spool
spool = Spool(SpoolLocation(sys.argv[1]), representation=Representation.REPLACEMENT_TEXT)
for line in sys.stdin.buffer:
    stream, text = line[:1] == b"!", line[1:]
    spool.take(stream, text)
    while spool.accounting(stream).committed < spool.accounting(stream).observed:
        pass
    print("kept", flush=True)
spool.ended(0)
spool.ended(1)
spool.finish(exit_code=3)
"""


class Owner:
    def __init__(self, directory):
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.root = directory

    def says(self, text, stream=0):
        self.process.stdin.write((b".", b"!")[stream] + text.encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"kept\n"

    def ends(self):
        self.process.communicate()

    @property
    def capture(self):
        (found,) = shelf.captures(self.root)
        return found


@pytest.fixture
def owner(tmp_path):
    one = Owner(str(tmp_path / "spools"))
    yield one
    one.process.kill()
    one.process.communicate()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(TEXT)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def read(follower, max_bytes=4096):
    """All that is there now, by stream."""
    found = {}
    while parts := follower.poll(max_bytes):
        for part in parts:
            found[part.stream] = found.get(part.stream, b"") + part.data
            follower.passed(part)
    return found


@pytest.mark.parametrize("step", range(1, 9))
def test_ranges_of_a_text_side_by_side_give_every_byte_once(file, step):
    parts = [
        read_range(file, start, start + step, text=True) for start in range(0, len(TEXT), step)
    ]
    assert b"".join(data for _, _, data in parts) == TEXT
    for start, end, data in parts:
        data.decode()
        assert TEXT[start:end] == data
        assert len(data) <= step + 3


def test_binary_bytes_are_given_as_they_are(file):
    assert read_range(file, 2, 5, text=False) == (2, 5, TEXT[2:5])


def test_what_is_not_there_is_not_read(file):
    assert read_range(file, 10**9, 2 * 10**9, text=True)[2] == b""


def test_an_unfinished_character_waits_while_the_stream_may_grow(tmp_path):
    path = tmp_path / "file"
    for cut in range(1, 4):
        path.write_bytes(b"abc" + "😀".encode()[:cut])
        opened = os.open(path, os.O_RDONLY)
        assert read_range(opened, 0, 99, text=True, final=False)[2] == b"abc"
        assert len(read_range(opened, 0, 99, text=True)[2]) == 3 + cut
        os.close(opened)


def test_a_follower_reads_both_streams_across_the_publication(owner):
    owner.says("one")
    follower = Follower(owner.capture, ["stdout", "stderr"])
    assert read(follower) == {"stdout": b"one\n"}
    owner.says("two")
    owner.says("wrong", stream=1)
    assert read(follower, 3) == {"stdout": b"two\n", "stderr": b"wrong\n"}
    assert follower.standing.state == "running"
    owner.says("three")
    owner.ends()
    assert read(follower) == {"stdout": b"three\n"}
    assert follower.standing.state == "published"
    assert follower.standing.receipt.exit_code == 3
    assert read(follower) == {}


def test_two_consumers_stand_where_they_stopped_while_the_job_runs(owner):
    def consume(name, max_bytes=4096):
        follower = Follower(owner.capture, ["stdout"], load_cursor(owner.capture, name))
        parts = follower.poll(max_bytes)
        for part in parts:
            follower.passed(part)
        save_cursor(follower, name)
        return b"".join(part.data for part in parts)

    owner.says("one")
    assert consume("first") == b"one\n"
    assert consume("second", 2) == b"on"
    owner.says("two")
    assert consume("first") == b"two\n"
    assert consume("first") == b""
    assert consume("second") == b"e\ntwo\n"
    owner.ends()
    assert consume("second") == b""
    # Reading took nothing from who waits for the end.
    assert live.claim(owner.capture.location, owner.capture.capture_id)
    assert not live.claim(owner.capture.location, owner.capture.capture_id)
    assert all(
        os.stat(os.path.join(owner.root, name)).st_mode & 0o077 == 0
        for name in os.listdir(owner.root)
    )


def test_a_consumer_reads_what_a_killed_owner_left(owner):
    owner.says("one")
    owner.process.send_signal(signal.SIGKILL)
    owner.process.wait()
    follower = Follower(owner.capture, ["stdout"])
    assert read(follower) == {"stdout": b"one\n"}
    assert follower.standing.state == "left"


def test_a_replaced_file_makes_a_place_invalid(tmp_path):
    capture = published(tmp_path, b"one\ntwo\n")
    follower = Follower(capture, ["stdout"])
    read(follower)
    path = capture.path("stdout")
    os.rename(path, path + "x")
    with open(path, "wb") as replaced:
        replaced.write(b"one\nother\n")
    with pytest.raises(live.CursorInvalid):
        follower.poll(99)


def test_a_shortened_file_makes_a_place_invalid(tmp_path):
    capture = published(tmp_path, b"one\ntwo\n")
    follower = Follower(capture, ["stdout"])
    read(follower)
    os.truncate(capture.path("stdout"), 2)
    with pytest.raises(live.CursorInvalid):
        follower.poll(99)


def test_a_tail_begins_so_many_bytes_before_the_end(tmp_path):
    follower = Follower(published(tmp_path, TEXT), ["stdout"])
    follower.skip_to_tail(6)  # in the middle of the four bytes of a character
    assert read(follower) == {"stdout": "😀z".encode()}
    follower.skip_to_tail(3)
    assert read(follower) == {"stdout": b"z"}
    follower.skip_to_tail(10**6)
    assert read(follower) == {"stdout": TEXT}


@pytest.mark.parametrize("name", ["", "a/b", "..", "a" * 65, "ü", "a\n", "x.live"])
def test_a_consumers_name_makes_no_path(tmp_path, name):
    capture = published(tmp_path, b"one\n")
    with pytest.raises(UsageError):
        load_cursor(capture, name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        '{"stdout": {}}',
        '{"stdout": {"offset": -1, "generation": null}}',
        "x",
        "[" * 3000,
        '{"stdout": {"offset": true, "generation": null}}',
    ],
)
def test_a_broken_cursor_is_said_and_not_guessed(tmp_path, text):
    capture = published(tmp_path, b"one\n")
    with open(capture.path("cursor-me"), "w") as file:
        file.write(text)
    with pytest.raises(DataError, match="remove it"):
        load_cursor(capture, "me")


def test_a_new_consumer_stands_at_the_start(tmp_path):
    assert load_cursor(published(tmp_path, b"one\n"), "me") == {}
    assert Follower(published(tmp_path / "b", b""), ["stdout"]).places == {"stdout": Place()}


def published(directory, out):
    spool = Spool(SpoolLocation(str(directory)), representation=Representation.REPLACEMENT_TEXT)
    spool.take(0, out)
    spool.ended(0)
    spool.ended(1)
    receipt = spool.finish(exit_code=0)
    return shelf.find(receipt.capture_id, [str(directory)])


SECRET = b"ghp_" + b"Abcd1234" * 5
AROUND = "ünï: logging in with ".encode() + SECRET + " — as 日本語, then more\n".encode()
WINDOW = (AROUND * 2)[:200]


def settled(spool):
    """Wait until all that may be kept by now is kept."""
    while spool.accounting(0).uncommitted:
        time.sleep(0.0005)


@pytest.mark.parametrize("first", range(0, len(WINDOW), 20))
def test_a_reader_of_the_live_file_sees_no_secret_however_the_pipe_cuts_it(tmp_path, first):
    for at in range(first, min(first + 20, len(WINDOW))):
        directory = tmp_path / str(at)
        spool = Spool(SpoolLocation(str(directory)), redactors=[CREDENTIALS])
        (capture,) = shelf.captures(str(directory))
        follower = Follower(capture, ["stdout"])
        seen = b""
        for chunk in (WINDOW[:at], WINDOW[at:]):
            spool.take(0, chunk)
            settled(spool)
            seen += read(follower).get("stdout", b"")
            # Neither all of it nor a telling part.
            assert not any(SECRET[n : n + 6] in seen for n in range(4, len(SECRET) - 6)), at
        spool.ended(0)
        spool.ended(1)
        spool.finish(exit_code=0)
        seen += read(follower).get("stdout", b"")
        assert SECRET not in seen
        assert seen.startswith("ünï: logging in with [redacted] — as 日本語".encode()), at
        assert follower.standing.receipt.capture == "complete"
