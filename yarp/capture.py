"""The life of a call: plan, begin, result, stage, finish.

Whoever hears a host's events (ingest, `yarp hook`) tells them to a `Capture`, which joins the
archive, the reduction engine and the hooks of plugins. Every method is one transaction at
most and may be repeated. Source: seed 000, "Write lifecycle"; spec "Archive".
"""

from __future__ import annotations

import os
import sys

from yarp import paths, payload
from yarp.archive.write import Archive
from yarp.errors import ConfigError, PluginError, ReferenceUnknown
from yarp.types import CallEnded, CallStarted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.archive.read import CallRow, Reader, Source
    from yarp.archive.write import CallFacts, SessionKey
    from yarp.cache import Compiled
    from yarp.payload import Payload
    from yarp.reduce import plan as plans
    from yarp.settings import Settings

_READ_BYTES = 1 << 20
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

        `archive` is one that is open already.
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
                    _parsed(before),
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

    # -- after the tool ran -----------------------------------------------------------------

    def result_before(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        full_output_path: str | None,
        captured_at_ms: int,
    ) -> None:
        """Commit the result as the host gave it, and the file that holds its whole output.

        The path counts only for the host's own shell tool.
        """
        archive = self._writer()
        output: Payload | None = None
        media_type = payload.BINARY
        if full_output_path is not None and self._is_shell_call(session, source_call_id):
            output, media_type = payload.of_file(full_output_path, os.path.dirname(self._path))
        try:
            archive.result_before(
                session, source_call_id, payload.of(result), output, media_type, captured_at_ms
            )
        finally:
            if output is not None:
                output.close()

    def result_text(
        self,
        session: SessionKey,
        source_call_id: str,
        text: str,
        completeness: str,
        captured_at_ms: int,
    ) -> str:
        """Commit the text that the host would have shown; the call's archive reference."""
        whole = payload.of(payload.utf8(text))
        return self._writer().result_text(
            session, source_call_id, whole, completeness, captured_at_ms
        )

    def stage(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        captured_at_ms: int,
        *,
        is_error: bool,
    ) -> None:
        """Commit the provisional result; the call stays started."""
        self._writer().stage_result(
            session, source_call_id, payload.of(result), is_error, captured_at_ms
        )

    def update_final(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        finished_at_ms: int,
        *,
        is_error: bool,
    ) -> None:
        """Commit the final result in place of the provisional one, and finish the call."""
        self._writer().update_final_result(
            session, source_call_id, payload.of(result), is_error, finished_at_ms
        )
        self._finished(session, source_call_id, result)

    def finish(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        finished_at_ms: int,
        *,
        is_error: bool,
        require_pre_result: bool,
    ) -> None:
        """Finish a call that has no provisional result (a tool that never ran, above all)."""
        self._writer().finish_call(
            session,
            source_call_id,
            payload.of(result),
            is_error,
            require_pre_result,
            finished_at_ms,
        )
        self._finished(session, source_call_id, result)

    def _finished(self, session: SessionKey, source_call_id: str, result: bytes) -> None:
        if not self._compiled.callbacks.get("yarp_call_finished"):
            return
        row = self._row(session, source_call_id)
        before = self._archived().snapshot(row.call_id, "result", "before")
        whole = result if before is None else self._archived().payload(before.sha256)
        self.tell(
            "yarp_call_finished",
            CallEnded(
                session.source_session_id,
                source_call_id,
                _parsed(whole),
                bool(row.is_error),
                agent=session.agent,
                account=session.account,
                executed=None if row.executed is None else bool(row.executed),
                finished_at_ms=row.finished_at_ms,
                archive_ref=row.archive_ref,
            ),
        )

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

    def reduce(
        self,
        session: SessionKey,
        source_call_id: str,
        command: str,
        text: str,
        completeness: str,
        *,
        is_error: bool,
        exit_code: int | None,
        ending: str = "",
    ) -> Shortened | None:
        """A summary of a result that was not wrapped, or None to show it as it is.

        Reads the committed `source_output` where there is one, else `text`. `ending` is what the
        host itself put behind the output; it stays at the end.
        """
        if not (self.settings.archive_enabled and self.settings.pruning_enabled):
            return None
        from yarp import shorten
        from yarp.reduce import plan as plans

        row = self._row(session, source_call_id)
        planned = plans.plan(command, self._compiled.rules_for(row.working_directory))
        reduction = shorten.reduction_of(planned, self._compiled)
        if reduction is None:
            return None
        whole = self._source_output(row)
        source = "result_text" if whole is None else "source_output"
        if whole is None:
            reduction.feed(0, payload.utf8(text.removesuffix(ending)))
        else:
            completeness = "complete"
            descriptor = self._archived().payload_file(whole.sha256, os.path.dirname(self._path))
            try:
                while chunk := os.read(descriptor, _READ_BYTES):
                    reduction.feed(0, chunk)
            finally:
                os.close(descriptor)
        success = not is_error if exit_code is None else exit_code == 0
        status = planned.status(exit_code, success=success)
        short = shorten.summary_of(reduction, status, row.archive_ref, completeness, source)
        return None if short is None else Shortened(short + ending, source)

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

    def close(self) -> None:
        """Leave a checkpointed archive behind."""
        if self._reader is not None:
            self._reader.close()
        if self._archive is not None:
            self._archive.close()

    def _writer(self) -> Archive:
        if not self.settings.archive_enabled:
            raise ConfigError("the archive is switched off (archive.enabled = false)")
        if self._archive is None:
            narrow = os.path.dirname(self._path) == paths.data_dir()
            self._archive = Archive.open(self._path, narrow=narrow)
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

    def _source_output(self, row: CallRow) -> Source | None:
        found = self._archived().snapshot(row.call_id, "source_output", "before")
        return found if found is not None and found.media_type != payload.BINARY else None

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

    def _is_shell_call(self, session: SessionKey, source_call_id: str) -> bool:
        return (
            self._row(session, source_call_id).tool_name
            in self._compiled.host(session.agent)["shell_tools"]
        )


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


def _parsed(canonical: bytes) -> object:
    import orjson

    value: object = orjson.loads(canonical)
    return value
