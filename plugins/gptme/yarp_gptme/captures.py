"""One capture of what a command of gptme's writes: a spool, and what is known of its process.

It never raises into gptme. What goes wrong is in the receipt: a capture that cannot be kept is
`unavailable`, `partial` or `failed`, and the command runs as without it.
"""

from __future__ import annotations

import os
import re
import select
import sys
import threading
from typing import TYPE_CHECKING, Any

from yarp.plugin import (
    CallStarted,
    CaptureState,
    ProcessState,
    Receipt,
    ReferenceState,
    Representation,
    SpoolLocation,
    open_spool,
)
from yarp_gptme import place
from yarp_gptme.calls import AGENT, current
from yarp_gptme.say import fault, say_once

if TYPE_CHECKING:
    from yarp.plugin import Spool

STDOUT, STDERR = 0, 1
# Codes that gptme makes up, where nobody knows the process's own.
MADE_UP = TIMED_OUT, OVER_CAP, UNKNOWN = -124, -125, -1
# What gptme shows without a cut, about 40,000 characters of UTF-8, needs no file.
_INLINE_BYTES = 160 << 10
SANITATION = "gptme"
# What stands between two commands, or opens one within another.
_BETWEEN = re.compile(r"[;&|(){}\n`\"'!]|\b(?:then|do|else|if|while|until)\b")
_BEFORE = re.compile(
    r"\w+=.*|-\S*|sudo|doas|env|command|builtin|exec|nohup|nice|ionice|time|timeout|xargs|setsid"
    r"|stdbuf|\d+[smhd]?"
)
_FAULT = "fault-inside-yarp"
_SANDBOXES = ("firejail", "bwrap")


class Policy:
    """What the settings say of captures."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.job_bytes = _mebibytes(settings.get("job_mib"), 32)
        self.conversation_bytes = _mebibytes(settings.get("conversation_mib"), 128)
        self.bounded = settings.get("preview", "bounded") != "gptme"
        self.reduces = settings.get("reduce") is True
        never = settings.get("never_spool")
        self.never = tuple(map(str, never)) if isinstance(never, list) else ()

    def suppresses(self, command: str) -> bool:
        """Whether the user keeps the output of one of these commands from being stored.

        A command begins behind everything that ends another one, wherever that stands, also in
        quotes, and behind assignments and what runs it, such as `sudo`.
        """
        unwanted = [given for given in map(str.split, self.never) if given]
        for part in _BETWEEN.split(command) if unwanted else ():
            words = part.split()
            while words:
                if any(words[: len(given)] == given for given in unwanted):
                    return True
                if not _BEFORE.fullmatch(words[0]):
                    break
                del words[0]
        return False

    def location(self, conversation: str | None, slack_bytes: int = 0) -> SpoolLocation | None:
        """Where a conversation's captures go; None: it has no directory."""
        if conversation is None:
            return None
        return place.location(
            os.path.abspath(conversation),
            job_bytes=self.job_bytes + slack_bytes,
            conversation_bytes=self.conversation_bytes,
        )


def _mebibytes(value: object, otherwise: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return (value if whole else otherwise) << 20  # type: ignore[operator]  # checked


def spool_at(
    found: SpoolLocation | None, *, session: str | None, suppressed: bool = False, **options: Any
) -> Spool:
    """A spool at a place that is known, for the call that runs here; never raises."""
    call = current()
    started = CallStarted(
        session or "",
        "" if call is None or call.source_call_id is None else call.source_call_id,
        "" if call is None else call.tool,
        None,
        agent=AGENT,
    )
    with place.known(found):
        return open_spool(
            started, sanitation=SANITATION, suppressed=suppressed, report=say_once, **options
        )


class Capture:
    """A spool for one command. `cut`: gptme has cut its own presentation of it.

    `killed`: whether it still ran when gptme killed it; None: gptme did not.
    """

    def __init__(
        self,
        policy: Policy,
        conversation: str | None,
        command: str,
        *,
        session: str | None,
        job_id: str | None = None,
        slack_bytes: int = 0,
    ) -> None:
        self.conversation = conversation
        self.cut = False
        self.killed: bool | None = None
        self.receipt: Receipt | None = None
        self.done = threading.Event()
        self._broken = False
        self.spool = spool_at(
            policy.location(conversation, slack_bytes),
            session=session,
            suppressed=policy.suppresses(command),
            job_id=job_id,
            label=command,
            inline_bytes=0 if job_id else _INLINE_BYTES,
        )

    def launched(self) -> None:
        """Have the result of the call that started a job name its capture."""
        call = current()
        if call is not None:
            call.receipts.append(self.spool.receipt().plain())

    def take(self, stream: int, data: bytes) -> None:
        """Take what was read, before anything of it is decoded or given up."""
        if not self._broken:
            try:
                self.spool.take(stream, data)
            except Exception as error:  # noqa: BLE001 - a fault of ours costs nobody an output
                self.broke(error)

    def ended(self, stream: int) -> None:
        """A stream had its real end."""
        if not self._broken:
            try:
                self.spool.ended(stream)
            except Exception as error:  # noqa: BLE001 - as above
                self.broke(error)

    def to_files(self) -> None:
        """Have files from now on, however little there is."""
        if not self._broken:
            try:
                self.spool.to_files()
            except Exception as error:  # noqa: BLE001 - as above
                self.broke(error)

    def broke(self, error: Exception) -> None:
        """A fault of ours: nothing more is kept, and the receipt says so."""
        self._broken = True
        fault("an output is not kept", error)

    def finish(
        self,
        process: ProcessState | None,
        *,
        code: int | None,
        reason: str | None = None,
        unended: str = "drain-timeout",
        upstream: str | None = None,
    ) -> Receipt:
        """Publish the receipt, and have the archive know of it. `code` below 0 is a signal's."""
        first = not self.done.is_set()
        try:
            self.receipt = self.spool.finish(
                process,
                exit_code=code if code is not None and code >= 0 else None,
                signal=-code if code is not None and code < 0 else None,
                process_reason=reason,
                unended=_FAULT if self._broken else unended,
                upstream=_FAULT if self._broken else upstream,
            )
        except Exception as error:  # noqa: BLE001 - as above
            self.broke(error)
            self.receipt = Receipt(
                self.spool.identity.capture_id,
                process=process,
                capture=CaptureState.FAILED,
                capture_reason=_FAULT,
                representation=Representation.REDACTED_TEXT,
            )
        self.done.set()
        call = current()
        if first and call is not None:
            call.receipts.append(self.receipt.plain())
        return self.receipt

    def has_files(self) -> bool:
        """Whether something of it stands in files by now, or will."""
        found = self.receipt or self.spool.receipt()
        return any(stream.reference for stream in found.streams)

    def path(self, stream: int) -> str | None:
        """The file of a stream, as it is called now."""
        found = self.receipt or self.spool.receipt()
        one = found.streams[stream] if stream < len(found.streams) else None
        if one is None or one.reference is None or self.conversation is None:
            return None
        return os.path.join(self.conversation, one.reference)

    def whole(self, stream: int) -> str | None:
        """The file of a stream, once the command is over and all that was read is in it."""
        if self.receipt is None or stream >= len(self.receipt.streams):
            return None
        one = self.receipt.streams[stream]
        return None if one.uncommitted or one.discarded or one.omitted else self.path(stream)

    def lines(self) -> str:
        """What a reader is told of the capture: its state, its sizes, where it stands."""
        found = self.receipt or self.spool.receipt()
        return receipt_text(found, self.conversation)


def receipt_text(receipt: Receipt, conversation: str | None) -> str:
    """A receipt for a model to read, within a few hundred bytes."""
    running = receipt.process is ProcessState.RUNNING
    state = "running" if running else str(receipt.capture)
    if receipt.capture_reason is not None:
        state += f" ({receipt.capture_reason})"
    kind = str(receipt.representation).replace("_", " ")
    lines = [f"[yarp capture {receipt.capture_id}: output {state}, {kind}"]
    for stream in receipt.streams:
        size = "unknown" if stream.observed is None else f"{stream.observed} bytes"
        if stream.reference is None:
            inline = receipt.reference_state is ReferenceState.INLINE
            lost = "as shown" if inline else "not kept"
            kept = lost if stream.observed else "empty"
        elif not stream.observed and not running:
            kept = "empty"
        else:
            path = os.path.join(conversation or "", stream.reference)
            whole = receipt.capture is CaptureState.COMPLETE
            counted = "whole" if whole else f"{stream.committed} bytes kept"
            kept = f"{counted} in {path}"
        lines.append(f"{stream.name}: {size}, {kept}")
    if os.environ.get("GPTME_SANDBOX") in _SANDBOXES and any(s.reference for s in receipt.streams):
        # Its home is another one: a path that works there would be made up.
        lines.append("not reachable from the sandboxed shell; the read tool reads these files")
    return "\n".join(lines) + "]"


def waiting_bytes(descriptor: int) -> int:
    """How much can be read from a pipe without waiting."""
    import fcntl
    import termios

    try:
        found = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(found, sys.byteorder)


def at_end(descriptor: int) -> bool:
    """Whether a pipe has no writer and nothing left: its real end."""
    poller = select.poll()
    try:
        poller.register(descriptor, select.POLLIN)
        found = poller.poll(0)
    except (OSError, ValueError):
        return False
    events = found[0][1] if found else 0
    return bool(events & select.POLLHUP) and not events & (select.POLLIN | select.POLLNVAL)
