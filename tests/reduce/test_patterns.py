import importlib
import pathlib
import re

import pytest

from yarp.reduce.families import patterns

FOLDER = pathlib.Path(patterns.__file__).parent
MODULES = [
    "yarp.reduce.families." + ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("[a-z]*.py"))
]


def late(module):
    """Every pattern of a module and of its classes."""
    for value in vars(module).values():
        own = vars(value).values() if isinstance(value, type) else ()
        for each in (value, *own):
            if type(each) is type(patterns.pattern_of(b"")):
                yield each


def test_a_pattern_is_compiled_when_it_is_used_and_then_is_as_fast_as_another():
    pattern = patterns.pattern_of(rb"(a+)b")
    assert not hasattr(type(pattern).match, "__self__")
    assert pattern.pattern == rb"(a+)b"
    assert pattern.search(b"caab")[1] == b"aa"
    assert pattern.match.__self__ is pattern.sub.__self__ is re.compile(rb"(a+)b")
    with pytest.raises(AttributeError):
        _ = pattern.flags


@pytest.mark.parametrize("name", MODULES)
def test_every_pattern_of_a_family_compiles(name):
    for pattern in late(importlib.import_module(name)):
        assert pattern.fullmatch is not None


def test_the_patterns_are_found():
    assert len(list(late(importlib.import_module("yarp.reduce.families.table")))) > 15
