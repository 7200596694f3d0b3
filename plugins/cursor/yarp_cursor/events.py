"""Cursor's hook events as calls, and decisions in Cursor's words.

Cursor waits for one JSON object: `{}` where there is nothing to say, since nothing at all
counts as a failure, and a shape that it does not know blocks the tool. An approval is never
given: it would answer the user's question. Calls are told by the three `…ToolUse` events;
those around shell commands, MCP calls and files tell of the same calls once more, without id.
"""

from __future__ import annotations

from yarp.plugin import CallEnded, CallStarted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from yarp.plugin import Decision

_KINDS = ("preToolUse", "postToolUse", "postToolUseFailure")
_SHELL = "Shell"
_MCP = "MCP:"


def decode(event: dict[str, object]) -> CallStarted | CallEnded | None:
    """The call that an event tells of; None for one that tells of none."""
    kind = event.get("hook_event_name")
    session = event.get("conversation_id") or event.get("session_id")
    call_id, tool = event.get("tool_use_id"), event.get("tool_name")
    if kind not in _KINDS or not (
        isinstance(session, str)
        and session
        and isinstance(call_id, str)
        and call_id
        and isinstance(tool, str)
        and tool
    ):
        return None
    start = _started(event, session, call_id, tool)
    if kind == "preToolUse":
        return start
    if kind == "postToolUse":
        return _succeeded(event, start)
    failure = event.get("failure_type")
    result = {
        name: event[name]
        for name in ("error_message", "failure_type", "is_interrupt")
        if name in event
    }
    return CallEnded(
        session, call_id, result, True, executed=failure != "permission_denied", start=start
    )


def _started(event: dict[str, object], session: str, call_id: str, tool: str) -> CallStarted:
    given, model, directory = event.get("tool_input"), event.get("model"), event.get("cwd")
    detached = False
    if isinstance(given, dict) and tool == _SHELL:
        directory = given.get("working_directory") or directory
        detached = given.get("is_background") is True or given.get("block_until_ms") == 0
    return CallStarted(
        session,
        call_id,
        tool,
        given,
        model=model if isinstance(model, str) and model else None,
        working_directory=directory if isinstance(directory, str) and directory else None,
        detached=detached,
    )


def _succeeded(event: dict[str, object], start: CallStarted) -> CallEnded:
    output = event.get("tool_output")
    status, text = None, None
    if start.tool_name == _SHELL:
        found = _object(output)
        code = None if found is None else found.get("exitCode")
        status = code if isinstance(code, int) and not isinstance(code, bool) else None
    elif start.tool_name.startswith(_MCP):
        text = _text(output)
    return CallEnded(
        start.source_session_id,
        start.source_call_id,
        output,
        status not in (None, 0),
        executed=True,
        exit_code=status,
        start=start,
        text=text,
    )


def _object(output: object) -> dict[str, Any] | None:
    """The JSON object that a result is the text of."""
    import json

    try:
        found = json.loads(output) if isinstance(output, str) else output
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _text(output: object) -> str | None:
    """The text of an MCP result that can be given another one."""
    found = _object(output)
    content = None if found is None else found.get("content")
    # What stands beside the blocks says the same once more, and would stay.
    if found is None or not isinstance(content, list) or "structuredContent" in found:
        return None
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]
    return "".join(texts) if texts else None


def replace(event: dict[str, object], content: str) -> object:
    """The MCP result with `content` in the place of its texts; other blocks stay."""
    found = _object(event.get("tool_output"))
    if found is None or _text(found) is None:
        return None
    blocks, said = list[object](), False
    for block in found["content"]:
        if not (isinstance(block, dict) and block.get("type") == "text"):
            blocks.append(block)
        elif not said:
            blocks.append({**block, "text": content})
            said = True
    return {**found, "content": blocks}


def reply(event: dict[str, object], decision: Decision) -> object:
    """Cursor's answer: always an object, and never an approval."""
    kind = event.get("hook_event_name")
    if kind == "preToolUse" and decision.blocked is not None:
        reason = decision.blocked
        return {"permission": "deny", "user_message": reason, "agent_message": reason}
    if kind == "preToolUse" and decision.input is not None:
        return {"updated_input": decision.input}
    if kind == "postToolUse" and decision.result is not None:
        return {"updated_mcp_tool_output": decision.result}
    return {}
