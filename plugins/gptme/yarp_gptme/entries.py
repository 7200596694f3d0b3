"""Tools that cannot be streamed: a receipt that says what of their result was there to keep.

The Python tool, gh, MCP and the browser give a text that is whole in memory when gptme hands it
on: cut, converted or selected on the way. What is large is kept as it was handed on; the receipt
is `partial` and says why, since what lay behind the text was never seen.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import PreviewFact, PreviewState
from yarp_gptme.calls import SECRET_TOOLS
from yarp_gptme.captures import receipt_text
from yarp_gptme.storage import keep

if TYPE_CHECKING:
    from yarp_gptme.calls import Call
    from yarp_gptme.captures import Policy

# Of a text that is longer, gptme's shell tool shows head and tail (10,000 tokens of 4).
LARGE_CHARACTERS = 40_000
_HEAD, _TAIL = 2000, 6000
_CUT = re.compile(
    r"\[\.\.\. [\d,]+ bytes omitted \(|\[\.\.\. truncated \d+ chars|\.\.\. \(truncated"
)
REASONS = {
    "ipython": "tool-text-streams-cut-at-10-MiB",
    "gh": "fetched-and-formatted-may-be-clipped",
    "browser": "page-as-converted",
    "tmux": "pane-history-may-lack-its-beginning",
    "mcp": "first-text-of-the-answer",
}
"""What the result of each tool is of what there was."""


def reason_of(tool: str, *, is_mcp: bool) -> str | None:
    """Why a tool's text may not be all there was; None: a tool that this module leaves alone."""
    return REASONS["mcp"] if is_mcp else REASONS.get(tool)


def declare(policy: Policy, call: Call, message: Any, conversation: str | None) -> Any:
    """The message as it goes on: a large text is kept, and its receipt stands behind it."""
    reason = reason_of(call.tool, is_mcp=_is_mcp(call.tool))
    content: str = message.content
    if (
        reason is None
        or conversation is None
        or call.tool in SECRET_TOOLS
        or getattr(message, "hide", False)
        or len(content) <= LARGE_CHARACTERS
    ):
        return message
    if _CUT.search(content):
        reason = f"cut-upstream, {reason}"
    shown, state = content, PreviewState.COMPLETE
    if policy.bounded:
        shown, state = _ends(content), PreviewState.HEAD_TAIL
    fact = PreviewFact(state, len(shown.encode(errors="replace")))
    try:
        receipt = keep(
            policy,
            content,
            conversation,
            _word(call.tool),
            call.tool,
            reason=reason,
            shown=fact,
        )
        told = receipt_text(receipt, conversation)
    except OSError as error:
        # Nothing is taken from a result that could not be kept.
        return message.replace(content=f"{content}\n\n[yarp: not kept: {error}]")
    shown = f"{shown}\n\n{told}"
    call.shown.append((shown, content))
    return message.replace(content=shown)


def _ends(content: str) -> str:
    left = len(content) - _HEAD - _TAIL
    return f"{content[:_HEAD]}\n\n[… {left} characters are left out …]\n\n{content[-_TAIL:]}"


def _word(tool: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", os.path.basename(tool)).lstrip("-_")[:64] or "tool"


def _is_mcp(tool: str) -> bool:
    try:
        from gptme.tools import get_tool

        return bool(getattr(get_tool(tool), "is_mcp", False))
    except Exception:  # noqa: BLE001 - another gptme: it is not known
        return False
