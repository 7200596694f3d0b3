"""Codex's hook events as calls, and decisions in Codex's words.

One event is one process. A call is told before and after it; what ends without a hook, or was
never told of at all, is closed from the transcript when the turn does.
"""

from __future__ import annotations

import os

from yarp.plugin import CallEnded, CallStarted
from yarp_codex import shell, transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.plugin import Decision
    from yarp_codex.turn import Told

# What Codex puts before a result that it has cut.
_CUT = "Warning: truncated output (original token count: "
_REFUSED = ("failed", "declined")


def decode(event: dict[str, object]) -> CallStarted | tuple[CallEnded, ...] | None:
    """The call that an event tells of; the open ones of the turn where the turn ends."""
    kind, session = event.get("hook_event_name"), event.get("session_id")
    if not isinstance(session, str) or not session:
        return None
    if kind in ("Stop", "SubagentStop", "SessionEnd", "Interrupt"):
        return _closed(event, session)
    call_id, tool = event.get("tool_use_id"), event.get("tool_name")
    if not (isinstance(call_id, str) and call_id and isinstance(tool, str) and tool):
        return None
    start = _started(event, session, call_id, tool)
    if kind == "PreToolUse":
        return start
    if kind != "PostToolUse":
        return None
    response = event.get("tool_response")
    status, failed = None, False
    if tool == "Bash":
        path = event.get("transcript_path")
        status = transcript.exit_code(path, call_id) if isinstance(path, str) else None
        failed = status not in (None, 0)
    elif isinstance(response, dict):
        failed = response.get("isError") is True
    cut = isinstance(response, str) and response.startswith(_CUT)
    ended = CallEnded(
        session,
        start.source_call_id,
        response,
        failed,
        executed=True,
        exit_code=status,
        completeness="incomplete" if cut else "unknown",
        start=start,
    )
    return (ended,)


def _started(event: dict[str, object], session: str, call_id: str, tool: str) -> CallStarted:
    model, directory = event.get("model"), event.get("cwd")
    place = directory if isinstance(directory, str) else None
    call = CallStarted(
        session,
        _own_id(event, call_id),
        tool,
        event.get("tool_input"),
        model=model if isinstance(model, str) else None,
        working_directory=place,
        unpermissioned=event.get("permission_mode") == "bypassPermissions",
        writable=(),
    )
    path, turn_id = event.get("transcript_path"), event.get("turn_id")
    if (
        tool == "Bash"
        and event.get("hook_event_name") == "PreToolUse"
        and isinstance(path, str)
        and isinstance(turn_id, str)
    ):
        found = transcript.before(path, turn_id, call_id)
        call.writable = found.writable
        call.own_words = shell.own_words(path, str(event.get("agent_id") or session))
        call.detached = any(not _only_shows(source) for source in found.scripts)
        workdir = found.arguments.get("workdir")
        if isinstance(workdir, str) and workdir:
            call.working_directory = os.path.join(place or "/", workdir)
        if found.arguments.get("shell"):
            call.own_words = None  # whatever that one means by the text
    return call


def _only_shows(source: str) -> bool:
    from yarp_codex.script import only_shows

    return only_shows(source)


def _own_id(event: dict[str, object], call_id: str) -> str:
    """A call's id within the session: those of a subagent's thread are told apart."""
    agent = event.get("agent_id")
    return f"{agent}/{call_id}" if isinstance(agent, str) and agent else call_id


def _closed(event: dict[str, object], session: str) -> tuple[CallEnded, ...] | None:
    from yarp_codex.turn import calls_of

    path, turn_id = _transcript(event)
    if path is None:
        return None
    model, directory = event.get("model"), event.get("cwd")
    ended = []
    for told in calls_of(path, turn_id):
        # Of one that was interrupted before anything is known, nothing is said.
        if told.item is None and not told.settled:
            continue
        own_id = _own_id(event, told.call_id)
        start = CallStarted(
            session,
            own_id,
            told.name,
            told.input,
            model=model if isinstance(model, str) else None,
            working_directory=directory if isinstance(directory, str) else None,
        )
        status = None if told.item is None else told.item.get("exit_code")
        ended.append(
            CallEnded(
                session,
                own_id,
                told.output,
                _failed(told),
                executed=_ran(told),
                closes=True,
                exit_code=status if isinstance(status, int) else None,
                start=start,
            )
        )
    return tuple(ended) or None


def _transcript(event: dict[str, object]) -> tuple[str | None, str | None]:
    name = "agent_transcript_path" if "agent_transcript_path" in event else "transcript_path"
    path, turn_id = event.get(name), event.get("turn_id")
    return (
        path if isinstance(path, str) else None,
        turn_id if isinstance(turn_id, str) else None,
    )


def _failed(told: Told) -> bool:
    if told.item is None:
        return told.name != "write_stdin"
    return told.item.get("status") in _REFUSED


def _ran(told: Told) -> bool:
    if told.item is not None:
        return told.item.get("status") != "declined"
    # Input to a running command has no item; of all else nothing happened.
    return told.name == "write_stdin"


def reply(event: dict[str, object], decision: Decision) -> object:
    """Codex's answer: a rewrite goes with an `allow`, after which Codex still judges the text."""
    kind = event.get("hook_event_name")
    if kind == "PreToolUse" and decision.blocked is not None:
        return _before("deny", permissionDecisionReason=decision.blocked)
    if kind == "PreToolUse" and decision.input is not None and event.get("tool_name") == "Bash":
        return _before("allow", updatedInput=decision.input)
    if kind == "SessionStart" and decision.notice is not None:
        return {"systemMessage": decision.notice}
    return None


def _before(permission: str, **more: object) -> dict[str, object]:
    specific = {"hookEventName": "PreToolUse", "permissionDecision": permission, **more}
    return {"hookSpecificOutput": specific}
