"""Who reads a pipe to its end once its run has gone: a server left in the background lives on.

With the last reader of its pipe gone, a process would be killed at its next byte of output. A
process of a few hundred kilobytes for each pipe throws that output away until nobody is left to
write it, and keeps nobody waiting. Source: spec "Archive", `yarp run`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# The first of these that is there reads its standard input to the end. The plain paths come
# first: what PATH calls `cat` may be anything.
_READERS = (
    ("/bin/cat",),
    ("/usr/bin/cat",),
    ("cat",),
    (sys.executable, "-I", "-S", "-c", "import os\nwhile os.read(0, 65536): pass"),
)


def drain_to_the_end(pipes: Iterable[int]) -> bool:
    """Have each of these reading ends read until its end; False when one is not.

    The caller closes its own descriptors afterwards.
    """
    started = [_start(pipe) for pipe in pipes]
    return all(started)


def _start(pipe: int) -> bool:
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, pipe, 0)]
    # It outlives us: whoever waits for the end of a stream of ours must not wait for it.
    actions += [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    actions += [(os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inherited()]
    for reader in _READERS:
        for apart in ({"setsid": True}, {"setpgroup": 0}):  # not every system knows sessions here
            try:
                os.posix_spawnp(
                    reader[0],
                    reader,
                    os.environ,
                    file_actions=actions,
                    setsigmask=(),
                    **apart,
                )
            except NotImplementedError:
                continue
            except (OSError, ValueError):
                break
            return True
    return False


def _inherited() -> list[int]:
    """The descriptors beyond the standard ones that a program started by us would have."""
    try:
        found = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []
    return [each for each in found if each > 2 and _is_inheritable(each)]


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # that of the listing itself, which is over
        return False
