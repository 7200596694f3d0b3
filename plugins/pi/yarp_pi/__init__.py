"""YARP for Pi: an extension inside Pi speaks to `yarp archive ingest`; this declares the host."""

from __future__ import annotations

import os

from yarp.plugin import Host, hookimpl


@hookimpl
def yarp_host() -> Host:
    """Pi: its built-in shell tool, how the extension gets in, and what Pi keeps to itself."""
    from yarp_pi.install import health, install, uninstall

    return Host(
        "pi",
        title="Pi",
        shell_tools={"bash": "command"},
        shell=_shell(),
        install=install,
        uninstall=uninstall,
        health=health,
        withholds=(
            (
                "Standard output and standard error reach Pi as one stream; both are exact only for "
                "commands that run below yarp run."
            ),
            "Pi 0.73 names the file with a failed command's whole output in text alone, so such a "
            "result is archived as it was shown, marked incomplete.",
            "Pi 0.73 tells no exit status; 1.x tells it.",
            "The output of a timed-out or aborted command is what Pi had shown of it.",
            (
                "A handler of another extension that Pi calls before YARP has changed the input or "
                "the result already; before means before YARP."
            ),
            "Calls that a script makes through another tool are archived and never shortened.",
            "What you run yourself with ! is no tool call and is not archived.",
        ),
    )


def _shell() -> str:
    """The shell that Pi itself picks, unless its settings name another one."""
    if os.path.exists("/bin/bash"):
        return "/bin/bash"
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(directory, "bash")
        if directory and os.access(path, os.X_OK):
            return path
    return "/bin/sh"
