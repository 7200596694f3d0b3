"""YARP for Codex: what can be captured, and what the host withholds."""

from yarp.plugin import Cut, Health, Host, hookimpl


@hookimpl
def yarp_host() -> Host:
    """Declare Codex. Nothing of it is captured yet."""
    return Host(
        "codex",
        title="Codex",
        shell_tools={"Bash": "command"},
        health=health,
        cut=Cut(10_000, "tokens", keeps="ends"),
        withholds=(
            (
                "Hooks see a result already cut to the model's limit and without its exit status;"
                " the whole output comes only by wrapping the command."
            ),
            "A result is never replaced by a hook; a shorter answer comes only by wrapping.",
            (
                "No hook tells of input written to a running command, of unknown tools or of "
                "malformed arguments, nor of a patch or MCP call that fails."
            ),
            "Hooks that the user has not trusted are skipped in silence.",
        ),
    )


def health(directory: str | None) -> Health:  # noqa: ARG001 - nothing is set up a project
    """Whether Codex is on this machine; it cannot be hooked in yet."""
    from shutil import which

    return Health(
        installed=which("codex") is not None,
        hooked_in=False,
        notes=("Live capture for Codex is not available in this version of yarp-codex.",),
    )
