"""The words of texts, and those that a needle asks for: what the text index is made of.

A word is a longest run of ASCII letters, digits, `_` and all characters beyond ASCII. A needle
stands in a text only if its own words do, each as a whole word, or as the end, the beginning or
the inside of one. Source: spec Dataset ("an exact index of at most 25 % of the text").
"""

from __future__ import annotations

import re
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


def tables(texts: Sequence[bytes], first: int) -> tuple[pa.Table, pa.Table]:
    """The words of blanked texts: (code, word) once for each, and (code, text) for each place.

    `first` is the number of the first text; one without a word has the empty one. Made without
    holding the interpreter's lock: sets of Python's take half as long again.
    """
    # The other pools keep what a thread gave back: a tenth of an import's memory.
    pool = pa.system_memory_pool()
    blanked_texts = pa.array(texts, pa.string(), memory_pool=pool)
    split = compute.ascii_split_whitespace(blanked_texts, memory_pool=pool)
    coded = compute.dictionary_encode(split.values, memory_pool=pool)
    parents = compute.list_parent_indices(split, memory_pool=pool)
    numbers = compute.add(parents, first, memory_pool=pool).cast(pa.uint32())
    words = coded.dictionary
    codes = pa.array(range(len(words)), pa.int32())
    return (
        pa.table({"code": codes, "word": words}),
        pa.table({"code": coded.indices, "text": numbers}),
    )
