"""ReducerSuite: what the reducers of a plugin must hold to.

from yarp.testing.reducer import ReducerSuite, Sample

class TestAcmeReducers(ReducerSuite):
plugin = "acme"

@pytest.fixture
def samples(self):
return [Sample(("acme", "test"), stdout=b"...", exit_code=1, keep=(b"FAILED",))]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from yarp.reduce.families.base import Piece, Status
from yarp.testing.light import HEAVY, loaded_by
from yarp.testing.suite import PluginSuite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugins import Plugins
    from yarp.types import Reducer

# What the pattern of a reducer may need: it is loaded for the commands it serves.
_OF_RE = frozenset({"collections", "enum", "functools", "re"})


@attrs.frozen
class Sample:
    """A command's output, and what its summary must say."""

    argv: tuple[str, ...]
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    keep: tuple[bytes, ...] = ()


class ReducerSuite(PluginSuite):
    """Inherit it as `Test<Name>`, set `plugin`, give `samples`.

    A plugin without reducers is skipped by name.
    """

    @pytest.fixture
    def samples(self) -> list[Sample]:
        """Outputs that the reducers are for."""
        raise NotImplementedError(
            "give a fixture `samples`: a list of `Sample`s of output that the reducers are for"
        )

    @pytest.fixture
    def reducers(self, loaded: Plugins) -> list[Reducer]:
        """What the plugin declares."""
        declared = [reducer for _, reducer in loaded.reducers()]
        assert not loaded.problems, loaded.problems
        if not declared:
            pytest.skip(f"{self.plugin} declares no reducers")
        return declared

    def test_their_names_differ(self, reducers: list[Reducer]) -> None:
        """The name decides the order within a band."""
        names = [reducer.name for reducer in reducers]
        assert len(set(names)) == len(names)

    def test_importing_them_stays_light(self, reducers: list[Reducer]) -> None:
        """A reducer runs inside a tool call; patterns are the most it may load."""
        for module in {reducer.make.__module__ for reducer in reducers}:
            assert not (loaded_by(f"import {module}") & HEAVY) - _OF_RE, module

    def test_each_sample_is_reduced_and_keeps_its_facts(
        self, reducers: list[Reducer], samples: list[Sample]
    ) -> None:
        """By one reducer at least: samples that all decline prove nothing."""
        assert samples, "the list of samples is empty"
        for sample in samples:
            answers = [_reduce(reducer, sample) for reducer in reducers]
            texts = [_text(pieces) for pieces in answers if pieces is not None]
            assert texts, f"{sample.argv}: every reducer declined"
            for fact in sample.keep:
                assert all(fact in text for text in texts), f"{sample.argv}: {fact!r} is lost"

    def test_a_reducer_declines_or_shrinks(
        self, reducers: list[Reducer], samples: list[Sample]
    ) -> None:
        """The engine would refuse a longer summary; a reducer should not make one."""
        for reducer, sample, pieces in _reduced(reducers, samples):
            whole = len(sample.stdout) + len(sample.stderr)
            assert len(_text(pieces)) < whole, f"{reducer.name}: {sample.argv}"

    def test_the_same_stream_in_other_blocks_gives_the_same(
        self, reducers: list[Reducer], samples: list[Sample]
    ) -> None:
        """How a pipe cuts the stream means nothing."""
        for reducer, sample, pieces in _reduced(reducers, samples):
            again = _reduce(reducer, sample, line_by_line=True)
            assert again is not None
            assert _text(again) == _text(pieces), f"{reducer.name}: {sample.argv}"

    def test_pieces_are_text_and_count_no_line_twice(
        self, reducers: list[Reducer], samples: list[Sample]
    ) -> None:
        """Valid UTF-8, a known stream, a worth from 0 to 9, no more lines than there are."""
        for reducer, sample, pieces in _reduced(reducers, samples):
            for piece in pieces:
                piece.text.decode()
                assert piece.stream in (0, 1), reducer.name
                assert 0 <= piece.worth <= 9, reducer.name
            for stream, data in enumerate((sample.stdout, sample.stderr)):
                counted = sum(piece.lines for piece in pieces if piece.stream == stream)
                assert counted <= len(data.splitlines()), f"{reducer.name}: {sample.argv}"


def _reduced(
    reducers: list[Reducer], samples: list[Sample]
) -> Iterator[tuple[Reducer, Sample, list[Piece]]]:
    for reducer in reducers:
        for sample in samples:
            pieces = _reduce(reducer, sample)
            if pieces is not None:
                yield reducer, sample, pieces


def _reduce(reducer: Reducer, sample: Sample, *, line_by_line: bool = False) -> list[Piece] | None:
    family = reducer.make(sample.argv, {})
    for stream, data in enumerate((sample.stdout, sample.stderr)):
        for block in data.splitlines(keepends=True) if line_by_line else [data]:
            if block:
                family.feed(stream, block)
    pieces: list[Piece] | None = family.finish(Status(sample.exit_code))
    return pieces


def _text(pieces: list[Piece]) -> bytes:
    return b"\n".join(piece.text for piece in pieces)
