"""The life of each tool call of gptme's: its input is committed before it runs, its result after.

gptme's hook `tool.execute.pre` comes before a call, `tool.execute.post` after one that did not
raise. Neither can refuse a call, and nothing tells of one that failed, was interrupted, or has
no tool; `ToolUse.execute` is wrapped for that. Where its signature is another one, the hooks
alone are used, and what they do not tell stays `started`.
"""

from __future__ import annotations

import getpass
import os
import threading
from typing import TYPE_CHECKING, Any

from yarp_gptme.calls import (
    AGENT,
    SECRET_TOOLS,
    SHELL_TOOL,
    Call,
    conversation_directory,
    conversation_id,
    input_of,
    model,
    now_ms,
    running,
    text,
    working_directory,
)
from yarp_gptme.client import Client, Failed, Off, Refused
from yarp_gptme.say import fault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_WITHHELD = "[withheld: this tool asks for secrets]"
_BEGIN_S = 30.0
_AFTER_S = 2.0
_TRIES = 100


class Blocked(BaseException):
    """The call must not run. No `Exception`, since gptme goes on after those."""


class Recorder:
    """Commits calls through one ingest child.

    `declare` may give another message in the place of one that a tool gave.
    """

    def __init__(
        self,
        client: Client,
        say: Callable[[str], None],
        *,
        wrapped: bool,
        declare: Callable[[Call, Any, str | None], Any] | None = None,
    ) -> None:
        self._client = client
        self._say = say
        self._wrapped = wrapped
        self._declare = declare
        self._used: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self._calls: dict[int, Call] = {}

    # -- the wrapped call -------------------------------------------------------------------

    def execute(self, inner: Callable[..., Generator[Any, None, None]]) -> Callable[..., Any]:
        """`ToolUse.execute` with the archive around it."""

        def execute(
            use: Any, log: Any = None, workspace: Any = None, on_result_message: Any = None
        ) -> Generator[Any, None, None]:
            call = Call(use, conversation_id())
            results: list[Any] = []

            def told(message: Any) -> None:
                results.append(message)
                if on_result_message is not None:
                    on_result_message(message)

            given = inner(use, log, workspace, told)
            yield from self._follow(call, log, given, results)

        return execute

    def _follow(
        self, call: Call, log: Any, given: Generator[Any, None, None], results: list[Any]
    ) -> Generator[Any, None, None]:
        # One message is held back: the result is committed before its last one is shown.
        held: list[Any] = []
        everything, shown = list[Any](), list[Any]()
        try:
            before = 0
            while (message := self._next(call, given)) is not None:
                # What a tool gave is told of right before it comes; the rest is of other hooks.
                if len(results) > before:
                    before = len(results)
                    message = self._declared(call, message)
                    shown.append(message)
                everything.append(message)
                yield from held
                held = [message]
            if not call.begun and not call.lost:
                # No hook told of it: there is no such tool, or its hook could not be called.
                self._begin_quietly(call, log)
            self._finish(call, shown if call.posted else everything)
            yield from held
        except Blocked as blocked:
            self.ended(call, [], executed=False)
            yield _message(str(blocked), call)
        except BaseException as error:
            call.failed = True
            self.ended(call, everything, note=type(error).__name__)
            if not isinstance(error, GeneratorExit):
                yield from held
            raise
        finally:
            given.close()

    def _next(self, call: Call, given: Generator[Any, None, None]) -> Any:
        """The next message, with the call known to all that runs for it; None: no more."""
        self._calls[id(call.tool_use)] = call
        try:
            with running(call):
                return next(given, None)
        finally:
            self._calls.pop(id(call.tool_use), None)

    def _declared(self, call: Call, message: Any) -> Any:
        if self._declare is None:
            return message
        try:
            with running(call):
                return self._declare(call, message, conversation_directory())
        except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a result
            fault("a result is not kept", error)
            return message

    def _finish(self, call: Call, shown: list[Any]) -> None:
        """What gptme gave as the result: of a call that raised, the message that says so."""
        raised = not call.posted and call.begun
        call.failed = call.failed or raised or any(map(_tells_of_failure, shown))
        self.ended(call, shown, executed=not _absent(shown))

    def _begin_quietly(self, call: Call, log: Any) -> None:
        try:
            self.begin(call, log)
        except Blocked as blocked:
            self._say(str(blocked))

    # -- gptme's hooks ----------------------------------------------------------------------

    def before(self, data: Any) -> Generator[Any, None, None]:
        """`tool.execute.pre`, after all other hooks: the input is as the tool gets it."""
        use = data.tool_use
        if use is not None:
            call = self._calls.get(id(use))
            if call is None:
                call = Call(use, conversation_id())
                if not self._wrapped:
                    self._calls[id(use)] = call
            try:
                self.begin(call, data.log)
            except Blocked as blocked:
                if self._wrapped:
                    raise
                self._say(f"{blocked} (this gptme has no hook that can refuse a call)")
        yield from ()

    def after(self, data: Any) -> Generator[Any, None, None]:
        """`tool.execute.post`: the tool did not raise."""
        use = data.tool_use
        call = None if use is None else self._calls.get(id(use))
        if call is not None:
            call.posted = True
            if not self._wrapped:
                self._calls.pop(id(use), None)
                messages = list(data.result_msgs or ())
                call.failed = any(map(_tells_of_failure, messages))
                self.ended(call, messages)
        yield from ()

    # -- the archive ------------------------------------------------------------------------

    def begin(self, call: Call, log: Any) -> None:
        """Commit the input. Blocked: it could not be, and the call must not run."""
        session = _session(call)
        try:
            if self._client.hello(session, patience_s=_BEGIN_S).get("archiveEnabled") is False:
                call.lost = True
                return
            self._begin(call, session, log)
        except Off as off:
            # Nothing is archived on this machine: gptme goes on as if YARP were not there.
            call.lost = True
            self._say(f"nothing is archived: {off}")
        except (Refused, Failed) as error:
            call.lost = True
            raise Blocked(
                f"[yarp] The call was not run, because it could not be archived: {error}. Find "
                "out more with: yarp archive verify (archive.enabled = false switches the "
                "archive off)"
            ) from error

    def _begin(self, call: Call, session: dict[str, Any], log: Any) -> None:
        use = call.tool_use
        provider, name = model()
        fields = {
            "inputBefore": call.before,
            "inputAfter": input_of(use),
            "capturedAtMs": now_ms(),
        }
        for _ in range(_TRIES):
            call.source_call_id = self._identity(call, log)
            facts = {
                "sourceCallId": call.source_call_id,
                "toolName": text(call.tool) or "(no name)",
                "provider": provider,
                "model": name,
                "workingDirectory": text(working_directory()),
                "startedAtMs": call.started_at_ms,
                "requiresStreams": False,
            }
            try:
                begun = self._client.request(
                    "begin_call", session, {"call": facts, **fields}, patience_s=_BEGIN_S
                )
            except Refused as refused:
                # A call of an earlier process of this conversation may have had that id.
                if not any(word in str(refused) for word in ("already", "another")):
                    raise
                last = refused
                continue
            call.begun = True
            call.archive_ref = str(begun["archiveRef"])
            return
        raise last

    def ended(
        self,
        call: Call,
        messages: list[Any],
        *,
        executed: bool | None = None,
        note: str | None = None,
    ) -> None:
        """Commit the result, as gptme made it and as it is shown; never raises."""
        if not call.begun or call.lost:
            return
        session = _session(call)
        after = _result(call, messages, note)
        identity = {"sourceCallId": call.source_call_id}
        failed = call.failed or call.exit_code not in (None, 0)
        try:
            if executed is not False:
                before = {
                    **after,
                    "messages": [_gptmes_own(call, one) for one in after["messages"]],
                }
                fields = {**identity, "result": before, "capturedAtMs": now_ms()}
                self._result_before(call, session, fields)
            self._client.request(
                "finish_call",
                session,
                {
                    **identity,
                    "result": after,
                    "isError": failed or executed is False,
                    "requirePreResult": executed is not False,
                    "finishedAtMs": now_ms(),
                },
                patience_s=_AFTER_S,
            )
        except (Refused, Failed, Off) as error:
            self._say(f"a result could not be archived: {error}")
        except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody a result
            fault("a result is not archived", error)
        finally:
            call.lost = True

    def shorten(
        self, call: Call, command: str, output: str, code: int | None, *, complete: bool
    ) -> str | None:
        """What a rule of YARP's makes of a command's output; None: no rule, or not now.

        The whole text is in the archive then, and the answer names the way back to it.
        """
        if not call.begun or call.lost:
            return None
        session = _session(call)
        identity = {"sourceCallId": call.source_call_id}
        completeness = "complete" if complete else "incomplete"
        fields = {
            "command": command,
            "text": output,
            "isError": code != 0,
            "exitCode": code,
            "sourceCompleteness": completeness,
        }
        try:
            if self._client.hello(session).get("pruningEnabled") is False:
                return None
            found = self._client.request(
                "reduce", session, {**identity, **fields}, patience_s=_AFTER_S
            )
            if found.get("changed") is not True:
                return None
            if found.get("needsResultText") is True:
                kept = {"text": output, "sourceCompleteness": completeness}
                fields = {**identity, **kept, "capturedAtMs": now_ms()}
                self._client.request("result_text", session, fields, patience_s=_AFTER_S)
        except (Refused, Failed, Off) as error:
            self._say(f"a result is not shortened: {error}")
            return None
        return str(found["content"])

    def _result_before(self, call: Call, session: dict[str, Any], fields: dict[str, Any]) -> None:
        path = call.full_output_path
        if path is not None and call.tool == SHELL_TOOL:
            try:
                self._client.request(
                    "result_before",
                    session,
                    {**fields, "fullOutputPath": path},
                    patience_s=_AFTER_S,
                )
            except Refused as refused:
                self._say(f"a spooled output could not be archived: {refused}")
            else:
                return
        self._client.request("result_before", session, fields, patience_s=_AFTER_S)

    def close(self) -> None:
        """End the child; what is committed stays."""
        self._client.close()

    def _identity(self, call: Call, log: Any) -> str:
        """The id that gptme has, with a number where it was used before; else one of our own."""
        given = text(call.tool_use.call_id) if call.tool_use.call_id else None
        base = given or f"at-{len(getattr(log, 'messages', ()) or ())}-{call.tool_use.start or 0}"
        with self._lock:
            key = (call.conversation or "", base)
            seen = _times(log, given) if given else 1
            times = max(seen, self._used.get(key, 0) + 1)
            self._used[key] = times
        return base if times == 1 else f"{base}#{times}"


def _times(log: Any, call_id: str) -> int:
    """How often the model has used this id in the conversation, this time included."""
    mark = f"({call_id}):"
    messages = getattr(log, "messages", ()) or ()
    seen: int = sum(m.content.count(mark) for m in messages if m.role == "assistant")
    return max(1, seen)


def _session(call: Call) -> dict[str, Any]:
    return {
        "agent": AGENT,
        "account": _account(),
        "sourceSessionId": text(call.conversation) or "(no conversation)",
    }


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a user without an entry in the password file


def _result(call: Call, messages: list[Any], note: str | None) -> dict[str, Any]:
    if call.tool in SECRET_TOOLS:
        return {"messages": [{"role": "system", "content": _WITHHELD}]}
    shown = [_plain(message) for message in messages]
    given: dict[str, Any] = {"messages": shown}
    if call.exit_code is not None:
        given["exitCode"] = call.exit_code
    if call.receipts:
        given["receipts"] = call.receipts
    if note is not None:
        given["interrupted"] = note
    return given


def _plain(message: Any) -> dict[str, Any]:
    hidden = bool(getattr(message, "hide", False))
    shown = {"role": message.role, "content": message.content}
    if message.call_id is not None:
        shown["callId"] = message.call_id
    if files := getattr(message, "files", None):
        shown["files"] = [str(file) for file in files]
    if hidden:
        shown["hidden"] = True
    return shown


def _gptmes_own(call: Call, message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    for ours, gptmes in call.shown:
        content = content.replace(ours, gptmes)
    return {**message, "content": content}


def _tells_of_failure(message: Any) -> bool:
    return str(message.content).startswith(("Error executing tool ", "Error during execution: "))


def _absent(messages: list[Any]) -> bool:
    return any("is not available for execution" in str(one.content) for one in messages)


def _message(content: str, call: Call) -> Any:
    from gptme.message import Message

    call_id = call.tool_use.call_id
    metadata = {"tool": call.tool} if call_id is not None else None
    return Message("system", content, call_id=call_id, metadata=metadata)
