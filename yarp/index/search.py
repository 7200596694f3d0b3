"""Candidates for a literal text: the trigrams that the search index is asked for.

The index is without positions and contents, so a query is single trigrams, all of which must
be there; whoever asks checks the candidates against `blobs.text`. Source: seed 002, "Text
retrieval"; spec "Trace index", 5.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


def searchable(text: str) -> str:
    """The text as it is indexed and asked for: the tokenizer stops at a NUL."""
    return text.replace("\0", "\ufffd")


def trigram_query(literal: object) -> str:
    """The MATCH operand that finds every item whose text holds `literal`, and some others.

    Raises ValueError for less than three characters.
    """
    if not isinstance(literal, str) or len(literal) < 3:
        raise ValueError(
            "trigram_query takes a text in quotes, of at least 3 characters; narrow by role, "
            "session or time instead, and use instr(blobs.text, ...)"
        )
    literal = searchable(literal)
    grams = dict.fromkeys(literal[at : at + 3] for at in range(len(literal) - 2))
    return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in grams)


def register(connection: sqlite3.Connection) -> None:
    """Make `trigram_query` a function of the connection's SQL."""
    connection.create_function("trigram_query", 1, trigram_query, deterministic=True)
