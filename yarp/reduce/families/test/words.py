"""Words and tracebacks that several runners share."""

from __future__ import annotations

from yarp.reduce.families.test.report import CAUSE, DEPTH, FRAME, MORE

_WRONG = (
    b"error", b"fail", b"exception", b"fatal", b"panic", b"warn", b"critical",
    b"denied", b"refused", b"traceback", b"abort", b"timed out", b"timeout", b"cannot ", b"can't ",
    b"not found", b"missing", b"killed", b"unable", b"fehler", b"erreur",
    *(word.encode() for word in ("ошибка", "错误", "失败", "失敗", "エラー", "例外", "오류")),
)  # fmt: skip


def looks_wrong(line: bytes) -> bool:
    """Whether a line of free text speaks of trouble."""
    lower = line.lower()
    return any(word in lower for word in _WRONG)


def traceback_grades(lines: list[bytes]) -> list[int]:
    """Grades of text with Python tracebacks: each exception and its last own place come first."""
    out = [MORE] * len(lines)
    place = -1  # the last `File` line of the traceback, or the last outside a library
    inside = False
    for at, line in enumerate(lines):
        if line.startswith(b"Traceback (most recent call last)"):
            inside, place = True, -1
            out[at] = DEPTH
        elif inside and line.startswith(b"  File "):
            out[at] = DEPTH
            if place < 0 or not _library(line) or _library(lines[place]):
                place = at
        elif inside and line.startswith(b"    "):
            out[at] = DEPTH
        elif inside and line.startswith(b"  |"):
            out[at] = MORE
        elif inside and line.strip():
            inside = False
            out[at] = CAUSE
            if place >= 0:
                out[place] = CAUSE
                if place + 1 < len(lines) and lines[place + 1].startswith(b"    "):
                    out[place + 1] = FRAME
    # What follows the exception belongs to its message: a comparison, the next lines of its text.
    for at in range(1, len(lines)):
        if out[at] == MORE and out[at - 1] in (CAUSE, FRAME) and lines[at].strip():
            out[at] = FRAME
    return out


def _library(line: bytes) -> bool:
    return b"site-packages/" in line or b"/lib/python" in line or b'"<frozen ' in line
