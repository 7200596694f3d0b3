"""ReducerSuite: what the reducers of a plugin must hold to.

from yarp.testing.reducer import ReducerSuite, Sample

class TestAcmeReducers(ReducerSuite):
plugin = "acme"

@pytest.fixture
def samples(self):
return [Sample(("acme", "test"), stdout=b"...", exit_code=1, keep=(b"FAILED",))]

A sample's command must select a rule that the reducers serve, of the core or of the plugin's own
packs: a reducer that no command meets is never asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from yarp.cache import resolve
from yarp.plugins import reference
from yarp.reduce.engine import Reduction, Summary
from yarp.reduce.families.base import Piece, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules, load_pack
from yarp.reduce.rules.match import Selection, select
from yarp.settings import Settings
from yarp.testing.light import HEAVY, loaded_by
from yarp.testing.suite import PluginSuite
from yarp.types import Band

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.plugins import Plugins
    from yarp.types import Reducer

_REFERENCE = "yr_" + "0" * 32
# What a program may print at any time: nothing a summary could be made of.
_ODD = (b"", b"\n" * 500, b"\xff\x00\xfe\n" * 500, "日本語 😀\n".encode() * 500, b"x" * 4096)
# What the pattern of a reducer may need: it is loaded for the commands it serves.
_OF_RE = frozenset({"collections", "enum", "functools", "re"})


def feed_in_blocks(family: Any, *streams: bytes, block_bytes: int) -> None:
    """Feed the streams as whole lines, in blocks of `block_bytes` or one longer line."""
    for stream, data in enumerate(streams):
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + block_bytes) + 1
            end = end or data.find(b"\n", start) + 1 or len(data)
            family.feed(stream, data[start:end])
            start = end


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

    @pytest.fixture
    def rules(self, loaded: Plugins) -> dict[str, Any]:
        """The rules of the core and of the plugin's own packs."""
        own = [load_pack(pack.directory, pack.name) for _, pack in loaded.rule_packs()]
        return compile_rules([builtin_pack(), *own])

    def test_their_names_differ(self, reducers: list[Reducer]) -> None:
        """The name decides the order within a band."""
        names = [reducer.name for reducer in reducers]
        assert len(set(names)) == len(names)

    def test_importing_them_stays_light(self, reducers: list[Reducer]) -> None:
        """A reducer runs inside a tool call; patterns are the most it may load."""
        for reducer in reducers:
            assert resolve(reference(reducer.make)) is reducer.make, reducer.name
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

    def test_each_sample_meets_a_reducer_and_keeps_its_facts_within_the_budget(
        self, reducers: list[Reducer], samples: list[Sample], rules: dict[str, Any]
    ) -> None:
        """As in a call: the engine asks those that serve the rule, and cuts to the budget."""
        for sample in samples:
            selection = select(list(sample.argv), rules)
            assert selection is not None, f"{sample.argv} selects no rule"
            serving = [one for one in reducers if _serves(one, selection)]
            assert serving, f"{sample.argv} selects {selection.rule}, which no reducer serves"
            summary = _summary(serving, selection, sample)
            assert summary.fault is None, summary.fault
            if not summary.changed:
                continue
            shown = summary.stdout + summary.stderr
            shown.decode()
            budget = {"success_bytes": 1024, "failure_bytes": 4096, **selection.options}
            assert len(shown) <= budget["failure_bytes" if sample.exit_code else "success_bytes"]
            assert _REFERENCE.encode() in shown, f"{sample.argv}: no way back"
            for fact in sample.keep:
                assert fact in shown, f"{sample.argv}: {fact!r} is lost within the budget"
            assert _summary(serving, selection, sample, step=997).stdout == summary.stdout

    def test_odd_output_raises_nothing(
        self, reducers: list[Reducer], samples: list[Sample]
    ) -> None:
        """A reducer that does not understand declines; an exception costs the summary."""
        for reducer in reducers:
            for sample in samples:
                for odd in _ODD:
                    for exit_code in (0, 1):
                        strange = Sample(sample.argv, odd, odd, exit_code)
                        for piece in _reduce(reducer, strange) or ():
                            piece.text.decode()

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
                assert counted <= len(_lines(data)), f"{reducer.name}: {sample.argv}"


def _serves(reducer: Reducer, selection: Selection) -> bool:
    wanted = {
        Band.EXACT: {selection.rule, f"{selection.pack}/{selection.rule}"},
        Band.FAMILY: {selection.family},
    }.get(reducer.band, set())
    return reducer.band == Band.FALLBACK or not wanted.isdisjoint(reducer.serves)


def _summary(
    reducers: list[Reducer], selection: Selection, sample: Sample, step: int = 1 << 20
) -> Summary:
    makers = [(reducer.name, reducer.make) for reducer in reducers]
    reduction = Reduction(selection, Settings(), lambda _: makers)
    for stream, data in enumerate((sample.stdout, sample.stderr)):
        for at in range(0, len(data), step):
            reduction.feed(stream, data[at : at + step])
    return reduction.finish(Status(sample.exit_code), Recovery(_REFERENCE))


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
        for block in _lines(data) if line_by_line else [data]:
            if block:
                family.feed(stream, block)
    pieces: list[Piece] | None = family.finish(Status(sample.exit_code))
    return pieces


def _lines(data: bytes) -> list[bytes]:
    """The lines with their newlines: what `splitlines` does, but a line ends nowhere else."""
    *lines, last = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _text(pieces: list[Piece]) -> bytes:
    return b"\n".join(piece.text for piece in pieces)
