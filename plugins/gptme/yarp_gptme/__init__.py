"""YARP for gptme: what can be captured, and what the host withholds."""

from yarp.plugin import Health, Host, hookimpl


@hookimpl
def yarp_host() -> Host:
    """Declare gptme. Nothing of it is captured yet."""
    return Host(
        "gptme",
        title="gptme",
        shell_tools={"shell": "command"},
        health=health,
        withholds=(
            (
                "No hook stands between a command's pipe and gptme's buffer; streams are kept "
                "only through functions that are wrapped at run time."
            ),
            "No hook tells of a tool that failed.",
            (
                "What gptme cut, decoded or redacted before a hook sees it is not the process's "
                "own bytes."
            ),
        ),
    )


def health(directory: str | None) -> Health:  # noqa: ARG001 - nothing is set up a project
    """Whether gptme is on this machine; it cannot be hooked in yet."""
    from shutil import which

    return Health(
        installed=which("gptme") is not None,
        hooked_in=False,
        notes=("Live capture for gptme is not available in this version of yarp-gptme.",),
    )
