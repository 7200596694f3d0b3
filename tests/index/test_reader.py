from __future__ import annotations

import pytest

from yarp.index.facts import Item, Link
from yarp.index.reader import Injected, TraceReader, classify_injected, occurred_at

TABLE = (
    Injected("prefix", "Approved ", "runtime.instructions", "permission"),
    Injected("tag", "environment_context", "runtime.context", "environment"),
    Injected("tag", "/image", "runtime.context"),
    Injected("header", "## Memory", "runtime.context", "memory"),
)


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("\n ## Memory\nx", "## Memory"),
        ("<environment_context>\n<cwd>", "environment_context"),
        ('<environment_context kind="x">', "environment_context"),
        ("</image>", "/image"),
        ("Approved rule: ls", "Approved "),
    ],
)
def test_a_text_of_the_runtime_is_known_by_its_marker(text, marker):
    assert classify_injected(text, TABLE).marker == marker


@pytest.mark.parametrize("text", ["", "hello", "<3 is a heart", "< b>", "<environment_context"])
def test_a_text_without_marker_is_nobodys(text):
    assert classify_injected(text, TABLE) is None


def test_a_tag_that_nobody_declared_is_unknown():
    assert classify_injected("<novel_tag>", TABLE) == Injected(
        "tag", "novel_tag", "runtime.unknown"
    )


def test_a_plain_set_of_shell_tools_means_the_key_command():
    reader = TraceReader("acme", options=[], detect=bool, project=print, shell_tools={"sh"})
    assert reader.shell_tools == {"sh": "command"}
    assert reader.injected == ()


def test_a_record_without_a_time_of_its_own_has_none():
    assert occurred_at({"timestamp": "2026-01-02T03:04:05.678Z"}) == 1767323045678
    assert occurred_at({"timestamp": "2026-01-02T03:04:05"}) is None
    assert occurred_at({"timestamp": True}) is None
    assert occurred_at(["timestamp"]) is None


def test_a_link_names_one_session_in_one_way():
    with pytest.raises(ValueError, match="native_id or by locator"):
        Link(1)


def test_the_representation_of_a_fact_shows_no_content():
    assert "hunter2" not in repr(Item("k", "human.request", 1, text="hunter2"))
