from __future__ import annotations

import pytest

from yarp import types
from yarp.types import Band, CallStarted, Decision, Health, Host, Reducer


def test_a_plain_set_of_shell_tools_means_the_key_command():
    assert Host("acme", shell_tools={"sh"}).shell_tools == {"sh": "command"}
    assert Host("acme", shell_tools={"sh": "cmd"}).shell_tools == {"sh": "cmd"}


def test_values_are_equal_by_content_and_hashable():
    one = CallStarted("s", "c", "sh", {"command": "ls"})
    assert one == CallStarted("s", "c", "sh", {"command": "ls"})
    assert one != CallStarted("s", "c", "sh", {"command": "ls -l"})
    assert one != Decision()
    assert hash(one) == hash(CallStarted("s", "c", "sh", {}))


def test_a_representation_never_shows_an_input():
    assert "hunter2" not in repr(CallStarted("s", "c", "sh", {"command": "login hunter2"}))


def test_every_value_can_be_shown_before_it_is_in_a_message():
    for name, kind in vars(types).items():
        if isinstance(kind, type) and issubclass(kind, types.Value) and kind is not types.Value:
            assert kind._shown in kind.__slots__, name


@pytest.mark.parametrize("serves", [(), None])
def test_a_reducer_outside_the_fallback_band_names_what_it_serves(serves):
    with pytest.raises(ValueError, match="name what they serve"):
        Reducer("r", band=Band.FAMILY, serves=serves or (), make=print)


def test_a_reducer_takes_a_band_and_no_other_number():
    with pytest.raises(ValueError, match=r"Band\.EXACT"):
        Reducer("r", band=7, make=print)


def test_what_is_unknown_is_none():
    health = Health()
    assert (health.installed, health.hooked_in, health.version) == (None, None, None)
