"""What Cursor puts around a person's words, and when it says that they were said.

The words stand in `<user_query>`; other elements, before and behind it or in messages of their
own, are Cursor's. A `<timestamp>` at the beginning is the only time that a transcript has, to the
minute. Nothing is escaped, so that all of this is heuristic.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from yarp.plugin import Injected, instant_ms
from yarp_cursor.records import spoken

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY = "user_query"
STAMP = "timestamp"
_TAGS = {
    ("runtime.context", "environment"): ("user_info", "git_status", "project_layout", STAMP),
    ("runtime.context", "file"): (
        *("open_and_recently_viewed_files", "attached_files", "image_files", "code_selection"),
    ),
    ("runtime.context", None): ("external_links",),
    ("runtime.instructions", "project"): ("always_applied_workspace_rules", "rules"),
    ("runtime.instructions", "user"): ("user_rules", "cursor_commands"),
    ("runtime.instructions", "skill"): ("agent_skills", "manually_attached_skills"),
    ("runtime.instructions", "tool_catalog"): ("available_subagent_types",),
    ("runtime.notice", None): ("system_reminder", "system_notification"),
}
INJECTED = tuple(
    Injected("tag", tag, role, category) for (role, category), tags in _TAGS.items() for tag in tags
)
_BY_TAG = {one.marker: one for one in INJECTED}
_UNKNOWN = Injected("tag", "", "runtime.unknown")
_OPENING = re.compile(r"\s*<([a-z][a-z_-]*)(?:\s[^<>]*)?>")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# "Tuesday, Mar 3, 2026, 10:15 AM (UTC-5)"
_STAMPED = re.compile(
    rf"\s*<{STAMP}>\s*(?:{'|'.join(_DAYS)}), ({'|'.join(_MONTHS)}) (\d{{1,2}}), (\d{{4}}), "
    rf"(\d{{1,2}}):(\d{{2}})\s([AP])M \(UTC([+-])(\d{{1,2}})(?::(\d{{2}}))?\)\s*</{STAMP}>"
)
_LONGEST_STAMP = 120


class Part:
    """A part of a message: the person's words (`injected` None), or what Cursor put there."""

    __slots__ = ("injected", "text")

    def __init__(self, injected: Injected | None, text: str) -> None:
        self.injected = injected
        self.text = text


def parts(text: str) -> list[Part]:
    """The parts of a message that a person, or a subagent's caller, sent, in order.

    The words are one part at most. Without a `<user_query>` they are what follows upon elements
    that are known to be Cursor's; with one, all else is Cursor's.
    """
    elements = list(_elements(text))
    words = [inner for tag, inner, _ in elements if tag == QUERY]
    has_query = bool(words)
    found = []
    for tag, inner, start in elements:
        if tag == QUERY:
            found.append(Part(None, "\n\n".join(words)))
            words = []
        elif not has_query and tag not in _BY_TAG:
            found.append(Part(None, text[start:].strip()))
            break
        elif tag != STAMP or start > 0 or stamp(text) is None:
            found.append(Part(_BY_TAG.get(tag, _UNKNOWN), inner))
    return [part for part in found if part.text]


def _elements(text: str) -> Iterator[tuple[str, str, int]]:
    """The outermost elements: name, what is inside, where it begins; the name of text is empty."""
    at = 0
    lacking: set[str] = set()  # names of elements that end nowhere from here on
    while at < len(text):
        opening = _OPENING.match(text, at)
        if opening is not None and opening[1] not in lacking:
            tag, start = opening[1], opening.end()
            end = _end_of_query(text, start) if tag == QUERY else text.find(f"</{tag}>", start)
            if end >= 0:
                yield tag, text[start:end].strip("\r\n"), at
                at = end + len(f"</{tag}>")
                continue
            lacking.add(tag)
        rest = -1 if QUERY in lacking else text.find(f"<{QUERY}>", at + 1)
        rest = len(text) if rest < 0 else rest
        if text[at:rest].strip():
            yield "", text[at:rest].strip(), at
        at = rest


def _end_of_query(text: str, start: int) -> int:
    """Where the person's words end, which may tell of such elements themselves; -1: nowhere."""
    opening, closing = f"<{QUERY}>", f"</{QUERY}>"
    depth, at = 1, start
    while depth > 0:
        end = text.find(closing, at)
        if end < 0:
            return text.rfind(closing, start)
        depth += text.count(opening, at, end) - 1
        at = end + len(closing)
    following = text.find(opening, at)
    return text.rfind(closing, end, len(text) if following < 0 else following)


def stamp(text: str) -> int | None:
    """The time that a message begins with, in Unix milliseconds."""
    found = _STAMPED.match(text[:_LONGEST_STAMP])
    if found is None:
        return None
    month, day, year, hour, minute, half, sign, ahead, minutes = found.groups()
    offset = timedelta(hours=int(ahead), minutes=int(minutes or 0))
    try:
        said = datetime(
            int(year),
            _MONTHS.index(month) + 1,
            int(day),
            int(hour) % 12 + (12 if half == "P" else 0),
            int(minute),
            tzinfo=timezone(offset if sign == "+" else -offset),
        )
    except ValueError:
        return None
    return instant_ms(said.isoformat()) if 1 <= int(hour) <= 12 else None


def occurred_at(value: object) -> int | None:
    """When the message of a record was sent, as it says itself."""
    if not isinstance(value, dict) or value.get("role") != "user":
        return None
    for block in spoken(value) or ():
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str):
            return stamp(text)
    return None
