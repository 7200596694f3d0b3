"""YARP for Cursor: hooks start `yarp hook cursor`; this declares the host."""

from __future__ import annotations

import os

from yarp.plugin import Host, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.plugin import Importer, TraceReader


@hookimpl
def yarp_host() -> Host:
    """Cursor: its shell tool, how the hooks get in, and what Cursor keeps to itself."""
    from yarp_cursor.events import decode, replace, reply
    from yarp_cursor.install import health, install, probe, uninstall

    return Host(
        "cursor",
        title="Cursor",
        shell_tools={"Shell": "command"},
        shell=_shell(),
        # Cursor takes a snapshot of the shell after a command and puts it back before the next.
        keeps_shell_state=True,
        # No event says whether anybody judges a command: without the user's word, none is wrapped.
        wrap="unpermissioned",
        decode=decode,
        reply=reply,
        replace=replace,
        install=install,
        uninstall=uninstall,
        health=health,
        probe=probe,
        withholds=(
            (
                "The result of a shell command is never replaced by a hook; a shorter answer "
                "comes only by wrapping the command. Results of MCP tools can be."
            ),
            (
                "No hook says whether a command needs the user's approval, so none is wrapped "
                'unless you set hosts.cursor.wrap = "always".'
            ),
            "A failed call reaches hooks as a message, not as its output nor its exit status.",
            "Separate stdout and stderr streams come only by wrapping.",
            "No hook tells of a session that is resumed, nor of anything after a compaction.",
            "A hooks.json that is a symbolic link is not read.",
        ),
    )


@hookimpl
def yarp_importers() -> list[Importer]:
    """Past chats and sessions, for the dataset."""
    from yarp.plugin import Importer
    from yarp_cursor.importer import ADAPTER_VERSION, OPTIONS, discover, read

    return [
        Importer(
            "cursor",
            adapter_version=ADAPTER_VERSION,
            options=OPTIONS,
            discover=discover,
            read=read,
        )
    ]


@hookimpl
def yarp_trace_readers() -> list[TraceReader]:
    """The reader of transcripts as traces."""
    from yarp_cursor.trace import reader

    return [reader()]


def _shell() -> str:
    """The user's own shell, which Cursor runs commands in."""
    shell = os.environ.get("SHELL", "")
    if os.path.basename(shell) in ("bash", "zsh", "sh") and os.access(shell, os.X_OK):
        return shell
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
