"""What a plugin declares to have its runtime's traces in the index.

The core finds and frames the files, keeps every line as a record, and asks the declarations
which reader a file is for; the reader's projector turns lines into facts (`facts.py`).
Source: seed 002; spec "Trace index", Adapters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import attrs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yarp.index.facts import Fact
    from yarp.sources.importers import SourceOption
    from yarp.sources.jsonl import Line


class Projector(Protocol):
    """Turns the lines of one source into facts, from the first line on, or on from a state."""

    def feed(self, lines: Iterable[Line]) -> Iterable[Fact]:
        """The facts of these lines, which follow right behind those fed before.

        Malformed, empty and oversized lines are left out by the core. Any cutting of a source
        into feeds gives the same facts in the end. When the lines are used up nothing is held
        back: what may yet turn out to be something else is said as it stands, and amended when
        it does. A value of unexpected shape is passed over (or is a `runtime.unknown`), never
        an exception: that leaves out the source.
        """

    def state(self) -> bytes:
        """All that a projector needs to go on behind the last line fed, and no more.

        It is stored with each sync of a source that changed, so it should stay small: open
        calls and ids, no texts. `marshal`, `orjson` or whatever the reader likes.
        """


@attrs.frozen
class Injected:
    """A text that the runtime itself puts into messages, and what it is.

    `kind`: `header` (the text begins with `marker`), `tag` (with `<marker`, then `>` or a
    blank, and a `>` later) or `prefix` (with `marker`, asked last). `category` is the role's,
    if it has any. Source: spec "Trace index", Injected-text table.
    """

    kind: str = attrs.field(validator=attrs.validators.in_(("header", "tag", "prefix")))
    marker: str
    role: str
    category: str | None = None


_TAG = re.compile(r"<(/?[A-Za-z][\w.:-]*)(?=[>\s])[^>]*>")


def classify_injected(text: str, table: Iterable[Injected]) -> Injected | None:
    """What the runtime's own text `text` is; None: it has no marker of the table.

    Headers come before tags, tags before prefixes; blanks before the text count for nothing.
    A tag that the table does not have is `Injected("tag", NAME, "runtime.unknown")`. Whatever
    comes of it is heuristic.
    """
    text = text.lstrip()
    table = tuple(table)
    for one in table:
        if one.kind == "header" and text.startswith(one.marker):
            return one
    tag = _TAG.match(text)
    if tag is not None:
        for one in table:
            if one.kind == "tag" and one.marker == tag[1]:
                return one
        return Injected("tag", tag[1], "runtime.unknown")
    for one in table:
        if one.kind == "prefix" and text.startswith(one.marker):
            return one
    return None


def occurred_at(value: object) -> int | None:
    """The time that a record's own `timestamp` tells, RFC 3339 or Unix milliseconds."""
    from yarp.index.text import instant_ms

    found = value.get("timestamp") if isinstance(value, dict) else None
    return instant_ms(found)


def _tools(given: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    return dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, "command")


def _options(given: Iterable[SourceOption]) -> tuple[SourceOption, ...]:
    return tuple(given)


def _injected(given: Iterable[Injected]) -> tuple[Injected, ...]:
    return tuple(given)


@attrs.frozen(eq=False)
class TraceReader:
    """Projects a runtime's traces into the index of sessions, loops and items.

    `runtime`: the name that `sources.runtime` shows. `version`: raise it when the same source
    shall be projected anew; a changed source then is read whole, an unchanged one only with
    `--rebuild`.
    `options`: the roots it has by default, below the home directory, offered by
    `config init --discover` and never scanned unasked.
    `detect(head)`: whether a source whose first complete line has this JSON is this runtime's.
    By its shape alone: the file's place says nothing.
    `project(locator, state)`: a projector for the source at this canonical path, new (`state`
    None) or going on from what its `state()` gave.
    `occurred_at(value)`: when a record happened, in Unix milliseconds, from that record alone.
    `shell_tools`: the tools whose calls are shell commands, each with the key of its arguments
    that holds the command: a text, or a list such as `["bash", "-lc", TEXT]`; a plain set of
    names means the key `command`. `other_shells`: the same for shells of another language,
    whose commands are kept as one fragment that is not parsed.
    `injected`: the texts that the runtime puts into messages; see `classify_injected`.
    `identity(locator)`: only for a runtime whose traces name no session, so that their place
    does: whose a file at this path would be. One that moved is the same source only if that is
    the same; equal content alone may be two sessions that began with the same words.
    """

    runtime: str
    options: tuple[SourceOption, ...] = attrs.field(converter=_options)
    detect: Callable[[object], bool]
    project: Callable[[str, bytes | None], Projector]
    version: int = 1
    occurred_at: Callable[[object], int | None] = occurred_at
    shell_tools: Mapping[str, str] = attrs.field(factory=dict, converter=_tools)
    other_shells: Mapping[str, str] = attrs.field(factory=dict, converter=_tools)
    injected: tuple[Injected, ...] = attrs.field(default=(), converter=_injected)
    identity: Callable[[str], str | None] | None = None
