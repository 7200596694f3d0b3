"""What a trace reader's projector says of one source: sessions, loops, items, usage.

Facts come in source order and may correct one another. Each loop and item has a key that is
unique within its source and stays the same when the source is read anew: its id in the index
hangs on it. Native ids make good keys (`call:ID`), else the line and a number within it
(`17.0`). A later fact names an earlier one by its key, even across appends, so a projector
keeps no copy of what it said: only what it must know to go on.

The core bounds texts, makes blobs and the search index, parses shell commands, resolves
references, numbers loops and items, and sums usage; a reader just says what it read. Absent
evidence is None and stays absent: never 0, False or an empty text in its place.

`line` is always the number of the line (`Line.number`) that is the witness. Times are Unix
milliseconds in UTC. Source: seed 002; spec "Trace index".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

OUTCOMES = ("completed", "interrupted", "failed")


class Fact:
    """Base of the facts; a representation leaves contents out, since they may hold secrets."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = getattr(self, "key", None)
        return f"{type(self).__name__}({'' if shown is None else repr(shown)})"


class Link:
    """Another session, as a source names it: by its native id, or by the path of its source.

    `line` is the witness. The session is found whenever it gets into the index, before or
    after; of the same runtime only; a session is never its own parent.
    """

    __slots__ = ("line", "locator", "native_id")

    def __init__(
        self, line: int, *, native_id: str | None = None, locator: str | None = None
    ) -> None:
        if (native_id is None) is (locator is None):
            raise ValueError("a link names a session by native_id or by locator")
        self.line = line
        self.native_id = native_id
        self.locator = locator

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Link):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class SessionFact(Fact):
    """The session that this source supports, confirmed by the structure of line `line`.

    Every source supports exactly one: a source that gives none, or facts with two native ids,
    is left out of the index whole. It may come after other facts, and again with the same
    `native_id`: what is not None then replaces what was said before.
    `created_at`: when the session began. `name`: as the runtime or its user named it.
    `forked_from`: the session whose history this one began with. `delegated_from`: the session
    whose agent started this one.
    """

    __slots__ = (
        "created_at",
        "delegated_from",
        "forked_from",
        "line",
        "name",
        "native_id",
        "working_directory",
    )

    def __init__(
        self,
        native_id: str,
        line: int,
        *,
        created_at: int | None = None,
        name: str | None = None,
        working_directory: str | None = None,
        forked_from: Link | None = None,
        delegated_from: Link | None = None,
    ) -> None:
        self.native_id = native_id
        self.line = line
        self.created_at = created_at
        self.name = name
        self.working_directory = working_directory
        self.forked_from = forked_from
        self.delegated_from = delegated_from


class LoopStart(Fact):
    """An outer execution begins: request, work, answer.

    Before the first item that names it. `native_id`: the runtime's id of it, if it has one.
    The same key again changes nothing but a `native_id` that was None.
    """

    __slots__ = ("key", "line", "native_id")

    def __init__(self, key: str, line: int, *, native_id: str | None = None) -> None:
        self.key = key
        self.line = line
        self.native_id = native_id


class LoopEnd(Fact):
    """The loop's end was observed at `line`; the last one said of a loop counts.

    `outcome`: completed, interrupted, failed, or None where the runtime stated no result.
    With `line` None the end said before is revoked.
    """

    __slots__ = ("key", "line", "outcome")

    def __init__(self, key: str, line: int | None, outcome: str | None = None) -> None:
        self.key = key
        self.line = line
        self.outcome = outcome


class LoopModel(Fact):
    """The model that runs in the loop, in the runtime's words.

    May come again: what is not None replaces what was said; only a first fact needs `id`. A
    `context_window` alone is kept until the `id` is known. Nothing is inferred from names.
    """

    __slots__ = ("context_window", "effort", "id", "key")

    def __init__(
        self,
        key: str,
        id: str | None = None,  # noqa: A002 - the seed's word for it
        *,
        effort: str | None = None,
        context_window: int | None = None,
    ) -> None:
        self.key = key
        self.id = id
        self.effort = effort
        self.context_window = context_window


class UsageSample(Fact):
    """The tokens of one model response, as the runtime reported them at one moment.

    `loop`: the key of the loop that is credited; one that does not exist (yet) is credited if
    it ever does. `sample`: the response's identity within the source. The same one again
    replaces the counts and still credits the loop of its first sight; with `first` it changes
    nothing. None: the response has no identity, and each observation counts.
    `rank`: of the samples of one loop only those with the highest rank count, so that a
    runtime's sum of a turn (1) puts single counts (0) out of use.
    `input` includes what was read from and written to caches; `cached` and `cache_write` are
    parts of it, `reasoning` is a part of `output`. A sample whose `input` or `output` is no
    count is dropped by the core, and so is a part that exceeds its whole: hand on what is there.
    Source: seed 002, "Loop model and usage"; spec 8.4.
    """

    __slots__ = (
        "cache_write",
        "cached",
        "first",
        "input",
        "loop",
        "output",
        "rank",
        "reasoning",
        "sample",
    )

    def __init__(
        self,
        loop: str,
        sample: str | None,
        *,
        input: Any,  # noqa: A002 - the seed's word for it
        output: Any,
        cached: Any = None,
        cache_write: Any = None,
        reasoning: Any = None,
        rank: int = 0,
        first: bool = False,
    ) -> None:
        self.loop = loop
        self.sample = sample
        self.input = input
        self.output = output
        self.cached = cached
        self.cache_write = cache_write
        self.reasoning = reasoning
        self.rank = rank
        self.first = first


class Item(Fact):
    """One queryable fact.

    `line`: where it was first observed; `witnesses`: further lines that support it. Items of a
    loop stand in the order in which they are said. A key that was said before replaces role,
    value, text and references, and keeps place, id and witnesses; with `unless_known` the
    fact then changes nothing at all.
    `loop`: the key of its loop; None: it belongs to the session alone (never for `human.*`,
    `agent.commentary` and `agent.final_answer`).
    `text`: the whole text of the role's `text` or `summary`; the core bounds it.
    `value`: the other members of the role's value (spec section 3), such as `has_images` or
    `tool_name`; members that are None are left out. `arguments` is JSON, parsed, or a string:
    one that holds JSON is published as JSON. A call of a shell tool (`TraceReader.shell_tools`)
    is said as `agent.tool_call`; the core makes `agent.tool_call.shell` of it.
    `call`: for `tool.output`, the key of the item that called (before or after it).
    `session`: the native id of the session that it links to: the child of a delegation, the
    subagent of an activity, the source of a report.
    `heuristic`: whether its weakest term is heuristic (spec section 3).
    `occurred_at`: None means the time of `line`, else that of a witness.
    """

    __slots__ = (
        "call",
        "heuristic",
        "key",
        "line",
        "loop",
        "occurred_at",
        "role",
        "session",
        "text",
        "unless_known",
        "value",
        "witnesses",
    )

    def __init__(
        self,
        key: str,
        role: str,
        line: int,
        *,
        loop: str | None = None,
        text: str | None = None,
        value: Mapping[str, Any] | None = None,
        call: str | None = None,
        session: str | None = None,
        heuristic: bool = False,
        occurred_at: int | None = None,
        witnesses: Iterable[int] = (),
        unless_known: bool = False,
    ) -> None:
        self.key = key
        self.role = role
        self.line = line
        self.loop = loop
        self.text = text
        self.value = value
        self.call = call
        self.session = session
        self.heuristic = heuristic
        self.occurred_at = occurred_at
        self.witnesses = witnesses
        self.unless_known = unless_known


class Amend(Fact):
    """What a later line says of an item said before; an unknown key says nothing.

    What is None stays as it is. `line`: a further witness. `primary`: the item's time becomes
    that of this line. `role`: what it turned out to be; members of the value that the new role
    does not have go, and its own `has_images` comes as False if nothing was said of it.
    `value`: members to set; one that is None there is removed. `loop`: the loop it belongs to
    after all; its place there is that of its first line. `heuristic` as in `Item`.
    """

    __slots__ = (
        "call",
        "heuristic",
        "key",
        "line",
        "loop",
        "primary",
        "role",
        "session",
        "text",
        "value",
    )

    def __init__(
        self,
        key: str,
        *,
        line: int | None = None,
        primary: bool = False,
        role: str | None = None,
        text: str | None = None,
        value: Mapping[str, Any] | None = None,
        loop: str | None = None,
        call: str | None = None,
        session: str | None = None,
        heuristic: bool | None = None,
    ) -> None:
        self.key = key
        self.line = line
        self.primary = primary
        self.role = role
        self.text = text
        self.value = value
        self.loop = loop
        self.call = call
        self.session = session
        self.heuristic = heuristic


class Drop(Fact):
    """An item, or with `loop` a loop, that turned out not to be; an unknown key says nothing.

    A loop must be empty by then: its items are dropped, or moved by `Amend`.
    """

    __slots__ = ("key", "loop")

    def __init__(self, key: str, *, loop: bool = False) -> None:
        self.key = key
        self.loop = loop
