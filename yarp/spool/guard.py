"""A command goes with its run, and what it printed stays, even when the run is killed outright.

A host that gives up kills the process group that it started. The command has a group of its
own, and nobody could hand it that signal; and what the run held back would be gone. So a shell
in a session of its own waits for the run's two words. When it does not hear the first (the
command is over), it kills the command's group; when it does not hear the second (all is
committed and shown), it becomes the program that keeps what was printed. It is started for
commands that last, and costs the others nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SHELL = "/bin/sh"
_TEXT = 'read -r word || kill -KILL "-$1"\nshift\nread -r word || exec "$@"'


class Guard:
    """Guards the process group `group` until it is dismissed.

    `rescue` are the words of the program that keeps what was printed, if there is one; it gets
    the descriptors `shared` under their numbers.
    """

    __slots__ = ("_unsaid", "_writing")

    def __init__(self, group: int, rescue: Sequence[str], shared: Sequence[int]) -> None:
        reading, self._writing = os.pipe()
        self._unsaid = 2
        # It must not keep anybody waiting for the end of our streams.
        actions = [(os.POSIX_SPAWN_DUP2, reading, 0)] + [
            (os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)
        ]
        arguments = ["sh", "-c", _TEXT, "sh", str(group), *rescue]
        for descriptor in shared:
            os.set_inheritable(descriptor, True)
        try:
            try:
                os.posix_spawn(_SHELL, arguments, os.environ, file_actions=actions, setsid=True)
            except NotImplementedError:  # a system that cannot: a group of its own is enough
                os.posix_spawn(_SHELL, arguments, os.environ, file_actions=actions, setpgroup=0)
        except OSError:  # no shell, or no more processes: the command runs unguarded
            self._unsaid = 0
        finally:
            for descriptor in shared:
                os.set_inheritable(descriptor, False)
            os.close(reading)

    def leave(self) -> None:
        """Say the first word: what the command left behind may stay."""
        if self._unsaid == 2:
            self._say(1)

    def dismiss(self) -> None:
        """Say the last word: nothing is left to do."""
        self._say(self._unsaid)

    def _say(self, words: int) -> None:
        self._unsaid -= words
        try:
            os.write(self._writing, b"\n" * words)
            if not self._unsaid:
                os.close(self._writing)
        except OSError:
            return  # somebody killed it
