"""YARP for Cursor: what can be captured, and what the host withholds."""

from yarp.plugin import Health, Host, hookimpl


@hookimpl
def yarp_host() -> Host:
    """Declare Cursor. Nothing of it is captured yet."""
    return Host(
        "cursor",
        title="Cursor",
        shell_tools={"Shell": "command"},
        health=health,
        withholds=(
            (
                "The result of a shell command is never replaced by a hook; a shorter answer "
                "comes only by wrapping the command. Results of MCP tools can be."
            ),
            "A failed call reaches hooks as a message, not as its output.",
            "Separate stdout and stderr streams come only by wrapping.",
            "No hook tells of a session that is resumed.",
        ),
    )


def health(directory: str | None) -> Health:  # noqa: ARG001 - nothing is set up a project
    """Whether Cursor is on this machine; it cannot be hooked in yet."""
    from shutil import which

    return Health(
        installed=which("cursor-agent") is not None,
        hooked_in=False,
        notes=("Live capture for Cursor is not available in this version of yarp-cursor.",),
    )
