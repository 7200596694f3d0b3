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
