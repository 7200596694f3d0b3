"""The values that cross the plugin boundary: plain slotted classes, no I/O, no imports.

Importing a host's package runs inside a tool call, so nothing here loads `typing`, `enum`
or `attrs`. Unknown is None, never 0. Callables in a declaration are functions at the top
level of a module: the compiled cache stores them as `module:qualname`, so that a call
imports just the module it needs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.resources.abc import Traversable
    from typing import Any


class Value:
    """Base of these values: equal by content, shown by one field alone.

    The representation leaves the rest out, since inputs and results may hold secrets and
    representations end up in messages.
    """

    __slots__: tuple[str, ...] = ()
    _shown = "name"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), getattr(self, self._shown)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, self._shown)!r}, ...)"


# Capture events


class CallStarted(Value):
    """A call as the host announces it, before it runs.

    `input` is the host's JSON, parsed. `agent` is the host's name: `Host.decode` leaves it
    None and the core fills it in, as it does with `archive_ref` once the begin is committed.
    `account` None means the account of the operating system. Times are Unix milliseconds.
    `unpermissioned`: the host runs it without asking anybody; None: the host does not say.
    `detached`: its output must come as it is printed, since the host does not wait for it, or a
    program reads it.
    `writable`: the only directories that the host's sandbox lets it write to; None: any.
    `own_words`: the functions and aliases that the host's shell has, and that a command run
    elsewhere would not find; None: not known. A command that uses one is never wrapped.
    Source: seed 000, "Records"; spec "Hosts", Rules for all.
    """

    __slots__ = (
        "account",
        "agent",
        "archive_ref",
        "detached",
        "input",
        "model",
        "own_words",
        "provider",
        "source_call_id",
        "source_session_id",
        "started_at_ms",
        "tool_name",
        "unpermissioned",
        "working_directory",
        "writable",
    )
    _shown = "source_call_id"

    def __init__(
        self,
        source_session_id: str,
        source_call_id: str,
        tool_name: str,
        input: object,  # noqa: A002 - the seed's word for it
        *,
        agent: str | None = None,
        account: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        working_directory: str | None = None,
        started_at_ms: int | None = None,
        archive_ref: str | None = None,
        unpermissioned: bool | None = None,
        detached: bool = False,
        writable: Iterable[str] | None = None,
        own_words: Iterable[str] | None = (),
    ) -> None:
        self.source_session_id = source_session_id
        self.source_call_id = source_call_id
        self.tool_name = tool_name
        self.input = input
        self.agent = agent
        self.account = account
        self.provider = provider
        self.model = model
        self.working_directory = working_directory
        self.started_at_ms = started_at_ms
        self.archive_ref = archive_ref
        self.unpermissioned = unpermissioned
        self.detached = detached
        self.writable = None if writable is None else tuple(writable)
        self.own_words = None if own_words is None else frozenset(own_words)


class CallEnded(Value):
    """A call as the host reports it, after it ran or was refused.

    `result` is the host's JSON, parsed, before YARP changes it. `executed` is False for a
    call that never reached its tool; None counts as True. `full_output_path` names the file in
    which the host keeps the whole output, where a structured field says so.
    `closes`: it counts only if nothing else ended the call, as what an event tells at the end of
    a turn about all calls of it. With `executed` None, `Host.refused` is asked.
    `start`: the call's start as this event tells it, for a call whose start was never heard.
    `text`: what the model will read of the result and `Host.replace` can put another text in
    place of; None: it stays as it is. `completeness`: whether that text is all that the tool
    gave: complete, incomplete or unknown. `ending`: what the host itself put behind it.
    Source: seed 000, "Records".
    """

    __slots__ = (
        "account",
        "agent",
        "archive_ref",
        "closes",
        "completeness",
        "ending",
        "executed",
        "exit_code",
        "finished_at_ms",
        "full_output_path",
        "is_error",
        "result",
        "source_call_id",
        "source_session_id",
        "start",
        "text",
    )
    _shown = "source_call_id"

    def __init__(
        self,
        source_session_id: str,
        source_call_id: str,
        result: object,
        is_error: bool,
        *,
        agent: str | None = None,
        account: str | None = None,
        exit_code: int | None = None,
        executed: bool | None = None,
        closes: bool = False,
        full_output_path: str | None = None,
        finished_at_ms: int | None = None,
        archive_ref: str | None = None,
        start: CallStarted | None = None,
        text: str | None = None,
        completeness: str = "unknown",
        ending: str = "",
    ) -> None:
        self.source_session_id = source_session_id
        self.source_call_id = source_call_id
        self.result = result
        self.is_error = is_error
        self.agent = agent
        self.account = account
        self.exit_code = exit_code
        self.executed = executed
        self.closes = closes
        self.full_output_path = full_output_path
        self.finished_at_ms = finished_at_ms
        self.archive_ref = archive_ref
        self.start = start
        self.text = text
        self.completeness = completeness
        self.ending = ending


class Decision(Value):
    """What the core decided about an event, for `Host.reply` to say in the host's words.

    `blocked` is the reason why the call must not run. `input` replaces the call's input.
    `content` replaces the text that the model gets, and `result` is the whole result with it,
    as `Host.replace` made it. `notice` is a sentence for the user, about YARP itself: to be
    said once a session, where the host can say it. All None: leave the host alone.
    """

    __slots__ = ("blocked", "content", "input", "notice", "result")
    _shown = "blocked"

    def __init__(
        self,
        *,
        blocked: str | None = None,
        input: object = None,  # noqa: A002 - the seed's word for it
        content: str | None = None,
        result: object = None,
        notice: str | None = None,
    ) -> None:
        self.blocked = blocked
        self.input = input
        self.content = content
        self.result = result
        self.notice = notice


class Health(Value):
    """How a host stands on this machine.

    `installed`: the agent's program is there. `hooked_in`: YARP is in its configuration, and
    at work. `version`: the agent's, as seen. `last_call_ms`: when it last called a tool, as its
    own records have it, in Unix milliseconds. `notes`: what is wrong and what to do, a sentence
    each. None where it cannot be known.
    """

    __slots__ = ("hooked_in", "installed", "last_call_ms", "notes", "version")
    _shown = "installed"

    def __init__(
        self,
        *,
        installed: bool | None = None,
        hooked_in: bool | None = None,
        version: str | None = None,
        last_call_ms: int | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self.installed = installed
        self.hooked_in = hooked_in
        self.version = version
        self.last_call_ms = last_call_ms
        self.notes = tuple(notes)


class Cut(Value):
    """How a host itself shortens what a tool gave before the model sees it.

    `limit` is in `unit`: bytes, characters or tokens. `keeps` says which part stays: head,
    tail, or ends for both. `lines`: how many lines at most; None: any number. `beyond`: an
    output up to this stays whole, in the same unit; None: up to the limit. What a notice of the
    host's adds is not counted.
    """

    __slots__ = ("beyond", "keeps", "limit", "lines", "unit")
    _shown = "limit"

    def __init__(
        self,
        limit: int,
        unit: str,
        *,
        keeps: str,
        lines: int | None = None,
        beyond: int | None = None,
    ) -> None:
        if unit not in ("bytes", "characters", "tokens"):
            raise ValueError("the unit of a cut must be bytes, characters or tokens")
        if keeps not in ("head", "tail", "ends"):
            raise ValueError("a cut keeps head, tail or ends")
        if limit < 1 or (lines is not None and lines < 1):
            raise ValueError("a cut leaves something")
        if beyond is not None and (beyond < limit or lines is not None or unit == "tokens"):
            raise ValueError("beyond is a size of bytes or characters, over the limit, no lines")
        self.limit = limit
        self.unit = unit
        self.keeps = keeps
        self.lines = lines
        self.beyond = beyond

    def plain(self) -> dict[str, Any]:
        """The fields by name; `Cut(**fields)` is the inverse."""
        return {name: getattr(self, name) for name in self.__slots__}


class Probe(Value):
    """One hook as a host's configuration has it, and an event to try it with.

    `words`: the command as the host would start it; `where` is the file that says so. `event`
    is what the host would give it before a call. It is tried on an archive that is thrown away.
    """

    __slots__ = ("event", "where", "words")
    _shown = "where"

    def __init__(self, words: Iterable[str], event: dict[str, object], where: str) -> None:
        self.words = tuple(words)
        self.event = event
        self.where = where


WRAPS = ("never", "unpermissioned", "always")


class Host(Value):
    """An agent whose calls YARP can capture, declared by its plugin.

    `name`: the plugin's name, and the `agent` of its sessions.
    `shell_tools`: the tools that run a shell command, each with the key of its input that
    holds the command text; a plain set of names means the key `command`.
    `shell`: the shell in which the host itself runs a command text; None: it runs none.
    `keeps_shell_state`: whether a `cd`, `export` or `alias` of one call is still there in the
    next. A text that changes such state, or relies on it, is never wrapped for such a host.
    `wrap`: when a command may be replaced by `yarp run` around it: `always`, `never`, or
    `unpermissioned`: only where nobody judges it (`CallStarted.unpermissioned`). The user's
    `hosts.NAME.wrap` counts before it.
    `judges_words`: whether the host, or rules of its user, judge a command by the words in its
    text. A wrapped text then names the original a second time, where it never runs, and is
    judged as the original would be. Only for a host that starts a shell for each text.
    `decode(event)`: the start or end that an event tells of, several of them, or None for an
    event that tells of no call. An event it does not know is None, never an exception.
    `reply(event, decision)`: the JSON that the host takes for `decision`; None: say nothing.
    `replace(event, content)`: the result of that event with `content` as its text, in the
    tool's own shape, for `Decision.result`; None: this one stays as it is.
    `refused(event, ended)`: whether a call that `event` closes never reached its tool. Asked
    only for one that was begun and that nothing else ended; False: its end got lost, or it
    cannot be told, and the call stays started.
    All four are None for a host that speaks frames to `yarp archive ingest`.
    `install(scope, dry_run, directory)`, `uninstall(scope, dry_run, directory)`: write into,
    and remove from, the host's own configuration; a line for each change made (or that would
    be made). `scope` is `user` or `project`; `directory` is the project's, None: the current
    one. Both are idempotent and keep foreign entries.
    `health(directory)`: how the host stands on this machine.
    `probe(directory)`: the hooks as they are configured, with an event each, for `yarp doctor`
    to run them the way the host would.
    `sandbox(directory)`: the words that run a command in the host's sandbox as it is configured
    here; None: there is none, it is switched off, or it cannot be entered from outside.
    `spools()`: the directories below which its conversations keep the spools of their calls;
    `yarp receipt` looks there. One that is missing is passed over.
    `withholds`: what this host keeps from YARP, a sentence each. Source: spec "Hosts".
    `cut`: what the host itself leaves of a shell tool's output; None: not known, and then
    `yarp stats` does not say what the host would have shown.
    """

    __slots__ = (
        "cut",
        "decode",
        "health",
        "install",
        "judges_words",
        "keeps_shell_state",
        "name",
        "probe",
        "refused",
        "replace",
        "reply",
        "sandbox",
        "shell",
        "shell_tools",
        "spools",
        "title",
        "uninstall",
        "withholds",
        "wrap",
    )

    def __init__(
        self,
        name: str,
        *,
        title: str | None = None,
        shell_tools: Mapping[str, str] | Iterable[str] = (),
        shell: str | None = None,
        keeps_shell_state: bool = False,
        wrap: str = "always",
        judges_words: bool = False,
        decode: Callable[[dict[str, object]], Decoded] | None = None,
        reply: Callable[[dict[str, object], Decision], object] | None = None,
        replace: Callable[[dict[str, object], str], object] | None = None,
        refused: Callable[[dict[str, object], CallEnded], bool] | None = None,
        install: Callable[[str, bool, str | None], list[str]] | None = None,
        uninstall: Callable[[str, bool, str | None], list[str]] | None = None,
        health: Callable[[str | None], Health] | None = None,
        probe: Callable[[str | None], list[Probe]] | None = None,
        sandbox: Callable[[str | None], list[str] | None] | None = None,
        spools: Callable[[], list[str]] | None = None,
        withholds: Iterable[str] = (),
        cut: Cut | None = None,
    ) -> None:
        self.name = name
        self.title = title or name
        self.shell_tools: dict[str, str] = (
            dict(shell_tools)
            if isinstance(shell_tools, dict)
            else dict.fromkeys(shell_tools, "command")
        )
        self.shell = shell
        self.keeps_shell_state = keeps_shell_state
        if wrap not in WRAPS:
            raise ValueError(f"host {name}: wrap must be one of {', '.join(WRAPS)}")
        self.wrap = wrap
        self.judges_words = judges_words
        self.decode = decode
        self.reply = reply
        self.replace = replace
        self.refused = refused
        self.install = install
        self.uninstall = uninstall
        self.health = health
        self.probe = probe
        self.sandbox = sandbox
        self.spools = spools
        self.withholds = tuple(withholds)
        self.cut = cut


if TYPE_CHECKING:
    Decoded = CallStarted | CallEnded | tuple[CallStarted | CallEnded, ...] | None


# Result reduction


class RulePack(Value):
    """A folder of rule files (`*.toml`) that a plugin brings.

    `directory` is a path, or what `importlib.resources.files` gives. `name` is unique among
    all packs; by convention it is the plugin's. Source: spec "Reduction", Rules are data.
    """

    __slots__ = ("directory", "name")

    def __init__(self, name: str, directory: Traversable | str) -> None:
        self.name = name
        self.directory = directory


class Band:
    """When a reducer is asked: EXACT (it names rules), FAMILY (a family), FALLBACK (any)."""

    EXACT = 0
    FAMILY = 1
    FALLBACK = 2


class Reducer(Value):
    """A reducer of a plugin's own.

    `serves`: the rules of band EXACT, each as `id` or as `pack/id`; the families of band FAMILY;
    nothing for FALLBACK.
    `make(argv, options)`: a `Family` for one call, a class or function at the top level of a
    module. It is fed whole lines in blocks, and its `finish` gives `Piece`s in display order,
    or None to decline.
    Source: spec "Reduction", Order of things.
    """

    __slots__ = ("band", "make", "name", "serves")

    def __init__(
        self,
        name: str,
        *,
        band: int,
        serves: Iterable[str] = (),
        make: Callable[[tuple[str, ...], dict[str, int]], Any],
    ) -> None:
        if band not in (Band.EXACT, Band.FAMILY, Band.FALLBACK):
            raise ValueError(f"reducer {name}: band must be Band.EXACT, .FAMILY or .FALLBACK")
        self.name = name
        self.band = band
        self.serves = tuple(serves)
        if bool(self.serves) is (band == Band.FALLBACK):
            raise ValueError(f"reducer {name}: all but a FALLBACK reducer name what they serve")
        self.make = make
