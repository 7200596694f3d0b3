"""YARP for Claude Code: its hooks start `yarp hook claude`; this declares the host."""

from __future__ import annotations

import os

from yarp.plugin import Cut, Host, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.plugin import Importer, TraceReader


@hookimpl
def yarp_host() -> Host:
    """Claude Code: its shell tool, how its hooks get in, and what it keeps to itself."""
    from yarp_claude.events import decode, refused, replace, reply
    from yarp_claude.install import health, install, probe, uninstall

    return Host(
        "claude",
        title="Claude Code",
        shell_tools={"Bash": "command"},
        shell=_shell(),
        # A `cd` lasts into the next call.
        keeps_shell_state=True,
        wrap="unpermissioned",
        # Its rules count even where nobody is asked.
        judges_words=True,
        decode=decode,
        reply=reply,
        replace=replace,
        refused=refused,
        install=install,
        uninstall=uninstall,
        health=health,
        probe=probe,
        cut=Cut(2_000, "characters", keeps="head", beyond=30_000),
        withholds=(
            (
                "A failed command's output reaches hooks already cut (30,000 characters, then "
                "10,000); the whole of it, and a shorter answer, come only by wrapping."
            ),
            "A failed call's result is never replaced by a hook.",
            "Of 30,000 characters and more, the model would read the first 2,000 without YARP.",
            (
                "Standard output and standard error are one; yarp run alone keeps them apart, and "
                "hooks see no exit status."
            ),
            (
                "Calls that never reach their tool (unknown tool, malformed arguments, refused) "
                "have no hook of their own; they end in the archive when their batch ends."
            ),
            "What a command prints after it went to the background is in no hook.",
            "Results of tools other than the shell and MCP stay whole: editing relies on them.",
            "A hook that times out or is missing lets the call go on; yarp doctor finds that.",
            "What other hooks put in place of a result after YARP is not seen.",
            "Hooks do not tell which model made a call.",
        ),
    )


@hookimpl
def yarp_importers() -> list[Importer]:
    """The importer of Claude Code's transcripts."""
    from yarp_claude.store import importer

    return [importer()]


@hookimpl
def yarp_trace_readers() -> list[TraceReader]:
    """The reader of Claude Code's transcripts as traces."""
    from yarp_claude.trace import reader

    return [reader()]


def _shell() -> str:
    """The user's own shell where Claude Code takes it: bash or zsh."""
    import pwd

    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = ""
    known = os.path.basename(shell) in ("bash", "zsh") and os.access(shell, os.X_OK)
    return shell if known else "/bin/bash"
