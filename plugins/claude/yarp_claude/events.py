"""Claude Code's hook events as calls, and decisions in Claude Code's words.

Source: the events of Claude Code 2.1, as recorded; spec "Hosts".
"""

from __future__ import annotations

import os
import time

from yarp.plugin import CallEnded, CallStarted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from yarp.plugin import Decision

SHELL_TOOL = "Bash"
MANAGED = "/etc/claude-code/managed-settings.json"
# Where Claude Code keeps an output that is too long to show; the model then reads a preview.
_PERSISTED = ("persistedOutputPath", "persistedOutputSize")
# The records of one turn, where a call of it is looked for.
_TAIL_BYTES = 1 << 22
_TRANSCRIPT_SECONDS = 1.2
# What Claude Code defines in the shell of every command, whatever the user's start files do.
_OWN_WORDS = ("find", "grep", "pkill", "rg")
_PAUSE_SECONDS = 0.02


def decode(event: dict[str, Any]) -> CallStarted | CallEnded | tuple[CallEnded, ...] | None:
    """The start or the end that an event tells of; None for any other event."""
    session = _text(event.get("session_id"))
    name = event.get("hook_event_name")
    # Cursor starts the hooks of these settings too, and tells of its own calls.
    if session is None or "cursor_version" in event:
        return None
    if name == "PostToolBatch":
        return _batch(event, session)
    start = _start(event, session, event)
    if start is None:
        return None
    if name == "PreToolUse":
        if start.tool_name == SHELL_TOOL:
            start.own_words = own_words(event)
            start.writable = writable(event)
        return start
    if name == "PostToolUse" and "tool_response" in event:
        return _succeeded(event, start)
    if name == "PostToolUseFailure" and "error" in event:
        result = {key: event[key] for key in ("error", "is_interrupt") if key in event}
        return CallEnded(session, start.source_call_id, result, True, executed=True, start=start)
    return None


def reply(event: dict[str, Any], decision: Decision) -> dict[str, Any] | None:
    """What Claude Code reads: a refusal, another input, another output, a word to the user.

    The user's own permission question is never answered: the one permission decision that is
    ever given is the refusal of a call that cannot be kept.
    """
    name = event.get("hook_event_name")
    said: dict[str, Any] = {}
    if name == "SessionStart":
        return {"systemMessage": decision.notice} if decision.notice else None
    if name == "PreToolUse" and decision.blocked is not None:
        said = {"permissionDecision": "deny", "permissionDecisionReason": decision.blocked}
    elif name == "PreToolUse" and decision.input is not None:
        said = {"updatedInput": decision.input}
    elif name == "PostToolUse" and decision.result is not None:
        said = {"updatedToolOutput": decision.result}
    return {"hookSpecificOutput": {"hookEventName": name, **said}} if said else None


def replace(event: dict[str, Any], content: str) -> object:
    """The tool's result in its own shape, with `content` in place of its text.

    Without the file of the whole output: Claude Code would frame the text as a preview of it.
    """
    response = event.get("tool_response")
    if isinstance(response, dict):
        kept = {key: value for key, value in response.items() if key not in _PERSISTED}
        return {**kept, "stdout": content}
    if isinstance(response, list) and len(response) == 1 and isinstance(response[0], dict):
        return [{**response[0], "text": content}]
    return None


def refused(event: dict[str, Any], ended: CallEnded) -> bool:
    """Whether a call of a batch was refused before it ran, as the session's transcript has it.

    Claude Code writes that a moment later than it asks its hooks.
    """
    call_id = ended.source_call_id.removeprefix(f"{event.get('agent_id')}/")
    deadline = time.monotonic() + _TRANSCRIPT_SECONDS
    while (record := _record(_transcript(event), call_id)) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    decision = record.get("permissionDecision")
    rejected = isinstance(decision, dict) and decision.get("decision") == "reject"
    return rejected or "toolDenialKind" in record


def own_words(event: dict[str, Any]) -> frozenset[str] | None:
    """The functions and aliases that the session's commands have; None: not known yet.

    Claude Code writes them down before the first command runs, from the user's start files.
    """
    folder = os.path.join(_configuration(event), "shell-snapshots")
    try:
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        with open(max(paths, key=os.path.getmtime), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    found = set(_OWN_WORDS)
    for line in text.split("\n"):
        if line.startswith("alias "):
            found.add(line.partition("=")[0].rpartition(" ")[2].strip("'"))
        elif line.startswith("eval $'"):
            found.add(line[7:].partition(" ()")[0])
        elif line.startswith('eval "'):
            return None  # written in a way that is not read here
        elif line.startswith("function "):
            found.add(line.split()[1].partition("(")[0])
        elif line.endswith("() {") and line[0] not in " \t":  # as zsh prints them
            found.add(line.partition("(")[0].strip())
    return frozenset(found)


def writable(event: dict[str, Any]) -> tuple[str, ...] | None:
    """The directories that the sandbox lets a command write to; None: it runs in none."""
    tool_input = event.get("tool_input")
    if isinstance(tool_input, dict) and tool_input.get("dangerouslyDisableSandbox") is True:
        return None
    enabled, found = False, [_text(event.get("cwd")) or "/"]
    for path in settings_files(_configuration(event), found[0]):
        try:
            with open(path, "rb") as file:
                text = file.read()
        except (OSError, ValueError):
            continue
        if b'"sandbox"' in text:
            sandbox = _parsed(text).get("sandbox")
            if isinstance(sandbox, dict):
                enabled = sandbox.get("enabled", enabled) is True
                files = sandbox.get("filesystem")
                roots = files.get("allowWrite") if isinstance(files, dict) else None
                found += [root for root in roots or () if isinstance(root, str)]
    return tuple(map(_root, found)) if enabled else None


def settings_files(configuration: str, project: str) -> list[str]:
    """Every settings file that counts in a project, the last word last."""
    return [
        os.path.join(configuration, "settings.json"),
        os.path.join(project, ".claude", "settings.json"),
        os.path.join(project, ".claude", "settings.local.json"),
        MANAGED,
    ]


def _configuration(event: dict[str, Any]) -> str:
    """Claude Code's own directory."""
    transcript = _text(event.get("transcript_path"))
    if transcript is not None and "/projects/" in transcript:
        return transcript.rpartition("/projects/")[0]
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")


def _root(path: str) -> str:
    return os.path.expanduser(path[1:] if path.startswith("//") else path)


def _parsed(text: bytes) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _start(event: dict[str, Any], session: str, call: dict[str, Any]) -> CallStarted | None:
    call_id, tool = _text(call.get("tool_use_id")), _text(call.get("tool_name"))
    if call_id is None or tool is None or "tool_input" not in call:
        return None
    tool_input = call["tool_input"]
    mode = event.get("permission_mode")
    worker = _text(event.get("agent_id"))
    return CallStarted(
        session,
        call_id if worker is None else f"{worker}/{call_id}",
        tool,
        tool_input,
        working_directory=_text(event.get("cwd")),
        unpermissioned=None if mode is None else mode == "bypassPermissions",
        detached=isinstance(tool_input, dict) and tool_input.get("run_in_background") is True,
    )


def _succeeded(event: dict[str, Any], start: CallStarted) -> CallEnded:
    response = event["tool_response"]
    text, completeness, path = None, "unknown", None
    if start.tool_name == SHELL_TOOL and isinstance(response, dict):
        stdout = response.get("stdout")
        # The model reads both; one text can stand only for one of them.
        if isinstance(stdout, str) and not response.get("stderr") and not response.get("isImage"):
            text = stdout
        path = _persisted(event, response)
        cut = _PERSISTED[0] in response or "backgroundTaskId" in response
        completeness = "incomplete" if cut or response.get("interrupted") else "complete"
    elif start.tool_name.startswith("mcp__"):
        text = _only_text(response)
    return CallEnded(
        start.source_session_id,
        start.source_call_id,
        response,
        False,
        executed=True,
        full_output_path=path,
        start=start,
        text=text,
        completeness=completeness,
    )


def _batch(event: dict[str, Any], session: str) -> tuple[CallEnded, ...] | None:
    """Every call of a turn; of those that fired no hook of their own this is all that is told."""
    calls = event.get("tool_calls")
    found = []
    for call in calls if isinstance(calls, list) else ():
        start = _start(event, session, call) if isinstance(call, dict) else None
        if start is not None:
            result = {"tool_response": call.get("tool_response")}
            ended = CallEnded(session, start.source_call_id, result, True, closes=True, start=start)
            found.append(ended)
    return tuple(found) or None


def _only_text(response: object) -> str | None:
    if isinstance(response, list) and len(response) == 1 and isinstance(response[0], dict):
        block = response[0]
        return _text(block.get("text")) if block.get("type") == "text" else None
    return None


def _persisted(event: dict[str, Any], response: dict[str, Any]) -> str | None:
    """The file of the whole output, if it lies where this session keeps such files."""
    path, transcript = _text(response.get(_PERSISTED[0])), _text(event.get("transcript_path"))
    if path is None or transcript is None or "\0" in path + transcript:
        return None
    kept = os.path.realpath(os.path.join(transcript.removesuffix(".jsonl"), "tool-results"))
    return path if os.path.realpath(os.path.dirname(path)) == kept else None


def _transcript(event: dict[str, Any]) -> str | None:
    path, worker = _text(event.get("transcript_path")), _text(event.get("agent_id"))
    if path is None or worker is None:
        return path
    return os.path.join(path.removesuffix(".jsonl"), "subagents", f"agent-{worker}.jsonl")


def _record(path: str | None, call_id: str) -> dict[str, Any] | None:
    """The transcript's record of the call's result, among the last ones."""
    if path is None:
        return None
    import json

    quoted = json.dumps(call_id).encode()
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except (OSError, ValueError):
        return None
    for line in reversed(lines):
        found = _parsed(line) if quoted in line else {}
        message = found.get("message")
        blocks = message.get("content") if isinstance(message, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("tool_use_id") == call_id:
                return found
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
