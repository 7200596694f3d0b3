"""A command goes with its run, even when the run is killed outright.

A host that gives up kills the process group that it started. The command has a group of its
own, and nobody could hand it that signal: so a shell waits for the run's last word, and kills
the command's group when it hears none. It is started for commands that last, and costs the
others nothing.
"""

from __future__ import annotations

import os

_SHELL = "/bin/sh"
_TEXT = 'read -r word || kill -KILL "-$1"'


def start(group: int) -> int:
    """Guard the process group `group`; the descriptor to `dismiss` the guard with, or -1."""
    reading, writing = os.pipe()
    # It must not keep anybody waiting for the end of our streams.
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0)] + [
        (os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)
    ]
    try:
        os.posix_spawn(
            _SHELL,
            ["sh", "-c", _TEXT, "sh", str(group)],
            {},
            file_actions=actions,
            setpgroup=0,
        )
    except OSError:  # no shell, or no more processes: the command runs unguarded
        os.close(writing)
        writing = -1
    os.close(reading)
    return writing


def dismiss(descriptor: int) -> None:
    """Say the last word: what the command left behind may stay."""
    try:
        os.write(descriptor, b"\n")
    except OSError:
        return  # somebody killed it
