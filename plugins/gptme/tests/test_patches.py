from __future__ import annotations

import sys
import types

import pytest

from yarp_gptme.patches import Mismatch, Patches, Target, shape


@pytest.fixture
def host(monkeypatch):
    module = types.ModuleType("made_up_host")

    def save(content, logdir, kind="tool", *, now=None):
        return f"{kind}:{content}"

    class Job:
        def append(self, data: bytes) -> None:
            self.data = data

    module.save, module.Job = save, Job
    monkeypatch.setitem(sys.modules, "made_up_host", module)
    return module


def test_the_shape_tells_names_kinds_and_what_may_be_left_out(host):
    assert shape(host.save) == "content, logdir, kind=, *now="
    assert shape(host.Job.append) == "self, data"


def test_a_wrapped_function_is_put_back_as_it_was(host):
    before, method = host.save, host.Job.append
    patches = Patches()
    shout = lambda inner: lambda *a, **k: inner(*a, **k).upper()  # noqa: E731
    patches.wrap([(Target("made_up_host:save", "content, logdir, kind=, *now="), shout)])
    patches.wrap([(Target("made_up_host:Job.append", "self, data"), lambda inner: lambda *a: None)])
    assert host.save("x", None) == "TOOL:X"
    patches.restore()
    assert (host.save, host.Job.append) == (before, method)


@pytest.mark.parametrize(
    ("place", "parameters", "reason"),
    [
        ("made_up_host:save", "content", "takes"),
        ("made_up_host:gone", "content", "is not there"),
        ("no_such_module:save", "content", "is not there"),
        ("made_up_host:Job.gone", "self", "is not there"),
    ],
)
def test_a_function_of_another_shape_leaves_all_of_its_offer_alone(host, place, parameters, reason):
    before = host.Job.append
    good = Target("made_up_host:Job.append", "self, data")
    with pytest.raises(Mismatch, match=reason):
        Patches().wrap(
            [(good, lambda inner: None), (Target(place, parameters), lambda inner: None)]
        )
    assert host.Job.append is before
