"""A safe `save_large_output`: same arguments, same return, with a receipt beside the file.

The file is private, new and whole, whatever the umask and whoever was there before: nothing is
overwritten, no link is followed, and nothing appears before it is complete. Two calls never
share a file. The text is what gptme hands over: decoded, trimmed, selected; the receipt says so.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import CaptureState
from yarp_gptme import place
from yarp_gptme.calls import conversation_id, current
from yarp_gptme.captures import STDERR, STDOUT, spool_at
from yarp_gptme.foreground import running
from yarp_gptme.patches import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yarp.plugin import Receipt
    from yarp_gptme.captures import Policy
    from yarp_gptme.patches import Patches

_PARAMETERS = "content, logdir, output_type=, command_info=, original_tokens="
_CALLERS = ("tools.shell", "tools.tmux", "tools.read", "tools.autocompact.engine")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# What each kind of text is of what there was; what was cut upstream is never called complete.
REASONS = {
    "shell": "as-decoded-and-trimmed-by-gptme",
    "tmux": "pane-history-may-lack-its-beginning",
    "read": "selected-lines",
    "autocompact": "message-as-recorded",
}
OTHERWISE = "upstream-unknown"
_STREAM = "txt"
_CHUNK_BYTES = 1 << 16


class Storage:
    """The wraps of this offer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def start(self, patches: Patches) -> None:
        """Wrap what this offer needs; Mismatch: nothing was wrapped."""
        places = ("util.output_storage", *_CALLERS)
        patches.wrap(
            [
                (Target(f"gptme.{place}:save_large_output", _PARAMETERS), self._save)
                for place in places
            ]
        )

    def _save(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        del inner

        def save_large_output(
            content: str,
            logdir: Path,
            output_type: str = "tool",
            command_info: str | None = None,
            original_tokens: int | None = None,
        ) -> tuple[str, Path]:
            path = self.path(content, logdir, output_type, command_info)
            # In gptme's own words: what reads them goes on as before.
            summary = [f"[Large {output_type} output saved]"]
            if command_info:
                summary.append(f"Command: {command_info}")
            if original_tokens:
                summary.append(f"Original: {original_tokens} tokens")
            summary.append(f"Full output: {path}")
            return "\n".join(summary), path

        return save_large_output

    def path(self, content: str, logdir: Path, output_type: str, label: str | None) -> Path:
        """Where the text is kept: the command's own spool, else a file of its own.

        OSError, as gptme's own function raises it, when it cannot be kept.
        """
        from pathlib import Path

        capture = running() if output_type == "shell" else None
        if capture is not None:
            capture.cut = True
            stream = STDERR if (label or "").endswith(" (stderr)") else STDOUT
            if (spooled := capture.whole(stream)) is not None:
                return Path(spooled)
            if capture.spool.capture is CaptureState.DISABLED:
                content = "[not kept: the settings keep this command's output from being stored]\n"
        receipt = keep(self._policy, content, str(logdir), output_type, label)
        return Path(logdir, receipt.streams[0].reference or "")


def keep(
    policy: Policy,
    content: str,
    conversation: str,
    output_type: str,
    label: str | None,
    *,
    reason: str | None = None,
) -> Receipt:
    """Publish a text, whole or not at all, with its receipt beside it. OSError: it cannot be.

    Its capture is `partial`, with the reason: a tool's text has no end that could be seen.
    """
    kind = output_type if _TYPE.fullmatch(output_type) else "tool"
    data = content.encode("utf-8", "replace")
    found = place.location(
        conversation,
        os.path.join("tool-outputs", kind),
        job_bytes=max(policy.job_bytes, 2 * len(data)),
        conversation_bytes=policy.conversation_bytes,
    )
    spool = spool_at(
        found, session=conversation_id(), streams=(_STREAM,), policy="exact", label=label
    )
    for start in range(0, len(data), _CHUNK_BYTES):
        spool.take(0, data[start : start + _CHUNK_BYTES])
    spool.ended(0)
    receipt = spool.finish(None, upstream=reason or REASONS.get(kind, OTHERWISE))
    stream = receipt.streams[0]
    if stream.reference is None or stream.discarded or stream.uncommitted or stream.pending:
        why = receipt.capture_reason or str(receipt.capture)
        raise OSError(f"the text cannot be kept: {spool.problem or why}")
    call = current()
    if call is not None:
        call.receipts.append(receipt.plain())
    return receipt
