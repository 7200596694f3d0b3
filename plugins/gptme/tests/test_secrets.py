from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp_gptme import secrets

VALUES = (b"secret-abc", b"secret-abcdef", b"ababab-xy")
WORDS = [
    *VALUES, b"secr", b"abab", b"API_KEY=foo bar", b"my-token", b"=", b" ", b"\n", b"\r",
    b"x" * 300, b"token", b"a=b", b"export ", "é".encode(), b"_",
]  # fmt: skip


def through(redactor, data, cuts=()):
    out, before = [], 0
    for cut in [*sorted(cuts), len(data)]:
        out.append(redactor.feed(data[before:cut]))
        before = cut
    return b"".join(out) + redactor.finish()


@pytest.mark.parametrize("make", [secrets.literal_maker(VALUES), secrets.Assignments])
@given(data=st.lists(st.sampled_from(WORDS), max_size=12).map(b"".join), cuts=st.data())
def test_the_chunks_make_no_difference(make, data, cuts):
    at = cuts.draw(st.lists(st.integers(0, len(data)), max_size=8))
    assert through(make(), data, at) == through(make(), data)


def test_a_value_split_anywhere_never_comes_out():
    data = b"before secret-abcdef after"
    for cut in range(len(data)):
        redactor = secrets.literal_maker(VALUES)()
        first = redactor.feed(data[:cut])
        assert b"secret-" not in first
        assert first + redactor.feed(data[cut:]) + redactor.finish() == b"before [REDACTED] after"


def test_the_longest_value_is_taken_first():
    data = b"secret-abcd secret-abcdef abababab-xy"
    assert through(secrets.literal_maker(VALUES)(), data) == b"[REDACTED]d [REDACTED] ab[REDACTED]"


def test_a_value_that_the_end_of_the_stream_cut_off_is_not_shown():
    for length in range(4, 13):
        value = b"secret-abcdef"[:length]
        assert through(secrets.literal_maker(VALUES)(), b"x " + value) == b"x [REDACTED]"


def test_what_only_begins_like_a_value_stays():
    data = b"secret-ab is none, and neither is sec"
    assert through(secrets.literal_maker(VALUES)(), data) == data


def test_an_assignment_to_a_secret_name_loses_its_value_to_the_line_end():
    data = b"export API_KEY=abc def\nX=1\nmy-token = q\r\nsay token=bar\n"
    assert through(secrets.Assignments(), data) == (
        b"export API_KEY=[REDACTED]\nX=1\nmy-token =[REDACTED]\r\nsay token=[REDACTED]\n"
    )


def test_words_that_are_no_assignment_stay():
    data = b"error: unexpected token\ntoken: x\nif tokens == 3\n"
    assert through(secrets.Assignments(), data).startswith(b"error: unexpected token\ntoken: x\n")


def test_a_line_longer_than_any_name_is_not_held_back():
    redactor = secrets.Assignments()
    assert redactor.feed(b"x" * 5000) == b"x" * 5000
    assert redactor.held == 0


def test_the_configured_credentials_are_found(yarp_home, monkeypatch):
    for name in ("SOME_API_KEY", "PLAIN"):
        monkeypatch.setenv(name, f"value-of-{name}")
    folder = yarp_home / ".config" / "gptme"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[env]\nMY_TOKEN = "from-the-env"\nEDITOR = "from-nowhere"\nTINY_KEY = "x"\n'
        '[[mcp.servers]]\nname = "a"\n[mcp.servers.headers]\nAuthorization = "Bearer abcdefgh"\n'
    )
    (yarp_home / "config" / "gptme").mkdir(parents=True)
    (yarp_home / "config" / "gptme" / "credentials.toml").write_text(
        '[providers]\nopenai = "sk-stored-key"\n'
    )
    found = secrets.credentials()
    for value in (b"value-of-SOME_API_KEY", b"from-the-env", b"Bearer abcdefgh", b"sk-stored-key"):
        assert value in found
    assert not {b"value-of-PLAIN", b"from-nowhere", b"x"} & set(found)


def test_those_of_a_project_are_found_too(yarp_home, monkeypatch, tmp_path):
    (tmp_path / "gptme.toml").write_text(
        '[env]\nMY_API_KEY = "of-the-project"\n[[mcp.servers]]\nname = "a"\n'
        '[mcp.servers.env]\nX_TOKEN = "of-its-server"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert {b"of-the-project", b"of-its-server"} <= set(secrets.credentials())


def test_a_label_is_one_short_line_without_secrets(yarp_home, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "value-of-the-key")
    assert secrets.clean("curl -H value-of-the-key\n  x") == "curl -H [REDACTED] x"
    assert len(secrets.clean("y" * 5000)) == 200
