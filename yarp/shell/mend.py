"""Stand-ins, of the same length, for what the grammar cannot read.

The tree of the stand-in is right for the text, and whoever reads words by their place in the
text sees nothing of it. Quotes are not looked at: what stands in them is no operator to the
grammar either.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# A variable for a descriptor, as in `exec {log}> file`, and a number before `<<<`.
_DESCRIPTOR = re.compile(rb"(?<![^\s;|&(])(?:\{[A-Za-z_]\w*\}(?=[<>])|\d+(?=<<<))")
# Words before a group, where a command begins.
_BEFORE_GROUP = re.compile(
    rb"(?:^|[;&|(\n]|\{\s|(?<!\S)(?:if|then|elif|else|while|until|do|!)\s)[ \t]*"
    rb"((?:time(?:[ \t]+-p)?|coproc(?:[ \t]+[A-Za-z_]\w*)?)(?=[ \t]+(?:[!{][ \t\n]|\()))"
)
_BOTH_WAYS = re.compile(rb"(?<![<>&])<>(?![(>])")
_HEREDOC = re.compile(rb"(?<![<\w])(\d*)(<<-?)(?!<)[ \t]*('[^'\n]+'|\"[^\"\n]+\"|\\?[\w.]+)")


class Extra:
    """A here-document that the stand-in does without."""

    __slots__ = ("end", "operator", "source_fd", "start", "target")

    def __init__(self, found: re.Match[bytes], offset: int) -> None:
        self.start, self.end = found.start() + offset, found.end() + offset
        parts = (part.decode("utf-8", "replace") for part in found.groups())
        self.source_fd, self.operator, self.target = parts


def without_prefixes(source: bytes) -> tuple[bytes, dict[int, bytes]]:
    """The text without the words before groups, and without descriptors that are no numbers.

    The grammar takes both for words of commands. The descriptors by where each ends.
    """
    text = bytearray(source)
    descriptors = {}
    if b"time" in source or b"coproc" in source:
        for found in _BEFORE_GROUP.finditer(source):
            _blank(text, *found.span(1))
    for found in _DESCRIPTOR.finditer(source):
        descriptors[found.end()] = found[0]
        _blank(text, *found.span())
    return bytes(text), descriptors


def readable(source: bytes) -> tuple[bytes, list[Extra], bool]:
    """A stand-in for a text in which the grammar finds an error, which it may read.

    It has no here-documents, since the grammar knows one a line, and nothing but `&&`, `||` and
    `|` behind it. Those that were there; and whether no command stands in them.
    """
    text = bytearray(_BOTH_WAYS.sub(b">>", source).replace(b"<<<", b"  <"))
    extras: list[Extra] = []
    whole = True
    at = 0
    while at < len(source):
        start = at
        at = source.find(b"\n", start) + 1 or len(source)
        line = source[start:at]
        found = list(_HEREDOC.finditer(line)) if b"<<" in line else []
        if not found:
            continue
        bodies = list(_bodies(source, at, found))
        if len(bodies) < len(found):
            continue  # the last text has no end
        at = bodies[-1][1]
        for one, (begin, end) in zip(found, bodies, strict=True):
            extras.append(Extra(one, start))
            _blank(text, start + one.start(), start + one.end())
            _blank(text, begin, end)
            body = source[begin:end]
            whole &= one[3][:1] in b"'\"\\" or not (b"$(" in body or b"`" in body)
    return bytes(text), extras, whole


def _bodies(source: bytes, at: int, heredocs: list[re.Match[bytes]]) -> Iterator[tuple[int, int]]:
    """Where the text of each here-document stands that is ended, its last line included."""
    for heredoc in heredocs:
        begin = at
        ends = heredoc[3].strip(b"'\"\\")
        while at < len(source):
            start = at
            at = source.find(b"\n", start) + 1 or len(source)
            line = source[start:at].rstrip(b"\n")
            if (line.lstrip(b"\t") if heredoc[2] == b"<<-" else line) == ends:
                yield begin, at
                break
        else:
            return


def _blank(text: bytearray, start: int, end: int) -> None:
    """Put blanks there, but for the ends of lines."""
    text[start:end] = re.sub(rb"[^\n]", b" ", bytes(text[start:end]))
