"""What a command had printed when its `yarp run` was killed: committed by who outlives the run.

`yarp.spool.guard` becomes this program. The run shares its spool with it, and the command's
pipes, in which the last bytes still are. The call stays `started`, its streams are incomplete;
what is archived already is left as it is. Source: seed 000, Failure behavior; spec "Archive",
`yarp run`.
"""

from __future__ import annotations

import _signal
import os
import select
import sys
import time

from yarp.errors import YarpError
from yarp.payload import PayloadWriter
from yarp.spool import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Nobody waits for this process, and nobody would end it.
_PATIENCE_S = 120
# The command is killed already. Another process that holds its pipe has no claim to more.
_SILENCE_MS = 50
_DRAIN_MS = 500
_READ_BYTES = 1 << 16


def main(argv: Sequence[str]) -> int:
    """`argv`: the archive, the call's four ids, and three descriptors: spool, stdout, stderr.

    A pipe that ended already is -1.
    """
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
    _signal.alarm(_PATIENCE_S)
    path, agent, account, source_session_id, source_call_id = argv[:5]
    file, *pipes = (int(word) for word in argv[5:])
    state = hold.state(file)
    if state is None or not os.path.exists(path):
        return 0
    from yarp.archive.write import Archive, SessionKey, Streams

    directory = os.path.dirname(path)
    writers = (PayloadWriter(directory), PayloadWriter(directory))
    hold.read(file, os.fstat(file).st_size, lambda stream, data: writers[stream].write(data))
    # A chunk that the run had taken and not kept is gone: what follows it would hide the gap.
    if state == hold.WHOLE:
        _drain(pipes, writers)
    stdout, stderr = ((writer.finish(), writer.media_type) for writer in writers)
    try:
        Archive.open(path, narrow=False).record_streams(
            SessionKey(agent, account, source_session_id),
            source_call_id,
            Streams(stdout, stdout, stderr, stderr, ended=(False, False)),
            time.time_ns() // 1_000_000,
        )
    except YarpError:
        return 1  # the run had committed, or the archive fails: the call is incomplete
    return 0


def _drain(pipes: Sequence[int], writers: Sequence[PayloadWriter]) -> None:
    """Take what is still in the pipes."""
    poll = select.poll()
    reading = {pipe: stream for stream, pipe in enumerate(pipes) if pipe >= 0}
    for pipe in reading:
        poll.register(pipe, select.POLLIN)
    deadline = time.monotonic() + _DRAIN_MS / 1000
    while reading and time.monotonic() < deadline:
        ready = poll.poll(_SILENCE_MS)
        if not ready:
            return
        for pipe, _ in ready:
            chunk = os.read(pipe, _READ_BYTES)
            if chunk:
                writers[reading[pipe]].write(chunk)
            else:
                poll.unregister(pipe)
                del reading[pipe]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
