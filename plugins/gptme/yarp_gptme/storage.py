"""A safe `save_large_output`: same arguments, same return, with a receipt beside the file.

The file is private, new and whole, whatever the umask and whoever was there before: nothing is
overwritten, no link is followed, and nothing appears before it is complete. Two calls never
share a file. The text is what gptme hands over: decoded, trimmed, selected; the receipt says so.

All of a conversation's texts lie where its captures do, so that they share one allowance. A text
that is refused there, because the allowance is used up or the place is not safe, costs the caller
nothing but the text: it gets a path that says so, and that leads nowhere.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from yarp.plugin import CaptureState
from yarp_gptme import place
from yarp_gptme.calls import conversation_id, current
from yarp_gptme.captures import STDERR, STDOUT, spool_at
from yarp_gptme.patches import Target
from yarp_gptme.shells import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yarp.plugin import PreviewFact, Receipt
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
_SLACK_BYTES = 1 << 20


class NotKept(OSError):
    """A text that may not be kept: no fault of the storage, and none that gptme expects."""


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
            try:
                path = self.path(content, logdir, output_type, command_info)
            except NotKept as refused:
                path = place.nowhere(logdir, str(refused))
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
            keeps = partial(self._own, content, logdir, output_type, label)
            if (promised := capture.promise(stream, keeps)) is not None:
                return Path(promised)
            if capture.spool.capture is CaptureState.DISABLED:
                content = "[not kept: the settings keep this command's output from being stored]\n"
        return self._own(content, logdir, output_type, label)

    def _own(self, content: str, logdir: Path, output_type: str, label: str | None) -> Path:
        """A file of the text's own."""
        from pathlib import Path

        conversation = os.path.abspath(logdir)
        os.makedirs(conversation, exist_ok=True)
        receipt = keep(self._policy, content, conversation, output_type, label)
        return Path(logdir, receipt.streams[0].reference or "")


def keep(
    policy: Policy,
    content: str,
    conversation: str,
    output_type: str,
    label: str | None,
    *,
    reason: str | None = None,
    shown: PreviewFact | None = None,
) -> Receipt:
    """Publish a text, whole or not at all, with its receipt beside it.

    Raises NotKept where the allowance or the place does not have it, OSError when it cannot be
    written. Its capture is `partial`, with the reason: a tool's text has no end that could be seen.
    """
    kind = output_type if _TYPE.fullmatch(output_type) else "tool"
    data = content.encode("utf-8", "replace")
    found = policy.location(conversation, _SLACK_BYTES)
    spool = spool_at(
        found, session=conversation_id(), streams=(_STREAM,), policy="exact", label=label
    )
    for start in range(0, len(data), _CHUNK_BYTES):
        spool.take(0, data[start : start + _CHUNK_BYTES])
    spool.ended(0)
    spool.showed(shown)  # gptme says not what it shows of a text that it hands over
    receipt = spool.finish(None, upstream=reason or REASONS.get(kind, OTHERWISE))
    stream = receipt.streams[0]
    if stream.reference is None or stream.discarded or stream.uncommitted or stream.pending:
        _take_back(conversation, receipt)
        why = spool.problem or receipt.capture_reason or str(receipt.capture)
        kind_of = NotKept if _refused(receipt, spool.problem) else OSError
        raise kind_of(f"not kept: {why}")
    call = current()
    if call is not None:
        call.receipts.append(receipt.plain())
    return receipt


def _refused(receipt: Receipt, problem: str | None) -> bool:
    """Whether a text was refused, and not lost by the storage."""
    if receipt.capture_reason in ("job-quota", "conversation-quota", "redactor-failed"):
        return True
    return receipt.capture is CaptureState.UNAVAILABLE and problem is not None


def _take_back(conversation: str, receipt: Receipt) -> None:
    """Remove what is there of a text that is not there as a whole, and that nobody was told of."""
    folder = os.path.join(conversation, place.FOLDER)
    for ending in (_STREAM, "receipt.json"):
        with suppress(OSError):
            os.unlink(os.path.join(folder, f"{receipt.capture_id}.{ending}"))
