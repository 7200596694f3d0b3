"""What Claude Code itself puts into a conversation: texts, attachments, news of tasks.

Source: spec "Trace index", 8 (Injected-text table) and 8.3.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from yarp.plugin import Injected, rendered

INTERRUPTED = "[Request interrupted by user"
INTERRUPTIONS = (f"{INTERRUPTED}]", f"{INTERRUPTED} for tool use]")
CONTINUED = "This session is being continued from a previous conversation"
STOP_HOOK = "Stop hook feedback:"

_TAGS = {
    ("runtime.context", "environment"): ("environment_context",),
    ("runtime.context", "internal"): (
        *("command-name", "command-message", "command-args"),
        *("local-command-stdout", "local-command-stderr", "local-command-caveat"),
        *("bash-input", "bash-stdout", "bash-stderr", "user_action", "user_shell_command"),
    ),
    ("runtime.context", None): ("image", "/image", "ide_selection"),
    ("runtime.instructions", "user"): ("user_instructions",),
    ("runtime.instructions", "skill"): ("skill", "skills_instructions"),
    ("runtime.notice", None): ("system-reminder", "user-prompt-submit-hook"),
    ("subagent.report", None): ("task-notification", "subagent_notification"),
}
INJECTED = (
    Injected("header", "# AGENTS.md instructions", "runtime.instructions", "project"),
    Injected("header", "## Memory", "runtime.context", "memory"),
    *(
        Injected("tag", tag, role, category)
        for (role, category), tags in _TAGS.items()
        for tag in tags
    ),
)

# Role and category of attachments by their type.
_ATTACHED = {
    kind: role
    for role, kinds in {
        ("runtime.notice", None): (
            *("task_reminder", "date_change", "goal_status", "read_truncation_notice"),
            *("max_turns_reached", "silent_turn_reminder", "remote_session_change"),
            *("hook_system_message", "hook_success", "hook_cancelled", "hook_blocking_error"),
            *("hook_additional_context", "hook_non_blocking_error", "hook_error_during_execution"),
        ),
        ("runtime.state", None): (
            *("total_tokens_reminder", "edited_text_file", "file_history_snapshot", "plan_mode"),
            *("plan_mode_exit", "auto_mode", "auto_mode_exit", "workflow_keyword_request"),
            *("ultrathink_effort", "ultra_effort_enter", "model", "date"),
        ),
        ("runtime.context", "environment"): ("environment", "session_context"),
        ("runtime.context", "file"): ("file", "compact_file_reference", "plan_file_reference"),
        ("runtime.instructions", "permission"): ("command_permissions",),
        ("runtime.instructions", "skill"): ("invoked_skills",),
        ("runtime.instructions", "tool_catalog"): (
            *("skill_listing", "agent_listing_delta", "deferred_tools_delta"),
            "mcp_instructions_delta",
        ),
    }.items()
    for kind in kinds
}
_WORDS = ("text", "prompt", "snippet", "reason", "message", "content", "date")


def attached(kind: str, value: dict[str, Any]) -> tuple[str, str | None, str | None, bool]:
    """Role, category and text of an attachment, and whether it is an image.

    Without a text of its own a state is told by its type; everything else says nothing.
    """
    role, category = _ATTACHED.get(kind, ("runtime.unknown", None))
    text = next((found for found in _texts(value) if found), None)
    if text is None and role == "runtime.state":
        text = kind
    content = value.get("content")
    has_images = type(content) is dict and content.get("type") == "image"
    return role, category, text, has_images and role != "runtime.instructions"


def _texts(value: dict[str, Any]) -> list[str | None]:
    found = [_string(value.get(name)) for name in _WORDS]
    content = value.get("content")
    file = content.get("file") if type(content) is dict else None
    found.append(_string(file.get("content")) if type(file) is dict else None)
    skills = value.get("skills")
    if type(skills) is list:
        texts = [_string(skill.get("content")) for skill in skills if type(skill) is dict]
        found.append("\n".join(text for text in texts if text))
    for name in ("addedLines", "addedBlocks"):
        lines = value.get(name)
        if type(lines) is list:
            found.append("\n".join(line for line in lines if type(line) is str))
    return [*found, _string(value.get("displayPath")), _string(value.get("filename"))]


def _string(value: object) -> str | None:
    return value if type(value) is str else None


@attrs.frozen
class Notification:
    """What a `<task-notification>` tells: the task or agent, its call, and whether it failed."""

    task: str | None
    use_id: str | None
    failed: bool | None


def notified(text: str) -> Notification:
    """The parts of a notification; None for those that it does not have."""
    status = _part(text, "status")
    failed = None if status is None else status == "failed"
    return Notification(_part(text, "task-id"), _part(text, "tool-use-id"), failed)


def _part(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>\s*([^<]*?)\s*</{name}>", text)
    return found[1] or None if found else None


def words_of(content: object) -> tuple[str | None, bool]:
    """The text of a content, None without one, and whether it shows images."""
    if type(content) is str:
        return content or None, False
    if type(content) is not list:
        return None, False
    blocks = [block for block in content if type(block) is dict]
    text, _ = rendered([block for block in blocks if block.get("type") == "text"])
    return text or None, any(block.get("type") == "image" for block in blocks)


def count(value: object) -> int | None:
    """A number of whole things that fits 64 bits, None where it is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < 2**63 else None
