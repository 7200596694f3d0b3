"""A spool for a call of a host, as the plugins want it: where it goes, and what is taken out.

Whatever is wrong here, the call runs: its capture is then `unavailable`, and its receipt says
why. Source: spec "Architecture", Contract; seed 004.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from yarp.errors import YarpError
from yarp.plugins import Plugins
from yarp.spool import names
from yarp.spool.credentials import CREDENTIALS
from yarp.spool.receipt import CaptureState, Identity, Representation
from yarp.spool.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.spool.declared import Redactor
    from yarp.spool.receipt import Receipt
    from yarp.types import CallStarted

DEFAULT_POLICY = "default"


def open_spool(
    call: CallStarted,
    *,
    plugins: Plugins | None = None,
    sanitation: str = DEFAULT_POLICY,
    representation: Representation = Representation.REDACTED_TEXT,
    suppressed: bool = False,
    job_id: str | None = None,
    report: Callable[[str], object] | None = None,
    **options: Any,
) -> Spool:
    """The spool of a call, in the place that the first plugin with an answer names.

    `sanitation` is the policy that plugins are asked for redactors of; the core's own come
    before theirs, whatever it is. Only redacted text has any. `suppressed`: the host keeps the
    output of this call from being shown, for security; then it is not kept either. `plugins`
    default to those of this environment, loaded once a process. `report` gets a sentence for
    each thing that went wrong; None: stderr. `options` are those of `Spool`. Never raises for a
    plugin's fault.
    """
    say = report or _say
    identity = Identity(
        names.new_id(),
        agent=call.agent,
        source_session_id=call.source_session_id,
        source_call_id=call.source_call_id,
        job_id=job_id,
    )
    options |= {"identity": identity, "representation": representation}
    if suppressed:
        return Spool(None, without=(CaptureState.DISABLED, "suppressed"), **options)
    reason = "no-plugins"
    try:
        plugins = plugins or _installed()
        redactors: list[Redactor] = []
        if representation is Representation.REDACTED_TEXT:
            reason = "redactor-failed"
            redactors = [CREDENTIALS, *plugins.redactors(sanitation)]
        reason = "location-failed"
        location = plugins.spool_location(call)
    except YarpError as error:
        say(str(error))
        return Spool(None, without=(CaptureState.UNAVAILABLE, reason), **options)
    known = plugins

    def tell(receipt: Receipt) -> None:
        for problem in known.receipt_published(receipt):
            say(problem)

    spool = Spool(location, redactors=redactors, published=tell, **options)
    if spool.problem is not None:
        say(spool.problem)
    return spool


@functools.cache
def _installed() -> Plugins:
    return Plugins.load()


def _say(text: str) -> None:
    try:
        print(f"yarp: {text}", file=sys.stderr, flush=True)  # noqa: T201 - nobody else is told
    except (OSError, ValueError, AttributeError):
        return
