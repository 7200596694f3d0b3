"""`yarp hook HOST`: one event of a host on standard input, the answer on standard output.

A process serves one event and leaves; another may serve the same call at the same time. Before
a call, whatever fails blocks it, with the reason; after one, the host's own result stays, and
the call stays started. Source: spec "Hosts", Rules for all; seed 000, Failure behavior.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from yarp import cache, paths, payload
from yarp.errors import (
    CallConflict,
    ConfigError,
    DataError,
    PluginError,
    StorageError,
)
from yarp.event import Event, name_well, to_json
from yarp.types import CallEnded, CallStarted, Decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from yarp.archive.whole import Current, WholeArchive
    from yarp.archive.write import SessionKey
    from yarp.cache import Compiled
    from yarp.payload import Payload
    from yarp.shorten import Shortener

_HELP = """Usage: yarp hook [--before] HOST

Examples:
  yarp hook acme < event.json            the answer on standard output
  yarp hook --before acme < event.json   for an event that precedes a call

Serve one event of HOST: its JSON on standard input, the answer on standard output.
`yarp install HOST` writes this into the host's own configuration.

Options:
  --before    the event comes before a call: end with 2, which keeps hosts from running it,
              where not even HOST's plugin can be used to say so
"""
_AFTER_SECONDS = 2.0
_BLOCKS = 2


def main(argv: list[str]) -> int:
    """Serve the event; returns only for --help and wrong words."""
    began = time.monotonic()
    words = argv[2:]
    if words in (["-h"], ["--help"]):
        return _write(1, _HELP.encode())
    before = "--before" in words
    names = [word for word in words if word != "--before"]
    if len(names) != 1 or names[0].startswith("-"):
        sys.stderr.write("yarp: yarp hook takes the name of one host; see: yarp hook --help\n")
        return 64
    # Prints of plugins are no answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    hook = _Hook(names[0], paths.program(argv[0]), answers, began, before=before)
    try:
        status = hook.serve()
    except BaseException as error:  # noqa: BLE001 - nothing of ours may end the agent's call
        status = hook.give_up(error)
    # What an interpreter does on its way out costs a third of this process.
    sys.stderr.flush()
    os._exit(status)


class _Hook:
    """One event, from its bytes to its answer."""

    def __init__(
        self, host: str, program: tuple[str, ...], answers: int, began: float, *, before: bool
    ) -> None:
        self._name = host
        self._program = program
        self._answers = answers
        self._began = began
        self._before = before
        # Who has it has the last word: the answer, or that there is none in time.
        self._last_word = _thread.allocate_lock()
        self._claimed = False
        self._compiled: Compiled
        self._host: dict[str, Any]
        self._event: Event
        self._path: str
        self._archive: WholeArchive | None = None
        self._unchanged: bytes | None = None
        # Told to plugins once the host has its answer.
        self._finished: list[tuple[CallEnded, Current, bool, int]] = []

    def serve(self) -> int:
        """Answer the event; the status to end with."""
        try:
            self._event = Event.read(0)
        except DataError as error:
            _say(str(error))
            return 0
        try:
            self._compiled = cache.load()
            self._path = paths.archive_file(self._compiled.settings.archive_path)
        except ConfigError as error:
            return self._off(error)
        self._host = self._compiled.host(self._name)
        if self._host["decode"] is None:
            raise PluginError(f"{self._host['title']} does not speak to yarp hook")
        told = self._ask("decode")
        calls = told if isinstance(told, tuple) else () if told is None else (told,)
        # Kept ready: there may be no time to ask for it later.
        reply = self._unchanged = self._reply(Decision())
        watched = False
        for call in calls:
            name_well(call)
            if isinstance(call, CallStarted):
                decision = self._started(call)
                reply = self._reply(decision)
                if decision.blocked is not None:
                    return self._block(decision.blocked, reply)
            elif self._compiled.settings.archive_enabled:
                watched = watched or self._watch()
                reply = self._ended(call) or reply
        return self._answer(reply)

    def give_up(self, error: BaseException) -> int:
        """Whatever went wrong, the agent goes on; unless a call would run unwatched."""
        _say(_reason(error))
        return _BLOCKS if self._before else 0

    # -- before a call --------------------------------------------------------------------------

    def _started(self, call: CallStarted) -> Decision:
        """Plan and begin the call; whatever fails blocks it."""
        try:
            return self._begin(call)
        except Exception as error:  # noqa: BLE001 - a call that nobody keeps must not run
            return Decision(
                blocked="[yarp] The call was not run, because it could not be archived: "
                f"{_reason(error)}. Find out more with: yarp archive verify "
                "(archive.enabled = false switches the archive off)"
            )

    def _begin(self, call: CallStarted) -> Decision:
        from yarp.capture import Capture, start

        archive = self._open() if self._compiled.settings.archive_enabled else None
        capture = Capture(self._compiled, self._program, archive)
        return start(capture, archive, self._session(call), call, self._event)

    # -- after a call ---------------------------------------------------------------------------

    def _watch(self) -> bool:
        """From now on, answer with no change when the time is over, whatever holds us up."""
        _thread.start_new_thread(self._expire, ())
        return True

    def _expire(self) -> None:
        time.sleep(max(0.0, self._began + _AFTER_SECONDS - time.monotonic()))
        if self._last_word.acquire(blocking=False):
            _say(f"the archive took more than {_AFTER_SECONDS:g} s; the call stays incomplete")
            os._exit(_write(self._answers, self._unchanged))

    def _claim(self) -> None:
        """Have the last word from now on, or wait for the end of this process."""
        if not self._claimed:
            self._last_word.acquire()
            self._claimed = True

    def _ended(self, ended: CallEnded) -> bytes | None:
        """Commit the end; the answer that puts another result in its place, if there is one."""
        try:
            return self._end(ended)
        except Exception as error:  # noqa: BLE001 - the host keeps its own result
            _say(_reason(error))
            return None

    def _end(self, ended: CallEnded) -> bytes | None:
        session = self._session(ended)
        archive = self._open()
        current = archive.current(session, ended.source_call_id)
        executed = ended.executed
        if ended.closes and current.finished:
            return None
        if executed is None and ended.closes:
            if not self._is_refused(ended, current):
                return None
            executed = False
        try:
            return self._complete(archive, session, ended, current, executed=executed is not False)
        except CallConflict:
            if not current.finished or ended.start is None:
                raise
        # Another call of the same id, whose start was never heard.
        current.source_call_id, current.archive_ref = current.next_id, None
        return self._complete(archive, session, ended, current, executed=executed is not False)

    def _is_refused(self, ended: CallEnded, current: Current) -> bool:
        if current.archive_ref is None:
            return True  # it did not come as far as its hooks
        function = self._host["refused"]
        refused = function is not None and self._ask("refused", ended)
        if not refused:
            _say("the end of a call was not told; it stays incomplete")
        return bool(refused)

    def _complete(
        self,
        archive: WholeArchive,
        session: SessionKey,
        ended: CallEnded,
        current: Current,
        *,
        executed: bool,
    ) -> bytes | None:
        from yarp.archive.whole import End

        now = ended.finished_at_ms or _now_ms()
        before = payload.of(self._event.canonical(ended.result))
        shortener = self._shortener(ended, current)
        output = None
        if ended.full_output_path is not None and self._is_shell(ended, current):
            output = self._whole_output(ended.full_output_path, shortener)
        reply, after, text = None, before, None
        try:
            short = self._short(session, ended, current, shortener, output)
            if short is not None:
                reply, after, text = self._replaced(ended, before, *short)
        except Exception as error:  # noqa: BLE001 - it costs a summary, never a call
            _say(_reason(error))
        end = End(
            before,
            after,
            is_error=ended.is_error,
            executed=executed,
            text=text,
            output=output,
            start=None if current.archive_ref is not None else self._late_start(ended, current),
        )
        # What is said to stand in place of the result must then be said.
        claim = None if reply is None else self._claim
        if archive.complete(session, current.source_call_id, end, now, last_moment=claim):
            self._finished.append((ended, current, executed, now))
        return reply

    def _replaced(
        self, ended: CallEnded, before: Payload, content: str, source: str
    ) -> tuple[bytes | None, Payload, tuple[Payload, str] | None]:
        """The answer that shows `content`, the result with it, and the text that it stands for."""
        result = self._ask("replace", content)
        reply = None
        if result is not None:
            reply = self._reply(Decision(content=content, result=result))
        if reply is None:
            return None, before, None
        text = None
        if source != "source_output":
            text = payload.of(payload.utf8(ended.text or "")), ended.completeness
        return reply, payload.of(self._event.canonical(result)), text

    def _short(
        self,
        session: SessionKey,
        ended: CallEnded,
        current: Current,
        shortener: Shortener | None,
        output: tuple[Payload, str] | None,
    ) -> tuple[str, str] | None:
        """The short text and the source that has the rest; None: all is shown."""
        if ended.text is None or self._host["replace"] is None:
            return None
        if shortener is None:
            return self._capped(session, ended, current) if current.requires_streams else None
        return shortener.finish(
            ended.text,
            ended.completeness,
            ended.ending,
            binary=output is not None and output[1] == payload.BINARY,
            success=not ended.is_error,
            exit_code=ended.exit_code,
        )

    def _shortener(self, ended: CallEnded, current: Current) -> Shortener | None:
        """What makes the short text; None: the result stays as it is."""
        if (
            ended.text is None
            or self._host["replace"] is None
            or current.archive_ref is None
            or current.requires_streams
        ):
            return None
        size = len(ended.text)
        settings = self._compiled.settings
        if ended.full_output_path is None and size < settings.minimum_savings_bytes:
            return None
        start, command = ended.start, None
        if start is not None and isinstance(start.input, dict):
            key = self._host["shell_tools"].get(start.tool_name)
            found = None if key is None else start.input.get(key)
            command = found if isinstance(found, str) else None
        from yarp.shorten import Shortener

        directory = None if start is None else start.working_directory
        try:
            return Shortener(self._compiled, current.archive_ref, command, directory)
        except Exception as error:  # noqa: BLE001 - it costs a summary, never a call
            _say(_reason(error))
            return None

    def _capped(
        self, session: SessionKey, ended: CallEnded, current: Current
    ) -> tuple[str, str] | None:
        """What a wrapped command printed, within the global cap."""
        text, budget = ended.text or "", self._compiled.settings.output_cap_bytes
        if not 0 < budget < len(payload.utf8(text)):
            return None
        from yarp.capture import Capture

        found = Capture(self._compiled, self._program, self._archive).cap(
            session,
            current.source_call_id,
            text,
            "stdout",
            ended.completeness,
            ending=ended.ending,
        )
        return None if found is None else (found.content, found.source)

    def _is_shell(self, ended: CallEnded, current: Current) -> bool:
        tool = current.tool_name
        if tool is None and ended.start is not None:
            tool = ended.start.tool_name
        return tool in self._host["shell_tools"]

    def _whole_output(self, path: str, shortener: Shortener | None) -> tuple[Payload, str] | None:
        """The bytes of the file that the host keeps; None, and said, when it cannot be read."""
        try:
            feed = None if shortener is None else shortener.feed
            return payload.of_file(path, os.path.dirname(self._path), feed)
        except StorageError as error:
            _say(str(error))
            return None

    def _late_start(self, ended: CallEnded, current: Current) -> Any:
        """The begin of a call that was never heard of."""
        from yarp.archive.write import CallFacts

        start = ended.start
        if start is None:
            return None
        facts = CallFacts(
            current.source_call_id,
            start.tool_name,
            provider=start.provider,
            model=start.model,
            working_directory=start.working_directory,
            started_at_ms=start.started_at_ms or _now_ms(),
            requires_streams=False,
        )
        return facts, payload.of(self._event.canonical(start.input))

    def _tell(
        self,
        ended: CallEnded,
        current: Current,
        executed: bool,
        finished_at_ms: int,
    ) -> None:
        if not self._compiled.callbacks.get("yarp_call_finished"):
            return
        from yarp.capture import Capture

        Capture(self._compiled, self._program, self._archive).tell(
            "yarp_call_finished",
            CallEnded(
                ended.source_session_id,
                current.source_call_id,
                ended.result,
                ended.is_error,
                agent=self._name,
                account=ended.account or paths.account(),
                exit_code=ended.exit_code,
                executed=executed,
                finished_at_ms=finished_at_ms,
                archive_ref=current.archive_ref,
            ),
        )

    # -- the answer -----------------------------------------------------------------------------

    def _reply(self, decision: Decision) -> bytes | None:
        """The host's words for `decision`; None: it wants none."""
        function = self._host["reply"]
        reply = None if function is None else self._ask("reply", decision)
        return None if reply is None else to_json(reply)

    def _ask(self, what: str, *arguments: object) -> Any:
        """What the host's plugin says of the event; an exception of its own names it."""
        try:
            return cache.resolve(self._host[what])(self._event.members, *arguments)
        except Exception as error:
            raise PluginError(
                f"plugin {self._name} raised {type(error).__name__} in its {what}"
            ) from error

    def _block(self, reason: str, reply: bytes | None) -> int:
        if reply is not None and reply != self._unchanged:
            return self._answer(reply)
        _say(reason)
        return _BLOCKS if self._before else self._answer(reply)

    def _answer(self, reply: bytes | None) -> int:
        """Say it, and leave the archive; the status to end with."""
        self._claim()
        status = _write(self._answers, reply)
        for finished in self._finished:
            self._tell(*finished)
        if self._archive is not None:
            self._archive.leave()
        return status

    def _off(self, error: ConfigError) -> int:
        """Tools run as if YARP were not there; the host says so where it can."""
        _say(str(error))
        try:
            from yarp.plugins import discover

            (entry,) = (entry for entry in discover() if entry.name == self._name)
            host = cache.resolve(entry.module).yarp_host()
            said = host.reply(
                self._event.members, Decision(notice=f"[yarp] off in this session: {error}")
            )
        except Exception:  # noqa: BLE001 - nobody is there to say it
            return 0
        return 0 if said is None else self._answer(to_json(said))

    # -- the archive ----------------------------------------------------------------------------

    def _open(self) -> WholeArchive:
        if self._archive is None:
            from yarp.archive.whole import WholeArchive

            narrow = os.path.dirname(self._path) == paths.data_dir()
            self._archive = WholeArchive.open(self._path, narrow=narrow)
        return self._archive

    def _session(self, call: CallStarted | CallEnded) -> SessionKey:
        from yarp.archive.write import SessionKey

        return SessionKey(self._name, call.account or paths.account(), call.source_session_id)


def _write(descriptor: int, data: bytes | None) -> int:
    data = data or b""
    try:
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # the host made it non-blocking
            from yarp.spool.stream import write_all

            write_all(descriptor, data)
    except OSError as error:
        _say(f"the answer cannot be written: {error.strerror}")
        return 74
    return 0


def _reason(error: BaseException) -> str:
    from yarp.errors import YarpError

    if isinstance(error, YarpError):
        return str(error)
    return f"yarp hook failed inside YARP ({type(error).__name__})"


def _say(text: str) -> None:
    # The text may quote a path that is no Unicode.
    os.write(2, f"yarp: {text}\n".encode("utf-8", "backslashreplace"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
