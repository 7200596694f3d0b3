"""The global cap: the last limit on what a model is shown of one result, typed or not.

Source: seed 000, Write lifecycle; spec Reduction, "Order of things", 4.
"""

from yarp.reduce import marker
from yarp.reduce.blocks import boundary

_GAP = b"[...]\n"
_HIT_BYTES = 400
_HITS = 64
# A range for one look; a model that wants more asks for more.
_READ_BYTES = 16 * 1024
_READ_LINES = 200
# `yarp search` shows this many results of a source unless told otherwise.
_DEFAULT_RESULTS = 20
# What a line of trouble says, in the languages that compilers and runtimes speak.
_TROUBLE = (
    rb"(?i:error|fail(?:ed|ure)|exception|traceback|panic|fatal|warning|denied|not found|cannot"
    rb"|fehler|erreur|\xe9\x94\x99\xe8\xaf\xaf|\xe5\xa4\xb1\xe8\xb4\xa5"  # Chinese: error, failed
    rb"|\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc|\xe5\xa4\xb1\xe6\x95\x97)"  # Japanese: error, failed
)
# How a tool says what came of it, with the number of what went wrong or was done.
_OUTCOME = (
    rb"(?i)\b[0-9]+ (passed|failed|failures?|errors?|warnings?|problems?|issues?|vulnerabilities)\b"
)
# Of these lines, so many of the first and of the last.
_FEW = 4


def cap(
    text: str,
    budget: int,
    archive_ref: str | None,
    source: str = "result_text",
    completeness: str = "complete",
    *,
    exact: bool = True,
) -> str:
    """The text itself if its UTF-8 fits `budget` bytes, else what says most about it within them.

    Kept are the beginning, the end, and lines between that speak of trouble, at line boundaries
    where lines are short enough. The marker is the last line and counts; it names the reference
    (None: not archived), what recovery calls the source, how complete that is ('complete',
    'incomplete', 'unknown'), and how to find what is missing. Cuts fall between code points. With
    `exact` False the text is not what that source holds (two streams in one, a summary), so that
    no place in it says where to read. Raises ValueError when the budget cannot hold the marker.
    """
    # A lone surrogate, which JSON can carry and UTF-8 cannot, shows as a question mark.
    data = text.encode("utf-8", "replace")
    if len(data) <= budget:
        return text
    # Guess the middle from the whole budget: what is found there decides the marker's words.
    hits = _hits(data, budget // 2, len(data) - budget // 3)
    words = [data[start:end].decode("utf-8", "replace") for _, start, end in hits]
    way = _search(archive_ref, words, data)
    if not way and not exact:
        way = f"read: yarp read {archive_ref} --list"
    longest = marker.capped(
        len(data),
        archive_ref,
        source,
        completeness,
        way or f"read: yarp read {archive_ref} {source} --bytes {len(data)}:{len(data)}",
    )
    most = budget - len(longest) - 1
    if most < 0:
        raise ValueError(f"a cap of {budget} bytes cannot hold its marker of {len(longest) + 1}")
    room = most
    while True:
        parts, head, tail, shown = _parts(data, hits, room - 2 * len(_GAP) - 2)
        parts = [marker.quoted(part) for part in parts]
        size = sum(map(len, parts))
        if size <= most or not room:
            break
        # Words that look like ours are longer once they are marked as the text's own.
        room = min(room - 1, room * most // size)
    way = way or _read(archive_ref, source, data, head, tail)
    note = marker.capped(len(data) - shown, archive_ref, source, completeness, way)
    return b"".join([*parts, note, b"\n"]).decode("utf-8", "replace")


def _parts(
    data: bytes, hits: list[tuple[int, int, int]], room: int
) -> tuple[list[bytes], int, int, int]:
    """What is shown in about `room` bytes; where the start ends and the end starts; bytes of it."""
    quota = room // 4 if hits else 0
    # What the lines of trouble leave over goes to both ends.
    for _ in range(2):
        head = _line_end(data, max(0, (room - quota) * 3 // 5))
        tail = _line_start(data, len(data) - max(0, (room - quota) * 2 // 5))
        found = _trouble(data, hits, head, tail, quota)
        quota = sum(len(line) for line in found)
    parts = [data[:head], b"" if data[:head].endswith(b"\n") or not head else b"\n"]
    if room > 0:
        parts.append(_GAP)
    if found:
        parts += [*found, _GAP]
    parts.append(data[tail:])
    if parts[-1] and not parts[-1].endswith(b"\n"):
        parts.append(b"\n")
    return parts, head, tail, head + len(data) - tail + quota


def _hits(data: bytes, start: int, end: int) -> list[tuple[int, int, int]]:
    """The lines of trouble in the middle: line start, and where the word stands; outcomes first.

    Where several tools speak one after the other, only the outcome of the last is at the end.
    """
    import re2

    options = re2.Options()
    # Bytes as they are: in UTF-8 mode a line with one invalid byte would never match.
    options.encoding = re2.Options.Encoding.LATIN1

    def found(pattern: bytes, group: int) -> list[tuple[int, int, int]]:
        compiled = re2.compile(pattern, options)
        lines: list[tuple[int, int, int]] = []
        at = start
        while len(lines) < _HITS and (hit := compiled.search(data, at, end)):
            line = data.rfind(b"\n", max(0, hit.start() - _HIT_BYTES), hit.start()) + 1
            lines.append((line, *hit.span(group)))
            after = data.find(b"\n", hit.end(), end)
            if after < 0:
                break
            at = after + 1
        return lines

    outcomes = found(_OUTCOME, 1)
    few = outcomes[:_FEW] + outcomes[_FEW:][-_FEW:]
    return few + [hit for hit in found(_TROUBLE, 0) if hit[0] not in {line for line, *_ in few}]


def _trouble(
    data: bytes, hits: list[tuple[int, int, int]], head: int, tail: int, quota: int
) -> list[bytes]:
    """The lines of trouble between head and tail that fit, in their order, none twice.

    Each is cut to `_HIT_BYTES`; the first hits have the first claim.
    """
    lines: dict[bytes, int] = {}
    for line_start, start, end in hits:
        if start < head or end > tail:
            continue
        first = boundary(data, max(line_start, head, start - _HIT_BYTES // 3))
        newline = data.find(b"\n", end, tail)
        last = tail if newline < 0 else newline
        line = data[first : boundary(data, min(last, first + _HIT_BYTES))].strip(b"\r") + b"\n"
        if len(line) <= quota and line not in lines:
            lines[line] = first
            quota -= len(line)
    return sorted(lines, key=lambda line: lines[line])


def _line_end(data: bytes, at: int) -> int:
    """Where to stop at or before `at`: after a newline if there is one in the last half."""
    newline = data.rfind(b"\n", at // 2, at) + 1
    return newline or boundary(data, at)


def _line_start(data: bytes, at: int) -> int:
    """Where to begin at or after `at`: after a newline if there is one in the first half."""
    newline = data.find(b"\n", at, at + (len(data) - at) // 2) + 1
    if newline:
        return newline
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


def _search(archive_ref: str | None, words: list[str], data: bytes) -> str:
    chosen = marker.usable(list(dict.fromkeys(words))[:6])
    if not chosen:
        return ""
    count = sum(data.count(word.encode()) for word in chosen)
    many = f" -m{min(count, _READ_LINES)} -C0" if count > _DEFAULT_RESULTS else ""
    as_text = " -a" if b"\0" in data else ""
    return f"search: yarp search {archive_ref} {marker.pattern(chosen)}{many}{as_text}"


def _read(archive_ref: str | None, source: str, data: bytes, head: int, tail: int) -> str:
    """The way to what stands between: its first lines, or bytes of a line too long for one read."""
    start = data.rfind(b"\n", 0, head) + 1
    end = data.rfind(b"\n", start, min(tail, start + _READ_BYTES))
    if end < head:
        return (
            f"read: yarp read {archive_ref} {source} --bytes {head}:{min(tail, head + _READ_BYTES)}"
        )
    first = data.count(b"\n", 0, start) + 1
    last = first + min(data.count(b"\n", start, end), _READ_LINES - 1)
    return f"read: yarp read {archive_ref} {source} {first}:{last}"
