"""A call before it runs, and the short text of its result: plan, begin, cap.

Whoever hears a host's events (ingest, `yarp hook`) tells them to a `Capture`, which joins the
archive, the reduction engine and the hooks of plugins. Every method is one transaction at
most and may be repeated. How calls end is the affair of those two.
Source: seed 000, "Write lifecycle"; spec "Archive".
"""

from __future__ import annotations

import os
import sys
import time

from yarp import paths, payload
from yarp.errors import CallConflict, ConfigError, PluginError, ReferenceUnknown
from yarp.types import CallEnded, CallStarted, Decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.archive.read import CallRow, Reader, Source
    from yarp.archive.whole import WholeArchive
    from yarp.archive.write import Archive, CallFacts, SessionKey
    from yarp.cache import Compiled
    from yarp.event import Event
    from yarp.reduce import plan as plans
    from yarp.settings import Settings

OFF = "the archive is switched off (archive.enabled = false)"
# Linux starts no program with an argument of 128 KiB; a host hands its shell the text as one.
_ONE_ARGUMENT_BYTES = 120_000


class Plan:
    """What shall happen to a call before it runs.

    `input` is the input to run instead, or None to leave it alone; `recovery` says that the
    result is an answer of YARP's own and must not be shortened; `requires_streams` that
    `yarp run` will commit the streams.
    """

    __slots__ = ("input", "recovery", "requires_streams")

    def __init__(
        self, rewritten: dict[str, object] | None, *, recovery: bool, requires_streams: bool
    ) -> None:
        self.input = rewritten
        self.recovery = recovery
        self.requires_streams = requires_streams


class Shortened:
    """A shorter text for the model, and where the whole lies.

    `source` is the archived source that holds what was left out; with `result_text` the
    caller must commit that text before it shows this one.
    """

    __slots__ = ("content", "source")

    def __init__(self, content: str, source: str) -> None:
        self.content = content
        self.source = source


class Capture:
    """The calls of one host, as its events tell them."""

    def __init__(
        self, compiled: Compiled, program: tuple[str, ...], archive: Archive | None = None
    ) -> None:
        """`program` is the argv that starts this very `yarp`, for wrapped commands.

        `archive` is where calls are begun; None: none is.
        """
        self._compiled = compiled
        self.settings = compiled.settings
        self._program = program
        self._path = paths.archive_file(compiled.settings.archive_path)
        self._archive = archive
        self._reader: Reader | None = None

    # -- before the tool runs ---------------------------------------------------------------

    def plan(
        self,
        session: SessionKey,
        source_call_id: str,
        tool_name: str,
        tool_input: object,
        working_directory: str | None,
        *,
        unpermissioned: bool | None = None,
        detached: bool = False,
        writable: tuple[str, ...] | None = None,
        own_words: frozenset[str] | None = frozenset(),
    ) -> Plan:
        """Decide about a call; commits nothing. An error here blocks the call.

        The flags are those of `CallStarted`.
        """
        host = self._compiled.host(session.agent)
        key = host["shell_tools"].get(tool_name)
        if key is None or not isinstance(tool_input, dict):
            return Plan(None, recovery=False, requires_streams=False)
        text = tool_input.get(key)
        if not isinstance(text, str) or not text.strip():
            return Plan(None, recovery=False, requires_streams=False)
        from yarp.reduce import plan as plans

        rewritten: str | None = None
        if self._compiled.callbacks.get("yarp_rewrite_input"):
            from yarp import plugins

            rewritten = plugins.for_call(self._compiled, "yarp_rewrite_input").rewrite_input(
                CallStarted(
                    session.source_session_id,
                    source_call_id,
                    tool_name,
                    tool_input,
                    agent=session.agent,
                    account=session.account,
                    working_directory=working_directory,
                )
            )
        command = text if rewritten is None else rewritten
        planned = plans.plan(command, self._compiled.rules_for(working_directory))
        wrapped: str | None = None
        policy = self.settings.hosts.get(session.agent, {}).get("wrap", host["wrap"])
        allowed = policy == "always" or (policy == "unpermissioned" and unpermissioned is True)
        if own_words is None or not own_words.isdisjoint(plans.words_of(command)):
            allowed = False  # elsewhere it would mean something else
        if host["shell"] is not None and allowed and not detached and self._reached(writable):
            wrapped = rewrite(
                command,
                planned,
                self.settings,
                self._program,
                host["shell"],
                call=(session.agent, session.account, session.source_session_id, source_call_id),
                keeps_state=host["keeps_shell_state"],
                judged=host["judges_words"],
            )
        final = command if wrapped is None else wrapped
        return Plan(
            None if final == text else {**tool_input, key: final},
            recovery=planned.recovery,
            requires_streams=wrapped is not None and self.settings.archive_enabled,
        )

    def _reached(self, writable: tuple[str, ...] | None) -> bool:
        """Whether a command that may write only there can write to the archive."""
        if writable is None or not self.settings.archive_enabled:
            return True
        folder = os.path.realpath(os.path.dirname(self._path))
        roots = (os.path.realpath(root).rstrip("/") for root in writable)
        return any(f"{folder}/".startswith(f"{root}/") for root in roots)

    def begin(
        self,
        session: SessionKey,
        call: CallFacts,
        before: bytes,
        after: bytes,
        captured_at_ms: int,
        *,
        own_time: bool = False,
    ) -> str:
        """Commit a call and both its inputs; its archive reference. The tool may run after this.

        `own_time` as for `Archive.begin_call`.
        """
        self._compiled.host(session.agent)  # a host whose plugin is gone must not run unwatched
        whole = payload.of(before)
        changed = whole if after == before else payload.of(after)
        reference = self._writer().begin_call(
            session, call, whole, changed, captured_at_ms, own_time=own_time
        )
        if self._compiled.callbacks.get("yarp_call_started"):
            self.tell(
                "yarp_call_started",
                CallStarted(
                    session.source_session_id,
                    call.source_call_id,
                    call.tool_name,
                    parsed(before),
                    agent=session.agent,
                    account=session.account,
                    provider=call.provider,
                    model=call.model,
                    working_directory=call.working_directory,
                    started_at_ms=call.started_at_ms,
                    archive_ref=reference,
                ),
            )
        return reference

    def tell(self, hook: str, call: CallStarted | CallEnded) -> None:
        """Tell plugins of what is committed; their faults are reported and change nothing."""
        from yarp import plugins

        try:
            asked = plugins.for_call(self._compiled, hook)
            if isinstance(call, CallStarted):
                problems = asked.call_started(call)
            else:
                problems = asked.call_finished(call)
        except PluginError as error:
            problems = [str(error)]
        for problem in problems:
            sys.stderr.write(f"yarp: {problem}\n")

    # -- the short answer -------------------------------------------------------------------

    def cap(
        self,
        session: SessionKey,
        source_call_id: str,
        text: str,
        source: str | None,
        completeness: str,
        *,
        ending: str = "",
    ) -> Shortened | None:
        """`text` within `output.cap_bytes`, or None when it fits (or nothing could be got back).

        Without a `source`, the committed `source_output` is shortened instead of the part of it
        that the host shows, so that the whole can be got back; with `stdout`, the one stream that
        a wrapped command wrote to (of two, the longer one is named). `ending` as in `reduce`.
        """
        budget = self.settings.output_cap_bytes
        if not self.settings.archive_enabled or budget == 0 or len(payload.utf8(text)) <= budget:
            return None
        from yarp.reduce.cap import cap

        row = self._row(session, source_call_id)
        named, whole = self._shown(row, source)
        if whole is not None:
            text, completeness = self._archived().payload(whole.sha256).decode(), whole.completeness
        room = budget - len(payload.utf8(ending))
        short = cap(
            text.removesuffix(ending),
            room,
            row.archive_ref,
            named,
            completeness,
            exact=whole is not None or named == "result_text",
        )
        return Shortened(short + ending, named)

    # -- the archive ------------------------------------------------------------------------

    def _writer(self) -> Archive:
        if self._archive is None:
            raise ConfigError(OFF)
        return self._archive

    def _archived(self) -> Reader:
        if self._reader is None:
            from yarp.archive.read import Reader

            self._reader = Reader.open(self._path)
        return self._reader

    def _row(self, session: SessionKey, source_call_id: str) -> CallRow:
        row = self._archived().find(
            session.agent, session.account, session.source_session_id, source_call_id
        )
        if row is None:
            raise ReferenceUnknown(f"call {source_call_id!r} of this session is not in the archive")
        return row

    def _shown(self, row: CallRow, source: str | None) -> tuple[str, Source | None]:
        """The source that holds what the host shows; and itself, to be shortened in its place.

        None in its place: it is binary or very long, or two streams lie in what is shown.
        """
        subjects = {"stdout": ("stdout", "stderr"), None: ("source_output",)}.get(source, ())
        found = [self._archived().snapshot(row.call_id, name, "before") for name in subjects]
        written = [one for one in found if one is not None and one.byte_length]
        longest = max(written, key=lambda one: one.byte_length, default=None)
        if longest is None:
            return source or "result_text", None
        from yarp.shorten import HELD_BYTES

        held = longest.media_type != payload.BINARY and longest.byte_length <= HELD_BYTES
        if held and len(written) == 1:
            return longest.name, longest
        return longest.name if source else "result_text", None


def start(
    capture: Capture,
    archive: WholeArchive | None,
    session: SessionKey,
    call: CallStarted,
    event: Event,
) -> Decision:
    """Plan the call that an event announces, and begin it under an id that is free.

    Without an `archive` nothing is kept of it. An error here blocks the call.
    """
    from yarp.archive.write import CallFacts

    call_id = call.source_call_id
    if archive is not None:
        current = archive.current(session, call_id)
        call_id = current.next_id if current.finished else current.source_call_id
    while True:
        plan = capture.plan(
            session,
            call_id,
            call.tool_name,
            call.input,
            call.working_directory,
            unpermissioned=call.unpermissioned,
            detached=call.detached,
            writable=call.writable,
            own_words=call.own_words,
        )
        if archive is not None:
            now = time.time_ns() // 1_000_000
            facts = CallFacts(
                call_id,
                call.tool_name,
                provider=call.provider,
                model=call.model,
                working_directory=call.working_directory,
                started_at_ms=call.started_at_ms or now,
                requires_streams=plan.requires_streams,
            )
            before = event.canonical(call.input)
            after = before if plan.input is None else event.canonical(plan.input)
            own_time = call.started_at_ms is None
            try:
                capture.begin(session, facts, before, after, now, own_time=own_time)
            except CallConflict:
                # The id of a call that never ended is used for another one.
                if call_id == current.next_id:
                    raise
                call_id = current.next_id
                continue
        return Decision(input=plan.input)


def rewrite(
    command: str,
    planned: plans.Plan,
    settings: Settings,
    program: tuple[str, ...],
    shell: str | None,
    *,
    call: tuple[str, str, str, str] | None,
    keeps_state: bool = False,
    judged: bool = False,
) -> str | None:
    """The text to run instead of `command`, so that its output can be shortened; else None.

    Arguments as for `wrap`. `keeps_state`: what the text changes of its shell must last.
    `judged`: who judges the text must find the words of `command` in it.
    """
    from yarp.reduce import plan as plans

    if planned.selection is None or not settings.pruning_enabled:
        return None
    if keeps_state and planned.state:
        return None
    # Other shells give these texts other meanings.
    known = shell is None or os.path.basename(shell) in plans.SHELLS
    if not known and plans.plain_argv(command) is None:
        return None
    wrapped = wrap(command, program, shell, call if settings.archive_enabled else None)
    if judged:
        # The shell ends there and never reads on; whoever judges the text does.
        wrapped = f"{wrapped}; exit\n{command}"
    return wrapped if len(payload.utf8(wrapped)) < _ONE_ARGUMENT_BYTES else None


def wrap(
    command: str,
    program: tuple[str, ...],
    shell: str | None,
    call: tuple[str, str, str, str] | None,
) -> str:
    """The text that runs `command`, unchanged, below `yarp run`.

    `program` starts this `yarp`, `shell` runs the text. `call` is agent, account, session and
    call of the call that a host begins in the archive.
    """
    from yarp.shell.quoting import quote

    words = [*program, "run"]
    if call is not None:
        for name, value in zip(("agent", "account", "session", "call"), call, strict=True):
            words += [f"--archive-{name}", value]
    if shell is not None:
        words += ["--shell-program", shell]
    words += ["--shell", command]
    return " ".join(map(quote, words))


def parsed(canonical: bytes) -> object:
    """The value of canonical bytes."""
    import orjson

    value: object = orjson.loads(canonical)
    return value
