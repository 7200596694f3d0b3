from __future__ import annotations

import os
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.spool.credentials import CREDENTIALS, WINDOW_BYTES, Credentials
from yarp.spool.credentials import SHAPES as ALL
from yarp.spool.live import Cursor
from yarp.spool.spool import Spool

TOKEN = b"ghp_" + b"aB3" * 12
PEM = (
    b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n"
    + b"MIIEowIBAAKCAQEA0Z3\n" * 8
    + b"-----END RSA PRIVATE KEY-----"
)
SHAPES = {
    b"see " + TOKEN + b".": b"see [redacted].",
    b"github_pat_" + b"1A_" * 9: b"[redacted]",
    b"glpat-abcdefghij0123456789 x": b"[redacted] x",
    b"key=sk-proj-abc_def-0123456789ABCDEF,": b"key=[redacted],",
    b"xoxb-1234567890-abc": b"[redacted]",
    b"AKIAIOSFODNN7EXAMPLE": b"[redacted]",
    b"AIza" + b"x" * 35: b"[redacted]",
    b"npm_" + b"a1" * 18: b"[redacted]",
    b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.abc-DEF_ x": b"[redacted] x",
    b"DB_PASSWORD=hunter2 next": b"DB_PASSWORD=[redacted] next",
    b"export API_KEY='abc def'": b"export API_KEY='[redacted] def'",
    b"AWS_SECRET_ACCESS_KEY=ab/cd+ef": b"AWS_SECRET_ACCESS_KEY=[redacted]",
    b"Authorization: Bearer abc.def-123\r\n": b"Authorization: Bearer [redacted]\r\n",
    b'"authorization": "Basic dXNlcjpwYXNz"': b'"authorization": "Basic [redacted]"',
    b"https://ada:pass%20@host/": b"https://ada:[redacted]@host/",
    b"a\n" + PEM + b"\nb": b"a\n-----BEGIN [redacted]\nb",
    b'{"password": "hunter2", "a": "b"}': b'{"password": "[redacted]", "a": "b"}',
    b"db: {'apiKeyId' : 'abc def'}": b"db: {'apiKeyId' : '[redacted]'}",
    b'x = "{\\"client_secret\\": \\"s3\\"}"': b'x = "{\\"client_secret\\": \\"[redacted]"}"',
    b"password: \"a b\"\npassword: 'c'": b"password: \"[redacted]\"\npassword: '[redacted]'",
    b"X-Api-Key: 0123456789abcdef\n": b"X-Api-Key: [redacted]\n",
    b'"PRIVATE-TOKEN": "abcdefgh"': b'"PRIVATE-TOKEN": "[redacted]"',
    b"Set-Cookie: session=ab12; Path=/\r\nx": b"Set-Cookie: session=[redacted]\r\nx",
    b"< cookie: a=b; c=d\n": b"< cookie: a=[redacted]\n",
    b"Authorization: 0123456789abcdef0123\n": b"Authorization: [redacted]\n",
    b"Authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=z\n": b"Authorization: [redacted]\n",
    b"postgres://user:pa:ss@w@host/db": b"postgres://user:[redacted]@host/db",
    b"TOK_" + TOKEN + b" x" + TOKEN: b"TOK_[redacted] x[redacted]",
    b"A" * 300 + b"_TOKEN=abc": b"A" * 300 + b"_TOKEN=[redacted]",
    PEM.replace(b"\n", b"\\n") + b'"}': b'-----BEGIN [redacted]"}',
}
INNOCENT = [
    b'{"password": null, "token": "", "secret": 7}',
    b"interface A { token: 'number' }\npassword: see the manual\nCookie: yes, please\n",
    b"csrf-token: short\n",
    b"task-sk-1 is done, ask-me-anything-about-the-schedule",
    b"tests/test_token.py::test_password PASSED\n",
    b"token: unexpected\nTOKEN count\npassword = get_password()\n",
    b"http://host:8080/path@2x user@host:22 git@host:a/b",
    b"-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
    b"AKIA ASIA ghp_ sk- eyJ",
]


def through(data, cuts=()):
    redactor = Credentials()
    out, before = [], 0
    for cut in [*sorted(cuts), len(data)]:
        out.append(redactor.feed(data[before:cut]))
        assert redactor.held <= WINDOW_BYTES
        before = cut
    return b"".join(out) + redactor.finish()


@pytest.mark.parametrize("data", SHAPES, ids=lambda data: data[:12].decode().strip())
def test_a_credential_is_taken_out_wherever_a_chunk_ends(data):
    for cut in range(len(data)):
        assert through(data, [cut]) == SHAPES[data]
    assert through(data, range(len(data))) == SHAPES[data]


@pytest.mark.parametrize("data", INNOCENT)
def test_what_only_looks_like_one_stays(data):
    assert through(data) == through(data, range(len(data))) == data


def test_no_head_has_a_line_end_in_it():
    for shape in ALL:
        for part in (*shape.kept, *shape.secret):
            assert not re.match(part[0] if isinstance(part, tuple) else re.escape(part), b"\n")


WORDS = [
    *(b"ghp_", b"a" * 20, b"sk-", b"TOKEN", b"API_KEY", b"=", b"'", b" ", b"\n", b"://", b"u:p", b"@"),
    *(b"eyJ", b".eyJ", b"-----BEGIN ", b"PRIVATE KEY-----", b"-----END ", b"X" * 30, b"_", b"AKIA"),
    *(b"\n| ", b"A" * 44, b'"password"', b'"', b"Cookie", b"x-api-key", b"a=b;", b"key.pem-"),
    *(b"Authorization", b": ", b"Bearer ", b"1234567890ABCDEF", "é".encode(), b"x" * 600, b"\xff"),
]  # fmt: skip


LINES = [b"MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0qJfQyH5kZ1mS3n4v5w6x7y8z9A", b"b" * 64, b"QUJD="]


@pytest.mark.parametrize(
    "prefix",
    ["| ", "key.pem-", "web-1  | ", "  12\t", "> ", "#", "[x] ", "_", "* ", "+", "2026-11-30T04:00:00.123Z stdout F "],
)  # fmt: skip
def test_a_private_key_is_taken_out_whatever_stands_before_its_lines(prefix):
    mark = prefix.encode()
    lines = [b"-----BEGIN RSA PRIVATE KEY-----", *LINES, b"-----END RSA PRIVATE KEY-----"]
    key = b"".join(mark + line + b"\n" for line in lines)
    wanted = mark + b"-----BEGIN [redacted]"
    behind = b"\n" + mark + b"what comes behind it, such as /usr/lib/python3/site-packages\n"
    data = b"a\n" + key[:-1] + behind
    out = through(data)
    assert out == b"a\n" + wanted + behind
    for cut in range(len(data)):
        assert through(data, [cut]) == out
    assert through(data, range(len(data))) == out
    # A part of it, as `grep -A 3` gives it.
    cut_off = through(mark + lines[0] + b"\n" + mark + LINES[0] + b"\n" + b"(!)\n")
    assert LINES[0][:12] not in cut_off
    assert cut_off.endswith(b"(!)\n")


@given(data=st.lists(st.sampled_from(WORDS), max_size=14).map(b"".join), cuts=st.data())
def test_the_chunks_make_no_difference(data, cuts):
    at = cuts.draw(st.lists(st.integers(0, len(data)), max_size=6))
    assert through(data, at) == through(data)


def test_a_secret_of_any_length_is_taken_out_and_never_held():
    redactor = Credentials()
    assert redactor.feed(b"ghp_" + b"a" * 20) == b"[redacted]"
    for _ in range(100):
        assert redactor.feed(b"a" * 100_000) == b""
        assert redactor.held == 0
    assert redactor.feed(b" end\n") == b" end\n"


def test_what_a_kill_cut_off_is_not_shown_either():
    for length in range(8, len(TOKEN)):
        assert b"aB3" not in through(b"token " + TOKEN[:length])


def test_an_ordinary_line_is_given_out_at_once():
    redactor = Credentials()
    assert redactor.feed(b"Listening on http://localhost:8080\n") == (
        b"Listening on http://localhost:8080\n"
    )
    assert redactor.feed(b"Continue? ") == b"Continue? "


def test_a_secret_split_at_any_two_places_never_reaches_a_committed_byte(location, monkeypatch):
    """Exhaustive over a window of 200 bytes, while a reader follows the live file."""
    window = (b"x" * 70 + b"\n" + TOKEN + b" y " + b"z" * 100)[:200]
    assert len(window) == 200
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no disk is asked for 201 captures
    spools = []
    leaks = []
    done = threading.Event()

    def follow():
        while not done.is_set():
            for cursor, seen in list(spools):
                seen.extend(cursor.read())
                # Nine bytes of it are more than its head, which everybody knows.
                if any(TOKEN[n : n + 9] in seen for n in range(len(TOKEN) - 8)):
                    leaks.append(bytes(seen))

    reader = threading.Thread(target=follow)
    reader.start()
    try:
        for cut in range(len(window) + 1):
            spool = Spool(location, redactors=[CREDENTIALS], streams=("stdout",))
            seen = bytearray()
            cursor = Cursor(location, spool.identity.capture_id, "stdout")
            spools[:] = [*spools[-3:], (cursor, seen)]
            spool.take(0, window[:cut])
            spool.take(0, window[cut : cut + 1])
            spool.take(0, window[cut + 1 :])
            spool.ended(0)
            receipt = spool.finish(exit_code=0)
            path = os.path.join(location.conversation, receipt.streams[0].reference)
            with open(path, "rb") as file:
                assert file.read() == window.replace(TOKEN, b"[redacted]")
    finally:
        done.set()
        reader.join()
    assert leaks == []
