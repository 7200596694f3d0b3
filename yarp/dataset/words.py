"""The words of texts, and those that a needle asks for: what the text index is made of.

A word is a longest run of ASCII letters, digits, `_` and all characters beyond ASCII. A needle
stands in a text only if its own words do, each as a whole word, or as the end, the beginning or
the inside of one. Source: spec Dataset ("an exact index of at most 25 % of the text").
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
from pyarrow import compute

if TYPE_CHECKING:
    from collections.abc import Sequence

# Longer ones (Base64, minified code) are not listed; a text with one is always looked into.
LONGEST_WORD_BYTES = 128
_WORD = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff]+")
_BLANKED = bytes(
    byte if byte >= 0x80 or chr(byte).isalnum() or byte == ord("_") else ord(" ")
    for byte in range(256)
)


@attrs.frozen
class Part:
    """A word of a needle, and whether it must begin and end where a word of the text does."""

    word: str
    begins: bool
    ends: bool


def parts(needle: str) -> list[Part]:
    """The words of a needle in their order; none for one of separators alone."""
    return [
        Part(found[0], found.start() > 0, found.end() < len(needle))
        for found in _WORD.finditer(needle)
    ]


def blanked(text: bytes) -> bytes:
    """The text with a blank in place of every byte that belongs to no word."""
    return text.translate(_BLANKED)


def listed(texts: Sequence[bytes], first: int) -> tuple[pa.Table, set[int]]:
    """The words of blanked texts, and the numbers of those that have one too long to be listed.

    The table has each `word` once, and in `texts` the numbers of the texts that it stands in,
    ascending; `first` is that of the first text. Made of whole columns, which leaves the
    interpreter to others: sets of Python's take twice as long, and so does DuckDB.
    """
    # The other pools keep what a thread gave back: a tenth of an import's memory.
    pool = pa.system_memory_pool()
    run = partial(compute.call_function, memory_pool=pool)
    split = run("ascii_split_whitespace", [pa.array(texts, pa.string(), memory_pool=pool)])
    coded = run("dictionary_encode", [split.values])
    # A word in a text is one number. Each is kept once; sorted, they are all lists end to end.
    count = len(texts)
    kind = pa.uint32() if len(coded.dictionary) * count < 1 << 32 else pa.uint64()
    size = pa.scalar(count, kind)
    codes = coded.indices.cast(kind, memory_pool=pool)
    parents = run("list_parent_indices", [split]).cast(kind, memory_pool=pool)
    del split
    places = run("add", [run("multiply", [codes, size]), parents])
    del codes, parents
    places = run("unique", [places])
    places = run("take", [places, run("array_sort_indices", [places])])
    codes = run("divide", [places, size])
    numbers = run("subtract", [places, run("multiply", [codes, size])])
    numbers = run(
        "add", [numbers.cast(pa.uint32(), memory_pool=pool), pa.scalar(first, pa.uint32())]
    )
    ends = run("run_end_encode", [codes]).run_ends
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends], memory_pool=pool)
    lists = pa.ListArray.from_arrays(starts, numbers)
    table = pa.table({"word": coded.dictionary, "texts": lists})
    lengths = run("binary_length", [coded.dictionary])
    too_long = run("greater", [lengths, LONGEST_WORD_BYTES])
    left_out = run("or", [too_long, run("equal", [lengths, 0])])
    long_places = run("list_flatten", [run("filter", [lists, too_long])])
    return table.filter(run("invert", [left_out])), set(long_places.to_pylist())
