"""Who can still write into a shell's pipes, besides the shell.

A command's frame ends when bash has written its last line. Whatever the command left behind, a
background child or a daemon that nobody is the parent of any more, writes on as long as it holds
the pipe: so the pipe's own writers are asked for, and not the family of bash. This takes a `/proc`
as Linux has it, and sees no processes of other users; elsewhere nothing is known.
"""

from __future__ import annotations

import os
import stat
from typing import Any, NamedTuple

ATTRIBUTE = "_yarp_holders"
"""Where a shell session carries what is known of its pipes' writers."""
_PARENTS = 64


class Process(NamedTuple):
    """A process, told from a later one with its number."""

    pid: int
    started: str


class Known(NamedTuple):
    """Of one pair of pipes: who held them before any command, and whom commands left behind."""

    pipes: frozenset[str]
    own: frozenset[Process]
    left: frozenset[Process]


def prepare(session: Any) -> None:
    """Before a command runs: know who holds the pipes of this session without it."""
    pipes = names(session.stdout_fd, session.stderr_fd)
    known: Known | None = getattr(session, ATTRIBUTE, None)
    if known is None or known.pipes != pipes:
        setattr(session, ATTRIBUTE, Known(pipes, writers(pipes) or frozenset(), frozenset()))


def left(session: Any, *descriptors: int) -> bool | None:
    """Whether the command that just ended left somebody who can write on; None: nothing tells.

    Whom earlier commands left, and what those started, are not this one's.
    """
    pipes = names(*descriptors)
    now = writers(pipes)
    if now is None:
        return None
    known: Known | None = getattr(session, ATTRIBUTE, None)
    if known is None or known.pipes != pipes:
        # A shell that was started in the middle: who belongs to it was not seen.
        return any(one.pid != session.process.pid for one in now)
    new = {
        one
        for one in now - known.own - known.left
        if one.pid != session.process.pid and not _comes_from(one.pid, known.left)
    }
    setattr(session, ATTRIBUTE, known._replace(left=now - known.own))
    return bool(new)


def names(*descriptors: int) -> frozenset[str]:
    """What `/proc` calls these pipes."""
    found = set()
    for descriptor in descriptors:
        try:
            found.add(f"pipe:[{os.fstat(descriptor).st_ino}]")
        except OSError:
            continue
    return frozenset(found)


def writers(pipes: frozenset[str]) -> frozenset[Process] | None:
    """The other processes that can write into one of these pipes; None: nothing tells."""
    if not os.path.exists("/proc/self/fd"):
        return None
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _holds(name, pipes):
            started = _status(name)
            if started is not None:
                found.add(Process(int(name), started[1]))
    return frozenset(found)


def _holds(pid: str, pipes: frozenset[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder):
            path = f"{folder}/{descriptor}"
            # The link's own mode says how the descriptor was opened.
            if os.readlink(path) in pipes and os.lstat(path).st_mode & stat.S_IWUSR:
                return True
    except OSError:
        return False  # it is over, or it is another user's
    return False


def _status(pid: str) -> tuple[int, str] | None:
    """A process's parent, and when it was started; None: it is over."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), fields[19].decode()
    except (OSError, IndexError, ValueError):
        return None


def _comes_from(pid: int, earlier: frozenset[Process]) -> bool:
    numbers = {one.pid for one in earlier}
    for _ in range(_PARENTS if numbers else 0):
        found = _status(str(pid))
        if found is None or found[0] <= 1:
            return False
        pid = found[0]
        if pid in numbers:
            return True
    return False
