"""YARP for gptme: a plugin inside gptme does the work; this declares the host."""

from __future__ import annotations

import os

from yarp.plugin import Cut, Host, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.plugin import CallStarted, Importer, Redactor, SpoolLocation, TraceReader


@hookimpl
def yarp_host() -> Host:
    """Gptme: its shell tool, how the plugin gets in, and the hooks that gptme lacks."""
    from yarp_gptme.install import health, install, spools, uninstall

    return Host(
        "gptme",
        title="gptme",
        shell_tools={"shell": "command"},
        shell="/bin/bash" if os.path.exists("/bin/bash") else None,
        # One bash lives as long as the conversation: a text run elsewhere would miss its state.
        keeps_shell_state=True,
        wrap="never",
        install=install,
        uninstall=uninstall,
        health=health,
        spools=spools,
        # Of stdout; of stderr it leaves 4,000. Both can be set by the user.
        cut=Cut(10_000, "tokens", keeps="ends"),
        withholds=(
            "No hook stands between a pipe and gptme's buffers: functions are wrapped at run time.",
            "Missing hook process.output: nothing tells of a pipe's bytes before they are evicted.",
            "Missing hooks job.start, job.end: nothing tells of a job's launch, kill or real end.",
            "Missing hook tool.execute.error: nothing tells of a call that raised or was stopped.",
            "Missing: tool.execute.pre cannot refuse a call, gptme goes on after an exception.",
            "Missing: tool.transform and message.transform are declared and never triggered.",
            "Missing: tool.execute.post has no messages of a tool that gives a single one.",
            "A call to a tool that does not exist reaches no hook and no tool.",
            "A job's end is a message without a call; its receipt names the call that began it.",
            "Calls that gptme serves to others as an MCP server reach no hook.",
            "Commands that run with a terminal of their own, such as sudo, are not spooled.",
            "The Python tool, gh, MCP and the browser give text that is cut or converted already.",
            "What tmux, read and autocompact save is a selection; its receipt says so.",
            "Answers to the tool that asks for secrets are kept by nobody.",
            "Results in markdown format have no call id; such calls get one of YARP's own.",
        ),
    )


@hookimpl
def yarp_redactors(policy: str) -> list[Redactor] | None:
    """The configured credentials, for policy `gptme`."""
    if policy != "gptme":
        return None
    from yarp_gptme.secrets import redactors

    return redactors()


@hookimpl
def yarp_spool_location(call: CallStarted) -> SpoolLocation | None:
    """The folder of a gptme call's conversation."""
    if call.agent != "gptme":
        return None
    from yarp_gptme.place import location_of

    return location_of(call.source_session_id)


@hookimpl
def yarp_importers() -> list[Importer]:
    """The importer of gptme's conversations."""
    from yarp_gptme.importer import importer

    return [importer()]


@hookimpl
def yarp_trace_readers() -> list[TraceReader]:
    """The reader of gptme's conversations as traces."""
    from yarp_gptme.trace import reader

    return [reader()]
