"""Whether a script of code mode only shows what its commands print, or reads it.

A short answer is for the model. A program that parses an output, compares it or makes the next
command of it needs the output as it is. So a script counts as one that only shows if every name
in it is known to do no more, and outputs stand inside `text(…)` alone.
"""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# What may be asked of the results of commands, of lists of them, and of promises of them.
# fmt: off
_MEMBERS = frozenset((
    "all", "allSettled", "catch", "chunk_id", "concat", "exit_code", "finally", "forEach", "join",
    "length", "map", "original_token_count", "output", "push", "reason", "session_id", "slice",
    "status", "stringify", "then", "toString", "trim", "trimEnd", "trimStart", "value",
    "wall_time_seconds",
))
_CALLED = frozenset((
    "text", "Promise", "String", "if", "for", "while", "switch", "catch", "function", "async",
    "await", "of",
))
_WORDS = frozenset((
    "const", "let", "var", "await", "async", "return", "of", "in", "if", "else", "for", "while",
    "do", "switch", "case", "default", "break", "continue", "new", "try", "catch", "finally",
    "throw", "function", "true", "false", "null", "undefined", "typeof", "yield",
))
_DECIDES = frozenset((
    "==", "===", "!=", "!==", "<", ">", "<=", ">=", "?", "%", "-", "*", "length",
))
_LONG_SIGNS = _DECIDES | {"?.", "??", "...", "=>", "||", "&&"}
# fmt: on
_OPEN, _CLOSED = frozenset("([{"), frozenset(")]}")


def only_shows(source: str) -> bool:
    """Whether no output of a command decides anything in this script; False where unsure."""
    try:
        words = list(_words(source))
    except ValueError:
        return False
    local = _declared(words)
    # The depths at which a `text(` is open, and a call of a tool.
    shown: list[int] = []
    fed: list[int] = []
    depth = 0
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        behind = words[place + 1] if place + 1 < len(words) else ""
        if word in _CLOSED:
            depth -= 1
            for depths in (shown, fed):
                if depths and depths[-1] == depth:
                    depths.pop()
        elif word in _OPEN:
            if word == "(" and before == "text":
                shown.append(depth)
            elif word == "(" and words[max(0, place - 3) : place - 1] == ["tools", "."]:
                fed.append(depth)
            depth += 1
            indexed = (_is_name(before) and before not in _WORDS) or before in _CLOSED
            if word == "[" and indexed and not behind.isdigit():
                return False  # a member by a name that is not written out
        elif shown and not fed and word in _DECIDES:
            return False
        elif _is_name(word):
            if word == "output" and (fed or not shown):
                return False
            if before in (".", "?."):
                if word not in _MEMBERS and words[max(0, place - 2)] != "tools":
                    return False
            elif behind == "(" and word not in _CALLED and word not in local:
                return False
    return True


def _declared(words: list[str]) -> set[str]:
    """The names that the script itself gives to something."""
    return {
        name
        for word, name in pairwise(words)
        if word in ("const", "let", "var", "function") and _is_name(name)
    }


def _is_name(word: str) -> bool:
    return word[:1].isidentifier() or word[:1] == "$"


def _words(source: str) -> Iterator[str]:
    """Names, numbers and signs; of text in quotes, the quotes, and what is put into it.

    ValueError: a text without end, or what may be a pattern.
    """
    place, end = 0, len(source)
    while place < end:
        sign = source[place]
        if sign.isspace():
            place += 1
        elif source.startswith("//", place):
            place = source.find("\n", place) if "\n" in source[place:] else end
        elif source.startswith("/*", place):
            place = source.index("*/", place) + 2
        elif sign in "'\"":
            place = _quoted(source, place)
            yield '"'
        elif sign == "`":
            place = yield from _template(source, place)
        elif sign == "/":
            raise ValueError
        elif sign.isidentifier() or sign in "$0123456789":
            start = place
            while place < end and (source[place].isalnum() or source[place] in "_$"):
                place += 1
            yield source[start:place]
        else:
            for length in (3, 2):
                if source[place : place + length] in _DECIDES | {
                    "?.",
                    "??",
                    "...",
                    "=>",
                    "||",
                    "&&",
                }:
                    break
            else:
                length = 1
            yield source[place : place + length]
            place += length


def _quoted(source: str, place: int) -> int:
    quote = source[place]
    place += 1
    while source[place : place + 1] != quote:
        if place >= len(source) or source[place] == "\n":
            raise ValueError
        place += 2 if source[place] == "\\" else 1
    return place + 1


def _template(source: str, place: int) -> Generator[str, None, int]:
    """The words of what a text in backquotes is put together of; the place behind it."""
    place += 1
    yield '"'
    while source[place : place + 1] != "`":
        if place >= len(source):
            raise ValueError
        if source.startswith("${", place):
            depth, start = 1, place + 2
            place = start
            while depth:
                if place >= len(source) or source[place] in "`'\"":
                    raise ValueError  # a text within: nobody writes that to show an output
                depth += {"{": 1, "}": -1}.get(source[place], 0)
                place += 1
            yield "("
            yield from _words(source[start : place - 1])
            yield ")"
        else:
            place += 2 if source[place] == "\\" else 1
    return place + 1
