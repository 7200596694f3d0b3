"""What Codex itself puts into a conversation, by how it begins.

Source: spec "Trace index", 8 (Injected-text table).
"""

from __future__ import annotations

from yarp.plugin import Injected

_TAGS = {
    ("runtime.context", "environment"): ("environment_context", "environments_instructions"),
    ("runtime.context", "internal"): (
        *("codex_internal_context", "goal_context", "user_action", "user_shell_command"),
    ),
    ("runtime.context", None): ("image", "/image", "ide_selection"),
    ("runtime.instructions", "user"): ("user_instructions",),
    ("runtime.instructions", "skill"): ("skills_instructions", "skill"),
    ("runtime.instructions", "permission"): ("permissions",),
    ("runtime.instructions", "plugin"): ("plugins_instructions", "recommended_plugins"),
    ("runtime.instructions", "tool_catalog"): ("tools",),
    ("runtime.instructions", "collaboration"): (
        *("collaboration_mode", "multi_agent_mode", "multi_agent_role"),
        *("realtime_conversation", "realtime_delegation"),
    ),
    ("runtime.instructions", None): ("apps_instructions", "personality_spec"),
    ("runtime.notice", None): ("turn_aborted", "model_switch"),
    ("runtime.state", None): ("context_window", "context_window_guidance", "rollout_budget"),
    ("subagent.report", None): ("subagent_notification",),
}
_PREFIXES = {
    ("runtime.instructions", "permission"): (
        "Approved command prefix saved:",
        "Allowed network rule saved in execpolicy",
        "Denied network rule saved in execpolicy",
    ),
    ("runtime.instructions", "collaboration"): (
        "You are `/root`, the primary agent in a team of agents",
        "You are an agent in a team of agents",
    ),
    ("runtime.notice", None): (
        "Generated images are saved to ",
        "Warning: The maximum number of unified exec processes",
        "Warning: apply_patch was requested via ",
        "Warning: Your account was flagged for potentially high-risk cyber activity",
    ),
}
INJECTED = (
    Injected("header", "# AGENTS.md instructions", "runtime.instructions", "project"),
    Injected("header", "## Memory", "runtime.context", "memory"),
    *(
        Injected(kind, marker, role, category)
        for kind, table in (("tag", _TAGS), ("prefix", _PREFIXES))
        for (role, category), markers in table.items()
        for marker in markers
    ),
)

# What newer builds say of a text beside it, by the whole name of its kind or by the first part.
_KINDS: dict[str, tuple[str, str | None]] = {
    "agents_md": ("runtime.instructions", "project"),
    "apps": ("runtime.instructions", None),
    "collaboration_mode": ("runtime.instructions", "collaboration"),
    "environments": ("runtime.context", "environment"),
    "generic.developer_instructions": ("runtime.instructions", "user"),
    "generic.turn_aborted": ("runtime.notice", None),
    "hooks": ("runtime.notice", None),
    "host_skills": ("runtime.instructions", "skill"),
    "memories": ("runtime.context", "memory"),
    "model": ("runtime.instructions", None),
    "multi_agent": ("runtime.instructions", "collaboration"),
    "multi_agent.subagent_notification": ("subagent.report", None),
    "permissions": ("runtime.instructions", "permission"),
    "plugins": ("runtime.instructions", "plugin"),
    "skills": ("runtime.instructions", "skill"),
    "tools": ("runtime.instructions", "tool_catalog"),
}


def of_kind(kind: str | None) -> tuple[str, str | None] | None:
    """Role and category of a text of that kind; None: Codex did not say, or it is another one."""
    if kind is None:
        return None
    return _KINDS.get(kind) or _KINDS.get(kind.partition(".")[0])
