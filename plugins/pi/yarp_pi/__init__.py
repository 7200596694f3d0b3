"""YARP for Pi: an extension inside Pi speaks to `yarp archive ingest`; this declares the host."""

from __future__ import annotations

import os

from yarp.plugin import Cut, Host, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.plugin import Importer, TraceReader


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
        cut=Cut(50 << 10, "bytes", keeps="tail", lines=2000),
        withholds=(
            "Pi joins standard output and standard error; yarp run alone keeps them apart.",
            "Pi 0.73 names a failed command's whole output in text alone: marked incomplete.",
            "Pi 0.73 tells no exit status; 1.x tells it.",
            "The output of a timed-out or aborted command is what Pi had shown of it.",
            "What other extensions changed before YARP was asked counts as before.",
            "Calls that a script makes through another tool are archived and never shortened.",
            "What you run yourself with ! is no tool call and is not archived.",
        ),
    )


@hookimpl
def yarp_importers() -> list[Importer]:
    """The importer of Pi's sessions."""
    from yarp_pi.store import importer

    return [importer()]


@hookimpl
def yarp_trace_readers() -> list[TraceReader]:
    """The reader of Pi's sessions as traces."""
    from yarp_pi.trace import reader

    return [reader()]


def _shell() -> str:
    """The shell that Pi itself picks, unless its settings name another one."""
    if os.path.exists("/bin/bash"):
        return "/bin/bash"
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(directory, "bash")
        if directory and os.access(path, os.X_OK):
            return path
    return "/bin/sh"
