"""YARP for Codex: hooks start `yarp hook codex`; this declares the host."""

from __future__ import annotations

import os

from yarp.plugin import Cut, Host, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.plugin import Importer, TraceReader


@hookimpl
def yarp_host() -> Host:
    """Codex: its shell tool, how the hooks get in, and what Codex keeps to itself."""
    from yarp_codex.events import decode, reply
    from yarp_codex.install import health, install, probe, sandbox, uninstall

    return Host(
        "codex",
        title="Codex",
        shell_tools={"Bash": "command"},
        shell=_shell(),
        decode=decode,
        judges_words=True,
        reply=reply,
        install=install,
        uninstall=uninstall,
        health=health,
        probe=probe,
        sandbox=sandbox,
        cut=Cut(10_000, "tokens", keeps="ends"),
        withholds=(
            (
                "Hooks see a result already cut to the model's limit; the whole output, and its "
                "two streams apart, come only by wrapping the command."
            ),
            "A result is never replaced by a hook; a shorter answer comes only by wrapping.",
            "Of a command, hooks tell the text alone, not its terminal nor its time limit.",
            (
                "Calls that no hook tells of (input to a running command, unknown tools, "
                "malformed arguments) are taken from the transcript when the turn ends."
            ),
            (
                "Refused calls, patches that do not fit and failed MCP calls have no hook after "
                "them either; they end in the archive when the turn ends."
            ),
            (
                "In code mode the calls inside a script are told, not the script itself; one that "
                "Codex refuses there has no end and stays started."
            ),
            "Hooks that the user has not trusted are skipped in silence.",
            "A session without a transcript (--ephemeral) does not say whether it is sandboxed.",
        ),
    )


@hookimpl
def yarp_importers() -> list[Importer]:
    """The rollouts of past threads, for the dataset."""
    from yarp.plugin import Importer
    from yarp_codex.store import ADAPTER_VERSION, OPTIONS, discover, read

    return [
        Importer(
            "codex",
            adapter_version=ADAPTER_VERSION,
            options=OPTIONS,
            discover=discover,
            read=read,
        )
    ]


@hookimpl
def yarp_trace_readers() -> list[TraceReader]:
    """The same rollouts, for the index."""
    from yarp_codex.trace import reader

    return [reader()]


def _shell() -> str:
    """The user's own shell, which Codex starts commands with."""
    import pwd

    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = ""
    if os.path.basename(shell) in ("bash", "zsh", "sh") and os.access(shell, os.X_OK):
        return shell
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
