"""YARP for Claude Code: what can be captured, and what the host withholds."""

from yarp.plugin import Cut, Host, hookimpl


@hookimpl
def yarp_host() -> Host:
    """Claude Code: its shell tool, how its hooks get in, and what it keeps to itself."""
    from yarp_claude.events import decode, refused, replace, reply
    from yarp_claude.install import health, install, probe, uninstall

    return Host(  # noqa: S604 - it names the shell, and runs nothing
        "claude",
        title="Claude Code",
        shell_tools={"Bash": "command"},
        shell="/bin/bash",
        # A `cd` lasts into the next call.
        keeps_shell_state=True,
        wrap="unpermissioned",
        decode=decode,
        reply=reply,
        replace=replace,
        refused=refused,
        install=install,
        uninstall=uninstall,
        health=health,
        probe=probe,
        cut=Cut(30_000, "characters", keeps="ends"),
        withholds=(
            (
                "A failed call's output reaches hooks already cut; the whole of it, and a shorter"
                " answer in its place, come only by wrapping the command."
            ),
            (
                "A call that Claude Code refuses before it runs (unknown tool, malformed "
                "arguments) fires no hook but the batch's closing one."
            ),
            "Separate stdout and stderr streams come only by wrapping.",
        ),
    )
