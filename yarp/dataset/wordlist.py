"""The words of a text index, asked for the calls that they stand in: in its file, or in memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import reduce
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
from pyarrow import compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from yarp.dataset.words import Part

_WORD = "chr(10) || word"
# Where so many places lie in less than this share of all words, to tell the word of each takes
# longer than to look into every word.
_MANY_PLACES = 1024
_MANY_SHARE = 16
# Most often the next place is in one of so many words.
_NEXT_WORDS = 512


@attrs.frozen
class Narrowed:
    """Keys of calls (`call_key`): those that hold a needle, and those that have to be read."""

    certain: pa.Table
    unsure: pa.Table


class FiledWords:
    """The words where they lie: each needle is a look at all of them."""

    def __init__(self, index: DuckDBPyConnection) -> None:
        self._index = index

    def calls(self, parts: Sequence[Part], *, ignore_case: bool) -> pa.Table:
        """The keys of the calls with a text that has a word for each of these parts."""
        queries, values = [], []
        for part in parts:
            # Lowered by the database, as texts are: Python makes two characters of some.
            word, given = ("lower(word)", "lower(?)") if ignore_case else ("word", "?")
            if part.begins and part.ends:
                condition = f"{word} = {given}"
            elif part.begins or part.ends:
                condition = f"{'starts' if part.begins else 'ends'}_with({word}, {given})"
            else:
                condition = f"contains({word}, {given})"
            queries.append(f"(SELECT DISTINCT unnest(texts) AS text FROM words WHERE {condition})")
            values.append(part.word)
        return self._index.sql(
            "SELECT DISTINCT call_key FROM texts SEMI JOIN "
            f"({' INTERSECT '.join(queries)}) USING (text)",
            params=values,
        ).to_arrow_table()


class HeldWords:
    """The words in memory, with the texts that they stand in and the calls of those.

    Each stands behind a newline, which no word holds: what is found among them all never reaches
    from one into the next.
    """

    def __init__(self, index: DuckDBPyConnection) -> None:
        self._index = index
        words = index.sql(f"SELECT {_WORD} AS word, texts FROM words").to_arrow_table()
        texts = index.sql("SELECT text, call_key FROM texts").to_arrow_table()
        self._words = {False: _whole(words["word"])}
        self._lists = _whole(words["texts"])
        self._texts = _whole(texts["text"])
        self._call_keys = _whole(texts["call_key"])

    def calls(self, parts: Sequence[Part], *, ignore_case: bool) -> pa.Table:
        """The keys of the calls with a text that has a word for each of these parts."""
        if ignore_case and True not in self._words:
            # By the database as texts are, and in the order of the others.
            lowered = self._index.sql(f"SELECT lower({_WORD}) AS word FROM words").to_arrow_table()
            self._words[True] = _whole(lowered["word"])
        found = reduce(_both, [self._texts_with(part, lowered=ignore_case) for part in parts])
        keys = self._call_keys.filter(compute.is_in(self._texts, value_set=found))
        return pa.table({"call_key": compute.unique(keys)})

    def _texts_with(self, part: Part, *, lowered: bool) -> pa.Array:
        """The numbers of the texts with a word for a part, which is lowered if the words are."""
        rows = _rows(self._words[lowered], self._lowered(part.word) if lowered else part.word, part)
        return compute.unique(compute.list_flatten(self._lists.take(rows)))

    def _lowered(self, word: str) -> str:
        return str(self._index.execute("SELECT lower(?)", [word]).fetchall()[0][0])


def _rows(words: pa.Array, word: str, part: Part) -> pa.Array:
    if part.begins and part.ends:
        holding = compute.equal(words, f"\n{word}")
    elif part.begins:
        holding = compute.starts_with(words, f"\n{word}")
    elif part.ends:
        holding = compute.ends_with(words, word)
    else:
        places = _places(words, word.encode())
        if places is not None:
            return pa.array(places, pa.int64())
        holding = compute.match_substring(words, word)
    return compute.indices_nonzero(holding)


def _places(words: pa.Array, word: bytes) -> list[int] | None:
    """The rows of the words that hold this, found among them all at once; None: too many."""
    _, starts, letters = words.buffers()
    if letters is None:  # there are no words
        return []
    begins, row = memoryview(starts).cast("i"), 0
    rows: list[int] = []
    for found in re.finditer(re.escape(word) + rb"[^\n]*", memoryview(letters)):
        place = found.start()
        if len(rows) == _MANY_PLACES and place * _MANY_SHARE < letters.size:
            return None
        end = row + _NEXT_WORDS
        if end > len(words) or begins[end] <= place:
            end = len(words)
        row = bisect_right(begins, place, row, end) - 1
        rows.append(row)
    return rows


def _both(some: pa.Array, others: pa.Array) -> pa.Array:
    return some.filter(compute.is_in(some, value_set=others))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array that begins at the start of its buffers."""
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])
