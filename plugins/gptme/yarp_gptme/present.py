"""What the model gets of a command in the foreground, and what its receipt says of that.

gptme's own words stay wherever it cuts nothing. Where it does, head and tail come from the spool
within its budget, unless the user chose how much is shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from yarp.plugin import CaptureState, PreviewFact, PreviewState, ProcessState, ReferenceState

if TYPE_CHECKING:
    from yarp.plugin import Receipt
    from yarp_gptme.captures import Policy
    from yarp_gptme.shells import Ending, Shell

_NOWHERE = (CaptureState.DISABLED, CaptureState.UNAVAILABLE)
_BUDGETS = ("PRE_TOKENS", "POST_TOKENS", "STDERR_PRE_TOKENS", "STDERR_POST_TOKENS")
# What gptme makes of less is left alone: its own previews of commits, of lists, of what was asked.
_MOST_CHARACTERS = 16 << 10
_NOTHING = (
    "No output before byte cap\n",
    "No output before timeout\n",
    "No output before interruption\n",
    "No output\n",
)


class Made(NamedTuple):
    """What gptme made of a command: its own words, or why there are none, and what it was.

    `frame`: its words around no output at all.
    """

    own: str
    problem: OSError | None
    of: tuple[str, str, str, int | None]
    frame: str


def present(policy: Policy, made: Made, capture: Shell, call: Any, ending: Ending) -> str:
    """What is shown in the end, and what the archive is to know of it."""
    around, short = _around(made.frame), None
    if policy.reduces and around and call and ending.process is ProcessState.EXITED:
        short = _shortened(call, *made.of, complete=capture.heard)
    large = capture.cut and len(made.own) > _MOST_CHARACTERS
    bounded = made.problem or (large and policy.bounded and not _has_budgets())
    # Of what is not stored by choice, or cannot be, there is no preview of ours.
    has_preview = capture.spool.capture not in _NOWHERE
    bounded = bounded and short is None and around is not None and has_preview
    if not bounded:
        capture.spool.showed(_fact(made, around, short, capture))
    receipt = capture.conclude(*ending)
    is_own = not bounded and short is None
    own = capture.redeemed(made.own, shown=is_own)
    shown = own or made.frame
    if around is not None and not is_own:
        body = capture.spool.preview().body if short is None else short
        shown = _framed(around, body)
    if receipt.reference_state is ReferenceState.LOCAL or _lost(receipt):
        shown = f"{shown.rstrip()}\n\n{capture.lines()}\n"
    if call is not None and own and shown != own:
        call.shown.append((shown, own))
        _keep_whole(call, capture, receipt)
    return shown


def _fact(
    made: Made, around: tuple[str, str] | None, short: str | None, capture: Shell
) -> PreviewFact:
    """How much of the output is in what the model gets, where that is no preview of ours."""
    body = made.own if short is None else short
    if short is None and around is not None:
        body = "" if body == made.frame else body.removeprefix(around[0]).removesuffix(around[1])
    whole = short is None and not capture.cut and not capture.late
    whole = whole and all(_plain(text) in made.own for text in made.of[1:3])
    state = PreviewState.COMPLETE if whole else PreviewState.HEAD_TAIL
    return PreviewFact(state, len(body.strip().encode(errors="replace")))


def _plain(output: str) -> str:
    """An output as gptme shows it."""
    from gptme.tools.shell import strip_ansi_codes

    return str(strip_ansi_codes(output)).strip()


def _has_budgets() -> bool:
    """Whether the user has chosen how much gptme shows: a choice that stands."""
    return any(os.environ.get(f"GPTME_SHELL_TRUNC_{name}") for name in _BUDGETS)


def _around(frame: str) -> tuple[str, str] | None:
    """The words of gptme around an output; None: they are other words than are known."""
    nothing = next((words for words in _NOTHING if words in frame), None)
    if nothing is None:
        return None
    before, _, after = frame.rpartition(nothing)
    return before, after


def _framed(around: tuple[str, str], body: str) -> str:
    """The words of gptme around a body of ours."""
    from gptme.util.context import md_codeblock

    block: str = md_codeblock("output", body)
    return f"{around[0]}{block}\n\n{around[1]}"


def _shortened(
    call: Any, command: str, stdout: str, stderr: str, code: int | None, *, complete: bool
) -> str | None:
    """What a rule makes of the output, where the archive is at hand."""
    from yarp_gptme.inside import active

    here = active()
    if here is None or here.recorder is None:
        return None
    gap = "\n" if stdout and stderr and not stdout.endswith("\n") else ""
    return here.recorder.shorten(call, command, stdout + gap + stderr, code, complete=complete)


def _lost(receipt: Receipt) -> bool:
    """Whether something was written that is neither all kept, other than by choice, nor shown."""
    if receipt.capture in (CaptureState.COMPLETE, CaptureState.DISABLED):
        return False
    if receipt.capture is CaptureState.UNAVAILABLE and receipt.preview is not None:
        return receipt.preview.state is not PreviewState.COMPLETE
    return any(stream.observed for stream in receipt.streams)


def _keep_whole(call: Any, capture: Shell, receipt: Receipt) -> None:
    """Have the archive keep the one stream whose whole stands in a file."""
    written = [n for n, stream in enumerate(receipt.streams) if stream.observed]
    if receipt.capture is CaptureState.COMPLETE and len(written) == 1:
        call.full_output_path = capture.path(written[0])
