"""What the lines of a block of pytest's FAILURES or ERRORS are worth, in any `--tb` style."""

from __future__ import annotations

from yarp.reduce.families.test.report import CAPTURED, CAUSE, DEPTH, FRAME, MORE, RULE, SOURCE
from yarp.reduce.families.test.words import looks_wrong, traceback_grades


def is_place(line: bytes) -> bool:
    """Whether the line is `path:12: ...`, as pytest prints where it stopped."""
    if line[:1] in (b" ", b">", b"E", b"") and not line.startswith(b"E:"):
        return False
    path, _, rest = line.partition(b":")
    number = rest.partition(b":")[0]
    return bool(path) and number.isdigit() and b" " not in path[:2]


def grades(lines: list[bytes]) -> list[int]:
    """What each line of a failure's block is worth."""
    if any(line.startswith(b"Traceback (most recent call last)") for line in lines) and not any(
        line.startswith((b"E ", b">")) for line in lines
    ):
        return traceback_grades(lines)
    out = [SOURCE] * len(lines)
    captured = False
    # Exceptions that were raised while another was handled stand one below the other.
    last = sum(
        line[:1] == b"E" and lines[at - 1][:1] != b"E" for at, line in enumerate(lines) if at
    )
    group = said = 0
    places: list[int] = []
    for at, line in enumerate(lines):
        if line.startswith(b"-- Captured "):
            captured = True
            out[at] = CAPTURED
        elif captured:
            out[at] = MORE if looks_wrong(line) else CAPTURED
        elif line[:1] == b"E" and line[1:2] in (b" ", b""):
            if at and lines[at - 1][:1] != b"E":
                group, said = group + 1, 0
            said += bool(line[1:].strip())
            most = 6 if last <= 1 else 3 if group in (1, last) else 1
            # Of each failure the exception itself comes before more of another's.
            out[at] = CAUSE if said == 1 and group in (1, last) else FRAME if said <= most else MORE
        elif line[:1] == b">":
            out[at] = FRAME
            for before in (at - 1, at - 2):
                if before >= 0 and out[before] == SOURCE and lines[before].startswith(b" "):
                    out[before] = CAPTURED
        elif is_place(line):
            places.append(at)
            out[at] = MORE
        elif line.startswith(b"[XPASS"):
            out[at] = CAUSE
        elif not line.strip(b" ^~_") or line.startswith((b"[gw", b"Hint: ", b"Traceback:")):
            out[at] = RULE
    _grade_titles(lines, out)
    _grade_places(lines, places, out)
    if CAUSE not in out:
        out = [CAUSE if grade in (SOURCE, FRAME) else grade for grade in out]
    return out


def _grade_titles(lines: list[bytes], out: list[int]) -> None:
    """A title of captured output is worth as much as the best line below it, or nothing."""
    best = DEPTH
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].startswith(b"-- Captured "):
            out[at], best = best, DEPTH
        elif lines[at].strip():
            best = min(best, out[at])


def _grade_places(lines: list[bytes], places: list[int], out: list[int]) -> None:
    """The first place is the test's, the last where it broke; libraries between matter less."""
    own = [at for at in places if not _library(lines[at])]
    for at in {own[0], own[-1]} if own else ():
        out[at] = CAUSE if at == own[-1] else FRAME
        # `--tb=short` prints the code below its place.
        if at + 1 < len(lines) and lines[at + 1].startswith(b"    "):
            out[at + 1] = FRAME
    said: set[bytes] = set()
    for at in places:
        again = lines[at] in said and at != own[-1] if own else False
        said.add(lines[at])
        if (again or at not in own) and at + 1 < len(lines):
            out[at] = DEPTH
            if out[at + 1] == SOURCE:
                out[at + 1] = DEPTH


def _library(line: bytes) -> bool:
    return b"site-packages/" in line or b"/lib/python" in line or line.startswith(b"<frozen ")
